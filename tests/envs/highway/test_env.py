"""The driving environments as Gymnasium sees them."""

import gymnasium
import numba
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import legible
from legible.environments import EnvironmentSpec
from legible.play import make_slots, play_episodes
from legible_envs.highway.env import HighwayEnv, HighwayVectorEnv
from legible_envs.highway.settings import HighwayError

IDS = [f"legible/{name}-v0" for name in ("Highway", "HighwayFast", "Merge", "Intersection", "Roundabout")]
SCENARIOS = ["highway", "highway-fast", "merge", "intersection", "roundabout"]


def drive(env, seed, actions):
    """Play one episode with given actions and return everything that was seen."""
    observation, _ = env.reset(seed=seed)
    seen = [(observation, 0.0, False, False)]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(int(action))
        seen.append((observation, reward, terminated, truncated))
        if terminated or truncated:
            break
    return seen


def actions_for(env_or_envs, n, seed=0):
    space = getattr(env_or_envs, "single_action_space", env_or_envs.action_space)
    return np.random.default_rng(seed).integers(space.n, size=n)


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.filterwarnings("ignore:.*human.*:UserWarning")
def test_gymnasium_finds_nothing_wrong(env_id):
    check_env(gymnasium.make(env_id).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_episode_is_a_function_of_its_seed_whatever_the_batch(scenario):
    single = HighwayEnv(scenario)
    batch = HighwayVectorEnv(5, scenario, autoreset_mode="Disabled")
    actions = actions_for(single, 30)
    alone = drive(single, 12, actions)
    # Row 3 has the same seed; its neighbours have others and do other things.
    others = np.random.default_rng(1).integers(single.action_space.n, size=(30, 5))
    observations, _ = batch.reset(seed=[1, 2, 3, 12, 5])
    assert np.array_equal(observations[3], alone[0][0])
    for (observation, reward, terminated, truncated), action, row in zip(alone[1:], actions, others, strict=False):
        row[3] = action
        observations, rewards, terminations, truncations, _ = batch.step(row)
        assert np.array_equal(observations[3], observation)
        assert (rewards[3], terminations[3], truncations[3]) == (reward, terminated, truncated)


def test_episodes_without_a_seed_follow_from_the_one_before():
    one, other = HighwayEnv("merge"), HighwayEnv("merge")
    starts = []
    for env in (one, other):
        env.reset(seed=3)
        starts.append([env.reset()[0].tolist() for _ in range(3)])
    assert starts[0] == starts[1]
    assert starts[0][0] != starts[0][1]


def test_a_state_can_be_kept_and_set():
    env = HighwayEnv("intersection")
    env.reset(seed=4)
    for _ in range(3):
        env.step(1)
    kept = env.state
    first = [env.step(2)[0].tolist() for _ in range(3)]
    assert np.array_equal(env.set_state(kept), HighwayEnv.set_state(env, kept))
    assert env.state == kept
    assert [env.step(2)[0].tolist() for _ in range(3)] == first
    batch = HighwayVectorEnv(2, "intersection")
    batch.reset(seed=0)
    batch.set_state(1, kept)
    assert [batch.step([1, 2])[0][1].tolist() for _ in range(3)] == first


def test_a_state_of_another_scenario_is_refused(raises_saved):
    env = HighwayEnv("roundabout")
    env.reset(seed=0)
    other = HighwayEnv("merge")
    other.reset(seed=0)
    with raises_saved(HighwayError):
        other.set_state(env.state)


def until_over(batch, row=0, action=3):
    """Step until an episode of a row is over, and return what that step gave."""
    for _ in range(200):
        result = batch.step(np.full(batch.num_envs, action))
        if result[2][row] or result[3][row]:
            return result
    raise AssertionError("the episode did not end")


def test_next_step_autoreset():
    batch = HighwayVectorEnv(2, "merge")
    assert batch.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    batch.reset(seed=0)
    last, _, _, _, infos = until_over(batch)
    assert infos["_is_success"][0]
    observations, rewards, terminated, truncated, _ = batch.step([1, 1])
    assert (rewards[0], terminated[0], truncated[0]) == (0.0, False, False)
    assert observations[0, 1] < last[0, 1]  # back at the beginning of the road
    assert batch.state(0).clock == 0.0


def test_same_step_autoreset():
    batch = HighwayVectorEnv(2, "merge", autoreset_mode=AutoresetMode.SAME_STEP)
    batch.reset(seed=0)
    observations, _, terminated, _, infos = until_over(batch)
    assert terminated[0]
    assert infos["_final_obs"][0]
    assert infos["final_obs"][0][1] > observations[0, 1]
    assert infos["final_info"]["_is_success"][0]
    assert batch.state(0).clock == 0.0


def test_without_autoreset_a_finished_episode_stays_as_it_is():
    batch = HighwayVectorEnv(2, "merge", autoreset_mode="Disabled")
    batch.reset(seed=0)
    last, *_ = until_over(batch)
    kept = batch.state(0)
    observations, rewards, terminated, _, _ = batch.step([0, 0])
    assert batch.state(0) == kept
    assert np.array_equal(observations[0], last[0])
    assert (rewards[0], terminated[0]) == (0.0, True)
    other = batch.state(1)
    batch.reset(seed=[7, None], options={"reset_mask": np.array([True, False])})
    assert batch.state(1) == other
    assert batch.state(0).clock == 0.0


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two cores")
def test_threads_change_nothing():
    one = HighwayVectorEnv(9, "intersection", duration=5)
    two = HighwayVectorEnv(9, "intersection", duration=5, threads=2)
    assert np.array_equal(one.reset(seed=0)[0], two.reset(seed=0)[0])
    for actions in np.random.default_rng(0).integers(3, size=(15, 9)):
        for ours, theirs in zip(one.step(actions)[:4], two.step(actions)[:4], strict=True):
            assert np.array_equal(ours, theirs)


def test_copies_only_where_they_are_wanted():
    batch = HighwayVectorEnv(1, "merge", copy=False)
    first, _ = batch.reset(seed=0)
    second = batch.step([1])[0]
    assert first is second
    batch = HighwayVectorEnv(1, "merge")
    first, _ = batch.reset(seed=0)
    before = first.copy()
    batch.step([1])
    assert np.array_equal(first, before)


def test_the_time_limit_truncates():
    env = HighwayEnv("roundabout", config={"duration": 2})
    # Standing before the roundabout: 0, then four steps of half a second.
    seen = drive(env, 0, [4] * 10)
    assert [row[3] for row in seen] == [False, False, False, False, True]
    assert not any(row[2] for row in seen)
    with pytest.raises(HighwayError, match="call reset"):
        env.step(0)


def test_a_crash_ends_the_episode():
    env = HighwayEnv("highway", vehicles_count=30, vehicles_density=3)
    for seed in range(20):
        env.reset(seed=seed)
        for action in actions_for(env, 60, seed):
            _, _, terminated, _, info = env.step(int(action))
            if terminated:
                assert info["crashed"]
                assert info["is_success"] is False
                return
            assert not info["crashed"]
            assert "is_success" not in info
    raise AssertionError("no crash in 20 episodes")


def test_highway_envs_own_defaults():
    env = gymnasium.make("legible/Highway-v0", preset="highway-env").unwrapped
    assert env.observation_space.shape == (25,)
    assert len(env.road_map.lane_names) == 4
    env.reset(seed=0)
    assert len(env.traffic.x) == 51
    env.step(1)
    assert env.state.clock == 1.0
    assert env.episodes.rules.driving.frames == 15


def test_settings_by_name_and_in_a_mapping():
    by_name = gymnasium.make("legible/Highway-v0", vehicles_count=7, lanes_count=2).unwrapped
    in_mapping = gymnasium.make("legible/Highway-v0", config={"vehicles_count": 7, "lanes_count": 2}).unwrapped
    assert by_name.settings == in_mapping.settings
    by_name.reset(seed=0)
    assert len(by_name.traffic.x) == 8


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: HighwayEnv(scenario="racetrack"), "racetrack"),
        (lambda: HighwayEnv(render_mode="svg"), "render_mode 'svg'"),
        (lambda: HighwayVectorEnv(0), "num_envs"),
        (lambda: HighwayVectorEnv(1, threads=0), "threads"),
        (lambda: started(2).step([1]), "2 actions are expected"),
        (lambda: started(2).step([1, 5]), r"action 5 does not exist \(episode 1\)"),
        (lambda: started(2).step([1.0, 2.0]), "whole numbers"),
        (lambda: started(2).reset(seed=[1]), "2 seeds"),
        (lambda: started(2).reset(seed=-1), "seed"),
        (lambda: started(2).reset(options={"reset_mask": np.zeros(2, bool)}), "marks no episode"),
        (lambda: started(2).reset(options={"reset_mask": [True, False]}), "boolean array"),
        (lambda: HighwayEnv().step(1), "has not begun"),
    ],
)
def test_mistakes_are_named(act, message):
    with pytest.raises(legible.errors.LegibleError, match=message):
        act()


def started(n):
    batch = HighwayVectorEnv(n, "merge")
    batch.reset(seed=0)
    return batch


def test_rollouts_use_the_vector_environment():
    batch = EnvironmentSpec("legible/Merge-v0").make_batch(3)
    assert isinstance(batch, HighwayVectorEnv)
    assert batch.autoreset_mode is AutoresetMode.DISABLED

    def faster(observations, episodes, steps):
        return np.full(len(observations), 3), np.zeros((len(observations), 5))

    seeds = list(range(20, 27))
    in_batches = play_episodes(make_slots("legible/Merge-v0", 3), faster, seeds)
    for k, seed in enumerate(seeds):
        seen = drive(HighwayEnv("merge"), seed, [3] * 100)
        assert in_batches.returns[k] == pytest.approx(sum(row[1] for row in seen))
        assert in_batches.lengths[k] == len(seen) - 1


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_pictures(scenario):
    env = HighwayEnv(scenario, render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert frame.dtype == np.uint8
    assert frame.ndim == 3
    assert frame.std() > 0
    batch = HighwayVectorEnv(2, scenario, render_mode="ansi")
    batch.reset(seed=0)
    texts = batch.render()
    assert len(texts) == 2
    assert all(isinstance(text, str) and text for text in texts)


def test_observations_lie_in_their_space():
    for scenario in SCENARIOS:
        batch = HighwayVectorEnv(8, scenario)
        observations, _ = batch.reset(seed=0)
        for _ in range(40):
            assert batch.observation_space.contains(observations)
            observations, rewards, *_ = batch.step(batch.action_space.sample())
            assert np.isfinite(rewards).all()
