"""Blocks of episodes with given returns, for tests of texts about them."""

from collections.abc import Sequence

import numpy as np

import mirror_world
from legible.evaluation import PlayedBlocks
from legible.evaluation.units import Setup, UnitResult
from legible.rules import RuleSet


def with_returns(*blocks: Sequence[float]) -> PlayedBlocks:
    """Return blocks with the unguided policy's returns, then those of each treatment."""
    setup = Setup(mirror_world.policy(), mirror_world.WORLD, (RuleSet(()),) * (len(blocks) - 1))
    return PlayedBlocks(setup, tuple(range(len(blocks[0]))), tuple(result(returns) for returns in blocks))


def result(returns: Sequence[float]) -> UnitResult:
    """Return episodes of the same length with these returns."""
    n = len(returns)
    nothing = np.zeros(n, np.int64)
    return UnitResult(
        returns=np.array(returns, np.float64),
        lengths=np.full(n, 20),
        truncated=np.zeros(n, np.bool_),
        success=np.full(n, np.nan),
        costs=np.full(n, np.nan),
        fired=nothing,
        changed=nothing,
    )
