"""Objectives: what guidance is to raise, as one number of some episodes, with a test for pairs of episodes.

- `Objective`: one of them; `OBJECTIVES`, `register_objective`, `find_objective`: by name.
- `ComparisonOptions`: what a test needs in addition to the episodes.
- `Constraint`: how much an objective may lose at most; `ConstraintCheck`: whether it is shown to keep to that;
  `parse_constraints` reads them from a setting; `check_objectives` refuses what cannot be asked for.

| name | figure | test on pairs |
|---|---|---|
| mean | mean return | `legible.evaluation.changed.changed_mean_test` |
| median | median return | whole pairs resampled, `legible.evaluation.ranks.rank_test` |
| worst-tenth | mean of the lowest tenth of the returns | the same |
| success | share of the episodes that succeed | McNemar's, exact |
| cost | mean cost of an episode; less is better | as the mean |
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from legible.errors import LegibleError, did_you_mean
from legible.evaluation.changed import changed_mean_test, largest_loss, mcnemar_test, resamples_for
from legible.evaluation.ranks import MEDIAN, WORST_TENTH, Ranks, rank_test
from legible.evaluation.statistics import Effect, Standing, paired, standing_of_changed
from legible.evaluation.units import UnitResult
from legible.settings import Method, PlaySettings, SettingsError

Values = NDArray[np.float64]
_RUNG_RESAMPLES = 400


class ComparisonOptions(NamedTuple):
    """What a test needs in addition to the episodes; see `legible.evaluation.changed.changed_mean_test`."""

    invented_loss: float
    resamples: int
    rng_seed: int
    alpha: float = 0.05


@dataclass(frozen=True)
class Objective:
    """What guidance is to raise.

    Parameters
    ----------
    name
        By which settings ask for it.
    words
        What it is called in sentences: "mean return".
    values
        A number for every episode; more is better.
    ranks
        Which ranks of the numbers it is the mean of; None: the mean of all.
    is_binary
        Whether the numbers are only 0 and 1.
    less_is_better
        Whether people read the figure with the other sign, as for a cost.
    rung_episodes, confirmation_episodes
        How many episodes a rung of the race and a confirmation need at least.
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
        """The number of some episodes; more is better.

        Of a single episode, too: a failed one counts as the worst (or best) of its stage by this number.
        """
        values = self.values(episodes)
        return float(values.mean()) if self.ranks is None else self.ranks.figure(values)

    def shown(self, value: float) -> float:
        """The number as people read it."""
        return -value if self.less_is_better else value

    def differences(self, guided: UnitResult, base: UnitResult) -> Values:
        """How much every guided episode is better than the unguided one of its seed."""
        return self.values(guided) - self.values(base)

    def invented_loss(self, pairs: Iterable[tuple[UnitResult, UnitResult]]) -> float:
        """The largest loss in all pairs that are tested together, guided and unguided."""
        return largest_loss(self.differences(guided, base) for guided, base in pairs)

    def test(
        self, guided: UnitResult, base: UnitResult, changed: NDArray[np.bool_], comparison: ComparisonOptions
    ) -> Effect:
        """Test whether the guided episodes are better, by those that guidance changed."""
        if self.ranks is not None:
            return rank_test(self.values(guided), self.values(base), changed, self.ranks, **comparison._asdict())
        differences = self.differences(guided, base)[changed]
        if self.is_binary:
            return mcnemar_test(differences, len(changed), alpha=comparison.alpha)
        return changed_mean_test(differences, len(changed), **comparison._asdict())

    def standing(
        self, guided: UnitResult, base: UnitResult, changed: NDArray[np.bool_], invented_loss: float = 0.0
    ) -> Standing:
        """How the guided episodes do, roughly and quickly: good for choosing, not for claims."""
        if self.ranks is None:
            return standing_of_changed(self.differences(guided, base)[changed], len(changed), invented_loss)
        effect = self.test(guided, base, changed, ComparisonOptions(invented_loss, _RUNG_RESAMPLES, 0))
        z = effect.mean / effect.error if effect.error > 0.0 else -math.inf
        return Standing(effect.mean, effect.error, z, float(stats.norm.sf(z)))

    def compare(self, guided: UnitResult, base: UnitResult, *, method: Method = "paper") -> Effect:
        """Compare two blocks of the same seeds by themselves; the paper's method compares means by the t-test."""
        if method == "paper" and self.ranks is None and not self.is_binary:
            return paired(self.values(guided), self.values(base))
        differences = self.differences(guided, base)
        changed = (guided.changed > 0) | (differences != 0.0)
        return self.test(guided, base, changed, ComparisonOptions(largest_loss([differences]), resamples_for(1), 0))


OBJECTIVES: dict[str, Objective] = {}


def register_objective(objective: Objective) -> None:
    """Let settings ask for an objective by its name."""
    OBJECTIVES[objective.name] = objective


def find_objective(name: str) -> Objective:
    """Return the objective of a name."""
    if name not in OBJECTIVES:
        raise LegibleError(
            f"there is no objective {name!r}; they are {', '.join(OBJECTIVES)}.{did_you_mean(name, OBJECTIVES)}"
        )
    return OBJECTIVES[name]


def _success(episodes: UnitResult) -> Values:
    if np.isnan(episodes.success[~episodes.failed]).any():
        raise LegibleError(
            "this environment does not tell whether an episode succeeded (is_success in the infos of its last step): "
            '"success" can be no objective; "mean", "median" and "worst-tenth" need returns alone.'
        )
    return episodes.success


register_objective(Objective("mean", "mean return", lambda episodes: episodes.returns))
register_objective(
    Objective(
        "median",
        "median return",
        lambda episodes: episodes.returns,
        ranks=MEDIAN,
        rung_episodes=100,
        confirmation_episodes=500,
    )
)
register_objective(
    Objective(
        "worst-tenth",
        "mean return of the worst tenth",
        lambda episodes: episodes.returns,
        ranks=WORST_TENTH,
        rung_episodes=200,
        confirmation_episodes=1000,
    )
)
register_objective(Objective("success", "share of successful episodes", _success, is_binary=True))
register_objective(Objective("cost", "mean cost", lambda episodes: -episodes.costs, less_is_better=True))


@dataclass(frozen=True)
class Constraint:
    """How much an objective may lose at most, whatever else is gained.

    Non-inferiority: it is kept where the interval of the effect excludes a larger loss. That no harm was shown is not
    enough.
    """

    objective: Objective
    margin: float

    @property
    def words(self) -> str:
        """The constraint as it is written."""
        worse = "higher" if self.objective.less_is_better else "lower"
        return f"{self.objective.name} no {worse} than by {self.margin:g}"

    def is_kept(self, effect: Effect) -> bool:
        """Whether an effect of guidance on the objective shows that no more than the margin is lost."""
        return effect.low > -self.margin


@dataclass(frozen=True)
class ConstraintCheck:
    """A constraint as it is written, the effect on its objective, and whether that shows it to be kept."""

    constraint: str
    effect: Effect
    is_kept: bool

    @classmethod
    def of(cls, constraint: Constraint, effect: Effect) -> ConstraintCheck:
        """Check a constraint by an effect."""
        return cls(constraint.words, effect, constraint.is_kept(effect))


_CONSTRAINT = re.compile(r"(?P<name>[\w-]+) no (?P<worse>lower|higher) than by (?P<margin>[0-9.eE+-]+)")


def parse_constraints(text: str) -> tuple[Constraint, ...]:
    """Read constraints such as "worst-tenth no lower than by 20"; several are separated by semicolons.

    >>> [one.words for one in parse_constraints("worst-tenth no lower than by 20; cost no higher than by 1")]
    ['worst-tenth no lower than by 20', 'cost no higher than by 1']
    """
    return tuple(_parse_constraint(part.strip()) for part in text.split(";") if part.strip())


def _parse_constraint(text: str) -> Constraint:
    form = 'a constraint is written as "worst-tenth no lower than by 20" (of a cost: "no higher")'
    found = _CONSTRAINT.fullmatch(text)
    if found is None:
        raise SettingsError(f"constraint: {text!r} is none; {form}, several with a semicolon between them.")
    try:
        objective = find_objective(found["name"])
    except LegibleError as error:
        raise SettingsError(f"constraint {text!r}: {error}") from error
    if (found["worse"] == "higher") != objective.less_is_better:
        worse = "higher" if objective.less_is_better else "lower"
        raise SettingsError(f'constraint {text!r}: for {objective.name} say "no {worse} than by".')
    try:
        margin = float(found["margin"])
    except ValueError:
        margin = math.nan
    if not 0.0 < margin < math.inf:
        raise SettingsError(
            f"constraint {text!r}: {found['margin']!r} is no number above 0; some loss must be allowed, since no "
            "number of episodes excludes every loss."
        )
    return Constraint(objective, margin)


def check_objectives(objective: str, constraint: str, play: PlaySettings) -> None:
    """Refuse an objective or constraints that are not known or that these settings of play do not serve."""
    asked = (find_objective(objective), *(one.objective for one in parse_constraints(constraint)))
    if any(one.name == "cost" for one in asked) and not play.cost:
        raise LegibleError(
            'the objective "cost" needs a cost: name the entry of the environment\'s infos that is one (--play.cost).'
        )
