"""One thread for code whose results must not depend on how many there are: `one_thread`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch, where it is loaded, use one thread inside the block.

    A policy's matrices are too small to gain from more, threads that wait for each other are slow on a busy machine,
    and sums that are split differently differ in the last bit.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
