"""Losses that are too rare for a sample: break-even rates by hand, and worlds in which they cancel every gain."""

import numpy as np
import pytest
from scipy import stats

from lab.bench.rare_loss_worlds import World, study
from legible.evaluation.rare_losses import WorstLoss, judge_rare_losses


def test_rates_by_hand() -> None:
    """Nine gains of 1 and a loss of 6: without it the mean is 1, which losses of 6 in 1 of 7 episodes cancel."""
    found = judge_rare_losses([1.0] * 9 + [-6.0])
    assert (found.size, found.seen, found.changed) == (6.0, 1, 10)
    assert found.break_even == pytest.approx(1 / 7)
    assert stats.binom.cdf(1, 10, found.excluded) == pytest.approx(0.05)
    assert not found.is_excluded


def test_the_rule_of_three() -> None:
    found = judge_rare_losses(np.ones(3000), 100.0)
    assert found.excluded == pytest.approx(3 / 3000, rel=0.01)
    assert found.is_excluded
    assert 0.95 * 300 < found.episodes_needed < 1.05 * 303


@pytest.mark.parametrize("changed", [[], [-1.0], [-1.0, -2.0], [0.0, 0.0]])
def test_without_a_gain_there_is_nothing_to_cancel(changed) -> None:
    found = judge_rare_losses(changed, 10.0)
    assert found.break_even == 0.0
    assert found.episodes_needed == 0
    assert found.sentence() == ""


def test_what_is_said(snapshot) -> None:
    assert judge_rare_losses(np.ones(300), 1000.0).sentence() == snapshot
    assert judge_rare_losses(np.ones(300), 10.0, is_known=True).sentence() == snapshot
    assert judge_rare_losses(np.ones(300), 0.5).sentence() == (
        "Losses of 0.5 (the worst seen in this study) in half of the changed episodes would not cancel the gain."
    )


def test_the_worst_loss_of_all() -> None:
    worst = WorstLoss()
    for differences in ([1.0, -2.0], [], [np.nan, -7.0], [5.0]):
        worst.add(differences)
    assert worst.size == 7.0
    known = WorstLoss(50.0)
    known.add([-99.0])
    assert (known.size, known.is_known) == (50.0, True)


def test_a_gain_that_losses_elsewhere_may_cancel_is_not_confirmed() -> None:
    """Every rule set earns 0.3 an episode, and loses 1,000 in 3 of 10,000: the race has seen that, as was foreseen."""
    world = World(0.3, 1000.0, 3 / 10_000, noise=0.5)
    found = [study(world, seed) for seed in range(3)]
    assert not any(one.confirmed for one in found)
    assert all(one.worst_loss > 900 for one in found)


def test_a_plain_gain_is_confirmed_with_its_break_even_rate() -> None:
    found = study(World(0.0, planted=2.0), 0)
    (verdict,) = found.confirmed
    rare = verdict.confirmation.rare_losses
    assert rare.is_excluded
    assert rare.size == found.worst_loss
    assert rare.break_even > 0.2


@pytest.mark.statistical
def test_worlds_with_rare_losses_confirm_nothing_false() -> None:
    worlds = [World(0.9 * size * rate, size, rate) for size in (300.0, 3000.0) for rate in (1 / 300, 3 / 10_000)]
    confirmed = [bool(study(world, seed).confirmed) for world in worlds for seed in range(8)]
    assert sum(confirmed) <= stats.binom.isf(0.001, len(confirmed), 0.05)


def test_more_episodes_are_played_until_rare_losses_are_excluded() -> None:
    """Every deviation gains 2 and loses 400 in 1 of 3,000: usual samples cannot exclude that this cancels the gain."""
    world = World(2.0, 400.0, 1 / 3000, noise=0.5)
    usual, longer = study(world, 1), study(world, 1, until_excluded=True)
    assert usual.unless_rare_losses
    played = [
        max(v.confirmation.effect.changed for v in one.verdicts if v.confirmation is not None)
        for one in (usual, longer)
    ]
    assert played[1] > 2 * played[0]
    assert len(longer.confirmed) > len(usual.confirmed)
