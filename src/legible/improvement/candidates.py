"""Candidates of a composition, and their order.

- `find_candidates`: candidates of an evaluation, in the order of the paper's Algorithm 2.
- `candidates_by_worth`: distinct candidates, the largest estimated gain first; `worth`: the estimated gain.
"""

from __future__ import annotations

from collections.abc import Collection

from scipy.special import ndtri

from legible.evaluation import Evaluation, Verdict
from legible.rules import Rule, RuleSet
from legible.settings import ImprovementSettings

SMALLEST_P = 1e-15
"""Lower bound of p-values, below which the quantile of the normal distribution loses precision."""


def find_candidates(evaluation: Evaluation, settings: ImprovementSettings, veto: Collection[Rule]) -> list[Verdict]:
    """Return the rule sets to try, in order; at most as many as the settings allow, those with the largest effect."""
    allowed = _allowed(evaluation, settings, veto)
    by_effect = sorted(allowed, key=lambda v: -v.difference)
    if settings.most_candidates:
        chosen = by_effect[: settings.most_candidates]
        places = {id(verdict) for verdict in chosen}
        allowed, by_effect = [v for v in allowed if id(v) in places], chosen
    if settings.order == "effect":
        return by_effect
    if settings.order == "negative-first":
        return sorted(allowed, key=lambda v: v.rule_set.rules[0].polarity == "+")
    return allowed


def candidates_by_worth(
    evaluation: Evaluation, settings: ImprovementSettings, veto: Collection[Rule], *, of_race: bool = False
) -> list[Verdict]:
    """Return the distinct rule sets to try, without those whose override rate alone exceeds the limit."""
    found: dict[frozenset[Rule], Verdict] = {}
    allowed = [v for v in _allowed(evaluation, settings, veto) if v.sample.changed <= settings.most_changed]
    for verdict in sorted(allowed, key=lambda v: -worth(v, of_race=of_race)):
        found.setdefault(frozenset(verdict.rule_set.rules), verdict)
    return list(found.values())


def worth(verdict: Verdict, *, of_race: bool = False) -> float:
    """Return the estimated gain of a rule set, from its confirmation if it had one, unless only the race may be used.

    The best rule sets of a race look better than they are. So the estimate from it is the difference minus its standard
    error, which follows from p.
    """
    if verdict.confirmation is not None and not of_race:
        return verdict.confirmation.effect.mean
    z = float(ndtri(1.0 - min(max(verdict.p, SMALLEST_P), 0.5)))
    return verdict.difference * (1.0 - 1.0 / z) if z > 0.0 else -abs(verdict.difference)


def _allowed(evaluation: Evaluation, settings: ImprovementSettings, veto: Collection[Rule]) -> list[Verdict]:
    found: Collection[Verdict] = {
        "weaknesses": evaluation.weaknesses,
        "confirmed": evaluation.confirmed,
        "best": [v for v in evaluation.verdicts if isinstance(v.treatment, RuleSet) and v.difference > 0.0],
    }[settings.candidates]
    chosen = {id(verdict) for verdict in found}
    in_order = [verdict for verdict in evaluation.verdicts if id(verdict) in chosen]
    return [v for v in in_order if not (set(v.rule_set.rules) | {v.rule_set.source}) & set(veto)]
