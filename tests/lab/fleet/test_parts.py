"""The parts of a fleet: networks, Adam, random numbers, slots."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.fleet.adam import Adam, adam_step
from lab.fleet.networks import (
    NetworkShape,
    backward,
    default_parameters,
    forward,
    layer_views,
    layers_of_row,
    orthogonal_parameters,
    row_of_layers,
)
from lab.fleet.random_numbers import PolicyStreams, draw_integers, draw_uniform, explore, keys_on
from lab.fleet.slots import ACTION, RECORD_TAIL, REWARD, TERMINATED, TRUNCATED, EnvironmentSlots, make_training_slots
from legible.environments import EnvironmentSpec
from legible.streams import uniform

CPU = torch.device("cpu")


@pytest.mark.parametrize("widths", [(5, 3), (7, 8, 4), (6, 16, 8, 3)])
def test_backward_is_what_autograd_computes(widths: tuple[int, ...]) -> None:
    shape, n, rows = NetworkShape(widths), 3, 11
    generator = torch.Generator().manual_seed(1)
    parameters = torch.tensor(np.stack([default_parameters(shape, seed) for seed in range(n)]), requires_grad=True)
    inputs = torch.randn((n, rows, widths[0]), generator=generator)
    slopes = torch.randn((n, rows, widths[-1]), generator=generator)
    gradients = torch.full_like(parameters, float("nan")).detach()
    with torch.no_grad():
        values = forward(layer_views(parameters, shape), inputs)
        backward(layer_views(parameters, shape), values, slopes, layer_views(gradients, shape))
    for p in range(n):
        out = inputs[p]
        views = layer_views(parameters, shape)
        for number, (weight, bias) in enumerate(zip(*views, strict=True)):
            out = out @ weight[p] + bias[p]
            out = torch.relu(out) if number < len(widths) - 2 else out
        torch.testing.assert_close(values[-1][p], out.detach(), rtol=1e-5, atol=1e-6)
        (out * slopes[p]).sum().backward()
    used = shape.n_parameters
    torch.testing.assert_close(gradients[:, :used], parameters.grad[:, :used], rtol=1e-4, atol=1e-5)
    assert gradients[:, used:].isnan().all()  # the rest of a row is unused


def test_adam_is_pytorchs() -> None:
    torch.manual_seed(0)
    ours = torch.randn(2, 40)
    mean, square = torch.zeros_like(ours), torch.zeros_like(ours)
    adam = Adam(1e-2, max_grad_norm=3.0, epsilon=1e-5)
    theirs = [torch.nn.Parameter(row.clone()) for row in ours]
    optimisers = [torch.optim.Adam([parameter], lr=1e-2, eps=1e-5) for parameter in theirs]
    coefficients = torch.tensor(adam.coefficients(0, 20))
    for i in range(20):
        gradients = torch.randn(2, 40) * torch.tensor([[0.1], [5.0]])  # only the second one is clipped
        for p in range(2):
            theirs[p].grad = gradients[p].clone()
            torch.nn.utils.clip_grad_norm_([theirs[p]], 3.0)
            optimisers[p].step()
        adam_step(adam, ours, gradients.clone(), mean, square, coefficients[i])
        torch.testing.assert_close(ours, torch.stack([p.detach() for p in theirs]), rtol=1e-5, atol=1e-6)


def test_rows_and_layers_are_the_same_thing() -> None:
    shape = NetworkShape((4, 8, 3))
    row = default_parameters(shape, 5)
    layers = layers_of_row(shape, row)
    assert [str(layer.activation) for layer in layers] == ["relu", "identity"]
    np.testing.assert_array_equal(row_of_layers(shape, [(layer.weight, layer.bias) for layer in layers]), row)
    linear = torch.nn.Linear(4, 8)
    assert layers[0].weight.shape == tuple(linear.weight.shape)
    bound = 1 / np.sqrt(4)  # PyTorch's Linear is uniform within ±1/√inputs
    assert np.abs(layers[0].weight).max() <= bound
    assert np.abs(layers[0].weight).max() > 0.8 * bound
    assert not np.array_equal(default_parameters(shape, 6), row)


def test_orthogonal_beginning() -> None:
    layers = layers_of_row(NetworkShape((6, 6, 3)), orthogonal_parameters(NetworkShape((6, 6, 3)), 1, 0.01))
    np.testing.assert_allclose(layers[0].weight @ layers[0].weight.T, 2 * np.eye(6), atol=1e-5)
    np.testing.assert_allclose(layers[1].weight @ layers[1].weight.T, 1e-4 * np.eye(3), atol=1e-8)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40), st.integers(1, 60_000))
@settings(max_examples=60, deadline=None)
def test_draws_on_the_device_are_those_of_the_streams(key: int, first: int, bound: int) -> None:
    keys = keys_on(CPU, [key, 7])
    drawn = draw_uniform(keys, torch.tensor(first), 5)
    wanted = [uniform(np.uint64(key), np.uint64(first + i)) for i in range(5)]
    np.testing.assert_array_equal(drawn[0].numpy(), wanted)
    whole = draw_integers(keys, torch.tensor(first), 50, torch.tensor(bound))
    assert whole.min() >= 0
    assert whole.max() < bound
    # The upper 32 bits scaled: at most one below what the longer number gives.
    assert abs(int(whole[0, 0]) - int(wanted[0] * bound)) <= 1


def test_integers_are_uniform() -> None:
    drawn = draw_integers(keys_on(CPU, [1, 2]), torch.tensor(0), 80_000, torch.tensor(10)).numpy()
    for row in drawn:
        counts = np.bincount(row, minlength=10)
        assert ((counts - 8000) ** 2 / 8000).sum() < 27.9  # the 0.1 % point of χ² with nine degrees of freedom
    assert abs(np.corrcoef(drawn[0], drawn[1])[0, 1]) < 0.02


def test_a_policy_explores_in_all_its_environments_or_in_none() -> None:
    keys = np.array([s.exploration for s in (PolicyStreams.of(seed, 8) for seed in range(4))], np.uint64)
    random_calls = np.zeros(4)
    chosen = np.zeros(5)
    for call in range(4000):
        actions = np.full((4, 8), -1, np.int64)
        explore(keys, call, 0.3, 5, False, actions)
        untouched = (actions == -1).sum(axis=1)
        assert set(untouched) <= {0, 8}
        random_calls += untouched == 0
        chosen += np.bincount(actions[actions >= 0], minlength=5)
    np.testing.assert_allclose(random_calls / 4000, 0.3, atol=0.03)
    np.testing.assert_allclose(chosen / chosen.sum(), 0.2, atol=0.01)
    explore(keys, 0, 0.0, 5, True, actions)
    assert (actions >= 0).all()


def test_streams_of_a_seed() -> None:
    assert PolicyStreams.of(3, 8) == PolicyStreams.of(3, 8)
    seen = [PolicyStreams.of(seed, 8, stage) for seed in range(20) for stage in (0, 1)]
    numbers = [n for s in seen for n in (s.network, s.exploration, s.sampling, *s.environments)]
    assert len(set(numbers)) == len(numbers)


def rows_of(record: np.ndarray, width: int) -> dict[str, np.ndarray]:
    tail = record[:, 2 * width :]
    return {
        "observation": record[:, :width].copy(),
        "next": record[:, width : 2 * width].copy(),
        "action": tail[:, ACTION].copy(),
        "reward": tail[:, REWARD].copy(),
        "terminated": tail[:, TERMINATED].copy(),
        "truncated": tail[:, TRUNCATED].copy(),
    }


def test_pacman_slots_play_the_same_games_as_the_environment() -> None:
    """Every transition of a slot is one of the Gymnasium environment with the same seed, until the episode's end."""
    small = EnvironmentSpec("legible/PacmanSmall-v0", {"step_cap": 40})
    medium = EnvironmentSpec("legible/PacmanMediumNC-v0")
    slots = make_training_slots([(small, 3), (medium, 2)], reward_scale=0.5)
    seeds = [11, 12, 13, 14, 15]
    slots.start(seeds)
    envs = [spec.make() for spec in (small, small, small, medium, medium)]
    last = [env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)]
    rng = np.random.default_rng(0)
    record = np.zeros((5, 2 * slots.width + 4), np.float32)
    over = [False] * 5
    ends = 0
    total = np.zeros(5)
    for _ in range(60):
        actions = rng.integers(0, 5, 5)
        slots.step(actions, record)
        row = rows_of(record, slots.width)
        for i, env in enumerate(envs):
            if over[i]:
                continue
            observation, reward, terminated, truncated, _ = env.step(actions[i])
            np.testing.assert_array_equal(row["observation"][i], last[i])
            np.testing.assert_array_equal(row["next"][i], observation)
            assert row["action"][i] == actions[i]
            assert row["reward"][i] == 0.5 * reward
            assert (row["terminated"][i], row["truncated"][i]) == (terminated, truncated)
            last[i] = observation
            total[i] += reward
            over[i] = terminated or truncated
            if over[i]:
                ends += 1
                fresh, _ = env.reset()  # the environment's stream moves on as the slot's does
                np.testing.assert_array_equal(slots.observations[i], fresh)
        if all(over):
            break
    assert ends >= 3
    counts = slots.take_counts()
    assert (counts.episodes >= np.array(over)).all()
    assert slots.take_counts().episodes.sum() == 0


@pytest.mark.slow
@pytest.mark.parametrize("names", [("Small",), ("Small", "SmallNC", "Medium")])
def test_threads_change_nothing(names: tuple[str, ...]) -> None:
    specs = [(EnvironmentSpec(f"legible/Pacman{name}-v0"), 12) for name in names]
    n = 12 * len(names)
    actions = np.random.default_rng(0).integers(0, 5, (300, n))
    seen = []
    for threads in (1, 2):
        slots = make_training_slots(specs, threads=threads)
        assert len(slots._arguments) == (1 if threads == 1 else 13)  # the one function, or the other
        slots.start(list(range(n)))
        records = np.zeros((300, n, 2 * slots.width + 4), np.float32)
        for row, record in zip(actions, records, strict=True):
            slots.step(row, record)
        seen.append((records, slots.state(), slots.take_counts()))
    np.testing.assert_equal(seen[1], seen[0])
    assert seen[0][2].episodes.sum() > n


def test_any_gymnasium_environment_as_slots() -> None:
    slots = make_training_slots([(EnvironmentSpec("clue_env:Clue"), 2), (EnvironmentSpec("clue_env:Clue"), 1)])
    assert isinstance(slots, EnvironmentSlots)
    assert (slots.n, slots.width, slots.n_actions) == (3, 3, 3)
    slots.start([5, 6, 5])
    np.testing.assert_array_equal(slots.observations[0], slots.observations[2])  # one seed, one episode
    record = np.zeros((3, 10), np.float32)
    for step in range(1, 13):
        right = slots.observations.argmax(axis=1)
        before = slots.observations.copy()
        slots.step(right, record)
        row = rows_of(record, 3)
        np.testing.assert_array_equal(row["observation"], before)
        assert (row["reward"] == 1).all()
        assert (row["terminated"] == 0).all()
        assert (row["truncated"] == (step % 6 == 0)).all()
        if step % 6:
            np.testing.assert_array_equal(row["next"], slots.observations)
    counts = slots.take_counts()
    assert counts.episodes.tolist() == [2, 2, 2]
    assert counts.returns.tolist() == [12.0, 12.0, 12.0]
    assert slots.state() is None
    slots.close()


def test_threads_step_native_batches_to_the_same_records():
    environments = [(EnvironmentSpec("legible/PacmanSmall-v0"), 6), (EnvironmentSpec("legible/PacmanSmallNC-v0"), 5)]
    rng = np.random.default_rng(0)
    actions = rng.integers(5, size=(300, 11))
    records = []
    for threads in (1, 3):
        slots = EnvironmentSlots(environments, threads=threads)
        slots.start(range(11))
        steps = np.zeros((300, 11, 2 * slots.width + RECORD_TAIL), np.float32)
        for row, record in zip(actions, steps, strict=True):
            slots.step(row, record)
        slots.close()
        records.append(steps)
    assert records[0][:, :, -2].any(), "some episodes should have ended"
    assert np.array_equal(*records)
