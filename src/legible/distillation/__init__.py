"""A guided policy as a network without rules: the same architecture, started from the policy's weights.

- `teacher`: labels of the guided policy.
- `student`: the network that learns, as a PyTorch module and as a policy.
- `losses`: the losses of each kind of output.
- `rounds`: play, ask the teacher, learn, evaluate; which round is kept.
- `checkpoint`: rounds on disk, from which a stopped distillation resumes.
- `figures`: the comparison on held-out seeds, and the rules that the network still breaks.
- `distil`: the whole distillation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.distillation.distil import Distillation, distil_policy, write_network
    from legible.distillation.figures import BrokenRule, DistillationComparison, kept_share
    from legible.distillation.rounds import RoundCheck

__all__, __getattr__, __dir__ = lazy_exports(__name__)
