"""What a network without rules is worth on fresh seeds, beside the policy and the guided policy.

- `DistillationComparison`: the three on the same seeds, by every objective, paired, and the share of the gain kept.
- `kept_share`: that share, with an interval.
- `BrokenRule`, `broken_rules`: which rules the network still breaks.
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
_OFTEN = 0.1


class KeptShare(NamedTuple):
    """The share of the guided policy's gain that a network keeps, with a 95 % interval; None where there is no gain."""

    share: float | None
    low: float | None = None
    high: float | None = None


def kept_share(base: NDArray[np.float64], guided: NDArray[np.float64], distilled: NDArray[np.float64]) -> KeptShare:
    """Return the share of a gain that is kept, by returns of the same seeds.

    The interval is that of resampled seeds; there is none where the guided policy's own gain may be nothing.

    >>> base, guided = np.array([0.0, 1.0, 0.0, 1.0]), np.array([10.0, 11.0, 10.0, 11.0])
    >>> kept_share(base, guided, base + 9.0)
    KeptShare(share=0.9, low=0.9, high=0.9)
    >>> kept_share(base, base, base + 9.0)
    KeptShare(share=None, low=None, high=None)
    """
    told = np.isfinite(base) & np.isfinite(guided) & np.isfinite(distilled)
    gains = np.stack([distilled[told] - base[told], guided[told] - base[told]])
    kept, gain = gains.mean(axis=1)
    if not told.any() or gain <= 0.0:
        return KeptShare(None)
    rng = np.random.default_rng(0)
    n = gains.shape[1]
    drawn = np.stack([gains[:, rng.integers(0, n, n)].mean(axis=1) for _ in range(_RESAMPLES)])
    if np.quantile(drawn[:, 1], 0.025) <= 0.0:
        return KeptShare(float(kept / gain))
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return KeptShare(float(kept / gain), float(low), float(high))


@dataclass(frozen=True)
class BrokenRule:
    """How a rule fares without being there.

    Parameters
    ----------
    rule
        The rule.
    states
        States of the network's own episodes that trigger it and in which the guided policy follows it.
    broken
        Share of these states in which the network does not do what the rule says.
    broken_before
        The same for the policy that it started from, in the same states.
    """

    rule: Rule
    states: int
    broken: float
    broken_before: float

    @property
    def is_broken(self) -> bool:
        """Whether it is broken in more than a tenth of the states."""
        return self.broken > _OFTEN

    @property
    def was_broken(self) -> bool:
        """Whether the policy that the network started from breaks it so often."""
        return self.broken_before > _OFTEN

    def to_dict(self, space: FeatureSpace) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "rule": self.rule.text(space),
            "states": self.states,
            "broken": self.broken,
            "broken_before": self.broken_before,
        }


def broken_rules(teacher: Teacher, recorded: RecordedEpisodes) -> tuple[BrokenRule, ...]:
    """Return how every rule that states trigger fares in recorded episodes of a network; rarely broken ones last."""
    guided, seen = teacher.guided, recorded.observations
    rules = guided.rules.rules
    matched = CompiledRules.compile([guided.rules]).matches(seen)
    done = best_choices(recorded.scores, teacher.starts)
    before = best_choices(teacher.own_scores(seen), teacher.starts)
    wanted = teacher.label(seen).choices
    found = []
    for number, rule in enumerate(rules):
        rows = matched[:, number] & _follows(rule, wanted, guided.space)
        if rows.any():
            shares = [1.0 - float(_follows(rule, choices[rows], guided.space).mean()) for choices in (done, before)]
            found.append(BrokenRule(rule, int(rows.sum()), *shares))
    return tuple(sorted(found, key=lambda each: -each.broken))


def _follows(rule: Rule, choices: NDArray[np.int64], space: FeatureSpace) -> NDArray[np.bool_]:
    """Where choices ``int64[n, groups]`` are what a rule says."""
    taken = choices[:, space.group_of(rule.action)] == rule.action
    return taken if rule.polarity == "+" else ~taken


@dataclass(frozen=True)
class DistillationComparison:
    """The policy, the guided policy and the network without rules on the same fresh seeds.

    Parameters
    ----------
    base, guided, distilled
        Their episodes.
    """

    base: UnitResult
    guided: UnitResult
    distilled: UnitResult

    @property
    def kept(self) -> KeptShare:
        """The share of the guided policy's gain that the network keeps."""
        return kept_share(self.base.returns, self.guided.returns, self.distilled.returns)

    def effects(self) -> dict[str, dict[str, Effect]]:
        """Differences on the same seeds by every objective; above 0 is better."""
        results = (self.base, self.guided, self.distilled)
        return {
            "guided": effects(results, self.guided, self.base),
            "distilled": effects(results, self.distilled, self.base),
            "distilled against guided": effects(results, self.distilled, self.guided),
        }

    @property
    def gain(self) -> Effect:
        """How much more the network returns than the policy that it started from."""
        return self.effects()["distilled"]["mean"]

    def figure_rows(self) -> list[dict[str, Any]]:
        """The three by every objective, a row each."""
        return figure_rows({"base": self.base, "guided": self.guided, "distilled": self.distilled})

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        kept = self.kept
        named = {"base": self.base, "guided": self.guided, "distilled": self.distilled}
        return {
            **{name: _figures(result) for name, result in named.items()},
            "differences": {
                name: {objective: asdict(effect) for objective, effect in found.items()}
                for name, found in self.effects().items()
            },
            "kept": kept.share,
            "kept_interval": None if kept.low is None else [kept.low, kept.high],
        }


def _figures(result: UnitResult) -> dict[str, Any]:
    sample, told = Sample.of(result), figures(result)
    others = {name: figure._asdict() for name, figure in told.items() if name != "mean"}
    interval = [told["mean"].low, told["mean"].high] if "mean" in told else None
    return {
        "mean": sample.mean,
        "error": sample.error,
        "interval": interval,
        "episodes": len(result),
        **others,
    }
