"""What is said of all rule sets together, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from drawn_play import LENGTH, SETUP, DrawnPlay, always, evaluation_of, noise, rule, rule_set
from lab.reproduction.random_baselines import RandomTest
from legible.evaluation import Sample
from legible.evaluation.objectives import ConstraintCheck
from legible.evaluation.screening import _make_verdicts, _Screening, screen
from legible.evaluation.statistics import Effect, standard_error, welch
from legible.evaluation.verdicts import Confirmation, _make_row
from legible.features import FeatureSpace
from legible.hypotheses import Named
from legible.play import stage_seeds
from legible.rules import RuleSet
from legible.settings import EvaluationSettings
from played_blocks import result, with_returns

EFFECT = Effect(2.0, 0.5, 1.0, 3.0, 0.01)


def failing(returns: list[float], failed: list[int]):
    """Episodes of which some failed."""
    made = result(returns)
    marks = np.isin(np.arange(len(returns)), failed)
    return replace(made, failed=marks, errors=np.where(marks, "it broke", ""))


def test_failures_are_counted_on_each_side_and_in_the_confirmation() -> None:
    found = evaluation_of([rule_set(0), rule_set(1)])
    assert found.failed == (0, 0)
    samples = [Sample.of(failing([1.0, 2.0, 3.0, 4.0], failed)) for failed in ([0], [1, 2])]
    verdicts = tuple(replace(v, sample=s) for v, s in zip(found.verdicts, samples, strict=True))
    found = replace(found, base=Sample.of(failing([1.0] * 4, [3])), verdicts=verdicts)
    assert found.failed == (3, 1)
    blocks = with_returns([0.0] * 5, [0.0] * 5)
    blocks = replace(blocks, results=(failing([0.0] * 5, [0, 1]), failing([0.0] * 5, [2])))
    assert replace(found, confirmation_blocks=blocks).failed == (4, 3)


def test_p_values_must_be_strictly_below_the_level() -> None:
    base, better = result([0.0, 1.0, 2.0, 3.0]), result([2.0, 3.0, 3.0, 4.0])
    (found,) = _make_verdicts([rule_set(0)], base, [better], 0.05)
    assert 0.0 < found.p < 0.5
    above = float(np.nextafter(found.p, 1.0))
    weak = [_make_verdicts([rule_set(0)], base, [better], alpha)[0].is_weakness for alpha in (found.p, above)]
    assert weak == [False, True]
    (found,) = _make_verdicts([rule_set(0)], better, [base], 0.05)
    above = float(np.nextafter(found.q_harm, 1.0))
    harms = [_make_verdicts([rule_set(0)], better, [base], alpha)[0].is_harmful for alpha in (found.q_harm, above)]
    assert harms == [False, True]


def test_episodes_summed_up_by_hand() -> None:
    made = replace(
        result([1.0, 3.0, 8.0]),
        lengths=np.array([10, 30, 20]),
        success=np.array([1.0, np.nan, 0.0]),
        costs=np.array([2.0, 4.0, 9.0]),
        fired=np.array([5, 10, 0]),
        changed=np.array([2, 4, 0]),
    )
    found = Sample.of(made)
    assert (found.episodes, found.mean, found.length, found.success, found.cost) == (3, 4.0, 20.0, 0.5, 5.0)
    assert (found.fired, found.changed, found.failed) == (0.25, 0.1, 0)
    assert found.error == pytest.approx(np.std([1.0, 3.0, 8.0], ddof=1) / np.sqrt(3))
    marks = np.array([False, False, True])
    two = Sample.of(replace(made, failed=marks, errors=np.where(marks, "it broke", "")))
    assert (two.episodes, two.failed, two.mean, two.cost, two.success) == (3, 1, 2.0, 3.0, 1.0)
    assert (two.fired, two.error) == (15 / 40, pytest.approx(1.0))
    one = Sample.of(failing([1.0, 2.0], [0]))
    assert (one.mean, np.isnan(one.error)) == (2.0, True)
    none = Sample.of(failing([1.0, 2.0], [0, 1]))
    assert (np.isnan(none.mean), none.fired, none.failed) == (True, 0.0, 2)
    assert np.isnan(Sample.of(result([1.0, 2.0])).success)


def test_steps_are_those_of_the_policy_alone_and_of_all_rule_sets() -> None:
    found = evaluation_of([rule_set(0), rule_set(1), rule_set(2)])
    assert (found.steps, found.unguided_steps) == (0, 0)
    named = zip(found.verdicts, (("mined", 3), ("searched", 4), ("mined", 5)), strict=True)
    found = replace(found, verdicts=tuple(replace(v, found_by=name, steps=n) for v, (name, n) in named))
    assert replace(found, unguided_steps=100).steps == 112


def test_the_level_of_confirmations_and_shares() -> None:
    """A q at the level itself is not confirmed; confirmed verdicts are sorted by the effect in the race."""
    kept, broken = (ConstraintCheck("cost no higher than by 1", EFFECT, is_kept=kept) for kept in (True, False))
    for q, checks, passed in (
        (0.049, (), True),
        (0.05, (), False),
        (0.01, (kept,), True),
        (0.01, (kept, broken), False),
    ):
        assert Confirmation(EFFECT, q, None, None, constraints=checks).is_passed(0.05) == passed
    found = evaluation_of([rule_set(number) for number in range(4)])
    verdicts = [replace(v, q=q) for v, q in zip(found.verdicts, (0.01, 0.05, 0.2, 0.04), strict=True)]
    confirmation = Confirmation(EFFECT, 0.01, None, None)
    verdicts[1] = replace(verdicts[1], is_confirmed=True, confirmation=confirmation, difference=100.0)
    verdicts[2] = replace(verdicts[2], is_confirmed=True, is_weakness=False, is_harmful=True, difference=300.0)
    better = Confirmation(replace(EFFECT, mean=200.0), 0.01, None, None)
    verdicts[3] = replace(verdicts[3], is_confirmed=True, confirmation=better, difference=200.0)
    found = replace(found, verdicts=tuple(verdicts))
    assert (found.share(), found.share("significant"), found.share("confirmed")) == (0.75, 0.5, 0.75)
    assert [v.rule_set for v in found.confirmed] == [rule_set(2), rule_set(3), rule_set(1)]
    assert [v.rule_set for v in found.harmful] == [rule_set(2)]
    assert len(found.weaknesses) == 3
    assert np.isnan(replace(found, verdicts=()).share())


def test_verdicts_as_rows() -> None:
    space = FeatureSpace.of(["x"], ["Go", "Stay"])
    found = evaluation_of([rule_set(0, 1)])
    (verdict,) = found.verdicts
    random = RandomTest((3,), (1,), enforce=True, salt=7)
    without = replace(verdict, treatment=RuleSet((rule(3),)))
    found = replace(found, verdicts=(verdict, without, replace(verdict, treatment=random)))
    rows = found.to_rows(space)
    assert [(row["rule"], row["rules"]) for row in rows] == [("-Go <- x > -1", 2), ("-Go <- x > -4", 1), (None, 0)]
    assert not {"effect", "changed_episodes", "detectable", "too_rare", "constraints", "seeds"} & set(rows[0])
    assert rows[0]["failed_unguided"] == 0
    raced = replace(verdict, changed_episodes=7, detectable=1.5)
    assert _make_row(raced, space)["changed_episodes"] == 7
    assert _make_row(raced, space)["detectable"] == 1.5
    confirmed = replace(raced, confirmation=Confirmation(EFFECT, 0.02, None, None, failed=1, failed_unguided=2))
    row = _make_row(confirmed, space)
    assert (row["effect"], row["low"], row["high"], row["q_confirmed"]) == (2.0, 1.0, 3.0, 0.02)
    assert (row["detectable"], row["too_rare"]) == (1.5, False)
    assert (row["failed_on_fresh_seeds"], row["failed_unguided_on_fresh_seeds"]) == (1, 2)
    assert not {"constraints", "seeds"} & set(row)
    complete = replace(EFFECT, detectable=0.7, changed=30, seeds=90)
    limit = "cost no higher than by 1"
    check = ConstraintCheck(limit, EFFECT, is_kept=True)
    row = _make_row(replace(raced, confirmation=Confirmation(complete, 0.02, None, None, constraints=(check,))), space)
    assert (row["detectable"], row["changed_on_fresh_seeds"], row["seeds"]) == (0.7, 30, 90)
    assert row["constraints"] == {limit: True}


# ---- the paper's screening -------------------------------------------------------------------------------------------

PAPER = EvaluationSettings(method="paper", episodes=40, confirmation_episodes=50)


def test_seeds_and_steps_of_a_screening() -> None:
    """The first gains and is confirmed with its mined rule alone, the second gains and has none, the third does not."""
    draws = {rule(0): noise(1.0, 30.0), rule(2): noise(1.0, 30.0), rule(3): always(-30.0)}
    sets = (rule_set(0, 1), RuleSet((rule(2),)), rule_set(3))
    run = DrawnPlay(draws)
    found = screen(replace(SETUP, treatments=sets), seed=0, settings=PAPER, run=run)
    assert [verdict.is_confirmed for verdict in found.verdicts] == [True, True, False]
    assert [verdict.steps for verdict in found.verdicts] == [LENGTH * (40 + 50 + 50), LENGTH * (40 + 50), LENGTH * 40]
    assert found.unguided_steps == LENGTH * (40 + 50)
    assert found.steps == LENGTH * run.episodes
    assert found.confirmation_blocks is not None
    assert found.confirmation_blocks.seeds == tuple(stage_seeds(0, "confirmation", 0, 50))
    first, second, third = (verdict.confirmation for verdict in found.verdicts)
    assert third is None
    assert (second.of_rule, second.of_generalisation) == (None, None)
    assert (first.effect.mean, first.of_rule.mean, first.of_generalisation.mean) == pytest.approx(
        (30.0, 30.0, 0.0), abs=1.0
    )
    assert found.verdicts[2].is_harmful
    for unconfirmed in (
        screen(replace(SETUP, treatments=sets), seed=0, settings=PAPER, confirm=False, run=DrawnPlay(draws)),
        screen(
            replace(SETUP, treatments=sets),
            seed=0,
            settings=replace(PAPER, confirmation_episodes=0),
            run=DrawnPlay(draws),
        ),
    ):
        assert unconfirmed.confirmation_blocks is None
        assert (unconfirmed.unguided_steps, unconfirmed.steps) == (LENGTH * 40, LENGTH * 160)


def test_sources_get_the_effects_of_a_screening() -> None:
    """Every rule set plays other seeds; its mean is compared with that of the unguided policy."""
    run = DrawnPlay({rule(number): always(10.0 * number) for number in range(4)})
    screening = _Screening(SETUP, 0, 40, "screening", run)
    screening.play([rule_set(1)])
    assert run.episodes == 80
    assert screening.play([]) == []
    two = screening.measure([Named("searched", rule_set(2), None), Named("searched", rule_set(3), None)])
    (one,) = screening.measure([Named("yours", rule_set(0), None)])
    assert run.episodes == 80 + 120
    base = screening.base.returns
    for effect, played in zip((*two, one), screening.others[1:], strict=True):
        assert effect.mean == pytest.approx(played.returns.mean() - base.mean())
        assert effect.error == pytest.approx(np.hypot(standard_error(played.returns), standard_error(base)))
        assert effect.p == welch(played.returns, base)
    assert [effect.mean for effect in (*two, one)] == pytest.approx([20.0, 30.0, 0.0], abs=3.0)
    assert not set(base.tolist()) & set(screening.others[-1].returns.tolist())


def test_the_policy_alone_plays_even_if_there_is_nothing_to_compare_it_with() -> None:
    found = screen(SETUP, seed=0, settings=PAPER, run=(run := DrawnPlay({})))
    assert (found.verdicts, found.base.episodes, run.episodes) == ((), 40, 40)
