"""Rules: values, texts, compiled matching and English sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.rules.rule import (
        CompiledRules,
        Condition,
        Polarity,
        Rule,
        RuleError,
        RuleSet,
        find_thresholds,
        parse_rule,
        triggers,
    )
    from legible.rules.wording import (
        Mood,
        describe_likewise,
        describe_rule,
        describe_rule_set,
        gerund,
        representative_rule,
        rule_parts,
        short_action_words,
        third_person,
    )

__all__, __getattr__, __dir__ = lazy_exports(__name__)
