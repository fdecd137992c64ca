"""Causes in the policy: how often the diagnosis of planted causes is right, wrong, or unclear.

Twenty policies of each kind in two families of worlds (`lab.bench.planted_causes`), on seeds that tuned nothing: all
thresholds of `legible.failures.causes` were chosen on seeds below `TUNED_BELOW`. A diagnosis is right if it names the
planted kind and feature, and confidently wrong if it names another kind or feature.

``python -m lab.bench causes [--quick]``
"""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table

from lab.bench.planted_causes import KINDS, WORLDS, Kind, plant
from legible.failures.causes import find_cause

TUNED_BELOW, FIRST_SEED = 100, 1000
PER_WORLD = 10


def diagnose(world: str, kind: Kind, seed: int) -> tuple[str, str]:
    """Plant a cause and return "right", "wrong" or "cannot tell", and the diagnosis."""
    planting = plant(world, kind, seed)
    groups = {name: [column] for column, name in enumerate(planting.names)}
    found = find_cause(planting.tried, planting.scores, planting.recorded, groups, planting.names, seed=seed)
    said = f"{found.kind} {found.group}".strip()
    if (found.kind, found.group) == (kind, planting.feature):
        return "right", said
    return ("cannot tell" if found.kind == "cannot tell" else "wrong"), said


def main(quick: bool = False) -> None:
    console = Console(width=140)
    seeds = range(FIRST_SEED, FIRST_SEED + (2 if quick else PER_WORLD))
    counts: dict[Kind, Counter[str]] = {kind: Counter() for kind in KINDS}
    for kind in KINDS:
        for world in WORLDS:
            for seed in seeds:
                outcome, said = diagnose(world, kind, seed)
                counts[kind][outcome] += 1
                if outcome != "right":
                    console.print(f"{world} {seed}: planted {kind!r}, diagnosis {said!r}")
    table = Table(title=f"{len(seeds) * len(WORLDS)} planted policies of each kind")
    for column in ("planted", "right", "cannot tell", "confidently wrong"):
        table.add_column(column, justify="left" if column == "planted" else "right")
    for kind, count in counts.items():
        total = count.total()
        shares = [count[name] / total for name in ("right", "cannot tell", "wrong")]
        table.add_row(kind, *(f"{share:.0%}" for share in shares))
    every = sum(counts.values(), Counter())
    table.add_section()
    table.add_row("all", *(f"{every[name] / every.total():.1%}" for name in ("right", "cannot tell", "wrong")))
    console.print(table)


if __name__ == "__main__":
    main()
