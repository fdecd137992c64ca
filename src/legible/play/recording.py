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

from legible.environments import Env, first_action
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
        What was seen, done and earned, a row a step.
    wanted
        What the policy alone would have done, by its scores.
    """

    seed: int
    observations: NDArray[np.float32]
    actions: NDArray[np.int64]
    wanted: NDArray[np.int64]
    rewards: NDArray[np.float64]


class Steps(NamedTuple):
    """Steps as columns, a row a step, in the order of episodes and of the steps in them."""

    episodes: NDArray[np.int64]
    observations: NDArray[np.float32]
    actions: NDArray[np.int64]
    scores: Scores
    rewards: NDArray[np.float64]


class Recorder:
    """Keeps what happens in episodes: hand it to `play_episodes` as `on_step`.

    Parameters
    ----------
    episodes
        Numbers of the episodes to keep; all by default.
    """

    def __init__(self, episodes: Collection[int] | None = None) -> None:
        self._wanted = None if episodes is None else np.array(sorted(episodes), np.int64)
        self._parts: list[tuple[NDArray[Any], ...]] = []

    def __call__(self, step: StepRecord) -> None:
        """Keep a step."""
        kept = step.episodes >= 0 if self._wanted is None else np.isin(step.episodes, self._wanted)
        if kept.any():
            columns = (step.episodes, step.steps, step.observations, step.actions, step.scores, step.rewards)
            self._parts.append(tuple(column[kept] for column in columns))

    def steps(self) -> Steps:
        """Return everything that was kept."""
        episodes, steps, *columns = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        order = np.lexsort((steps, episodes))
        return Steps(episodes[order], *(column[order] for column in columns))

    def recordings(self, seeds: Sequence[int]) -> list[Recording]:
        """Return the kept episodes in the order of their numbers; `seeds` are those of all that were played."""
        if not self._parts:
            return []
        steps = self.steps()
        episodes, starts = np.unique(steps.episodes, return_index=True)
        return [
            Recording(
                seed=seeds[episode],
                observations=steps.observations[start:end],
                actions=steps.actions[start:end].astype(np.int64),
                wanted=steps.scores[start:end].argmax(axis=1),
                rewards=steps.rewards[start:end].astype(np.float64),
            )
            for episode, start, end in zip(
                episodes.tolist(), starts.tolist(), [*starts[1:].tolist(), len(steps.episodes)], strict=True
            )
        ]


def replay(environment: Env, recording: Recording) -> Iterator[tuple[Any, float]]:
    """Step an environment through a recording; yields observation and reward at the start (0) and after every step.

    Nothing is asked of the policy, so it goes the same way on any machine on which the environment does. Between the
    yields the environment can be drawn or its state read. Ends early where the environment does.
    """
    observation, _ = environment.reset(seed=recording.seed)
    yield observation, 0.0
    first = first_action(environment.action_space)
    for action in recording.actions:
        observation, reward, terminated, truncated, _ = environment.step(np.int64(first + action))
        yield observation, float(reward)
        if terminated or truncated:
            return
