"""The verdict on a user's own rules.

- `try_rule`: plays rules in pairs of episodes until the verdict is clear; returns a `TryResult`.
- `RuleResult`: the result of one rule, alone or with its related forms; `Example`: a state in which it changes the
  action.

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
from legible.formatting import capitalise, counted, number, percent, signed
from legible.play.stages import STAGE_EPISODES
from legible.policies import Policy
from legible.relations import generalise
from legible.rules import Rule, RuleSet, parse_rule
from legible.study import Progress, Study
from legible.study.fingerprint import is_same_behaviour
from legible.study.inputs import check_fallback
from legible.workbench.arena import Arena, arena_of, check_pairing, open_arena
from legible.workbench.looks import (
    ALPHA,
    FIRST_SEEDS,
    Interval,
    Plan,
    changed_looks,
    interval_of_changed,
    largest_plausible,
)

Form = Literal["alone", "with related forms"]
Verdict = Literal["helps", "harms", "no effect", "undecided", "too few changed episodes", "preliminary"]
MOST_CHANGED, MOST_SEEDS = 6400, 10_000
HOPELESS_SEEDS = 1000
"""Seeds after which a rule that has not changed a single episode is given up."""
EXAMPLES = 3
# Numbers of changed episodes at which preliminary figures are shown.
_PRELIMINARY = (50, 100)


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
        """Whether more episodes would not change the verdict."""
        return self.verdict in ("helps", "harms", "no effect")

    def sentence(self) -> str:
        """Return the verdict in a sentence: the conclusion first, then the numbers."""
        episodes = f"{number(self.changed)} of {counted(self.seeds, 'episode')} changed"
        if self.verdict == "too few changed episodes":
            if self.fired == 0.0 and not self.changed:
                return f"No verdict: its conditions never held in {counted(self.seeds, 'episode')}."
            if not self.changed:
                return f"No verdict: the policy already does this in all {counted(self.seeds, 'episode')}."
            return f"No verdict: too few changed episodes ({episodes}; a test needs 200)."
        if self.interval is None:
            return f"Preliminary: {signed(self.effect)} ± {number(self.error, 2)} ({episodes})."
        bounds = f"{signed(self.interval.low)} to {signed(self.interval.high)}"
        figures = f"{signed(self.effect)} ({bounds}) on a mean return of {number(self.base_mean)}; {episodes}"
        if self.verdict == "no effect":
            return f"No effect: the interval lies within ±{number(self.relevant)}. {capitalise(figures)}."
        words = {"helps": "It helps", "harms": "It harms", "undecided": "Undecided"}
        return f"{words[self.verdict]}: {figures}."


class Sample(NamedTuple):
    """The changed episodes of a rule set.

    Gains and losses are differences of returns, the same but for failed episodes; `invented_loss` and `invented_gain`
    are the sizes that are too rare to be seen, `figures` the result without a verdict.
    """

    gains: NDArray[np.float64]
    losses: NDArray[np.float64]
    invented_loss: float
    invented_gain: float
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
        found = self.first.interval
        return None if found is None else (found.low, found.high)

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        shown: dict[str, object] = {}
        for result in self.rules:
            text = result.rule_set.short_text(self.space)
            shown[f"{text} ({result.form})"] = result.sentence()
        return {**shown, "smallest effect of interest": f"±{number(self.relevant)}", "seeds": self.seeds_sentence()}

    def __repr__(self) -> str:
        return f"<TryResult: {self.first.rule_set.short_text(self.space)}: {self.first.sentence()}>"

    def seeds_sentence(self) -> str:
        """Say what the verdict may be used for."""
        if self.is_fresh:
            return "fresh: no other rule was tried on them"
        again = "an earlier command played them, too" if self.reused else "later tries of this policy use them again"
        return f"exploratory ({again}); --confirm tests on fresh seeds"

    def level_sentence(self) -> str:
        """Say what the intervals hold for."""
        tests, looks = counted(self.plan.questions, "test"), counted(len(self.plan.looks), "look")
        return f"All intervals hold together with {percent(1 - self.plan.alpha)} ({tests}, at most {looks})."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "rules": [
                {
                    **{name: value for name, value in asdict(r).items() if name not in ("rule_set", "interval")},
                    "rule": r.rule_set.short_text(self.space),
                    "related_forms": [rule.text(self.space) for rule in r.rule_set.rules],
                    "interval": None if r.interval is None else [r.interval.low, r.interval.high],
                    "level": None if r.interval is None else 1.0 - 2.0 * r.interval.level,
                }
                for r in self.rules
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
    """Find out whether rules help a policy, harm it, or have no effect.

    Parameters
    ----------
    environment, policy
        As for `legible.Study`; or a study and None, whose policy and unguided episodes are used; or an open arena and
        None, whose engine and progress are used.
    rules
        Rules such as ``"+Brake <- gap < 5"``. The rules of a `RuleSet` guide together.
    related
        Whether rules are also tried together with their related forms.
    confirm
        Whether to use fresh seeds. Without it, all rules for a policy are tried on the same seeds, which is fast; use
        those results to explore, not for claims.
    relevant
        Smallest effect of interest in points; by default 2 % of the scale of the task (`relevant_effect`).
    alpha
        Probability that any of the intervals misses its true value.
    most_changed, most_seeds, minutes
        Limits: changed episodes of the last look, seeds, and time, which is checked now and then.
    save
        Folder of a study of the same policy that the rules are added to.
    trust
        Whether to import code that this folder names, as for `legible.Study.open`.
    on_figures
        Called with the results so far, while episodes are played.
    engine, progress
        Where episodes run, by default in this process; a function that is called with the progress, as for
        `legible.Study`.
    options
        Further arguments of `legible.workbench.open_arena`: names, features, relations, seed, stochastic, cache, …. A
        study has its own.

    >>> try_rule("CartPole-v1", "policy.zip", "+Left <- pole.angle < 0").verdict  # doctest: +SKIP
    'helps'
    """
    if not rules:
        raise LegibleError("there is no rule to try; give one such as '+Left <- pole.angle < 0'.")
    started = time.monotonic()
    if isinstance(environment, Arena):
        arena = environment
    elif isinstance(environment, Study):
        arena = arena_of(environment, progress=progress, engine=engine)
    elif policy is None:
        raise LegibleError("a policy is needed, or a study.")
    else:
        arena = open_arena(environment, policy, engine=engine, progress=progress, **options)
    parsed = [parse_rule(rule, arena.space) if isinstance(rule, str) else rule for rule in rules]
    texts = [text for rule in parsed for text in rule.text(arena.space).splitlines()]
    check_fallback(arena.policy, texts)
    study = None if save is None else _study_to_extend(save, arena, trust=trust)
    stage, first_seed = exploring_stage(arena), 0
    if confirm:
        stage, first_seed = "try confirmation", _fresh_block(texts, most_seeds)
    with arena.engine:
        deadline = None if minutes is None else started + 60.0 * minutes
        forms = _forms(parsed, arena, related=related)
        trial = Trial(arena, forms, stage, first_seed, most_seeds, on_figures, deadline)
        plan = Plan(changed_looks(most_changed), len(trial.forms), alpha)
        results = trial.run(plan, relevant)
        reused = arena.study is not None or arena.store(STEPS).reused > 0
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


def _forms(rules: Sequence[Rule | RuleSet], arena: Arena, *, related: bool) -> list[tuple[RuleSet, Form]]:
    forms: list[tuple[RuleSet, Form]] = []
    for rule in rules:
        if isinstance(rule, RuleSet):
            forms.append((rule, "alone"))
            continue
        forms.append((RuleSet((rule,), rule), "alone"))
        found = generalise(rule, arena.relations).rule_set if related else RuleSet(())
        if len(found) and set(found.rules) != {rule}:
            forms.append((found, "with related forms"))
    return forms


def _study_to_extend(folder: str | Path, arena: Arena, *, trust: bool) -> Study:
    study = Study.open(folder, trust=trust)
    fingerprint = arena.fingerprint.partition(" ")[2] if arena.study is None else arena.fingerprint
    if study.environment.name != arena.environment.name or not is_same_behaviour(study.fingerprint, fingerprint):
        raise LegibleError(f"{folder}: is the study of another policy or environment; nothing was added to it.")
    return study


class Trial:
    """Rule sets that are tried on the seeds of one stage.

    Parameters
    ----------
    arena, forms
        Policy and environment, and the rule sets.
    stage, first, most_seeds
        The stage, the number of its seeds to skip, and the maximum number of seeds.
    on_figures, deadline
        Called with the results so far; the time after which no more is played.
    """

    def __init__(
        self,
        arena: Arena,
        forms: list[tuple[RuleSet, Form]],
        stage: str,
        first: int,
        most_seeds: int,
        on_figures: Callable[[Sequence[RuleResult], FeatureSpace], None] | None = None,
        deadline: float | None = None,
    ) -> None:
        self._arena, self.forms, self._stage, self._on_figures = arena, forms, stage, on_figures
        self._deadline = deadline
        self.relevant = self._random_mean = math.nan
        repetition = check_pairing(arena, stage)
        setup, run = replace(arena.setup, rows=repetition.rows), arena.runner(stage)

        def pair_with(record: EpisodeRecord) -> PairedPlay:
            play = PairedPlay(setup, repetition, record, run)
            for rule_set, _ in forms:
                play.add(rule_set)
            return play

        if on_figures is not None and not first:
            # `check_pairing` has played the first episodes of the stage, so the first figures cost little.
            self._play = pair_with(EpisodeRecord(setup, arena.seed, stage, REPEATED_EPISODES, run))
            self._play.play_seeds(dict.fromkeys(range(len(forms)), REPEATED_EPISODES))
            self._show({})
        self._play = pair_with(EpisodeRecord(setup, arena.seed, stage, most_seeds, run, first=first))

    def run(self, plan: Plan, relevant: float | None) -> list[RuleResult]:
        """Play until every rule set is decided, or looks, seeds or time run out; return the results.

        A look is a test after a number of changed episodes that the plan fixes in advance.
        """
        waiting = list(range(len(self.forms)))
        for changes in _PRELIMINARY if self._on_figures is not None else ():
            self._play_changes(waiting, changes)
            self._show({})
        results: dict[int, RuleResult] = {}
        for look in plan.looks:
            if not waiting or (results and self._is_late()):
                break
            self._play_changes(waiting, look)
            if not results:
                self._random_mean = self._arena.random_mean(self._stage)
                setting = "2 %" if relevant is None else repr(relevant)
                self.relevant = relevant_effect(self._play.record.result.played.returns, self._random_mean, setting)
            enough = [k for k in waiting if self._play.changes(k)[0] >= look]
            # On all seeds that there are, these change too few episodes for the first test.
            for k in set(waiting) - set(enough) - set(results):
                results[k] = replace(self._summarise(k, self._pairs(k)), verdict="too few changed episodes")
            results |= self._judge(enough, look, plan)
            self._show(results)
            waiting = [k for k in enough if not results[k].is_decided]
        return [replace(results[k], examples=self._examples(k)) for k in range(len(self.forms))]

    def _play_changes(self, numbers: Sequence[int], changes: int) -> None:
        """Play rule sets until each has changed as many episodes, or there are no more seeds or time.

        A rule set that has not changed any episode is given up early.
        """
        waiting, seeds = list(numbers), FIRST_SEEDS
        while waiting and not (self._is_late() and self._play.record.known):
            self._play.play_changes(dict.fromkeys(waiting, changes), seeds)
            known = {k: self._play.changes(k) for k in waiting}
            waiting = [k for k, (n, of) in known.items() if n < changes and of < self._play.record.most]
            waiting = [k for k in waiting if known[k][0] or seeds < HOPELESS_SEEDS]
            seeds *= 2

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _pairs(self, number: int, changes: int | None = None) -> Pairs:
        seeds = self._play.changes(number)[1] if changes is None else self._play.seeds_for(number, changes)
        self._play.play_seeds({number: seeds})
        return self._play.pairs(number, seeds)

    def _judge(self, numbers: Sequence[int], look: int, plan: Plan) -> dict[int, RuleResult]:
        """Return the results of rule sets at a look that all of them have reached."""
        pairs = {k: self._pairs(k, look) for k in numbers}
        changes = {k: self._differences(one) for k, one in pairs.items()}
        invented = self._plausible()
        found = {}
        for k, one in pairs.items():
            interval = interval_of_changed(*changes[k], len(one), plan.tail, self._arena.seed, invented)
            verdict: Verdict = "helps" if interval.side > 0 else "harms" if interval.side < 0 else "undecided"
            if interval.lies_within(self.relevant):
                verdict = "no effect"
            found[k] = replace(self._summarise(k, one), verdict=verdict, interval=interval, effect=interval.mean)
        return found

    def _differences(self, pairs: Pairs) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return gains and losses of the changed episodes; failed ones count as the worst case for each."""
        worst, sides = WorstCase(self._play.results), []
        for one, other in ((pairs.guided, pairs.base), (pairs.base, pairs.guided)):
            claimed, against = worst.of(one, other)
            sides.append((claimed.returns - against.returns)[pairs.changed])
        return sides[0], sides[1]

    def _plausible(self) -> tuple[float, float]:
        """Return the largest loss and gain that are plausible."""
        known = np.concatenate([result.played.returns for result in self._play.results])
        base_mean = float(self._play.record.result.played.returns.mean())
        return largest_plausible(known, base_mean, self._random_mean)

    def sample(self, changes: int) -> Sample:
        """Play the first rule set until it has changed a number of episodes, and return them; there is no look."""
        self._play_changes([0], changes)
        self._random_mean = self._arena.random_mean(self._stage)
        pairs = self._pairs(0, changes)
        return Sample(*self._differences(pairs), *self._plausible(), self._summarise(0, pairs))

    def _summarise(self, number: int, pairs: Pairs) -> RuleResult:
        """Return the figures of a rule set, without a verdict."""
        difference = np.nan_to_num(pairs.guided.returns - pairs.base.returns)
        steps = max(1, int(pairs.guided.lengths.sum()))
        rule_set, form = self.forms[number]
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

    def _show(self, results: Mapping[int, RuleResult]) -> None:
        """Report the figures so far; a rule set that has not been judged has preliminary ones."""
        if self._on_figures is not None:
            every = [results.get(k) or self._summarise(k, self._pairs(k)) for k in range(len(self.forms))]
            self._on_figures(
                [replace(one, examples=self._examples(k)) for k, one in enumerate(every)], self._arena.space
            )

    def _examples(self, number: int) -> tuple[Example, ...]:
        """Return the first states in which a rule set changes the action of the policy, from different episodes."""
        space, rule_set = self._arena.space, self.forms[number][0]
        used = list(dict.fromkeys(feature for rule in rule_set.rules for feature in rule.features))
        first, record = self._play.first_changes(number), self._play.record
        found = []
        for place in np.flatnonzero(first != NEVER)[:EXAMPLES].tolist():
            ((rows, part),) = record.parts(place, place + 1)
            row = int(part.starts[place - rows.start] + first[place])
            if part.failed[place - rows.start]:
                continue
            observation, scores = part.observations[row], part.scores[row]
            choices = space.groups[space.group_of(rule_set.rules[0].action)].choices
            action = space.action_names[choices][int(np.argmax(scores[choices]))]
            values = {space.names[i]: float(observation[i]) for i in used}
            found.append(Example(int(record.seeds[place]), int(first[place]), values, action))
        return tuple(found)
