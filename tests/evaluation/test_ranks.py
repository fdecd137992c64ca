"""Medians and worst tenths: figures by hand, and the test against one that sorts every resample."""

import math

import numpy as np
import pytest
from scipy import stats

from legible.evaluation.ranks import MEDIAN, WORST_TENTH, Ranks, _quantile, rank_interval, rank_test
from legible.streams import GOLDEN, key_of_seed, mix

RESAMPLES = 60


def test_figures_by_hand() -> None:
    assert MEDIAN.figure(np.array([3.0, 1.0, 2.0])) == 2.0
    assert MEDIAN.figure(np.array([4.0, 1.0, 3.0, 2.0])) == 2.5
    assert MEDIAN.figure(np.array([7.0])) == 7.0
    assert WORST_TENTH.figure(np.arange(20.0)[::-1]) == 0.5
    assert WORST_TENTH.figure(np.arange(11.0)) == 0.5  # two of eleven
    assert WORST_TENTH.figure(np.arange(10.0)) == 0.0


def test_quantiles_by_hand() -> None:
    ascending = np.arange(99.0)
    assert _quantile(ascending, 0.05) == 4.0
    assert _quantile(ascending, 0.02) == 1.0
    assert _quantile(ascending, 0.015) == 0.0
    assert _quantile(ascending, 0.001) == 0.0


def resampled(columns: np.ndarray, ranks: Ranks, seed: int) -> np.ndarray:
    """Every resample sorted, with the same random numbers."""
    n = len(columns)
    count = int(key_of_seed(np.uint64(seed)))
    found = []
    for _ in range(RESAMPLES):
        rows = []
        for _ in range(n):
            count = (count + int(GOLDEN)) % 2**64
            rows.append((int(mix(np.uint64(count))) >> 32) * n >> 32)
        found.append([ranks.figure(columns[rows, i]) for i in range(columns.shape[1])])
    return np.array(found)


def differences(better: np.ndarray, worse: np.ndarray, loss: float, ranks: Ranks, seed: int) -> np.ndarray:
    middling = float(np.median(worse))
    lost = max(middling - loss, float(min(better.min(), worse.min())))
    columns = np.stack([np.append(better, lost), np.append(worse, middling)], axis=1)
    figures = resampled(columns, ranks, seed)
    return np.sort(figures[:, 0] - figures[:, 1])


@pytest.mark.parametrize("ranks", [MEDIAN, WORST_TENTH])
@pytest.mark.parametrize(("gain", "invented"), [(1.0, 0.5), (0.3, 50.0), (-0.5, 0.0)])
def test_the_test_is_a_bootstrap_of_pairs_with_one_that_lost(ranks: Ranks, gain: float, invented: float) -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(0.0, 2.0, 24)
    guided = base + rng.normal(gain, 0.7, 24)
    changed = np.ones(24, np.bool_)
    changed[:5], guided[:5] = False, base[:5]
    options = {"invented_loss": invented, "resamples": RESAMPLES, "rng_seed": 5}
    effect = rank_test(guided, base, changed, ranks, alpha=0.1, confidence=0.9, **options)
    loss, win = max(invented, (base - guided).max()), max(invented, (guided - base).max())
    down, up = differences(guided, base, loss, ranks, 5), differences(base, guided, win, ranks, 5)
    mean = ranks.figure(guided) - ranks.figure(base)
    place = math.floor(0.05 * (1 + RESAMPLES)) - 1
    assert effect.mean == mean
    assert effect.error == pytest.approx(down.std(ddof=1))
    assert effect.low == pytest.approx(min(down[place], mean))
    assert effect.high == pytest.approx(max(-up[place], mean))
    assert effect.p == ((1 + (down <= 0.0).sum()) / (1 + RESAMPLES) if mean > 0.0 else 1.0)
    needed = mean - min(down[math.floor(0.1 * (1 + RESAMPLES)) - 1], mean)
    assert effect.detectable == pytest.approx(needed + stats.norm.ppf(0.8) * effect.error)
    assert (effect.changed, effect.seeds) == (19, 24)


def test_without_changes_there_is_no_effect() -> None:
    values = np.array([1.0, 2.0, 3.0])
    effect = rank_test(
        values, values, np.zeros(3, np.bool_), MEDIAN, invented_loss=1.0, resamples=RESAMPLES, rng_seed=0
    )
    assert (effect.mean, effect.low, effect.high, effect.p, effect.changed, effect.seeds) == (0.0, 0.0, 0.0, 1.0, 0, 3)


def test_an_effect_without_any_loss_invents_one_as_large_as_the_gain() -> None:
    """Two middling episodes of three lose as much as guidance gained, in some resamples."""
    base = np.array([0.0, 10.0, 20.0])
    effect = rank_test(
        base + 4.0, base, np.ones(3, np.bool_), MEDIAN, invented_loss=0.0, resamples=RESAMPLES, rng_seed=1
    )
    assert effect.mean == 4.0
    down = differences(base + 4.0, base, 4.0, MEDIAN, 1)
    assert effect.low == pytest.approx(min(down[max(0, math.floor(0.025 * (1 + RESAMPLES)) - 1)], 4.0))
    assert effect.p == (1 + (down <= 0.0).sum()) / (1 + RESAMPLES)


def test_the_interval_of_a_figure() -> None:
    values = np.random.default_rng(0).normal(size=15)
    found = np.sort(resampled(values[:, None], MEDIAN, 2)[:, 0])
    low, high = rank_interval(values, MEDIAN, resamples=RESAMPLES, rng_seed=2, confidence=0.9)
    place = math.floor(0.05 * (1 + RESAMPLES)) - 1
    assert (low, high) == pytest.approx((found[place], found[-1 - place]))


@pytest.mark.parametrize(("n", "middle"), [(1, [0]), (2, [0, 1]), (3, [1]), (4, [1, 2]), (5, [2])])
def test_the_ranks_of_a_median(n: int, middle: list[int]) -> None:
    assert list(range(MEDIAN.first(n), MEDIAN.last(n))) == middle


@pytest.mark.parametrize(("n", "count"), [(1, 1), (10, 1), (11, 2), (20, 2), (100, 10)])
def test_the_ranks_of_the_worst_tenth(n: int, count: int) -> None:
    assert (WORST_TENTH.first(n), WORST_TENTH.last(n)) == (0, count)
