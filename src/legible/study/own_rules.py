"""The verdict on the user's own rules, each alone and with its related forms, on seeds of their own.

Own rules are never dropped: each plays a fixed sample. So they have a verdict even if a race would have dropped them.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from legible.relations import MetamorphicRelation, generalise
from legible.rules import Rule, RuleSet
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
        return {f"{result.rule} ({result.form})": result.verdict for result in self.rules}

    def sentences(self) -> list[str]:
        """Return every verdict in a sentence."""
        return [result.sentence(self.objective) for result in self.rules]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the verdicts as plain rows, for JSON."""
        return [
            {"rule": own.rule, "form": own.form, "rules": len(own.rule_set), "verdict": own.verdict, **vars(own.effect)}
            for own in self.rules
        ]


def forms_of(rule: Rule, relations: Sequence[MetamorphicRelation]) -> list[tuple[RuleSet, Form]]:
    """Return a rule alone, and together with its related forms if relations (symmetries of the task) make some."""
    related = generalise(rule, relations)
    forms: list[tuple[RuleSet, Form]] = [(RuleSet((rule,), rule), "alone")]
    if len(related) and set(related.rules) != {rule}:
        forms.append((related, "with related forms"))
    return forms


def judge_own_rules(study: Study) -> OwnRules:
    """Return a verdict on every rule that the user gave: whether it helps, harms, or has no effect.

    A rule is played alone and with its related forms, which are the rules that the symmetries of the task make from it.
    Each plays more seeds until enough episodes were changed; the others carry no information.
    """
    settings, space = study.settings.evaluation, study.space
    # The rules to play: text of the user's rule, the rules that guide the policy, and whether related forms are in it.
    played_rules = [
        (rule.text(space), rule_set, form) for rule in study.rules for rule_set, form in forms_of(rule, study.relations)
    ]
    if not played_rules:
        return OwnRules((), settings.objective)
    # Play them and the unguided policy on the same seeds; `play` knows each by a number.
    run = study.runner("your rules")
    repetition = find_repetition(study.setup(), study.seed, "racing", run)
    setup = replace(study.setup(), rows=repetition.rows)
    record = EpisodeRecord(setup, study.seed, STAGE, settings.confirmation_seeds, run)
    play = PairedPlay(setup, repetition, record, run)
    numbers = [play.add(rule_set) for _, rule_set, _ in played_rules]
    play.play_changes(dict.fromkeys(numbers, settings.confirmation_changes or FEWEST_CHANGES))
    # More seeds may have been examined than the test needs: play all episodes that are known to change.
    seed_counts = {number: play.changes(number)[1] for number in numbers}  # the number of examined seeds
    play.play_seeds(seed_counts)
    pairs = [play.pairs(number, seed_counts[number]) for number in numbers]
    # Failed episodes count as the worst case, for the claim that a rule helps and for the claim that it harms.
    objective, smallest_effect = find_objective(settings.objective), study.first_facts.relevant
    worst = WorstCase(play.results, objective.value)
    helping = [worst.of(pair.guided, pair.base) for pair in pairs]
    harming = [worst.of(pair.base, pair.guided) for pair in pairs]
    # The level is divided by the number of tests (Bonferroni), since every rule gets a verdict.
    alpha = settings.alpha / len(played_rules)
    resamples = resamples_for(len(played_rules), alpha)
    results = []
    for i, (text, rule_set, form) in enumerate(played_rules):
        # The test guards against rare losses, so its lower end is reliable. The upper end comes from the same test with
        # guided and unguided exchanged.
        tests = []
        for sides, all_sides in ((helping[i], helping), (harming[i], harming)):
            loss = objective.invented_loss(all_sides)
            options = ComparisonOptions(loss, resamples, study.seed, alpha, confidence=1.0 - alpha)
            tests.append(objective.test(*sides, pairs[i].changed, options))
        helps, harms = tests
        effect = replace(helps, high=-harms.low)
        verdict: OwnVerdict = "undecided"
        if int(pairs[i].changed.sum()) < FEWEST_CHANGES:
            verdict = "too few changed episodes"
        elif -smallest_effect < effect.low and effect.high < smallest_effect:
            verdict = "no effect"
        elif effect.low > 0.0:
            verdict = "helps"
        elif effect.high < 0.0:
            verdict = "harms"
        results.append(OwnRule(text, rule_set, form, verdict, effect))
    return OwnRules(tuple(results), settings.objective)
