"""Observation statistics: Stable-Baselines3's formula, files that keep every bit, and no silent omission."""

import os
import pickle
import shutil
import sys
import types

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.vec_env import VecNormalize

from legible.policies import (
    Normalisation,
    PolicyError,
    UnclearPolicyError,
    load_normalisation,
    load_policy,
    save_normalisation,
)
from policies.conftest import LAW, Bomb, assert_close, make_env, make_model, sb3_scores


def vec_normalize(env=None, **settings):
    wrapped = VecNormalize(env or make_env(), **settings)
    wrapped.reset()
    generator = np.random.default_rng(7)
    wrapped.obs_rms.mean = generator.normal(size=wrapped.obs_rms.mean.shape)
    wrapped.obs_rms.var = generator.uniform(0.01, 4, wrapped.obs_rms.var.shape)
    return wrapped


@pytest.fixture
def statistics():
    return Normalisation(mean=[0.1, -2.0, 3.0, 0.0], var=[1.0, 0.3, 4.0, 0.0], epsilon=1e-3, clip=1.5)


class TestFormula:
    def test_by_hand(self):
        statistics = Normalisation(mean=[1.0, 0.0], var=[3.0, 0.0], epsilon=1.0, clip=2.0)
        normalised = statistics.apply(np.array([[2.0, -1.0], [9.0, -9.0]], dtype=np.float32))
        np.testing.assert_array_equal(normalised, [[0.5, -1.0], [2.0, -2.0]])

    @settings(LAW)
    @given(
        hnp.arrays(np.float32, (5, 3), elements=st.floats(-1e6, 1e6, width=32)),
        hnp.arrays(np.float64, 3, elements=st.floats(-1e3, 1e3)),
        hnp.arrays(np.float64, 3, elements=st.floats(0, 1e3)),
    )
    def test_every_bit_is_that_of_vec_normalize(self, observations, mean, var):
        reference = VecNormalize(make_env(spaces.Box(-1, 1, (3,))), clip_obs=4.0, epsilon=1e-5)
        reference.obs_rms.mean, reference.obs_rms.var = mean, var
        normalised = Normalisation(mean, var, epsilon=1e-5, clip=4.0).apply(observations)
        expected = reference.normalize_obs(observations)
        assert normalised.dtype == expected.dtype == np.float32
        np.testing.assert_array_equal(normalised, expected)

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"mean": [1.0]}, "mean has 1 numbers and var has 2"),
            ({"mean": [], "var": []}, "mean has 0 numbers"),
            ({"mean": [np.nan, 0.0]}, "must be finite"),
            ({"var": [np.inf, 0.0]}, "must be finite"),
            ({"var": [-1.0, 1.0]}, "above zero"),
            ({"var": [0.0, 1.0], "epsilon": 0.0}, "above zero"),
            ({"epsilon": -1e-8}, "above zero"),
            ({"clip": 0.0}, "clip must be above zero"),
            ({"clip": np.nan}, "clip must be above zero"),
        ],
        ids=str,
    )
    def test_statistics_that_make_no_sense(self, fields, message):
        with pytest.raises(PolicyError, match=message):
            Normalisation(**{"mean": [0.0, 0.0], "var": [1.0, 1.0], "epsilon": 1e-8, "clip": 10.0, **fields})

    def test_statistics_are_values(self, statistics):
        assert pickle.loads(pickle.dumps(statistics)) == statistics
        assert hash(pickle.loads(pickle.dumps(statistics))) == hash(statistics)
        assert statistics != Normalisation(statistics.mean, statistics.var, statistics.epsilon, clip=2.0)
        with pytest.raises(ValueError, match="read-only"):
            statistics.mean[0] = 1.0


class TestFiles:
    @pytest.mark.parametrize("suffix", [".npz", ".toml"])
    @settings(LAW)
    @given(
        hnp.arrays(np.float64, 3, elements=st.floats(allow_nan=False, allow_infinity=False)),
        hnp.arrays(np.float64, 3, elements=st.floats(0, 1e300)),
        st.floats(1e-12, 1),
        st.floats(0.1, allow_infinity=True, allow_nan=False),
    )
    def test_round_trip_keeps_every_bit(self, tmp_path_factory, suffix, mean, var, epsilon, clip):
        statistics = Normalisation(mean, var, epsilon, clip)
        path = tmp_path_factory.mktemp("statistics") / f"driver.normalisation{suffix}"
        assert load_normalisation(save_normalisation(statistics, path)) == statistics
        assert [file.name for file in path.parent.iterdir()] == [path.name]

    def test_toml_written_by_hand(self, tmp_path):
        path = tmp_path / "x.toml"
        path.write_text("mean = [1, 2.5]\nvar = [1.0, 4]\nepsilon = 1e-8\nclip = 10\n")
        assert load_normalisation(path) == Normalisation([1.0, 2.5], [1.0, 4.0], 1e-8, 10.0)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("mean = [1]\nvar = [1]\n", "epsilon, clip missing"),
            ("mean = [1]\nvar = [1]\nepsilon = 1\nclip = 1\nstd = [1]\n", "unknown entries std"),
            ("mean = [1]\nvar = [1, 2]\nepsilon = 1\nclip = 1\n", "mean has 1 numbers and var has 2"),
            ("mean = ['a']\nvar = [1]\nepsilon = 1\nclip = 1\n", "must be lists of numbers"),
            ("mean = [1]\nvar = [1]\nepsilon = [1, 2]\nclip = 1\n", "must be lists of numbers"),
            ("mean = [1\n", "is not valid TOML"),
        ],
    )
    def test_files_that_say_too_little_or_nonsense(self, tmp_path, text, message):
        path = tmp_path / "x.toml"
        path.write_text(text)
        with pytest.raises(PolicyError, match=message) as caught:
            load_normalisation(path)
        assert str(path) in str(caught.value)

    def test_another_number_is_noticed(self, tmp_path, statistics):
        path = save_normalisation(statistics, tmp_path / "x.npz")
        with np.load(path) as data:
            arrays = {name: data[name] for name in data.files}
        np.savez(path, **{**arrays, "clip": np.array(2.5)})
        with pytest.raises(PolicyError, match="not what was written"):
            load_normalisation(path)

    def test_damaged_and_foreign_files(self, tmp_path, raises_saved):
        for name, content, message in [
            ("missing.npz", None, "no such file"),
            ("x.npz", b"PK\x03\x04rest", r"cannot be read as \.npz"),
            ("x.npz", b"\x93NUMPY", "not a zip file"),
        ]:
            if content is not None:
                (tmp_path / name).write_bytes(content)
            with pytest.raises(PolicyError, match=message):
                load_normalisation(tmp_path / name)
        (tmp_path / "x.csv").touch()
        with raises_saved(PolicyError):
            load_normalisation(tmp_path / "x.csv")
        with pytest.raises(PolicyError, match=r"saved as \.npz or \.toml"):
            save_normalisation(Normalisation([0.0], [1.0], 1e-8, 10.0), tmp_path / "x.pkl")

    def test_arrays_of_objects_are_not_unpickled(self, tmp_path):
        np.savez(
            tmp_path / "x.npz",
            mean=np.array([Bomb(tmp_path / "exploded")], dtype=object),
            var=[1.0],
            epsilon=1e-8,
            clip=10.0,
        )
        with pytest.raises(PolicyError, match=r"cannot be read as \.npz"):
            load_normalisation(tmp_path / "x.npz")
        assert not (tmp_path / "exploded").exists()


class TestPickledVecNormalize:
    @pytest.mark.parametrize("name", ["driver.normalisation.npz", "driver.normalisation.toml"])
    def test_conversion(self, tmp_path, observations, name):
        reference = vec_normalize(clip_obs=2.0, epsilon=1e-4)
        reference.save(tmp_path / "vecnormalize.pkl")
        converted = save_normalisation(load_normalisation(tmp_path / "vecnormalize.pkl"), tmp_path / name)
        np.testing.assert_array_equal(
            load_normalisation(converted).apply(observations), reference.normalize_obs(observations)
        )

    def test_what_is_no_vec_normalize_of_observations(self, tmp_path, raises_saved):
        path = tmp_path / "v.pkl"
        path.write_bytes(pickle.dumps([1]))
        with raises_saved(PolicyError):
            load_normalisation(path)
        path.write_bytes(b"nonsense")
        with raises_saved(PolicyError):
            load_normalisation(path)
        VecNormalize(make_env(), norm_obs=False).save(path)
        assert load_normalisation(path) is None
        VecNormalize(make_env(spaces.Dict({"a": spaces.Box(0, 1, (2,))}))).save(path)
        assert load_normalisation(path)["a"].n_features == 2

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    @pytest.mark.parametrize(
        "space",
        [spaces.Box(-1, 1, (3,)), spaces.Box(np.arange(-3.0, 0.0), np.arange(3.0), dtype=np.float64)],
        ids=["float32", "float64"],
    )
    def test_every_pickle_protocol(self, tmp_path, protocol, space):
        reference = vec_normalize(make_env(space), clip_obs=3.0)
        reference.observation_space.seed(1)  # brings a random generator along
        (tmp_path / "v.pkl").write_bytes(pickle.dumps(reference, protocol))
        statistics = load_normalisation(tmp_path / "v.pkl")
        expected = Normalisation(reference.obs_rms.mean, reference.obs_rms.var, 1e-8, 3.0)
        assert statistics == expected
        assert statistics.source == str(tmp_path / "v.pkl")

    @pytest.mark.parametrize("protocol", [2, 4])
    def test_spaces_of_old_gym(self, tmp_path, protocol, monkeypatch):
        """Gym is not installed, and need not be."""
        gym = types.ModuleType("gym.spaces.box")

        class Box:
            def __init__(self):
                self.dtype, self.shape = np.dtype("float32"), (4,)
                self.low, self.np_random = np.full(4, -1, np.float32), np.random.RandomState(0)

        Box.__module__, Box.__qualname__, gym.Box = "gym.spaces.box", "Box", Box
        reference = vec_normalize()
        state = {**reference.__getstate__(), "observation_space": Box()}
        monkeypatch.setattr(VecNormalize, "__getstate__", lambda _: state)
        for name in ("gym", "gym.spaces"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        monkeypatch.setitem(sys.modules, "gym.spaces.box", gym)
        (tmp_path / "v.pkl").write_bytes(pickle.dumps(reference, protocol))
        for name in ("gym", "gym.spaces", "gym.spaces.box"):
            monkeypatch.delitem(sys.modules, name)
        np.testing.assert_array_equal(load_normalisation(tmp_path / "v.pkl").var, reference.obs_rms.var)

    @pytest.mark.parametrize("function", [os.mkdir, os.system, eval, print], ids=str)
    @pytest.mark.parametrize("protocol", [0, 2, 4])
    def test_nothing_runs(self, tmp_path, function, protocol):
        reference = vec_normalize()
        reference.old_obs = Bomb(tmp_path / "exploded", function)
        (tmp_path / "v.pkl").write_bytes(pickle.dumps(reference, protocol))
        with pytest.raises(PolicyError, match=rf"it names \w+\.{function.__name__}, which is not expected"):
            load_normalisation(tmp_path / "v.pkl")
        assert not (tmp_path / "exploded").exists()

    @pytest.mark.parametrize("ending", [b"t.", b"l.", b"}u."])
    def test_a_list_that_did_not_begin(self, tmp_path, ending, raises_saved):
        (tmp_path / "v.pkl").write_bytes(b"\x80\x02" + ending)
        with raises_saved(PolicyError):
            load_normalisation(tmp_path / "v.pkl")

    def test_arrays_of_objects(self, tmp_path, raises_saved):
        reference = vec_normalize()
        reference.obs_rms.mean = np.array([1.0, "x", None, 2.0], dtype=object)
        reference.save(tmp_path / "v.pkl")
        with raises_saved(PolicyError):
            load_normalisation(tmp_path / "v.pkl")

    @settings(LAW, max_examples=300)
    @given(st.integers(0, 2**31), st.sampled_from([0, 2, 4]))
    def test_damaged_pickles_are_refused_or_harmless(self, tmp_path_factory, seed, protocol):
        generator = np.random.default_rng(seed)
        raw = bytearray(pickle.dumps(vec_normalize(), protocol))
        for _ in range(generator.integers(1, 4)):
            raw[generator.integers(len(raw))] = generator.integers(256)
        path = tmp_path_factory.getbasetemp() / "damaged.pkl"
        path.write_bytes(raw[: generator.integers(1, len(raw))] if seed % 2 else raw)
        try:
            load_normalisation(path)
        except PolicyError as error:
            assert str(path) in str(error)  # noqa: PT017


class TestPoliciesWithNormalisation:
    @pytest.mark.parametrize("way", ["object", "other.npz", "other.pkl", "driver.normalisation.npz"])
    @pytest.mark.parametrize("algorithm", ["DQN", "PPO"])
    def test_statistics_as_an_argument_or_sidecar(self, tmp_path, observations, algorithm, way):
        reference = vec_normalize(clip_obs=1.2)
        model = make_model(algorithm, env=reference)
        model.save(tmp_path / "driver.zip")
        reference.save(tmp_path / "other.pkl")
        statistics = load_normalisation(tmp_path / "other.pkl")
        if way.endswith(".npz"):
            save_normalisation(statistics, tmp_path / way)
        given = {"object": statistics, "driver.normalisation.npz": None}.get(way, tmp_path / way)
        policy = load_policy(tmp_path / "driver.zip", normalisation=given)
        expected = sb3_scores(model, reference.normalize_obs(observations))
        assert_close(policy.scores(observations), expected)
        assert not np.allclose(expected, sb3_scores(model, observations))

    def trained(self, tmp_path, **settings):
        reference = VecNormalize(make_env(), **settings) if settings else make_env()
        model = make_model("PPO", env=reference, n_steps=8, batch_size=8, n_epochs=1).learn(8)
        model.save(tmp_path / "driver.zip")
        return model

    def test_ppo_trained_behind_vec_normalize_is_recognised(self, tmp_path, observations):
        model = self.trained(tmp_path, norm_obs=True)
        for trust in (False, True):
            with pytest.raises(UnclearPolicyError, match="trained with VecNormalize") as caught:
                load_policy(tmp_path / "driver.zip", trust=trust)
            assert caught.value.argument == "normalisation"
        model.env.save(tmp_path / "driver_vecnormalize.pkl")
        for trust in (False, True):
            policy = load_policy(tmp_path / "driver.zip", trust=trust)
            expected = sb3_scores(model, model.env.normalize_obs(observations))
            assert_close(policy.scores(observations), expected)
            assert policy.normalisation.source == str(tmp_path / "driver_vecnormalize.pkl")

    def test_only_rewards_were_normalised(self, tmp_path, observations, raises_saved):
        model = self.trained(tmp_path, norm_obs=False)
        with raises_saved(UnclearPolicyError):
            load_policy(tmp_path / "driver.zip")
        policy = load_policy(tmp_path / "driver.zip", normalisation="none")
        assert_close(policy.scores(observations), sb3_scores(model, observations))
        model.env.save(tmp_path / "vecnormalize.pkl")
        assert load_policy(tmp_path / "driver.zip").normalisation is None

    def test_ppo_trained_without_does_not_ask(self, tmp_path):
        """Even when somebody else's statistics lie in the same folder."""
        self.trained(tmp_path)
        vec_normalize().save(tmp_path / "vecnormalize.pkl")
        assert load_policy(tmp_path / "driver.zip").normalisation is None

    @pytest.mark.parametrize(
        ("policy", "name"),
        [
            ("dqn.zip", "vecnormalize.pkl"),
            ("dqn.zip", "vec_normalize.pkl"),
            ("dqn.zip", "dqn_vecnormalize.pkl"),
            ("dqn.zip", "dqn/vecnormalize.pkl"),
            ("rl_model_100_steps.zip", "rl_model_vecnormalize_100_steps.pkl"),
            ("best_model.zip", "CartPole-v1/vecnormalize.pkl"),
            ("CartPole-v1.zip", "CartPole-v1/vecnormalize.pkl"),
        ],
    )
    def test_pickled_statistics_are_found(self, saved, tmp_path, observations, policy, name):
        folder = tmp_path / "CartPole-v1_3"
        (folder / name).parent.mkdir(parents=True)
        path = shutil.move(saved("DQN"), folder / policy)
        reference = vec_normalize()
        reference.save(folder / name)
        found = load_policy(path)
        assert found.normalisation.source == str(folder / name)
        bare = load_policy(path, normalisation="none")
        assert bare.normalisation is None
        assert_close(found.scores(observations), bare.scores(reference.normalize_obs(observations)))

    def test_the_statistics_of_a_checkpoint_are_its_own(self, saved, tmp_path):
        path = shutil.move(saved("DQN"), tmp_path / "rl_model_100_steps.zip")
        for name in ("vecnormalize.pkl", "rl_model_vecnormalize_100_steps.pkl", "rl_model_vecnormalize_200_steps.pkl"):
            vec_normalize().save(tmp_path / name)
        assert load_policy(path).normalisation.source.endswith("rl_model_vecnormalize_100_steps.pkl")

    def test_statistics_that_may_be_those_of_another_policy(self, saved, tmp_path):
        path, other = saved("DQN"), tmp_path / "a2c_vecnormalize_100_steps.pkl"
        vec_normalize().save(other)
        with pytest.raises(UnclearPolicyError, match=r"a2c_vecnormalize_100_steps\.pkl may hold"):
            load_policy(path)
        assert load_policy(path, normalisation="none").normalisation is None
        assert load_policy(path, normalisation=other).normalisation is not None

    def test_sidecars(self, saved, tmp_path, statistics):
        path = saved("DQN")
        save_normalisation(statistics, tmp_path / "dqn.normalisation.npz")
        assert load_policy(path).normalisation == statistics
        assert load_policy(path, normalisation="none").normalisation is None
        save_normalisation(statistics, tmp_path / "dqn.normalisation.toml")
        with pytest.raises(PolicyError, match="keep one of them"):
            load_policy(path)

    def test_statistics_that_do_not_fit(self, saved, raises_saved):
        with raises_saved(PolicyError):
            load_policy(saved("DQN"), normalisation=Normalisation([0.0, 0.0], [1.0, 1.0], 1e-8, 10.0))
        path = saved("DQN", observation_space=spaces.Discrete(3))
        with pytest.raises(PolicyError, match="one-hot encoded observations cannot be normalised"):
            load_policy(path, normalisation=Normalisation([0.0], [1.0], 1e-8, 10.0))

    def test_a_model_brings_its_own(self, observations, raises_saved):
        reference = vec_normalize()
        model = make_model("A2C", env=reference)
        policy = load_policy(model)
        assert_close(policy.scores(observations), sb3_scores(model, reference.normalize_obs(observations)))
        assert load_policy(model, normalisation=policy.normalisation).normalisation == policy.normalisation
        for other in ("none", Normalisation([0.0] * 4, [1.0] * 4, 1e-8, 10.0)):
            with raises_saved(PolicyError):
                load_policy(model, normalisation=other)
        reference.obs_rms.mean += 1  # training goes on: the loaded policy stays as it was
        assert policy.normalisation != load_policy(model).normalisation

    def test_a_function_may_have_statistics(self, observations, statistics):
        policy = load_policy(lambda batch: batch, output="values", normalisation=statistics)
        np.testing.assert_array_equal(policy.scores(observations), statistics.apply(observations))
        assert (policy.n_features, policy.n_actions) == (4, 4)

    @pytest.mark.parametrize(("algorithm", "actions"), [("SAC", spaces.Box(-2.0, 1.0, (2,))), ("DQN", None)])
    def test_her_of_stable_baselines3_1_0(self, tmp_path, algorithm, actions):
        """Statistics were those of a dictionary; the network read observation and desired goal in one array."""
        parts = {"observation": 3, "achieved_goal": 2, "desired_goal": 2}
        goal = spaces.Dict({key: spaces.Box(-3, 3, (size,)) for key, size in parts.items()})
        wrapped = VecNormalize(make_env(goal, actions or spaces.Discrete(3)), clip_obs=2.0)
        generator = np.random.default_rng(7)
        for running in wrapped.obs_rms.values():
            running.mean = generator.normal(size=running.mean.shape)
            running.var = generator.uniform(0.01, 4, running.var.shape)
        wrapped.save(tmp_path / "vecnormalize.pkl")
        flat = make_env(spaces.Box(-3, 3, (5,)), actions or spaces.Discrete(3))
        model = {"SAC": SAC, "DQN": DQN}[algorithm]("MlpPolicy", flat, buffer_size=8, seed=0)
        with torch.no_grad():
            for tensor in model.policy.parameters():
                tensor.copy_(torch.from_numpy(generator.normal(size=tuple(tensor.shape))) * 0.3)
        model.save(tmp_path / "model.zip")
        batch = {key: generator.normal(size=(50, size)).astype(np.float32) for key, size in parts.items()}
        shown = wrapped.normalize_obs({key: rows.copy() for key, rows in batch.items()})
        expected, _ = model.predict(np.hstack([shown["observation"], shown["desired_goal"]]), deterministic=True)
        policy = load_policy(tmp_path / "model.zip")
        assert list(policy.observation_space.spaces) == ["observation", "desired_goal"]
        np.testing.assert_allclose(policy.predict(batch)[0], expected, atol=1e-6)
        assert np.std(expected, axis=0).max() > 0
