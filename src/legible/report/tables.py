"""Rows of the report's tables.

- `RuleRow`, `rule_rows`: every rule set that was tested, with what became of it.
- `StepRow`, `step_rows`: how the composition came about; `front_rows`: others that change less.
- `BaselineRow`, `baseline_rows`: the paper's baselines.
- `SeedRow`, `seed_rows`: which seeds each stage used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from legible.evaluation import Evaluation, Verdict, find_objective
from legible.evaluation.statistics import Effect
from legible.formatting import capitalise, counted, percent
from legible.mining import MinedRule
from legible.play import STAGES, Known, stage_seeds
from legible.report.weakness_cards import WeaknessCard
from legible.rules import Rule, RuleSet, describe_rule, describe_rule_set, representative_rule
from legible.study import Study

BASELINE_NAMES = {
    "block": "random testing: actions blocked at random",
    "enforce": "random testing: actions enforced at random",
    "rules": "random rules",
}


@dataclass(frozen=True)
class RuleRow:
    """A rule set, by the rule that it was generalised from, with what became of it; or a rule that was not tested.

    `weakness` is the number of the card that tells of it, if there is one; `equal` counts further mined rules that give
    the same rule set.
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
        """The strongest thing to say about it."""
        order = ("confirmed", "found", "harmful")
        return next((kind for kind in order if kind in self.kinds), "")


@dataclass(frozen=True)
class StepRow:
    """One turn of the composition: what was tried, and what became of it.

    `adds` is what it adds to the objective, where that was tested; `weakness` is the number of the card that tells of
    it, if there is one.
    """

    words: str
    mean: float
    error: float
    adds: Effect | None
    changed: float
    badge: str
    weakness: int | None = None


@dataclass(frozen=True)
class BaselineRow:
    """How many tests of a kind found a weakness."""

    name: str
    tests: int
    weaknesses: float
    significant: float
    confirmed: float
    best: float | None


@dataclass(frozen=True)
class SeedRow:
    """The seeds of a stage."""

    stage: str
    used_for: str
    first: int
    episodes: int


def rule_rows(study: Study, cards: Sequence[WeaknessCard] = ()) -> Iterator[RuleRow]:
    """Return every rule set that was tested, in order, and then the mined rules that were not.

    Rule sets that are equal were tested once and are one row, so that the table counts as the headline does.
    """
    mined = {entry.rule: entry for entry in study.mining.rules}
    numbers = _numbers(cards)
    seen: set[Rule] = set()
    for verdict in study.evaluation.verdicts:
        rule = representative_rule(verdict.rule_set)
        source = verdict.rule_set.source or rule
        seen |= {source, *verdict.equal_sources}
        row = _rule_row(source, mined.get(source), verdict, study)
        if verdict.rule_set.source is None:
            words, text = describe_rule_set(verdict.rule_set, study.space), verdict.rule_set.short_text(study.space)
            row = replace(row, words=capitalise(words), text=text)
        yield replace(row, equal=len(verdict.equal_sources), weakness=numbers.get(verdict.rule_set))
    for found in study.generalisations:
        rule_left = found.rule_set.source
        if rule_left is not None and rule_left not in seen:
            yield _rule_row(rule_left, mined.get(rule_left), None, study)


def _rule_row(rule: Rule, mined: MinedRule | None, verdict: Verdict | None, study: Study) -> RuleRow:
    kinds = []
    if verdict is None:
        kinds.append("untested")
    elif verdict.is_confirmed:
        kinds += ["confirmed", "found"]
    elif verdict.is_weakness:
        kinds.append("found")
    elif verdict.is_harmful:
        kinds.append("harmful")
    if verdict is not None and verdict.rule_set in study.improvement.rule_sets:
        kinds.append("used")
    space = study.space
    return RuleRow(
        words=capitalise(describe_rule(rule, space)),
        text=rule.text(space),
        action=space.actions[rule.action].label,
        polarity=rule.polarity,
        mined=mined,
        verdict=verdict,
        kinds=tuple(kinds),
        origin="" if mined is not None or verdict is None else verdict.found_by or "given",
    )


def _numbers(cards: Sequence[WeaknessCard]) -> dict[RuleSet, int]:
    """The numbers of the cards that rule sets are told of in."""
    return {rule_set: number for number, card in enumerate(cards, start=1) for rule_set in card.rule_sets}


def step_rows(study: Study, cards: Sequence[WeaknessCard] = ()) -> Iterator[StepRow]:
    """Return the turns of the composition."""
    numbers = _numbers(cards)
    for step in study.improvement.steps:
        words = capitalise(describe_rule_set(step.rule_set, study.space, "advice"))
        badge = "left out" if step.is_removal else "kept" if step.accepted else "not kept"
        weakness = numbers.get(step.rule_set)
        yield StepRow(words, step.mean, step.error, step.effect, step.changed, badge, weakness)


def front_rows(study: Study) -> Iterator[tuple[str, Effect]]:
    """Return the compositions that no other one beats in both gain and changed actions, each in words with its gain."""
    shown = find_objective(study.settings.evaluation.objective).shown
    for point in study.improvement.front:
        mean, low, high = (shown(value) for value in (point.effect.mean, point.effect.low, point.effect.high))
        words = f"{percent(point.changed)} of the actions, {counted(len(point.composition), 'rule')}"
        effect = replace(point.effect, mean=mean, low=min(low, high), high=max(low, high))
        yield f"{words} (chosen)" if point.is_chosen else words, effect


def baseline_rows(study: Study) -> Iterator[BaselineRow]:
    """Return the rule sets of the study and the baselines that were run; nothing where none was."""
    baselines = study.baselines
    if not baselines:
        return
    yield _baseline_row("mined and generalised rules", study.evaluation)
    for kind, evaluation in baselines.items():
        yield _baseline_row(BASELINE_NAMES[kind], evaluation)


def _baseline_row(name: str, evaluation: Evaluation) -> BaselineRow:
    confirmed = [v.confirmation.effect.mean for v in evaluation.confirmed if v.confirmation is not None]
    return BaselineRow(
        name,
        len(evaluation.verdicts),
        evaluation.share("weakness"),
        evaluation.share("significant"),
        evaluation.share("confirmed"),
        max(confirmed, default=None),
    )


def seed_rows(study: Study) -> Iterator[SeedRow]:
    """Return the stages of the study that were played, but for baselines, with their seeds."""
    evaluation = study.evaluation
    known = Known(len(evaluation.verdicts), len(evaluation.weaknesses))
    left_out = ("baseline",) if study.has("mistakes") else ("baseline", "mistakes")
    for stage in STAGES.values():
        seeds = stage.seeds(study.settings, known)
        if stage.step not in left_out and seeds:
            yield SeedRow(stage.name, stage.purpose, stage_seeds(study.seed, stage.name, 0, 1)[0], seeds)
