"""Recorded episodes.

- `Recorder`: records steps of all or some episodes during `play_episodes`.
- `Recording`: one episode, with everything that a replay needs.
- `replay`: steps an environment through a recording.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.environments import Env, map_arrays, to_environment_actions
from legible.environments.spaces import Batch
from legible.play.choosing import Scores
from legible.play.episodes import StepRecord


@dataclass(frozen=True)
class Recording:
    """One recorded episode, with everything that a replay needs."""

    seed: int
    # One row per step: ``float32[n, features]`` and ``int64[n]``, or the types of the spaces
    # (`legible.play.SpaceSlots`)
    observations: Batch
    actions: NDArray[Any]
    # The actions of the unguided policy, by its scores; equal to `actions` if it has no scores, or if an action is not
    # a single choice
    wanted: NDArray[Any]
    rewards: NDArray[np.float64]
    masks: NDArray[np.bool_] | None = None  # the action masks; None if the environment has none


class Steps(NamedTuple):
    """Recorded steps as columns, one row per step, ordered by episode and step."""

    episodes: NDArray[np.int64]
    observations: Batch
    actions: NDArray[Any]
    scores: Scores
    rewards: NDArray[np.float64]
    masks: NDArray[np.bool_] | None = None


class Recorder:
    """A recorder of steps: pass it to `play_episodes` as `on_step`.

    - `episodes`: numbers of the episodes to record; all by default.
    - `rows`: record the full input of the policy where that is more than rules see, so that it can be evaluated again.
    """

    def __init__(self, episodes: Collection[int] | None = None, *, rows: bool = False) -> None:
        self._rows = rows
        self._wanted = None if episodes is None else np.array(sorted(episodes), np.int64)
        self._parts: list[tuple[Batch, ...]] = []

    def __call__(self, step: StepRecord) -> None:
        """Record a step."""
        kept = step.episodes >= 0 if self._wanted is None else np.isin(step.episodes, self._wanted)
        if kept.any():
            shown = step.rows if self._rows and step.rows is not None else step.observations
            columns: Batch = (step.episodes, step.steps, shown, step.actions, step.scores, step.rewards)
            columns = columns if step.masks is None else (*columns, step.masks)
            self._parts.append(map_arrays(lambda column: column[kept], columns))

    def steps(self) -> Steps:
        """Return the recorded steps."""
        episodes, steps, *columns = map_arrays(lambda *parts: np.concatenate(parts), *self._parts)
        order = np.lexsort((steps, episodes))
        return Steps(episodes[order], *map_arrays(lambda column: column[order], tuple(columns)))

    def recordings(self, seeds: Sequence[int]) -> list[Recording]:
        """Return the recorded episodes, ordered by their number, given the seeds of all episodes that were played."""
        if not self._parts:
            return []
        steps = self.steps()
        # The steps are sorted by episode: find where each one starts and ends.
        episodes, starts = np.unique(steps.episodes, return_index=True)
        ends = [*starts[1:].tolist(), len(steps.episodes)]
        recordings = []
        for episode, start, end in zip(episodes.tolist(), starts.tolist(), ends, strict=True):
            rows = slice(start, end)
            actions, scores = steps.actions[rows], steps.scores[rows]
            recordings.append(
                Recording(
                    seed=seeds[episode],
                    observations=map_arrays(lambda column, rows=rows: column[rows], steps.observations),
                    actions=actions if actions.dtype.kind == "f" else actions.astype(np.int64),
                    # The best action by the scores, which rules may have changed. If there are no scores, or an action
                    # has several parts, the action taken stands for it.
                    wanted=scores.argmax(axis=1) if scores.shape[1] and actions.ndim == 1 else actions,
                    rewards=steps.rewards[rows].astype(np.float64),
                    masks=None if steps.masks is None else steps.masks[rows],
                )
            )
        return recordings


def replay(environment: Env, recording: Recording) -> Iterator[tuple[Any, float]]:
    """Step an environment through a recording; yield observation and reward at the start (0) and after every step.

    The policy is not evaluated, so the replay is the same on every machine on which the environment is. The
    environment can be rendered between steps. The replay stops early if the environment does.
    """
    observation, _ = environment.reset(seed=recording.seed)
    yield observation, 0.0
    for action in to_environment_actions(environment.action_space, recording.actions):
        observation, reward, terminated, truncated, _ = environment.step(action)
        yield observation, float(reward)
        if terminated or truncated:
            return
