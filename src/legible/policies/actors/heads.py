"""From the last layer of a network to actions.

- `QValues`: the best action.
- `Categories`: one choice, or several at once, by log-probabilities; masks rule choices out.
- `Bits`: yes or no, several at once.
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

_MASKED = -1e8
# Stable-Baselines3's number for the logit of an action that is ruled out.

_LARGEST_LOG_STD = 2.0
_SMALLEST_LOG_STD = -20.0


class Head(Protocol):
    """What every head can do."""

    stochastic: bool
    maskable: bool

    def __call__(self, latent: torch.Tensor, rng: Rng, masks: Masks) -> torch.Tensor:
        """Return the actions for what the last hidden layer gives: the most likely ones, or drawn with `rng`."""
        ...


class _OfNet(nn.Module):
    """A head that is one network: nothing is drawn, and no choice ruled out."""

    stochastic = False
    maskable = False

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net


class QValues(_OfNet):
    """A value for each action; the best is taken."""

    def scores(self, latent: torch.Tensor, _masks: Masks) -> torch.Tensor:
        """Return the values."""
        values: torch.Tensor = self.net(latent)
        return values

    def forward(self, latent: torch.Tensor, _rng: Rng, masks: Masks) -> torch.Tensor:
        """Return the best actions."""
        return self.scores(latent, masks).argmax(dim=1)


class Categories(nn.Module):
    """One or several choices, each with logits of its own."""

    stochastic = True

    def __init__(self, net: nn.Module, sizes: tuple[int, ...], *, single: bool, maskable: bool = False) -> None:
        super().__init__()
        self.net, self.sizes, self.single, self.maskable = net, sizes, single, maskable

    def scores(self, latent: torch.Tensor, masks: Masks) -> torch.Tensor:
        """Return the log-probabilities of a single choice; of several, one after another."""
        return torch.cat(self._log_probabilities(latent, masks), dim=1)

    def _log_probabilities(self, latent: torch.Tensor, masks: Masks) -> list[torch.Tensor]:
        parts = list(torch.split(self.net(latent), list(self.sizes), dim=1))
        if masks is not None:
            allowed = torch.split(masks.reshape(len(latent), sum(self.sizes)), list(self.sizes), dim=1)
            normal = [_normalised(logits) for logits in parts]
            parts = [part.where(mask, part.new_tensor(_MASKED)) for part, mask in zip(normal, allowed, strict=True)]
        return [_normalised(logits) for logits in parts]

    def forward(self, latent: torch.Tensor, rng: Rng, masks: Masks) -> torch.Tensor:
        """Return the most likely choices, or draw them."""
        chosen = [_choice(part, rng) for part in self._log_probabilities(latent, masks)]
        return chosen[0] if self.single else torch.stack(chosen, dim=1)


class Bits(_OfNet):
    """Yes or no, several at once."""

    stochastic = True

    def scores(self, latent: torch.Tensor, _masks: Masks) -> torch.Tensor:
        """Return the log-probabilities of no and yes, one question after another."""
        logits = self.net(latent)
        return torch.stack([nn.functional.logsigmoid(-logits), nn.functional.logsigmoid(logits)], dim=2).flatten(1)

    def forward(self, latent: torch.Tensor, rng: Rng, _masks: Masks) -> torch.Tensor:
        """Return the more likely answers, or draw them."""
        likely = self.net(latent).sigmoid()
        if rng is None:
            return likely.round()
        return (torch.from_numpy(rng.random(likely.shape)) < likely).float()


class Gaussian(nn.Module):
    """Continuous actions around a mean, squashed by tanh or not.

    The spread is one number an action, a layer of its own (SAC), or that of gSDE, which depends on the last hidden
    layer: noise is drawn from the distribution that gSDE gives a single step.
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
        """Return the mean, or draw around it."""
        actions: torch.Tensor = self.mean(latent)
        if rng is not None:
            noise = torch.from_numpy(rng.standard_normal(actions.shape).astype(np.float32))
            actions = actions + noise * self._std(latent)
        return actions.tanh() if self.squashed else actions

    def _std(self, latent: torch.Tensor) -> torch.Tensor:
        if self.log_std_net is not None:
            log_std: torch.Tensor = self.log_std_net(latent)
            return log_std.clamp(_SMALLEST_LOG_STD, _LARGEST_LOG_STD).exp()
        written = self.get_buffer("log_std")
        if not self.state_dependent:
            return written.exp()
        std = written.exp()
        if self.use_expln:  # like the exponential below zero and like the logarithm above
            above = ((written * (written > 0) + 1e-6).log1p() + 1.0) * (written > 0)
            std = std * (written <= 0) + above
        return ((latent**2) @ (std**2) + 1e-6).sqrt()


class Certain(_OfNet):
    """Continuous actions that come straight from the network."""

    def forward(self, latent: torch.Tensor, _rng: Rng, _masks: Masks) -> torch.Tensor:
        """Return the actions."""
        actions: torch.Tensor = self.net(latent)
        return actions


def _normalised(logits: torch.Tensor) -> torch.Tensor:
    # As torch.distributions does it, so that the bits are Stable-Baselines3's own.
    return logits - logits.logsumexp(dim=-1, keepdim=True)


def _choice(log_probabilities: torch.Tensor, rng: Rng) -> torch.Tensor:
    likely = log_probabilities.softmax(dim=-1)
    if rng is None:
        return likely.argmax(dim=1)
    shares = likely.double().cumsum(dim=1)
    drawn = torch.from_numpy(rng.random(len(shares)))[:, None] * shares[:, -1:]
    return (shares > drawn).int().argmax(dim=1)
