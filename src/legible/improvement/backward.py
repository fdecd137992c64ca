"""Removal of redundant rules from a composition.

- `leave_out`: removes whole rule sets, then single rules, as long as the objective does not fall.
- `select_composition`: forward selection, then removal; `Selected`: a selected composition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from legible.evaluation import Sample
from legible.evaluation.units import UnitResult
from legible.improvement.composed import Composed, CompositionStep, share_changed
from legible.improvement.forward import EQUAL_Z, CompositionCandidate, Path, grow_compositions
from legible.improvement.judging import CompositionJudge
from legible.improvement.trials import REMOVAL_LOOKS, CompositionTrial, Trials
from legible.rules import RuleSet

MOST_SINGLE_RULES = 48
"""Single rules of compositions with more rules are not tried for removal."""
Without = Callable[[tuple[RuleSet, ...], RuleSet], tuple[RuleSet, ...]]


@dataclass(frozen=True)
class Selected:
    """A selected composition.

    Parameters
    ----------
    rule_sets
        The rule sets that were added and stayed, in their order, without the rules that were removed.
    result
        The episodes of their union.
    steps
        Additions, then removals.
    """

    rule_sets: tuple[RuleSet, ...]
    result: UnitResult
    steps: tuple[CompositionStep, ...]

    @property
    def composition(self) -> RuleSet:
        """The union of the rule sets."""
        return union(self.rule_sets)

    def composed(self, environment_steps: int) -> Composed:
        """Return it as the result of the composition, before its check."""
        return Composed(
            self.rule_sets, self.composition, self.steps, Sample.of(self.result), (), None, environment_steps
        )


def union(rule_sets: Sequence[RuleSet]) -> RuleSet:
    """Return all rules of rule sets, in their order."""
    together = RuleSet(())
    for rule_set in rule_sets:
        together = together | rule_set
    return together


def select_composition(
    judge: CompositionJudge, candidates: Sequence[CompositionCandidate], most_active: int, first_candidates: int
) -> tuple[Selected, Path | None]:
    """Return the composition that is selected from candidates, and the path that led to it; None if nothing helps.

    At most `most_active` candidates are tried at a time. Compositions are grown from up to `first_candidates` of them,
    and redundant rules are removed from the best one.
    """
    paths, empty_path = grow_compositions(judge, candidates, most=most_active, first_candidates=first_candidates)
    if not paths:
        return Selected((), judge.base, tuple(empty_path.refused())), None
    best = _best_of(judge, paths)
    selected = leave_out(judge, best)
    return replace(selected, steps=(*selected.steps, *best.refused())), best


def _best_of(judge: CompositionJudge, paths: Sequence[Path]) -> Path:
    """Return the best path; among equal ones, that with the fewest rules, then the lowest override rate."""
    best = paths[0]
    for path in paths[1:]:
        if judge.compare(path.result, best.result) > 0.0:
            best = path
    equals = [path for path in paths if path is best or judge.compare(path.result, best.result) >= -EQUAL_Z]
    return min(equals, key=lambda path: (len(path.rules), share_changed(path.result)))


def leave_out(judge: CompositionJudge, path: Path) -> Selected:
    """Remove redundant parts of the composition of a path: whole rule sets first, then single rules.

    The objective never falls, so that no small losses add up.
    """
    selected, trials = Selected(path.rule_sets, path.result, tuple(path.steps)), judge.removal_trials(path.trials)
    if len(selected.rule_sets) > 1:
        selected = _without_some(judge, trials, selected, selected.rule_sets, _without_set)
    idle = trials.idle_rules(selected.composition)
    if idle:
        selected = _without_some(judge, trials, selected, [RuleSet(idle)], _without_rules)
    rules = selected.composition.rules
    if 1 < len(rules) <= MOST_SINGLE_RULES:
        selected = _without_some(judge, trials, selected, [RuleSet((rule,)) for rule in rules], _without_rules)
    return selected


def _without_some(
    judge: CompositionJudge, trials: Trials, selected: Selected, parts: Sequence[RuleSet], without: Without
) -> Selected:
    """Remove parts one after the other, beginning with the one whose removal alone costs least.

    `parts` are rule sets, or sets of rules of any of them; `without` returns rule sets without a part.
    """

    def play(removals: Sequence[RuleSet]) -> list[CompositionTrial]:
        return trials.play(removals, REMOVAL_LOOKS, idle_goes_on=True)

    alone = play([union(without(selected.rule_sets, part)) for part in parts])
    for i in sorted(range(len(parts)), key=lambda i: -alone[i].addition):
        fewer = without(selected.rule_sets, parts[i])
        # Trials use the first half of the seeds. A removal that costs return there is not played on the second half.
        trial = play([union(fewer)])[0] if fewer and alone[i].addition >= 0.0 else None
        if trial is None or trial.addition < 0.0:
            continue
        result = judge.both(trial.result, trial.rules)
        if judge.compare(result, selected.result) >= 0.0 and judge.is_allowed(result):
            sample, changed = Sample.of(result), share_changed(result)
            removal = CompositionStep(
                parts[i], sample.mean, sample.error, accepted=True, changed=changed, is_removal=True
            )
            selected = Selected(fewer, result, (*selected.steps, removal))
            judge.looked_at.append((trial.rules, result))
    return selected


def _without_set(rule_sets: tuple[RuleSet, ...], one: RuleSet) -> tuple[RuleSet, ...]:
    return tuple(other for other in rule_sets if other is not one)


def _without_rules(rule_sets: tuple[RuleSet, ...], some: RuleSet) -> tuple[RuleSet, ...]:
    fewer = (RuleSet(tuple(r for r in one.rules if r not in some.rules), one.source) for one in rule_sets)
    return tuple(one for one in fewer if len(one))
