"""`lab.studies`: names of the studies of a list, and the table of what is finished."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mirror_world
from engine_programs import session_members
from engine_units import wait_for
from lab.studies import Task, read_list, table

TESTS = Path(__file__).parents[1]
SETTINGS = """
episodes = 60
sources = "mined,yours"
mining = { lime_states = 10, lime_samples = 200 }
play = { batch = 8, unit_episodes = 40 }
evaluation = { method = "paper", episodes = 40, confirmation_episodes = 40 }
improvement = { episodes = 40, final_episodes = 40 }
references = { episodes = 20 }
"""


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


@pytest.mark.subprocess
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_killed_and_interrupted_study_goes_on_and_gives_the_same_table(tmp_path: Path, policy_file: Path) -> None:
    (tmp_path / "settings.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "mirror.toml").write_text(mirror_world.MIRROR, encoding="utf-8")
    options = ["--settings", str(tmp_path / "settings.toml"), "--relations", str(tmp_path / "mirror.toml")]
    line = shlex.join(["mirror_world:MirrorWorld", str(policy_file), *options])
    (tmp_path / "list.txt").write_text(line, encoding="utf-8")

    def studies(folder: Path) -> subprocess.Popen[str]:
        command = ["lab", "studies", tmp_path / "list.txt", "--out", folder]
        variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])}
        words = [sys.executable, "-m", *map(str, command)]
        return subprocess.Popen(words, cwd=TESTS.parent, env=variables, text=True, start_new_session=True)

    def stop_once(begun: Callable[[], bool], stop: Callable[[int], None]) -> None:
        """Stop the study as soon as something has begun; none of its processes may live on."""
        program = studies(stopped)
        assert wait_for(begun, 60)
        assert program.poll() is None
        stop(program.pid)
        program.wait(20)
        assert wait_for(lambda: not session_members(program.pid), 20)

    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert studies(whole).wait(120) == 0
    stop_once(lambda: any(stopped.glob("*/experiences.npz")), lambda pid: os.kill(pid, signal.SIGKILL))
    stop_once(lambda: any(stopped.glob("*/evaluation.npz")), lambda pid: os.killpg(pid, signal.SIGINT))
    assert "0 of 1 studies are" in (stopped / "table.md").read_text(encoding="utf-8")
    assert studies(stopped).wait(120) == 0
    assert results(stopped) == results(whole)
    assert results(whole)[0] == ["1 of 1 studies are finished."]


def results(folder: Path) -> list[list[str]]:
    """Return the cells of the table in a folder without those of core-minutes, which differ between runs."""
    rows = [line.split(" | ") for line in (folder / "table.md").read_text(encoding="utf-8").splitlines()]
    measured = rows[2].index("core-minutes")
    return [cells[:measured] + cells[measured + 1 :] for cells in rows]
