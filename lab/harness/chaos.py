"""Studies that are killed again and again: in the end they are what an undisturbed one is, to the bit.

- `run_chaos`: kills studies at moments of all stages and resumes them; `ChaosResult`: what came of it.
- `run_study`: the process that is killed; it tells its progress.
- `contents`: all that a finished study holds, for comparison.

A moment is a stage and how much of it is done, by what an undisturbed study does in it. The process tells its progress
line by line, and is killed when it has come to the moment, or a few milliseconds later. A Ray cluster stays up: as on a
real one, only the study that uses it is killed and started again.
"""

from __future__ import annotations

import logging
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.harness.samples import plain
from lab.harness.small_study import make_study
from legible.engines import InProcess, make_engine
from legible.files import read_arrays
from legible.imports import optional_package
from legible.study import BASELINES, Study

STAGES = (
    *("start", "experiences", "importance", "rules", "search", "racing", "racing confirmation"),
    *("composition", "composition check", "final"),
    *("references", "explanation", "mistakes", "mistakes rollouts"),
    *(f"baseline {kind}: {part}" for kind in BASELINES for part in ("racing", "racing confirmation")),
)
WORKERS = 2
DELAYS = (0.03, 0.3)  # seconds at the most: into the writing of a file, or beyond it

Moment = tuple[int, int]
"""The number of a stage, and how much of it."""


@dataclass
class ChaosResult:
    """How many kills there were, by stage, in how many studies; and what differed afterwards."""

    studies: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        by_stage = ", ".join(f"{stage} {self.kills[stage]}" for stage in STAGES)
        found = "\n".join(self.differences) or "all bit-identical to an undisturbed one"
        return f"{self.kills.total()} kills in {self.studies} studies ({by_stage}): {found}"


def run_chaos(kills: int, engine: str, seed: int = 0, *, verbose: bool = False) -> ChaosResult:
    """Kill studies until there were so many kills, finish each, and compare it with an undisturbed one."""
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
    return result


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

    `reached` learns how much was done in every stage.
    """
    command = [sys.executable, "-m", "lab.harness", "study", str(folder), str(policy), engine]
    root = Path(__file__).parents[2]
    stage = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if reached is not None:
                told, done, _ = line.split("\t")
                reached[told] = max(int(done), reached.get(told, 0))
            if moment is not None and _has_come(line, moment):
                stage = line.partition("\t")[0]
                time.sleep(delay)
                process.kill()
                break
    if process.returncode > 0:
        raise RuntimeError(f"the study in {folder} failed; its last words are above.")
    return stage if process.returncode < 0 else None


def _has_come(line: str, moment: Moment) -> bool:
    stage, done, _ = line.split("\t")
    number = STAGES.index(stage)
    return number > moment[0] or (number == moment[0] and int(done) >= moment[1])


def run_study(folder: Path, policy: Path, engine: str) -> None:
    """Run the small study to its end, and tell its progress."""

    def tell(stage: str, done: int, of: int) -> None:
        print(stage, done, of, sep="\t", flush=True)

    tell("start", 1, 1)
    workers = make_engine(engine, None if engine == "inline" else WORKERS)
    make_study(folder, policy, engine=workers, progress=tell).run(baselines=True)


def contents(folder: Path) -> dict[str, Any]:
    """Return all that a finished study holds: rules, verdicts, steps and explanations, and what is in its files."""
    study = Study.open(folder, trust=True, engine=InProcess())
    arrays = sorted(path for path in folder.rglob("*.npz") if path.name != "mining.npz")
    return {
        "files": sorted(str(path.relative_to(folder)) for path in folder.rglob("*")),
        "mined rules": plain([study.mining.rules, study.mining.intervals, study.mining.importance]),
        "verdicts": plain(study.evaluation.verdicts),
        "baselines": {kind: plain(found.verdicts) for kind, found in study.baselines.items()},
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
