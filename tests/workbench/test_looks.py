import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.bench.bench_workbench import CLAIMS, WORLDS, false_claims
from legible.workbench.looks import (
    Plan,
    PlausibleExtremes,
    changed_looks,
    difference_p,
    episodes_to_decide,
    interval_of_changed,
    interval_of_differences,
    interval_of_share,
    largest_plausible,
    seed_looks,
    share_p,
)


def test_the_error_rate_is_split_over_looks_questions_and_sides() -> None:
    plan = Plan((200, 400, 800), questions=2)
    assert plan.tail * 2 * 3 * 2 == pytest.approx(0.05)
    assert plan.confidence == pytest.approx(1 - 0.05 / 6)


def test_there_are_at_most_six_looks() -> None:
    assert changed_looks(10**9) == (200, 400, 800, 1600, 3200, 6400)
    assert changed_looks(10) == (200,), "no test is valid with fewer changed episodes"
    assert seed_looks(8000) == (250, 500, 1000, 2000, 4000, 8000)
    assert seed_looks(10**6)[-1] == 10**6
    assert len(seed_looks(10**6)) == 6
    assert seed_looks(300) == (300,)


def test_without_any_difference_the_interval_is_the_exact_bound_of_a_rare_loss() -> None:
    """No difference in 250 episodes: a loss of 100 may still happen in 1.9 % of them (one tail of 0.0083)."""
    tail = 0.05 / 6
    found = interval_of_differences(np.zeros(250), tail, 0, largest=100.0)
    assert found.low == pytest.approx(-100.0 * interval_of_share(0, 250, tail).high, rel=0.02)
    assert found.high == -found.low
    assert interval_of_differences(np.zeros(250), tail, 0).low == 0.0, "no difference is possible"


def test_the_interval_of_dense_differences_is_about_students() -> None:
    sample = np.random.default_rng(0).normal(3.0, 10.0, 2000)
    found = interval_of_differences(sample, 0.025, 0)
    reach = 1.96 * sample.std(ddof=1) / np.sqrt(2000)
    assert (found.low, found.high) == pytest.approx((sample.mean() - reach, sample.mean() + reach), abs=0.06)


@given(st.lists(st.floats(-10, 10), min_size=20, max_size=60), st.floats(-5, 5))
def test_the_p_value_fits_the_interval(values: list[float], bound: float) -> None:
    sample, tail = np.array(values), 0.01
    found = interval_of_differences(sample, tail, 0, largest=20.0)
    p = difference_p(sample, bound, tail, 0, 20.0)
    if abs(found.low - bound) > 0.3:
        assert (found.low > bound) == (p < tail)


def test_the_interval_of_a_rule_counts_failed_episodes_on_the_side_of_doubt() -> None:
    changes = np.random.default_rng(0).normal(20.0, 10.0, 200)
    sure = interval_of_changed(changes, -changes, 400, 0.005, 0, PlausibleExtremes(50.0, 50.0))
    doubtful = np.append(changes[:-5], [-300.0] * 5)
    careful = interval_of_changed(doubtful, -changes, 400, 0.005, 0, PlausibleExtremes(50.0, 50.0))
    assert sure.side == 1
    assert careful.low < sure.low
    assert careful.high == pytest.approx(sure.high)


def test_exact_shares_by_hand() -> None:
    assert interval_of_share(0, 299, 0.05).high == pytest.approx(0.00997, abs=1e-5), "the rule of three"
    assert interval_of_share(10, 10, 0.05).low == pytest.approx(0.05 ** (1 / 10))
    assert share_p(0, 10, 0.1) == 1.0
    assert share_p(10, 10, 0.5) == pytest.approx(0.5**10)


def test_the_largest_plausible_loss_reaches_down_to_random_play() -> None:
    assert largest_plausible([400.0, 500.0], 450.0) == (50.0, 50.0)
    assert largest_plausible([400.0, 500.0], 450.0, 20.0) == (430.0, 50.0)


def test_episodes_to_decide() -> None:
    assert episodes_to_decide(100, 1.0, 0.0, 0.05) is None
    assert episodes_to_decide(100, 1.0, 1.0, 0.05) == 619, "(1.645 + 0.842)² times as many"


@pytest.mark.statistical
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", CLAIMS)
def test_false_claims_are_rare(name: str, world: str) -> None:
    """`python -m lab.bench workbench` runs 1,000 of each."""
    runs = 120
    assert interval_of_share(false_claims(name, world, runs), runs, 0.05).low <= 0.05
