"""Studies that are killed again and again: in the end they are what an undisturbed one is, to the bit.

- `run_chaos`: kills studies at moments of all stages and resumes them; `ChaosResult`: kills and differences.
- `run_study`: the process that is killed; it prints its progress.
- `contents`: the content of a finished study, for comparison.
- `disturb_commands`: the same for ``legible distil`` and ``legible compare``, which are killed or stopped with Ctrl-C.

Whatever is killed leaves no process behind, and Ctrl-C ends everything within `STOP_SECONDS`.

A moment is a stage and how much of it is done, by what an undisturbed study does in it. The process prints its progress
line by line, and is killed when it has come to the moment, or a few milliseconds later. A Ray cluster stays up: as on a
real one, only the study that uses it is killed and started again.
"""

from __future__ import annotations

import json
import logging
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from lab.harness.samples import plain
from lab.harness.small_study import make_study
from legible.engines import InProcess, make_engine
from legible.files import read_arrays
from legible.imports import optional_package
from legible.study import Study

STAGES = (
    *("start", "experiences", "first look", "your rules", "importance", "rules", "search", "racing"),
    *("racing confirmation", "composition", "composition check", "final"),
    *("references", "time limit", "symmetry", "explanation", "mistakes", "mistakes rollouts", "failures"),
)
WORKERS = 2
STOP_SECONDS = 3.0
MARK = "LEGIBLE_CHAOS"
TESTS = Path(__file__).parents[2] / "tests"
DELAYS = (0.03, 0.3)  # seconds at the most: into the writing of a file, or beyond it

Moment = tuple[int, int]
"""The number of a stage, and how much of it."""


@dataclass
class ChaosResult:
    """Numbers of kills by stage and of studies; and the differences found afterwards."""

    studies: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        by_stage = ", ".join(f"{stage} {self.kills[stage]}" for stage in (*STAGES, "distil", "compare"))
        found = "\n".join(self.differences) or "all bit-identical to an undisturbed one"
        return f"{self.kills.total()} kills in {self.studies} studies ({by_stage}): {found}"


def run_chaos(kills: int, engine: str, seed: int = 0, *, verbose: bool = False) -> ChaosResult:
    """Kill studies a number of times, finish each, and compare it with an undisturbed one."""
    from flawed_network import save_flawed_network

    result = ChaosResult()
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, _cluster(engine):
        policy = save_flawed_network(Path(folder) / "policy.safetensors")
        reached: dict[str, int] = {}
        _run_until(None, Path(folder) / "undisturbed", policy, engine, 0.0, reached)
        expected = contents(Path(folder) / "undisturbed")
        while result.kills.total() < kills:
            place = Path(folder) / str(result.studies)
            for moment in draw_moments(draw, min(len(reached), kills - result.kills.total()), reached):
                stage = _run_until(moment, place, policy, engine, draw.choice(DELAYS) * draw.random())
                if stage is None:
                    break  # it was done before it could be killed
                result.kills[stage] += 1
                if verbose:
                    print(f"killed in {stage}", flush=True)
            _run_until(None, place, policy, engine, 0.0)
            result.differences += _differences(f"study {result.studies}", expected, contents(place))
            result.studies += 1
            if verbose:
                print(result, flush=True)
        disturb_commands(Path(folder), engine, result, draw, kills=max(1, kills // 10))
        if verbose:
            print(result, flush=True)
    return result


def disturb_commands(folder: Path, engine: str, result: ChaosResult, draw: random.Random, kills: int) -> None:
    """Kill or stop commands at random moments, let them finish, and compare what they give.

    Parameters
    ----------
    folder
        Holds the finished study "undisturbed".
    engine, result, draw
        The engine; where kills and differences are counted; decides the moments.
    kills
        How often each command is disturbed.
    """
    study = str(folder / "undisturbed")
    few = {"episodes": 16, "steps": 50, "rounds": 2, "check_episodes": 20, "final_episodes": 20}
    sizes = [f"--set=distillation.{name}={n}" for name, n in few.items()]

    def distil(out: Path) -> list[str]:
        return ["distil", study, "--out", str(out), "--trust", "--json", f"--engine={engine}", *sizes]

    def compare(_: Path) -> list[str]:
        return ["compare", study, study, "--trust", "--json", "--episodes", "400"]

    for name, words in {"distil": distil, "compare": compare}.items():
        started = time.monotonic()
        expected = _finish(words(folder / f"{name}.safetensors"))
        seconds = time.monotonic() - started
        again = folder / f"{name}-again.safetensors"
        for _ in range(kills):
            how = draw.choice((signal.SIGKILL, signal.SIGINT))
            result.differences += _disturb(words(again), how, draw.random() * seconds)
            result.kills[name] += 1
            again.unlink(missing_ok=True)
        if _finish(words(again)) != expected:
            result.differences.append(f"{name}: gives something else")


def _finish(words: list[str]) -> Any:
    """Return what a command prints as JSON, without names and times, and the file that it writes."""
    done = subprocess.run(_legible(words), cwd=TESTS, env=_environment(""), capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    out = Path(words[words.index("--out") + 1]) if "--out" in words else None
    kept = {name: value for name, value in printed.items() if name not in {"seconds", "file"}}
    return kept, None if out is None else out.read_bytes()


def _disturb(words: list[str], how: signal.Signals, after: float) -> list[str]:
    """Start a command, send it a signal after some seconds, and return what is wrong afterwards."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(_legible(words), cwd=TESTS, env=_environment(mark), **quiet) as process:  # type: ignore[call-overload]
        time.sleep(after)
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return [f"{words[0]}: still runs {STOP_SECONDS:g} s after {how.name}"]
    return [f"{words[0]}: {left} after {how.name}"] if (left := find_left_over(mark)) else []


def _legible(words: list[str]) -> list[str]:
    return [sys.executable, "-m", "legible", *words]


def _environment(mark: str) -> dict[str, str]:
    """Return an environment that all processes of a command share, so that they can be found."""
    path = os.pathsep.join((str(TESTS), os.environ.get("PYTHONPATH", "")))
    return {**os.environ, MARK: mark, "PYTHONPATH": path}


def find_left_over(mark: str, seconds: float = STOP_SECONDS) -> str:
    """Return which processes with a mark in their environment still run after some seconds; "" if none does."""
    end = time.monotonic() + seconds
    while True:
        left = [process for process in Path("/proc").glob("[0-9]*") if _is_marked(process, f"{MARK}={mark}".encode())]
        if not left or time.monotonic() > end:
            return f"processes {', '.join(process.name for process in left)} are left over" if left else ""
        time.sleep(0.1)


def _is_marked(process: Path, mark: bytes) -> bool:
    try:
        return mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:  # it ended, or is somebody else's
        return False


@contextmanager
def _cluster(engine: str) -> Iterator[None]:
    """Keep a Ray cluster up that studies find by ``RAY_ADDRESS``; other engines need none."""
    if engine != "ray":
        yield
        return
    ray = optional_package("ray", "ray", "the engine 'ray'")
    context = ray.init("local", num_cpus=WORKERS, include_dashboard=False, logging_level=logging.ERROR)
    os.environ["RAY_ADDRESS"] = context.address_info["address"]
    try:
        yield
    finally:
        del os.environ["RAY_ADDRESS"]
        ray.shutdown()


def draw_moments(draw: random.Random, count: int, reached: Mapping[str, int]) -> list[Moment]:
    """Draw moments in the order in which they come, of as many stages as there are moments.

    Parameters
    ----------
    draw
        Decides.
    count
        How many.
    reached
        How much an undisturbed study does in the stages that it has.
    """
    stages = draw.sample([stage for stage, name in enumerate(STAGES) if name in reached], count)
    return [(stage, math.ceil(draw.random() * reached[STAGES[stage]])) for stage in sorted(stages)]


def _run_until(
    moment: Moment | None,
    folder: Path,
    policy: Path,
    engine: str,
    delay: float,
    reached: dict[str, int] | None = None,
) -> str | None:
    """Run the study in a process, to its end or until a moment; return the stage in which it was killed.

    `reached` gets the amount done in every stage.
    """
    command = [sys.executable, "-m", "lab.harness", "study", str(folder), str(policy), engine]
    root = Path(__file__).parents[2]
    stage, mark = None, f"{os.getpid()}-{time.monotonic_ns()}"
    environment = {**os.environ, MARK: mark}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            name, done, _ = line.split("\t")
            if reached is not None:
                reached[name] = max(int(done), reached.get(name, 0))
            if moment is not None and (STAGES.index(name), int(done)) >= moment:
                stage = name
                time.sleep(delay)
                process.kill()
                break
    if process.returncode > 0:
        raise RuntimeError(f"the study in {folder} failed; its last words are above.")
    if left := find_left_over(mark):
        raise RuntimeError(f"{left} after the study in {folder} was killed.")
    return stage if process.returncode < 0 else None


def run_study(folder: Path, policy: Path, engine: str) -> None:
    """Run the small study to its end and print its progress."""
    report = partial(print, sep="\t", flush=True)
    report("start", 1, 1)
    workers = make_engine(engine, None if engine == "inline" else WORKERS)
    make_study(folder, policy, engine=workers, progress=report).run()


def contents(folder: Path) -> dict[str, Any]:
    """Return the whole content of a finished study: rules, verdicts, steps, explanations and files."""
    study = Study.open(folder, trust=True, engine=InProcess())
    arrays = sorted(path for path in folder.rglob("*.npz") if path.name != "mining.npz")
    return {
        "files": sorted(str(path.relative_to(folder)) for path in folder.rglob("*")),
        "mined rules": plain([study.mining.rules, study.mining.intervals, study.mining.importance]),
        "verdicts": plain(study.evaluation.verdicts),
        "improvement": plain(study.improvement),
        "references": plain(study.references.to_rows()),
        "mistakes": plain(study.mistakes),
        "explanations": [explanation.to_dict() for explanation in study.explanations],
        "guided.safetensors": (folder / "guided.safetensors").read_bytes(),
        "composition.json": (folder / "composition.json").read_bytes(),
        "study.json": (folder / "study.json").read_bytes(),
        **{str(path.relative_to(folder)): plain(read_arrays(path)) for path in arrays},
    }


def _differences(name: str, expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    parts = expected.keys() | found.keys()
    return [f"{name}: {part} differs" for part in sorted(parts) if expected.get(part) != found.get(part)]
