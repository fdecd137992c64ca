"""The verdict on a user's own rules: `try_rule` plays them in pairs of episodes until the verdict is clear.

Only episodes that a rule changes are played, from the first change on where states can be copied. Results are judged at
looks that are fixed in advance (`legible.workbench.looks`).
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.display import Displayed
from legible.engines import Engine
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import WorstCase
from legible.evaluation.changes import NEVER
from legible.evaluation.pairs import PairedPlay, Pairs
from legible.evaluation.recorded import REPEATED_EPISODES, STEPS, EpisodeRecord
from legible.evaluation.relevance import relevant_effect
from legible.evaluation.statistics import standard_error
from legible.features import FeatureSpace
from legible.formatting import counted, number, percent, signed
from legible.play.stages import STAGE_EPISODES
from legible.policies import Policy
from legible.rules import Rule, RuleSet, parse_rule
from legible.settings import FEWEST_CHANGES
from legible.study import Progress, Study
from legible.study.fingerprint import is_same_behaviour
from legible.study.inputs import check_fallback
from legible.study.own_rules import Form, forms_of
from legible.workbench.arena import Arena, arena_of, check_pairing, open_arena
from legible.workbench.looks import (
    ALPHA,
    FIRST_SEEDS,
    Interval,
    Plan,
    PlausibleExtremes,
    changed_looks,
    interval_of_changed,
    largest_plausible,
)

Verdict = Literal["helps", "harms", "no effect", "undecided", "too few changed episodes", "preliminary"]
MOST_CHANGED, MOST_SEEDS = 6400, 10_000
HOPELESS_SEEDS = 1000
"""Seeds after which a rule that has not changed a single episode is given up."""
EXAMPLES = 3
_PRELIMINARY = (50, 100)
"""Numbers of changed episodes at which figures without a verdict are shown."""


@dataclass(frozen=True)
class Example:
    """A state in which a rule first changes an episode.

    `values` are features by name, `action` is what the policy does there.
    """

    seed: int
    step: int
    values: Mapping[str, float]
    action: str

    def text(self) -> str:
        """Return the example in a line."""
        values = ", ".join(f"{name} = {number(value)}" for name, value in self.values.items())
        return f"seed {self.seed}, step {self.step}: {values}; the policy takes {self.action}"


@dataclass(frozen=True)
class RuleResult:
    """The result of one rule, alone or with its related forms.

    Parameters
    ----------
    rule_set, form
        The rules.
    verdict
        "helps" and "harms": the interval excludes zero. "no effect": it lies within the smallest effect of interest.
        "preliminary": before the first look.
    effect, error
        Change of the mean return over all seeds, and its standard error.
    interval
        The interval at the level of the current look; None before the first look.
    changed, seeds
        Number of changed episodes, and of all.
    base_mean
        Mean return of the unguided policy on these seeds.
    override_rate, fired
        Shares of the steps of the guided policy in which the rules change the action, and in which they hold.
    relevant
        Smallest effect of interest; NaN before the first look.
    examples
        States in which it changes the action.
    """

    rule_set: RuleSet
    form: Form
    verdict: Verdict
    effect: float
    error: float
    interval: Interval | None
    changed: int
    seeds: int
    base_mean: float
    override_rate: float
    fired: float
    relevant: float = math.nan
    examples: tuple[Example, ...] = ()

    @property
    def is_decided(self) -> bool:
        """True if more episodes would not change the verdict."""
        return self.verdict in ("helps", "harms", "no effect")

    def sentence(self) -> str:
        """Return the verdict in a sentence: the conclusion first, then the numbers."""
        episodes = f"{number(self.changed)} of {counted(self.seeds, 'episode')} changed"
        if self.verdict == "too few changed episodes":
            if self.fired == 0.0 and not self.changed:
                return f"No verdict: its conditions never held in {counted(self.seeds, 'episode')}."
            if not self.changed:
                return f"No verdict: the policy already does this in all {counted(self.seeds, 'episode')}."
            return f"No verdict: too few changed episodes ({episodes}; a test needs {FEWEST_CHANGES})."
        if self.interval is None:
            return f"Preliminary: {signed(self.effect)} ± {number(self.error, 2)} ({episodes})."
        bounds = f"{signed(self.interval.low)} to {signed(self.interval.high)}"
        figures = f"{signed(self.effect)} ({bounds}) on a mean return of {number(self.base_mean)}; {episodes}"
        if self.verdict == "no effect":
            return f"No effect beyond ±{number(self.relevant)}: {figures}."
        words = {"helps": "It helps", "harms": "It harms", "undecided": "Undecided"}
        return f"{words[self.verdict]}: {figures}."


class Sample(NamedTuple):
    """The changed episodes of a rule set.

    Gains (guided minus unguided return) and losses (the negative) differ in failed episodes only, which count as the
    worst case for each. `plausible` are the loss and gain that are too rare to be seen, `figures` the result without a
    verdict.
    """

    gains: NDArray[np.float64]
    losses: NDArray[np.float64]
    plausible: PlausibleExtremes
    figures: RuleResult


@dataclass(frozen=True, repr=False)
class TryResult(Displayed):
    """The verdicts on rules that were tried together.

    `relevant` is the smallest effect of interest, `is_fresh` whether the rules were tried on seeds that no other rule
    was tried on, `reused` whether unguided episodes come from an earlier command, `seconds` how long it took.
    """

    rules: tuple[RuleResult, ...]
    space: FeatureSpace
    relevant: float
    plan: Plan
    is_fresh: bool
    reused: bool
    seconds: float

    @property
    def first(self) -> RuleResult:
        """The first rule, alone."""
        return self.rules[0]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the first rule, alone."""
        return self.first.verdict

    @property
    def effect(self) -> float:
        """The effect of the first rule, alone, on the mean return."""
        return self.first.effect

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of that effect; None if there were too few changed episodes for a test."""
        interval = self.first.interval
        return None if interval is None else (interval.low, interval.high)

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        verdicts = {f"{r.rule_set.short_text(self.space)} ({r.form})": r.sentence() for r in self.rules}
        return {**verdicts, "smallest effect of interest": f"±{number(self.relevant)}", "seeds": self.seeds_sentence()}

    def __repr__(self) -> str:
        return f"<TryResult: {self.first.rule_set.short_text(self.space)}: {self.first.sentence()}>"

    def seeds_sentence(self) -> str:
        """Return whether the seeds were fresh, which decides what the verdict may be used for."""
        if self.is_fresh:
            return "fresh: no other rule was tried on them"
        again = (
            "an earlier command used them, too" if self.reused else "other rules for this policy are tried on them, too"
        )
        return f"exploratory ({again}); for a claim, test on fresh seeds with --confirm"

    def level_sentence(self) -> str:
        """Return the sentence on the confidence level of all intervals together."""
        tests, looks = counted(self.plan.questions, "test"), counted(len(self.plan.looks), "look")
        return f"All intervals hold together with {percent(1 - self.plan.alpha)} confidence ({tests}, at most {looks})."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "rules": [
                {
                    **{name: value for name, value in asdict(result).items() if name not in ("rule_set", "interval")},
                    "rule": result.rule_set.short_text(self.space),
                    "related_forms": [rule.text(self.space) for rule in result.rule_set.rules],
                    "interval": None if result.interval is None else [result.interval.low, result.interval.high],
                    "level": None if result.interval is None else 1.0 - 2.0 * result.interval.level,
                }
                for result in self.rules
            ],
            "relevant_effect": self.relevant,
            "alpha": self.plan.alpha,
            "looks": list(self.plan.looks),
            "fresh_seeds": self.is_fresh,
            "seconds": self.seconds,
        }


def try_rule(
    environment: str | EnvironmentSpec | Study | Arena,
    policy: str | Path | Policy | None,
    *rules: str | Rule | RuleSet,
    related: bool = True,
    confirm: bool = False,
    relevant: float | None = None,
    alpha: float = ALPHA,
    most_changed: int = MOST_CHANGED,
    most_seeds: int = MOST_SEEDS,
    minutes: float | None = None,
    save: str | Path | None = None,
    trust: bool = False,
    on_figures: Callable[[Sequence[RuleResult], FeatureSpace], None] | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> TryResult:
    """Play rules and return whether each helps the policy, harms it, or has no effect.

    Parameters
    ----------
    environment, policy
        As for `legible.Study`; or a study and None, whose policy and unguided episodes are used; or an open arena and
        None, whose engine and progress are used.
    rules
        Rules such as ``"+Brake <- gap < 5"``. The rules of a `RuleSet` guide together.
    related
        Whether rules are also tried together with their related forms, which relations (symmetries of the task) make.
    confirm
        Whether to use fresh seeds. Without it, all rules for a policy are tried on the same seeds, which is fast; use
        those results to explore, not for claims.
    relevant, alpha
        Smallest effect of interest in points, by default 2 % of the scale of the task (`relevant_effect`); probability
        that any of the intervals misses its true value.
    most_changed, most_seeds, minutes
        Limits: changed episodes of the last look, seeds, and time, which is checked now and then.
    save, trust
        Folder of a study of the same policy that the rules are added to; whether to import code that it names.
    on_figures
        Called with the results so far, while episodes are played.
    engine, progress
        Where episodes run, by default in this process; called with the progress, as for `legible.Study`.
    options
        Further arguments of `legible.workbench.open_arena`: names, features, relations, seed, stochastic, cache, …. A
        study has its own.

    >>> try_rule("CartPole-v1", "policy.zip", "+Left <- pole.angle < 0").verdict  # doctest: +SKIP
    'helps'
    """
    if not rules:
        raise LegibleError("there is no rule to try; give one such as '+Left <- pole.angle < 0'.")
    started = time.monotonic()

    # The arena: a policy in an environment, ready to play.
    if isinstance(environment, Arena):
        arena = environment
    elif isinstance(environment, Study):
        arena = arena_of(environment, progress=progress, engine=engine)
    elif policy is None:
        raise LegibleError("a policy is needed, or a study.")
    else:
        arena = open_arena(environment, policy, engine=engine, progress=progress, **options)

    # Everything that can be wrong is found before anything is played.
    parsed = [parse_rule(rule, arena.space) if isinstance(rule, str) else rule for rule in rules]
    texts = [text for rule in parsed for text in rule.text(arena.space).splitlines()]
    check_fallback(arena.policy, texts)
    study = None if save is None else _study_to_extend(save, arena, trust=trust)

    # The stage names the seeds. Fresh ones are drawn from the texts of the rules, so that other rules get others.
    stage, first_seed = exploring_stage(arena), 0
    if confirm:
        stage, first_seed = "try confirmation", _fresh_block(texts, most_seeds)
    with arena.engine:
        deadline = None if minutes is None else started + 60.0 * minutes
        candidates = _candidates(parsed, arena, related=related)
        trial = Trial(arena, candidates, stage, first_seed, most_seeds, on_figures, deadline)
        plan = Plan(changed_looks(most_changed), len(candidates), alpha)
        results = trial.run(plan, relevant)
        reused = arena.study is not None or arena.store(STEPS).reused > 0  # unguided episodes of earlier commands
    if study is not None:
        study.add_rules(texts)
    elapsed = time.monotonic() - started
    return TryResult(tuple(results), arena.space, trial.relevant, plan, confirm, reused, elapsed)


def exploring_stage(arena: Arena) -> str:
    """Return the stage on whose seeds rules are tried: of a study its race, whose unguided episodes are kept."""
    return "try" if arena.study is None else "racing"


def _fresh_block(rules: Sequence[str], seeds: int) -> int:
    """Return where the fresh seeds of rules begin: the same rules get the same seeds, other rules others."""
    digest = hashlib.sha256("\n".join(rules).encode()).digest()
    return int.from_bytes(digest[:8], "big") % (STAGE_EPISODES // seeds) * seeds


class Candidate(NamedTuple):
    """Rules to try together: one rule alone, or with its related forms."""

    rule_set: RuleSet
    form: Form


def _candidates(rules: Sequence[Rule | RuleSet], arena: Arena, *, related: bool) -> list[Candidate]:
    """Return each rule alone and, with `related`, together with the forms that the arena's relations make from it."""
    candidates: list[Candidate] = []
    for rule in rules:
        if isinstance(rule, RuleSet):
            candidates.append(Candidate(rule, "alone"))
        else:
            forms = forms_of(rule, arena.relations if related else ())
            candidates += [Candidate(rule_set, form) for rule_set, form in forms]
    return candidates


def _study_to_extend(folder: str | Path, arena: Arena, *, trust: bool) -> Study:
    study = Study.open(folder, trust=trust)
    fingerprint = arena.fingerprint.partition(" ")[2] if arena.study is None else arena.fingerprint
    if study.environment.name != arena.environment.name or not is_same_behaviour(study.fingerprint, fingerprint):
        raise LegibleError(f"{folder}: is the study of another policy or environment; nothing was added to it.")
    return study


class Trial:
    """Rule sets that are tried on the seeds of one stage.

    `relevant` is the smallest effect of interest; NaN before the first look.
    """

    def __init__(
        self,
        arena: Arena,
        candidates: Sequence[Candidate],
        stage: str,
        first_seed: int,
        most_seeds: int,
        on_figures: Callable[[Sequence[RuleResult], FeatureSpace], None] | None = None,
        deadline: float | None = None,
    ) -> None:
        """Check that seeds give the same episodes again, and prepare the play; only first figures are played here.

        `arena` is a policy in an environment, and `candidates` are the rule sets to try on it. Episodes take at most
        `most_seeds` seeds of a `stage` (a range of seeds for one purpose), from number `first_seed` of the stage on.
        `on_figures` is called with results so far; after `deadline`, a time of `time.monotonic`, no more is played.
        """
        self._arena, self._candidates, self._stage, self._on_figures = arena, candidates, stage, on_figures
        self._deadline = deadline
        self.relevant = self._random_mean = math.nan  # unknown before the first look
        # Pairs of episodes make sense only if the same seed gives the same episode.
        repetition = check_pairing(arena, stage)
        setup, runner = replace(arena.setup, rows=repetition.rows), arena.runner(stage)

        def pair_with(unguided: EpisodeRecord) -> PairedPlay:
            """Return the play of all candidates on the seeds of recorded unguided episodes."""
            play = PairedPlay(setup, repetition, unguided, runner)
            for candidate in candidates:
                play.add(candidate.rule_set)
            return play

        if on_figures is not None and first_seed == 0:
            # `check_pairing` has played the episodes of the seeds from 0 on, so the first figures cost little.
            self._play = pair_with(EpisodeRecord(setup, arena.seed, stage, REPEATED_EPISODES, runner))
            self._play.play_seeds(dict.fromkeys(range(len(candidates)), REPEATED_EPISODES))
            self._report_figures({})
        self._play = pair_with(EpisodeRecord(setup, arena.seed, stage, most_seeds, runner, first=first_seed))

    def run(self, plan: Plan, relevant: float | None) -> list[RuleResult]:
        """Return the result of every candidate, after playing until all are decided or a limit is reached.

        Parameters
        ----------
        plan
            The looks: numbers of changed episodes, fixed in advance, after which candidates are tested.
        relevant
            Smallest effect of interest in points; None for 2 % of the scale of the task.
        """
        waiting = list(range(len(self._candidates)))  # indexes of the candidates that are not decided
        if self._on_figures is not None:
            for changes in _PRELIMINARY:  # small numbers of changed episodes, for figures without a verdict
                self._play_changes(waiting, changes)
                self._report_figures({})
        results: dict[int, RuleResult] = {}
        for look in plan.looks:
            if not waiting or (results and self._is_late()):  # the first look is always played
                break
            self._play_changes(waiting, look)
            if not results:  # the first look: only now is the scale of the task known
                self._random_mean = self._arena.random_mean(self._stage)
                setting = "2 %" if relevant is None else repr(relevant)
                self.relevant = relevant_effect(self._play.record.result.played.returns, self._random_mean, setting)
            n_changed = {index: self._play.changes(index)[0] for index in waiting}
            has_enough = [index for index in waiting if n_changed[index] >= look]
            # The others have changed too few episodes: seeds or time are used up, or no change was seen. Those that an
            # earlier look judged keep its verdict.
            for index in set(waiting) - set(has_enough) - set(results):
                figures = self._summarise(index, self._pairs(index))
                results[index] = replace(figures, verdict="too few changed episodes")
            results |= self._judge(has_enough, look, plan)
            self._report_figures(results)
            waiting = [index for index in has_enough if not results[index].is_decided]
        return [replace(results[index], examples=self._examples(index)) for index in range(len(self._candidates))]

    def _play_changes(self, indexes: Sequence[int], changes: int) -> None:
        """Play candidates until each has changed `changes` episodes, or there are no more seeds or time.

        `indexes` are the indexes of the candidates. One that has not changed any episode is given up early.
        """
        waiting, seeds = list(indexes), FIRST_SEEDS
        while waiting and not (self._is_late() and self._play.record.known):
            self._play.play_changes(dict.fromkeys(waiting, changes), seeds)
            unfinished = []
            for index in waiting:
                changed, examined = self._play.changes(index)
                has_seeds_left = changed < changes and examined < self._play.record.most
                if has_seeds_left and (changed or seeds < HOPELESS_SEEDS):
                    unfinished.append(index)
            waiting = unfinished
            seeds *= 2

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _pairs(self, index: int, changes: int | None = None) -> Pairs:
        """Return a candidate's pairs of episodes on all its seeds, or up to its `changes`-th changed episode."""
        seeds = self._play.changes(index)[1] if changes is None else self._play.seeds_for(index, changes)
        self._play.play_seeds({index: seeds})
        return self._play.pairs(index, seeds)

    def _judge(self, indexes: Sequence[int], look: int, plan: Plan) -> dict[int, RuleResult]:
        """Return the verdicts on candidates by index, at a look that all of them have reached."""
        pairs = {index: self._pairs(index, look) for index in indexes}
        differences = {index: self._differences(of_candidate) for index, of_candidate in pairs.items()}
        plausible = self._plausible()
        results = {}
        for index, of_candidate in pairs.items():
            gains, losses = differences[index]
            interval = interval_of_changed(gains, losses, len(of_candidate), plan.tail, self._arena.seed, plausible)
            verdict: Verdict = "helps" if interval.side > 0 else "harms" if interval.side < 0 else "undecided"
            if interval.lies_within(self.relevant):
                verdict = "no effect"
            figures = self._summarise(index, of_candidate)
            results[index] = replace(figures, verdict=verdict, interval=interval, effect=interval.mean)
        return results

    def _differences(self, pairs: Pairs) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return gains and losses of the changed episodes; failed ones count as the worst case for each."""
        worst = WorstCase(self._play.results)
        differences = []
        for better, other in ((pairs.guided, pairs.base), (pairs.base, pairs.guided)):
            better_at_worst, other_at_best = worst.of(better, other)
            differences.append((better_at_worst.returns - other_at_best.returns)[pairs.changed])
        gains, losses = differences
        return gains, losses

    def _plausible(self) -> PlausibleExtremes:
        """Return the largest loss and gain of an episode that are plausible."""
        returns = np.concatenate([result.played.returns for result in self._play.results])
        base_mean = float(self._play.record.result.played.returns.mean())
        return largest_plausible(returns, base_mean, self._random_mean)

    def sample(self, changes: int) -> Sample:
        """Play the first candidate until it has changed `changes` episodes, and return them, without a test."""
        self._play_changes([0], changes)
        self._random_mean = self._arena.random_mean(self._stage)
        pairs = self._pairs(0, changes)
        gains, losses = self._differences(pairs)
        return Sample(gains, losses, self._plausible(), self._summarise(0, pairs))

    def _summarise(self, index: int, pairs: Pairs) -> RuleResult:
        """Return the figures of a candidate from its pairs of episodes, without a verdict."""
        difference = np.nan_to_num(pairs.guided.returns - pairs.base.returns)  # failed episodes count as unchanged
        steps = max(1, int(pairs.guided.lengths.sum()))
        rule_set, form = self._candidates[index]
        return RuleResult(
            rule_set,
            form,
            "preliminary",
            effect=float(difference.mean()),
            error=standard_error(difference) if len(difference) > 1 else math.nan,
            interval=None,
            changed=int(pairs.changed.sum()),
            seeds=len(pairs),
            base_mean=float(pairs.base.played.returns.mean()) if len(pairs.base.played) else math.nan,
            override_rate=float(pairs.guided.changed.sum()) / steps,
            fired=float(pairs.guided.fired.sum()) / steps,
            relevant=self.relevant,
        )

    def _report_figures(self, results: Mapping[int, RuleResult]) -> None:
        """Pass the results so far to `on_figures`; a candidate that is not among `results` has preliminary figures."""
        if self._on_figures is None:
            return
        figures = []
        for index in range(len(self._candidates)):
            result = results.get(index) or self._summarise(index, self._pairs(index))
            figures.append(replace(result, examples=self._examples(index)))
        self._on_figures(figures, self._arena.space)

    def _examples(self, index: int) -> tuple[Example, ...]:
        """Return the first states in which a candidate changes the policy's action, from different episodes."""
        space, rule_set = self._arena.space, self._candidates[index].rule_set
        features_used = list(dict.fromkeys(feature for rule in rule_set.rules for feature in rule.features))
        first_steps, record = self._play.first_changes(index), self._play.record
        examples = []
        for episode in np.flatnonzero(first_steps != NEVER)[:EXAMPLES].tolist():
            # The part of the record that holds this episode, the episode's number in it, and the row of its step.
            ((episodes_of_part, part),) = record.parts(episode, episode + 1)
            number_in_part = episode - episodes_of_part.start
            if part.failed[number_in_part]:
                continue
            row = int(part.starts[number_in_part] + first_steps[episode])
            observation, scores = part.observations[row], part.scores[row]
            # The policy's action among the choices that the rule is about.
            choices = space.groups[space.group_of(rule_set.rules[0].action)].choices
            action = space.action_names[choices][int(np.argmax(scores[choices]))]
            values = {space.names[feature]: float(observation[feature]) for feature in features_used}
            examples.append(Example(int(record.seeds[episode]), int(first_steps[episode]), values, action))
        return tuple(examples)
