"""Mending in rounds: the walker's world is mended in one round, and the second finds nothing any more."""

import json
from pathlib import Path

import numpy as np
import pytest

import mirror_world
from legible import LegibleError, Study, load_policy, mend
from legible.engines import InProcess
from legible.files import DamagedFileError, write_json
from legible.policies import NetworkPolicy
from legible.report import write_report
from legible.report.rounds import write_rounds
from legible.rules import RuleSet, parse_rule
from legible.settings import DistillationSettings
from legible.study.mending import MendedRound, _is_known, _read_figures, alike
from study.studies import settings_of

WORLD = "mirror_world:MirrorWorld"
SETTINGS = settings_of(
    episodes=60,
    mining={"lime_states": 10, "lime_samples": 200},
    play={"batch": 8, "unit_episodes": 40},
    evaluation={"method": "paper", "episodes": 60, "confirmation_episodes": 60},
    improvement={"episodes": 40, "final_episodes": 40},
    references={"episodes": 20},
    mistakes={"when": "never"},
)
LEARNING = DistillationSettings(
    rounds=2, episodes=24, steps=100, batch=64, learning_rate=2e-3, check_episodes=40, final_episodes=60
)


def mended(folder: Path, policy: object, **changes: object):
    arguments = {
        "relations": mirror_world.mirror(),
        "settings": SETTINGS,
        "distillation": LEARNING,
        "engine": InProcess(),
        **changes,
    }
    return mend(folder, WORLD, policy, **arguments)


def test_one_round_mends_and_the_next_confirms_nothing(tmp_path, policy_file, monkeypatch, snapshot) -> None:
    told = []
    found = mended(tmp_path / "m", policy_file, on_mended=told.append)
    assert list(found.rounds) == told
    assert [bool(one.confirmed) for one in found.rounds] == [True, False]
    assert found.stopped == snapshot
    assert (found.best, len(found.results)) == (1, 2)
    assert found.effect(1, 0).low > 5
    assert "network of round 1 scores" in found.verdict()
    network = load_policy(tmp_path / "m" / "mended.safetensors")
    assert type(network) is NetworkPolicy
    assert (tmp_path / "m" / "mended.safetensors").read_bytes() == (
        tmp_path / "m" / "network-1.safetensors"
    ).read_bytes()
    assert [Study.is_in(tmp_path / "m" / f"round-{number}") for number in (1, 2, 3)] == [True, True, False]
    told_again = json.loads((tmp_path / "m" / "mend.json").read_text())
    assert told_again["networks"][1]["against_base"]["low"] > 5
    # Given again, nothing is played, and the same is said.
    monkeypatch.setattr("legible.evaluation.units.play_in_slots", None)
    again = mend(tmp_path / "m", engine=InProcess(), trust=True)
    assert again.to_dict() == found.to_dict()


@pytest.mark.slow
def test_stopped_anywhere_it_goes_on_to_the_same(tmp_path, policy_file) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    whole = mended(tmp_path / "whole", policy_file)
    for where in ("on_round", "on_mended"):
        with pytest.raises(KeyboardInterrupt):
            mended(tmp_path / "m", policy_file, **{where: stop})
    found = mended(tmp_path / "m", policy_file)
    for one, two in zip(whole.results, found.results, strict=True):
        np.testing.assert_array_equal(one.returns, two.returns)
    networks = [(tmp_path / name / "network-1.safetensors").read_bytes() for name in ("whole", "m")]
    assert networks[0] == networks[1]


def test_a_network_that_learns_nothing_ends_it(tmp_path, policy_file, snapshot) -> None:
    idle = DistillationSettings(
        rounds=1, episodes=4, steps=1, batch=4, learning_rate=1e-9, check_episodes=20, final_episodes=40
    )
    found = mended(tmp_path / "m", policy_file, distillation=idle, rounds=5)
    assert found.stopped == snapshot
    assert len(found.rounds) == 1


@pytest.mark.parametrize(
    ("confirmed", "rules", "low", "helps"),
    [(("one",), 0, 0.0, True), ((), 3, 0.5, True), ((), 3, 0.0, False), ((), 0, 0.5, False), (("one",), 2, -1.0, True)],
)
def test_a_round_helps_by_one_weakness_or_by_its_rules_together(confirmed, rules, low, helps) -> None:
    one = MendedRound(2, 5, rules, confirmed, (), {"mean": 1.0, "low": low, "high": 2.0}, None, 100)
    assert one.helps is helps


def test_rules_that_only_help_together_are_distilled(tmp_path, policy_file, monkeypatch) -> None:
    monkeypatch.setattr("legible.evaluation.verdicts.Evaluation.confirmed", ())
    found = mended(tmp_path / "m", policy_file, rounds=1)
    assert found.rounds[0].confirmed == ()
    assert found.rounds[0].guided["low"] > 0
    assert found.best == 1
    assert found.effect(1, 0).low > 5


@pytest.mark.slow
def test_the_report_over_all_rounds(tmp_path, policy_file) -> None:
    found = mended(tmp_path / "m", policy_file, rounds=1, on_study=write_report)
    write_rounds(found)
    page = (tmp_path / "m" / "report.html").read_text(encoding="utf-8")
    assert "Gain of each round" in page
    assert 'href="round-1/report.html"' in page
    assert "limit of 1 round" in found.stopped
    assert found.stopped in page
    assert found.rounds[0].confirmed[0][1:] in page


def test_what_came_back_is_known() -> None:
    one, two, other = (
        RuleSet((parse_rule(text, mirror_world.SPACE),))
        for text in ("-Left <- right & luck <= 0.5", "-Left <- right & luck <= 0.7", "+Left <- right & luck <= 0.5")
    )
    assert _is_known(two, [other, one])
    assert not _is_known(two, [other])


def test_refusals(tmp_path, policy_file, raises_saved) -> None:
    with raises_saved(LegibleError):
        mended(tmp_path / "m", mirror_world.policy())
    with raises_saved(LegibleError):
        mend(tmp_path / "m")
    with raises_saved(LegibleError):
        mend(tmp_path / "m", "CartPole-v1", policy_file, engine=InProcess())
    assert not (tmp_path / "m").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(LegibleError, match="holds other files"):
        mended(tmp_path / "full", policy_file)
    with pytest.raises(LegibleError, match="at least one round"):
        mended(tmp_path / "m", policy_file, rounds=0)


@pytest.mark.parametrize(
    "figures", [{}, {"steps": 5}, {"steps": "x", "differences": {"distilled": {"mean": {"low": 1}}}}]
)
def test_figures_of_a_network_that_are_none(tmp_path, figures, raises_saved) -> None:
    path = tmp_path / "network-1.json"
    write_json(path, figures, "some network")
    with raises_saved(DamagedFileError):
        _read_figures(path, "some network")
    with pytest.raises(DamagedFileError, match="belongs elsewhere"):
        _read_figures(path, "another network")


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("+Left <- luck > 0", "+Left <- luck > 0.5", True),
        ("+Left <- luck > 0", "+Left <- luck < 0", False),
        ("+Left <- luck > 0", "-Left <- luck > 0", False),
        ("+Left <- luck > 0", "+Right <- luck > 0", False),
        ("+Left <- luck > 0", "+Left <- luck > 0 & left", False),
        ("+Left <- luck > 0 & left", "+Left <- left & luck > 1", True),
    ],
)
def test_rules_are_alike_whatever_the_ends_of_their_intervals(one, two, same) -> None:
    first, second = (parse_rule(text, mirror_world.SPACE) for text in (one, two))
    assert alike(first, second) is same
    assert alike(second, first) is same
