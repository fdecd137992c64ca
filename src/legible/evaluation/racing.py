"""Racing: rule sets are compared with the unguided policy on the same seeds, and those that do badly are dropped early.

- *One unguided episode a seed* (`legible.evaluation.recorded`), kept step by step. What guidance cannot change is not
  played (`legible.evaluation.pairs`): most rule sets change few episodes.
- *Rungs*: every rule set plays until enough of its episodes were changed; each rung has twice as many as the one
  before. Episodes that stay as they are say nothing, so only changed ones count: a rare rule set looks at more seeds.
- *Dropping* (`is_dropped`): a rule set goes on while it does well enough to be worth it.
- *Confirmation* (`legible.evaluation.confirmation`) on fresh seeds, of those that are worth them
  (`is_worth_confirming`), and of few rule sets of a search, which differ (`legible.evaluation.candidates`).

Rule sets are judged one by one, never against each other, so that it does not matter what else is tested, in which
order, and how many are good. Equal rule sets are played once, whoever named them.

- `race`: does it all. `Rung`: what a rule set shows on a rung.
- `Exploration`: tries rule sets for sources that search, on seeds of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

from scipy import stats

from legible.evaluation.blocks import Runner
from legible.evaluation.candidates import Contender, choose_contenders
from legible.evaluation.confirmation import Expectation, confirm
from legible.evaluation.failures import WorstCase
from legible.evaluation.objectives import find_objective
from legible.evaluation.pairs import PairedPlay, Pairs
from legible.evaluation.recorded import EpisodeRecord, Repetition, find_repetition
from legible.evaluation.statistics import POWER, Standing, benjamini_hochberg
from legible.evaluation.units import Setup, Treatment, UnitResult, run_units
from legible.evaluation.verdicts import Evaluation, Sample, Verdict
from legible.hypotheses import Hypotheses, MeasuredEffect, Named, Trial, ask_sources
from legible.play.stages import SEARCH_SEEDS
from legible.rules import Rule, RuleSet
from legible.settings import FEWEST_CHANGES, FEWEST_RUNG_CHANGES, EvaluationSettings

# Standard errors above zero; the first two come from the simulation in `is_dropped`.
TARGET_Z = 2.2
"""Where a rule set that is worth finding stands on the last rung."""
DROP_MARGIN_Z = 0.7
"""How far below that, for its rung, a rule set may lie without being dropped."""
ACCEPT_Z = 3.3
"""Where a rule set goes to the confirmation at once."""
SELECTION_ERROR_FACTOR = 1.5
"""What trials have shown counts as if its standard error were that many times as large: it was picked for it."""
CHEAP_SEEDS, Z_PER_DOUBLING = 250, 0.5
"""See `is_worth_confirming`, which names the benchmark that they were chosen by."""
SEARCH_STAGE = "search"


class Rung(NamedTuple):
    """What a rule set shows on a rung.

    Parameters
    ----------
    changes
        Changed episodes that the rung has.
    changed
        How many of them there were.
    z
        Mean of their differences, in standard errors.
    """

    changes: int
    changed: int
    z: float


def is_dropped(rung: Rung, last: int) -> bool:
    """Whether a rule set is dropped after a rung; `last` is the number of changed episodes of the last one.

    A rule set is worth finding if it would stand `TARGET_Z` standard errors above zero on the last rung. On a rung with
    a quarter of the episodes such a set stands half as high on average. It is dropped when it lies more than
    `DROP_MARGIN_Z` standard errors below that, which befalls a quarter of the sets that are worth it at each look, and
    most of those that are worth nothing at the first looks, which are cheap. On the last rung the same line decides who
    is confirmed.

    Simulated with normal differences, 24 to 384 changed episodes in five rungs: a rule set without effect takes 99
    changed episodes on average and is confirmed on fresh seeds in 3 of 100 cases (with Welch's test: 250 episodes, 5
    of 100). One whose changes have a mean of 0.1, 0.2, 0.3 standard deviations gets there in 40, 80, 94 % of the cases;
    Welch's test, for rule sets that change 47 % of the episodes of PAC-Man small, in 16, 36, 62 %.
    """
    return rung.z < TARGET_Z * math.sqrt(rung.changes / last) - DROP_MARGIN_Z


def is_sure(rung: Rung) -> bool:
    """Whether a rule set does so well that fresh seeds are asked at once: they will be asked in any case."""
    return rung.changed >= FEWEST_RUNG_CHANGES and rung.z >= ACCEPT_Z


def is_worth_confirming(z: float, share: float, settings: EvaluationSettings) -> bool:
    """Whether a rule set did well enough in the race for the fresh seeds that it needs.

    One that changes few episodes needs many, each a whole unguided episode. A rule set without effect that passed by
    luck stands just above the line of the race; one that is worth thousands of seeds stands higher. So the line rises
    by `Z_PER_DOUBLING` standard errors for every doubling of the seeds above `CHEAP_SEEDS`. At the default budgets as
    many of the planted faults of ``python -m lab.bench finding`` are found, with an eighth fewer steps.

    Parameters
    ----------
    z
        Mean difference of the race, in standard errors.
    share
        Of the episodes that it changes.
    settings
        Numbers of episodes.
    """
    if not settings.confirmation_changes:
        return True
    seeds = min(FEWEST_CHANGES / share, settings.confirmation_seeds) if share else settings.confirmation_seeds
    return z >= TARGET_Z - DROP_MARGIN_Z + Z_PER_DOUBLING * max(0.0, math.log2(seeds / CHEAP_SEEDS))


@dataclass
class _Entry:
    """A rule set in the race.

    Parameters
    ----------
    number
        Its number in play.
    treatment
        The first of those equal to it that were named.
    found_by
        Who named it.
    equal
        The mined rules behind other rule sets that are equal to it.
    seeds
        Seeds on which it was judged; 0 before the first rung.
    passed
        Whether it has not been dropped.
    shown
        What trials of a search have shown.
    """

    number: int
    treatment: RuleSet | Treatment
    found_by: list[str] = field(default_factory=list)
    equal: list[Rule] = field(default_factory=list)
    seeds: int = 0
    passed: bool = False
    shown: MeasuredEffect | None = None


class Race:
    """A race on the seeds of one stage; more rule sets can enter at any time.

    Parameters
    ----------
    play
        Plays pairs of episodes.
    settings
        Numbers of episodes and the level of the tests.
    """

    def __init__(self, play: PairedPlay, settings: EvaluationSettings) -> None:
        self._play, self._most = play, settings.race_seeds
        self._rungs = [settings.rung_changes * 2**k for k in range(settings.rungs)]
        self.objective = find_objective(settings.objective)
        self._entries: dict[object, _Entry] = {}

    @property
    def record(self) -> EpisodeRecord:
        """The unguided policy."""
        return self._play.record

    @property
    def entries(self) -> list[_Entry]:
        """All different rule sets, in the order in which they were named."""
        return list(self._entries.values())

    def enter(self, treatments: Sequence[RuleSet | Treatment]) -> list[_Entry]:
        """Race treatments, those that are not known yet; returns the entry of each."""
        entries = [self._entry(treatment) for treatment in treatments]
        alive = [entry for entry in self.entries if not entry.seeds]
        for changes in self._rungs if alive else ():
            self._play.play_changes({entry.number: changes for entry in alive})
            self._play.play_seeds({entry.number: self._seeds(entry, changes) for entry in alive})
            alive = [entry for entry in alive if self._goes_on(entry, changes)]
        return entries

    def _entry(self, treatment: RuleSet | Treatment) -> _Entry:
        # Two treatments that act in the same way have one key.
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
        """Judge a rule set after a rung; returns whether it plays the next."""
        entry.seeds = self._seeds(entry, changes)
        changed = int(self.pairs(entry).changed.sum())
        # Whose seeds are all used up cannot show more: this was its last rung.
        more = changed >= changes
        rung = Rung(changes if more else self._rungs[-1], changed, self.evidence(entry).z)
        enough = rung.changed >= FEWEST_RUNG_CHANGES
        entry.passed = is_sure(rung) or (enough and not is_dropped(rung, self._rungs[-1]))
        return entry.passed and more and not is_sure(rung)

    def _seeds(self, entry: _Entry, changes: int) -> int:
        """Return how many seeds a rung takes: those with its changed episodes, or as many as the objective needs."""
        return max(self._play.seeds_for(entry.number, changes), min(self.objective.rung_episodes, self._most))

    def pairs(self, entry: _Entry) -> Pairs:
        """Return the episodes of a rule set as they were played."""
        return self._play.pairs(entry.number, entry.seeds)

    def sides(self, pairs: Pairs, *, harm: bool) -> tuple[UnitResult, UnitResult]:
        """Return guided and unguided episodes, failed ones at their worst for the claim that guidance helps.

        With `harm` it is the claim that guidance does harm, and the sides are exchanged.
        """
        sides = (pairs.base, pairs.guided) if harm else (pairs.guided, pairs.base)
        if not any(side.failed.any() for side in sides):
            return sides  # that is nearly always so, and there may be thousands of results to look through
        return WorstCase(self._play.results, self.objective.value).of(*sides)

    def standing(self, entry: _Entry, *, harm: bool = False, invented_loss: float = 0.0) -> Standing:
        """Return how a rule set does by the objective; with `harm`, how the unguided policy does."""
        pairs = self.pairs(entry)
        return self.objective.standing(*self.sides(pairs, harm=harm), pairs.changed, invented_loss)

    def evidence(self, entry: _Entry) -> Standing:
        """Return how a rule set does in the race and did in trials before, together: what decides who is confirmed."""
        here, shown = self.standing(entry), entry.shown
        if shown is None or not shown.error > 0.0 or not here.error > 0.0:
            return here
        there = 1.0 / (SELECTION_ERROR_FACTOR * shown.error) ** 2
        race = 1.0 / here.error**2
        mean, error = (there * shown.mean + race * here.difference) / (there + race), 1.0 / math.sqrt(there + race)
        return Standing(mean, error, mean / error, float(stats.norm.sf(mean / error)))

    def measure(self, named: Sequence[Named]) -> list[MeasuredEffect]:
        """Race rule sets, each with the name of its source.

        Returns how each changed the objective on the seeds on which it was judged.
        """
        for name, rule_set, shown in named:
            entry = self._entry(rule_set)
            entry.shown = entry.shown or shown
            if name not in entry.found_by:
                entry.found_by.append(name)
        entries = self.enter([one.rule_set for one in named])
        return [self._effect(entry, self._play.steps(entry.number)) for entry in entries]

    def explore(self, trial: Trial) -> list[MeasuredEffect]:
        """Play rule sets until as many episodes were changed as the trial says, and drop none.

        Returns how each changed the objective. The steps are those that were played for this trial; where more of the
        unguided policy was played for it, that is counted with the first rule set.
        """
        entries = [self._entry(rule_set) for rule_set in trial.rule_sets]
        before = [self._play.steps(entry.number) for entry in entries]
        known = self._play.record.known
        self._play.play_changes({entry.number: trial.changes for entry in entries}, trial.seeds)
        for entry in entries:
            entry.seeds = min(self._seeds(entry, trial.changes), trial.seeds)
        self._play.play_seeds({entry.number: entry.seeds for entry in entries})
        steps = [self._play.steps(entry.number) - n for entry, n in zip(entries, before, strict=True)]
        steps[0] += int(self._play.record.result.lengths[known:].sum()) if self._play.record.known > known else 0
        return [self._effect(entry, n) for entry, n in zip(entries, steps, strict=True)]

    def _effect(self, entry: _Entry, steps: int) -> MeasuredEffect:
        standing, pairs = self.standing(entry), self.pairs(entry)
        changed, share = int(pairs.changed.sum()), Sample.of(pairs.guided).changed
        return MeasuredEffect(standing.difference, standing.error, standing.p, changed, entry.seeds, steps, share)

    def steps(self, entry: _Entry) -> int:
        """How many environment steps were played with a rule set."""
        return self._play.steps(entry.number)

    def share(self, entry: _Entry) -> float:
        """The share of the episodes that a rule set changes."""
        changed, seeds = self._play.changes(entry.number)
        return changed / seeds


def _detectable(standing: Standing, changed: int, alpha: float) -> float | None:
    """Return the smallest effect that a test would show with a power of 80 %, by the standard error so far."""
    return float(stats.norm.isf(alpha) + stats.norm.ppf(POWER)) * standing.error if changed > 1 else None


class Exploration:
    """Tries rule sets for sources that search, on seeds that nothing else is judged on; played when it is asked for.

    Parameters
    ----------
    setup, seed, settings, run, on_episodes
        As in `legible.evaluation.evaluate`.
    """

    def __init__(
        self,
        setup: Setup,
        seed: int,
        settings: EvaluationSettings,
        run: Runner = run_units,
        on_episodes: Callable[[int], None] | None = None,
    ) -> None:
        self._race = cache(lambda: _open_race(setup, seed, SEARCH_STAGE, settings, run, on_episodes)[0])

    def __call__(self, trial: Trial) -> list[MeasuredEffect]:
        """Try rule sets."""
        return self._race().explore(trial)


def _open_race(
    setup: Setup,
    seed: int,
    stage: str,
    settings: EvaluationSettings,
    run: Runner,
    on_episodes: Callable[[int], None] | None,
) -> tuple[Race, Repetition]:
    """Open a race on the seeds of a stage, and say whether the same seed gives the same episode there."""
    searches = stage == SEARCH_STAGE
    repetition = find_repetition(setup, seed, stage, run)
    this = replace(setup, treatments=(), rows=repetition.rows)
    record = EpisodeRecord(this, seed, stage, SEARCH_SEEDS if searches else settings.race_seeds, run, on_episodes)
    return Race(PairedPlay(this, repetition, record, run, on_episodes, full_units=searches), settings), repetition


def race(
    setup: Setup,
    *,
    seed: int,
    settings: EvaluationSettings,
    confirmed: bool = True,
    sources: Mapping[str, Hypotheses] | None = None,
    run: Runner = run_units,
    on_episodes: Callable[[int], None] | None = None,
) -> Evaluation:
    """Race every treatment of the setup and every rule set of the sources; parameters as for `evaluate`."""

    @cache
    def begin() -> tuple[Race, Repetition]:
        """Begin the race, when all searches are done."""
        found, repetition = _open_race(setup, seed, "racing", settings, run, on_episodes)
        found.enter(setup.treatments)
        return found, repetition

    explore = Exploration(setup, seed, settings, run, on_episodes)
    ask_sources(sources or {}, lambda named: begin()[0].measure(named), explore)  # noqa: PLW0108 (not before it is needed)
    found, repetition = begin()
    this, record = replace(setup, treatments=(), rows=repetition.rows), found.record
    record.extend(1)  # the unguided policy is measured even if there is nothing to compare it with
    candidates = _candidates(found, settings)
    verdicts = _verdicts(found, candidates, settings.alpha)
    unguided_steps = repetition.steps + int(record.result.lengths.sum())
    evaluation = Evaluation(
        Sample.of(record.result),
        tuple(verdicts),
        settings,
        unguided_steps=unguided_steps,
        repetition=repetition,
    )
    if not confirmed or not candidates or not settings.confirmation_changes:
        return evaluation
    played = confirm(
        this,
        repetition,
        [verdicts[i].treatment for i in candidates],
        [_expectation(found, found.entries[i], len(candidates), settings.alpha) for i in candidates],
        seed=seed,
        settings=settings,
        run=run,
        on_episodes=on_episodes,
    )
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
        unguided_steps=evaluation.unguided_steps + int(played.blocks.base.lengths.sum()),
    )


def _candidates(found: Race, settings: EvaluationSettings) -> list[int]:
    """The entries that are confirmed."""
    passed: list[int] = []
    contenders = []
    for i, entry in enumerate(found.entries):
        evidence = found.evidence(entry)
        if entry.passed and is_worth_confirming(evidence.z, found.share(entry), settings):
            passed.append(i)
            worth = evidence.difference - evidence.error
            contenders.append(Contender(tuple(entry.found_by), worth, found.pairs(entry)))
    return [passed[k] for k in choose_contenders(contenders, settings.most_confirmed)]


def _expectation(found: Race, entry: _Entry, tests: int, alpha: float) -> Expectation:
    """What the race lets expect of a rule set on fresh seeds."""
    here, changed = found.standing(entry), int(found.pairs(entry).changed.sum())
    needed = changes_for_power(changed, found.evidence(entry).difference, here.error, tests, alpha)
    return Expectation(found.share(entry), needed)


def changes_for_power(changed: int, difference: float, error: float, tests: int, alpha: float) -> int:
    """How many changed episodes show a difference with a power of 80 %, if no other of some tests finds anything.

    `error` is its standard error on as many episodes as were `changed`. 0 where there is no difference to show.
    """
    if difference <= 0.0:
        return 0
    wanted = float(stats.norm.isf(alpha / tests) + stats.norm.ppf(POWER))
    return math.ceil(changed * (wanted * error / difference) ** 2)


def _verdicts(found: Race, candidates: Sequence[int], alpha: float) -> list[Verdict]:
    chosen = set(candidates)
    helps = [found.standing(entry) for entry in found.entries]
    changed = [int(found.pairs(entry).changed.sum()) for entry in found.entries]
    # As in the confirmation: a rare large gain that has not been seen may outweigh many small losses.
    gain = found.objective.invented_loss(found.sides(found.pairs(entry), harm=True) for entry in found.entries)
    p = [standing.p for standing in helps]
    p_harm = [found.standing(entry, harm=True, invented_loss=gain).p for entry in found.entries]
    q, q_harm = benjamini_hochberg(p), benjamini_hochberg(p_harm)
    return [
        Verdict(
            treatment=entry.treatment,
            sample=Sample.of(found.pairs(entry).guided),
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
            detectable=_detectable(helps[i], changed[i], alpha),
            is_set_aside=entry.passed and i not in chosen,
            steps=found.steps(entry),
        )
        for i, entry in enumerate(found.entries)
    ]
