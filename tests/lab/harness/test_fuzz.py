"""Damaged files: a fixed slice of the harness, and the harness itself on readers that are wrong on purpose."""

import random
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lab.harness.fuzz import Outcome, _limits, read_mutant
from lab.harness.mutations import mutate
from lab.harness.samples import Sample, plain
from legible.errors import LegibleError

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_slice_of_mutants() -> None:
    """Runs in a separate process, so that only mutants use its memory."""
    command = [sys.executable, "-m", "lab", "fuzz", "--mutants", "1500"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].split()[0] == "all"


def test_mutants_are_the_same_again() -> None:
    content = b'[[layers]]\nname = "fc1"\nsize = 12\n' * 5
    first, second = ([mutate(content, random.Random(f"0 {i}")) for i in range(50)] for _ in range(2))
    assert first == second
    assert len(set(first)) > 40


def test_damage_inside_a_zip_leaves_a_valid_zip(tmp_path) -> None:
    np.savez(tmp_path / "a.npz", a=np.arange(10), b=np.ones(3))
    content = (tmp_path / "a.npz").read_bytes()
    valid = 0
    for i in range(60):
        (tmp_path / "b.npz").write_bytes(mutate(content, random.Random(i)))
        try:
            with zipfile.ZipFile(tmp_path / "b.npz") as archive:
                valid += archive.testzip() is None
        except (zipfile.BadZipFile, OSError, NotImplementedError, UnicodeDecodeError):
            continue
    assert valid > 20


def _refuse(path):
    raise LegibleError("no")


def _fail(path):
    raise KeyError("layers")


def _sleepless(path):
    while True:
        pass


def _hungry(path):
    return np.ones(30 * 2**20).sum()


@pytest.mark.parametrize(
    ("read", "outcome"),
    [
        (_refuse, Outcome.REFUSED),
        (_fail, Outcome.EXCEPTION),
        (_sleepless, Outcome.HANG),
        (_hungry, Outcome.MEMORY),
        (lambda path: len(path.read_bytes()), Outcome.DIFFERENCE),
        (lambda path: 3, Outcome.READ),
    ],
)
def test_what_happens_is_noticed(tmp_path, read, outcome) -> None:
    sample = Sample("file", tmp_path / "file", read)
    start = time.process_time()
    with _limits():
        assert read_mutant(sample, b"four", plain(3))[0] is outcome
    assert time.process_time() - start < 3


def test_values_are_compared_to_the_bit() -> None:
    assert plain({"a": np.zeros(2)}) != plain({"a": np.zeros(2, np.float32)})
    assert plain([np.array([0.0])]) != plain([np.array([-0.0])])
    assert plain((1, [2.5])) == plain([1, (2.5,)])
