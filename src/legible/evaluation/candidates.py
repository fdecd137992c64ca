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
    """A rule set that passed the race.

    Parameters
    ----------
    found_by
        Names of its sources; empty for treatments without a source, which are all confirmed.
    worth
        Conservative estimate of its gain in the race: the difference minus its standard error.
    pairs
        Its episodes in the race.
    """

    found_by: tuple[str, ...]
    worth: float
    pairs: Pairs


def choose_contenders(contenders: Sequence[Contender], most: int, *, limits_mined: bool = False) -> list[int]:
    """Return the indices of the contenders that are confirmed, in their order.

    The user's are, and the mined ones unless `limits_mined`. Of every other source at most `most` (0: any number) are,
    by their worth, without duplicates of those already chosen.
    """
    always = {YOURS} if limits_mined else {MINED, YOURS}
    chosen = [i for i, one in enumerate(contenders) if not one.found_by or always & set(one.found_by)]
    counts: dict[str, int] = {}
    rest = sorted(set(range(len(contenders))) - set(chosen))
    for i in sorted(rest, key=lambda i: -contenders[i].worth):
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
    either = one.changed[:n] | other.changed[:n]
    same = (first.returns == second.returns) & (first.lengths == second.lengths)
    same &= one.changed[:n] & other.changed[:n]
    return float(np.mean(same[either])) if either.any() else 0.0
