"""Rules in the training of a fleet: every policy has its own rules.

- `FleetRules`: what they allow now, and how much they have to say.
- `EpisodeGuide`: which episodes of a fleet of DQN are guided, and what is done in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from lab.fleet.slots import RECORD_TAIL, TERMINATED, TRUNCATED, FleetError, TrainingSlots
from legible.streams import uniform
from legible.training.rules import RuleMasks, RuleSettings, TrainingRules


class FleetRules:
    """The rules of the policies of a fleet.

    Parameters
    ----------
    rules
        For every policy.
    settings
        How they fade out.
    """

    def __init__(self, rules: Sequence[TrainingRules], settings: RuleSettings) -> None:
        if not all(each.space.is_discrete for each in rules):
            raise FleetError("a fleet trains with rules of Discrete actions; use Stable-Baselines3 for others.")
        self.settings = settings
        self._rules = tuple(rules)
        self._masks = RuleMasks(self._rules)

    def check(self, slots: TrainingSlots, n_policies: int) -> None:
        """Raise unless there are rules for every policy, of its features and actions."""
        if len(self._rules) != n_policies:
            raise FleetError(f"{n_policies} policies need as many sets of rules, got {len(self._rules)}.")
        for each in self._rules:
            if (each.space.n_own, len(each.space.actions)) != (slots.width, slots.n_actions):
                raise FleetError(
                    f"rules of {each.space.n_own} features and {len(each.space.actions)} actions do not fit "
                    f"environments with {slots.width} and {slots.n_actions}."
                )

    def allowed(self, observations: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return the actions that rules allow in the states of all environments: ``bool[n, actions]``."""
        return self._masks.allowed(observations)

    def description(self) -> dict[str, Any]:
        """Return the rules as plain data."""
        return {**asdict(self.settings), "policies": [each.description() for each in self._rules]}


class EpisodeGuide:
    """The choice of guided episodes: drawn when they begin, with the probability that rules have then.

    Parameters
    ----------
    keys
        Of every policy, for its draws.
    n_envs
        Environments of a policy.

    Attributes
    ----------
    is_guided, begins
        ``uint8[policies, environments]``: whether the episode under way is guided, and whether it is about to begin.
    guided, changed
        Steps in guided episodes, and those in which rules changed the action.
    """

    def __init__(self, keys: NDArray[np.uint64], n_envs: int) -> None:
        self._keys = keys
        shape = (len(keys), n_envs)
        self.is_guided = np.zeros(shape, np.uint8)
        self.begins = np.ones(shape, np.uint8)
        self.guided = self.changed = 0

    def act(
        self,
        call: int,
        share: float,
        allowed: NDArray[np.bool_],
        scores: NDArray[np.float32],
        actions: NDArray[np.int64],
    ) -> None:
        """Replace actions ``[policies, environments]`` that rules forbid by the best that they allow."""
        allowed = allowed.reshape(scores.shape)
        guided, changed = _guide_actions(self._keys, call, share, self.begins, self.is_guided, allowed, scores, actions)
        self.guided += guided
        self.changed += changed

    def note_ends(self, records: NDArray[np.float32]) -> None:
        """Remember where episodes ended, from the records of a step."""
        tail = records[:, -RECORD_TAIL:]
        ended = (tail[:, TERMINATED] + tail[:, TRUNCATED]) > 0
        self.begins[:] = ended.reshape(self.begins.shape)

    def tensors(self) -> dict[str, Tensor]:
        """Return the state for a checkpoint."""
        return {"guide.guided": torch.from_numpy(self.is_guided), "guide.begins": torch.from_numpy(self.begins)}


@njit(cache=True)
def _guide_actions(
    keys: NDArray[np.uint64],
    call: int,
    share: float,
    begins: NDArray[np.uint8],
    is_guided: NDArray[np.uint8],
    allowed: NDArray[np.bool_],
    scores: NDArray[np.float32],
    actions: NDArray[np.int64],
) -> tuple[int, int]:
    """Draw which of the episodes that begin are guided, and guide; returns steps in guided ones, and changed ones."""
    n_envs = actions.shape[1]
    guided = changed = 0
    for p in range(actions.shape[0]):
        for e in range(n_envs):
            if begins[p, e]:
                is_guided[p, e] = uniform(keys[p], np.uint64(call * n_envs + e)) < share
            if not is_guided[p, e] or share <= 0.0:
                continue
            guided += 1
            if allowed[p, e, actions[p, e]]:
                continue
            best = -1
            for a in range(allowed.shape[2]):
                if allowed[p, e, a] and (best < 0 or scores[p, e, a] > scores[p, e, best]):
                    best = a
            actions[p, e] = best
            changed += 1
    return guided, changed
