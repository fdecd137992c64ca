"""Mutation tests: modules with small errors, each judged by the tests of its room.

- `MODULES`: the modules, and the tests that judge them (``mutated_modules.toml``).
- `run_mutate`: draws mutants, runs the tests on each, and counts; `MutateResult`: the counts.
- `known_equivalent`: mutants that change nothing; `key_of`: the key that identifies a mutant.

Every worker has a copy of the sources, so that the tree itself never changes. numba's cache does not notice a change in
another module, so the cached kernels of everything that imports the changed module go, too.

That is why this is no job for mutmut, which leaves decorated functions alone (all compiled kernels), or cosmic-ray,
which changes sources in place and knows nothing of numba's cache: with both, errors in kernels go unnoticed.

``equivalent_mutants.toml`` lists mutants that change nothing, each with the reason; they are not counted. Its entries
have the keys ``module``, ``text``, ``before``, ``after``, ``why`` and, where a module has several such, ``which``.
"""

from __future__ import annotations

import ast
import json
import os
import queue
import random
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lab.harness.judge import passes
from lab.harness.mutants import Mutant, mutants_of
from legible.errors import LegibleError
from legible.files import read_toml

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).parent / "equivalent_mutants.toml"
SLOWER = 5.0  # a mutant whose tests take this many times as long counts as noticed: it hangs
LEAST_SECONDS = 60.0
LEAST_NOTICED = 0.9

MODULES: dict[str, tuple[str, ...]] = {
    module: tuple(tests)
    for module, tests in read_toml(Path(__file__).with_name("mutated_modules.toml"), LegibleError)["modules"].items()
}


@dataclass
class MutateResult:
    """Mutants that the tests noticed, by module, and the ones that they did not.

    `unjudged` are modules whose tests fail on the sources as they are.
    """

    noticed: dict[str, int] = field(default_factory=dict)
    unnoticed: list[tuple[str, Mutant]] = field(default_factory=list)
    equivalent: int = 0
    unjudged: list[str] = field(default_factory=list)

    @property
    def counted(self) -> int:
        """The mutants that change something, as far as is known."""
        return sum(self.noticed.values()) + len(self.unnoticed)

    @property
    def share(self) -> float:
        """The share of them that was noticed."""
        return sum(self.noticed.values()) / self.counted if self.counted else float("nan")

    def table(self) -> str:
        """Return the counts, then every mutant that was not noticed."""
        lines = []
        for module in MODULES:
            missed = [mutant for name, mutant in self.unnoticed if name == module]
            if module in self.noticed or missed:
                lines.append(f"{module:40} {self.noticed.get(module, 0):4} noticed, {len(missed)} not")
                lines += [f"    line {m.line}: {m.before}  →  {m.after}    in  {m.text}" for m in missed]
        lines += [f"{module:40} not judged: its tests fail on the sources as they are" for module in self.unjudged]
        lines.append(
            f"{sum(self.noticed.values())} of {self.counted} noticed ({100 * self.share:.1f} %); "
            f"{self.equivalent} that change nothing are not counted."
        )
        return "\n".join(lines)


def run_mutate(
    mutants: int, *, seed: int = 0, workers: int = 2, modules: tuple[str, ...] = (), verbose: bool = True
) -> MutateResult:
    """Draw mutants of the modules in turn, a given number in all, and run the tests of its room on each."""
    drawn, equivalent = _draw(modules or tuple(MODULES), mutants, seed)
    chosen = {name: MODULES[name] for name, _ in drawn}
    result = MutateResult(equivalent=equivalent)
    with tempfile.TemporaryDirectory() as folder:
        trees: queue.Queue[Path] = queue.Queue()
        first = _copy(ROOT, Path(folder) / "tree0")
        limits = _time_limits(first, sorted(set(chosen.values())), workers)
        result.unjudged = [name for name, tests in chosen.items() if tests not in limits]
        judged = [job for job in drawn if job[0] not in result.unjudged]
        for i in range(workers):
            trees.put(first if i == 0 else _copy(first, Path(folder) / f"tree{i}"))

        def judge(job: tuple[str, Mutant]) -> tuple[str, Mutant, bool]:
            tree = trees.get()
            try:
                return *job, _is_noticed(tree, *job, limits[chosen[job[0]]])
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(workers) as pool:
            for name, mutant, noticed in pool.map(judge, judged):
                if noticed:
                    result.noticed[name] = result.noticed.get(name, 0) + 1
                else:
                    result.unnoticed.append((name, mutant))
                if verbose:
                    said = "noticed" if noticed else "NOT noticed"
                    print(f"{name}:{mutant.line}: {mutant.before} → {mutant.after}: {said}", flush=True)
    return result


def _draw(modules: tuple[str, ...], count: int, seed: int) -> tuple[list[tuple[str, Mutant]], int]:
    """Return mutants of the modules in turn, and how many were left out because they are known to change nothing."""
    known = known_equivalent()
    draw = random.Random(seed)
    waiting = {name: mutants_of((ROOT / "src" / name).read_text("utf-8")) for name in modules}
    for mutants in waiting.values():
        draw.shuffle(mutants)
    drawn: list[tuple[str, Mutant]] = []
    left_out = 0
    while len(drawn) < count and any(waiting.values()):
        for name in draw.sample(modules, len(modules)):
            if waiting[name] and len(drawn) < count:
                mutant = waiting[name].pop()
                if key_of(name, mutant) in known:
                    left_out += 1
                else:
                    drawn.append((name, mutant))
    return drawn, left_out


Key = tuple[str, str, str, str, int]


def known_equivalent() -> dict[Key, str]:
    """Return the mutants that are known to change nothing, and why they do not."""
    document: dict[str, Any] = read_toml(EQUIVALENT, LegibleError)
    entries: list[dict[str, Any]] = document["mutants"]
    return {(e["module"], e["text"], e["before"], e["after"], e.get("which", 0)): e["why"] for e in entries}


def key_of(name: str, mutant: Mutant) -> Key:
    """Return the key that identifies a mutant of a module."""
    return name, mutant.text, mutant.before, mutant.after, mutant.which


def _copy(source: Path, target: Path) -> Path:
    """Copy what tests need, with times, because numba's cache goes by them."""
    for part in ("src", "tests", "lab"):
        shutil.copytree(source / part, target / part)
    for part in ("zoo", "docs"):
        (target / part).symlink_to((ROOT / part).resolve())
    for name in ("pyproject.toml", "README.md", "ARCHITECTURE.md"):
        shutil.copy2(ROOT / name, target / name)
    return target


def _time_limits(tree: Path, judges: list[tuple[str, ...]], workers: int) -> dict[tuple[str, ...], float]:
    """Run the tests as they are, so that times are known, kernels compiled; those of which some fail are left out."""

    def seconds(test: str) -> float | None:
        started = time.monotonic()
        passed = _run(tree, (test,), None)
        return time.monotonic() - started if passed else None

    tests = sorted({test for judge in judges for test in judge})
    with ThreadPoolExecutor(workers) as pool:
        taken = dict(zip(tests, pool.map(seconds, tests), strict=True))
    times = {judge: [t for test in judge if (t := taken[test]) is not None] for judge in judges}
    return {j: max(LEAST_SECONDS, SLOWER * sum(some)) for j, some in times.items() if len(some) == len(j)}


def _is_noticed(tree: Path, name: str, mutant: Mutant, limit: float) -> bool:
    path = tree / "src" / name
    kept = path.stat()
    original = path.read_text("utf-8")
    stale = _cached_kernels(tree, name)
    saved = {file: (file.read_bytes(), file.stat()) for file in stale}
    try:
        for file in stale:
            file.unlink()
        path.write_text(mutant.source, "utf-8")
        return not _run(tree, MODULES[name], limit)
    finally:
        path.write_text(original, "utf-8")
        os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
        for file in _cached_kernels(tree, name):
            file.unlink()
        for file, (content, times) in saved.items():
            file.write_bytes(content)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _cached_kernels(tree: Path, name: str) -> list[Path]:
    """Return numba's files of a module and of everything that imports it, directly or not."""
    found: list[Path] = []
    for module in _users(name):
        folder = (tree / "src" / module.replace(".", "/")).parent / "__pycache__"
        found += folder.glob(f"{module.rsplit('.', 1)[-1]}.*.nb?")
    return found


@cache
def _users(name: str) -> set[str]:
    """Return a module and everything that imports it, directly or not."""

    def dotted(path: Path) -> str:
        return ".".join(path.with_suffix("").parts).removesuffix(".__init__")

    source = ROOT / "src"
    imports: dict[str, set[str]] = {}
    for path in source.rglob("*.py"):
        names = imports[dotted(path.relative_to(source))] = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
    users = {dotted(Path(name))}
    while more := {module for module, names in imports.items() if names & users} - users:
        users |= more
    return users


def _run(tree: Path, tests: tuple[str, ...], limit: float | None) -> bool:
    """Run those of the tests that there are; return whether they passed in time."""
    return passes(tree, [test for test in tests if (tree / test).exists()], limit)


def save_result(result: MutateResult, path: Path) -> None:
    """Write the counts and the mutants that were not noticed as JSON."""
    missed = [
        {"module": name, "line": m.line, "text": m.text, "before": m.before, "after": m.after, "which": m.which}
        for name, m in result.unnoticed
    ]
    document = {
        "noticed": result.noticed,
        "unnoticed": missed,
        "unjudged": result.unjudged,
        "equivalent": result.equivalent,
        "share": result.share,
    }
    path.write_text(json.dumps(document, indent=1), "utf-8")
