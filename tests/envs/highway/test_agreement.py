"""The fast environments drive like Farama's highway-env: one step from the same state gives the same result."""

import numpy as np
import pytest

pytest.importorskip("highway_env")

from envs.highway.agreement import TOLERANCE, Difference, compare, is_on_threshold, play_together
from legible_envs.highway.settings import HighwaySettings

# States in the authors' configuration and in the scenario's own; highway-env manages some ten steps a second with fifty
# vehicles, so most of the highway's states have fewer.
CASES = [
    ("highway", 100, {"vehicles_count": 15}, "authors"),
    ("highway", 12, None, "authors"),
    ("highway-fast", 200, {"vehicles_count": 15}, "authors"),
    ("highway-fast", 40, None, "highway-env"),
    ("merge", 200, None, "authors"),
    ("merge", 60, None, "highway-env"),
    ("roundabout", 200, None, "authors"),
    ("roundabout", 60, None, "highway-env"),
    ("intersection", 150, None, "authors"),
    ("intersection", 40, None, "highway-env"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "states", "config", "preset"), CASES)
def test_one_step_from_the_same_state(scenario, states, config, preset):
    agreement = compare(scenario, states, config=config, preset=preset, seed=1000)
    assert agreement.states == states
    assert agreement.vehicles > states  # ego was not alone
    assert not agreement.unexplained, "\n".join(map(str, agreement.unexplained))
    assert len(agreement.differences) <= 1
    compared = {"x", "y", "heading", "speed", "lane", "target lane", "observation", "reward", "terminated", "truncated"}
    assert compared <= agreement.largest.keys()
    assert max(agreement.largest.values()) <= TOLERANCE


@pytest.mark.parametrize("scenario", ["highway", "highway-fast", "merge", "roundabout", "intersection"])
def test_whole_episodes_from_the_same_random_numbers(scenario):
    config = {"vehicles_count": 8} if scenario.startswith("highway") else {}
    n_actions = 3 if scenario == "intersection" else 5
    steps = 0
    for seed in range(2):
        actions = np.random.default_rng(seed).integers(0, n_actions, 20).tolist()
        largest = play_together(scenario, seed, actions, config)
        steps += int(largest.pop("steps"))
        # Rounding adds up here, the more where roads bend.
        assert max(largest.values()) <= 1e-5, (seed, largest)
    assert steps >= 10


def test_time_runs_out_alike():
    agreement = compare("highway-fast", 12, config={"vehicles_count": 5, "duration": 2}, seed=5)
    assert agreement.ends >= 2
    assert not agreement.differences


@pytest.mark.parametrize(("field", "value"), [("distance_wanted", 9.999), ("comfort_acceleration", 3.001)])
def test_a_kernel_that_drives_differently_is_noticed(monkeypatch, field, value):
    honest = HighwaySettings.driving
    monkeypatch.setattr(HighwaySettings, "driving", lambda self: honest(self)._replace(**{field: value}))
    agreement = compare("highway-fast", 60, config={"vehicles_count": 15}, seed=3, explain=False)
    assert len(agreement.differences) > 30


def test_a_wrong_reward_is_noticed(monkeypatch):
    honest = HighwaySettings.rewarding
    monkeypatch.setattr(HighwaySettings, "rewarding", lambda self: honest(self)._replace(high_speed_reward=0.401))
    agreement = compare("highway-fast", 30, config={"vehicles_count": 5}, seed=3, explain=False)
    assert {name for difference in agreement.differences for name in difference.sizes} == {"reward"}


def test_thresholds_are_distinguished_from_mistakes():
    first_step = Difference(0, (1,), {}, on_threshold=False)
    # Ego starts exactly where the roundabout's first lane counts as left behind, and nowhere special in merge.
    assert is_on_threshold("roundabout", first_step, None, "authors")
    assert not is_on_threshold("merge", first_step, None, "authors", tries=3)
