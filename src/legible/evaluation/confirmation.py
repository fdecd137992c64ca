"""Confirmation of raced rule sets, on held-out seeds.

- `confirm`: plays candidates, the mined rule alone behind each of them, and the unguided policy, until as many episodes
  were changed as was fixed beforehand (`Expectation`); `Confirmed`: the results.
- `Judge`: tests the results; `least_episodes`: the number of episodes that the objectives need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from legible.evaluation.blocks import PlayedBlocks, Runner
from legible.evaluation.changed import changed_mean_p, resamples_for
from legible.evaluation.failures import WorstCase
from legible.evaluation.objectives import (
    ComparisonOptions,
    ConstraintCheck,
    Objective,
    find_objective,
    parse_constraints,
)
from legible.evaluation.pairs import PairedPlay, Pairs
from legible.evaluation.rare_losses import RareLosses, judge_rare_losses
from legible.evaluation.recorded import EpisodeRecord, Repetition
from legible.evaluation.statistics import Effect, benjamini_hochberg
from legible.evaluation.units import Setup, Treatment, UnitResult
from legible.evaluation.verdicts import Confirmation
from legible.rules import RuleSet
from legible.settings import FEWEST_CHANGES, EvaluationSettings

OVERSAMPLING = 1.25
"""A number of changed episodes is required only if this many times as many are expected: the share is an estimate."""
MOST_CHANGES_FACTOR = 4
"""Small effects are confirmed on more changed episodes than the settings say, up to this many times as many."""
POWER_SAFETY_FACTOR = 4
"""Multiple of the sample size that the (optimistic) race estimate implies; large effects need no more.

Four times the episodes are enough for an effect half as large."""


EARLY_DIVISOR, POOR_Z = 4, -0.5
"""On a quarter of its episodes, a candidate is given up that lies this many standard errors below the smallest effect.

Giving up can only lose a confirmation, so the level holds. Of effects that would be found with a power of 80 %, 4 % lie
that low, and most of those would not be confirmed anyway. Of candidates without effect 31 % do."""
EARLY_CONFIDENCE = 0.975


class Expectation(NamedTuple):
    """Expected results of a candidate, estimated from the race.

    Parameters
    ----------
    share
        Share of the episodes that the candidate changes.
    changes
        Number of changed episodes that would show an effect as large as in the race with a power of 80 %, even if
        no other candidate had an effect; 0 where that is not known.
    changes_to_exclude_losses
        Number of changed episodes that would exclude that rare losses cancel the effect, where that is asked for.
    sample_factor
        How many times as many changed episodes show that the effect exceeds the smallest effect of interest, as show
        that it exceeds zero.
    """

    share: float
    changes: int = 0
    changes_to_exclude_losses: int = 0
    sample_factor: float = 1.0


class Confirmed(NamedTuple):
    """Results of the confirmation.

    Parameters
    ----------
    confirmations
        One confirmation per candidate.
    steps
        Environment steps of each candidate, including those of its mined rule alone.
    blocks
        The unguided policy on all seeds, every candidate on the seeds on which it was judged, and the mined rules.
    repetition
        What was known about seeds, with the episodes that were compared here.
    """

    confirmations: tuple[Confirmation, ...]
    steps: tuple[int, ...]
    blocks: PlayedBlocks
    repetition: Repetition


def confirm(
    setup: Setup,
    repetition: Repetition,
    candidates: Sequence[RuleSet | Treatment],
    expected: Sequence[Expectation],
    *,
    seed: int,
    settings: EvaluationSettings,
    run: Runner,
    worst_loss: float = 0.0,
) -> Confirmed:
    """Return the effects of candidates on held-out seeds, each compared with the unguided policy.

    Candidates are rule sets that did well in the race: it plays all rule sets on the same seeds and drops early those
    that do badly (`legible.evaluation.racing`). Each has a goal that is fixed in advance: a number of episodes that it
    changes (other episodes carry no information). It is played on more and more seeds until the goal is met:

    - usually `confirmation_changes`; more if the race suggests a small effect, fewer if a large one;
    - if all seeds are expected to give fewer changes, the smallest number for which the test is valid;
    - 0 if not even that many are expected: it is only played on the seeds that are played anyway.

    A candidate with goal 0, or one that misses its goal, is too rare to judge: its p is 1. So is the p of one that is
    given up early (`EARLY_DIVISOR`). The mined rule behind a candidate is played only if the candidate is confirmed.

    Parameters
    ----------
    setup
        Policy, environment and settings of play.
    repetition
        Whether the same seed gives the same episode, so that unchanged episodes need not be played.
    candidates
        The rule sets, or other guidance, to confirm.
    expected
        For every candidate its share of changed episodes and the number of them that the race suggests.
    seed, settings
        Seed and settings of the study.
    run
        Plays lists of episodes and returns their results: `run_units`, with engine and store already chosen.
    worst_loss
        The worst loss of any rule set in the race and in searches.
    """
    # `play` pairs episodes of candidates with `record`, the unguided episodes on the same seeds.
    record = EpisodeRecord(setup, seed, "racing confirmation", settings.confirmation_seeds, run)
    play = PairedPlay(setup, repetition, record, run)
    # Play the candidates. `play` knows each by a number; lists below have one element per candidate. Poor candidates do
    # badly on the first part of their goal and are given up then: that part stays their goal.
    numbers = [play.add(candidate) for candidate in candidates]
    goals = [changes_to_confirm(expectation, settings) for expectation in expected]
    is_poor = _find_poor(play, dict(zip(numbers, goals, strict=True)), settings)
    goals = [goal // EARLY_DIVISOR if poor else goal for goal, poor in zip(goals, is_poor, strict=True)]
    play.play_changes({number: goal for number, goal in zip(numbers, goals, strict=True) if goal})
    played_anyway = record.extend(play.first_look)  # the number of seeds that the unguided policy plays in any case
    min_seeds = min(least_episodes(settings), settings.confirmation_seeds)
    seed_counts = [
        max(min_seeds, play.seeds_for(number, goal)) if goal else played_anyway
        for number, goal in zip(numbers, goals, strict=True)
    ]
    play.play_seeds(_largest_counts(numbers, seed_counts))
    # Test all candidates together, since the correction for multiple tests depends on their number.
    judged = [play.pairs(number, count) for number, count in zip(numbers, seed_counts, strict=True)]
    is_rare = [not goal or int(pairs.changed.sum()) < goal for pairs, goal in zip(judged, goals, strict=True)]
    judge = Judge(play.results, judged, settings, seed, worst_loss)
    effects, q = judge.effects(is_rare, is_poor)
    # Play the mined rule behind each confirmed candidate alone, which shows whether its related forms add a gain. The
    # usual number of changes is enough for that. None: a candidate that is not confirmed, or without a mined rule.
    mined_numbers = [
        _add_mined_rule(play, number) if q_value < settings.alpha else None
        for number, q_value in zip(numbers, q, strict=True)
    ]
    usual = settings.confirmation_changes
    mined_seed_counts = [
        min(count, max(min_seeds, play.seeds_for(number, min(goal, usual)))) if goal else count
        for number, count, goal in zip(numbers, seed_counts, goals, strict=True)
    ]
    play.play_seeds(_largest_counts(mined_numbers, mined_seed_counts))
    confirmations = []
    for i, mined_number in enumerate(mined_numbers):
        of_rule = of_generalisation = None
        if mined_number is not None:
            rule_pairs = play.pairs(mined_number, mined_seed_counts[i])
            # The effect of the mined rule alone, and that of the candidate compared with the mined rule.
            of_rule = judge.effect(rule_pairs)
            of_generalisation = judge.effect(play.pairs(numbers[i], mined_seed_counts[i]).beyond(rule_pairs))
        confirmations.append(
            Confirmation(
                effect=effects[i],
                q=q[i],
                of_rule=of_rule,
                of_generalisation=of_generalisation,
                failed=int(judged[i].guided.failed.sum()),
                failed_unguided=int(record.result.failed[: seed_counts[i]].sum()),
                is_too_rare=is_rare[i],
                constraints=judge.constraints(judged[i]),
                rare_losses=judge.rare_losses(judged[i], effects[i]),
            )
        )
    steps = [  # a mined rule that is the candidate itself counts once
        play.steps(number) + (play.steps(mined_number) if mined_number not in (None, number) else 0)
        for number, mined_number in zip(numbers, mined_numbers, strict=True)
    ]
    # Keep all episodes for the report and later steps.
    largest_counts = _largest_counts([*mined_numbers, *numbers], [*mined_seed_counts, *seed_counts])
    guided = [play.pairs(number, largest_counts[number]).guided for number in range(len(play.treatments))]
    base = record.result
    blocks = PlayedBlocks(play.setup, tuple(record.seeds[: len(base)].tolist()), (base, *guided))
    # Episodes played again here count in the repetition: they may show that a seed does not give the same episode.
    return Confirmed(tuple(confirmations), tuple(steps), blocks, play.with_comparisons(repetition))


def _find_poor(play: PairedPlay, goals: Mapping[int, int], settings: EvaluationSettings) -> list[bool]:
    """Return which candidates lie below the smallest effect of interest on the first part of their episodes.

    `goals` holds the number of changed episodes of each candidate, by its number in `play`; a part of them is played.
    """
    first_goals = {number: goal // EARLY_DIVISOR for number, goal in goals.items()}
    play.play_changes({number: goal for number, goal in first_goals.items() if goal})
    objective = find_objective(settings.objective)
    poor = []
    for number, goal in first_goals.items():
        pairs = play.pairs(number, play.seeds_for(number, goal)) if goal else None
        is_poor = False
        if pairs is not None and int(pairs.changed.sum()) >= goal:  # otherwise there are too few episodes to judge
            guided, base = WorstCase(play.results, objective.value).of(pairs.guided, pairs.base)
            standing = objective.standing(guided, base, pairs.changed)
            is_poor = standing.difference - settings.smallest_effect < POOR_Z * standing.error
        poor.append(is_poor)
    return poor


def _largest_counts(numbers: Sequence[int | None], counts: Sequence[int]) -> dict[int, int]:
    """Return the largest number of seeds that is wanted for each treatment; None is no treatment."""
    largest: dict[int, int] = {}
    for number, count in zip(numbers, counts, strict=True):
        if number is not None:
            largest[number] = max(count, largest.get(number, 0))
    return largest


def changes_to_confirm(expected: Expectation, settings: EvaluationSettings) -> int:
    """Return the number of changed episodes that a candidate needs; 0 where too few are expected.

    That is usually `confirmation_changes`; with a smallest effect of interest, as many times more as tell it from that
    effect. Small effects need more, large ones fewer.
    """
    expected_changes = expected.share * settings.confirmation_seeds
    affordable = int(expected_changes / OVERSAMPLING)
    usual = settings.confirmation_changes
    usual = max(usual, min(math.ceil(expected.sample_factor * usual), affordable))
    if expected_changes < OVERSAMPLING * usual:
        return FEWEST_CHANGES if expected_changes >= OVERSAMPLING * FEWEST_CHANGES else 0
    if expected.changes_to_exclude_losses:
        return max(usual, min(expected.changes_to_exclude_losses, affordable))
    for_large_effect = POWER_SAFETY_FACTOR * expected.changes
    if 0 < for_large_effect < usual:
        return max(min(math.ceil(expected.sample_factor * FEWEST_CHANGES), usual), for_large_effect)
    return max(usual, min(expected.changes, MOST_CHANGES_FACTOR * usual, affordable))


def _add_mined_rule(play: PairedPlay, number: int) -> int | None:
    """Return the number of the mined rule alone behind a candidate; None where there is none."""
    candidate = play.treatments[number]
    if not isinstance(candidate, RuleSet) or candidate.source is None:
        return None
    if set(candidate.rules) == {candidate.source}:
        return number
    alone = RuleSet((candidate.source,), candidate.source)
    return play.treatments.index(alone) if alone in play.treatments else play.add(alone)


def least_episodes(settings: EvaluationSettings) -> int:
    """Return the number of episodes that objective and constraints of the settings need."""
    constraints = parse_constraints(settings.constraint)
    objectives = (find_objective(settings.objective), *(constraint.objective for constraint in constraints))
    return max(objective.confirmation_episodes for objective in objectives)


class Judge:
    """Tests of candidates that are judged together; failed episodes count as the worst case.

    Parameters
    ----------
    results
        All episodes of the stage.
    pairs
        Episodes of each candidate and of the unguided policy.
    settings
        Objective, constraints and significance level.
    seed
        Seed of the study, from which resamples are drawn.
    worst_loss
        The worst loss of the objective that the study has seen elsewhere.
    confidence
        Level of the intervals of effects and constraints.
    """

    def __init__(
        self,
        results: Sequence[UnitResult],
        pairs: Sequence[Pairs],
        settings: EvaluationSettings,
        seed: int,
        worst_loss: float = 0.0,
        confidence: float = 0.95,
    ) -> None:
        self._worst_loss, self._known_loss, self._confidence = worst_loss, settings.worst_loss, confidence
        self._objective = find_objective(settings.objective)
        self._constraints = parse_constraints(settings.constraint)
        self._results, self._pairs = results, pairs
        self._alpha = settings.alpha
        tests = max(1, len(pairs))
        # Options of all tests, without the loss that they invent, and with the loss for each objective.
        self._options = ComparisonOptions(
            0.0, resamples_for(tests, self._alpha), seed, self._alpha / tests, settings.smallest_effect
        )
        self._comparisons: dict[str, ComparisonOptions] = {}

    def _sides(self, pairs: Pairs, objective: Objective) -> tuple[UnitResult, UnitResult]:
        return WorstCase(self._results, objective.value).of(pairs.guided, pairs.base)

    def _test(self, pairs: Pairs, objective: Objective, confidence: float | None = None) -> Effect:
        if objective.name not in self._comparisons:
            loss = objective.invented_loss(self._sides(one, objective) for one in self._pairs)
            if objective.name == self._objective.name:
                loss = self._known_loss or max(loss, self._worst_loss)
            self._comparisons[objective.name] = self._options._replace(invented_loss=loss)
        options = self._comparisons[objective.name]._replace(confidence=confidence or self._confidence)
        return objective.test(*self._sides(pairs, objective), pairs.changed, options)

    def rare_losses(self, pairs: Pairs, effect: Effect) -> RareLosses | None:
        """Return what rare losses would do to an effect; None for objectives that are no means.

        It is a gain, unless rare losses cancel it, if it is significant with losses no worse than in its sample.
        """
        if self._objective.ranks is not None or self._objective.is_binary:
            return None
        differences = self._objective.differences(*self._sides(pairs, self._objective))[pairs.changed]
        invented_loss = self._comparisons[self._objective.name].invented_loss
        found = judge_rare_losses(differences, invented_loss, is_known=bool(self._known_loss))
        alpha = self._options.alpha
        if found.is_excluded or effect.p < alpha or effect.mean <= 0.0:
            return found
        # Without another loss, the test invents one as large as the worst of the sample.
        p = changed_mean_p(
            differences, invented_loss=0.0, resamples=self._options.resamples, rng_seed=self._options.rng_seed
        )
        return replace(found, is_gain_otherwise=p < alpha)

    def effects(self, too_rare: Sequence[bool], poor: Sequence[bool]) -> tuple[list[Effect], list[float]]:
        """Test every candidate; return the effects and Benjamini-Hochberg's q-values.

        `too_rare` and `poor` say of every candidate whether it changes too few episodes and whether it was given up.
        One that changes too few episodes, or is poor and was given up early, has p = 1; the interval of a poor one is
        wider, because its episodes were looked at twice. The intervals of the R of m candidates that are rejected have
        the level 1 - R · alpha / m, so that of the intervals shown at most a share alpha misses its effect on average
        (false coverage rate, Benjamini and Yekutieli 2005).
        """
        effects = []
        for pairs, is_rare, is_poor in zip(self._pairs, too_rare, poor, strict=True):
            effect = self._test(pairs, self._objective, EARLY_CONFIDENCE if is_poor else None)
            effects.append(replace(effect, p=1.0) if is_rare or is_poor else effect)
        q = benjamini_hochberg([effect.p for effect in effects]).tolist()
        selected = [k for k, value in enumerate(q) if value < self._alpha]
        for k in selected if len(selected) < len(q) else ():
            wider = self._test(self._pairs[k], self._objective, 1.0 - len(selected) * self._alpha / len(q))
            effects[k] = replace(effects[k], low=wider.low, high=wider.high)
        return effects, q

    def effect(self, pairs: Pairs) -> Effect:
        """Test whether guidance raises the objective by more than the smallest effect of interest."""
        return self._test(pairs, self._objective)

    def constraints(self, pairs: Pairs) -> tuple[ConstraintCheck, ...]:
        """Check every constraint."""
        return tuple(one.check(self._test(pairs, one.objective)) for one in self._constraints)
