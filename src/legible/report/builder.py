"""Builder of the report: one self-contained HTML file, with plots and tables in a folder next to it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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
    """Write the report of a study, and its plots and tables into ``plots`` next to it; return the path of the file.

    Parameters
    ----------
    study
        The study; missing steps are run.
    path
        Path of the HTML file; by default ``report.html`` in the folder of the study.
    others
        Other policies (or their paths) by name, which become baselines of the study.
    watch
        Held-out seeds to replay in addition to the ones that are chosen automatically.
    """
    target = Path(path) if path is not None else study.folder / "report.html"
    study.play_references(others)
    study.explain()
    study.do("summary")
    study.split_gains()
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
            libraries=Markup("\n").join([asset("vendor/d3.min.js"), asset("vendor/plot.min.js")]),
            script=Markup("\n").join([plain_script("player.js"), *map(asset, ("lanes.js", "charts.js", "report.js"))]),
            charts=as_script(findings.charts),
            replays=as_script(findings.replays),
        )
    )


def template_environment() -> jinja2.Environment:
    """Return the environment of the templates, with the number formats as filters."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_ASSETS),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        # Figures and their percent signs stay on one line.
        finalize=lambda value: formatting.unbroken(value) if type(value) is str else value,
    )
    for name in ("number", "signed", "percent", "p_value", "with_error", "counted", "capitalise"):
        environment.filters[name] = getattr(formatting, name)
    environment.filters["numbered"] = lambda rows: list(enumerate(rows, start=1))
    environment.filters["with_options"] = _with_options
    environment.filters["figure_cell"] = _figure_cell
    return environment


def _figure_cell(text: str) -> Markup:
    """Return a figure with its interval, "599 (566 to 633)", that breaks only between the two."""
    figure, bracket, interval = formatting.unbroken(text).partition(" (")
    return Markup('{}<span class="whole">{}</span>').format(
        f"{figure} " if bracket else figure, bracket.strip() + interval
    )


def _with_options(sentence: str) -> Markup:
    """Return a sentence with options, such as --set search.budget=N, as code that stays on one line."""
    pattern = r"(?:legible \w+ \S+ )?--(?:set )?[a-z][\w.,=-]*\w(?: [A-Z]+\b)?"
    return Markup(re.sub(pattern, r'<code class="whole">\g<0></code>', str(escape(formatting.unbroken(sentence)))))


def asset(name: str) -> Markup:
    """Return the text of an asset file."""
    return Markup((_ASSETS / name).read_text(encoding="utf-8"))


def plain_script(name: str) -> Markup:
    """Return the text of a module that imports nothing, as a script without exports."""
    return Markup(re.sub(r"^export ", "", asset(name), flags=re.MULTILINE))


def as_script(data: object) -> Markup:
    """Return JSON that is safe inside a script element: nothing in it can close the element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
