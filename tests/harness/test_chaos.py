"""Studies that are killed and resumed: a short run of the harness."""

import random

from harness.chaos import STAGES, _has_come, draw_moments, run_chaos


def test_three_kills() -> None:
    result = run_chaos(3, "inline", seed=0)
    assert result.kills.total() == 3
    assert result.differences == []
    assert "3 kills" in str(result)


def test_moments_are_of_different_stages_in_order() -> None:
    reached = {stage: 40 for stage in STAGES if stage != "search"}
    moments = draw_moments(random.Random(0), 5, reached)
    stages = [stage for stage, _ in moments]
    assert stages == sorted(set(stages))
    assert all(0 < done <= 40 for _, done in moments)
    every = {stage for stage, _ in draw_moments(random.Random(0), len(reached), reached)}
    assert every == set(range(len(STAGES))) - {STAGES.index("search")}  # it has no such stage


def test_when_a_moment_has_come() -> None:
    racing = STAGES.index("racing")
    assert _has_come("racing\t20\t40\n", (racing, 20))
    assert not _has_come("racing\t19\t40\n", (racing, 20))
    assert not _has_come("rules\t9\t9\n", (racing, 1))
    assert _has_come("racing confirmation\t0\t40\n", (racing, 40))
