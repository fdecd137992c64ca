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
        """Return how important each feature is for each action of the policy; None if all are equally important.

        Parameters
        ----------
        policy
            The policy.
        experiences
            Its recorded steps.
        rows
            The numbers of the steps to use; the others are held out to judge rules.
        intervals
            The intervals into which the values of each feature are divided.
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
        """Return the conditions of rules that hold in positive rows and in few others.

        The conditions of a rule are pairs (number of the feature, number of its interval).

        Parameters
        ----------
        codes
            ``uint16[rows, features]``: the number of the interval in which each value lies.
        positive
            ``bool[rows]``: the rows in which the rules should hold.
        n_values
            ``int64[features]``: the number of intervals of each feature.
        importances
            ``float64[features]``: the importance of each feature, not negative; None if all are equally important.
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
    """Return how important each feature is for each action, by LIME in randomly chosen states (an `ImportanceMethod`).

    LIME asks the policy about other values of the features. Where that is impossible, a surrogate model of the policy
    is used instead.
    """
    from legible.mining.lime import lime_importance  # noqa: PLC0415 (it needs numba and SciPy)

    if not reads_features(policy):
        return surrogate_importance(experiences, rows, rng)
    # The policy sees the features of the observation only; derived features follow them.
    space = experiences.space.own
    own_columns = experiences.observations[:, : len(space)]
    states = rng.choice(rows, min(settings.lime_states, rows.size), replace=False)
    # LIME's kernel width is proportional to the square root of the number of features: of all, or of the numeric ones
    # only (`kernel_counts_numeric`, as in `MiningSettings.paper`).
    kernel_features = [f for f in space.features if f.kind == "numeric" or not settings.kernel_counts_numeric]
    importance = lime_importance(
        policy.scores,
        own_columns[rows],
        own_columns[states],
        intervals if len(intervals) == len(space) else intervals.first(len(space)),
        space,
        samples=settings.lime_samples,
        pools=settings.lime_pools,
        kernel_width=settings.kernel_width * max(1, len(kernel_features)) ** 0.5,
        seed=rng,
    )
    return importance if experiences.space.derived is None else _with_derived(importance, experiences, rows, rng)


def _with_derived(
    lime: Importance, experiences: Experiences, rows: NDArray[np.intp], rng: np.random.Generator
) -> Importance:
    """Return the importances of LIME, with those of derived features added on the same scale.

    The policy does not see derived features, so LIME cannot measure them. Instead, two surrogate models, one of the
    features of the observation and one of the derived ones, measure how well each feature predicts the action. For each
    action, the largest importance of LIME sets the scale.

    Parameters
    ----------
    lime
        The importances of the features of the observation.
    """
    n_own, n_features = experiences.space.n_own, len(experiences.space)
    of_own = surrogate_importance(experiences, rows, rng, range(n_own))
    of_derived = surrogate_importance(experiences, rows, rng, range(n_own, n_features))
    derived_weights = []
    # Importances in favour of actions and against them (whose weights are negative), ``float64[actions, features]``.
    for lime_part, own_part, derived_part, sign in (
        (lime.positive, of_own.positive, of_derived.positive, 1.0),
        (lime.negative, of_own.negative, of_derived.negative, -1.0),
    ):
        largest = np.maximum(own_part.max(axis=1), derived_part.max(axis=1))
        scale = np.divide(lime_part.max(axis=1), largest, out=np.zeros_like(largest), where=largest > 0.0)
        derived_weights.append(sign * scale[:, None] * derived_part)

    # The weights have a row per explained state: append two rows for the derived features.
    lime_weights = np.zeros((*lime.weights.shape[:2], n_features))
    lime_weights[:, :, :n_own] = lime.weights
    weights = np.concatenate([lime_weights, np.stack(derived_weights)])
    intercepts = np.concatenate([lime.intercepts, np.zeros((2, lime.intercepts.shape[1]))])
    return Importance(weights, intercepts, "lime and surrogate", of_derived.fidelity)


def _ripper(
    codes: NDArray[np.uint16],
    positive: NDArray[np.bool_],
    *,
    n_values: NDArray[np.int64],
    importances: NDArray[np.float64] | None,
    settings: MiningSettings,
    seed: int,
) -> Bodies:
    """Return the conditions of rules that RIPPER learns (a `RuleLearner`)."""
    from legible.mining.ripper import RipperSettings, learn_rules  # noqa: PLC0415 (it needs numba)

    ripper = RipperSettings(settings.optimizations, settings.prune_fraction, settings.description_length_allowance)
    return learn_rules(codes, positive, n_values=n_values, importances=importances, settings=ripper, seed=seed)


_importance_methods: dict[str, ImportanceMethod] = {
    "lime": _lime,
    "surrogate": lambda _policy, experiences, rows, _intervals, _settings, rng: surrogate_importance(
        experiences, rows, rng
    ),
    "none": lambda *_: None,
}
_learners: dict[str, RuleLearner] = {"ripper": _ripper}
