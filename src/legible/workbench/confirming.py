"""Confirmations of rules, one after the other, with few false ones among them.

`OnlineLevels` has the levels of LORD++ (Ramdas, Yang, Wainwright and Jordan, 2017): of the confirmed rules at most a
share of `ALPHA` is expected to be false, however many rules are tried, and in whatever order. A `Ledger` holds the
confirmations of a policy, each with a block of seeds that nothing else uses.

Exploring says in which direction a rule may work, and how many episodes would show it. Both are fixed before the first
fresh seed is played, so the p-value is one-sided, of one sample, and looked at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock
from scipy.special import ndtri, zeta

from legible.errors import LegibleError
from legible.evaluation.changed import changed_mean_test, resamples_for
from legible.evaluation.statistics import POWER
from legible.files import read_json, write_json
from legible.formatting import counted, number, p_value, signed
from legible.play.stages import STAGE_EPISODES
from legible.rules import RuleSet
from legible.settings import FEWEST_CHANGES
from legible.workbench.arena import Arena
from legible.workbench.trying import MOST_CHANGED, MOST_SEEDS, Candidate, RuleResult, Trial

ALPHA = 0.05
FILE = "confirmations.json"
STAGE = "bench"
Direction = Literal["helps", "harms"]
_DECAY = 1.6
# Effects that were found by exploring are optimistic, so that confirmations play more than these need.
_RESERVE = 1.5
_MOST_RESAMPLES = 200_000


class OnlineLevels:
    """Levels of tests that come one after the other, by LORD++.

    A test earns its level from an initial wealth of half of alpha, and from every earlier rejection. The shares of the
    wealth fall with a power of the distance, so that the first tests have the highest levels. `alpha` is the expected
    share of false ones among the rejected hypotheses.

    >>> levels = OnlineLevels(0.05)
    >>> round(levels.next([]), 4), round(levels.next([False]), 4), round(levels.next([True]), 4)
    (0.0109, 0.0036, 0.0145)
    """

    def __init__(self, alpha: float = ALPHA) -> None:
        self.alpha = alpha

    def next(self, rejected: Sequence[bool]) -> float:
        """Return the level of the next test, from whether each earlier one was rejected."""
        number_of_test = len(rejected) + 1
        level = _share(number_of_test) * self.alpha / 2
        rejections = [i for i, was_rejected in enumerate(rejected, start=1) if was_rejected]
        for rejection in rejections:
            earned = self.alpha / 2 if rejection == rejections[0] else self.alpha
            level += _share(number_of_test - rejection) * earned
        return level


def _share(distance: int) -> float:
    """Return the share of a wealth that the test at a distance gets; the shares of all distances add up to 1."""
    return float(distance**-_DECAY / zeta(_DECAY))


@dataclass(frozen=True)
class Claim:
    """A confirmation: what was claimed, and what its fresh seeds say.

    Parameters
    ----------
    number
        Its place in the ledger, from 0, which is also its block of seeds.
    rules, direction
        The rules, as texts, and what is claimed of them.
    level, planned
        Level of its test, and the number of changed episodes that were planned.
    p
        The p-value; None until it has been played to its end. It then counts as not confirmed.
    effect, low, high
        Change of the mean return, and the interval whose side of zero agrees with the test.
    changed, seeds
        Number of changed episodes, and of all.
    """

    number: int
    rules: tuple[str, ...]
    direction: Direction
    level: float
    planned: int
    p: float | None = None
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    changed: int = 0
    seeds: int = 0

    @property
    def is_confirmed(self) -> bool:
        """True if the claim holds at its level."""
        return self.p is not None and self.p <= self.level

    def sentence(self) -> str:
        """Return the result in a sentence: the conclusion first, then the numbers."""
        if self.p is None:
            return "Not confirmed: it was stopped before its end."
        if self.changed < FEWEST_CHANGES:
            return f"Not confirmed: too few changed episodes ({self.changed} in {counted(self.seeds, 'episode')})."
        bounds = f"{signed(self.low or 0.0)} to {signed(self.high or 0.0)}"
        figures = f"{signed(self.effect or 0.0)} ({bounds}) on {number(self.seeds)} fresh seeds"
        test = f"{p_value(self.p, 'p')}, level {number(self.level, 2)}"
        words = {"helps": "it helps", "harms": "it harms"}[self.direction]
        if self.is_confirmed:
            return f"Confirmed: {words}, {figures}; {test}."
        return f"Not confirmed that {words}: {figures}; {test}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**asdict(self), "is_confirmed": self.is_confirmed, "sentence": self.sentence()}


class Ledger:
    """The confirmations of a policy, in order.

    `path` is the file (None keeps them in memory), and `key` says which policy it belongs to.
    """

    def __init__(self, path: Path | None, key: str = "") -> None:
        self._path, self._key, self._memory = path, key, list[Claim]()

    @property
    def is_kept(self) -> bool:
        """True if confirmations outlive this process."""
        return self._path is not None

    def claims(self) -> list[Claim]:
        """Return all confirmations so far."""
        if self._path is None:
            return list(self._memory)
        if not self._path.exists():
            return []
        kept = read_json(self._path, self._key, "move it away to start with an empty list of confirmations")
        return [Claim(**{**entry, "rules": tuple(entry["rules"])}) for entry in kept["claims"]]

    def level(self) -> float:
        """Return the level of the next confirmation."""
        return OnlineLevels().next([claim.is_confirmed for claim in self.claims()])

    def result_of(self, rules: Sequence[str]) -> Claim | None:
        """Return the confirmation of these rules, in any order, that was played to its end; None if there is none."""
        played = (claim for claim in self.claims() if claim.p is not None)
        return next((claim for claim in played if set(claim.rules) == set(rules)), None)

    def open(self, rules: Sequence[str], direction: Direction, explored: RuleResult) -> Claim:
        """Enter a confirmation before it is played: its seeds and its level are then used, whatever happens."""
        with self._lock():
            claims = self.claims()
            if (len(claims) + 1) * MOST_SEEDS > STAGE_EPISODES:
                raise LegibleError(f"there are no fresh seeds left after {len(claims)} confirmations of this policy.")
            level = OnlineLevels().next([claim.is_confirmed for claim in claims])
            planned = plan_changes(explored, level)
            claim = Claim(len(claims), tuple(rules), direction, level, planned)
            self._write([*claims, claim])
        return claim

    def close(self, claim: Claim) -> None:
        """Enter the result of a confirmation."""
        with self._lock():
            self._write([claim if other.number == claim.number else other for other in self.claims()])

    def _lock(self) -> AbstractContextManager[Any]:
        if self._path is None:
            return nullcontext()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(self._path.with_suffix(".lock"), timeout=10.0)

    def _write(self, claims: list[Claim]) -> None:
        if self._path is None:
            self._memory = claims
        else:
            write_json(self._path, {"claims": [asdict(claim) for claim in claims]}, self._key)


def plan_changes(explored: RuleResult, level: float) -> int:
    """Return how many changed episodes would probably show an effect of the explored size at a level."""
    if not explored.effect or not explored.changed or not math.isfinite(explored.error):
        return MOST_CHANGED
    wanted = float(-ndtri(level) + ndtri(POWER)) * explored.error / abs(explored.effect)
    needed = _RESERVE * explored.changed * wanted**2
    return int(min(max(needed, FEWEST_CHANGES), MOST_CHANGED))


def confirm_rule(arena: Arena, rule_set: RuleSet, claim: Claim) -> Claim:
    """Play the fresh seeds of a confirmation and return it with its result."""
    trial = Trial(arena, [Candidate(rule_set, "alone")], STAGE, claim.number * MOST_SEEDS, MOST_SEEDS)
    sample = trial.sample(claim.planned)
    figures = sample.figures
    found = replace(claim, p=1.0, effect=figures.effect, changed=figures.changed, seeds=figures.seeds)
    if figures.changed < FEWEST_CHANGES:
        return found
    helps = claim.direction == "helps"
    effect = changed_mean_test(
        sample.gains if helps else sample.losses,
        figures.seeds,
        invented_loss=sample.plausible.loss if helps else sample.plausible.gain,
        resamples=min(_MOST_RESAMPLES, resamples_for(1, claim.level)),
        rng_seed=arena.seed,
        confidence=1.0 - 2.0 * claim.level,
    )
    low, high = (effect.low, effect.high) if helps else (-effect.high, -effect.low)
    return replace(found, p=effect.p, low=low, high=high)
