"""Branching: continuing from a visited state of an environment.

- `points`: `Point`, a decision of a recorded episode; `BranchingError`.
- `ways`: `Branching`, with one class per method: copied rows of a native batch, the environment's own state, a copy of
  the environment, a replay. `make_branching` makes one.
- `packed`: states as rows of bytes, for the many that racing keeps.
- `walking`: repeats recorded actions in slots and visits some of the steps.
- `own_state`: reads and sets the state of an environment; `generators`: finds and reseeds its random generators.
- `finding`: `find_branching_method`, tries out which method works for an environment.
- `branches`: `Branches`, the starts of episodes that continue from points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.play.branching.branches import Branches
    from legible.play.branching.finding import BranchingMethod, can_copy_rows, find_branching_method
    from legible.play.branching.points import BranchingError, Future, Point
    from legible.play.branching.ways import WAYS, Branching, States, Way, make_branching

__all__, __getattr__, __dir__ = lazy_exports(__name__)
