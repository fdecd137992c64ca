"""A weakness with all that is known about it, in words.

- `WeaknessExplanation`: its headline, its cause and its sentences.
- `StrongerRule`, `stronger_rules`: narrower versions of the generalised rules that were mined, as in the paper's
  discussion.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from legible.evaluation import Verdict
from legible.explanation.contributions import Contribution
from legible.explanation.knowledge import Knowledge, summarise_knowledge
from legible.features import FeatureSpace
from legible.formatting import confidence_interval, in_words, join_words, p_value, percent, signed
from legible.mining import MinedRule
from legible.rules import Rule, RuleSet, action_words, describe_rule, describe_rule_set, representative_rule

Cause = Literal["generalisation", "rule", "both", "unclear"]
"""What guidance mends: the policy does not generalise its rule, does not keep it, both, or one cannot tell."""

_CAUSE_SENTENCES: dict[Cause, str] = {
    "generalisation": "The rule alone does not help for certain, its generalisation does: the policy has not carried "
    "it over to related situations.",
    "rule": "The rule alone already helps: the policy does not always keep to it.",
    "both": "The rule alone already helps, so the policy does not always keep to it; generalising it helps more.",
    "unclear": "",
}


@dataclass(frozen=True)
class StrongerRule:
    """A mined rule that says the same as a rule of a generalised set, but under additional conditions."""

    mined: Rule
    general: Rule


def stronger_rules(rule_set: RuleSet, mined: Iterable[Rule | MinedRule]) -> tuple[StrongerRule, ...]:
    """Return the mined rules that are narrower than a rule of the set.

    They show that the policy has learned the rule there, but only where more conditions hold. The rule that the set was
    generalised from is not among them.
    """
    rules = [rule.rule if isinstance(rule, MinedRule) else rule for rule in mined]
    return tuple(
        StrongerRule(rule, general)
        for general in rule_set.rules
        for rule in rules
        if general.contains(rule) and not rule.contains(general) and rule != rule_set.source
    )


@dataclass(frozen=True)
class WeaknessExplanation:
    """One weakness, with all that is known about it.

    Parameters
    ----------
    verdict
        The rule set and what guidance with it did.
    space
        Names.
    knowledge
        For every rule of the set, whether the policy does as it says; empty when that was not asked.
    contributions
        What each rule of the set adds, on seeds of its own; empty when that was not played.
    stronger
        Narrower versions of its rules that were mined.
    alpha
        Level of the tests.
    """

    verdict: Verdict
    space: FeatureSpace
    knowledge: tuple[Knowledge, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    stronger: tuple[StrongerRule, ...] = ()
    alpha: float = 0.05

    @property
    def rule_set(self) -> RuleSet:
        """The rules that reveal the weakness."""
        return self.verdict.rule_set

    @property
    def habit(self) -> str:
        """The mined rule as what the policy does: "avoids going north when north is a wall"."""
        return describe_rule(representative_rule(self.rule_set), self.space)

    @property
    def advice(self) -> str:
        """The whole rule set as what should be done."""
        return describe_rule_set(self.rule_set, self.space, "advice")

    @property
    def headline(self) -> str:
        """The weakness in a line, to follow "the policy": its title, and where the rule is known and where not."""
        return f"{self.title}: {self.knowledge_summary}" if self.knowledge_summary else self.title

    @property
    def title(self) -> str:
        """The habit, or that the policy does not have it: a rule of the user's need not be the policy's own."""
        rule = representative_rule(self.rule_set)
        if any(k.rule == rule and k.status == "unknown" for k in self.knowledge):
            return f"does not keep to “{describe_rule(rule, self.space, 'advice')}”"
        return self.habit

    @property
    def knowledge_summary(self) -> str:
        """For which actions the policy knows its rule and for which it does not; empty when nothing is to be told."""
        return summarise_knowledge(self.knowledge, self.rule_set, self.space)

    @property
    def cause(self) -> Cause:
        """Whether generalising helps, the mined rule alone helps, both, or neither for certain."""
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
        """The rules without which the returns are worse, the most important first."""
        found = [contribution for contribution in self.contributions if contribution.q < self.alpha]
        return tuple(sorted(found, key=lambda c: -c.effect.mean))

    def sentences(self) -> list[str]:
        """Everything that is known, a sentence each."""
        sentences = [
            self._effect_sentence(),
            _CAUSE_SENTENCES[self.cause],
            self._contribution_sentence(),
            self._frequency_sentence(),
            self._stronger_sentence(),
        ]
        return [sentence for sentence in sentences if sentence]

    def text(self) -> str:
        """The headline and, below it, all sentences."""
        return "\n".join([f"The policy {self.headline}.", *(f"  {sentence}" for sentence in self.sentences())])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        confirmation = self.verdict.confirmation
        return {
            "rule": None if self.rule_set.source is None else self.rule_set.source.text(self.space),
            "rules": [rule.text(self.space) for rule in self.rule_set.rules],
            "headline": self.headline,
            "advice": self.advice,
            "cause": self.cause,
            "confirmed": self.verdict.is_confirmed,
            "p": self.verdict.p,
            "q": self.verdict.q,
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
            "sentences": self.sentences(),
        }

    def _effect_sentence(self) -> str:
        confirmation = self.verdict.confirmation
        if confirmation is None:
            return (
                f"Guiding it by this rule set changes the mean return by {signed(self.verdict.difference)} "
                f"({p_value(self.verdict.p, 'p')}; fresh seeds have not been asked)."
            )
        effect = confirmation.effect
        change = (
            f"Guiding it by this rule set changes the mean return by "
            f"{confidence_interval(effect.mean, effect.low, effect.high)}"
        )
        if confirmation.is_too_rare:
            return f"{change}; too rare to tell: it changed {effect.changed} of {effect.seeds} episodes on fresh seeds."
        if self.verdict.is_confirmed:
            return f"{change}, confirmed on fresh seeds ({p_value(confirmation.q, 'q')})."
        shown = "" if effect.detectable is None else f"; {signed(effect.detectable)} would probably have been shown"
        return f"{change}, not confirmed on fresh seeds ({p_value(confirmation.q, 'q')}{shown})."

    def _contribution_sentence(self) -> str:
        if len(self.contributions) < 2:
            return ""
        found = self.significant_contributions
        if not found:
            return "Left out one at a time, none of the rules is missed for certain: each can stand in for the others."
        names = self._rule_names()
        shown = [f"{names[c.rule]} ({signed(c.effect.mean)})" for c in found[:3]]
        if len(found) > 3:
            shown.append(f"{in_words(len(found) - 3)} more")
        missed = "only the rule {} is missed" if len(found) == 1 else "the rules {} are missed"
        return f"Left out one at a time, {missed.format(join_words(shown))}."

    def _rule_names(self) -> dict[Rule, str]:
        """Call rules by their action where this tells them apart, else by their words."""
        rules = self.rule_set.rules
        names = action_words([rule.action for rule in rules], self.space)
        if len(names) == len(rules):
            return {rule: f"for {names[rule.action]}" for rule in rules}
        return {rule: f"“{describe_rule(rule, self.space, 'advice')}”" for rule in rules}

    def _frequency_sentence(self) -> str:
        sample = self.verdict.sample
        return (
            f"Its conditions hold in {percent(sample.fired)} of the steps; in {percent(sample.changed)} "
            "guidance changes what is done."
        )

    def _stronger_sentence(self) -> str:
        if not self.stronger:
            return ""
        # A narrower version tells most about the rules that the policy does not keep to.
        failing = {c.rule for c in self.significant_contributions} | {
            k.rule for k in self.knowledge if k.status == "unknown"
        }
        best = min(self.stronger, key=lambda s: (s.general not in failing, len(s.mined), s.mined))
        others = len(self.stronger) - 1
        more = f" ({in_words(others)} more such {'rule' if others == 1 else 'rules'} mined)" if others else ""
        return f"It has learned a narrower version of it: it {describe_rule(best.mined, self.space)}{more}."
