"""DQN for many policies at once: Stable-Baselines3's algorithm with the policies as one batch.

`DqnFleet` trains N policies side by side, each with its own environments, replay buffer, target network and random
streams. A phase is what Stable-Baselines3 does between two rounds of updates: `train_freq` steps of all environments,
then the updates. Everything heavy runs on one device; on a GPU the updates of a phase are one CUDA graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.fleet.adam import COEFFICIENT_COLUMNS, Adam
from lab.fleet.cuda_graphs import capture, pinned
from lab.fleet.fleet import Fleet, PhaseBuffers
from lab.fleet.fleet_rules import EpisodeGuide, FleetRules
from lab.fleet.gradient_step import GradientStep, TorchStep, TrainableNetworks
from lab.fleet.networks import NetworkShape, default_parameters, layer_views
from lab.fleet.random_numbers import draw_integers, explore, guidance_key, keys_on
from lab.fleet.replay import Replay
from lab.fleet.slots import TrainingSlots
from legible.training.hyperparameters import DqnSettings

Backend = Literal["torch", "fused"]


class DqnFleet(Fleet):
    """N policies that learn side by side.

    Parameters
    ----------
    slots, seeds, settings, total_steps, device, stage
        As for every `Fleet`; the exploration schedule depends on `total_steps`.
    backend
        "torch": PyTorch's operations; "fused": Triton kernels, on a GPU.
    fused
        Settings of the kernels (`lab.fleet.fused.FusedSettings`), as plain data.
    initial_parameters
        Parameters ``[N, stride]`` to begin with, for extended training; by default fresh networks.
    rules
        Rules that guide exploration: an episode is guided or not, as is drawn when it begins. Updates with rules are
        those of PyTorch's operations.
    """

    algorithm = "dqn"
    _buffers: _Buffers

    def __init__(
        self,
        slots: TrainingSlots,
        seeds: Sequence[int],
        settings: DqnSettings,
        total_steps: int,
        *,
        device: torch.device | str = "cpu",
        backend: Backend = "torch",
        fused: Mapping[str, Any] | None = None,
        initial_parameters: NDArray[np.float32] | None = None,
        stage: int = 0,
        rules: FleetRules | None = None,
    ) -> None:
        super().__init__(slots, seeds, settings, total_steps, device, stage, rules)
        self.settings = settings
        self.shape = NetworkShape((slots.width, *settings.hidden, slots.n_actions))
        self._exploration_keys = np.array([s.exploration for s in self.streams], np.uint64)
        self._sampling_keys = keys_on(self.device, [s.sampling for s in self.streams])
        if initial_parameters is None:
            initial_parameters = np.stack([default_parameters(self.shape, s.network) for s in self.streams])
        self.networks = TrainableNetworks.of(self.shape, torch.tensor(initial_parameters, device=self.device))
        self.target = self.networks.parameters.clone()
        self._target_layers = layer_views(self.target, self.shape)
        self._margin = None if rules is None else rules.settings.margin
        self.replay = Replay(
            self.n_policies,
            settings.n_envs,
            settings.buffer_size,
            slots.width,
            settings.gamma,
            self.device,
            0 if self._margin is None else slots.n_actions,
        )
        self.gradient_step = self._make_step(backend, fused)
        keys = np.array([guidance_key(seed, stage) for seed in self.seeds], np.uint64)
        self.guide = None if rules is None else EpisodeGuide(keys, settings.n_envs)
        self._buffers = _Buffers(self)
        works = [self.act_on_device, self.keep_on_device, self.train_on_device]
        self._repeat_act, self._repeat_keep, self._repeat_train = capture(
            works, self.device, list(self.tensors(with_replay=True).values())
        )
        self._start_environments()

    def _make_step(self, backend: Backend, fused: Mapping[str, Any] | None) -> GradientStep:
        adam = Adam(self.settings.learning_rate, self.settings.max_grad_norm)
        if backend == "torch" or self.rules is not None:
            return TorchStep(self.networks, self.replay, adam, self._margin)
        from lab.fleet.fused import FusedSettings, FusedStep  # noqa: PLC0415 (Triton exists on few machines)

        return FusedStep(self.networks, self.replay, adam, self.settings.batch_size, FusedSettings(**(fused or {})))

    @property
    def updates_per_phase(self) -> int:
        """Updates in a phase."""
        given = self.settings.gradient_steps
        return given if given >= 0 else self.steps_per_phase

    @property
    def steps_per_phase(self) -> int:
        """Environment steps of a policy in a phase."""
        return self.settings.train_freq * self.settings.n_envs

    @property
    def epsilon(self) -> float:
        """The share of calls in which a policy acts at random now."""
        return epsilon_after(self.settings, self.steps, self.total_steps) if self.steps else 0.0

    def phase(self) -> None:
        """Step the environments, keep what happened, and update."""
        self._buffers.await_copies()
        change_target = False
        for number in range(self.settings.train_freq):
            change_target |= self._collect(number)
        self._keep(change_target)
        if self.steps > self.settings.learning_starts and self.updates_per_phase:
            self._train()

    def refill(self, n_rows: int) -> None:
        """Play with ε as it is, without updates and without counting, until the buffer has this many rows again.

        After a checkpoint without replay buffers, so that the updates go on with as much experience as before.
        """
        while self.replay.written < min(n_rows, self.replay.rows):
            self._buffers.await_copies()
            for number in range(self.settings.train_freq):
                self._act_and_step(number, call=-1 - self.replay.written - number)
            self._keep(False)

    def _collect(self, number: int) -> bool:
        """Step all environments once; return whether the target network is due for a change."""
        self._act_and_step(number, call=self.calls)
        self.steps += self.settings.n_envs
        self.calls += 1
        return self.calls % max(self.settings.target_update_interval // self.settings.n_envs, 1) == 0

    def _act_and_step(self, number: int, call: int) -> None:
        warm_up = self.steps < self.settings.learning_starts
        actions = self._buffers.actions_array
        if not warm_up or self.guide is not None:
            self._act()
        explore(self._exploration_keys, call, self.epsilon, self.slots.n_actions, warm_up, actions)
        record = self._buffers.records_array[number]
        if self.rules is not None and self.guide is not None:
            allowed = self.rules.allowed(self.slots.observations)
            self._buffers.allowed_array[number] = allowed
            self.guide.act(call, self.rule_share, allowed, self._buffers.scores_array, actions)
        self.slots.step(actions.reshape(-1), record)
        if self.guide is not None:
            self.guide.note_ends(record)

    def _act(self) -> None:
        """Fill the buffer of actions and, where rules need them, that of Q-values."""
        super()._act()
        if self.guide is not None:
            self._buffers.scores.copy_(self._buffers.device_scores)

    def act_on_device(self) -> None:
        """From the device's observations to its actions."""
        buffers = self._buffers
        if self.guide is None or not isinstance(self.gradient_step, TorchStep):
            self.gradient_step.best_actions(buffers.device_observations, buffers.device_actions)
            return
        buffers.device_scores.copy_(self.gradient_step.scores(buffers.device_observations))
        torch.argmax(buffers.device_scores, dim=2, out=buffers.device_actions)

    def _keep(self, change_target: bool) -> None:
        """Write the records of a phase into the replay buffers; change the target network when it is due."""
        rows = self.settings.train_freq
        self._buffers.send_records(self.replay.places(rows))
        self._repeat_keep()
        self.replay.written += rows
        if change_target:
            self.target.copy_(self.networks.parameters)
            self.replay.refresh(self._target_layers)

    def keep_on_device(self) -> None:
        """From the device's records to the replay buffers."""
        buffers = self._buffers
        self.replay.store(self._by_policy(buffers.device_records), buffers.device_places, self._target_layers)
        if self.replay.allowed is not None:
            self.replay.allowed.index_copy_(1, buffers.device_places, self._by_policy(buffers.device_allowed))

    def _by_policy(self, rows: Tensor) -> Tensor:
        """Return rows ``[calls, n, …]`` of a phase as ``[N, steps, …]``."""
        split = rows.view(self.settings.train_freq, self.n_policies, self.settings.n_envs, -1)
        return split.transpose(0, 1).reshape(self.n_policies, self.steps_per_phase, -1)

    def _train(self) -> None:
        n = self.updates_per_phase
        coefficients = Adam(self.settings.learning_rate, self.settings.max_grad_norm).coefficients(self.updates, n)
        self._buffers.send_training(coefficients, self.updates * self.settings.batch_size, self.replay.filled)
        if self.rules is not None and isinstance(self.gradient_step, TorchStep):
            self.gradient_step.margin_weight.fill_(self.rules.settings.margin_weight * self.rule_share)
        self._repeat_train()
        self.updates += n

    def train_on_device(self) -> None:
        """All updates of a phase."""
        buffers, batch = self._buffers, self.settings.batch_size
        n = self.updates_per_phase
        drawn = draw_integers(self._sampling_keys, buffers.device_counter[0], n * batch, buffers.device_counter[1])
        buffers.sampled.copy_(drawn)
        for i in range(n):
            self.gradient_step(buffers.sampled[:, i * batch : (i + 1) * batch], buffers.device_coefficients[i])

    def tensors(self, *, with_replay: bool) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint holds; they are the fleet's own, not copies."""
        networks = self.networks
        own = {
            "parameters": networks.parameters,
            "adam.mean": networks.mean,
            "adam.square": networks.square,
            "target": self.target,
        }
        if self.guide is not None and self.slots.state() is not None:  # else episodes begin anew
            own |= self.guide.tensors()
        return {**own, **self.replay.tensors()} if with_replay else own

    def counters(self) -> dict[str, int]:
        """Return the counts that a checkpoint holds."""
        return {**super().counters(), "written": self.replay.written}

    def set_counters(self, counters: Mapping[str, int], *, with_replay: bool) -> None:
        """Go on from counts; without the replay buffers they are filled again by playing."""
        super().set_counters(counters, with_replay=with_replay)
        self.replay.written = int(counters["written"]) if with_replay else 0

    def policy_rows(self) -> NDArray[np.float32]:
        """Return the parameters of the Q-networks."""
        self.synchronize()
        return self.networks.parameters.cpu().numpy()


class _Buffers(PhaseBuffers):
    """Buffers that a fleet of DQN shares with its device.

    The host writes its side only after `await_copies`, when the device has read what the phase before sent.
    """

    def __init__(self, fleet: DqnFleet) -> None:
        settings, device = fleet.settings, fleet.device
        super().__init__(fleet, settings.train_freq)
        phase, updates = fleet.steps_per_phase, fleet.updates_per_phase
        self._places = pinned(torch.zeros(phase, dtype=torch.int64), device)
        self.device_places = torch.zeros(phase, dtype=torch.int64, device=device)
        self._coefficients = pinned(torch.ones((updates, COEFFICIENT_COLUMNS)), device)
        self.device_coefficients = torch.ones((updates, COEFFICIENT_COLUMNS), device=device)
        self._counter = pinned(torch.ones(2, dtype=torch.int64), device)
        self.device_counter = torch.ones(2, dtype=torch.int64, device=device)
        self.sampled = torch.zeros((fleet.n_policies, updates * settings.batch_size), dtype=torch.int32, device=device)
        if fleet.guide is not None:
            shape = (fleet.n_policies, settings.n_envs, fleet.slots.n_actions)
            self.scores = pinned(torch.zeros(shape), device)
            self.scores_array = self.scores.numpy()
            self.device_scores = torch.zeros(shape, device=device)
            rows = torch.ones((settings.train_freq, fleet.slots.n, shape[-1]), dtype=torch.bool)
            self._allowed = pinned(rows, device)
            self.allowed_array = self._allowed.numpy()
            self.device_allowed = torch.ones(self._allowed.shape, dtype=torch.bool, device=device)
        self._is_guided = fleet.guide is not None
        self._sent: Any = torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def await_copies(self) -> None:
        """Wait until the device has read what was sent last."""
        if self._sent is not None:
            self._sent.synchronize()

    def _mark_sent(self) -> None:
        if self._sent is not None:
            self._sent.record()

    def send_records(self, places: list[int]) -> None:
        """Send the records of a phase and where they go."""
        self._places.numpy()[:] = places
        self.device_records.copy_(self.records, non_blocking=True)
        self.device_places.copy_(self._places, non_blocking=True)
        if self._is_guided:
            self.device_allowed.copy_(self._allowed, non_blocking=True)
        self._mark_sent()

    def send_training(self, coefficients: NDArray[np.float32], first_draw: int, bound: int) -> None:
        """Send what the updates of a phase need."""
        self._coefficients.numpy()[:] = coefficients
        self._counter.numpy()[:] = (first_draw, bound)
        self.device_coefficients.copy_(self._coefficients, non_blocking=True)
        self.device_counter.copy_(self._counter, non_blocking=True)
        self._mark_sent()


def epsilon_after(settings: DqnSettings, steps: int, total_steps: int) -> float:
    """Return ε after a number of environment steps."""
    done = steps / total_steps
    if done > settings.exploration_fraction:
        return settings.exploration_final_eps
    change = settings.exploration_final_eps - settings.exploration_initial_eps
    return settings.exploration_initial_eps + done * change / settings.exploration_fraction
