"""Forward selection: the candidate that adds most joins the composition if it passes a test on other seeds.

- `grow_compositions`: follows several first candidates and returns a path for each; `Path`: a composition that grows.

The test is mild (`CompositionJudge.joining_level`): candidates that join by chance usually add nothing, candidates that
are kept out by chance are lost, and the check of the whole composition (`legible.improvement.check`) has the level of
the study. A candidate is tried again only if no other one adds as much as it did before: additions usually shrink as
the composition grows. Among equal candidates fewer rules win, then a lower override rate.
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
"""Candidates that are tried at once: enough for several workers."""
MOST_TESTS = 3
"""Maximum number of candidates that fail the test in a step."""
TESTED_BELOW_P = 0.2
"""Candidates are tested only if their addition has a smaller p-value on the first half."""
HARM_Z = -1.0
"""A candidate with a lower z is not tried again."""
EQUAL_Z = 0.5
"""Candidates within this many standard errors of each other are equal."""
BEHIND_Z = -1.0
"""A path with a lower z compared with another path is given up."""


@dataclass
class CompositionCandidate:
    """A rule set that may join the composition.

    Parameters
    ----------
    rule_set
        The rule set.
    guide
        Estimated addition.
    trial, effect
        Its last trial, and the test of its addition, if any.
    is_fresh
        Whether the trial was compared with the current composition.
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
            raise ValueError("the candidate was not tried")
        return self.trial

    @property
    def is_spent(self) -> bool:
        """True if it is not worth another trial: it changes nothing, or does harm."""
        trial = self.trial
        return trial is not None and (not trial.pairs.changed.any() or trial.standing.z < HARM_Z)

    def step(self, *, accepted: bool) -> CompositionStep:
        """Return it as a step of the composition."""
        sample = Sample.of(self.tried.result)
        return CompositionStep(self.rule_set, sample.mean, sample.error, accepted, self.effect, self.tried.changed)


class Path:
    """A composition that grows.

    Parameters
    ----------
    judge
        Compares compositions.
    trials
        Trials compared with the current composition.
    candidates
        Rule sets that may join, the largest estimated gain first.
    most
        Maximum number of active candidates; when one is spent, the next takes its place.

    Attributes
    ----------
    rule_sets, steps
        Rule sets that have joined, and the steps in which they did.
    results, compositions
        Episodes of both halves, and rules, of all compositions so far.
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
        """Episodes of the current composition on both halves."""
        return self.results[-1] if self.results else self._judge.base

    @property
    def rules(self) -> RuleSet:
        """The current composition."""
        return self.trials.rules

    def refused(self) -> list[CompositionStep]:
        """Return the candidates that were tried and did not join."""
        return [one.step(accepted=False) for one in (*self._spent, *self._candidates) if one.trial is not None]

    def start_paths(self, count: int) -> list[Path]:
        """Return paths that each start with another one of the candidates that add most."""
        found: list[Path] = []
        for one in self._passing(count):
            others = [replace(other, is_fresh=False) for other in self._candidates if other is not one]
            path = Path(self._judge, self.trials, others, self._most)
            path.join(one)
            found.append(path)
        return found

    def grow(self, rivals: Sequence[Path]) -> bool:
        """Add candidates until none helps or the path falls behind; return False if it meets a rival's composition."""
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
        """Return whether another path was clearly better with the same number of rule sets, two or more."""
        count = len(self.rule_sets)
        others = [rival.results[count - 1] for rival in rivals if count <= len(rival.results)]
        return count > 1 and any(self._judge.compare(self.result, other) < BEHIND_Z for other in others)

    def join(self, candidate: CompositionCandidate) -> None:
        """Add a candidate."""
        rules = candidate.tried.rules
        self.steps.append(candidate.step(accepted=True))
        self.rule_sets = (*self.rule_sets, candidate.rule_set)
        self.results.append(self._judge.both(candidate.tried.result, rules))
        self.compositions.append(frozenset(rules.rules))
        self._judge.looked_at.append((rules, self.result))
        self.trials = self._judge.trials_against(rules)
        self._spent += [one for one in self._candidates if one.is_spent]
        self._candidates = [one for one in self._candidates if not one.is_spent]
        for one in self._candidates:
            one.is_fresh = False

    def _passing(self, most: int) -> Iterator[CompositionCandidate]:
        """Yield candidates whose addition passes the test, the largest addition first."""
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
            if best.effect.p <= self._judge.joining_level:
                passed += 1
                yield best
            else:
                failed += 1

    def _find_best(self, done: Sequence[CompositionCandidate]) -> CompositionCandidate | None:
        """Return the promising candidate that adds most; None if there is none."""
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
        # Among candidates that add as much as the best one, prefer fewer rules, then a lower override rate.
        compare, result = self._judge.compare, best.tried.result
        equals = [one for one in fresh if one is best or compare(one.tried.result, result) >= -EQUAL_Z]
        return min(equals, key=lambda one: (len(one.tried.rules), one.tried.changed, -one.guide))

    def _is_promising(self, candidate: CompositionCandidate) -> bool:
        trial = candidate.tried
        return trial.standing.p < TESTED_BELOW_P and trial.is_whole and not self._judge.changes_too_much(trial.result)


def grow_compositions(
    judge: CompositionJudge, candidates: Sequence[CompositionCandidate], *, most: int, first_candidates: int
) -> tuple[list[Path], Path]:
    """Return compositions that were grown by adding rule sets one at a time, each from another first rule set.

    The first rule set matters most, so several are followed; `Path` is a composition that grows.

    Parameters
    ----------
    judge
        Plays and compares compositions.
    candidates
        Rule sets that may join, the largest estimated gain first.
    most
        Maximum number of candidates that are tried at a time; others replace those that turn out not to help.
    first_candidates
        Maximum number of rule sets from which a composition starts.

    Returns
    -------
    One path per first rule set, and the empty path, which holds the candidates that did not even join as the first.
    """
    empty_path = Path(judge, judge.unguided_trials, candidates, most)
    paths: list[Path] = []
    for path in empty_path.start_paths(first_candidates):
        # A path that reaches a composition of an earlier one would only repeat it.
        if path.grow(paths):
            paths.append(path)
    return paths, empty_path
