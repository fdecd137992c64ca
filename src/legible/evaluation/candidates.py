"""Selection of the rule sets that are confirmed: of those that passed the race, the best and distinct ones per source.

A search tries thousands of rule sets. Dozens without effect pass the race by chance, and many others do the same in
other words. Confirming all of them would make the correction for multiple tests too strict. So only a few are
confirmed, selected on the seeds of the race alone.

- `Contender`: a rule set that passed the race; `choose_contenders`: selects those that are confirmed.
- `share_changed_alike`: the share of changed episodes that two rule sets change in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legible.evaluation.pairs import Pairs

MINED, YOURS = "mined", "yours"
"""Sources whose rule sets are all confirmed: the paper's, and rules that the user gives."""
SAME_EPISODES_SHARE = 0.8
"""Rule sets that change a larger share of their episodes in the same way count as duplicates."""


@dataclass(frozen=True)
class Contender:
    """A rule set that passed the race."""

    found_by: tuple[str, ...]  # names of its sources; empty for treatments without a source, which are all confirmed
    worth: float  # conservative estimate of its gain in the race: the difference minus its standard error
    pairs: Pairs  # its episodes in the race


def choose_contenders(contenders: Sequence[Contender], most: int, *, limits_mined: bool = False) -> list[int]:
    """Return the indices of the contenders that are confirmed, in their order.

    All rules of the user are confirmed, and all mined ones unless `limits_mined`. Of every other source, at most `most`
    (0: any number) are, the best first, without duplicates of those already chosen.
    """
    unlimited_sources = {YOURS} if limits_mined else {MINED, YOURS}
    chosen = [i for i, one in enumerate(contenders) if not one.found_by or unlimited_sources & set(one.found_by)]
    counts: dict[str, int] = {}
    others = sorted(set(range(len(contenders))) - set(chosen))
    for i in sorted(others, key=lambda i: -contenders[i].worth):
        source = contenders[i].found_by[0]
        if most and counts.get(source, 0) >= most:
            continue
        if any(share_changed_alike(contenders[i].pairs, contenders[k].pairs) > SAME_EPISODES_SHARE for k in chosen):
            continue
        chosen.append(i)
        counts[source] = counts.get(source, 0) + 1
    return sorted(chosen)


def share_changed_alike(one: Pairs, other: Pairs) -> float:
    """Return the share of the episodes changed by either rule set that both change in the same way, on common seeds."""
    n = min(len(one), len(other))
    first, second = one.guided[:n], other.guided[:n]
    is_changed, is_changed_by_both = one.changed[:n] | other.changed[:n], one.changed[:n] & other.changed[:n]
    is_alike = is_changed_by_both & (first.returns == second.returns) & (first.lengths == second.lengths)
    return float(np.mean(is_alike[is_changed])) if is_changed.any() else 0.0
