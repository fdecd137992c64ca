"""Returns of any policy in any environment.

- `play_policy`: plays one episode per seed, in any spaces.
- `evaluate_policy`, `PolicyReturn`: the mean return with its standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from legible.environments import Env, EnvironmentSpec, as_environment, find_masks
from legible.errors import LegibleError
from legible.formatting import with_error
from legible.play.acting import ActingChooser, check_spaces_fit
from legible.play.choosing import PolicyChooser
from legible.play.episodes import Episodes, StepRecord, play_episodes
from legible.play.slots import make_slots, make_space_slots, open_environment
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
    """Play one episode per seed and return the results in the order of the seeds.

    Observations and actions may have any space; action masks and policies with memory are supported.

    Parameters
    ----------
    policy
        The policy, as returned by `legible.policies.load_policy`.
    environment
        An id, a spec, or an environment object. An object is played in a single slot and stays open; ids and specs get
        the wrappers and arguments that the policy's files name (`environment_for`).
    seeds
        A seed for every episode.
    deterministic
        Take the best action in every step; if False, sample actions from the episode's own random stream.
    slots
        Number of episodes in parallel. Like any batch size, it can change the last bit of a network's output. Episodes
        with actions that are sampled without scores run one after another.
    step_limit
        Number of steps after which an episode is cut off.
    on_step
        Called with a record of every step, for example a `Recorder`.

    Examples
    --------
    >>> from legible.policies import load_policy
    >>> lean = load_policy(lambda o: o[:, 2:3] * [-1, 1], output="values", n_features=4, n_actions=2)
    >>> play_policy(lean, "CartPole-v1", [0, 1, 2]).returns.tolist()
    [41.0, 51.0, 35.0]
    """
    # The environment with the wrappers that the policy was trained with.
    trained_environment = environment_for(policy, as_environment(environment))
    with open_environment(trained_environment) as env:
        check_spaces_fit(policy, env.observation_space, env.action_space)
        # Policies with scores (kind "none": only actions), flat observations and no masks are played as in studies,
        # which is faster with a native vector environment. Images are excluded: policies may read channels first.
        space = env.observation_space
        is_flat = not isinstance(space, spaces.Dict) and len(space.shape or ()) <= 1
        plays_as_in_studies = is_flat and policy.kind != "none" and find_masks(env) is None

    # The acting policy also has a `predict` (`acting` adds one to policies that only have scores). If that samples
    # without scores, it uses the episode's own random numbers, which works for one episode at a time only.
    acting_policy = acting(policy)
    samples = not deterministic and acting_policy.stochastic
    n_slots = 1 if samples and acting_policy.kind == "none" else max(1, min(slots, len(seeds)))
    opened_slots: Any = (
        make_slots(trained_environment, n_slots)
        if plays_as_in_studies
        else make_space_slots(trained_environment, n_slots)
    )
    try:
        chooser: Any = (
            PolicyChooser(policy, seeds, sample=samples)
            if plays_as_in_studies
            else ActingChooser(policy, opened_slots, seeds, deterministic=deterministic)
        )
        return play_episodes(opened_slots, chooser, seeds, step_limit=step_limit, on_step=on_step)
    finally:
        if isinstance(trained_environment, EnvironmentSpec):
            opened_slots.close()


@dataclass(frozen=True)
class PolicyReturn:
    """The mean return of a policy."""

    # Mean over the episodes, and its standard error; NaN for a single episode
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
    """Return the mean return of a policy over the episodes of some seeds, as Stable-Baselines3's ``evaluate_policy``.

    It has the parameters of `play_policy`.
    """
    if not len(seeds):
        raise LegibleError("a mean return needs at least one seed.")
    played = play_policy(policy, environment, seeds, deterministic=deterministic, slots=slots, step_limit=step_limit)
    error = played.returns.std(ddof=1) / np.sqrt(len(played)) if len(played) > 1 else np.nan
    return PolicyReturn(float(played.returns.mean()), float(error), played)
