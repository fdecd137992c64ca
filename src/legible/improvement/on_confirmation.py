"""Composition on the seeds of the confirmation, for slow environments.

The unguided policy and every candidate have played these seeds, so only combinations of candidates are played. The
check of the composition allows for its choice on the same seeds, and the final figure is from other seeds.

- `compose_on_confirmation`: selects and checks a composition on these seeds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from legible.evaluation import Evaluation, Verdict
from legible.evaluation.units import UnitResult
from legible.improvement.backward import Selected, select_composition, union
from legible.improvement.candidates import candidates_by_worth, worth
from legible.improvement.check import check_composition, judge_composition, pareto_front, share_of_level
from legible.improvement.composed import Composed, CompositionCheck, FrontPoint, share_changed
from legible.improvement.forward import TESTED_BELOW_P, CompositionCandidate, Path
from legible.improvement.judging import CompositionJudge
from legible.improvement.trials import Play, PlayedCompositions
from legible.rules import Rule, RuleSet
from legible.settings import FEWEST_CHANGES, ImprovementSettings

SHARE_WHERE_SELECTED = 0.5
"""Share of the significance level for tests on the seeds that selected a composition; further seeds have the rest."""


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
    checks = _Checks(play, played, evaluation, {}, path.rule_sets if path is not None else ())
    for verdict, result in zip(verdicts, results, strict=True):
        checks.alone[frozenset(verdict.rule_set.rules)] = _check_alone(verdict, result)
    # The first option whose check is passed is deployed. If none passes, the report shows the check of the first.
    options = _list_options(selected, path)
    options += [Selected((verdict.rule_set,), result, ()) for verdict, result in zip(verdicts, results, strict=True)]
    first_check = None
    for option in options:
        # Further seeds are played at most for the selected composition: they are not meant to choose between options.
        check = checks.check(option, may_play=option is selected)
        if check.is_passed:
            break
        first_check = first_check or check
    else:
        nothing = Selected((), judge.base, selected.steps)
        return replace(nothing.composed(judge.environment_steps + checks.steps), check=first_check)
    # The front has the composition and all confirmed rule sets, which need no further episodes.
    others = [single for single in checks.alone.values() if single.is_passed and single is not check]
    points = [FrontPoint(one.composition, one.effect, one.changed, is_chosen=one is check) for one in (check, *others)]
    composed = option.composed(judge.environment_steps + checks.steps)
    return replace(composed, check=check, front=pareto_front(points))


def _list_options(selected: Selected, path: Path | None) -> list[Selected]:
    """Return the selected composition, then the smaller ones on the way to it, the largest first."""
    if path is None:
        return []
    smaller = range(len(path.rule_sets) - 1, 0, -1)
    return [
        *([selected] if selected.rule_sets else []),
        *(Selected(path.rule_sets[:n], path.results[n - 1], tuple(path.steps[:n])) for n in smaller),
    ]


@dataclass
class _Checks:
    """Checks whether compositions are better than the unguided policy.

    Parameters
    ----------
    play, played
        Settings of play, and the compositions played on the seeds of the confirmation.
    evaluation
        Verdicts on the rule sets, some of which were candidates of the confirmation.
    alone
        The confirmations of rule sets, by their rules.
    grown
        The rule sets that joined the composition, before any of their rules were removed.
    steps
        Environment steps that were played on further seeds.
    """

    play: Play
    played: PlayedCompositions
    evaluation: Evaluation
    alone: dict[frozenset[Rule], CompositionCheck]
    grown: tuple[RuleSet, ...]
    steps: int = 0

    def check(self, option: Selected, *, may_play: bool) -> CompositionCheck:
        """Return the check of a composition; for a single rule set, that is its confirmation.

        Others are tested on the seeds that selected them, with a correction for all that could have been selected. That
        can be too strict for good compositions. So, with `may_play`, one with a confirmed rule set that fails is tested
        on further seeds. Both tests share the significance level.
        """
        single = self.alone.get(frozenset(option.composition.rules))
        if single is not None:
            return single
        sources = [rule_set for rule_set in self.grown if set(rule_set.rules) & set(option.composition.rules)]
        check = self._check_where_selected(option, sources)
        has_confirmed = any(self.alone[frozenset(rule_set.rules)].is_passed for rule_set in sources)
        if check.is_passed or not may_play or not has_confirmed:
            return check
        checked = check_composition(self.play, option.composition, (), FEWEST_CHANGES, share=1.0 - SHARE_WHERE_SELECTED)
        self.steps += checked.environment_steps
        return checked.check

    def _check_where_selected(self, option: Selected, sources: Sequence[RuleSet]) -> CompositionCheck:
        """Return the corrected test of a composition of rules of some rule sets, on the seeds that selected it."""
        rules, paired = option.composition, self.played.paired
        n_tested = sum(verdict.confirmation is not None for verdict in self.evaluation.verdicts)
        n_rules = len(union(sources))
        share = share_of_level(n_tested, len(sources), n_rules, n_rules - len(rules))
        # More seeds of the confirmation are played if these have too few changed episodes for a valid test.
        self.played.take_over(rules, option.result)
        number = self.played.number(rules)
        paired.play_changes({number: FEWEST_CHANGES}, len(paired.record.result))
        seeds = max(self.played.seeds, paired.seeds_for(number, FEWEST_CHANGES))
        paired.play_seeds({number: seeds})
        return judge_composition(self.play, rules, paired, paired.pairs(number, seeds), SHARE_WHERE_SELECTED * share)


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
