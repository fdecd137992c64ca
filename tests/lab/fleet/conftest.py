"""Tests of the fleet trainer: one thread for PyTorch."""

from collections.abc import Iterator

import pytest

from legible.play import one_thread


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small matrices gain nothing from several threads, which on a busy machine wait for each other."""
    with one_thread():
        yield
