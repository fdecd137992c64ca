"""Heads: from the last hidden layer of a network to actions.

- `QValues`: the action with the highest value.
- `Categories`: one or several categorical actions, with optional masks.
- `Bits`: several binary actions.
- `Gaussian`: continuous actions around a mean.
- `Certain`: continuous actions without noise.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import torch
from torch import nn

Rng: TypeAlias = np.random.Generator | None
Masks: TypeAlias = torch.Tensor | None

_MASKED = -1e8  # the logit of masked actions in Stable-Baselines3
_LARGEST_LOG_STD = 2.0
_SMALLEST_LOG_STD = -20.0


class Head(Protocol):
    """Protocol of all heads."""

    stochastic: bool
    maskable: bool

    def __call__(self, latent: torch.Tensor, rng: Rng, masks: Masks) -> torch.Tensor:
        """Return the most likely actions, or actions sampled with `rng`, for the output of the last hidden layer."""
        ...


class _OfNet(nn.Module):
    """A head with one network, without sampling or masks."""

    stochastic = False
    maskable = False

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net


class QValues(_OfNet):
    """A value for each action; the highest is chosen."""

    def scores(self, latent: torch.Tensor, _masks: Masks) -> torch.Tensor:
        """Return the values."""
        values: torch.Tensor = self.net(latent)
        return values

    def forward(self, latent: torch.Tensor, _rng: Rng, masks: Masks) -> torch.Tensor:
        """Return the actions with the highest values."""
        return self.scores(latent, masks).argmax(dim=1)


class Categories(nn.Module):
    """One or several categorical actions with separate logits."""

    stochastic = True

    def __init__(self, net: nn.Module, sizes: tuple[int, ...], *, single: bool, maskable: bool = False) -> None:
        super().__init__()
        self.net, self.sizes, self.single, self.maskable = net, sizes, single, maskable

    def scores(self, latent: torch.Tensor, masks: Masks) -> torch.Tensor:
        """Return the concatenated log-probabilities of all parts."""
        return torch.cat(self._log_probabilities(latent, masks), dim=1)

    def _log_probabilities(self, latent: torch.Tensor, masks: Masks) -> list[torch.Tensor]:
        parts = list(torch.split(self.net(latent), list(self.sizes), dim=1))
        if masks is not None:
            allowed = torch.split(masks.reshape(len(latent), sum(self.sizes)), list(self.sizes), dim=1)
            normal = [_normalised(logits) for logits in parts]
            parts = [part.where(mask, part.new_tensor(_MASKED)) for part, mask in zip(normal, allowed, strict=True)]
        return [_normalised(logits) for logits in parts]

    def forward(self, latent: torch.Tensor, rng: Rng, masks: Masks) -> torch.Tensor:
        """Return the most likely actions, or sample them."""
        chosen = []
        for log_probabilities in self._log_probabilities(latent, masks):
            likely = log_probabilities.softmax(dim=-1)
            if rng is None:
                chosen.append(likely.argmax(dim=1))
                continue
            shares = likely.double().cumsum(dim=1)
            drawn = torch.from_numpy(rng.random(len(shares)))[:, None] * shares[:, -1:]
            chosen.append((shares > drawn).int().argmax(dim=1))
        return chosen[0] if self.single else torch.stack(chosen, dim=1)


class Bits(_OfNet):
    """Several binary actions."""

    stochastic = True

    def scores(self, latent: torch.Tensor, _masks: Masks) -> torch.Tensor:
        """Return the concatenated log-probabilities of 0 and 1 of all parts."""
        logits = self.net(latent)
        return torch.stack([nn.functional.logsigmoid(-logits), nn.functional.logsigmoid(logits)], dim=2).flatten(1)

    def forward(self, latent: torch.Tensor, rng: Rng, _masks: Masks) -> torch.Tensor:
        """Return the more likely actions, or sample them."""
        likely = self.net(latent).sigmoid()
        if rng is None:
            return likely.round()
        return (torch.from_numpy(rng.random(likely.shape)) < likely).float()


class Gaussian(nn.Module):
    """Continuous actions around a mean, optionally squashed by tanh.

    The standard deviation is a constant per action, a separate layer (SAC), or that of gSDE, which depends on the last
    hidden layer: noise is sampled from the distribution that gSDE gives a single step.
    """

    stochastic = True
    maskable = False

    def __init__(
        self,
        mean: nn.Module,
        log_std: torch.Tensor | nn.Module,
        *,
        squashed: bool,
        state_dependent: bool = False,
        use_expln: bool = False,
    ) -> None:
        super().__init__()
        self.mean, self.squashed = mean, squashed
        self.state_dependent, self.use_expln = state_dependent, use_expln
        if isinstance(log_std, nn.Module):
            self.log_std_net: nn.Module | None = log_std
        else:
            self.log_std_net = None
            self.register_buffer("log_std", log_std)

    def forward(self, latent: torch.Tensor, rng: Rng, _masks: Masks) -> torch.Tensor:
        """Return the mean, or sample around it."""
        actions: torch.Tensor = self.mean(latent)
        if rng is not None:
            noise = torch.from_numpy(rng.standard_normal(actions.shape).astype(np.float32))
            actions = actions + noise * self._standard_deviation(latent)
        return actions.tanh() if self.squashed else actions

    def _standard_deviation(self, latent: torch.Tensor) -> torch.Tensor:
        if self.log_std_net is not None:
            output: torch.Tensor = self.log_std_net(latent)
            return output.clamp(_SMALLEST_LOG_STD, _LARGEST_LOG_STD).exp()
        log_std = self.get_buffer("log_std")
        std = log_std.exp()
        if not self.state_dependent:
            return std
        if self.use_expln:  # exponential below zero, logarithmic above
            above = ((log_std * (log_std > 0) + 1e-6).log1p() + 1.0) * (log_std > 0)
            std = std * (log_std <= 0) + above
        return ((latent**2) @ (std**2) + 1e-6).sqrt()


class Certain(_OfNet):
    """Continuous actions that are the output of the network."""

    def forward(self, latent: torch.Tensor, _rng: Rng, _masks: Masks) -> torch.Tensor:
        """Return the actions."""
        actions: torch.Tensor = self.net(latent)
        return actions


def _normalised(logits: torch.Tensor) -> torch.Tensor:
    # As in torch.distributions, so that results are bit-identical to Stable-Baselines3.
    return logits - logits.logsumexp(dim=-1, keepdim=True)
