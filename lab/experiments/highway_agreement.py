"""One step from the same state in the fast environments and in highway-env, thousands of times.

    python -m lab.experiments.highway_agreement --states 2000 --trained 600 --write docs/highway-agreement.md

States come from random actions and, with ``--trained``, from a policy of the zoo. highway-env changes its drivers for
the whole process when an intersection is made, so each scenario runs in its own process. How states are compared:
tests/envs/highway/agreement.py.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
NAMES = {
    "highway": "Highway",
    "highway-fast": "HighwayFast",
    "merge": "Merge",
    "roundabout": "Roundabout",
    "intersection": "Intersection",
}
SCENARIOS = tuple(NAMES)
# With fifty vehicles highway-env takes ten times as long as elsewhere.
SHARE = {"highway": 0.5}
SHOWN = {
    "positions (m)": ("x", "y"),
    "speeds (m/s)": ("speed",),
    "headings (rad)": ("heading",),
    "observation": ("observation",),
    "reward": ("reward",),
}


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    scenario: str
    policy: str
    states: int
    vehicles: int
    crashes: int
    ends: int
    largest: dict[str, float]
    differences: list[str]
    unexplained: int


def record(scenario: str, policy: str, states: int, seed: int, file: Path) -> None:
    """Let highway-env take the steps and keep them."""
    import numpy as np  # noqa: PLC0415 (the parent process needs none of this)
    from numpy.typing import NDArray  # noqa: PLC0415

    from legible.policies import load_policy  # noqa: PLC0415

    sys.path.insert(0, str(TESTS))
    from envs.highway.agreement import transitions  # noqa: PLC0415

    choose = None
    if policy != "random":
        trained = load_policy(policy)

        def choose(seen: NDArray[np.float32], rng: np.random.Generator) -> int:
            # Now and then something else, as in training: a policy alone sees the same few situations.
            scores = trained.scores(seen[None])[0]
            return int(rng.integers(len(scores))) if rng.random() < 0.1 else int(np.argmax(scores))

    steps = list(transitions(scenario, states, seed=seed, choose=choose, most_steps=60))
    file.write_bytes(pickle.dumps(steps))


def compare_recorded(scenario: str, policy: str, file: Path) -> Line:
    """Take the kept steps here."""
    sys.path.insert(0, str(TESTS))
    from envs.highway.agreement import check  # noqa: PLC0415

    found = check(scenario, pickle.loads(file.read_bytes()))  # made by `record`
    return Line(
        scenario,
        policy,
        found.states,
        found.vehicles,
        found.crashes,
        found.ends,
        found.largest,
        [str(difference) for difference in found.differences],
        len(found.unexplained),
    )


def run_separately(*arguments: str) -> str:
    """Run one of the commands above in a separate process and return what it prints."""
    command = [sys.executable, "-m", "lab.experiments.highway_agreement", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {result.stderr}")
    return result.stdout


def table(lines: list[Line]) -> str:
    """Write the table in Markdown."""
    head = ["scenario", "states from", "states", "vehicles compared", "ego crashed", "ended"]
    head += [f"largest difference in {name}" for name in SHOWN] + ["states that differ", "not explained"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for line in lines:
        cells = [line.scenario, line.policy, f"{line.states:,}", f"{line.vehicles:,}"]
        cells += [str(line.crashes), str(line.ends)]
        cells += [f"{max(line.largest[name] for name in names):.1e}" for names in SHOWN.values()]
        cells += [f"{len(line.differences)} ({len(line.differences) / line.states:.2%})", str(line.unexplained)]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def document(lines: list[Line], command: str) -> str:
    """Write the whole document."""
    text = ["# One step from the same state", "", f"Made by `{command}`.", "", table(lines), ""]
    text += [
        "Lanes, target lanes, routes, yielding, crashes, and whether the episode ends are compared too and must be",
        "the same; numbers may differ by 1e-6. A state that differs is explained if highway-env comes to another",
        "result when all vehicles are moved by a billionth of a metre: it lies on a threshold.",
        "",
    ]
    found = [(line, difference) for line in lines for difference in line.differences]
    if found:
        text += ["States that differ:", ""]
        text += [f"- {line.scenario}, {line.policy}: {difference}" for line, difference in found] + [""]
    return "\n".join(text)


def main() -> None:
    """Compare, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=2000, help="states of random driving for each scenario")
    parser.add_argument("--seed", type=int, default=0, help="of the first episode")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="only these")
    parser.add_argument("--trained", type=int, default=0, help="states of trained policies for each scenario")
    parser.add_argument("--kept", type=Path, help="folder for highway-env's steps, which are not taken again")
    parser.add_argument("--write", type=Path, help="write a document instead of printing the table")
    parser.add_argument("--record", nargs=3, metavar=("SCENARIO", "POLICY", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--compare", nargs=3, metavar=("SCENARIO", "POLICY", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.record:
        scenario, policy, file = arguments.record
        record(scenario, policy, arguments.states, arguments.seed, Path(file))
        return
    if arguments.compare:
        scenario, policy, file = arguments.compare
        print(json.dumps(asdict(compare_recorded(scenario, policy, Path(file)))))
        return
    with tempfile.TemporaryDirectory() as scratch:
        lines = list(all_lines(arguments, arguments.kept or Path(scratch)))
    options = f"--states {arguments.states} --trained {arguments.trained} --seed {arguments.seed}"
    command = f"python -m lab.experiments.highway_agreement {options}"
    if arguments.write:
        arguments.write.write_text(document(lines, command), encoding="utf-8")
    else:
        print(table(lines))


def all_lines(arguments: argparse.Namespace, kept: Path) -> Iterator[Line]:
    """Record missing episodes, compare, and yield the lines of the table."""
    kept.mkdir(parents=True, exist_ok=True)
    for scenario in arguments.scenario or SCENARIOS:
        for kind, wanted in {"random": arguments.states, "trained": arguments.trained}.items():
            if kind == "trained" and not wanted:
                continue
            started = time.perf_counter()
            policy = "random" if kind == "random" else f"zoo:{NAMES[scenario]}/dqn/0"
            states = round(wanted * SHARE.get(scenario, 1.0))
            file = kept / f"{scenario}-{kind}-{states}-{arguments.seed}.pickle"
            if not file.exists():
                options = ("--states", str(states), "--seed", str(arguments.seed))
                run_separately("--record", scenario, policy, str(file), *options)
            line = Line(**json.loads(run_separately("--compare", scenario, kind, str(file))))
            seconds = time.perf_counter() - started
            print(f"{scenario}, {kind}: {len(line.differences)} of {states} differ ({seconds:.0f} s)", file=sys.stderr)
            yield line


if __name__ == "__main__":
    main()
