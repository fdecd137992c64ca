"""Studies that race: resumed to the bit, read without playing, with baselines by the same method."""

from pathlib import Path

import numpy as np
import pytest

import mirror_world
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.evaluation import Evaluation
from legible.explanation import verdict_sentence
from legible.files import DamagedFileError
from legible.settings import (
    BaselineSettings,
    EvaluationSettings,
    ImprovementSettings,
    MiningSettings,
    PlaySettings,
    ReferenceSettings,
    StudySettings,
)
from legible.study import Study
from unfinished import forget_results

SETTINGS = StudySettings(
    sources="mined,yours",
    episodes=60,
    mining=MiningSettings(lime_states=10, lime_samples=200),
    play=PlaySettings(batch=8, unit_episodes=40),
    evaluation=EvaluationSettings(
        rung_changes=12,
        rungs=3,
        race_seeds=160,
        confirmation_changes=200,
        confirmation_seeds=600,
        confirmation_episodes=40,
    ),
    improvement=ImprovementSettings(episodes=40, final_episodes=40, most_candidates=3),
    references=ReferenceSettings(episodes=20),
    baselines=BaselineSettings(random_tests=3),
)
WORLD = EnvironmentSpec("mirror_world:MirrorWorld")


class StoppedError(Exception):
    """What the person who waits presses."""


class Impatient(InProcess):
    """An engine that is stopped after some units."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.left = units

    def run(self, function, shared, units, **options):
        for outcome in super().run(function, shared, units, **options):
            if not self.left:
                raise StoppedError
            self.left -= 1
            yield outcome


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
    assert evaluation.confirmed[0].confirmation.effect.changed == 200
    assert evaluation.confirmed[0].found_by == "mined"
    assert finished.improvement.effect.low > 0
    assert verdict_sentence(evaluation, finished.improvement).startswith("The policy is weak in ")
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


def test_baselines_race_with_the_same_budget(finished: Study) -> None:
    for kind in ("block", "rules"):
        baseline = finished.play_baseline(kind)
        assert all(verdict.changed_episodes is not None for verdict in baseline.verdicts)
        assert baseline.base == finished.evaluation.base  # on the same seeds


def test_the_race_of_a_baseline_is_called_so(finished: Study) -> None:
    told: set[str] = set()
    finished.progress = lambda stage, *_: told.add(stage)
    finished.play_baseline("enforce")
    assert "baseline enforce: racing" in told
    assert told <= {"baseline enforce: racing", "baseline enforce: racing confirmation"}
