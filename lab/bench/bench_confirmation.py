"""Confirmation: how often worlds without effect confirm something, and what the tests find that could be used instead.

- *False alarms*: studies of twenty rule sets without effect, 200 changed episodes each, Benjamini-Hochberg. A valid
  test at 5 % confirms something in 15 of 300 studies; up to 24 is chance.
- *False claims of relevance*: the same through the whole confirmation, with rule sets whose effect is exactly 0 or
  exactly the smallest of interest.
- *Power*: one rule set with an effect, tested at the level that a lone one of twenty has to pass.

Invented loss: one more change, a loss as large as the largest in any rule set of the study.

``python -m lab.bench confirmation [--quick]``
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import stats

from lab.bench.null_worlds import ALLOWED, RULE_SETS, STUDIES, WORLDS, Changes, null_study
from legible.evaluation.changed import changed_mean_p, largest_loss, resamples_for
from legible.evaluation.statistics import benjamini_hochberg

ALPHA, CHANGES = 0.05, 200
Test = Callable[[Changes, float, int], float]
"""From changes, an invented loss and a seed to a one-sided p-value."""


def here(changes: Changes, loss: float, seed: int) -> float:
    """Run the test that legible uses; a quarter of its resamples is precise enough for counting."""
    resamples = resamples_for(RULE_SETS, ALPHA) // 4
    return changed_mean_p(changes, invented_loss=loss, resamples=resamples, rng_seed=seed)


def t_test(changes: Changes, loss: float, seed: int) -> float:
    """Student's, on the changed episodes."""
    del loss, seed
    with np.errstate(divide="ignore", invalid="ignore"):
        t = changes.mean() / (changes.std(ddof=1) / np.sqrt(len(changes)))
    return float(stats.t.sf(t, len(changes) - 1))


def johnson(changes: Changes, loss: float, seed: int) -> float:
    """Student's, corrected for skewness (Johnson 1978), with the invented loss."""
    del seed
    x, n = np.append(changes, -loss), len(changes) + 1
    mean, variance, third = x.mean(), x.var(ddof=1), float(np.mean((x - x.mean()) ** 3))
    t = (mean + third / (6 * variance * n) + third / (3 * variance**2) * mean**2) / np.sqrt(variance / n)
    return float(stats.t.sf(t, n - 1))


def sign_flips(changes: Changes, loss: float, seed: int) -> float:
    """Permutation: every change might as well have the other sign."""
    del loss
    signs = 2.0 * np.random.default_rng(seed).integers(0, 2, (2000, len(changes))) - 1.0
    return float(1 + np.count_nonzero(signs @ changes >= changes.sum())) / 2001


def bootstrap_t(changes: Changes, loss: float, seed: int) -> float:
    """Bootstrap-t of the changes alone."""
    del loss
    return _bootstrap_t(changes, seed)


def bootstrap_t_with_loss(changes: Changes, loss: float, seed: int) -> float:
    """Bootstrap-t with the invented loss."""
    return _bootstrap_t(np.append(changes, -loss), seed)


def _bootstrap_t(x: Changes, seed: int) -> float:
    n, resamples = len(x), resamples_for(RULE_SETS, ALPHA)
    drawn = x[np.random.default_rng(seed).integers(0, n, (resamples, n))]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (drawn.mean(axis=1) - x.mean()) / (drawn.std(axis=1, ddof=1) / np.sqrt(n))
        observed = x.mean() / (x.std(ddof=1) / np.sqrt(n))
    # Resamples that do not vary count as larger.
    return float(1 + np.count_nonzero(~(t < observed))) / (resamples + 1)


def empirical_likelihood(changes: Changes, loss: float, seed: int) -> float:
    """Test by the signed root of the empirical likelihood ratio, with the invented loss."""
    del seed
    x = np.append(changes, -loss)
    if x.mean() <= 0.0:
        return 1.0
    low, high = 0.0, (1.0 - 1e-12) / loss
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if np.sum(x / (1.0 + middle * x)) > 0.0 else (low, middle)
    return float(stats.norm.sf(np.sqrt(2.0 * np.sum(np.log1p(low * x)))))


TESTS: dict[str, Test] = {
    "paired t": t_test,
    "sign flips": sign_flips,
    "bootstrap-t": bootstrap_t,
    "bootstrap-t, loss": bootstrap_t_with_loss,
    "Johnson's t, loss": johnson,
    "emp. likelihood, loss": empirical_likelihood,
    "tilting, loss (here)": here,
}
COMPARED = (
    *("normal", "heavy tails", "+1 or -1", "losses in 5 %, noisy", "losses in 3 %, two", "losses in 2 %, varied"),
    *("losses in 1 %, two", "gains in 3 %, varied", "gains in 1 %, varied"),
)


NOISES = ("normal", "heavy tails", "losses in 3 %, noisy")


def study(changes: NDArray[np.float64], test: Test, seed: int) -> NDArray[np.float64]:
    """Return the p-values of the rule sets of a study; where the mean is not above zero, 1 stands for more than 1/2."""
    loss = largest_loss(changes) or float(np.abs(changes).max())
    return np.array([test(of, loss, seed) if of.sum() > 0.0 else 1.0 for of in changes])


def false_alarms(world: str, test: Test, studies: int) -> int:
    """Return the number of studies without effect that confirm something."""
    found = 0
    for seed in range(studies):
        rng = np.random.default_rng(seed)
        changes = np.array([WORLDS[world](rng, CHANGES) for _ in range(RULE_SETS)])
        found += bool((benjamini_hochberg(study(changes, test, seed)) < ALPHA).any())
    return found


PLANTED: dict[str, Callable[[np.random.Generator, int], Changes]] = {
    "normal, 0.25 standard deviations": lambda rng, n: rng.normal(25.0, 100.0, n),
    "heavy tails, 0.25 standard deviations": lambda rng, n: 100.0 * rng.standard_t(3, n) + 43.0,
    "+1 in 62 %, -1 else": lambda rng, n: np.where(rng.random(n) < 0.62, 1.0, -1.0),
    "+15, and -485 in 0.3 % where others lose in 3 %": lambda rng, n: np.where(rng.random(n) < 0.003, -485.0, 15.0),
    "gains in 5 %, with twice the size": lambda rng, n: (
        np.where(rng.random(n) < 0.05, 38.0, -1.0) * rng.exponential(size=n)
    ),
}
LOSSES = {"+15, and -485 in 0.3 % where others lose in 3 %": 485.0}


def power(name: str, test: Test, samples: int) -> float:
    """Return the share of samples with an effect whose p-value is small enough for one of twenty."""
    rng = np.random.default_rng(0)
    found = 0
    for seed in range(samples):
        changes = PLANTED[name](rng, CHANGES)
        others = [PLANTED[name](rng, CHANGES) for _ in range(RULE_SETS - 1)]
        loss = max(LOSSES.get(name, 0.0), largest_loss([changes, *others]))
        found += test(changes, loss, seed) < ALPHA / RULE_SETS
    return found / samples


def main(quick: bool = False) -> None:
    console = Console(width=180)
    studies = 20 if quick else STUDIES
    console.print(f"Studies of {studies} without effect that confirm something, by world (5 % of them are expected):")
    for world in WORLDS:
        found = false_alarms(world, here, studies)
        console.print(f"  {world}: {found}{' too many' if found * STUDIES > ALLOWED * studies else ''}")
    claims_of_relevance(console, studies)
    compare(console, 10 if quick else 60, 30 if quick else 200)


def claims_of_relevance(console: Console, studies: int) -> None:
    """Show how many studies claim a relevant effect where all effects are exactly the smallest of interest."""
    console.print(f"Studies of {studies} that claim a relevant effect, by noise and size of all effects:")
    for world in NOISES:
        deviation = float(WORLDS[world](np.random.default_rng(0), 100_000).std())
        for size in (0.0, 0.25, 1.0):
            found = sum(null_study(WORLDS[world], seed, effect=size * deviation) > 0 for seed in range(studies))
            low = stats.binomtest(found, studies, alternative="greater").proportion_ci(0.95, method="exact").low
            console.print(f"  {world}, {size:g} standard deviations: {found} (lower bound of the share {low:.1%})")


def compare(console: Console, studies: int, samples: int) -> None:
    """Show what the other tests do."""
    table = Table(title=f"The same of other tests, {studies} studies each; below: power, {samples} samples each")
    table.add_column("world")
    for name in TESTS:
        table.add_column(name, justify="right")
    for world in COMPARED:
        counts = [false_alarms(world, test, studies) * STUDIES / studies for test in TESTS.values()]
        table.add_row(world, *(f"{count:.0f}" for count in counts))
        console.print(world, *(f"{count:.0f}" for count in counts))
    table.add_section()
    for name in PLANTED:
        table.add_row(name, *(f"{power(name, test, samples):.0%}" for test in TESTS.values()))
    console.print(table)


if __name__ == "__main__":
    main()
