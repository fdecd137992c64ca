"""Recordings: all episodes of a list, or some, step by step; and the environment again by their actions."""

from dataclasses import replace

import numpy as np
import pytest

from legible.environments import EnvironmentSpec
from legible.play import PolicyChooser, Recorder, make_slots, play_episodes, replay
from play.playing import network, play
from toy_environments import Constant, Rowwise, Scripted

SEEDS = [3, 104, 5, 6, 7]


def recorded(name: str, policy, recorder: Recorder, seeds: list[int] = SEEDS):
    played = play_episodes(make_slots(name, 2), PolicyChooser(policy, seeds, epsilon=0.3), seeds, on_step=recorder)
    return played, recorder.recordings(seeds)


def test_a_recording_holds_the_rows_of_its_episode() -> None:
    policy = Rowwise(3, 4)
    played, recordings = recorded("toy_environments:Noisy", policy, Recorder())
    _, steps = play(make_slots("toy_environments:Noisy", 2), policy, SEEDS, epsilon=0.3)
    assert [recording.seed for recording in recordings] == SEEDS
    for number, recording in enumerate(recordings):
        rows = [(step, row) for step in steps for row in np.flatnonzero(step.episodes == number)]
        np.testing.assert_array_equal(recording.observations, [step.observations[row] for step, row in rows])
        assert recording.actions.tolist() == [step.actions[row] for step, row in rows]
        assert recording.wanted.tolist() == [step.scores[row].argmax() for step, row in rows]
        assert recording.rewards.tolist() == [step.rewards[row] for step, row in rows]
        assert len(recording.actions) == played.lengths[number]
        assert recording.actions.dtype == recording.wanted.dtype == np.int64


def test_some_episodes_are_those_of_all() -> None:
    _, everything = recorded("toy_environments:Noisy", Rowwise(3, 4), Recorder())
    _, some = recorded("toy_environments:Noisy", Rowwise(3, 4), Recorder([4, 1]))
    assert [recording.seed for recording in some] == [104, 7]
    for recording, same in zip(some, [everything[1], everything[4]], strict=True):
        np.testing.assert_array_equal(recording.observations, same.observations)
        np.testing.assert_array_equal(recording.actions, same.actions)
        np.testing.assert_array_equal(recording.rewards, same.rewards)


def test_nothing_played_is_nothing_recorded() -> None:
    assert recorded("toy_environments:Noisy", Rowwise(3, 4), Recorder(), [])[1] == []


@pytest.mark.parametrize("name", ["toy_environments:Noisy", "toy_environments:Shifted", "CartPole-v1"])
def test_a_replay_goes_the_recorded_way(name: str) -> None:
    spec = EnvironmentSpec(name)
    env = spec.make()
    width, n_actions = {"CartPole-v1": (4, 2), "toy_environments:Noisy": (3, 4)}.get(name, (1, 4))
    _, recordings = recorded(name, network(width, n_actions), Recorder([2]))
    seen = list(replay(env, recordings[0]))
    assert seen[0][1] == 0.0
    assert [reward for _, reward in seen[1:]] == recordings[0].rewards.tolist()
    np.testing.assert_array_equal(
        np.array([np.ravel(observation) for observation, _ in seen[:-1]], np.float32), recordings[0].observations
    )


def test_a_replay_ends_where_the_environment_does() -> None:
    _, recordings = recorded("toy/Scripted-v0", Constant(0, 1), Recorder([1]))
    assert len(recordings[0].actions) == 4  # the last digits of a seed are the length of its episode: 104
    assert len(list(replay(Scripted(), replace(recordings[0], seed=3)))) == 1 + 3
