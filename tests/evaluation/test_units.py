"""Sizes on which the keys of stored units depend: with others, finished studies would be played again."""

from dataclasses import replace

import numpy as np
import pytest

import seen_worlds
from drawn_play import SETUP, DrawnPlay
from lab.reproduction.random_baselines import REGIONS, RandomTestChooser, random_rule_sets, random_tests
from legible.environments import EnvironmentSpec, map_features, with_features
from legible.errors import LegibleError
from legible.evaluation.recorded import ROWS, STEPS, EpisodeRecord, RecordedEpisodes, _is_same_reversed, find_repetition
from legible.evaluation.units import UNGUIDED, Setup, Unit, _count_slots, record_alone, record_unit, usual_rows
from legible.play import adapt_policy
from legible.policies import load_policy
from legible.rules import Condition, Rule, RuleSet
from legible.settings import PlaySettings
from played_blocks import result


@pytest.mark.parametrize(("batch", "rows"), [(1, 32), (32, 32), (33, 128), (256, 128)])
def test_networks_see_few_rows_where_few_episodes_run_side_by_side(batch: int, rows: int) -> None:
    assert usual_rows(PlaySettings(batch=batch)) == rows


@pytest.mark.parametrize(
    ("batch", "unit_episodes", "sizes"),
    [(1000, 1000, [256, 256, 88]), (1000, 100, [100] * 6), (200, 1000, [200] * 3)],
)
def test_recorded_units_are_no_larger_than_can_run_side_by_side(
    batch: int, unit_episodes: int, sizes: list[int]
) -> None:
    lots: list[int] = []

    class Counted(DrawnPlay):
        def _unit(self, setup, unit):
            lots.append(len(unit))
            return super()._unit(setup, unit)

    setup = replace(SETUP, play=PlaySettings(batch=batch, unit_episodes=unit_episodes))
    record = EpisodeRecord(setup, 0, "racing", 600, Counted({}))
    assert record.extend(1) == sizes[0]
    assert record.extend(600) == 600
    assert lots == sizes


def recorded(returns: list[float], scores: list[float]) -> RecordedEpisodes:
    """Episodes of one step."""
    rows = len(returns)
    seen = np.array(scores, np.float32)[:, None]
    played = replace(result(returns), lengths=np.ones(rows, np.int64))
    return RecordedEpisodes(played, seen, seen, np.zeros(rows), np.zeros(rows), np.zeros((rows, 0), np.uint8))


@pytest.mark.parametrize(
    ("returns", "scores", "same"),
    [
        ([1.0, 2.0, np.nan], [0.5, np.nan, 0.7], True),
        ([1.0, 2.0, np.nan], [0.5, np.nan, 0.8], False),
        ([1.0, 2.5, np.nan], [0.5, np.nan, 0.7], False),
        ([1.0, 2.0, 3.0], [0.5, np.nan, 0.7], False),
    ],
)
def test_records_in_reversed_order_are_compared(returns: list[float], scores: list[float], same: bool) -> None:
    """Where a policy has no scores, or an episode failed, both recordings have nothing."""
    first = recorded([1.0, 2.0, np.nan], [0.5, np.nan, 0.7])
    assert _is_same_reversed(first, recorded(returns[::-1], scores[::-1])) == same


@pytest.mark.parametrize(
    ("rows", "batch", "episodes", "slots"),
    [(0, 64, 1000, 64), (128, 64, 1000, 256), (32, 32, 1000, 32), (128, 64, 100, 100), (0, 64, 10, 10)],
)
def test_number_of_slots(rows: int, batch: int, episodes: int, slots: int) -> None:
    """With batches of fixed size, results do not depend on the number of slots, so there are more of them."""
    setup = replace(SETUP, rows=rows, play=PlaySettings(batch=batch))
    assert _count_slots(setup, Unit((UNGUIDED,) * episodes, tuple(range(episodes)))) == slots


def test_random_tests_that_run_together_change_as_much(raises_saved) -> None:
    some = [random_tests(3, 1, enforce=True, seed=0, changes=changes)[0] for changes in (2, 3)]
    with raises_saved(LegibleError):
        RandomTestChooser(replace(SETUP, treatments=tuple(some)), np.array([0, 1]), [0, 1])
    RandomTestChooser(replace(SETUP, treatments=(some[0], some[0])), np.array([0, 1]), [0, 1])


def test_repetition_plays_the_episodes_forwards_and_backwards() -> None:
    """Forwards, then backwards with half as many side by side; where they differ, once more one state at a time."""
    tried: list[tuple[int, int, list[int]]] = []

    class Told(DrawnPlay):
        def __call__(self, setup, units, **options):
            tried.extend((setup.rows, setup.play.batch, list(unit.seeds)) for unit in units)
            return super().__call__(setup, units, **options)

    setup = replace(SETUP, play=PlaySettings(batch=64))
    assert find_repetition(setup, 0, "racing", Told({})).holds
    (rows, batch, there), (again, fewer, back) = tried
    assert (rows, again, batch, fewer) == (128, 128, 64, 12)
    assert len(there) == 24
    assert back == there[::-1]


def test_all_that_the_policy_is_shown_is_kept_where_it_is_asked_for() -> None:
    features = map_features(seen_worlds.PictureWorld(), None, "seen_worlds:thing_in_picture")
    world = with_features(EnvironmentSpec("seen_worlds:PictureWorld"), features)
    pixels = seen_worlds.SIZE**2
    policy = load_policy(lambda rows: rows[:, :2], output="values", n_features=pixels, n_actions=2)
    setup = Setup(adapt_policy(policy, world), world, (), PlaySettings(batch=2))
    unit, alone = Unit((UNGUIDED,) * 2, (0, 1)), Unit((UNGUIDED,), (1,), is_alone=True)
    for kept, width in ((STEPS, 2), (ROWS, 2 + pixels)):
        assert kept.play(setup, unit).observations.shape == (2 * seen_worlds.STEPS, width)
        assert kept.play(setup, alone).observations.shape == (seen_worlds.STEPS, width)
    # Recordings are shown to the policy again, so they always hold all rows.
    for recording in (*record_unit(setup, unit)[0], record_alone(setup, unit, 1)):
        assert recording.observations.shape == (seen_worlds.STEPS, 2 + pixels)


def test_random_tests_of_one_change_and_of_all_regions(raises_saved) -> None:
    assert len(random_tests(3, 1, enforce=True, seed=0)[0].regions) == 3
    (one,) = random_tests(3, 1, enforce=True, seed=0, changes=1)
    (every,) = random_tests(3, 1, enforce=True, seed=0, changes=REGIONS)
    assert (len(one.regions), sorted(every.regions)) == (1, list(range(100)))
    with raises_saved(LegibleError):
        random_tests(3, 1, enforce=True, seed=0, changes=101)
    salts = [test.salt for test in random_tests(3, 50, enforce=False, seed=0)]
    assert max(salts) > 2**62
    assert one.enforce
    assert random_tests(3, 1, enforce=False, seed=0, changes=1)[0].regions != one.regions


def test_of_few_different_random_rules_there_are_no_more() -> None:
    """One feature with one interval and two actions: two rules, of the five that are asked for."""
    mined = [Rule("-", 0, (Condition(0, 0.0, 1.0),))]
    sizes = [RuleSet(tuple(Rule("+", number, mined[0].conditions) for number in range(5)))]
    for rule_set in random_rule_sets(mined, sizes, 2, 20, seed=0):
        assert {rule.action for rule in rule_set.rules} == {0, 1}
        assert {(rule.polarity, rule.conditions) for rule in rule_set.rules} == {("-", mined[0].conditions)}


WIDE = replace(SETUP, play=PlaySettings(batch=256))


def test_a_record_is_extended_by_whole_units() -> None:
    run = DrawnPlay({})
    record = EpisodeRecord(WIDE, 0, "racing", 600, run)
    assert (record.most, record.known) == (600, 0)
    for seeds, known in ((0, 0), (1, 256), (256, 256), (257, 512), (9999, 600), (600, 600)):
        assert record.extend(seeds) == known == record.known == run.episodes
    assert len(record.result) == 600
    spans = {
        (0, 256): [(0, 256)],
        (255, 257): [(0, 256), (256, 512)],
        (256, 512): [(256, 512)],
        (512, 600): [(512, 600)],
    }
    for (first, last), expected in spans.items():
        parts = record.parts(first, last)
        assert [(rows.start, rows.stop) for rows, _ in parts] == expected
        assert [len(part) for _, part in parts] == [b - a for a, b in expected]
    assert record.parts(0, 600)[1][1].result.returns.tolist() == record.result.returns[256:512].tolist()
    assert run.episodes == 600  # all of it was remembered
    late = EpisodeRecord(WIDE, 0, "racing", 5, DrawnPlay({}), first=7)
    assert late.seeds.tolist() == record.seeds[7:12].tolist()


def test_records_that_exceed_memory_are_played_again(monkeypatch: pytest.MonkeyPatch) -> None:
    record = EpisodeRecord(WIDE, 0, "racing", 512, run := DrawnPlay({}))
    one = record.extend(1) and record.parts(0, 1)[0][1].nbytes
    monkeypatch.setattr("legible.evaluation.recorded.REMEMBERED_BYTES", 2 * one)
    record.extend(512)
    record.parts(0, 512)
    assert run.episodes == 512  # two parts are as much as may be
    monkeypatch.setattr("legible.evaluation.recorded.REMEMBERED_BYTES", 2 * one - 1)
    record._remember(1, record.parts(256, 512)[0][1])
    record.parts(256, 512)
    assert run.episodes == 512  # the later one stayed
    record.parts(0, 1)
    assert run.episodes == 768
    monkeypatch.setattr("legible.evaluation.recorded.REMEMBERED_BYTES", 0)
    record.parts(256, 512)
    record.parts(256, 512)
    assert run.episodes == 1024  # the last one is always kept


def test_steps_that_are_missing_are_noticed() -> None:
    record = EpisodeRecord(SETUP, 0, "racing", 3, DrawnPlay({}))
    record.extend(3)
    ((_, part),) = record.parts(0, 3)
    arrays = part.to_arrays()
    assert RecordedEpisodes.from_arrays(arrays).starts.tolist() == [0, 20, 40, 60]
    for name in ("observations", "scores", "rewards", "step_costs", "states"):
        with pytest.raises(ValueError, match="does not fit"):
            RecordedEpisodes.from_arrays({**arrays, name: arrays[name][:-1]})
    failed = RecordedEpisodes.of_failed("it broke")
    assert (failed.failed.tolist(), failed.errors.tolist(), failed.starts.tolist()) == ([True], ["it broke"], [0, 0])
    both = RecordedEpisodes.concatenate([failed, part])
    assert (both.starts.tolist(), both.failed.tolist()) == ([0, 0, 20, 40, 60], [True, False, False, False])
    assert both.episodes(1, 3).starts.tolist() == [0, 20, 40]
    assert len(RecordedEpisodes.concatenate([failed, failed]).observations) == 0
