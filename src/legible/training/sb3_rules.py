"""Rules in trainings with Stable-Baselines3, and training of new critics.

- `guided_class`: the class of a model that can follow rules; `guide_model` gives it the rules.
- `ActsByRules`: DQN, SAC and TD3 learn from any action, so rules simply act. At its beginning, every episode is guided
  with a probability that falls during the training; the action taken is the one stored.
- `PolicyGuide`: PPO learns from its own actions only, so the guided policy *is* the policy that acts and that is
  improved: its logits are shifted where rules forbid something (`legible.training.rules.guided_shift`), and where the
  environment's action masks do.
- `MarginLoss`: adds the gradient of the margin loss before a step of the optimiser.
- `let_critic_learn_first`: freezes an actor without critics until new critics have learnt.

Classes, hooks and buffers of the models are replaced from outside, so that the zips equal the zips of plain models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from legible.features import choices_of, move_to, scores_of
from legible.imports import needs_extra
from legible.training.errors import TrainingError
from legible.training.rules import LEAST_SHIFT, RuleMasks, RuleSettings, TrainingRules, guided_shift, margin_loss
from legible.training.sb3_checkpoint import Model

with needs_extra("sb3", "training policies with Stable-Baselines3"):
    from stable_baselines3 import DQN, PPO, SAC, TD3
    from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
    from stable_baselines3.common.type_aliases import ReplayBufferSamples, RolloutBufferSamples
    from stable_baselines3.common.vec_env import VecNormalize

OffPolicyModel: TypeAlias = DQN | SAC | TD3
_STREAM = 0x52554C45  # separates the random numbers of guidance from all others of a seed


class ModelRules:
    """Rules, their schedule, and the choices that they allow a model in training."""

    def __init__(self, model: Model, rules: TrainingRules, settings: RuleSettings, total_steps: int) -> None:
        self._model, self._total_steps = model, total_steps
        self.rules, self.settings = rules, settings
        self.masks = RuleMasks([rules])
        env = model.env
        self.is_masked = env is not None and bool(env.has_attr("action_masks"))

    @property
    def share(self) -> float:
        """The current share of guidance."""
        return self.settings.share(self._model.num_timesteps / self._total_steps)

    def allowed_now(self) -> NDArray[np.bool_]:
        """Return the choices that the rules allow in the states in which the model acts next."""
        wrapper = self._model.get_vec_normalize_env()
        shown: Any = self._model._last_obs if wrapper is None else wrapper.get_original_obs()
        return self.masks.allowed(np.asarray(shown), self.possible_now())

    def possible_now(self) -> NDArray[np.bool_] | None:
        """Return the choices that the environments allow in these states; None if they do not mask actions."""
        if not self.is_masked:
            return None
        assert self._model.env is not None
        return np.stack([np.ravel(mask).astype(np.bool_) for mask in self._model.env.env_method("action_masks")])


def guided_class(kind: type[Model]) -> type[Model]:
    """Return the class of a model that can follow rules."""
    classes: dict[type[Model], type[Model]] = {DQN: GuidedDQN, SAC: GuidedSAC, TD3: GuidedTD3}
    return classes.get(kind, kind)


def guide_model(model: Model, rules: TrainingRules, settings: RuleSettings, total_steps: int, seed: int) -> None:
    """Prepare a model in place, so that rules guide it while it learns.

    - `model`: a new model of the class that `guided_class` returns.
    - `rules`: rules on the observations and actions of the model's environment.
    - `settings`: when the rules fade out, and the margin loss that teaches the network to follow them.
    - `total_steps`: environment steps of the whole training, from which the share of guidance is computed.
    - `seed`: decides which episodes are guided.
    """
    model_rules = ModelRules(model, rules, settings, total_steps)
    # PPO learns from its own actions only: the rules have to change the policy itself, not the action taken.
    if isinstance(model, PPO):
        if not isinstance(model.action_space, spaces.Discrete | spaces.MultiDiscrete):
            raise TrainingError(
                f"ppo cannot train with rules on the actions {model.action_space}: it would learn from actions that "
                "are not its own. Use sac or td3 (--algo), or leave the rules out."
            )
        PolicyGuide(model, model_rules)
        return
    # DQN, SAC and TD3 learn from any action, so the rules replace actions.
    assert isinstance(model, ActsByRules)
    model.guide = BehaviourGuide(model, model_rules, seed)
    if settings.margin is not None:
        # The margin loss needs the observations of the batch that is being learnt from.
        buffer = _RememberingReplay(
            model.buffer_size,
            model.observation_space,
            model.action_space,
            device=model.device,
            n_envs=model.n_envs,
            handle_timeout_termination=True,
        )
        model.replay_buffer = buffer
        _add_margin_loss(model, model_rules, buffer)


# --- Rules that act: DQN, SAC, TD3 -----------------------------------------------------------------------------------


class BehaviourGuide:
    """Rules that replace actions in guided episodes; `seed` decides which episodes those are.

    `steps`, `guided` and `changed` are the numbers of all actions, of those in guided episodes, and of changed ones.
    """

    def __init__(self, model: OffPolicyModel, rules: ModelRules, seed: int) -> None:
        self._model, self._rules, self._seed = model, rules, seed
        self._rng: np.random.Generator | None = None
        self._begins = np.ones(model.n_envs, np.bool_)
        self._is_guided = np.zeros(model.n_envs, np.bool_)
        self.steps = self.guided = self.changed = 0

    def episodes_ended(self, dones: NDArray[np.bool_]) -> None:
        """Record which environments begin an episode."""
        self._begins = np.asarray(dones, np.bool_).copy()

    def act(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Return the actions to take, where the rules replace forbidden ones in guided episodes.

        `actions` are the model's own, one for each parallel environment. An allowed action is kept; another is replaced
        by the best allowed choice, by the model's own scores. A *choice* is a discrete action or a region of a
        continuous one; choices form groups, one for each dimension of the actions.
        """
        share = self._rules.share  # share of episodes that are guided, which falls during the training
        self.steps += len(actions)
        if share <= 0.0:
            return actions

        # Draw which of the episodes that begin now are guided; the others stay as they are. The generator is made in
        # the first step: a checkpoint does not hold it, so a resumed training makes one from its number of steps.
        self._rng = self._rng or np.random.default_rng((_STREAM, self._seed, self._model.num_timesteps))
        drawn = self._rng.random(len(actions)) < share
        self._is_guided = np.where(self._begins, drawn, self._is_guided)
        self.guided += int(self._is_guided.sum())

        # Find the forbidden choices.
        groups, action_rows = self._rules.rules.space.groups, actions.reshape(len(actions), -1)
        chosen = choices_of(groups, action_rows)  # [environments, groups]
        allowed = self._rules.allowed_now()  # [environments, choices]
        is_forbidden = self._is_guided[:, None] & ~np.take_along_axis(allowed, chosen, axis=1)
        if not is_forbidden.any():
            return actions
        self.changed += int(is_forbidden.any(axis=1).sum())

        # Replace each by the allowed choice of its group with the highest score, [environments, choices].
        if isinstance(self._model, DQN):
            observations, _ = self._model.policy.obs_to_tensor(self._model._last_obs)  # type: ignore[arg-type]
            with torch.no_grad():
                own_scores: NDArray[np.floating[Any]] = self._model.q_net(observations).cpu().numpy()
        else:  # a continuous actor has no scores; regions near its action score high
            own_scores = scores_of(groups, action_rows)
        scores = np.where(allowed, own_scores, -np.inf)
        best = np.stack([group.first + scores[:, group.choices].argmax(axis=1) for group in groups], axis=1)
        moved = move_to(groups, action_rows, np.where(is_forbidden, best, chosen), self._rules.rules.enforce)
        return moved.reshape(actions.shape)


class ActsByRules(OffPolicyAlgorithm):
    """An algorithm that follows rules in guided episodes and stores the actions taken."""

    guide: BehaviourGuide | None = None

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        unguided, stored = super()._sample_action(learning_starts, action_noise, n_envs)
        taken = unguided if self.guide is None else self.guide.act(unguided)
        if taken is unguided:
            return unguided, stored
        if not isinstance(self.action_space, spaces.Box):
            return taken, taken
        # Unchanged actions are stored to the bit as without rules.
        moved = (taken != unguided).reshape(len(taken), -1).any(axis=1)
        stored = np.array(stored)
        stored[moved] = self.policy.scale_action(taken[moved])
        return taken, stored

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
    """DQN that follows rules in guided episodes."""


class GuidedSAC(ActsByRules, SAC):
    """SAC that follows rules in guided episodes."""


class GuidedTD3(ActsByRules, TD3):
    """TD3 that follows rules in guided episodes."""


class _RememberingReplay(ReplayBuffer):
    """A replay buffer that keeps the observations of the last batch, original and normalised."""

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


# --- A guided policy that learns: PPO --------------------------------------------------------------------------------


class _RememberingRollout(RolloutBuffer):
    """A rollout buffer that keeps the places of the last batch, and calls `begin` with every rollout."""

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
    """Rules that shift the logits of a model's policy for forbidden choices, while it acts and while it learns.

    The shift of a state is computed when the model acts there and kept while it learns from it; the share of guidance
    is that at the beginning of the rollout.
    """

    def __init__(self, model: PPO, rules: ModelRules) -> None:
        """Hook the rules into a model: into its last layer, its rollout buffer and, with a margin, its optimiser.

        A *choice* is a discrete action, or a value of one part of a MultiDiscrete action.
        """
        self._model, self._rules = model, rules
        # The first choice of each part of the actions, and the number of choices at the end.
        self._starts = tuple(int(start) for start in rules.masks.starts)
        # The last layer of the policy's network, whose outputs (logits) the rules shift.
        net = model.policy.action_net
        if not isinstance(net, nn.Linear) or net.out_features != rules.masks.n_choices:
            raise TrainingError(f"rules of {rules.masks.n_choices} choices do not fit the policy's network.")
        # The same buffer, which also remembers which steps the last batch holds, and announces new rollouts.
        plain_buffer = model.rollout_buffer
        self._rollout = _RememberingRollout(
            model.n_steps,
            model.observation_space,
            model.action_space,
            device=model.device,
            gamma=plain_buffer.gamma,
            gae_lambda=plain_buffer.gae_lambda,
            n_envs=model.n_envs,
        )
        self._rollout.begin = self._begin_rollout
        model.rollout_buffer = self._rollout
        self._net, self._is_shifted = net, True  # whether `_shift_logits` applies the rules
        self._begin_rollout()
        net.register_forward_hook(self._shift_logits)
        if rules.settings.margin is not None:
            # It hooks itself into the optimiser's step.
            MarginLoss(rules, model.policy.optimizer, self._compute_own_logits, self._last_batch, model.max_grad_norm)

    def _begin_rollout(self) -> None:
        self._share = torch.tensor(self._rules.share, device=self._model.device)
        self._allowed: list[Tensor] = []
        self._shifts: list[Tensor] = []
        self._flat: tuple[Tensor, Tensor] | None = None

    def _shift_logits(self, _: nn.Module, __: Any, logits: Tensor) -> Tensor | None:
        """Return the logits shifted by the rules and the action masks; None leaves them as they are.

        PyTorch calls this hook after each forward pass of the last layer, with the layer, its input and its output.
        """
        if not self._is_shifted or (float(self._share) <= 0.0 and not self._rules.is_masked):
            return None
        # While the policy learns, use the shifts with which it acted in the same states.
        if self._model.policy.training:
            shifts = self._flatten()[1]  # of all steps of the rollout
            return logits + shifts[self._rollout.places]  # the places of the last batch in the rollout
        allowed = torch.from_numpy(self._rules.allowed_now()).to(logits.device)
        possible = self._rules.possible_now()
        if possible is None:
            shift = guided_shift(logits, allowed, self._share, self._starts)
        else:  # the mask first; the rules then share out the probability that it leaves, so they spare masked choices
            mask = torch.from_numpy(possible).to(logits.device)
            shift = torch.where(mask, 0.0, LEAST_SHIFT)
            shift = shift + guided_shift(logits + shift, allowed | ~mask, self._share, self._starts)
        self._allowed.append(allowed)  # kept for learning
        self._shifts.append(shift)
        return logits + shift

    def _flatten(self) -> tuple[Tensor, Tensor]:
        """Return the allowed choices and the shifts of all steps, in the order of the rollout buffer's batches."""
        if self._flat is None:
            allowed, shifts = (torch.stack(part).transpose(0, 1) for part in (self._allowed, self._shifts))
            self._flat = allowed.flatten(0, 1), shifts.flatten(0, 1)
        return self._flat

    def _compute_own_logits(self, shown: Tensor) -> Tensor:
        """Return the logits without any shift."""
        policy = self._model.policy
        features = policy.extract_features(shown, policy.pi_features_extractor)
        assert isinstance(features, Tensor)
        self._is_shifted = False
        logits: Tensor = self._net(policy.mlp_extractor.forward_actor(features))
        self._is_shifted = True
        return logits

    def _last_batch(self) -> tuple[Tensor, Tensor]:
        places = self._rollout.places
        return self._rollout.to_torch(self._rollout.observations[places]), self._flatten()[0][places]


# --- Margin loss and frozen actors -----------------------------------------------------------------------------------


class MarginLoss:
    """The margin loss, whose gradient is added to the gradients of an optimiser right before its step.

    The loss is computed from the `scores` of the current `batch` of observations and allowed choices. With `max_norm`,
    all gradients are clipped afterwards.
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


def _add_margin_loss(model: OffPolicyModel, rules: ModelRules, buffer: _RememberingReplay) -> None:
    """Add the margin loss to the loss of the network that acts: it penalises high scores of forbidden choices.

    - `rules`: the rules that decide which choices are forbidden.
    - `buffer`: the model's replay buffer, which remembers the observations of the batch that is being learnt from.
    """

    def read_batch() -> tuple[Tensor, Tensor]:
        """Return the observations of the last batch as the network sees them, and the allowed choices."""
        return buffer.shown, torch.from_numpy(rules.masks.allowed(buffer.original)).to(model.device)

    if isinstance(model, DQN):  # its scores are Q-values
        MarginLoss(rules, model.policy.optimizer, model.q_net, read_batch, model.max_grad_norm)
        return
    assert isinstance(model.action_space, spaces.Box)
    low = torch.tensor(model.action_space.low, device=model.device).flatten()
    high = torch.tensor(model.action_space.high, device=model.device).flatten()
    actor_options = {"deterministic": True} if isinstance(model, SAC) else {}

    def score_regions(observations: Tensor) -> Tensor:
        """Return ``[batch, regions]``: by how much the actor's action is inside each region, negative outside.

        The distances are measured in spreads of the action's dimension, as in `legible.features.Regions.scores`, but
        with gradients.
        """
        actions = model.actor(observations, **actor_options).flatten(1)  # between −1 and 1
        actions = low + 0.5 * (actions + 1.0) * (high - low)
        scores = []
        for dimension, group in enumerate(rules.rules.space.groups):
            assert group.regions is not None
            cuts = group.regions.cuts or ()  # where one region ends and the next begins
            lower_ends = actions.new_tensor((-torch.inf, *cuts))
            upper_ends = actions.new_tensor((*cuts, torch.inf))
            column = actions[:, dimension : dimension + 1]
            scores.append(torch.minimum(column - lower_ends, upper_ends - column) / group.regions.spread)
        return torch.cat(scores, dim=1)

    MarginLoss(rules, model.actor.optimizer, score_regions, read_batch)


def let_critic_learn_first(model: Model, steps: int) -> None:
    """Keep the actor unchanged for the first `steps` environment steps, while its new critics learn.

    A new critic's advice is noise, which would destroy a trained actor. DQN has no critic, so nothing is done.
    """
    if isinstance(model, DQN):
        return
    if isinstance(model, PPO):
        policy = model.policy
        frozen = [*policy.mlp_extractor.policy_net.parameters(), *policy.action_net.parameters()]
        if isinstance(getattr(policy, "log_std", None), nn.Parameter):  # the spread of continuous actions
            frozen.append(policy.log_std)
        optimiser = policy.optimizer  # also of the critic, so only the actor's gradients are removed
    else:
        frozen, optimiser = list(model.actor.parameters()), model.actor.optimizer

    def freeze(_: torch.optim.Optimizer, __: Any, ___: Any) -> None:
        if model.num_timesteps <= steps:
            for parameter in frozen:
                parameter.grad = None  # the optimiser skips parameters without gradients

    optimiser.register_step_pre_hook(freeze)
