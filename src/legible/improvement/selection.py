"""Selection of a small composition that does not overfit.

1. *Forward* (`legible.improvement.forward`): rules are added one at a time, the largest gain on the first half of the
   seeds first, if they pass a mild test on the second half. The first rule set matters most, so several are followed;
   paths that fall behind are given up.
2. *Backward* (`legible.improvement.backward`): redundant rule sets, then single rules, are removed.
3. *Check* (`legible.improvement.check`): a composition that is not significantly better than the unguided policy on
   held-out seeds is given up.

Slow environments do all three on the seeds of the confirmation (`legible.improvement.on_confirmation`).

- `compose_by_selection`: runs all three steps.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from legible.evaluation import Evaluation, Runner
from legible.evaluation.recorded import find_repetition
from legible.evaluation.units import Setup
from legible.improvement.backward import select_composition
from legible.improvement.candidates import candidates_by_worth, worth
from legible.improvement.check import check_composition, front_candidates
from legible.improvement.composed import Composed
from legible.improvement.forward import CompositionCandidate
from legible.improvement.judging import CompositionJudge
from legible.improvement.on_confirmation import compose_on_confirmation
from legible.improvement.trials import Play
from legible.rules import Rule, RuleSet
from legible.settings import ImprovementSettings

RESERVE_FACTOR = 3
"""Total candidates per active candidate: the others replace candidates that are spent."""


def compose_by_selection(
    setup: Setup,
    evaluation: Evaluation,
    *,
    seed: int,
    settings: ImprovementSettings,
    veto: Collection[Rule],
    run: Runner,
) -> Composed:
    """Return the few rule sets that are best deployed together, or none if they do not help on held-out seeds.

    Parameters
    ----------
    setup
        Policy, environment and settings of play; its rule sets are not used.
    evaluation
        Verdicts on the rule sets, from which candidates are taken; also the objective and the constraints.
    seed, settings
        Seed of the study; numbers of episodes and candidates, and limit of the override rate.
    veto
        Rules to exclude: a rule set that contains one is not tried.
    run
        Plays lists of episodes and returns their results: `run_units`, possibly with engine and store already chosen.
    """
    repetition = evaluation.repetition or find_repetition(setup, seed, "composition", run)
    play = Play(setup, repetition, seed, evaluation.settings, run, evaluation.worst_loss)
    if settings.seeds == "confirmation" and evaluation.settings.confirmation_changes and not evaluation.continuations:
        return compose_on_confirmation(play, evaluation, settings, veto)
    judge = CompositionJudge(play, settings)
    # If the confirmation has no part in the selection, the composition can be checked on its seeds. Then candidates are
    # taken by their gain in the race alone.
    uses_confirmation = settings.candidates == "confirmed" or bool(evaluation.continuations)
    confirmed = None if uses_confirmation else evaluation.confirmation_blocks
    verdicts = candidates_by_worth(evaluation, settings, veto, of_race=confirmed is not None)
    # Grow compositions from several first rule sets, adding the one that helps most. More candidates are taken than are
    # tried at a time: the others replace candidates that turn out not to help.
    most_active = settings.most_candidates or len(verdicts)
    candidates = [
        CompositionCandidate(verdict.rule_set, worth(verdict, of_race=confirmed is not None))
        for verdict in verdicts[: RESERVE_FACTOR * most_active]
    ]
    selected, _ = select_composition(judge, candidates, most_active, settings.beginnings)
    composed = selected.composed(judge.environment_steps)
    if not selected.rule_sets:
        return composed
    # Check: a composition that is not significantly better on held-out seeds is given up.
    others = front_candidates(
        judge.looked_at, judge.base, composed.composition, evaluation.settings, settings.front_points
    )
    checked = check_composition(play, composed.composition, others, settings.episodes, confirmed)
    composed = replace(
        composed,
        front=checked.front,
        check=checked.check,
        environment_steps=composed.environment_steps + checked.environment_steps,
    )
    return composed if checked.check.is_passed else replace(composed, rule_sets=(), composition=RuleSet(()))
