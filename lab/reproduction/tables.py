"""Tables from records: ours and the paper's, as values, Markdown and CSV.

Each cell is the mean over the policies of a row. ``±`` is the mean of their own standard errors, as in the paper;
the error between policies, which says how much another five policies would differ, follows in brackets.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lab.reproduction.plan import StudiesPlan, TablePlan
from lab.reproduction.records import Record
from legible.evaluation.statistics import benjamini_hochberg

NOT_RUN = "not run"
NOT_MEANT = "–"
"""Stands where the plan asks for nothing: no random tests in this mode, no policy that was trained for longer."""
ALPHA = 0.05


@dataclass(frozen=True)
class Cell:
    """A figure: the mean over policies, the mean of their own errors, and the error between them.

    `paper` is the paper's figure, NaN where it has none; `note` says what the figure is of, where that differs by row.
    `is_meant` says whether the plan asks for it at all.
    """

    values: tuple[float, ...]
    errors: tuple[float, ...] = ()
    paper: float = float("nan")
    note: str = ""
    is_meant: bool = True

    @property
    def mean(self) -> float:
        """Mean over the policies."""
        return float(np.mean(self.values)) if self.values else float("nan")

    @property
    def within(self) -> float:
        """Mean of the policies' own standard errors; NaN where there are none."""
        return float(np.mean(self.errors)) if self.errors else float("nan")

    @property
    def between(self) -> float:
        """Standard error of the mean over the policies."""
        n = len(self.values)
        return float(np.std(self.values, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")

    def text(self, digits: int) -> str:
        """For people: ``mean ± within [between]``."""
        if not self.values:
            return NOT_RUN if self.is_meant else NOT_MEANT
        within = f" ± {self.within:.{digits}f}" if self.errors else ""
        between = f" [{self.between:.{digits}f}]" if len(self.values) > 1 else ""
        note = f" ({self.note})" if self.note else ""
        return f"{self.mean:.{digits}f}{within}{between}{note}"


@dataclass(frozen=True)
class Table:
    """Rows of cells with the names of their columns; `digits` by column."""

    name: str
    title: str
    columns: tuple[str, ...]
    digits: tuple[int, ...]
    rows: Mapping[tuple[str, str], tuple[Cell, ...]]

    def to_markdown(self) -> str:
        """Return a line for the paper and one for each of our modes, row by row."""
        lines = [
            f"| {' | '.join(('row', 'mode', 'policies', *self.columns))} |",
            "|---" * (len(self.columns) + 3) + "|",
        ]
        written: set[str] = set()
        for (row, mode), cells in self.rows.items():
            if row not in written:
                paper = ["" if np.isnan(cell.paper) else f"{cell.paper:g}" for cell in cells]
                if any(paper):
                    lines.append(f"| **{row}** | paper | 5 | {' | '.join(paper)} |")
            written.add(row)
            policies = max((len(cell.values) for cell in cells), default=0)
            shown = []
            for cell, digits in zip(cells, self.digits, strict=True):
                few = f" ({len(cell.values)} of {policies})" if 0 < len(cell.values) < policies else ""
                shown.append(cell.text(digits) + few)
            if policies:
                lines.append(f"| {row} | {mode} | {policies} | {' | '.join(shown)} |")
            else:
                lines.append(f"| {row} | {mode} | {NOT_RUN} |{' |' * len(cells)}")
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """Return one line for each cell."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["table", "row", "mode", "column", "policies", "mean", "within", "between", "paper"])
        for (row, mode), cells in self.rows.items():
            for column, cell in zip(self.columns, cells, strict=True):
                figures = (cell.mean, cell.within, cell.between, cell.paper)
                texts = ["" if np.isnan(figure) else f"{figure:.6g}" for figure in figures]
                writer.writerow([self.name, row, mode, column, len(cell.values), *texts])
        return file.getvalue()


Quantity = Callable[[Record], "float | tuple[float, float] | None"]
"""From a record to a number, or a number and its standard error; None where there is nothing to say."""


def _shares(verdicts: Sequence[Record]) -> dict[str, float]:
    """Return the shares of evaluations that found a weakness: plain test, after correction, on held-out seeds."""
    verdicts = distinct(verdicts)
    if not verdicts:
        return {}
    plain = [v["p"] < ALPHA for v in verdicts]
    corrected = benjamini_hochberg([v["p"] for v in verdicts]) < ALPHA
    fresh = [v.get("q_fresh", 1.0) < ALPHA for v in verdicts]
    return {"plain": float(np.mean(plain)), "corrected": float(np.mean(corrected)), "fresh": float(np.mean(fresh))}


def distinct(verdicts: Sequence[Record]) -> list[Record]:
    """Return verdicts with equal rule sets counted once; all of them where records do not say which are equal."""
    found: dict[object, Record] = {}
    for number, verdict in enumerate(verdicts):
        found.setdefault(verdict.get("set", number), verdict)
    return list(found.values())


def best_reference(record: Record) -> Record | None:
    """Return the reference with the highest mean return on the final seeds: random play, a constant, a policy."""
    found = [one for one in record.get("references") or () if one["seeds"] == "final"]
    return max(found, key=lambda one: float(one["mean"]), default=None)


def _best_reference(record: Record) -> tuple[float, float] | None:
    found = best_reference(record)
    return (found["mean"], found["error"]) if found else None


def _of_method(method: str, kind: str) -> Quantity:
    def figure(record: Record) -> float | None:
        found = record[method]
        # The 200 random tests are two families of 100, one that blocks and one that enforces.
        families = list(found.values()) if isinstance(found, dict) else [found]
        shares = [_shares(family)[kind] for family in families if family]
        return float(np.mean(shares)) if shares else None

    return figure


def _sample_of(*path: str) -> Quantity:
    def figure(record: Record) -> tuple[float, float] | None:
        found: Record | None = record
        for key in path:
            found = found.get(key) if found else None
        return (found["mean"], found["error"]) if found else None

    return figure


METHODS = ("RT", "RR", "MT")
REFERENCE = "best reference"
WEAKNESSES: dict[str, tuple[Quantity, int]] = {
    **{method: (_of_method(method, "plain"), 3) for method in METHODS},
    "evaluations": (lambda record: float(len(distinct(record["MT"]))), 1),
    **{f"{method}, corrected": (_of_method(method, "corrected"), 3) for method in METHODS},
    **{f"{method}, fresh seeds": (_of_method(method, "fresh"), 3) for method in METHODS},
}
IMPROVEMENT: dict[str, tuple[Quantity, int]] = {
    "base": (_sample_of("improvement", "base"), 1),
    "rule-guided": (_sample_of("improvement", "guided"), 1),
    "extended training": (_sample_of("extended"), 1),
    REFERENCE: (_best_reference, 1),
    "rule sets": (lambda record: float(len(record["improvement"]["rule_sets"])), 1),
    "gain": (_sample_of("improvement", "effect"), 1),
    "rule-guided less extended": (_sample_of("extended", "guided_over_extended"), 1),
    "rule-guided, where it was chosen": (_sample_of("improvement", "chosen"), 1),
}


def _columns(plan: TablePlan, labels: Sequence[str], groups: Sequence[str]) -> dict[str, tuple[str, Quantity, int]]:
    """Return the columns by name: label of the studies, figure, digits."""
    if plan.kind == "groups":
        return {
            f"{label} {group}": (label, lambda record, group=group: record["groups"].get(group), 2)  # type: ignore[misc]
            for label in labels
            for group in groups
        }
    figures = WEAKNESSES if plan.kind == "weaknesses" else IMPROVEMENT
    return {
        name if len(labels) == 1 else f"{label} {name}": (label, figure, digits)
        for label in labels
        for name, (figure, digits) in figures.items()
    }


def build_table(plan: TablePlan, records: Mapping[str, Sequence[Record]]) -> Table:
    """Make a table.

    Parameters
    ----------
    plan
        The table.
    records
        Label of the studies → their records, in any order. Missing cells are "not run".
    """
    plans = plan.plans()
    wanted = {column for row in plan.paper.values() for column in row}
    groups = sorted({column.partition(" ")[2] for column in wanted}) if plan.kind == "groups" else []
    columns = _columns(plan, list(plans), groups)
    modes = plan.modes or list(dict.fromkeys(mode for studies in plans.values() for mode in studies.modes))
    rows: dict[tuple[str, str], tuple[Cell, ...]] = {}
    for row in plan.paper:
        for mode in modes:
            cells = []
            for name, (label, figure, _) in columns.items():
                here = [r for r in records.get(label, ()) if (r["row"], r["mode"]) == (row, mode)]
                here.sort(key=lambda record: record["policy_seed"])
                note = _reference_name(here) if name.endswith(REFERENCE) else ""
                cell = _cell([figure(record) for record in here], plan.paper[row].get(name, float("nan")), note)
                cells.append(replace(cell, is_meant=_is_meant(plans[label], row, mode, name)))
            rows[row, mode] = tuple(cells)
    digits = tuple(digits for _, _, digits in columns.values())
    return Table(plan.name, plan.title, tuple(columns), digits, rows)


def _is_meant(studies: StudiesPlan, row: str, mode: str, column: str) -> bool:
    """Return whether the plan of some studies asks for a column."""
    if "extended" in column:
        return any(one.extended for one in studies.rows if one.name == row)
    is_baseline = column.removesuffix(", corrected").removesuffix(", fresh seeds")[-2:] in ("RT", "RR")
    return not is_baseline or mode not in studies.modes or studies.modes[mode].baselines


def _reference_name(records: Sequence[Record]) -> str:
    """Return the names of the best references of some records, those of most policies first."""
    names = Counter(found["name"] for record in records if (found := best_reference(record)))
    return ", ".join(name for name, _ in names.most_common())


def _cell(found: Sequence[float | tuple[float, float] | None], paper: float, note: str) -> Cell:
    known = [figure for figure in found if figure is not None]
    values = tuple(figure[0] if isinstance(figure, tuple) else figure for figure in known)
    errors = tuple(figure[1] for figure in known if isinstance(figure, tuple))
    return Cell(values, errors, paper, note)
