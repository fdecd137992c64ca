"""Rules of other policies and studies: read as data, carried over by names, mined in this world, resumed."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mirror_world
from flawed_network import save_flawed_network
from legible.engines import InProcess
from legible.errors import LegibleError
from legible.files import DamagedFileError, write_json
from legible.policies import Policy, load_policy
from legible.study import Study
from legible.study.sources import source_rows
from mirror_world import WORLD
from study.studies import make_study, open_study, settings_of

SETTINGS = settings_of(
    sources="others",
    episodes=40,
    mining={"importance": "none"},
    play={"batch": 16, "unit_episodes": 40},
    evaluation={"rung_changes": 8, "rungs": 2, "race_seeds": 60, "confirmation_seeds": 500},
    improvement={"episodes": 40, "final_episodes": 40},
    references={"episodes": 20},
)


def wise() -> Policy:
    """Goes to the goal wherever it is."""

    def scores(rows: np.ndarray) -> np.ndarray:
        return np.stack([2 * rows[:, 0], 2 * rows[:, 1], np.ones(len(rows))], axis=1)

    return load_policy(scores, output="values", n_features=5, n_actions=3)


def study(folder: Path, rules_from: list[object], policy: Policy | None = None, **changes: object) -> Study:
    arguments = {"relations": "none", "settings": SETTINGS, "engine": InProcess(), **changes}
    return Study(folder, WORLD, policy or mirror_world.always_right(), rules_from=rules_from, **arguments)


def test_rules_of_another_policy_tell_what_this_one_never_does(tmp_path: Path) -> None:
    made = study(tmp_path / "s", [wise()])
    found = made.evaluate()
    assert {verdict.found_by for verdict in found.verdicts} == {"others: policy 1"}
    assert {found.rule_set.rules[0].action for found in found.confirmed} >= {mirror_world.LEFT}
    made.improve()
    (row,) = source_rows(made)
    assert (row.source, row.tried, row.confirmed) == ("others: policy 1", len(found.verdicts), len(found.confirmed))
    assert row.used >= 1
    steps = made.other_rules.steps()["policy 1"]
    assert 40 < steps <= 40 * mirror_world.CAP  # of forty episodes
    assert row.steps == steps + sum(verdict.steps for verdict in found.verdicts)
    assert found == open_study(tmp_path / "s", policy=mirror_world.always_right()).evaluation


def test_a_study_gives_its_confirmed_rules_or_those_that_it_mined(tmp_path: Path, raises_saved, snapshot) -> None:
    other = make_study(tmp_path / "other", WORLD, wise(), relations="none", settings=replace(SETTINGS, sources="mined"))
    with raises_saved(LegibleError):
        study(tmp_path / "s", [tmp_path / "other"])
    mined = other.mine()
    made = study(tmp_path / "s", [tmp_path / "other"])
    made.evaluate()
    texts = [rule.rule.text(mined.space) for rule in mined.rules]
    assert [rule.text(made.space) for rule in made.other_rules.rules()[str(tmp_path / "other")]] == texts
    assert made.other_rules.steps() == {str(tmp_path / "other"): 0}
    # What it confirmed comes first; nothing in the folder is run, or looked for again.
    (tmp_path / "other" / "confirmed.json").write_text(json.dumps({"rules": ["+Left <- left", "+Fly <- left"]}))
    second = study(tmp_path / "t", [tmp_path / "other"])
    assert second.other_rules.left_out[0] == snapshot
    assert [verdict.rule_set.rules[0].text(made.space) for verdict in second.evaluate().verdicts] == ["+Left <- left"]
    assert json.loads((tmp_path / "t" / "confirmed.json").read_text())["rules"] == ["+Left <- left"]
    for path in (tmp_path / "other").rglob("*"):
        if path.is_file():
            path.unlink()
    again = open_study(tmp_path / "t", policy=mirror_world.always_right())
    assert again.evaluation == second.evaluation


@pytest.mark.parametrize("lost", ["killed before it was written", "damaged"])
def test_confirmed_rules_are_written_whatever_happened(tmp_path: Path, lost: str) -> None:
    made = study(tmp_path / "s", [wise()])
    made.evaluate()
    path = tmp_path / "s" / "confirmed.json"
    whole = path.read_bytes()
    assert json.loads(whole)["rules"]
    if lost == "damaged":
        path.write_bytes(whole[:-20])
    else:
        path.unlink()
    again = open_study(tmp_path / "s", policy=mirror_world.always_right())
    assert again.evaluation == made.evaluation  # reading writes nothing
    assert path.exists() == (lost == "damaged")
    again.evaluate()
    assert path.read_bytes() == whole


def test_what_does_not_fit_is_said_before_anything_is_played(tmp_path: Path, raises_saved) -> None:
    other = make_study(tmp_path / "o", WORLD, wise(), relations="none", settings=replace(SETTINGS, sources="mined"))
    (tmp_path / "o" / "confirmed.json").write_text(json.dumps({"rules": ["+Fly <- left"]}))
    with raises_saved(LegibleError):
        study(tmp_path / "s", [other.folder])
    (tmp_path / "o" / "confirmed.json").write_text("{")
    with pytest.raises(DamagedFileError, match=r"confirmed\.json"):
        study(tmp_path / "s", [other.folder])
    with pytest.raises(LegibleError, match=r"--set sources=mined,others adds it"):
        study(tmp_path / "s", [wise()], settings=replace(SETTINGS, sources="mined"))
    policy = save_flawed_network(tmp_path / "p.safetensors")
    with pytest.raises(LegibleError, match="is named twice"):
        study(tmp_path / "s", [policy, policy])
    narrow = load_policy(lambda rows: rows[:, :3], output="values", n_features=4, n_actions=3)
    with pytest.raises(LegibleError, match="4"):
        study(tmp_path / "s", [narrow])
    assert not Study.is_in(tmp_path / "s")


def test_the_folder_remembers_who_was_named(tmp_path: Path) -> None:
    path = save_flawed_network(tmp_path / "other.safetensors")
    first = study(tmp_path / "s", [path])
    assert [origin.name for origin in first.other_rules.origins] == [str(path)]
    opened = open_study(tmp_path / "s", policy=mirror_world.always_right())
    assert opened.other_rules.origins == first.other_rules.origins
    with pytest.raises(LegibleError, match="holds a study with other"):
        study(tmp_path / "s", [])
    path.unlink()
    with pytest.raises(LegibleError, match=r"other\.safetensors"):
        opened.evaluate()


@pytest.mark.parametrize("rules", [5, "+Left <- left", {"+Left <- left": 1}, [["+Left <- left"]], [None]])
def test_rules_of_somebody_else_that_are_none(tmp_path: Path, rules: object, raises_saved) -> None:
    study(tmp_path / "o", [wise()])
    write_json(tmp_path / "o" / "confirmed.json", {"rules": rules})
    with raises_saved(DamagedFileError):
        study(tmp_path / "s", [tmp_path / "o"])


@pytest.mark.parametrize(
    "origins",
    [
        *(5, [5], [{"name": "wise", "rules": []}], [{"name": "wise", "rules": "+Left", "steps": 1}]),
        *([{"name": ["wise"], "rules": [], "steps": 1}], [{"name": "wise", "rules": [], "steps": "1"}]),
    ],
)
def test_kept_rules_that_are_damaged(tmp_path: Path, origins: object, raises_saved) -> None:
    made = study(tmp_path / "s", [wise()])
    write_json(made.folder / "rules-from.json", {"origins": origins}, made.key)
    for read in (made.other_rules.rules, made.other_rules.steps):
        with raises_saved(DamagedFileError):
            read()
