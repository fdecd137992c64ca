"""The fused kernels, run by Triton's interpreter, against PyTorch in double precision."""

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from lab.fleet import check_fused
from lab.fleet.fused import FusedSettings, FusedStep, check_fits
from lab.fleet.gradient_step import TorchStep
from lab.fleet.networks import NetworkShape
from lab.fleet.slots import FleetError

HAS_TRITON = importlib.util.find_spec("triton") is not None
PROGRAM = """
import torch
from lab.fleet import check_fused
from lab.fleet.fused import FusedSettings, FusedStep
for rows, inputs in ((16, 69), (32, 117)):
    problem = check_fused.Problem.random(2, inputs, 32, torch.device("cpu"), capacity=200)
    reference = check_fused.Reference(problem)
    tiling = FusedSettings(row_block=rows)
    gradients, moves = reference.errors(lambda l, r: FusedStep(l, r, problem.adam, 32, tiling))
    assert gradients < 1e-6 and moves < 1e-3, (gradients, moves)
    step = FusedStep(problem.networks(), problem.replay(), problem.adam, 32, tiling)
    for environments in (4, 8, 20):
        assert check_fused.actions_differ(step, problem, environments) == 0.0
"""


@pytest.mark.skipif(not HAS_TRITON, reason="Triton comes with PyTorch for CUDA only")
def test_kernels_in_the_interpreter() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)


@pytest.mark.skipif(HAS_TRITON, reason="Triton is there")
def test_without_triton_it_says_so() -> None:
    problem = check_fused.Problem.random(1, 5, 16, torch.device("cpu"), capacity=20)
    with pytest.raises(FleetError, match="needs Triton"):
        FusedStep(problem.networks(), problem.replay(), problem.adam, 16)


def test_pytorch_is_as_good_as_float32() -> None:
    problem = check_fused.Problem.random(2, 69, 32, torch.device("cpu"), capacity=200)
    errors = check_fused.Reference(problem).errors(lambda networks, replay: TorchStep(networks, replay, problem.adam))
    assert errors[0] < 1e-6
    assert errors[1] < 1e-3
    step = TorchStep(problem.networks(), problem.replay(), problem.adam)
    assert check_fused.actions_differ(step, problem) == 0.0


@pytest.mark.parametrize(
    ("widths", "batch", "message"),
    [
        ((69, 256, 5), 256, "two hidden layers"),
        ((69, 100, 256, 5), 256, "two hidden layers"),
        ((69, 64, 64, 40), 256, "16 actions"),
        ((69, 64, 64, 5), 40, "no power of two"),
    ],
)
def test_what_the_kernels_cannot_do(widths: tuple[int, ...], batch: int, message: str) -> None:
    with pytest.raises(FleetError, match=message):
        check_fits(NetworkShape(widths), batch, FusedSettings())
    check_fits(NetworkShape((69, 64, 128, 16)), 64, FusedSettings())
