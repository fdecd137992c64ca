"""Arrays and values of files are checked against what legible writes."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from legible.evaluation.units import UnitResult
from legible.files import DamagedFileError, write_arrays
from legible.records import RecordFormat
from legible.schemas import UNIT, Column, Schema, check_arrays, check_fields
from legible.study import UnitFiles


def unit(**changed: object) -> dict[str, NDArray[np.generic]]:
    none, whole = np.zeros(3), np.ones(3, np.int64)
    arrays = {"returns": none, "lengths": whole, "truncated": none > 0, "success": none, "costs": none}
    return {**arrays, "fired": whole, "changed": whole, **changed}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "changed",
    [
        {"returns": np.zeros(3, np.float32)},
        {"returns": np.array(["a", "b", "c"])},
        {"lengths": np.ones(4, np.int64)},
        {"lengths": np.array([1, -1, 1])},
        {"truncated": np.zeros((3, 1), np.bool_)},
        {"success": np.full(3, 2.0)},
        {"returns": np.array([0.0, np.nan, 0.0])},
        {"taken": np.ones((2, 4), np.int64)},
        {"fired": None},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_units_that_cannot_be_are_refused_by_name(tmp_path, changed) -> None:
    store = UnitFiles(tmp_path, UnitResult)
    write_arrays(tmp_path / "good.npz", unit(), "good")
    assert len(store["good"]) == 3
    write_arrays(tmp_path / "bad.npz", {k: v for k, v in unit(**changed).items() if v is not None}, "bad")
    with pytest.raises(DamagedFileError, match=r"bad\.npz: is damaged"):
        store["bad"]


def test_sizes_with_one_name_are_equal() -> None:
    schema: Schema = {"a": Column("f8", ("n", 2)), "b": Column("i8", ("n",), high=5)}
    check_arrays({"a": np.zeros((4, 2)), "b": np.full(4, 5)}, schema)
    for wrong in ({"a": np.zeros((3, 2))}, {"a": np.zeros((4, 3))}, {"b": np.full(4, 6)}, {"b": np.full(4, 5.0)}):
        with pytest.raises(ValueError, match=r"'[ab]'"):
            check_arrays({"a": np.zeros((4, 2)), "b": np.full(4, 5), **wrong}, schema)


@dataclass(frozen=True)
class Kept:
    """Fields of all kinds of types."""

    kind: ClassVar[str] = "kept"

    number: float
    count: int
    word: Literal["a", "b"]
    pair: tuple[int, str] | None
    names: tuple[str, ...]
    table: dict[str, float]
    values: NDArray[np.float64]


GOOD = {"number": 1, "count": 2, "word": "a", "pair": None, "names": ("x",), "table": {"y": 0.5}, "values": np.zeros(2)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("number", "1"), ("number", True), ("count", 1.5), ("word", "c"), ("pair", (1, 2)), ("pair", (1,))),
        *(("names", (1,)), ("names", "x"), ("table", {"y": "z"}), ("values", np.zeros(2, np.int64)), ("values", [0.0])),
    ],
)
def test_values_of_other_types_are_refused(tmp_path, name, value) -> None:
    check_fields(Kept, GOOD)
    with pytest.raises(TypeError, match=f"Kept.{name}"):
        check_fields(Kept, {**GOOD, name: value})
    kinds = RecordFormat([Kept])
    kinds.write(tmp_path / "file.npz", Kept(**{**GOOD, name: value}))
    with pytest.raises(DamagedFileError, match=r"file\.npz: is damaged"):
        kinds.read(tmp_path / "file.npz")


def test_every_column_of_a_unit_has_a_schema() -> None:
    assert set(UnitResult.__dataclass_fields__) == set(UNIT)
