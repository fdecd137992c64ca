"""Rows of the report's tables: rule sets that were tested, steps of the composition, and seeds of each stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from legible.evaluation import Verdict, find_objective
from legible.evaluation.statistics import Effect
from legible.formatting import capitalise, counted, percent
from legible.mining import MinedRule
from legible.play import STAGES, Known, stage_seeds
from legible.report.weakness_cards import WeaknessCard
from legible.rules import Rule, RuleSet, describe_rule, describe_rule_set, representative_rule
from legible.study import Study


@dataclass(frozen=True)
class RuleRow:
    """A rule set, named by its first rule, with its verdict; or a rule that was not tested.

    `weakness` is the number of its weakness card, if any; `equal` counts other mined rules with the same rule set.
    """

    words: str
    text: str
    action: str
    polarity: str
    mined: MinedRule | None
    verdict: Verdict | None
    kinds: tuple[str, ...]
    origin: str = ""
    equal: int = 0
    weakness: int | None = None

    @property
    def badge(self) -> str:
        """Return its most important kind."""
        order = ("confirmed", "found", "harmful")
        return next((kind for kind in order if kind in self.kinds), "")


@dataclass(frozen=True)
class StepRow:
    """One step of the composition.

    `adds` is its effect on the objective, if tested; `weakness` is the number of its weakness card, if any.
    """

    words: str
    mean: float
    error: float
    adds: Effect | None
    changed: float
    badge: str
    weakness: int | None = None


@dataclass(frozen=True)
class SeedRow:
    """The seeds of a stage."""

    stage: str
    used_for: str
    first: int
    episodes: int


def rule_rows(study: Study, cards: Sequence[WeaknessCard] = ()) -> Iterator[RuleRow]:
    """Return all tested rule sets in order, and then the mined rules that were not tested.

    Equal rule sets were tested once and are one row. So are, of two actions, taking one and avoiding the other.
    """
    space, card_numbers = study.space, _card_numbers(cards)
    mined = {entry.rule: entry for entry in study.mining.rules}

    def row(rule: Rule, verdict: Verdict | None, kinds: Sequence[str]) -> RuleRow:
        """Return the row of a rule set by the rule that it was made from."""
        return RuleRow(
            words=capitalise(describe_rule(rule, space)),
            text=rule.text(space),
            action=space.actions[rule.action].label,
            polarity=rule.polarity,
            mined=mined.get(rule),
            verdict=verdict,
            kinds=tuple(kinds),
            origin="" if rule in mined or verdict is None else verdict.found_by or "given",
        )

    shown: set[Rule] = set()
    actions = len(space.actions) if space.is_discrete else 0
    # Equal keys: rule sets that give the same advice (with two actions, taking one is avoiding the other).
    keys = [verdict.rule_set.advice_key(actions) for verdict in study.evaluation.verdicts]
    for index, verdict in enumerate(study.evaluation.verdicts):
        source = verdict.rule_set.source or representative_rule(verdict.rule_set)
        shown |= {source, *verdict.equal_sources}
        if keys[index] in keys[:index]:  # it is counted in the row of the first
            continue
        # Words by which the table of the report is filtered.
        kinds = ["harmful"] if verdict.is_harmful else []
        if verdict.is_confirmed:
            kinds = ["confirmed", "found"]
        elif verdict.is_weakness:
            kinds = ["found"]
        if verdict.rule_set in study.improvement.rule_sets:
            kinds.append("used")
        equal = len(verdict.equal_sources) + keys.count(keys[index]) - 1
        tested = replace(row(source, verdict, kinds), equal=equal, weakness=card_numbers.get(verdict.rule_set))
        if verdict.rule_set.source is None:
            words, text = describe_rule_set(verdict.rule_set, space), verdict.rule_set.short_text(space)
            tested = replace(tested, words=capitalise(words), text=text)
        yield tested
    for related_forms in study.generalisations:
        untested = related_forms.source
        if untested is not None and untested not in shown:
            yield row(untested, None, ["untested"])


def _card_numbers(cards: Sequence[WeaknessCard]) -> dict[RuleSet, int]:
    """Return the number of the weakness card of each rule set."""
    return {rule_set: number for number, card in enumerate(cards, start=1) for rule_set in card.rule_sets}


def step_rows(study: Study, cards: Sequence[WeaknessCard] = ()) -> Iterator[StepRow]:
    """Return the steps of the composition."""
    card_numbers = _card_numbers(cards)
    for step in study.improvement.steps:
        words = capitalise(describe_rule_set(step.rule_set, study.space, "advice"))
        badge = "left out" if step.is_removal else "kept" if step.accepted else "not kept"
        weakness = card_numbers.get(step.rule_set)
        yield StepRow(words, step.mean, step.error, step.effect, step.changed, badge, weakness)


def front_rows(study: Study) -> Iterator[tuple[str, Effect]]:
    """Return the compositions that no other one beats in both gain and override rate, each with its gain."""
    shown = find_objective(study.settings.evaluation.objective).shown
    for point in study.improvement.front:
        mean, low, high = (shown(value) for value in (point.effect.mean, point.effect.low, point.effect.high))
        words = f"override rate {percent(point.changed)}, {counted(len(point.composition), 'rule')}"
        effect = replace(point.effect, mean=mean, low=min(low, high), high=max(low, high))
        yield f"{words} (chosen)" if point.is_chosen else words, effect


def seed_rows(study: Study) -> Iterator[SeedRow]:
    """Return the stages of the study that were played, with their seeds."""
    evaluation = study.evaluation
    known = Known(len(evaluation.verdicts), len(evaluation.weaknesses))
    for stage in STAGES.values():
        seeds = stage.seeds(study.settings, known)
        if seeds and (stage.step != "mistakes" or study.has("mistakes")):
            yield SeedRow(stage.name, stage.purpose, stage_seeds(study.seed, stage.name, 0, 1)[0], seeds)
