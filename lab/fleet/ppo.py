"""PPO for many policies at once: Stable-Baselines3's algorithm with the policies as one batch.

`PpoFleet` trains N policies side by side. A phase is a rollout of `n_steps` steps of all environments, then `n_epochs`
passes over it in minibatches. Actor and critic are separate networks, with ReLU. On a GPU acting, the advantages
and the updates of an epoch are CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.fleet.adam import COEFFICIENT_COLUMNS, Adam, adam_step
from lab.fleet.cuda_graphs import capture, pinned
from lab.fleet.fleet import Fleet, PhaseBuffers
from lab.fleet.fleet_rules import FleetRules
from lab.fleet.gradient_step import margin_gradient
from lab.fleet.networks import NetworkShape, backward, forward, layer_views, orthogonal_parameters
from lab.fleet.random_numbers import draw_orders, draw_uniform, keys_on
from lab.fleet.slots import ACTION, RECORD_TAIL, REWARD, TERMINATED, TRUNCATED, FleetError, TrainingSlots
from legible.training.hyperparameters import PpoSettings
from legible.training.rules import guided_shift

_ACTOR_GAIN, _CRITIC_GAIN = 0.01, 1.0


def ppo_optimiser(settings: PpoSettings) -> Adam:
    """Return Adam as Stable-Baselines3 sets it up for actor-critic policies."""
    return Adam(settings.learning_rate, settings.max_grad_norm, epsilon=1e-5)


class PpoFleet(Fleet):
    """N policies that learn side by side.

    Parameters
    ----------
    slots, seeds, settings, total_steps, device, stage
        As for every `Fleet`.
    initial_actors
        Parameters of the actors ``[N, stride]`` to begin with; by default fresh networks. Critics are always fresh.
    critic_steps
        Environment steps in which only critics learn, at the beginning.
    rules
        Rules that guide the policies: their logits are shifted where rules forbid actions, while they act and while
        they learn from that (`legible.training.rules.guided_shift`).
    """

    algorithm = "ppo"
    _buffers: _Buffers

    def __init__(
        self,
        slots: TrainingSlots,
        seeds: Sequence[int],
        settings: PpoSettings,
        total_steps: int,
        *,
        device: torch.device | str = "cpu",
        initial_actors: NDArray[np.float32] | None = None,
        critic_steps: int = 0,
        stage: int = 0,
        rules: FleetRules | None = None,
    ) -> None:
        super().__init__(slots, seeds, settings, total_steps, device, stage, rules)
        if settings.rollout % settings.batch_size:
            raise FleetError(
                f"a rollout of {settings.n_steps} steps in {settings.n_envs} environments is {settings.rollout} "
                f"transitions, no multiple of the batch size {settings.batch_size}."
            )
        self.settings = settings
        self.shape = NetworkShape((slots.width, *settings.hidden, slots.n_actions))
        self.critic_shape = NetworkShape((slots.width, *settings.hidden, 1))
        self._action_keys = keys_on(self.device, [s.exploration for s in self.streams])
        self._order_keys = keys_on(self.device, [s.sampling for s in self.streams])
        initial_parameters = np.stack([self._initial_row(s.network) for s in self.streams])
        if initial_actors is not None:
            initial_parameters[:, : self.shape.stride] = initial_actors
        self._critic_steps = critic_steps
        self.parameters = torch.tensor(initial_parameters, device=self.device)
        self.mean, self.square = torch.zeros_like(self.parameters), torch.zeros_like(self.parameters)
        self.gradients = torch.zeros_like(self.parameters)
        first = self.shape.stride
        self._actor = layer_views(self.parameters, self.shape)
        self._critic = layer_views(self.parameters, self.critic_shape, first)
        self._actor_gradients = layer_views(self.gradients, self.shape)
        self._critic_gradients = layer_views(self.gradients, self.critic_shape, first)
        self._buffers = _Buffers(self)
        works = [self.act_on_device, self.estimate_on_device, self.epoch_on_device]
        changed = [*self.tensors(with_replay=True).values(), self._buffers.draw]
        self._repeat_act, self._repeat_estimate, self._repeat_epoch = capture(works, self.device, changed)
        self._start_environments()

    def _initial_row(self, seed: int) -> NDArray[np.float32]:
        actor = orthogonal_parameters(self.shape, seed, _ACTOR_GAIN)
        critic = orthogonal_parameters(self.critic_shape, (seed + 1) % 2**63, _CRITIC_GAIN)
        return np.concatenate([actor, critic])

    @property
    def updates_per_phase(self) -> int:
        """Updates in a phase."""
        return self.settings.n_epochs * self.settings.batches

    @property
    def steps_per_phase(self) -> int:
        """Environment steps of a policy in a phase."""
        return self.settings.rollout

    def phase(self) -> None:
        """Play a rollout and learn from it."""
        buffers = self._buffers
        buffers.draw.fill_(self.calls * self.n_envs)
        buffers.share.fill_(self.rule_share)
        for number in range(self.settings.n_steps):
            if self.rules is not None:
                buffers.allowed_array[number] = self.rules.allowed(self.slots.observations)
                buffers.device_allowed_now.copy_(buffers.allowed[number].view_as(buffers.device_allowed_now))
            self._act()
            self.slots.step(buffers.actions_array.reshape(-1), buffers.records_array[number])
        self.calls += self.settings.n_steps
        self.steps += self.settings.rollout
        buffers.device_records.copy_(buffers.records, non_blocking=True)
        if self.rules is not None:
            buffers.device_allowed.copy_(buffers.allowed, non_blocking=True)
            buffers.margin_weight.fill_(self.rules.settings.margin_weight * self.rule_share)
        buffers.actor_learns.fill_(self.steps > self._critic_steps)
        self._repeat_estimate()
        self._train()
        # The host writes new records only when the device has read these.
        self.synchronize()

    def act_on_device(self) -> None:
        """From the device's observations to actions, drawn with the actor's probabilities."""
        buffers = self._buffers
        logits = forward(self._actor, buffers.device_observations)[-1]
        if self.rules is not None:
            logits = logits + self._shift(logits, buffers.device_allowed_now)
        reached = logits.double().softmax(dim=2).cumsum(dim=2)
        drawn = draw_uniform(self._action_keys, buffers.draw, self.n_envs)
        actions = (reached <= drawn.unsqueeze(2)).sum(dim=2)
        buffers.device_actions.copy_(actions.clamp_(max=self.slots.n_actions - 1))
        buffers.draw.add_(self.n_envs)

    def _shift(self, logits: Tensor, allowed: Tensor) -> Tensor:
        return guided_shift(logits, allowed, self._buffers.share, (0, self.slots.n_actions))

    def estimate_on_device(self) -> None:
        """From the records of a rollout to what the updates need: log-probabilities, advantages and returns."""
        buffers, s, width = self._buffers, self.settings, self.slots.width
        shape = (s.n_steps, self.n_policies, s.n_envs, 2 * width + RECORD_TAIL)
        # [policy, environment, time]: the transitions of an environment follow one another.
        records = buffers.device_records.view(shape).permute(1, 2, 0, 3).reshape(self.n_policies, s.rollout, -1)
        inputs = records[:, :, :width].contiguous()
        tail = records[:, :, 2 * width :]
        actions = tail[:, :, ACTION].long()
        logits = forward(self._actor, inputs)[-1]
        if self.rules is not None:
            by_steps = buffers.device_allowed.view(s.n_steps, self.n_policies, s.n_envs, -1)
            allowed = by_steps.permute(1, 2, 0, 3).reshape(self.n_policies, s.rollout, -1)
            buffers.taken_allowed.copy_(allowed)
            buffers.shift.copy_(self._shift(logits, allowed))
            logits = logits + buffers.shift
        values = forward(self._critic, inputs)[-1].squeeze(2)
        following = forward(self._critic, records[:, :, width : 2 * width].contiguous())[-1].squeeze(2)
        by_time = (self.n_policies, s.n_envs, s.n_steps)
        advantages = _advantages(
            tail[:, :, REWARD].view(by_time),
            values.view(by_time),
            following.view(by_time),
            tail[:, :, TERMINATED].view(by_time),
            tail[:, :, TRUNCATED].view(by_time),
            s.gamma,
            s.gae_lambda,
        ).view(self.n_policies, s.rollout)
        buffers.inputs.copy_(inputs)
        buffers.taken.copy_(actions)
        buffers.log_probabilities.copy_(logits.log_softmax(dim=2).gather(2, actions.unsqueeze(2)).squeeze(2))
        buffers.advantages.copy_(advantages)
        buffers.returns.copy_(advantages + values)

    def _train(self) -> None:
        s, buffers = self.settings, self._buffers
        first = (self.updates // s.batches) * s.rollout
        orders = draw_orders(self._order_keys, first, s.n_epochs, s.rollout)
        coefficients = torch.from_numpy(ppo_optimiser(s).coefficients(self.updates, self.updates_per_phase))
        coefficients = coefficients.to(self.device).view(s.n_epochs, s.batches, COEFFICIENT_COLUMNS)
        for epoch in range(s.n_epochs):
            buffers.order.copy_(orders[epoch])
            buffers.coefficients.copy_(coefficients[epoch])
            self._repeat_epoch()
        self.updates += self.updates_per_phase

    def epoch_on_device(self) -> None:
        """One pass over the rollout."""
        buffers, size = self._buffers, self.settings.batch_size
        for i in range(self.settings.batches):
            self.fill_gradients(buffers.order[:, i * size : (i + 1) * size])
            before = self.parameters[:, : self.shape.stride].clone() if self._critic_steps else None
            optimiser = ppo_optimiser(self.settings)
            adam_step(optimiser, self.parameters, self.gradients, self.mean, self.square, buffers.coefficients[i])
            if before is not None:
                actors = self.parameters[:, : self.shape.stride]
                actors.copy_(torch.where(buffers.actor_learns, actors, before))

    def fill_gradients(self, places: Tensor) -> None:
        """Compute the gradients of PPO's loss on the transitions at the places ``int64[N, batch]`` of the rollout."""
        buffers, s, size = self._buffers, self.settings, places.shape[1]
        inputs = buffers.inputs[buffers.policies, places]
        actions = buffers.taken.gather(1, places).unsqueeze(2)
        old = buffers.log_probabilities.gather(1, places)
        advantages = buffers.advantages.gather(1, places)
        spread = advantages.std(dim=1, keepdim=True) + 1e-8
        advantages = (advantages - advantages.mean(dim=1, keepdim=True)) / spread

        actor = forward(self._actor, inputs)
        guided = self.rules is not None
        logits = actor[-1] + buffers.shift[buffers.policies, places] if guided else actor[-1]
        logs = logits.log_softmax(dim=2)
        probabilities = logs.exp()
        ratios = (logs.gather(2, actions).squeeze(2) - old).exp()
        clipped = ratios.clamp(1.0 - s.clip_range, 1.0 + s.clip_range)
        # The smaller of the two surrogates counts; where it is the clipped one, nothing flows back.
        flows = advantages * ratios <= advantages * clipped
        weights = torch.where(flows, -advantages * ratios / size, torch.zeros_like(ratios)).unsqueeze(2)
        logit_gradient = (probabilities * -weights).scatter_add_(2, actions, weights)
        if s.ent_coef:
            entropies = -(probabilities * logs).sum(dim=2, keepdim=True)
            logit_gradient += probabilities * (logs + entropies) * (s.ent_coef / size)
        if self.rules is not None and self.rules.settings.margin is not None:
            allowed = buffers.taken_allowed[buffers.policies, places]
            held = margin_gradient(actor[-1], allowed, self.rules.settings.margin)
            logit_gradient += held * (buffers.margin_weight / size)
        backward(self._actor, actor, logit_gradient, self._actor_gradients)

        critic = forward(self._critic, inputs)
        errors = critic[-1] - buffers.returns.gather(1, places).unsqueeze(2)
        backward(self._critic, critic, errors * (2.0 * s.vf_coef / size), self._critic_gradients)

    def tensors(self, *, with_replay: bool) -> dict[str, Tensor]:  # noqa: ARG002 (a rollout is used up)
        """Return the tensors that a checkpoint holds; they are the fleet's own, not copies."""
        return {"parameters": self.parameters, "adam.mean": self.mean, "adam.square": self.square}

    def policy_rows(self) -> NDArray[np.float32]:
        """Return the parameters of the actors."""
        self.synchronize()
        return self.parameters[:, : self.shape.stride].cpu().numpy()

    def critic_rows(self) -> NDArray[np.float32]:
        """Return the parameters of the critics."""
        self.synchronize()
        return self.parameters[:, self.shape.stride :].cpu().numpy()


def _advantages(
    rewards: Tensor,
    values: Tensor,
    following: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """Generalised advantage estimation over the last axis; what follows a step that was cut off counts by its value."""
    surprises = rewards + gamma * following * (1.0 - terminated) - values
    going_on = (gamma * gae_lambda) * (1.0 - terminated - truncated)
    advantages = torch.empty_like(values)
    running = torch.zeros_like(values[:, :, 0])
    for t in range(values.shape[2] - 1, -1, -1):
        running = torch.addcmul(surprises[:, :, t], going_on[:, :, t], running)
        advantages[:, :, t] = running
    return advantages


class _Buffers(PhaseBuffers):
    """Buffers that a fleet of PPO shares with its device, and its rollout."""

    def __init__(self, fleet: PpoFleet) -> None:
        s, device = fleet.settings, fleet.device
        super().__init__(fleet, s.n_steps)
        n, width, rollout = fleet.n_policies, fleet.slots.width, s.rollout
        self.draw = torch.zeros(1, dtype=torch.int64, device=device)
        self.inputs = torch.zeros((n, rollout, width), device=device)
        self.taken = torch.zeros((n, rollout), dtype=torch.int64, device=device)
        self.log_probabilities = torch.zeros((n, rollout), device=device)
        self.advantages = torch.zeros((n, rollout), device=device)
        self.returns = torch.zeros((n, rollout), device=device)
        self.order = torch.arange(rollout, device=device).repeat(n, 1)
        self.coefficients = torch.ones((s.batches, COEFFICIENT_COLUMNS), device=device)
        self.policies = torch.arange(n, device=device)[:, None]
        self.actor_learns = torch.ones(1, dtype=torch.bool, device=device)
        self.share = torch.zeros(1, device=device)
        self.margin_weight = torch.zeros(1, device=device)
        if fleet.rules is not None:
            n_actions = fleet.slots.n_actions
            self.allowed = pinned(torch.ones((s.n_steps, fleet.slots.n, n_actions), dtype=torch.bool), device)
            self.allowed_array = self.allowed.numpy()
            self.device_allowed = torch.ones(self.allowed.shape, dtype=torch.bool, device=device)
            self.device_allowed_now = torch.ones((n, s.n_envs, n_actions), dtype=torch.bool, device=device)
            self.taken_allowed = torch.ones((n, rollout, n_actions), dtype=torch.bool, device=device)
            self.shift = torch.zeros((n, rollout, n_actions), device=device)
