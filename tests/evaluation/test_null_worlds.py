"""Worlds in which guidance changes returns and has no effect on the mean: the confirmation keeps its level.

All worlds with 300 studies each: ``python -m lab.bench confirmation``.
"""

import numpy as np
import pytest
from scipy import stats

from lab.bench.null_worlds import RULE_SETS, WORLDS, confirm_changes, null_study

FEW = 16
MOST = int(stats.binom.isf(0.001, FEW, 0.05))
"""A valid test at 5 % confirms something in more of the studies only once in a thousand times."""


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["normal", "losses in 3 %, two", "losses in 2 %, noisy", "gains in 1 %, varied"])
def test_worlds_without_effect_confirm_nothing(name: str) -> None:
    assert sum(null_study(WORLDS[name], seed) > 0 for seed in range(FEW)) <= MOST


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["normal", "heavy tails", "losses in 3 %, noisy"])
def test_effects_of_exactly_the_smallest_of_interest_are_not_confirmed(name: str) -> None:
    size = float(WORLDS[name](np.random.default_rng(0), 100_000).std())
    assert sum(null_study(WORLDS[name], seed, effect=size) > 0 for seed in range(FEW)) <= MOST


@pytest.mark.parametrize("name", WORLDS)
def test_the_changes_of_a_world_without_effect_have_mean_zero(name: str) -> None:
    sample = WORLDS[name](np.random.default_rng(0), 400_000)
    assert abs(sample.mean()) < 4.0 * sample.std() / np.sqrt(len(sample))


def test_a_t_test_would_confirm_what_is_not_there() -> None:
    """What makes the test here necessary: with twenty rule sets most studies would."""
    world, rng = WORLDS["losses in 2 %, varied"], np.random.default_rng(0)
    p = np.array([stats.ttest_1samp(world(rng, 200), 0.0, alternative="greater").pvalue for _ in range(400)])
    assert np.mean(p < 0.05 / RULE_SETS) > 0.02


def test_an_effect_among_nothing_is_confirmed() -> None:
    rng = np.random.default_rng(0)
    changes = [rng.normal(0.0, 100.0, 200) for _ in range(RULE_SETS)]
    changes[7] += 40.0
    q = confirm_changes(changes, 0)
    assert np.flatnonzero(q < 0.05).tolist() == [7]


def test_too_few_changed_episodes_are_too_rare_to_tell() -> None:
    q = confirm_changes([np.full(199, 100.0), np.full(200, 100.0)], 0)
    assert q[0] == 1.0
    assert q[1] < 1e-6
