"""Studies that are killed and resumed: a short run of the harness."""

import os
import random

import pytest

from lab.harness.chaos import STAGES, _cluster, _has_come, draw_moments, run_chaos


@pytest.mark.subprocess
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


def test_studies_on_ray_find_a_cluster_that_stays_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'legible-rl[ray]'")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with _cluster("ray"):
        host, port = os.environ["RAY_ADDRESS"].split(":")
        assert host
        assert int(port) > 0
    assert "RAY_ADDRESS" not in os.environ


def test_other_engines_need_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with _cluster("processes"):
        assert "RAY_ADDRESS" not in os.environ
