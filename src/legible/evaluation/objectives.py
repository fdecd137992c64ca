"""Objectives: figures of episodes that guidance should raise, each with a test for pairs of episodes.

- `Objective`: one objective; `OBJECTIVES`, `register_objective`, `find_objective`: objectives by name.
- `ComparisonOptions`: options of a test.
- `Constraint`: the largest loss of an objective that is allowed; `ConstraintCheck`: the result of checking one;
  `parse_constraints` reads constraints from a setting; `check_objectives` refuses objectives that cannot be measured.

| name | figure | test on pairs |
|---|---|---|
| mean | mean return | `legible.evaluation.changed.changed_mean_test` |
| median | median return | whole pairs resampled, `legible.evaluation.ranks.rank_test` |
| worst-tenth | mean of the lowest tenth of the returns | the same |
| success | share of the episodes that succeed | McNemar's, exact |
| cost | mean cost of an episode; less is better | as the mean |
| term:NAME | mean total of a reward term, or of another number in the infos | as the mean |
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from legible.errors import LegibleError, did_you_mean
from legible.evaluation.changed import changed_mean_test, largest_loss, mcnemar_test, resamples_for
from legible.evaluation.ranks import MEDIAN, WORST_TENTH, Ranks, rank_test
from legible.evaluation.statistics import Effect, Standing, paired, standing_of_changed, unpaired
from legible.evaluation.units import UnitResult
from legible.settings import Method, PlaySettings, SettingsError

Values = NDArray[np.float64]
_RUNG_RESAMPLES = 400


class ComparisonOptions(NamedTuple):
    """Options of a test; see `legible.evaluation.changed.changed_mean_test`."""

    invented_loss: float
    resamples: int
    rng_seed: int
    alpha: float = 0.05
    relevant: float = 0.0
    confidence: float = 0.95


@dataclass(frozen=True)
class Objective:
    """A figure of episodes that guidance should raise.

    Parameters
    ----------
    name
        Name in settings.
    words
        Name in sentences: "mean return".
    values
        Returns a number for every episode; higher is better.
    ranks
        The ranks of the numbers that are averaged; None: all.
    is_binary
        Whether the numbers are only 0 and 1.
    less_is_better
        Whether the figure is shown with the opposite sign, as for a cost.
    rung_episodes, confirmation_episodes
        Minimum numbers of episodes of a rung of the race and of a confirmation.
    """

    name: str
    words: str
    values: Callable[[UnitResult], Values]
    ranks: Ranks | None = None
    is_binary: bool = False
    less_is_better: bool = False
    rung_episodes: int = 0
    confirmation_episodes: int = 0

    def value(self, episodes: UnitResult) -> float:
        """Return the figure of episodes; higher is better. A single episode has one, too (see `WorstCase`)."""
        values = self.values(episodes)
        return float(values.mean()) if self.ranks is None else self.ranks.figure(values)

    def shown(self, value: float) -> float:
        """Return the figure in the sign in which it is shown."""
        return -value if self.less_is_better else value

    def differences(self, guided: UnitResult, base: UnitResult) -> Values:
        """Return how much better every guided episode is than the unguided one with the same seed."""
        return self.values(guided) - self.values(base)

    def invented_loss(self, pairs: Iterable[tuple[UnitResult, UnitResult]]) -> float:
        """Return the largest loss in all pairs (guided, unguided) that are tested together."""
        return largest_loss(self.differences(guided, base) for guided, base in pairs)

    def test(
        self, guided: UnitResult, base: UnitResult, changed: NDArray[np.bool_], comparison: ComparisonOptions
    ) -> Effect:
        """Test on the episodes that guidance changed whether they are better."""
        if self.ranks is not None:
            return rank_test(self.values(guided), self.values(base), changed, self.ranks, **comparison._asdict())
        differences = self.differences(guided, base)[changed]
        if self.is_binary:
            options = {name: getattr(comparison, name) for name in ("alpha", "relevant", "confidence")}
            return mcnemar_test(differences, len(changed), **options)
        return changed_mean_test(differences, len(changed), **comparison._asdict())

    def standing(
        self, guided: UnitResult, base: UnitResult, changed: NDArray[np.bool_], invented_loss: float = 0.0
    ) -> Standing:
        """Return a quick estimate of how much better the guided episodes are: for choosing, not for claims."""
        if self.ranks is None:
            return standing_of_changed(self.differences(guided, base)[changed], len(changed), invented_loss)
        effect = self.test(guided, base, changed, ComparisonOptions(invented_loss, _RUNG_RESAMPLES, 0))
        z = effect.mean / effect.error if effect.error > 0.0 else -math.inf
        return Standing(effect.mean, effect.error, z, float(ndtr(-z)))

    def compare(
        self, guided: UnitResult, base: UnitResult, *, method: Method = "paper", relevant: float = 0.0
    ) -> Effect:
        """Compare two blocks with the same seeds; the paper's method compares means with the paired t-test.

        Without reproducible seeds (the method "unpaired") the blocks are independent samples. p is for an effect of at
        most `relevant`.
        """
        if self.ranks is None and (method == "unpaired" or (method == "paper" and not self.is_binary)):
            test, better, worse = paired if method == "paper" else unpaired, self.values(guided), self.values(base)
            effect = test(better, worse)
            return replace(effect, p=test(better - relevant, worse).p) if relevant else effect
        differences = self.differences(guided, base)
        changed = (guided.changed > 0) | (differences != 0.0)
        options = ComparisonOptions(largest_loss([differences]), resamples_for(1), rng_seed=0, relevant=relevant)
        return self.test(guided, base, changed, options)


OBJECTIVES: dict[str, Objective] = {}
TERM = "term:"


def register_objective(objective: Objective) -> None:
    """Make an objective available to settings by its name."""
    OBJECTIVES[objective.name] = objective


def find_objective(name: str) -> Objective:
    """Return the objective with a name."""
    if name.startswith(TERM):
        return _term_objective(name)
    if name not in OBJECTIVES:
        raise LegibleError(
            f"there is no objective {name!r}; choose one of {', '.join(OBJECTIVES)} or {TERM}NAME."
            f"{did_you_mean(name, OBJECTIVES)}"
        )
    return OBJECTIVES[name]


@cache
def _term_objective(name: str) -> Objective:
    """Return the objective "term:NAME": the mean total of a reward term, or of another number in the infos."""
    term = name.removeprefix(TERM)

    def totals(episodes: UnitResult) -> Values:
        known = episodes.terms.dtype.names or ()
        if term not in known:
            reported = f"it reports {', '.join(known)}" if known else "it reports no numbers in its infos"
            raise LegibleError(
                f"the objective {name!r} cannot be used: this environment does not report {term!r}; {reported}. "
                "To name terms of the reward, write a function and pass it with --set play.terms=MODULE:FUNCTION."
                f"{did_you_mean(term, known)}"
            )
        values: Values = episodes.terms[term]
        return values

    return Objective(name, f"mean {term.replace('_', ' ')} per episode", totals)


def _returns(episodes: UnitResult) -> Values:
    return episodes.returns


def _success(episodes: UnitResult) -> Values:
    if np.isnan(episodes.success[~episodes.failed]).any():
        raise LegibleError(
            'the objective "success" cannot be used: this environment does not report is_success in the infos of the '
            'last step. Use "mean", "median" or "worst-tenth", which need returns only.'
        )
    return episodes.success


for _objective in (
    Objective("mean", "mean return", _returns),
    Objective("median", "median return", _returns, MEDIAN, rung_episodes=100, confirmation_episodes=500),
    Objective(
        "worst-tenth",
        "mean return of the worst tenth",
        _returns,
        WORST_TENTH,
        rung_episodes=200,
        confirmation_episodes=1000,
    ),
    Objective("success", "share of successful episodes", _success, is_binary=True),
    Objective("cost", "mean cost", lambda episodes: -episodes.costs, less_is_better=True),
):
    register_objective(_objective)


@dataclass(frozen=True)
class Constraint:
    """The largest loss of an objective that is allowed, whatever else is gained.

    A constraint is a non-inferiority test: it is kept if the confidence interval of the effect excludes a larger loss.
    The absence of evidence for harm is not enough.
    """

    objective: Objective
    margin: float

    @property
    def words(self) -> str:
        """The constraint as it is written in settings."""
        worse = "higher" if self.objective.less_is_better else "lower"
        return f"{self.objective.name} no {worse} than by {self.margin:g}"

    def check(self, effect: Effect) -> ConstraintCheck:
        """Return whether an effect of guidance on the objective excludes a loss above the margin."""
        return ConstraintCheck(self.words, effect, is_kept=effect.low > -self.margin)


@dataclass(frozen=True)
class ConstraintCheck:
    """A constraint as it is written, the effect on its objective, and whether the effect shows that it is kept."""

    constraint: str
    effect: Effect
    is_kept: bool


_CONSTRAINT = re.compile(r"(?P<name>term:.+|[\w-]+) no (?P<worse>lower|higher) than by (?P<margin>[0-9.eE+-]+)")


def parse_constraints(text: str) -> tuple[Constraint, ...]:
    """Read constraints such as "worst-tenth no lower than by 20"; several are separated by semicolons.

    >>> [one.words for one in parse_constraints("worst-tenth no lower than by 20; cost no higher than by 1")]
    ['worst-tenth no lower than by 20', 'cost no higher than by 1']
    """
    return tuple(_parse_constraint(part.strip()) for part in text.split(";") if part.strip())


def _parse_constraint(text: str) -> Constraint:
    """Return the constraint that a text states, such as "worst-tenth no lower than by 20"; refuse other texts.

    The example means: guidance may lower the mean return of the worst tenth of the episodes by less than 20.
    """
    match = _CONSTRAINT.fullmatch(text)
    if match is None:
        raise SettingsError(
            f'constraint: {text!r} cannot be read; write it as "worst-tenth no lower than by 20" (for a cost: '
            '"no higher"), and separate several with semicolons.'
        )
    try:
        objective = find_objective(match["name"])
    except LegibleError as error:
        raise SettingsError(f"constraint {text!r}: {error}") from error
    direction = "higher" if objective.less_is_better else "lower"  # in which it becomes worse
    if match["worse"] != direction:
        raise SettingsError(f'constraint {text!r}: for {objective.name} write "no {direction} than by".')
    try:
        margin = float(match["margin"])
    except ValueError:
        margin = math.nan
    if not 0.0 < margin < math.inf:
        raise SettingsError(
            f"constraint {text!r}: {match['margin']!r} is not a number above 0. Some loss must be allowed, because no "
            "number of episodes can exclude every loss."
        )
    return Constraint(objective, margin)


def check_objectives(objective: str, constraint: str, play: PlaySettings) -> None:
    """Refuse an objective or constraints that are unknown or that the settings of play do not support."""
    objectives = (find_objective(objective), *(one.objective for one in parse_constraints(constraint)))
    if any(one.name == "cost" for one in objectives) and not play.cost:
        raise LegibleError(
            'the objective "cost" needs a cost: name the entry of the infos that holds it (--set play.cost=NAME).'
        )
