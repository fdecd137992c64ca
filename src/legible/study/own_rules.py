"""The verdict on the user's own rules, each alone and with its related forms, on seeds of their own.

Own rules are never dropped: each plays a fixed sample. So they have a verdict even if a race would have dropped them.

- `OwnRule`: the result of one rule in one form; `OwnRules`: all of them.
- `judge_own_rules`: the step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from legible.display import Displayed
from legible.evaluation.changed import resamples_for
from legible.evaluation.failures import WorstCase
from legible.evaluation.objectives import ComparisonOptions, find_objective
from legible.evaluation.pairs import PairedPlay
from legible.evaluation.recorded import EpisodeRecord, find_repetition
from legible.evaluation.statistics import Effect
from legible.explanation.objective_words import ObjectiveWords
from legible.formatting import counted, number
from legible.relations import generalise
from legible.rules import RuleSet
from legible.settings import FEWEST_CHANGES

if TYPE_CHECKING:
    from legible.study.study import Study

STAGE = "own rules"
Form = Literal["alone", "with related forms"]
OwnVerdict = Literal["helps", "harms", "no effect", "undecided", "too few changed episodes"]
_WORDS: dict[str, str] = {"helps": "helps", "harms": "harms", "no effect": "has no effect", "undecided": "is undecided"}


@dataclass(frozen=True)
class OwnRule:
    """The result of one of the user's rules.

    Parameters
    ----------
    rule
        The rule as text.
    rule_set, form
        The rules that were played: the rule alone, or with its related forms.
    verdict
        "helps" and "harms": the interval excludes zero. "no effect": it lies within the smallest effect of interest.
    effect
        Guided minus unguided by the objective. The interval is corrected for the number of rules (Bonferroni).
    """

    rule: str
    rule_set: RuleSet
    form: Form
    verdict: OwnVerdict
    effect: Effect

    def sentence(self, objective: str) -> str:
        """Return the verdict in a sentence: the conclusion first, then the numbers."""
        words, effect = ObjectiveWords(objective), self.effect
        episodes = f"{number(effect.changed or 0)} of {counted(effect.seeds or 0, 'episode')} changed"
        if self.verdict == "too few changed episodes":
            if not effect.changed:
                return f"{self.rule} ({self.form}) changes nothing: {episodes}."
            return f"{self.rule} ({self.form}) changes too few episodes for a verdict: {episodes}."
        figures = f"{words.amount(effect.mean)} ({words.ends(effect)}) in the {words.words}; {episodes}"
        return f"{self.rule} ({self.form}) {_WORDS[self.verdict]}: {figures}."


@dataclass(frozen=True, repr=False)
class OwnRules(Displayed):
    """The verdicts on the user's rules by an objective."""

    rules: tuple[OwnRule, ...]
    objective: str

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        return {f"{one.rule} ({one.form})": one.verdict for one in self.rules}

    def sentences(self) -> list[str]:
        """Return every verdict in a sentence."""
        return [one.sentence(self.objective) for one in self.rules]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the verdicts as plain rows, for JSON."""
        return [
            {"rule": one.rule, "form": one.form, "rules": len(one.rule_set), "verdict": one.verdict, **vars(one.effect)}
            for one in self.rules
        ]


def judge_own_rules(study: Study) -> OwnRules:
    """Play every rule of the user's, alone and with its related forms, until enough of its episodes were changed."""
    settings, space = study.settings.evaluation, study.space
    forms: list[tuple[str, RuleSet, Form]] = []
    for rule in study.rules:
        forms.append((rule.text(space), RuleSet((rule,), rule), "alone"))
        related = generalise(rule, study.relations).rule_set
        if len(related) and set(related.rules) != {rule}:
            forms.append((rule.text(space), related, "with related forms"))
    if not forms:
        return OwnRules((), settings.objective)
    run = study.runner("your rules")
    repetition = find_repetition(study.setup(), study.seed, "racing", run)
    setup = replace(study.setup(), rows=repetition.rows)
    record = EpisodeRecord(setup, study.seed, STAGE, settings.confirmation_seeds, run)
    play = PairedPlay(setup, repetition, record, run)
    numbers = [play.add(rule_set) for _, rule_set, _ in forms]
    play.play_changes(dict.fromkeys(numbers, settings.confirmation_changes or FEWEST_CHANGES))
    seeds = {n: play.changes(n)[1] for n in numbers}
    play.play_seeds(seeds)
    pairs = [play.pairs(n, seeds[n]) for n in numbers]
    objective, smallest = find_objective(settings.objective), study.first_facts.relevant
    worst = WorstCase(play.results, objective.value)
    alpha = settings.alpha / len(forms)
    helping = [worst.of(one.guided, one.base) for one in pairs]
    harming = [worst.of(one.base, one.guided) for one in pairs]
    found = []
    for k, (text, rule_set, form) in enumerate(forms):
        ends = []
        for sides, everyone in ((helping[k], helping), (harming[k], harming)):
            loss = objective.invented_loss(everyone)
            options = ComparisonOptions(
                loss, resamples_for(len(forms), alpha), study.seed, alpha, confidence=1.0 - alpha
            )
            ends.append(objective.test(*sides, pairs[k].changed, options))
        effect = replace(ends[0], high=-ends[1].low)
        verdict: OwnVerdict = "undecided"
        if int(pairs[k].changed.sum()) < FEWEST_CHANGES:
            verdict = "too few changed episodes"
        elif -smallest < effect.low and effect.high < smallest:
            verdict = "no effect"
        elif effect.low > 0.0 or effect.high < 0.0:
            verdict = "helps" if effect.low > 0.0 else "harms"
        found.append(OwnRule(text, rule_set, form, verdict, effect))
    return OwnRules(tuple(found), settings.objective)
