"""Algorithm 2 of the paper: try rule sets one after the other, and keep those that raise the mean return.

- `compose_as_in_paper`: runs the algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from legible.evaluation import Evaluation, Runner, Sample, WorstCase, find_objective, play_blocks
from legible.evaluation.figures import check_constraints
from legible.evaluation.units import UNGUIDED, Setup, UnitResult
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
    """Add candidates one by one to a rule set; keep each that raises the objective and that the constraints allow.

    Parameters as for `legible.improvement.improve`.
    """
    seeds = stage_seeds(seed, "composition", 0, settings.episodes)
    value = find_objective(evaluation.settings.objective).value

    def play(rules: RuleSet | None) -> UnitResult:
        guided_setup = replace(setup, treatments=() if rules is None else (rules,))
        return play_blocks(guided_setup, [(UNGUIDED if rules is None else 0, seeds)], run, on_episodes)[0]

    unguided = best = play(None)
    played = [unguided]
    composition, accepted, steps = RuleSet(()), [], []
    for verdict in find_candidates(evaluation, settings, veto):
        trial = composition | verdict.rule_set
        tried = play(trial)
        played.append(tried)
        # Failed episodes count as the worst so far, against the trial.
        with_it, without = WorstCase(played, value).of(tried, best)
        sample, changed, is_accepted = Sample.of(tried), share_changed(tried), False
        if value(with_it) > value(without) and changed <= settings.most_changed:
            checks = check_constraints(evaluation.settings, played, tried, unguided)
            if all(check.is_kept for check in checks):
                best, composition, is_accepted = tried, trial, True
                accepted.append(verdict.rule_set)
        steps.append(CompositionStep(verdict.rule_set, sample.mean, sample.error, is_accepted, changed=changed))
    environment_steps = sum(int(result.lengths.sum()) for result in played)
    return Composed(tuple(accepted), composition, tuple(steps), Sample.of(best), environment_steps=environment_steps)
