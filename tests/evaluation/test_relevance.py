"""The smallest effect of interest: its size, and tests against it."""

import numpy as np
import pytest
from scipy import stats

from legible.evaluation.changed import changed_mean_test, mcnemar_test
from legible.evaluation.confirmation import Judge
from legible.evaluation.pairs import Pairs
from legible.evaluation.ranks import MEDIAN, rank_test
from legible.evaluation.relevance import parse_relevant, relevant_effect
from legible.evaluation.statistics import paired, unpaired
from legible.settings import EvaluationSettings, SettingsError
from played_blocks import result


def test_the_size_by_hand() -> None:
    # 100 from random play, standard deviation 10.
    values = [90.0, 100.0, 110.0]
    assert relevant_effect(values, 0.0) == pytest.approx(2.0)
    assert relevant_effect(values, 99.0) == pytest.approx(0.2)  # the standard deviation is larger
    assert relevant_effect(values, float("nan"), "10 %") == pytest.approx(1.0)
    assert relevant_effect(values, 0.0, "7.5") == 7.5
    assert relevant_effect([5.0, 5.0], 5.0) == 0.0


@pytest.mark.parametrize("text", ["much", "-1", "nan %", ""])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"evaluation\.relevant"):
        parse_relevant(text)


def test_p_is_the_level_at_which_the_interval_ends_there() -> None:
    """The lower end of the interval with confidence 1 - 2 p is the smallest effect of interest."""
    gains = np.random.default_rng(0).normal(3.0, 20.0, 300)
    options = {"invented_loss": 5.0, "resamples": 4000, "rng_seed": 1}
    for relevant in (0.1, 0.3, 0.6):
        p = changed_mean_test(gains, 1000, relevant=relevant, **options).p
        again = changed_mean_test(gains, 1000, confidence=1.0 - 2.0 * p, **options)
        assert again.low == pytest.approx(relevant, abs=0.01)
    assert changed_mean_test(gains, 1000, relevant=5.0, **options).p == 1.0


def test_success_and_ranks() -> None:
    changed = [1] * 30 + [-1] * 10
    assert mcnemar_test(changed, 100).p == pytest.approx(stats.binomtest(30, 40, alternative="greater").pvalue)
    ps = [mcnemar_test(changed, 100, relevant=size).p for size in (0.0, 0.05, 0.1, 0.3)]
    assert ps == sorted(ps)
    assert ps[-1] == 1.0
    base = np.arange(200.0)
    options = {"invented_loss": 1.0, "resamples": 500, "rng_seed": 0}
    assert rank_test(base + 5, base, base >= 0, MEDIAN, relevant=1.0, **options).p < 0.05
    assert rank_test(base + 5, base, base >= 0, MEDIAN, relevant=6.0, **options).p == 1.0


def test_independent_samples() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(1.0, 1.0, 50), rng.normal(0.0, 2.0, 70)
    found = unpaired(first, second)
    expected = stats.ttest_ind(first, second, equal_var=False)
    assert found.p == pytest.approx(expected.pvalue / 2)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert unpaired([1.0, 1.0], [1.0, 1.0]).p == 1.0
    assert paired([1.0, 2.0, 4.0], [1.0, 1.0, 1.0]).mean == pytest.approx(
        unpaired([1.0, 2.0, 4.0], [1.0, 1.0, 1.0]).mean
    )


def test_intervals_of_selected_candidates_are_wider() -> None:
    """One of five is selected: its interval has the level 1 - alpha / 5 (false coverage rate)."""
    rng = np.random.default_rng(0)
    gains = [rng.normal(mean, 2.0, 200) for mean in (2.0, 0.0, 0.0, 0.0, 0.0)]
    pairs = [Pairs(result(one.tolist()), result([0.0] * 200), np.ones(200, np.bool_)) for one in gains]
    judge = Judge([pair.guided for pair in pairs], pairs, EvaluationSettings(relevant="0"), seed=0)
    effects, q = judge.effects([False] * 5, [False] * 5)
    assert [value < 0.05 for value in q] == [True, False, False, False, False]
    alone = judge.effect(pairs[0])
    assert effects[0].low < alone.low
    assert effects[0].high > alone.high
    assert effects[1].low == judge.effect(pairs[1]).low
