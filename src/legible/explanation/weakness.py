"""The explanation of a weakness in words.

- `WeaknessExplanation`: headline, cause and sentences.
- `StrongerRule`, `stronger_rules`: mined rules that are narrower than a generalised rule, as in the paper's discussion.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from legible.display import Displayed
from legible.evaluation import Verdict
from legible.explanation.contributions import Contribution
from legible.explanation.knowledge import Knowledge, summarise_knowledge
from legible.explanation.objective_words import ObjectiveWords
from legible.features import FeatureSpace
from legible.formatting import capitalise, in_words, join_words, number, p_value, percent, quoted
from legible.mining import MinedRule
from legible.rules import (
    Rule,
    RuleSet,
    describe_likewise,
    describe_rule,
    describe_rule_set,
    gerund,
    representative_rule,
    short_action_words,
)

# The conditions of a rule set that hold in at least this share of the steps hardly matter.
NEARLY_ALWAYS_SHARE = 0.9
# A rule that is followed in a smaller share of its states is "rarely" followed in the title of a weakness.
SELDOM_SHARE = 0.25
_ORIGINS = {"searched": "the searched rule", "yours": "your rule"}
Cause = Literal["generalisation", "rule", "both", "unclear"]
"""Cause of a weakness: the policy does not generalise its rule, does not follow it, both, or unknown."""


@dataclass(frozen=True)
class StrongerRule:
    """A mined rule that equals a rule of a generalised set, with additional conditions."""

    mined: Rule
    general: Rule


def stronger_rules(rule_set: RuleSet, mined: Iterable[Rule | MinedRule]) -> tuple[StrongerRule, ...]:
    """Return the mined rules that are narrower than a rule of the set.

    They show that the policy has learned the rule, but only under more conditions. The source of the set is not among
    them.
    """
    rules = [rule.rule if isinstance(rule, MinedRule) else rule for rule in mined]
    return tuple(
        StrongerRule(rule, general)
        for general in rule_set.rules
        for rule in rules
        if general.contains(rule) and not rule.contains(general) and rule != rule_set.source
    )


@dataclass(frozen=True, repr=False)
class WeaknessExplanation(Displayed):
    """One weakness and its explanation.

    Parameters
    ----------
    verdict
        The rule set and the effect of guidance with it.
    space
        Names of features and actions.
    knowledge
        How often the policy follows each rule of the set; empty if unknown.
    contributions
        Effect of each rule of the set, on held-out seeds; empty if not played.
    stronger
        Mined rules that are narrower than a rule of the set.
    alpha
        Significance level.
    objective
        The objective that guidance should improve.
    others
        Rule sets that change the same states, and so reveal the same weakness.
    """

    verdict: Verdict
    space: FeatureSpace
    knowledge: tuple[Knowledge, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    stronger: tuple[StrongerRule, ...] = ()
    alpha: float = 0.05
    objective: str = "mean"
    others: tuple[Verdict, ...] = ()

    def __post_init__(self) -> None:
        if not {contribution.rule for contribution in self.contributions} <= set(self.rule_set.rules):
            raise ValueError("a contribution of a rule that does not belong to the weakness")

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        return {f"sentence {place}": sentence for place, sentence in enumerate(self.text().splitlines()[:2], start=1)}

    def __repr__(self) -> str:
        return f"<WeaknessExplanation: {self.text().splitlines()[0]}>"

    @property
    def rule_set(self) -> RuleSet:
        """Return the rules that reveal the weakness."""
        return self.verdict.rule_set

    @property
    def habit(self) -> str:
        """Return the rule that names the weakness as a habit: "avoids going north when north is a wall"."""
        return describe_rule(self._named_rule, self.space)

    @property
    def advice(self) -> str:
        """Return the whole rule set as advice."""
        return describe_rule_set(self.rule_set, self.space, "advice")

    @property
    def likewise(self) -> str:
        """Return the related forms of the first rule in words; empty if there are none."""
        return describe_likewise(self.rule_set, self.space)

    @property
    def in_short(self) -> str:
        """Return the advice, and how often the policy does not follow it."""
        broken = sorted(1.0 - k.kept for k in self.knowledge if k.status != "unseen")
        sentences = [f"{capitalise(self.advice)}."]
        if broken:
            least, most = percent(broken[0]), percent(broken[-1])
            share = least if least == most else f"{least} to {most} (by rule)"
            sentences.append(f"The unguided policy does otherwise in {share} of these states.")
        if self.is_not_generalised:
            sentences.append("It follows this rule, but not its related forms.")
        if self.amounts_to:
            sentences.append(f"The conditions hold nearly always, so this amounts to {self.amounts_to}.")
        return " ".join(sentences)

    @property
    def is_not_generalised(self) -> bool:
        """Return whether the policy has learned a rule, but does not apply it in related situations."""
        return self._is_habit and self.cause == "generalisation"

    @property
    def amounts_to(self) -> str:
        """Return the action of a rule set whose conditions nearly always hold: "always going slower"; else empty."""
        heads = {(rule.polarity, rule.action) for rule in self.rule_set.rules}
        if len(heads) != 1 or self.verdict.sample.fired < NEARLY_ALWAYS_SHARE:
            return ""
        polarity, action = heads.pop()
        return f"{'always' if polarity == '+' else 'never'} {gerund(self.space.actions[action].label)}"

    @property
    def headline(self) -> str:
        """Return the weakness in a line, to follow "the policy": the title, and where the rule is followed."""
        return f"{self.title}: {self.knowledge_summary}" if self.knowledge_summary else self.title

    @property
    def title(self) -> str:
        """Return the weakness with the rule that names it in full, which need not be a rule that the policy follows."""
        rule = self._named_rule
        if self.amounts_to:
            states = sum(k.triggered for k in self.knowledge)
            followed = sum(k.kept * k.triggered for k in self.knowledge if k.triggered)
            kept = followed / states if states else 1.0
            return f"{self._breaks(Rule(rule.polarity, rule.action, ()), kept)}, whatever the situation"
        if not self._is_habit:
            seen = self._knowledge_of(rule)
            return self._breaks(rule, seen.kept if seen is not None and seen.status == "unknown" else 1.0)
        if not self.verdict.is_confirmed:
            return self.habit
        return f"{self.habit}, but not {'in related situations' if self.cause == 'generalisation' else 'always'}"

    @property
    def _named_rule(self) -> Rule:
        """Return the rule that names the weakness: the first one, unless only others of the set make the gain.

        A mined rule always names its weakness: that the policy follows it, but not its related forms, is the finding.
        """
        first = representative_rule(self.rule_set)
        gaining = [contribution.rule for contribution in self.significant_contributions]
        return first if self._is_mined or not gaining or first in gaining else gaining[0]

    def _knowledge_of(self, rule: Rule) -> Knowledge | None:
        """Return how often the policy follows a rule of the set; None if unknown."""
        return next((known for known in self.knowledge if known.rule == rule), None)

    @property
    def _is_habit(self) -> bool:
        """Return whether the policy follows the rule that names the weakness.

        A mined rule is a habit unless the policy was seen to break it, another rule only if it was seen to follow it.
        """
        seen = self._knowledge_of(self._named_rule)
        status = "unseen" if seen is None else seen.status
        return status == "known" or (self._is_mined and status != "unknown")

    def _breaks(self, rule: Rule, kept: float) -> str:
        """Say how the policy breaks a rule that it follows in a share of the states: "sometimes goes west when …"."""
        does = describe_rule(Rule("+", rule.action, rule.conditions), self.space).removeprefix("always ")
        if rule.polarity == "-":
            often = "always" if kept == 0.0 else "usually" if kept < SELDOM_SHARE else "sometimes"
            return f"{often} {does}"
        if kept < SELDOM_SHARE:
            return f"{'never' if kept == 0.0 else 'rarely'} {does}"
        return f"does not always {describe_rule(rule, self.space, 'advice')}"

    @property
    def _is_mined(self) -> bool:
        """Return whether the first rule was mined from the policy, and not searched, given or taken from elsewhere."""
        return not self.verdict.sources or "mined" in self.verdict.sources

    @property
    def knowledge_summary(self) -> str:
        """Return for which actions the policy follows its rule and for which not; empty if there is no difference."""
        return summarise_knowledge(self.knowledge, self.rule_set, self.space, self.alpha)

    @property
    def cause(self) -> Cause:
        """Return whether the related forms, the mined rule alone, both or neither have a significant effect."""
        confirmation = self.verdict.confirmation
        if confirmation is None:
            return "unclear"
        rule, general = (
            effect is not None and effect.p < self.alpha
            for effect in (confirmation.of_rule, confirmation.of_generalisation)
        )
        if rule and general:
            return "both"
        return "generalisation" if general else "rule" if rule else "unclear"

    @property
    def significant_contributions(self) -> tuple[Contribution, ...]:
        """Return the rules whose removal lowers the returns significantly, the most important first."""
        significant = [contribution for contribution in self.contributions if contribution.q < self.alpha]
        return tuple(sorted(significant, key=lambda c: -c.effect.mean))

    def sentences(self) -> list[str]:
        """Return everything that is known, a sentence each."""
        sentences = [
            self._effect_sentence(),
            self._cause_sentence(),
            self._kept_sentence(),
            self._contribution_sentence(),
            self._frequency_sentence(),
            self._stronger_sentence(),
            self._others_sentence(),
        ]
        return [sentence for sentence in sentences if sentence]

    def text(self) -> str:
        """Return the headline and, below it, all sentences."""
        return "\n".join([f"The policy {self.headline}.", *(f"  {sentence}" for sentence in self.sentences())])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        confirmation = self.verdict.confirmation
        return {
            "rule": self.rule_set.short_text(self.space),
            "rules": [rule.text(self.space) for rule in self.rule_set.rules],
            "headline": self.headline,
            "advice": self.advice,
            "cause": self.cause,
            "confirmed": self.verdict.is_confirmed,
            "p": self.verdict.p,
            "q": self.verdict.q,
            "objective": self.objective,
            "difference": self.verdict.difference,
            "effect": None if confirmation is None else asdict(confirmation.effect),
            "fired": self.verdict.sample.fired,
            "changed": self.verdict.sample.changed,
            "knowledge": [
                {
                    "rule": k.rule.text(self.space),
                    "triggered": k.triggered,
                    "kept": k.kept if k.triggered else None,
                    "status": k.status,
                }
                for k in self.knowledge
            ],
            "contributions": [
                {"rule": c.rule.text(self.space), **asdict(c.effect), "q": c.q} for c in self.contributions
            ],
            "stronger": [
                {"mined": s.mined.text(self.space), "general": s.general.text(self.space)} for s in self.stronger
            ],
            "same_weakness": [[rule.text(self.space) for rule in other.rule_set.rules] for other in self.others],
            "sentences": self.sentences(),
        }

    def _effect_sentence(self) -> str:
        """Return the effect of the rule set on held-out seeds, or in the race without them, in a sentence."""
        confirmation, words = self.verdict.confirmation, ObjectiveWords(self.objective)
        change = f"Guidance with this rule set changes the {words.words} by"
        if confirmation is None:
            p = p_value(self.verdict.p, "p")
            return f"{change} {words.amount(self.verdict.difference)} ({p}), not yet tested on held-out seeds."
        effect = confirmation.effect
        change = f"{change} {words.amount(effect.mean)} ({words.bounds(effect)})"
        if confirmation.is_too_rare:
            return f"{change}, but only {effect.changed} of {effect.seeds} held-out episodes change: too few to decide."
        q = p_value(confirmation.q, "q")
        rare = "" if confirmation.rare_losses is None else confirmation.rare_losses.sentence()
        if self.verdict.is_confirmed:
            return f"{change}, confirmed on held-out seeds ({q}). {rare}".rstrip()
        if confirmation.rare_losses is not None and confirmation.rare_losses.is_gain_otherwise:
            return f"{change}: a gain, unless rare losses cancel it. {rare}"
        for check in confirmation.constraints:
            if not check.is_kept:
                return f"{change}, but it may violate the constraint “{check.constraint}”."
        unseen = "" if effect.detectable is None else words.amount(effect.detectable)
        detectable = f" An effect of {unseen} would probably have been detected." if unseen else ""
        return f"{change}, not confirmed on held-out seeds ({q}).{detectable}"

    def _cause_sentence(self) -> str:
        """Say which part of a confirmed weakness the rule and its related forms account for."""
        confirmation = self.verdict.confirmation
        if confirmation is None or not self.verdict.is_confirmed or self.cause == "unclear":
            return ""
        if len(self.verdict.rule_set) == 1:  # there are no related forms
            return "The policy does not always follow its own rule." if self._is_mined else ""
        words = ObjectiveWords(self.objective)
        alone, added = (
            "nothing" if effect is None else words.interval(effect)
            for effect in (confirmation.of_rule, confirmation.of_generalisation)
        )
        rule = "the mined rule" if self._is_mined else _ORIGINS.get(self.verdict.source, "the original rule")
        if self.cause == "generalisation":
            lead = "The policy does not generalise its rule: " if self._is_mined else ""
            return capitalise(f"{lead}{rule} alone has no significant effect ({alone}), its related forms add {added}.")
        lead = "The policy does not always follow its own rule: " if self._is_mined else ""
        gains = capitalise(f"{lead}{rule} alone gains {alone}")
        if self.cause == "rule":
            return f"{gains}; its related forms add nothing significant ({added})."
        return f"{gains}, and its related forms add {added}."

    def _kept_sentence(self) -> str:
        """Say how often the policy follows the rule that names the weakness, if it often breaks it."""
        unknown = self._knowledge_of(self._named_rule)
        if unknown is None or unknown.status != "unknown" or self.knowledge_summary:
            return ""
        return (
            f"The unguided policy follows it in {percent(unknown.kept)} of {number(unknown.triggered)} matching states."
        )

    def _contribution_sentence(self) -> str:
        if len(self.contributions) < 2 or not self.verdict.is_confirmed:
            return ""
        significant, words = self.significant_contributions, ObjectiveWords(self.objective)
        if not significant:
            return "No single rule makes the gain: leaving out any one of them has no significant effect."
        rules = self.rule_set.rules
        actions = short_action_words([rule.action for rule in rules], self.space)
        if len(actions) == len(rules):  # the action identifies the rule
            names = {rule: f"for {actions[rule.action]}" for rule in rules}
        else:
            names = {rule: quoted(describe_rule(rule, self.space, "advice")) for rule in rules}
        shown = [f"{names[c.rule]} ({words.amount(c.effect.mean)})" for c in significant[:3]]
        if len(significant) > 3:
            shown.append(f"{in_words(len(significant) - 3)} more")
        which = "the rule" if len(significant) == 1 else "the rules"
        return f"Most of the gain comes from {which} {join_words(shown)}, by what is lost when a rule is left out."

    def _frequency_sentence(self) -> str:
        sample = self.verdict.sample
        return f"Its rules hold in {percent(sample.fired)} of the steps and override {percent(sample.changed)}."

    def _stronger_sentence(self) -> str:
        if not self.stronger:
            return ""
        # Prefer a narrower version of a rule that the policy does not follow.
        broken = {k.rule for k in self.knowledge if k.status == "unknown"}
        broken |= {c.rule for c in self.significant_contributions}
        best = min(self.stronger, key=lambda s: (s.general not in broken, len(s.mined), s.mined))
        others = len(self.stronger) - 1
        more = f" ({in_words(others)} more such {'rule' if others == 1 else 'rules'} mined)" if others else ""
        return f"The policy has learned a narrower version: it {describe_rule(best.mined, self.space)}{more}."

    def _others_sentence(self) -> str:
        if not self.others:
            return ""
        many = len(self.others) > 1
        sets = f"{in_words(len(self.others))} more rule {'sets change' if many else 'set changes'} the same states"
        return capitalise(f"{sets} and {'are' if many else 'is'} merged into this weakness.")
