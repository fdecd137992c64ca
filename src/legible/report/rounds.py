"""The report over all rounds of a mending: one HTML file that opens anywhere, offline.

- `write_rounds`: writes it into the mending's folder.
"""

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
    leaving = [found for found in mending.rounds if found.distilled is not None]
    place = {found.number: number for number, found in enumerate(leaving, start=1)}
    against_base = [_effect(mending, place.get(found.number), 0) for found in mending.rounds]
    against_last = [_effect(mending, place.get(found.number), None) for found in mending.rounds]
    shown = [effect for effect in (*against_base, *against_last) if effect is not None]
    text = (
        template_environment()
        .get_template("rounds.html.j2")
        .render(
            m=mending,
            style=asset("report.css"),
            samples=[Sample.of(result) for result in mending.results],
            place=place,
            rows=list(zip(mending.rounds, against_base, against_last, strict=True)),
            scale=interval_scale(shown) if shown else None,
            reports=[_report_of(mending, found) for found in mending.rounds],
        )
    )
    path = mending.folder / "report.html"
    write_text(path, text)
    return path


def _effect(mending: Mending, place: int | None, against: int | None) -> Effect | None:
    if place is None:
        return None
    return mending.effect(place, place - 1 if against is None else against)


def _report_of(mending: Mending, found: MendedRound) -> str | None:
    path = mending.folder / f"round-{found.number}" / "report.html"
    return f"round-{found.number}/report.html" if path.exists() else None
