"""Comparison of compositions, on all their seeds or on the half on which they were not selected.

- `CompositionJudge`: tests whether a composition adds to another, compares compositions, and checks limits.
"""

from __future__ import annotations

from legible.evaluation import WorstCase, find_objective
from legible.evaluation.figures import check_constraints
from legible.evaluation.statistics import Effect
from legible.evaluation.units import UnitResult
from legible.improvement.composed import share_changed
from legible.improvement.trials import Play, SecondHalf, Trials, differ
from legible.rules import RuleSet
from legible.settings import ImprovementSettings


class CompositionJudge:
    """Comparison of compositions.

    Parameters
    ----------
    play
        Settings of play.
    settings
        Number of seeds, and limit of the override rate.

    Attributes
    ----------
    base
        Episodes of the unguided policy.
    looked_at
        Every intermediate composition with its episodes.
    """

    def __init__(self, play: Play, settings: ImprovementSettings) -> None:
        self._most_changed, self._settings = settings.most_changed, play.settings
        self._objective = find_objective(play.settings.objective)
        self._play, self._half = play, (settings.episodes + 1) // 2
        self._trials = [Trials(play, self._half)]
        self._second = SecondHalf(play, self._half, settings.episodes - self._half)
        self.base = self.both(self.unguided_trials.result, RuleSet(()))
        self.looked_at: list[tuple[RuleSet, UnitResult]] = []

    @property
    def unguided_trials(self) -> Trials:
        """Trials on the first half, compared with the unguided policy."""
        return self._trials[0]

    def trials_against(self, rules: RuleSet) -> Trials:
        """Return trials on the first half, compared with a composition."""
        self._trials.append(Trials(self._play, self._half, rules))
        return self._trials[-1]

    @property
    def environment_steps(self) -> int:
        """Number of environment steps played."""
        return self._second.environment_steps + sum(trials.environment_steps for trials in self._trials)

    def both(self, first: UnitResult, rules: RuleSet) -> UnitResult:
        """Return the episodes of a composition on both halves, given the episodes of the first half."""
        return UnitResult.concatenate([first, self._second.result(rules)])

    def test(self, rules: RuleSet, others: RuleSet) -> Effect:
        """Test on the second half whether a composition is better than another."""
        return self._second.test(rules, others)

    def compare(self, first: UnitResult, second: UnitResult) -> float:
        """Return an estimate, in standard errors, of how much better episodes are than others with the same seeds."""
        sides = WorstCase([first, second], self._objective.value).of(first, second)
        standing = self._objective.standing(*sides, differ(first, second))
        return standing.difference / standing.error if standing.error > 0.0 else standing.difference

    def changes_too_much(self, result: UnitResult) -> bool:
        """Return whether the override rate of a composition exceeds the limit."""
        return share_changed(result) > self._most_changed

    def is_allowed(self, result: UnitResult) -> bool:
        """Return whether a composition keeps the limit of the override rate and all constraints on both halves."""
        if self.changes_too_much(result):
            return False
        checks = check_constraints(self._settings, [self.base, result], result, self.base)
        return all(check.is_kept for check in checks)
