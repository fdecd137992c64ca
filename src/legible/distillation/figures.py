"""Comparison of a network without rules with the unguided and the guided policy on held-out seeds.

- `DistillationComparison`: the three on the same seeds, by every objective, paired, and the share of the gain kept.
- `kept_share`: that share, with a confidence interval.
- `BrokenRule`, `broken_rules`: the rules that the network still breaks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.distillation.teacher import Teacher, best_choices
from legible.evaluation import Sample
from legible.evaluation.figures import effects, figure_rows, figures
from legible.evaluation.recorded import RecordedEpisodes
from legible.evaluation.statistics import Effect
from legible.evaluation.units import UnitResult
from legible.features import FeatureSpace
from legible.rules import CompiledRules, Rule

_RESAMPLES = 2000
_BROKEN_SHARE = 0.1  # of the states that trigger a rule


class KeptShare(NamedTuple):
    """The share of the guided policy's gain that a network keeps, with its 95 % CI; None where there is no gain."""

    share: float | None
    low: float | None = None
    high: float | None = None


def kept_share(base: NDArray[np.float64], guided: NDArray[np.float64], distilled: NDArray[np.float64]) -> KeptShare:
    """Return the share of the guided policy's gain that a distilled network keeps, with a 95 % confidence interval.

    The share is None if the guided policy has no gain. There is no interval if that of the gain includes 0.

    The arrays are episode returns of the unguided policy, the guided policy and the network, ``float64[seeds]`` each,
    on the same seeds; NaN for episodes that failed.

    >>> base, guided = np.array([0.0, 1.0, 0.0, 1.0]), np.array([10.0, 11.0, 10.0, 11.0])
    >>> kept_share(base, guided, base + 9.0)
    KeptShare(share=0.9, low=0.9, high=0.9)
    >>> kept_share(base, base, base + 9.0)
    KeptShare(share=None, low=None, high=None)
    """
    finite = np.isfinite(base) & np.isfinite(guided) & np.isfinite(distilled)
    if not finite.any():
        return KeptShare(None)
    # Row 0: gains of the network; row 1: gains of the guided policy; one column per seed.
    gains = np.stack([distilled[finite] - base[finite], guided[finite] - base[finite]])
    network_gain, guided_gain = gains.mean(axis=1)
    if guided_gain <= 0.0:
        return KeptShare(None)
    # Bootstrap over seeds: both mean gains in every resample, ``float64[resamples, 2]``.
    rng = np.random.default_rng(0)
    n = gains.shape[1]
    resampled = np.stack([gains[:, rng.integers(0, n, n)].mean(axis=1) for _ in range(_RESAMPLES)])
    if np.quantile(resampled[:, 1], 0.025) <= 0.0:  # a ratio to a gain that may be zero means nothing
        return KeptShare(float(network_gain / guided_gain))
    low, high = np.quantile(resampled[:, 0] / resampled[:, 1], [0.025, 0.975])
    return KeptShare(float(network_gain / guided_gain), float(low), float(high))


@dataclass(frozen=True)
class BrokenRule:
    """A rule, and the share of states in which a network breaks it."""

    rule: Rule
    states: int  # states of the network's own episodes that trigger it and in which the guided policy follows it
    broken: float  # share of these states in which the network breaks it
    broken_before: float  # share of these states in which the unguided policy breaks it

    @property
    def is_broken(self) -> bool:
        """True where the network breaks it in more than a tenth of the states."""
        return self.broken > _BROKEN_SHARE

    @property
    def was_broken(self) -> bool:
        """True where the unguided policy breaks it in more than a tenth of the states."""
        return self.broken_before > _BROKEN_SHARE

    def to_dict(self, space: FeatureSpace) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**vars(self), "rule": self.rule.text(space)}


def broken_rules(teacher: Teacher, recorded: RecordedEpisodes) -> tuple[BrokenRule, ...]:
    """Return every rule that recorded states of a network trigger; often broken ones first."""
    guided, seen = teacher.guided, recorded.observations
    matched = CompiledRules.compile([guided.rules]).matches(seen)
    labels = teacher.label(seen).choices
    network_choices, unguided_choices = (
        best_choices(scores, teacher.starts) for scores in (recorded.scores, teacher.own_scores(seen))
    )
    rules = []
    for number, rule in enumerate(guided.rules.rules):
        group = guided.space.group_of(rule.action)
        follows = [
            (choices[:, group] == rule.action) == (rule.polarity == "+")
            for choices in (labels, network_choices, unguided_choices)
        ]
        rows = matched[:, number] & follows[0]
        if rows.any():
            rules.append(BrokenRule(rule, int(rows.sum()), *(1.0 - float(each[rows].mean()) for each in follows[1:])))
    return tuple(sorted(rules, key=lambda each: -each.broken))


@dataclass(frozen=True)
class DistillationComparison:
    """Episodes of the unguided policy, the guided policy and the network on the same held-out seeds."""

    base: UnitResult
    guided: UnitResult
    distilled: UnitResult

    @property
    def kept(self) -> KeptShare:
        """The share of the guided policy's gain that the network keeps."""
        return kept_share(self.base.returns, self.guided.returns, self.distilled.returns)

    def effects(self) -> dict[str, dict[str, Effect]]:
        """Return the differences on the same seeds by every objective; above 0 is better."""
        results = (self.base, self.guided, self.distilled)
        return {
            "guided": effects(results, self.guided, self.base),
            "distilled": effects(results, self.distilled, self.base),
            "distilled against guided": effects(results, self.distilled, self.guided),
        }

    @property
    def gain(self) -> Effect:
        """The effect of the network on the mean return, compared with the unguided policy."""
        return self.effects()["distilled"]["mean"]

    def figure_rows(self) -> list[dict[str, Any]]:
        """Return the figures of the three by every objective, one row each."""
        return figure_rows({name: figures(result) for name, result in vars(self).items()})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        kept = self.kept
        return {
            **{name: _figures(result) for name, result in vars(self).items()},
            "differences": {
                name: {objective: asdict(effect) for objective, effect in effects.items()}
                for name, effects in self.effects().items()
            },
            "kept": kept.share,
            "kept_interval": None if kept.low is None else [kept.low, kept.high],
        }


def _figures(result: UnitResult) -> dict[str, Any]:
    sample, own = Sample.of(result), figures(result)
    others = {name: figure._asdict() for name, figure in own.items() if name != "mean"}
    interval = [own["mean"].low, own["mean"].high] if "mean" in own else None
    return {"mean": sample.mean, "error": sample.error, "interval": interval, "episodes": len(result), **others}
