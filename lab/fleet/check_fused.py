"""Errors of the fused kernels against PyTorch in double precision, and their times on a GPU.

- `Problem`: networks and transitions; `Reference`: the results in double precision; `actions_differ`: wrong actions.
- `microseconds`: the time of an update; `floor_us`: its lower bound.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lab.fleet.adam import Adam
from lab.fleet.gradient_step import TorchStep, TrainableNetworks
from lab.fleet.networks import NetworkShape, default_parameters, forward, layer_views
from lab.fleet.replay import Replay

CAPACITY = 50_000
STEPS = 8
# Of an H200, a microsecond: operations by the datasheet, bytes as measured on such a card.
_TF32_RATE, _MEMORY_RATE = 495e6, 4.3e6


@dataclass
class Problem:
    """Random networks and transitions, the same for every backend."""

    shape: NetworkShape
    initial_parameters: Tensor
    observations: Tensor
    actions: Tensor
    targets: Tensor
    places: Tensor
    adam: Adam
    coefficients: Tensor

    @classmethod
    def random(cls, n: int, inputs: int, batch: int, device: torch.device, capacity: int = CAPACITY) -> Problem:
        """Draw observations like PAC-Man's (flags and small numbers) and targets like its returns."""
        shape = NetworkShape((inputs, 256, 256, 5))
        generator = torch.Generator().manual_seed(0)
        rows = np.stack([default_parameters(shape, seed) for seed in range(n)])
        observations = torch.randint(0, 3, (n, capacity, inputs), generator=generator).float()
        observations[:, :, ::7] *= 4.5
        actions = torch.randint(0, 5, (n, capacity), generator=generator, dtype=torch.int32)
        targets = torch.randn((n, capacity), generator=generator) * 2.0
        places = torch.randint(0, capacity, (n, STEPS * batch), generator=generator, dtype=torch.int32)
        # A norm that clips some policies and not others.
        adam = Adam(1e-4, max_grad_norm=0.3)
        coefficients = torch.tensor(adam.coefficients(0, STEPS))
        moved = (t.to(device) for t in (torch.tensor(rows), observations, actions, targets, places))
        initial_parameters, observations, actions, targets, places = moved
        return cls(shape, initial_parameters, observations, actions, targets, places, adam, coefficients.to(device))

    def networks(self, dtype: torch.dtype = torch.float32) -> TrainableNetworks:
        """Fresh networks."""
        return TrainableNetworks.of(self.shape, self.initial_parameters.to(dtype).clone())

    def replay(self, dtype: torch.dtype = torch.float32) -> Replay:
        """Return a full replay buffer."""
        n, capacity, width = self.observations.shape
        replay = Replay(n, 1, 1, width, 0.95, self.observations.device)
        replay.rows = replay.capacity = replay.written = capacity
        replay.observations, replay.actions = self.observations.to(dtype), self.actions
        replay.targets = self.targets.to(dtype)
        return replay

    def batch(self, i: int) -> Tensor:
        """Return the slots of step i."""
        size = self.places.shape[1] // STEPS
        return self.places[:, i * size : (i + 1) * size]


def _relative(found: Tensor, wanted: Tensor) -> float:
    """‖found − wanted‖ / ‖wanted‖ of the policy in the middle; NaN anywhere stays NaN.

    Not the worst: a unit that is zero but for rounding may count as on or off, and moves a policy's gradients by some
    1e-4 although every product is exact.
    """
    errors = torch.linalg.vector_norm(found.double() - wanted, dim=1) / torch.linalg.vector_norm(wanted, dim=1)
    return float("nan") if bool(errors.isnan().any()) else float(errors.quantile(0.5))


def run_steps(step: Any, networks: TrainableNetworks, problem: Problem) -> tuple[Tensor, Tensor]:
    """Return the gradients of the first step, and how far eight steps move the parameters."""
    columns = problem.shape.n_parameters
    step.gradients[:, :columns] = float("nan")  # whatever is not written shows
    step.fill_gradients(problem.batch(0))
    gradients = step.gradients[:, :columns].clone()
    for i in range(STEPS):
        step(problem.batch(i), problem.coefficients[i].to(networks.parameters.dtype))
    return gradients, networks.parameters - problem.initial_parameters.to(networks.parameters.dtype)


class Reference:
    """The double-precision results that others are compared with."""

    def __init__(self, problem: Problem) -> None:
        networks = problem.networks(torch.float64)
        step = TorchStep(networks, problem.replay(torch.float64), problem.adam)
        self._problem = problem
        self._gradients, self._moves = run_steps(step, networks, problem)

    def errors(self, make: Callable[[TrainableNetworks, Replay], Any]) -> tuple[float, float]:
        """Return the relative errors of the gradients and of the eight steps' moves."""
        networks = self._problem.networks()
        step = make(networks, self._problem.replay())
        gradients, moves = run_steps(step, networks, self._problem)
        return _relative(gradients, self._gradients), _relative(moves, self._moves)


def microseconds(work: Callable[[], None], repeats: int, samples: int = 7) -> float:
    """Return the median time of one of `repeats` calls, captured in a CUDA graph."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            work()
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(samples):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        for _ in range(4):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1000.0 * begin.elapsed_time(end) / (4 * repeats))
    return statistics.median(times)


def floor_us(n: int, shape: NetworkShape, batch: int) -> float:
    """Return the microseconds that no version with three tf32 products for one float32 product can beat on an H200."""
    f, h1, h2, a = shape.widths
    operations = 2.0 * n * batch * (2 * (f * h1 + h1 * h2 + h2 * a) + h1 * h2)
    moved = 7 * 4.0 * n * shape.n_parameters  # bytes that Adam reads and writes
    return 3 * operations / _TF32_RATE + moved / _MEMORY_RATE


def actions_differ(step: Any, problem: Problem, rows: int = 8) -> float:
    """Return the share of observations in which `step` acts differently from double precision beyond rounding."""
    observations = problem.observations[:, :rows].contiguous()
    actions = torch.full(observations.shape[:2], -1, dtype=torch.int64, device=observations.device)
    step.best_actions(observations, actions)
    values = forward(layer_views(problem.initial_parameters.double(), problem.shape), observations.double())[-1]
    if bool((actions < 0).any()) or bool((actions >= values.shape[2]).any()):
        return 1.0
    missed = values.amax(dim=2) - values.gather(2, actions.unsqueeze(2)).squeeze(2)
    return float((missed > 1e-4 * values.abs().amax()).double().mean())
