"""Studies that race: resumed to the bit, read without playing."""

from pathlib import Path

import numpy as np
import pytest

import mirror_world
from legible.engines import InProcess
from legible.evaluation import Evaluation
from legible.explanation import conclude
from legible.explanation.grouping import changed_states
from legible.files import DamagedFileError
from legible.settings import StudySettings
from legible.study import Study
from mirror_world import WORLD
from study.studies import Impatient, StoppedError, settings_of
from unfinished import forget_results

SETTINGS = settings_of(
    sources="mined,yours",
    episodes=60,
    mining={"lime_states": 10, "lime_samples": 200},
    play={"batch": 8, "unit_episodes": 40},
    evaluation={
        "rung_changes": 12,
        "rungs": 3,
        "race_seeds": 160,
        "confirmation_changes": 200,
        "confirmation_seeds": 600,
        "confirmation_episodes": 40,
    },
    improvement={"episodes": 40, "final_episodes": 40, "most_candidates": 3},
    references={"episodes": 20},
)


def study(folder: Path, **changes: object) -> Study:
    arguments = {"relations": mirror_world.mirror(), "settings": SETTINGS, "engine": InProcess(), **changes}
    return Study(folder, WORLD, mirror_world.policy(), **arguments)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Study:
    made = study(tmp_path_factory.mktemp("racing"))
    made.run()
    return made


def found(evaluation: Evaluation) -> list[object]:
    return [(v.p, v.difference, v.is_confirmed, v.sample, v.confirmation, v.steps) for v in evaluation.verdicts]


def test_a_study_races_by_default(finished: Study) -> None:
    assert StudySettings().evaluation.method == "racing"
    evaluation = finished.evaluation
    assert evaluation.confirmed
    assert evaluation.confirmed[0].confirmation.effect.changed == 220  # 200, and a tenth for the smallest effect
    assert evaluation.confirmed[0].found_by == "mined"
    assert finished.improvement.effect.low > 0
    assert conclude(evaluation, finished.improvement).text.startswith("One rule raises ")
    assert finished.explanations[0].cause == "generalisation"
    assert list((finished.folder / "unguided").glob("*.npz"))


def test_a_stopped_race_goes_on_to_the_same_to_the_bit(tmp_path: Path, finished: Study) -> None:
    for units in (3, 4, 5):
        with pytest.raises(StoppedError):
            study(tmp_path, engine=Impatient(units)).evaluate()
    again = study(tmp_path)
    assert found(again.evaluate()) == found(finished.evaluation)
    for folder in ("units", "unguided"):
        names = {path.name for path in (tmp_path / folder).glob("*.npz")}
        assert names <= {path.name for path in (finished.folder / folder).glob("*.npz")}


def test_a_finished_race_is_read_without_playing(finished: Study) -> None:
    opened = study(finished.folder, engine=Impatient(0))
    assert found(opened.evaluation) == found(finished.evaluation)
    assert opened.improvement.effect == finished.improvement.effect


def test_a_damaged_recording_is_named(tmp_path: Path) -> None:
    study(tmp_path).evaluate()
    victim = min((tmp_path / "unguided").glob("*.npz"))
    with np.load(victim) as data:
        arrays = dict(data)
    arrays["scores"] = arrays["scores"] + 1
    np.savez_compressed(victim, **arrays)
    with pytest.raises(DamagedFileError, match=rf"{victim.name}: is damaged"):
        study(forget_results(tmp_path)).evaluate()


def test_only_the_rules_that_change_most_are_raced(tmp_path, policy_file) -> None:
    settings = SETTINGS.updated({"evaluation": {"most_raced": 2}})
    study = Study(
        tmp_path / "s", WORLD, policy_file, relations=mirror_world.mirror(), settings=settings, engine=InProcess()
    )
    study.generalise()
    changed = {rule_set: changed_states(rule_set, study.experiences).sum() for rule_set in study.rule_sets}
    raced = [verdict.rule_set for verdict in study.evaluate().verdicts]
    assert len(raced) == 2
    assert sorted(changed[one] for one in raced) == sorted(changed.values())[-2:]
