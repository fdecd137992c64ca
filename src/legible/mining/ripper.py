"""RIPPER (Cohen 1995): rules from examples, each a conjunction of conditions on features.

- `RipperClassifier`: a scikit-learn classifier, usable alone.
- `RipperRule`, `RipperCondition`: what it has learned, as frozen values that print well.
- `learn_rules`: the two-class learner on integer codes, with nothing around it.

Beyond Cohen, growing may be steered by the importance of the features: the condition that is added maximises
FOIL's gain × importance. Equal importances, whatever their value, give plain RIPPER to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from legible.errors import LegibleError
from legible.mining import ripper_kernels as kernels
from legible.mining.ripper_kernels import Conditions, Rows

CUT_SAMPLE = 200_000
"""Cut points of a numeric feature are chosen from at most this many rows."""


class RipperError(LegibleError, ValueError):
    """Data or parameters that RIPPER cannot learn from."""


# Description length (Quinlan 1995, as used by Cohen), in bits.


def subset_length(total: float, chosen: float, chance: float) -> float:
    """Bits that say which elements of a set are chosen, when each is expected to be with this chance.

    >>> subset_length(4, 2, 0.5)
    4.0
    """
    chosen_bits = -chosen * math.log2(chance) if chosen > 0 else 0.0
    other_bits = -(total - chosen) * math.log2(1 - chance) if total > chosen else 0.0
    return chosen_bits + other_bits


def theory_length(k: int, n_conditions: int) -> float:
    """Bits of a rule with k of all possible conditions: ½·(‖k‖ + S(n, k, k/n)).

    ‖k‖ codes the number k itself in log₂ k + 2·log₂ log₂ k bits. The half is Cohen's: conditions are redundant.
    """
    if k == 0:
        return 0.0
    number_bits = math.log2(k)
    if k > 1:
        number_bits += 2 * math.log2(number_bits)
    return 0.5 * (number_bits + subset_length(n_conditions, k, k / n_conditions))


def data_length(p: int, n: int, P: int, N: int) -> float:
    """Bits of the exceptions of rules that cover p of P positives and n of N negatives.

    log₂(rows + 1) for their number, then which covered rows are negative and which uncovered rows positive.
    """
    covered, uncovered, missed = p + n, P + N - p - n, P - p
    false_positives = subset_length(covered, n, n / covered) if covered else 0.0
    false_negatives = subset_length(uncovered, missed, missed / uncovered) if uncovered else 0.0
    return math.log2(P + N + 1) + false_positives + false_negatives


# How much a rule is worth while its final conditions are pruned, from the rows that it covers.


def precision_worth(p: int, n: int) -> float:
    """Cohen's (p − n)/(p + n); a rule that covers nothing is worth as little as one that covers negatives only."""
    return (p - n) / (p + n) if p + n else -1.0


def accuracy_worth(p: int, n: int) -> float:
    """How many rows more are classified rightly with the rule than without it."""
    return p - n


class _Rule(NamedTuple):
    """Conditions, and the rows of all that meet them."""

    conditions: Conditions
    rows: Rows


class _Learner:
    """RIPPER on two classes: finds rules for the positives."""

    def __init__(
        self,
        table: kernels.Table,
        *,
        importances: NDArray[np.float64],
        optimizations: int,
        prune_fraction: float,
        description_length_allowance: float,
        seed: int,
    ) -> None:
        self.table = table
        self.importances = importances
        self.optimizations = optimizations
        self.prune_fraction = prune_fraction
        self.allowance = description_length_allowance
        self.random_state: NDArray[Any] = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        self.all_rows = kernels.all_rows(table)
        self.positives, self.negatives = self.count(self.all_rows)
        self.n_conditions = int(np.where(table.ordinal, 2 * (table.n_values - 1), table.n_values).sum())

    def learn(self) -> list[_Rule]:
        """Cover the positives with rules, then optimise these; every time, what positives are left is covered."""
        if self.positives == 0 or self.negatives == 0:
            return []
        rules = self.delete(self.cover([]))
        for _ in range(self.optimizations):
            rules = self.delete(self.cover(self.optimise(rules)))
        return rules

    def cover(self, rules: Sequence[_Rule]) -> list[_Rule]:
        """Add rules for the positives that none covers yet, until one does not pay; that one is dropped."""
        rules = list(rules)
        covered = self.union(rules)
        theory = sum(self.theory_length(rule) for rule in rules)
        shortest = theory + self.data_length(covered)
        while self.count(remaining := self.all_rows & ~covered)[0] > 0:
            growing, pruning = self.split(remaining)
            rule = self.pruned(self.grow(growing), pruning, precision_worth)
            if rule is None:
                break
            theory += self.theory_length(rule)
            length = theory + self.data_length(covered | rule.rows)
            p, n = self.count(rule.rows & pruning)
            if length > shortest + self.allowance or n >= p:  # n ≥ p: no positives, or an error of 50 % or more
                break
            rules.append(rule)
            covered |= rule.rows
            shortest = min(shortest, length)
        return rules

    def optimise(self, rules: Sequence[_Rule]) -> list[_Rule]:
        """Give every rule the choice to stay, to be revised or to be replaced: the shortest description wins."""
        later = self.unions_after(rules)
        earlier = np.zeros_like(self.all_rows)
        chosen = []
        for rule, covered_later in zip(rules, later, strict=True):
            growing, pruning = self.split(self.all_rows & ~earlier)
            pruning &= ~covered_later
            extension = self.grow(growing & rule.rows)
            revision = self.pruned(np.concatenate([rule.conditions, extension]), pruning, accuracy_worth)
            replacement = self.pruned(self.grow(growing), pruning, accuracy_worth)
            others = earlier | covered_later
            variants = [variant for variant in (rule, revision, replacement) if variant is not None]
            lengths = [self.theory_length(v) + self.data_length(others | v.rows) for v in variants]
            chosen.append(variants[lengths.index(min(lengths))])
            earlier |= chosen[-1].rows
        return chosen

    def delete(self, rules: Sequence[_Rule]) -> list[_Rule]:
        """Drop rules, from the last to the first, where the description gets shorter without them."""
        before = self.unions_after(rules[::-1])
        later = np.zeros_like(self.all_rows)
        kept: list[_Rule] = []
        for rule, earlier in zip(rules[::-1], before, strict=True):
            others = earlier | later
            if self.data_length(others) >= self.data_length(others | rule.rows) + self.theory_length(rule):
                kept.append(rule)
                later |= rule.rows
        return kept[::-1]

    def split(self, rows: Rows) -> tuple[Rows, Rows]:
        """Draw rows to grow on, from each class the same part; the others are to prune on."""
        growing = kernels.split(rows, self.table.positive_words, self.prune_fraction, self.random_state)
        return growing, rows & ~growing

    def grow(self, rows: Rows) -> Conditions:
        return kernels.grow(self.table, rows, self.importances)

    def pruned(self, conditions: Conditions, rows: Rows, worth: Callable[[int, int], float]) -> _Rule | None:
        """Cut off the final conditions so that the rule is worth most; of equal ones the shortest.

        The first condition stays: a rule without any tells nothing apart. None when there is none to begin with.
        """
        if len(conditions) == 0:
            return None
        covered, counts = kernels.prefixes(self.table, self.all_rows, conditions, rows)
        worths = [worth(p, n) for p, n in counts.tolist()]
        last = worths.index(max(worths))
        return _Rule(_without_implied(conditions[: last + 1]), covered[last].copy())

    def theory_length(self, rule: _Rule) -> float:
        return theory_length(len(rule.conditions), self.n_conditions)

    def data_length(self, covered: Rows) -> float:
        return data_length(*self.count(covered), self.positives, self.negatives)

    def count(self, rows: Rows) -> tuple[int, int]:
        return kernels.count(rows, self.table.positive_words)

    def union(self, rules: Iterable[_Rule]) -> Rows:
        covered = np.zeros_like(self.all_rows)
        for rule in rules:
            covered |= rule.rows
        return covered

    def unions_after(self, rules: Sequence[_Rule]) -> list[Rows]:
        """For every rule, what those after it cover."""
        unions = [np.zeros_like(self.all_rows)]
        for rule in reversed(rules):
            unions.append(unions[-1] | rule.rows)
        return unions[-2::-1]


def _without_implied(conditions: Conditions) -> Conditions:
    """Drop x ≤ 5 where x ≤ 3 follows; a condition that was added later is always the stricter one."""
    last = {(feature, operator): i for i, (feature, operator, _) in enumerate(conditions.tolist())}
    return conditions if len(last) == len(conditions) else conditions[sorted(last.values())]


def learn_rules(
    codes: NDArray[np.integer[Any]],
    positive: NDArray[np.bool_],
    *,
    n_values: ArrayLike,
    importances: ArrayLike | None = None,
    optimizations: int = 2,
    prune_fraction: float = 1 / 3,
    description_length_allowance: float = 64.0,
    seed: int,
) -> list[tuple[tuple[int, int], ...]]:
    """Learn rules that tell positive rows from the others, with conditions of the form feature = value.

    Parameters
    ----------
    codes : integer array of shape (rows, features)
        The value of every feature as a number from 0. uint8, uint16 and uint32 are used as they are, others copied.
    positive : bool array of shape (rows,)
        Which rows the rules shall cover. The same row may stand in both classes.
    n_values : integers of shape (features,)
        How many values each feature has, whether they occur or not.
    importances : floats of shape (features,), optional
        What FOIL's gain is multiplied by while a rule grows: finite, not negative; only their ratios matter.
        All equal, all zero or None: plain RIPPER.
    optimizations, prune_fraction, description_length_allowance
        As in `RipperClassifier`.
    seed : int
        Decides how rows are divided for growing and pruning. The same seed gives the same rules.

    Returns
    -------
    list of rules
        Each rule is a tuple of (feature, value) conditions in the order in which they were added, at least one and
        no feature twice. Empty when there are no rows, only rows of one class, or nothing tells the classes apart.

    Examples
    --------
    >>> codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10, dtype=np.uint8)
    >>> learn_rules(codes, (codes == 1).all(axis=1), n_values=[2, 2], seed=0)
    [((1, 1), (0, 1))]
    """
    _check_settings(optimizations, prune_fraction, description_length_allowance)
    codes, positive = np.asarray(codes), np.asarray(positive)
    values = np.asarray(n_values, np.int64)
    if codes.ndim != 2 or codes.dtype.kind not in "iu":
        raise RipperError(f"codes must be a matrix of integers, got {codes.dtype} of shape {codes.shape}.")
    if positive.dtype != np.bool_ or positive.shape != codes.shape[:1]:
        raise RipperError(
            f"positive must hold one bool for each of the {len(codes)} rows, "
            f"got {positive.dtype} of shape {positive.shape}."
        )
    if values.shape != codes.shape[1:] or (values < 1).any():
        raise RipperError(
            f"n_values must hold a number of at least 1 for each of the {codes.shape[1]} features, "
            f"got {values.tolist()}."
        )
    if len(codes) == 0:
        return []
    learner = _Learner(
        _table(codes, positive, values, np.zeros(values.shape, np.bool_)),
        importances=_relative_importances(importances, values.size),
        optimizations=optimizations,
        prune_fraction=prune_fraction,
        description_length_allowance=description_length_allowance,
        seed=seed,
    )
    return [tuple((feature, value) for feature, _, value in rule.conditions.tolist()) for rule in learner.learn()]


def _table(
    codes: NDArray[Any], positive: NDArray[np.bool_], n_values: NDArray[np.int64], ordinal: NDArray[np.bool_]
) -> kernels.Table:
    if codes.dtype not in (np.uint8, np.uint16, np.uint32):
        if codes.min(initial=0) < 0 or codes.max(initial=0) > np.iinfo(np.uint32).max:
            raise RipperError("codes must number the values of each feature from 0, but some are negative or huge.")
        codes = codes.astype(np.uint8 if codes.max(initial=0) < 256 else np.uint32)
    try:
        # The kernels only read the codes, but for arrays that cannot be written they would be compiled once more.
        return kernels.build_table(np.require(codes, requirements=["C", "W"]), positive, n_values, ordinal)
    except IndexError as error:
        raise RipperError(f"{error}: check codes against n_values.") from None


def _relative_importances(importances: ArrayLike | None, n_features: int) -> NDArray[np.float64]:
    """Importances as parts of the largest, which makes equal ones exactly 1."""
    if importances is None:
        return np.ones(n_features)
    given = np.asarray(importances, np.float64)
    if given.shape != (n_features,):
        raise RipperError(
            f"importances must hold one number for each of the {n_features} features, got shape {given.shape}."
        )
    usable = np.isfinite(given) & (given >= 0)
    if not usable.all():
        worst = int(usable.argmin())
        raise RipperError(f"importances must be finite and not negative, that of feature {worst} is {given[worst]}.")
    largest = given.max(initial=0.0)
    return given / largest if largest > 0 else np.ones(n_features)


def _check_settings(optimizations: int, prune_fraction: float, description_length_allowance: float) -> None:
    if not isinstance(optimizations, (int, np.integer)) or optimizations < 0:
        raise RipperError(f"optimizations must be a whole number of at least 0, got {optimizations!r}.")
    if not 0 < prune_fraction < 1:
        raise RipperError(f"prune_fraction must lie between 0 and 1, got {prune_fraction!r}.")
    if not description_length_allowance >= 0:
        raise RipperError(
            f"description_length_allowance must be at least 0 bits, got {description_length_allowance!r}."
        )


@dataclass(frozen=True)
class RipperCondition:
    """A condition on one feature: ``name = value``, ``name <= value`` or ``name > value``."""

    feature: int
    name: str
    operator: Literal["=", "<=", ">"]
    value: Any

    def holds(self, column: NDArray[Any]) -> NDArray[np.bool_]:
        """Return for every value of the feature whether it meets the condition."""
        if self.operator == "=":
            return np.asarray(column == self.value, np.bool_)
        # float32 columns would otherwise round the threshold to their own precision
        above = column.astype(np.float64) > self.value
        return above if self.operator == ">" else ~above

    def __str__(self) -> str:
        value = f"{self.value:.6g}" if isinstance(self.value, float) else str(self.value)
        return f"{self.name} {self.operator} {value}"


@dataclass(frozen=True)
class RipperRule:
    """Where all conditions hold, the class is ``label``.

    Attributes
    ----------
    conditions : tuple of RipperCondition
        In the order in which they were added.
    label : object
        The class that the rule speaks for.
    covered, correct : int
        How many training rows the rule decided, that is, no rule before it matched; and how many of them rightly.
    """

    conditions: tuple[RipperCondition, ...]
    label: Any
    covered: int
    correct: int

    def matches(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """Return for every row of a matrix whether all conditions hold."""
        matched = np.zeros(len(X), np.bool_)
        matched[self._matching(X, np.arange(len(X)))] = True
        return matched

    def _matching(self, X: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some rows in which all conditions hold."""
        for condition in self.conditions:
            rows = rows[condition.holds(X[rows, condition.feature])]
        return rows

    def __str__(self) -> str:
        body = " and ".join(str(condition) for condition in self.conditions)
        return f"{self.label} if {body} ({self.correct} of {self.covered})"


class _Encoded(NamedTuple):
    """A matrix as codes.

    A nominal feature's code is the number of its value in ``values``. An ordinal feature's code is the number of
    cut points in ``values`` that are smaller than its value, so x ≤ values[c] just where code ≤ c.
    """

    codes: NDArray[Any]
    values: list[NDArray[Any]]
    ordinal: NDArray[np.bool_]

    @property
    def n_values(self) -> NDArray[np.int64]:
        return np.array([len(v) for v in self.values], np.int64) + self.ordinal


def _encode(X: NDArray[Any], nominal: NDArray[np.bool_], max_bins: int, seed: int) -> _Encoded:
    """Number the values or the intervals of every feature."""
    codes: NDArray[Any] = np.empty(X.shape, np.uint8)
    low, occurs = _encode_small_integers(X, codes)
    values: list[NDArray[Any]] = []
    for j, is_nominal in enumerate(nominal):
        offsets = np.flatnonzero(occurs[j])
        if offsets.size > 0 and (is_nominal or offsets.size <= max_bins):
            if offsets.size <= offsets[-1]:  # some numbers in between do not occur
                codes[:, j] = (np.cumsum(occurs[j]) - 1).astype(np.uint8)[codes[:, j]]
            distinct = (low[j] + offsets).astype(X.dtype)
            values.append(distinct if is_nominal else _between(distinct))
            continue
        found, column = _categories(X[:, j]) if is_nominal else _intervals(X[:, j], max_bins, seed)
        if len(found) > np.iinfo(codes.dtype).max:
            codes = codes.astype(np.uint16 if len(found) < 2**16 else np.uint32)
        codes[:, j] = column
        values.append(found)
    return _Encoded(codes, values, ~nominal)


def _encode_small_integers(X: NDArray[Any], codes: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Encode, without sorting, the columns that hold whole numbers in a range of at most 64.

    The code is the distance from the smallest number of the column. Return these smallest numbers, and which of the
    64 codes occur; none are said to occur in columns of other kinds.
    """
    if X.dtype.kind not in "biuf":
        return np.zeros(X.shape[1]), np.zeros((X.shape[1], 64), np.bool_)
    if not X.dtype.isnative or (X.dtype.kind == "f" and X.dtype.itemsize not in (4, 8)):
        X = X.astype(np.float64)
    X = np.require(X, requirements=["C", "W"])
    low, high, whole = kernels.whole_ranges(X)
    exact = whole & (np.maximum(-low, high) < 2**53)
    small = exact & (np.where(exact, high, 64.0) - np.where(exact, low, 0.0) < 64)
    occurs = kernels.subtract_low(X, low, codes)
    return low, (occurs[:, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).astype(np.bool_) & small[:, None]


def _categories(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The distinct values of a column in order, and the number of each."""
    if column.dtype != object:
        return np.unique(column, return_inverse=True)
    values = sorted(set(column), key=lambda value: (type(value).__name__, value))
    numbers = {value: number for number, value in enumerate(values)}
    found = np.empty(len(values), object)
    found[:] = values
    return found, np.array([numbers[value] for value in column], np.int64)


def _intervals(column: NDArray[Any], max_bins: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Cut points of a column, between all its values or at quantiles, and the interval in which each value lies."""
    numbers = column.astype(np.float64)
    sample = numbers
    if numbers.size > CUT_SAMPLE:
        sample = np.random.default_rng(seed).choice(numbers, CUT_SAMPLE, replace=False)
    ordered = np.sort(sample)
    distinct = ordered[np.append(True, ordered[1:] > ordered[:-1])]
    cuts = _between(distinct)
    if distinct.size > max_bins:
        quantiles = ordered[np.arange(1, max_bins) * (ordered.size - 1) // max_bins]
        places = np.unique(np.searchsorted(distinct, quantiles))
        cuts = cuts[places[places < cuts.size]]
    return cuts, np.searchsorted(cuts, numbers)


def _between(distinct: NDArray[Any]) -> NDArray[np.float64]:
    """Points between neighbours, so that x ≤ point just for the lower one; whole numbers between whole numbers."""
    distinct = distinct.astype(np.float64)
    lower, upper = distinct[:-1], distinct[1:]
    middle = lower / 2 + upper / 2
    if (distinct == np.floor(distinct)).all():
        middle = np.floor(middle)
    return np.where((lower <= middle) & (middle < upper), middle, lower)


class RipperClassifier(ClassifierMixin, BaseEstimator):
    """RIPPER (Cohen 1995): a list of rules for every class but the most frequent one, which is the default.

    Classes are taken from the rarest to the most frequent. The rules of a class are learned on the rows that no rule of
    an earlier class covers, as follows.

    - Before every rule the rows that are left are divided anew, at random and by class, to grow and to prune on.
    - A rule grows by the condition with the largest FOIL gain p·(log₂ p/t − log₂ P/T) × importance of its feature,
      among those with gain > 0, until it covers no negative or no condition gains.
    - Its final conditions are pruned so that (p − n)/(p + n) is largest.
    - When the description length is more than the allowance above the smallest so far, or the rule is wrong on half or
      more of the rows to prune on that it covers, or covers none of them, the rule is dropped and no more are added.
    - Then rules without which the description is shorter are deleted, from the last to the first.
    - In every optimisation pass each rule competes with a replacement, grown from nothing, and a revision, grown from
      the rule itself, both pruned by the accuracy of the whole rule set; the shortest description wins. Then rules are
      added for the positives that are left, and rules are deleted, as before.

    The formulas are Cohen's. Weka's JRip has a Laplace correction in the gain and in pruning, and another code for the
    exceptions; each was tried on nominal and numeric data and changed the mean accuracy by less than 0.002.

    Parameters
    ----------
    optimizations : int, default=2
        How many optimisation passes.
    prune_fraction : float, default=1/3
        The part of the rows that is kept from growing a rule, to prune it.
    description_length_allowance : float, default=64.0
        By how many bits the description length may exceed the smallest so far while rules are added.
    feature_importances : array-like of shape (n_features,), optional
        What the gain of a feature's conditions is multiplied by: finite, not negative; only ratios matter. A feature of
        importance 0 is used where no other gains. All equal, all zero or None: plain RIPPER.
    categorical_features : "all", array-like of bool, int or str, or None, default=None
        The features whose conditions are equalities: all, or a mask, or numbers, or names. Columns of strings and
        of pandas' category type always are; all other columns get thresholds.
    positive_class : object, optional
        With two classes: the one to learn rules for, instead of the rarer one.
    max_bins : int, default=255
        A numeric feature is divided at no more than ``max_bins - 1`` thresholds.
    random_state : int, RandomState or None, default=None
        Decides how rows are divided. An int makes the result repeatable.

    Attributes
    ----------
    rules_ : list of RipperRule
        The rules in the order in which they are tried; the first that matches decides.
    n_rules_ : int
        How many rules there are.
    default_class_ : object
        The class of rows that no rule matches.
    classes_ : array of shape (n_classes,)
        The class labels.
    n_features_in_, feature_names_in_
        As in every scikit-learn estimator.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris()
    >>> classifier = RipperClassifier(random_state=0).fit(iris.data, iris.target_names[iris.target])
    >>> for rule in classifier.rules_:
    ...     print(rule)
    virginica if x2 > 4.75 (49 of 55)
    versicolor if x2 > 2.45 (44 of 45)
    >>> classifier.default_class_
    'setosa'
    """

    def __init__(
        self,
        *,
        optimizations: int = 2,
        prune_fraction: float = 1 / 3,
        description_length_allowance: float = 64.0,
        feature_importances: ArrayLike | None = None,
        categorical_features: Literal["all"] | ArrayLike | None = None,
        positive_class: Any = None,
        max_bins: int = 255,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.optimizations = optimizations
        self.prune_fraction = prune_fraction
        self.description_length_allowance = description_length_allowance
        self.feature_importances = feature_importances
        self.categorical_features = categorical_features
        self.positive_class = positive_class
        self.max_bins = max_bins
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> RipperClassifier:
        """Learn rules from rows and their classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numbers, strings or both; neither is changed.
        y : array-like of shape (n_samples,)
            The class of every row.

        Returns
        -------
        RipperClassifier
            The classifier itself.
        """
        _check_settings(self.optimizations, self.prune_fraction, self.description_length_allowance)
        if not isinstance(self.max_bins, (int, np.integer)) or self.max_bins < 2:
            raise RipperError(f"max_bins must be a whole number of at least 2, got {self.max_bins!r}.")
        rows, labels = validate_data(self, X, y, dtype=None)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        importances = _relative_importances(self.feature_importances, rows.shape[1])
        nominal = self._nominal_features(X, rows)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        encoded = _encode(rows, nominal, self.max_bins, seed)
        *learned, default = self._order_of_classes(numbers)
        self.default_class_ = _plain(self.classes_[default])
        self.rules_, self._frequencies = self._learn(encoded, numbers, learned, default, importances, seed)
        self.n_rules_ = len(self.rules_)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return for every row the class of the first rule that matches it, or the default class."""
        rows = self._validated(X)
        return self.classes_[self._frequencies.argmax(axis=1)[self._first_match(rows)]]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return for every row how frequent each class is among the training rows that the same rule decided.

        Frequencies have a Laplace correction. The class of the rule always has the largest.
        """
        rows = self._validated(X)
        return self._frequencies[self._first_match(rows)]

    def _learn(
        self,
        encoded: _Encoded,
        numbers: NDArray[np.int64],
        learned: Sequence[int],
        default: int,
        importances: NDArray[np.float64],
        seed: int,
    ) -> tuple[list[RipperRule], NDArray[np.float64]]:
        """Learn the rules of one class after the other; also return the frequencies of the classes for each rule."""
        rules, frequencies = [], []
        left = np.arange(len(numbers))
        for label in learned:
            codes = encoded.codes if left.size == len(numbers) else encoded.codes[left]
            learner = _Learner(
                _table(codes, numbers[left] == label, encoded.n_values, encoded.ordinal),
                importances=importances,
                optimizations=self.optimizations,
                prune_fraction=self.prune_fraction,
                description_length_allowance=self.description_length_allowance,
                seed=seed,
            )
            decided = np.zeros(left.size, np.bool_)
            for rule in learner.learn():
                matched = kernels.row_numbers(learner.table, rule.rows)
                matched = matched[~decided[matched]]
                decided[matched] = True
                counts = np.bincount(numbers[left[matched]], minlength=self.classes_.size)
                conditions = tuple(self._condition(encoded, *condition) for condition in rule.conditions.tolist())
                rules.append(RipperRule(conditions, _plain(self.classes_[label]), matched.size, int(counts[label])))
                frequencies.append(_frequencies(counts, label))
            left = left[~decided]
        counts = np.bincount(numbers[left], minlength=self.classes_.size)
        return rules, np.array([*frequencies, _frequencies(counts, default)])

    def _condition(self, encoded: _Encoded, feature: int, operator: int, code: int) -> RipperCondition:
        names = getattr(self, "feature_names_in_", None)
        name = f"x{feature}" if names is None else str(names[feature])
        sign: Literal["=", "<=", ">"] = ("=", "<=", ">")[operator]
        return RipperCondition(feature, name, sign, _plain(encoded.values[feature][code]))

    def _order_of_classes(self, numbers: NDArray[np.int64]) -> list[int]:
        """From the rarest to the most frequent class; of equally frequent ones the later label first."""
        counts = np.bincount(numbers)
        order = np.lexsort((-np.arange(counts.size), counts)).tolist()
        if self.positive_class is None:
            return order
        if counts.size != 2 or self.positive_class not in self.classes_:
            raise RipperError(
                f"positive_class must be one of two classes, but is {self.positive_class!r} "
                f"and y holds {self.classes_.tolist()}."
            )
        positive = int(np.flatnonzero(self.classes_ == self.positive_class)[0])
        return [positive, 1 - positive]

    def _nominal_features(self, X: ArrayLike, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Which features have equalities for conditions."""
        nominal = np.array([str(dtype) == "category" for dtype in getattr(X, "dtypes", [])], np.bool_)
        if nominal.size != rows.shape[1]:
            nominal = np.zeros(rows.shape[1], np.bool_)
        if rows.dtype.kind in "US":
            nominal[:] = True
        elif rows.dtype == object:
            nominal |= [all(isinstance(value, str) for value in column) for column in rows.T]
        if self.categorical_features is None:
            return nominal
        if isinstance(self.categorical_features, str) and self.categorical_features == "all":
            return np.ones_like(nominal)
        return nominal | self._named_features(np.asarray(self.categorical_features), nominal.size)

    def _named_features(self, given: NDArray[Any], n_features: int) -> NDArray[np.bool_]:
        """A mask from what ``categorical_features`` holds: a mask, numbers or names."""
        mask = np.zeros(n_features, np.bool_)
        names = getattr(self, "feature_names_in_", np.empty(0, object))
        if given.size == 0:
            return mask
        if given.dtype == np.bool_ and given.shape == mask.shape:
            return given
        if given.dtype.kind in "iu" and given.ndim == 1 and -n_features <= given.min() <= given.max() < n_features:
            mask[given] = True
            return mask
        if given.dtype.kind in "UO" and given.ndim == 1 and np.isin(given.astype(object), names).all():
            return np.isin(names, given.astype(object))
        raise RipperError(
            f"categorical_features must be 'all', a mask of {n_features} bools, or numbers or names of features, "
            f"got {self.categorical_features!r}."
        )

    def _validated(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        return validate_data(self, X, dtype=None, reset=False)

    def _first_match(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """The number of the first rule that matches; the number of rules where none does."""
        first = np.full(len(rows), self.n_rules_)
        for number, rule in enumerate(self.rules_):
            first[rule._matching(rows, np.flatnonzero(first == self.n_rules_))] = number
        return first


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python value, which prints better."""
    return value.item() if isinstance(value, np.generic) else value


def _frequencies(counts: NDArray[np.int64], label: int) -> NDArray[np.float64]:
    """Frequencies of the classes with Laplace's correction; that of the label is raised above the others if need be."""
    weights = counts + 1.0
    weights[label] = max(weights[label], np.delete(weights, label).max(initial=0.0) + 1.0)
    return weights / weights.sum()
