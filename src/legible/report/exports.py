"""The report's tables as CSV files and its plots as PNG files, for spreadsheets and papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legible.errors import LegibleError
from legible.files import write_text, write_whole
from legible.report.findings import Findings
from legible.report.plots import (
    ROW_HEIGHT,
    plot_composition,
    plot_effects,
    plot_importances,
    plot_p_values,
    plot_returns,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 15


def write_tables(findings: Findings, folder: Path) -> None:
    """Write the tables of returns, references, verdicts, rules, composition, importances and baselines as ``.csv``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LegibleError(f"{folder}: cannot be made ({error.strerror}).") from error
    study, space = findings.study, findings.study.space
    columns: dict[str, Sequence[Any]] = {"seed": findings.final_seeds}
    for entry in findings.returns:
        columns[entry.name] = entry.result.returns.tolist()
    _write(folder / "returns.csv", list(columns), zip(*columns.values(), strict=True))
    _write_rows(folder / "references.csv", findings.references.to_rows())
    _write_rows(folder / "verdicts.csv", findings.evaluation.to_rows(space))
    _write_rows(folder / "rules.csv", study.mining.to_rows())
    _write_rows(folder / "composition.csv", findings.improvement.to_rows(space))
    _write_rows(folder / "importances.csv", _importance_rows(findings))
    baselines = [
        {"baseline": kind, "test": i, **row}
        for kind, evaluation in study.baselines.items()
        for i, row in enumerate(evaluation.to_rows(space))
    ]
    _write_rows(folder / "baselines.csv", baselines)


def _importance_rows(findings: Findings) -> list[dict[str, Any]]:
    importance, space = findings.study.mining.importance, findings.study.space
    if importance is None:
        return []
    return [
        {
            "action": action,
            "feature": feature,
            "for": float(importance.positive[a, i]),
            "against": float(importance.negative[a, i]),
        }
        for a, action in enumerate(space.action_names)
        for i, feature in enumerate(space.names)
    ]


def _write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows under the union of their keys; without rows there is no file."""
    if not rows:
        path.unlink(missing_ok=True)  # of an earlier report
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    _write(path, names, ([row.get(name, "") for name in names] for row in rows))


def _write(path: Path, names: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    write_text(path, text.getvalue())


def write_plots(findings: Findings, folder: Path) -> None:
    """Write ``returns.png``, ``p-values.png``, ``effects.png``, ``composition.png`` and ``importances.png``."""
    study, space, evaluation = findings.study, findings.study.space, findings.evaluation
    tested = sum(verdict.confirmation is not None for verdict in evaluation.verdicts)
    returns = {entry.words: entry.result.played.returns for entry in findings.returns}
    _save(folder / "returns.png", lambda ax: plot_returns(returns, ax))
    _save(folder / "p-values.png", lambda ax: plot_p_values(evaluation, ax))
    _save(folder / "effects.png", lambda ax: plot_effects(evaluation, space, ax), min(MOST_ROWS, tested))
    steps = len(findings.improvement.steps)
    _save(folder / "composition.png", lambda ax: plot_composition(findings.improvement, space, ax), steps)
    if study.mining.importance is not None:
        shown = min(MOST_ROWS, len(space))
        _save(folder / "importances.png", lambda ax: plot_importances(study.mining, ax, most=MOST_ROWS), shown)


def _save(path: Path, draw: Callable[[Axes], object], rows: int = 0) -> None:
    """Draw on a figure that is high enough for the labels of its rows, and write it."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (slow to import)

    figure = Figure(figsize=(8.0, max(3.6, 1.2 + ROW_HEIGHT * rows)), layout="constrained")
    draw(figure.subplots())
    # Without the version of matplotlib in it, the file is the same wherever the same pixels are drawn.
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=120, metadata={"Software": None}))
