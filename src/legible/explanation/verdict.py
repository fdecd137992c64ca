"""A whole study in a few sentences: the one place that words its conclusion, for terminal, report, JSON and documents.

- `Conclusion`: a headline and what follows it; `conclude` makes it, `verdict_sentence` is all of it as one text.
- `is_repair`: whether the guided policy is worth using; `imitated_reference`: what it does nothing else than.

What matters most comes first: a reference that beats the policy, then a policy that is bad in absolute terms: it never
succeeds, or does not solve an environment that says what solved is, and nothing that was found mends it. Only a
policy that stands better than that is told about its weaknesses at once, with what mending them brings and costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legible.evaluation import Evaluation, QuotedReference, References, find_objective
from legible.evaluation.figures import figure_of
from legible.explanation.deployment import weigh_deployment
from legible.explanation.grouping import WeaknessGroup, group_weaknesses
from legible.explanation.objective_words import ObjectiveWords
from legible.formatting import capitalise, in_words, join_words, number, percent
from legible.improvement import Improvement

# Share of its steps in which a guided policy takes one choice, from which on it imitates a constant one.
IMITATION = 0.9
# Share of episodes that are cut off from which on that is told of a bad policy.
MOSTLY = 0.5


@dataclass(frozen=True)
class Conclusion:
    """What a study says in the end.

    Parameters
    ----------
    headline
        One sentence with what matters most.
    sentences
        What follows it.
    is_bad
        Whether the policy is bad in absolute terms, or no better than a plain way to act.
    """

    headline: str
    sentences: tuple[str, ...] = ()
    is_bad: bool = False

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join([self.headline, *self.sentences])


def conclude(
    evaluation: Evaluation,
    improvement: Improvement | None = None,
    references: References | None = None,
    weaknesses: Sequence[WeaknessGroup] | None = None,
    solved: float | None = None,
) -> Conclusion:
    """Say what a study found in a few sentences, no more certain than it is.

    Parameters
    ----------
    evaluation
        The verdicts on rule sets.
    improvement
        The composition, if it is known.
    references
        How random play, constant choices and other policies do, if that is known.
    weaknesses
        Which verdicts are one weakness; by default those that say the same.
    solved
        The mean return from which on the environment counts as solved, if it says so.
    """
    groups = group_weaknesses(evaluation) if weaknesses is None else weaknesses
    told, gain = _what_is_bad(evaluation, improvement, references), _gain(improvement, references)
    is_outdone = bool(told)
    if improvement is not None and not told and not gain:
        told += _unsolved(improvement, solved)
    is_bad = bool(told)
    if is_bad and improvement is not None:
        told += _cut_off(improvement)
    if gain and not is_bad:
        assert improvement is not None
        told += [_gain_with_cost(improvement, gain, groups), *_more_costs(improvement), _other_changes(improvement)]
        told.append(_count_sentence(evaluation, groups))
    else:
        told += [_findings_sentence(evaluation, groups, improvement, is_bad=is_bad, solved=solved)]
        if improvement is not None and not (_is_untouched(evaluation) and not len(improvement.composition)):
            told += _improvement_sentences(improvement, references)
    if improvement is not None and references is not None and not is_outdone:
        told += _how_it_stands(improvement, references, says_success=not gain or is_bad)
    return Conclusion(told[0], (*told[1:], *_failures(evaluation, improvement)), is_bad)


def verdict_sentence(
    evaluation: Evaluation,
    improvement: Improvement | None = None,
    references: References | None = None,
    weaknesses: Sequence[WeaknessGroup] | None = None,
) -> str:
    """Return the whole conclusion as one text, see `conclude`."""
    return conclude(evaluation, improvement, references, weaknesses).text


def is_repair(improvement: Improvement, references: References | None = None) -> bool:
    """Whether guidance mends the policy: it raises the return, and above that of the best reference, for certain."""
    if not len(improvement.composition) or improvement.effect.low <= 0.0:
        return False
    best = references.best if references is not None else None
    return best is None or best.over_guided.high < 0.0


def imitated_reference(improvement: Improvement, references: References | None = None) -> QuotedReference | None:
    """Return the best reference if guidance, no better, takes its constant choice in nearly all steps."""
    best = references.best if references is not None else None
    if best is None or not len(improvement.composition) or is_repair(improvement, references):
        return None
    return best if _share_taken(improvement, best) >= IMITATION else None


def _words_of(improvement: Improvement) -> ObjectiveWords:
    return ObjectiveWords(improvement.evaluation_settings.objective)


def _share_taken(improvement: Improvement, reference: QuotedReference) -> float:
    """Share of its steps in which the guided policy takes the choices of a constant reference; 0 for others."""
    shares, choices = improvement.choice_shares, reference.reference.choices
    return min((float(shares[choice]) for choice in choices), default=0.0) if shares.size else 0.0


# --- How the policy stands -------------------------------------------------------------------------------------------


def _what_is_bad(evaluation: Evaluation, improvement: Improvement | None, references: References | None) -> list[str]:
    """Say what is worse than any weakness: a plain way to act does as well or better, or nothing ever succeeds."""
    told = []
    if improvement is not None and references is not None:
        told += _worse_than_reference(improvement, references)
    alone = evaluation.base if improvement is None else improvement.base
    if alone.success == 0.0:
        guided = improvement is not None and len(improvement.composition) and improvement.guided.success == 0.0
        told.append(f"The policy never succeeds in {alone.episodes} episodes{', guided or not' if guided else ''}.")
    return told


def _cut_off(improvement: Improvement) -> list[str]:
    """Say so where most episodes of a bad policy come to no end of their own: it may wait, hover or turn in circles."""
    share = float(improvement.final_blocks.base.truncated.mean())
    if share < MOSTLY:
        return []
    steps = number(round(improvement.base.length))
    ends = f"the step limit cuts off {percent(share)} of its episodes, and they last {steps} steps on average"
    return [f"It comes to no end: {ends}."]


def _unsolved(improvement: Improvement, solved: float | None) -> list[str]:
    """Say so where the policy does not solve the environment, and nothing that was found changes that."""
    if solved is None or figure_of(find_objective("mean"), improvement.final_blocks.base.played).high >= solved:
        return []
    own = number(improvement.base.mean)
    return [f"The policy does not solve the environment: it returns {own} on average, solved is {number(solved)}."]


def _worse_than_reference(improvement: Improvement, references: References) -> list[str]:
    """Say which reference beats the policy or the guided policy, or which plain one the policy does not beat."""
    best = references.best
    better = next((reference for reference in references.quoted if reference.beats_policy), None)
    if better is not None:
        return [_worse_than(better, improvement, references)]
    if len(improvement.composition) and best is not None and best.over_guided.low > 0.0:
        told, blocks = _words_of(improvement), improvement.final_blocks
        returns = f"{capitalise(best.words)} {told.has} {told.of(best.result)}"
        alone, guided = told.of(blocks.base), told.of(blocks.results[-1])
        return [f"{returns}; the policy {told.has_again} {alone}, guided {guided}."]
    plain = [reference for reference in (references.random_play, references.best_plain) if reference is not None]
    no_worse = [reference for reference in plain if reference.over_policy.mean >= 0.0]
    perhaps = [reference for reference in plain if reference.over_policy.high >= 0.0]
    return [_no_better_than(reference, improvement) for reference in (no_worse or perhaps)[:1]]


def _worse_than(better: QuotedReference, improvement: Improvement, references: References) -> str:
    told, blocks = _words_of(improvement), improvement.final_blocks
    lead = f"The policy is worse than {better.words}: it {told.has} {told.of(blocks.base)}, {better.words}"
    text = f"{lead} {told.of(better.result)}"
    if not len(improvement.composition):
        return f"{text}."
    guided = f"{text}; guided, it {told.has_again} {told.of(blocks.results[-1])}"
    return f"{guided}." if is_repair(improvement, references) else f"{guided}, which is no repair."


def _no_better_than(plain: QuotedReference, improvement: Improvement) -> str:
    told = _words_of(improvement)
    own, other = told.of(improvement.final_blocks.base), told.of(plain.result)
    returns = f"it {told.has} {own}, {plain.words} {other}"
    if plain.over_policy.mean < 0.0 and own != other:
        lead = told.lead(plain.over_policy)
        return f"It is not certain that the policy is better than {plain.words}: {returns} ({lead})."
    return f"The policy is no better than {plain.words}: {f'{told.both_have} {own}' if own == other else returns}."


def _how_it_stands(improvement: Improvement, references: References, *, says_success: bool) -> list[str]:
    """How a policy stands that is better than all plain references."""
    plain = references.best_plain
    if plain is None:
        return []
    told = _words_of(improvement)
    base, success = improvement.final_blocks.base, improvement.base.success
    known = told.objective.name != "success" and np.isfinite(success)
    succeeds = f"succeeds in {percent(success)} of the episodes and " if known and says_success else ""
    alone = f"Alone, the policy {succeeds}{told.has} {told.of(base)}, {told.more} than random play and "
    best = f"the best of these plain ways to act, {plain.words}, {told.has_again} {told.of(plain.result)}"
    return [f"{alone}every constant choice: {best}."]


# --- What was found, and what it is worth ----------------------------------------------------------------------------


def _gain(improvement: Improvement | None, references: References | None) -> str:
    """A guided policy that is certainly better, and better than the best reference: its gain in words, else nothing."""
    if improvement is None or not is_repair(improvement, references):
        return ""
    told, blocks = _words_of(improvement), improvement.final_blocks
    change = f"from {told.of(blocks.base)} to {told.of(blocks.results[-1])} ({told.bounds(improvement.effect)})"
    return f"{_rules(improvement)} {told.better}{_s(improvement)} the {told.words} {change}"


def _gain_with_cost(improvement: Improvement, gain: str, groups: Sequence[WeaknessGroup]) -> str:
    confirmed = sum(group.is_confirmed for group in groups)
    ways = "in one way" if confirmed == 1 else f"in {in_words(confirmed)} ways"
    lead = f"The policy is weak {ways}: {gain}" if confirmed else capitalise(gain)
    return f"{lead}{_cost(improvement)}."


def _cost(improvement: Improvement) -> str:
    """What a gain costs, to follow it: what gets worse at once, then how much of the policy is changed."""
    deployment = weigh_deployment(improvement)
    sign = ", but " if deployment.worse else "; "
    return f"{sign}{deployment.cost_clause()}; {percent(deployment.overridden)} of its actions change"


def _more_costs(improvement: Improvement) -> list[str]:
    """What else gets worse than the one figure that the headline has room for."""
    more = weigh_deployment(improvement).worse[1:]
    return [f"Also worse: {join_words([change.clause() for change in more])}."] if more else []


def _other_changes(improvement: Improvement) -> str:
    """What a person asks next about a gain: how often the policy succeeds then, and how often guidance loses."""
    deployment = weigh_deployment(improvement)
    lost = f"{percent(deployment.seeds_lost)} of the episodes return less than without guidance"
    success = next((change for change in deployment.figures if change.name == "success"), None)
    if success is None or success.guided is None or success.direction == "worse":
        return f"{capitalise(lost)}."
    if deployment.objective == "success" or success.direction != "better":
        return f"Guided, it succeeds in {percent(success.guided.value)} of the episodes; {lost}."
    return f"{capitalise(success.clause())}; {lost}."


def _count_sentence(evaluation: Evaluation, groups: Sequence[WeaknessGroup]) -> str:
    """Say how many rule sets were tested and what they show, after the headline has told what they are worth."""
    tested, confirmed = len(evaluation.verdicts), len(evaluation.confirmed)
    causes = sum(group.is_confirmed for group in groups)
    if not confirmed:
        return f"No single one of the {tested} rule sets tested is confirmed on fresh seeds."
    of = (
        f"{capitalise(in_words(confirmed))} of the {tested} rule sets tested"
        if tested > 1
        else "The one rule set tested"
    )
    verb = "is" if confirmed == 1 else "are"
    ways = "" if causes == confirmed else f"; those that change the same states are one weakness, which makes {causes}"
    return f"{of} {verb} confirmed on fresh seeds{ways}."


def _findings_sentence(
    evaluation: Evaluation,
    groups: Sequence[WeaknessGroup],
    improvement: Improvement | None,
    *,
    is_bad: bool,
    solved: float | None = None,
) -> str:
    """Say what was found; a policy that is bad anyway is not told that it has no weakness."""
    tested, suspected = len(evaluation.verdicts), len(evaluation.weaknesses)
    causes, confirmed = sum(group.is_confirmed for group in groups), len(evaluation.confirmed)
    if not tested:
        return "No rules were mined, so nothing could be tested."

    def of_tested(count: int) -> str:
        return f"{in_words(count)} of the {tested} rule sets tested" if tested > 1 else "the only rule set tested"

    if confirmed:
        reveal = "reveals" if confirmed == 1 else "reveal"
        what = "a confirmed weakness" if causes == 1 else f"{in_words(causes)} confirmed weaknesses"
        lead, found = "The policy is weak", f"{of_tested(confirmed)} {reveal} {what}"
    elif suspected:
        asked = evaluation.confirmation_blocks is not None
        doubt = _doubt(evaluation) if asked else "fresh seeds have not been asked"
        what = "a weakness" if is_bad else "one"
        lead, found = (
            _beside("no weakness is confirmed", improvement, solved),
            f"{of_tested(suspected)} looked like {what}, but {doubt}",
        )
    else:
        told = ObjectiveWords(evaluation.settings.objective)
        verb = told.better
        none = f"none of the {tested} rule sets tested {verb}s" if tested > 1 else f"{of_tested(1)} does not {verb}"
        lead = _beside("no weakness was found", improvement, solved)
        found = f"{none} the {told.words} for certain"
        if _is_untouched(evaluation):
            all_tested = f"the {tested} rule sets tested" if tested > 1 else "the only rule set tested"
            found = f"guidance by {all_tested} changes no return"
    return f"{capitalise(found)}." if is_bad and not confirmed else f"{lead}: {found}."


def _is_untouched(evaluation: Evaluation) -> bool:
    """Whether no rule set made any difference: every episode returns the same, guided or not."""
    return bool(evaluation.verdicts) and all(verdict.difference == 0.0 for verdict in evaluation.verdicts)


def _doubt(evaluation: Evaluation) -> str:
    """Why nothing that looked like a weakness is confirmed: fresh seeds speak against it, or say too little."""
    asked = [v.confirmation for v in evaluation.weaknesses if v.confirmation is not None]
    if asked and all(confirmation.is_too_rare for confirmation in asked):
        return "too few episodes change on fresh seeds to tell"
    return "fresh seeds confirm none"


def _beside(finding: str, improvement: Improvement | None, solved: float | None) -> str:
    """Say that nothing was found, after how good the policy is where that is known in absolute terms.

    A policy that returns the same in every episode often has the most that there is.
    """
    if improvement is None:
        return capitalise(finding)
    own, returns = number(improvement.base.mean), improvement.final_blocks.base.played
    is_solved = solved is not None and figure_of(find_objective("mean"), returns).low >= solved
    which = f" (solved is {number(solved)})" if is_solved else ""
    if np.ptp(returns.returns) == 0.0:
        return f"The policy returns {own} in every episode{which}, and {finding}"
    return (
        f"The policy solves the environment, with {own} on average{which}, and {finding}"
        if is_solved
        else capitalise(finding)
    )


def _rules(improvement: Improvement) -> str:
    count = len(improvement.composition)
    return f"{in_words(count)} {'rule' if count == 1 else 'rules'}"


def _s(improvement: Improvement) -> str:
    """The ending of a verb whose subject are the rules of the composition."""
    return "s" * (len(improvement.composition) == 1)


def _improvement_sentences(improvement: Improvement, references: References | None) -> list[str]:
    if not len(improvement.composition):
        return [_no_composition(improvement)]
    effect, told, blocks = improvement.effect, _words_of(improvement), improvement.final_blocks
    rules, s = capitalise(_rules(improvement)), _s(improvement)
    change = f"the {told.words} from {told.of(blocks.base)} to {told.of(blocks.results[-1])} ({told.interval(effect)})"
    if effect.high < 0.0:
        return [f"{rules}, chosen because they did well, {told.worse} {change} on fresh seeds; do not use them."]
    if effect.low > 0.0:
        gain = f"{rules} {told.better}{s} {change}{_cost(improvement)}."
        return [gain, *_more_costs(improvement), *_beside_best(improvement, references)]
    return [f"{rules} take{s} {change}, which may be chance.", *_beside_best(improvement, references)]


def _no_composition(improvement: Improvement) -> str:
    """Say why there is no guided policy; one that was given up because it changes too little is no failure."""
    check = improvement.check
    if check is None or not check.is_too_rare:
        return "No composition of rules did better than the policy alone beyond chance."
    told, effect = _words_of(improvement), check.effect
    count = len(check.composition)
    rules = f"{capitalise(in_words(count))} {'rule' if count == 1 else 'rules'} may help"
    few = f"they change {effect.changed} of {effect.seeds} episodes, too few to rule out rare losses"
    doubt = f"{few}, which such an interval does not show"
    return f"{rules} ({told.interval(effect)}), but {doubt}: no guided policy is proposed."


def _beside_best(improvement: Improvement, references: References | None) -> list[str]:
    """Say so where a composition is not better than the best reference, or even imitates it."""
    best = references.best if references is not None else None
    if best is None or best.over_guided.high < 0.0:
        return []
    told, over = _words_of(improvement), best.over_guided
    doubt = "" if over.mean >= 0.0 else f" (the difference, {told.lead(over)}, may be chance)"
    no_better = f"That is no better than {best.words}, which {told.has} {told.of(best.result)}{doubt}, and no repair"
    if imitated_reference(improvement, references) is None:
        return [f"{no_better}."]
    share = percent(_share_taken(improvement, best))
    return [f"{no_better}: it imitates it, with this choice in {share} of its steps."]


def _failures(evaluation: Evaluation, improvement: Improvement | None) -> list[str]:
    blocks = [evaluation.failed] + ([] if improvement is None else [improvement.final_blocks.failed])
    guided, unguided = (sum(counts) for counts in zip(*blocks, strict=True))
    if not guided and not unguided:
        return []
    return [f"{guided} guided and {unguided} unguided episodes failed; in effects they count at their worst."]
