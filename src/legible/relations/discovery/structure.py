"""The structure of an environment: what a relation must leave unchanged.

`Structure.of` describes transitions by matrices between nodes and by attributes of nodes. Nodes are features and,
unless actions are discrete, the parts of actions. A signed map G with action map h is a symmetry only if every matrix
W_h(a) of the image action equals G W_a Gᵀ, up to noise; the attributes of nodes must agree in the same way.

- What a step does is split into the mean over actions and the effect of each action, because small effects of actions
  would be lost among large changes that no action influences.
- Everything is estimated twice, from two halves of the data. A map compares one half with the other, so that the map
  that changes nothing has no advantage from equal noise.
- `Structure.of_support` describes what can happen instead of how often: in a maze that is wider than high, states are
  not visited equally often in all directions, but what never happens together is the same in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.relations.check.answers import Flags, Values
from legible.relations.discovery.sampling import Sample

# Standard errors below which an estimate counts as 0 in the search.
NOISE_Z = 3.0
# Ridge of regressions, as a share of the variance of a feature: one-hot features are collinear.
RIDGE = 0.05
# The largest ratio of the spreads of a feature and its image; visits of a maze are not equally wide in all directions.
SPREAD_RATIO = 4.0
# How far the shares in which a flag and its opposite are on may be from a sum of 1.
FLAG_BALANCE = 0.3
# The smallest share of signal in the squares of a part.
LEAST_SIGNAL = 0.5
# Associations of flags with fewer expected states count as 0; the power of an association leaves what nearly always or
# nearly never happens together.
FEWEST_EXPECTED, POWER = 5.0, 4.0
# The fewest flags of a choice, and the most trials to complete one.
FEWEST_FLAGS, MOST_TRIALS = 3, 3000
# Weights of matrices, of attributes, and of those attributes that are about rewards and ends, which may be rare.
MATRIX, ATTRIBUTE, OUTCOME = 1.0, 0.5, 0.1


class Part(NamedTuple):
    """Estimates of one kind from both halves, ``[2, actions or 1, …]``, with their variances, and their weight."""

    values: Values
    noise: Values
    weight: float

    @property
    def clear(self) -> Values:
        """The estimates, 0 where they are within noise."""
        return np.where(self.values**2 > NOISE_Z**2 * self.noise + 1e-24, self.values, 0.0)


@dataclass(frozen=True)
class Structure:
    """Matrices between nodes and attributes of nodes; the squares of each, noise apart, sum to its weight.

    Parameters
    ----------
    matrices
        Each ``[2, actions or 1, nodes, nodes]``.
    odd, even
        Each ``[2, actions or 1, nodes]``: attributes that change their sign with the node, and those that do not.
    per_action
        ``[2, actions, attributes]``: attributes of the discrete actions themselves.
    allowed
        ``bool[nodes, nodes]``: which nodes may map to which, by type and spread.
    opposite
        The same for pairs with opposite signs.
    active
        ``bool[nodes]``: nodes that vary.
    n_features, n_actions
        The first nodes are features; number of discrete actions, or 1.
    """

    matrices: tuple[Part, ...]
    odd: tuple[Part, ...]
    even: tuple[Part, ...]
    per_action: tuple[Part, ...]
    allowed: Flags
    opposite: Flags
    active: Flags
    n_features: int
    n_actions: int

    @classmethod
    def of(cls, sample: Sample) -> Structure:
        """Return the structure of a sample of transitions."""
        sample = sample.without_repetitions()
        discrete = sample.actions.ndim == 1
        inputs = sample.observations if discrete else np.column_stack([sample.observations, sample.actions])
        n_features = sample.observations.shape[1]
        spread = inputs.std(axis=0)
        active = spread > 1e-7 * np.maximum(1.0, np.abs(inputs).max(axis=0))
        # z are standardised inputs; y are standardised changes of features, rewards and ends.
        z = np.where(active, (inputs - inputs.mean(axis=0)) / np.where(active, spread, 1.0), 0.0)
        outputs = np.column_stack([sample.after - sample.observations, sample.rewards, sample.ended])
        y = _standard(outputs)
        y -= y.mean(axis=0) * ([0.0] * n_features + [1.0, 1.0])  # centre rewards and ends; 0 is no change of a feature
        effects = _standard(y - _mean_over_actions(sample, y, z)) if discrete else None
        # The same estimates from both halves of the data; what they have in common is signal.
        halves = []
        for k in (0, 1):
            rows = np.flatnonzero(sample.units % 2 == k)
            effects_here, taken = (None, None) if effects is None else (effects[rows], sample.actions[rows])
            halves.append(list(_describe(y[rows], z[rows], n_features, effects_here, taken)))
        parts: dict[str, list[Part]] = {kind: [] for kind in ("matrix", "odd", "even", "action")}
        for (kind, weight, values, noise), (_, _, other_values, other_noise) in zip(*halves, strict=True):
            part = _scaled(np.array([values, other_values]), np.array([noise, other_noise]), weight)
            if part is not None:
                parts[kind].append(part)
        allowed, opposite = _allowed(inputs, spread, active, n_features)
        return cls(
            matrices=tuple(parts["matrix"]),
            odd=tuple(parts["odd"]),
            even=tuple(parts["even"]),
            per_action=tuple(parts["action"]),
            allowed=allowed,
            opposite=opposite,
            active=active,
            n_features=n_features,
            n_actions=sample.n_actions if discrete else 1,
        )

    @classmethod
    def of_support(cls, sample: Sample) -> Structure:
        """Return what can happen in a sample with discrete actions: which flags and changes occur together or never.

        The last matrices are about single actions.
        """
        sample = sample.without_repetitions()
        states, n = sample.observations, sample.observations.shape[1]
        spread = states.std(axis=0)
        active = spread > 1e-7 * np.maximum(1.0, np.abs(states).max(axis=0))
        on = (states > states.min(axis=0)) & _flags(states)
        changes = sample.after - states
        up, down = changes > 1e-6, changes < -1e-6

        def influence(rows: Flags) -> Values:
            """Return ``[features, flags]``: how a flag goes with rises minus falls of a feature; ±1 is certainty."""
            return (_association(up[rows], on[rows]) - _association(down[rows], on[rows])) / 2

        halves = []
        for k in (0, 1):
            half = sample.units % 2 == k
            rows_of_actions = [half & (sample.actions == a) for a in range(sample.n_actions)]
            influences = np.array([influence(rows) for rows in rows_of_actions])  # [actions, features, features]
            rises = np.array([_one_sided(up[rows], down[rows]) for rows in rows_of_actions])
            together = _association(on[half], on[half]) * (1 - np.eye(n))
            effects = influences - influences.mean(axis=0)
            halves.append((together[None], influence(half)[None], influences, effects, rises))
        scaled = [_scaled(np.array(pair), np.zeros((2, *pair[0].shape)), MATRIX) for pair in zip(*halves, strict=True)]
        allowed, opposite = _allowed(states, spread, active, n)
        return cls(
            matrices=tuple(part for part in scaled[:-1] if part is not None),
            odd=tuple(part for part in scaled[-1:] if part is not None),
            even=(),
            per_action=(),
            allowed=allowed,
            opposite=opposite,
            active=active,
            n_features=n,
            n_actions=sample.n_actions,
        )


def find_choices(sample: Sample) -> list[NDArray[np.int64]]:
    """Return groups of flags of which exactly one is on in every state: a symmetry maps such groups to each other."""
    states = np.concatenate([sample.observations, sample.after])
    flags = np.flatnonzero(_flags(states) & (np.ptp(states, axis=0) > 0))
    on = np.abs(states[:, flags]).astype(np.float32)
    together = on.T @ on  # [flags, flags]: the number of states in which both are on
    count, n = np.diag(together), len(states)
    trials = 0

    def complete(chosen: list[int], others: list[int], missing: float) -> list[int]:
        """Return chosen flags with others, so that exactly one is on in every state; empty if there are none.

        `missing` is the number of states in which none of the chosen flags is on, `others` are flags that are never on
        together with one of them.
        """
        nonlocal trials
        if missing == 0:
            return chosen
        for i, flag in enumerate(others):
            rest = [other for other in others[i + 1 :] if together[flag, other] == 0]
            if count[flag] <= missing <= count[flag] + count[rest].sum() and trials < MOST_TRIALS:
                trials += 1
                if found := complete([*chosen, flag], rest, missing - count[flag]):
                    return found
        return []

    groups, left = [], np.argsort(-count, kind="stable").tolist()
    for flag in list(left):
        if flag in left and count[flag] < n:
            trials = 0
            group = complete([flag], [other for other in left if together[flag, other] == 0], n - count[flag])
            if len(group) >= FEWEST_FLAGS:
                # A flag that is always on together with another one may belong to either of two choices, so to none.
                same = (together == count) & (together == count[:, None])
                alone = [member for member in group if same[member].sum() == 1]
                groups.append(flags[alone])
                left = [other for other in left if other not in alone]
    return groups


def _scaled(values: Values, noise: Values, weight: float) -> Part | None:
    """Return the part whose signal has the given weight, less where it is noisy; None if it is mostly noise.

    What both halves have in common is signal.
    """
    signal = float((values[0] * values[1]).sum())
    share = signal / max(float((values**2).sum()) / 2, 1e-300)
    if signal <= max(1e-9, float(noise.sum())) or share <= LEAST_SIGNAL:
        return None
    scale = weight * share**2 / signal
    return Part(values * np.sqrt(scale), noise * scale, weight)


def _association(first: Flags, second: Flags) -> Values:
    """Return the covariances of flags as shares of the largest that their means allow, sharpened: ±1 is certainty.

    Both are ``bool[steps, flags]``; entry [i, j] is about flag i of the first and flag j of the second.
    """
    n = max(len(first), 1)
    mean, other_mean = first.mean(axis=0)[:, None], second.mean(axis=0)[None, :]
    covariance = first.T.astype(np.float32) @ second.astype(np.float32) / n - mean * other_mean
    most_above = np.minimum(mean * (1 - other_mean), (1 - mean) * other_mean)
    most_below = np.minimum(mean * other_mean, (1 - mean) * (1 - other_mean))
    most = np.where(covariance > 0, most_above, most_below)
    share = np.where(most * n >= FEWEST_EXPECTED, covariance / np.maximum(most, 1e-12), 0.0)
    return np.asarray(np.sign(share) * np.abs(share) ** POWER, np.float64)


def _one_sided(up: Flags, down: Flags) -> Values:
    """Return 1 for features that only rise, -1 for those that only fall, sharpened."""
    rises, falls = up.sum(axis=0), down.sum(axis=0)
    most = np.maximum(rises, falls)
    share = np.where(most >= FEWEST_EXPECTED, (rises - falls) / np.maximum(most, 1), 0.0)
    return np.asarray(np.sign(share) * np.abs(share) ** POWER)


def _flags(states: Values) -> Flags:
    return np.asarray(np.isin(states, (0.0, 1.0)).all(axis=0) | np.isin(states, (0.0, -1.0)).all(axis=0))


def _describe(
    y: Values, z: Values, n_features: int, effects: Values | None, taken: NDArray[np.int64] | None
) -> Iterator[tuple[str, float, Values, Values]]:
    """Yield the parts of a structure for one half of the data: kind, weight, estimates and their variances.

    Parameters
    ----------
    y
        ``[steps, outputs]``: standardised changes of features; the last two columns are reward and end.
    z
        ``[steps, nodes]``: standardised inputs: features, then the parts of continuous actions.
    effects, taken
        The same as `y`, without the mean over all actions in the state, and the discrete actions; else None.
    """
    n, size = z.shape

    def square(rows: Values) -> Values:
        """Return a matrix between nodes from rows for outputs: without those of reward and end, padded with 0."""
        return np.vstack([rows[:n_features], np.zeros((size - n_features, size))])

    # How outputs depend on inputs: covariances, and coefficients of a ridge regression.
    covariance, noise = _covariance(y, z)
    gram = np.linalg.inv(z.T @ z / n + RIDGE * np.eye(size))
    coefficients = covariance @ gram
    rough = noise * np.diag(gram)
    yield "matrix", MATRIX, square(covariance)[None], square(noise)[None]
    yield "matrix", MATRIX, square(coefficients)[None], square(rough)[None]
    # Covariances between nodes, mean changes, and skewness of nodes.
    values, value_noise = _covariance(z, z)
    yield "matrix", MATRIX / 2, (values * (1 - np.eye(size)))[None], (value_noise * (1 - np.eye(size)))[None]
    yield (
        "odd",
        ATTRIBUTE,
        _padded(y.mean(axis=0)[None, :n_features], size),
        _padded(y.var(axis=0)[None, :n_features] / n, size),
    )
    yield "odd", OUTCOME, np.clip((z**3).mean(axis=0), -2, 2)[None], np.minimum((z**3).var(axis=0) / n, 1.0)[None]
    # How reward and end depend on nodes, and on their squares, which have no sign.
    for k in (-2, -1):
        yield "odd", OUTCOME, covariance[k][None], noise[k][None]
    even, even_noise = _covariance(y[:, -2:], z**2)
    for k in (0, 1):
        yield "even", OUTCOME, even[k][None], even_noise[k][None]
    if effects is None or taken is None:
        if size > n_features:
            # What actions influence gets matrices of its own.
            for matrix, variance in ((covariance, noise), (coefficients, rough)):
                influence, its_noise = np.zeros((2, size, size))
                influence[:, n_features:] = square(matrix)[:, n_features:]
                its_noise[:, n_features:] = square(variance)[:, n_features:]
                yield "matrix", MATRIX, influence[None], its_noise[None]
        return
    # The same for each discrete action: effects by state, mean effects, and those on reward and end.
    chosen = [taken == a for a in range(int(taken.max()) + 1)]
    found = [_covariance(effects[rows], z[rows]) for rows in chosen]
    yield "matrix", MATRIX, np.array([square(c) for c, _ in found]), np.array([square(v) for _, v in found])
    means = np.array([effects[rows].mean(axis=0) for rows in chosen])
    errors = np.array([effects[rows].var(axis=0) / max(int(rows.sum()), 1) for rows in chosen])
    yield "odd", 2 * ATTRIBUTE, _padded(means[:, :n_features], size), _padded(errors[:, :n_features], size)
    for k in (-2, -1):
        yield "odd", OUTCOME, np.array([c[k] for c, _ in found]), np.array([v[k] for _, v in found])
    yield "action", ATTRIBUTE, means[:, -2:], errors[:, -2:]


def _padded(rows: Values, size: int) -> Values:
    return np.pad(rows, ((0, 0), (0, size - rows.shape[1])))


def _standard(values: Values) -> Values:
    """Return columns with variance 1; constant ones become 0."""
    scale = values.std(axis=0)
    return np.where(scale > 1e-7, values / np.where(scale > 1e-7, scale, 1.0), 0.0)


def _covariance(outputs: Values, inputs: Values) -> tuple[Values, Values]:
    """Return covariances ``[outputs, inputs]`` and the variances of these estimates."""
    n = max(len(outputs), 2)
    outputs, inputs = outputs - outputs.mean(axis=0), inputs - inputs.mean(axis=0)
    covariance = outputs.T @ inputs / n
    noise = np.maximum((outputs**2).T @ inputs**2 / n - covariance**2, 0.0) / n
    return covariance, noise


def _mean_over_actions(sample: Sample, y: Values, z: Values) -> Values:
    """Return for every step the mean result of all actions in its state: known in set states, else by regression."""
    if sample.paired:
        blocks = y.reshape(sample.n_actions, -1, y.shape[1])
        return np.tile(blocks.mean(axis=0), (sample.n_actions, 1))
    design = np.column_stack([np.ones(len(z)), z, z**2])
    gram = design.T @ design / len(z) + 1e-3 * np.eye(design.shape[1])
    return np.asarray(design @ np.linalg.solve(gram, design.T @ y / len(z)))


def _allowed(inputs: Values, spread: Values, active: Flags, n_features: int) -> tuple[Flags, Flags]:
    """Return which nodes may map to which with equal and with opposite signs.

    Flags map to flags, whole numbers to whole numbers.
    """
    size, flags = inputs.shape[1], _flags(inputs)
    whole = (inputs == np.round(inputs)).all(axis=0)
    kinds = [(i < n_features, bool(flags[i]), bool(whole[i])) for i in range(size)]  # is feature, flag, whole number
    alike = np.array([[one == other for other in kinds] for one in kinds])
    ratio = np.maximum(spread[:, None], 1e-300) / np.maximum(spread[None, :], 1e-300)
    near = (ratio < SPREAD_RATIO) & (ratio > 1 / SPREAD_RATIO)
    # Rare flags may never have been on; other nodes that never vary stay where they are.
    near |= flags[:, None] & flags[None, :]
    still: NDArray[np.bool_] = ~active & ~flags
    near[still] = near[:, still] = False
    allowed = alike & near | np.eye(size, dtype=np.bool_)
    # A flag that is rarely on maps to one that is rarely on; its sign follows from the values, 0 and 1 or 0 and -1.
    on = np.abs(inputs.mean(axis=0))
    balanced = (np.abs(on[:, None] + on[None, :] - 1) <= FLAG_BALANCE) | ~flags[:, None]
    turned = np.where(flags & (inputs.min(axis=0) < 0), -1, 1)
    natural = turned[:, None] * turned[None, :]
    return np.asarray(allowed & (balanced | (natural > 0))), np.asarray(
        allowed & active[:, None] & (balanced | (natural < 0))
    )
