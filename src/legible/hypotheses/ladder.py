"""The ladder of a search: which candidates are tried on more episodes.

Every rung has four times as many changed episodes as the one below, and about a quarter of the candidates reaches it,
so all rungs cost the same. Candidates are ranked by shrunken effects: an effect counts less the larger its standard
error is compared with the usual effects of rules. Precise small effects do not win over uncertain large ones.

- `RUNGS`: changed episodes and seeds of each rung, a `LadderRung`.
- `SearchCandidate`: a rule set that may be tried; `Tested`: one that was tried; `Ladder`: all that were tried.
- `SeenStates`, `overlaps`: find candidates that would change nearly the same states.
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
    """Number of changed episodes on which a candidate is tried, and maximum number of seeds."""

    changes: int
    seeds: int


RUNGS = (LadderRung(24, 512), LadderRung(96, 1024), LadderRung(384, 2048), LadderRung(1536, 4096))
MOST_CLIMBING = 1 / 3
"""Maximum share of the candidates on a rung that reaches the next one, unless there are steps to spare."""
LOSS_Z = 2.0
"""With steps to spare, an effect this many standard errors below zero counts as a loss."""
USUAL_EFFECT = 0.05
"""Usual effect of a rule, in standard deviations of the returns."""
UNSEEN_CHANGES = 4
"""Pseudo-count of changed episodes, with the standard deviation of the returns, in standard errors."""
SAME_STATES_SHARE = 0.85
"""Rule sets with the same heads whose changed states overlap by more than this are nearly equal."""

Head = tuple[Polarity, int]
Clause = tuple[Body, Head]
"""Body and head of a rule."""
Clauses = tuple[Clause, ...]
"""Rules that are tried together, usually one."""


@dataclass(frozen=True)
class SearchCandidate:
    """A rule set that may be tried."""

    clauses: Clauses  # its rule, or several rules that are only tried together
    rule_set: RuleSet  # these rules with their related forms
    changed: NDArray[np.uint8]  # the recorded states that it would change, packed
    loss: float  # its cost by the policy's scores, see `legible.hypotheses.responses.Responses`

    @property
    def heads(self) -> tuple[Head, ...]:
        """Heads of its rules."""
        return tuple(head for _, head in self.clauses)


@dataclass
class Tested:
    """A candidate, its effect, and the rung that it has reached."""

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
        Maximum override rate of candidates that climb; others may still be parents of candidates.
    """

    def __init__(self, spread: float, most_changed: float = 1.0) -> None:
        self._spread, self._usual, self._most_changed = spread, USUAL_EFFECT * spread, most_changed
        self.tested: list[Tested] = []

    def add(self, candidates: Sequence[SearchCandidate], effects: Sequence[MeasuredEffect]) -> None:
        """Add candidates and their effects on the first rung."""
        self.tested += [Tested(c, effect) for c, effect in zip(candidates, effects, strict=True)]

    @property
    def has_gain(self) -> bool:
        """Return whether any candidate has a positive effect."""
        return any(found.effect.mean > 0.0 for found in self.tested)

    def climbing(self, rung: int, most: int, *, is_spare: bool = False) -> list[Tested]:
        """Return the candidates that climb to a rung next: the most promising ones of the rung below.

        Only a share of the candidates on the rung below climbs, and only those with a positive effect. With steps to
        spare all climb, except those that are known to lose.
        """
        most_share, doubt = (1.0, LOSS_Z) if is_spare else (MOST_CLIMBING, 0.0)
        below = [one for one in self.tested if one.rung == rung - 1]
        reached = [one for one in self.tested if one.rung >= rung]
        most = min(most, int(most_share * (len(below) + len(reached)) + 1e-9) - len(reached))
        useful = [one for one in below if self._is_of_use(one.effect, doubt)]
        return different(self._ranked(useful, luck=1.0), most, reached)

    def best(self, most: int, *, rung: int = 0) -> list[Tested]:
        """Return the best candidates on a rung or above, without any two that are nearly equal."""
        useful = [one for one in self.tested if one.rung >= rung and self._is_of_use(one.effect)]
        return different(self._ranked(useful, luck=0.0), most)

    def parents(self) -> list[Tested]:
        """Return all candidates as starting points for new ones, the best first.

        Those with a positive effect on the second rung or above come first. Others may only lack a condition.
        """
        best = self.best(len(self.tested), rung=1)
        chosen = {id(one) for one in best}
        return best + self._ranked([one for one in self.tested if id(one) not in chosen], luck=1.0)

    def _is_of_use(self, effect: MeasuredEffect, doubt: float = 0.0) -> bool:
        return effect.mean + doubt * self._error(effect) > 0.0 and effect.share <= self._most_changed

    def _ranked(self, tested: Sequence[Tested], luck: float) -> list[Tested]:
        """Sort by expected effect plus `luck` standard deviations of its uncertainty."""
        usual = self._usual_size()

        def promise(one: Tested) -> float:
            # Shrink the effect by the share of its variance that is not error; the rest is its uncertainty.
            reliability = usual**2 / (usual**2 + self._error(one.effect) ** 2) if usual else 1.0
            return reliability * one.effect.mean + luck * usual * math.sqrt(1.0 - reliability)

        return sorted(tested, key=lambda one: -promise(one))

    def _error(self, effect: MeasuredEffect) -> float:
        """Return the standard error with `UNSEEN_CHANGES` more changed episodes.

        The first changed episodes often miss rare large losses, and then underestimate the error.
        """
        changed, seeds = effect.changed or 1, effect.seeds or 1
        unseen = math.sqrt(UNSEEN_CHANGES * changed / (changed + UNSEEN_CHANGES)) * self._spread / seeds
        return math.hypot(effect.error, unseen)

    def _usual_size(self) -> float:
        """Return the size of effects, estimated from the positive ones; at least the usual one."""
        gains = [one.effect for one in self.tested if one.effect.mean > 0.0]
        seen = float(np.mean([effect.mean**2 - self._error(effect) ** 2 for effect in gains])) if gains else 0.0
        return math.sqrt(max(self._usual**2, seen))


def different(ranked: Sequence[Tested], most: int, known: Sequence[Tested] = ()) -> list[Tested]:
    """Return the first candidates that differ from all before them and from all known ones."""
    chosen: list[Tested] = []
    seen = SeenStates(SAME_STATES_SHARE)
    for one in known:
        seen.add(one.candidate)
    for one in ranked:
        if len(chosen) >= most:
            break
        if seen.add(one.candidate):
            chosen.append(one)
    return chosen


class SeenStates:
    """The changed states of candidates, by their heads.

    Candidates with the same heads whose changed states overlap by more than the share `most` count as equal.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._rows: dict[tuple[Head, ...], NDArray[np.uint8]] = {}
        self._counts: dict[tuple[Head, ...], int] = {}

    def add(self, candidate: SearchCandidate) -> bool:
        """Add a candidate unless it equals an earlier one; return whether it was added."""
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
    """Return, for each row of packed states, the states that both change as a share of the states that either changes.

    >>> rows = np.packbits(np.array([[1, 1, 0, 0], [1, 0, 1, 0]], np.bool_), axis=1)
    >>> overlaps(rows, rows[0]).round(2).tolist()
    [1.0, 0.33]
    """
    both = np.bitwise_count(rows & changed).sum(axis=1, dtype=np.int64)
    either = np.bitwise_count(rows | changed).sum(axis=1, dtype=np.int64)
    return both / np.maximum(either, 1)
