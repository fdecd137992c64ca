"""Plots: drawn where they are asked for, with the numbers that they are given."""

import math
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from legible.errors import LegibleError
from legible.evaluation import Confirmation, Evaluation, Sample, Verdict
from legible.evaluation.statistics import Effect
from legible.features import Feature, FeatureSpace, Intervals
from legible.improvement import CompositionStep, Improvement
from legible.mining import Importance, Mining
from legible.report.plots import (
    COLOURS,
    LEAST_P,
    QUIET,
    importances,
    plot_composition,
    plot_effects,
    plot_importances,
    plot_p_values,
    plot_returns,
)
from legible.rules import RuleSet, parse_rule
from legible.settings import EvaluationSettings, ImprovementSettings
from played_blocks import with_returns

SPACE = FeatureSpace.of(["a", "b"], ["Go", "Wait"])
SAMPLE = Sample(10, 5.0, 1.0, 20.0, math.nan, math.nan, 0.25, 0.1)


@pytest.fixture
def ax() -> Axes:
    return Figure().subplots()


def verdict(text: str, mean: float, *, p: float = 0.01, confirmed: bool | None = True) -> Verdict:
    rule = parse_rule(text, SPACE)
    confirmation = None if confirmed is None else Confirmation(Effect(mean, 1.0, mean - 2, mean + 3, p), p, None, None)
    return Verdict(RuleSet((rule,), rule), SAMPLE, mean, p, p, 1.0, 1.0, p < 0.05, False, confirmation, bool(confirmed))


def study(*verdicts: Verdict) -> Evaluation:
    return Evaluation(SAMPLE, verdicts, EvaluationSettings(alpha=0.05))


def test_returns_are_shares_of_each_policy(ax: Axes) -> None:
    rng = np.random.default_rng(0)
    samples = {"base": rng.normal(0, 1, 400), "guided": rng.normal(2, 1, 100)}
    assert plot_returns(samples, ax) is ax
    filled = [patch for patch in ax.patches if patch.get_fill()]
    assert len(filled) == 2
    assert [line.get_xdata()[0] for line in ax.lines] == [sample.mean() for sample in samples.values()]
    for patch, sample in zip(filled, samples.values(), strict=True):
        corners = patch.get_xy()
        heights = corners[1 : len(corners) // 2 : 2, 1]
        assert heights.sum() == pytest.approx(1.0)
        assert heights.max() < 0.5, sample.size
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text().split(":")[0] for text in legend.get_texts()] == ["base", "guided"]


def test_returns_that_never_vary_can_be_drawn(ax: Axes) -> None:
    plot_returns({"base": [3.0, 3.0], "guided": [3.0]}, ax)
    assert ax.get_xlim()[0] < 3.0 < ax.get_xlim()[1]


def test_missing_returns_are_refused(ax: Axes, raises_saved) -> None:
    with pytest.raises(LegibleError, match="no returns to plot"):
        plot_returns({}, ax)
    with raises_saved(LegibleError):
        plot_returns({"base": [1.0, math.nan]}, ax)


def test_effects_are_sorted_with_their_intervals(ax: Axes) -> None:
    found = study(
        verdict("+Go <- a > 1", 2.0, confirmed=False),
        verdict("+Go <- a > 2", 9.0),
        verdict("+Go <- a > 3", 99.0, confirmed=None),
        verdict("+Go <- a > 4", 5.0),
    )
    plot_effects(found, SPACE, ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["+Go <- a > 2", "+Go <- a > 4", "+Go <- a > 1"]
    assert [bar.lines[0].get_xdata()[0] for bar in ax.containers] == [9.0, 5.0, 2.0]
    reach = [np.asarray(bar.lines[2][0].get_segments()[0])[:, 0].tolist() for bar in ax.containers]
    assert reach == [[7.0, 12.0], [3.0, 8.0], [0.0, 5.0]]
    assert [bar.lines[0].get_color() for bar in ax.containers] == [COLOURS[0], COLOURS[0], QUIET]
    fewer = plot_effects(found, SPACE, Figure().subplots(), most=2)
    assert [label.get_text() for label in fewer.get_yticklabels()] == ["+Go <- a > 2", "+Go <- a > 4"]


def test_labels_hold_the_whole_rule(ax: Axes) -> None:
    wide = FeatureSpace.of([f"a_feature_with_a_long_name_{i}" for i in range(9)], ["Go"])
    rule = parse_rule("+Go <- " + " & ".join(f"{name} > 0" for name in wide.names), wide)
    plot_effects(study(replace(verdict("+Go <- a > 1", 1.0), treatment=RuleSet((rule,), rule))), wide, ax)
    (label,) = (label.get_text() for label in ax.get_yticklabels())
    assert label.replace("\n", " ") == rule.text(wide)


def test_p_values_rise(ax: Axes) -> None:
    found = study(*(verdict("+Go <- a > 1", 1.0, p=p) for p in (0.5, 0.0, 0.03)))
    plot_p_values(found, ax)
    level, corrected, dots = ax.lines
    assert list(dots.get_ydata()) == [LEAST_P, 0.03, 0.5]
    assert set(level.get_ydata()) == {0.05}
    np.testing.assert_allclose(corrected.get_ydata(), [0.05 / 3, 0.1 / 3, 0.05])


def mining(weights: list[list[list[float]]] | None) -> Mining:
    space = FeatureSpace((Feature("a", group="g"), Feature("b"), Feature("c", group="g")), SPACE.actions)
    importance = None if weights is None else Importance(np.array(weights), np.zeros(np.shape(weights)[:2]))
    return Mining((), space, Intervals.from_cuts([[0.0]] * 3), importance, 0, {})


def test_importances_by_hand(ax: Axes) -> None:
    # Two states, two actions, three features.
    made = mining([[[1.0, -3.0, 0.0], [0.0, 1.0, 1.0]], [[-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]])
    assert importances(made) == {"a": 0.5, "b": 1.0, "c": 0.5}
    assert importances(made, by_group=True) == {"g": 1.0, "b": 1.0}
    plot_importances(made, ax, most=2)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "a"]
    assert [patch.get_width() for patch in ax.patches] == [1.0, 0.5]
    assert set(importances(mining([[[0.0] * 3] * 2])).values()) == {0.0}
    with pytest.raises(LegibleError, match='importance = "none"'):
        plot_importances(mining(None), ax)


def improvement(steps: tuple[CompositionStep, ...]) -> Improvement:
    effect = Effect(0.0, 0.0, 0.0, 0.0, 1.0)
    return Improvement((), RuleSet(()), steps, SAMPLE, effect, with_returns([5.0]), ImprovementSettings())


def test_the_composition_step_by_step(ax: Axes) -> None:
    steps = tuple(
        CompositionStep(RuleSet((parse_rule(f"+Go <- a > {i}", SPACE),)), 10.0 + i, 1.0, accepted)
        for i, accepted in enumerate((1, 0))
    )
    found = improvement(steps)
    plot_composition(found, SPACE, ax)
    assert [bar.lines[0].get_xdata()[0] for bar in ax.containers] == [10.0, 11.0]
    assert [bar.lines[0].get_color() for bar in ax.containers] == [COLOURS[2], QUIET]


def test_empty_plots_have_a_note(ax: Axes) -> None:
    empty = improvement(())
    for draw, words in (
        (lambda ax: plot_effects(study(), SPACE, ax), "no rule set was tested on held-out seeds"),
        (lambda ax: plot_p_values(study(), ax), "no rule set was tested"),
        (lambda ax: plot_composition(empty, SPACE, ax), "no rule set was tried"),
    ):
        drawn = draw(Figure().subplots())
        assert [text.get_text() for text in drawn.texts] == [words]


def test_new_axes_where_none_are_given() -> None:
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    one, two = (plot_returns({"base": [1.0, 2.0]}) for _ in range(2))
    try:
        assert one.figure is not two.figure
    finally:
        plt.close(one.figure)
        plt.close(two.figure)
