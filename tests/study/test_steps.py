"""Steps of a study: declared once, done once, added from outside."""

from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from numpy.typing import NDArray

import mirror_world
from legible.errors import LegibleError
from legible.files import DamagedFileError
from legible.mining import Mining
from legible.records import RecordFormat
from legible.study import STEPS, Step, StepMissingError, Study, register_step
from legible.study.formats import RESULTS
from study.studies import make_study, settings_of

SETTINGS = settings_of(
    sources="mined", episodes=30, mining={"lime_states": 5, "lime_samples": 100}, play={"batch": 8, "unit_episodes": 30}
)


@dataclass(frozen=True)
class Lengths:
    """The result of a toy step: how long episodes are."""

    mean: float
    each: NDArray[np.int64]
    name: str = ""


LENGTHS = RecordFormat([Lengths])


def measure(study: Study) -> Lengths:
    measure.calls += 1
    lengths = study.experiences.lengths
    return Lengths(float(lengths.mean()), lengths, "played")


measure.calls = 0
TOY = Step(
    "lengths",
    "no lengths have been measured",
    "lengths.npz",
    measure,
    needs=("experiences",),
    save=lambda study, path, result: LENGTHS.write(path, result, study.key),
    load=lambda study, path: LENGTHS.read(path, study.key),
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Step:
    monkeypatch.setattr("legible.study.steps.STEPS", STEPS.copy())
    monkeypatch.setattr("legible.study.study.STEPS", STEPS | {TOY.name: TOY})
    register_step(TOY)
    measure.calls = 0
    return TOY


def toy_study(folder: Path) -> Study:
    world = mirror_world.WORLD
    return make_study(folder, world, mirror_world.policy(), relations=(), settings=SETTINGS)


def test_a_step_from_outside_is_done_once_with_what_it_needs(toy: Step, tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    with pytest.raises(StepMissingError, match="no lengths have been measured yet"):
        study.read("lengths")
    found = study.do("lengths")
    assert study.has("experiences")
    assert not study.has("mining")
    again = toy_study(tmp_path)
    assert again.has("lengths")
    assert again.do("lengths").mean == found.mean == study.experiences.lengths.mean()
    np.testing.assert_array_equal(again.read("lengths").each, found.each)
    assert measure.calls == 1


def test_steps_that_cannot_be_added_are_refused(toy: Step) -> None:
    with pytest.raises(LegibleError, match="there is a step 'lengths'"):
        register_step(toy)
    with pytest.raises(LegibleError, match="needs 'nothing'"):
        register_step(Step("more", "", "more.npz", measure, needs=("nothing",)))


def test_every_step_is_declared_once() -> None:
    assert list(STEPS)[:4] == ["experiences", "first facts", "own rules", "mining"]
    assert len({step.file for step in STEPS.values()}) == len(STEPS)


def test_records_hold_what_was_written_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    value = {"a": Lengths(float("nan"), np.arange(3), "é"), 2: (1.5, None, True, -np.inf)}
    LENGTHS.write(path, value, "key")
    found = LENGTHS.read(path, "key")
    assert list(found) == ["a", 2]
    assert np.isnan(found["a"].mean)
    assert found["a"].each.tolist() == [0, 1, 2]
    assert found[2] == (1.5, None, True, -np.inf)
    with pytest.raises(DamagedFileError, match="another key"):
        LENGTHS.read(path, "other")
    with pytest.raises(TypeError, match="its class is not listed"):
        LENGTHS.write(path, object())
    RecordFormat([Lengths, Mining]).write(path, Lengths(0.0, np.zeros(1, np.int64)), "key")
    with pytest.raises(DamagedFileError, match=r"x\.npz: is damaged"):
        RecordFormat([]).read(path, "key")


def named_classes(hint: object) -> set[type]:
    """The dataclasses and named tuples that an annotation speaks of."""
    found = {hint} if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")) else set()
    return found.union(*(named_classes(part) for part in get_args(hint)))


def test_every_class_that_a_result_holds_can_be_kept() -> None:
    kept = {*RESULTS.classes.values(), *RESULTS.made_again}
    for kind in RESULTS.classes.values():
        for name, hint in get_type_hints(kind).items():
            assert named_classes(hint) <= kept, f"{kind.__name__}.{name}"
