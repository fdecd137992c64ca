"""Policies compared on the same seeds (`compare_policies`): which is better, by how much, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.display import Displayed
from legible.engines import Engine, InProcess
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import WorstCase
from legible.evaluation.changed import mcnemar_test
from legible.evaluation.endings import share_endings
from legible.evaluation.figures import Figure, figures, objectives_with_data
from legible.evaluation.ledger import Ledger, split_gain
from legible.evaluation.objectives import Objective
from legible.evaluation.ranks import rank_test
from legible.evaluation.recorded import EpisodeRecord
from legible.evaluation.statistics import Effect
from legible.evaluation.units import Setup, UnitResult
from legible.features import FeatureSpace
from legible.formatting import counted, number, percent, signed
from legible.policies import Policy
from legible.rules import Rule, describe_rule
from legible.study import Progress, Study
from legible.workbench.arena import Arena, check_pairing, collect_some, open_arena
from legible.workbench.looks import ALPHA, Interval, Plan, interval_of_differences
from legible.workbench.situations import (
    Situation,
    different_habits,
    find_situations,
    first_partings,
    shared_states_of,
)

EPISODES = 1000
MOST_HABITS = 4
_HABIT_EPISODES = 100
_RESAMPLES = 4000
_STAGE = "compare"
_FIGURES = ("mean", "worst-tenth", "success", "cost")


@dataclass(frozen=True)
class PlayedPolicy:
    """One policy on the seeds of a comparison: its episodes, its figures by objective, and shares of how they end."""

    name: str
    result: UnitResult
    figures: dict[str, Figure]
    endings: dict[str, float]

    @classmethod
    def of(cls, name: str, result: UnitResult) -> PlayedPolicy:
        """Summarise the episodes of a policy."""
        endings = {share.words: share.base.value * len(result.played) / len(result) for share in share_endings(result)}
        if result.failed.any():
            endings["it raises an error"] = float(result.failed.mean())
        return cls(name, result, figures(result), endings)


@dataclass(frozen=True)
class FigureDifference:
    """The difference of a figure of two policies, second minus first, with a simultaneous interval.

    `values` are the figures of both; `is_share` says whether they are shares; `less_is_better` whether a smaller
    figure is better.
    """

    name: str
    words: str
    values: tuple[float, float]
    interval: Interval
    is_share: bool = False
    less_is_better: bool = False

    @property
    def better(self) -> int | None:
        """Number of the better policy, 0 or 1; None if that is not shown, or neither is better, as for lengths."""
        side = self.interval.side * (-1 if self.less_is_better else 1)
        return None if not side or self.name == "length" else int(side > 0)

    def cells(self) -> tuple[str, str, str, str]:
        """Return the figure as a row of a table."""
        show, scale, unit = (percent, 100.0, " points") if self.is_share else (number, 1.0, "")
        scaled = self.interval.scaled(scale)
        difference = f"{signed(scaled.mean)}{unit} ({signed(scaled.low)} to {signed(scaled.high)})"
        return (self.words, show(self.values[0]), show(self.values[1]), difference)


@dataclass(frozen=True, repr=False)
class PolicyComparison(Displayed):
    """Policies compared on the same seeds.

    Parameters
    ----------
    environment, space
        Name of the environment; names of features and actions.
    policies, seeds
        The policies in the order given, and the seeds that each has played.
    differences
        Of two policies: every figure, with intervals that hold together. Empty for more policies.
    pairs
        Differences of the mean returns of all pairs (second minus first), with intervals that hold together.
    is_same
        Whether two policies played the same episodes to the bit.
    situations, habits
        Of two policies: where one does better; rules that only one of them follows.
    extremes
        Numbers of the two episodes that differ most, one in favour of each policy where there are such.
    parted
        Number of seeds on which two policies part.
    ledger
        Of two policies: where the difference of their mean returns comes from.
    """

    environment: str
    space: FeatureSpace
    policies: tuple[PlayedPolicy, ...]
    seeds: tuple[int, ...]
    alpha: float
    pairs: dict[tuple[int, int], Interval]
    differences: tuple[FigureDifference, ...] = ()
    is_same: bool = False
    situations: tuple[Situation, ...] = ()
    habits: tuple[tuple[Rule, ...], ...] = ()
    extremes: tuple[int, ...] = ()
    parted: int = 0
    ledger: Ledger | None = None
    setups: tuple[Setup, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the policies."""
        return [policy.name for policy in self.policies]

    @property
    def ranking(self) -> list[tuple[int, tuple[int, int]]]:
        """The policies by mean return, best first, each with the best and the worst rank that the intervals allow."""
        count = len(self.policies)
        # For each policy, how many others are shown to be better, and how many to be worse.
        n_better, n_worse = [0] * count, [0] * count
        for (first, second), interval in self.pairs.items():
            if interval.side:
                better, worse = (second, first) if interval.side > 0 else (first, second)
                n_worse[better] += 1
                n_better[worse] += 1
        order = sorted(range(count), key=lambda i: -self.policies[i].figures["mean"].value)
        return [(i, (1 + n_better[i], count - n_worse[i])) for i in order]

    def headline(self) -> str:
        """Return the answer in a sentence."""
        seeds = counted(len(self.seeds), "seed")
        if len(self.policies) > 2:
            best, ranks = self.ranking[0]
            if ranks == (1, 1):
                return f"{self.names[best]} is the best of {len(self.policies)} policies on {seeds}."
            return f"No policy is shown to be the best on {seeds}; {self.names[best]} has the highest mean return."
        if self.is_same:
            return f"No difference: both policies play the same episodes, to the bit, on {seeds}."
        returns = self.differences[0]
        effect = returns.interval
        if returns.better is None:
            interval = f"{signed(effect.low)} to {signed(effect.high)}"
            return f"No difference is shown: {signed(effect.mean)} ({interval}) on {seeds}."
        better, worse = returns.better, 1 - returns.better
        values = f"{number(returns.values[better])} against {number(returns.values[worse])}"
        nearer, farther = sorted((abs(effect.low), abs(effect.high)))
        gap = f"{number(abs(effect.mean))} ({number(nearer)} to {number(farther)})"
        return f"{self.names[better]} beats {self.names[worse]} by {gap}: {values} on the same {seeds}."

    def level_sentence(self) -> str:
        """Return the sentence on the confidence level of all intervals together."""
        count = len(self.differences) or len(self.pairs)
        return confidence_sentence(count, self.alpha)

    def habit_sentences(self) -> list[tuple[str, list[str]]]:
        """Return the habits that only one of two policies has, by policy."""
        return [
            (f"Only {name}", [describe_rule(rule, self.space) for rule in rules[:MOST_HABITS]])
            for name, rules in zip(self.names, self.habits, strict=False)
            if rules
        ]

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        sentences = [situation.sentence(self.space, self.names) for situation in self.situations]
        where = {f"where {place}": sentence for place, sentence in enumerate(sentences, start=1)}
        return {"verdict": self.headline(), **where, "environment": self.environment, "seeds": len(self.seeds)}

    def __repr__(self) -> str:
        return f"<PolicyComparison: {self.headline()}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the whole comparison as plain data for JSON, with policies by name and seeds by number."""
        return {
            "headline": self.headline(),
            "environment": self.environment,
            "episodes": len(self.seeds),
            "alpha": self.alpha,
            "same": self.is_same,
            "policies": [
                {
                    "name": policy.name,
                    "figures": {name: figure._asdict() for name, figure in policy.figures.items()},
                    "endings": policy.endings,
                }
                for policy in self.policies
            ],
            # Of two policies: every figure. Of more: the ranks that are possible, and the mean returns of all pairs.
            "differences": [
                {"figure": difference.name, "values": list(difference.values), **asdict(difference.interval)}
                for difference in self.differences
            ],
            "ranking": [{"policy": self.names[i], "ranks": list(ranks)} for i, ranks in self.ranking],
            "pairs": [
                {"first": self.names[i], "second": self.names[j], **asdict(interval)}
                for (i, j), interval in self.pairs.items()
            ],
            # Of two policies: where and how they differ.
            "situations": [situation.to_dict(self.space) for situation in self.situations],
            "habits": {
                name: [rule.text(self.space) for rule in rules]
                for name, rules in zip(self.names, self.habits, strict=False)  # there are none if none were looked for
            },
            "extreme_seeds": [self.seeds[i] for i in self.extremes],
            "parted": self.parted,
            "ledger": None if self.ledger is None else self.ledger.to_dict(),
        }


def compare_policies(
    environment: str | EnvironmentSpec,
    *policies: str | Path | Policy | Study,
    names: Sequence[str] = (),
    episodes: int = EPISODES,
    alpha: float = ALPHA,
    habits: bool = True,
    feature_names: str | Path | FeatureSpace | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> PolicyComparison:
    """Play policies on the same seeds and return which is better, by how much, and where.

    Parameters
    ----------
    environment, progress
        As for `legible.Study`.
    policies, names
        Two or more policies, or studies of policies; their names, by default their paths.
    episodes
        Number of seeds, fixed before anything is played.
    alpha
        Probability that any of the intervals misses its true value.
    habits
        Whether to look for rules that only one of two policies follows.
    feature_names
        Names of features and actions: `names` of `legible.Study`.
    engine
        Where episodes run, by default in this process.
    options
        Further arguments of `legible.workbench.open_arena`.
    """
    options = {**options, "names": feature_names}  # `names` are those of the policies here
    if len(policies) < 2:
        raise LegibleError("at least two policies are needed for a comparison.")
    if names and len(names) != len(policies):
        raise LegibleError(f"there are {len(policies)} policies and {counted(len(names), 'name')} (--name).")
    engine = engine or InProcess()

    # Load every policy. All use the features and actions of the first one, so that their rules can be compared.
    arenas: list[Arena] = []
    for policy in policies:
        loadable = policy.policy if isinstance(policy, Study) else policy
        space = arenas[0].space if arenas else None
        arenas.append(open_arena(environment, loadable, space=space, engine=engine, progress=progress, **options))
    distinct_names = short_names(names or [name_of(policy, i) for i, policy in enumerate(policies, start=1)])

    with engine:
        records = play_policies(arenas, _STAGE, episodes)
        results = [record.result[:episodes] for record in records]
        comparison = PolicyComparison(
            arenas[0].environment.name,
            arenas[0].space,
            tuple(PlayedPolicy.of(name, result) for name, result in zip(distinct_names, results, strict=True)),
            tuple(records[0].seeds[:episodes].tolist()),
            alpha,
            pairs={},
            setups=tuple(record.setup for record in records),
        )
        worst = WorstCase(results)
        if len(policies) == 2:
            return _compare_two(comparison, arenas, records, results, worst, habits=habits)

        # Of three and more policies only the mean returns are compared, each pair with its share of the error rate.
        index_pairs = list(combinations(range(len(policies)), 2))
        tail = Plan(looks=(episodes,), questions=len(index_pairs), alpha=alpha).tail
        intervals = {
            (i, j): mean_interval_of(results[i], results[j], worst, tail, arenas[0].seed) for i, j in index_pairs
        }
        return replace(comparison, pairs=intervals)


def name_of(policy: Any, place: int, what: str = "policy") -> str:
    """Return the name of a policy (or opponent, …) that has none: its path, or its place, as in "policy 2"."""
    if isinstance(policy, Study):
        return policy.policy_name
    return str(policy) if isinstance(policy, (str, Path)) else f"{what} {place}"


def confidence_sentence(intervals: int, alpha: float, further: str = "") -> str:
    """Return the sentence on the confidence level of all intervals together."""
    return f"All {counted(intervals, 'interval')} hold together with {percent(1 - alpha)} confidence{further}."


def short_names(names: Sequence[str]) -> list[str]:
    """Return short names that differ: files without folders and endings, and without a beginning that all share.

    >>> short_names(["zoo:PacmanSmall/ppo/3", "zoo:PacmanSmall/dqn/3"]), short_names(["a.zip", "a.zip"])
    (['ppo/3', 'dqn/3'], ['a.zip (1)', 'a.zip (2)'])
    """
    is_file = [Path(name).exists() for name in names]
    parts = [
        Path(name).with_suffix("").parts if exists else tuple(name.split("/"))
        for name, exists in zip(names, is_file, strict=True)
    ]
    while len({part[0] for part in parts}) == 1 and min(map(len, parts)) > 2:
        parts = [part[1:] for part in parts]
    paths = ["/".join(part) for part in parts]
    stems = [part[-1] if exists else path for part, path, exists in zip(parts, paths, is_file, strict=True)]
    short = stems if len(set(stems)) == len(stems) else paths
    return [name if short.count(name) == 1 else f"{name} ({place})" for place, name in enumerate(short, start=1)]


def play_policies(arenas: Sequence[Arena], stage: str, episodes: int, most: int | None = None) -> list[EpisodeRecord]:
    """Play policies on the same seeds; raise where the same seed does not give the same episode."""
    records = []
    for arena in arenas:
        repetition = check_pairing(arena, stage)
        setup = replace(arena.setup, rows=repetition.rows)
        record = EpisodeRecord(setup, arenas[0].seed, stage, most or episodes, arena.runner(stage))
        record.extend(episodes)
        records.append(record)
    return records


class ReturnDifferences(NamedTuple):
    """Second minus first return of every seed, ``[seeds]``, for both ends of a confidence interval.

    They are the same but for failed episodes (those that raised an error): `for_low` counts them as the worst case for
    the second policy, `for_high` as the worst case for the first.
    """

    for_low: NDArray[np.float64]
    for_high: NDArray[np.float64]


def return_differences(first: UnitResult, second: UnitResult, worst: WorstCase) -> ReturnDifferences:
    """Return the returns of `second` minus those of `first`, with failed episodes as `worst` fills them in."""
    second_at_worst, first_at_best = worst.of(second, first)
    for_low = second_at_worst.returns - first_at_best.returns
    first_at_worst, second_at_best = worst.of(first, second)
    return ReturnDifferences(for_low, second_at_best.returns - first_at_worst.returns)


def mean_interval_of(first: UnitResult, second: UnitResult, worst: WorstCase, tail: float, seed: int) -> Interval:
    """Return the interval of the difference of two mean returns, second minus first.

    `tail` is the error probability of each end, and `seed` the seed of the bootstrap.
    """
    differences = return_differences(first, second, worst)
    largest = largest_gap([first, second])
    return interval_of_differences(differences.for_low, tail, seed, largest, differences.for_high)


def largest_gap(results: Sequence[UnitResult]) -> float:
    """Return the largest difference of the returns of two episodes that did not fail; 0 if there are none."""
    returns = np.concatenate([result.played.returns for result in results])
    return float(np.ptp(returns)) if returns.size else 0.0


def _rewards_of(record: EpisodeRecord, episodes: int) -> list[NDArray[np.float64]]:
    """Return the rewards of recorded episodes, step by step."""
    parts = [np.split(part.rewards, part.starts[1:-1]) for _, part in record.parts(0, episodes)]
    return list(chain.from_iterable(parts))[:episodes]


def _compare_two(
    comparison: PolicyComparison,
    arenas: Sequence[Arena],
    records: Sequence[EpisodeRecord],
    results: Sequence[UnitResult],
    worst: WorstCase,
    *,
    habits: bool,
) -> PolicyComparison:
    """Return a comparison of two policies, completed: every figure, and where and how the two differ.

    `arenas`, `records` and `results` are, of both policies, the policy in its environment, its episodes step by step,
    and its per-episode results. `worst` fills in episodes that raised an error. With `habits`, rules are mined that
    only one of the policies follows.
    """
    first, second = results
    episodes, seed = len(first), arenas[0].seed
    differences = _compare_figures(first, second, worst, comparison.alpha, seed)
    # For each seed the last state that both share; None where both episodes are the same.
    partings = first_partings(records[0], records[1], episodes, comparison.space)
    n_parted = sum(parting is not None for parting in partings)
    gains = np.nan_to_num(second.returns - first.returns)  # 0 where an episode raised an error
    is_same = not n_parted and not gains.any() and not (first.failed | second.failed).any()
    pairs = {(0, 1): differences[0].interval}
    comparison = replace(comparison, pairs=pairs, differences=differences, is_same=is_same, parted=n_parted)
    if is_same:
        return comparison

    # Split the difference of the mean returns by ending and time, from the step at which the episodes part.
    first_rewards, second_rewards = (_rewards_of(record, episodes) for record in records)
    steps = [
        len(rewards) if parting is None else parting.step
        for rewards, parting in zip(first_rewards, partings, strict=True)
    ]
    ledger = split_gain(first, second, rewards=list(zip(first_rewards, second_rewards, steps, strict=True)))

    # Describe the states from which one policy does better.
    shared_states = shared_states_of(records[0], partings)
    situations = find_situations(partings, gains, shared_states, comparison.space, seed=seed, alpha=comparison.alpha)
    habits_of_each: tuple[tuple[Rule, ...], ...] = ()  # the habits of each policy that the other does not have
    if habits:
        experiences = [collect_some(arena, episodes=_HABIT_EPISODES) for arena in arenas]
        habits_of_each = different_habits([arena.setup.policy for arena in arenas], experiences, seed)

    # The episodes to watch: the largest gain of each policy.
    by_gain = np.argsort(gains, kind="stable")
    extremes = tuple(int(i) for i in (by_gain[0], by_gain[-1]) if gains[i])
    return replace(comparison, ledger=ledger, situations=situations, habits=habits_of_each, extremes=extremes)


def _compare_figures(
    first: UnitResult, second: UnitResult, worst: WorstCase, alpha: float, seed: int
) -> tuple[FigureDifference, ...]:
    """Return the difference of two policies in every figure: the mean return first, the length of episodes last.

    `worst` fills in the returns of episodes that raised an error; `alpha` is the probability that any of the intervals
    misses its true value.
    """
    with_data = objectives_with_data(first.played, second.played)
    objectives = [objective for objective in with_data if objective.name in _FIGURES]
    n_intervals = len(objectives) + 1  # with that of the lengths
    tail = Plan(looks=(len(first),), questions=n_intervals, alpha=alpha).tail
    differences = []
    for objective in objectives:
        if objective.name == "mean":
            interval = mean_interval_of(first, second, worst, tail, seed)
        else:
            interval = _interval_of_objective(first, second, objective, tail, seed)
        differences.append(
            FigureDifference(
                objective.name,
                objective.words,
                (objective.shown(objective.value(first.played)), objective.shown(objective.value(second.played))),
                interval.scaled(objective.shown(1.0)),  # turned where less is better, such as a cost
                is_share=objective.is_binary,
                less_is_better=objective.less_is_better,
            )
        )
    mean_lengths = (float(first.played.lengths.mean()), float(second.played.lengths.mean()))
    longer_by = (second.lengths - first.lengths).astype(np.float64)
    largest_possible = float(np.ptp(np.append(first.lengths, second.lengths)))
    interval = interval_of_differences(longer_by, tail, seed, largest_possible)
    differences.append(FigureDifference("length", "mean length of an episode", mean_lengths, interval))
    return tuple(differences)


def _interval_of_objective(
    first: UnitResult, second: UnitResult, objective: Objective, tail: float, seed: int
) -> Interval:
    """Return the interval of the difference in an objective, second minus first, by the test that fits its values.

    `tail` is the error probability of each end, and `seed` the seed of the bootstrap.
    """
    # Episodes that raised an error count against the second policy: as its worst, and as the best of the first.
    second_at_worst, first_at_best = WorstCase([first, second], objective.value).of(second, first)
    second_values, first_values = objective.values(second_at_worst), objective.values(first_at_best)
    differs = second_values != first_values
    confidence = 1.0 - 2.0 * tail
    effect: Effect | Interval
    if objective.is_binary:
        effect = mcnemar_test((second_values - first_values)[differs], len(differs), confidence=confidence)
    elif objective.ranks is not None:
        effect = rank_test(
            second_values,
            first_values,
            differs,
            objective.ranks,
            invented_loss=0.0,  # so that the largest loss of these episodes is used
            resamples=_RESAMPLES,
            rng_seed=seed,
            confidence=confidence,
        )
    else:
        effect = interval_of_differences(second_values - first_values, tail, seed)
    return Interval(effect.mean, effect.low, effect.high, tail)
