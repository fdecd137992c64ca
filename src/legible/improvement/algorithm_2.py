"""Algorithm 2 of the paper: try rule sets one after the other, and keep those that raise the mean return.

- `compose_as_in_paper`: runs the algorithm.
"""

from __future__ import annotations

from collections.abc import Collection
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
) -> Composed:
    """Return the composition of Algorithm 2 of the paper: a greedy union of rule sets, without tests.

    Rule sets are added one by one, and each stays if it raises the objective on the same seeds and the constraints
    allow it.

    Parameters
    ----------
    setup
        Policy, environment and settings of play; its rule sets are not used.
    evaluation
        Verdicts on the rule sets, from which candidates are taken; also the objective and the constraints.
    seed, settings
        Seed of the study; numbers of episodes, order of candidates and limit of the override rate.
    veto
        Rules to exclude: a rule set that contains one is not tried.
    run
        Plays lists of episodes and returns their results: `run_units`, possibly with engine and store already chosen.
    """
    seeds = stage_seeds(seed, "composition", 0, settings.episodes)
    value = find_objective(evaluation.settings.objective).value

    def play(rules: RuleSet | None) -> UnitResult:
        """Return the episodes of the policy guided by rules, or unguided, on the seeds of this stage."""
        guided_setup = replace(setup, treatments=() if rules is None else (rules,))
        return play_blocks(guided_setup, [(UNGUIDED if rules is None else 0, seeds)], run)[0]

    unguided = best = play(None)
    played = [unguided]
    composition, accepted, steps = RuleSet(()), [], []
    for verdict in find_candidates(evaluation, settings, veto):
        trial = composition | verdict.rule_set
        trial_episodes = play(trial)
        played.append(trial_episodes)
        # Failed episodes count as the worst so far, against the trial.
        with_it, without = WorstCase(played, value).of(trial_episodes, best)
        sample, override_rate, is_accepted = Sample.of(trial_episodes), share_changed(trial_episodes), False
        if value(with_it) > value(without) and override_rate <= settings.most_changed:
            checks = check_constraints(evaluation.settings, played, trial_episodes, unguided)
            if all(check.is_kept for check in checks):
                best, composition, is_accepted = trial_episodes, trial, True
                accepted.append(verdict.rule_set)
        steps.append(CompositionStep(verdict.rule_set, sample.mean, sample.error, is_accepted, changed=override_rate))
    environment_steps = sum(int(result.lengths.sum()) for result in played)
    return Composed(tuple(accepted), composition, tuple(steps), Sample.of(best), environment_steps=environment_steps)
