"""Training on continuous and on several actions: what fits what, what is written, going on after a stop."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO, SAC, TD3
from stable_baselines3.common.evaluation import evaluate_policy

from legible.policies import load_policy
from legible.training import (
    ContinuousPpoSettings,
    PpoSettings,
    SacSettings,
    Td3Settings,
    TrainingError,
    preset,
    train,
)
from legible.training.presets import ALGORITHMS, fitting_algorithms
from legible.training.sb3 import sb3_arguments

SAC_SETTINGS = SacSettings(hidden=(16, 8), buffer_size=400, learning_starts=20, batch_size=16)
TD3_SETTINGS = Td3Settings(hidden=(16, 8), buffer_size=400, learning_starts=20, batch_size=16)
PPO_SETTINGS = ContinuousPpoSettings(hidden=(16, 8), n_envs=2, n_steps=32, batch_size=32, n_epochs=2)
SETTINGS = {"sac": SAC_SETTINGS, "td3": TD3_SETTINGS, "ppo": PPO_SETTINGS}
MODELS = {"sac": SAC, "td3": TD3, "ppo": PPO}
TASKS = (
    "Pendulum-v1",
    "MountainCarContinuous-v0",
    "LunarLanderContinuous-v3",
    "BipedalWalker-v3",
    "InvertedPendulum-v5",
    "Walker2d-v5",
)


class StoppedError(Exception):
    pass


class Switches(gymnasium.Env[np.ndarray, np.ndarray]):
    """Two switches, of two and of three positions, that have to follow what is shown."""

    observation_space = spaces.Box(0, 2, (2,), np.float32)
    action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self._steps = 0
        return self._show(), {}

    def step(self, action):
        reward = float(np.array_equal(action, self._wanted))
        self._steps += 1
        return self._show(), reward, self._steps == 10, False, {}

    def _show(self):
        self._wanted = self.np_random.integers([2, 3])
        return self._wanted.astype(np.float32)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("algo", ["sac", "td3", "ppo"])
def test_every_task_has_a_short_and_a_longer_preset(task: str, algo: str) -> None:
    plan = preset(task, algo, continuous=True)
    assert plan.long_steps > plan.total_steps
    assert plan.settings != preset("Unknown-v0", algo, continuous=True).settings or plan.total_steps != 50_000
    # All arguments are known to Stable-Baselines3.
    MODELS[algo]("MlpPolicy", "Pendulum-v1", device="cpu", **{**sb3_arguments(plan.settings), **_small(algo)})


def _small(algo: str) -> dict[str, int]:
    return {} if algo == "ppo" else {"buffer_size": 10}


def test_discrete_and_continuous_landers_differ() -> None:
    discrete = preset("LunarLander-v3", "ppo").settings
    assert isinstance(discrete, PpoSettings)
    assert (discrete.n_steps, discrete.n_envs) == (1024, 16)
    continuous = preset("LunarLander-v3", "ppo", continuous=True)
    assert continuous == preset("LunarLanderContinuous-v3", "ppo", continuous=True)
    assert continuous.settings.n_envs == 16
    assert continuous.settings != discrete


def test_the_algorithm_that_fits_is_taken() -> None:
    assert fitting_algorithms(spaces.MultiDiscrete([2, 3])) == ("ppo",)
    assert fitting_algorithms(spaces.MultiBinary(3)) == ("ppo",)
    assert fitting_algorithms(spaces.Box(-np.inf, np.inf, (2,))) == ("ppo",)
    assert fitting_algorithms(spaces.Text(3)) == ()
    assert set(fitting_algorithms(spaces.Box(-1, 1, (2,)))) | {"dqn"} == set(ALGORITHMS)


@pytest.mark.parametrize(
    ("env", "algo", "message"),
    [
        (
            "Pendulum-v1",
            "dqn",
            r"Pendulum-v1: dqn cannot train on the actions Box\(.*\); use sac, td3 or ppo \(--algo\)",
        ),
        ("CartPole-v1", "sac", r"CartPole-v1: sac cannot train on the actions Discrete\(2\); use dqn or ppo"),
        ("CartPole-v1", "td3", "use dqn or ppo"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, env: str, algo: str, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        train(env, algo, 10, out=tmp_path / "p")
    assert not list(tmp_path.iterdir())


def test_observations_that_are_no_row_of_numbers_are_refused(tmp_path, raises_saved) -> None:
    with raises_saved(TrainingError):
        train("Blackjack-v1", None, 10, out=tmp_path / "p")
    assert not list(tmp_path.iterdir())


def test_settings_and_budgets_that_contradict_are_refused(tmp_path, raises_saved) -> None:
    with raises_saved(TrainingError):
        train("Pendulum-v1", "sac", 10, out=tmp_path / "p", settings=PPO_SETTINGS)
    with pytest.raises(TrainingError, match="not both"):
        train("Pendulum-v1", "sac", 10, out=tmp_path / "p", long=True)


@pytest.mark.parametrize("algo", ["sac", "td3", "ppo"])
def test_what_is_written_opens_and_plays_as_stable_baselines_has_it(tmp_path, algo: str) -> None:
    trained = train("Pendulum-v1", algo, 60, out=tmp_path / "p", settings=SETTINGS[algo], n_episodes=2)
    assert trained.normalisation is None
    model = MODELS[algo].load(trained.zip)
    observations = np.array([[1.0, 0.0, 0.5], [0.0, -1.0, -3.0]], np.float32)
    expected = model.predict(observations, deterministic=True)[0]
    for file in (trained.zip, trained.safetensors):
        np.testing.assert_allclose(load_policy(file).predict(observations)[0], expected, atol=1e-6)
    assert load_policy(trained.safetensors).metadata["algorithm"] == algo.upper()
    assert trained.evaluation.episodes == 2
    assert trained.evaluation.mean_return < 0


@pytest.mark.slow
def test_several_actions_are_learned_with_ppo(tmp_path) -> None:
    from legible.environments import EnvironmentSpec

    spec = EnvironmentSpec(f"{__name__}:Switches")
    settings = PpoSettings(hidden=(32,), n_envs=4, n_steps=32, batch_size=32, learning_rate=5e-3)
    trained = train(spec, None, 5000, out=tmp_path / "p", settings=settings, n_episodes=20)
    assert trained.evaluation.mean_return > 8  # by chance 10 / 6
    policy = load_policy(trained.zip)
    assert policy.predict(np.array([[1.0, 2.0]], np.float32))[0].tolist() == [[1, 2]]


def test_normalisation_is_kept_beside_the_zip(tmp_path) -> None:
    trained = train("MountainCarContinuous-v0", "ppo", 64, out=tmp_path / "p", settings=PPO_SETTINGS, n_episodes=1)
    assert trained.normalisation == tmp_path / "p.normalisation.npz"
    policy = load_policy(trained.zip)
    assert policy.normalisation is not None
    observations = np.array([[-0.5, 0.0], [0.3, 0.02]], np.float32)
    saved = load_policy(trained.safetensors)
    np.testing.assert_array_equal(saved.predict(observations)[0], policy.predict(observations)[0])
    assert -0.6 < policy.normalisation.mean[0] < -0.4
    # One without normalisation under the same name is not given the old statistics.
    train("Pendulum-v1", "ppo", 64, out=tmp_path / "p", settings=PPO_SETTINGS, n_episodes=1)
    assert load_policy(tmp_path / "p.zip").normalisation is None


@pytest.mark.parametrize(("env", "algo"), [("Pendulum-v1", "sac"), ("Pendulum-v1", "td3"), ("BipedalWalker-v3", "ppo")])
def test_goes_on_where_it_stopped(tmp_path, env: str, algo: str) -> None:
    def stop(done: int, _total: int) -> None:
        if done >= 150:
            raise StoppedError

    arguments = {"steps": 300, "seed": 1, "settings": SETTINGS[algo], "n_episodes": 1, "checkpoint_steps": 64}
    with pytest.raises(StoppedError):
        train(env, algo, out=tmp_path / "p", on_progress=stop, **arguments)
    kept = json.loads((tmp_path / "p.checkpoint" / "checkpoint.json").read_text())
    assert (kept["entropy"] is not None) == (algo == "sac")
    assert bool(kept["statistics"]) == (algo == "ppo")
    starts: list[int] = []
    trained = train(env, algo, out=tmp_path / "p", on_progress=lambda done, _: starts.append(done), **arguments)
    assert starts[0] == int(kept["file"]) >= 128
    assert trained.steps >= 300
    model = MODELS[algo].load(trained.zip)
    assert model._n_updates > kept["counters"]["_n_updates"] > 0


def test_base_return_is_that_of_stable_baselines(tmp_path) -> None:
    """The same episodes: each has its own seed here, so they are played one by one there."""
    from legible.play import episode_seeds
    from legible.training.measuring import _EVALUATION_SEED

    trained = train("Pendulum-v1", "sac", 60, out=tmp_path / "p", settings=SAC_SETTINGS, n_episodes=4)
    model, env = SAC.load(trained.zip), gymnasium.make("Pendulum-v1")
    returns = []
    for seed in episode_seeds(_EVALUATION_SEED, 0, 4):
        env.reset(seed=int(seed))
        returns.append(evaluate_policy(model, _Seeded(env, int(seed)), n_eval_episodes=1, warn=False)[0])
    assert np.mean(returns) == pytest.approx(trained.evaluation.mean_return, rel=1e-4)


class _Seeded(gymnasium.Wrapper):
    def __init__(self, env, seed: int) -> None:
        super().__init__(env)
        self._seed = seed

    def reset(self, **_):
        return self.env.reset(seed=self._seed)


def test_what_lets_mountain_car_explore_reaches_stable_baselines3() -> None:
    """With ReLU and orthogonal weights the same numbers did nothing (−2.5 after 20,000 steps); so they reach 75."""
    arguments = sb3_arguments(preset("MountainCarContinuous-v0", "ppo", continuous=True).settings)["policy_kwargs"]
    assert (arguments["activation_fn"].__name__, arguments["ortho_init"]) == ("Tanh", False)
    assert arguments["log_std_init"] == -3.29
    usual = sb3_arguments(preset("Walker2d-v5", "ppo", continuous=True).settings)["policy_kwargs"]
    assert (usual["activation_fn"].__name__, usual["ortho_init"]) == ("ReLU", True)
