"""Removal of redundant rules from a composition.

- `leave_out`: removes whole rule sets, then single rules, as long as the objective does not fall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from legible.evaluation import Sample
from legible.evaluation.units import UnitResult
from legible.improvement.composed import CompositionStep, share_changed
from legible.improvement.forward import Path
from legible.improvement.judging import CompositionJudge
from legible.improvement.trials import REMOVAL_LOOKS, CompositionTrial
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


def union(rule_sets: Sequence[RuleSet]) -> RuleSet:
    """Return all rules of rule sets, in their order."""
    together = RuleSet(())
    for rule_set in rule_sets:
        together = together | rule_set
    return together


def leave_out(judge: CompositionJudge, path: Path) -> Selected:
    """Remove redundant parts of the composition of a path: whole rule sets first, then single rules.

    The objective never falls, so that no small losses add up.
    """
    selected = Selected(path.rule_sets, path.result, tuple(path.steps))
    if len(selected.rule_sets) > 1:
        selected = _without_some(judge, path, selected, selected.rule_sets, _without_set)
    idle = path.trials.idle_rules(selected.composition)
    if idle:
        selected = _without_some(judge, path, selected, [RuleSet(idle)], _without_rules)
    rules = selected.composition.rules
    if 1 < len(rules) <= MOST_SINGLE_RULES:
        selected = _without_some(judge, path, selected, [RuleSet((rule,)) for rule in rules], _without_rules)
    return selected


def _without_some(
    judge: CompositionJudge, path: Path, selected: Selected, parts: Sequence[RuleSet], without: Without
) -> Selected:
    """Remove parts one after the other, beginning with the one whose removal alone costs least."""

    def play(removals: Sequence[RuleSet]) -> list[CompositionTrial]:
        return path.trials.play(removals, REMOVAL_LOOKS, idle_goes_on=True)

    alone = play([union(without(selected.rule_sets, part)) for part in parts])
    for place in sorted(range(len(parts)), key=lambda place: -alone[place].addition):
        fewer = without(selected.rule_sets, parts[place])
        # A removal that costs return on the first half is not played on the second.
        trial = play([union(fewer)])[0] if fewer and alone[place].addition >= 0.0 else None
        if trial is None or trial.addition < 0.0:
            continue
        result = judge.both(trial.result, trial.rules)
        if judge.compare(result, selected.result) >= 0.0 and judge.is_allowed(result):
            sample, changed = Sample.of(result), share_changed(result)
            removal = CompositionStep(
                parts[place], sample.mean, sample.error, accepted=True, changed=changed, is_removal=True
            )
            selected = Selected(fewer, result, (*selected.steps, removal))
            judge.looked_at.append((trial.rules, result))
    return selected


def _without_set(rule_sets: tuple[RuleSet, ...], one: RuleSet) -> tuple[RuleSet, ...]:
    return tuple(other for other in rule_sets if other is not one)


def _without_rules(rule_sets: tuple[RuleSet, ...], some: RuleSet) -> tuple[RuleSet, ...]:
    fewer = (RuleSet(tuple(r for r in one.rules if r not in some.rules), one.source) for one in rule_sets)
    return tuple(one for one in fewer if len(one))
