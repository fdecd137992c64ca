"""Compositions that grow: the candidate that adds most joins, if it passes a test on seeds that did not choose it.

- `grow_compositions`: follows several beginnings and returns what came of each; `Path`: one of them.

The test is mild (`JOINING_LEVEL`): what joins by chance adds nothing as a rule, what is kept out by chance is lost, and
the check of the whole composition (`legible.improvement.check`) has the level of the study. A candidate is tried again
only if nothing else adds as much as it did last: what there is already takes from an addition as a rule. Among equals
fewer rules win, then fewer changed actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from legible.evaluation import Sample
from legible.evaluation.statistics import Effect
from legible.evaluation.units import UnitResult
from legible.improvement.composed import CompositionStep
from legible.improvement.judging import CompositionJudge
from legible.improvement.trials import CompositionTrial, Trials
from legible.rules import Rule, RuleSet

TRIED_AT_ONCE = 4
"""Candidates that are tried at a time: enough for several workers."""
MOST_TESTS = 3
"""How many candidates of a step are tested at most."""
TESTED_BELOW_P = 0.2
"""Only candidates whose additions have a smaller p where they are chosen are tested."""
JOINING_LEVEL = 0.2
"""The level of the test on the other half."""
HARM_Z = -1.0
"""A candidate that stood lower, in standard errors, is not tried again."""
EQUAL_Z = 0.5
"""Candidates that lie within this many standard errors of each other are equals."""
BEHIND_Z = -1.0
"""A path that stands lower compared with another one, in standard errors, is given up."""


@dataclass
class CompositionCandidate:
    """A rule set that may join.

    Parameters
    ----------
    rule_set
        It.
    guide
        What it adds, as far as is known.
    trial, effect
        Its last trial, and the test of its addition, if there was one.
    is_fresh
        Whether the trial was compared with the composition that there is.
    """

    rule_set: RuleSet
    guide: float
    trial: CompositionTrial | None = None
    effect: Effect | None = None
    is_fresh: bool = False

    @property
    def tried(self) -> CompositionTrial:
        """Its last trial."""
        if self.trial is None:
            raise ValueError("a candidate that was not tried")
        return self.trial

    @property
    def is_spent(self) -> bool:
        """Whether it is not worth another trial: it changes nothing, or does harm."""
        if self.trial is None:
            return False
        return not self.trial.pairs.changed.any() or self.trial.standing.z < HARM_Z

    def step(self, *, accepted: bool) -> CompositionStep:
        """Return it as a step of the composition."""
        sample = Sample.of(self.tried.result)
        return CompositionStep(self.rule_set, sample.mean, sample.error, accepted, self.effect, self.tried.changed)


class Path:
    """A composition that grows.

    Parameters
    ----------
    judge
        Decides.
    trials
        Compared with the composition that there is.
    candidates
        What may join, the most worthy first.
    most
        How many are tried at a time; where some add nothing any more, others take their place.

    Attributes
    ----------
    rule_sets, steps
        What has joined, and how.
    results, compositions
        The episodes of every composition that there was, of both halves, and their rules.
    """

    def __init__(
        self, judge: CompositionJudge, trials: Trials, candidates: Sequence[CompositionCandidate], most: int
    ) -> None:
        self._judge, self.trials = judge, trials
        self._candidates, self._most = list(candidates), most
        self._spent: list[CompositionCandidate] = []
        self.rule_sets: tuple[RuleSet, ...] = ()
        self.steps: list[CompositionStep] = []
        self.results: list[UnitResult] = []
        self.compositions: list[frozenset[Rule]] = []

    @property
    def result(self) -> UnitResult:
        """The episodes of the composition that there is, of both halves."""
        return self.results[-1] if self.results else self._judge.base

    @property
    def rules(self) -> RuleSet:
        """The composition that there is."""
        return self.trials.rules

    def refused(self) -> list[CompositionStep]:
        """What was tried and did not join."""
        return [one.step(accepted=False) for one in (*self._spent, *self._candidates) if one.trial is not None]

    def beginnings(self, count: int) -> list[Path]:
        """Return paths that begin with one of the candidates each, with those that add most."""
        found: list[Path] = []
        for one in self._passing(count):
            others = [replace(other, is_fresh=False) for other in self._candidates if other is not one]
            path = Path(self._judge, self.trials, others, self._most)
            path.join(one)
            found.append(path)
        return found

    def grow(self, rivals: Sequence[Path]) -> bool:
        """Let candidates join until none helps, or the path falls behind others; returns False where it meets one."""
        while not self._is_behind(rivals):
            if any(frozenset(self.rules.rules) in rival.compositions for rival in rivals):
                return False
            best = next(self._passing(1), None)
            if best is None:
                break
            self._candidates.remove(best)
            self.join(best)
        return True

    def _is_behind(self, rivals: Sequence[Path]) -> bool:
        """Whether another path was clearly better with as many rule sets, two or more."""
        count = len(self.rule_sets)
        others = [rival.results[count - 1] for rival in rivals if count <= len(rival.results)]
        return count > 1 and any(self._judge.compare(self.result, other) < BEHIND_Z for other in others)

    def join(self, candidate: CompositionCandidate) -> None:
        """Let a candidate join."""
        rules = candidate.tried.rules
        self.steps.append(candidate.step(accepted=True))
        self.rule_sets = (*self.rule_sets, candidate.rule_set)
        self.results.append(self._judge.both(candidate.tried.result, rules))
        self.compositions.append(frozenset(rules.rules))
        self._judge.looked_at.append((rules, self.result))
        self.trials = self._judge.trials_beside(rules)
        self._spent += [one for one in self._candidates if one.is_spent]
        self._candidates = [one for one in self._candidates if not one.is_spent]
        for one in self._candidates:
            one.is_fresh = False

    def _passing(self, most: int) -> Iterator[CompositionCandidate]:
        """Yield candidates whose addition passes the test, those that add most first."""
        done: list[CompositionCandidate] = []
        failed = passed = 0
        while failed < MOST_TESTS and passed < most:
            best = self._find_best(done)
            if best is None:
                return
            done.append(best)
            if not self._judge.is_allowed(self._judge.both(best.tried.result, best.tried.rules)):
                continue
            best.effect = self._judge.test(best.tried.rules, self.rules)
            if best.effect.p <= JOINING_LEVEL:
                passed += 1
                yield best
            else:
                failed += 1

    def _find_best(self, done: Sequence[CompositionCandidate]) -> CompositionCandidate | None:
        """Return the candidate that adds most of those that look as if they help; None where none does."""
        active = self._candidates[: self._most]
        while True:
            fresh = [one for one in active if one.is_fresh and one not in done and self._is_promising(one)]
            stale = sorted((one for one in active if not one.is_fresh), key=lambda one: -one.guide)
            best = max(fresh, key=lambda one: one.guide, default=None)
            if not stale or (best is not None and best.guide >= stale[0].guide):
                break
            trials = self.trials.play([self.rules | one.rule_set for one in stale[:TRIED_AT_ONCE]])
            for one, trial in zip(stale[:TRIED_AT_ONCE], trials, strict=True):
                one.trial, one.guide, one.effect, one.is_fresh = trial, trial.addition, None, True
        if best is None:
            return None
        # Of those that add as much as the best one, the one with the fewest rules, then changes.
        compare, result = self._judge.compare, best.tried.result
        equals = [one for one in fresh if one is best or compare(one.tried.result, result) >= -EQUAL_Z]
        return min(equals, key=lambda one: (len(one.tried.rules), one.tried.changed, -one.guide))

    def _is_promising(self, candidate: CompositionCandidate) -> bool:
        trial = candidate.tried
        return trial.standing.p < TESTED_BELOW_P and trial.is_whole and not self._judge.changes_too_much(trial.result)


def grow_compositions(
    judge: CompositionJudge, candidates: Sequence[CompositionCandidate], *, most: int, beginnings: int
) -> tuple[list[Path], Path]:
    """Follow several beginnings.

    Parameters
    ----------
    judge
        Decides.
    candidates
        What may join, the most worthy first.
    most
        How many are tried at a time.
    beginnings
        How many beginnings are followed at most.

    Returns
    -------
    What came of each beginning, and the path of the policy alone, on which nothing has joined.
    """
    alone = Path(judge, judge.beginning, candidates, most)
    paths: list[Path] = []
    for path in alone.beginnings(beginnings):
        if path.grow(paths):
            paths.append(path)
    return paths, alone
