"""A picture of each table: ours and the paper's side by side, with the spread over policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import figure as figures

from legible.files import write_whole
from legible.reproduction.tables import Table

COLOURS = ("#3b6fb6", "#e08a1e", "#4f9d69", "#9b5fc0", "#c44e52", "#8c8c8c", "#2aa198")


def draw_table(table: Table, path: Path) -> None:
    """Draw a table as grouped bars, one panel a row of the table; the paper's figures are black marks."""
    shown = [i for i, column in enumerate(table.columns) if _is_drawn(table, i, column)]
    names = list(dict.fromkeys(row for row, _ in table.rows))
    modes = list(dict.fromkeys(mode for _, mode in table.rows))
    width, height = 2.2 * max(2, len(names)), 3.4 * len(modes)
    picture = figures.Figure(figsize=(width, height), layout="constrained")
    grid = picture.subplots(len(modes), len(names), squeeze=False)
    for i, mode in enumerate(modes):
        for j, name in enumerate(names):
            axes = grid[i, j]
            for place, k in enumerate(shown):
                cell = table.rows[name, mode][k]
                colour = COLOURS[place % len(COLOURS)]
                if cell.values:
                    axes.bar(place, cell.mean, color=colour, label=table.columns[k])
                    jitter = np.linspace(-0.2, 0.2, len(cell.values))
                    axes.scatter(place + jitter, cell.values, s=9, color="white", edgecolors="black", linewidths=0.6)
                if not np.isnan(cell.paper):
                    axes.plot([place - 0.4, place + 0.4], [cell.paper] * 2, color="black", linewidth=1.6)
            axes.set_xticks([])
            axes.set_title(name if len(modes) == 1 else f"{name}, {mode}", fontsize=9)
            axes.tick_params(labelsize=7)
            axes.spines[["top", "right"]].set_visible(False)
    handles, labels = _legend(grid)
    picture.legend(handles, labels, loc="outside lower center", ncols=len(shown), fontsize=8, frameon=False)
    picture.suptitle(f"{table.title} (black line: the paper; dots: our policies)", fontsize=10)
    write_whole(path, lambda file: picture.savefig(file, format="png", dpi=110, metadata={"Software": None}))


def _is_drawn(table: Table, index: int, column: str) -> bool:
    """Columns that share the picture's scale."""
    return table.digits[index] == max(table.digits) and "rule sets" not in column and "gain" not in column


def _legend(grid: Any) -> tuple[list[Any], list[str]]:
    """One entry for each column that any panel shows."""
    found: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)
