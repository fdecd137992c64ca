"""Episodes step by step.

- `Recorder`: listens to `play_episodes` and keeps the steps of all episodes, or of some.
- `Recording`: one episode, enough to show it again.
- `replay`: steps an environment through a recording.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.environments import Env, as_taken, map_arrays
from legible.environments.spaces import Batch
from legible.play.choosing import Scores
from legible.play.episodes import StepRecord


@dataclass(frozen=True)
class Recording:
    """One episode, step by step: enough to show it again.

    Parameters
    ----------
    seed
        Of the episode.
    observations, actions, rewards
        What was seen, done and earned, a row a step: ``float32[n, features]`` and ``int64[n]``, or whatever the spaces
        say (`legible.play.SpaceSlots`).
    wanted
        What the policy alone would have done, by its scores; what was done where it has none, or where actions are no
        single choice.
    masks
        Which values of an action were allowed, None where the environment does not say.
    """

    seed: int
    observations: Batch
    actions: NDArray[Any]
    wanted: NDArray[Any]
    rewards: NDArray[np.float64]
    masks: NDArray[np.bool_] | None = None


class Steps(NamedTuple):
    """Steps as columns, a row a step, in the order of episodes and of the steps in them."""

    episodes: NDArray[np.int64]
    observations: Batch
    actions: NDArray[Any]
    scores: Scores
    rewards: NDArray[np.float64]
    masks: NDArray[np.bool_] | None = None


class Recorder:
    """Keeps what happens in episodes: hand it to `play_episodes` as `on_step`.

    Parameters
    ----------
    episodes
        Numbers of the episodes to keep; all by default.
    rows
        Whether all that the policy was shown is kept, also where that is more than rules see: to ask it again.
    """

    def __init__(self, episodes: Collection[int] | None = None, *, rows: bool = False) -> None:
        self._rows = rows
        self._wanted = None if episodes is None else np.array(sorted(episodes), np.int64)
        self._parts: list[tuple[Batch, ...]] = []

    def __call__(self, step: StepRecord) -> None:
        """Keep a step."""
        kept = step.episodes >= 0 if self._wanted is None else np.isin(step.episodes, self._wanted)
        if kept.any():
            shown = step.rows if self._rows and step.rows is not None else step.observations
            columns: Batch = (step.episodes, step.steps, shown, step.actions, step.scores, step.rewards)
            columns = columns if step.masks is None else (*columns, step.masks)
            self._parts.append(map_arrays(lambda column: column[kept], columns))

    def steps(self) -> Steps:
        """Return everything that was kept."""
        episodes, steps, *columns = map_arrays(lambda *parts: np.concatenate(parts), *self._parts)
        order = np.lexsort((steps, episodes))
        return Steps(episodes[order], *map_arrays(lambda column: column[order], tuple(columns)))

    def recordings(self, seeds: Sequence[int]) -> list[Recording]:
        """Return the kept episodes in the order of their numbers; `seeds` are those of all that were played."""
        if not self._parts:
            return []
        steps = self.steps()
        episodes, starts = np.unique(steps.episodes, return_index=True)
        ends = [*starts[1:].tolist(), len(steps.episodes)]
        found = []
        for episode, start, end in zip(episodes.tolist(), starts.tolist(), ends, strict=True):
            rows = slice(start, end)
            actions, scores = steps.actions[rows], steps.scores[rows]
            found.append(
                Recording(
                    seed=seeds[episode],
                    observations=map_arrays(lambda column, rows=rows: column[rows], steps.observations),
                    actions=actions if actions.dtype.kind == "f" else actions.astype(np.int64),
                    wanted=scores.argmax(axis=1) if scores.shape[1] and actions.ndim == 1 else actions,
                    rewards=steps.rewards[rows].astype(np.float64),
                    masks=None if steps.masks is None else steps.masks[rows],
                )
            )
        return found


def replay(environment: Env, recording: Recording) -> Iterator[tuple[Any, float]]:
    """Step an environment through a recording; yields observation and reward at the start (0) and after every step.

    Nothing is asked of the policy, so it goes the same way on any machine on which the environment does. Between the
    yields the environment can be drawn or its state read. Ends early where the environment does.
    """
    observation, _ = environment.reset(seed=recording.seed)
    yield observation, 0.0
    for action in as_taken(environment.action_space, recording.actions):
        observation, reward, terminated, truncated, _ = environment.step(action)
        yield observation, float(reward)
        if terminated or truncated:
            return
