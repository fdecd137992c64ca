"""Plots of the results of a study. Every function draws on given or new axes and returns them.

Matplotlib is imported on first use.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError
from legible.evaluation import Evaluation
from legible.features import FeatureSpace
from legible.formatting import number
from legible.improvement import Improvement
from legible.mining import Mining
from legible.rules import RuleSet, representative_rule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinguishable by colour-blind readers and in greyscale (Okabe and Ito).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
QUIET = "#999999"
LABEL_WIDTH = 44
ROW_HEIGHT, LINE_HEIGHT = 0.5, 0.16
FEWEST_BINS, MOST_BINS = 25, 60
LEAST_P = 1e-6


def _axes(ax: Axes | None, height: float = 3.6) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # noqa: PLC0415 (slow to import)

    return plt.subplots(figsize=(7.0, height), layout="constrained")[1]


def plot_returns(returns: Mapping[str, ArrayLike], ax: Axes | None = None) -> Axes:
    """Draw the returns of policies, by name, as histograms over the same bins, with a line at each mean."""
    samples = {name: _finite(values, name) for name, values in returns.items()}
    if not samples:
        raise LegibleError("no returns to plot; pass the returns of at least one policy.")
    ax = _axes(ax)
    bins = np.histogram_bin_edges(np.concatenate(list(samples.values())), "auto")
    bins = np.linspace(bins[0], bins[-1], int(np.clip(len(bins), FEWEST_BINS, MOST_BINS)))
    for i, (name, sample) in enumerate(samples.items()):
        colour = COLOURS[i % len(COLOURS)]
        # Shares, because policies may have played different numbers of episodes.
        share = np.full(sample.size, 1.0 / sample.size)
        label = f"{name}: mean {number(float(sample.mean()), 4)}"
        ax.hist(sample, bins=list(bins), weights=share, histtype="stepfilled", alpha=0.35, color=colour, label=label)
        ax.hist(sample, bins=list(bins), weights=share, histtype="step", color=colour)
        ax.axvline(float(sample.mean()), color=colour, linestyle="--", linewidth=1.2)
    ax.set(xlabel="episode return", ylabel="share of episodes")
    ax.legend(frameon=False)
    return ax


def _finite(values: ArrayLike, name: str) -> NDArray[np.float64]:
    sample = np.asarray(values, np.float64).ravel()
    if not sample.size or not np.isfinite(sample).all():
        raise LegibleError(f"{name}: returns must be finite numbers, at least one, got {sample.size}.")
    return sample


def plot_effects(evaluation: Evaluation, space: FeatureSpace, ax: Axes | None = None, *, most: int = 15) -> Axes:
    """Draw the effects of the candidates on held-out seeds, with 95 % confidence intervals, the largest on top.

    Confirmed weaknesses are coloured. Without candidates the plot is a note.
    """
    confirmations = [(verdict, verdict.confirmation) for verdict in evaluation.verdicts]
    tested = [(verdict, confirmation.effect) for verdict, confirmation in confirmations if confirmation is not None]
    shown = sorted(tested, key=lambda verdict_and_effect: -verdict_and_effect[1].mean)[:most]
    ax = _axes(ax, 1.2 + ROW_HEIGHT * max(2, len(shown)))
    for row, (verdict, effect) in enumerate(shown):
        reach = [[effect.mean - effect.low], [effect.high - effect.mean]]
        colour = COLOURS[0] if verdict.is_confirmed else QUIET
        ax.errorbar(effect.mean, row, xerr=reach, fmt="o", color=colour, capsize=3)
    ax.axvline(0.0, color="black", linewidth=0.8)
    rules = [verdict.treatment for verdict, _ in shown]
    _label_rows(ax, [_rule_label(rule, space) if isinstance(rule, RuleSet) else "random test" for rule in rules])
    ax.set(xlabel="effect on the mean return (95 % interval)")
    if not shown:
        _say(ax, "no rule set was tested on held-out seeds")
    return ax


def _rule_label(rule_set: RuleSet, space: FeatureSpace) -> str:
    """Return the text of a rule, wrapped."""
    text = representative_rule(rule_set).text(space)
    return "\n".join(textwrap.wrap(text, LABEL_WIDTH))


def _label_rows(ax: Axes, labels: Sequence[str]) -> None:
    ax.set_yticks(range(len(labels)), list(labels), fontsize="small")
    ax.set_ylim(max(1, len(labels)) - 0.5, -0.5)


def _say(ax: Axes, text: str) -> None:
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=QUIET)


def plot_p_values(evaluation: Evaluation, ax: Axes | None = None) -> Axes:
    """Draw the p-values of all rule sets in rising order, clipped at 0.000001.

    The paper's weaknesses lie below the dashed line. Rule sets left of the last crossing with the dotted line are
    significant after Benjamini-Hochberg's correction.
    """
    ax = _axes(ax)
    p = np.sort([verdict.p for verdict in evaluation.verdicts])
    alpha, rank = evaluation.settings.alpha, np.arange(1, p.size + 1)
    ax.axhline(alpha, color=COLOURS[4], linestyle="--", linewidth=1.0, label=f"alpha = {alpha:g}")
    if p.size:
        ax.plot(rank, alpha * rank / p.size, color=QUIET, linestyle=":", label="Benjamini-Hochberg")
        ax.plot(rank, np.maximum(p, LEAST_P), "o", markersize=3, color=COLOURS[0], label="rule sets")
    else:
        _say(ax, "no rule set was tested")
    test = "Welch" if evaluation.settings.method == "paper" else "t-test in the race"
    ax.set(xlabel="rule sets, by p-value", ylabel=f"p ({test}, one-sided)", yscale="log")
    ax.legend(frameon=False, loc="lower right")
    return ax


def plot_importances(mining: Mining, ax: Axes | None = None, *, most: int = 15, by_group: bool = False) -> Axes:
    """Draw the most important features, or groups of features: the sum of the absolute weights, the largest as 1."""
    weights = importances(mining, by_group=by_group)
    shown = sorted(weights.items(), key=lambda item: -item[1])[:most]
    ax = _axes(ax, 1.2 + 0.26 * max(2, len(shown)))
    ax.barh(range(len(shown)), [weight for _, weight in shown], color=COLOURS[0])
    _label_rows(ax, [name for name, _ in shown])
    ax.set(xlabel="importance (largest = 1)", xlim=(0.0, 1.02))
    return ax


def importances(mining: Mining, *, by_group: bool = False) -> dict[str, float]:
    """Return the importance of every feature, or group of features, over all actions; the largest is 1."""
    if mining.importance is None:
        raise LegibleError('mining found no importances (importance = "none"); mine with importance = "lime".')
    total = np.abs(mining.importance.weights).sum(axis=(0, 1))
    summed: dict[str, float] = {}
    for feature, weight in zip(mining.space.features, total, strict=True):
        name = (feature.group or feature.name) if by_group else feature.name
        summed[name] = summed.get(name, 0.0) + float(weight)
    largest = max(summed.values())
    return {name: weight / largest if largest else 0.0 for name, weight in summed.items()}


def plot_composition(improvement: Improvement, space: FeatureSpace, ax: Axes | None = None) -> Axes:
    """Draw the mean return with each rule set that was tried, in order; accepted ones are coloured."""
    steps = improvement.steps
    ax = _axes(ax, 1.2 + ROW_HEIGHT * max(2, len(steps)))
    for row, step in enumerate(steps):
        colour = COLOURS[2] if step.accepted else QUIET
        ax.errorbar(step.mean, row, xerr=1.96 * step.error, fmt="o", color=colour, capsize=3)
    _label_rows(ax, [_rule_label(step.rule_set, space) for step in steps])
    ax.set(xlabel="mean return with it (± 1.96 standard errors)")
    if not steps:
        _say(ax, "no rule set was tried")
    return ax
