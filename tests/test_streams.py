"""Random streams: against SplitMix64 as published, uniform, independent of each other, the same for ever."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from legible.errors import LegibleError
from legible.streams import RowGenerator, check_seed, group_key, key_of_seed, mix, next_key, policy_keys, uniform

MASK = 2**64 - 1
KEYS = st.integers(0, MASK)


def splitmix64(state: int, n: int) -> list[int]:
    """The generator of Steele, Lea and Flood, in whole numbers without a bound."""
    outputs = []
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        outputs.append(z ^ (z >> 31))
    return outputs


def draws(key: int, n: int) -> np.ndarray:
    return np.array([uniform(np.uint64(key), np.uint64(i)) for i in range(n)])


def test_a_stream_is_splitmix64() -> None:
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert splitmix64(1234567, 5) == published
    assert draws(1234567, 5).tolist() == [(z >> 11) / 2**53 for z in published]
    assert int(key_of_seed(np.uint64(1234567))) == published[0]


@settings(deadline=None)  # the first call may have to compile
@given(KEYS, st.integers(0, 2**40))
def test_any_place_of_a_stream_is_reached_at_once(key: int, count: int) -> None:
    before = (key + count * 0x9E3779B97F4A7C15) & MASK
    drawn = uniform(np.uint64(key), np.uint64(count))
    assert drawn == (splitmix64(before, 1)[0] >> 11) / 2**53
    assert 0.0 <= drawn < 1.0


@settings(deadline=None)  # the first call may have to compile
@given(st.sets(KEYS, min_size=2, max_size=50))
def test_scrambling_loses_nothing(keys: set[int]) -> None:
    """Scrambling can be undone, so different seeds never share a stream."""
    assert len({int(mix(np.uint64(key))) for key in keys}) == len(keys)
    assert len({int(next_key(np.uint64(key))) for key in keys}) == len(keys)
    assert len(set(policy_keys(sorted(keys)).tolist())) == len(keys)


@pytest.mark.parametrize(
    ("seeds", "counts"),
    [
        *(([seed], range(5000)) for seed in (0, 1, 12345, 2**31)),
        # Episodes have consecutive seeds: the same place of their streams must look random, too.
        *((range(7000, 12000), [count]) for count in (0, 1, 4, 1000)),
    ],
)
def test_numbers_along_a_stream_and_across_neighbouring_seeds_are_uniform(seeds, counts) -> None:
    drawn = np.array([uniform(key, np.uint64(count)) for key in policy_keys(seeds) for count in counts])
    assert stats.kstest(drawn, "uniform").pvalue > 1e-3
    # Neighbours have nothing to do with each other.
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 4 / np.sqrt(len(drawn))


def test_policy_and_environment_have_streams_of_their_own() -> None:
    """Neither the stream of an environment with the same seed, nor the one it goes on with after a bare reset."""
    seeds = range(2000)
    policy = policy_keys(seeds)
    environment = np.array([key_of_seed(np.uint64(seed)) for seed in seeds], np.uint64)
    again = np.array([next_key(key) for key in environment], np.uint64)
    assert not set(policy.tolist()) & set(environment.tolist())
    assert not set(policy.tolist()) & set(again.tolist())
    for other in (environment, again):
        ours, theirs = (np.array([uniform(key, np.uint64(0)) for key in keys]) for keys in (policy, other))
        table = np.histogram2d(ours, theirs, bins=5, range=[[0, 1], [0, 1]])[0]
        assert stats.chi2_contingency(table).pvalue > 1e-3


def test_policy_keys_take_any_seed_and_stay_what_they_are() -> None:
    assert policy_keys([]).shape == (0,)
    assert policy_keys([0, 2**63, 2**64 - 1]).dtype == np.uint64
    np.testing.assert_array_equal(policy_keys(np.array([3, 5])), policy_keys([3, 5]))
    np.testing.assert_array_equal(policy_keys([2**64 + 3]), policy_keys([3]))
    # Results that people keep depend on these numbers.
    assert policy_keys([0, 1]).tolist() == [11207422961820079421, 10962556064263004203]
    assert [int(next_key(np.uint64(key))) for key in (0, 1)] == [9370218965779684112, 132297946315314195]


def test_groups_of_choices_have_streams_of_their_own() -> None:
    """The first one has the episode's, so that nothing changes where there is one group only."""
    assert [int(group_key(np.uint64(5), group)) for group in range(3)] == [
        5,
        779949893994220357,
        16803122317011069386,
    ]


def test_rows_draw_from_their_own_streams_one_number_after_the_other(raises_saved) -> None:
    keys, steps = policy_keys([0, 1]), np.array([0, 5])
    whole = RowGenerator(keys, steps).random((2, 3))
    assert whole[:, 0].tolist() == [0.5601900551926785, 0.22374797532244117]  # results that people keep depend on it
    parts = RowGenerator(keys, steps)
    np.testing.assert_array_equal(parts.random(2), whole[:, 0])
    np.testing.assert_array_equal(parts.random((2, 2)), whole[:, 1:])
    np.testing.assert_array_equal(RowGenerator(keys[1:], steps[1:]).random((1, 3)), whole[1:])
    assert not np.isin(RowGenerator(keys, steps + 1).random((2, 3)), whole).any()
    with raises_saved(LegibleError):
        parts.random((3, 1))


def test_normal_numbers_are_where_as_many_uniform_ones_lie_below() -> None:
    keys, steps = policy_keys(range(2000)), np.zeros(2000, np.int64)
    uniform_ones, normal_ones = (
        draw((2000, 2)) for draw in (RowGenerator(keys, steps).random, RowGenerator(keys, steps).standard_normal)
    )
    # Half a step above, so that 0 is not minus infinity.
    np.testing.assert_allclose(stats.norm.cdf(normal_ones) - uniform_ones, 0.0, atol=1e-12)
    assert np.isfinite(RowGenerator(keys, steps).standard_normal(2000)).all()


@pytest.mark.parametrize("seed", [0, 7, 2**80, np.int64(3), np.uint8(255)])
def test_seeds_are_whole_numbers(seed: object) -> None:
    assert check_seed(seed) == int(seed)
    assert type(check_seed(seed)) is int


@pytest.mark.parametrize("seed", [-1, np.int64(-5), 1.0, "1", None, True, np.True_, [1]])
def test_other_seeds_are_refused(seed: object, raises_saved) -> None:
    with raises_saved(LegibleError):
        check_seed(seed)
    with raises_saved(LegibleError):
        policy_keys([3, seed])
