"""Check the fused kernels against PyTorch in double precision on this machine's GPU, and measure them.

``python -m lab.fleet.check_fused --policies 20 --inputs 69`` prints errors, a table of times and the fastest
tiling whose results are as good as float32's, as JSON that ``train_zoo --fused`` takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lab.fleet.adam import Adam
from lab.fleet.gradient_step import TorchStep, TrainableNetworks
from lab.fleet.networks import NetworkShape, default_parameters, forward, layer_views
from lab.fleet.replay import Replay

if TYPE_CHECKING:
    from lab.fleet.fused import FusedSettings, FusedStep

CAPACITY = 50_000
STEPS = 8
# Of an H200, a microsecond: operations by the datasheet, bytes as measured on such a card.
_FLOAT32_RATE, _TF32_RATE, _MEMORY_RATE = 67e6, 495e6, 4.3e6


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
        """A full replay buffer."""
        n, capacity, width = self.observations.shape
        replay = Replay(n, 1, 1, width, 0.95, self.observations.device)
        replay.rows = replay.capacity = replay.written = capacity
        replay.observations, replay.actions = self.observations.to(dtype), self.actions
        replay.targets = self.targets.to(dtype)
        return replay

    def batch(self, i: int) -> Tensor:
        """The slots of step i."""
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
    """The gradients of the first step, and how far eight steps move the parameters."""
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
        """Relative errors of the gradients and of the eight steps' moves."""
        networks = self._problem.networks()
        step = make(networks, self._problem.replay())
        gradients, moves = run_steps(step, networks, self._problem)
        return _relative(gradients, self._gradients), _relative(moves, self._moves)


def microseconds(work: Callable[[], None], repeats: int, samples: int = 7) -> float:
    """Median time of one of `repeats` calls, captured in a CUDA graph."""
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


def _row_tilings(precisions: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    # rows, depth, warps, stages
    tilings = (
        (16, 32, 4, 3),
        (32, 16, 4, 3),
        (16, 16, 4, 3),
        (32, 16, 4, 4),
        (16, 16, 4, 4),
        (32, 32, 8, 3),
        (16, 16, 8, 4),
    )
    for precision in precisions:
        # All tilings for the first way to multiply, three for the others.
        for rows, depth, warps, stages in tilings if precision == precisions[0] else tilings[:3]:
            yield {
                "precision": precision,
                "row_block": rows,
                "row_depth": depth,
                "row_warps": warps,
                "row_stages": stages,
            }


def _weight_tilings() -> Iterator[dict[str, Any]]:
    # in, out, depth, warps, stages; below 64 rows the products are the warps' own, without a detour by shared memory
    for in_block, out_block, depth, warps, stages in (
        (128, 64, 32, 4, 3),
        (32, 128, 32, 4, 3),
        (32, 64, 32, 4, 3),
        (32, 128, 16, 4, 4),
        (32, 256, 16, 8, 3),
        (64, 64, 32, 4, 3),
        (16, 128, 32, 4, 3),
        (32, 64, 64, 4, 2),
    ):
        yield {
            "in_block": in_block,
            "out_block": out_block,
            "weight_depth": depth,
            "weight_warps": warps,
            "weight_stages": stages,
        }


def _adam_tilings() -> Iterator[dict[str, Any]]:
    for block, warps in ((512, 4), (1024, 4), (2048, 8), (4096, 8)):
        yield {"adam_block": block, "adam_warps": warps}


class Tuner:
    """Times the tilings of the kernels one by one and keeps the fastest of each."""

    def __init__(self, problem: Problem, reference: Reference, worst_error: float) -> None:
        self._problem, self._reference, self._worst = problem, reference, worst_error

    def _step(self, settings: FusedSettings) -> FusedStep:
        from lab.fleet.fused import FusedStep  # noqa: PLC0415 (Triton exists on few machines)

        problem = self._problem
        batch = problem.batch(0).shape[1]
        return FusedStep(problem.networks(), problem.replay(), problem.adam, batch, settings)

    def error(self, settings: FusedSettings) -> tuple[float, float]:
        """Errors of a tiling."""
        from lab.fleet.fused import FusedStep  # noqa: PLC0415

        batch = self._problem.batch(0).shape[1]
        return self._reference.errors(
            lambda networks, replay: FusedStep(networks, replay, self._problem.adam, batch, settings)
        )

    def best(self, settings: FusedSettings, tilings: Iterator[dict[str, Any]], part: str) -> FusedSettings:
        """Print the time of every tiling and return the fastest whose errors are small enough."""
        times: dict[FusedSettings, float] = {}
        for tiling in tilings:
            candidate = replace(settings, **tiling)
            try:
                gradients, moves = self.error(candidate)
                argument = self._problem.coefficients[0] if part == "update" else self._problem.batch(0)
                taken = microseconds(partial(getattr(self._step(candidate), part), argument), 32)
            except Exception as error:  # a tiling that does not fit the chip is no reason to stop
                print(
                    f"  {part:16s} {_words(tiling)}: {type(error).__name__}: {str(error).splitlines()[0][:90]}",
                    flush=True,
                )
                continue
            # Adam turns the smallest gradients into whole steps, so moves only show gross mistakes.
            fine = gradients <= self._worst and moves <= 0.05
            verdict = "" if fine else "  (not exact enough)"
            print(
                f"  {part:16s} {_words(tiling)}: {taken:6.1f} µs, errors {gradients:.1e} {moves:.1e}{verdict}",
                flush=True,
            )
            if fine:
                times[candidate] = taken
        return min(times, key=lambda key: times[key]) if times else settings


def _words(tiling: dict[str, Any]) -> str:
    return " ".join(f"{value}" for value in tiling.values())


def _work(n: int, shape: NetworkShape, batch: int) -> tuple[float, float]:
    """Operations of one update, and bytes that Adam reads and writes."""
    f, h1, h2, a = shape.widths
    products = f * h1 + h1 * h2 + h2 * a
    return 2.0 * n * batch * (2 * products + h1 * h2), 7 * 4.0 * n * shape.n_parameters


def floor_us(n: int, shape: NetworkShape, batch: int) -> float:
    """Microseconds that no version with three tf32 products for one float32 product can beat on an H200."""
    operations, moved = _work(n, shape, batch)
    return 3 * operations / _TF32_RATE + moved / _MEMORY_RATE


def floor_text(n: int, shape: NetworkShape, batch: int) -> str:
    """What no version can beat: arithmetic and bytes of one update."""
    operations, moved = _work(n, shape, batch)
    return (
        f"floor of an update on an H200: {operations / 1e9:.2f} GFLOP = {operations / _FLOAT32_RATE:.0f} µs on float32 "
        f"units, {3 * operations / _TF32_RATE:.0f} µs as three tf32 products, {operations / _TF32_RATE:.0f} µs as one; "
        f"{moved / 1e6:.0f} MB for Adam = {moved / _MEMORY_RATE:.0f} µs from memory; 3 launches."
    )


def actions_differ(step: Any, problem: Problem, rows: int = 8) -> float:
    """Share of observations in which `step` acts otherwise than double precision and is not within rounding of it."""
    observations = problem.observations[:, :rows].contiguous()
    actions = torch.full(observations.shape[:2], -1, dtype=torch.int64, device=observations.device)
    step.best_actions(observations, actions)
    values = forward(layer_views(problem.initial_parameters.double(), problem.shape), observations.double())[-1]
    if bool((actions < 0).any()) or bool((actions >= values.shape[2]).any()):
        return 1.0
    missed = values.amax(dim=2) - values.gather(2, actions.unsqueeze(2)).squeeze(2)
    return float((missed > 1e-4 * values.abs().amax()).double().mean())


def _check_acting(fused: FusedStep, problem: Problem) -> None:
    fresh = type(fused)(problem.networks(), problem.replay(), problem.adam, problem.batch(0).shape[1], fused.settings)
    wrong = actions_differ(fresh, problem)
    observations = problem.observations[:, :8].contiguous()
    actions = torch.zeros(observations.shape[:2], dtype=torch.int64, device=observations.device)
    plain = TorchStep(problem.networks(), problem.replay(), problem.adam)
    times = [microseconds(partial(step.best_actions, observations, actions), 16) for step in (plain, fresh)]
    print(
        f"acting in 8 environments: PyTorch {times[0]:.1f} µs, fused {times[1]:.1f} µs; {wrong:.0%} wrong", flush=True
    )


def check_fused(
    n: int,
    inputs: int,
    batch: int = 256,
    *,
    precisions: tuple[str, ...] = ("tf32x3", "bf16x3", "tf32"),
    worst: float = 5e-6,
) -> dict[str, Any]:
    """Check and tune on the GPU; returns the settings that were chosen, as plain data."""
    from lab.fleet.fused import FusedSettings  # noqa: PLC0415

    device = torch.device("cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: {n} policies, {inputs} inputs, batch {batch}")
    problem = Problem.random(n, inputs, batch, device)
    print(floor_text(n, problem.shape, batch))
    reference = Reference(problem)
    torch_errors = reference.errors(lambda networks, replay: TorchStep(networks, replay, problem.adam))
    step = TorchStep(problem.networks(), problem.replay(), problem.adam)
    taken = microseconds(lambda: step(problem.batch(0), problem.coefficients[0]), 16)
    print(f"PyTorch: {taken:.1f} µs an update, errors {torch_errors[0]:.1e} (gradients) {torch_errors[1]:.1e} (moves)")
    tuner = Tuner(problem, reference, worst)
    settings = tuner.best(FusedSettings(), _row_tilings(precisions), "run_rows")
    settings = tuner.best(settings, _weight_tilings(), "run_weights")
    settings = tuner.best(settings, _adam_tilings(), "update")
    fused = tuner._step(settings)
    taken = microseconds(lambda: fused(problem.batch(0), problem.coefficients[0]), 32)
    gradients, moves = tuner.error(settings)
    same = tuner.error(settings) == (gradients, moves)
    print(f"fused: {taken:.1f} µs an update, errors {gradients:.1e} {moves:.1e}, the same bits when repeated: {same}")
    _check_acting(fused, problem)
    print(f"--fused '{json.dumps(asdict(settings))}'", flush=True)
    return asdict(settings)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", type=int, default=20)
    parser.add_argument("--inputs", type=int, default=69)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--precisions", default="tf32x3,bf16x3,tf32", help="ways to multiply, with commas between")
    parser.add_argument("--worst", type=float, default=5e-6, help="largest relative error of gradients that is allowed")
    given = parser.parse_args()
    check_fused(
        given.policies, given.inputs, given.batch, precisions=tuple(given.precisions.split(",")), worst=given.worst
    )


if __name__ == "__main__":
    main()
