"""Merging of rules that differ only in adjacent intervals of one feature: `merge_slices`.

Deciles cut a feature into ten intervals, so a learner finds two rules for what holds in two adjacent ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

from legible.rules import Condition, Rule


def merge_slices(rules: Iterable[Rule]) -> list[Rule]:
    """Merge rules that differ only in adjacent intervals of one feature.

    The merged rule holds exactly where one of the rules did. Other rules stay unchanged, in their order.

    >>> rules = [Rule("+", 0, (Condition(1, low, low + 1.0),)) for low in (0.0, 2.0, 1.0, 5.0)]
    >>> [(rule.conditions[0].low, rule.conditions[0].high) for rule in merge_slices(rules)]
    [(0.0, 3.0), (5.0, 6.0)]
    """
    merged = list(rules)
    is_complete = False
    while not is_complete:
        is_complete = True
        for first, second in combinations(range(len(merged)), 2):
            joined = _join_rules(merged[first], merged[second])
            if joined is not None:
                merged[first] = joined
                del merged[second]
                is_complete = False
                break
    return merged


def _join_rules(one: Rule, two: Rule) -> Rule | None:
    """Return the merged rule, or None if more than one interval differs or the intervals are not adjacent."""
    if (one.polarity, one.action, one.features) != (two.polarity, two.action, two.features):
        return None
    pairs = list(zip(one.conditions, two.conditions, strict=True))
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    if len(differing) != 1:
        return None
    lower, upper = sorted(differing[0], key=lambda condition: condition.low)
    if lower.value is not None or upper.value is not None or lower.high != upper.low:
        return None  # categories are not merged
    joined = Condition(lower.feature, lower.low, upper.high)
    conditions = [joined if pair == differing[0] else pair[0] for pair in pairs]
    if not math.isfinite(joined.low) and not math.isfinite(joined.high):
        conditions.remove(joined)  # it holds everywhere
    return Rule(one.polarity, one.action, tuple(conditions))
