"""Which rule sets are confirmed: of those that passed the race, the best ones of each source, and different ones.

A search tries thousands of rule sets. Dozens that do nothing pass the race by luck, and many of those that do something
say the same in other words. On fresh seeds all of them would be tests that the correction for many tests pays for. So
few of them are confirmed; which ones is decided on the seeds of the race alone.

- `Contender`: a rule set that passed the race; `choose_contenders`: those that are confirmed.
- `sameness`: how many of the episodes that two rule sets change they change in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legible.evaluation.pairs import Pairs

ALL_CONFIRMED = ("mined", "yours")
"""Sources whose rule sets are all confirmed: the paper's, and what the user asks for."""
SAME_EPISODES_SHARE = 0.8
"""Two rule sets that change a larger share of their episodes in the same way are one."""


@dataclass(frozen=True)
class Contender:
    """A rule set that passed the race.

    Parameters
    ----------
    found_by
        The sources that named it; none for treatments that no source named, which are all confirmed.
    worth
        What it gains at least, by the race: the difference less its standard error.
    pairs
        Its episodes in the race.
    """

    found_by: tuple[str, ...]
    worth: float
    pairs: Pairs

    @property
    def is_always_confirmed(self) -> bool:
        """Whether it is confirmed whatever others do."""
        return not self.found_by or any(name in ALL_CONFIRMED for name in self.found_by)


def choose_contenders(contenders: Sequence[Contender], most: int) -> list[int]:
    """Return the places of those that are confirmed, in their order.

    Those of the sources in `ALL_CONFIRMED` all are. Of every other source at most `most` (0: any number) are, by their
    worth, and none that does the same as one that is chosen already.
    """
    chosen = [i for i, one in enumerate(contenders) if one.is_always_confirmed]
    counts: dict[str, int] = {}
    rest = [i for i in range(len(contenders)) if not contenders[i].is_always_confirmed]
    for i in sorted(rest, key=lambda i: -contenders[i].worth):
        source = contenders[i].found_by[0]
        if most and counts.get(source, 0) >= most:
            continue
        if any(sameness(contenders[i].pairs, contenders[k].pairs) > SAME_EPISODES_SHARE for k in chosen):
            continue
        chosen.append(i)
        counts[source] = counts.get(source, 0) + 1
    return sorted(chosen)


def sameness(one: Pairs, other: Pairs) -> float:
    """Share of the episodes that both change in the same way among those that either changes, on their common seeds."""
    n = min(len(one), len(other))
    first, second = one.guided[:n], other.guided[:n]
    either = one.changed[:n] | other.changed[:n]
    same = (first.returns == second.returns) & (first.lengths == second.lengths)
    same &= one.changed[:n] & other.changed[:n]
    return float(np.mean(same[either])) if either.any() else 0.0
