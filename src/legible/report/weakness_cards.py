"""Weaknesses as the report shows them.

- `explain_shown`: the weaknesses that get a card, explained.
- `WeaknessCard`, `weakness_card`: one of them, with its rules as `RuleLine`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from legible.evaluation import Verdict
from legible.evaluation.statistics import Effect
from legible.explanation import Knowledge, WeaknessExplanation, explain_weakness
from legible.formatting import capitalise
from legible.rules import RuleSet, describe_rule
from legible.study import Study

MOST_WEAKNESSES = 12
MOST_LINES = 24  # rules of a set that are listed; generalised over many vehicles there can be hundreds


@dataclass(frozen=True)
class RuleLine:
    """One rule of a rule set: how often the policy, left alone, keeps to it, and what it adds where that was played."""

    words: str
    text: str
    is_mined: bool
    knowledge: Knowledge | None
    adds: Effect | None
    matters: bool


@dataclass(frozen=True)
class WeaknessCard:
    """One weakness as the report shows it.

    `replay` is the number of its replay, if there is one; `joined` the step of the composition at which one of its
    rule sets joined, if one did, and `is_used` whether the one in front is in the guided policy.
    """

    explanation: WeaknessExplanation
    title: str
    full: str
    origin: str
    mined: str
    mined_words: str
    sentences: tuple[str, ...]
    rules: tuple[RuleLine, ...]
    effects: tuple[tuple[str, Effect], ...]
    replay: int | None
    joined: int | None
    is_used: bool

    @property
    def rule_sets(self) -> tuple[RuleSet, ...]:
        """All rule sets that are this weakness, the one in front first."""
        return tuple(verdict.rule_set for verdict in (self.verdict, *self.explanation.others))

    @property
    def verdict(self) -> Verdict:
        """What the study says of it."""
        return self.explanation.verdict

    @property
    def is_sure(self) -> bool:
        """Whether fresh seeds confirm it, or were never asked."""
        return self.verdict.is_confirmed or self.verdict.confirmation is None


def explain_shown(study: Study) -> list[WeaknessExplanation]:
    """The weaknesses to show: those that the study explains in full, and more with what is at hand."""
    full = {found.rule_set: found for found in study.explanations}
    return [
        full.get(group.front.rule_set)
        or explain_weakness(
            group,
            study.space,
            experiences=study.experiences,
            mined=study.mining.rules,
            min_kept=study.settings.mining.min_accuracy,
            alpha=study.settings.evaluation.alpha,
            objective=study.settings.evaluation.objective,
            told=study.weaknesses,
        )
        for group in study.weaknesses[:MOST_WEAKNESSES]
    ]


def weakness_card(found: WeaknessExplanation, study: Study, replay: int | None) -> WeaknessCard:
    """Lay out one weakness; `replay` is the number of its replay, if there is one."""
    contributions = {c.rule: c for c in found.contributions}
    knowledge = {k.rule: k for k in found.knowledge}
    is_mined = any(entry.rule == found.rule_set.source for entry in study.mining.rules)
    lines = []
    for rule in found.rule_set.rules:
        added = contributions.get(rule)
        matters = added is not None and added in found.significant_contributions
        effect = None if added is None else added.effect
        lines.append(
            RuleLine(
                words=describe_rule(rule, study.space, "advice"),
                text=rule.text(study.space),
                is_mined=is_mined and rule == found.rule_set.source,
                knowledge=knowledge.get(rule),
                adds=effect,
                matters=matters,
            )
        )
    source, own = found.rule_set.source, {verdict.rule_set for verdict in (found.verdict, *found.others)}
    steps = enumerate(study.improvement.steps, start=1)
    return WeaknessCard(
        explanation=found,
        title=capitalise(found.title),
        full="" if found.title == found.full_title else found.full_title,
        origin="Mined" if is_mined else f"Source: {found.verdict.found_by}," if found.verdict.found_by else "Given",
        mined="" if source is None else source.text(study.space),
        mined_words=describe_rule(source, study.space, "advice")
        if source is not None and source not in found.rule_set.rules
        else "",
        sentences=tuple(found.sentences()),
        rules=tuple(sorted(lines, key=lambda line: not line.matters)[:MOST_LINES]),
        effects=tuple(_effects(found.verdict)),
        replay=replay,
        joined=next((place for place, s in steps if s.accepted and not s.is_removal and s.rule_set in own), None),
        is_used=found.rule_set in study.improvement.rule_sets,
    )


def _effects(verdict: Verdict) -> Iterator[tuple[str, Effect]]:
    if verdict.confirmation is None:
        return
    yield "all rules of the set", verdict.confirmation.effect
    if len(verdict.rule_set) > 1:
        if verdict.confirmation.of_rule is not None:
            yield "the rule it came from, alone", verdict.confirmation.of_rule
        if verdict.confirmation.of_generalisation is not None:
            yield "what generalising adds", verdict.confirmation.of_generalisation
