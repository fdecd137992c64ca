"""Step 1 of the paper: rules that say what a policy does and what it avoids."""

from __future__ import annotations

from legible.mining.mining import POLARITIES, MinedRule, Mining, exclusion, inclusion, judge_rules, mine

__all__ = [
    "POLARITIES",
    "MinedRule",
    "Mining",
    "exclusion",
    "inclusion",
    "judge_rules",
    "mine",
]
