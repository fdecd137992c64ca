"""Tests of training: one thread for PyTorch, and the programs of the repository can be imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from legible.play import one_thread

sys.path.insert(0, str(Path(__file__).parents[2]))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small matrices gain nothing from several threads, which on a busy machine wait for each other."""
    with one_thread():
        yield
