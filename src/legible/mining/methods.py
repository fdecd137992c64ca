"""Importance methods and rule learners, the two replaceable steps of mining.

- `ImportanceMethod`: protocol of a method that measures feature importances; "lime", "surrogate" and "none" exist.
- `RuleLearner`: protocol of a rule learner; "ripper" exists.
- `register_importance`, `register_learner`: add one under a name for the settings `importance` and `learner`.
- `find_importance`, `find_learner`: return the one with a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError, did_you_mean
from legible.features import Intervals
from legible.mining.importance import Importance
from legible.mining.surrogate import surrogate_importance
from legible.play import Experiences, reads_features
from legible.policies import Policy
from legible.settings import MiningSettings

Bodies = Sequence[tuple[tuple[int, int], ...]]
"""Bodies of rules, each a tuple of conditions (feature, number of the interval)."""

Method = TypeVar("Method")


class ImportanceMethod(Protocol):
    """A function that measures the importance of every feature for and against every action."""

    def __call__(
        self,
        policy: Policy,
        experiences: Experiences,
        rows: NDArray[np.intp],
        intervals: Intervals,
        settings: MiningSettings,
        rng: np.random.Generator,
        /,
    ) -> Importance | None:
        """Return the importances, or None if all features are equally important.

        Parameters
        ----------
        policy, experiences
            The policy and its recorded steps.
        rows
            The experiences to use; the others are held out to judge rules.
        intervals
            Intervals of the features.
        settings
            All settings of mining.
        rng
            The only source of randomness.
        """
        ...


class RuleLearner(Protocol):
    """A function that learns rules which separate positive from other rows."""

    def __call__(
        self,
        codes: NDArray[np.uint16],
        positive: NDArray[np.bool_],
        /,
        *,
        n_values: NDArray[np.int64],
        importances: NDArray[np.float64] | None,
        settings: MiningSettings,
        seed: int,
    ) -> Bodies:
        """Return the bodies of rules that cover positive rows and few others.

        Parameters
        ----------
        codes
            Interval number of every value, ``[rows, features]``.
        positive
            Rows that the rules should cover.
        n_values
            Number of intervals of each feature.
        importances
            Importance of each feature, not negative; None if all are equally important.
        settings
            All settings of mining.
        seed
            The only source of randomness.
        """
        ...


def register_importance(name: str, method: ImportanceMethod) -> None:
    """Register an importance method under a name for the setting ``importance``."""
    _register(_importance_methods, "importance method", name, method)


def register_learner(name: str, learner: RuleLearner) -> None:
    """Register a rule learner under a name for the setting ``learner``."""
    _register(_learners, "rule learner", name, learner)


def find_importance(name: str) -> ImportanceMethod:
    """Return the importance method with this name."""
    return _find(_importance_methods, "importance method", name)


def find_learner(name: str) -> RuleLearner:
    """Return the rule learner with this name."""
    return _find(_learners, "rule learner", name)


def _register(methods: dict[str, Method], kind: str, name: str, method: Method) -> None:
    if name in methods:
        raise LegibleError(f"{kind} {name!r} already exists; choose another name.")
    methods[name] = method


def _find(methods: Mapping[str, Method], kind: str, name: str) -> Method:
    if name not in methods:
        known = ", ".join(map(repr, methods))
        raise LegibleError(f"unknown {kind} {name!r}; choose one of {known}.{did_you_mean(name, methods)}")
    return methods[name]


def _lime(
    policy: Policy,
    experiences: Experiences,
    rows: NDArray[np.intp],
    intervals: Intervals,
    settings: MiningSettings,
    rng: np.random.Generator,
) -> Importance:
    """Apply LIME in random states; a surrogate if the policy does not see the features."""
    from legible.mining.lime import lime_importance  # noqa: PLC0415 (it needs numba and SciPy)

    if not reads_features(policy):
        return surrogate_importance(experiences, rows, rng)
    space = experiences.space.own
    own_columns = experiences.observations[:, : len(space)]
    chosen = rng.choice(rows, min(settings.lime_states, rows.size), replace=False)
    kernel_features = [f for f in space.features if f.kind == "numeric" or not settings.kernel_counts_numeric]
    found = lime_importance(
        policy,
        own_columns[rows],
        own_columns[chosen],
        intervals if len(intervals) == len(space) else intervals.first(len(space)),
        space,
        samples=settings.lime_samples,
        pools=settings.lime_pools,
        kernel_width=settings.kernel_width * max(1, len(kernel_features)) ** 0.5,
        seed=rng,
    )
    return found if experiences.space.derived is None else _with_derived(found, experiences, rows, rng)


def _with_derived(
    lime: Importance, experiences: Experiences, rows: NDArray[np.intp], rng: np.random.Generator
) -> Importance:
    """Add importances of derived features, which the policy does not see, on the scale of LIME.

    Two surrogates, one of the observed and one of the derived features, measure how well each group predicts the
    action. The largest importance of LIME sets the scale.
    """
    n_own, n_features = experiences.space.n_own, len(experiences.space)
    seen = surrogate_importance(experiences, rows, rng, range(n_own))
    derived = surrogate_importance(experiences, rows, rng, range(n_own, n_features))
    lines = []
    for of_lime, of_seen, of_derived, sign in (
        (lime.positive, seen.positive, derived.positive, 1.0),
        (lime.negative, seen.negative, derived.negative, -1.0),
    ):
        greatest = np.maximum(of_seen.max(axis=1), of_derived.max(axis=1))
        scale = np.divide(of_lime.max(axis=1), greatest, out=np.zeros_like(greatest), where=greatest > 0.0)
        lines.append(sign * scale[:, None] * of_derived)
    wide = np.zeros((*lime.weights.shape[:2], n_features))
    wide[:, :, :n_own] = lime.weights
    weights = np.concatenate([wide, np.stack(lines)])
    intercepts = np.concatenate([lime.intercepts, np.zeros((2, lime.intercepts.shape[1]))])
    return Importance(weights, intercepts, "lime and surrogate", derived.fidelity)


def _ripper(
    codes: NDArray[np.uint16],
    positive: NDArray[np.bool_],
    *,
    n_values: NDArray[np.int64],
    importances: NDArray[np.float64] | None,
    settings: MiningSettings,
    seed: int,
) -> Bodies:
    """Run RIPPER, guided by the importances."""
    from legible.mining.ripper import learn_rules  # noqa: PLC0415 (it needs numba)

    return learn_rules(
        codes,
        positive,
        n_values=n_values,
        importances=importances,
        optimizations=settings.optimizations,
        prune_fraction=settings.prune_fraction,
        description_length_allowance=settings.description_length_allowance,
        seed=seed,
    )


_importance_methods: dict[str, ImportanceMethod] = {
    "lime": _lime,
    "surrogate": lambda _policy, experiences, rows, _intervals, _settings, rng: surrogate_importance(
        experiences, rows, rng
    ),
    "none": lambda *_: None,
}
_learners: dict[str, RuleLearner] = {"ripper": _ripper}
