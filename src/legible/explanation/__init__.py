"""What a study found, for people: where the policy is weak, why, and what its rules speak of.

- `conclude`: a whole study in a few sentences, a `Conclusion`; `verdict_sentence`: the same as one text; `is_repair`,
  `imitated_reference`: what guidance is worth.
- `weigh_deployment`: what gets better and worse with guidance, a `Deployment`.
- `look_ahead`: what a study that confirmed nothing still says, and what to try next, an `Outlook`.
- `group_weaknesses`: which rule sets are one weakness, each a `WeaknessGroup`.
- `explain_weakness`, `explain_weaknesses`: weaknesses in words, each a `WeaknessExplanation`.
- `knowledge_of`: for which of the generalised rules the policy does as they say ("knows it for north, not for east").
- `leave_one_out`: which of the generalised rules make the difference.
- `stronger_rules`: narrower versions of the generalised rules that were mined, as in the paper's discussion.
- `group_shares`: the share of rules that speak of groups of features; `feature_groups`: those that features name.
"""

from __future__ import annotations

from legible.explanation.contributions import Contribution, leave_one_out
from legible.explanation.deployment import Deployment, FigureChange, SeedLoss, weigh_deployment
from legible.explanation.explain import explain_weakness, explain_weaknesses
from legible.explanation.grouping import WeaknessGroup, group_weaknesses
from legible.explanation.groups import Groups, feature_groups, group_shares
from legible.explanation.knowledge import Knowledge, knowledge_of
from legible.explanation.next_steps import Outlook, detectable_effect, look_ahead
from legible.explanation.verdict import (
    Conclusion,
    conclude,
    imitated_reference,
    is_repair,
    verdict_sentence,
)
from legible.explanation.weakness import Cause, StrongerRule, WeaknessExplanation, stronger_rules

__all__ = [
    "Cause",
    "Conclusion",
    "Contribution",
    "Deployment",
    "FigureChange",
    "Groups",
    "Knowledge",
    "Outlook",
    "SeedLoss",
    "StrongerRule",
    "WeaknessExplanation",
    "WeaknessGroup",
    "conclude",
    "detectable_effect",
    "explain_weakness",
    "explain_weaknesses",
    "feature_groups",
    "group_shares",
    "group_weaknesses",
    "imitated_reference",
    "is_repair",
    "knowledge_of",
    "leave_one_out",
    "look_ahead",
    "stronger_rules",
    "verdict_sentence",
    "weigh_deployment",
]
