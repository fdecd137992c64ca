"""A composition that stays small and does not overfit: add what helps beyond chance, leave out what is not missed.

1. *Forward* (`legible.improvement.forward`): the candidate that adds most on the first half of the seeds joins, if the
   addition passes a mild test on the second half. Which rule set comes first decides much, so several beginnings are
   followed; those that fall behind are given up.
2. *Backward* (`legible.improvement.backward`): rule sets, then single rules, are left out as long as the figure of both
   halves is no lower without them.
3. *Check* (`legible.improvement.check`): a composition that is not better than the policy alone on other seeds, beyond
   chance, is given up.

- `compose_by_selection`: does it all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from legible.evaluation import Evaluation, Runner, Sample
from legible.evaluation.recorded import find_repetition
from legible.evaluation.units import Setup
from legible.improvement.backward import Selected, leave_out
from legible.improvement.candidates import candidates_by_worth, worth
from legible.improvement.check import check_composition, front_candidates
from legible.improvement.composed import Composed, share_changed
from legible.improvement.forward import EQUAL_Z, CompositionCandidate, Path, grow_compositions
from legible.improvement.judging import CompositionJudge
from legible.improvement.trials import Play
from legible.rules import Rule, RuleSet
from legible.settings import ImprovementSettings

RESERVE_FACTOR = 3
"""Candidates in all, for each that is tried at first: they take the places of those that add nothing any more."""


def compose_by_selection(
    setup: Setup,
    evaluation: Evaluation,
    *,
    seed: int,
    settings: ImprovementSettings,
    veto: Collection[Rule],
    run: Runner,
    on_episodes: Callable[[int], None] | None,
) -> Composed:
    """Select rule sets, and check what came of it; parameters as for `legible.improvement.improve`."""
    repetition = evaluation.repetition or find_repetition(setup, seed, "composition", run)
    play = Play(setup, repetition, seed, evaluation.settings, run, on_episodes)
    judge = CompositionJudge(play, settings)
    verdicts = candidates_by_worth(evaluation, settings, veto)
    most = settings.most_candidates or len(verdicts)
    candidates = [CompositionCandidate(v.rule_set, worth(v)) for v in verdicts[: RESERVE_FACTOR * most]]
    paths, alone = grow_compositions(judge, candidates, most=most, beginnings=settings.beginnings)
    if paths:
        best = _best_of(judge, paths)
        selected = leave_out(judge, best)
        selected = replace(selected, steps=(*selected.steps, *best.refused()))
    else:
        selected = Selected((), judge.base, tuple(alone.refused()))
    found = Composed(
        rule_sets=selected.rule_sets,
        composition=selected.composition,
        steps=selected.steps,
        chosen=Sample.of(selected.result),
        environment_steps=judge.environment_steps,
    )
    if not selected.rule_sets:
        return found
    others = front_candidates(judge.looked_at, judge.base, found.composition, evaluation.settings)
    checked = check_composition(play, found.composition, others, settings.episodes)
    found = replace(
        found,
        front=checked.front,
        check=checked.check,
        environment_steps=found.environment_steps + checked.environment_steps,
    )
    return found if checked.check.is_passed else replace(found, rule_sets=(), composition=RuleSet(()))


def _best_of(judge: CompositionJudge, paths: Sequence[Path]) -> Path:
    """Return the best path; of those that are as good, the one with the fewest rules, then changes."""
    best = paths[0]
    for path in paths[1:]:
        if judge.compare(path.result, best.result) > 0.0:
            best = path
    equals = [path for path in paths if path is best or judge.compare(path.result, best.result) >= -EQUAL_Z]
    return min(equals, key=lambda path: (len(path.rules), share_changed(path.result)))
