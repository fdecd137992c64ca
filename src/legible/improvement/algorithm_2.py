"""Algorithm 2 of the paper: try rule sets one after the other, and keep those with which the mean is higher.

- `compose_as_in_paper`: does it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from legible.evaluation import Evaluation, Runner, Sample, WorstCase, find_objective, play_blocks
from legible.evaluation.figures import check_constraints
from legible.evaluation.units import Setup, UnitResult
from legible.improvement.candidates import find_candidates
from legible.improvement.composed import Composed, CompositionStep, share_changed
from legible.play import stage_seeds
from legible.rules import Rule, RuleSet
from legible.settings import ImprovementSettings


def compose_as_in_paper(
    setup: Setup,
    evaluation: Evaluation,
    *,
    seed: int,
    settings: ImprovementSettings,
    veto: Collection[Rule],
    run: Runner,
    on_episodes: Callable[[int], None] | None,
) -> Composed:
    """Compose rule sets greedily; parameters as for `legible.improvement.improve`."""
    seeds = stage_seeds(seed, "composition", 0, settings.episodes)
    value = find_objective(evaluation.settings.objective).value

    def play(rules: RuleSet | None) -> UnitResult:
        treatments = () if rules is None else (rules,)
        this = replace(setup, treatments=treatments)
        return play_blocks(this, [(len(treatments) - 1, seeds)], run, on_episodes)[0]

    best = play(None)
    seen = [best]
    composition, accepted, steps = RuleSet(()), [], []
    for verdict in find_candidates(evaluation, settings, veto):
        trial = composition | verdict.rule_set
        tried = play(trial)
        seen.append(tried)
        with_it, without = WorstCase(seen, value).of(tried, best)
        sample, changed = Sample.of(tried), share_changed(tried)
        if value(with_it) > value(without) and changed <= settings.most_changed:
            checks = check_constraints(evaluation.settings, seen, tried, seen[0])
            if all(check.is_kept for check in checks):
                best, composition = tried, trial
                accepted.append(verdict.rule_set)
        is_accepted = composition is trial
        steps.append(CompositionStep(verdict.rule_set, sample.mean, sample.error, is_accepted, changed=changed))
    played = sum(int(result.lengths.sum()) for result in seen)
    return Composed(tuple(accepted), composition, tuple(steps), Sample.of(best), environment_steps=played)
