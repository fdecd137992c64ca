"""Figures about chosen decisions hold: coverage, false ones, shares and headroom, in worlds with known values."""

import numpy as np
import pytest

from legible.mistakes import DecisionSearch, Mistakes, find_mistakes
from legible.mistakes.decisions import Decisions
from legible.mistakes.racing import race_decisions
from legible.mistakes.statistics import false_coverage, gain_of, per_episode, share_of
from legible.play import BranchingMethod
from legible.settings import MistakeSettings
from mistakes.planted import Noise, PlantedDecisions

RUNS = 200
SETTINGS = MistakeSettings()
RANDOM = BranchingMethod("rows", "random")


def found_in(world: PlantedDecisions) -> Mistakes:
    n = len(world.choices)
    search = DecisionSearch(world.experiences, Decisions(np.arange(n), np.ones(n, np.bool_)), world.choices)
    return find_mistakes(search, world, lambda *_: [0], RANDOM, greedy=True, settings=SETTINGS, alpha=0.05, seed=0)


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["normal", "binary", "rare losses", "skewed"])
def test_intervals_cover_at_every_rank_of_the_list(noise: Noise) -> None:
    """All mistakes cost the same, so that the first of the list is first by luck alone."""
    covered: list[list[bool]] = [[] for _ in range(5)]
    for seed in range(RUNS):
        world = PlantedDecisions(seed, noise, share=0.15, same=60.0)
        for rank, m in enumerate(found_in(world).listed[:5]):
            covered[rank].append((m.low or 0) <= world.gain(m.row, m.better) <= (m.high or 0))
    for of_rank in covered:
        assert len(of_rank) > RUNS / 2
        assert np.mean(of_rank) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / len(of_rank))


@pytest.mark.parametrize("noise", ["normal", "binary", "rare losses", "skewed"])
def test_unadjusted_intervals_cover_as_often_as_they_say(noise: Noise) -> None:
    covered = []
    for seed in range(RUNS):
        world = PlantedDecisions(seed, noise, share=0.1)
        raced = race_decisions(world, world.choices, SETTINGS)
        for number, better, differences in zip(raced.numbers, raced.better, raced.differences, strict=True):
            low, high = gain_of(differences).interval(0.95)
            covered.append(low <= world.gain(number, better) <= high)
    assert len(covered) > 2 * RUNS
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize("noise", ["normal", "binary", "rare losses", "skewed"])
def test_a_perfect_policy_makes_no_mistakes(noise: Noise) -> None:
    """All choices are equally good, so that many decisions look promising: false ones in at most 5 % of the runs."""
    runs_with_mistakes = sum(
        bool(found_in(PlantedDecisions(seed, noise, share=0.0, worse=0.0, n=100)).listed) for seed in range(RUNS)
    )
    assert runs_with_mistakes <= 0.05 * RUNS


def test_headroom_covers_what_the_mistakes_are_worth() -> None:
    """Five decisions an episode: the sum of the gains of five, on average."""
    covered = []
    for seed in range(60):
        world = PlantedDecisions(seed, "normal", share=0.1)
        truth = 5 * np.maximum(world.values.max(axis=1), 0).mean()
        room = found_in(world).headroom
        assert room is not None
        covered.append(room.low <= truth <= room.high)
    assert np.mean(covered) >= 0.9


def test_a_gain_of_equal_differences_is_not_certain() -> None:
    """128 times +100: one difference of another size may not have been seen, so the interval has a width."""
    gain = gain_of(np.full(128, 100.0))
    assert gain.mean == 100
    assert gain.error == pytest.approx(100 / 128)
    low, high = gain.interval(0.95)
    assert 98 < low < 99
    assert 101 < high < 102
    assert gain_of(np.zeros(16)).p == 1.0
    assert gain_of(np.zeros(16)).interval(0.99) == (0.0, 0.0)


def test_gain_is_students() -> None:
    """Differences 1, 2, 3: mean 2, standard error 1/√3, t with two degrees of freedom: 4.303."""
    gain = gain_of(np.array([1.0, 2.0, 3.0]))
    low, high = gain.interval(0.95)
    assert (low, high) == (
        pytest.approx(2 - 4.3027 / np.sqrt(3), abs=1e-3),
        pytest.approx(2 + 4.3027 / np.sqrt(3), abs=1e-3),
    )
    assert gain.p == pytest.approx(0.0742, abs=1e-4)


def test_listed_effects_pass_the_stricter_threshold() -> None:
    """Of 10 effects four are proven at 5 %; if half of them are listed, the level is that of two in ten."""
    p = np.array([0.001, 0.002, 0.012, 0.018, *np.full(6, 0.5)])
    proven, listed, level = false_coverage(p, 0.05, lambda places: places)
    assert proven.tolist() == listed.tolist() == [0, 1, 2, 3]
    assert level == pytest.approx(1 - 4 * 0.05 / 10)
    proven, listed, level = false_coverage(p, 0.05, lambda places: places[:2])
    assert (len(proven), listed.tolist(), level) == (4, [0, 1], pytest.approx(0.99))
    # Listing the last of three alone asks for p ≤ 0.005, which it does not pass, and then the next one shows.
    _, listed, level = false_coverage(p, 0.05, lambda places: places[-1:])
    assert (listed.tolist(), level) == ([1], pytest.approx(0.995))
    assert false_coverage(np.empty(0), 0.05, lambda places: places)[1].tolist() == []


def test_figures_per_episode_resample_whole_episodes() -> None:
    """Two decisions of each of two episodes are worth 10 and 0: an episode of 4 steps is worth 4 × 5."""
    values, episodes = np.array([10.0, 10.0, 0.0, 0.0]), np.array([0, 0, 1, 1])
    room = per_episode(values, episodes, np.array([4, 4]), alpha=0.05, seed=0)
    assert room.mean == 20
    assert (room.low, room.high) == (0, 40)
    share = share_of(np.zeros(50, np.bool_), np.repeat(np.arange(25), 2), 25, alpha=0.05, seed=0)
    assert (share.mean, share.low) == (0, 0)
    assert 0.05 < share.high < 0.1  # three in fifty, about
