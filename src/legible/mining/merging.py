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
    while True:
        found = next(
            ((i, k, rule) for i, k in combinations(range(len(merged)), 2) if (rule := _joined(merged[i], merged[k]))),
            None,
        )
        if found is None:
            return merged
        i, k, rule = found
        merged[i] = rule
        del merged[k]


def _joined(one: Rule, two: Rule) -> Rule | None:
    """Return the merged rule, or None if more than one interval differs or the intervals are not adjacent."""
    if (one.polarity, one.action, one.features) != (two.polarity, two.action, two.features):
        return None
    differ = [i for i, pair in enumerate(zip(one.conditions, two.conditions, strict=True)) if pair[0] != pair[1]]
    if len(differ) != 1:
        return None
    a, b = sorted((one.conditions[differ[0]], two.conditions[differ[0]]), key=lambda condition: condition.low)
    if a.value is not None or b.value is not None or a.high != b.low:
        return None  # categories are not merged
    joined = Condition(a.feature, a.low, b.high)
    whole = [joined] if math.isfinite(joined.low) or math.isfinite(joined.high) else []
    before, after = one.conditions[: differ[0]], one.conditions[differ[0] + 1 :]
    return Rule(one.polarity, one.action, (*before, *whole, *after))
