"""Guided policies whose rules remember: one observation and several, and an environment around them."""

import numpy as np
import pytest
from gymnasium import spaces

import turning_world
from legible.environments import FeatureMap
from legible.environments.feature_readers import EntryReader, FunctionReader, InfoReader
from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.guidance import GuidedEnv, GuidedPolicy
from legible.guidance.features import _observations, features_from_dict, features_to_dict, rows_of, trusted
from legible.policies import load_policy
from legible.rules import parse_rule

GO_ON, TURN = turning_world.GO_ON, turning_world.TURN
SPACE = FeatureSpace.from_dict(
    {**turning_world.TurningWorld.feature_space.to_dict(), "derived": {"before": "last_action"}}
)
STRONG, WEAK = [0.9, 0.1], [0.2, 0.3]


def guided() -> GuidedPolicy:
    """It turns in strong gusts, but never twice."""
    policy = load_policy(turning_world.turns_in_gusts, output="values", n_features=2, n_actions=2)
    return GuidedPolicy(policy, [parse_rule("+GoOn <- before = 1", SPACE)], SPACE)


def test_one_observation_and_batches_of_one_and_more(raises_saved) -> None:
    alone, memory = guided().predict(np.array(STRONG, np.float32))
    assert (np.ndim(alone), alone) == (0, TURN)
    assert guided().predict(np.array(STRONG, np.float32), memory)[0] == GO_ON
    one, memory = guided().predict(np.array([STRONG], np.float32))
    assert one.tolist() == [TURN]
    assert guided().predict(np.array([STRONG], np.float32), memory)[0].tolist() == [GO_ON]
    assert guided().predict(np.array([STRONG, WEAK], np.float32))[0].tolist() == [TURN, GO_ON]
    with raises_saved(LegibleError):
        guided().predict(np.zeros(5, np.float32))
    with raises_saved(LegibleError):
        guided().predict(np.array([STRONG, WEAK], np.float32), memory)


def test_an_environment_around_rules_that_remember() -> None:
    safe = GuidedEnv(turning_world.TurningWorld(), guided())
    for _ in range(2):  # what was done in the first episode is forgotten in the second
        observation, _ = safe.reset(seed=0)
        assert observation.shape == (2,)
        taken = []
        for _ in range(4):
            observation, *_, info = safe.step(np.int64(TURN))
            assert observation.shape == (2,)
            taken.append((safe.unwrapped._turned, info["intervention"] is None))  # type: ignore[attr-defined]
        assert taken == [(True, True), (False, False)] * 2


def test_rows_hold_what_rules_see_and_then_all_that_the_policy_is_shown() -> None:
    """Rules see one of two entries; the policy is shown both."""
    shown = spaces.Dict({"a": spaces.Box(0.0, 9.0, (2,), np.float32), "b": spaces.Box(0.0, 9.0, (1,), np.float32)})
    reader = EntryReader.of(shown, ["b"])
    features = FeatureMap(FeatureSpace(reader.features, SPACE.actions, SPACE.groups), reader, shown)
    observation = {"a": np.array([1.0, 2.0], np.float32), "b": np.array([3.0], np.float32)}
    rows, single, memory = rows_of(features, observation, None, None)
    assert (rows.tolist(), single, memory) == ([[3.0, 1.0, 2.0, 3.0]], True, None)


def test_single_observations_and_batches_differ() -> None:
    pair = spaces.Box(0.0, 9.0, (2,), np.float32)
    for observation, single, count in (
        ([1.0, 2.0], True, 1),
        ([[1.0, 2.0]], False, 1),
        ([1.0, 2.0, 3.0, 4.0], False, 2),
        ([[1.0, 2.0]] * 3, False, 3),
    ):
        found, parts = _observations(pair, observation)
        assert (found, len(parts)) == (single, count)
        assert parts[0].tolist() == [1.0, 2.0]
    for wrong in ([], [1.0, 2.0, 3.0], [[1.0], [2.0], [3.0]]):
        with pytest.raises(LegibleError, match="an observation must have 2 numbers"):
            _observations(pair, wrong)
    picture = spaces.Box(0.0, 9.0, (2, 3), np.float32)
    for shape, single, count in (((2, 3), True, 1), ((6,), True, 1), ((1, 6), False, 1), ((4, 2, 3), False, 4)):
        found, parts = _observations(picture, np.zeros(shape))
        assert (found, len(parts)) == (single, count)
    assert _observations(spaces.Discrete(4), 3)[0]
    assert _observations(spaces.Discrete(4), [3, 1])[1] == [[3], [1]]


def test_entries_of_one_observation_and_of_several(raises_saved) -> None:
    shown = spaces.Dict({"a": spaces.Box(0.0, 9.0, (2,), np.float32), "b": spaces.Discrete(3)})
    one = {"a": np.zeros(2), "b": 1, "more": 5}
    assert _observations(shown, one) == (True, [one])
    single, parts = _observations(shown, {"a": np.array([[1.0, 2.0], [3.0, 4.0]]), "b": np.array([1, 2])})
    assert not single
    assert [(part["a"].tolist(), int(part["b"])) for part in parts] == [([1.0, 2.0], 1), ([3.0, 4.0], 2)]
    for wrong in ({"a": np.zeros(2)}, np.zeros(3)):
        with raises_saved(LegibleError):
            _observations(shown, wrong)


def test_a_function_that_a_file_names_is_not_trusted_by_default() -> None:
    shown = spaces.Box(0.0, 9.0, (2,), np.float32)
    space = FeatureSpace.of(["x"], ["Go", "Stay"])
    written = features_to_dict(FeatureMap(space, FunctionReader("module:rows", ("x",)), shown))
    assert (written["function"], written["names"]) == ("module:rows", ["x"])
    read = features_from_dict(written, space)
    readers = [found.reader for found in (read, trusted(read), trusted(read, "module:rows"))]
    assert [isinstance(reader, FunctionReader) and reader.trusted for reader in readers] == [False, True, True]
    with pytest.raises(LegibleError, match="not of 'module:others'"):
        trusted(read, "module:others")
    read_again = features_from_dict(features_to_dict(FeatureMap(space, InfoReader(("x",)), shown)), space)
    assert read_again.reader == InfoReader(("x",))
    assert trusted(read_again, "anything") is read_again
