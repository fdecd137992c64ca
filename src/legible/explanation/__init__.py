"""Results of a study in words: where the policy is weak, why, and what to do.

- `answer_questions`: short answers to what a reader asks first, each an `Answer`.
- `conclude`: the `Conclusion` of a study; `is_repair`, `imitated_reference`:
  whether guidance is worth using.
- `summarise_deployment`: the `Deployment`, which figures get better and worse with guidance.
- `suggest_next_steps`: the `NextSteps` of a study without a repair: its sensitivity, and what to try next.
- `group_weaknesses`: groups of rule sets that are one weakness, each a `WeaknessGroup`.
- `explain_weakness`, `explain_weaknesses`: weaknesses in words, each a `WeaknessExplanation`.
- `knowledge_of`: how often the policy follows each of the generalised rules.
- `leave_one_out`: the effect of each of the generalised rules.
- `stronger_rules`: mined rules that are narrower than a generalised rule, as in the paper's discussion.
- `group_shares`: the share of rules that use groups of features; `feature_groups`: the groups that features define.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.explanation.answers import Answer, answer_questions
    from legible.explanation.contributions import Contribution, leave_one_out
    from legible.explanation.deployment import Deployment, FigureChange, SeedLoss, summarise_deployment
    from legible.explanation.explain import explain_weakness, explain_weaknesses
    from legible.explanation.grouping import WeaknessGroup, group_weaknesses
    from legible.explanation.groups import Groups, feature_groups, group_shares
    from legible.explanation.knowledge import Knowledge, knowledge_of
    from legible.explanation.next_steps import NextSteps, detectable_effect, suggest_next_steps
    from legible.explanation.verdict import Conclusion, conclude, imitated_reference, is_repair
    from legible.explanation.weakness import Cause, StrongerRule, WeaknessExplanation, stronger_rules

__all__, __getattr__, __dir__ = lazy_exports(__name__)
