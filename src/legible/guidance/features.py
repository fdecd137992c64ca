"""Rows of features for the rules of a guided policy.

- `rows_of`: the rows of features of observations, and the memory of their episodes; `remember_actions`: updates it.
- `features_to_dict`, `features_from_dict`: features as plain data; `trusted`: allows a function to be imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from legible.environments import FeatureMap
from legible.environments.feature_readers import FeatureReader, FunctionReader, InfoReader, flatten_observation
from legible.environments.masks import ENTRY
from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.play import Observations
from legible.policies.actors.saving import build_space, describe_space


def rows_of(
    features: FeatureMap, observation: Any, state: Any, episode_start: Any, action_masks: ArrayLike | None = None
) -> tuple[Observations, bool, NDArray[np.float64] | None]:
    """Return what rules see of an observation or of a batch: one row of features per observation.

    Parameters
    ----------
    features
        Which features rules see, and in which columns of a row.
    observation
        One observation of the environment, or a batch of n.
    state
        The state that ``predict`` returned in the step before, which holds the memory of derived features such as
        "change of the speed"; None if the episodes start.
    episode_start
        ``bool[n]``: where an episode starts although there is a state.
    action_masks
        ``bool[n, choices]``: the allowed actions, in an environment whose observations do not contain them.

    Returns
    -------
    rows, is_single, memory
        ``float32[n, columns]``; whether it was one observation instead of a batch; and the memory of each episode,
        ``float64[n, columns of memory]``, None without derived features.
    """
    if features.reader.needs:
        raise LegibleError(
            f"predict cannot compute these features, because they are read from {features.reader.needs}; play in a "
            "legible.GuidedEnv instead."
        )

    # The features of the observation, and the observation itself if rules see other features than it.
    is_single, batch = _observations(features.observation_space, observation)
    own_features = np.stack([features.reader.read(one_observation, {}, None) for one_observation in batch])
    rows = np.zeros((len(batch), features.width), np.float32)
    rows[:, : own_features.shape[1]] = own_features
    if not features.reader.holds_observation:
        space = features.observation_space
        rows[:, features.shown] = [flatten_observation(space, one_observation) for one_observation in batch]

    # The action mask: from the observation, or as passed.
    if features.masks is not None:
        if action_masks is None and features.masks.source != "entry":
            raise LegibleError(
                f"the environment masks actions by {features.masks.words}: pass them to predict as action_masks, or "
                "play in a legible.GuidedEnv."
            )
        if action_masks is None:
            action_masks = [one_observation[ENTRY] for one_observation in batch]
        rows[:, features.masked] = np.asarray(action_masks).reshape(len(batch), features.masks.width)

    # Derived features, which depend on earlier steps of the episode. As in Stable-Baselines3, the state is a tuple of
    # arrays ``[1, n, columns]``; here of one, the memory of the episodes.
    derived = features.space.derived
    if derived is None:
        return rows, is_single, None
    memory = derived.new_memory(len(batch)) if state is None else np.array(state[0][0], np.float64)
    if memory.shape != (len(batch), derived.width):
        raise LegibleError(
            f"the state belongs to {len(memory)} episodes, but there are {len(batch)} observations; pass the "
            "state that predict returned for these episodes, or None at their start."
        )
    is_first_step = np.full(len(batch), state is None)
    if state is not None and episode_start is not None:
        is_first_step = np.asarray(episode_start, np.bool_).ravel()
    rows[:, own_features.shape[1] : len(features.space)] = derived.compute(own_features, memory, is_first_step)
    return rows, is_single, memory


def remember_actions(features: FeatureMap, memory: NDArray[np.float64] | None, actions: NDArray[Any]) -> None:
    """Store the chosen actions in the memory of the episodes."""
    if memory is not None and features.space.derived is not None:
        features.space.derived.act(memory, actions)


def _observations(space: spaces.Space[Any], observation: Any) -> tuple[bool, list[Any]]:
    """Return whether there is a single observation, not a batch, and the list of observations."""
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, Mapping) or not set(space.spaces) <= set(observation):
            raise LegibleError(f"an observation must have the entries {', '.join(space.spaces)}.")
        key = next(iter(space.spaces))
        if np.shape(observation[key]) == (space[key].shape or ()):
            return True, [observation]
        return False, [{k: observation[k][i] for k in space.spaces} for i in range(len(observation[key]))]
    array, shape = np.asarray(observation), tuple(space.shape or ())
    width = int(np.prod(shape))
    if array.shape == shape or (array.ndim <= 1 and array.size == width):
        return True, [array]
    if not array.size or array.size % width:
        raise LegibleError(f"an observation must have {width} numbers, got an array of shape {array.shape}.")
    return False, list(array.reshape(-1, width))


def trusted(features: FeatureMap, function: str | None = None) -> FeatureMap:
    """Return features whose function may be imported although a file names it; with a name, only that function."""
    reader = features.reader
    if not isinstance(reader, FunctionReader):
        return features
    if function is not None and function != reader.name:
        raise LegibleError(f"the rules use the features of {reader.name!r}, not of {function!r}.")
    return replace(features, reader=replace(reader, trusted=True))


def features_to_dict(features: FeatureMap) -> dict[str, Any]:
    """Return the source of the features as plain data."""
    reader = features.reader
    described: dict[str, Any] = {"observations": describe_space(features.observation_space)}
    match reader:
        case InfoReader():
            return {**described, "info": list(reader.names)}
        case FunctionReader():
            return {**described, "function": reader.name, "names": list(reader.names)}
    raise LegibleError("rules about entries of a dictionary observation cannot be saved to a file.")


def features_from_dict(described: Mapping[str, Any], space: FeatureSpace) -> FeatureMap:
    """Return the features that `features_to_dict` described; a named function is not imported (`trusted`)."""
    reader: FeatureReader
    if "info" in described:
        reader = InfoReader(tuple(described["info"]))
    else:
        reader = FunctionReader(str(described["function"]), tuple(described["names"]), trusted=False)
    return FeatureMap(space, reader, build_space(described["observations"]))
