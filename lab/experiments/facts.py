"""The figures that RESULTS.md quotes, all from the records: `facts`.

A figure in the text is a place in this dictionary, such as ``{greedy[fresh][most]:.1%}``; no figure is typed.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from lab.experiments.network_table import RESULTS as NETWORKS
from lab.experiments.network_table import load_records as load_networks
from lab.experiments.network_table import network_facts
from lab.experiments.others_table import load_records as load_others
from lab.experiments.others_table import others_facts
from lab.experiments.search_table import load_records as load_searches
from lab.experiments.search_table import road_facts, search_facts
from lab.reproduction import TablePlan, find_tables, table_from_records
from lab.reproduction.records import Record, load_record
from lab.reproduction.tables import Cell
from legible.evaluation.statistics import holm
from legible.files import read_json

HERE = Path(__file__).parent
LEVELS = ("small", "small-nc", "medium", "medium-nc", "original", "original-nc")
ROADS = ("highway", "highway-fast", "merge", "intersection", "roundabout")
GREEDY, AUTHORS, EVERYWHERE = "greedy", "epsilon 0.05 off the rules", "epsilon 0.05 everywhere"
Facts = dict[str, Any]


class Figure(float):
    """A number that can also say what it is the mean of: ``{…}``, ``{….between}``, ``{….paper}``."""

    between: float
    paper: float

    @classmethod
    def of(cls, cell: Cell) -> Figure:
        """Make it of a table's cell."""
        made = cls(cell.mean)
        made.between, made.paper = cell.between, cell.paper
        return made


def all_tables() -> dict[str, dict[str, dict[str, dict[str, Figure]]]]:
    """Table → row → mode → column → figure."""
    tables: dict[str, dict[str, dict[str, dict[str, Figure]]]] = {}
    for name, path in find_tables(HERE).items():
        table = table_from_records(TablePlan.load(path), HERE / "results")
        for (row, mode), cells in table.rows.items():
            found = {column: Figure.of(cell) for column, cell in zip(table.columns, cells, strict=True)}
            tables.setdefault(name, {}).setdefault(row, {})[mode] = found
    return tables


def all_records(studies: str, mode: str, rows: Sequence[str]) -> list[Record]:
    """Return the records of some studies, by row and policy."""
    found = [load_record(path) for path in sorted((HERE / "results" / "records" / studies).glob("*.json.gz"))]
    chosen = [record for record in found if record["mode"] == mode and record["row"] in rows]
    return sorted(chosen, key=lambda record: (rows.index(record["row"]), record["policy_seed"]))


def facts() -> Facts:
    """Return everything that the text quotes."""
    tables = all_tables()
    road = all_records("highway", GREEDY, ROADS)
    return {
        **tables,
        "greedy": _mode(tables, GREEDY),
        "authors": _mode(tables, AUTHORS),
        "everywhere": _mode(tables, EVERYWHERE),
        "road": _road(road),
        "rules": {
            "pacman": _span([len(r["mined"]) for r in all_records("pacman", GREEDY, LEVELS)]),
            "road": _span([len(record["mined"]) for record in road]),
        },
        "known": _known_rule(),
        "clump": _clump(all_records("pacman", GREEDY, LEVELS)),
        "policies": {"pacman": len(all_records("pacman", GREEDY, LEVELS)), "road": len(road)},
        "braking": _braking(),
        "others": others_facts(load_others()),
        "search": search_facts(load_searches()),
        "braked": road_facts(load_searches()),
        "networks": network_facts(load_networks(NETWORKS)),
        "detectable": _span([_detectable(record) for record in all_records("pacman", GREEDY, LEVELS)]),
        "paper": {
            "found": _span([tables["table1"][level][GREEDY]["MT"].paper for level in LEVELS]),
            "rules": _span([tables["table1"][level][GREEDY]["evaluations"].paper for level in LEVELS]),
            "road_rules": _span([tables["table2"][road][GREEDY]["evaluations"].paper for road in ROADS]),
        },
    }


def _detectable(record: Record) -> float:
    """Return the effect that Welch's test of the paper's size shows with a probability of 80 %."""
    return float((stats.norm.isf(0.05) + stats.norm.ppf(0.8)) * np.sqrt(2.0) * record["base"]["error"])


def _span(values: Sequence[float]) -> dict[str, float]:
    return {"least": min(values), "most": max(values), "mean": float(np.mean(values))}


def _mode(tables: Mapping[str, Any], mode: str) -> Facts:
    def over(table: str, column: str) -> dict[str, float]:
        return _span([tables[table][level][mode][column] for level in LEVELS])

    return {
        "plain": over("table1", "MT"),
        "fresh": over("table1", "MT, fresh seeds"),
        "gain": over("table3", "gain"),
        "base": over("table3", "base"),
        "against_extended": over("table3", "rule-guided less extended"),
    }


def _of_rows(records: Sequence[Record], figure: Callable[[Record], float]) -> dict[str, list[float]]:
    return {row: [figure(record) for record in records if record["row"] == row] for row in ROADS}


def _road(records: Sequence[Record]) -> Facts:
    """Guided less extended, policy by policy; how many compositions gain; which actions confirmed rule sets name."""
    less = _of_rows(records, lambda r: r["improvement"]["guided"]["mean"] - r["extended"]["mean"])
    confirmed = [v for record in records for v in record["MT"] if v.get("q_fresh", 1.0) < 0.05]
    braking = [v for v in confirmed if v["rule"].startswith(("+SLOWER", "-FASTER"))]
    gains = [record["improvement"]["effect"]["low"] > 0 for record in records]
    return {
        "less_extended": {row: ", ".join(f"{value:+.0f}" for value in values) for row, values in less.items()},
        "confirmed": len(confirmed),
        "braking": len(braking),
        "gain": sum(gains),
        "references": _references(),
    }


def _references() -> Facts:
    """Return the best reference of each road: its name and mean return."""
    played = read_json(HERE / "results" / "road-references.json")["references"]
    best = {row: max(found, key=lambda name: float(found[name]["mean"])) for row, found in played.items()}
    return {row: {"name": name, "mean": played[row][name]["mean"]} for row, name in best.items()}


def _known_rule() -> Facts:
    """Return how often the paper's rule was mined, and where it has an effect after correction (Holm)."""
    greedy, authors = all_records("pacman", GREEDY, LEVELS), all_records("pacman", AUTHORS, LEVELS)
    corrected = holm([record["known_rule"]["effect"]["p"] for record in greedy])
    sure = [record for record, p in zip(greedy, corrected, strict=True) if p < 0.05]
    effects = [record["known_rule"]["effect"]["mean"] for record in sure]
    return {
        "mined": sum(record["known_rule"]["mined"] for record in greedy),
        "related": sum(bool(record["known_rule"]["related"]) for record in greedy),
        "authors": _span([record["known_rule"]["effect"]["mean"] for record in authors]),
        "sure": len(sure),
        "where": ", ".join(f"{r['row']} {e:+.0f}" for r, e in zip(sure, effects, strict=True)) or "nowhere",
    }


def _clump(records: Sequence[Record]) -> Facts:
    """Return how few policies make most of the plain count: all are compared with one unguided run."""
    counts = sorted((sum(v["p"] < 0.05 for v in record["MT"]) for record in records), reverse=True)
    few = int(np.searchsorted(np.cumsum(counts), sum(counts) / 2)) + 1
    return {"policies": few, "of": len(counts), "sets": sum(counts)}


def _braking() -> dict[str, float]:
    """Return the mean returns of highway-env's own episodes with SLOWER throughout, 40 s each (merge: to its end)."""
    with (HERE / "results" / "highway-env-episodes.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = sorted({row["scenario"] for row in rows})
    return {
        name: float(np.mean([float(r["return"]) for r in rows if (r["scenario"], r["policy"]) == (name, "slower")]))
        for name in names
    }
