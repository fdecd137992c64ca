"""Studies that search: stopped and resumed to the bit, searched once, and what it came to."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mirror_world
from legible.engines import InProcess
from legible.files import DamagedFileError
from legible.settings import EvaluationSettings
from legible.study import StepMissingError, Study
from legible.study.sources import source_rows
from mirror_world import WORLD
from study.studies import Impatient, StoppedError, settings_of

ALWAYS_RIGHT = mirror_world.always_right()
SETTINGS = settings_of(
    sources="mined,searched",
    episodes=30,
    mining={"importance": "none"},
    play={"batch": 16, "unit_episodes": 100},
    evaluation={"rung_changes": 8, "rungs": 2, "race_seeds": 60, "confirmation_seeds": 500},
    search={"budget": 12_000, "most_conditions": 1, "most_changed": 1.0, "proposed": 3},
    improvement={"episodes": 40, "final_episodes": 40},
    references={"episodes": 20},
)


def study(folder: Path, **changes: Any) -> Study:
    arguments = {"relations": "none", "settings": SETTINGS, "engine": InProcess(), **changes}
    return Study(folder, WORLD, ALWAYS_RIGHT, **arguments)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Study:
    made = study(tmp_path_factory.mktemp("searching"))
    made.improve()
    return made


def test_a_search_that_was_stopped_goes_on_to_the_same_end(finished: Study, tmp_path: Path) -> None:
    stages: list[str] = []
    for units in (2, 5, 3):  # the first stop lies in the experiences, the others in the search
        with pytest.raises(StoppedError):
            study(tmp_path, engine=Impatient(units), progress=lambda stage, *_: stages.append(stage)).evaluate()
    assert stages[-1] == "search"
    assert not (tmp_path / "searched.json").exists()
    resumed = study(tmp_path)
    assert resumed.evaluate() == finished.evaluation
    assert (tmp_path / "searched.json").read_bytes() == (finished.folder / "searched.json").read_bytes()


def test_what_was_searched_is_read_without_searching(finished: Study) -> None:
    opened = Study.open(finished.folder, policy=ALWAYS_RIGHT, trust=True, engine=Impatient(0))
    assert opened.evaluation == finished.evaluation
    best = finished.evaluation.confirmed[0]
    assert best.source == "searched"
    rule = best.rule_set.rules[0]
    assert (rule.polarity, rule.action) in {("+", mirror_world.LEFT), ("-", mirror_world.RIGHT)}


def test_what_a_search_came_to(finished: Study) -> None:
    rows = {row.source: row for row in source_rows(finished)}
    kept = json.loads((finished.folder / "searched.json").read_text())
    searched = rows["searched"]
    own = [verdict for verdict in finished.evaluation.verdicts if "searched" in verdict.sources]
    assert searched.tried == kept["tried"] > len(kept["proposed"]) >= len(own)
    assert searched.steps == kept["steps"] + sum(verdict.steps for verdict in own)
    assert kept["steps"] < 2 * SETTINGS.search.budget  # a lot that has begun is played to its end
    assert searched.tested_held_out == sum(verdict.confirmation is not None for verdict in own)
    assert searched.used >= 1
    assert set(rows) == {"searched"}  # there is no rule to mine from a policy that always does the same


def test_nothing_is_searched_where_a_study_is_only_read(tmp_path: Path, raises_saved) -> None:
    made = study(tmp_path)
    made.mine()
    with raises_saved(StepMissingError):
        _ = made.evaluation


@pytest.mark.parametrize("content", ["{", '{"tried": 1}', '{"tried": 1, "steps": 2, "proposed": [3]}'])
def test_a_damaged_file_is_said_to_be_one(tmp_path: Path, content: str) -> None:
    made = study(tmp_path)
    made.mine()
    (tmp_path / "searched.json").write_text(content)
    with pytest.raises(DamagedFileError, match=r"searched\.json"):
        made.evaluate()


def test_the_papers_method_can_search_too(tmp_path: Path) -> None:
    paper = EvaluationSettings(method="paper", episodes=30, confirmation_episodes=60)
    found = study(tmp_path, settings=replace(SETTINGS, evaluation=paper)).evaluate()
    assert any(verdict.source == "searched" and verdict.is_confirmed for verdict in found.verdicts)
