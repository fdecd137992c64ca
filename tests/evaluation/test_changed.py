"""The test for differences that are mostly zero: by hand, against exact tests, and its interval."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from legible.errors import LegibleError
from legible.evaluation.changed import changed_mean_test, mcnemar_test

OPTIONS = {"invented_loss": 0.0, "resamples": 4000, "rng_seed": 0}


def test_two_sizes_of_changes_make_it_the_exact_binomial_test() -> None:
    """+1 in 120 and -1 in 80 of 200: as improbable as 120 heads. With -49 losses have a chance of one in fifty."""
    effect = changed_mean_test([1.0] * 120 + [-1.0] * 80, 1000, **OPTIONS)
    assert effect.p == pytest.approx(stats.binom.sf(119, 200, 0.5), rel=0.1)
    assert effect.mean == pytest.approx(0.04)
    effect = changed_mean_test([1.0] * 199 + [-49.0], 1000, **OPTIONS)
    assert effect.p == pytest.approx(stats.binom.cdf(1, 200, 0.02), rel=0.1)


def test_losses_that_were_not_seen_are_counted_with() -> None:
    """200 gains of 15; another rule set has shown losses of 485, which may come in 3 % of the changes."""
    gains = [15.0] * 200
    sure = changed_mean_test(gains, 4000, **OPTIONS)
    careful = changed_mean_test(gains, 4000, **{**OPTIONS, "invented_loss": 485.0})
    assert sure.p == pytest.approx(0.5**200, rel=0.2)
    assert careful.p == pytest.approx(0.97**200, rel=0.1)
    assert careful.low < sure.low


def test_without_skew_and_with_many_changes_it_is_the_t_test() -> None:
    sample = np.random.default_rng(0).normal(0.15, 1.0, 400)
    effect = changed_mean_test(sample, 400, **OPTIONS)
    expected = stats.ttest_1samp(sample, 0.0)
    assert effect.p == pytest.approx(stats.ttest_1samp(sample, 0.0, alternative="greater").pvalue, rel=0.25)
    low, high = expected.confidence_interval(0.95)
    assert (effect.low, effect.high) == pytest.approx((low, high), abs=0.01)
    assert effect.error == pytest.approx(sample.std(ddof=1) / 20)


def test_nothing_changed_and_few_changes() -> None:
    nothing = changed_mean_test([], 50, **OPTIONS)
    assert (nothing.mean, nothing.low, nothing.high, nothing.p, nothing.changed) == (0.0, 0.0, 0.0, 1.0, 0)
    one = changed_mean_test([7.0], 50, **OPTIONS)
    assert one.p == pytest.approx(0.5, abs=0.03), "a gain of 7 and a loss of 7 are as probable"
    assert one.detectable is None
    assert changed_mean_test([-7.0, -7.0], 50, **OPTIONS).p == 1.0
    unmoved = changed_mean_test([0.0, 0.0, 0.0], 50, **OPTIONS)
    assert (unmoved.p, unmoved.mean) == (1.0, 0.0)


@pytest.mark.parametrize("gain", [0.955, -0.955, 1 / 3])
def test_equal_changes_whose_mean_is_rounded(gain: float) -> None:
    effect = changed_mean_test([gain] * 72, 200, invented_loss=0.0, resamples=2000, rng_seed=0)
    assert effect.low <= effect.mean <= effect.high
    assert effect.mean == pytest.approx(0.36 * gain)
    assert (effect.low > 0.0) == (effect.p < 0.025) == (gain > 0.0)


def test_the_share_of_changed_episodes_is_an_estimate_too() -> None:
    """Every change gains exactly 10, in 200 of 1,000 episodes: the mean of 2 is known to about 12 %."""
    effect = changed_mean_test([10.0] * 200, 1000, **OPTIONS)
    half = 1.96 * 10 * np.sqrt(0.2 * 0.8 / 1000)
    assert (effect.low, effect.high) == pytest.approx((2 - half, 2 + half), abs=0.05)


@given(st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=40), st.integers(0, 60), st.integers(0, 30))
def test_the_interval_fits_the_test(changed: list[float], unchanged: int, loss: int) -> None:
    seeds = max(2, len(changed) + unchanged)
    effect = changed_mean_test(changed, seeds, invented_loss=float(loss), resamples=500, rng_seed=1)
    assert 0.0 <= effect.p <= 1.0
    assert effect.low <= effect.mean <= effect.high
    assert (effect.low > 0.0) == (effect.p < 0.025)
    assert effect.mean == pytest.approx(sum(changed) / seeds)
    assert effect.detectable is None or effect.detectable >= 0.0


def test_an_effect_of_the_detectable_size_is_found_in_about_80_percent() -> None:
    rng = np.random.default_rng(0)
    detectable = changed_mean_test(rng.normal(0.0, 1.0, 200), 200, **OPTIONS).detectable
    assert detectable is not None
    found = [
        changed_mean_test(rng.normal(detectable, 1.0, 200), 200, **{**OPTIONS, "resamples": 500}).p < 0.05
        for _ in range(300)
    ]
    assert 0.70 < np.mean(found) < 0.90


def test_the_size_and_the_order_of_the_changes_do_not_matter() -> None:
    sample = np.random.default_rng(0).standard_t(3, 100) + 0.3
    one = changed_mean_test(sample, 500, **OPTIONS)
    thousand = changed_mean_test(1000.0 * sample, 500, **OPTIONS)
    assert thousand.p == pytest.approx(one.p)
    assert thousand.low == pytest.approx(1000.0 * one.low)
    assert changed_mean_test(sample[::-1], 500, **OPTIONS).p == pytest.approx(one.p, rel=0.2)
    assert changed_mean_test(sample, 500, **OPTIONS) == one


def test_mcnemar_by_hand() -> None:
    """Nine gain, one loses: P(at least 9 of 10) = 11 / 1024."""
    effect = mcnemar_test([1] * 9 + [-1] + [0] * 5, 100)
    assert (effect.mean, effect.p, effect.changed) == (0.08, pytest.approx(11 / 1024), 15)
    assert (effect.low > 0.0) == (effect.p < 0.025)
    # Ten of a hundred episodes decide: the sum of their signs has a standard deviation of √10.
    assert effect.detectable == pytest.approx((1.6448536 + 0.8416212) * 10**0.5 / 100)
    assert mcnemar_test([0, 0], 10).p == 1.0
    assert mcnemar_test([-1, -1], 10).high < 0.0 or mcnemar_test([-1, -1], 10).p == 1.0


def test_invalid_samples_are_refused(raises_saved) -> None:
    with raises_saved(LegibleError):
        changed_mean_test([1.0, 2.0, 3.0], 2, **OPTIONS)
    with pytest.raises(LegibleError, match="changed episode 1 is nan"):
        changed_mean_test([1.0, float("nan")], 5, **OPTIONS)
    with pytest.raises(LegibleError, match="at least two episodes"):
        changed_mean_test([1.0], 1, **OPTIONS)


def test_twenty_rule_sets_take_about_a_second_of_one_core() -> None:
    samples = np.random.default_rng(0).normal(size=(20, 400))
    changed_mean_test(samples[0], 4000, **OPTIONS)
    started = time.process_time()
    for sample in samples:
        changed_mean_test(sample, 4000, invented_loss=3.0, resamples=8000, rng_seed=0)
    assert time.process_time() - started < 4  # 0.5 s on a fast machine
