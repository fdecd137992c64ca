"""Comparison of compositions, on all their seeds or on the half on which they were not selected.

- `CompositionJudge`: tests whether a composition adds to another, compares compositions, and checks limits.
"""

from __future__ import annotations

from legible.evaluation import WorstCase, find_objective
from legible.evaluation.figures import check_constraints
from legible.evaluation.statistics import Effect
from legible.evaluation.units import UnitResult
from legible.improvement.composed import share_changed
from legible.improvement.trials import Play, PlayedCompositions, SecondHalf, Trials, differ
from legible.rules import RuleSet
from legible.settings import ImprovementSettings

JOINING_LEVEL = 0.2
"""Significance level of the test on the second half whether an addition helps."""
JOINING_LEVEL_AT_ONCE = 0.1
"""The same where all seeds select and test; stricter, because the seeds that selected test, too."""

RECORDED_RULES = 5
"""Compositions with fewer rules are not recorded to remove some of them: a removal is usually stopped on a quarter of
the seeds, so four of them take as many episodes as recording."""


class CompositionJudge:
    """Comparison of compositions.

    Parameters
    ----------
    play
        Settings of play.
    settings
        Number of seeds, and limit of the override rate.
    played
        Compositions on seeds that an earlier stage has played, to compose on them; by default seeds are played for it.

    Attributes
    ----------
    base
        Episodes of the unguided policy.
    joining_level
        Significance level of the test whether an addition helps.
    looked_at
        Every intermediate composition with its episodes.
    """

    def __init__(self, play: Play, settings: ImprovementSettings, played: PlayedCompositions | None = None) -> None:
        self._most_changed, self._settings = settings.most_changed, play.settings
        self._objective = find_objective(play.settings.objective)
        # Compositions are selected on one half of their seeds and tested on the other. On seeds that were played before
        # all seeds do both: the check of the composition allows for that.
        self._played, self._play = played, play
        self.joining_level = JOINING_LEVEL_AT_ONCE if played else JOINING_LEVEL
        self._half = played.seeds if played else (settings.episodes + 1) // 2
        self._trials = [Trials(play, self._half, played=played)]
        self._second = SecondHalf(play, self._half, settings.episodes - self._half, played)
        self.base = self.both(self.unguided_trials.result, RuleSet(()))
        self.looked_at: list[tuple[RuleSet, UnitResult]] = []

    @property
    def unguided_trials(self) -> Trials:
        """Trials on the first half, compared with the unguided policy."""
        return self._trials[0]

    def trials_against(self, rules: RuleSet) -> Trials:
        """Return trials on the first half, compared with a composition."""
        self._trials.append(Trials(self._play, self._half, rules, self._played))
        return self._trials[-1]

    def removal_trials(self, trials: Trials) -> Trials:
        """Return trials of removals from a composition, given those of additions to it.

        They record the composition, if it was not recorded and has many rules: then it is known which rules trigger
        nowhere, and the others are played only from where they trigger.
        """
        is_recorded = trials.played.is_recorded(trials.rules) or not self._play.repetition.holds
        if is_recorded or len(trials.rules) < RECORDED_RULES:
            return trials
        paired = self._play.against("racing confirmation", self._half, rules=trials.rules)
        self._trials.append(Trials(self._play, self._half, trials.rules, PlayedCompositions(paired, self._half)))
        return self._trials[-1]

    @property
    def environment_steps(self) -> int:
        """Number of environment steps played."""
        played = {self._second.played, *(trials.played for trials in self._trials)}
        return sum(one.environment_steps for one in played)

    def both(self, first: UnitResult, rules: RuleSet) -> UnitResult:
        """Return the episodes of a composition on both halves, given the episodes of the first half."""
        return first if self._played else UnitResult.concatenate([first, self._second.result(rules)])

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
