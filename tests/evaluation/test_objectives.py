"""Objectives: what guidance is to raise; a new one from outside the package in a few lines."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import mirror_world
from legible.environments.reward_terms import as_table
from legible.errors import LegibleError
from legible.evaluation import OBJECTIVES, Objective, evaluate, find_objective, parse_constraints, register_objective
from legible.evaluation.figures import effects, figure_rows, figure_table, figures
from legible.evaluation.objectives import ComparisonOptions, check_objectives
from legible.evaluation.statistics import Effect, paired
from legible.evaluation.units import Setup, UnitResult
from legible.improvement import improve
from legible.play import STAGES, Stage, declare_stage, stage_seeds
from legible.rules import RuleSet, parse_rule
from legible.settings import EvaluationSettings, ImprovementSettings, PlaySettings
from played_blocks import result

GOOD = RuleSet((parse_rule("+Left <- left", mirror_world.SPACE),))
SETUP = Setup(mirror_world.policy(), mirror_world.WORLD, (GOOD,), PlaySettings(batch=8, unit_episodes=40))


def test_the_mean_is_the_default(raises_saved) -> None:
    assert find_objective(EvaluationSettings().objective).words == "mean return"
    with raises_saved(LegibleError):
        find_objective("meen")


def test_a_reward_term_is_an_objective(raises_saved) -> None:
    base = replace(result([1.0, 2.0, 6.0]), terms=as_table([{"food": 1.0}, {"food": 2.0}, {"fuel_cost": -3.0}]))
    food = find_objective("term:food")
    assert food is find_objective("term:food")
    assert food.value(base) == 1.0
    assert list(figures(base, "term:food"))[-1] == "term:food"
    guided = replace(base, terms=as_table([{"food": 2.0}, {"food": 4.0}, {"food": 3.0}]))
    assert food.compare(guided, base).mean == 2.0
    assert effects([base, guided], guided, base, also="term:food")["term:food"].mean == 2.0
    rows = figure_rows({"base": figures(base, "term:food"), "guided": figures(guided, "term:food")})
    assert rows[-1]["guided"]["value"] == 3.0
    (constraint,) = parse_constraints("term:fuel_cost no lower than by 2")
    assert constraint.objective.value(base) == -1.0
    with raises_saved(LegibleError):
        find_objective("term:foot").value(base)


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


def episodes(returns, **columns) -> UnitResult:
    """Episodes of which only what is given matters."""
    kinds = {"changed": np.int64}
    given = {name: np.array(column, kinds.get(name, float)) for name, column in columns.items()}
    return replace(result(returns), **given)


COMPARISON = ComparisonOptions(invented_loss=0.0, resamples=2000, rng_seed=0)


def test_values_by_hand() -> None:
    """Twenty returns 1 … 20: mean and median 10.5, the worst tenth is 1 and 2."""
    block = episodes(np.random.default_rng(0).permutation(20) + 1.0, success=[1, 0] * 10, costs=[3, 1] * 10)
    expected = {"mean": 10.5, "median": 10.5, "worst-tenth": 1.5, "success": 0.5, "cost": -2.0}
    assert {name: find_objective(name).value(block) for name in expected} == pytest.approx(expected)
    odd = episodes([5.0, 1.0, 9.0])
    assert find_objective("median").value(odd) == 5.0
    assert find_objective("worst-tenth").value(odd) == 1.0
    shown = figures(block)
    assert shown["cost"].value == 2.0, "a cost is shown with its own sign"
    assert set(figures(odd)) == {"mean", "median", "worst-tenth"}, "success and cost are unknown"
    # Clopper and Pearson for 10 of 20
    assert (shown["success"].low, shown["success"].high) == pytest.approx((0.2720, 0.7280), abs=1e-4)
    for figure in shown.values():
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
    rows = {row["objective"]: row for row in figure_rows({"base": figures(base), "guided": figures(guided)}, found)}
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
    of_blocks = {"base": figures(base), "guided": figures(guided)}
    row = figure_rows(of_blocks, effects((base, guided), guided, base))[-1]
    assert (row["objective"], row["base"]["value"], row["difference"]["value"]) == ("cost", 5.5, pytest.approx(-1.5))
    with pytest.raises(LegibleError, match="needs a cost"):
        check_objectives("cost", "", PlaySettings())
    check_objectives("cost", "", PlaySettings(cost="energy"))


@pytest.mark.parametrize("name", ["mean", "median", "worst-tenth", "success", "cost"])
def test_no_objective_finds_an_effect_without_changes(name: str) -> None:
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
    assert constraint.check(Effect(-5.0, 7.0, -19.0, 9.0, 0.8)).is_kept
    assert not constraint.check(Effect(5.0, 20.0, -30.0, 40.0, 0.4)).is_kept, (
        "no harm was shown, but nor was its absence"
    )
    two = ["success no lower than by 0.02", "cost no higher than by 1"]
    assert [one.words for one in parse_constraints(f" {two[0]} ; {two[1]};")] == two
    assert parse_constraints("") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worst-tenth >= -20", 'cannot be read; write it as "worst-tenth no lower than by 20"'),
        ("worst-tent no lower than by 20", "Did you mean 'worst-tenth'"),
        ("worst-tenth no higher than by 20", 'for worst-tenth write "no lower than by"'),
        ("cost no lower than by 20", 'for cost write "no higher than by"'),
        ("mean no lower than by 0", "is not a number above 0"),
        ("mean no lower than by 1e", "is not a number above 0"),
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


def test_standing_of_a_median_is_in_standard_errors() -> None:
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
    of_base = figures(base)
    changes = effects([base, guided], guided, base)
    rows = figure_rows({"base": of_base, "guided": figures(guided)}, changes, {"random play": of_base})
    columns, lines = figure_table(rows)
    assert " | ".join(columns) == snapshot
    shown = {line[0]: line[1:] for line in lines}
    alone, better, difference, other = shown["Mean return"]
    assert (alone.split()[0], better.split()[0], difference.split()[0]) == ("2.5", "4.5", "+2")
    assert other == alone
    assert next(cells[0] for words, cells in shown.items() if "uccess" in words).startswith("50 %")
    assert figure_table([]) == (columns[:1], [])
    cell = {"value": 0.25, "low": -0.1, "high": 0.5}
    for objective, expected in (("success", "+25 points (−10 to +50)"), ("mean", "+0.25 (−0.1 to +0.5)")):
        row = {"objective": objective, "words": "", "difference": cell, "references": {}}
        assert figure_table([row])[1] == [("", expected)]


def test_a_share_of_none_or_all_reaches_the_end() -> None:
    none, some, every = (
        figures(replace(result([0.0] * 4), success=np.array(values)))["success"]
        for values in ([0.0] * 4, [0.0, 1.0, 0.0, 1.0], [1.0] * 4)
    )
    assert (none.value, none.low, every.value, every.high) == (0.0, 0.0, 1.0, 1.0)
    assert 0.0 < none.high == pytest.approx(1.0 - every.low)
    assert none.high == pytest.approx(1.0 - 0.025**0.25)  # by hand: four misses in a row
    assert 0.0 < some.low < 0.5 < some.high < 1.0


def test_objectives_with_data() -> None:
    """One episode is not enough; success and cost need data."""
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


def test_a_block_has_no_effect_against_itself_with_failed_episodes() -> None:
    made = replace(result([1.0, 2.0, 6.0]), failed=np.array([False, True, False]), errors=np.array(["", "x", ""]))
    for method in ("racing", "paper"):
        found = effects([made], made, made, method)["mean"]
        assert (found.mean, found.p) == (0.0, 1.0)
