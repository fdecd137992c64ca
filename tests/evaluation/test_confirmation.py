"""The level at which candidates are tested together, by hand."""

import numpy as np
import pytest

from legible.evaluation.changed import changed_mean_test, resamples_for
from legible.evaluation.confirmation import Judge
from legible.evaluation.pairs import Pairs
from legible.settings import EvaluationSettings
from played_blocks import result


@pytest.mark.parametrize("candidates", [1, 2, 5])
def test_the_level_is_shared_by_all_candidates(candidates: int) -> None:
    """What a lone effect has to pass among m tests is alpha / m: the smallest effect that would be shown grows."""
    gains = np.random.default_rng(0).normal(1.0, 2.0, 40)
    base, guided = result([0.0] * 40), result(gains.tolist())
    settings = EvaluationSettings(alpha=0.05)
    pairs = [Pairs(guided, base, np.ones(40, np.bool_))] * candidates
    found = Judge([base, guided], pairs, settings, seed=3).effects([False] * candidates)
    expected = changed_mean_test(
        gains,
        40,
        invented_loss=float(-gains.min()),
        resamples=resamples_for(candidates, 0.05),
        rng_seed=3,
        alpha=0.05 / candidates,
    )
    assert [(effect.p, effect.detectable) for effect in found] == [(expected.p, expected.detectable)] * candidates
    rare = Judge([base, guided], pairs, settings, seed=3).effects([True] * candidates)
    assert [effect.p for effect in rare] == [1.0] * candidates
