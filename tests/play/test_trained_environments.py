"""Policies of the RL Zoo's folders play in environments as they were trained in: as Stable-Baselines3 would have it."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib.common.wrappers import TimeFeatureWrapper
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize, VecTransposeImage

from legible.engines import InProcess
from legible.environments import EnvironmentSpec, UnfitEnvironmentError, UntrustedCodeError
from legible.features import FeatureSpace
from legible.guidance import GuidedPolicy
from legible.play import collect, environment_for, evaluate_policy, play_policy
from legible.play.recording import Recorder
from legible.policies import FunctionPolicy, load_policy, save_policy
from legible.study import Study
from legible.study.check import check_env
from play.spaces_environments import Pair

HERE = "play.test_trained_environments"
SEEDS = [3, 4, 5, 6]


class Spots(gymnasium.Env):
    """Pictures with random spots; whoever presses the button of the brightest corner is paid."""

    def __init__(self, size: int = 36, first: bool = False) -> None:
        shape = (3, size, size) if first else (size, size, 3)
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(4)

    def _see(self):
        return self.np_random.integers(0, 256, self.observation_space.shape, np.uint8)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002 (Gymnasium's signature)
        super().reset(seed=seed)
        self.steps = 0
        return self._see(), {}

    def step(self, action):
        self.steps += 1
        seen = self._see()
        return seen, float(int(seen.sum()) % 4 == action), self.steps == 12, False, {}


class Goals(gymnasium.Env):
    """A goal dictionary, as HER has it."""

    def __init__(self) -> None:
        box = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = spaces.Dict({"observation": box, "achieved_goal": box, "desired_goal": box})
        self.action_space = spaces.Discrete(3)

    def _see(self):
        return {key: self.np_random.uniform(-1, 1, 2).astype(np.float32) for key in self.observation_space.spaces}

    def reset(self, *, seed=None, options=None):  # noqa: ARG002 (Gymnasium's signature)
        super().reset(seed=seed)
        self.steps = 0
        return self._see(), {}

    def step(self, action):
        self.steps += 1
        seen = self._see()
        return seen, float(seen["observation"][0] * (action - 1)), self.steps == 9, False, {}


def train(env, algorithm, tmp_path, *, config="", args="", normalise=None, weights=4, **options):
    """Save a model of random weights as the RL Zoo would, and return its folder and the model."""
    options = {"buffer_size": 16, **options} if algorithm is DQN else options
    policy = "MultiInputPolicy" if isinstance(env.observation_space, spaces.Dict) else "MlpPolicy"
    if not isinstance(env.observation_space, spaces.Dict) and len(env.observation_space.shape) == 3:
        policy = "CnnPolicy"
    model = algorithm(policy, env, device="cpu", seed=1, **options)
    generator = torch.Generator().manual_seed(weights)
    with torch.no_grad():
        for tensor in model.policy.parameters():
            # Without biases small networks do not always act the same.
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * (0.3 if tensor.ndim > 1 else 0))
    folder = tmp_path / "Env-v0_1"
    (folder / "Env-v0").mkdir(parents=True)
    model.save(folder / "Env-v0.zip")
    (folder / "Env-v0" / "config.yml").write_text(config + "n_timesteps: 1000.0\n")
    (folder / "Env-v0" / "args.yml").write_text("algo: ppo\nenv: Env-v0\n" + args)
    if normalise is not None:
        normalise.save(folder / "Env-v0" / "vecnormalize.pkl")
    return folder, model


def sb3_episodes(make, model, seeds):
    """Returns and actions of one episode for each seed, in vector environments as Stable-Baselines3 evaluates."""
    returns, actions = [], []
    for seed in seeds:
        env = make()
        env.seed(seed)
        seen, total, over = env.reset(), 0.0, False
        while not over:
            action, _ = model.predict(seen, deterministic=True)
            actions.append(action[0])
            seen, reward, done, infos = env.step(action)
            over, total = bool(done[0]), total + float(reward[0])
        returns.append(infos[0]["episode"]["r"] if "episode" in infos[0] else total)
        env.close()
    return returns, np.array(actions)


def played(policy, environment, seeds=SEEDS, **options):
    recorder = Recorder()
    episodes = play_policy(policy, environment, seeds, slots=1, on_step=recorder, **options)
    return episodes.returns, recorder.steps()


def assert_equal_to_sb3(folder, environment, make, model):
    policy = load_policy(folder)
    returns, steps = played(policy, environment)
    expected, actions = sb3_episodes(make, model, SEEDS)
    # Monitor rounds to six places.
    np.testing.assert_allclose(returns, expected, atol=1e-5 * max(1, np.abs(expected).max()))
    np.testing.assert_array_equal(steps.actions, actions)
    assert len(set(np.ravel(actions).tolist())) > 1
    return policy


class TestEqualToStableBaselines3:
    def test_stacked_frames(self, tmp_path):
        def make():
            return VecFrameStack(make_vec_env("CartPole-v1"), 4)

        folder, model = train(make(), DQN, tmp_path, config="frame_stack: 4\n")
        policy = assert_equal_to_sb3(folder, "CartPole-v1", make, model)
        assert policy.n_features == 16
        assert environment_for(policy, EnvironmentSpec("CartPole-v1")).wrappers == ("VecFrameStack(n_stack=4)",)

    def test_frames_that_are_normalised_before_they_are_stacked(self, tmp_path):
        statistics = VecNormalize(make_vec_env("CartPole-v1"), clip_obs=5.0)
        statistics.reset()
        for _ in range(200):
            statistics.step(np.array([statistics.action_space.sample()]))
        statistics.save(tmp_path / "statistics.pkl")

        def make():
            env = VecNormalize.load(tmp_path / "statistics.pkl", make_vec_env("CartPole-v1"))
            env.training = env.norm_reward = False
            return VecFrameStack(env, 3)

        folder, model = train(make(), PPO, tmp_path, config="frame_stack: 3\nnormalize: true\n", normalise=statistics)
        policy = assert_equal_to_sb3(folder, "CartPole-v1", make, model)
        _, steps = played(policy, "CartPole-v1", [3])
        env = make()
        env.seed(3)
        ready = policy.normalisation.apply(steps.observations[:1])
        np.testing.assert_allclose(ready, env.reset(), atol=1e-6)
        assert not env.reset()[0, :8].any()

    def test_time_that_is_left(self, tmp_path):
        def make():
            return make_vec_env("CartPole-v1", wrapper_class=TimeFeatureWrapper)

        config = "env_wrapper: sb3_contrib.common.wrappers.TimeFeatureWrapper\n"
        folder, model = train(make(), A2C, tmp_path, config=config)
        policy = assert_equal_to_sb3(folder, "CartPole-v1", make, model)
        _, steps = played(policy, "CartPole-v1", [3])
        np.testing.assert_array_equal(steps.observations[:3, 4], np.float32([1, 1 - 1 / 500, 1 - 2 / 500]))

    def test_time_that_stands_still(self, tmp_path):
        def make():
            options = {"test_mode": True, "max_steps": 7}
            return make_vec_env("CartPole-v1", wrapper_class=TimeFeatureWrapper, wrapper_kwargs=options)

        config = "env_wrapper:\n  - rl_zoo3.wrappers.TimeFeatureWrapper:\n      test_mode: true\n      max_steps: 7\n"
        folder, model = train(make(), A2C, tmp_path, config=config)
        policy = assert_equal_to_sb3(folder, "CartPole-v1", make, model)
        _, steps = played(policy, "CartPole-v1", [3])
        assert set(steps.observations[:, 4]) == {1.0}

    @pytest.mark.parametrize("first", [False, True], ids=["channels last", "channels first"])
    def test_pictures(self, tmp_path, first):
        def make():
            env = VecFrameStack(make_vec_env(Spots, env_kwargs={"first": first}), 2)
            return env if first else VecTransposeImage(env)

        args = f"env_kwargs:\n  first: {str(first).lower()}\n"
        folder, model = train(make(), DQN, tmp_path, config="frame_stack: 2\n", args=args)
        policy = assert_equal_to_sb3(folder, f"{HERE}:Spots", make, model)
        assert policy.observation_space.shape == (6, 36, 36)

    def test_dictionaries(self, tmp_path):
        def make():
            return VecFrameStack(make_vec_env(Goals, wrapper_class=TimeFeatureWrapper), 3)

        config = "env_wrapper: [utils.wrappers.TimeFeatureWrapper]\nframe_stack: 3\n"
        folder, model = train(make(), PPO, tmp_path, config=config)
        policy = assert_equal_to_sb3(folder, f"{HERE}:Goals", make, model)
        assert policy.observation_space["observation"].shape == (9,)
        assert policy.observation_space["desired_goal"].shape == (6,)

    def test_arguments_of_the_environment(self, tmp_path):
        def make():
            return make_vec_env("LunarLander-v3", env_kwargs={"gravity": -5.0})

        folder, model = train(
            make(), PPO, tmp_path, args="env_kwargs: {gravity: -5.0, render_mode: human}\n", weights=2
        )
        policy = assert_equal_to_sb3(folder, "LunarLander-v3", make, model)
        found = environment_for(policy, EnvironmentSpec("LunarLander-v3"))
        assert dict(found.arguments) == {"gravity": -5.0}
        given = environment_for(policy, EnvironmentSpec("LunarLander-v3", {"gravity": -9.0}))
        assert dict(given.arguments) == {"gravity": -9.0}

    @pytest.mark.parametrize("how", ["files", "typed"])
    def test_tuples_are_flattened(self, tmp_path, how):
        def make():
            return make_vec_env(Pair, wrapper_class=gymnasium.wrappers.FlattenObservation)

        config = "env_wrapper: gymnasium.wrappers.FlattenObservation\n" if how == "files" else ""
        folder, model = train(make(), PPO, tmp_path, config=config)
        spec = EnvironmentSpec("play.spaces_environments:Pair", wrappers=("FlattenObservation",) * (how == "typed"))
        assert_equal_to_sb3(folder, spec, make, model)
        if how == "typed":
            with pytest.raises(UnfitEnvironmentError, match="observations are a Tuple space"):
                play_policy(load_policy(folder), "play.spaces_environments:Pair", [0])

    def test_a_zip_with_the_files_beside_it(self, tmp_path, raises_saved):
        def make():
            return VecFrameStack(make_vec_env("CartPole-v1"), 2)

        folder, model = train(make(), PPO, tmp_path)
        (folder / "Env-v0" / "config.yml").unlink()
        (folder / "Env-v0" / "args.yml").unlink()
        with raises_saved(Exception):
            play_policy(load_policy(folder / "Env-v0.zip"), "CartPole-v1", [0])
        (folder / "config.yml").write_text("frame_stack: 2\n")
        assert_equal_to_sb3(folder / "Env-v0.zip", "CartPole-v1", make, model)
        (folder / "config.yml").write_text("learning_rate: !!my/own 3\n")  # of another program
        assert load_policy(folder / "Env-v0.zip").metadata.get("environment_needs") is None

    def test_a_trusted_zip(self, tmp_path):
        def make():
            return VecFrameStack(make_vec_env("CartPole-v1"), 2)

        folder, _ = train(make(), PPO, tmp_path, config="frame_stack: 2\n")
        one, two = (evaluate_policy(load_policy(folder, trust=trust), "CartPole-v1", SEEDS) for trust in (True, False))
        assert one.mean == two.mean


def stacked(**said):
    return FunctionPolicy(lambda o: o[:, -4:-2] * [-1, 1], "values", 2, metadata={"environment_needs": said})


class TestWhichWrappers:
    def test_they_are_not_put_there_twice(self):
        policy = stacked(wrappers=[["sb3_contrib.common.wrappers.TimeFeatureWrapper", {}]], frame_stack=3)
        once = environment_for(policy, EnvironmentSpec("CartPole-v1"))
        assert once.wrappers == ("TimeFeatureWrapper", "VecFrameStack(n_stack=3)")
        assert environment_for(policy, once) == once
        assert once.make().observation_space.shape == (15,)

    def test_given_ones_take_their_place(self, raises_saved):
        policy = stacked(
            wrappers=[["my.Strange", {"size": 2}], ["rl_zoo3.wrappers.FrameSkip", {"skip": 2}]], frame_stack=3
        )
        with raises_saved(UnfitEnvironmentError):
            environment_for(policy, EnvironmentSpec("CartPole-v1"))
        given = EnvironmentSpec("CartPole-v1", wrappers=("gymnasium.wrappers:ClipAction", "own:Strange"))
        assert environment_for(policy, given).wrappers == (
            "own:Strange(size=2)",
            "FrameSkip(skip=2)",
            "gymnasium.wrappers:ClipAction",
            "VecFrameStack(n_stack=3)",
        )

    def test_none_of_them(self):
        policy = stacked(wrappers=[["my.Strange", {}]], frame_stack=3)
        assert environment_for(policy, EnvironmentSpec("CartPole-v1", wrappers=("none",))).make()

    def test_an_environment_object_is_taken_as_it_is(self):
        env = gymnasium.make("CartPole-v1")
        assert environment_for(stacked(frame_stack=3), env) is env

    @pytest.mark.parametrize(
        "name", ["os.FrameSkip", "rl_zoo3.wrappers.Unknown", "FrameSkip", "gymnasium.wrappers.RecordVideo", "a b.c d"]
    )
    def test_others_are_refused(self, name):
        with pytest.raises(UnfitEnvironmentError, match="which legible does not know"):
            environment_for(stacked(wrappers=[[name, {}]]), EnvironmentSpec("CartPole-v1"))

    def test_arguments_of_files_name_no_code(self):
        policy = stacked(env_arguments={"policy": "os.system"})
        with pytest.raises(UntrustedCodeError, match=r"names os\.system"):
            environment_for(policy, EnvironmentSpec("CartPole-v1"))

    def test_they_survive_a_policy_file_and_rules(self, tmp_path):
        folder, _ = train(VecFrameStack(make_vec_env("CartPole-v1"), 2), DQN, tmp_path, config="frame_stack: 2\n")
        again = load_policy(save_policy(load_policy(folder), tmp_path / "p.safetensors"))
        guided = GuidedPolicy(again, [], FeatureSpace.unnamed(8, 2))
        for policy in (again, guided):
            assert environment_for(policy, EnvironmentSpec("CartPole-v1")).wrappers == ("VecFrameStack(n_stack=2)",)


class TestNames:
    def test_of_stacked_frames_and_time(self, snapshot):
        spec = EnvironmentSpec("CartPole-v1", wrappers=("TimeFeatureWrapper", "VecFrameStack(n_stack=2)"))
        found = collect(stacked(), spec, 2, seed=0).space
        names = [feature.name for feature in found.features]
        assert len(names) == 10
        assert names[4] == "time.left.1ago"
        assert names[9] == "time.left"
        assert [f"{name}.1ago" for name in names[5:]] == names[:5]
        assert found.features[4].words == snapshot

    def test_check_says_what_is_put_around(self, tmp_path, snapshot):
        folder, _ = train(VecFrameStack(make_vec_env("CartPole-v1"), 2), DQN, tmp_path, config="frame_stack: 2\n")
        found = {finding.question: finding for finding in check_env(EnvironmentSpec("CartPole-v1"), str(folder))}
        assert found["wrappers"].details == "VecFrameStack(n_stack=2)"
        assert found["policy"].details == snapshot


def test_a_study_keeps_its_wrappers(tmp_path):
    folder, _ = train(VecFrameStack(make_vec_env("CartPole-v1"), 2), DQN, tmp_path, config="frame_stack: 2\n")
    made = Study(tmp_path / "study", "CartPole-v1", folder, engine=InProcess())
    again = Study.open(tmp_path / "study", engine=InProcess())  # without trust
    for study in (made, again):
        assert study.environment.wrappers == ("VecFrameStack(n_stack=2)",)
    written = EnvironmentSpec("CartPole-v1", wrappers=("VecFrameStack(n_stack=2)",))  # as the report's command has it
    assert Study(tmp_path / "study", written, folder, engine=InProcess()).environment == made.environment


def test_statistics_of_stacked_observations_stay(tmp_path):
    env = VecNormalize(VecFrameStack(make_vec_env("CartPole-v1"), 2))
    env.reset()
    for _ in range(50):
        env.step(np.array([env.action_space.sample()]))
    folder, _ = train(env, DQN, tmp_path, config="frame_stack: 2\nnormalize: true\n", normalise=env)
    policy = load_policy(folder)
    assert policy.normalisation == dataclasses.replace(policy.normalisation, mean=env.obs_rms.mean)
    assert policy.metadata["environment_needs"]["frame_padding"] is None
