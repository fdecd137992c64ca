"""Continuations of an evaluation: new seeds, lower levels, and what is confirmed stays confirmed."""

from dataclasses import replace

import pytest
from scipy import stats

from drawn_play import SETUP, DrawnPlay, noise, rule, rule_set
from legible import LegibleError
from legible.evaluation import Evaluation, evaluate
from legible.evaluation.confirmation import OVERSAMPLING
from legible.evaluation.continuation import choose_undecided, continue_evaluation
from legible.evaluation.recorded import Repetition
from legible.evaluation.verdicts import Continuation
from legible.play.stages import ROUND_EPISODES, seed_of_round, stage_seeds
from legible.settings import EvaluationSettings

SMALL = EvaluationSettings(race_seeds=400, confirmation_changes=200, confirmation_seeds=256, relevant="0")


@pytest.fixture(autouse=True)
def _nothing_is_recorded(monkeypatch):
    """Let all episodes be played: nothing is recorded of drawn ones."""
    found = Repetition(rows=128, holds=False)
    for module in ("racing", "continuation"):
        monkeypatch.setattr(f"legible.evaluation.{module}.find_repetition", lambda *_, **__: found)


def drawn(effects: dict[int, float], world: int = 0, spread: float = 10.0) -> tuple[Evaluation, DrawnPlay]:
    """Evaluate rules with these effects."""
    play = DrawnPlay({rule(k): noise(spread, effect) for k, effect in effects.items()}, world=world)
    setup = replace(SETUP, treatments=tuple(rule_set(k) for k in effects))
    return evaluate(setup, seed=0, settings=SMALL, run=play), play


def test_rounds_share_no_seed() -> None:
    plain, first, second = (stage_seeds(seed_of_round(7, k), "final", 0, 3) for k in range(3))
    assert plain == stage_seeds(7, "final", 0, 3)
    assert [first[0] - plain[0], second[0] - first[0]] == [ROUND_EPISODES] * 2
    with pytest.raises(LegibleError, match="more than a stage holds"):
        stage_seeds(seed_of_round(7, 16), "final", 0, 1)


def test_a_small_effect_is_confirmed_later() -> None:
    before, play = drawn({1: 1.0, 2: -8.0}, world=2)
    assert not before.confirmed
    after = continue_evaluation(SETUP, before, seed=0, episodes=9000, run=play)
    (confirmed,) = after.confirmed
    assert confirmed.treatment == rule_set(1)
    assert confirmed.is_weakness
    (latest,) = after.continuations
    assert (latest.tested, latest.level, latest.confirmed, after.round) == (1, 0.025, 1, 1)
    assert confirmed.confirmation.effect.seeds == pytest.approx(latest.seeds / OVERSAMPLING, abs=1)
    assert after.verdicts[1] == before.verdicts[1]


def test_levels_halve_and_confirmed_verdicts_stay() -> None:
    before, play = drawn({1: 20.0} | dict.fromkeys(range(2, 9), 0.0), world=1)
    (strong,) = before.confirmed
    found = before
    for _ in range(3):
        found = continue_evaluation(SETUP, found, seed=0, episodes=1500, run=play)
    assert [one.level for one in found.continuations] == [0.025, 0.0125, 0.00625]
    assert strong in found.verdicts


def test_rare_rule_sets_need_more_episodes() -> None:
    before, _ = drawn({1: 1.0, 2: -8.0}, world=2)
    rare = replace(before.verdicts[1], difference=1.0, changed_episodes=before.verdicts[1].sample.episodes // 20)
    before = replace(before, verdicts=(before.verdicts[0], rare))
    assert choose_undecided(before, 500) == ([], 0)
    assert choose_undecided(before, 3000) == ([0], 1000)
    assert choose_undecided(before, 30_000)[0] == [0, 1]
    assert continue_evaluation(SETUP, before, seed=0, episodes=500) is before


def test_other_methods_cannot_be_continued(raises_saved) -> None:
    before, play = drawn({1: 1.0})
    paper = replace(before, settings=EvaluationSettings(method="paper"))
    with raises_saved(LegibleError):
        continue_evaluation(SETUP, paper, seed=0, episodes=1000, run=play)


@pytest.mark.statistical
def test_useless_rules_are_not_confirmed_by_many_continuations() -> None:
    """Three continuations of studies without effect: at most alpha of the studies confirm something through them."""
    studies, false = 24, 0
    for world in range(studies):
        found, play = drawn(dict.fromkeys(range(1, 9), 0.0), world)
        before = len(found.confirmed)
        for _ in range(3):
            found = continue_evaluation(SETUP, found, seed=0, episodes=3000, run=play)
        false += len(found.confirmed) > before
    assert false <= stats.binom.isf(0.001, studies, 0.05)


def test_what_is_said(snapshot) -> None:
    assert Continuation(12, 4000, 0.025, 2).sentence() == snapshot
    assert Continuation(1, 400, 0.0125, 0).sentence() == snapshot
