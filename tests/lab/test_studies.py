"""`lab.studies`: names of the studies of a list, and the table of what is finished."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.studies import Task, read_list, table


def test_names_of_a_list(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.zip").touch()
    path = tmp_path / "list.txt"
    path.write_text(
        f"# two files\nHopper-v5 {tmp_path}/*.zip --preset quick\n\n# twice\nT-v0 zoo:T/1\nT-v0 zoo:T/1 --seed 2\n",
        encoding="utf-8",
    )
    tasks = read_list(path)
    assert [task.name for task in tasks] == ["Hopper-v5-a", "Hopper-v5-b", "T-v0-zoo-T-1", "T-v0-zoo-T-1-2"]
    assert tasks[0].words == ("Hopper-v5", str(tmp_path / "a.zip"), "--preset", "quick")


def test_a_line_without_a_policy_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("CartPole-v1\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="needs an environment"):
        read_list(path)


def test_the_table_has_the_largest_gain_first_and_names_what_is_left(tmp_path: Path) -> None:
    for name, gain in (("one", 1.0), ("two", 2.0)):
        record = {
            "headline": f"{name}|",
            "command": ["T-v0", "zoo:T/1", "--relations", "discover"],
            "confirmed_weaknesses": 1,
            "measured": {"processor_seconds": 90.0},
            "improvement": {
                "base": {"mean": 10.0},
                "guided": {"mean": 10.0 + gain},
                "effect": {"mean": gain, "low": gain - 0.5, "high": gain + 0.5},
            },
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    lines = table([Task(name, ()) for name in ("one", "two", "three")], tmp_path).splitlines()
    assert lines[0].startswith("2 of 3")
    cells = [cell.strip() for cell in lines[4].split(" | ")]
    assert cells == [
        "| [two](two/report.html)",
        "--relations discover",
        "10",
        "12",
        "2 (1.5 to 2.5)",
        "1",
        "1.5",
        "two\\| |",
    ]
    assert lines[5].startswith("| [one](one/report.html)")
    assert lines[-1].endswith(": three.")
