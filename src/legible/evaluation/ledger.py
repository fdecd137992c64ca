"""Outcome ledger: where a gain in the mean return comes from.

- `split_gain`: the difference of pairs of episodes on the same seeds, split by ending, by reward term and by time.
- `Ledger`: the result, with one sentence; `LedgerPart`: one part, with a 95 % confidence interval.
- `find_reward_terms`: the numbers in the infos that add up to the reward.

The parts of each split add up to the whole gain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from legible.environments import Ending
from legible.evaluation.endings import name_endings
from legible.evaluation.figures import Figure
from legible.evaluation.statistics import standard_error
from legible.evaluation.units import UnitResult
from legible.features import FeatureSpace
from legible.formatting import capitalise, counted, join_words, number, signed

MOST_PARTS = 4
LEAST_PART = 0.02
"""Parts of a gain that are smaller than this share of the largest one are left out of sentences."""
MIN_TERM_EPISODES = 10
_MOST_SEARCHED = 12
_TERM_NAMES = ("reward", "rew_", "cost", "penalty", "bonus")
_TOLERANCE = 1e-5
_BADNESS = ("success", "time limit", "other", "failure")
Courses: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], int]
"""The rewards of two episodes with the same seed, and the step of the first change."""
TIME_BINS = (10, 50)
"""Steps after the first change at which the split by time is cut."""


@dataclass(frozen=True)
class LedgerPart:
    """A part of a gain: words, the share of all seeds that have it, and its contribution to the mean gain.

    `steps` is the median number of steps from the first change to the ending that is avoided, or caused; None where
    that is unknown, and in other splits.
    """

    words: str
    share: float
    gain: Figure
    steps: float | None = None

    def clause(self) -> str:
        """Return the gain, its words, and when it happens."""
        within = (
            ""
            if self.steps is None
            else f" (half of it within {counted(round(self.steps), 'step')} of the first change)"
        )
        return f"{signed(self.gain.value)} {self.words}{within}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {"words": self.words, "share": self.share, **self.gain._asdict(), "steps": self.steps}


@dataclass(frozen=True)
class Ledger:
    """A gain in the mean return and its parts."""

    total: Figure  # the gain, with its 95 % confidence interval
    # Its parts by the worse of both endings of a seed, where they differ; the largest first.
    endings: tuple[LedgerPart, ...] = ()
    terms: tuple[LedgerPart, ...] = ()  # its parts by reward term; empty where terms are unknown
    # Its parts by the number of steps after the first change; empty where steps were not recorded.
    times: tuple[LedgerPart, ...] = ()

    @property
    def splits(self) -> dict[str, tuple[LedgerPart, ...]]:
        """The splits that are known, by their names in words."""
        named = {"by ending": self.endings, "by reward term": self.terms, "by time after the first change": self.times}
        return {name: parts for name, parts in named.items() if len(parts) > 1}

    def sentence(self, most: int | None = None) -> str:
        """Return the gain and its largest parts, at most some splits of it, in words; "" where nothing splits it."""
        splits: list[str] = []
        for name, parts in self.splits.items():
            least = LEAST_PART * max(abs(part.gain.value) for part in parts)
            shown = [
                part.clause() for part in parts if abs(part.gain.value) >= least and signed(part.gain.value) != "0"
            ]
            if shown:
                lead = f"{capitalise(name)}: " if splits else "" if parts is self.endings else f"{name}, "
                splits.append(f"{lead}{join_words(shown)}.")
        return f"{signed(self.total.value)}: {' '.join(splits[:most])}" if splits else ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        splits = {"endings": self.endings, "terms": self.terms, "times": self.times}
        return {
            "total": self.total._asdict(),
            **{name: [part.to_dict() for part in parts] for name, parts in splits.items()},
            "sentence": self.sentence(),
        }


def split_gain(
    base: UnitResult,
    guided: UnitResult,
    states: NDArray[np.float32] | None = None,
    space: FeatureSpace | None = None,
    rewards: Sequence[Courses] = (),
    *,
    is_exact: bool = False,
) -> Ledger | None:
    """Return the difference of mean returns split by ending, by reward term and by time.

    None if an episode failed, or if there are fewer than two seeds. Seeds on which both episodes end differently count
    for the worse of both endings, which the gain avoids or causes.

    Parameters
    ----------
    base, guided
        Episodes on the same seeds; the difference is `guided` minus `base`.
    states, space
        Recorded states and their features, by which unknown endings are grouped.
    rewards
        For every seed the rewards of both episodes and the step of the first change, if they were recorded.
    is_exact
        Whether nothing is random, so that one seed says everything.
    """
    if len(base) < (1 if is_exact else 2) or (base.failed | guided.failed).any():
        return None
    names = find_reward_terms(base, guided)
    gains_by_term = {readable_term(name): guided.terms[name] - base.terms[name] for name in names}
    return Ledger(
        total=_figure(guided.returns - base.returns),
        endings=_split_by_ending(base, guided, states, space),
        terms=_parts(gains_by_term, masks={}, rest="the rest"),
        times=split_times(rewards) if len(rewards) == len(base) else (),
    )


def _split_by_ending(
    base: UnitResult, guided: UnitResult, states: NDArray[np.float32] | None, space: FeatureSpace | None
) -> tuple[LedgerPart, ...]:
    """Return the parts of a gain by how episodes end; none where endings are unknown.

    Where the unguided and the guided episode of a seed end differently, its gain counts for the worse of both endings,
    which guidance avoids or causes.
    """
    if any((result.endings == "").any() for result in (base, guided)):
        return ()
    before, after = name_endings([base, guided], states, space)
    is_same = before == after
    pairs = zip(before.tolist(), after.tolist(), strict=True)
    worse = np.array([max(pair, key=lambda text: _BADNESS.index(Ending.parse(text).kind)) for pair in pairs])
    # By the words of a part: the seeds that belong to it, and the median number of steps from the first change to the
    # ending.
    seeds_of = {"where the ending stays the same": is_same}
    steps_of: dict[str, float] = {}
    for ending in sorted(set(worse[~is_same].tolist())):
        increase = int((after == ending).sum()) - int((before == ending).sum())
        how = "happens on other seeds"
        if increase:
            how = "is more frequent" if increase > 0 else "is rarer"
        part = f"because “{Ending.parse(ending).words}” {how}"
        seeds_of[part] = ~is_same & (worse == ending)
        if guided.course.size or guided.first_changed.any():  # the first changes are known
            ends = np.where(before == ending, base.lengths, guided.lengths)
            steps_of[part] = float(np.median((ends - guided.first_changed)[seeds_of[part]]))
    gains = guided.returns - base.returns
    return _parts(
        {part: np.where(seeds, gains, 0.0) for part, seeds in seeds_of.items()},
        masks=seeds_of,
        rest="elsewhere",
        steps=steps_of,
    )


def find_reward_terms(*results: UnitResult) -> tuple[str, ...]:
    """Return the terms, at least two, whose totals add up to the return of every episode; () where there are none.

    A term is a number in the infos, such as "reward_forward", of which every episode has a total. Terms whose names
    speak of rewards or costs are tried first, then the smallest set.
    """
    returns = np.concatenate([result.returns for result in results])
    if len(returns) < MIN_TERM_EPISODES:
        return ()
    # Terms that all results have, with finite totals per episode that are not all zero.
    common = set.intersection(*(set(result.terms.dtype.names or ()) for result in results))
    names = [name for name in results[0].terms.dtype.names or () if name in common]
    totals = {name: np.concatenate([result.terms[name] for result in results]) for name in names}
    names = [name for name in names if np.isfinite(totals[name]).all() and totals[name].any()]

    def adds_up(chosen: Sequence[str]) -> bool:
        """Return whether the totals of at least two terms sum to the returns, up to rounding."""
        size = 1.0 + sum(np.abs(totals[name]) for name in chosen)
        error = np.abs(sum(totals[name] for name in chosen) - returns)
        return len(chosen) > 1 and bool((error <= _TOLERANCE * size).all())

    like_rewards = [name for name in names if any(word in name.lower() for word in _TERM_NAMES)]
    searched = (like_rewards if len(like_rewards) > 1 else names)[:_MOST_SEARCHED]
    subsets = (list(chosen) for size in range(2, len(searched) + 1) for chosen in combinations(searched, size))
    for chosen in (like_rewards, names, *subsets):
        if adds_up(chosen):
            return tuple(chosen)
    return ()


def _figure(values: NDArray[np.float64]) -> Figure:
    mean = float(values.mean())
    if len(values) == 1:  # of a gain that is exact
        return Figure(mean, mean, mean)
    half = float(-stdtrit(len(values) - 1, 0.025)) * standard_error(values)
    return Figure(mean, mean - half, mean + half)


def _parts(
    values: Mapping[str, NDArray[np.float64]],
    masks: Mapping[str, NDArray[np.bool_]],
    rest: str,
    steps: Mapping[str, float] = MappingProxyType({}),
) -> tuple[LedgerPart, ...]:
    """Return the largest parts of a gain, and the sum of the others as one, which is named `rest`.

    `values` holds the gain of every seed by the words of a part, `masks` the seeds that belong to it: by default those
    whose gain is not 0. `steps` are those of `LedgerPart`.
    """
    order = sorted(values, key=lambda words: -abs(float(values[words].sum())))
    shown, others = (order, []) if len(order) <= MOST_PARTS + 1 else (order[:MOST_PARTS], order[MOST_PARTS:])
    columns = {words: values[words] for words in shown}
    if others:
        columns[rest] = np.sum([values[words] for words in others], axis=0)
    return tuple(
        LedgerPart(words, float(masks.get(words, column != 0.0).mean()), _figure(column), steps.get(words))
        for words, column in columns.items()
    )


def courses_of(base: UnitResult, guided: UnitResult) -> list[Courses]:
    """Return the rewards of every pair of episodes, and the step of the first change.

    Nothing where rewards were not kept, or an episode failed.
    """
    if not base.course.size or not guided.course.size or (base.failed | guided.failed).any():
        return []
    ends = np.maximum(base.lengths, guided.lengths)
    first_changes = np.where(guided.first_changed < 0, ends, guided.first_changed)  # at the end if nothing changed
    return [
        (base.course[i, : base.lengths[i]], guided.course[i, : guided.lengths[i]], int(first_changes[i]))
        for i in range(len(base))
    ]


def split_times(rewards: Sequence[Courses]) -> tuple[LedgerPart, ...]:
    """Return the parts of a gain by the time after the first change; before it the episodes are the same.

    `rewards` holds, for every seed, the rewards of the unguided and of the guided episode, and the first changed step.
    """
    if not rewards:
        return ()
    edges = (0, *TIME_BINS)
    names = [f"in the first {number(edges[1])} steps"]
    names += [f"in steps {number(start + 1)} to {number(end)}" for start, end in pairwise(edges[1:])]
    names.append(f"later than {number(edges[-1])} steps")
    gains = np.zeros((len(names), len(rewards)))  # [period, seed]
    for seed_number, (base_rewards, guided_rewards, first_change) in enumerate(rewards):
        for sign, step_rewards in ((-1.0, base_rewards), (1.0, guided_rewards)):
            # Sums of rewards up to the ends of the periods; differences of these are the sums within periods. Periods
            # after the end of the episode are empty.
            length = len(step_rewards)
            cuts = np.minimum([first_change + edge for edge in (*edges, length)], length)
            cuts[0] = 0  # rewards before the change are the same, up to rounding
            sums = np.concatenate([[0.0], np.cumsum(step_rewards)])[np.maximum.accumulate(cuts)]
            gains[:, seed_number] += sign * np.diff(sums)
    return tuple(
        LedgerPart(name, float((column != 0.0).mean()), _figure(column))
        for name, column in zip(names, gains, strict=True)
    )


def readable_term(name: str) -> str:
    """Return the name of a term in words: "reward_forward" is "forward"."""
    words = name.replace("_", " ").replace(".", " ").strip()
    return " ".join(word for word in words.split() if word not in ("reward", "rew")) or words
