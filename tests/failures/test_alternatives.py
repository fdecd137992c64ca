"""The best other choice in some states: selected on half of the episodes, measured on the others."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from legible.failures import Trials, find_alternative
from legible.features import FeatureSpace
from legible.play import Experiences

SPACE = FeatureSpace.of(["heat"], ["continue", "slow", "stop"])
GO, SLOW, STOP = range(3)
INSIDE = np.tile([False, True], 20)


def drives(scores: tuple[float, ...] = (2.0, 1.0, 0.0)) -> Experiences:
    """Twenty episodes of two steps; the engine is hot at the second, and the policy always continues."""
    n = 20
    return Experiences(
        observations=np.tile(np.array([[0.0], [1.0]], np.float32), (n, 1)),
        actions=np.zeros(2 * n, np.int64),
        scores=np.tile(np.array(scores, np.float32), (2 * n, 1)),
        episode_ids=np.repeat(np.arange(n), 2),
        returns=np.zeros(n),
        lengths=np.full(n, 2),
        seeds=np.arange(n),
        success=np.full(n, np.nan),
        space=SPACE,
        endings=np.full(n, "failure: it overheats"),
    )


def trials_of(gains: dict[int, NDArray[np.float64]]) -> dict[int, Trials]:
    """Results of the decisions in hot states: what each choice gains, by the number of steps for which it is held."""
    found = {}
    for hold, gain in gains.items():
        returns = np.hstack([np.zeros((len(gain), 1)), gain])
        found[hold] = Trials(returns, (returns <= 0.0).astype(np.float64))
    return found


def gains_of(*means: float, noise: float = 0.1) -> NDArray[np.float64]:
    return np.array(means) + noise * np.random.default_rng(0).normal(size=(20, 3))


def alternative(gains: dict[int, NDArray[np.float64]], score_kind: str = "values", experiences=None):
    return find_alternative(experiences or drives(), INSIDE, np.flatnonzero(INSIDE), trials_of(gains), score_kind)


def test_the_best_choice_is_named_and_measured(snapshot) -> None:
    found = alternative({1: gains_of(0.0, 0.2, 1.0), 10: gains_of(0.0, 5.0, 1.0)})
    assert (found.best, found.hold, found.decisions) == ("doing “slow”", 10, 10)
    assert found.is_better
    assert found.gain.low < 5.0 < found.gain.high
    assert (found.fails, found.fails_as_played) == (0.0, 1.0)
    assert (found.usual_share, found.elsewhere) == (1.0, 1.0)
    assert found.preference == -1.0
    assert found.sentences()[1] == snapshot
    assert found.to_dict()["held_for"] == 10


def test_the_episodes_that_measure_it_did_not_select_it() -> None:
    gains = np.zeros((20, 3))
    gains[:10, STOP], gains[10:, STOP] = 3.0, -1.0  # the first half selects a choice that harms in the second
    gains[:, SLOW] = 0.1
    found = alternative({1: gains})
    assert found.best == "doing “stop”"
    assert found.gain.value == -1.0
    assert not found.is_better


def test_noise_is_not_called_better(snapshot) -> None:
    found = alternative({1: gains_of(0.0, 0.0, 0.0, noise=1.0)})
    assert not found.is_better
    assert found.gain.low < 0.0 < found.gain.high
    assert len(found.sentences()) == 1
    assert found.habit() == snapshot


def test_a_choice_that_is_forbidden_gains_nothing() -> None:
    gains = gains_of(0.0, 1.0, 2.0)
    gains[:, STOP] = np.nan
    assert alternative({1: gains}).best == "doing “slow”"


def test_probabilities_of_the_better_choice(snapshot) -> None:
    likely = drives(scores=tuple(np.log([0.9, 0.08, 0.02])))
    found = alternative({1: gains_of(0.0, 0.0, 1.0)}, "log-probabilities", likely)
    assert found.preference == pytest.approx(0.02)
    assert found.sentences()[1] == snapshot


def test_few_episodes_or_choices_without_effect_give_no_verdict() -> None:
    assert alternative({1: np.zeros((20, 3))}) is None
    few = drives()
    few = replace(
        few,
        episode_ids=np.repeat(np.arange(4), 10),
        lengths=np.full(4, 10),
        **{name: getattr(few, name)[:4] for name in ("returns", "seeds", "success", "endings")},
    )
    assert alternative({1: gains_of(0.0, 1.0, 2.0)}, experiences=few) is None
