"""Which episodes are played together, how far a race looks ahead, and what trials before it count, by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import mirror_world
from drawn_play import LENGTH, SETUP, DrawnPlay, rule, rule_set
from legible.evaluation.pairs import NEVER, PairedPlay
from legible.evaluation.racing import SELECTION_ERROR_FACTOR, Race, _Entry, _find_candidates, _make_verdicts
from legible.evaluation.recorded import REPEATED_EPISODES, EpisodeRecord, Repetition, find_repetition
from legible.evaluation.statistics import Standing
from legible.evaluation.units import Setup, Unit, run_units
from legible.hypotheses import MeasuredEffect
from legible.rules import RuleSet, parse_rule
from legible.settings import EvaluationSettings, PlaySettings
from mirror_world import WORLD


@pytest.mark.parametrize("full_units", [False, True])
def test_the_longest_episodes_are_played_first(full_units: bool) -> None:
    """Full units go by what is left of an episode when guidance parts from it, others by the whole of it."""
    rules = RuleSet((parse_rule("+Stay <- luck > 0.8", mirror_world.SPACE),))
    setup = Setup(mirror_world.policy(), WORLD, (), PlaySettings(batch=16, unit_episodes=60))
    repetition = find_repetition(setup, 0, "racing", run_units)
    played: list[Unit] = []

    def run(setup: Setup, units: list[Unit], **options: Any) -> Any:
        played.extend(units)
        return run_units(setup, units, **options)

    record = EpisodeRecord(replace(setup, rows=repetition.rows), 0, "racing", 60, run_units)
    play = PairedPlay(setup, repetition, record, run, full_units=full_units)
    number = play.add(rules)
    play.play_seeds({number: 60})
    first, places = play.first_changes(number), {int(seed): place for place, seed in enumerate(record.seeds)}
    order = [places[seed] for unit in played for seed in unit.seeds]
    left = [int(record.result.lengths[p]) - (int(first[p]) if full_units else 0) for p in order]
    assert len(set(left)) > 1
    assert left == sorted(left, reverse=True)
    assert sorted(order) == np.flatnonzero(first != NEVER).tolist()


def test_episodes_that_checked_the_seeds_are_not_played_again() -> None:
    """They are the first unit of the record, and pairs are the same to the bit as with a record that played them."""
    rules = RuleSet((parse_rule("+Stay <- luck > 0.8", mirror_world.SPACE),))
    setup = Setup(mirror_world.policy(), WORLD, (), PlaySettings(batch=16, unit_episodes=40))
    store: dict[str, Any] = {}
    played: list[int] = []

    def run(setup: Setup, units: list[Unit], **options: Any) -> Any:
        known = len(store)
        result = run_units(setup, units, **options, store=store)
        played.append(len(store) - known)
        return result

    repetition = find_repetition(setup, 0, "racing", run)
    this = replace(setup, rows=repetition.rows)
    found = []
    for repeated in (REPEATED_EPISODES, 0):
        played.clear()
        record = EpisodeRecord(this, 0, "racing", 110, run, repeated=repeated)
        assert record.extend(1) == (repeated or 16)  # a unit of as many episodes as run side by side
        assert played == [0 if repeated else 1]
        play = PairedPlay(this, repetition, record, run_units)
        number = play.add(rules)
        play.play_seeds({number: 70})
        places = [place for part, _ in record.parts(20, 70) for place in range(part.start, part.stop)]
        assert set(range(20, 70)) <= set(places)
        found.append((play.first_changes(number)[:70].tolist(), play.pairs(number, 70)))
    (first, one), (again, other) = found
    assert first == again
    assert one.guided.returns.tobytes() == other.guided.returns.tobytes()
    assert one.base.returns.tobytes() == other.base.returns.tobytes()


@pytest.mark.parametrize(
    ("episodes", "unit_episodes", "full_units", "size"),
    [(2_000, 4_000, False, 256), (16_000, 4_000, False, 500), (16_000, 300, False, 300), (4_000, 4_000, True, 768)],
)
def test_sizes_of_units(episodes: int, unit_episodes: int, full_units: bool, size: int) -> None:
    """Enough units for several workers, but none too small, and none larger than the settings allow."""
    setup, played = replace(SETUP, play=PlaySettings(batch=16, unit_episodes=unit_episodes)), []

    def run(setup: Setup, units: list[Unit], **options: Any) -> Any:
        played.extend(units)
        return DrawnPlay({})(setup, units, **options)

    record = EpisodeRecord(setup, 0, "racing", episodes, DrawnPlay({}))
    play = PairedPlay(setup, Repetition(rows=128, holds=False), record, run, full_units=full_units)
    play.play_seeds({play.add(rule_set(0)): episodes})
    assert sum(len(unit) for unit in played) == episodes
    assert {len(unit) for unit in played[:-1]} == {size}


def test_estimated_number_of_missing_seeds() -> None:
    """So many seeds as will hold the changed episodes if changes stay as frequent, but not far more at once."""
    record = EpisodeRecord(SETUP, 0, "racing", 10_000, DrawnPlay({}))
    play = PairedPlay(SETUP, Repetition(rows=128, holds=True), record, DrawnPlay({}))
    number = play.add(rule_set(0))

    def missing(known: int, changed: int, changes: int, most: int = 10_000) -> int:
        play._plays[number].first = np.where(np.arange(known) < changed, 0, NEVER)
        return play._missing_seeds(number, changes, most)

    assert missing(100, 50, 50) == 0
    assert missing(100, 10, 50, most=100) == 0
    assert missing(100, 50, 75) == 150
    assert missing(100, 10, 1000) == missing(100, 0, 10) == 400  # growth is limited
    assert missing(100, 99, 100) == 101
    assert missing(100, 50, 75, most=120) == 120
    assert missing(0, 0, 10) == 16  # as many as run side by side


def test_search_trials_count_less_than_the_race() -> None:
    """One trial with an error that counts as one, and a race with an error of one: the mean of both."""
    here = Standing(2.0, 1.0, 2.0, 0.02275)
    race: Any = SimpleNamespace(standing=lambda _: here)

    def evidence(shown: MeasuredEffect | None) -> Standing:
        entry: Any = SimpleNamespace(shown=shown)
        return Race.evidence(race, entry)

    assert evidence(None) is here
    assert evidence(MeasuredEffect(4.0, 0.0, 0.01)) is here
    found = evidence(MeasuredEffect(4.0, 1.0 / SELECTION_ERROR_FACTOR, 0.01))
    assert (found.difference, found.error) == (pytest.approx(3.0), pytest.approx(1.0 / math.sqrt(2.0)))
    assert found.z == pytest.approx(3.0 * math.sqrt(2.0))
    assert found.p == pytest.approx(1.1e-5, rel=0.05)
    twice = evidence(MeasuredEffect(4.0, 2.0 / SELECTION_ERROR_FACTOR, 0.01))  # weights of a quarter and one
    assert twice.difference == pytest.approx((4.0 / 4.0 + 2.0) / 1.25)


def race_of(**amounts: list[float]) -> tuple[Race, dict[str, _Entry]]:
    """A race in three rungs of 8, 16 and 32 seeds, all changed, of rule sets that add these again and again."""
    draws = {rule(number): lambda _, n, some=some: np.resize(some, n) for number, some in enumerate(amounts.values())}
    settings = EvaluationSettings(rung_changes=8, rungs=3, race_seeds=60, confirmation_seeds=250)
    run = DrawnPlay(draws)
    record = EpisodeRecord(SETUP, 0, "racing", settings.race_seeds, run)
    race = Race(PairedPlay(SETUP, Repetition(rows=128, holds=False), record, run), settings)
    entries = race.enter([rule_set(number) for number in range(len(draws))])
    return race, dict(zip(amounts, entries, strict=True))


def test_rule_sets_are_dropped_on_the_right_rung() -> None:
    """Dropped below 0.4, 0.86 and 1.5 standard errors; sure from 3.3 on."""
    race, entries = race_of(
        bad=[-1.0], sure=[3.0, 1.0], good=[3.6, -2.0], late=[2.9, -2.1], middling=[2.5, -2.0], nothing=[0.0]
    )
    found = {name: (entry.seeds, entry.passed) for name, entry in entries.items()}
    z = {name: race.evidence(entry).z for name, entry in entries.items()}
    assert z["bad"] == -math.inf
    assert found["bad"] == (8, False)
    assert found["nothing"] == (8, False)
    assert (found["sure"], z["sure"]) == ((8, True), pytest.approx(2.0 * math.sqrt(7.0)))
    assert (found["good"], z["good"]) == ((32, True), pytest.approx(0.8 / 2.8 * math.sqrt(31.0)))
    assert (found["late"], z["late"]) == ((16, False), pytest.approx(0.4 / 2.5 * math.sqrt(15.0)))
    assert (found["middling"], z["middling"]) == ((8, False), pytest.approx(0.25 / 2.25 * math.sqrt(7.0)))


def test_standings_of_a_race_by_hand() -> None:
    race, entries = race_of(sure=[3.0, 1.0], bad=[-2.0, 0.5])
    helps, harms = race.standing(entries["sure"]), race.standing(entries["sure"], harm=True)
    error = 1.0 / math.sqrt(7.0)
    assert (helps.difference, helps.error, helps.z) == pytest.approx((2.0, error, 2.0 / error))
    assert (harms.difference, harms.error, harms.z) == pytest.approx((-2.0, error, -2.0 / error))
    assert race.share(entries["sure"]) == 1.0
    assert race.steps(entries["sure"]) == 8 * LENGTH
    verdicts = _make_verdicts(race, [0], 0.05)
    assert [verdict.difference for verdict in verdicts] == pytest.approx([2.0, -0.75])
    assert [(verdict.is_weakness, verdict.is_set_aside) for verdict in verdicts] == [(True, False), (False, False)]
    assert [verdict.changed_episodes for verdict in verdicts] == [8, 8]
    assert verdicts[0].detectable == pytest.approx((1.6448536 + 0.8416212) * error)
    assert verdicts[0].p == pytest.approx(stats.t.sf(2.0 / error, 7))
    assert [verdict.q for verdict in verdicts] == pytest.approx([2 * verdicts[0].p, verdicts[1].p])
    # The harm is tested with one gain more than was seen: as large as the largest.
    losses = [2.0, -0.5] * 4 + [-3.0]
    assert verdicts[1].p_harm == pytest.approx(stats.ttest_1samp(losses, 0.0, alternative="greater").pvalue)
    (aside,) = [verdict for verdict in _make_verdicts(race, [], 0.05) if verdict.is_set_aside]
    assert aside.difference == pytest.approx(2.0)


def test_rule_sets_that_are_confirmed() -> None:
    settings = EvaluationSettings(rung_changes=8, rungs=3, race_seeds=60, confirmation_seeds=250)
    race, entries = race_of(bad=[-1.0], sure=[3.0, 1.0], good=[3.6, -2.0])
    assert _find_candidates(race, settings) == [1, 2]
    dearer = replace(settings, confirmation_seeds=1000, confirmation_changes=1000)
    assert _find_candidates(race, dearer) == [1, 2]  # all of their episodes are changed: that is cheap
    entries["good"].passed = False
    assert _find_candidates(race, settings) == [1]


def test_episodes_that_failed_at_once_are_played_with_guidance_too() -> None:
    """They have no length, by which the others are sorted."""
    record = EpisodeRecord(SETUP, 0, "racing", 3, DrawnPlay({}))
    record.extend(3)
    record.result.lengths[1] = 0
    play = PairedPlay(SETUP, Repetition(rows=128, holds=False), record, DrawnPlay({}))
    number = play.add(rule_set(0))
    play.play_seeds({number: 3})
    assert play.pairs(number, 3).guided.lengths.tolist() == [LENGTH] * 3
