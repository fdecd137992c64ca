"""The report over all rounds of a mending, one self-contained HTML file: `write_rounds`."""

from __future__ import annotations

from pathlib import Path

from legible.evaluation import Sample
from legible.evaluation.statistics import Effect
from legible.files import write_text
from legible.report.builder import asset, template_environment
from legible.report.charts import interval_scale
from legible.study.mending import Mending


def write_rounds(mending: Mending) -> Path:
    """Write the report over all rounds as ``report.html`` into the folder of a mending, and return its path."""
    trained = [found for found in mending.rounds if found.distilled is not None]
    # Place 0 of the results is the policy, the others are the networks.
    place_of_round = {found.number: place for place, found in enumerate(trained, start=1)}

    def effect(round_number: int, *, against_previous: bool) -> Effect | None:
        """Return the effect of a round against the policy or the round before; None without a network."""
        place = place_of_round.get(round_number)
        if place is None:
            return None
        return mending.effect(place, place - 1 if against_previous else 0)

    rows = [
        (found, effect(found.number, against_previous=False), effect(found.number, against_previous=True))
        for found in mending.rounds
    ]
    shown = [effect for _, *effects in rows for effect in effects if effect is not None]
    reports = [f"round-{found.number}/report.html" for found in mending.rounds]
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
