"""Rows of the report's tables.

- `RuleRow`, `rule_rows`: every mined rule, with what became of it.
- `StepRow`, `step_rows`: how the composition came about; `front_rows`: others that change less.
- `BaselineRow`, `baseline_rows`: the paper's baselines.
- `SeedRow`, `seed_rows`: which seeds each stage used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from legible.evaluation import Evaluation, Verdict, find_objective
from legible.evaluation.statistics import Effect
from legible.formatting import capitalise, counted, percent
from legible.mining import MinedRule
from legible.play import STAGES, Known, stage_seeds
from legible.rules import Rule, describe_rule, describe_rule_set
from legible.study import Study

BASELINE_NAMES = {
    "block": "random testing: actions blocked at random",
    "enforce": "random testing: actions enforced at random",
    "rules": "random rules",
}


@dataclass(frozen=True)
class RuleRow:
    """A mined rule (or one of the user's), with what became of it."""

    words: str
    text: str
    action: str
    polarity: str
    mined: MinedRule | None
    verdict: Verdict | None
    kinds: tuple[str, ...]

    @property
    def badge(self) -> str:
        """The strongest thing to say about it."""
        order = ("confirmed", "found", "harmful")
        return next((kind for kind in order if kind in self.kinds), "")


@dataclass(frozen=True)
class StepRow:
    """One turn of the composition: what was tried, and what became of it."""

    words: str
    mean: float
    error: float
    changed: float
    badge: str


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


def rule_rows(study: Study) -> Iterator[RuleRow]:
    """Return every mined rule and every rule of the user's, with the verdict on what it generalises to."""
    mined = {entry.rule: entry for entry in study.mining.rules}
    verdicts = {
        source: verdict
        for verdict in study.evaluation.verdicts
        for source in (verdict.rule_set.source, *verdict.equal_sources)
    }
    for found in study.generalisations:
        rule = found.rule_set.source
        if rule is not None:
            yield _rule_row(rule, mined.get(rule), verdicts.get(rule), study)


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
    if any(rule_set.source == rule for rule_set in study.improvement.rule_sets):
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
    )


def step_rows(study: Study) -> Iterator[StepRow]:
    """Return the turns of the composition."""
    for step in study.improvement.steps:
        words = capitalise(describe_rule_set(step.rule_set, study.space, "advice"))
        badge = "left out" if step.is_removal else "kept" if step.accepted else "not kept"
        yield StepRow(words, step.mean, step.error, step.changed, badge)


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
    left_out = ("baseline",) if study.has_mistakes else ("baseline", "mistakes")
    for stage in STAGES.values():
        seeds = stage.seeds(study.settings, known)
        if stage.step not in left_out and seeds:
            yield SeedRow(stage.name, stage.purpose, stage_seeds(study.seed, stage.name, 0, 1)[0], seeds)
