"""Descriptions of policy files: algorithm, spaces, environment, statistics; folders of the RL Zoo."""

import json
import shutil

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from legible.policies import PolicyError, UnclearPolicyError, describe_policy, load_policy, save_policy
from legible.policies.environment_ids import _CHANGES, todays_id
from policies.conftest import make_model
from policies.test_normalisation import vec_normalize

ARGS = """!!python/object/apply:collections.OrderedDict
- - - algo
    - ppo
  - - env
    - LunarLander-v2
  - - env_kwargs
    - null
  - - seed
    - 7
"""
CONFIG = """!!python/object/apply:collections.OrderedDict
- - - env_wrapper
    - - sb3_contrib.common.wrappers.TimeFeatureWrapper
      - rl_zoo3.wrappers.FrameSkip:
          skip: 2
      - my_project.Strange
  - - frame_stack
    - 4
  - - n_timesteps
    - 1000000.0
  - - normalize
    - 'dict(norm_obs=False)'
  - - policy
    - MlpPolicy
"""
LAUGHS = "a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n"


@pytest.fixture
def zoo_folder(tmp_path, saved):
    folder = tmp_path / "LunarLander-v2_1"
    (folder / "LunarLander-v2").mkdir(parents=True)
    shutil.move(saved("DQN"), folder / "LunarLander-v2.zip")
    (folder / "LunarLander-v2" / "args.yml").write_text(ARGS)
    (folder / "LunarLander-v2" / "config.yml").write_text(CONFIG.replace("'dict(norm_obs=False)'", "false"))
    return folder


class TestDescriptions:
    def test_a_zip(self, saved):
        said = describe_policy(saved("PPO"))
        assert (said.format, said.algorithm, said.kind) == ("sb3", "PPO", "log-probabilities")
        assert (said.n_features, said.n_actions, said.recurrent, said.stochastic) == (4, 3, False, True)
        assert said.action_space == "Discrete(3)"
        assert said.library_version is not None
        assert (said.env_id, said.normalisation, said.training) == (None, None, None)
        json.dumps(said.as_dict())

    def test_a_policy_file(self, saved, tmp_path, snapshot):
        path = save_policy(load_policy(saved("DQN")), tmp_path / "p.safetensors", env_id="Pendulum-v0")
        said = describe_policy(path)
        assert (said.env_id, said.env_id_from, said.todays_env_id) == ("Pendulum-v0", "the file", "Pendulum-v1")
        assert "\n".join(said.env_changes) == snapshot

    def test_statistics_beside_it_are_named(self, saved, tmp_path):
        vec_normalize().save(tmp_path / "vecnormalize.pkl")
        assert describe_policy(saved("DQN")).normalisation == str(tmp_path / "vecnormalize.pkl")
        assert describe_policy(saved("DQN"), normalisation="none").normalisation is None

    @pytest.mark.parametrize(
        ("name", "env_id"),
        [
            ("ppo-LunarLander-v2.zip", "LunarLander-v2"),
            ("CartPole-v1.zip", "CartPole-v1"),
            ("dqn_BreakoutNoFrameskip-v4.zip", "BreakoutNoFrameskip-v4"),
            ("model-v2.zip", None),
        ],
    )
    def test_the_name_of_a_file_may_say_the_environment(self, saved, tmp_path, name, env_id):
        path = shutil.move(saved("DQN"), tmp_path / name)
        said = describe_policy(path)
        assert (said.env_id, said.env_id_from) == (env_id, None if env_id is None else "its name")


class TestFoldersOfTheRlZoo:
    def test_a_folder_is_enough(self, zoo_folder):
        policy = load_policy(zoo_folder)
        assert policy.n_actions == 3
        said = describe_policy(zoo_folder)
        assert (said.format, said.env_id, said.env_id_from) == ("rl-zoo", "LunarLander-v2", "args.yml")
        assert said.todays_env_id == "LunarLander-v3"
        training = said.training
        assert (training.algorithm, training.seed, training.steps, training.frame_stack) == ("ppo", 7, 1_000_000, 4)
        assert [str(call) for call in training.wrappers] == [
            "sb3_contrib.common.wrappers.TimeFeatureWrapper",
            "rl_zoo3.wrappers.FrameSkip(skip=2)",
            "my_project.Strange",
        ]
        assert training.normalised is False
        json.dumps(said.as_dict())

    def test_statistics_of_a_folder(self, zoo_folder, raises_saved):
        config = zoo_folder / "LunarLander-v2" / "config.yml"
        config.write_text(CONFIG.replace("'dict(norm_obs=False)'", "'{''norm_obs'': True, ''norm_reward'': False}'"))
        with raises_saved(UnclearPolicyError):
            load_policy(zoo_folder)
        assert load_policy(zoo_folder, normalisation="none").n_actions == 3
        vec_normalize().save(zoo_folder / "LunarLander-v2" / "vecnormalize.pkl")
        assert load_policy(zoo_folder).normalisation is not None

    def test_which_file_is_the_policy(self, zoo_folder, raises_saved):
        shutil.copy(zoo_folder / "LunarLander-v2.zip", zoo_folder / "best_model.zip")
        assert describe_policy(zoo_folder).training is not None
        (zoo_folder / "LunarLander-v2.zip").rename(zoo_folder / "other.zip")
        assert load_policy(zoo_folder).n_actions == 3
        (zoo_folder / "best_model.zip").rename(zoo_folder / "third.zip")
        with raises_saved(PolicyError):
            load_policy(zoo_folder)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("!!python/object/apply:os.mkdir [exploded]", "names Python objects"),
            ("a: !!python/name:os.system ''", "names Python objects"),
            ("a: [", "cannot be read as YAML"),
            ("[" * 5000, "far more brackets"),
            ("[" * 500, "cannot be read as YAML"),
            ("a: " + "1" * 5000, "cannot be read as YAML"),
            ("a" * 2_000_000, "far larger"),
            ("a: &a [*a]", "far more values"),
            ("a0: &a0 [x]\n" + "".join(LAUGHS.format(i, i - 1) for i in range(1, 9)), "far more values"),
        ],
        ids=lambda text: text[:20],
    )
    def test_poisoned_files(self, zoo_folder, text, message, monkeypatch):
        monkeypatch.chdir(zoo_folder)
        (zoo_folder / "LunarLander-v2" / "config.yml").write_text(text)
        with pytest.raises(PolicyError, match=rf"config\.yml: .*{message}"):
            load_policy(zoo_folder)
        assert not (zoo_folder / "exploded").exists()


class TestOldEnvironments:
    def test_todays_ids_exist(self):
        for name, changes in _CHANGES.items():
            assert list(changes) == sorted(changes)
            assert f"{name}-v{max(changes)}" in gymnasium.registry
            assert f"{name}-v{max(changes) + 1}" not in gymnasium.registry

    def test_only_changes_since_the_version_count(self):
        assert todays_id("LunarLanderContinuous-v2").env_id == "LunarLanderContinuous-v3"
        assert len(todays_id("Ant-v3").changes) == 2
        assert len(todays_id("Ant-v4").changes) == 1
        assert len(todays_id("CarRacing-v1").changes) == 1  # nothing visible changed in version 3
        assert todays_id("Ant-v5") is None
        assert todays_id("MyOwn-v0") is None


def test_a_policy_of_continuous_actions(tmp_path):
    from policies.test_sb3_actions import ACTIONS, BOX, make

    make("SAC", BOX, ACTIONS["box"]).save(tmp_path / "model.zip")
    said = describe_policy(tmp_path / "model.zip")
    assert (said.algorithm, said.kind, said.n_actions) == ("SAC", "none", 0)
    assert said.action_space.startswith("Box(")


def test_every_kind_of_observation_is_described():
    for space in (spaces.Discrete(4), spaces.MultiDiscrete([2, 3])):
        policy = load_policy(make_model("DQN", observation_space=space, policy_kwargs={"net_arch": [4]}))
        assert policy.observation_space == space
        assert policy.predict(space.sample())[0] in range(3)
        assert np.shape(policy.predict(np.array([space.sample()]))[0]) == (1,)
