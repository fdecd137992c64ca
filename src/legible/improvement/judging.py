"""What decides between compositions: all seeds of the composition, or the half on which they were not chosen.

- `CompositionJudge`: whether one adds to another, how they compare, and which are allowed.
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
    """Decides between compositions.

    Parameters
    ----------
    play
        How they are played.
    settings
        How many seeds there are, and how much may be changed.

    Attributes
    ----------
    beginning
        Trials on the first half, compared with the policy alone.
    base
        The episodes of the policy alone.
    alpha
        The level of all tests.
    looked_at
        Every composition that there was on the way, with its episodes.
    """

    def __init__(self, play: Play, settings: ImprovementSettings) -> None:
        self._most_changed, self._settings = settings.most_changed, play.settings
        self._objective = find_objective(play.settings.objective)
        self._play, self._half = play, (settings.episodes + 1) // 2
        self._trials = [Trials(play, self._half)]
        self._second = SecondHalf(play, self._half, settings.episodes - self._half)
        self.alpha = play.settings.alpha
        self.base = self.both(self.beginning.result, RuleSet(()))
        self.looked_at: list[tuple[RuleSet, UnitResult]] = []

    @property
    def beginning(self) -> Trials:
        """Trials on the first half, compared with the policy alone."""
        return self._trials[0]

    def trials_beside(self, rules: RuleSet) -> Trials:
        """Return trials on the first half, compared with a composition."""
        self._trials.append(Trials(self._play, self._half, rules))
        return self._trials[-1]

    @property
    def environment_steps(self) -> int:
        """How many environment steps were played."""
        return self._second.environment_steps + sum(trials.environment_steps for trials in self._trials)

    def both(self, first: UnitResult, rules: RuleSet) -> UnitResult:
        """Return a composition's episodes of both halves, by those of the first."""
        return UnitResult.concatenate([first, self._second.result(rules)])

    def test(self, rules: RuleSet, others: RuleSet) -> Effect:
        """Test on the second half whether a composition is better than another one."""
        return self._second.test(rules, others)

    def compare(self, first: UnitResult, second: UnitResult) -> float:
        """Return how many standard errors some episodes are better than others of the same seeds, roughly."""
        sides = WorstCase([first, second], self._objective.value).of(first, second)
        standing = self._objective.standing(*sides, differ(first, second))
        return standing.difference / standing.error if standing.error > 0.0 else standing.difference

    def changes_too_much(self, result: UnitResult) -> bool:
        """Whether a composition changes more actions than it may."""
        return share_changed(result) > self._most_changed

    def is_allowed(self, result: UnitResult) -> bool:
        """Whether both halves show that a composition changes no more than it may and keeps the constraints."""
        if self.changes_too_much(result):
            return False
        checks = check_constraints(self._settings, [self.base, result], result, self.base)
        return all(check.is_kept for check in checks)
