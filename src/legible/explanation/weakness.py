"""A weakness with all that is known about it, in words.

- `WeaknessExplanation`: its headline, its cause and its sentences.
- `StrongerRule`, `stronger_rules`: narrower versions of the generalised rules that were mined, as in the paper's
  discussion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from legible.evaluation import Verdict
from legible.explanation.contributions import Contribution
from legible.explanation.knowledge import Knowledge, summarise_knowledge
from legible.explanation.objective_words import ObjectiveWords
from legible.features import FeatureSpace
from legible.formatting import capitalise, in_words, join_words, p_value, percent, quoted
from legible.mining import MinedRule
from legible.rules import (
    Mood,
    Rule,
    RuleSet,
    describe_likewise,
    describe_rule,
    describe_rule_briefly,
    describe_rule_set,
    gerund,
    representative_rule,
    short_action_words,
)

# Share of the steps in which the conditions of a rule set hold, from which on they hardly matter.
NEARLY_ALWAYS = 0.9
_ORIGINS = {"searched": "the searched rule", "yours": "your rule"}
Cause = Literal["generalisation", "rule", "both", "unclear"]
"""What guidance mends: the policy does not generalise its rule, does not keep it, both, or one cannot tell."""


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
    objective
        What guidance was to raise.
    others
        Rule sets that change the same states: they show the same weakness.
    neighbours
        The first rules of all weaknesses that are told of: titles tell them apart.
    """

    verdict: Verdict
    space: FeatureSpace
    knowledge: tuple[Knowledge, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    stronger: tuple[StrongerRule, ...] = ()
    alpha: float = 0.05
    objective: str = "mean"
    others: tuple[Verdict, ...] = ()
    neighbours: tuple[Rule, ...] = ()

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
    def likewise(self) -> str:
        """For what else than its first rule the set speaks, to follow it; empty where there is nothing."""
        return describe_likewise(self.rule_set, self.space)

    @property
    def in_short(self) -> str:
        """What should be done, and how often the policy does otherwise."""
        kept = sorted(k.kept for k in self.knowledge if k.status != "unseen")
        told = [f"{capitalise(self.advice)}."]
        if kept:
            least, most = percent(1.0 - kept[-1]), percent(1.0 - kept[0])
            share = least if least == most else f"{least} to {most}"
            by_rule = "" if least == most else ", rule by rule"
            told.append(f"Left alone, it does otherwise in {share} of such states{by_rule}.")
        if self._is_mined and self.cause == "generalisation":
            told.append("It keeps to this where it was mined, and has not carried it over.")
        if self.amounts_to:
            told.append(f"Its conditions hold nearly always: this amounts to {self.amounts_to}.")
        return " ".join(told)

    @property
    def amounts_to(self) -> str:
        """What a rule set says in short whose conditions nearly always hold: "always going slower"; else empty."""
        said = {(rule.polarity, rule.action) for rule in self.rule_set.rules}
        if len(said) != 1 or self.verdict.sample.fired < NEARLY_ALWAYS:
            return ""
        polarity, action = said.pop()
        return f"{'always' if polarity == '+' else 'never'} {gerund(self.space.actions[action].label)}"

    @property
    def headline(self) -> str:
        """The weakness in a line, to follow "the policy": its title, and where the rule is known and where not."""
        return f"{self.title}: {self.knowledge_summary}" if self.knowledge_summary else self.title

    @property
    def title(self) -> str:
        """What is weak, with the rule in about 15 words; the policy need not have it: it may be found or given."""
        return self._say_weakness(
            lambda rule, mood: describe_rule_briefly(rule, self.space, mood, neighbours=self.neighbours)
        )

    @property
    def full_title(self) -> str:
        """The title with the whole rule."""
        return self._say_weakness(lambda rule, mood: describe_rule(rule, self.space, mood))

    def _say_weakness(self, describe: Callable[[Rule, Mood], str]) -> str:
        rule = representative_rule(self.rule_set)
        if not self._is_habit(rule):
            return f"does not always keep to {quoted(describe(rule, 'advice'))}"
        if not self.verdict.is_confirmed:
            return describe(rule, "habit")
        lacks = "not in related situations" if self.cause == "generalisation" else "not always"
        return f"{describe(rule, 'habit')}, but {lacks}"

    @property
    def _is_mined(self) -> bool:
        """Whether its first rule is one of the policy's own, and not searched, given or taken from elsewhere."""
        return not self.verdict.sources or "mined" in self.verdict.sources

    def _is_habit(self, rule: Rule) -> bool:
        """Whether the policy does as a rule says: its own unless it was seen not to, another one if it was seen to."""
        seen = [k.status for k in self.knowledge if k.rule == rule]
        return "unknown" not in seen and (self._is_mined or "known" in seen)

    @property
    def knowledge_summary(self) -> str:
        """For which actions the policy knows its rule and for which it does not; empty when nothing is to be told."""
        return summarise_knowledge(self.knowledge, self.rule_set, self.space, self.alpha)

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
            self._cause_sentence(),
            self._kept_sentence(),
            self._contribution_sentence(),
            self._frequency_sentence(),
            self._stronger_sentence(),
            self._others_sentence(),
        ]
        return [sentence for sentence in sentences if sentence]

    def text(self) -> str:
        """The headline and, below it, all sentences."""
        return "\n".join([f"The policy {self.headline}.", *(f"  {sentence}" for sentence in self.sentences())])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
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
        confirmation, told = self.verdict.confirmation, ObjectiveWords(self.objective)
        change = f"Guided by this rule set, the {told.words} changes by"
        if confirmation is None:
            tested = f"{p_value(self.verdict.p, 'p')}; fresh seeds have not been asked"
            return f"{change} {told.amount(self.verdict.difference)} ({tested})."
        effect = confirmation.effect
        change = f"{change} {told.interval(effect)}"
        if confirmation.is_too_rare:
            return f"{change}; too few changed episodes to tell: {effect.changed} of {effect.seeds} on fresh seeds."
        if self.verdict.is_confirmed:
            return f"{change}, confirmed on fresh seeds ({p_value(confirmation.q, 'q')})."
        broken = [check.constraint for check in confirmation.constraints if not check.is_kept]
        if broken:
            return f"{change}, but it is not shown to keep to the constraint “{broken[0]}”."
        seen = "" if effect.detectable is None else f"; {told.amount(effect.detectable)} would probably have been seen"
        return f"{change}, not confirmed on fresh seeds ({p_value(confirmation.q, 'q')}{seen})."

    def _cause_sentence(self) -> str:
        """What of a confirmed weakness guidance mends; of one that is not confirmed nothing is claimed."""
        confirmation = self.verdict.confirmation
        if confirmation is None or not self.verdict.is_confirmed or self.cause == "unclear":
            return ""
        if not self._is_mined and len(self.verdict.rule_set) == 1:  # nothing was carried over, and no habit is meant
            return ""
        told = ObjectiveWords(self.objective)
        alone, more = (
            "nothing" if effect is None else told.interval(effect)
            for effect in (confirmation.of_rule, confirmation.of_generalisation)
        )
        origin = "the mined rule" if self._is_mined else _ORIGINS.get(self.verdict.source, "the rule that it came from")
        first = f"{origin} alone"
        if self.cause == "generalisation":
            lead = "The policy has not carried its rule over: " if self._is_mined else ""
            shows = (
                f"{lead}{first} shows no certain gain ({alone}), carrying it over to related situations adds {more}."
            )
            return capitalise(shows)
        lead = "The policy does not always keep to its own rule: " if self._is_mined else ""
        keeps = capitalise(f"{lead}{first} already gains {alone}")
        if self.cause == "rule":
            return f"{keeps}; carrying it over adds nothing certain ({more})."
        return f"{keeps}, and carrying it over to related situations adds {more}."

    def _kept_sentence(self) -> str:
        """How often a policy breaks the rule of a set, where it does not keep to it."""
        rule = representative_rule(self.rule_set)
        found = next((k for k in self.knowledge if k.rule == rule and k.status == "unknown"), None)
        if found is None or self.knowledge_summary:
            return ""
        return f"Left alone, it does as this rule says in {percent(found.kept)} of {found.triggered} such states."

    def _contribution_sentence(self) -> str:
        if len(self.contributions) < 2 or not self.verdict.is_confirmed:
            return ""
        found, told = self.significant_contributions, ObjectiveWords(self.objective)
        if not found:
            return "No single rule makes the gain: leaving out any one of them changes nothing for certain."
        rules = self.rule_set.rules
        actions = short_action_words([rule.action for rule in rules], self.space)
        if len(actions) == len(rules):  # rules are called by their action where this tells them apart
            names = {rule: f"for {actions[rule.action]}" for rule in rules}
        else:
            names = {rule: quoted(describe_rule(rule, self.space, "advice")) for rule in rules}
        shown = [f"{names[c.rule]} ({told.amount(c.effect.mean)})" for c in found[:3]]
        if len(found) > 3:
            shown.append(f"{in_words(len(found) - 3)} more")
        which = "one rule, that" if len(found) == 1 else "the rules"
        return f"Most of the gain comes from {which} {join_words(shown)}: what each adds to the rest of the set."

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

    def _others_sentence(self) -> str:
        count = len(self.others)
        if not count:
            return ""
        if count == 1:
            return "One more rule set changes the same states and counts as the same weakness."
        return f"{capitalise(in_words(count))} more rule sets change the same states and count as the same weakness."
