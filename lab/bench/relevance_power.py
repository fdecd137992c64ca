"""Power with a smallest effect of interest: how often a planted effect is confirmed, with it and without.

``python -m lab.bench.relevance_power STUDIES NOISE FACTOR [FIRST_SEED]``: the planted effect is FACTOR times
the smallest effect of interest, which is 1; NOISE is the standard deviation of the difference of a changed episode.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from unittest import mock

from lab.bench import rare_loss_worlds
from legible.settings import PRESETS, StudySettings


def measure_power(
    studies: int, noise: float, planted: float, relevant: str, first_seed: int
) -> tuple[float, float, float]:
    """Return the shares of studies that confirm the planted rule set, and any other, and the mean number of steps."""
    quick = PRESETS["quick"]

    def settings() -> StudySettings:
        made = quick()
        return replace(made, evaluation=replace(made.evaluation, relevant=relevant))

    found, others, steps = 0, 0, 0
    world = rare_loss_worlds.World(0.0, planted=planted, noise=noise)
    for seed in range(first_seed, first_seed + studies):
        with mock.patch.dict(rare_loss_worlds.PRESETS, {"quick": settings}):
            evaluation = rare_loss_worlds.study(world, seed)
        found += any(verdict is evaluation.verdicts[0] for verdict in evaluation.confirmed)
        others += any(verdict is not evaluation.verdicts[0] for verdict in evaluation.confirmed)
        steps += evaluation.steps
    return found / studies, others / studies, steps / studies


def main(studies: int, noise: float, factor: float, first_seed: int = 5000) -> None:
    """Print the shares without and with a smallest effect of interest."""
    without, with_it = (measure_power(studies, noise, factor, relevant, first_seed) for relevant in ("0", "1"))
    print(
        f"noise {noise:g}, planted {factor:g} delta: "
        f"found {without[0]:.3f} with delta 0, {with_it[0]:.3f} with delta 1; "
        f"others confirmed {without[1]:.3f} {with_it[1]:.3f}; steps {without[2]:.0f} {with_it[2]:.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), *map(int, sys.argv[4:]))
