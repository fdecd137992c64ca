"""A guided policy as a network without rules: the same architecture, started from the policy's weights.

- `teacher`: what the guided policy says about states.
- `student`: the network that learns, as PyTorch sees it and as a policy.
- `losses`: what it learns, by what its outputs mean.
- `rounds`: play, ask the teacher, learn, look how far it is; which round is kept.
- `checkpoint`: rounds on disk, so that a distillation that was stopped goes on.
- `figures`: what it is worth on fresh seeds, and which rules it still breaks.
- `distil`: all of it.
"""

from __future__ import annotations

from legible.distillation.distil import Distillation, distil_policy, write_network
from legible.distillation.figures import BrokenRule, DistillationComparison, kept_share
from legible.distillation.rounds import RoundCheck

__all__ = [
    "BrokenRule",
    "Distillation",
    "DistillationComparison",
    "RoundCheck",
    "distil_policy",
    "kept_share",
    "write_network",
]
