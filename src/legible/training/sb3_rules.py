"""Rules in trainings with Stable-Baselines3, and critics that begin anew.

- `guided_class`: the class of a model that can act by rules; `guide_model` gives it the rules.
- `ActsByRules`: DQN, SAC and TD3 learn from whatever was done, so rules simply act. Every episode draws at its
  beginning whether it is guided, with the probability that rules still have; what was done is what is stored.
- `PolicyGuide`: PPO learns from its own actions only, so the guided policy *is* the policy that acts and that is
  improved: its logits are shifted where rules forbid something (`legible.training.rules.guided_shift`).
- `MarginLoss`: before a step of the optimiser, adds the gradient of the loss that holds the rules.
- `let_critic_learn_first`: where only what acts was there to begin with, it waits until critics know it.

All of it hangs on models from outside (their classes, hooks and buffers), so that the zips are those of plain models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from legible.features import ActionGroup, choices_of, move_to, scores_of
from legible.imports import needs_extra
from legible.training.errors import TrainingError
from legible.training.rules import RuleMasks, RuleSettings, TrainingRules, guided_shift, margin_loss
from legible.training.sb3_checkpoint import Model

with needs_extra("sb3", "training policies with Stable-Baselines3"):
    from stable_baselines3 import DQN, PPO, SAC, TD3
    from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
    from stable_baselines3.common.type_aliases import ReplayBufferSamples, RolloutBufferSamples
    from stable_baselines3.common.vec_env import VecNormalize

OffPolicyModel: TypeAlias = DQN | SAC | TD3
_STREAM = 0x52554C45  # tells the random numbers of guidance from all others of a seed


class ModelRules:
    """Rules as a model in training sees them.

    Parameters
    ----------
    model
        The model.
    rules, settings
        The rules, and how they fade out.
    total_steps
        Environment steps of the training.
    """

    def __init__(self, model: Model, rules: TrainingRules, settings: RuleSettings, total_steps: int) -> None:
        self._model, self._total_steps = model, total_steps
        self.rules, self.settings = rules, settings
        self.masks = RuleMasks([rules])

    @property
    def share(self) -> float:
        """How much the rules have to say now."""
        return self.settings.share(self._model.num_timesteps / self._total_steps)

    def allowed_now(self) -> NDArray[np.bool_]:
        """Which choices they allow in the states in which the model is to act."""
        wrapper = self._model.get_vec_normalize_env()
        shown: Any = self._model._last_obs if wrapper is None else wrapper.get_original_obs()
        return self.masks.allowed(np.asarray(shown))

    def allowed(self, observations: NDArray[Any]) -> Tensor:
        """Which choices they allow in states, as the environment shows them."""
        return torch.from_numpy(self.masks.allowed(observations)).to(self._model.device)


def guided_class(kind: type[Model]) -> type[Model]:
    """The class of a model that can act by rules."""
    classes: dict[type[Model], type[Model]] = {DQN: GuidedDQN, SAC: GuidedSAC, TD3: GuidedTD3}
    return classes.get(kind, kind)


def guide_model(model: Model, rules: TrainingRules, settings: RuleSettings, total_steps: int, seed: int) -> None:
    """Let rules guide a model, made of a `guided_class`, while it learns."""
    own = ModelRules(model, rules, settings, total_steps)
    if isinstance(model, PPO):
        if not isinstance(model.action_space, spaces.Discrete | spaces.MultiDiscrete):
            raise TrainingError(
                f"ppo cannot train with rules on the actions {model.action_space}: moving what it draws would make it "
                "learn from actions that are not its own. Use sac or td3 (--algo), or leave the rules out."
            )
        PolicyGuide(model, own)
        return
    assert isinstance(model, ActsByRules)
    model.guide = BehaviourGuide(model, own, seed)
    if settings.margin is not None:
        buffer = _RememberingReplay(
            model.buffer_size,
            model.observation_space,
            model.action_space,
            device=model.device,
            n_envs=model.n_envs,
            handle_timeout_termination=True,
        )
        model.replay_buffer = buffer
        _hold_rules(model, own, buffer)


# --- Acting by rules: DQN, SAC, TD3 ----------------------------------------------------------------------------------


class BehaviourGuide:
    """Has the last word on the actions of guided episodes.

    Parameters
    ----------
    model
        The model that acts.
    rules
        The rules.
    seed
        Of the draws which episodes are guided.

    Attributes
    ----------
    steps, guided, changed
        How many actions were taken, how many of them in guided episodes, and how many the rules changed.
    """

    def __init__(self, model: OffPolicyModel, rules: ModelRules, seed: int) -> None:
        self._model, self._rules = model, rules
        # A training that was stopped goes on with other draws than it began with.
        self._rng_of: Callable[[], np.random.Generator] = lambda: np.random.default_rng(
            (_STREAM, seed, model.num_timesteps)
        )
        self._rng: np.random.Generator | None = None
        self._begins = np.ones(model.n_envs, np.bool_)
        self._is_guided = np.zeros(model.n_envs, np.bool_)
        self.steps = self.guided = self.changed = 0

    def episodes_ended(self, dones: NDArray[np.bool_]) -> None:
        """Remember where episodes begin."""
        self._begins = np.asarray(dones, np.bool_).copy()

    def act(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Return what is done when the model wants these actions, which are those of its environments.

        What rules allow is done as it is; else the best choice that they allow, by the model's own scores.
        """
        share = self._rules.share
        self.steps += len(actions)
        if share <= 0.0:
            return actions
        self._rng = self._rng or self._rng_of()
        drawn = self._rng.random(len(actions)) < share
        self._is_guided = np.where(self._begins, drawn, self._is_guided)
        self.guided += int(self._is_guided.sum())
        groups, rows = self._rules.rules.space.groups, actions.reshape(len(actions), -1)
        chosen = choices_of(groups, rows)
        allowed = self._rules.allowed_now()
        wrong = self._is_guided[:, None] & ~np.take_along_axis(allowed, chosen, axis=1)
        if not wrong.any():
            return actions
        self.changed += int(wrong.any(axis=1).sum())
        scores = np.where(allowed, self._scores(groups, rows), -np.inf)
        best = np.stack([group.first + scores[:, group.choices].argmax(axis=1) for group in groups], axis=1)
        moved = move_to(groups, rows, np.where(wrong, best, chosen), self._rules.rules.enforce)
        return moved.reshape(actions.shape)

    def _scores(self, groups: tuple[ActionGroup, ...], rows: NDArray[Any]) -> NDArray[np.floating[Any]]:
        """Q-values, or how deep continuous actions lie in each region."""
        if not isinstance(self._model, DQN):
            return scores_of(groups, rows)
        shown, _ = self._model.policy.obs_to_tensor(self._model._last_obs)  # type: ignore[arg-type]
        with torch.no_grad():
            found: NDArray[np.float32] = self._model.q_net(shown).cpu().numpy()
        return found


class ActsByRules(OffPolicyAlgorithm):
    """Acts by rules in guided episodes; what was done is what is stored."""

    guide: BehaviourGuide | None = None

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        wanted, stored = super()._sample_action(learning_starts, action_noise, n_envs)
        done = wanted if self.guide is None else self.guide.act(wanted)
        if done is wanted:
            return wanted, stored
        if not isinstance(self.action_space, spaces.Box):
            return done, done
        # What was not moved is stored to the bit as it would have been.
        moved = (done != wanted).reshape(len(done), -1).any(axis=1)
        stored = np.array(stored)
        stored[moved] = self.policy.scale_action(done[moved])
        return done, stored

    def _store_transition(
        self,
        replay_buffer: ReplayBuffer,
        buffer_action: NDArray[Any],
        new_obs: NDArray[Any] | dict[str, NDArray[Any]],
        reward: NDArray[Any],
        dones: NDArray[np.bool_],
        infos: list[dict[str, Any]],
    ) -> None:
        super()._store_transition(replay_buffer, buffer_action, new_obs, reward, dones, infos)
        if self.guide is not None:
            self.guide.episodes_ended(dones)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "guide"]


class GuidedDQN(ActsByRules, DQN):
    """DQN that acts by rules in guided episodes."""


class GuidedSAC(ActsByRules, SAC):
    """SAC that acts by rules in guided episodes."""


class GuidedTD3(ActsByRules, TD3):
    """TD3 that acts by rules in guided episodes."""


class _RememberingReplay(ReplayBuffer):
    """Remembers the observations of the last batch, as the environment showed them and as the model sees them."""

    original: NDArray[Any]
    shown: Tensor

    def _get_samples(self, batch_inds: NDArray[Any], env: VecNormalize | None = None) -> ReplayBufferSamples:
        plain = super()._get_samples(batch_inds, None)
        self.original = plain.observations.cpu().numpy()
        if env is not None:
            observations, following = (
                self.to_torch(self._normalize_obs(part.cpu().numpy(), env))  # type: ignore[arg-type]
                for part in (plain.observations, plain.next_observations)
            )
            rewards = self.to_torch(self._normalize_reward(plain.rewards.cpu().numpy(), env))
            plain = plain._replace(observations=observations, next_observations=following, rewards=rewards)
        self.shown = plain.observations
        return plain


# --- The policy that acts is the one that is improved: PPO -----------------------------------------------------------


class _RememberingRollout(RolloutBuffer):
    """Remembers which steps of the rollout the last batch is made of, and says when a rollout begins."""

    places: NDArray[np.int64]
    begin: Callable[[], None] | None = None

    def reset(self) -> None:
        super().reset()
        if self.begin is not None:
            self.begin()

    def _get_samples(self, batch_inds: NDArray[Any], env: VecNormalize | None = None) -> RolloutBufferSamples:
        self.places = batch_inds
        return super()._get_samples(batch_inds, env)


class PolicyGuide:
    """Shifts the logits of a model's policy where rules forbid choices, while it acts and while it learns from that.

    What the shift is in a state is decided when the model acts there, and stays so while it learns from it; how much
    rules have to say is decided when a rollout begins.
    """

    def __init__(self, model: PPO, rules: ModelRules) -> None:
        self._model, self._rules = model, rules
        self._starts = tuple(int(start) for start in rules.masks.starts)
        net = model.policy.action_net
        if not isinstance(net, nn.Linear) or net.out_features != rules.masks.n_choices:
            raise TrainingError(f"rules of {rules.masks.n_choices} choices do not fit the policy's network.")
        old = model.rollout_buffer
        self._rollout = _RememberingRollout(
            model.n_steps,
            model.observation_space,
            model.action_space,
            device=model.device,
            gamma=old.gamma,
            gae_lambda=old.gae_lambda,
            n_envs=model.n_envs,
        )
        self._rollout.begin = self._begin
        model.rollout_buffer = self._rollout
        self._net, self._is_shifted = net, True
        self._begin()
        net.register_forward_hook(self._shifted)
        if rules.settings.margin is not None:
            MarginLoss(rules, model.policy.optimizer, self._own_logits, self._batch, model.max_grad_norm)

    def _begin(self) -> None:
        self._share = torch.tensor(self._rules.share, device=self._model.device)
        self._allowed: list[Tensor] = []
        self._shifts: list[Tensor] = []
        self._flat: tuple[Tensor, Tensor] | None = None

    def _shifted(self, _: nn.Module, __: Any, logits: Tensor) -> Tensor | None:
        if not self._is_shifted or float(self._share) <= 0.0:
            return None
        if self._model.policy.training:
            return logits + self._all()[1][self._rollout.places]
        allowed = torch.from_numpy(self._rules.allowed_now()).to(logits.device)
        shift = guided_shift(logits, allowed, self._share, self._starts)
        self._allowed.append(allowed)
        self._shifts.append(shift)
        return logits + shift

    def _all(self) -> tuple[Tensor, Tensor]:
        """What was allowed and how logits were shifted, for all steps in the order of the rollout buffer's batches."""
        if self._flat is None:
            allowed, shifts = (torch.stack(part).transpose(0, 1) for part in (self._allowed, self._shifts))
            self._flat = allowed.flatten(0, 1), shifts.flatten(0, 1)
        return self._flat

    def _own_logits(self, shown: Tensor) -> Tensor:
        """The logits without any shift."""
        policy = self._model.policy
        features = policy.extract_features(shown, policy.pi_features_extractor)
        assert isinstance(features, Tensor)
        self._is_shifted = False
        logits: Tensor = self._net(policy.mlp_extractor.forward_actor(features))
        self._is_shifted = True
        return logits

    def _batch(self) -> tuple[Tensor, Tensor]:
        places = self._rollout.places
        return self._rollout.to_torch(self._rollout.observations[places]), self._all()[0][places]


# --- Losses and waiting ----------------------------------------------------------------------------------------------


class MarginLoss:
    """Adds the gradient of the margin loss to those of an optimiser, right before it makes a step.

    Parameters
    ----------
    rules
        The rules.
    optimiser
        The optimiser.
    scores
        From observations, as the model sees them, to the scores of all choices.
    batch
        The observations of the batch that is being learnt from, and which choices are allowed there.
    max_norm
        What all gradients are clipped to afterwards, as the model clips its own; None where it does not.
    """

    def __init__(
        self,
        rules: ModelRules,
        optimiser: torch.optim.Optimizer,
        scores: Callable[[Tensor], Tensor],
        batch: Callable[[], tuple[Tensor, Tensor]],
        max_norm: float | None = None,
    ) -> None:
        self._rules, self._scores, self._batch, self._max_norm = rules, scores, batch, max_norm
        self._starts = tuple(int(start) for start in rules.masks.starts)
        optimiser.register_step_pre_hook(self._add)

    def _add(self, optimiser: torch.optim.Optimizer, _: Any, __: Any) -> None:
        settings, share = self._rules.settings, self._rules.share
        weight = settings.margin_weight * share
        if settings.margin is None or weight <= 0.0:
            return
        shown, allowed = self._batch()
        if bool(allowed.all()):
            return
        loss = margin_loss(self._scores(shown), allowed, settings.margin, self._starts).mean()
        (weight * loss).backward()  # type: ignore[no-untyped-call]
        if self._max_norm is not None:
            parameters = [each for group in optimiser.param_groups for each in group["params"]]
            nn.utils.clip_grad_norm_(parameters, self._max_norm)


def _hold_rules(model: OffPolicyModel, rules: ModelRules, buffer: _RememberingReplay) -> None:
    """Add the margin loss to that of the network that acts."""

    def batch() -> tuple[Tensor, Tensor]:
        return buffer.shown, rules.allowed(buffer.original)

    if isinstance(model, DQN):
        MarginLoss(rules, model.policy.optimizer, model.q_net, batch, model.max_grad_norm)
        return
    assert isinstance(model.action_space, spaces.Box)
    low, high = (
        torch.tensor(end, device=model.device).flatten() for end in (model.action_space.low, model.action_space.high)
    )
    arguments = {"deterministic": True} if isinstance(model, SAC) else {}

    def depths(shown: Tensor) -> Tensor:
        actions = model.actor(shown, **arguments).flatten(1)  # between −1 and 1
        return region_scores(rules.rules.space.groups, low + 0.5 * (actions + 1.0) * (high - low))

    MarginLoss(rules, model.actor.optimizer, depths, batch)


def region_scores(groups: Sequence[ActionGroup], actions: Tensor) -> Tensor:
    """Return what `legible.features.Regions.scores` does, for actions ``[n, groups]`` that gradients flow through."""
    parts = []
    for number, group in enumerate(groups):
        assert group.regions is not None
        cuts = group.regions.cuts or ()
        lows, highs = (actions.new_tensor(ends) for ends in ((-torch.inf, *cuts), (*cuts, torch.inf)))
        column = actions[:, number : number + 1]
        parts.append(torch.minimum(column - lows, highs - column) / group.regions.spread)
    return torch.cat(parts, dim=1)


def let_critic_learn_first(model: Model, steps: int) -> None:
    """Let what acts stay as it is for some environment steps, while its critics learn."""
    if isinstance(model, DQN):
        return
    if isinstance(model, PPO):
        policy = model.policy
        acting = [*policy.mlp_extractor.policy_net.parameters(), *policy.action_net.parameters()]
        acting += [policy.log_std] if isinstance(getattr(policy, "log_std", None), nn.Parameter) else []
        optimiser = policy.optimizer
    else:
        acting, optimiser = list(model.actor.parameters()), model.actor.optimizer

    def wait(_: torch.optim.Optimizer, __: Any, ___: Any) -> None:
        if model.num_timesteps <= steps:
            for parameter in acting:
                parameter.grad = None

    optimiser.register_step_pre_hook(wait)
