"""Policies compared on the same seeds: which is better, by how much, and where.

- `compare_policies`: plays them; returns a `PolicyComparison`.
- `PlayedPolicy`: one policy on these seeds; `FigureDifference`: one figure of two policies.
- `play_policies`: only the episodes, for other comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

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
from legible.evaluation.ranks import rank_test
from legible.evaluation.recorded import EpisodeRecord
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
    """One policy on the seeds of a comparison.

    Parameters
    ----------
    name
        Its name.
    result
        Its episodes.
    figures
        Its figures by objective, each with a 95 % interval.
    endings
        Shares of the episodes by how they end.
    """

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
        """Which policy is better; None if that is not shown, or neither is better, as for lengths."""
        side = self.interval.side * (-1 if self.less_is_better else 1)
        return None if not side or self.name == "length" else int(side > 0)

    def cells(self) -> tuple[str, str, str, str]:
        """Return the figure as a row of a table."""
        show = percent if self.is_share else number
        scale = 100.0 if self.is_share else 1.0
        low, mean, high = (
            signed(scale * value) for value in (self.interval.low, self.interval.mean, self.interval.high)
        )
        unit = " points" if self.is_share else ""
        return (self.words, show(self.values[0]), show(self.values[1]), f"{mean}{unit} ({low} to {high})")


@dataclass(frozen=True, repr=False)
class PolicyComparison(Displayed):
    """Policies compared on the same seeds.

    Parameters
    ----------
    environment, space
        Name of the environment; names of features and actions.
    policies
        The policies in the order given.
    seeds
        The seeds.
    differences
        Of two policies: every figure, with intervals that hold together. Empty for more policies.
    ranking
        Of more than two policies: numbers of the policies, best first, each with the ranks that are possible.
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
        above = [0] * count
        below = [0] * count
        for (one, two), interval in self.pairs.items():
            if interval.side:
                better, worse = (two, one) if interval.side > 0 else (one, two)
                below[better] += 1
                above[worse] += 1
        order = sorted(range(count), key=lambda i: -self.policies[i].figures["mean"].value)
        return [(i, (1 + above[i], count - below[i])) for i in order]

    def headline(self) -> str:
        """Return the answer in a sentence."""
        n = counted(len(self.seeds), "seed")
        if len(self.policies) > 2:
            best, ranks = self.ranking[0]
            name = self.policies[best].name
            if ranks == (1, 1):
                return f"{name} is the best of {len(self.policies)} policies on {n}."
            return f"No policy is shown to be the best on {n}; {name} has the highest mean return."
        if self.is_same:
            return f"No difference: both policies play the same episodes, to the bit, on {n}."
        mean = self.differences[0]
        bounds = sorted((abs(mean.interval.low), abs(mean.interval.high)))
        if mean.better is None:
            interval = f"{signed(mean.interval.low)} to {signed(mean.interval.high)}"
            return f"No difference is shown: {signed(mean.interval.mean)} ({interval}) on {n}."
        better, worse = mean.better, 1 - mean.better
        values = f"{number(mean.values[better])} against {number(mean.values[worse])}"
        by = f"{number(abs(mean.interval.mean))} ({number(bounds[0])} to {number(bounds[1])})"
        return f"{self.names[better]} beats {self.names[worse]} by {by}: {values} on the same {n}."

    def level_sentence(self) -> str:
        """Say what the intervals hold for."""
        count = len(self.differences) or len(self.pairs)
        return f"All {counted(count, 'interval')} hold together with {percent(1 - self.alpha)}."

    def habit_sentences(self) -> list[tuple[str, list[str]]]:
        """Return the habits that only one of two policies has, by policy."""
        return [
            (f"Only {name}", [describe_rule(rule, self.space) for rule in rules[:MOST_HABITS]])
            for name, rules in zip(self.names, self.habits, strict=False)
            if rules
        ]

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        where = {f"where {k}": s.sentence(self.space, self.names) for k, s in enumerate(self.situations, start=1)}
        return {"verdict": self.headline(), **where, "environment": self.environment, "seeds": len(self.seeds)}

    def __repr__(self) -> str:
        return f"<PolicyComparison: {self.headline()}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
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
            "differences": [
                {"figure": d.name, "values": list(d.values), **asdict(d.interval)} for d in self.differences
            ],
            "ranking": [{"policy": self.names[i], "ranks": list(ranks)} for i, ranks in self.ranking],
            "pairs": [
                {"first": self.names[i], "second": self.names[j], **asdict(interval)}
                for (i, j), interval in self.pairs.items()
            ],
            "situations": [situation.to_dict(self.space) for situation in self.situations],
            "habits": {
                name: [rule.text(self.space) for rule in rules]
                for name, rules in zip(self.names, self.habits, strict=False)
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
    """Compare policies on the same seeds.

    Parameters
    ----------
    environment
        As for `legible.Study`.
    policies
        Two or more policies, or studies of policies.
    names
        Their names; by default their paths.
    episodes
        Number of seeds, fixed before anything is played.
    alpha
        Probability that any of the intervals misses its true value.
    habits
        Whether to look for rules that only one of two policies follows.
    feature_names
        Names of features and actions: `names` of `legible.Study`.
    engine, progress
        Where episodes run, by default in this process; called with the progress, as for `legible.Study`.
    options
        Further arguments of `legible.workbench.open_arena`.
    """
    options = {**options, "names": feature_names}
    if len(policies) < 2:
        raise LegibleError("at least two policies are needed for a comparison.")
    if names and len(names) != len(policies):
        raise LegibleError(f"there are {len(policies)} policies and {counted(len(names), 'name')} (--name).")
    engine = engine or InProcess()
    arenas: list[Arena] = []
    for i, policy in enumerate(policies):
        given = policy.policy if isinstance(policy, Study) else policy
        name = names[i] if names else policy.policy_name if isinstance(policy, Study) else str(policy)
        if not names and not isinstance(policy, (str, Path, Study)):
            name = f"policy {i + 1}"
        space = arenas[0].space if arenas else None
        arenas.append(
            open_arena(environment, given, name=name, space=space, engine=engine, progress=progress, **options)
        )
    distinct_names = short_names([arena.name for arena in arenas])
    with engine:
        records = play_policies(arenas, _STAGE, episodes)
        results = [record.result[:episodes] for record in records]
        worst = WorstCase(results)
        count = len(policies)
        all_pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
        found = [PlayedPolicy.of(name, result) for name, result in zip(distinct_names, results, strict=True)]
        seeds = tuple(records[0].seeds[:episodes].tolist())
        base = PolicyComparison(
            arenas[0].environment.name,
            arenas[0].space,
            tuple(found),
            seeds,
            alpha,
            pairs={},
            setups=tuple(record.setup for record in records),
        )
        if count > 2:
            tail = Plan((episodes,), len(all_pairs), alpha).tail
            pairs = {
                (i, j): mean_interval_of(results[i], results[j], worst, tail, arenas[0].seed) for i, j in all_pairs
            }
            return replace(base, pairs=pairs)
        return _compare_two(base, arenas, records, results, worst, habits=habits)


def short_names(names: Sequence[str]) -> list[str]:
    """Return short names that differ: files without folders and endings, and without a beginning that all share.

    >>> short_names(["zoo:PacmanSmall/ppo/3", "zoo:PacmanSmall/dqn/3"]), short_names(["a.zip", "a.zip"])
    (['ppo/3', 'dqn/3'], ['a.zip (1)', 'a.zip (2)'])
    """
    parts = [Path(name).with_suffix("").parts if Path(name).exists() else tuple(name.split("/")) for name in names]
    while len({part[0] for part in parts}) == 1 and min(len(part) for part in parts) > 2:
        parts = [part[1:] for part in parts]
    short = ["/".join(part) for part in parts]
    files = [part[-1] if Path(name).exists() else one for part, name, one in zip(parts, names, short, strict=True)]
    short = files if len(set(files)) == len(files) else short
    return [name if short.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(short, start=1)]


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


def returns_both_ways(
    first: UnitResult, second: UnitResult, worst: WorstCase
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return second minus first, with failed episodes at their worst for the second, and for the first."""
    better, worse = worst.of(second, first)
    low = better.returns - worse.returns
    better, worse = worst.of(first, second)
    return low, worse.returns - better.returns


def mean_interval_of(first: UnitResult, second: UnitResult, worst: WorstCase, tail: float, seed: int) -> Interval:
    """Return the interval of the difference of two mean returns, second minus first."""
    low, high = returns_both_ways(first, second, worst)
    known = np.concatenate([first.played.returns, second.played.returns])
    return interval_of_differences(low, tail, seed, largest=float(np.ptp(known)) if known.size else 0.0, upper=high)


def _rewards_of(record: EpisodeRecord, episodes: int) -> list[NDArray[np.float64]]:
    """Return the rewards of recorded episodes, step by step."""
    parts = [np.split(part.rewards, part.starts[1:-1]) for _, part in record.parts(0, episodes)]
    return [rewards for part in parts for rewards in part][:episodes]


def _compare_two(
    base: PolicyComparison,
    arenas: Sequence[Arena],
    records: Sequence[EpisodeRecord],
    results: Sequence[UnitResult],
    worst: WorstCase,
    *,
    habits: bool,
) -> PolicyComparison:
    """Compare two policies in every figure, and look for the states from which one does better."""
    first, second = results
    known = [one for one in objectives_with_data(first.played, second.played) if one.name in _FIGURES]
    plan = Plan((len(first),), len(known) + 1, base.alpha)
    seed, tail = arenas[0].seed, plan.tail
    rows: list[FigureDifference] = []
    for objective in known:
        bad = WorstCase(results, objective.value)
        values = (objective.shown(objective.value(first.played)), objective.shown(objective.value(second.played)))
        if objective.name == "mean":
            interval = mean_interval_of(first, second, worst, tail, seed)
        else:
            better, worse = (objective.values(one) for one in bad.of(second, first))
            if objective.is_binary:
                effect = mcnemar_test((better - worse)[better != worse], len(better), confidence=1.0 - 2.0 * tail)
            elif objective.ranks is not None:
                effect = rank_test(
                    better,
                    worse,
                    better != worse,
                    objective.ranks,
                    invented_loss=0.0,
                    resamples=_RESAMPLES,
                    rng_seed=seed,
                    confidence=1.0 - 2.0 * tail,
                )
            else:
                effect = interval_of_differences(better - worse, tail, seed)  # type: ignore[assignment]
            interval = Interval(effect.mean, effect.low, effect.high, tail)
        interval = interval.scaled(objective.shown(1.0))
        rows.append(
            FigureDifference(
                objective.name,
                objective.words,
                values,
                interval,
                is_share=objective.is_binary,
                less_is_better=objective.less_is_better,
            )
        )
    lengths = (second.lengths - first.lengths).astype(np.float64)
    spread = float(np.ptp(np.append(first.lengths, second.lengths)))
    mean_lengths = (float(first.played.lengths.mean()), float(second.played.lengths.mean()))
    rows.append(
        FigureDifference(
            "length", "mean length of an episode", mean_lengths, interval_of_differences(lengths, tail, seed, spread)
        )
    )
    partings = first_partings(records[0], records[1], len(first), base.space)
    parted = sum(parting is not None for parting in partings)
    differences = np.nan_to_num(second.returns - first.returns)
    is_same = not parted and not differences.any() and not (first.failed | second.failed).any()
    base = replace(base, pairs={(0, 1): rows[0].interval}, differences=tuple(rows), is_same=is_same, parted=parted)
    if is_same:
        return base
    rewards = [
        (one, two, len(one) if parting is None else parting.step)
        for one, two, parting in zip(*(_rewards_of(record, len(first)) for record in records), partings, strict=True)
    ]
    base = replace(base, ledger=split_gain(first, second, rewards=rewards))
    shared = shared_states_of(records[0], partings)
    situations = find_situations(partings, differences, shared, base.space, seed=seed, alpha=base.alpha)
    only: tuple[tuple[Rule, ...], ...] = ()
    if habits:
        seen = [collect_some(arena, episodes=_HABIT_EPISODES) for arena in arenas]
        only = different_habits([arena.setup.policy for arena in arenas], seen, seed)
    order = np.argsort(differences, kind="stable")
    extremes = tuple(int(i) for i in (order[0], order[-1]) if differences[i])
    return replace(base, situations=situations, habits=only, extremes=extremes)
