"""Worlds in which guidance changes returns without an effect, and studies of them through the whole confirmation.

- `WORLDS`: by name, a function that draws changes with mean zero.
- `null_study`: one study of rule sets whose effect is exactly the smallest of interest (0, or more); returns how many
  are confirmed.
- `planted_study`: one rule set has an effect, the others none; returns whether it is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.confirmation import Judge
from legible.evaluation.pairs import Pairs
from legible.evaluation.units import UnitResult
from legible.settings import FEWEST_CHANGES, EvaluationSettings

Changes = NDArray[np.float64]
World = Callable[[np.random.Generator, int], Changes]

RULE_SETS, STUDIES, ALLOWED = 20, 300, 24
"""Of 300 studies at most 24 may confirm anything; a valid test at 5 % confirms something in 15 on average."""


def _rare(share: float, *, sizes: str, sign: float) -> World:
    """Small gains and rare large losses with mean zero, or the other way round (`sign` = -1)."""

    def draw(rng: np.random.Generator, n: int) -> Changes:
        is_rare = rng.random(n) < share
        if sizes == "two":
            small = large = np.ones(n)
        elif sizes == "varied":
            small, large = rng.exponential(size=n), rng.exponential(size=n)
        else:
            small, large = rng.normal(1.0, 2.0, n), rng.normal(1.0, 0.3, n)
        changes: Changes = sign * 15.0 * np.where(is_rare, -large * (1.0 - share) / share, small)
        return changes

    return draw


WORLDS: dict[str, World] = {
    "normal": lambda rng, n: rng.normal(0.0, 100.0, n),
    "heavy tails": lambda rng, n: 100.0 * rng.standard_t(3, n),
    "+1 or -1": lambda rng, n: 2.0 * rng.integers(0, 2, n) - 1.0,
} | {
    f"{kind} in {share} %, {sizes}": _rare(share / 100.0, sizes=sizes, sign=sign)
    for kind, sign in (("losses", 1.0), ("gains", -1.0))
    for sizes in ("two", "varied", "noisy")
    for share in (5, 3, 2, 1)
}
"""Sizes: two of them; exponentially distributed; normal noise among the frequent changes, rare ones alike."""


def _pairs(changes: Changes, unchanged: int) -> Pairs:
    """Return a rule set that changes some episodes by these differences and leaves others as they are."""
    n = len(changes) + unchanged
    differences = np.zeros(n)
    differences[: len(changes)] = changes
    return Pairs(_episodes(differences), _episodes(np.zeros(n)), np.arange(n) < len(changes))


def _episodes(returns: Changes) -> UnitResult:
    n = len(returns)
    none = np.zeros(n, np.int64)
    return UnitResult(returns, none, np.zeros(n, np.bool_), np.full(n, np.nan), np.zeros(n), none, none)


def confirm_changes(
    changes: list[Changes], seed: int, unchanged: int | list[int] = 1000, relevant: float = 0.0
) -> NDArray[np.float64]:
    """Take the changes of rule sets through the confirmation and return their q-values."""
    counts = [unchanged] * len(changes) if isinstance(unchanged, int) else unchanged
    pairs = [_pairs(of, count) for of, count in zip(changes, counts, strict=True)]
    results = [pair.guided for pair in pairs]
    judge = Judge(results, pairs, EvaluationSettings(relevant=repr(relevant)), seed)
    return np.array(judge.effects([len(of) < FEWEST_CHANGES for of in changes], [False] * len(changes))[1])


def null_study(world: World, seed: int, changes: int = FEWEST_CHANGES, effect: float = 0.0, share: float = 0.2) -> int:
    """Return how many of twenty rule sets whose effect is exactly the smallest of interest a study confirms.

    `effect` is the mean of the changed episodes, `share` the probability that an episode is changed; every rule set is
    played until as many episodes were changed as `changes` says.
    """
    rng = np.random.default_rng(seed)
    unchanged = rng.negative_binomial(changes, share, RULE_SETS).tolist()
    drawn = [world(rng, changes) + effect for _ in range(RULE_SETS)]
    q = confirm_changes(drawn, seed, unchanged, share * effect)
    return int(np.count_nonzero(q < EvaluationSettings().alpha))
