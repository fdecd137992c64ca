"""Returns of any policy in any environment.

- `play_policy`: plays an episode for every seed, whatever the spaces.
- `evaluate_policy`, `PolicyReturn`: the mean return, with its error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from legible.environments import Env, EnvironmentSpec, as_environment
from legible.errors import LegibleError
from legible.formatting import with_error
from legible.play.acting import ActingChooser, check_acting
from legible.play.choosing import PolicyChooser
from legible.play.episodes import Episodes, StepRecord, play_episodes
from legible.play.slots import make_slots, make_space_slots
from legible.play.trained_environments import environment_for
from legible.policies import Policy, acting
from legible.settings import STEP_LIMIT

_SLOTS = 16


def play_policy(
    policy: Policy,
    environment: str | EnvironmentSpec | Env,
    seeds: Sequence[int],
    *,
    deterministic: bool = True,
    slots: int = _SLOTS,
    step_limit: int = STEP_LIMIT,
    on_step: Callable[[StepRecord], None] | None = None,
) -> Episodes:
    """Play an episode for every seed: observations and actions of any space, masks, policies that remember.

    Parameters
    ----------
    policy
        The policy, as `legible.policies.load_policy` gives it.
    environment
        The environment: its id, its spec or an object, which makes a single slot and stays open. What the policy's
        files say about wrappers and arguments is done to the first two (`environment_for`).
    seeds
        A seed for every episode.
    deterministic
        The best action in every step; False draws actions, from random numbers that belong to the episode.
    slots
        How many episodes run side by side. Like the size of any batch, it may decide the last bit of what a network
        computes. Actions that are drawn without scores are played one episode after another.
    step_limit
        An episode that is not over after this many steps is cut off.
    on_step
        Called after every step with what happened in it, for instance a `Recorder`.

    Examples
    --------
    >>> from legible.policies import load_policy
    >>> lean = load_policy(lambda o: o[:, 2:3] * [-1, 1], output="values", n_features=4, n_actions=2)
    >>> play_policy(lean, "CartPole-v1", [0, 1, 2]).returns.tolist()
    [41.0, 51.0, 35.0]
    """
    target = environment_for(policy, as_environment(environment))
    with ExitStack() as opened:
        probe = target if not isinstance(target, EnvironmentSpec) else opened.enter_context(closing(target.make()))
        check_acting(policy, probe.observation_space, probe.action_space)
        # Scores of flat observations without masks are played as in studies, which is faster where there is a native
        # vector form. Pictures are left out: policies may read their channels first.
        space = probe.observation_space
        flat = not isinstance(space, spaces.Dict) and len(space.shape or ()) <= 1
        in_rows = flat and policy.kind != "none" and not probe.has_wrapper_attr("action_masks")
    actor = acting(policy)
    drawn = not deterministic and actor.stochastic
    n = 1 if drawn and actor.kind == "none" else max(1, min(slots, len(seeds)))
    made: Any = make_slots(target, n) if in_rows else make_space_slots(target, n)
    try:
        choose: Any = (
            PolicyChooser(policy, seeds, sample=drawn)
            if in_rows
            else ActingChooser(policy, made, seeds, deterministic=deterministic)
        )
        return play_episodes(made, choose, seeds, step_limit=step_limit, on_step=on_step)
    finally:
        if isinstance(target, EnvironmentSpec):
            made.close()


@dataclass(frozen=True)
class PolicyReturn:
    """The mean return of a policy.

    Parameters
    ----------
    mean
        Over the episodes.
    error
        Standard error of the mean; NaN for a single episode.
    episodes
        The episodes themselves.
    """

    mean: float
    error: float
    episodes: Episodes

    def __str__(self) -> str:
        return with_error(self.mean, self.error)


def evaluate_policy(
    policy: Policy,
    environment: str | EnvironmentSpec | Env,
    seeds: Sequence[int],
    *,
    deterministic: bool = True,
    slots: int = _SLOTS,
    step_limit: int = STEP_LIMIT,
) -> PolicyReturn:
    """Return the mean return of a policy over the episodes of some seeds; on the same, Stable-Baselines3's is the same.

    The parameters are those of `play_policy`.
    """
    if not len(seeds):
        raise LegibleError("a mean needs at least one seed.")
    played = play_policy(policy, environment, seeds, deterministic=deterministic, slots=slots, step_limit=step_limit)
    error = played.returns.std(ddof=1) / np.sqrt(len(played)) if len(played) > 1 else np.nan
    return PolicyReturn(float(played.returns.mean()), float(error), played)
