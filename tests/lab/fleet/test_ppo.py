"""PPO of a fleet: against Stable-Baselines3's own, and against itself stopped and taken up again."""

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from clue_env import Still
from lab.fleet.checkpoint import load_checkpoint, save_checkpoint
from lab.fleet.networks import layer_views, row_of_layers
from lab.fleet.ppo import PpoFleet, _advantages
from lab.fleet.slots import FleetError, make_training_slots
from legible.environments import EnvironmentSpec
from legible.training.hyperparameters import PpoSettings

WIDTH, ACTIONS, ENVS = 69, 5, 4
SETTINGS = PpoSettings(
    learning_rate=2.5e-4, n_steps=32, batch_size=64, n_epochs=3, gamma=0.9, clip_range=0.5, vf_coef=0.75,
    hidden=(32, 16), n_envs=ENVS,
)  # fmt: skip


def make_fleet(settings: PpoSettings = SETTINGS, total: int = 2000) -> PpoFleet:
    levels = (("legible/PacmanSmall-v0", 2), ("legible/PacmanMediumNC-v0", 1))
    slots = make_training_slots([(EnvironmentSpec(name), n * ENVS) for name, n in levels], reward_scale=0.01)
    return PpoFleet(slots, [0, 1, 0], settings, total)


def networks_of(model: PPO) -> tuple[list[torch.nn.Linear], list[torch.nn.Linear]]:
    extractor = model.policy.mlp_extractor
    actor = [m for m in extractor.policy_net if isinstance(m, torch.nn.Linear)] + [model.policy.action_net]
    critic = [m for m in extractor.value_net if isinstance(m, torch.nn.Linear)] + [model.policy.value_net]
    return actor, critic


def sb3_model(fleet: PpoFleet, policy: int) -> PPO:
    """Stable-Baselines3's PPO with the networks of one policy of the fleet."""
    s = fleet.settings
    model = PPO(
        "MlpPolicy",
        Still(),
        learning_rate=s.learning_rate,
        n_steps=s.rollout,
        batch_size=s.batch_size,
        n_epochs=1,
        gamma=s.gamma,
        clip_range=s.clip_range,
        ent_coef=s.ent_coef,
        vf_coef=s.vf_coef,
        policy_kwargs={"net_arch": list(s.hidden), "activation_fn": torch.nn.ReLU},
        device="cpu",
    )
    for linear, shape, first in zip(
        networks_of(model), (fleet.shape, fleet.critic_shape), (0, fleet.shape.stride), strict=True
    ):
        layers = layer_views(fleet.parameters, shape, first)
        for module, weight, bias in zip(linear, *layers, strict=True):
            module.weight.data.copy_(weight[policy].T)
            module.bias.data.copy_(bias[policy, 0])
    model.set_logger(configure(None, []))
    return model


def row_of(model: PPO, fleet: PpoFleet) -> np.ndarray:
    rows = [
        row_of_layers(shape, [(m.weight.detach().numpy(), m.bias.detach().numpy()) for m in linear])
        for linear, shape in zip(networks_of(model), (fleet.shape, fleet.critic_shape), strict=True)
    ]
    return np.concatenate(rows)


@pytest.mark.parametrize("ent_coef", [0.0, 0.02])
def test_updates_are_those_of_stable_baselines3(ent_coef: float) -> None:
    fleet = make_fleet(
        PpoSettings(**{**vars(SETTINGS), "ent_coef": ent_coef, "clip_range": 0.1, "learning_rate": 3e-3})
    )
    models = [sb3_model(fleet, p) for p in range(fleet.n_policies)]
    batches = []
    repeat = fleet._repeat_epoch

    def remember() -> None:
        batches.append(fleet._buffers.order.clone())
        repeat()

    fleet._repeat_epoch = remember
    before = fleet.parameters.clone()
    fleet.phase()
    kept, size = fleet._buffers, SETTINGS.batch_size
    assert len(batches) == SETTINGS.n_epochs
    clipped = 0.0
    for p, model in enumerate(models):
        for order in batches:
            parts = [order[p, i : i + size] for i in range(0, SETTINGS.rollout, size)]
            drawn = [
                RolloutBufferSamples(
                    observations=kept.inputs[p, at],
                    actions=kept.taken[p, at].float().unsqueeze(1),
                    old_values=torch.zeros(size),
                    old_log_prob=kept.log_probabilities[p, at],
                    advantages=kept.advantages[p, at],
                    returns=kept.returns[p, at],
                )
                for at in parts
            ]
            model.rollout_buffer.get = lambda _size, _drawn=drawn: iter(_drawn)
            model.train()
            clipped += model.logger.name_to_value["train/clip_fraction"]
        np.testing.assert_allclose(fleet.parameters[p].numpy(), row_of(model, fleet), atol=1e-5, rtol=0)
    assert clipped > 0
    assert (fleet.parameters - before).abs().max() > 1e-3


def test_advantages_are_those_of_stable_baselines3() -> None:
    rng = np.random.default_rng(0)
    time, envs, gamma, decay = 40, 3, 0.9, 0.95
    rewards, values = rng.normal(size=(2, time, envs)).astype(np.float32)
    terminated = rng.random((time, envs)) < 0.1
    truncated = ~terminated & (rng.random((time, envs)) < 0.1)
    over = terminated | truncated
    following = np.where(over, rng.normal(size=(time, envs)), 0).astype(np.float32)
    last = rng.normal(size=envs).astype(np.float32)
    following[:-1] = np.where(over[:-1], following[:-1], values[1:])
    following[-1] = np.where(over[-1], following[-1], last)

    buffer = RolloutBuffer(time, Still.observation_space, Still.action_space, "cpu", decay, gamma, envs)
    for t in range(time):
        starts = over[t - 1] if t else np.zeros(envs)
        with_rest = rewards[t] + gamma * following[t] * truncated[t]  # as its loop does for episodes that are cut off
        observations = np.zeros((envs, WIDTH), np.float32)
        actions = np.zeros(envs)
        buffer.add(observations, actions, with_rest, starts, torch.tensor(values[t]), torch.zeros(envs))
    buffer.compute_returns_and_advantage(torch.tensor(last), over[-1])

    ours = _advantages(
        *(torch.tensor(a.T.astype(np.float32))[None] for a in (rewards, values, following, terminated, truncated)),
        gamma,
        decay,
    )
    np.testing.assert_allclose(ours[0].numpy().T, buffer.advantages, atol=1e-5)


def test_actions_follow_the_probabilities() -> None:
    fleet = make_fleet()
    with torch.no_grad():
        fleet._actor.biases[-1][:, 0] = torch.tensor([[0.1, 0.2, 0.3, 0.25, 0.15]]).log()
        fleet._actor.weights[-1].zero_()
    counts = np.zeros((3, ACTIONS))
    for _ in range(2000):
        fleet._act()
        for p in range(3):
            counts[p] += np.bincount(fleet._buffers.actions_array[p], minlength=ACTIONS)
    shares = counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, np.tile([0.1, 0.2, 0.3, 0.25, 0.15], (3, 1)), atol=0.02)


def test_orders_are_permutations_and_all_different() -> None:
    from lab.fleet.random_numbers import draw_orders, keys_on

    keys = keys_on(torch.device("cpu"), [1, 2**63 + 5])
    orders = draw_orders(keys, 0, 3, 64)
    assert (orders.sort(dim=2).values == torch.arange(64)).all()
    assert len({tuple(row.tolist()) for row in orders.flatten(0, 1)}) == 6
    assert torch.equal(draw_orders(keys, 64, 2, 64), orders[1:])


def test_stopped_and_taken_up_again_with_the_same_bits(tmp_path) -> None:
    whole, first, second = make_fleet(), make_fleet(), make_fleet()
    whole.learn(max_phases=5)
    first.learn(max_phases=2)
    save_checkpoint(first, tmp_path / "fleet", full=False)
    assert load_checkpoint(second, tmp_path / "fleet")
    second.learn(max_phases=3)
    assert second.counters() == whole.counters()
    for name, tensor in whole.tensors(with_replay=True).items():
        assert torch.equal(tensor, second.tensors(with_replay=True)[name]), name


def test_begins_as_stable_baselines3_does() -> None:
    fleet = make_fleet()
    model = PPO(
        "MlpPolicy", Still(), policy_kwargs={"net_arch": [32, 16], "activation_fn": torch.nn.ReLU}, device="cpu"
    )
    theirs = networks_of(model)
    for layers, linear in zip((fleet._actor, fleet._critic), theirs, strict=True):
        for weight, bias, module in zip(*layers, linear, strict=True):
            ours = torch.linalg.svdvals(weight[0])
            torch.testing.assert_close(ours, torch.linalg.svdvals(module.weight.detach()), rtol=1e-3, atol=1e-4)
            assert (bias == 0).all()


def test_rollout_must_be_whole_batches(raises_saved) -> None:
    with raises_saved(FleetError):
        make_fleet(PpoSettings(**{**vars(SETTINGS), "batch_size": 50}))


def test_learns_a_small_problem_through_gymnasium() -> None:
    settings = PpoSettings(learning_rate=3e-3, n_steps=32, batch_size=64, n_epochs=5, hidden=(16,), n_envs=4, gamma=0.5)
    slots = make_training_slots([(EnvironmentSpec("clue_env:Clue"), 8)])
    fleet = PpoFleet(slots, [3, 4], settings, 4000)
    fleet.learn(max_phases=28)
    fleet.progress()
    fleet.learn()
    assert (fleet.progress().mean_returns > 5.0).all()
