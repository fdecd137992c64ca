"""DQN of a fleet: against Stable-Baselines3's own, and against itself stopped and taken up again."""

import numpy as np
import pytest
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.utils import LinearSchedule

from clue_env import Still
from lab.fleet.adam import Adam
from lab.fleet.checkpoint import load_checkpoint, save_checkpoint
from lab.fleet.dqn import DqnFleet, epsilon_after
from lab.fleet.networks import layer_views, row_of_layers
from lab.fleet.slots import FleetError, make_training_slots
from legible.environments import EnvironmentSpec
from legible.training.hyperparameters import DqnSettings

ENVS = 8
SETTINGS = DqnSettings(
    batch_size=32,
    buffer_size=800,
    gamma=0.9,
    gradient_steps=-1,
    hidden=(32, 16),
    n_envs=ENVS,
    target_update_interval=200,
    exploration_fraction=0.5,
)
LEVELS = (("legible/PacmanSmall-v0", 2), ("legible/PacmanMediumNC-v0", 1))


def make_fleet(settings: DqnSettings = SETTINGS, total: int = 3000, threads: int = 1) -> DqnFleet:
    slots = make_training_slots([(EnvironmentSpec(name), n * ENVS) for name, n in LEVELS], threads=threads)
    return DqnFleet(slots, [0, 1, 0], settings, total)


def sb3_model(fleet: DqnFleet, policy: int, **more: object) -> DQN:
    """Stable-Baselines3's DQN with the networks of one policy of the fleet."""
    s = fleet.settings
    model = DQN(
        "MlpPolicy",
        Still(),
        learning_rate=s.learning_rate,
        batch_size=s.batch_size,
        gamma=s.gamma,
        max_grad_norm=s.max_grad_norm,
        policy_kwargs={"net_arch": list(s.hidden)},
        device="cpu",
        **more,
    )
    for network, rows in ((model.q_net, fleet.networks.parameters), (model.q_net_target, fleet.target)):
        layers = layer_views(rows, fleet.shape)
        linear = [m for m in network.q_net if isinstance(m, torch.nn.Linear)]
        for module, weight, bias in zip(linear, *layers, strict=True):
            module.weight.data.copy_(weight[policy].T)
            module.bias.data.copy_(bias[policy, 0])
    model.set_logger(__import__("stable_baselines3.common.logger", fromlist=["configure"]).configure(None, []))
    return model


def row_of(model: DQN, fleet: DqnFleet) -> np.ndarray:
    linear = [m for m in model.q_net.q_net if isinstance(m, torch.nn.Linear)]
    return row_of_layers(fleet.shape, [(m.weight.detach().numpy(), m.bias.detach().numpy()) for m in linear])


def samples(fleet: DqnFleet, policy: int, places: torch.Tensor) -> ReplayBufferSamples:
    replay, at = fleet.replay, places.long()
    terminal = (replay.discounts[policy, at] == 0).float()
    return ReplayBufferSamples(
        observations=replay.observations[policy, at],
        actions=replay.actions[policy, at].long().unsqueeze(1),
        next_observations=replay.next_observations[policy, at],
        dones=terminal.unsqueeze(1),
        rewards=replay.rewards[policy, at].unsqueeze(1),
    )


@pytest.mark.parametrize("max_grad_norm", [10.0, 0.05])
def test_updates_are_those_of_stable_baselines3(max_grad_norm: float) -> None:
    fleet = make_fleet(DqnSettings(**{**vars(SETTINGS), "max_grad_norm": max_grad_norm, "learning_starts": 2000}))
    for _ in range(30):  # only collects: learning starts later
        fleet.phase()
    torch.manual_seed(0)
    fleet.target.add_(0.05 * torch.randn_like(fleet.target))  # a target network that differs from the other
    fleet.replay.refresh(fleet._target_layers)
    models = [sb3_model(fleet, p) for p in range(fleet.n_policies)]
    before = fleet.networks.parameters.clone()
    n, batch = 6, SETTINGS.batch_size
    places = torch.randint(0, fleet.replay.filled, (fleet.n_policies, n * batch), dtype=torch.int32)
    terminals = fleet.replay.discounts[0, places[0].long()] == 0
    assert 0 < terminals.sum() < len(terminals)
    coefficients = torch.tensor(Adam(fleet.settings.learning_rate, fleet.settings.max_grad_norm).coefficients(0, n))
    for i in range(n):
        part = slice(i * batch, (i + 1) * batch)
        fleet.gradient_step(places[:, part], coefficients[i])
        for p, model in enumerate(models):
            drawn = samples(fleet, p, places[p, part])
            model.replay_buffer.sample = lambda *_args, _drawn=drawn, **_more: _drawn
            model.train(gradient_steps=1, batch_size=batch)
            np.testing.assert_allclose(
                fleet.networks.parameters[p].numpy(), row_of(model, fleet), atol=1e-6, rtol=0, err_msg=f"step {i}"
            )
            clipped = [parameter.grad for parameter in model.q_net.parameters()]
            norm = torch.sqrt(sum((g**2).sum() for g in clipped)).item()
            own = torch.linalg.vector_norm(fleet.gradient_step.gradients[p]).item()
            assert own == pytest.approx(norm, rel=1e-4)
    assert (fleet.networks.parameters - before).abs().max() > 1e-4


def test_cached_targets_are_the_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was stored when, the kept targets are those that the target network of the moment gives."""
    fleet = make_fleet()
    for _ in range(60):  # the buffer of 100 rows has been overwritten more than once, the target changed many times
        fleet.phase()
    replay = fleet.replay
    assert replay.written > replay.rows
    from lab.fleet.networks import forward

    best = forward(fleet._target_layers, replay.next_observations)[-1].amax(dim=2)
    torch.testing.assert_close(replay.targets, replay.rewards + replay.discounts * best, rtol=1e-5, atol=1e-4)
    assert not torch.equal(fleet.target, fleet.networks.parameters)


def test_schedule_is_that_of_stable_baselines3() -> None:
    total = 10_000
    schedule = LinearSchedule(1.0, 0.05, 0.5)
    for steps in (0, 8, 1234, 4999, 5000, 5001, 9000, 10_000):
        assert epsilon_after(SETTINGS, steps, total) == pytest.approx(schedule(1.0 - steps / total), abs=1e-9)


def test_counts_of_steps_updates_and_target_changes_are_those_of_stable_baselines3() -> None:
    """Same numbers of calls, updates and target changes as Stable-Baselines3's loop makes."""
    settings = DqnSettings(**{**vars(SETTINGS), "target_update_interval": 100, "learning_starts": 100})
    fleet = make_fleet(settings, total=640)
    changes = []
    refresh = fleet.replay.refresh
    fleet.replay.refresh = lambda target: (changes.append(fleet.steps), refresh(target))  # type: ignore[method-assign]
    rates = []
    phase = fleet.phase
    fleet.phase = lambda: (phase(), rates.append(fleet.epsilon))  # type: ignore[method-assign]
    fleet.learn()

    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    class Watch(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.rates: list[float] = []

        def _on_rollout_end(self) -> None:
            self.rates.append(self.model.exploration_rate)

        def _on_step(self) -> bool:
            return True

    model = DQN(
        "MlpPolicy",
        make_vec_env(Still, n_envs=ENVS),
        batch_size=32,
        buffer_size=800,
        gradient_steps=-1,
        target_update_interval=100,
        exploration_fraction=0.5,
        device="cpu",
        seed=0,
    )
    watch = Watch()
    model.learn(640, callback=watch)
    assert fleet.steps == model.num_timesteps
    assert fleet.updates == model._n_updates
    assert fleet.calls == model._n_calls
    assert rates == pytest.approx(watch.rates)
    assert fleet.replay.rows == model.replay_buffer.buffer_size
    assert fleet.replay.written == model.replay_buffer.pos
    # 100 // 8 = 12 calls; a change in the middle of a phase comes before its updates in both.
    assert changes == [96, 192, 288, 384, 480, 576]


@pytest.mark.slow
def test_one_seed_one_result_whatever_the_fleet_and_the_threads() -> None:
    fleet, threaded = make_fleet(), make_fleet(threads=2)
    alone_slots = make_training_slots([(EnvironmentSpec("legible/PacmanMediumNC-v0"), ENVS)])
    alone = DqnFleet(alone_slots, [0], SETTINGS, 3000)
    for each in (fleet, threaded, alone):
        each.learn(max_phases=12)
    assert torch.equal(fleet.networks.parameters, threaded.networks.parameters)
    assert torch.equal(fleet.replay.observations, threaded.replay.observations)
    # Batched products of other sizes may differ in the last bit, so actions agree but parameters only nearly.
    torch.testing.assert_close(alone.networks.parameters[0], fleet.networks.parameters[2], rtol=1e-4, atol=1e-5)
    assert not torch.equal(fleet.networks.parameters[0], fleet.networks.parameters[1])


@pytest.mark.parametrize("stop", [2, 17])
def test_full_checkpoint_goes_on_with_the_same_bits(tmp_path, stop: int) -> None:
    whole, first, second = make_fleet(), make_fleet(), make_fleet()
    whole.learn(max_phases=40)
    first.learn(max_phases=stop)
    save_checkpoint(first, tmp_path / "fleet", full=True)
    assert load_checkpoint(second, tmp_path / "fleet")
    second.learn(max_phases=40 - stop)
    assert second.counters() == whole.counters()
    for name, tensor in whole.tensors(with_replay=True).items():
        assert torch.equal(tensor, second.tensors(with_replay=True)[name]), name
    np.testing.assert_equal(second.slots.state(), whole.slots.state())


def test_light_checkpoint_refills_the_buffer_and_goes_on(tmp_path) -> None:
    first, second, third = make_fleet(), make_fleet(), make_fleet()
    first.learn(max_phases=60)
    files = save_checkpoint(first, tmp_path / "fleet", full=False)
    assert all(file.stat().st_size < 16 * 2**20 for file in files)
    for other in (second, third):
        assert load_checkpoint(other, tmp_path / "fleet")
    assert (second.steps, second.calls, second.updates) == (first.steps, first.calls, first.updates)
    assert second.replay.filled == first.replay.filled
    assert second.epsilon == first.epsilon
    assert torch.equal(second.networks.parameters, first.networks.parameters)
    assert (second.replay.observations.abs().sum(dim=(0, 2)) > 0).all()
    second.learn()
    third.learn()
    assert second.done
    assert torch.equal(second.networks.parameters, third.networks.parameters)


def test_light_checkpoint_in_several_files(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.fleet import checkpoint

    monkeypatch.setattr(checkpoint, "_FILE_BYTES", 40_000)
    first, second = make_fleet(), make_fleet()
    first.learn(max_phases=10)
    files = save_checkpoint(first, tmp_path / "fleet", full=False)
    assert len(files) > 1
    assert load_checkpoint(second, tmp_path / "fleet")
    assert torch.equal(second.target, first.target)
    first.learn(max_phases=1)
    newer = save_checkpoint(first, tmp_path / "newer", full=False)
    newer[0].replace(files[0])
    with pytest.raises(FleetError, match="do not belong together"):
        load_checkpoint(second, tmp_path / "fleet")


def test_checkpoint_of_another_training_is_refused(tmp_path, raises_saved) -> None:
    save_checkpoint(make_fleet(), tmp_path / "fleet", full=False)
    with raises_saved(FleetError):
        load_checkpoint(make_fleet(total=4000), tmp_path / "fleet")
    assert not load_checkpoint(make_fleet(), tmp_path / "nothing")


def test_a_damaged_checkpoint_changes_nothing(tmp_path) -> None:
    first = make_fleet()
    first.learn(max_phases=2)
    (file,) = save_checkpoint(first, tmp_path / "fleet", full=True)
    content, second = file.read_bytes(), make_fleet()
    before = second.networks.parameters.clone()
    changed = bytearray(content)
    changed[-40] ^= 1
    stripped = content.replace(b"sha256", b"sha255")
    for damaged, words in (
        (bytes(changed), "is not what was written"),
        (stripped, "no checksum"),
        (content[:-9], "damaged"),
    ):
        file.write_bytes(damaged)
        with pytest.raises(FleetError, match=words):
            load_checkpoint(second, tmp_path / "fleet")
        assert torch.equal(second.networks.parameters, before)


def test_slots_must_fit_the_policies() -> None:
    slots = make_training_slots([(EnvironmentSpec("legible/PacmanSmall-v0"), 8)])
    with pytest.raises(FleetError, match="need 16 slots, got 8"):
        DqnFleet(slots, [0, 1], SETTINGS, 1000)
    with pytest.raises(FleetError, match="one width"):
        make_training_slots([(EnvironmentSpec(f"legible/Pacman{n}-v0"), 8) for n in ("Small", "Original")])


def test_learns_a_small_problem_through_gymnasium() -> None:
    """A bandit with a clue: the action that the observation names is right."""
    settings = DqnSettings(
        learning_rate=3e-3, gamma=0.5, buffer_size=2000, hidden=(16,), n_envs=4, train_freq=1, batch_size=32,
        target_update_interval=50, exploration_fraction=0.5, learning_starts=50,
    )  # fmt: skip
    slots = make_training_slots([(EnvironmentSpec("clue_env:Clue"), 8)])
    fleet = DqnFleet(slots, [3, 4], settings, 3000)
    fleet.learn()
    fleet.progress()
    for _ in range(50):
        fleet._collect(0)
    assert (fleet.progress().mean_returns > 4.5).all()
