"""The level at which candidates are tested together, by hand."""

import numpy as np
import pytest

from drawn_play import LENGTH, SETUP, DrawnPlay, always, rule, rule_set
from legible.evaluation.changed import changed_mean_test, resamples_for
from legible.evaluation.confirmation import Expectation, Judge, confirm
from legible.evaluation.pairs import Pairs
from legible.evaluation.recorded import Repetition
from legible.rules import RuleSet
from legible.settings import EvaluationSettings
from played_blocks import result


@pytest.mark.parametrize("candidates", [1, 2, 5])
def test_the_level_is_shared_by_all_candidates(candidates: int) -> None:
    """What a lone effect has to pass among m tests is alpha / m: the smallest effect that would be shown grows."""
    gains = np.random.default_rng(0).normal(1.0, 2.0, 40)
    base, guided = result([0.0] * 40), result(gains.tolist())
    settings = EvaluationSettings(alpha=0.05)
    pairs = [Pairs(guided, base, np.ones(40, np.bool_))] * candidates
    found, _ = Judge([base, guided], pairs, settings, seed=3).effects([False] * candidates, [False] * candidates)
    expected = changed_mean_test(
        gains,
        40,
        invented_loss=float(-gains.min()),
        resamples=resamples_for(candidates, 0.05),
        rng_seed=3,
        alpha=0.05 / candidates,
    )
    assert [(effect.p, effect.detectable) for effect in found] == [(expected.p, expected.detectable)] * candidates
    rare, _ = Judge([base, guided], pairs, settings, seed=3).effects([True] * candidates, [False] * candidates)
    assert [effect.p for effect in rare] == [1.0] * candidates


def test_seeds_and_steps_of_candidates_and_of_the_rules_behind_them() -> None:
    """A small effect is confirmed on 400 changed episodes, its mined rule alone on the usual 200.

    The second is its own mined rule; of the third the race lets expect nothing, so that it plays where others did.
    """
    settings = EvaluationSettings(confirmation_changes=200, confirmation_seeds=1000)
    candidates = [rule_set(0, 1), rule_set(2), RuleSet((rule(3),))]
    expected = [Expectation(1.0, changes=400), Expectation(1.0), Expectation(0.0)]
    draws = {rule(0): always(1.0), rule(1): always(2.0), rule(2): always(3.0), rule(3): always(4.0)}
    run = DrawnPlay(draws)
    repetition = Repetition(rows=128, holds=False)
    found = confirm(SETUP, repetition, candidates, expected, seed=0, settings=settings, run=run)
    small, own, rare = found.confirmations
    known = len(found.blocks.base)
    assert [one.effect.seeds for one in found.confirmations] == [400, 200, known]
    assert [one.effect.mean for one in found.confirmations] == pytest.approx([3.0, 3.0, 4.0])
    assert (small.of_rule.seeds, small.of_rule.mean) == (200, pytest.approx(1.0))
    assert (small.of_generalisation.seeds, small.of_generalisation.mean) == (200, pytest.approx(2.0))
    assert (own.of_rule.mean, own.of_generalisation.mean) == (pytest.approx(3.0), 0.0)
    assert (rare.of_rule, rare.of_generalisation) == (None, None)
    assert [one.is_too_rare for one in found.confirmations] == [False, False, True]
    assert (rare.effect.p, rare.q, small.failed, small.failed_unguided) == (1.0, 1.0, 0, 0)
    assert found.steps == (LENGTH * (400 + 200), LENGTH * 200, LENGTH * known)
    assert [len(one) for one in found.blocks.results[1:]] == [400, 200, known, 200]
    assert run.episodes == known + 400 + 200 + known + 200


def test_candidates_that_show_nothing_on_a_quarter_of_their_episodes_are_given_up() -> None:
    """Their p is 1, and the mined rule behind them is not played: 50 episodes instead of 200 and 200."""
    settings = EvaluationSettings(confirmation_changes=200, confirmation_seeds=1000, relevant="1")
    draws = {rule(0): always(0.5), rule(1): always(0.2), rule(2): always(1.5), rule(3): always(1.5)}
    run = DrawnPlay(draws)
    candidates, expected = [rule_set(0, 1), rule_set(2, 3)], [Expectation(1.0)] * 2
    repetition = Repetition(rows=128, holds=False)
    found = confirm(SETUP, repetition, candidates, expected, seed=0, settings=settings, run=run)
    poor, good = found.confirmations
    assert (poor.effect.seeds, poor.effect.p, poor.q, poor.is_too_rare, poor.of_rule) == (50, 1.0, 1.0, False, None)
    assert (good.effect.seeds, good.is_passed(0.05), good.of_rule.seeds) == (200, True, 200)
    assert run.episodes == len(found.blocks.base) + 50 + 200 + 200
