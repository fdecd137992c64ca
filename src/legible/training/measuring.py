"""Evaluation of a policy after its training.

- `measure_policy`: plays episodes greedily, the same ones for every policy; `PolicyEvaluation`: the result.
- `action_names`: the names of an environment's actions.
"""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from legible.environments import EnvironmentSpec, feature_space_of, find_masks
from legible.play import PolicyChooser, episode_seeds, make_slots, play_episodes
from legible.play.acting import ActingChooser
from legible.play.slots import make_space_slots
from legible.policies import Policy, acting

EVALUATION_EPISODES = 250
_EVALUATION_SEED = 20_250  # of the episodes on which every policy of the zoo is measured
_EVALUATION_SLOTS = 125
_ACTING_SLOTS = 10


def action_names(environment: EnvironmentSpec) -> tuple[str, ...]:
    """Return the names of an environment's actions."""
    with closing(environment.make()) as env:
        return feature_space_of(env).action_names


@dataclass(frozen=True)
class PolicyEvaluation:
    """Returns and success rate of a policy that plays greedily."""

    episodes: int
    mean_return: float
    standard_error: float
    success_rate: float | None

    def as_json(self) -> dict[str, Any]:
        """Return the evaluation as plain data."""
        return asdict(self)


def measure_policy(
    policy: Policy, environment: EnvironmentSpec, n_episodes: int = EVALUATION_EPISODES
) -> PolicyEvaluation:
    """Play episodes greedily, the same ones for every policy."""
    seeds = episode_seeds(_EVALUATION_SEED, 0, n_episodes)
    with closing(environment.make()) as env:
        is_masked = find_masks(env) is not None
    if acting(policy).kind == "none" or is_masked:
        space_slots = make_space_slots(environment, min(_ACTING_SLOTS, n_episodes))
        played = play_episodes(space_slots, ActingChooser(policy, space_slots, seeds), seeds)
        space_slots.close()
    else:
        slots = make_slots(environment, min(_EVALUATION_SLOTS, n_episodes))
        played = play_episodes(slots, PolicyChooser(policy, seeds), seeds)
        slots.close()
    error = float(played.returns.std(ddof=1) / math.sqrt(n_episodes)) if n_episodes > 1 else math.nan
    known = played.success[~np.isnan(played.success)]
    success = float(known.mean()) if known.size else None
    return PolicyEvaluation(n_episodes, float(played.returns.mean()), error, success)
