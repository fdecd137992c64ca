"""Batched LIME: against hand-worked sums, scikit-learn's Ridge, the lime package, and laws that must hold."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lime.lime_base import LimeBase
from lime.lime_tabular import LimeTabularExplainer
from scipy.stats import ks_2samp, spearmanr
from sklearn.linear_model import Ridge

from legible.errors import LegibleError
from legible.features import Action, Feature, FeatureSpace, Intervals, above, deciles
from legible.mining import Importance, ImportanceError
from legible.mining.lime import lime_importance
from legible.mining.lime.regression import kernel_weights, normal_equations, solve
from legible.mining.lime.sampling import DRAWS, DrawnValues

ACTIONS = 5
lawful = settings(deadline=None, max_examples=25, derandomize=True)


def make_space(flags: int, numbers: int, actions: int = ACTIONS) -> FeatureSpace:
    return FeatureSpace(
        tuple(Feature(f"flag{i}", "categorical") for i in range(flags))
        + tuple(Feature(f"number{i}") for i in range(numbers)),
        tuple(Action(f"action{i}") for i in range(actions)),
    )


def make_background(flags: int, numbers: int, rows: int = 2000, seed: int = 0) -> np.ndarray:
    """Flags of different frequency and whole numbers from 0, as in PAC-Man's observations."""
    rng = np.random.default_rng(seed)
    columns = [rng.random((rows, flags)) < rng.uniform(0.1, 0.9, flags), np.floor(rng.gamma(2.0, 6.0, (rows, numbers)))]
    return np.concatenate(columns, axis=1).astype(np.float32)


class Network:
    """A random network in float64 that keeps what it was asked; it looks at some features more than at others."""

    def __init__(self, background: np.ndarray, actions: int = ACTIONS, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        features = background.shape[1]
        self.first = rng.normal(size=(features, 16)) / np.maximum(background.std(axis=0), 0.1)[:, None]
        self.first *= rng.permutation(np.geomspace(0.05, 1.0, features))[:, None]
        self.second = rng.normal(size=(16, actions))
        self.asked: list[np.ndarray] = []

    def scores(self, observations: np.ndarray) -> np.ndarray:
        self.asked.append(observations.copy())
        return np.tanh(observations.astype(np.float64) @ self.first) @ self.second

    def probabilities(self, observations: np.ndarray) -> np.ndarray:
        return softmax(self.scores(observations.astype(np.float32)))


def softmax(scores: np.ndarray) -> np.ndarray:
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def indicators(drawn: np.ndarray, state: np.ndarray, intervals: Intervals) -> np.ndarray:
    """Rows of LIME's regression: the state itself first, then what was drawn."""
    same = intervals.encode(drawn) == intervals.encode(state[None])
    return np.concatenate([np.ones((1, drawn.shape[1])), same]).astype(np.float64)


# The regression


def test_one_feature_worked_by_hand() -> None:
    # Rows (x, weight, y): the state (1, 1, .8), and (0, ½, .2), (1, 1, .6), (1, 1, .8). Their means are x = 6/7 and
    # y = 23/35, Σw(x−x̄)(y−ȳ) = 8/35, Σw(x−x̄)² = 3/7; so the weight is (8/35) / (3/7 + 1) = .16.
    pool = np.array([[0], [1], [1]], np.uint16)
    targets = np.array([[0.2], [0.6], [0.8]])
    gram, moments = normal_equations(pool, targets, np.array([1], np.uint16), np.array([0.8]), np.array([1.0, 0.5]))
    weights, shift = solve(gram, moments, ridge=1.0)
    np.testing.assert_allclose(weights, [[0.16]], rtol=1e-14)
    np.testing.assert_allclose(0.8 + shift, [0.52], rtol=1e-14)


@lawful
@given(
    features=st.integers(1, 90),
    rows=st.integers(1, 400),
    actions=st.integers(1, 6),
    bins=st.integers(1, 12),
    width=st.floats(0.3, 20.0),
    ridge=st.floats(0.01, 100.0),
    seed=st.integers(0, 10**6),
)
def test_same_weights_as_ridge(
    features: int, rows: int, actions: int, bins: int, width: float, ridge: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    pool = rng.integers(bins, size=(rows, features)).astype(np.uint16)
    state = rng.integers(bins + 1, size=features).astype(np.uint16)
    targets, own = rng.random((rows, actions)), rng.random(actions)
    kernel = kernel_weights(features, width)
    weights, shift = solve(*normal_equations(pool, targets, state, own, kernel), ridge)

    x = np.concatenate([np.ones((1, features)), pool == state])
    y = np.concatenate([own[None], targets])
    importance = kernel[(x == 0).sum(axis=1)]
    model = Ridge(alpha=ridge, solver="cholesky").fit(x, y, sample_weight=importance)
    np.testing.assert_allclose(weights, np.reshape(model.coef_, weights.shape), rtol=0, atol=1e-10)
    np.testing.assert_allclose(own + shift, np.reshape(model.intercept_, own.shape), rtol=0, atol=1e-10)


# The same observations through the lime package


def as_lime(case: tuple[np.ndarray, FeatureSpace], seed: int, **settings_of_lime: Any) -> LimeTabularExplainer:
    background, space = case
    return LimeTabularExplainer(
        background.astype(np.float64),
        categorical_features=[i for i, f in enumerate(space.features) if f.kind == "categorical"],
        discretizer="decile",
        random_state=seed,
        **settings_of_lime,
    )


def lime_weights(
    explainer: LimeTabularExplainer, predict: Callable[[np.ndarray], np.ndarray], state: np.ndarray, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    explained = explainer.explain_instance(
        state.astype(np.float64), predict, labels=range(ACTIONS), num_features=len(state), num_samples=samples
    )
    weights = np.zeros((ACTIONS, len(state)))
    for action in range(ACTIONS):
        for feature, weight in explained.local_exp[action]:
            weights[action, feature] = weight
    return weights, np.array([explained.intercept[action] for action in range(ACTIONS)])


@pytest.mark.parametrize(("flags", "numbers", "width"), [(8, 4, None), (54, 15, None), (54, 15, 0.5 * 15**0.5)])
@pytest.mark.parametrize("selection", ["none", "highest_weights"])
def test_same_observations_same_weights_as_lime(
    flags: int, numbers: int, width: float | None, selection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    background, space = make_background(flags, numbers), make_space(flags, numbers)
    states, intervals, policy = background[:5], deciles(space, background), Network(background)
    importance = lime_importance(
        policy.scores, background, states, intervals, space, samples=600, pools=2, kernel_width=width, seed=3
    )
    pools = policy.asked[1:]
    explainer = as_lime((background, space), 0, kernel_width=width, feature_selection=selection)
    for i, state in enumerate(states):
        drawn = pools[i % 2]
        sampled = (indicators(drawn, state, intervals), np.concatenate([state[None], drawn]).astype(np.float64))
        monkeypatch.setattr(explainer, "_LimeTabularExplainer__data_inverse", lambda row, count, s=sampled: s)
        weights, intercepts = lime_weights(explainer, policy.probabilities, state, 600)
        np.testing.assert_allclose(importance.weights[i], weights, rtol=0, atol=1e-9)
        np.testing.assert_allclose(importance.intercepts[i], intercepts, rtol=0, atol=1e-9)


def test_more_samples_than_draws_still_fit_lime() -> None:
    background, space = make_background(3, 2), make_space(3, 2)
    intervals, policy = deciles(space, background), Network(background)
    importance = lime_importance(
        policy.scores, background, background[:1], intervals, space, samples=DRAWS + 500, seed=1
    )
    assert [len(asked) for asked in policy.asked] == [1, DRAWS, 499]
    x = indicators(np.concatenate(policy.asked[1:]), background[0], intervals)
    y = policy.probabilities(np.concatenate(policy.asked[:3]))
    distances = np.sqrt((x == 0).sum(axis=1))
    width = 0.75 * np.sqrt(5)
    base = LimeBase(lambda d: np.sqrt(np.exp(-(d**2) / width**2)))
    for action in range(ACTIONS):
        _, found, _, _ = base.explain_instance_with_data(x, y, distances, action, 5, feature_selection="none")
        for feature, weight in found:
            assert importance.weights[0, action, feature] == pytest.approx(weight, abs=1e-9)


# What is drawn


def draw(background: np.ndarray, space: FeatureSpace, intervals: Intervals, rows: int, seed: int = 0) -> np.ndarray:
    """Observations that a policy is asked about when one state is explained."""
    asked: list[np.ndarray] = []

    def remember(observations: np.ndarray) -> np.ndarray:
        asked.append(observations.copy())
        return np.zeros((len(observations), ACTIONS))

    lime_importance(remember, background, background[:1], intervals, space, samples=rows + 1, seed=seed)
    return np.concatenate(asked[1:])


def test_draws_like_lime() -> None:
    rng = np.random.default_rng(5)
    rows = 20_000
    background = np.column_stack(
        [rng.random(3000) < 0.15, rng.integers(0, 4, 3000), rng.normal(3.0, 2.0, 3000), rng.exponential(5.0, 3000)]
    ).astype(np.float32)
    space = make_space(2, 2)
    intervals = deciles(space, background)
    ours = draw(background, space, intervals, rows)
    explainer = as_lime((background, space), 1)
    _, theirs = explainer._LimeTabularExplainer__data_inverse(background[0].astype(np.float64), rows)
    assert ours.shape == theirs.shape

    frequency = [np.bincount(codes, minlength=10) / len(codes) for codes in intervals.encode(background).T]
    for i, expected in enumerate(frequency):
        for drawn in (ours, theirs):
            found = np.bincount(intervals.encode(drawn)[:, i], minlength=10) / rows
            np.testing.assert_allclose(found, expected, atol=5 * np.sqrt(0.25 / rows))
    for i in (2, 3):
        assert ks_2samp(ours[:, i], theirs[:, i]).pvalue > 1e-3
        codes, lime_codes = intervals.encode(ours)[:, i], intervals.encode(theirs)[:, i]
        for code in range(10):
            mine, lime = ours[codes == code, i], theirs[lime_codes == code, i]
            error = lime.std() / np.sqrt(len(lime))
            assert abs(mine.mean() - lime.mean()) < 5 * error
            assert mine.std() == pytest.approx(lime.std(), rel=0.12)
    assert np.abs(np.corrcoef(ours.T) - np.eye(4)).max() < 5 / np.sqrt(rows)


def test_a_bin_with_one_value_keeps_it() -> None:
    # 40 % of the values are the smallest one, so the lowest bin has equal ends: the lime package draws 0 there.
    rng = np.random.default_rng(2)
    background = np.where(rng.random(1000) < 0.4, 7.0, rng.uniform(8.0, 20.0, 1000)).astype(np.float32)[:, None]
    space = make_space(0, 1)
    intervals = deciles(space, background)
    ours = draw(background, space, intervals, 3000)
    assert ours.min() == 7.0
    assert np.mean(ours == 7.0) == pytest.approx(0.4, abs=0.03)
    _, theirs = as_lime((background, space), 0)._LimeTabularExplainer__data_inverse(np.array([9.0]), 3000)
    assert theirs.min() == 0.0


@pytest.mark.parametrize("sentinel", [-1.0, 99.0])
def test_sentinels_are_values_not_ends(sentinel: float) -> None:
    rng = np.random.default_rng(3)
    distance = rng.uniform(1.0, 3.0, 2000)
    background = np.where(rng.random(2000) < 0.3, sentinel, distance).astype(np.float32)[:, None]
    space = FeatureSpace((Feature("distance", sentinels=(sentinel,)),), tuple(Action(f"a{i}") for i in range(ACTIONS)))
    drawn = draw(background, space, deciles(space, background), 4000)
    assert np.mean(drawn == sentinel) == pytest.approx(0.3, abs=0.03)
    known, found = background[background != sentinel], drawn[drawn != sentinel]
    assert known.min() <= found.min() < found.max() <= known.max()


def test_values_next_to_a_cut_stay_on_their_side() -> None:
    just_above = above(np.float32(1.0))
    background = np.array([[just_above], [above(just_above)]] * 50, np.float32)
    drawn = draw(background, make_space(0, 1), Intervals.from_cuts([[1.0]]), 4000)
    assert set(drawn[:, 0]) == set(background[:, 0])


def test_categories_that_share_an_interval_stay_what_they_are() -> None:
    background = np.array([[0.0], [0.0], [2.0], [5.0]] * 50, np.float32)
    drawn = draw(background, make_space(1, 0), Intervals.from_cuts([[3.0]]), 4000)[:, 0]
    assert [np.mean(drawn == value) for value in (0, 2, 5)] == pytest.approx([0.5, 0.25, 0.25], abs=0.03)


@lawful
@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=60),
    st.lists(st.floats(-1e4, 1e4, width=32), max_size=8),
    st.sampled_from(["numeric", "categorical"]),
    st.lists(st.floats(-1e4, 1e4, width=32), max_size=2, unique=True),
)
def test_what_is_drawn_lies_in_its_interval_and_among_the_data(
    values: list[float], cuts: list[float], kind: Any, sentinels: list[float]
) -> None:
    background = np.array(values, np.float32)[:, None]
    space = FeatureSpace((Feature("x", kind, sentinels=tuple(sentinels)),))
    intervals = Intervals.from_cuts([cuts])
    values = DrawnValues.draw(background, intervals, space, np.random.default_rng(0))
    drawn, codes = values.combine(500, np.random.default_rng(1))
    np.testing.assert_array_equal(intervals.encode(drawn), codes)
    assert set(codes[:, 0]) <= set(intervals.encode(background)[:, 0])
    assert background.min() <= drawn.min() or drawn.min() > min(cuts)
    assert drawn.max() <= background.max() or drawn.max() <= max(cuts)
    if kind == "categorical":
        assert set(drawn[:, 0]) <= set(background[:, 0])


def test_how_many_observations_are_asked_about() -> None:
    """100 pools of 4,999 unless told otherwise, and as few as one of one."""
    background, space = make_background(2, 0), make_space(2, 0)
    intervals = deciles(space, background)

    def asked(states: int, **more: int) -> list[int]:
        policy = Network(background)
        lime_importance(policy.scores, background, background[:states], intervals, space, seed=0, **more)
        assert len({rows.tobytes() for rows in policy.asked}) == len(policy.asked) or "samples" in more
        return [len(rows) for rows in policy.asked]

    assert asked(7, pools=3) == [7, 4999, 4999, 4999]  # one pool serves many states
    assert asked(1) == [1, 4999]
    assert asked(102, samples=2) == [102] + [1] * 100
    assert asked(102, samples=2, pools=1) == [102, 1]


def test_values_are_combined_from_a_start_of_their_own_and_around_the_end() -> None:
    order = np.arange(DRAWS)
    drawn = DrawnValues(np.stack([order, order]).astype(np.float32), np.stack([order, order]).astype(np.uint16))
    values, codes = drawn.combine(DRAWS, np.random.default_rng(0))
    np.testing.assert_array_equal(values, codes)
    np.testing.assert_array_equal(np.diff(values, axis=0) % DRAWS, 1)
    assert values[0, 0] != values[0, 1]
    assert DRAWS == 8192  # what is drawn, and so the rules of finished studies, depends on it


# Laws


def scores_of(weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A linear policy, computed row by row so that a row's scores do not depend on its batch."""
    return lambda observations: (observations.astype(np.float64)[:, :, None] * weights).sum(axis=1)


def small_case(seed: int = 0) -> tuple[np.ndarray, np.ndarray, Intervals, FeatureSpace]:
    background, space = make_background(6, 2, seed=seed), make_space(6, 2)
    return background, background[:12], deciles(space, background), space


@lawful
@given(used=st.integers(0, 5), strength=st.floats(0.5, 5.0), seed=st.integers(0, 1000))
def test_ignored_features_have_next_to_no_weight(used: int, strength: float, seed: int) -> None:
    weights = np.zeros((8, ACTIONS))
    weights[used, 2] = strength
    importance = lime_importance(scores_of(weights), *small_case(), samples=1000, seed=seed)
    size = np.abs(importance.weights).max(axis=0)
    # The ridge shrinks the used feature a little, and what is left over rubs off on chance companions.
    assert np.delete(size, used, axis=1).max() < 0.01 * size[2, used]
    assert importance.of("+", 2).argmax() == importance.of("-", 2).argmax() == used


def test_signs_say_for_and_against() -> None:
    background, states, intervals, space = small_case()
    weights = np.zeros((8, ACTIONS))
    weights[1, 3] = 2.0
    importance = lime_importance(scores_of(weights), background, states, intervals, space, samples=1000, seed=0)
    on = states[:, 1] == 1
    assert on.any()
    assert (~on).any()
    assert (importance.weights[on, 3, 1] > 0.05).all()
    assert (importance.weights[~on, 3, 1] < -0.05).all()
    assert (importance.weights[on, 0, 1] < 0).all()


@lawful
@given(level=st.lists(st.floats(-50, 50), min_size=ACTIONS, max_size=ACTIONS), seed=st.integers(0, 1000))
def test_a_constant_policy_has_no_weights(level: list[float], seed: int) -> None:
    importance = lime_importance(lambda x: np.tile(level, (len(x), 1)), *small_case(), samples=200, seed=seed)
    assert not importance.weights.any()
    assert not importance.positive.any()
    assert not importance.negative.any()
    np.testing.assert_allclose(importance.intercepts, np.tile(softmax(np.array([level])), (12, 1)), rtol=1e-12)


@lawful
@given(order=st.permutations(range(ACTIONS)), seed=st.integers(0, 1000))
def test_permuted_actions_permute_the_weights(order: list[int], seed: int) -> None:
    weights = np.random.default_rng(seed).normal(size=(8, ACTIONS))
    plain = lime_importance(scores_of(weights), *small_case(), samples=200, seed=seed)
    permuted = lime_importance(scores_of(weights[:, order]), *small_case(), samples=200, seed=seed)
    np.testing.assert_allclose(permuted.weights, plain.weights[:, order], rtol=0, atol=1e-12)


@lawful
@given(shift=st.floats(-300, 300), seed=st.integers(0, 1000))
def test_weights_of_all_actions_cancel_and_scores_may_shift(shift: float, seed: int) -> None:
    linear = scores_of(np.random.default_rng(seed).normal(size=(8, ACTIONS)))
    plain = lime_importance(linear, *small_case(), samples=200, seed=seed)
    shifted = lime_importance(lambda x: linear(x) + shift, *small_case(), samples=200, seed=seed)
    np.testing.assert_allclose(plain.weights.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(plain.intercepts.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(shifted.weights, plain.weights, rtol=0, atol=1e-9)


def test_one_seed_one_result_to_the_bit() -> None:
    background, states, intervals, space = small_case()
    policy = Network(background)

    def run(seed: int | np.random.Generator, states: np.ndarray = states) -> np.ndarray:
        return lime_importance(
            policy.scores, background, states, intervals, space, samples=300, pools=4, seed=seed
        ).weights

    assert run(7).tobytes() == run(7).tobytes()
    assert run(7).tobytes() == run(np.random.default_rng(7)).tobytes()
    assert not np.allclose(run(7), run(8), atol=1e-6)
    np.testing.assert_allclose(run(7, states[:6]), run(7)[:6], rtol=0, atol=1e-12)


def test_a_constant_feature_has_no_weight_at_all() -> None:
    background, space = make_background(5, 2), make_space(5, 2)
    background[:, 3] = 1.0
    background[:, 6] = 4.0
    importance = lime_importance(
        Network(background).scores, background, background[:9], deciles(space, background), space, seed=0
    )
    assert not importance.weights[:, :, [3, 6]].any()
    assert importance.weights[:, :, 0].all()


def test_a_value_never_met_has_the_weight_that_lime_gives_it() -> None:
    background, space = make_background(4, 2), make_space(4, 2)
    intervals, policy = deciles(space, background), Network(background)
    state = background[0].copy()
    state[1] = 9.0
    importance = lime_importance(policy.scores, background, state[None], intervals, space, samples=400, seed=0)
    x = indicators(policy.asked[1], state, intervals)
    y = policy.probabilities(np.concatenate([state[None], policy.asked[1]]))
    weights = kernel_weights(6, None)[(x == 0).sum(axis=1)]
    expected = Ridge(alpha=1.0).fit(x, y, sample_weight=weights).coef_
    assert x[1:, 1].max() == 0
    np.testing.assert_allclose(importance.weights[0], expected, rtol=0, atol=1e-9)


def test_masked_actions() -> None:
    background, states, intervals, space = small_case()
    policy = Network(background)

    def masked(observations: np.ndarray) -> np.ndarray:
        scores = policy.scores(observations)
        scores[:, 1] = -np.inf
        return scores

    never = lime_importance(masked, background, states, intervals, space, samples=100, seed=0)
    assert not never.weights[:, 1].any()
    assert np.isfinite(never.weights).all()


# Ranks


def rank_agreement(one: Importance, other: Importance) -> float:
    sums = zip((*one.positive, *one.negative), (*other.positive, *other.negative), strict=True)
    return float(np.mean([spearmanr(a, b).statistic for a, b in sums]))


def test_ranks_features_as_lime_does() -> None:
    background, space = make_background(54, 15), make_space(54, 15)
    states, policy, samples = background[:20], Network(background), 1000
    intervals = deciles(space, background)
    ours = [
        lime_importance(policy.scores, background, states, intervals, space, samples=samples, seed=seed)
        for seed in range(4)
    ]
    theirs = []
    for seed in range(2):
        explainer = as_lime((background, space), seed, feature_selection="none")
        weights, intercepts = zip(
            *(lime_weights(explainer, policy.probabilities, state, samples) for state in states), strict=True
        )
        theirs.append(Importance(np.array(weights), np.array(intercepts)))
    lime_with_lime = rank_agreement(*theirs)
    ours_with_ours = np.mean([rank_agreement(ours[0], ours[1]), rank_agreement(ours[2], ours[3])])
    ours_with_lime = np.mean([rank_agreement(a, b) for a in ours for b in theirs])
    assert ours_with_ours > lime_with_lime - 0.02
    assert ours_with_lime > lime_with_lime - 0.02
    assert ours_with_lime > 0.7


# Importance


def test_importance_sums_by_polarity() -> None:
    weights = np.array([[[0.5, -0.2, 0.0], [0.0, 1.0, -1.0]], [[0.25, 0.2, 0.0], [-3.0, 2.0, 0.0]]])
    importance = Importance(weights, np.zeros((2, 2)))
    np.testing.assert_allclose(importance.of("+", 0), [0.75, 0.2, 0.0])
    np.testing.assert_allclose(importance.of("-", 0), [0.0, 0.2, 0.0])
    np.testing.assert_allclose(importance.of("+", 1), [0.0, 3.0, 0.0])
    np.testing.assert_allclose(importance.of("-", 1), [3.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="read-only"):
        importance.weights[0] = 1.0


class Trap:
    """An object whose unpickling makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


# Errors


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samples": 1}, "samples must be at least 2"),
        ({"pools": 0}, "pools must be at least 1"),
        ({"kernel_width": 0.0}, "kernel_width must be a positive number"),
        ({"states": np.zeros((3, 7))}, r"states: observations of shape \(n, 8\) are expected, got \(3, 7\)"),
        ({"states": np.zeros(8)}, "states: observations of shape"),
        ({"states": np.zeros((0, 8))}, "states: there are no observations"),
        ({"background": np.zeros((0, 8))}, "background: there are no observations"),
        ({"background": np.zeros((5, 9))}, "background: observations of shape"),
        ({"states": np.full((2, 8), np.nan)}, "states: row 0 has nan for feature 'flag0'"),
        ({"background": np.full((2, 8), np.nan)}, "background: row 0 has nan for feature 'flag0'"),
        ({"background": np.full((2, 8), 0.5)}, "background: flag0 = 0.5 in row 0 is in none"),
        ({"intervals": Intervals.from_cuts([[0.0]])}, "intervals for 1 features, but the space has 8"),
        ({"score": lambda x: np.zeros((len(x), 3))}, r"scores of shape \(12, 3\), expected \(12, 5\)"),
        ({"score": lambda x: np.zeros(len(x))}, r"scores of shape \(12,\), expected \(12, 5\)"),
        ({"score": lambda x: [["best"] * 5] * len(x)}, "cannot be read as numbers"),
    ],
)
def test_errors_say_what_is_wrong(change: dict[str, Any], words: str) -> None:
    background, states, intervals, space = small_case()
    policy = scores_of(np.ones((8, ACTIONS)))
    given = {"score": policy, "background": background, "states": states, "intervals": intervals, "space": space}
    with pytest.raises(LegibleError, match=words):
        lime_importance(**{**given, "samples": 50, "seed": 0, **change})


@pytest.mark.parametrize(
    ("bad", "drawn", "words"),
    [
        (np.nan, False, r"scores \[0.0, 0.0, nan, 0.0, 0.0\] for the state "),
        (np.inf, False, r"scores \[0.0, 0.0, inf, 0.0, 0.0\] for the state "),
        (np.inf, True, r"for the drawn observation \[[01]\.0, "),
    ],
)
def test_scores_that_are_no_numbers_name_their_observation(bad: float, drawn: bool, words: str) -> None:
    background, states, intervals, space = small_case()

    def policy(observations: np.ndarray) -> np.ndarray:
        scores = np.zeros((len(observations), ACTIONS))
        if drawn == (len(observations) > len(states)):
            scores[4, 2] = bad
        return scores

    with pytest.raises(ImportanceError, match=words):
        lime_importance(policy, background, states, intervals, space, seed=0)


def test_where_everything_is_blocked_all_actions_are_alike() -> None:
    """The scores of a guided policy whose rules block every action: any of them may be taken."""
    background, states, intervals, space = small_case()

    def with_level(level: float):
        def policy(observations: np.ndarray) -> np.ndarray:
            scores = np.tile(np.arange(ACTIONS, dtype=float), (len(observations), 1))
            scores[observations[:, 0] > 0] = level
            return scores

        return policy

    blocked, alike = (
        lime_importance(with_level(level), background, states, intervals, space, seed=0) for level in (-np.inf, 0.0)
    )
    np.testing.assert_array_equal(blocked.weights, alike.weights)
