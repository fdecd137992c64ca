"""From scores to actions: what is drawn how often, and what is refused."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from legible.errors import LegibleError
from legible.features import Action, ActionGroup, Feature, FeatureSpace, Regions
from legible.play import PolicyChooser, SingleSlots, adapt_policy, check_exploration, check_policy, choose_actions
from legible.play.choosing import typical_actions
from legible.policies import PolicyError, load_policy
from legible.streams import policy_keys
from play.playing import network, play
from play.spaces_environments import Picture, Walk, make_model
from toy_environments import Constant, Scripted

STEPS = np.zeros(20_000, np.int64)
MANY = policy_keys(range(20_000))


def frequencies(scores: Sequence[float], **exploration: Any) -> np.ndarray:
    """Return how often each action is taken, over many episodes."""
    rows = np.tile(np.array(scores, np.float32), (len(MANY), 1))
    return np.bincount(choose_actions(rows, MANY, STEPS, **exploration), minlength=len(scores))


SCORES = arrays(np.float32, st.tuples(st.integers(1, 8), st.integers(1, 6)), elements=st.floats(-5, 5, width=32))


@settings(deadline=None)  # the first call may have to compile
@given(SCORES)
def test_without_exploration_the_first_of_the_best_is_taken(scores: np.ndarray) -> None:
    keys, steps = policy_keys(range(len(scores))), np.arange(len(scores))
    np.testing.assert_array_equal(choose_actions(scores, keys, steps), scores.argmax(axis=1))
    np.testing.assert_array_equal(choose_actions(scores.astype(np.float64), keys, steps), scores.argmax(axis=1))
    np.testing.assert_array_equal(choose_actions(np.asfortranarray(scores), keys, steps), scores.argmax(axis=1))


@settings(deadline=None)  # the first call may have to compile
@given(SCORES, st.floats(0, 1), st.booleans(), st.randoms(use_true_random=False))
def test_a_row_is_chosen_for_alone(scores: np.ndarray, epsilon: float, sample: bool, random: Any) -> None:
    keys, steps = policy_keys(range(len(scores))), np.arange(len(scores)) * 3
    actions = choose_actions(scores, keys, steps, epsilon=epsilon, sample=sample)
    order = random.sample(range(len(scores)), len(scores))
    moved = choose_actions(scores[order], keys[order], steps[order], epsilon=epsilon, sample=sample)
    np.testing.assert_array_equal(moved, actions[order])


@settings(deadline=None)  # the first call may have to compile
@given(SCORES, st.data(), st.floats(0, 1), st.booleans())
def test_blocked_actions_are_never_taken(scores: np.ndarray, data: Any, epsilon: float, sample: bool) -> None:
    blocked = data.draw(arrays(np.bool_, scores.shape))
    blocked[np.arange(len(scores)), scores.argmax(axis=1)] = False
    guided = np.where(blocked, np.float32(-np.inf), scores)
    actions = choose_actions(
        guided, policy_keys(range(len(scores))), np.zeros(len(scores), np.int64), epsilon=epsilon, sample=sample
    )
    assert not blocked[np.arange(len(scores)), actions].any()


MIXED = np.array([0.5, 0.05, 0.3, 0.15])
BLOCKED = -np.inf


@pytest.mark.parametrize(
    ("scores", "exploration", "expected"),
    [
        ([5.0, 1.0, 0.0, -3.0, 2.0], {"epsilon": 1.0}, [0.2] * 5),
        ([1.0, 9.0, 0.0, 3.0], {"epsilon": 0.2}, [0.05, 0.85, 0.05, 0.05]),
        ([0.0] * 5, {"epsilon": 0.1}, [0.92, 0.02, 0.02, 0.02, 0.02]),  # one draw for both questions would favour some
        ([1.0, BLOCKED, 0.0, BLOCKED], {"epsilon": 1.0}, [0.5, 0, 0.5, 0]),
        (np.log(MIXED), {"sample": True}, MIXED),
        (np.log(MIXED) - 7.5, {"sample": True}, MIXED),
        (np.log(MIXED) + 500.0, {"sample": True}, MIXED),
        (np.log(MIXED), {"sample": True, "epsilon": 0.5}, 0.5 * MIXED + 0.125),
        ([BLOCKED, 0.0, BLOCKED], {"sample": True}, [0, 1, 0]),
        ([BLOCKED, -1.0, -1.0, BLOCKED], {"sample": True}, [0, 0.5, 0.5, 0]),
        ([0.0, np.inf, 3.0], {"sample": True}, [0, 1, 0]),
        ([BLOCKED] * 4, {}, [0.25] * 4),
        ([BLOCKED] * 4, {"sample": True}, [0.25] * 4),
        ([BLOCKED] * 4, {"epsilon": 0.3}, [0.25] * 4),
    ],
)
def test_actions_follow_their_probabilities(scores: Any, exploration: dict[str, Any], expected: Any) -> None:
    taken, shares = frequencies(scores, **exploration), np.asarray(expected, float)
    assert not taken[shares == 0].any()
    if (shares > 0).sum() > 1:
        assert stats.chisquare(taken[shares > 0], len(MANY) * shares[shares > 0]).pvalue > 1e-3


def test_choices_stay_what_they_are() -> None:
    """Results that people keep depend on which numbers of its stream an episode uses for what."""
    keys, steps = policy_keys(range(12)), np.arange(12)
    rows = np.tile(np.array([0.0, 0.5, -np.inf, 1.0, 0.2], np.float32), (12, 1))
    for exploration, pinned in (
        ({"epsilon": 0.9}, [4, 3, 4, 4, 3, 1, 3, 3, 0, 1, 0, 3]),
        ({"sample": True}, [1, 1, 4, 1, 1, 1, 3, 3, 3, 3, 3, 3]),
        ({"epsilon": 0.6, "sample": True}, [1, 1, 4, 1, 3, 1, 3, 3, 3, 1, 0, 3]),
    ):
        assert choose_actions(rows, keys, steps, **exploration).tolist() == pinned
    assert choose_actions(np.full((12, 5), -np.inf), keys, steps).tolist() == [4, 2, 4, 4, 3, 1, 2, 0, 1, 2, 0, 2]


def test_draws_differ_from_step_to_step() -> None:
    """Exploration and the random action are drawn in every step of an episode."""
    keys = np.repeat(policy_keys([5]), 20_000)
    rows = np.tile(np.array([0.0, 1.0, 0.0, 0.0], np.float32), (20_000, 1))
    explored = choose_actions(rows, keys, np.arange(20_000), epsilon=0.4)
    taken = np.bincount(explored, minlength=4)
    assert stats.chisquare(taken, 20_000 * np.array([0.1, 0.7, 0.1, 0.1])).pvalue > 1e-3
    pairs = np.histogram2d(explored[:-1], explored[1:], bins=4)[0]
    assert stats.chi2_contingency(pairs).pvalue > 1e-3


# Choosing with a policy


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, np.nan])
def test_epsilon_is_a_probability_and_values_cannot_be_sampled_from(epsilon: float, raises_saved) -> None:
    with raises_saved(LegibleError):
        PolicyChooser(Constant(0, 1), [], epsilon=epsilon)
    with raises_saved(LegibleError):
        check_exploration(Constant(0, 1), 0.0, sample=True)
    check_exploration(Constant(0, 1, kind="log-probabilities"), 0.0, sample=True)


class Returns(Constant):
    """A policy that breaks its promise."""

    def __init__(self, answer: Any) -> None:
        super().__init__(0, 1)
        self.answer = answer

    def scores(self, observations: np.ndarray) -> np.ndarray:  # noqa: ARG002 (a policy's signature)
        return self.answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.zeros((5, 2)), r"must have shape \(1, 2\), but have shape \(5, 2\)"),
        (np.zeros((0, 2)), r"must have shape \(1, 2\)"),
        (np.zeros((1, 3)), r"must have shape \(1, 2\)"),
        (np.zeros(2), r"must have shape \(1, 2\)"),
        (np.array([[np.nan, 0.0]]), "NaN for row 0"),
    ],
)
def test_scores_that_cannot_be_are_refused(answer: np.ndarray, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        play(SingleSlots([Scripted()]), Returns(answer), [3])


def test_scores_may_be_whole_numbers_or_a_list() -> None:
    for answer in (np.array([[0, 1]]), [[0.0, 1.0]]):
        _, steps = play(SingleSlots([Scripted()]), Returns(answer), [3])
        assert [step.actions.tolist() for step in steps] == [[1]] * 3


def test_a_policy_for_other_observations_is_refused(raises_saved) -> None:
    with raises_saved(PolicyError):
        play(SingleSlots([Scripted()]), network(5, 2), [3])


@pytest.mark.parametrize(
    ("algorithm", "environment", "said"),
    [
        ("RecurrentPPO", Walk, "the policy remembers earlier observations: legible play supports"),
        ("DQN", Picture, "the policy reads images"),
    ],
)
def test_what_cannot_be_studied_yet_is_refused_and_can_be_played(algorithm, environment, said) -> None:
    policy = load_policy(make_model(algorithm, environment()))
    with pytest.raises(LegibleError, match=said):
        check_policy(policy, policy.n_features, policy.n_actions)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Constant(0, 1, n_features=6), "the policy reads 6 features, but the environment shows 7"),
        (Constant(0, 1, 2), "the policy chooses among 3 actions, but the environment has 2"),
        (np.zeros, r"is not a policy; wrap it with legible\.policies\.load_policy"),
    ],
)
def test_policies_that_do_not_fit_are_refused(policy: Any, message: str) -> None:
    check_policy(Constant(0, 1), 7, 2)
    check_policy(Constant(0, 1, n_features=7), 7, 2)
    with pytest.raises(LegibleError, match=message):
        check_policy(policy, 7, 2)


def test_what_is_typical_of_choices() -> None:
    """A region has a typical action, a numbered choice is itself; choices of all groups are numbered through."""
    groups = (
        ActionGroup("steer", 0, 2, Regions(-1.0, 1.0, (0.0,), (-0.5, 0.75))),
        ActionGroup("lean", 2, 2, Regions(-2.0, 2.0, (1.0,), (-1.0, 1.5))),
    )
    actions = tuple(Action(f"{name}.{side}") for name in ("steer", "lean") for side in ("left", "right"))
    space = FeatureSpace((Feature("x"), Feature("y")), actions, groups)
    moves = adapt_policy(load_policy(lambda rows: rows, output="actions", n_features=2), space=space)
    choices = np.array([[0, 2], [1, 3], [0, 3]])
    assert typical_actions(moves, choices).tolist() == [[-0.5, -1.0], [0.75, 1.5], [-0.5, 1.5]]
    plain = load_policy(lambda rows: rows, output="values", n_features=2, n_actions=2)
    assert typical_actions(plain, np.array([[1], [0]])).tolist() == [1, 0]
