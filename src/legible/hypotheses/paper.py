"""The paper's source of rule sets, the same rules by themselves, the user's own, and those of others."""

from __future__ import annotations

from collections.abc import Sequence

from legible.hypotheses.source import OTHERS, Hypotheses, SourceInput, register_source
from legible.relations import MetamorphicRelation, generalise_all
from legible.rules import Rule, RuleSet


def mined(known: SourceInput) -> Hypotheses:
    """Every mined rule, generalised (the paper)."""
    yield generalised([mined_rule.rule for mined_rule in known.mining.rules], known.relations)


def alone(known: SourceInput) -> Hypotheses:
    """Every mined rule by itself: a relation that holds only nearly can hide a weakness that the rule alone shows."""
    yield [RuleSet((mined_rule.rule,), mined_rule.rule) for mined_rule in known.mining.rules]


def yours(known: SourceInput) -> Hypotheses:
    """The rules that the user gave, generalised."""
    yield generalised(known.rules, known.relations)


def others(known: SourceInput) -> Hypotheses:
    """The rules of other policies and studies, generalised: what others do and this policy does not."""
    yield generalised([rule for rules in known.others.values() for rule in rules], known.relations)


def generalised(rules: Sequence[Rule], relations: Sequence[MetamorphicRelation]) -> list[RuleSet]:
    """Generalise rules; those that no condition is left of are not tested."""
    return [found.rule_set for found in generalise_all(rules, relations) if not found.is_empty]


register_source("mined", mined)
register_source("alone", alone)
register_source(OTHERS, others)
register_source("yours", yours)
