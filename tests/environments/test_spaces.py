"""Observations and actions of any space as arrays."""

import numpy as np
import pytest
from gymnasium import spaces

from legible.environments import (
    UnfitEnvironmentError,
    check_policy_spaces,
    choice_sizes,
    map_arrays,
    stack_observations,
    to_environment_actions,
)

BOX = spaces.Box(-1.0, 1.0, (2, 3))


@pytest.mark.parametrize(
    "space",
    [
        BOX,
        spaces.Box(0, 255, (4, 4, 3), np.uint8),
        spaces.Discrete(5),
        spaces.MultiDiscrete([[2, 3], [4, 5]]),
        spaces.MultiBinary((2, 2)),
        spaces.Dict({"a": BOX, "b": spaces.Dict({"c": spaces.Discrete(3)})}),
        spaces.Tuple((BOX, spaces.Discrete(3))),
        spaces.Text(5),
    ],
    ids=lambda space: type(space).__name__,
)
def test_rows_are_the_observations(space) -> None:
    space.seed(1)
    seen = [space.sample() for _ in range(4)]
    stacked = stack_observations(space, seen)

    def same(row, observation) -> None:
        np.testing.assert_array_equal(row, observation)
        assert np.asarray(row).dtype == np.asarray(observation).dtype or isinstance(observation, str)

    for index, observation in enumerate(seen):
        row = map_arrays(lambda array, index=index: array[index], stacked)
        map_arrays(same, row, dict(observation) if isinstance(space, spaces.Dict) else observation)


def test_an_observation_outside_its_space_is_named() -> None:
    with pytest.raises(UnfitEnvironmentError, match="its observation_space holds Box"):
        stack_observations(BOX, [np.zeros(5)])


def test_choices_of_an_action_and_its_numbers() -> None:
    assert choice_sizes(spaces.MultiBinary((2, 2))) == (2, 2, 2, 2)
    assert choice_sizes(spaces.MultiDiscrete([[2, 3], [4, 5]])) == (2, 3, 4, 5)
    assert to_environment_actions(spaces.Discrete(3, start=5), np.array([0, 2])).tolist() == [5, 7]
    assert to_environment_actions(spaces.MultiDiscrete([3, 2], start=[1, 10]), np.array([[2, 1]])).tolist() == [[3, 11]]
    assert to_environment_actions(BOX, np.array([0.5])).tolist() == [0.5]


@pytest.mark.parametrize(
    ("observations", "actions", "said"),
    [
        (spaces.Tuple((BOX,)), spaces.Discrete(2), "observations are a Tuple space"),
        (spaces.Dict({"said": spaces.Text(5)}), spaces.Discrete(2), "the entry 'said' of the observations is a Text"),
        (BOX, spaces.Text(5), "actions are a Text space"),
        (None, spaces.Dict({"a": BOX}), "actions are a Dict space"),
    ],
)
def test_spaces_that_policies_do_not_support_are_refused(observations, actions, said) -> None:
    with pytest.raises(UnfitEnvironmentError, match=said):
        check_policy_spaces(observations, actions)
    check_policy_spaces(spaces.Dict({"a": BOX, "b": spaces.MultiBinary(2)}), spaces.MultiBinary(2))
