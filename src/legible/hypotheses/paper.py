"""Sources of rule sets: mined rules with related forms (the paper), single mined rules, your rules, rules of others."""

from __future__ import annotations

from collections.abc import Sequence

from legible.hypotheses.source import OTHERS, Hypotheses, SourceInput, register_source
from legible.relations import MetamorphicRelation, generalise_all
from legible.rules import Rule, RuleSet


def mined(known: SourceInput) -> Hypotheses:
    """Yield every mined rule with its related forms (the paper)."""
    yield generalised([mined_rule.rule for mined_rule in known.mining.rules], known.relations)


def alone(known: SourceInput) -> Hypotheses:
    """Yield every mined rule without related forms, because a relation that holds only roughly can hide a weakness."""
    yield [RuleSet((mined_rule.rule,), mined_rule.rule) for mined_rule in known.mining.rules]


def yours(known: SourceInput) -> Hypotheses:
    """Yield the user's rules with their related forms."""
    yield generalised(known.rules, known.relations)


def others(known: SourceInput) -> Hypotheses:
    """Yield the rules of other policies and studies, with their related forms."""
    yield generalised([rule for rules in known.others.values() for rule in rules], known.relations)


def generalised(rules: Sequence[Rule], relations: Sequence[MetamorphicRelation]) -> list[RuleSet]:
    """Return rules with their related forms; rules without conditions are left out."""
    return [rule_set for rule_set in generalise_all(rules, relations) if rule_set.rules]


register_source("mined", mined)
register_source("alone", alone)
register_source(OTHERS, others)
register_source("yours", yours)
