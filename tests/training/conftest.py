"""Tests of training: one thread for PyTorch."""

from collections.abc import Iterator

import pytest

from legible.play import one_thread


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one thread: several do not speed up small matrices, and wait for each other on a busy machine."""
    with one_thread():
        yield
