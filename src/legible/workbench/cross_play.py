"""Cross-play (`play_against`): policies in one seat of a game, against several opponents in the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from legible.display import Displayed
from legible.engines import Engine, InProcess
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import WorstCase
from legible.evaluation.units import UnitResult
from legible.features import FeatureSpace
from legible.formatting import counted, number, percent, signed
from legible.policies import Policy
from legible.workbench.arena import Arena, open_arena
from legible.workbench.comparing import (
    EPISODES,
    confidence_sentence,
    largest_gap,
    mean_interval_of,
    name_of,
    play_policies,
    short_names,
)
from legible.workbench.looks import ALPHA, Interval, Plan, interval_of_mean

_STAGE = "compare"
ALL_OTHERS = "*"
Opponent = str | Path | Policy | Mapping[str, Any]


class Cell(NamedTuple):
    """One policy against one opponent: the interval of its mean return, and its failed episodes."""

    mean: Interval
    failed: int


class WorstCaseOfPolicy(NamedTuple):
    """The worst opponent of a policy.

    Parameters
    ----------
    opponent
        Number of the opponent against which the policy has the lowest mean return.
    interval
        The mean return against the worst of all opponents. It holds whichever opponent is truly the worst.
    candidates
        Numbers of all opponents that may be the worst.
    """

    opponent: int
    interval: Interval
    candidates: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class CrossPlay(Displayed):
    """Policies in a seat against opponents in the other seats.

    Parameters
    ----------
    environment, seat, policies, opponents
        Names of the game, of the seat of the policies, and of the policies and opponents.
    cells
        The mean returns by policy and opponent, with intervals that hold together.
    differences
        Mean return of a policy minus that of the first one, by policy (from the second on) and opponent, on the same
        seeds; these intervals belong to the same family.
    episodes, alpha, results
        Number of seeds of each cell; probability that any interval misses its true value; the episodes.
    """

    environment: str
    seat: str
    policies: tuple[str, ...]
    opponents: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    differences: tuple[tuple[Interval, ...], ...]
    episodes: int
    alpha: float
    results: tuple[tuple[UnitResult, ...], ...] = ()

    def worst(self, policy: int) -> WorstCaseOfPolicy:
        """Return the worst opponent of a policy, with an interval that allows for the choice of the worst."""
        means = [cell.mean for cell in self.cells[policy]]
        lowest = min(range(len(means)), key=lambda i: means[i].mean)
        # All intervals hold together, so the smallest true mean lies between the smallest ends.
        high = min(mean.high for mean in means)
        interval = Interval(means[lowest].mean, min(mean.low for mean in means), high, means[lowest].level)
        return WorstCaseOfPolicy(lowest, interval, tuple(i for i, mean in enumerate(means) if mean.low <= high))

    def worst_sentence(self, policy: int) -> str:
        """Return the worst opponent of a policy in a sentence."""
        name, worst = self.policies[policy], self.worst(policy)
        if len(self.opponents) == 1:
            return f"{name} scores {_words(worst.interval)} against {self.opponents[0]}."
        sentence = (
            f"{name} scores lowest against {self.opponents[worst.opponent]}: mean return "
            f"{number(worst.interval.mean)}. With {percent(1.0 - self.alpha)} confidence, its lowest mean return "
            f"against any of the {len(self.opponents)} opponents lies between {number(worst.interval.low)} and "
            f"{number(worst.interval.high)}."
        )
        others = [self.opponents[i] for i in worst.candidates if i != worst.opponent]
        return sentence + (f" The worst may also be {', '.join(others)}." if others else "")

    def headline(self) -> str:
        """Return the answer in a sentence."""
        if len(self.policies) == 1:
            return self.worst_sentence(0)
        worst = [self.worst(i).interval for i in range(len(self.policies))]
        best = max(range(len(worst)), key=lambda i: worst[i].mean)
        name, value = self.policies[best], _words(worst[best])
        if all(worst[best].low > worst[i].high for i in range(len(worst)) if i != best):
            return f"{name} has the best worst case of {len(worst)} policies: {value} against its worst opponent."
        return f"No policy is shown to have the best worst case; the highest is that of {name}: {value}."

    def level_sentence(self) -> str:
        """Return the sentence on the confidence level of all intervals together."""
        seeds = f", on the same {counted(self.episodes, 'seed')}"
        return confidence_sentence(self.n_intervals, self.alpha, seeds)

    @property
    def n_intervals(self) -> int:
        """Number of intervals that hold together."""
        return sum(map(len, self.cells)) + sum(map(len, self.differences))

    def rows(self) -> list[tuple[str, ...]]:
        """Return the matrix as rows of a table: a policy, its mean return against each opponent, and the worst."""
        rows = [
            (name, *(_words(cell.mean) for cell in cells), _words(self.worst(i).interval))
            for i, (name, cells) in enumerate(zip(self.policies, self.cells, strict=True))
        ]
        for name, intervals in zip(self.policies[1:], self.differences, strict=True):
            gains = [f"{signed(gain.mean)} ({signed(gain.low)} to {signed(gain.high)})" for gain in intervals]
            rows.append((f"{name} − {self.policies[0]}", *gains, ""))
        return rows

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        worst = {f"worst case of {name}": self.worst_sentence(i) for i, name in enumerate(self.policies)}
        return {"verdict": self.headline(), **worst, "environment": self.environment, "seeds": self.episodes}

    def __repr__(self) -> str:
        return f"<CrossPlay: {self.headline()}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "headline": self.headline(),
            "environment": self.environment,
            "seat": self.seat,
            "episodes": self.episodes,
            "alpha": self.alpha,
            "cells": [
                {"policy": policy, "opponent": opponent, **asdict(cell.mean), "failed": cell.failed}
                for policy, cells in zip(self.policies, self.cells, strict=True)
                for opponent, cell in zip(self.opponents, cells, strict=True)
            ],
            "differences": [
                {"policy": policy, "minus": self.policies[0], "opponent": opponent, **asdict(interval)}
                for policy, row in zip(self.policies[1:], self.differences, strict=True)
                for opponent, interval in zip(self.opponents, row, strict=True)
            ],
            "worst": [
                {
                    "policy": name,
                    "opponent": self.opponents[worst.opponent],
                    **asdict(worst.interval),
                    "candidates": [self.opponents[candidate] for candidate in worst.candidates],
                }
                for name, worst in zip(self.policies, map(self.worst, range(len(self.policies))), strict=True)
            ],
        }


def _words(interval: Interval) -> str:
    return f"{number(interval.mean)} ({number(interval.low)} to {number(interval.high)})"


def against(environment: EnvironmentSpec, opponent: Opponent) -> EnvironmentSpec:
    """Return a game in which an opponent plays all seats that have no other player."""
    players = environment.arguments.get("others")
    fixed = {seat: each for seat, each in players.items() if seat != ALL_OTHERS} if isinstance(players, Mapping) else {}
    opponent = str(opponent) if isinstance(opponent, Path) else opponent
    # Seats with players of their own keep them; a table is needed for them, and for an opponent with options.
    others = {**fixed, ALL_OTHERS: opponent} if fixed or isinstance(opponent, Mapping) else opponent
    return replace(environment, arguments={**environment.arguments, "others": others})


def play_against(
    environment: EnvironmentSpec,
    policies: Sequence[str | Path | Policy],
    opponents: Sequence[Opponent],
    *,
    names: Sequence[str] = (),
    opponent_names: Sequence[str] = (),
    episodes: int = EPISODES,
    alpha: float = ALPHA,
    feature_names: str | Path | FeatureSpace | None = None,
    **options: Any,
) -> CrossPlay:
    """Play every policy against every opponent on the same seeds.

    Parameters
    ----------
    environment
        A game of several agents with the seat of the policies (``pettingzoo:…``, argument ``seat``).
    policies, names
        Policies for this seat, and their names; by default their paths.
    opponents, opponent_names
        "random", or policies for all other seats (or dictionaries, see `legible.agents.make_player`), and their names.
    episodes, alpha
        Number of seeds of each pair, fixed before anything is played; probability that any of the intervals misses its
        true value.
    feature_names, options
        As for `legible.workbench.compare_policies`.
    """
    if not policies or not opponents:
        raise LegibleError("cross-play needs at least one policy and one opponent.")
    if not environment.name.startswith("pettingzoo:"):
        raise LegibleError(
            f"{environment.name!r} has one agent, so there are no opponents; --against is for games of several agents "
            "(pettingzoo:MODULE --seat SEAT)."
        )
    names = names or [name_of(policy, i) for i, policy in enumerate(policies, start=1)]
    opponent_names = opponent_names or [name_of(other, i, "opponent") for i, other in enumerate(opponents, start=1)]
    if len(names) != len(policies) or len(opponent_names) != len(opponents):
        raise LegibleError(f"there are {len(policies)} policies and {counted(len(names), 'name')} (--name).")
    games = [against(environment, opponent) for opponent in opponents]
    all_names = short_names(names), short_names(opponent_names)
    return play_games(games, policies, *all_names, episodes=episodes, alpha=alpha, **options, names=feature_names)


def play_games(
    games: Sequence[EnvironmentSpec],
    policies: Sequence[str | Path | Policy],
    names_of_policies: Sequence[str],
    names_of_opponents: Sequence[str],
    *,
    episodes: int,
    alpha: float = ALPHA,
    stage: str = _STAGE,
    further: int = 0,
    engine: Engine | None = None,
    **options: Any,
) -> CrossPlay:
    """Play every policy in every game, and return the mean returns with intervals that hold together.

    The `games` are the same seat of the same game against each opponent, whose names are in the result. The `stage`
    decides the seeds. The error probability `alpha` also covers a number of `further` intervals, which the caller
    computes from the same episodes.
    """
    engine = engine or InProcess()
    results: list[list[UnitResult]] = [[] for _ in policies]  # by policy, then by opponent
    seed = int(options.get("seed", 0))
    space: FeatureSpace | None = None  # that of the first arena, which all others use
    with engine:
        for game in games:
            arenas: list[Arena] = []
            for policy, name in zip(policies, names_of_policies, strict=True):
                arena = open_arena(game, policy, name=name, space=space, engine=engine, **options)
                space = space or arena.space
                arenas.append(arena)
            records = play_policies(arenas, stage, episodes)
            for results_of_policy, record in zip(results, records, strict=True):
                results_of_policy.append(record.result[:episodes])
    all_results = [result for row in results for result in row]
    # One interval for every policy and opponent, and one for the difference of every other policy from the first.
    n_intervals = len(policies) * len(games) + (len(policies) - 1) * len(games)
    tail = Plan(looks=(episodes,), questions=n_intervals + further, alpha=alpha).tail
    worst = WorstCase(all_results)
    differences = [
        tuple(mean_interval_of(base, other, worst, tail, seed) for base, other in zip(results[0], row, strict=True))
        for row in results[1:]
    ]
    return CrossPlay(
        environment=games[0].name,
        seat=str(games[0].arguments.get("seat")),
        policies=tuple(names_of_policies),
        opponents=tuple(names_of_opponents),
        cells=tuple(tuple(_cell(result, all_results, tail, seed) for result in row) for row in results),
        differences=tuple(differences),
        episodes=episodes,
        alpha=alpha,
        results=tuple(map(tuple, results)),
    )


def _cell(result: UnitResult, all_results: Sequence[UnitResult], tail: float, seed: int) -> Cell:
    """Return the interval of a mean return; failed episodes count as the worst and as the best of all results."""
    returns, largest = np.concatenate([each.played.returns for each in all_results]), largest_gap(all_results)
    low, high = (
        interval_of_mean(np.where(result.failed, extreme, result.returns), tail, seed, largest)
        for extreme in (returns.min(), returns.max())
    )
    mean = float(result.played.returns.mean())
    return Cell(Interval(mean, low.low, high.high, tail), int(result.failed.sum()))
