"""Transitions from which relations are proposed.

- `Sample`: transitions, one row per step, and where episodes start.
- `draw_sample`: draws one: every action in states that are set, where states can be set, else random play.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.environments import ObservationEncoder, reset_environment
from legible.play import episode_seeds
from legible.relations.check.answers import CheckInputs, Flags, Values
from legible.relations.check.settable import StateChecker
from legible.relations.check.transitions import Transitions, play_at_random

FIRST_EPISODES = 8
FEWEST_EPISODES = 20
# Repeated actions lead further away from the starts of episodes.
REPEAT = 0.8
# Starts to compare where states are set.
STARTS = 300


@dataclass(frozen=True)
class Sample:
    """Transitions, one row per step.

    Parameters
    ----------
    observations, after
        ``[n, features]``.
    actions
        ``int[n]`` for discrete actions, else ``[n, parts]``.
    n_actions
        Number of discrete actions, or of parts.
    starts
        ``[episodes, features]``: first observations of episodes.
    steps
        Steps taken in the environment.
    units
        Number of the episode, or of the state that is set, of every step.
    paired
        True if every discrete action is taken in the same states: first all states with the first action, and so on.
    """

    observations: Values
    actions: NDArray[Any]
    rewards: Values
    after: Values
    ended: Flags
    n_actions: int
    starts: Values
    steps: int
    units: NDArray[np.int64]
    paired: bool = False

    def relabelled(self, order: NDArray[np.int64], signs: Values) -> Sample:
        """Return the sample with features in another order and with other signs."""
        observations, after, starts = (
            (rows * signs)[:, order] for rows in (self.observations, self.after, self.starts)
        )
        return replace(self, observations=observations, after=after, starts=starts)

    def without_repetitions(self) -> Sample:
        """Return the sample with each step once: states where episodes start may be the same in every episode."""
        if self.paired:
            return self
        rows = np.column_stack([self.observations, self.actions])
        first = np.sort(np.unique(rows, axis=0, return_index=True)[1])
        columns = ("observations", "actions", "rewards", "after", "ended", "units")
        return replace(self, **{name: getattr(self, name)[first] for name in columns})


def draw_sample(inputs: CheckInputs, checker: StateChecker | None, steps: int) -> Sample:
    """Return transitions of about `steps` steps; states are set with the checker, if there is one."""
    space = inputs.space
    played = play_at_random(inputs, FIRST_EPISODES, 0.0 if checker is not None else REPEAT)
    if checker is None:  # transitions of random play
        episodes = FIRST_EPISODES
        while len(played.rewards) < steps or episodes < FEWEST_EPISODES:
            # Lengths differ, so that a few episodes say only roughly how many more are needed.
            missing = math.ceil((steps - len(played.rewards)) * episodes / len(played.rewards))
            more = max(min(missing, 2 * episodes), FEWEST_EPISODES - episodes, 1)
            played = _join(
                played, play_at_random(replace(inputs, first=inputs.first + episodes), more, REPEAT), episodes
            )
            episodes += more
        units, starts = played.episodes, played.observations[np.diff(played.episodes, prepend=-1) != 0]
        states, actions = played.observations.astype(np.float64), played.actions
        after, rewards, ended = played.after.astype(np.float64), played.rewards, played.ended
    else:  # every action in the same states, which are set; the columns of results are features, reward and end
        states = checker.observations.astype(np.float64)
        results, actions = checker.all_steps()
        states = np.tile(states, (len(results) // len(states), 1))
        after, rewards, ended = (
            results[:, :-2].astype(np.float32).astype(np.float64),
            results[:, -2],
            results[:, -1] > 0,
        )
        units = np.arange(len(states)) % len(checker.observations)
        encoder = ObservationEncoder.of(inputs.env.observation_space)
        seeds = episode_seeds(inputs.seed, inputs.first, STARTS)
        starts = encoder.encode([reset_environment(inputs.env, int(seed))[0] for seed in seeds])
    return Sample(
        observations=states,
        actions=actions,
        rewards=rewards,
        after=after,
        ended=ended,
        n_actions=len(space.actions) if space.is_discrete else len(space.groups),
        starts=starts.astype(np.float64),
        units=units,
        steps=len(played.rewards) + (len(rewards) if checker is not None else 0),
        paired=checker is not None and space.is_discrete,
    )


def _join(one: Transitions, other: Transitions, episodes: int) -> Transitions:
    """Return the transitions of both; `episodes` is the number of episodes of the first."""
    other = replace(other, episodes=other.episodes + episodes)
    columns = (field.name for field in fields(Transitions))
    return Transitions(*(np.concatenate([getattr(one, name), getattr(other, name)]) for name in columns))
