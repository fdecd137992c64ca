"""Puts the report together: one HTML file that needs nothing else, with plots and tables beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from legible import formatting
from legible.files import write_text
from legible.policies import Policy
from legible.report.exports import write_plots, write_tables
from legible.report.findings import Findings, gather
from legible.study import Study

_ASSETS = Path(__file__).parent / "assets"


def write_report(
    study: Study,
    path: str | Path | None = None,
    *,
    others: Mapping[str, str | Path | Policy] | None = None,
    watch: Sequence[int] = (),
) -> Path:
    """Write the report of a study, and its plots and tables into the folder ``plots`` beside it.

    Parameters
    ----------
    study
        The study; steps that it has not done yet are done.
    path
        Where to; ``report.html`` in the study's folder by default.
    others
        Other policies (or their paths) by name, which become references of the study.
    watch
        Seeds of the final figure to show as replays, beside those that are chosen anyway.

    Returns
    -------
    Path
        Of the HTML file.
    """
    target = Path(path) if path is not None else study.folder / "report.html"
    study.play_references(others)
    study.explain()
    findings = gather(study, watch)
    folder = target.parent / "plots"
    write_tables(findings, folder)
    write_plots(findings, folder)
    write_text(target, render(findings))
    return target


def render(findings: Findings) -> str:
    """Return the report as HTML."""
    return (
        template_environment()
        .get_template("report.html.j2")
        .render(
            f=findings,
            style=asset("report.css"),
            script=Markup("\n").join([asset("player.js"), asset("report.js")]),
            replays=_as_script(findings.replays),
        )
    )


def template_environment() -> jinja2.Environment:
    """Return what fills templates, with numbers for people as filters."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_ASSETS),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    for name in ("number", "signed", "percent", "p_value", "with_error", "counted", "capitalise", "unbroken"):
        environment.filters[name] = _filter(getattr(formatting, name))
    environment.filters["numbered"] = lambda rows: list(enumerate(rows, start=1))
    environment.filters["with_options"] = _with_options
    environment.filters["figure_cell"] = _figure_cell
    return environment


def _filter(write: Callable[..., str]) -> Callable[..., str]:
    """Make a filter of the template: text in which figures and their percent signs stay on one line."""
    return lambda *arguments: formatting.unbroken(write(*arguments))


def _figure_cell(text: str) -> Markup:
    """A figure with its interval, "599 (566 to 633)", which breaks at most between the two."""
    figure, bracket, interval = formatting.unbroken(text).partition(" (")
    return Markup('{}<span class="whole">{}</span>').format(
        f"{figure} " if bracket else figure, bracket.strip() + interval
    )


def _with_options(sentence: str) -> Markup:
    """A sentence in which options, such as --search.budget, are set as code that stays on one line."""
    return Markup(re.sub(r"--[a-z][a-z.-]*[a-z]", r'<code class="whole">\g<0></code>', str(escape(sentence))))


def asset(name: str) -> Markup:
    """Return a file of the report's own, as it is."""
    return Markup((_ASSETS / name).read_text(encoding="utf-8"))


def _as_script(data: object) -> Markup:
    """JSON that can stand inside a script element: nothing in it can close the element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
