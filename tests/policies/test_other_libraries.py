"""Checkpoints of RLlib, rsl_rl, skrl and rl_games act as in these libraries.

The files were written by the libraries themselves (``lab/fixtures/policy_files.py``), with the actions that they take.
"""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from legible.policies import NetworkPolicy, PolicyError, UnclearPolicyError, load_policy
from legible.policies.readers import rllib
from policies.conftest import Bomb

FIXTURES = Path(__file__).parent / "fixtures"
EXPECTED = np.load(FIXTURES / "expected.npz")
NAMES = sorted({name.rpartition("/")[0] for name in EXPECTED.files})
MODULE = "learner_group/learner/rl_module/default_policy"


def located(name):
    suffix = {"rllib": "", "rl_games": ".pth"}.get(name.partition("/")[0], ".pt")
    return FIXTURES / f"{name}{suffix}"


def opened(name, path=None):
    options = {} if name.startswith("rllib") or name == "rsl_rl/old" else {"activation": "elu"}
    if name == "skrl/categorical":
        options = {"activation": "relu"}
    return load_policy(path or located(name), **options)


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_the_library_s(name):
    rows, actions = EXPECTED[f"{name}/rows"], EXPECTED[f"{name}/actions"]
    policy = opened(name)
    np.testing.assert_allclose(policy.predict(rows)[0], actions, atol=1e-5)
    assert np.std(actions, axis=0).max() > 0
    if actions.ndim == 1:
        np.testing.assert_array_equal(policy.scores(rows).argmax(axis=1), actions)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(policy)).predict(rows[:3])[0], actions[:3], atol=1e-5)
    assert policy.metadata["library"] in ("RLlib", "rsl_rl", "skrl", "rl_games")


class TestRllib:
    def test_kinds(self):
        assert isinstance(opened("rllib/dqn"), NetworkPolicy)
        assert opened("rllib/dqn").kind == "values"
        assert opened("rllib/ppo").kind == "log-probabilities"
        assert opened("rllib/ppo-filter").normalisation.clip == 10.0

    def test_a_module_by_itself(self):
        rows, actions = EXPECTED["rllib/ppo/rows"], EXPECTED["rllib/ppo/actions"]
        np.testing.assert_array_equal(load_policy(FIXTURES / "rllib/ppo" / MODULE).predict(rows)[0], actions)

    def test_the_filter_of_a_module_is_found(self):
        assert load_policy(FIXTURES / "rllib/ppo-filter" / MODULE).normalisation is not None

    def test_several_modules(self, tmp_path):
        shutil.copytree(FIXTURES / "rllib/ppo", tmp_path / "two")
        folder = (tmp_path / "two" / MODULE).parent
        shutil.copytree(folder / "default_policy", folder / "other")
        with pytest.raises(PolicyError, match="several modules"):
            load_policy(tmp_path / "two")
        assert load_policy(folder / "other").n_actions == 4

    def changed(self, tmp_path, old, new, name="class_and_ctor_args.pkl", folder=MODULE):
        shutil.copytree(FIXTURES / "rllib/ppo-filter", tmp_path / "changed")
        file = tmp_path / "changed" / folder / name
        raw = file.read_bytes()
        assert old in raw
        assert len(old) == len(new)
        file.write_bytes(raw.replace(old, new))
        return tmp_path / "changed"

    def test_modules_of_one_s_own(self, tmp_path):
        path = self.changed(tmp_path, b"DefaultPPOTorchRLModule", b"DefaultMYOTorchRLModule")
        with pytest.raises(PolicyError, match="cannot be rebuilt from its tensors"):
            load_policy(path)

    def test_other_filters(self, tmp_path):
        shutil.copytree(FIXTURES / "rllib/ppo", tmp_path / "changed")
        (tmp_path / "changed" / rllib.FILTERS / "FrameStacking").mkdir()
        with pytest.raises(PolicyError, match="FrameStacking"):
            load_policy(tmp_path / "changed")

    @pytest.mark.parametrize("name", ["module_state.pkl", "class_and_ctor_args.pkl"])
    def test_nothing_runs(self, tmp_path, name):
        shutil.copytree(FIXTURES / "rllib/ppo", tmp_path / "bomb")
        (tmp_path / "bomb" / MODULE / name).write_bytes(pickle.dumps(Bomb(tmp_path / "run")))
        with pytest.raises(PolicyError, match="not expected"):
            load_policy(tmp_path / "bomb")

    def test_the_state_of_the_algorithm_is_never_opened(self, tmp_path):
        shutil.copytree(FIXTURES / "rllib/ppo", tmp_path / "bomb")
        (tmp_path / "bomb" / "algorithm_state.pkl").write_bytes(pickle.dumps(Bomb(tmp_path / "run")))
        assert load_policy(tmp_path / "bomb").n_actions == 4


class TestRobots:
    @pytest.mark.parametrize("name", ["rsl_rl/new", "skrl/gaussian", "rl_games/continuous"])
    def test_the_activation_must_be_known(self, tmp_path, name):
        path = shutil.copy(located(name), tmp_path)
        with pytest.raises(UnclearPolicyError, match="--activation elu") as caught:
            load_policy(path)
        assert caught.value.argument == "activation"
        (tmp_path / "agent.yaml").write_text("models:\n  policy:\n    activations: elu\n", encoding="utf-8")
        rows, actions = EXPECTED[f"{name}/rows"], EXPECTED[f"{name}/actions"]
        np.testing.assert_allclose(load_policy(path).predict(rows)[0], actions, atol=1e-5)

    def test_memories_are_refused(self, tmp_path):
        saved = torch.load(located("rl_games/continuous"), weights_only=True)
        saved["model"]["a2c_network.rnn.rnn.weight_ih_l0"] = torch.zeros(8, 3)
        torch.save(saved, tmp_path / "model.pth")
        with pytest.raises(PolicyError, match="belongs to a memory"):
            load_policy(tmp_path / "model.pth", activation="elu")

    def test_layers_that_do_not_follow_each_other(self, tmp_path):
        saved = torch.load(located("skrl/gaussian"), weights_only=True)
        saved["policy"]["net_container.2.weight"] = torch.zeros(6, 5)
        torch.save(saved, tmp_path / "model.pt")
        with pytest.raises(PolicyError, match="only plain networks"):
            load_policy(tmp_path / "model.pt", activation="elu")
