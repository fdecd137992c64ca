"""Training of one policy with Stable-Baselines3: presets, checkpoints and resuming.

- `train`: trains, resumes a stopped training, writes a ``.zip`` and a ``.safetensors`` file. It can begin with a
  trained policy (the paper's extended training), and rules can guide it.
- `sb3_arguments`: hyperparameters as Stable-Baselines3's arguments; `ARGUMENT_NAMES`: their names.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from torch import nn

from legible.environments import EnvironmentSpec, MaskReader, feature_space_of, find_masks
from legible.imports import needs_extra
from legible.play import environment_for, one_thread
from legible.policies import NetworkPolicy, Normalisation, Policy, load_policy, save_normalisation, save_policy
from legible.policies.vec_normalize import normalisation_of_vec_normalize
from legible.streams import check_seed
from legible.training.errors import TrainingError
from legible.training.hyperparameters import ContinuousPpoSettings, DqnSettings, PpoSettings, SacSettings, Td3Settings
from legible.training.measuring import EVALUATION_EPISODES, PolicyEvaluation, action_names, measure_policy
from legible.training.presets import Algorithm, AnySettings, Preset, fitting_algorithms, preset
from legible.training.rules import RuleSettings, TrainingRules
from legible.training.sb3_checkpoint import Model, TrainingCheckpoint, set_entropy_weight
from legible.training.sb3_rules import guide_model, guided_class, let_critic_learn_first
from legible.training.starting import StartingPoint, read_start

with needs_extra("sb3", "training and exporting policies with Stable-Baselines3"):
    from stable_baselines3 import DQN, PPO, SAC, TD3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
    from stable_baselines3.common.running_mean_std import RunningMeanStd
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

# Settings of networks, environments and noise, which are no arguments of models.
_OTHER_SETTINGS = {"hidden", "n_envs", "log_std_init", "activation", "ortho_init", "action_noise", "correlated_noise"}
_MODELS: dict[type[AnySettings], type[Model]] = {
    DqnSettings: DQN,
    PpoSettings: PPO,
    ContinuousPpoSettings: PPO,
    SacSettings: SAC,
    Td3Settings: TD3,
}


def _argument_names(settings: type[AnySettings]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(settings) if field.name not in _OTHER_SETTINGS)


ARGUMENT_NAMES: dict[Algorithm, tuple[type[Any], tuple[str, ...]]] = {
    "dqn": (DQN, _argument_names(DqnSettings)),
    "ppo": (PPO, _argument_names(PpoSettings)),
    "sac": (SAC, _argument_names(SacSettings)),
    "td3": (TD3, _argument_names(Td3Settings)),
}
"""By algorithm: the class of the model, and the names of its arguments."""
_ACTING_EPISODES = 50  # policies without scores play one observation at a time
_CRITIC_SHARE = 0.05  # share of the training in which new critics learn alone
_ENTROPY_WEIGHT = 0.1  # of SAC at the start of an extended training where the policy's file does not hold it


@dataclass(frozen=True)
class TrainingResult:
    """The files of a training, and the evaluation of its policy."""

    zip: Path
    safetensors: Path
    steps: int  # environment steps taken
    evaluation: PolicyEvaluation
    normalisation: Path | None = None  # the file with the normalisation of observations
    before: PolicyEvaluation | None = None  # of the policy with which the training began, in the same episodes


def sb3_arguments(settings: AnySettings) -> dict[str, Any]:
    """Return hyperparameters as arguments of ``DQN``, ``PPO``, ``SAC`` or ``TD3``, including the networks' shape.

    >>> from legible_envs.pacman.training import PACMAN_DQN
    >>> arguments = sb3_arguments(PACMAN_DQN)
    >>> arguments["gradient_steps"], arguments["policy_kwargs"]["net_arch"]
    (-1, [256, 256])
    """
    arguments = {name: getattr(settings, name) for name in _argument_names(type(settings))}
    arguments["policy_kwargs"] = {"net_arch": list(settings.hidden), "activation_fn": nn.ReLU}
    if isinstance(settings, ContinuousPpoSettings | SacSettings):
        arguments["policy_kwargs"]["log_std_init"] = settings.log_std_init
    if isinstance(settings, ContinuousPpoSettings):
        arguments["policy_kwargs"]["activation_fn"] = {"relu": nn.ReLU, "tanh": nn.Tanh}[settings.activation]
        arguments["policy_kwargs"]["ortho_init"] = settings.ortho_init
    return arguments


def train(
    env: str | EnvironmentSpec,
    algo: Algorithm | None = None,
    steps: int | None = None,
    seed: int = 0,
    *,
    out: str | os.PathLike[str],
    start: StartingPoint | str | os.PathLike[str] | Policy | None = None,
    rules: TrainingRules | None = None,
    rule_settings: RuleSettings | None = None,
    settings: AnySettings | None = None,
    reward_scale: float | None = None,
    long: bool = False,
    device: str = "cpu",
    checkpoint_steps: int = 100_000,
    n_episodes: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> TrainingResult:
    """Train one policy with Stable-Baselines3; return its files and its evaluation.

    A stopped training continues from its last checkpoint when it is called again with the same arguments; only the
    current episodes and the state of the random generators are lost. The checkpoint is a folder next to the output,
    which is removed at the end; reading it runs no code from it.

    Parameters
    ----------
    env
        The environment: an id, ``module:factory``, or a specification with arguments.
    algo
        ``"dqn"`` for Discrete actions, ``"sac"`` or ``"td3"`` for Box actions, ``"ppo"`` for any; by default the first
        that fits (`legible.training.presets.fitting_algorithms`).
    steps
        Environment steps; by default the preset's.
    seed
        Seed of the networks, the exploration and the environments.
    out
        The output, with or without a suffix: ``out.zip`` and ``out.safetensors`` are written. The normalisation of
        observations, if there is one, is also written to ``out.normalisation.npz``, for the zip.
    start
        The trained policy with which the training begins; by default networks are new. Without rules this is the
        paper's extended training: the weights of the policy are kept, Adam and the replay buffer are new, and
        exploration follows the preset. Where the policy's file holds no critics, the actor is frozen for the first
        twentieth of the training, while new critics learn.
    rules
        Rules that guide exploration (`legible.training.rules`), for DQN, SAC, TD3, and PPO unless actions are
        continuous.
    rule_settings
        The schedule by which rules fade out, and their margin loss.
    settings
        Hyperparameters; by default the preset's.
    reward_scale
        Factor on rewards while training; by default the preset's.
    long
        Whether to use the preset's longer training, where it has one.
    device
        PyTorch's device; for networks this small the CPU is fastest.
    checkpoint_steps
        Environment steps between two checkpoints.
    n_episodes
        Episodes on which the finished policy is measured; by default 250, and 50 where it has no scores.
    on_progress
        Called from time to time with the steps taken and the total steps.
    """
    # What to train: the environment, the policy to begin with, and the algorithm.
    spec = env if isinstance(env, EnvironmentSpec) else EnvironmentSpec(env)
    if start is not None:
        if not isinstance(start, StartingPoint):
            start = read_start(Path(start) if isinstance(start, os.PathLike) else start, algo)
        if start.had_rules and rules is None:
            raise TrainingError(
                f"{start.name} is a guided policy. Give its rules as well (--rules {start.name}), or begin with its "
                "network."
            )
        spec, algo = environment_for(start.policy, spec), start.algorithm
    algo, continuous = choose_algorithm(spec, algo)

    # How to train: the preset of the environment, with the caller's changes.
    plan = preset(spec.name, algo, continuous=continuous)
    if settings is not None and not issubclass(_MODELS[type(settings)], _MODELS[type(plan.settings)]):
        raise TrainingError(f"{type(settings).__name__} are no hyperparameters of {algo}.")
    plan = _change_preset(plan, steps, settings, reward_scale, long=long)

    # Rules guide the training. Action masks use the same mechanism, with an empty list of rules.
    guidance = None if rules is None else (rules, rule_settings or RuleSettings())
    with closing(spec.make()) as sample_env:
        masked_space = None if find_masks(sample_env) is None else feature_space_of(sample_env)
    if masked_space is not None:
        if algo != "ppo":
            raise TrainingError(
                f"{spec.name}: its actions are masked, and {algo} would learn from masked ones; use ppo (--algo)."
            )
        guidance = guidance or (TrainingRules((), masked_space), RuleSettings())

    path = Path(out)
    stem = path.with_suffix("") if path.suffix in (".zip", ".safetensors") else path
    stem.parent.mkdir(parents=True, exist_ok=True)
    environments = _make_environments(spec, plan, start)
    try:
        # A checkpoint is resumed only if the whole description is the same.
        description = _description(spec, algo, plan, check_seed(seed))
        if start is not None:
            start.check(environments.observation_space, environments.action_space, spec.name)
            description |= {"training": "extended", "from": start.description()}
        if guidance is not None and rules is not None:
            description |= {"training": "rules", "rules": {**guidance[0].description(), **asdict(guidance[1])}}
        checkpoint = TrainingCheckpoint(stem, description)

        model = _new_model(environments, plan, seed, device, start, guided=rules is not None)
        if guidance is not None:
            guide_model(model, *guidance, plan.total_steps, seed)
        if start is not None and not start.has_critic:
            let_critic_learn_first(model, _steps_of_frozen_actor(plan))
        checkpoint.restore(model)

        remaining = plan.total_steps - model.num_timesteps
        if remaining > 0:
            callback = _ProgressCallback(checkpoint, checkpoint_steps, plan.total_steps, on_progress)
            # Several threads do not speed up networks this small, and wait for each other on a busy machine.
            with one_thread() if device == "cpu" else nullcontext():
                model.learn(remaining, callback=callback, reset_num_timesteps=False)
        trained = _finish(model, spec, description, stem, n_episodes, None if start is None else start.policy)
    finally:
        environments.close()
    checkpoint.remove()
    return trained


def _steps_of_frozen_actor(plan: Preset) -> int:
    """Return until which environment step the actor is frozen while new critics learn."""
    learning_steps, settings = round(_CRITIC_SHARE * plan.total_steps), plan.settings
    if isinstance(settings, PpoSettings):  # PPO learns after whole rollouts only
        return max(learning_steps, settings.rollout)
    return settings.learning_starts + learning_steps


def choose_algorithm(spec: EnvironmentSpec, algo: Algorithm | None) -> tuple[Algorithm, bool]:
    """Return the algorithm, by default the first that fits the environment, and whether actions are continuous."""
    env = spec.make()
    space, shown = env.action_space, env.observation_space
    env.close()
    if not isinstance(shown, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        raise TrainingError(
            f"{spec.name}: its observations are a {type(shown).__name__}, but training needs one row of numbers; "
            "flatten them with --wrap gymnasium.wrappers:FlattenObservation."
        )
    fitting = fitting_algorithms(space)
    if not fitting:
        raise TrainingError(
            f"{spec.name}: no algorithm trains on actions of a {type(space).__name__} space. Turn them into Discrete, "
            "MultiDiscrete, MultiBinary or Box actions with a wrapper (--wrap)."
        )
    if algo is not None and algo not in fitting:
        names = " or ".join(filter(None, (", ".join(fitting[:-1]), fitting[-1])))
        raise TrainingError(f"{spec.name}: {algo} cannot train on the actions {space}; use {names} (--algo).")
    return algo or fitting[0], isinstance(space, spaces.Box)


def _change_preset(
    plan: Preset, steps: int | None, settings: AnySettings | None, reward_scale: float | None, *, long: bool
) -> Preset:
    if long and steps is not None:
        raise TrainingError("give either the number of steps or --long, not both.")
    if steps is not None and steps < 1:
        raise TrainingError(f"a training takes at least one step, got {steps}.")
    return dataclasses.replace(
        plan,
        settings=settings or plan.settings,
        total_steps=steps or (plan.long_steps if long else None) or plan.total_steps,
        reward_scale=plan.reward_scale if reward_scale is None else reward_scale,
    )


def _make_environments(spec: EnvironmentSpec, plan: Preset, start: StartingPoint | None) -> VecEnv:
    """Return the training environments, with scaled rewards and normalised observations where `plan` says so.

    - `plan`: hyperparameters, among them the number of environments.
    - `start`: the policy that the training begins with. Without one, the statistics for normalising observations are
      learnt; with one, its own are kept fixed, since its network knows no others, or none are used if it has none.
    """
    scale = plan.reward_scale

    def make() -> gymnasium.Env[Any, Any]:
        env: gymnasium.Env[Any, Any] = spec.make()
        reader = find_masks(env)
        if reader is not None and reader.source != "method":  # MaskablePPO can only call a method
            env = _MaskMemory(env, reader)
        if scale == 1.0:
            return env
        return gymnasium.wrappers.TransformReward(env, lambda reward: scale * float(reward))

    environments = DummyVecEnv([make] * plan.settings.n_envs)
    gamma = plan.settings.gamma
    if start is None:
        return VecNormalize(environments, gamma=gamma) if plan.normalised else environments
    statistics = start.normalisation
    if statistics is None:  # the policy was trained on raw observations and rewards
        return environments
    wrapper = VecNormalize(
        environments, norm_reward=plan.normalised, clip_obs=statistics.clip, epsilon=statistics.epsilon, gamma=gamma
    )
    fixed: Any = _FixedStatistics(shape=statistics.mean.shape)
    fixed.mean, fixed.var = statistics.mean.copy(), statistics.var.copy()
    wrapper.obs_rms = fixed
    return wrapper


class _MaskMemory(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that has ``action_masks()`` although its masks are in infos or observations."""

    def __init__(self, env: gymnasium.Env[Any, Any], reader: MaskReader) -> None:
        super().__init__(env)
        self._reader = reader
        self._mask: Any = np.ones(reader.width, np.bool_)

    def action_masks(self) -> Any:
        return self._mask

    def reset(self, **options: Any) -> Any:
        observation, info = self.env.reset(**options)
        self._mask = self._reader.read(observation, info, self.env)
        return observation, info

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not (terminated or truncated):
            self._mask = self._reader.read(observation, info, self.env)
        return observation, reward, terminated, truncated, info


class _FixedStatistics(RunningMeanStd):
    """Constant statistics of the observations that a network was trained with."""

    def update(self, arr: Any) -> None:
        pass


def _new_model(
    environments: VecEnv, plan: Preset, seed: int, device: str, start: StartingPoint | None, *, guided: bool
) -> Model:
    """Return a model of Stable-Baselines3 that is ready to train.

    - `plan`: hyperparameters; their type decides the algorithm.
    - `start`: the policy whose weights and network shapes the model takes; None for new networks.
    - `guided`: whether rules will guide the model, which needs a subclass of the algorithm.
    """
    settings = plan.settings
    model_class: type[Any] = _MODELS[type(settings)]
    if guided:
        model_class = guided_class(model_class)
    arguments = sb3_arguments(settings)
    if isinstance(settings, Td3Settings):  # its actor is deterministic, so exploration needs noise
        shape = environments.action_space.shape or (1,)
        noise_class = OrnsteinUhlenbeckActionNoise if settings.correlated_noise else NormalActionNoise
        arguments["action_noise"] = noise_class(np.zeros(shape), np.full(shape, settings.action_noise))
    if start is not None:  # networks of the same shape, so that the weights fit
        arguments["policy_kwargs"] |= start.architecture
        if "use_sde" in arguments or start.use_sde:
            arguments["use_sde"] = start.use_sde
    model: Model = model_class("MlpPolicy", environments, seed=seed, device=device, **arguments)
    if start is not None:
        start.fill(model.policy)
        # SAC learns how much to weigh the entropy; a trained policy begins with its own weight or a small one.
        log_weight = start.log_entropy_weight
        set_entropy_weight(model, math.log(_ENTROPY_WEIGHT) if log_weight is None else log_weight)
    return model


def _description(spec: EnvironmentSpec, algo: str, plan: Preset, seed: int) -> dict[str, Any]:
    """Return the description of a training as JSON data; a checkpoint resumes only the same training."""
    description = {
        "environment": {"id": spec.name, "arguments": dict(spec.arguments)},
        "algorithm": algo,
        "hyperparameters": asdict(plan.settings),
        "reward_scale": plan.reward_scale,
        "steps": plan.total_steps,
        "seed": seed,
        **({"normalised": True} if plan.normalised else {}),
    }
    return cast("dict[str, Any]", json.loads(json.dumps(description)))


class _ProgressCallback(BaseCallback):
    """A callback that saves checkpoints and reports progress."""

    def __init__(
        self, checkpoint: TrainingCheckpoint, every: int, total: int, on_progress: Callable[[int, int], None] | None
    ) -> None:
        super().__init__()
        self._checkpoint, self._every, self._total, self._on_progress = checkpoint, every, total, on_progress
        self._next = every

    def _on_training_start(self) -> None:
        self._next = (self.num_timesteps // self._every + 1) * self._every

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        # Between rollouts, all updates of the last one are done.
        if self.num_timesteps >= self._next:
            self._checkpoint.save(self.model)  # type: ignore[arg-type]
            self._on_training_start()
        self._on_training_end()

    def _on_training_end(self) -> None:
        if self._on_progress is not None:
            self._on_progress(min(self.num_timesteps, self._total), self._total)


def _finish(
    model: Model,
    spec: EnvironmentSpec,
    description: Mapping[str, Any],
    stem: Path,
    n_episodes: int | None,
    before: Policy | None,
) -> TrainingResult:
    """Write the files of a trained model, play it, and return the files and its evaluation.

    - `spec`: the environment in which the policy is measured.
    - `description`: the description of the training as plain data, which is kept with the policy.
    - `n_episodes`: episodes for measuring; None for the default.
    - `before`: the policy with which the training began, which is measured on the same episodes; None if there was
      none.
    """
    # The zip that Stable-Baselines3 loads, written under another name first so that it is never half written.
    zip_file = stem.with_name(f"{stem.name}.zip")
    unfinished = stem.with_name(f"{stem.name}.part.zip")
    model.save(unfinished)
    unfinished.replace(zip_file)

    # The zip does not hold the statistics for normalising observations, so they have a file of their own.
    normalisation_file = stem.with_name(f"{stem.name}.normalisation.npz")
    wrapper = model.get_vec_normalize_env()
    if wrapper is None:
        normalisation_file.unlink(missing_ok=True)  # of an earlier policy of the same name
    else:
        statistics = normalisation_of_vec_normalize(wrapper)
        assert isinstance(statistics, Normalisation)  # observations are rows of numbers
        save_normalisation(statistics, normalisation_file)

    policy = load_policy(model)
    if not isinstance(policy, NetworkPolicy):
        policy = load_policy(zip_file)  # reads the network itself, so that it no longer needs Stable-Baselines3
    n_episodes = n_episodes or (EVALUATION_EPISODES if isinstance(policy, NetworkPolicy) else _ACTING_EPISODES)
    metadata = {
        **description,
        "algorithm": description["algorithm"].upper(),
        "steps": model.num_timesteps,
        "training": description.get("training", "base"),
        "trainer": "stable-baselines3",
    }
    naming: Any = {"action_names": action_names(spec), "env_id": spec.name}
    # Measuring can take long, so the policy is saved before, and again with its evaluation.
    file = save_policy(policy, stem.with_name(f"{stem.name}.safetensors"), metadata=metadata, **naming)
    evaluation = measure_policy(policy, spec, n_episodes)
    save_policy(policy, file, metadata={**metadata, "evaluation": evaluation.as_json()}, **naming)
    evaluation_before = None if before is None else measure_policy(before, spec, n_episodes)
    written_normalisation = None if wrapper is None else normalisation_file
    return TrainingResult(zip_file, file, model.num_timesteps, evaluation, written_normalisation, evaluation_before)
