"""Studies that are killed and resumed: a short run of the harness."""

import os
import random

import pytest

from lab.harness.chaos import STAGES, _cluster, draw_moments, run_chaos


@pytest.mark.subprocess
def test_three_kills() -> None:
    result = run_chaos(3, "inline", seed=0)
    assert result.kills.total() == 5  # three of the study, one of distil, one of compare
    assert result.differences == []
    assert "5 kills" in str(result)


def test_moments_are_of_different_stages_in_order() -> None:
    reached = {stage: 40 for stage in STAGES if stage != "search"}
    moments = draw_moments(random.Random(0), 5, reached)
    stages = [stage for stage, _ in moments]
    assert stages == sorted(set(stages))
    assert all(0 < done <= 40 for _, done in moments)
    every = {stage for stage, _ in draw_moments(random.Random(0), len(reached), reached)}
    assert every == set(range(len(STAGES))) - {STAGES.index("search")}  # it has no such stage


def test_studies_on_ray_find_a_cluster_that_stays_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'legible-rl[ray]'")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with _cluster("ray"):
        host, port = os.environ["RAY_ADDRESS"].split(":")
        assert host
        assert int(port) > 0
    assert "RAY_ADDRESS" not in os.environ
