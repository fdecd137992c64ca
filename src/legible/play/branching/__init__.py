"""Branching: an environment is brought into a state that was visited, and goes on from there.

- `points`: `Point`, a decision of a recorded episode; `BranchingError`.
- `ways`: `Branching`, one class for each way of getting there: rows of a native batch, the environment's own state, a
  copy of the environment, a replay. `make_branching` makes one.
- `walking`: recorded actions are repeated in slots, with a look at some of the steps.
- `own_state`: environments whose state can be read and set; `generators`: where an environment draws random numbers.
- `finding`: `find_way`, which of the ways an environment gets, after trying.
- `branches`: `Branches`, where the episodes of `play_episodes` start when that is not their beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.play.branching.branches import Branches
    from legible.play.branching.finding import FoundWay, copies_rows, find_way
    from legible.play.branching.points import BranchingError, Future, Point
    from legible.play.branching.ways import WAYS, Branching, States, Way, make_branching

__all__, __getattr__, __dir__ = lazy_exports(__name__)
