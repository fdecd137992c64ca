"""The parts that all fleets share, whatever their algorithm.

- `Fleet`: N policies that are trained side by side, from the first step to the last.
- `FleetProgress`: how far the training is.
- `PhaseBuffers`: memory in which host and device pass on observations, actions and records.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.fleet.cuda_graphs import Work, pinned
from lab.fleet.fleet_rules import FleetRules
from lab.fleet.networks import NetworkShape
from lab.fleet.random_numbers import PolicyStreams
from lab.fleet.slots import RECORD_TAIL, FleetError, TrainingSlots
from legible.play import one_thread


@dataclass(frozen=True)
class FleetProgress:
    """Progress of a training: steps a policy, updates, ε, and for every policy the recent episodes and mean return."""

    steps: int
    total_steps: int
    updates: int
    epsilon: float
    episodes: NDArray[np.int64]
    mean_returns: NDArray[np.float64]


class PhaseBuffers:
    """Memory on both sides that never moves, for the data that host and device exchange in every phase.

    Parameters
    ----------
    fleet
        The owner.
    n_calls
        Steps of all environments in a phase.
    """

    def __init__(self, fleet: Fleet, n_calls: int) -> None:
        slots, device, shape = fleet.slots, fleet.device, (fleet.n_policies, fleet.n_envs)
        self.observations = pinned(torch.zeros((*shape, slots.width)), device)
        self.observations_array = self.observations.numpy().reshape(slots.n, slots.width)
        self.device_observations = torch.zeros((*shape, slots.width), device=device)
        self.actions = pinned(torch.zeros(shape, dtype=torch.int64), device)
        self.actions_array = self.actions.numpy()
        self.device_actions = torch.zeros(shape, dtype=torch.int64, device=device)
        self.records = pinned(torch.zeros((n_calls, slots.n, 2 * slots.width + RECORD_TAIL)), device)
        self.records_array = self.records.numpy()
        self.device_records = torch.zeros(self.records.shape, device=device)


class Fleet(ABC):
    """N policies that are trained side by side, phase by phase.

    Parameters
    ----------
    slots
        The environments: those of policy p in the rows p · n_envs …
    seeds
        A seed for every policy.
    settings
        The hyperparameters, a dataclass; `n_envs` is how many environments a policy has.
    total_steps
        Environment steps of the whole training of a policy; the last phase is completed.
    device
        Where networks and experience live.
    stage
        Which training of these policies it is; another stage draws other random numbers from the same seeds.
    rules
        Rules that guide the policies and fade out.
    """

    algorithm: str
    shape: NetworkShape  # of the network that acts
    _buffers: PhaseBuffers
    _repeat_act: Work  # from the device's observations to its actions

    def __init__(
        self,
        slots: TrainingSlots,
        seeds: Sequence[int],
        settings: Any,
        total_steps: int,
        device: torch.device | str,
        stage: int,
        rules: FleetRules | None = None,
    ) -> None:
        n_envs: int = settings.n_envs
        if slots.n != len(seeds) * n_envs:
            raise FleetError(
                f"{len(seeds)} policies with {n_envs} environments each need {len(seeds) * n_envs} slots, got "
                f"{slots.n}."
            )
        if total_steps < 1:
            raise FleetError(f"a training takes at least one step, got {total_steps}.")
        self.slots, self.seeds, self._settings = slots, list(seeds), settings
        self.n_policies, self.n_envs = len(self.seeds), n_envs
        self.total_steps, self.stage = total_steps, stage
        self.device = torch.device(device)
        self.streams = [PolicyStreams.of(seed, n_envs, stage) for seed in self.seeds]
        self.steps = self.calls = self.updates = 0
        self.rules = rules
        if rules is not None:
            rules.check(slots, self.n_policies)

    @abstractmethod
    def phase(self) -> None:
        """Step the environments for a while, then update the networks."""

    @property
    @abstractmethod
    def updates_per_phase(self) -> int:
        """Updates in a phase."""

    @property
    @abstractmethod
    def steps_per_phase(self) -> int:
        """Environment steps of a policy in a phase."""

    @abstractmethod
    def policy_rows(self) -> NDArray[np.float32]:
        """Return the parameters of the networks that act, ``[N, shape.stride]``."""

    @abstractmethod
    def tensors(self, *, with_replay: bool) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint holds; they are the fleet's own, not copies."""

    def _start_environments(self) -> None:
        """Begin the first episodes."""
        self.slots.start([seed for streams in self.streams for seed in streams.environments])

    def _act(self) -> None:
        """Fill the buffer of actions with those that the networks choose."""
        buffers = self._buffers
        buffers.observations_array[:] = self.slots.observations
        buffers.device_observations.copy_(buffers.observations, non_blocking=True)
        self._repeat_act()
        buffers.actions.copy_(buffers.device_actions, non_blocking=True)
        self.synchronize()

    @property
    def epsilon(self) -> float:
        """The share of calls in which a policy acts at random now; zero where that is not how it explores."""
        return 0.0

    @property
    def rule_share(self) -> float:
        """The weight of rules now, from 1 to 0."""
        return 0.0 if self.rules is None else self.rules.settings.share(self.steps / self.total_steps)

    @property
    def done(self) -> bool:
        """True once the training is complete."""
        return self.steps >= self.total_steps

    def learn(
        self,
        *,
        until: float | None = None,
        max_phases: int | None = None,
        report: Callable[[FleetProgress], None] | None = None,
        report_seconds: float = 15.0,
    ) -> bool:
        """Train until the end, or until ``time.monotonic()`` passes `until`, or for some phases; returns `done`.

        On the CPU, PyTorch uses one thread meanwhile: the results must not depend on the number of cores.
        """
        with one_thread() if self.device.type == "cpu" else nullcontext():
            phases, next_report = 0, time.monotonic() + report_seconds
            while not self.done and (max_phases is None or phases < max_phases):
                self.phase()
                phases += 1
                now = time.monotonic()
                if report is not None and now >= next_report:
                    report(self.progress())
                    next_report = now + report_seconds
                if until is not None and now >= until:
                    break
        return self.done

    def progress(self) -> FleetProgress:
        """Return the progress of the training; the episodes are those since the last call."""
        counts = self.slots.take_counts()
        episodes = counts.episodes.reshape(self.n_policies, -1).sum(axis=1)
        returns = counts.returns.reshape(self.n_policies, -1).sum(axis=1)
        means = np.divide(returns, episodes, out=np.full(self.n_policies, np.nan), where=episodes > 0)
        return FleetProgress(self.steps, self.total_steps, self.updates, self.epsilon, episodes, means)

    def counters(self) -> dict[str, int]:
        """Return the counts that a checkpoint holds."""
        return {"steps": self.steps, "calls": self.calls, "updates": self.updates}

    def set_counters(self, counters: Mapping[str, int], *, with_replay: bool) -> None:  # noqa: ARG002 (some have one)
        """Go on from counts."""
        self.steps, self.calls, self.updates = (int(counters[name]) for name in ("steps", "calls", "updates"))

    def refill(self, n_rows: int) -> None:  # noqa: B027 (nothing to do where there are none)
        """Fill the replay buffers again by playing, where there are some."""

    def description(self) -> dict[str, Any]:
        """Return everything that must be the same for a checkpoint to fit."""
        return {
            "algorithm": self.algorithm,
            "settings": asdict(self._settings),
            "seeds": self.seeds,
            "total_steps": self.total_steps,
            "stage": self.stage,
            "widths": list(self.shape.widths),
            **({} if self.rules is None else {"rules": self.rules.description()}),
        }

    def synchronize(self) -> None:
        """Wait until the device has done all that this thread asked of it."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
