"""One policy with Stable-Baselines3: training with presets, checkpoints and resuming.

- `train`: trains, goes on where a stopped training left off, writes a ``.zip`` and a ``.safetensors`` file. It can
  begin with a trained policy (the paper's extended training), and rules can guide it.
- `sb3_arguments`: hyperparameters as Stable-Baselines3's arguments; `ARGUMENT_NAMES`: what it calls them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from torch import nn

from legible.environments import EnvironmentSpec
from legible.imports import needs_extra
from legible.play import environment_for, one_thread
from legible.policies import (
    NetworkPolicy,
    Normalisation,
    Policy,
    load_policy,
    save_normalisation,
    save_policy,
)
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

# Settings that are no arguments of models: they shape networks, environments and noise.
_OTHERS = {"hidden", "n_envs", "log_std_init", "activation", "ortho_init", "action_noise", "correlated_noise"}
# By the class of the settings: what is trained, and the names of its arguments.
_KINDS: dict[type[AnySettings], tuple[type[Model], tuple[str, ...]]] = {
    settings: (model, tuple(field.name for field in dataclasses.fields(settings) if field.name not in _OTHERS))
    for settings, model in (
        (DqnSettings, DQN),
        (PpoSettings, PPO),
        (ContinuousPpoSettings, PPO),
        (SacSettings, SAC),
        (Td3Settings, TD3),
    )
}
ARGUMENT_NAMES: dict[Algorithm, tuple[type[Any], tuple[str, ...]]] = {
    "dqn": _KINDS[DqnSettings],
    "ppo": _KINDS[PpoSettings],
    "sac": _KINDS[SacSettings],
    "td3": _KINDS[Td3Settings],
}
"""By algorithm: what is trained, and the names of its arguments."""
_ACTING_EPISODES = 50  # policies without scores play one observation at a time
_CRITIC_SHARE = 0.05  # of the training, in which critics that begin anew learn alone
_ENTROPY_WEIGHT = 0.1  # of SAC at the start of an extended training where the policy's file does not tell it


@dataclass(frozen=True)
class TrainingResult:
    """What came out of a training.

    Parameters
    ----------
    zip, safetensors
        The files.
    steps
        Environment steps that were taken.
    evaluation
        How the policy plays.
    normalisation
        The file with what observations were normalised with, if they were.
    before
        How the policy played with which the training began, if there was one; in the same episodes.
    """

    zip: Path
    safetensors: Path
    steps: int
    evaluation: PolicyEvaluation
    normalisation: Path | None = None
    before: PolicyEvaluation | None = None


def sb3_arguments(settings: AnySettings) -> dict[str, Any]:
    """The hyperparameters as arguments of ``DQN``, ``PPO``, ``SAC`` or ``TD3``, with the networks' shape among them.

    >>> from legible_envs.pacman.training import PACMAN_DQN
    >>> arguments = sb3_arguments(PACMAN_DQN)
    >>> arguments["gradient_steps"], arguments["policy_kwargs"]["net_arch"]
    (-1, [256, 256])
    """
    _, names = _KINDS[type(settings)]
    arguments = {name: getattr(settings, name) for name in names}
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
    """Train one policy with Stable-Baselines3.

    A training that was stopped goes on from its last checkpoint when it is called again with the same arguments; the
    episodes under way and the state of the random generators are lost, everything else is kept. The checkpoint is a
    folder beside the output, and is removed at the end; reading it runs no code that it may hold.

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
        Where to, without or with a suffix: ``out.zip`` and ``out.safetensors`` are written; what observations were
        normalised with, if they were, goes into ``out.normalisation.npz``, too, for the zip.
    start
        The trained policy with which the training begins; by default networks are fresh. Without rules that is the
        paper's extended training: weights are taken, Adam and the replay buffer begin anew, and exploration as the
        preset has it. Where critics are not in the policy's file, what acts stays as it is for the first twentieth of
        the training, while new ones learn.
    rules
        Rules that guide exploration (`legible.training.rules`), for DQN, SAC, TD3, and PPO unless actions are
        continuous.
    rule_settings
        How they fade out, and whether a margin loss holds them.
    settings
        Hyperparameters; by default the preset's.
    reward_scale
        What rewards are multiplied by while training; by default the preset's.
    long
        Take the preset's longer training, where it has one.
    device
        Where PyTorch computes; for networks this small the CPU is fastest.
    checkpoint_steps
        Environment steps between two checkpoints.
    n_episodes
        Episodes on which the finished policy is measured; by default 250, and 50 where it has no scores.
    on_progress
        Called now and then with the steps taken and the steps in all.

    Returns
    -------
    TrainingResult
        The files, and how the policy plays.
    """
    spec = env if isinstance(env, EnvironmentSpec) else EnvironmentSpec(env)
    if start is not None:
        start = (
            start
            if isinstance(start, StartingPoint)
            else read_start(Path(start) if isinstance(start, os.PathLike) else start, algo)
        )
        if start.had_rules and rules is None:
            raise TrainingError(
                f"{start.name}: is a guided policy. Give its rules as well (--rules {start.name}), or begin with the "
                "network that it was made from."
            )
        spec, algo = environment_for(start.policy, spec), start.algorithm
    algo, continuous = choose_algorithm(spec, algo)
    plan = _preset_with(preset(spec.name, algo, continuous=continuous), algo, steps, settings, reward_scale, long=long)
    guidance = None if rules is None else (rules, rule_settings or RuleSettings())
    path = Path(out)
    stem = path.with_suffix("") if path.suffix in (".zip", ".safetensors") else path
    stem.parent.mkdir(parents=True, exist_ok=True)
    environments = _environments(spec, plan, start)
    try:
        if start is not None:
            start.check(environments.observation_space, environments.action_space, spec.name)
        description = {**_description(spec, algo, plan, check_seed(seed)), **_beginning(start, guidance)}
        checkpoint = TrainingCheckpoint(stem, description)
        model = _new_model(environments, plan, seed, device, start, guided=rules is not None)
        if guidance is not None:
            guide_model(model, *guidance, plan.total_steps, seed)
        if start is not None and not start.has_critic:
            let_critic_learn_first(model, _critic_steps(plan))
        checkpoint.restore(model)
        remaining = plan.total_steps - model.num_timesteps
        if remaining > 0:
            callback = _ProgressCallback(checkpoint, checkpoint_steps, plan.total_steps, on_progress)
            # Networks this small gain nothing from several threads, which on a busy machine wait for each other.
            with one_thread() if device == "cpu" else nullcontext():
                model.learn(remaining, callback=callback, reset_num_timesteps=False)
        trained = _finish(model, spec, description, stem, n_episodes, None if start is None else start.policy)
    finally:
        environments.close()
    checkpoint.remove()
    return trained


def _beginning(start: StartingPoint | None, guidance: tuple[TrainingRules, RuleSettings] | None) -> dict[str, Any]:
    """What a training began with and what guided it, as plain data; nothing for one from scratch without rules."""
    began = {} if start is None else {"training": "extended", "from": start.description()}
    if guidance is None:
        return began
    rules, settings = guidance
    return {**began, "training": "rules", "rules": {**rules.description(), **asdict(settings)}}


def _critic_steps(plan: Preset) -> int:
    """For how many steps what acts waits for critics that begin anew: a twentieth, or a rollout."""
    settings, share = plan.settings, round(_CRITIC_SHARE * plan.total_steps)
    return max(share, settings.rollout) if isinstance(settings, PpoSettings) else settings.learning_starts + share


def choose_algorithm(spec: EnvironmentSpec, algo: Algorithm | None) -> tuple[Algorithm, bool]:
    """The algorithm, checked against the environment's spaces, and whether its actions are continuous."""
    env = spec.make()
    space, shown = env.action_space, env.observation_space
    env.close()
    if not isinstance(shown, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        raise TrainingError(
            f"{spec.name}: its observations are a {type(shown).__name__}, and networks here read one row of numbers; a "
            "wrapper can make them that (--wrap gymnasium.wrappers:FlattenObservation)."
        )
    fitting = fitting_algorithms(space)
    if not fitting:
        raise TrainingError(
            f"{spec.name}: no algorithm trains on actions of a {type(space).__name__} space; Discrete, MultiDiscrete, "
            "MultiBinary and Box can be trained, and a wrapper can turn others into one of them (--wrap)."
        )
    if algo is not None and algo not in fitting:
        names = " or ".join(filter(None, (", ".join(fitting[:-1]), fitting[-1])))
        raise TrainingError(f"{spec.name}: {algo} cannot train on the actions {space}; use {names} (--algo).")
    return algo or fitting[0], isinstance(space, spaces.Box)


def _preset_with(
    plan: Preset,
    algo: Algorithm,
    steps: int | None,
    settings: AnySettings | None,
    reward_scale: float | None,
    *,
    long: bool,
) -> Preset:
    if settings is not None:
        if not issubclass(_KINDS[type(settings)][0], _KINDS[type(plan.settings)][0]):
            raise TrainingError(f"{type(settings).__name__} are no hyperparameters of {algo}.")
        plan = dataclasses.replace(plan, settings=settings)
    if long:
        if steps is not None:
            raise TrainingError("say either how many steps or that the training is to be long, not both.")
        steps = plan.long_steps or plan.total_steps
    if steps is not None:
        if steps < 1:
            raise TrainingError(f"a training takes at least one step, got {steps}.")
        plan = dataclasses.replace(plan, total_steps=steps)
    return plan if reward_scale is None else dataclasses.replace(plan, reward_scale=reward_scale)


def _environments(spec: EnvironmentSpec, plan: Preset, start: StartingPoint | None) -> VecEnv:
    scale = plan.reward_scale

    def make() -> gymnasium.Env[Any, Any]:
        env = spec.make()
        if scale == 1.0:
            return env
        return gymnasium.wrappers.TransformReward(env, lambda reward: scale * float(reward))

    environments = DummyVecEnv([make] * plan.settings.n_envs)
    gamma = plan.settings.gamma
    if start is None:
        return VecNormalize(environments, gamma=gamma) if plan.normalised else environments
    known = start.normalisation
    if known is None:
        return environments
    wrapper = VecNormalize(
        environments, norm_reward=plan.normalised, clip_obs=known.clip, epsilon=known.epsilon, gamma=gamma
    )
    statistics: Any = _FixedStatistics(shape=known.mean.shape)
    statistics.mean, statistics.var = known.mean.copy(), known.var.copy()
    wrapper.obs_rms = statistics
    return wrapper


class _FixedStatistics(RunningMeanStd):
    """Statistics of observations that a network was trained with; they stay as they are."""

    def update(self, arr: Any) -> None:
        pass


def _new_model(
    environments: VecEnv, plan: Preset, seed: int, device: str, start: StartingPoint | None, *, guided: bool
) -> Model:
    settings = plan.settings
    kind: type[Any] = _KINDS[type(settings)][0]
    arguments = sb3_arguments(settings)
    if isinstance(settings, Td3Settings):
        n = environments.action_space.shape or (1,)
        noise = OrnsteinUhlenbeckActionNoise if settings.correlated_noise else NormalActionNoise
        arguments["action_noise"] = noise(np.zeros(n), np.full(n, settings.action_noise))
    if start is not None:
        arguments["policy_kwargs"] |= start.architecture
        if "use_sde" in arguments or start.use_sde:
            arguments["use_sde"] = start.use_sde
    model: Model = (guided_class(kind) if guided else kind)(
        "MlpPolicy", environments, seed=seed, device=device, **arguments
    )
    if start is not None:
        start.fill(model.policy)
        known = start.log_entropy_weight
        set_entropy_weight(model, math.log(_ENTROPY_WEIGHT) if known is None else known)
    return model


def _description(spec: EnvironmentSpec, algo: str, plan: Preset, seed: int) -> dict[str, Any]:
    """What must be the same for a checkpoint to be gone on with."""
    written: dict[str, Any] = json.loads(
        json.dumps(
            {
                "environment": {"id": spec.name, "arguments": dict(spec.arguments)},
                "algorithm": algo,
                "hyperparameters": asdict(plan.settings),
                "reward_scale": plan.reward_scale,
                "steps": plan.total_steps,
                "seed": seed,
                **({"normalised": True} if plan.normalised else {}),
            }
        )
    )
    return written


class _ProgressCallback(BaseCallback):
    """Saves checkpoints and tells how far the training is."""

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
        # Between rollouts the model is whole: the updates of the last one are done.
        if self.num_timesteps >= self._next:
            self._checkpoint.save(self.model)  # type: ignore[arg-type]
            self._next = (self.num_timesteps // self._every + 1) * self._every
        self._tell()

    def _on_training_end(self) -> None:
        self._tell()

    def _tell(self) -> None:
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
    """Write the files and measure the policy that they hold, and the one that the training began with."""
    zip_file = stem.with_name(f"{stem.name}.zip")
    part = stem.with_name(f"{stem.name}.part.zip")
    model.save(part)
    part.replace(zip_file)
    normalisation = _save_normalisation(model, stem)
    policy = load_policy(model)
    if not isinstance(policy, NetworkPolicy):
        policy = load_policy(zip_file)  # without Stable-Baselines3
    usual = EVALUATION_EPISODES if isinstance(policy, NetworkPolicy) else _ACTING_EPISODES
    metadata = {
        **description,
        "algorithm": description["algorithm"].upper(),
        "steps": model.num_timesteps,
        "training": description.get("training", "base"),
        "trainer": "stable-baselines3",
    }
    known: Any = {"action_names": action_names(spec), "env_id": spec.name}
    # Measuring can take long, so what was trained is kept before.
    file = save_policy(policy, stem.with_name(f"{stem.name}.safetensors"), metadata=metadata, **known)
    evaluation = measure_policy(policy, spec, n_episodes or usual)
    save_policy(policy, file, metadata={**metadata, "evaluation": evaluation.as_json()}, **known)
    began = None if before is None else measure_policy(before, spec, n_episodes or usual)
    return TrainingResult(zip_file, file, model.num_timesteps, evaluation, normalisation, began)


def _save_normalisation(model: Model, stem: Path) -> Path | None:
    """Write what observations were normalised with; that of an earlier policy of the same name must not stay."""
    file, wrapper = stem.with_name(f"{stem.name}.normalisation.npz"), model.get_vec_normalize_env()
    if wrapper is None:
        file.unlink(missing_ok=True)
        return None
    statistics = normalisation_of_vec_normalize(wrapper)
    assert isinstance(statistics, Normalisation)  # observations are rows of numbers
    return save_normalisation(statistics, file)
