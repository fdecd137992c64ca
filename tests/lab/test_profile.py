"""The profile of a study: each moment and each call counts once."""

from __future__ import annotations

import pytest

from lab.profile import KINDS, Clock


def test_calls_count_for_the_step_in_which_they_happen_and_only_once_when_nested() -> None:
    clock = Clock()
    ask = clock.timed("network", lambda states: states, len)
    ask_through = clock.timed("network", ask, len)
    step = clock.timed("environment", lambda: ask([1, 2]), lambda: 1)
    before = clock.change_step("mining")
    ask_through([1, 2, 3])
    clock.change_step("evaluation")
    step()
    step()
    clock.change_step(before)
    rows = {row["step"]: row for row in clock.rows()}
    assert (rows["mining"]["steps"], rows["mining"]["states"]) == (0, 3)
    assert (rows["evaluation"]["steps"], rows["evaluation"]["states"]) == (2, 4)
    assert (rows["all"]["steps"], rows["all"]["states"]) == (2, 7)


def test_seconds_of_all_kinds_add_up_also_after_an_error() -> None:
    clock = Clock()

    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        clock.timed("environment", clock.timed("matching", fail))()
    clock.change_step("end")
    for row in clock.rows():
        assert sum(row[kind] for kind in KINDS) == pytest.approx(row["wall"], abs=0.01)
    assert clock._kinds == ["Python"]
