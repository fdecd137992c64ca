"""Returns of policies of every kind are those that Stable-Baselines3's own ``evaluate_policy`` gives."""

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.evaluation import evaluate_policy as evaluate_by_sb3
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.play import Recorder, evaluate_policy, play_policy, replay
from legible.policies import load_policy
from play import spaces_environments
from play.spaces_environments import make_model

SEEDS = [3, 1, 4, 15, 9]
HERE = spaces_environments.__name__
CASES = [
    ("DQN", "CartPole-v1", {}),
    ("DQN", f"{HERE}:Picture", {}),
    ("PPO", f"{HERE}:Walk", {}),
    ("PPO", f"{HERE}:Buttons", {}),
    ("PPO", f"{HERE}:Matrix", {}),
    ("SAC", "Pendulum-v1", {}),
    ("TD3", f"{HERE}:Matrix", {}),
    ("SAC", f"{HERE}:Goal", {"replay_buffer_class": HerReplayBuffer}),
    ("RecurrentPPO", "CartPole-v1", {}),
    ("MaskablePPO", f"{HERE}:Masked", {}),
    ("MaskablePPO", f"{HERE}:MaskedParts", {}),
]


def sb3_returns(model, name, seeds):
    """Ask Stable-Baselines3, one seed at a time: it only seeds the first episode."""
    evaluate = evaluate_masked if "Masked" in name else evaluate_by_sb3
    env = DummyVecEnv([lambda: Monitor(EnvironmentSpec(name).make())])
    found = []
    for seed in seeds:
        env.seed(seed)
        returns, _ = evaluate(model, env, n_eval_episodes=1, return_episode_rewards=True)
        found += returns
    return found


@pytest.mark.parametrize(("algorithm", "name", "settings"), CASES, ids=lambda case: str(case).rpartition(":")[2])
def test_returns_are_those_of_stable_baselines3(algorithm, name, settings, tmp_path) -> None:
    model = make_model(algorithm, EnvironmentSpec(name).make(), **settings)
    model.save(tmp_path / "model.zip")
    expected = sb3_returns(model, name, SEEDS)
    assert len(set(expected)) > 1
    for policy in (load_policy(tmp_path / "model.zip"), load_policy(model)):
        found = evaluate_policy(policy, name, SEEDS, slots=1)
        # Stable-Baselines3's networks and ours may differ in the last bits, and a Monitor rounds to six digits.
        assert found.episodes.returns == pytest.approx(expected, rel=1e-4)
        assert found.mean == pytest.approx(np.mean(expected), rel=1e-4)
        assert found.error == pytest.approx(np.std(expected, ddof=1) / np.sqrt(5), rel=1e-3)
        side_by_side = play_policy(policy, name, SEEDS, slots=3)
        np.testing.assert_allclose(side_by_side.returns, expected, rtol=1e-4)


@pytest.mark.parametrize(("algorithm", "name"), [("RecurrentPPO", "CartPole-v1"), ("SAC", f"{HERE}:Matrix")])
def test_drawn_actions_belong_to_the_episode(algorithm, name, tmp_path) -> None:
    model = make_model(algorithm, EnvironmentSpec(name).make())
    model.save(tmp_path / "model.zip")
    for policy in (load_policy(tmp_path / "model.zip"), load_policy(model)):
        forth = play_policy(policy, name, SEEDS, deterministic=False)
        back = play_policy(policy, name, SEEDS[::-1], deterministic=False)
        assert forth.returns.tolist() == back.returns[::-1].tolist()
        assert forth.returns.tolist() != play_policy(policy, name, SEEDS).returns.tolist()


def test_masks_hold_for_policies_that_were_trained_without(tmp_path) -> None:
    name = f"{HERE}:Masked"  # whose step is an error for any action that is not allowed
    for algorithm in ("DQN", "PPO"):
        policy = load_policy(make_model(algorithm, EnvironmentSpec(name).make()))
        for deterministic in (True, False):
            assert len(play_policy(policy, name, range(20), deterministic=deterministic)) == 20
    model = make_model("A2C", EnvironmentSpec(f"{HERE}:MaskedParts").make())
    model.save(tmp_path / "model.zip")
    for policy in (load_policy(tmp_path / "model.zip"), load_policy(model)):
        with pytest.raises(LegibleError, match=r"trained with(out)? masks"):
            play_policy(policy, f"{HERE}:MaskedParts", SEEDS)


def test_rules_that_block_all_that_is_allowed_leave_what_is_allowed() -> None:
    env = spaces_environments.Masked()
    env.reset(seed=0)
    nothing = load_policy(lambda rows: np.full((len(rows), 4), -np.inf), output="values", n_features=3, n_actions=4)
    assert len(play_policy(nothing, f"{HERE}:Masked", range(10))) == 10


@pytest.mark.parametrize("name", ["Goal", "Matrix", "MaskedParts", "Numbers", "Picture"])
def test_records_hold_what_the_spaces_say_and_replay(name, tmp_path) -> None:
    made = getattr(spaces_environments, name)()
    recorder = Recorder()
    if name == "Numbers":
        policy = load_policy(lambda rows: rows @ np.ones((2, 3)) * [1, -1, 0.5], output="values", n_features=2)
    else:
        algorithm = {"Picture": "DQN", "MaskedParts": "MaskablePPO"}.get(name, "SAC")
        make_model(algorithm, made).save(tmp_path / "model.zip")
        policy = load_policy(tmp_path / "model.zip")
    played = play_policy(policy, f"{HERE}:{name}", SEEDS, slots=2, on_step=recorder)
    recordings = recorder.recordings(SEEDS)
    assert [recording.seed for recording in recordings] == SEEDS
    for recording, earned in zip(recordings, played.returns, strict=True):
        assert recording.rewards.sum() == pytest.approx(earned)
        rewards = [reward for _, reward in replay(made, recording)]
        assert rewards[1:] == recording.rewards.tolist()
        assert recording.actions.shape == (12, *made.action_space.shape)
    first = recordings[0]
    made.reset(seed=SEEDS[0])
    if name == "Goal":
        assert first.observations["achieved_goal"].dtype == np.float64
        np.testing.assert_array_equal(first.observations["achieved_goal"][0], made.place)
    elif name != "Numbers":  # those play as in studies: rows of float32
        assert first.observations.dtype == made.observation_space.dtype
        np.testing.assert_array_equal(first.observations[0], made.seen())
    if name == "MaskedParts":
        np.testing.assert_array_equal(first.masks[0], made.action_masks())
    else:
        assert first.masks is None


def test_one_environment_is_used_as_it_is() -> None:
    env = gym.make("Pendulum-v1")
    policy = load_policy(make_model("SAC", env))
    by_name = evaluate_policy(policy, "Pendulum-v1", SEEDS, slots=1)
    assert evaluate_policy(policy, env, SEEDS).episodes.returns.tolist() == by_name.episodes.returns.tolist()
    assert "±" in str(by_name)


@pytest.mark.parametrize(
    ("algorithm", "made_for", "name", "said"),
    [
        ("SAC", "Matrix", "Goal", "the environment shows Dict"),
        ("PPO", "Walk", "Buttons", "the environment's MultiBinary"),
        ("PPO", "Walk", "Words", "observations are a Text space; policies read Box, Discrete"),
        ("PPO", "Walk", "Graphs", "observations are a Graph space"),
        ("PPO", "Walk", "Pair", "observations are a Tuple space"),
        ("PPO", "Walk", "Lists", "actions are a Sequence space; policies act in Discrete"),
        ("SAC", "Goal", "Matrix", "do not belong together"),
        ("DQN", "Picture", "Masked", "reads 3888 features, but the environment shows 3"),
    ],
)
def test_what_does_not_belong_together_is_refused_in_one_line(algorithm, made_for, name, said) -> None:
    policy = load_policy(make_model(algorithm, getattr(spaces_environments, made_for)()))
    with pytest.raises(LegibleError, match=said) as refused:
        play_policy(policy, f"{HERE}:{name}", SEEDS)
    assert "\n" not in str(refused.value)


def test_a_mean_needs_a_seed() -> None:
    policy = load_policy(lambda rows: rows[:, :2], output="values", n_features=4)
    with pytest.raises(LegibleError, match="at least one seed"):
        evaluate_policy(policy, "CartPole-v1", [])
    assert np.isnan(evaluate_policy(policy, "CartPole-v1", [0]).error)
