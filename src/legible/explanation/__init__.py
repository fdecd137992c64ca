"""What a study found, for people: where the policy is weak, why, and what its rules speak of.

- `verdict_sentence`: a whole study in a few sentences; `is_repair`, `imitated_reference`: what guidance is worth.
- `top_weaknesses`, `explain_weakness`, `explain_weaknesses`: weaknesses in words, each a `WeaknessExplanation`.
- `knowledge_of`: for which of the generalised rules the policy does as they say ("knows it for north, not for east").
- `leave_one_out`: which of the generalised rules make the difference.
- `stronger_rules`: narrower versions of the generalised rules that were mined, as in the paper's discussion.
- `group_shares`: the share of rules that speak of groups of features; `feature_groups`: those that features name.
"""

from __future__ import annotations

from legible.explanation.contributions import Contribution, leave_one_out
from legible.explanation.explain import explain_weakness, explain_weaknesses, top_weaknesses
from legible.explanation.groups import Groups, feature_groups, group_shares
from legible.explanation.knowledge import Knowledge, knowledge_of
from legible.explanation.verdict import imitated_reference, is_repair, verdict_sentence
from legible.explanation.weakness import Cause, StrongerRule, WeaknessExplanation, stronger_rules

__all__ = [
    "Cause",
    "Contribution",
    "Groups",
    "Knowledge",
    "StrongerRule",
    "WeaknessExplanation",
    "explain_weakness",
    "explain_weaknesses",
    "feature_groups",
    "group_shares",
    "imitated_reference",
    "is_repair",
    "knowledge_of",
    "leave_one_out",
    "stronger_rules",
    "top_weaknesses",
    "verdict_sentence",
]
