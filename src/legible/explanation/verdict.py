"""A whole study in a few sentences: the one place that words its verdict, for terminal, report, JSON and documents.

- `verdict_sentence`: how the policy stands, what was found, and what the guided policy is worth.
- `is_repair`: whether the guided policy is worth using; `imitated_reference`: what it does nothing else than.

What matters most comes first: a reference that beats the policy, then a policy that is bad in absolute terms. Only a
policy that stands better than that is told about its weaknesses at once.
"""

from __future__ import annotations

from dataclasses import replace

from legible.evaluation import Evaluation, Objective, QuotedReference, References, Sample, find_objective
from legible.evaluation.statistics import Effect
from legible.evaluation.units import UnitResult
from legible.formatting import capitalise, in_words, number, percent, signed
from legible.improvement import Improvement

# Share of its steps in which a guided policy takes one choice, from which on it imitates a constant one.
IMITATION = 0.9


def verdict_sentence(
    evaluation: Evaluation, improvement: Improvement | None = None, references: References | None = None
) -> str:
    """Say what a study found in a few sentences, no more certain than it is.

    Parameters
    ----------
    evaluation
        The verdicts on rule sets.
    improvement
        The composition, if it is known.
    references
        How random play, constant choices and other policies do, if that is known.
    """
    bad = _what_is_bad(evaluation, improvement, references)
    told = [*bad, _findings_sentence(evaluation, is_bad=bool(bad))]
    failed = evaluation.failed
    if improvement is not None:
        told += _improvement_sentences(improvement, references)
        failed = (failed[0] + improvement.final_blocks.failed[0], failed[1] + improvement.final_blocks.failed[1])
    if improvement is not None and references is not None and not bad:
        told += _how_it_stands(improvement, references)
    if any(failed):
        told.append(
            f"{failed[0]} guided and {failed[1]} unguided episodes failed; in effects they count at their worst."
        )
    return " ".join(told)


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


class _Figures:
    """Figures of episodes by the objective of a study, as people read them."""

    def __init__(self, improvement: Improvement) -> None:
        self.objective: Objective = find_objective(improvement.evaluation_settings.objective)
        self._is_mean = self.objective.name == "mean"
        self.has, self.more = ("returns", "more") if self._is_mean else (f"has a {self.objective.words} of", "better")
        self.has_again = "returns" if self._is_mean else "has"
        self.policy = self.of(improvement.final_blocks.base)
        self.guided = self.of(improvement.final_blocks.results[-1])

    def of(self, episodes: UnitResult) -> str:
        """The figure of some episodes."""
        value = self.objective.shown(self.objective.value(episodes.played))
        return percent(value) if self.objective.is_binary else number(value)

    def change(self, effect: Effect) -> tuple[str, str, str]:
        """A change with its interval: the middle and both ends, the lower first."""
        ends = sorted(self.objective.shown(end) for end in (effect.low, effect.high))
        scale, unit = (100.0, " points") if self.objective.is_binary else (1.0, "")
        middle, low, high = (signed(scale * value) for value in (self.objective.shown(effect.mean), *ends))
        return f"{middle}{unit}", low, high

    def lead(self, over: Effect) -> str:
        """How much better something is than a reference that is `over` it by that much."""
        middle, low, high = self.change(replace(over, mean=-over.mean, low=-over.high, high=-over.low))
        return f"{middle}, 95 % CI {low} to {high}"


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
        told.append(_never_succeeds(alone, improvement))
    return told


def _never_succeeds(alone: Sample, improvement: Improvement | None) -> str:
    guided = improvement is not None and len(improvement.composition) and improvement.guided.success == 0.0
    return f"The policy never succeeds, in none of {alone.episodes} episodes{', guided or not' if guided else ''}."


def _worse_than_reference(improvement: Improvement, references: References) -> list[str]:
    """Say which reference beats the policy or the guided policy, or which plain one the policy does not beat."""
    is_guided, best = len(improvement.composition) > 0, references.best
    better = next((reference for reference in references.quoted if reference.beats_policy), None)
    if better is None and is_guided and best is not None and best.over_guided.low > 0.0:
        better = best
    if better is not None:
        told = _Figures(improvement)
        guided = f", guided {told.guided}" if is_guided else ""
        returns = f"{capitalise(better.name)} {told.has} {told.of(better.result)}"
        return [f"{returns}; the policy {told.has_again} {told.policy}{guided}."]
    plain = [reference for reference in (references.random_play, references.best_plain) if reference is not None]
    no_worse = [reference for reference in plain if reference.over_policy.mean >= 0.0]
    perhaps = [reference for reference in plain if reference.over_policy.high >= 0.0]
    return [_no_better_than(reference, improvement) for reference in (no_worse or perhaps)[:1]]


def _no_better_than(plain: QuotedReference, improvement: Improvement) -> str:
    told = _Figures(improvement)
    own, other = told.policy, told.of(plain.result)
    returns = f"it {told.has} {own}, {plain.name} {other}"
    if plain.over_policy.mean < 0.0 and own != other:
        lead = told.lead(plain.over_policy)
        return f"It is not certain that the policy is better than {plain.name}: {returns} ({lead})."
    both = "both return" if told.has == "returns" else f"both have a {told.objective.words} of"
    return f"The policy is no better than {plain.name}: {f'{both} {own}' if own == other else returns}."


def _how_it_stands(improvement: Improvement, references: References) -> list[str]:
    """How a policy stands that is better than all plain references."""
    plain = references.best_plain
    if plain is None:
        return []
    told = _Figures(improvement)
    return [
        f"The policy {told.has} {told.policy}, {told.more} than random play and every constant choice: the best of "
        f"them, {plain.name}, {told.has_again} {told.of(plain.result)}."
    ]


# --- What was found, and what it is worth ----------------------------------------------------------------------------


def _findings_sentence(evaluation: Evaluation, *, is_bad: bool) -> str:
    """Say what was found; a policy that is bad anyway is not told that it has no weakness."""
    tested, suspected, confirmed = (len(v) for v in (evaluation.verdicts, evaluation.weaknesses, evaluation.confirmed))
    if not tested:
        return "No rules were mined, so nothing could be tested."

    def of_tested(count: int) -> str:
        return f"{in_words(count)} of the {tested} rule sets tested" if tested > 1 else "the only rule set tested"

    if confirmed:
        reveal = "reveals" if confirmed == 1 else "reveal"
        lead, found = "The policy is weak", f"{of_tested(confirmed)} {reveal} a confirmed weakness"
    elif suspected:
        asked = evaluation.confirmation_blocks is not None
        doubt = "fresh seeds confirm none" if asked else "fresh seeds have not been asked"
        what = "a weakness" if is_bad else "one"
        lead, found = "No weakness is confirmed", f"{of_tested(suspected)} looked like {what}, but {doubt}"
    else:
        none = f"none of the {tested} rule sets tested raises" if tested > 1 else f"{of_tested(1)} does not raise"
        lead, found = "No weakness was found", f"{none} the return for certain"
    return f"{capitalise(found)}." if is_bad and not confirmed else f"{lead}: {found}."


def _improvement_sentences(improvement: Improvement, references: References | None) -> list[str]:
    count = len(improvement.composition)
    if not count:
        return ["No composition of rules did better than the policy alone."]
    effect, told = improvement.effect, _Figures(improvement)
    rules = capitalise(f"{in_words(count)} {'rule' if count == 1 else 'rules'}")
    middle, low, high = told.change(effect)
    change = f"the {told.objective.words} from {told.policy} to {told.guided}: {middle} (95 % CI {low} to {high})"
    better, worse = ("lower", "raise") if told.objective.less_is_better else ("raise", "lower")
    s = "s" * (count == 1)
    if effect.high < 0.0:
        return [f"{rules}, chosen because they did well, {worse} {change} on fresh seeds; do not use them."]
    if effect.low > 0.0:
        return [f"{rules} {better}{s} {change}.", *_beside_best(improvement, references)]
    return [f"{rules} take{s} {change}, which may be chance.", *_beside_best(improvement, references)]


def _beside_best(improvement: Improvement, references: References | None) -> list[str]:
    """Say so where a composition is not better than the best reference, or even imitates it."""
    best = references.best if references is not None else None
    if best is None or best.over_guided.high < 0.0:
        return []
    told, over = _Figures(improvement), best.over_guided
    doubt = "" if over.mean >= 0.0 else f" (the difference, {told.lead(over)}, may be chance)"
    no_better = f"That is no better than {best.name}, which {told.has} {told.of(best.result)}{doubt}, and no repair"
    if imitated_reference(improvement, references) is None:
        return [f"{no_better}."]
    share = percent(_share_taken(improvement, best))
    return [f"{no_better}: it imitates it, with this choice in {share} of its steps."]
