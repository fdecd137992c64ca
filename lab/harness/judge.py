"""Run tests in a process that has the large packages loaded already, which is most of what starting them takes.

- `passes`: whether tests pass in a tree, within a time.

This module must not import legible: the tests import the one in their tree.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from pathlib import Path

LARGE = [
    "numpy",
    "numba",
    "scipy.stats",
    "torch",
    "gymnasium",
    "sklearn.linear_model",
    "pytest",
    "hypothesis.extra.numpy",
]
DEFAULT_TESTS = "not (slow or statistical or subprocess)"  # those of ``make test``
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(LARGE)


def passes(tree: Path, tests: list[str], limit: float | None) -> bool:
    """Run tests in a tree of sources; return whether they passed in time."""
    process = _processes.Process(target=_test, args=(str(tree), tests))
    process.start()
    process.join(limit)
    if process.is_alive():
        assert process.pid is not None
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    return process.exitcode == 0


def _test(tree: str, tests: list[str]) -> None:
    import pytest

    assert not any(name.split(".")[0] == "legible" for name in sys.modules)
    os.setsid()  # so that it ends with all that it started
    os.chdir(tree)
    sys.path[:] = [f"{tree}/src", *(entry for entry in sys.path if not entry.endswith("/src"))]
    os.environ["PYTHONPATH"] = f"{tree}/src"
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    words = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-m", DEFAULT_TESTS]
    sys.exit(pytest.main([*words, *tests]))
