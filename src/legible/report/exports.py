"""The report's tables as CSV files and its plots as PNG files, for spreadsheets and papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from legible.errors import LegibleError
from legible.files import write_text, write_whole
from legible.report.findings import Findings
from legible.report.plots import (
    LINE_HEIGHT,
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
    """Write returns, baselines, verdicts, rules, composition and importances as ``.csv`` files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LegibleError(f"{folder}: cannot be created ({error.strerror}).") from error
    study, space = findings.study, findings.study.space
    columns: dict[str, Sequence[Any]] = {"seed": study.improvement.final_blocks.seeds}
    columns |= {entry.name: entry.result.returns.tolist() for entry in findings.returns}
    _write(folder / "returns.csv", list(columns), zip(*columns.values(), strict=True))
    _write_rows(folder / "references.csv", study.references.to_rows())
    _write_rows(folder / "verdicts.csv", study.evaluation.to_rows(space))
    _write_rows(folder / "rules.csv", study.mining.to_rows())
    _write_rows(folder / "composition.csv", study.improvement.to_rows(space))
    importances: list[dict[str, Any]] = []
    if study.mining.importance is not None:
        # Both are float64[actions, features].
        weights = {"for": study.mining.importance.positive, "against": study.mining.importance.negative}
        for action, feature in np.ndindex(len(space.actions), len(space)):
            names = {"action": space.action_names[action], "feature": space.names[feature]}
            importances.append({**names, **{name: float(matrix[action, feature]) for name, matrix in weights.items()}})
    _write_rows(folder / "importances.csv", importances)


def _write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows with the union of their keys as columns; without rows, remove the file."""
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
    study, space, evaluation = findings.study, findings.study.space, findings.study.evaluation
    tested = sum(verdict.confirmation is not None for verdict in evaluation.verdicts)
    returns = {entry.words: entry.result.played.returns for entry in findings.returns}
    _save(folder / "returns.png", lambda ax: plot_returns(returns, ax))
    _save(folder / "p-values.png", lambda ax: plot_p_values(evaluation, ax))
    _save(folder / "effects.png", lambda ax: plot_effects(evaluation, space, ax), min(MOST_ROWS, tested))
    steps = len(study.improvement.steps)
    _save(folder / "composition.png", lambda ax: plot_composition(study.improvement, space, ax), steps)
    if study.mining.importance is not None:
        shown = min(MOST_ROWS, len(space))
        _save(folder / "importances.png", lambda ax: plot_importances(study.mining, ax, most=MOST_ROWS), shown)


def _save(path: Path, draw: Callable[[Axes], object], rows: int = 0) -> None:
    """Draw on a figure that is high enough for its row labels, and write it."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (slow to import)

    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    axes = figure.subplots()
    draw(axes)
    lines = max((label.get_text().count("\n") + 1 for label in axes.get_yticklabels()), default=1)
    figure.set_figheight(max(3.6, 1.2 + max(ROW_HEIGHT, LINE_HEIGHT * lines) * rows))
    # Without the version of matplotlib, equal pixels give equal files.
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=120, metadata={"Software": None}))
