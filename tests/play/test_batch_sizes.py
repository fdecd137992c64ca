"""Other sizes of batches that give the same bits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from gymnasium import spaces

from legible.play import AdaptedPolicy
from legible.play.batch_sizes import cut_rows, equal_sizes
from legible.policies import Layer, NetworkPolicy, Plain, load_policy


def random_network(n_features: int, width: int, n_actions: int, seed: int = 0) -> NetworkPolicy:
    rng = np.random.default_rng(seed)
    sizes = (n_features, width, n_actions)
    layers = tuple(
        Layer(rng.standard_normal((after, before)), rng.standard_normal(after)) for before, after in pairwise(sizes)
    )
    return NetworkPolicy(layers, "values", Plain(n_features))


class Recording(NetworkPolicy):
    """A network whose batches are written down."""

    def scores(self, observations):
        self.__dict__.setdefault("seen", []).append(len(observations))
        return super().scores(observations)


@pytest.mark.parametrize(("n_features", "width", "n_actions"), [(3, 8, 2), (69, 256, 5), (117, 64, 9)])
def test_every_size_gives_the_bits_of_the_full_batch(n_features: int, width: int, n_actions: int) -> None:
    network = random_network(n_features, width, n_actions)
    sizes = equal_sizes(network, 128, "scores")
    shown = np.random.default_rng(1).random((1280, n_features), np.float32)
    whole = np.concatenate([network.scores(shown[i : i + 128]) for i in range(0, 1280, 128)])

    assert 128 in sizes
    assert list(sizes) == sorted(set(sizes))
    for n in (1, 5, 16, 40, 70, 127, 128, 129, 300, 700, 1280):
        assert AdaptedPolicy(network, rows=128).scores(shown[:n]).tobytes() == whole[:n].tobytes()


def test_few_rows_are_not_filled_up_to_a_full_batch_where_small_batches_give_the_same_bits() -> None:
    plain = random_network(6, 16, 3)
    network = Recording(plain.layers, plain.kind, plain.encoding)
    sizes = equal_sizes(network, 128, "scores")
    network.__dict__["seen"].clear()

    AdaptedPolicy(network, rows=128).scores(np.zeros((3, 6), np.float32))

    assert network.__dict__["seen"] == [sizes[0]]


def test_many_rows_are_asked_about_in_few_batches() -> None:
    plain = random_network(6, 16, 3)
    network = Recording(plain.layers, plain.kind, plain.encoding)
    sizes = equal_sizes(network, 128, "scores")
    network.__dict__["seen"].clear()

    AdaptedPolicy(network, rows=128).scores(np.zeros((700, 6), np.float32))

    assert network.__dict__["seen"] == [size for _, size, _ in cut_rows(700, sizes)]
    assert sum(network.__dict__["seen"]) < 700 + 128


def test_a_network_that_depends_on_the_size_of_its_batch_gets_full_batches_only() -> None:
    class Shifting(NetworkPolicy):
        def scores(self, observations):
            return super().scores(observations) + np.float32(len(observations))

    plain = random_network(6, 16, 3)
    network = Shifting(plain.layers, plain.kind, plain.encoding)

    assert equal_sizes(network, 128, "scores") == (128,)


def test_a_network_whose_output_hides_differences_gets_full_batches_only() -> None:
    constant = NetworkPolicy((Layer(np.zeros((2, 4)), np.ones(2)),), "values", Plain(4))

    assert equal_sizes(constant, 128, "scores") == (128,)


def test_policies_of_others_are_not_asked_about_random_observations() -> None:
    asked: list[int] = []

    def scores(observations):
        asked.append(len(observations))
        return np.zeros((len(observations), 2))

    policy = load_policy(scores, output="values", n_features=2, n_actions=2)

    assert equal_sizes(policy, 128, "scores") == (128,)
    assert asked == []
    AdaptedPolicy(policy, rows=128).scores(np.zeros((3, 2), np.float32))
    assert asked == [128]
    assert isinstance(policy.observation_space, spaces.Space | None)
