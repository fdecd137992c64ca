"""Selection of the rule sets that are confirmed: of those that passed the race, the best and distinct ones per source.

A search tries thousands of rule sets. Dozens without effect pass the race by chance, and many others do the same in
other words. Confirming all of them would make the correction for multiple tests too strict. So only a few are
confirmed, selected on the seeds of the race alone.

- `Contender`: a rule set that passed the race; `choose_contenders`: selects those that are confirmed.
- `share_changed_alike`: the share of changed episodes that two rule sets change in the same way.
- `overlap`: how much two rule sets change the same states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.pairs import Pairs

MINED, YOURS = "mined", "yours"
"""Sources whose rule sets are all confirmed: the paper's, and rules that the user gives."""
SAME_EPISODES_SHARE = 0.8
"""Rule sets that change a larger share of their episodes in the same way count as duplicates."""

MIN_CHANGED_STATES = 10
"""Fewer changed states are too few to measure an overlap."""


@dataclass(frozen=True)
class Contender:
    """A rule set that passed the race."""

    found_by: tuple[str, ...]  # names of its sources; empty for treatments without a source, which are all confirmed
    worth: float  # conservative estimate of its gain in the race: the difference minus its standard error
    pairs: Pairs  # its episodes in the race
    states: NDArray[np.bool_] | None = None  # in which recorded states it changes the action; None: unknown


def choose_contenders(
    contenders: Sequence[Contender], most: int, *, limits_mined: bool = False, most_alike: int = 0, alike: float = 1.0
) -> list[int]:
    """Return the indices of the contenders that are confirmed, in their order.

    All rules of the user are confirmed, and all mined ones unless `limits_mined`. Of every other source, at most `most`
    (0: any number) are, the best first, without duplicates of those already chosen. Of contenders whose changed states
    have an `overlap` of at least `alike` with those of a better one, at most `most_alike` (0: any number) are chosen,
    including the better one: they reveal the same weakness.
    """
    unlimited_sources = {YOURS} if limits_mined else {MINED, YOURS}
    # `found_by` is empty for treatments that no source proposed; they are all confirmed.
    chosen = [i for i, one in enumerate(contenders) if not one.found_by or unlimited_sources & set(one.found_by)]
    counts: dict[str, int] = {}  # of the chosen contenders by source
    others = sorted(set(range(len(contenders))) - set(chosen))
    for i in sorted(others, key=lambda i: -contenders[i].worth):
        source = contenders[i].found_by[0]
        if most and counts.get(source, 0) >= most:
            continue
        if any(share_changed_alike(contenders[i].pairs, contenders[k].pairs) > SAME_EPISODES_SHARE for k in chosen):
            continue  # a duplicate
        same_weakness = [k for k in chosen if _changes_same_states(contenders[i], contenders[k], alike)]
        if most_alike and len(same_weakness) >= most_alike:
            continue
        chosen.append(i)
        counts[source] = counts.get(source, 0) + 1
    return sorted(chosen)


def _changes_same_states(one: Contender, other: Contender, alike: float) -> bool:
    return one.states is not None and other.states is not None and overlap(one.states, other.states) >= alike


def overlap(one: NDArray[np.bool_], two: NDArray[np.bool_]) -> float:
    """Return how much of the smaller of two sets of states lies in the larger: 1 for all of it, 0 for chance level.

    >>> few, many = np.arange(100) < 10, np.arange(100) < 50
    >>> overlap(few, many), overlap(few, ~many), overlap(few, np.arange(100) % 2 == 0)
    (1.0, -1.0, 0.0)
    """
    small, large = sorted((one, two), key=lambda states: int(states.sum()))
    if int(small.sum()) < MIN_CHANGED_STATES or large.all():
        return 0.0
    inside, by_chance = float(large[small].mean()), float(large.mean())
    return (inside - by_chance) / (1.0 - by_chance)


def share_changed_alike(one: Pairs, other: Pairs) -> float:
    """Return the share of the episodes changed by either rule set that both change in the same way, on common seeds."""
    n = min(len(one), len(other))
    first, second = one.guided[:n], other.guided[:n]
    is_changed, is_changed_by_both = one.changed[:n] | other.changed[:n], one.changed[:n] & other.changed[:n]
    is_alike = is_changed_by_both & (first.returns == second.returns) & (first.lengths == second.lengths)
    return float(np.mean(is_alike[is_changed])) if is_changed.any() else 0.0
