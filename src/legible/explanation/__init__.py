"""What a study found, for people."""

from __future__ import annotations

from legible.explanation.weaknesses import (
    FEW_STATES,
    MARKEDLY,
    Cause,
    Contribution,
    Groups,
    Knowledge,
    StrongerRule,
    WeaknessExplanation,
    describe_rule,
    describe_rule_set,
    explain_weakness,
    explain_weaknesses,
    feature_groups,
    group_shares,
    interval_text,
    knowledge_of,
    leave_one_out,
    most_telling,
    stronger_rules,
    verdict_sentence,
)

__all__ = [
    "FEW_STATES",
    "MARKEDLY",
    "Cause",
    "Contribution",
    "Groups",
    "Knowledge",
    "StrongerRule",
    "WeaknessExplanation",
    "describe_rule",
    "describe_rule_set",
    "explain_weakness",
    "explain_weaknesses",
    "feature_groups",
    "group_shares",
    "interval_text",
    "knowledge_of",
    "leave_one_out",
    "most_telling",
    "stronger_rules",
    "verdict_sentence",
]
