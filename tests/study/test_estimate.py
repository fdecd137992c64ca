"""How long a study takes: measured rates and planned episodes."""

import math
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import mirror_world
from legible.engines import InProcess, LocalProcesses
from legible.environments import EnvironmentSpec
from legible.evaluation.units import Setup, Unit
from legible.play import Known
from legible.settings import EvaluationSettings, PlaySettings, SearchSettings, StudySettings
from legible.study.estimate import Estimate, Rate, estimate, measure_rate, planned_episodes
from study.studies import make_study, settings_of

SETTINGS = settings_of(
    episodes=50,
    sources="mined,yours",
    evaluation={"method": "paper", "episodes": 10, "confirmation_episodes": 20},
    improvement={"episodes": 30, "final_episodes": 40, "most_candidates": 2},
    references={"episodes": 15},
)
SETUP = Setup(mirror_world.policy(), mirror_world.WORLD, (), PlaySettings(batch=8))
ENDED = {"truncated": np.zeros(1, np.bool_)}


def test_episodes_are_counted_by_hand() -> None:
    planned = planned_episodes(SETTINGS, Known(rule_sets=9, candidates=3, explained_rules=12, references=5))
    assert planned == {
        "experiences": 50,
        "screening": 10 * 10,  # the unguided policy and nine sets
        "confirmation": 7 * 20,  # the unguided policy, three sets, and the mined rule of each
        "composition": 3 * 30,  # the unguided policy and two candidates
        "final": 2 * 40,  # base and composition
        "references": 6 * 15 + 3 * 40,  # the unguided policy and five of them; then random play and the best two
        "explanation": 100,  # never more than screening
        "failures": 15,  # as many as of each reference
    }
    nothing = planned_episodes(SETTINGS, Known(rule_sets=9, candidates=0), collected=True)
    assert {nothing[name] for name in ("experiences", "confirmation", "explanation", "references")} == {0}


def test_raced_episodes_are_counted_by_hand() -> None:
    race = EvaluationSettings(
        rung_changes=10, rungs=3, race_seeds=100, confirmation_changes=200, confirmation_seeds=600
    )
    settings = replace(SETTINGS, evaluation=race)
    planned = planned_episodes(settings, Known(rule_sets=9, candidates=3, explained_rules=2))
    assert "screening" not in planned
    assert planned["racing"] == 100 + 6 * 40 + 3 * 40  # the unguided policy, six that are dropped, three that pass
    assert planned["racing confirmation"] == 300 + 3 * 200  # half of the seeds, three sets
    assert planned["explanation"] == 460  # never more than the race
    assert planned_episodes(settings, Known(rule_sets=9, candidates=0))["racing confirmation"] == 0


def test_workers_share_the_episodes_and_steps_can_be_left_out() -> None:
    guess = Estimate(rate=10.0, episodes={"screening": 100, "composition": 40, "final": 60}, workers=2)
    assert guess.seconds == pytest.approx(10.0 + 200 * 0.0005)  # played by two, and what comes with every episode
    assert guess.without("improve").seconds == pytest.approx(5.0 + 100 * 0.0005)


def test_what_the_first_lot_takes_is_not_taken_for_playing(monkeypatch) -> None:
    from legible.study import estimate as module

    clock = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])

    def rate(*lots: float) -> float:
        took = iter(lots)

        def play(_: Setup, unit: Unit) -> SimpleNamespace:
            clock[0] += next(took)
            return SimpleNamespace(lengths=np.full(len(unit), 7), returns=np.full(len(unit), 500.0), **ENDED)

        monkeypatch.setattr(module, "play_unit", play)
        found = measure_rate(SETUP, seconds=1.0)
        assert next(took, None) is None
        assert found.length == pytest.approx(7.0)
        assert found.is_varied == (len(lots) == 2)  # of one episode that is not known
        return found.episodes

    assert rate(30.0, 0.5, 0.5, 2.0) == 4 / 2.0  # compiling, one episode twice, and four
    assert rate(0.5, 0.9, 40.0, 4.0, 4.0) == 16 / 4.0  # what is compiled later does not count, either
    assert rate(3.0, 3.0) == 1 / 3.0  # slow, but not by compiling
    assert rate(0.5, 0.9, 40.0, 4.0, 40.0) == 16 / 40.0  # always different: not for ever


def test_rates_are_measured() -> None:
    rate = measure_rate(SETUP, seconds=0.05)
    assert math.isfinite(rate.episodes)
    assert rate.steps > rate.episodes > 0
    known = estimate(SETUP, SETTINGS, InProcess(), 9, rate=rate)
    assert (known.workers, known.episodes["experiences"]) == (1, 0)
    assert known.episodes["references"] == 5 * 15 + 3 * 40  # random play and three constant choices
    assert estimate(SETUP, SETTINGS, LocalProcesses(3), rate=rate).workers == 3


@pytest.mark.slow
def test_the_time_of_a_study_is_told_within_a_factor_of_two(monkeypatch, tmp_path) -> None:
    """By the processor's clock, which a busy machine does not slow down; all is played in this process."""
    from legible.study import estimate as module

    monkeypatch.setattr(module.time, "perf_counter", time.process_time)
    quick = StudySettings.quick()
    settings = replace(
        quick,
        search=SearchSettings(budget=40_000, proposed=5),
        evaluation=replace(quick.evaluation, confirmation_changes=200, confirmation_seeds=300, most_confirmed=5),
        improvement=replace(quick.improvement, episodes=100, most_candidates=5),
    )
    study = make_study(tmp_path, "legible/PacmanSmall-v0", "zoo:PacmanSmall/ppo/4", settings=settings)
    study.generalise()
    rate = measure_rate(study.setup(), seconds=0.5)
    left = estimate(study.setup(), study.settings, study.engine, len(study.rule_sets), rate=rate)
    before = time.process_time()
    for step in (study.evaluate, study.improve, study.play_references, study.explain):
        step()
    assert 0.5 <= left.seconds / (time.process_time() - before) <= 2.0


def test_lots_of_batched_environments_grow_to_a_batch(monkeypatch) -> None:
    """A few episodes side by side take nearly as long as many."""
    from legible.study import estimate as module

    clock, lots = [0.0], []
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(module, "is_native", lambda _: True)

    def play(_: Setup, unit: Unit) -> SimpleNamespace:
        lots.append(len(unit))
        clock[0] += 1.2 + 0.01 * len(unit)
        return SimpleNamespace(lengths=np.full(len(unit), 7), returns=np.arange(len(unit)), **ENDED)

    monkeypatch.setattr(module, "play_unit", play)
    assert measure_rate(SETUP, seconds=1.0).episodes == pytest.approx(lots[-1] / (1.2 + 0.01 * lots[-1]))
    assert lots[-1] >= SETUP.play.batch


def test_a_search_is_in_the_estimate() -> None:
    rate, search = Rate(10.0, 200.0), SearchSettings(budget=5000)
    with_it = estimate(SETUP, replace(SETTINGS, sources="mined,searched", search=search), InProcess(), 9, rate=rate)
    assert with_it.episodes["search"] == 5000 / 20  # episodes of twenty steps
    assert with_it.without("evaluate").episodes.get("search") is None
    without = estimate(SETUP, replace(SETTINGS, sources="mined"), InProcess(), 9, rate=rate)
    # Forty rule sets that the search proposes are tested like others, and half of them look like weaknesses.
    assert with_it.episodes["screening"] - without.episodes["screening"] == 40 * 10
    assert with_it.episodes["confirmation"] - without.episodes["confirmation"] == 2 * 20 * 20


def test_where_every_episode_returns_the_same_nothing_is_expected_to_be_found() -> None:
    settings = replace(SETTINGS, sources="mined,searched", search=SearchSettings(budget=5000))
    found = estimate(SETUP, settings, InProcess(), 9, rate=Rate(10.0, 200.0, is_varied=False)).episodes
    assert (found["screening"], found["confirmation"], found["explanation"]) == (10 * 10, 0, 0)
    assert found["composition"] == 30  # the unguided policy
    # A return that is known to be too low is no maximum.
    for mean, is_improvable in ((500.0, False), (9.0, True)):
        rate = Rate(10.0, 200.0, is_varied=False, mean=mean)
        cart = replace(SETUP, environment=EnvironmentSpec("CartPole-v1"))
        assert (estimate(cart, settings, InProcess(), 9, rate=rate).episodes["confirmation"] > 0) == is_improvable


def test_a_race_plays_in_few_slots() -> None:
    guess = Estimate(rate=10.0, episodes={"racing": 20, "final": 60}, workers=2, rate_in_few_slots=5.0)
    assert guess.seconds == pytest.approx((20 / 5.0 + 60 / 10.0) / 2 + 80 * 0.0005)
