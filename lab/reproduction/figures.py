"""A picture of each table: ours and the paper's side by side, with the spread over policies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import figure as figures

from lab.reproduction.tables import NOT_RUN, Table
from legible.files import write_whole

COLOURS = ("#3b6fb6", "#e08a1e", "#4f9d69", "#9b5fc0", "#c44e52", "#8c8c8c", "#2aa198")


def draw_table(table: Table, path: Path) -> None:
    """Draw a table as bars, a panel for each row and mode that was run; black lines are the paper's figures."""
    shown = [i for i, column in enumerate(table.columns) if _is_drawn(table, i, column)]
    run = {place for place, cells in table.rows.items() if any(cell.values for cell in cells)}
    names = [name for name in dict.fromkeys(row for row, _ in table.rows) if any(name == row for row, _ in run)]
    modes = [mode for mode in dict.fromkeys(mode for _, mode in table.rows) if any(mode == other for _, other in run)]
    picture = figures.Figure(figsize=(2.2 * max(3, len(names)), 2.9 * max(1, len(modes)) + 0.8), layout="constrained")
    grid = picture.subplots(max(1, len(modes)), max(1, len(names)), squeeze=False)
    for i, mode in enumerate(modes):
        for j, name in enumerate(names):
            _draw_panel(grid[i, j], table, (name, mode), shown)
            if i == 0:
                grid[i, j].set_title(fill(name, 18), fontsize=9)
        grid[i, 0].set_ylabel(mode, fontsize=9)
    handles, labels = _legend(grid)
    if handles:
        picture.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    picture.suptitle(f"{table.title} (black lines: the paper; dots: our policies)", fontsize=10)
    write_whole(path, lambda file: picture.savefig(file, format="png", dpi=110, metadata={"Software": None}))


def _draw_panel(axes: Any, table: Table, place: tuple[str, str], shown: Sequence[int]) -> None:
    cells = table.rows[place]
    for k, index in enumerate(shown):
        cell = cells[index]
        if cell.values:
            axes.bar(k, cell.mean, color=COLOURS[k % len(COLOURS)], label=table.columns[index])
            jitter = np.linspace(-0.2, 0.2, len(cell.values))
            axes.scatter(k + jitter, cell.values, s=9, color="white", edgecolors="black", linewidths=0.6)
        if not np.isnan(cell.paper):
            axes.plot([k - 0.4, k + 0.4], [cell.paper] * 2, color="black", linewidth=1.6)
    if not any(cell.values for cell in cells):
        axes.text(0.5, 0.5, NOT_RUN, transform=axes.transAxes, ha="center", fontsize=9, color="grey")
    axes.set_xticks([])
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _is_drawn(table: Table, index: int, column: str) -> bool:
    """Return whether a column shares the picture's scale."""
    return table.digits[index] == max(table.digits) and "rule sets" not in column and "gain" not in column


def _legend(grid: Any) -> tuple[list[Any], list[str]]:
    """Return one entry for each column that any panel shows."""
    found: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)
