"""Objectives: what guidance is to raise; a new one from outside the package in a few lines."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import mirror_world
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import OBJECTIVES, Objective, evaluate, find_objective, parse_constraints, register_objective
from legible.evaluation.figures import (
    _shown,
    _shown_change,
    _shown_effect,
    effects,
    figure_rows,
    figure_table,
    figures,
)
from legible.evaluation.objectives import ComparisonOptions, check_objectives
from legible.evaluation.statistics import Effect, paired
from legible.evaluation.units import Setup, UnitResult
from legible.improvement import improve
from legible.play import STAGES, Stage, declare_stage, stage_seeds
from legible.rules import RuleSet, parse_rule
from legible.settings import EvaluationSettings, ImprovementSettings, PlaySettings
from played_blocks import result

GOOD = RuleSet((parse_rule("+Left <- left", mirror_world.SPACE),))
SETUP = Setup(
    mirror_world.policy(),
    EnvironmentSpec("mirror_world:MirrorWorld"),
    (GOOD,),
    PlaySettings(batch=8, unit_episodes=40),
)


def test_the_mean_is_the_default(raises_saved) -> None:
    assert find_objective(EvaluationSettings().objective).words == "mean return"
    with raises_saved(LegibleError):
        find_objective("meen")


def test_an_objective_from_outside_the_package_decides(monkeypatch) -> None:
    monkeypatch.setitem(OBJECTIVES, "short", None)
    register_objective(Objective("short", "short episodes", lambda episodes: -episodes.lengths.astype(float)))
    settings = EvaluationSettings(method="paper", episodes=40, confirmation_episodes=40, objective="short")
    found = evaluate(SETUP, seed=0, settings=settings)
    (verdict,) = found.verdicts
    blocks = found.confirmation_blocks
    shorter = blocks.base.lengths - blocks.guided(0).lengths
    assert verdict.confirmation.effect.mean == pytest.approx(shorter.mean())
    improved = improve(SETUP, found, seed=0, settings=ImprovementSettings(episodes=40, final_episodes=40))
    assert improved.rule_sets == (GOOD,)


def episodes(returns, success=None, costs=None, changed=None) -> UnitResult:
    """Episodes of which only what is given matters."""
    n = len(returns)
    return UnitResult(
        returns=np.array(returns, float),
        lengths=np.ones(n, np.int64),
        truncated=np.zeros(n, bool),
        success=np.full(n, np.nan) if success is None else np.array(success, float),
        costs=np.zeros(n) if costs is None else np.array(costs, float),
        fired=np.zeros(n, np.int64),
        changed=np.zeros(n, np.int64) if changed is None else np.array(changed, np.int64),
    )


COMPARISON = ComparisonOptions(invented_loss=0.0, resamples=2000, rng_seed=0)


def test_values_by_hand() -> None:
    """Twenty returns 1 … 20: mean and median 10.5, the worst tenth is 1 and 2."""
    block = episodes(np.random.default_rng(0).permutation(20) + 1.0, success=[1, 0] * 10, costs=[3, 1] * 10)
    expected = {"mean": 10.5, "median": 10.5, "worst-tenth": 1.5, "success": 0.5, "cost": -2.0}
    assert {name: find_objective(name).value(block) for name in expected} == pytest.approx(expected)
    odd = episodes([5.0, 1.0, 9.0])
    assert find_objective("median").value(odd) == 5.0
    assert find_objective("worst-tenth").value(odd) == 1.0
    told = figures(block)
    assert told["cost"].value == 2.0, "people read a cost as it is"
    assert set(figures(odd)) == {"mean", "median", "worst-tenth"}, "nobody told of success, and nothing was asked for"
    # Clopper and Pearson for 10 of 20
    assert (told["success"].low, told["success"].high) == pytest.approx((0.2720, 0.7280), abs=1e-4)
    for figure in told.values():
        assert figure.low <= figure.value <= figure.high


def test_the_median_is_a_difference_of_medians_and_not_a_median_of_differences() -> None:
    """Two of three pairs gain 10, and the median falls from 20 to 11."""
    base, guided = episodes([1.0, 20.0, 21.0] * 40), episodes([11.0, 0.0, 31.0] * 40)
    changed = np.ones(120, bool)
    assert np.median(guided.returns - base.returns) == 10.0
    effect = find_objective("median").test(guided, base, changed, COMPARISON)
    assert effect.mean == 11.0 - 20.0
    assert effect.p == 1.0
    assert effect.high < 0.0


def test_the_worst_tenth_may_fall_while_the_mean_rises() -> None:
    base = episodes(np.zeros(1000))
    guided = episodes(np.where(np.arange(1000) % 20 == 0, -50.0, 10.0), changed=np.ones(1000))
    found = effects((base, guided), guided, base)
    assert found["mean"].mean == pytest.approx(7.0)
    assert found["mean"].low > 5.0
    assert found["worst-tenth"].mean == pytest.approx(-20.0)  # 50 of the 100 worst at -50, the others at 10
    assert found["worst-tenth"].high < 0.0
    rows = {row["objective"]: row for row in figure_rows({"base": base, "guided": guided}, found)}
    assert rows["worst-tenth"]["guided"]["value"] == pytest.approx(-20.0)
    assert rows["worst-tenth"]["difference"]["value"] == pytest.approx(-20.0)


def test_success_is_mcnemars_test(raises_saved) -> None:
    """Ten pairs: four gain success, one loses it: P(at least 4 of 5) = 6 / 32."""
    base = episodes([0.0] * 10, success=[0, 0, 0, 0, 1, 1, 1, 0, 0, 1])
    guided = episodes([0.0] * 10, success=[1, 1, 1, 1, 0, 1, 1, 0, 0, 1])
    changed = np.arange(10) < 7
    effect = find_objective("success").test(guided, base, changed, COMPARISON)
    assert (effect.mean, effect.p, effect.changed, effect.seeds) == (pytest.approx(0.3), 6 / 32, 7, 10)
    assert effect.low < 0.0 < effect.mean < effect.high
    with raises_saved(LegibleError):
        find_objective("success").value(episodes([1.0, 2.0]))


def test_a_lower_cost_is_better() -> None:
    base, guided = episodes([0.0] * 60, costs=[5.0, 6.0] * 30), episodes([0.0] * 60, costs=[3.0, 5.0] * 30)
    effect = find_objective("cost").test(guided, base, np.ones(60, bool), COMPARISON)
    assert effect.mean == pytest.approx(1.5)
    assert effect.p < 1e-6
    row = figure_rows({"base": base, "guided": guided}, effects((base, guided), guided, base))[-1]
    assert (row["objective"], row["base"]["value"], row["difference"]["value"]) == ("cost", 5.5, pytest.approx(-1.5))
    with pytest.raises(LegibleError, match="needs a cost"):
        check_objectives("cost", "", PlaySettings())
    check_objectives("cost", "", PlaySettings(cost="energy"))


@pytest.mark.parametrize("name", ["mean", "median", "worst-tenth", "success", "cost"])
def test_where_nothing_is_changed_nothing_is_found(name: str) -> None:
    rng = np.random.default_rng(0)
    block = episodes(rng.normal(size=40), success=[0, 1] * 20, costs=rng.random(40))
    effect = find_objective(name).test(block, block, np.zeros(40, bool), COMPARISON)
    assert (effect.mean, effect.p, effect.low, effect.high) == (0.0, 1.0, 0.0, 0.0)
    standing = find_objective(name).standing(block, block, np.zeros(40, bool))
    assert standing.z == -np.inf


def test_the_papers_method_compares_means_by_the_t_test() -> None:
    base, guided = episodes([1.0, 2.0, 4.0]), episodes([2.0, 3.0, 9.0])
    assert find_objective("mean").compare(guided, base) == paired(guided.returns, base.returns)


def test_constraints_are_kept_where_the_interval_excludes_a_larger_loss() -> None:
    (constraint,) = parse_constraints("worst-tenth no lower than by 20")
    assert (constraint.objective.name, constraint.margin) == ("worst-tenth", 20.0)
    assert constraint.is_kept(Effect(-5.0, 7.0, -19.0, 9.0, 0.8))
    assert not constraint.is_kept(Effect(5.0, 20.0, -30.0, 40.0, 0.4)), "no harm was shown, but nor was its absence"
    two = ["success no lower than by 0.02", "cost no higher than by 1"]
    assert [one.words for one in parse_constraints(f" {two[0]} ; {two[1]};")] == two
    assert parse_constraints("") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worst-tenth >= -20", 'is none; a constraint is written as "worst-tenth no lower than by 20"'),
        ("worst-tent no lower than by 20", "Did you mean 'worst-tenth'"),
        ("worst-tenth no higher than by 20", 'for worst-tenth say "no lower than by"'),
        ("cost no lower than by 20", 'for cost say "no higher than by"'),
        ("mean no lower than by 0", "is no number above 0"),
        ("mean no lower than by 1e", "is no number above 0"),
    ],
)
def test_constraints_that_are_none_are_refused(text: str, message: str) -> None:
    with pytest.raises(LegibleError, match=message):
        parse_constraints(text)


def test_a_constraint_keeps_a_rule_set_from_being_confirmed_and_composed() -> None:
    """Guidance makes MirrorWorld's episodes better; a constraint that it be no longer than before says otherwise."""
    settings = EvaluationSettings(method="paper", episodes=40, confirmation_episodes=40)
    found = evaluate(SETUP, seed=0, settings=settings)
    assert [verdict.is_confirmed for verdict in found.verdicts] == [True]
    register_objective(Objective("long", "long episodes", lambda episodes: episodes.lengths.astype(float)))
    try:
        strict = EvaluationSettings(
            method="paper", episodes=40, confirmation_episodes=40, constraint="long no lower than by 0.001"
        )
        found = evaluate(SETUP, seed=0, settings=strict)
        (verdict,) = found.verdicts
        (check,) = verdict.confirmation.constraints
        shorter = found.confirmation_blocks.guided(0).lengths - found.confirmation_blocks.base.lengths
        assert check.effect.mean == pytest.approx(shorter.mean())
        assert (check.is_kept, verdict.is_confirmed) == (False, False)
        improved = improve(SETUP, found, seed=0, settings=ImprovementSettings(episodes=40, final_episodes=40))
        assert improved.rule_sets == ()
    finally:
        OBJECTIVES.pop("long")


def test_a_stage_is_one_declaration(monkeypatch) -> None:
    monkeypatch.setattr("legible.play.stages.STAGES", dict(STAGES))
    from legible.play import stages

    stages.declare_stage(Stage("toys", 40, "toy", "to play with", lambda *_: 5, lambda *_: 10))
    assert not set(stage_seeds(0, "toys", 0, 50)) & set(stage_seeds(0, "final", 0, 50))
    for clash in (("toys", 41), ("other", 40), ("other", 0)):
        with pytest.raises(LegibleError, match="clashes"):
            declare_stage(Stage(*clash, "toy", "", lambda *_: 0, lambda *_: 0))
    with pytest.raises(LegibleError, match="must lie in"):
        declare_stage(Stage("far", 64, "toy", "", lambda *_: 0, lambda *_: 0))
    with pytest.raises(LegibleError, match="there is no stage 'nowhere'"):
        stage_seeds(0, "nowhere", 0, 1)


def test_composition_compares_by_the_objective() -> None:
    found = evaluate(SETUP, seed=0, settings=EvaluationSettings(method="paper", episodes=40, confirmation_episodes=40))
    improved = improve(SETUP, found, seed=0, settings=ImprovementSettings(episodes=40, final_episodes=40))
    assert improved.chosen.mean == improved.steps[0].mean
    assert np.isclose(improved.effect.mean, improved.guided.mean - improved.base.mean)


def test_how_a_median_stands_is_in_standard_errors_however_small() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(0.0, 0.01, 60)
    one, other = result(base + rng.normal(0.004, 0.004, 60)), result(base)
    standing = find_objective("median").standing(one, other, np.ones(60, np.bool_))
    assert 0.0 < standing.error < 0.1
    assert standing.z == pytest.approx(standing.difference / standing.error)
    assert standing.p == pytest.approx(stats.norm.sf(standing.z))
    nothing = find_objective("median").standing(other, other, np.zeros(60, np.bool_))
    assert (nothing.difference, nothing.z, nothing.p) == (0.0, -np.inf, 1.0)


def test_a_table_of_figures_writes_shares_in_percent_and_differences_with_their_sign(snapshot) -> None:
    base = replace(result([1.0, 2.0, 3.0, 4.0]), success=np.array([0.0, 0.0, 1.0, 1.0]))
    guided = replace(result([3.0, 4.0, 5.0, 6.0]), success=np.array([1.0, 1.0, 1.0, 0.0]))
    rows = figure_rows({"base": base, "guided": guided}, effects([base, guided], guided, base), {"random play": base})
    columns, lines = figure_table(rows)
    assert " | ".join(columns) == snapshot
    told = {line[0]: line[1:] for line in lines}
    alone, better, difference, other = told["Mean return"]
    assert (alone.split()[0], better.split()[0], difference.split()[0]) == ("2.5", "4.5", "+2")
    assert other == alone
    assert next(cells[0] for words, cells in told.items() if "uccess" in words).startswith("50 %")
    assert figure_table([]) == (columns[:1], [])


def test_a_share_of_none_or_all_reaches_the_end() -> None:
    none, some, every = (
        figures(replace(result([0.0] * 4), success=np.array(values)))["success"]
        for values in ([0.0] * 4, [0.0, 1.0, 0.0, 1.0], [1.0] * 4)
    )
    assert (none.value, none.low, every.value, every.high) == (0.0, 0.0, 1.0, 1.0)
    assert 0.0 < none.high == pytest.approx(1.0 - every.low)
    assert none.high == pytest.approx(1.0 - 0.025**0.25)  # by hand: four misses in a row
    assert 0.0 < some.low < 0.5 < some.high < 1.0


def test_what_objectives_need() -> None:
    """Episodes of a rung and of a confirmation; only costs are better the lower they are."""
    needs = {"mean": (0, 0), "median": (100, 500), "worst-tenth": (200, 1000), "success": (0, 0), "cost": (0, 0)}
    for name, episodes in needs.items():
        found = find_objective(name)
        assert (found.rung_episodes, found.confirmation_episodes) == episodes
        assert (found.is_binary, found.less_is_better) == (name == "success", name == "cost")
    assert ComparisonOptions(0.0, 100, 1).alpha == 0.05


def test_no_loss_is_invented_unless_it_is_asked_for() -> None:
    guided, base, changed = result([1.0, 3.0, 2.0]), result([0.0, 0.0, 0.0]), np.ones(3, np.bool_)
    mean = find_objective("mean")
    assert mean.standing(guided, base, changed) == mean.standing(guided, base, changed, 0.0)
    assert mean.standing(guided, base, changed).z == pytest.approx(2.0 * np.sqrt(3.0))


def test_what_episodes_tell() -> None:
    """One episode tells nothing; success and cost are told where they are known, costs where there are any."""
    names = ["mean", "median", "worst-tenth"]
    assert figures(result([1.0])) == {}
    assert list(figures(result([1.0, 2.0]))) == names
    successful = replace(result([1.0, 2.0]), success=np.array([1.0, 0.0]))
    assert list(figures(successful)) == [*names, "success"]
    assert "success" not in figures(replace(successful, success=np.array([1.0, np.nan])))
    costly = replace(result([1.0, 2.0]), costs=np.array([0.0, 3.0]))
    assert list(figures(costly)) == [*names, "cost"]
    assert "cost" not in figures(replace(costly, costs=np.zeros(2)))
    free = replace(successful, costs=np.zeros(2))
    assert list(effects([costly, free], costly, free)) == [*names, "cost"]
    assert effects([result([1.0])], result([1.0]), costly) == {}


def test_figures_and_their_intervals_by_hand() -> None:
    costly = replace(result([1.0, 2.0, 6.0]), costs=np.array([1.0, 2.0, 6.0]))
    reach = 4.302652729911275 * np.sqrt(7.0 / 3.0)  # Student's t with two degrees of freedom
    for name in ("mean", "cost"):
        found = figures(costly)[name]
        assert found == pytest.approx((3.0, 3.0 - reach, 3.0 + reach))
    shares = replace(result([0.0] * 5), success=np.array([1.0, 0.0, 0.0, 1.0, 0.0]))
    exact = stats.binomtest(2, 5).proportion_ci(method="exact")
    assert figures(shares)["success"] == pytest.approx((0.4, exact.low, exact.high))
    failed = replace(costly, failed=np.array([False, False, True]), errors=np.array(["", "", "it broke"]))
    assert figures(failed)["mean"].value == 1.5


def test_nothing_is_gained_beside_oneself_even_where_episodes_failed() -> None:
    made = replace(result([1.0, 2.0, 6.0]), failed=np.array([False, True, False]), errors=np.array(["", "x", ""]))
    for method in ("racing", "paper"):
        found = effects([made], made, made, method)["mean"]
        assert (found.mean, found.p) == (0.0, 1.0)


def test_a_share_changes_by_points() -> None:
    cell = {"value": 0.25, "low": -0.1, "high": 0.5}
    assert _shown_change("success", cell) == "+25 points (−10 to +50)"
    assert _shown_change("mean", cell) == "+0.25 (−0.1 to +0.5)"
    assert _shown("success", {"value": 0.25, "low": 0.1, "high": 0.5}) == "25 % (10 % to 50 %)"
    costs = _shown_effect(find_objective("cost"), Effect(2.0, 0.5, 1.0, 4.0, 0.01))
    assert (costs["value"], costs["low"], costs["high"]) == (-2.0, -4.0, -1.0)
