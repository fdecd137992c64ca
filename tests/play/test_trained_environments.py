"""Policies of the RL Zoo's folders play in environments as they were trained in: as Stable-Baselines3 would have it."""

import dataclasses
import json
from functools import partial

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
from legible.play import collect, environment_for, play_policy
from legible.play.recording import Recorder
from legible.policies import FunctionPolicy, load_policy, save_policy
from legible.study import Study
from play.spaces_environments import ChannelsFirst, Goal, Pair, Picture

HERE = "play.spaces_environments"
SEEDS = [3, 4, 5, 6]


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


def stacked_cartpole(frames):
    return VecFrameStack(make_vec_env("CartPole-v1"), frames)


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
        make = partial(stacked_cartpole, 4)
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

    @pytest.mark.parametrize(
        ("options", "module", "expected"),
        [
            ({}, "sb3_contrib.common.wrappers", [1, 1 - 1 / 500, 1 - 2 / 500]),
            ({"test_mode": True, "max_steps": 7}, "rl_zoo3.wrappers", [1, 1, 1]),
        ],
    )
    def test_remaining_time(self, tmp_path, options, module, expected):
        make = partial(make_vec_env, "CartPole-v1", wrapper_class=TimeFeatureWrapper, wrapper_kwargs=options)
        config = f"env_wrapper:\n  - {module}.TimeFeatureWrapper: {json.dumps(options)}\n"
        folder, model = train(make(), A2C, tmp_path, config=config)
        policy = assert_equal_to_sb3(folder, "CartPole-v1", make, model)
        _, steps = played(policy, "CartPole-v1", [3])
        np.testing.assert_array_equal(steps.observations[:3, 4], np.float32(expected))

    @pytest.mark.parametrize("kind", [Picture, ChannelsFirst])
    def test_images(self, tmp_path, kind):
        def make():
            env = VecFrameStack(make_vec_env(kind), 2)
            return VecTransposeImage(env) if kind is Picture else env

        folder, model = train(make(), DQN, tmp_path, config="frame_stack: 2\n")
        policy = assert_equal_to_sb3(folder, f"{HERE}:{kind.__name__}", make, model)
        assert policy.observation_space.shape == (6, 36, 36)

    def test_dictionaries(self, tmp_path):
        def make():
            return VecFrameStack(make_vec_env(Goal, wrapper_class=TimeFeatureWrapper), 3)

        config = "env_wrapper: [utils.wrappers.TimeFeatureWrapper]\nframe_stack: 3\n"
        folder, model = train(make(), PPO, tmp_path, config=config)
        policy = assert_equal_to_sb3(folder, f"{HERE}:Goal", make, model)
        assert policy.observation_space["observation"].shape == (12,)
        assert policy.observation_space["desired_goal"].shape == (9,)

    def test_arguments_of_the_environment(self, tmp_path):
        make = partial(make_vec_env, "LunarLander-v3", env_kwargs={"gravity": -5.0})
        args = "env_kwargs: {gravity: -5.0, render_mode: human}\n"
        folder, model = train(make(), PPO, tmp_path, args=args, weights=2)
        policy = assert_equal_to_sb3(folder, "LunarLander-v3", make, model)
        found = environment_for(policy, EnvironmentSpec("LunarLander-v3"))
        assert dict(found.arguments) == {"gravity": -5.0}
        given = environment_for(policy, EnvironmentSpec("LunarLander-v3", {"gravity": -9.0}))
        assert dict(given.arguments) == {"gravity": -9.0}

    @pytest.mark.parametrize("how", ["files", "allow_code"])
    def test_tuples_are_flattened(self, tmp_path, how):
        make = partial(make_vec_env, Pair, wrapper_class=gymnasium.wrappers.FlattenObservation)
        config = "env_wrapper: gymnasium.wrappers.FlattenObservation\n" if how == "files" else ""
        folder, model = train(make(), PPO, tmp_path, config=config)
        spec = EnvironmentSpec(f"{HERE}:Pair", wrappers=("FlattenObservation",) * (how == "allow_code"))
        assert_equal_to_sb3(folder, spec, make, model)
        if how == "allow_code":
            with pytest.raises(UnfitEnvironmentError, match="observations are a Tuple space"):
                play_policy(load_policy(folder), f"{HERE}:Pair", [0])

    def test_a_zip_with_its_files_next_to_it(self, tmp_path, raises_saved):
        make = partial(stacked_cartpole, 2)
        folder, model = train(make(), PPO, tmp_path)
        (folder / "Env-v0" / "config.yml").unlink()
        (folder / "Env-v0" / "args.yml").unlink()
        with raises_saved(Exception):
            play_policy(load_policy(folder / "Env-v0.zip"), "CartPole-v1", [0])
        (folder / "config.yml").write_text("frame_stack: 2\n")
        assert_equal_to_sb3(folder / "Env-v0.zip", "CartPole-v1", make, model)
        (folder / "config.yml").write_text("learning_rate: !!my/own 3\n")  # of another program
        assert load_policy(folder / "Env-v0.zip").metadata.get("environment_needs") is None


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
        before, last = ("own:Strange(size=2)", "FrameSkip(skip=2)"), "VecFrameStack(n_stack=3)"
        assert environment_for(policy, given).wrappers == (*before, "gymnasium.wrappers:ClipAction", last)

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
        with pytest.raises(UnfitEnvironmentError, match="does not know"):
            environment_for(stacked(wrappers=[[name, {}]]), EnvironmentSpec("CartPole-v1"))

    def test_arguments_of_files_name_no_code(self):
        policy = stacked(env_arguments={"policy": "os.system"})
        with pytest.raises(UntrustedCodeError, match=r"names os\.system"):
            environment_for(policy, EnvironmentSpec("CartPole-v1"))

    def test_they_survive_a_policy_file_and_rules(self, tmp_path):
        folder, _ = train(stacked_cartpole(2), DQN, tmp_path, config="frame_stack: 2\n")
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


def test_a_study_keeps_its_wrappers(tmp_path):
    folder, _ = train(stacked_cartpole(2), DQN, tmp_path, config="frame_stack: 2\n")
    made = Study(tmp_path / "study", "CartPole-v1", folder, engine=InProcess())
    again = Study.open(tmp_path / "study", engine=InProcess())  # without trust
    for study in (made, again):
        assert study.environment.wrappers == ("VecFrameStack(n_stack=2)",)
    written = EnvironmentSpec("CartPole-v1", wrappers=("VecFrameStack(n_stack=2)",))  # as the report's command has it
    assert Study(tmp_path / "study", written, folder, engine=InProcess()).environment == made.environment


def test_statistics_of_stacked_observations_stay(tmp_path):
    env = VecNormalize(stacked_cartpole(2))
    env.reset()
    for _ in range(50):
        env.step(np.array([env.action_space.sample()]))
    folder, _ = train(env, DQN, tmp_path, config="frame_stack: 2\nnormalize: true\n", normalise=env)
    policy = load_policy(folder)
    assert policy.normalisation == dataclasses.replace(policy.normalisation, mean=env.obs_rms.mean)
    assert policy.metadata["environment_needs"]["frame_padding"] is None
