"""CUDA graphs: the launches of a piece of work, recorded once and repeated at the cost of one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Work = Callable[[], None]
_WARM_UP = 3


def pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """Memory that a GPU can copy from and to directly; ordinary memory where there is no GPU."""
    return tensor.pin_memory() if device.type == "cuda" else tensor


def capture(works: list[Work], device: torch.device, changed: list[Tensor]) -> list[Work]:
    """Return what repeats each piece of work: a graph's replay on a GPU, the work itself elsewhere.

    Parameters
    ----------
    works
        Pieces of work that read and write tensors which stay where they are, and never wait for the device.
    device
        Where they run.
    changed
        Tensors that warming up and recording must leave as they are.
    """
    if device.type != "cuda":
        return works
    before = [tensor.clone() for tensor in changed]
    graphs = [_record(work, device) for work in works]
    for tensor, kept in zip(changed, before, strict=True):
        tensor.copy_(kept)
    torch.cuda.synchronize(device)
    return [graph.replay for graph in graphs]


def _record(work: Work, device: torch.device) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            work()
    torch.cuda.current_stream(device).wait_stream(stream)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        work()
    return graph
