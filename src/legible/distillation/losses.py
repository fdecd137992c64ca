"""What a network learns, by what its outputs mean.

- `values_loss`: Q-values stay where rules change nothing; where they decide, theirs is the best by a margin.
- `log_probabilities_loss`: the guided policy's probabilities and, where it acts greedily, its choice.
- `actions_loss`: the guided policy's continuous actions.
- `margin_of`: by how much a Q-value is to be the best.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812 (torch's own name for it)

# How much it counts that Q-values stay what they were, beside what is done.
_KEEP_VALUES = 0.1
# A rule's choice is the best by this part of what a usual decision hangs on: more would move decisions beside it.
_LEAD = 0.3
# How much the most likely choice counts, beside all probabilities.
_CHOICE = 0.5
_SMALLEST_MARGIN = 1e-6


def margin_of(values: torch.Tensor) -> float:
    """Return three tenths of the mean distance between the best and the second-best Q-value.

    >>> margin_of(torch.tensor([[1.0, 4.0, 2.0], [0.0, 0.0, 6.0]]))
    1.2
    """
    if values.shape[1] < 2:
        return 1.0
    best = values.topk(2, dim=1).values
    return max(_LEAD * float((best[:, 0] - best[:, 1]).mean()), _SMALLEST_MARGIN)


def values_loss(
    outputs: torch.Tensor, own: torch.Tensor, choices: torch.Tensor, changed: torch.Tensor, margin: float
) -> torch.Tensor:
    """Return the loss of Q-values.

    Parameters
    ----------
    outputs
        ``float32[n, actions]``, the network's.
    own
        ``float32[n, actions]``, those of the policy that it started from.
    choices
        ``int64[n]``, what the guided policy does.
    changed
        ``bool[n]``, where that is not what the policy does.
    margin
        By how much the guided policy's choice is to be the best where rules decide; elsewhere by as much as it was
        before, and no more than this.
    """
    kept = ((outputs - own) / margin).square().mean(dim=1) * ~changed
    chosen = choices[:, None]
    others = own.scatter(1, chosen, -torch.inf).max(dim=1).values
    before = own.gather(1, chosen)[:, 0] - others
    wanted = torch.where(changed, margin, before.clamp(0.0, margin))
    lead = wanted[:, None].expand_as(outputs).scatter(1, chosen, 0.0)
    missing = (outputs + lead).max(dim=1).values - outputs.gather(1, chosen)[:, 0]
    return (_KEEP_VALUES * kept + missing / margin).mean()


def log_probabilities_loss(
    outputs: torch.Tensor, targets: torch.Tensor, choices: torch.Tensor, *, greedy: bool
) -> torch.Tensor:
    """Return the loss of log-probabilities: the cross-entropy with the guided policy's.

    Parameters
    ----------
    outputs, targets
        ``float32[n, choices]``, the network's and the guided policy's; those of several groups one after another.
    choices
        ``int64[n, groups]``, what the guided policy does.
    greedy
        Whether the most likely choice is what is done, so that it matters by itself.
    """
    loss = -(targets.exp() * outputs).sum(dim=1).mean()
    return loss - _CHOICE * outputs.gather(1, choices).sum(dim=1).mean() if greedy else loss


def actions_loss(outputs: torch.Tensor, targets: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """Return the loss of continuous actions: the squared distance, in parts of what is possible."""
    return F.mse_loss(outputs / spread, targets / spread)
