"""Cards of weaknesses in the report."""

from __future__ import annotations

from dataclasses import dataclass

from legible.evaluation import Verdict
from legible.evaluation.ledger import Ledger
from legible.evaluation.statistics import Effect
from legible.explanation import Knowledge, WeaknessExplanation, explain_weakness
from legible.formatting import capitalise
from legible.rules import RuleSet, describe_rule
from legible.study import Study

MOST_WEAKNESSES = 12
MOST_LINES = 12  # rules of a set that are listed; with many vehicles there can be hundreds of related forms


@dataclass(frozen=True)
class RuleLine:
    """One rule of a rule set: how often the unguided policy follows it, and its effect if that was played."""

    words: str
    text: str
    is_mined: bool
    knowledge: Knowledge | None
    adds: Effect | None
    matters: bool


@dataclass(frozen=True)
class WeaknessCard:
    """The card of one weakness.

    `replay` is the number of its replay, if any; `joined` the step of the composition at which one of its rule sets was
    added, if any; `is_used` says whether its first rule set is in the guided policy; `ledger` splits
    its gain.
    """

    explanation: WeaknessExplanation
    title: str
    origin: str
    mined: str
    mined_words: str
    sentences: tuple[str, ...]
    rules: tuple[RuleLine, ...]
    effects: tuple[tuple[str, Effect], ...]
    replay: int | None
    joined: int | None
    is_used: bool
    ledger: Ledger | None = None

    @property
    def rule_sets(self) -> tuple[RuleSet, ...]:
        """Return all rule sets of this weakness, the strongest first."""
        return tuple(verdict.rule_set for verdict in (self.verdict, *self.explanation.others))

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the strongest rule set."""
        return self.explanation.verdict

    @property
    def is_sure(self) -> bool:
        """Return whether held-out seeds confirm it, or were not played."""
        return self.verdict.is_confirmed or self.verdict.confirmation is None


def explain_shown(study: Study) -> list[WeaknessExplanation]:
    """Return explanations of the weaknesses to show; some are explained by the study, others from recorded data."""
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
        )
        for group in study.weaknesses[:MOST_WEAKNESSES]
    ]


def weakness_card(explanation: WeaknessExplanation, study: Study, replay: int | None) -> WeaknessCard:
    """Make the card of one weakness; `replay` is the number of its replay, if any."""
    rule_set, verdict = explanation.rule_set, explanation.verdict
    # One line per rule: how often the policy follows it, and what it adds to the gain.
    contributions = {contribution.rule: contribution for contribution in explanation.contributions}
    knowledge = {entry.rule: entry for entry in explanation.knowledge}
    is_mined = any(entry.rule == rule_set.source for entry in study.mining.rules)
    lines = [
        RuleLine(
            words=describe_rule(rule, study.space, "advice"),
            text=rule.text(study.space),
            is_mined=is_mined and rule == rule_set.source,
            knowledge=knowledge.get(rule),
            adds=contributions[rule].effect if rule in contributions else None,
            matters=contributions.get(rule) in explanation.significant_contributions,
        )
        for rule in rule_set.rules
    ]
    # The effects on held-out seeds: of the whole rule set, and of its parts if they were played alone.
    confirmation = verdict.confirmation
    effects = [] if confirmation is None else [("whole rule set", confirmation.effect)]
    if confirmation is not None and len(rule_set) > 1:
        parts = (("original rule alone", confirmation.of_rule), ("related forms", confirmation.of_generalisation))
        effects += [(name, effect) for name, effect in parts if effect is not None]
    # The steps of the composition at which a rule set of this weakness was added.
    same_weakness = {other.rule_set for other in (verdict, *explanation.others)}
    joined = [
        number
        for number, step in enumerate(study.improvement.steps, start=1)
        if step.accepted and not step.is_removal and step.rule_set in same_weakness
    ]
    ledgers = zip(study.weaknesses, study.weakness_ledgers, strict=False)  # only the first weaknesses have one
    origin = f"Source: {verdict.found_by}," if verdict.found_by else "Given"
    source = rule_set.source
    # The mined rule was replaced by a more general one, so the card shows both.
    is_generalised = source is not None and source not in rule_set.rules
    return WeaknessCard(
        explanation=explanation,
        title=capitalise(explanation.title),
        origin="Mined" if is_mined else origin,
        mined="" if source is None else source.text(study.space),
        mined_words=describe_rule(source, study.space, "advice") if source is not None and is_generalised else "",
        sentences=tuple(explanation.sentences()),
        rules=tuple(sorted(lines, key=lambda line: not line.matters)[:MOST_LINES]),
        effects=tuple(effects),
        replay=replay,
        joined=joined[0] if joined else None,
        is_used=rule_set in study.improvement.rule_sets,
        ledger=next((ledger for group, ledger in ledgers if group.front.rule_set == rule_set), None),
    )
