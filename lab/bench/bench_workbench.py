"""Error rates of ``legible try``, ``compare`` and ``verify``, and their power, simulated on arrays of paired returns.

Type I errors: a rule or a difference without effect that is claimed to help or harm, at any look; a policy that is
worse by exactly the margin and passes; one that is worse by exactly the margin, which is allowed, and fails. Each rate
comes with its one-sided 95 % lower bound (Clopper and Pearson), which must not exceed 5 %.

Worlds: normal and heavy-tailed differences; small gains with rare large losses, in which an episode ends as badly as
random play does.

``python -m lab.bench workbench [--quick]``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from legible.evaluation.changed import changed_mean_p
from legible.workbench import compare_policies
from legible.workbench.looks import (
    Plan,
    changed_looks,
    difference_p,
    interval_of_share,
    largest_difference,
    largest_plausible,
    seed_looks,
)

Values = NDArray[np.float64]
RESAMPLES = 1000  # fewer than in use, which is precise enough for counting
FIGURES = 4  # that `compare` judges together
MARGIN = 0.02


class World(NamedTuple):
    """Returns of a policy, differences of another one on the same seeds with mean zero, and random play's mean."""

    draw: Callable[[np.random.Generator, int], tuple[Values, Values]]
    random_mean: float = 0.0


def _rare(share: float) -> World:
    def draw(rng: np.random.Generator, n: int) -> tuple[Values, Values]:
        base = rng.normal(1500.0, 200.0, n)
        gain = rng.exponential(1500.0 * share / (1.0 - share), n)
        return base, np.where(rng.random(n) < share, -base, gain)

    return World(draw)


WORLDS: dict[str, World] = {
    "normal": World(lambda rng, n: (rng.normal(1500.0, 200.0, n), rng.normal(0.0, 100.0, n))),
    "heavy tails": World(lambda rng, n: (rng.normal(1500.0, 200.0, n), 100.0 * rng.standard_t(3, n))),
    "losses in 5 %": _rare(0.05),
    "losses in 2 %": _rare(0.02),
    "losses in 1 %": _rare(0.01),
}


def try_claims(base: Values, changes: Values, random_mean: float, seed: int) -> bool:
    """Return whether `legible try` claims an effect of a rule with these changes at any look."""
    plan = Plan(changed_looks(len(changes)))
    for look in plan.looks:
        some, returns = changes[:look], base[:look]
        loss, gain = largest_plausible(np.append(returns, returns + some), float(returns.mean()), random_mean)
        sign = 1.0 if some.mean() > 0.0 else -1.0
        invented = loss if sign > 0.0 else gain
        if changed_mean_p(sign * some, invented_loss=invented, resamples=RESAMPLES, rng_seed=seed) < plan.tail:
            return True
    return False


def compare_claims(base: Values, differences: Values, random_mean: float, seed: int) -> bool:
    """Return whether `legible compare` claims that one of two policies has the higher mean return."""
    del random_mean
    plan = Plan((len(differences),), FIGURES)
    largest = max(float(np.ptp(np.append(base, base + differences))), largest_difference(differences))
    sign = 1.0 if differences.mean() > 0.0 else -1.0
    return difference_p(sign * differences, 0.0, plan.tail, seed, largest) < plan.tail


def verify_passes(base: Values, differences: Values, random_mean: float, seed: int) -> bool:
    """Return whether a policy that is worse by exactly the margin is shown to be worse by less, at any look."""
    return _verify(base, differences, random_mean, seed, 1.0)


def verify_fails(base: Values, differences: Values, random_mean: float, seed: int) -> bool:
    """Return whether a policy that is worse by exactly the margin is shown to be worse by more, at any look."""
    return _verify(base, differences, random_mean, seed, -1.0)


def _verify(base: Values, differences: Values, random_mean: float, seed: int, sign: float) -> bool:
    looks = seed_looks(len(differences))
    tail = Plan(looks).alpha / len(looks)
    margin = MARGIN * abs(float(base.mean()) - random_mean)
    for look in looks:
        some, returns = differences[:look] - margin, base[:look]
        largest = float(np.ptp(np.append(np.append(returns, returns + some), random_mean)))
        if difference_p(sign * some, -sign * margin, tail, seed, largest) < tail:
            return True
    return False


Claim = Callable[[Values, Values, float, int], bool]
CLAIMS: dict[str, tuple[Claim, int]] = {
    "try": (try_claims, 6400),
    "compare": (compare_claims, 1000),
    "verify passes": (verify_passes, 4000),
    "verify fails": (verify_fails, 4000),
}
"""What is claimed, and the number of episodes."""


def false_claims(name: str, world: str, runs: int) -> int:
    """Return how many runs claim something that is not so."""
    claim, episodes = CLAIMS[name]
    drawn, found = WORLDS[world], 0
    for seed in range(runs):
        rng = np.random.default_rng((seed, len(world)))
        found += claim(*drawn.draw(rng, episodes), drawn.random_mean, seed)
    return found


POWER_PAIRS = {
    "PacmanSmall, PPO": ("legible/PacmanSmall-v0", "zoo:PacmanSmall/ppo/4", "zoo:PacmanSmall/ppo/3"),
    "PacmanMedium, PPO": ("legible/PacmanMedium-v0", "zoo:PacmanMedium/ppo/0", "zoo:PacmanMedium/ppo/1"),
    "HighwayFast, DQN": ("legible/HighwayFast-v0", "zoo:HighwayFast/dqn/0", "zoo:HighwayFast/dqn/1"),
}
"""Pairs of policies whose differences, with another mean, stand for a checkpoint that is 5 % worse."""


def power(env: str, old: str, new: str, runs: int, drop: float = 0.05, seeds: int = 1000) -> tuple[float, float]:
    """Return how often a drop of the mean return by 5 % is shown: by `compare`, and by `verify` with a margin of 2 %.

    The paired differences of two real policies are shifted to this mean and drawn again with replacement.
    """
    played = compare_policies(env, old, new, episodes=seeds, habits=False)
    base, other = (policy.result.played.returns for policy in played.policies)
    scale = abs(float(base.mean()))
    differences = other - base
    shifted = differences - differences.mean() - drop * scale
    found = np.zeros(2)
    for seed in range(runs):
        rows = np.random.default_rng(seed).integers(0, len(base), seeds)
        found[0] += compare_claims(base[rows], shifted[rows], 0.0, seed)
        level = Plan(seed_looks(seeds)).alpha / len(seed_looks(seeds))
        largest = float(np.ptp(np.append(base, base + shifted)))
        claims = (
            difference_p(-shifted[rows][:look], MARGIN * scale, level, seed, largest) < level
            for look in seed_looks(seeds)
        )
        found[1] += any(claims)
    return float(found[0] / runs), float(found[1] / runs)


def main(quick: bool = False) -> None:
    """Print the table."""
    runs = 100 if quick else 1000
    table = Table("claim", "world", "false claims", "rate", "lower bound (95 %)")
    for name in CLAIMS:
        for world in WORLDS:
            found = false_claims(name, world, runs)
            low = interval_of_share(found, runs, 0.05).low
            table.add_row(name, world, f"{found} of {runs}", f"{found / runs:.1%}", f"{low:.1%}")
    Console().print(table)
    powers = Table("a drop by 5 % on 1,000 seeds", "compare shows it", "verify fails (margin 2 %)")
    for name, (env, old, new) in POWER_PAIRS.items():
        powers.add_row(name, *(f"{share:.0%}" for share in power(env, old, new, runs // 5)))
    Console().print(powers)
