"""How far each candidate of a search has been tried, and which of them is to be tried further.

Every rung of the ladder has four times as many changed episodes as the one below, and about a quarter of the
candidates comes there: each rung costs as much as the others. What is promising is judged by shrinking: an effect that
few episodes show is mostly luck, and counts less the larger its standard error is, compared with the effects that rules
usually have. Small effects that are known precisely do not win over large ones that are not known yet.

- `RUNGS`: changed episodes and seeds of each rung, a `LadderRung`.
- `SearchCandidate`: a rule set that may be tried; `Tested`: one that was; `Ladder`: all that were.
- `SeenStates`, `overlaps`: which candidates would change nearly the same states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.hypotheses.source import MeasuredEffect
from legible.hypotheses.vocabulary import Body
from legible.rules import Polarity, RuleSet


class LadderRung(NamedTuple):
    """Changed episodes that a candidate is tried on, and seeds at most."""

    changes: int
    seeds: int


RUNGS = (LadderRung(24, 512), LadderRung(96, 1024), LadderRung(384, 2048), LadderRung(1536, 4096))
MOST_CLIMBING = 1 / 3
"""Of the candidates on a rung at most this share goes on to the next, unless there are steps to spare."""
LOSS_Z = 2.0
"""Standard errors below zero at which an effect is taken for a loss, where there are steps to find out."""
USUAL_EFFECT = 0.05
"""An effect that rules usually have, in standard deviations of the returns."""
UNSEEN_CHANGES = 4
"""This many changed episodes that have not been seen are counted with, as large as returns differ."""
SAME_STATES_SHARE = 0.85
"""Two rule sets with the same heads whose changed states overlap by more than this do nearly the same."""

Head = tuple[Polarity, int]
Clause = tuple[Body, Head]
"""What a rule asks and what it says."""
Clauses = tuple[Clause, ...]
"""Rules that are tried together, mostly one."""


@dataclass(frozen=True)
class SearchCandidate:
    """A rule set that has been, or may be, tried.

    Parameters
    ----------
    clauses
        The rule that it generalises; several where they are only tried together.
    rule_set
        These with all that follows from them.
    changed
        The recorded states that it would change, packed.
    loss
        What the policy thinks that it costs, see `legible.hypotheses.responses.Responses`.
    """

    clauses: Clauses
    rule_set: RuleSet
    changed: NDArray[np.uint8]
    loss: float

    @property
    def heads(self) -> tuple[Head, ...]:
        """What it says."""
        return tuple(head for _, head in self.clauses)


@dataclass
class Tested:
    """A candidate, what guidance with it did, and the rung that it has come to."""

    candidate: SearchCandidate
    effect: MeasuredEffect
    rung: int = 0


class Ladder:
    """All candidates that were tried.

    Parameters
    ----------
    spread
        Standard deviation of the returns.
    most_changed
        Candidates that change a larger share of the actions come no further, but others like them may change fewer.
    """

    def __init__(self, spread: float, most_changed: float = 1.0) -> None:
        self._spread, self._usual, self._most_changed = spread, USUAL_EFFECT * spread, most_changed
        self.tested: list[Tested] = []

    def add(self, candidates: Sequence[SearchCandidate], effects: Sequence[MeasuredEffect]) -> None:
        """Learn what came of candidates on the first rung."""
        self.tested += [Tested(c, effect) for c, effect in zip(candidates, effects, strict=True)]

    @property
    def has_gain(self) -> bool:
        """Whether any candidate did better than the policy alone."""
        return any(found.effect.mean > 0.0 for found in self.tested)

    def climbing(self, rung: int, most: int, *, is_spare: bool = False) -> list[Tested]:
        """Return those that are to come to a rung next: the most promising ones of the rung below.

        At most a share of those that came to the rung below go further, and only those that gained. With steps to
        spare all do, but for those that are known to lose.
        """
        most_share, doubt = (1.0, LOSS_Z) if is_spare else (MOST_CLIMBING, 0.0)
        below = [found for found in self.tested if found.rung == rung - 1]
        there = sum(found.rung >= rung for found in self.tested)
        most = min(most, int(most_share * (len(below) + there) + 1e-9) - there)
        ranked = self._ranked([found for found in below if self._is_of_use(found.effect, doubt)], luck=1.0)
        return different(ranked, most, [found for found in self.tested if found.rung >= rung])

    def best(self, most: int, *, luck: float = 0.0, rung: int = 0) -> list[Tested]:
        """Return those that did best, of those that came to a rung, none of which does nearly the same as another."""
        found = [found for found in self.tested if found.rung >= rung and self._is_of_use(found.effect)]
        return different(self._ranked(found, luck), most)

    def parents(self) -> list[Tested]:
        """Return those around which more may be found, the best first.

        Those come first that did well on the second rung or above. Others may only lack a condition.
        """
        best = self.best(len(self.tested), rung=1)
        chosen = {id(found) for found in best}
        return best + self._ranked([found for found in self.tested if id(found) not in chosen], luck=1.0)

    def _is_of_use(self, effect: MeasuredEffect, doubt: float = 0.0) -> bool:
        return effect.mean + doubt * self._error(effect) > 0.0 and effect.share <= self._most_changed

    def _ranked(self, found: Sequence[Tested], luck: float) -> list[Tested]:
        """Sort by what each is expected to gain, with `luck` standard deviations of what is not known added."""
        usual = self._usual_size()

        def promise(one: Tested) -> float:
            known = usual**2 / (usual**2 + self._error(one.effect) ** 2) if usual else 1.0
            return known * one.effect.mean + luck * usual * math.sqrt(1.0 - known)

        return sorted(found, key=lambda one: -promise(one))

    def _error(self, effect: MeasuredEffect) -> float:
        """The standard error as if a few more changes, as large as returns differ, had been seen.

        Rare large losses are often not among the first changed episodes, whose error is too small then.
        """
        changed, seeds = effect.changed or 1, effect.seeds or 1
        return math.hypot(
            effect.error, math.sqrt(UNSEEN_CHANGES * changed / (changed + UNSEEN_CHANGES)) * self._spread / seeds
        )

    def _usual_size(self) -> float:
        """The size of effects, as far as those that were seen tell of larger ones than are usual."""
        gains = [found.effect for found in self.tested if found.effect.mean > 0.0]
        seen = float(np.mean([effect.mean**2 - self._error(effect) ** 2 for effect in gains])) if gains else 0.0
        return math.sqrt(max(self._usual**2, seen))


def different(ranked: Sequence[Tested], most: int, known: Sequence[Tested] = ()) -> list[Tested]:
    """Return the first ones, none of which does nearly the same as one before it, or a known one."""
    chosen: list[Tested] = []
    seen = SeenStates(SAME_STATES_SHARE)
    for found in known:
        seen.add(found.candidate)
    for found in ranked:
        if len(chosen) >= most:
            break
        if seen.add(found.candidate):
            chosen.append(found)
    return chosen


class SeenStates:
    """Which states were changed by which choice.

    Parameters
    ----------
    most
        Candidates of the same heads whose changed states overlap by more than this share do the same.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._rows: dict[tuple[Head, ...], NDArray[np.uint8]] = {}
        self._counts: dict[tuple[Head, ...], int] = {}

    def add(self, candidate: SearchCandidate) -> bool:
        """Learn of a candidate; returns whether it does something else than all before it. Only then it is kept."""
        heads, changed = candidate.heads, candidate.changed
        count = self._counts.get(heads, 0)
        rows = self._rows.setdefault(heads, np.zeros((8, len(changed)), np.uint8))
        if count and (overlaps(rows[:count], changed) > self._most).any():
            return False
        if count == len(rows):
            self._rows[heads] = rows = np.concatenate([rows, np.zeros_like(rows)])
        rows[count] = changed
        self._counts[heads] = count + 1
        return True


def overlaps(rows: NDArray[np.uint8], changed: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Share of the states that both change among those that either changes, for each row of packed states.

    >>> rows = np.packbits(np.array([[1, 1, 0, 0], [1, 0, 1, 0]], np.bool_), axis=1)
    >>> overlaps(rows, rows[0]).round(2).tolist()
    [1.0, 0.33]
    """
    both = np.bitwise_count(rows & changed).sum(axis=1, dtype=np.int64)
    either = np.bitwise_count(rows | changed).sum(axis=1, dtype=np.int64)
    return both / np.maximum(either, 1)
