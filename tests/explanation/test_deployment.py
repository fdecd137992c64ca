"""Facts before a deployment: figures unguided and guided, the ones that get worse, and what was not tested."""

from dataclasses import replace

import numpy as np
import pytest

from explanation.test_explanation import WALLS, study, verdict
from legible.evaluation import Figure, PlayedBlocks, Sample
from legible.evaluation.statistics import paired
from legible.explanation import conclude, summarise_deployment
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


def test_every_figure_unguided_and_guided(snapshot) -> None:
    deployment = summarise_deployment(improvement(BASE, GUIDED))
    figures = by_name(deployment.figures)
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


def test_the_headline_names_the_cost_of_a_gain(snapshot) -> None:
    made = improvement(BASE, GUIDED)
    conclusion = conclude(study(verdict(WALLS, 1.0)), made)
    assert conclusion.headline == snapshot
    assert conclusion.sentences[0] == snapshot


def test_shares_of_steps_and_the_seeds_that_lose_most() -> None:
    deployment = summarise_deployment(improvement(BASE, GUIDED))
    assert (deployment.overridden, deployment.fired, deployment.episodes_changed) == (0.1, 0.2, 1.0)
    assert deployment.seeds_lost == 0.1
    assert len(deployment.losses) == 5
    assert (deployment.losses[0].seed, deployment.losses[0].base, deployment.losses[0].guided) == (0, 5.0, -30.0)
    assert summarise_deployment(improvement(GUIDED, GUIDED)).losses == ()


def test_a_truncated_episode_has_not_failed(snapshot) -> None:
    won, lost = np.tile([1.0, 1.0, 1.0, 0.0], 100), np.tile([1.0, 0.0, 0.0, 0.0], 100)
    cut = np.tile([False, False, False, True], 100)
    made = improvement(BASE, GUIDED, success=(lost, won), truncated=(cut, cut))
    deployment = summarise_deployment(made, success="all food is eaten")
    figures = by_name(deployment.figures)
    assert (figures["success"].base.value, figures["success"].guided.value) == (0.25, 0.75)
    assert (figures["failure"].base.value, figures["failure"].guided.value) == (0.5, 0.0)
    assert figures["failure"].direction == "better"
    assert deployment.success == snapshot
    assert "does not say" in summarise_deployment(improvement(BASE)).success
    assert any("ends 25 %" in sentence for sentence in deployment.not_tested)


def test_the_threshold_of_the_environment(snapshot) -> None:
    assert summarise_deployment(improvement(BASE, GUIDED), solved=40.0).success == snapshot
    assert "solved" not in summarise_deployment(improvement(BASE, GUIDED)).success
    assert summarise_deployment(improvement(BASE), solved=float(BASE.mean())).success == snapshot


def test_without_a_guided_policy() -> None:
    deployment = summarise_deployment(improvement(BASE), environment="CartPole-v1", play=PlaySettings())
    assert not deployment.is_guided
    assert all(change.guided is None and len(change.cells()) == 2 for change in deployment.figures)
    assert "400 seeds of CartPole-v1" in deployment.not_tested[0]
    assert "greedy" in deployment.not_tested[1]


def test_no_cost_is_claimed_only_if_no_figure_is_uncertain(snapshot) -> None:
    assert summarise_deployment(improvement(BASE, BASE + 3.0)).cost_clause() == snapshot
    shifted = BASE + 3.0 + np.where(np.arange(N) < 40, np.tile([-8.0, 8.0], 200), 0.0)
    assert summarise_deployment(improvement(BASE, shifted)).cost_clause() == snapshot


def test_the_verdict_names_all_figures(snapshot) -> None:
    won, lost = np.tile([1.0, 1.0, 1.0, 0.0], 100), np.tile([1.0, 0.0, 0.0, 0.0], 100)
    assert summarise_deployment(improvement(BASE, GUIDED, success=(lost, won))).verdict() == snapshot
    assert summarise_deployment(improvement(BASE, BASE + 3.0)).verdict() == snapshot


def test_plain_data_for_json() -> None:
    deployment = summarise_deployment(improvement(BASE, GUIDED))
    assert deployment.to_dict()["figures"][0]["base"] == Figure(*deployment.figures[0].base)
