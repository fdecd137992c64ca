"""Losses of a network that learns from a guided policy, by its kind of output.

- `values_loss`: keeps Q-values where rules change nothing; elsewhere the rules' choice is the best by a margin.
- `log_probabilities_loss`: the guided policy's probabilities and, where it acts greedily, its choice.
- `actions_loss`: the guided policy's continuous actions.
- `margin_of`: the margin by which a Q-value should be the best.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812 (torch's own name for it)

from legible.policies.protocol import MASKED

_KEEP_WEIGHT = 0.1  # weight of the change of Q-values, relative to the choices
_MARGIN_SHARE = 0.3  # of the usual lead of the best Q-value; a larger margin would change other decisions
_CHOICE_WEIGHT = 0.5  # weight of the most likely choice, relative to all probabilities
_SMALLEST_MARGIN = 1e-6


def margin_of(values: torch.Tensor) -> float:
    """Return three tenths of the mean distance between the best and the second-best Q-value.

    >>> margin_of(torch.tensor([[1.0, 4.0, 2.0], [0.0, 0.0, 6.0]]))
    1.2
    """
    if values.shape[1] < 2:
        return 1.0
    best = values.topk(2, dim=1).values
    best = best[best[:, 1] != MASKED]  # only one choice is allowed elsewhere
    if not len(best):
        return 1.0
    return max(_MARGIN_SHARE * float((best[:, 0] - best[:, 1]).mean()), _SMALLEST_MARGIN)


def values_loss(
    outputs: torch.Tensor, unguided: torch.Tensor, choices: torch.Tensor, changed: torch.Tensor, margin: float
) -> torch.Tensor:
    """Return the loss of a network of Q-values that learns to act like a guided policy.

    It has two parts: Q-values should stay as they are where rules change nothing, and the choice of the guided policy
    should have the highest Q-value by a margin (a hinge loss).

    - `outputs`: q-values of the network, ``float32[n, actions]``.
    - `unguided`: q-values of the unguided policy, ``float32[n, actions]``; actions that the environment forbids, which
      do not count, are `MASKED`.
    - `choices`: actions of the guided policy, ``int64[n]``.
    - `changed`: where they differ from those of the unguided policy, ``bool[n]``.
    - `margin`: how far the choice of the guided policy should lead over the second-best action where rules decide.
      Elsewhere its lead in the unguided policy is enough, if that is smaller.
    """
    # Squared distance from the unguided Q-values in units of the margin, ``[n]``; 0 where rules change the action.
    masked = unguided == MASKED
    if bool(masked.any()):
        distances = torch.where(masked, 0.0, outputs - torch.where(masked, 0.0, unguided)) / margin
        drift = distances.square().sum(dim=1) / (~masked).sum(dim=1) * ~changed
        # From here on, masked actions are never the best.
        unguided, outputs = (torch.where(masked, -torch.inf, values) for values in (unguided, outputs))
    else:
        drift = ((outputs - unguided) / margin).square().mean(dim=1) * ~changed
    # The wanted lead of the guided policy's choice over every other action, and how much of it is missing.
    chosen = choices[:, None]
    best_other = unguided.scatter(1, chosen, -torch.inf).max(dim=1).values
    unguided_lead = unguided.gather(1, chosen)[:, 0] - best_other
    wanted_lead = torch.where(changed, margin, unguided_lead.clamp(0.0, margin))
    lead_over_others = wanted_lead[:, None].expand_as(outputs).scatter(1, chosen, 0.0)  # 0 for the choice itself
    needed_value = (outputs + lead_over_others).max(dim=1).values
    missing_lead = needed_value - outputs.gather(1, chosen)[:, 0]
    return (_KEEP_WEIGHT * drift + missing_lead / margin).mean()


def log_probabilities_loss(
    outputs: torch.Tensor, targets: torch.Tensor, choices: torch.Tensor, *, greedy: bool
) -> torch.Tensor:
    """Return the loss of log-probabilities: the cross-entropy with the guided policy's.

    - `outputs`, `targets`: ``float32[n, choices]``, the scores of the network and of the guided policy, group after
      group.
    - `choices`: ``int64[n, groups]``, the guided policy's.
    - `greedy`: whether the most likely choice is taken, so that it has a weight in the loss.
    """
    loss = -(targets.exp() * outputs).sum(dim=1).mean()
    return loss - _CHOICE_WEIGHT * outputs.gather(1, choices).sum(dim=1).mean() if greedy else loss


def actions_loss(outputs: torch.Tensor, targets: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """Return the loss of continuous actions: the squared distance, relative to the width of the action space."""
    return F.mse_loss(outputs / spread, targets / spread)
