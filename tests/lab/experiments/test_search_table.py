"""The table of the default settings: rows, intervals and the text's figures from records, by hand."""

from pathlib import Path
from typing import Any

import pytest

from lab.experiments.search_table import load_records, read_jobs, road_facts, row_table, search_facts, table
from legible.files import write_json


def record(seed: int, gain: float, row: str = "PAC-Man small", **more: Any) -> dict[str, Any]:
    figures = {
        "base": {"mean": 100.0},
        "guided": {"mean": 100.0 + gain},
        "gain": {"mean": gain, "low": gain - 15.0, "high": gain + 15.0},
        "worst_tenth": {"mean": 2.0 * seed},
        "changed": 0.01 * (1 + seed),
        "rule_sets": 2,
        "best_reference": {"name": "random play", "mean": -5.0},
    }
    return {
        "row": row,
        "seed": seed,
        "compositions": {"": figures},
        "confirmed": [{"found_by": "mined, searched"}] * seed,
        "sources": [
            {"source": "mined", "used": 1, "steps": 2_000_000},
            {"source": "searched", "used": 1, "steps": 4_000_000},
        ],
        "seconds": {"mining": 30.0, "evaluation": 90.0} if seed else None,
        **more,
    }


def test_a_row_has_the_mean_over_policies_and_its_interval() -> None:
    line = row_table([record(0, 10.0), record(1, 20.0)]).splitlines()[-1]
    # t with one degree of freedom is 12.706, the standard error 5: 15 ± 63.5.
    cells = "| PAC-Man small | 2 | 100 | 115 | 15.0 (-48.5 to 78.5) | 0 | 1.0 | 1.5 % | -5.0 | 1 | 2, 2, 0 |"
    assert line == cells


def test_minutes_of_a_study_that_was_timed_in_parts_only_are_not_shown() -> None:
    lines = table([record(0, 10.0), record(1, 20.0)]).splitlines()
    assert lines[-2].split(" | ")[-3:] == ["2", "–", "6.0 M |"]
    assert lines[-1].split(" | ")[-3:] == ["2", "2.0", "6.0 M |"]


def test_policies_that_lose_significantly_are_counted() -> None:
    assert search_facts([record(0, 10.0), record(1, -20.0)])["worse"] == 1


def test_the_text_speaks_of_pacman_alone() -> None:
    facts = search_facts(
        [record(0, 10.0), record(1, 20.0), record(1, 30.0, "PAC-Man medium"), record(1, 900.0, "highway")]
    )
    assert facts["policies"] == 3
    assert facts["gain"] == pytest.approx(20.0)
    assert facts["rows"] == "small +15; medium +30"
    assert (facts["better"], facts["worse"]) == (2, 0)
    assert (facts["confirmed"], facts["confirmed_searched"], facts["confirmed_in"]) == (2, 2, 2)
    assert (facts["used"], facts["used_searched"]) == (6, 3)
    assert facts["changed"] == pytest.approx(0.02)
    assert (facts["steps"], facts["minutes"]) == (6.0, 2.0)


def test_the_road_is_compared_with_the_best_reference() -> None:
    braking, better = record(1, 700.0, "highway", preset="quick"), record(2, 900.0, "highway", preset="quick")
    assert "highway (`--preset quick`) | 2" in row_table([braking, better])
    for one in (braking, better):
        one["compositions"][""]["best_reference"] = {"name": "always SLOWER", "mean": 800.0}
        one["compositions"]["most changed 0.2"] = one["compositions"][""] | {"guided": {"mean": 100.0 * one["seed"]}}
    facts = road_facts([record(0, 10.0), braking, better])
    assert facts["rows"] == "highway 100 → 900 (800)"
    assert facts["limited"] == "highway 100 → 150 (800)"
    assert (facts["policies"], facts["no_better"], facts["references"]) == (2, 1, "always SLOWER")
    assert facts["changed"] == pytest.approx(0.025)
    assert facts["limited_better"] == 2
    assert row_table([braking, better]).splitlines()[-1].endswith("| – |")


def test_records_come_in_the_order_of_the_plan(tmp_path: Path) -> None:
    rows = list(dict.fromkeys(job.row for job in read_jobs()))
    for name, (seed, row) in {"a": (1, rows[1]), "b": (0, rows[1]), "c": (2, rows[0])}.items():
        write_json(tmp_path / f"{name}.json", record(seed, 1.0, row))
    found = [(record["row"], record["seed"]) for record in load_records(tmp_path)]
    assert found == [(rows[0], 2), (rows[1], 0), (rows[1], 1)]
