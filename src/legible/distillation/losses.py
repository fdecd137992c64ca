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
    outputs: torch.Tensor, own: torch.Tensor, choices: torch.Tensor, changed: torch.Tensor, margin: float
) -> torch.Tensor:
    """Return the loss of Q-values.

    Parameters
    ----------
    outputs
        ``float32[n, actions]``, the network's.
    own
        ``float32[n, actions]``, the scores of the unguided policy; masked actions, which do not count, are `MASKED`.
    choices
        ``int64[n]``, the guided policy's.
    changed
        ``bool[n]``, where they differ from the unguided policy's.
    margin
        The lead of the guided policy's choice where rules decide; elsewhere its lead before, at most this.
    """
    masked = own == MASKED
    if bool(masked.any()):
        distances = torch.where(masked, 0.0, outputs - torch.where(masked, 0.0, own)) / margin
        kept = distances.square().sum(dim=1) / (~masked).sum(dim=1) * ~changed
        own, outputs = (torch.where(masked, -torch.inf, part) for part in (own, outputs))
    else:
        kept = ((outputs - own) / margin).square().mean(dim=1) * ~changed
    chosen = choices[:, None]
    others = own.scatter(1, chosen, -torch.inf).max(dim=1).values
    before = own.gather(1, chosen)[:, 0] - others
    wanted = torch.where(changed, margin, before.clamp(0.0, margin))
    lead = wanted[:, None].expand_as(outputs).scatter(1, chosen, 0.0)
    missing = (outputs + lead).max(dim=1).values - outputs.gather(1, chosen)[:, 0]
    return (_KEEP_WEIGHT * kept + missing / margin).mean()


def log_probabilities_loss(
    outputs: torch.Tensor, targets: torch.Tensor, choices: torch.Tensor, *, greedy: bool
) -> torch.Tensor:
    """Return the loss of log-probabilities: the cross-entropy with the guided policy's.

    Parameters
    ----------
    outputs, targets
        ``float32[n, choices]``, the scores of the network and of the guided policy, group after group.
    choices
        ``int64[n, groups]``, the guided policy's.
    greedy
        Whether the most likely choice is taken, so that it has a weight in the loss.
    """
    loss = -(targets.exp() * outputs).sum(dim=1).mean()
    return loss - _CHOICE_WEIGHT * outputs.gather(1, choices).sum(dim=1).mean() if greedy else loss


def actions_loss(outputs: torch.Tensor, targets: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """Return the loss of continuous actions: the squared distance, relative to the width of the action space."""
    return F.mse_loss(outputs / spread, targets / spread)
