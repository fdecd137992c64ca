"""Adam with clipped gradients for many networks at once, each clipped by its own norm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

COEFFICIENT_COLUMNS = 4  # two are used; 16 bytes a row keep every row aligned for the fused kernels


@dataclass(frozen=True)
class Adam:
    """Settings of the optimiser; the defaults are those of PyTorch's Adam, the norm is Stable-Baselines3's for DQN."""

    learning_rate: float
    max_grad_norm: float = 10.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def coefficients(self, first: int, n: int) -> NDArray[np.float32]:
        """Step size and √(1 − β₂ᵗ) of the updates first + 1 … first + n, computed in double precision."""
        rows = np.zeros((n, COEFFICIENT_COLUMNS), np.float32)
        t = np.arange(first + 1, first + n + 1, dtype=np.float64)
        rows[:, 0] = self.learning_rate / (1.0 - self.beta1**t)
        rows[:, 1] = np.sqrt(1.0 - self.beta2**t)
        return rows


def clip_scales(gradients: Tensor, max_norm: float) -> Tensor:
    """By what the gradients ``[N, P]`` of every network must be multiplied: ``[N, 1]``, at most 1."""
    norms = torch.linalg.vector_norm(gradients, dim=1, keepdim=True)
    return (max_norm / (norms + 1e-6)).clamp_(max=1.0)


def adam_step(
    adam: Adam, parameters: Tensor, gradients: Tensor, mean: Tensor, square: Tensor, coefficients: Tensor
) -> None:
    """Clip the gradients and update the parameters, all in place.

    Parameters
    ----------
    adam
        The settings.
    parameters, gradients, mean, square
        ``[N, P]``: the networks, their gradients and Adam's two moments.
    coefficients
        The row of `Adam.coefficients` for this update, on the device.
    """
    gradients.mul_(clip_scales(gradients, adam.max_grad_norm))
    mean.lerp_(gradients, 1.0 - adam.beta1)
    square.mul_(adam.beta2).addcmul_(gradients, gradients, value=1.0 - adam.beta2)
    denominator = (square.sqrt() / coefficients[1]).add_(adam.epsilon)
    parameters.sub_(mean / denominator * coefficients[0])
