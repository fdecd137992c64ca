"""One gradient step of DQN for many policies in three Triton kernels.

For networks with two hidden layers of ReLU units, such as 69 → 256 → 256 → 5:

1. `_rows_kernel`, a program for some rows of a policy's batch: gathers the observations from the replay buffer, runs
   the network forward, takes the derivative of the loss and runs it backward to the first layer. Only the value of the
   action that was taken is needed, so the last layer is a dot product, not a matrix. Activations and derivatives go to
   scratch memory, which stays in the L2 cache.
2. `_weights_kernel`, a program for a tile of a matrix of gradients, with the biases and the sum of squares of the tile.
3. `_adam_kernel`: clips by the norm of the policy's gradients and updates, one pass over one array.

A fourth, `_act_kernel`, finds the best actions. No program waits for another within a launch and no sum uses atomics:
the same inputs give the same bits.

Products run on the tensor cores. `precision` says how: "tf32x3" splits each factor in two and has the accuracy of
float32 (about 1e-6), "tf32" has 10 bits of mantissa, "ieee" is plain float32 without tensor cores.

The floor for 20 policies, batch 256, 69 inputs: 2.4 · 10⁹ operations, 36 µs at the 67 TFLOP/s of float32 units, 15 µs
for "tf32x3" and 5 µs for "tf32" at 495 TFLOP/s; 48 MB for Adam, 10 µs at 4.8 TB/s when nothing stays in the cache; and
three launches, some 2 µs each inside a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lab.fleet.adam import Adam
from lab.fleet.gradient_step import TrainableNetworks
from lab.fleet.networks import NetworkShape
from lab.fleet.replay import Replay
from lab.fleet.slots import FleetError

try:
    import triton  # type: ignore[import-not-found,unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
except ModuleNotFoundError:  # it comes with PyTorch for CUDA only
    triton = None
    _compiled: Callable[[Any], Any] = lambda function: function  # noqa: E731
else:
    _compiled = triton.jit

_OUT = 16  # columns kept for the derivatives of the output: the smallest tile that a product takes
_ACT_ROWS = 16  # observations of a program that acts: the smallest tile again


@dataclass(frozen=True)
class FusedSettings:
    """Tiling of the kernels.

    Parameters
    ----------
    precision
        "tf32x3", "tf32" or "ieee".
    row_block, row_depth, row_warps, row_stages
        First kernel: rows of a program, depth of a product's step, warps, pipeline stages.
    in_block, out_block, weight_depth, weight_warps, weight_stages
        Second kernel: tile of the gradients' matrix, rows of the batch a step, warps, pipeline stages.
    adam_block, adam_warps
        Third kernel: parameters of a program, warps.
    """

    precision: str = "tf32x3"
    row_block: int = 32
    row_depth: int = 32
    row_warps: int = 8
    row_stages: int = 3
    in_block: int = 64
    out_block: int = 64
    weight_depth: int = 32
    weight_warps: int = 4
    weight_stages: int = 3
    adam_block: int = 1024
    adam_warps: int = 4


@_compiled
def _rows_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0915
    observations,
    actions,
    targets,
    places,
    parameters,
    activations,
    derivatives,
    sums,
    CAPACITY: tl.constexpr,
    PLACES_STRIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    F: tl.constexpr,
    F_PADDED: tl.constexpr,
    H1: tl.constexpr,
    H2: tl.constexpr,
    A: tl.constexpr,
    OUT: tl.constexpr,
    BATCH: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Forward and backward through the networks for some rows of a batch."""
    policy = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    B1: tl.constexpr = F * H1
    W2: tl.constexpr = B1 + H1
    B2: tl.constexpr = W2 + H1 * H2
    W3: tl.constexpr = B2 + H2
    B3: tl.constexpr = W3 + H2 * A
    A_WIDTH: tl.constexpr = F_PADDED + H1 + H2
    D_WIDTH: tl.constexpr = H1 + H2 + OUT

    place = tl.load(places + policy * PLACES_STRIDE + rows)
    slot = policy.to(tl.int64) * CAPACITY + place.to(tl.int64)
    action = tl.load(actions + slot)
    target = tl.load(targets + slot)
    network = parameters + policy * STRIDE
    kept = activations + (policy * BATCH + rows)[:, None] * A_WIDTH
    slopes = derivatives + (policy * BATCH + rows)[:, None] * D_WIDTH
    columns1 = tl.arange(0, H1)
    columns2 = tl.arange(0, H2)

    total = tl.zeros((ROWS, H1), tl.float32)
    for first in range(0, F, DEPTH):
        k = first + tl.arange(0, DEPTH)
        x = tl.load(observations + slot[:, None] * F + k[None, :], mask=k[None, :] < F, other=0.0)
        tl.store(kept + k[None, :], x, mask=k[None, :] < F_PADDED)
        w = tl.load(network + k[:, None] * H1 + columns1[None, :], mask=k[:, None] < F, other=0.0)
        total = tl.dot(x, w, total, input_precision=PRECISION)
    hidden1 = tl.maximum(total + tl.load(network + B1 + columns1)[None, :], 0.0)
    tl.store(kept + F_PADDED + columns1[None, :], hidden1)
    # Other threads of this program read these rows next.
    tl.debug_barrier()

    total = tl.zeros((ROWS, H2), tl.float32)
    for first in range(0, H1, DEPTH):
        k = first + tl.arange(0, DEPTH)
        x = tl.load(kept + F_PADDED + k[None, :])
        w = tl.load(network + W2 + k[:, None] * H2 + columns2[None, :])
        total = tl.dot(x, w, total, input_precision=PRECISION)
    hidden2 = tl.maximum(total + tl.load(network + B2 + columns2)[None, :], 0.0)
    tl.store(kept + F_PADDED + H1 + columns2[None, :], hidden2)

    w3 = tl.load(network + W3 + columns2[None, :] * A + action[:, None])
    value = tl.sum(hidden2 * w3, axis=1) + tl.load(network + B3 + action)
    slope = tl.minimum(tl.maximum(value - target, -1.0), 1.0) / BATCH
    outputs = tl.arange(0, OUT)
    slope3 = tl.where(outputs[None, :] == action[:, None], slope[:, None], 0.0)
    slope2 = tl.where(hidden2 > 0.0, slope[:, None] * w3, 0.0)
    tl.store(slopes + (H1 + H2) + outputs[None, :], slope3)
    tl.store(slopes + H1 + columns2[None, :], slope2)
    # What these rows add to the gradients of the biases.
    summed = sums + (policy * (BATCH // ROWS) + tl.program_id(0)) * D_WIDTH
    tl.store(summed + (H1 + H2) + outputs, tl.sum(slope3, axis=0))
    tl.store(summed + H1 + columns2, tl.sum(slope2, axis=0))
    tl.debug_barrier()

    total = tl.zeros((ROWS, H1), tl.float32)
    for first in range(0, H2, DEPTH):
        k = first + tl.arange(0, DEPTH)
        d = tl.load(slopes + H1 + k[None, :])
        w = tl.load(network + W2 + columns1[None, :] * H2 + k[:, None])
        total = tl.dot(d, w, total, input_precision=PRECISION)
    hidden1 = tl.load(kept + F_PADDED + columns1[None, :])
    slope1 = tl.where(hidden1 > 0.0, total, 0.0)
    tl.store(slopes + columns1[None, :], slope1)
    tl.store(summed + columns1, tl.sum(slope1, axis=0))


@_compiled
def _act_kernel(  # type: ignore[no-untyped-def]
    observations,
    parameters,
    scratch,
    actions,
    N_ROWS: tl.constexpr,
    STRIDE: tl.constexpr,
    F: tl.constexpr,
    H1: tl.constexpr,
    H2: tl.constexpr,
    A: tl.constexpr,
    OUT: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The best action in some observations of a policy."""
    policy = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = rows < N_ROWS
    B1: tl.constexpr = F * H1
    W2: tl.constexpr = B1 + H1
    B2: tl.constexpr = W2 + H1 * H2
    W3: tl.constexpr = B2 + H2
    B3: tl.constexpr = W3 + H2 * A
    network = parameters + policy * STRIDE
    inputs = observations + (policy * N_ROWS + rows)[:, None] * F
    kept = scratch + ((policy * tl.num_programs(0) + tl.program_id(0)) * ROWS + tl.arange(0, ROWS))[:, None] * (H1 + H2)
    columns1 = tl.arange(0, H1)
    columns2 = tl.arange(0, H2)

    total = tl.zeros((ROWS, H1), tl.float32)
    for first in range(0, F, DEPTH):
        k = first + tl.arange(0, DEPTH)
        x = tl.load(inputs + k[None, :], mask=real[:, None] & (k[None, :] < F), other=0.0)
        w = tl.load(network + k[:, None] * H1 + columns1[None, :], mask=k[:, None] < F, other=0.0)
        total = tl.dot(x, w, total, input_precision=PRECISION)
    tl.store(kept + columns1[None, :], tl.maximum(total + tl.load(network + B1 + columns1)[None, :], 0.0))
    tl.debug_barrier()

    total = tl.zeros((ROWS, H2), tl.float32)
    for first in range(0, H1, DEPTH):
        k = first + tl.arange(0, DEPTH)
        x = tl.load(kept + k[None, :])
        w = tl.load(network + W2 + k[:, None] * H2 + columns2[None, :])
        total = tl.dot(x, w, total, input_precision=PRECISION)
    tl.store(kept + H1 + columns2[None, :], tl.maximum(total + tl.load(network + B2 + columns2)[None, :], 0.0))
    tl.debug_barrier()

    outputs = tl.arange(0, OUT)
    exists = outputs < A
    scores = tl.zeros((ROWS, OUT), tl.float32)
    for first in range(0, H2, DEPTH):
        k = first + tl.arange(0, DEPTH)
        x = tl.load(kept + H1 + k[None, :])
        w = tl.load(network + W3 + k[:, None] * A + outputs[None, :], mask=exists[None, :], other=0.0)
        scores = tl.dot(x, w, scores, input_precision=PRECISION)
    scores += tl.load(network + B3 + outputs, mask=exists, other=0.0)[None, :]
    best = tl.argmax(tl.where(exists[None, :], scores, float("-inf")), axis=1)
    tl.store(actions + policy * N_ROWS + rows, best.to(tl.int64), mask=real)


@_compiled
def _gradient_tile(  # type: ignore[no-untyped-def]
    activations,
    derivatives,
    sums,
    out,
    square_out,
    first_in,
    first_out,
    n_in,
    n_out,
    WIDTH_A: tl.constexpr,
    WIDTH_D: tl.constexpr,
    BATCH: tl.constexpr,
    ROW_TILES: tl.constexpr,
    IN: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Sum activationsᵀ · derivatives over the batch for a tile of a matrix, with its biases and sum of squares.

    Loads are not masked, so that they can be wide: beyond the edge of a matrix they read the neighbouring columns of
    the scratch memory, and what comes of that is neither stored nor counted.
    """
    i = first_in + tl.arange(0, IN)
    j = first_out + tl.arange(0, COLUMNS)
    total = tl.zeros((IN, COLUMNS), tl.float32)
    for first in range(0, BATCH, DEPTH):
        rows = first + tl.arange(0, DEPTH)
        x = tl.load(activations + rows[:, None] * WIDTH_A + i[None, :])
        d = tl.load(derivatives + rows[:, None] * WIDTH_D + j[None, :])
        total = tl.dot(tl.trans(x), d, total, input_precision=PRECISION)
    bias = tl.sum(tl.load(sums + tl.arange(0, ROW_TILES)[:, None] * WIDTH_D + j[None, :]), axis=0)
    inside = (i[:, None] < n_in) & (j[None, :] < n_out)
    tl.store(out + i[:, None] * n_out + j[None, :], total, mask=inside)
    counted = (j < n_out) & (first_in == 0)
    tl.store(out + n_in * n_out + j, bias, mask=counted)
    square = tl.sum(tl.sum(tl.where(inside, total * total, 0.0), axis=1), axis=0)
    tl.store(square_out, square + tl.sum(tl.where(counted, bias * bias, 0.0), axis=0))


@_compiled
def _weights_kernel(  # type: ignore[no-untyped-def]
    activations,
    derivatives,
    sums,
    gradients,
    squares,
    STRIDE: tl.constexpr,
    F: tl.constexpr,
    F_PADDED: tl.constexpr,
    H1: tl.constexpr,
    H2: tl.constexpr,
    A: tl.constexpr,
    OUT: tl.constexpr,
    BATCH: tl.constexpr,
    ROW_TILES: tl.constexpr,
    IN: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    TILES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A tile of the gradients of one of a policy's matrices."""
    tile = tl.program_id(0)
    policy = tl.program_id(1)
    A_WIDTH: tl.constexpr = F_PADDED + H1 + H2
    D_WIDTH: tl.constexpr = H1 + H2 + OUT
    ACROSS1: tl.constexpr = (H1 + COLUMNS - 1) // COLUMNS
    ACROSS2: tl.constexpr = (H2 + COLUMNS - 1) // COLUMNS
    TILES1: tl.constexpr = ((F + IN - 1) // IN) * ACROSS1
    TILES2: tl.constexpr = ((H1 + IN - 1) // IN) * ACROSS2
    W2: tl.constexpr = F * H1 + H1
    W3: tl.constexpr = W2 + H1 * H2 + H2

    kept = activations + policy * (BATCH * A_WIDTH)
    slopes = derivatives + policy * (BATCH * D_WIDTH)
    summed = sums + policy * (ROW_TILES * D_WIDTH)
    out = gradients + policy * STRIDE
    square_out = squares + policy * TILES + tile
    if tile < TILES1 + TILES2:
        is1 = tile < TILES1
        local = tile - tl.where(is1, 0, TILES1)
        across = tl.where(is1, ACROSS1, ACROSS2)
        _gradient_tile(
            kept + tl.multiple_of(tl.where(is1, 0, F_PADDED), 8),
            slopes + tl.multiple_of(tl.where(is1, 0, H1), 8),
            summed + tl.multiple_of(tl.where(is1, 0, H1), 8),
            out + tl.where(is1, 0, W2),
            square_out,
            (local // across) * IN,
            (local % across) * COLUMNS,
            tl.where(is1, F, H1),
            tl.where(is1, H1, H2),
            A_WIDTH,
            D_WIDTH,
            BATCH,
            ROW_TILES,
            IN,
            COLUMNS,
            DEPTH,
            PRECISION,
        )
    else:
        # The last matrix has few columns, so it has narrow tiles.
        _gradient_tile(
            kept + (F_PADDED + H1),
            slopes + (H1 + H2),
            summed + (H1 + H2),
            out + W3,
            square_out,
            (tile - TILES1 - TILES2) * IN,
            0,
            H2,
            A,
            A_WIDTH,
            D_WIDTH,
            BATCH,
            ROW_TILES,
            IN,
            OUT,
            DEPTH,
            PRECISION,
        )


@_compiled
def _adam_kernel(  # type: ignore[no-untyped-def]
    parameters,
    gradients,
    mean,
    square,
    squares,
    coefficients,
    STRIDE: tl.constexpr,
    TILES: tl.constexpr,
    TILES_PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    KEEP1: tl.constexpr,
    KEEP2: tl.constexpr,
    EPSILON: tl.constexpr,
    MAX_NORM: tl.constexpr,
):
    """Clip by the policy's norm and update."""
    policy = tl.program_id(1)
    tiles = tl.arange(0, TILES_PADDED)
    norm = tl.sqrt(tl.sum(tl.load(squares + policy * TILES + tiles, mask=tiles < TILES, other=0.0), axis=0))
    scale = tl.minimum(MAX_NORM / (norm + 1e-6), 1.0)
    step_size = tl.load(coefficients)
    correction = tl.load(coefficients + 1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < STRIDE
    at = policy * STRIDE + column
    g = tl.load(gradients + at, mask=inside, other=0.0) * scale
    m = tl.load(mean + at, mask=inside, other=0.0)
    v = tl.load(square + at, mask=inside, other=0.0)
    m += (g - m) * KEEP1
    v = v * (1.0 - KEEP2) + g * g * KEEP2
    p = tl.load(parameters + at, mask=inside, other=0.0)
    p -= step_size * (m / (tl.sqrt(v) / correction + EPSILON))
    tl.store(mean + at, m, mask=inside)
    tl.store(square + at, v, mask=inside)
    tl.store(parameters + at, p, mask=inside)


def _power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def check_fits(shape: NetworkShape, batch: int, settings: FusedSettings) -> None:
    """Raise unless the kernels can handle the networks and the batch."""
    widths = shape.widths
    if len(widths) != 4 or not all(_power_of_two(width) and 16 <= width <= 256 for width in widths[1:3]):
        raise FleetError(
            "the fused kernels are for two hidden layers of 16, 32, 64, 128 or 256 units, these networks have widths "
            f"{widths}; use backend='torch'."
        )
    if widths[3] > _OUT:
        raise FleetError(f"the fused kernels are for at most {_OUT} actions, not {widths[3]}; use backend='torch'.")
    tiles, rest = divmod(batch, settings.row_block)
    if rest or not _power_of_two(tiles) or batch % settings.weight_depth:
        raise FleetError(
            f"a batch of {batch} is no power of two times {settings.row_block} rows and a multiple of "
            f"{settings.weight_depth}; use backend='torch', or another tiling of the kernels."
        )


class FusedStep:
    """The update in three launches; the same interface as `TorchStep`."""

    def __init__(
        self, networks: TrainableNetworks, replay: Replay, adam: Adam, batch: int, settings: FusedSettings | None = None
    ) -> None:
        if triton is None:
            raise FleetError("backend='fused' needs Triton, which comes with PyTorch for CUDA; use backend='torch'.")
        self.settings = settings or FusedSettings()
        check_fits(networks.shape, batch, self.settings)
        self._networks, self._replay, self._adam, self._batch = networks, replay, adam, batch
        inputs, hidden1, hidden2, actions = networks.shape.widths
        padded = -(-inputs // 8) * 8
        n, device = len(networks.parameters), networks.parameters.device
        tiling = self.settings
        across = triton.cdiv(hidden1, tiling.out_block), triton.cdiv(hidden2, tiling.out_block), 1
        down = (triton.cdiv(width, tiling.in_block) for width in (inputs, hidden1, hidden2))
        self._tiles = sum(a * d for a, d in zip(across, down, strict=True))
        self.gradients = torch.zeros_like(networks.parameters)
        # One row more than the batches have: tiles at the edge read beyond the last one.
        self._activations = torch.zeros((n * batch + 1, padded + hidden1 + hidden2), device=device)
        self._derivatives = torch.zeros((n * batch + 1, hidden1 + hidden2 + _OUT), device=device)
        self._row_tiles = batch // tiling.row_block
        self._sums = torch.zeros((n * self._row_tiles + 1, hidden1 + hidden2 + _OUT), device=device)
        self._squares = torch.zeros((n, self._tiles), device=device)
        self._act_scratch: dict[int, Tensor] = {}
        self._shape: dict[str, Any] = {
            "STRIDE": networks.shape.stride,
            "F": inputs,
            "F_PADDED": padded,
            "H1": hidden1,
            "H2": hidden2,
            "A": actions,
            "OUT": _OUT,
            "BATCH": batch,
            "PRECISION": tiling.precision,
        }

    def __call__(self, places: Tensor, coefficients: Tensor) -> None:
        """Update all networks."""
        self.run_rows(places)
        self.run_weights()
        self.update(coefficients)

    def update(self, coefficients: Tensor) -> None:
        """Third kernel: clip and update."""
        networks, tiling, adam = self._networks, self.settings, self._adam
        stride = networks.shape.stride
        _adam_kernel[(triton.cdiv(stride, tiling.adam_block), len(networks.parameters))](
            networks.parameters,
            self.gradients,
            networks.mean,
            networks.square,
            self._squares,
            coefficients,
            STRIDE=stride,
            TILES=self._tiles,
            TILES_PADDED=triton.next_power_of_2(self._tiles),
            BLOCK=tiling.adam_block,
            KEEP1=1.0 - adam.beta1,
            KEEP2=1.0 - adam.beta2,
            EPSILON=adam.epsilon,
            MAX_NORM=adam.max_grad_norm,
            num_warps=tiling.adam_warps,
        )

    def best_actions(self, observations: Tensor, actions: Tensor) -> None:
        """Fill ``int64[N, rows]`` with the best actions in observations ``[N, rows, features]``."""
        n, rows, inputs = observations.shape
        tiles = triton.cdiv(rows, _ACT_ROWS)
        _, hidden1, hidden2, n_actions = self._networks.shape.widths
        # One for every number of rows, kept for good: captured graphs go on using it.
        scratch = self._act_scratch.get(rows)
        if scratch is None:
            scratch = torch.zeros((n * tiles * _ACT_ROWS, hidden1 + hidden2), device=observations.device)
            self._act_scratch[rows] = scratch
        _act_kernel[(tiles, n)](
            observations,
            self._networks.parameters,
            scratch,
            actions,
            N_ROWS=rows,
            STRIDE=self._networks.shape.stride,
            F=inputs,
            H1=hidden1,
            H2=hidden2,
            A=n_actions,
            OUT=_OUT,
            ROWS=_ACT_ROWS,
            DEPTH=32,
            PRECISION=self.settings.precision,
            num_warps=8,
            num_stages=3,
        )

    def fill_gradients(self, places: Tensor) -> None:
        """Compute the gradients (not yet clipped) and their sums of squares."""
        self.run_rows(places)
        self.run_weights()

    def run_rows(self, places: Tensor) -> None:
        """First kernel: forward and backward through the networks."""
        replay, tiling, n = self._replay, self.settings, len(self.gradients)
        _rows_kernel[(self._row_tiles, n)](
            replay.observations,
            replay.actions,
            replay.targets,
            places,
            self._networks.parameters,
            self._activations,
            self._derivatives,
            self._sums,
            CAPACITY=replay.capacity,
            PLACES_STRIDE=places.stride(0),
            ROWS=tiling.row_block,
            DEPTH=tiling.row_depth,
            num_warps=tiling.row_warps,
            num_stages=tiling.row_stages,
            **self._shape,
        )

    def run_weights(self, _places: Tensor | None = None) -> None:
        """Second kernel: gradients of the matrices and biases."""
        tiling, n = self.settings, len(self.gradients)
        _weights_kernel[(self._tiles, n)](
            self._activations,
            self._derivatives,
            self._sums,
            self.gradients,
            self._squares,
            ROW_TILES=self._row_tiles,
            IN=tiling.in_block,
            COLUMNS=tiling.out_block,
            DEPTH=tiling.weight_depth,
            TILES=self._tiles,
            num_warps=tiling.weight_warps,
            num_stages=tiling.weight_stages,
            **self._shape,
        )
