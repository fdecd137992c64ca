"""What a person reads before a guided policy is used: figures before and after, what gets worse, what is not known."""

from dataclasses import replace

import numpy as np
import pytest

from explanation.test_explanation import WALLS, study, verdict
from legible.evaluation import Figure, PlayedBlocks, Sample
from legible.evaluation.statistics import paired
from legible.explanation import conclude, weigh_deployment
from legible.explanation.deployment import FigureChange
from legible.improvement import Improvement
from legible.rules import RuleSet
from legible.settings import ImprovementSettings, PlaySettings
from played_blocks import with_returns

N = 400
# Guidance lifts most episodes and lets the worst ones fall below 0.
BASE = np.concatenate([np.full(40, 5.0), np.full(360, 20.0) + np.arange(360) % 7])
GUIDED = np.concatenate([np.full(40, -30.0), np.full(360, 60.0) + np.arange(360) % 5])


def improvement(
    base: np.ndarray, guided: np.ndarray | None = None, **columns: tuple[np.ndarray, np.ndarray]
) -> Improvement:
    final = with_returns(base) if guided is None else with_returns(base, guided)
    results = [
        replace(result, **{name: values[i] for name, values in columns.items()})
        for i, result in enumerate(final.results)
    ]
    if guided is not None:
        results[1] = replace(results[1], changed=np.full(len(base), 2), fired=np.full(len(base), 4))
    blocks = PlayedBlocks(final.setup, final.seeds, tuple(results))
    rules = RuleSet(WALLS if guided is not None else ())
    effect = paired(results[-1].returns, results[0].returns)
    return Improvement((), rules, (), Sample.of(results[0]), effect, blocks, ImprovementSettings())


def by_name(changes: tuple[FigureChange, ...]) -> dict[str, FigureChange]:
    return {change.name: change for change in changes}


def test_every_figure_before_and_after(snapshot) -> None:
    found = weigh_deployment(improvement(BASE, GUIDED))
    figures = by_name(found.figures)
    assert list(figures) == ["mean", "median", "worst-tenth", "below-zero"]
    assert {name: change.direction for name, change in figures.items()} == {
        "mean": "better",
        "median": "better",
        "worst-tenth": "worse",
        "below-zero": "worse",
    }
    below = figures["below-zero"]
    assert (below.base.value, below.guided.value) == pytest.approx((0.0, 0.1))
    assert below.difference.value == pytest.approx(0.1)
    assert 0.05 < below.difference.low < 0.1 < below.difference.high < 0.15
    assert " | ".join(below.cells()) == snapshot
    assert figures["worst-tenth"].clause() == snapshot


def test_what_it_costs_is_said_in_the_same_breath_as_the_gain(snapshot) -> None:
    made = improvement(BASE, GUIDED)
    told = conclude(study(verdict(WALLS, 1.0)), made)
    assert told.headline == snapshot
    assert told.sentences[0] == snapshot


def test_shares_of_steps_and_the_seeds_that_lose_most() -> None:
    found = weigh_deployment(improvement(BASE, GUIDED))
    assert (found.overridden, found.fired, found.episodes_changed) == (0.1, 0.2, 1.0)
    assert found.seeds_lost == 0.1
    assert len(found.losses) == 5
    assert (found.losses[0].seed, found.losses[0].base, found.losses[0].guided) == (0, 5.0, -30.0)
    assert weigh_deployment(improvement(GUIDED, GUIDED)).losses == ()


def test_success_is_defined_and_what_is_cut_off_has_not_failed(snapshot) -> None:
    won, lost = np.tile([1.0, 1.0, 1.0, 0.0], 100), np.tile([1.0, 0.0, 0.0, 0.0], 100)
    cut = np.tile([False, False, False, True], 100)
    made = improvement(BASE, GUIDED, success=(lost, won), truncated=(cut, cut))
    found = weigh_deployment(made, success="all food is eaten")
    figures = by_name(found.figures)
    assert (figures["success"].base.value, figures["success"].guided.value) == (0.25, 0.75)
    assert (figures["failure"].base.value, figures["failure"].guided.value) == (0.5, 0.0)
    assert figures["failure"].direction == "better"
    assert found.success == snapshot
    assert "does not say" in weigh_deployment(improvement(BASE)).success
    assert any("cuts off 25 %" in sentence for sentence in found.not_tested)


def test_how_it_stands_to_what_counts_as_solved(snapshot) -> None:
    assert weigh_deployment(improvement(BASE, GUIDED), solved=40.0).success == snapshot
    assert "solved" not in weigh_deployment(improvement(BASE, GUIDED)).success
    assert weigh_deployment(improvement(BASE), solved=float(BASE.mean())).success == snapshot


def test_without_a_guided_policy_there_is_only_the_policy_alone() -> None:
    found = weigh_deployment(improvement(BASE), environment="CartPole-v1", play=PlaySettings())
    assert not found.is_guided
    assert all(change.guided is None and len(change.cells()) == 2 for change in found.figures)
    assert "400 seeds of CartPole-v1" in found.not_tested[0]
    assert "greedy" in found.not_tested[1]


def test_nothing_gets_worse_is_said_only_where_it_is_known(snapshot) -> None:
    assert weigh_deployment(improvement(BASE, BASE + 3.0)).cost_clause() == snapshot
    shifted = BASE + 3.0 + np.where(np.arange(N) < 40, np.tile([-8.0, 8.0], 200), 0.0)
    assert weigh_deployment(improvement(BASE, shifted)).cost_clause() == snapshot


def test_one_sentence_says_what_is_better_and_worse(snapshot) -> None:
    won, lost = np.tile([1.0, 1.0, 1.0, 0.0], 100), np.tile([1.0, 0.0, 0.0, 0.0], 100)
    assert weigh_deployment(improvement(BASE, GUIDED, success=(lost, won))).verdict() == snapshot
    assert weigh_deployment(improvement(BASE, BASE + 3.0)).verdict() == snapshot


def test_plain_data_for_json() -> None:
    assert weigh_deployment(improvement(BASE, GUIDED)).to_dict()["figures"][0]["base"] == Figure(
        *weigh_deployment(improvement(BASE, GUIDED)).figures[0].base
    )
