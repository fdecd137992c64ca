"""`one_thread`: a single thread for code whose results must not depend on the number of threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch, if it is loaded, to one thread inside the block.

    The matrices of a policy are too small for more, threads that wait for each other are slow on a busy machine, and
    sums that are split differently differ in the last bit.
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
