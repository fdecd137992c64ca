"""What a study found, for people: where the policy is weak, why, and what its rules speak of.

- `describe_rule`, `describe_rule_set`: rules in plain English (from `legible.rules.wording`).
- `verdict_sentence`: a whole study in a sentence or two.
- `most_telling`, `explain_weakness`, `explain_weaknesses`: weaknesses in words, each a `WeaknessExplanation`.
- `knowledge_of`: for which of the generalised rules the policy does as they say ("knows it for north, not for east").
- `leave_one_out`: which of the generalised rules make the difference.
- `stronger_rules`: narrower versions of the generalised rules that were mined, as in the paper's discussion.
- `group_shares`: the share of rules that speak of groups of features; `feature_groups`: those that features name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from legible.errors import LegibleError, did_you_mean
from legible.evaluation import Evaluation, Runner, Verdict, play_blocks
from legible.evaluation.statistics import Effect, benjamini_hochberg, paired
from legible.evaluation.units import Setup, run_units
from legible.features import FeatureSpace
from legible.improvement import Improvement
from legible.mining import MinedRule, Mining, judge_rules
from legible.play import Experiences, stage_seeds
from legible.rules import Rule, RuleSet
from legible.rules.wording import action_words, describe_rule, describe_rule_set, in_words, join_words, told_rule

__all__ = [
    "Contribution",
    "Knowledge",
    "StrongerRule",
    "WeaknessExplanation",
    "describe_rule",
    "describe_rule_set",
    "explain_weakness",
    "explain_weaknesses",
    "feature_groups",
    "group_shares",
    "knowledge_of",
    "leave_one_out",
    "most_telling",
    "stronger_rules",
    "verdict_sentence",
]

Groups = Mapping[str, Sequence[str]]
"""Groups of features by name; each a list of feature names, in which ``*`` stands for anything."""

Cause = Literal["generalisation", "rule", "both", "unclear"]
"""What guidance mends: the policy does not generalise its rule, does not keep it, both, or one cannot tell."""

# A generalised rule that is broken this many times as often as the mined one is told apart, though both are known.
MARKEDLY = 2.0
# Fewer states than this say nothing about whether a policy knows a rule.
FEW_STATES = 5

# --- Does the policy know its own rule? -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Knowledge:
    """Whether a policy, left alone, does as a rule says.

    Parameters
    ----------
    rule
        The rule.
    triggered
        In how many states of the experiences its conditions hold.
    kept
        In which share of them the policy did as the rule says; NaN when there are none.
    status
        "known" or "unknown", by that share; "unseen" when the states were too few to tell.
    """

    rule: Rule
    triggered: int
    kept: float
    status: Literal["known", "unknown", "unseen"]

    @property
    def broken(self) -> float:
        """The share of the states in which the policy did otherwise."""
        return 1.0 - self.kept


def knowledge_of(
    rule_set: RuleSet | Iterable[Rule], experiences: Experiences, *, min_kept: float = 0.9
) -> tuple[Knowledge, ...]:
    """Say for every rule of a set whether the policy that made the experiences knows it.

    Parameters
    ----------
    rule_set
        The rules.
    experiences
        What the policy, unguided, saw and did.
    min_kept
        The share of states from which on a rule is known; mining asks the same of a rule.
    """
    rules = list(rule_set.rules if isinstance(rule_set, RuleSet) else rule_set)

    def status(judged: MinedRule) -> Literal["known", "unknown", "unseen"]:
        if judged.triggered < FEW_STATES:
            return "unseen"
        return "known" if judged.agreement >= min_kept else "unknown"

    return tuple(Knowledge(j.rule, j.triggered, j.agreement, status(j)) for j in judge_rules(rules, experiences))


# --- Which rules make the difference? ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contribution:
    """What one rule adds to its rule set: returns with all rules minus returns without this one, on the same seeds.

    `q` is Benjamini-Hochberg over the rules of the set; small values say that the rule is missed when it is left out.
    """

    rule: Rule
    effect: Effect
    q: float


def leave_one_out(
    setup: Setup,
    rule_set: RuleSet,
    seeds: Sequence[int],
    *,
    run: Runner = run_units,
    on_episodes: Callable[[int], None] | None = None,
) -> tuple[Contribution, ...]:
    """Play a rule set once whole and once without each of its rules, and return what each rule adds.

    Parameters
    ----------
    setup
        Policy, environment and how episodes are played; its treatments are not used.
    rule_set
        The rules. Of a single rule the rest is the unguided policy.
    seeds
        Seeds of the episodes, the same for every set.
    run, on_episodes
        As in `legible.evaluation.evaluate`.
    """
    rules = rule_set.rules
    rests = [RuleSet(tuple(other for other in rules if other != rule)) for rule in rules]
    this = replace(setup, treatments=(rule_set, *rests))
    whole, *without = play_blocks(this, [(i, seeds) for i in range(len(this.treatments))], run, on_episodes)
    effects = [paired(whole.returns, rest.returns) for rest in without]
    q = benjamini_hochberg([effect.p for effect in effects])
    return tuple(Contribution(rule, effects[i], float(q[i])) for i, rule in enumerate(rules))


# --- Stronger versions that were mined --------------------------------------------------------------------------------


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
    rules = [_rule_of(rule) for rule in mined]
    return tuple(
        StrongerRule(rule, general)
        for general in rule_set.rules
        for rule in rules
        if general.contains(rule) and not rule.contains(general) and rule != rule_set.source
    )


def _rule_of(rule: Rule | MinedRule) -> Rule:
    return rule.rule if isinstance(rule, MinedRule) else rule


# --- A weakness in words ----------------------------------------------------------------------------------------------


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
        What each rule of the set adds, on the confirmation's seeds; empty when that was not played.
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
        return describe_rule(told_rule(self.rule_set), self.space)

    @property
    def advice(self) -> str:
        """The whole rule set as what should be done."""
        return describe_rule_set(self.rule_set, self.space, "advice")

    @property
    def headline(self) -> str:
        """The weakness in a line, to follow "the policy": the habit, and where it is known and where not."""
        rule, known = told_rule(self.rule_set), self.knowing
        # A rule of the user's need not be the policy's own.
        strange = any(k.rule == rule and k.status == "unknown" for k in self.knowledge)
        habit = f"does not keep to “{describe_rule(rule, self.space, 'advice')}”" if strange else self.habit
        return f"{habit}: {known}" if known else habit

    @property
    def knowing(self) -> str:
        """For which actions the policy knows its rule and for which it does not; empty when nothing is to be told."""
        return _tell_knowledge(self.knowledge, self.rule_set, self.space)

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
    def making_the_difference(self) -> tuple[Contribution, ...]:
        """The rules without which the returns are worse, the most important first."""
        found = [contribution for contribution in self.contributions if contribution.q < self.alpha]
        return tuple(sorted(found, key=lambda c: -c.effect.mean))

    def sentences(self) -> list[str]:
        """Everything that is known, a sentence each."""
        told = [
            self._tell_effect(),
            _CAUSES[self.cause],
            self._tell_difference(),
            self._tell_frequency(),
            self._tell_stronger(),
        ]
        return [sentence for sentence in told if sentence]

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

    def _tell_effect(self) -> str:
        confirmation = self.verdict.confirmation
        if confirmation is None:
            return (
                f"Guiding it by this rule set changes the mean return by {_signed(self.verdict.difference)} (p "
                f"{_p(self.verdict.p)}; fresh seeds have not been asked)."
            )
        sure = "confirmed on fresh seeds" if self.verdict.is_confirmed else "not confirmed on fresh seeds"
        return (
            f"Guiding it by this rule set changes the mean return by {interval_text(confirmation.effect)}, {sure} "
            f"(q {_p(confirmation.q)})."
        )

    def _tell_difference(self) -> str:
        if len(self.contributions) < 2:
            return ""
        found = self.making_the_difference
        if not found:
            return "Left out one at a time, none of the rules is missed for certain: each can stand in for the others."
        names = self._rule_names()
        told = [f"{names[c.rule]} ({_signed(c.effect.mean)})" for c in found[:3]]
        if len(found) > 3:
            told.append(f"{in_words(len(found) - 3)} more")
        missed = "only the rule {} is missed" if len(found) == 1 else "the rules {} are missed"
        return f"Left out one at a time, {missed.format(join_words(told))}."

    def _rule_names(self) -> dict[Rule, str]:
        """Call rules by their action where this tells them apart, else by their words."""
        rules = self.rule_set.rules
        names = action_words([rule.action for rule in rules], self.space)
        if len(names) == len(rules):
            return {rule: f"for {names[rule.action]}" for rule in rules}
        return {rule: f"“{describe_rule(rule, self.space, 'advice')}”" for rule in rules}

    def _tell_frequency(self) -> str:
        sample = self.verdict.sample
        return (
            f"Its conditions hold in {_percent(sample.fired)} of the steps; in {_percent(sample.changed)} "
            "guidance changes what is done."
        )

    def _tell_stronger(self) -> str:
        if not self.stronger:
            return ""
        # Where the policy fails, a narrower version tells most: it has an inkling of the rule there.
        missed = {c.rule for c in self.making_the_difference} | {
            k.rule for k in self.knowledge if k.status == "unknown"
        }
        best = min(self.stronger, key=lambda s: (s.general not in missed, len(s.mined), s.mined))
        others = len(self.stronger) - 1
        more = f" ({in_words(others)} more such rule{'s' if others > 1 else ''} mined)" if others else ""
        return f"It has learned a narrower version of it: it {describe_rule(best.mined, self.space)}{more}."


_CAUSES: dict[Cause, str] = {
    "generalisation": "The rule alone does not help for certain, its generalisation does: the policy has not carried "
    "it over to related situations.",
    "rule": "The rule alone already helps: the policy does not always keep to it.",
    "both": "The rule alone already helps, so the policy does not always keep to it; generalising it helps more.",
    "unclear": "",
}


def _tell_knowledge(knowledge: Sequence[Knowledge], rule_set: RuleSet, space: FeatureSpace) -> str:
    """Sum up per action, since that is how people tell generalised rules apart."""
    names = action_words([k.rule.action for k in knowledge], space)
    by_action = {action: [k for k in knowledge if k.rule.action == action] for action in names}
    grades = {action: _grade(found, _usual(knowledge, rule_set)) for action, found in by_action.items()}
    told = []
    for grade, phrase in _GRADES.items():
        actions = [action for action, own in grades.items() if own == grade]
        if actions:
            shares = [_broken(by_action[action]) if grade in {"not", "less"} else "" for action in actions]
            told.append(f"{phrase} {join_words([names[a] + s for a, s in zip(actions, shares, strict=True)])}")
    if len(grades) > 1:
        return ", ".join(told)
    # With one action there is nothing to tell apart, only how often the rule is broken.
    return next((_broken(by_action[a]).strip(" ()") for a, grade in grades.items() if grade in {"not", "less"}), "")


_GRADES = {"known": "knows it for", "less": "less well for", "not": "not for", "unseen": "never met it for"}


def _usual(knowledge: Sequence[Knowledge], rule_set: RuleSet) -> float:
    """How often the mined rule itself is broken."""
    own = [k.broken for k in knowledge if k.rule == told_rule(rule_set) and k.status != "unseen"]
    return own[0] if own else 0.0


def _grade(found: Sequence[Knowledge], usual: float) -> str:
    seen = [k for k in found if k.status != "unseen"]
    if not seen:
        return "unseen"
    if any(k.status == "unknown" for k in seen):
        return "not"
    broken = [k for k in seen if round(k.broken * k.triggered) >= FEW_STATES]
    return "less" if any(k.broken > MARKEDLY * usual for k in broken) else "known"


def _broken(found: Sequence[Knowledge]) -> str:
    worst = max((k for k in found if k.status != "unseen"), key=lambda k: k.broken)
    return f" (broken in {_percent(worst.broken)} of such states)"


def explain_weakness(
    verdict: Verdict,
    space: FeatureSpace,
    *,
    experiences: Experiences | None = None,
    mined: Iterable[Rule | MinedRule] = (),
    contributions: Sequence[Contribution] = (),
    min_kept: float = 0.9,
    alpha: float = 0.05,
) -> WeaknessExplanation:
    """Put one weakness into words, with whatever is at hand.

    Parameters
    ----------
    verdict
        The weakness.
    space
        Names of features and actions.
    experiences
        What the unguided policy did; tells which rules it knows.
    mined
        All mined rules; among them stronger versions are looked for.
    contributions
        What `leave_one_out` found for this rule set.
    min_kept
        See `knowledge_of`.
    alpha
        Level of the tests.
    """
    rule_set = verdict.rule_set
    return WeaknessExplanation(
        verdict=verdict,
        space=space,
        knowledge=() if experiences is None else knowledge_of(rule_set, experiences, min_kept=min_kept),
        contributions=tuple(contributions),
        stronger=stronger_rules(rule_set, mined),
        alpha=alpha,
    )


def most_telling(evaluation: Evaluation, most: int = 3) -> tuple[Verdict, ...]:
    """Return the weaknesses that tell most: confirmed ones by their effect, then suspected ones by their p-value.

    Of rule sets that say the same, one in more situations than the other, only the first is told. Suspected ones that
    fresh seeds speak against are left out.
    """
    suspected = sorted((v for v in evaluation.weaknesses if not v.is_confirmed), key=lambda v: v.p)
    chosen: list[Verdict] = []
    for verdict in (*evaluation.confirmed, *suspected):
        doubtful = verdict.confirmation is not None and verdict.confirmation.effect.mean <= 0.0
        if not doubtful and not any(_say_the_same(verdict.rule_set, other.rule_set) for other in chosen):
            chosen.append(verdict)
    return tuple(chosen[:most])


def _say_the_same(one: RuleSet, two: RuleSet) -> bool:
    """Whether a rule of one set is a rule of the other, perhaps with further conditions."""
    first = told_rule(one)
    return any(first.contains(rule) or rule.contains(first) for rule in two.rules)


def explain_weaknesses(
    setup: Setup,
    evaluation: Evaluation,
    mining: Mining,
    experiences: Experiences,
    *,
    seed: int,
    most: int = 3,
    leave_out: bool = True,
    min_kept: float = 0.9,
    run: Runner = run_units,
    on_episodes: Callable[[int], None] | None = None,
) -> tuple[WeaknessExplanation, ...]:
    """Explain the most telling weaknesses of a policy.

    Parameters
    ----------
    setup
        As for the evaluation; its treatments are not used.
    evaluation
        The verdicts.
    mining, experiences
        What the rules were mined from.
    seed
        Of the study.
    most
        How many weaknesses to explain at most.
    leave_out
        Whether to play every rule set without each of its rules, on the confirmation's seeds.
    min_kept
        See `knowledge_of`.
    run, on_episodes
        As in `legible.evaluation.evaluate`.
    """
    settings = evaluation.settings
    seeds = stage_seeds(seed, "explanation", 0, settings.confirmation_episodes or settings.episodes)
    explained = []
    for verdict in most_telling(evaluation, most):
        played: Sequence[Contribution] = ()
        if leave_out and len(verdict.rule_set) > 1:
            played = leave_one_out(setup, verdict.rule_set, seeds, run=run, on_episodes=on_episodes)
        explained.append(
            explain_weakness(
                verdict,
                mining.space,
                experiences=experiences,
                mined=mining.rules,
                contributions=played,
                min_kept=min_kept,
                alpha=settings.alpha,
            )
        )
    return tuple(explained)


# --- A study in a sentence --------------------------------------------------------------------------------------------


def verdict_sentence(evaluation: Evaluation, improvement: Improvement | None = None) -> str:
    """Say what a study found in a sentence or two, no more certain than it is."""
    found = _tell_found(evaluation)
    return found if improvement is None else f"{found} {_tell_improvement(improvement)}"


def _tell_found(evaluation: Evaluation) -> str:
    tested, suspected, confirmed = (len(v) for v in (evaluation.verdicts, evaluation.weaknesses, evaluation.confirmed))
    if not tested:
        return "No rules were mined, so nothing could be tested."

    def of_tested(count: int) -> str:
        return f"{in_words(count)} of the {tested} rule sets tested" if tested > 1 else "the only rule set tested"

    if confirmed:
        return f"The policy is weak: {of_tested(confirmed)} reveal{'s' * (confirmed == 1)} a confirmed weakness."
    if suspected:
        asked = evaluation.confirmation_base is not None
        doubt = "fresh seeds confirm none" if asked else "fresh seeds have not been asked"
        return f"No weakness is confirmed: {of_tested(suspected)} looked like one, but {doubt}."
    none = f"none of the {tested} rule sets tested raises" if tested > 1 else "the only rule set tested does not raise"
    return f"No weakness was found: {none} the return for certain."


def _tell_improvement(improvement: Improvement) -> str:
    if not len(improvement.composition):
        return "No composition of rules did better than the policy alone."
    base, guided, effect = improvement.base.mean, improvement.guided.mean, improvement.effect
    count = len(improvement.composition)
    rules = f"{in_words(count).capitalize()} rule{'s' if count > 1 else ''}"
    change = f"the mean return from {_figure(base)} to {_figure(guided)}: {interval_text(effect)}"
    if effect.low > 0.0:
        return f"{rules} raise{'s' * (count == 1)} {change}."
    if effect.high < 0.0:
        return f"{rules}, chosen because they did well, lower {change} on fresh seeds; do not use them."
    return f"{rules} take{'s' * (count == 1)} {change}, which may be chance."


def interval_text(effect: Effect) -> str:
    """Write an effect with its confidence interval.

    >>> interval_text(Effect(61.2, 20.0, 20.4, 102.0, 0.001))
    '+61.2 (95 % CI +20.4 to +102)'
    """
    return f"{_signed(effect.mean)} (95 % CI {_signed(effect.low)} to {_signed(effect.high)})"


def _figure(value: float) -> str:
    """Three significant digits, and never a power of ten for everyday numbers."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def _signed(value: float) -> str:
    figure = _figure(abs(value))
    return "0" if float(figure) == 0.0 else f"{'−' if value < 0 else '+'}{figure}"


def _p(value: float) -> str:
    return f"= {value:.2g}" if value >= 0.0001 else "< 0.0001"


def _percent(share: float) -> str:
    """Write a share so that a small one is not called none, nor nearly all called all."""
    percent = 100.0 * share
    if 0.0 < percent < 0.01:
        return "less than 0.01 %"
    text = f"{percent:.0f}" if 10 <= percent < 99.5 or percent == 100 else f"{percent:.2g}"
    return f"{99.9 if percent < 100 <= float(text) else text} %"


# --- What the rules speak of -----------------------------------------------------------------------------------------


def group_shares(rules: Iterable[Rule | MinedRule], space: FeatureSpace, groups: Groups) -> dict[str, float]:
    """Return, for every group, the share of rules with at least one condition on a feature of it.

    Parameters
    ----------
    rules
        The rules, for instance those of a `legible.mining.Mining`.
    space
        Names of the features.
    groups
        Names of features by group; ``*`` in a name stands for anything. A name that fits no feature is refused.

    Returns
    -------
    dict
        Shares between 0 and 1; NaN when there are no rules.

    Examples
    --------
    >>> from legible.environments.pacman.features import pacman_features
    >>> from legible.rules import parse_rule
    >>> space = pacman_features(2)
    >>> rules = [parse_rule(text, space) for text in ("-North <- not open.north", "+East <- ghost1.scared & food.east")]
    >>> group_shares(rules, space, {"food": ["food.*"], "walls": ["open.*"], "capsules": ["capsule.*"]})
    {'food': 0.5, 'walls': 0.5, 'capsules': 0.0}
    """
    spoken_of = [set(_rule_of(rule).features) for rule in rules]
    members = {group: _members(group, names, space) for group, names in groups.items()}
    if not spoken_of:
        return dict.fromkeys(members, float("nan"))
    return {
        group: sum(not features.isdisjoint(mine) for features in spoken_of) / len(spoken_of)
        for group, mine in members.items()
    }


def _members(group: str, patterns: Sequence[str], space: FeatureSpace) -> set[int]:
    if isinstance(patterns, str):
        raise LegibleError(f"group {group!r}: a list of feature names is expected, got the text {patterns!r}.")
    found: set[int] = set()
    for pattern in patterns:
        # Only * is special: names may hold brackets.
        fits = re.compile(".*".join(map(re.escape, pattern.split("*")))).fullmatch
        matched = {i for i, name in enumerate(space.names) if fits(name)}
        if not matched:
            raise LegibleError(
                f"group {group!r}: no feature is called {pattern!r}.{did_you_mean(pattern, space.names)}"
            )
        found |= matched
    return found


def feature_groups(space: FeatureSpace) -> dict[str, tuple[str, ...]]:
    """Return the groups that the features themselves name, in the order of the vector.

    A feature without a group is one of its own, by its name.
    """
    groups: dict[str, tuple[str, ...]] = {}
    for feature in space.features:
        key = feature.group or feature.name
        groups[key] = (*groups.get(key, ()), feature.name)
    return groups
