"""Racing: compare rule sets with the unguided policy on the same seeds, and drop early those that do badly.

- *One unguided episode per seed* (`legible.evaluation.recorded`), recorded step by step. Episodes that guidance cannot
  change are not played (`legible.evaluation.pairs`): most rule sets change few episodes.
- *Rungs*: every rule set plays until enough of its episodes were changed; each rung has twice as many as the one
  before. Unchanged episodes carry no information, so rare rule sets use more seeds.
- *Dropping* (`is_dropped`): a rule set continues while it does well enough.
- *Confirmation* (`legible.evaluation.confirmation`) on held-out seeds: of rule sets that are worth the seeds they need
  (`is_worth_confirming`), and of only a few distinct rule sets per search (`legible.evaluation.candidates`).

Every rule set is judged on its own, never against the others. So results do not depend on what else is tested, in which
order, or how many rule sets are good. Equal rule sets are played once, even if several sources propose them.

- `race`: runs a race and the confirmation. `Rung`: the result of a rule set on a rung.
- `make_explore`: trials of rule sets for sources that search, on separate seeds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from legible.evaluation.blocks import Runner
from legible.evaluation.candidates import Contender, choose_contenders
from legible.evaluation.changed import largest_loss
from legible.evaluation.confirmation import OVERSAMPLING, POWER_SAFETY_FACTOR, Expectation, confirm
from legible.evaluation.failures import WorstCase
from legible.evaluation.objectives import find_objective
from legible.evaluation.pairs import PairedPlay, Pairs
from legible.evaluation.rare_losses import WorstLoss, judge_rare_losses
from legible.evaluation.recorded import REPEATED_EPISODES, EpisodeRecord, Repetition, find_repetition
from legible.evaluation.statistics import POWER, Standing, benjamini_hochberg
from legible.evaluation.units import Setup, Treatment, UnitResult, run_units
from legible.evaluation.verdicts import Evaluation, Sample, Verdict
from legible.hypotheses import Hypotheses, MeasuredEffect, Named, Trial, run_sources
from legible.play.stages import SEARCH_SEEDS
from legible.rules import Rule, RuleSet
from legible.settings import FEWEST_CHANGES, FEWEST_RUNG_CHANGES, EvaluationSettings

_DEFAULTS = EvaluationSettings()
SELECTION_ERROR_FACTOR = 1.5
"""Inflation of the standard error of search trials: rule sets were selected by them."""
CHEAP_SEEDS, Z_PER_DOUBLING = 250, 0.5
"""See `is_worth_confirming`, which names the benchmark behind them."""
PLANNED_EFFECT = 3.0
"""Confirmations are planned for effects of at least this many times the smallest effect: they are then found nearly as
often as without a smallest effect, and smaller ones would take too many episodes."""
SEARCH_STAGE = "search"


class Rung(NamedTuple):
    """Result of a rule set on a rung; z is the mean difference of its changed episodes, in standard errors."""

    changes: int  # number of changed episodes that the rung asks for
    changed: int  # number that were played
    z: float


def is_dropped(rung: Rung, last: int, settings: EvaluationSettings = _DEFAULTS) -> bool:
    """Return whether a rule set is dropped after a rung; `last` is the number of changed episodes of the last one.

    A rule set is worth finding if its expected z on the last rung is `target_z`. On a rung with a quarter of the
    episodes, such a rule set has half that z on average. It is dropped if it lies more than `drop_margin_z` standard
    errors below that. This happens to a quarter of the worthwhile rule sets on each rung, and to most worthless ones on
    the first rungs, which are cheap. On the last rung the same threshold decides which rule sets are confirmed.

    Simulated with normal differences, 24 to 384 changed episodes in five rungs: a rule set without effect takes 99
    changed episodes on average and reaches the confirmation in 3 of 100 cases (with Welch's test: 250 episodes, 5
    of 100). One whose changes have a mean of 0.1, 0.2, 0.3 standard deviations gets there in 40, 80, 94 % of the cases;
    Welch's test, for rule sets that change 47 % of the episodes of PAC-Man small, in 16, 36, 62 %.
    """
    return rung.z < settings.target_z * math.sqrt(rung.changes / last) - settings.drop_margin_z


def is_sure(rung: Rung, settings: EvaluationSettings = _DEFAULTS) -> bool:
    """Return whether a rule set does so well that it goes to the confirmation without further rungs."""
    return rung.changed >= FEWEST_RUNG_CHANGES and rung.z >= settings.accept_z


def is_negligible(standing: Standing, settings: EvaluationSettings) -> bool:
    """Return whether an effect in the race lies so far below the smallest effect of interest that it cannot reach it.

    The margin is the one at which an effect far above zero is accepted at once, so that the decision is as sure.
    """
    return standing.difference + settings.accept_z * standing.error < settings.smallest_effect


def is_worth_confirming(z: float, share: float, settings: EvaluationSettings) -> bool:
    """Return whether a rule set did well enough in the race for the held-out seeds that it needs.

    A rule set that changes few episodes needs many seeds, each a whole unguided episode. A rule set without effect that
    passed by chance has a z just above the threshold of the race; one that is worth thousands of seeds has a higher z.
    So the threshold rises by `Z_PER_DOUBLING` standard errors for every doubling of the seeds above `CHEAP_SEEDS`. At
    the default budgets this finds as many of the planted faults of ``python -m lab.bench finding``, with an eighth
    fewer steps. `z` is the mean difference of the race in standard errors, `share` the share of changed episodes.
    """
    if not settings.confirmation_changes:
        return True
    seeds = min(FEWEST_CHANGES / share, settings.confirmation_seeds) if share else settings.confirmation_seeds
    extra = Z_PER_DOUBLING * max(0.0, math.log2(seeds / CHEAP_SEEDS))
    return z >= settings.target_z - settings.drop_margin_z + extra


@dataclass
class _Entry:
    """A rule set in the race."""

    number: int  # in play
    treatment: RuleSet | Treatment  # the first of the equal ones that were proposed
    found_by: list[str] = field(default_factory=list)  # names of sources
    equal: list[Rule] = field(default_factory=list)  # mined rules behind other rule sets that are equal
    seeds: int = 0  # on which it was judged; 0 before the first rung
    passed: bool = False  # not dropped so far
    shown: MeasuredEffect | None = None  # by search trials


class Race:
    """A race on the seeds of one stage; rule sets can enter at any time.

    Parameters
    ----------
    play
        Plays pairs of episodes.
    settings
        Numbers of episodes and significance level.
    """

    def __init__(self, play: PairedPlay, settings: EvaluationSettings) -> None:
        self._play, self._most, self._settings = play, settings.race_seeds, settings
        self._rungs = [settings.rung_changes * 2**k for k in range(settings.rungs)]
        self.objective = find_objective(settings.objective)
        self._entries: dict[object, _Entry] = {}

    @property
    def record(self) -> EpisodeRecord:
        """The episodes of the unguided policy."""
        return self._play.record

    @property
    def entries(self) -> list[_Entry]:
        """All distinct rule sets, in the order in which they were proposed."""
        return list(self._entries.values())

    def enter(self, treatments: Sequence[RuleSet | Treatment]) -> list[_Entry]:
        """Race the treatments that are new, and return the entry of each treatment."""
        entries = [self._add(treatment) for treatment in treatments]
        alive = [entry for entry in self.entries if not entry.seeds]
        for changes in self._rungs if alive else ():
            self._play.play_changes({entry.number: changes for entry in alive})
            self._play.play_seeds({entry.number: self._seeds(entry, changes) for entry in alive})
            alive = [entry for entry in alive if self._goes_on(entry, changes)]
        return entries

    def _add(self, treatment: RuleSet | Treatment) -> _Entry:
        # Treatments that act in the same way share a key.
        key = (
            frozenset(treatment.rules)
            if isinstance(treatment, RuleSet)
            else (type(treatment).__name__, json.dumps(treatment.to_dict(), sort_keys=True))
        )
        if key not in self._entries:
            self._entries[key] = _Entry(self._play.add(treatment), treatment)
        entry = self._entries[key]
        if isinstance(treatment, RuleSet) and isinstance(entry.treatment, RuleSet):
            source = treatment.source
            if source is not None and source not in (entry.treatment.source, *entry.equal):
                entry.equal.append(source)
        return entry

    def _goes_on(self, entry: _Entry, changes: int) -> bool:
        """Judge a rule set after a rung, and return whether it plays the next one."""
        entry.seeds = self._seeds(entry, changes)
        evidence, changed = self.evidence(entry), int(self.pairs(entry).changed.sum())
        # Without more changed episodes on the seeds of the stage, this is the last rung.
        has_more = changed >= changes
        rung = Rung(changes if has_more else self._rungs[-1], changed, evidence.z)
        has_enough = changed >= FEWEST_RUNG_CHANGES
        sure = is_sure(rung, self._settings)
        entry.passed = sure or (has_enough and not is_dropped(rung, self._rungs[-1], self._settings))
        if has_enough and is_negligible(evidence, self._settings):
            entry.passed = False
        return entry.passed and has_more and not sure

    def _seeds(self, entry: _Entry, changes: int) -> int:
        """Return the number of seeds of a rung: those with its changed episodes, or as many as the objective needs."""
        return max(self._play.seeds_for(entry.number, changes), min(self.objective.rung_episodes, self._most))

    def pairs(self, entry: _Entry) -> Pairs:
        """Return the episodes on which a rule set was judged."""
        return self._play.pairs(entry.number, entry.seeds)

    def sides(self, pairs: Pairs, *, harm: bool) -> tuple[UnitResult, UnitResult]:
        """Return guided and unguided episodes, with the worst case of failed ones for the claim that guidance helps.

        With `harm` the claim is that guidance does harm, and the sides are exchanged.
        """
        sides = (pairs.base, pairs.guided) if harm else (pairs.guided, pairs.base)
        if not any(side.failed.any() for side in sides):
            return sides  # the usual case, which avoids a search through thousands of results
        return WorstCase(self._play.results, self.objective.value).of(*sides)

    def standing(self, entry: _Entry, *, harm: bool = False, invented_loss: float = 0.0) -> Standing:
        """Return the standing of a rule set by the objective; with `harm`, of the unguided policy."""
        pairs = self.pairs(entry)
        return self.objective.standing(*self.sides(pairs, harm=harm), pairs.changed, invented_loss)

    def evidence(self, entry: _Entry) -> Standing:
        """Return the standing of a rule set in the race combined with search trials; decides what is confirmed."""
        in_race, shown = self.standing(entry), entry.shown
        # Both estimates are averaged, each weighted by the inverse of its variance.
        if shown is None or not shown.error > 0.0 or not in_race.error > 0.0:
            return in_race
        trial_weight = 1.0 / (SELECTION_ERROR_FACTOR * shown.error) ** 2
        race_weight = 1.0 / in_race.error**2
        mean = (trial_weight * shown.mean + race_weight * in_race.difference) / (trial_weight + race_weight)
        error = 1.0 / math.sqrt(trial_weight + race_weight)
        return Standing(mean, error, mean / error, float(ndtr(-(mean / error))))

    def measure(self, named: Sequence[Named]) -> list[MeasuredEffect]:
        """Race rule sets of sources, and return the effect of each on the seeds on which it was judged."""
        for name, rule_set, shown in named:
            entry = self._add(rule_set)
            entry.shown = entry.shown or shown
            if name not in entry.found_by:
                entry.found_by.append(name)
        entries = self.enter([one.rule_set for one in named])
        return [self._effect(entry, self._play.steps(entry.number)) for entry in entries]

    def explore(self, trial: Trial) -> list[MeasuredEffect]:
        """Play rule sets until as many episodes were changed as the trial asks for, and return their effects.

        Steps are those of this trial; additional steps of the unguided policy count for the first rule set.
        """
        entries = [self._add(rule_set) for rule_set in trial.rule_sets]
        steps_before = [self._play.steps(entry.number) for entry in entries]
        seeds_before = self._play.record.known
        self._play.play_changes({entry.number: trial.changes for entry in entries}, trial.seeds)
        for entry in entries:
            entry.seeds = min(self._seeds(entry, trial.changes), trial.seeds)
        self._play.play_seeds({entry.number: entry.seeds for entry in entries})
        steps = [self._play.steps(entry.number) - n for entry, n in zip(entries, steps_before, strict=True)]
        if self._play.record.known > seeds_before:
            steps[0] += int(self._play.record.result.lengths[seeds_before:].sum())
        return [self._effect(entry, n) for entry, n in zip(entries, steps, strict=True)]

    def _effect(self, entry: _Entry, steps: int) -> MeasuredEffect:
        standing, pairs = self.standing(entry), self.pairs(entry)
        changed, share = int(pairs.changed.sum()), Sample.of(pairs.guided).changed
        worst = self.worst_loss(entry)
        return MeasuredEffect(
            standing.difference, standing.error, standing.p, changed, entry.seeds, steps, share, worst
        )

    def steps(self, entry: _Entry) -> int:
        """Return the environment steps that were played with a rule set."""
        return self._play.steps(entry.number)

    def worst_loss(self, entry: _Entry) -> float:
        """Return the worst loss of an episode with a rule set."""
        pairs = self.pairs(entry)
        return largest_loss([self.objective.differences(*self.sides(pairs, harm=False))[pairs.changed]])

    def changes_to_exclude(self, entry: _Entry, worst: WorstLoss, tests: int) -> int:
        """Return how many changed episodes exclude that rare losses cancel the gain of the race, even half of it."""
        if self.objective.ranks is not None or self.objective.is_binary:
            return 0
        pairs = self.pairs(entry)
        differences = self.objective.differences(*self.sides(pairs, harm=False))[pairs.changed]
        rate = judge_rare_losses(differences, worst.size).break_even / 2.0
        return math.ceil(math.log(self._settings.alpha / tests) / math.log1p(-rate)) if 0.0 < rate < 1.0 else 0

    def with_comparisons(self, repetition: Repetition) -> Repetition:
        """Add the episodes that the race played again, to see whether the same seed gives the same episode."""
        return self._play.with_comparisons(repetition)

    def changed_steps(self, entries: Sequence[_Entry]) -> Sequence[NDArray[np.bool_] | None]:
        """Return in which steps of the first recorded episodes each rule set changes the action; None: unknown.

        That is unknown where the same seed does not repeat an episode.
        """
        if not self._play.skips or not entries:
            return [None] * len(entries)
        return list(self._play.changed_steps([entry.number for entry in entries]))

    def share(self, entry: _Entry) -> float:
        """Return the share of all recorded episodes that a rule set changes."""
        return self._play.share_changed(entry.number)


def make_explore(
    setup: Setup, seed: int, settings: EvaluationSettings, run: Runner
) -> Callable[[Trial], list[MeasuredEffect]]:
    """Return a function that plays trials of sources that search, on seeds of a separate stage."""
    opened = cache(lambda: _open_race(setup, seed, SEARCH_STAGE, settings, run)[0])
    return lambda trial: opened().explore(trial)


def _open_race(
    setup: Setup,
    seed: int,
    stage: str,
    settings: EvaluationSettings,
    run: Runner,
) -> tuple[Race, Repetition]:
    """Return a race on the seeds of a stage, and whether the same seed gives the same episode.

    Seeds of the race answer that for both stages: a study has played them before, and its store holds them.
    """
    searches = stage == SEARCH_STAGE
    repetition = find_repetition(setup, seed, "racing", run)
    unguided = replace(setup, treatments=(), rows=repetition.rows)
    n_seeds, repeated = (SEARCH_SEEDS, 0) if searches else (settings.race_seeds, REPEATED_EPISODES)
    record = EpisodeRecord(unguided, seed, stage, n_seeds, run, repeated=min(repeated, n_seeds))
    return Race(PairedPlay(unguided, repetition, record, run, full_units=searches), settings), repetition


def race(
    setup: Setup,
    seed: int,
    settings: EvaluationSettings,
    confirmed: bool = True,
    sources: Mapping[str, Hypotheses] | None = None,
    run: Runner = run_units,
    on_candidates: Callable[[Sequence[Verdict]], None] | None = None,
) -> Evaluation:
    """Return a verdict on every rule set, from a race and, for those that do well in it, from held-out seeds.

    In a race, rule sets play ever more episodes on the same seeds, and those that do badly are dropped early.

    Parameters
    ----------
    setup
        Policy, environment, settings of play, and the rule sets (or other guidance) that race first.
    seed, settings
        Seed of the study; numbers of episodes and significance level.
    confirmed
        Whether rule sets that pass the race are tested again on held-out seeds.
    sources
        Generators of further rule sets, such as searches, by name.
    run
        Plays lists of episodes and returns their results: `run_units`, possibly with engine and store already chosen.
    on_candidates
        Called with the verdicts on rule sets that passed the race, before they are confirmed.
    """
    # The worst loss seen anywhere, since a rule set may cause such losses too rarely to be seen.
    worst = WorstLoss(settings.worst_loss)

    @cache
    def open_race_once() -> tuple[Race, Repetition]:
        """Return the race, opened late, because a source may first play trials of its own search.

        The second value says whether the same seed gives the same episode, which is measured first.
        """
        opened, repetition = _open_race(setup, seed, "racing", settings, run)
        opened.enter(setup.treatments)
        return opened, repetition

    def measure(named: Sequence[Named]) -> list[MeasuredEffect]:
        """Race the rule sets of a source, each with its name, and return their effects."""
        return open_race_once()[0].measure(named)

    def add_loss(loss: float) -> None:
        """Note a loss that a search has seen."""
        worst.add([-loss])  # a difference, guided minus unguided

    # Sources run first: they try rule sets on seeds of their own, then race those that they propose.
    run_sources(sources or {}, measure, make_explore(setup, seed, settings, run), add_loss)
    # `repetition` says whether the same seed gives the same episode, and for which size of batch (`rows`).
    current, repetition = open_race_once()
    # The unguided policy plays at least one seed, even if no rule set was proposed, because its figures are reported.
    current.record.extend(seeds=1)
    repetition = current.with_comparisons(repetition)  # adds the episodes that the race has played twice
    worst.add([-current.worst_loss(entry) for entry in current.entries])
    # Candidates are the indices of the rule sets that passed the race and are worth the seeds of a confirmation.
    candidates = _find_candidates(current, settings)
    verdicts = _make_verdicts(current, candidates, settings.alpha)
    evaluation = Evaluation(
        Sample.of(current.record.result),
        tuple(verdicts),
        settings,
        unguided_steps=repetition.steps + int(current.record.result.lengths.sum()),
        repetition=repetition,
        worst_loss=worst.size,
    )
    if not confirmed or not candidates or not settings.confirmation_changes:
        return evaluation
    if on_candidates is not None:
        on_candidates([verdicts[i] for i in candidates])
    # For every candidate the share of episodes that it changes, and how many of them the confirmation should have.
    expected = _expectations(current, candidates, worst, settings)
    # Play enough seeds to exclude, for every candidate, losses that are too rare to have been seen but large enough to
    # cancel its gain. Such seeds can be very many, so their number has a limit.
    excluding_seeds = [
        math.ceil(OVERSAMPLING * expectation.changes_to_exclude_losses / expectation.share)
        for expectation in expected
        if expectation.changes_to_exclude_losses
    ]
    seeds = max(settings.confirmation_seeds, min(max(excluding_seeds, default=0), settings.most_excluding_seeds))
    played = confirm(
        # The same size of batch as in the race, since results may depend on it.
        replace(setup, treatments=(), rows=repetition.rows),
        repetition,
        [verdicts[i].treatment for i in candidates],
        expected,
        seed=seed,
        settings=replace(settings, confirmation_seeds=seeds),
        run=run,
        worst_loss=worst.size,
    )
    # Add the results to the verdicts, and the losses seen here to the worst one.
    for treatment in range(len(played.blocks.results) - 1):  # without the unguided policy
        base, guided = played.blocks.pair(treatment)
        worst.add(current.objective.differences(guided, base))
    for i, confirmation, steps in zip(candidates, played.confirmations, played.steps, strict=True):
        verdicts[i] = replace(
            verdicts[i],
            confirmation=confirmation,
            is_confirmed=confirmation.is_passed(settings.alpha),
            steps=verdicts[i].steps + steps,
        )
    return replace(
        evaluation,
        verdicts=tuple(verdicts),
        confirmation_blocks=played.blocks,
        repetition=played.repetition,
        worst_loss=worst.size,
        unguided_steps=evaluation.unguided_steps + int(played.blocks.base.lengths.sum()),
    )


def _find_candidates(finished: Race, settings: EvaluationSettings) -> list[int]:
    """Return the indices of the entries of a race that go on to the confirmation."""
    passed = []
    for i, entry in enumerate(finished.entries):
        evidence = finished.evidence(entry)
        # Confirming what is probably smaller than the smallest effect of interest would only cost seeds.
        is_too_small = evidence.difference + evidence.error < settings.smallest_effect
        if entry.passed and not is_too_small and is_worth_confirming(evidence.z, finished.share(entry), settings):
            passed.append(i)
    # Of those that passed, few per source are confirmed, the best and most distinct ones.
    entries = [finished.entries[i] for i in passed]
    states = finished.changed_steps(entries) if settings.most_alike else [None] * len(entries)
    contenders = []
    for entry, changed_states in zip(entries, states, strict=True):
        evidence = finished.evidence(entry)
        worth = evidence.difference - evidence.error  # a cautious estimate
        contenders.append(Contender(tuple(entry.found_by), worth, finished.pairs(entry), changed_states))
    chosen = choose_contenders(
        contenders,
        settings.most_confirmed,
        limits_mined=settings.most_raced > 0,  # a limit on raced mined rules is one on confirmed ones, too
        most_alike=settings.most_alike,
        alike=settings.same_weakness,
    )
    return [passed[k] for k in chosen]


def _expectations(
    finished: Race, candidates: Sequence[int], worst: WorstLoss, settings: EvaluationSettings
) -> list[Expectation]:
    """Return the expected results of the candidates on held-out seeds, estimated from the race."""
    expected = []
    for entry in (finished.entries[i] for i in candidates):
        evidence, smallest = finished.evidence(entry), settings.smallest_effect
        changed, error = int(finished.pairs(entry).changed.sum()), finished.standing(entry).error
        needed = changes_for_power(changed, evidence.difference - smallest, error, len(candidates), settings.alpha)
        to_exclude = finished.changes_to_exclude(entry, worst, len(candidates)) if settings.until_excluded else 0
        # Planned for an effect half as large as in the race, as `POWER_SAFETY_FACTOR` does.
        factor = sample_factor(evidence.difference / math.sqrt(POWER_SAFETY_FACTOR), smallest)
        expected.append(Expectation(finished.share(entry), needed, to_exclude, factor))
    return expected


def sample_factor(difference: float, smallest_effect: float) -> float:
    """Return how many times as many episodes show that a difference exceeds the smallest effect as that it exceeds 0.

    Differences below `PLANNED_EFFECT` smallest effects count as that large: smaller ones would take too many episodes.

    >>> sample_factor(3.0, 1.0), sample_factor(5.0, 1.0), sample_factor(1.0, 0.0)
    (2.25, 1.5625, 1.0)
    """
    planned = max(PLANNED_EFFECT * smallest_effect, difference)
    return (planned / (planned - smallest_effect)) ** 2 if smallest_effect else 1.0


def changes_for_power(changed: int, difference: float, error: float, tests: int, alpha: float) -> int:
    """Return how many changed episodes show a difference with a power of 80 % if no other test finds an effect.

    `error` is the standard error on as many episodes as were `changed`. The result is 0 without a positive difference.
    """
    if difference <= 0.0:
        return 0
    wanted = float(-ndtri(alpha / tests) + ndtri(POWER))
    return math.ceil(changed * (wanted * error / difference) ** 2)


def _make_verdicts(finished: Race, candidates: Sequence[int], alpha: float) -> list[Verdict]:
    """Return a verdict on every rule set of a race, from its episodes in the race alone.

    Parameters
    ----------
    finished
        The race. Its entries are the rule sets, each with its episodes.
    candidates
        Indices, among the entries, of the rule sets that will be confirmed because guidance seems to help.
    alpha
        Significance level.
    """
    chosen = set(candidates)
    entries = finished.entries
    # Tests in both directions: guidance helps, and guidance does harm. For harm, one invented gain is added, because a
    # rare large gain that has not been seen may outweigh many small losses.
    helps = [finished.standing(entry) for entry in entries]
    invented_gain = finished.objective.invented_loss(
        finished.sides(finished.pairs(entry), harm=True) for entry in entries
    )
    p = [standing.p for standing in helps]
    p_harm = [finished.standing(entry, harm=True, invented_loss=invented_gain).p for entry in entries]
    q, q_harm = benjamini_hochberg(p), benjamini_hochberg(p_harm)
    # An effect of this many standard errors is significant with the usual power.
    detectable_z = float(-ndtri(alpha) + ndtri(POWER))
    changed = [int(finished.pairs(entry).changed.sum()) for entry in entries]
    return [
        Verdict(
            treatment=entry.treatment,
            sample=Sample.of(finished.pairs(entry).guided),
            difference=helps[i].difference,
            p=p[i],
            q=float(q[i]),
            p_harm=p_harm[i],
            q_harm=float(q_harm[i]),
            is_weakness=i in chosen,
            is_harmful=bool(q_harm[i] < alpha),
            found_by=", ".join(entry.found_by),
            equal_sources=tuple(entry.equal),
            changed_episodes=changed[i],
            detectable=detectable_z * helps[i].error if changed[i] > 1 else None,
            is_set_aside=entry.passed and i not in chosen,
            steps=finished.steps(entry),
        )
        for i, entry in enumerate(entries)
    ]
