"""Mistakes as a step of a study: kept, resumed, shown in terminal and report."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.mistakes import Mistakes
from legible.policies import load_policy
from legible.report.mistakes import gather_mistakes
from legible.settings import MistakeSettings, PlaySettings, StudySettings
from legible.study import Study
from legible.study.mistakes import rollout_setup
from legible.study.running import StepMissingError
from mistakes.planted import RoomPolicy

SMALL = "legible/PacmanSmall-v0"
SETTINGS = StudySettings(
    sources="mined,yours",
    play=PlaySettings(batch=64, unit_episodes=200),
    mistakes=MistakeSettings(steps=500_000, episodes=40),
)


@pytest.fixture(scope="module")
def pacman(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study in which mistakes were looked for, and nothing else was done."""
    folder = tmp_path_factory.mktemp("pacman")
    study = Study(folder, SMALL, load_policy("zoo:PacmanSmall/ppo/4"), settings=SETTINGS, engine=InProcess())
    study.find_mistakes()
    return study


def test_mistakes_are_kept(pacman: Study) -> None:
    found = pacman.mistakes
    assert found.listed
    assert found.branching == "rows"
    assert found.steps_played <= 500_000
    assert found.decisions >= found.proven >= len(found.listed)
    again = Study.open(pacman.folder, engine=InProcess())
    assert again.mistakes == found
    with pytest.raises(StepMissingError):
        again.mining  # noqa: B018 (nothing else was done)


def test_a_stopped_search_goes_on_with_what_was_played(pacman: Study) -> None:
    rollouts = pacman.folder / "rollouts"
    played = {path.name: path.stat().st_mtime_ns for path in rollouts.glob("*.npz")}
    found = pacman.mistakes
    lost = sorted(played)[0]
    (rollouts / lost).unlink()
    (pacman.folder / "mistakes.json").unlink()
    assert Study.open(pacman.folder, engine=InProcess()).find_mistakes() == found
    now = {path.name: path.stat().st_mtime_ns for path in rollouts.glob("*.npz")}
    assert now.keys() == played.keys()
    assert [name for name in now if now[name] != played[name]] == [lost]


def test_both_futures_are_shown_side_by_side(pacman: Study) -> None:
    section = gather_mistakes(pacman, first=7, room=10**6)
    assert section is not None
    assert section.sentences[0].startswith(f"Examined {pacman.mistakes.decisions} decisions")
    shown = [card for card in section.cards if card.replay is not None]
    assert [card.replay for card in shown] == list(range(7, 7 + len(section.replays)))
    assert len(shown) == len(section.cards)
    for card, replay in zip(shown, section.replays, strict=True):
        did, better = replay["sides"]
        at = replay["branches_at"]
        assert replay["first"] + at == card.mistake.step
        assert did["actions"][:at] == better["actions"][:at]
        assert (did["actions"][at], better["actions"][at]) == (card.mistake.action, card.mistake.better)
        assert did["frames"]["places"][: at + 1] == better["frames"]["places"][: at + 1]
        assert len(did["frames"]["places"]) == len(did["actions"]) + 1
    # Groups are shown once, with all their mistakes.
    assert sum(1 + len(card.others) for card in section.cards) <= len(pacman.mistakes.listed)
    assert gather_mistakes(pacman, first=0, room=10) is not None


def test_studies_that_search_for_mistakes(tmp_path: Path) -> None:
    rooms = EnvironmentSpec("mistakes.planted:Rooms")

    def made(name: str, environment: Any, policy: Any, when: Any) -> Study:
        settings = replace(SETTINGS, mistakes=MistakeSettings(when=when))
        return Study(tmp_path / name, environment, policy, settings=settings, engine=InProcess())

    small = load_policy("zoo:PacmanSmall/dqn/0")
    assert made("a", SMALL, small, "fast").looks_for_mistakes()
    assert not made("b", SMALL, small, "never").looks_for_mistakes()
    assert not made("c", rooms, RoomPolicy(), "fast").looks_for_mistakes()
    assert made("d", rooms, RoomPolicy(), "always").looks_for_mistakes()


def test_an_environment_that_cannot_be_branched_has_a_clear_line(tmp_path: Path, raises_saved, snapshot) -> None:
    drift = EnvironmentSpec("play.branching_environments:Drift", {"generator": "outside"})
    policy = load_policy(lambda o: o, output="values", n_features=2, n_actions=2)
    study = Study(tmp_path, drift, policy, settings=SETTINGS, engine=InProcess())
    found = study.find_mistakes()
    assert found == Mistakes(problem=found.problem)
    assert found.problem == snapshot
    assert not (tmp_path / "mistakes.npz").exists()
    with raises_saved(LegibleError):
        rollout_setup(study)


def test_the_command(pacman: Study, legible) -> None:
    printed = json.loads(legible("show", pacman.folder, "mistakes", "--json").out)
    assert printed["branching"] == "rows"
    assert printed["share"].keys() == printed["headroom"].keys() == {"mean", "low", "high"}
    assert {"mistakes", "decisions", "steps_played"} <= printed.keys()
    assert printed["mistakes"][0].keys() == {"seed", "step", "action", "better", "gain", "low", "high"}
    assert printed["mistakes"][0]["low"] > 0
    said = " ".join(legible("show", pacman.folder, "mistakes").out.split())
    assert "decisions by trying every choice" in said
    assert " 5. Episode" in said or len(printed["mistakes"]) < 5
    assert " 6. Episode" not in said
