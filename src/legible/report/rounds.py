"""The report over all rounds of a mending, one self-contained HTML file: `write_rounds`."""

from __future__ import annotations

from pathlib import Path

from legible.evaluation import Sample
from legible.evaluation.statistics import Effect
from legible.files import write_text
from legible.report.builder import asset, template_environment
from legible.report.charts import interval_scale
from legible.study.mending import MendedRound, Mending


def write_rounds(mending: Mending) -> Path:
    """Write the report over all rounds as ``report.html`` into the folder of a mending, and return its path."""
    # Every round with the effects of its network against the policy and against the network before; None without one.
    rows: list[tuple[MendedRound, Effect | None, Effect | None]] = []
    player = 0  # index of a result: 0 is the policy, the others are the networks, one per round that made one
    for mended in mending.rounds:
        if mended.distilled is None:
            rows.append((mended, None, None))
        else:
            player += 1
            rows.append((mended, mending.effect(player, 0), mending.effect(player, player - 1)))
    shown = [effect for _, *effects in rows for effect in effects if effect is not None]
    reports = [f"round-{mended.number}/report.html" for mended in mending.rounds]
    text = (
        template_environment()
        .get_template("rounds.html.j2")
        .render(
            m=mending,
            style=asset("report.css"),
            samples=[Sample.of(result) for result in mending.results],
            rows=rows,
            scale=interval_scale(shown) if shown else None,
            reports=[report if (mending.folder / report).exists() else None for report in reports],
        )
    )
    path = mending.folder / "report.html"
    write_text(path, text)
    return path
