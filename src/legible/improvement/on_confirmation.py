"""Composition on the seeds of the confirmation, for slow environments.

The unguided policy and every candidate have played these seeds, so only combinations of candidates are played. The
check of the composition allows for its choice on the same seeds, and the final figure is from other seeds.

- `compose_on_confirmation`: selects and checks a composition on these seeds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from legible.evaluation import Evaluation, Verdict
from legible.evaluation.units import UnitResult
from legible.improvement.backward import Selected, select_composition, union
from legible.improvement.candidates import candidates_by_worth, worth
from legible.improvement.check import judge_composition, pareto_front, share_of_level
from legible.improvement.composed import Composed, CompositionCheck, FrontPoint, share_changed
from legible.improvement.forward import TESTED_BELOW_P, CompositionCandidate
from legible.improvement.judging import CompositionJudge
from legible.improvement.trials import Play, PlayedCompositions
from legible.rules import Rule, RuleSet
from legible.settings import FEWEST_CHANGES, ImprovementSettings


def compose_on_confirmation(
    play: Play, evaluation: Evaluation, settings: ImprovementSettings, veto: Collection[Rule]
) -> Composed:
    """Return the rule sets that are best deployed together, or none if they do not help.

    Candidates are the rule sets that helped in the confirmation, confirmed or not.

    Parameters
    ----------
    play
        Policy, environment, seed and settings that all compositions are played with.
    evaluation
        Verdicts on the rule sets, and the episodes of the confirmation.
    settings, veto
        Number of candidates tried at a time, and limit of the override rate; rules to exclude.
    """
    verdicts = [
        verdict
        for verdict in candidates_by_worth(evaluation, settings, veto)
        if verdict.confirmation is not None and verdict.confirmation.effect.p < TESTED_BELOW_P
    ]
    blocks = evaluation.confirmation_blocks
    if blocks is None or not verdicts:
        return Composed((), RuleSet(()), (), evaluation.base)
    results = [blocks.guided(blocks.setup.treatments.index(verdict.treatment)) for verdict in verdicts]
    # Compose on seeds that all candidates have played; `known` seeds were played by the unguided policy.
    known = len(blocks.base)
    paired = play.against("racing confirmation", max(known, play.settings.confirmation_seeds))
    paired.record.stage = "composition"  # in progress messages
    played = PlayedCompositions(paired, min(settings.episodes, *map(len, results)), known=known)
    for verdict, result in zip(verdicts, results, strict=True):
        played.take_over(verdict.rule_set, result)
    judge = CompositionJudge(play, settings, played)
    candidates = [CompositionCandidate(verdict.rule_set, worth(verdict)) for verdict in verdicts]
    selected, path = select_composition(
        judge, candidates, settings.most_candidates or len(verdicts), settings.beginnings
    )
    # Check the selected composition; if it fails, those on the way to it, the largest first, then single rule sets.
    options = [selected] if selected.rule_sets else []
    grown: tuple[RuleSet, ...] = ()
    if path is not None:
        grown = path.rule_sets
        for count in range(len(grown), 0, -1):
            options += [Selected(grown[:count], path.results[count - 1], tuple(path.steps[:count]))]
    single_checks = {}
    for verdict, result in zip(verdicts, results, strict=True):
        options.append(Selected((verdict.rule_set,), result, ()))
        single_checks[frozenset(verdict.rule_set.rules)] = _check_alone(verdict, result)
    n_tested = sum(verdict.confirmation is not None for verdict in evaluation.verdicts)
    checks: list[CompositionCheck] = []
    for option in options:
        single = single_checks.get(frozenset(option.composition.rules))
        checks.append(single or _check(play, played, option, grown, n_tested))
        if checks[-1].is_passed:
            break
    else:
        return replace(Selected((), judge.base, selected.steps).composed(judge.environment_steps), check=checks[0])
    # The front has the passed composition and all confirmed rule sets, which need no further episodes.
    others = [single for single in single_checks.values() if single.is_passed and single is not checks[-1]]
    points = [FrontPoint(one.composition, one.effect, one.changed, one is checks[-1]) for one in (checks[-1], *others)]
    return replace(option.composed(judge.environment_steps), check=checks[-1], front=pareto_front(points))


def _check_alone(verdict: Verdict, result: UnitResult) -> CompositionCheck:
    """Return the confirmation of a rule set as the check of the composition of it alone; `result`: its episodes."""
    confirmation = verdict.confirmation
    if confirmation is None:
        raise ValueError("the rule set was not in the confirmation")
    return CompositionCheck(
        composition=RuleSet(verdict.rule_set.rules),
        effect=confirmation.effect,
        changed=share_changed(result),
        is_too_rare=confirmation.is_too_rare,
        constraints=confirmation.constraints,
        is_passed=verdict.is_confirmed,
    )


def _check(
    play: Play, played: PlayedCompositions, option: Selected, grown: Sequence[RuleSet], n_tested: int
) -> CompositionCheck:
    """Return the check of a composition on the seeds that selected it, corrected for all that could be selected.

    `grown` are the rule sets that the composition was made of, before any of their rules were removed; they were chosen
    from `n_tested` candidates.
    """
    rules, paired = option.composition, played.paired
    sources = [rule_set for rule_set in grown if set(rule_set.rules) & set(rules.rules)]
    n_rules = len(union(sources))
    share = share_of_level(n_tested, len(sources), n_rules, n_rules - len(rules))
    # More seeds of the confirmation are played if these have too few changed episodes for a valid test.
    played.take_over(rules, option.result)
    number = played.number(rules)
    paired.play_changes({number: FEWEST_CHANGES}, len(paired.record.result))
    seeds = max(played.seeds, paired.seeds_for(number, FEWEST_CHANGES))
    paired.play_seeds({number: seeds})
    return judge_composition(play, rules, paired, paired.pairs(number, seeds), share)
