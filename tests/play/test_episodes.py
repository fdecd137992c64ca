"""Episodes: against a plain loop, slot by slot, bit by bit."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import fields
from types import NoneType
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from legible.environments import EnvironmentSpec, UnfitEnvironmentError
from legible.errors import LegibleError
from legible.play import (
    BatchSlots,
    Episodes,
    PolicyChooser,
    SingleSlots,
    StepRecord,
    episode_seeds,
    make_slots,
    play_episodes,
)
from legible.play.episodes import MissingCostError
from legible.policies import Policy, load_policy
from play.playing import network, play
from toy_environments import Constant, Faulty, Noisy, Rowwise, Scripted, Shifted

SMALL = "legible/PacmanSmall-v0"
TAXI = next(name for name in gymnasium.registry if name.startswith("Taxi-"))
MAKERS: dict[str, tuple[Callable[[], gymnasium.Env], int, int]] = {
    "Scripted": (Scripted, 2, 2),
    "Noisy": (Noisy, 3, 4),
    "Shifted": (Shifted, 1, 4),
    "CartPole": (EnvironmentSpec("CartPole-v1").make, 4, 2),
    "FrozenLake": (EnvironmentSpec("FrozenLake-v1").make, 1, 4),
    "Taxi": (EnvironmentSpec(TAXI).make, 1, 6),
    "Pacman": (EnvironmentSpec(SMALL).make, 69, 5),
}


def assert_same(one: Any, other: Any) -> None:
    """Two dataclasses of arrays are equal to the bit."""
    for column in fields(one):
        first, second = getattr(one, column.name), getattr(other, column.name)
        assert first.dtype == second.dtype, column.name
        np.testing.assert_array_equal(first, second, err_msg=column.name)


def assert_same_steps(one: list[StepRecord], other: list[StepRecord], *, idle: bool = True) -> None:
    """Two recordings are equal to the bit; without `idle`, in the rows that played."""
    assert len(one) == len(other)
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first.episodes, second.episodes)
        rows = np.ones(len(first.episodes), bool) if idle else first.episodes >= 0
        assert first.masks is second.masks is None
        assert first.rows is second.rows is None
        for column in fields(first):
            if column.name not in {"masks", "rows"}:
                np.testing.assert_array_equal(getattr(first, column.name)[rows], getattr(second, column.name)[rows])


def play_plainly(env: gymnasium.Env, policy: Policy, seed: int) -> tuple[float, int, bool, float]:
    """One episode as the documentation of Gymnasium plays it."""
    observation, info = env.reset(seed=seed)
    total, steps, over = 0.0, 0, False
    while not over:
        row = np.ravel(observation).astype(np.float32)[None]
        action = int(np.argmax(policy.scores(row)[0])) + int(env.action_space.start)
        observation, reward, terminated, truncated, info = env.step(action)
        total, steps, over = total + float(reward), steps + 1, terminated or truncated
    return total, steps, truncated and not terminated, float(info.get("is_success", np.nan))


# Whole episodes


@pytest.mark.parametrize("name", MAKERS)
def test_episodes_are_those_of_a_plain_loop(name: str) -> None:
    make, width, n_actions = MAKERS[name]
    policy = Rowwise(width, n_actions, seed=5)
    seeds = [1000 * i + 7 for i in range(9)]
    slots = SingleSlots([make() for _ in range(4)])
    played, _ = play(slots, policy, seeds)
    expected = [play_plainly(make(), policy, seed) for seed in seeds]
    np.testing.assert_array_equal(played.seeds, seeds)
    for i, column in enumerate((played.returns, played.lengths, played.truncated, played.success)):
        np.testing.assert_array_equal(column, [episode[i] for episode in expected])
    assert len(played) == 9


def test_truncated_and_finished_episodes_differ() -> None:
    for ends in ("terminated", "truncated"):
        played, _ = play(SingleSlots([Scripted(ends=ends)]), Constant(0, 1), [1003, 2])
        assert played.truncated.tolist() == [ends == "truncated"] * 2
        assert played.returns.tolist() == [6.0, 3.0]
        expected = [1.0, 0.0] if ends == "terminated" else [np.nan, np.nan]
        np.testing.assert_array_equal(played.success, expected)


# Which slot plays which episode


def schedule(lengths: Sequence[int], n: int) -> list[list[int]]:
    """For every step the episode of every slot: free slots take the next episode, lowest slot first."""
    waiting = list(range(len(lengths)))
    playing, left = [-1] * n, [0] * n
    trace = []
    while True:
        for slot in range(n):
            if left[slot] == 0:
                playing[slot] = waiting.pop(0) if waiting else -1
                left[slot] = lengths[playing[slot]] if playing[slot] >= 0 else 0
        if max(playing) < 0:
            return trace
        trace.append(list(playing))
        left = [max(steps - 1, 0) for steps in left]


def test_a_free_slot_takes_the_next_episode() -> None:
    ended: list[int] = []
    played, steps = play(
        SingleSlots([Scripted(), Scripted()]), Constant(0, 1), [3, 1, 2, 101, 201, 4], on_episode=ended.append
    )
    expected = [[0, 1], [0, 2], [0, 2], [3, 4], [5, -1], [5, -1], [5, -1], [5, -1]]
    assert [step.episodes.tolist() for step in steps] == expected
    taken = [[0, 0], [1, 0], [2, 1], [0, 0], [0, 0], [1, 0], [2, 0], [3, 0]]
    assert [step.steps.tolist() for step in steps] == taken
    assert ended == [1, 2, 2, 1]
    assert played.lengths.tolist() == [3, 1, 2, 1, 1, 4]
    assert schedule([3, 1, 2, 1, 1, 4], 2) == expected


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=15), st.integers(1, 5))
def test_the_order_follows_from_the_list_alone(lengths: list[int], n: int) -> None:
    ended: list[int] = []
    seeds = [100 * i + length for i, length in enumerate(lengths)]
    slots = SingleSlots([Scripted() for _ in range(n)])
    played, steps = play(slots, Constant(0, 1), seeds, on_episode=ended.append)
    assert [step.episodes.tolist() for step in steps] == schedule(lengths, n)
    assert played.lengths.tolist() == lengths
    assert played.returns.tolist() == [length * (length + 1) / 2 for length in lengths]
    assert sum(ended) == len(lengths)
    assert all(ended)
    for step in steps:
        busy = step.episodes >= 0
        # The observation before the step, and its reward.
        np.testing.assert_array_equal(step.observations[busy, 0], np.array(seeds)[step.episodes[busy]])
        np.testing.assert_array_equal(step.observations[busy, 1], step.steps[busy])
        np.testing.assert_array_equal(step.rewards[busy], step.steps[busy] + 1)


def test_resting_slots_show_the_policy_an_observation_that_exists() -> None:
    """A policy may refuse or divide by what is no observation, such as zero here."""

    def only_real(observations: np.ndarray) -> np.ndarray:
        assert set(observations[:, 0].tolist()) <= {3.0, 4.0, 5.0}
        return np.tile(1 / observations, (1, 4))

    policy = load_policy(only_real, output="values", n_features=1, n_actions=4)
    played, _ = play(SingleSlots([Shifted() for _ in range(3)]), policy, [8])
    assert played.lengths.tolist() == [4]


def test_slots_can_be_used_again() -> None:
    policy = Rowwise(69, 5)
    slots = make_slots(EnvironmentSpec(SMALL), 6)
    first, first_steps = play(slots, policy, [5, 6, 7, 8, 9, 10, 11, 12], epsilon=0.3)
    play(slots, policy, [90, 91])
    again, again_steps = play(slots, policy, [5, 6, 7, 8, 9, 10, 11, 12], epsilon=0.3)
    assert_same(first, again)
    assert_same_steps(first_steps, again_steps, idle=False)


# The same bits


@pytest.mark.parametrize("name", [SMALL, "CartPole-v1", "toy_environments:Noisy"])
def test_the_same_list_gives_the_same_bits(name: str) -> None:
    width, n_actions = {SMALL: (69, 5), "CartPole-v1": (4, 2)}.get(name, (3, 4))
    policy = network(width, n_actions)
    seeds = episode_seeds(3, 10, 20)
    runs = [play(make_slots(name, 8), policy, seeds, epsilon=0.2) for _ in range(2)]
    assert_same(runs[0][0], runs[1][0])
    assert_same_steps(runs[0][1], runs[1][1])
    assert len(set(runs[0][0].returns.tolist())) > 5


@pytest.mark.parametrize("kind", ["values", "log-probabilities"])
@pytest.mark.parametrize("name", ["toy_environments:Noisy", SMALL])
def test_an_episode_depends_on_its_seed_alone(name: str, kind: str) -> None:
    """Not on the number of slots, the order of the list, or the neighbours."""
    policy = Rowwise(69 if name == SMALL else 3, 5 if name == SMALL else 4, kind=kind)
    exploration = {"epsilon": 0.1, "sample": kind != "values"}
    seeds = np.array(episode_seeds(1, 0, 24))
    reference, _ = play(make_slots(name, 24), policy, seeds.tolist(), **exploration)
    rng = np.random.default_rng(0)
    for n in (1, 3, 7):
        order = rng.permutation(len(seeds))
        played, _ = play(make_slots(name, n), policy, seeds[order].tolist(), **exploration)
        for column in fields(Episodes):
            np.testing.assert_array_equal(getattr(played, column.name), getattr(reference, column.name)[order])
    assert len(np.unique(reference.returns)) > 10


# Native batches


@pytest.mark.parametrize(("n", "episodes", "epsilon"), [(16, 50, 0.3), (5, 12, 0.0), (8, 3, 1.0), (1, 3, 0.5)])
def test_a_batch_of_pacman_games_plays_as_single_ones_do(n: int, episodes: int, epsilon: float) -> None:
    policy, seeds = Rowwise(69, 5, seed=2), episode_seeds(4, 0, episodes)
    batch = make_slots(EnvironmentSpec(SMALL), n)
    single = make_slots(EnvironmentSpec("legible_envs.pacman:PacmanEnv", {"maze": "small", "step_cap": 400}), n)
    assert isinstance(batch, BatchSlots)
    assert isinstance(single, SingleSlots)
    ours, our_steps = play(batch, policy, seeds, epsilon=epsilon)
    theirs, their_steps = play(single, policy, seeds, epsilon=epsilon)
    assert_same(ours, theirs)
    assert_same_steps(our_steps, their_steps, idle=False)
    assert np.isfinite(ours.success).all()


def test_a_cut_off_batch_goes_on_with_the_next_episode() -> None:
    policy, seeds = Rowwise(69, 5, seed=2), list(range(20))
    ours, our_steps = play(make_slots(SMALL, 6), policy, seeds, step_limit=4, epsilon=0.5)
    singles = make_slots("legible_envs.pacman:PacmanEnv", 6)
    theirs, their_steps = play(singles, policy, seeds, step_limit=4, epsilon=0.5)
    assert_same(ours, theirs)
    assert_same_steps(our_steps, their_steps, idle=False)
    assert ours.lengths.max() == 4
    assert ours.truncated.any()


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("name", ["Noisy", "Shifted", "Scripted", "FrozenLake"])
def test_any_vector_environment_that_can_be_reset_by_parts_fits(name: str, copy: bool) -> None:
    make, width, n_actions = MAKERS[name]
    policy, seeds = Rowwise(width, n_actions, seed=1), [100 * i + 1 + i % 5 for i in range(17)]
    envs = SyncVectorEnv([make] * 4, copy=copy, autoreset_mode=AutoresetMode.DISABLED)
    slots = BatchSlots(envs)
    ours, our_steps = play(slots, policy, seeds, epsilon=0.4)
    theirs, their_steps = play(SingleSlots([make() for _ in range(4)]), policy, seeds, epsilon=0.4)
    assert_same(ours, theirs)
    assert_same_steps(our_steps, their_steps, idle=False)
    slots.close()
    assert envs.closed


# Failures


@pytest.mark.parametrize(
    ("fault", "words", "cause"),
    [
        *(
            (reward, rf"reward {reward} in step 2 of the episode with seed 603; rewards must be finite", NoneType)
            for reward in ("nan", "inf", "-inf")
        ),
        ("step", r"seed 603, step\(\) of the environment raised ZeroDivisionError", ZeroDivisionError),
        ("reset", r"seed 603, reset\(\) of the environment raised RuntimeError", RuntimeError),
        ("four", r"step\(\) returned 4 values", NoneType),
        ("wide", "its observation_space holds 2 numbers", ValueError),
    ],
)
def test_an_environment_that_fails_is_quoted(fault: str, words: str, cause: type) -> None:
    slots = SingleSlots([Faulty(fault) for _ in range(2)])
    with pytest.raises(UnfitEnvironmentError, match=words) as failure:
        play(slots, Constant(0, 1), [1, 102, 203, 603, 5])
    assert isinstance(failure.value.__cause__, cause)


def test_an_episode_that_ends_with_the_limit_is_not_cut_off() -> None:
    played, _ = play(SingleSlots([Scripted()]), Constant(0, 1), [3, 2, 4], step_limit=3)
    assert played.truncated.tolist() == [False, False, True]
    assert played.lengths.tolist() == [3, 2, 3]


@pytest.mark.parametrize("limit", [0, -5])
def test_the_limit_must_leave_a_step(limit: int, raises_saved) -> None:
    with raises_saved(LegibleError):
        play(SingleSlots([Scripted()]), Constant(0, 1), [3], step_limit=limit)


@pytest.mark.parametrize("seed", [-1, 1.5, "3", True, 2**63])
def test_wrong_seeds_are_refused_before_anything_is_played(seed: object) -> None:
    env = Scripted()
    with pytest.raises(LegibleError, match="seed"):
        play_episodes(SingleSlots([env]), PolicyChooser(Constant(0, 1), [3]), [3, seed])
    assert not env.seeds_seen


# Records of steps


def test_records_are_the_listener_s_own() -> None:
    """Nothing that happens later changes them, even if the policy's scores are a view of the observations."""
    policy = load_policy(lambda observations: observations, output="values", n_features=2, n_actions=2)
    _, steps = play(SingleSlots([Scripted(), Scripted()]), policy, [4, 103, 205])
    for step in steps:
        np.testing.assert_array_equal(step.scores, step.observations)
        busy = step.episodes >= 0
        np.testing.assert_array_equal(step.observations[busy, 1], step.steps[busy])


def test_a_policy_that_overwrites_its_input_changes_no_record() -> None:
    class Careless(Constant):
        def scores(self, observations: np.ndarray) -> np.ndarray:
            scores = super().scores(observations)
            observations[:] = -1
            return scores

    _, steps = play(make_slots("toy/Scripted-v0", 2), Careless(0, 1), [4, 3])
    assert all((step.observations >= 0).all() for step in steps)


# Costs


class Charging(Scripted):
    """Every second step costs as much as it is worth."""

    def step(self, action: Any) -> Any:
        *outcome, info = super().step(action)
        return *outcome, info | ({"toll": float(self.steps)} if self.steps % 2 == 0 else {})


def test_costs_add_up_where_they_are_asked_for(raises_saved) -> None:
    seeds = [4, 3, 2]
    played, _ = play(SingleSlots([Charging(), Charging()], "toll"), Constant(0, 1), seeds)
    assert played.costs.tolist() == [6, 2, 2]
    played, _ = play(SingleSlots([Charging()]), Constant(0, 1), seeds)
    assert played.costs.tolist() == [0, 0, 0]
    with raises_saved(MissingCostError):
        play(SingleSlots([Charging()], "price"), Constant(0, 1), seeds)


# Threads


@pytest.mark.parametrize("fault", [None, "step"])
def test_torch_gets_its_threads_back(fault: str | None) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    torch.set_num_threads(2)
    try:
        slots = SingleSlots([Faulty(fault) if fault else Scripted()])
        chooser = PolicyChooser(Constant(0, 1), [603])
        with pytest.raises(UnfitEnvironmentError) if fault else nullcontext():
            play_episodes(slots, chooser, [603], on_step=lambda _: seen.append(torch.get_num_threads()))
        assert set(seen) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# Seeds of episodes


@settings(deadline=None)  # the first call may have to compile
@given(st.integers(0, 2**70), st.integers(0, 2**30 - 200), st.integers(0, 100), st.integers(0, 100))
def test_blocks_of_episodes_never_share_a_seed(seed: int, first: int, one: int, other: int) -> None:
    block, following = episode_seeds(seed, first, one), episode_seeds(seed, first + one, other)
    assert block + following == episode_seeds(seed, first, one + other)
    assert len(set(block + following)) == one + other
    assert all(0 <= number < 2**31 for number in block + following)


def test_another_study_has_other_episodes() -> None:
    assert episode_seeds(1, 0, 10) != episode_seeds(2, 0, 10)
    starts = [episode_seeds(seed, 0, 1)[0] for seed in range(1000)]
    assert stats.kstest(np.array(starts) / 2**30, "uniform").pvalue > 1e-3


def test_seeds_stay_what_they_are() -> None:
    """Results that people keep depend on these numbers."""
    assert episode_seeds(0, 0, 2) == [991808943, 991808944]
    assert episode_seeds(1, 5, 2) == episode_seeds(2**64 + 1, 5, 2) == [151149766, 151149767]


@pytest.mark.parametrize(("first", "count"), [(-1, 5), (0, -1), (2**30, 1), (0, 2**30 + 1)])
def test_episodes_outside_the_range_are_refused(first: int, count: int) -> None:
    with pytest.raises(LegibleError, match=f"episodes {first} … {first + count} lie outside"):
        episode_seeds(0, first, count)
