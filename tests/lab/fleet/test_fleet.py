"""Plans of fleets, policies as files, and the program that trains the zoo."""

import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from lab.experiments import train_zoo
from lab.fleet.dqn import DqnFleet, epsilon_after
from lab.fleet.networks import forward
from lab.fleet.plan import FleetPlan, make_fleet, policies_of, save_to_zoo
from lab.fleet.slots import FleetError
from legible.environments import EnvironmentSpec
from legible.policies import load_policy
from legible.training.hyperparameters import DqnSettings, PpoSettings
from legible.training.measuring import measure_policy

DQN = DqnSettings(hidden=(16, 8), n_envs=2, buffer_size=400, batch_size=16, gradient_steps=-1)
PPO = PpoSettings(hidden=(16, 8), n_envs=2, n_steps=16, batch_size=32, n_epochs=2)
LEVELS = tuple(EnvironmentSpec(f"legible/Pacman{name}-v0") for name in ("Small", "MediumNC"))
PLAN = FleetPlan(LEVELS, (3, 5), DQN, 240)


def test_members_lie_where_the_zoo_has_them() -> None:
    names = [f"{level}/dqn/{seed}.safetensors" for level in ("PacmanSmall", "PacmanMediumNC") for seed in (3, 5)]
    assert [str(m.path) for m in PLAN.members] == names
    longer = PLAN.extended_training().members[0]
    assert str(longer.path) == "PacmanSmall/dqn/3-extended.safetensors"
    assert longer.base_path == PLAN.members[0].path
    assert FleetPlan(LEVELS, (0,), PPO, 10).algorithm == "ppo"


@pytest.mark.parametrize("settings", [DQN, PPO])
def test_policies_come_out_as_files(tmp_path, settings: DqnSettings | PpoSettings) -> None:
    plan = replace(PLAN, settings=settings)
    fleet = make_fleet(plan)
    fleet.learn()
    results = save_to_zoo(fleet, plan, tmp_path, n_episodes=6)
    assert [file.relative_to(tmp_path).as_posix() for file in results] == [str(m.path) for m in plan.members]
    observations = np.random.default_rng(0).normal(size=(4, 69)).astype(np.float32)
    actors = fleet.networks.layers() if isinstance(fleet, DqnFleet) else fleet._actor
    wanted = forward(actors, torch.tensor(observations).repeat(4, 1, 1))[-1]
    for p, (file, result) in enumerate(results.items()):
        policy = load_policy(file)
        scores = wanted[p] if settings is DQN else wanted[p].log_softmax(dim=1)
        np.testing.assert_allclose(policy.scores(observations), scores.numpy(), rtol=1e-4, atol=1e-5)
        assert policy.kind == ("values" if settings is DQN else "log-probabilities")
        assert policy.metadata["evaluation"] == result.as_json()
        assert policy.metadata["seed"] == plan.members[p].seed
        assert policy.metadata["steps"] == fleet.steps >= 240
        assert policy.action_names == ("North", "South", "East", "West", "Stop")
        assert measure_policy(policy, plan.members[p].environment, 6) == result


def test_extended_training_begins_with_the_policies_and_nothing_else(tmp_path) -> None:
    base = make_fleet(PLAN)
    base.learn()
    save_to_zoo(base, PLAN, tmp_path, n_episodes=2)
    longer = make_fleet(PLAN.extended_training(), zoo=tmp_path)
    assert isinstance(base, DqnFleet)
    assert isinstance(longer, DqnFleet)
    assert torch.equal(longer.networks.parameters, base.networks.parameters)
    assert torch.equal(longer.target, base.networks.parameters)
    assert longer.replay.filled == 0
    assert longer.networks.mean.abs().sum() == 0
    assert (longer.steps, longer.updates) == (0, 0)
    longer.learn(max_phases=2)
    assert longer.epsilon == pytest.approx(epsilon_after(DQN, longer.steps, 240))
    first = make_fleet(PLAN)
    first.learn(max_phases=2)
    # Other random numbers than the first training had.
    assert not torch.equal(longer.replay.actions[:, :16], first.replay.actions[:, :16])
    policies = policies_of(longer, PLAN.extended_training())
    assert policies[0].metadata["training"] == "extended"
    with pytest.raises(FleetError, match="zoo="):
        make_fleet(PLAN.extended_training())


@pytest.mark.slow
def test_the_zoo_is_trained_in_pieces(tmp_path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setitem(train_zoo.GROUPS, "small-medium-dqn", replace(PLAN, total_steps=4000))
    monkeypatch.setitem(train_zoo.GROUPS, "small-medium-ppo", FleetPlan(LEVELS[:1], (0,), PPO, 64))
    monkeypatch.setattr(train_zoo, "_FINISH_SECONDS", 0.0)
    common = f"--out {tmp_path / 'out'} --zoo {tmp_path / 'zoo'} --episodes 2 --report-seconds 9".split()
    assert train_zoo.main(["--group", "small-medium-dqn", "--minutes", "0.001", *common]) == 0
    assert "stopped at step" in capsys.readouterr().out
    assert len(list((tmp_path / "out").glob("small-medium-dqn.light-*"))) == 1
    groups = ["--group", "small-medium-dqn", "--group", "small-medium-ppo"]
    assert train_zoo.main([*groups, "--minutes", "5", *common]) == 0
    out = capsys.readouterr().out
    assert "going on from" in out
    assert "PacmanMediumNC/dqn/5.safetensors: " in out
    assert list((tmp_path / "out").glob("*.light-*")) == []
    with zipfile.ZipFile(tmp_path / "out" / "small-medium-dqn.policies.zip") as archive:
        assert sorted(archive.namelist()) == sorted(str(m.path) for m in PLAN.members)
        archive.extractall(tmp_path / "unpacked")
    assert load_policy(tmp_path / "unpacked" / str(PLAN.members[3].path)).n_actions == 5
    assert load_policy(tmp_path / "zoo" / "PacmanSmall" / "ppo" / "0.safetensors").kind == "log-probabilities"


def test_the_plans_are_the_papers() -> None:
    members = [len(plan.members) for plan in train_zoo.GROUPS.values()]
    assert members == [20, 10, 20, 10, 10, 5, 10, 20, 20, 5, 5, 5, 5, 5, 5]
    assert train_zoo.GROUPS["roads-dqn"].total_steps == 500_000
    assert train_zoo.GROUPS["original-dqn"].total_steps == 5_000_000
    assert train_zoo.GROUPS["small-medium-dqn-extended"].extended
