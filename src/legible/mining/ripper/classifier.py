"""RIPPER (Cohen 1995) as a scikit-learn classifier.

- `RipperClassifier`: a list of rules for every class except the most frequent one.
- `most_agreed`: the list of rules that agrees best with several others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from legible.mining.ripper import kernels
from legible.mining.ripper.encoding import Encoded, encode
from legible.mining.ripper.learner import Learner, RipperError, check_settings, checked_table, relative_importances
from legible.mining.ripper.rules import RipperCondition, RipperRule


class _RuleList(NamedTuple):
    """Rules, class frequencies of each rule and of the default, and predicted classes of the training rows."""

    rules: list[RipperRule]
    frequencies: NDArray[np.float64]
    predicted: NDArray[np.int64]


def most_agreed(predictions: Sequence[NDArray[np.int64]], truth: NDArray[np.int64], n_rules: Sequence[int]) -> int:
    """Return the number of the list of rules that agrees best with all lists and with the truth.

    It minimises the share of votes against it, summed over the rows, plus its errors, plus its number of rules. The
    vote is more stable than any single list; errors on training rows alone would prefer long lists.

    >>> votes = [np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0]), np.array([0, 0, 0, 1])]
    >>> most_agreed(votes, np.array([1, 1, 0, 0]), [1, 1, 1]), most_agreed(votes, np.array([1, 1, 0, 0]), [3, 1, 1])
    (0, 1)
    """
    votes = np.zeros((len(truth), int(max(truth.max(), *(p.max() for p in predictions))) + 1))
    rows = np.arange(len(truth))
    for predicted in predictions:
        votes[rows, predicted] += 1 / len(predictions)
    scores = [
        np.sum(1 - votes[rows, predicted]) + np.sum(predicted != truth) + rules
        for predicted, rules in zip(predictions, n_rules, strict=True)
    ]
    return int(np.argmin(scores))


class RipperClassifier(ClassifierMixin, BaseEstimator):
    """RIPPER (Cohen 1995): a list of rules for every class except the most frequent one, which is the default.

    Classes are learned from the rarest to the most frequent, on the rows that no earlier rule covers:

    - Before every rule, the remaining rows are split at random, by class, into rows to grow and rows to prune on.
    - A rule grows by the condition with the largest FOIL gain p·(log₂ p/t − log₂ P/T) × importance of its feature,
      while some gain is positive and the rule covers negatives. Its last conditions are pruned to maximise
      (p − n)/(p + n).
    - Rules are added until the description length exceeds the smallest one by the allowance, or the rule is wrong in
      half of the rows to prune on that it covers. Rules that lengthen the description are deleted.
    - In every optimisation pass each rule competes with a replacement and a revision, both pruned by the accuracy of
      the whole rule set; the shortest description wins. Then rules are added and deleted as before.

    The formulas are Cohen's. Weka's JRip uses a Laplace correction and another code for exceptions, which changed the
    mean accuracy in our tests by less than 0.002.

    Parameters
    ----------
    optimizations : int, default=2
        Number of optimisation passes.
    prune_fraction : float, default=1/3
        Share of the rows that is held out to prune a rule.
    restarts : int, default=1
        Number of lists of rules to learn from different splits; the one that agrees best with the others is kept
        (`most_agreed`). On small data, 30 restarts are more accurate on average.
    description_length_allowance : float, default=64.0
        Bits by which the description length may exceed the smallest one while rules are added.
    feature_importances : array-like of shape (n_features,), optional
        Factors on the gain of the conditions of each feature: finite, not negative; only ratios matter. A feature of
        importance 0 is used only if no other gains. All equal, all zero or None: plain RIPPER.
    categorical_features : "all", array-like of bool, int or str, or None, default=None
        Features whose conditions are equalities: all, a mask, numbers or names. Columns of strings and of pandas'
        category type always are; other columns get thresholds.
    positive_class : object, optional
        With two classes: the one to learn rules for, instead of the rarer one.
    max_bins : int, default=255
        Maximum number of intervals of a numeric feature.
    max_growing_rows : int or None, default=125_000
        Approximate maximum number of rows to grow a rule on, redrawn for each rule; with rare positives more, so that a
        tenth of this number is positive. Pruning and deletion always use all rows. None: no limit.
    random_state : int, RandomState or None, default=None
        Seed of the splits.

    Attributes
    ----------
    rules_ : list of RipperRule
        The rules in order; the first that matches decides.
    n_rules_ : int
        Number of rules.
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
        restarts: int = 1,
        description_length_allowance: float = 64.0,
        feature_importances: ArrayLike | None = None,
        categorical_features: Literal["all"] | ArrayLike | None = None,
        positive_class: Any = None,
        max_bins: int = 255,
        max_growing_rows: int | None = 125_000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.optimizations = optimizations
        self.prune_fraction = prune_fraction
        self.restarts = restarts
        self.description_length_allowance = description_length_allowance
        self.feature_importances = feature_importances
        self.categorical_features = categorical_features
        self.positive_class = positive_class
        self.max_bins = max_bins
        self.max_growing_rows = max_growing_rows
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> RipperClassifier:
        """Learn rules from rows and their classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numbers, strings or both.
        y : array-like of shape (n_samples,)
            The class of every row.

        Returns
        -------
        RipperClassifier
            The classifier itself.
        """
        check_settings(self.optimizations, self.prune_fraction, self.description_length_allowance)
        for name, least in (("max_bins", 2), ("restarts", 1), ("max_growing_rows", 1)):
            value = getattr(self, name)
            is_off = name == "max_growing_rows" and value is None
            if not is_off and (not isinstance(value, (int, np.integer)) or value < least):
                raise RipperError(f"{name} must be a whole number of at least {least}, got {value!r}.")
        rows, labels = validate_data(self, X, y, dtype=None)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        importances = relative_importances(self.feature_importances, rows.shape[1])
        nominal = self._nominal_features(X, rows)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        encoded = encode(rows, nominal, self.max_bins, seed)
        # From the rarest to the most frequent class; ties by descending label.
        counts = np.bincount(numbers)
        *learned, default = np.lexsort((-np.arange(counts.size), counts)).tolist()
        if self.positive_class is not None:
            if counts.size != 2 or self.positive_class not in self.classes_:
                raise RipperError(
                    f"positive_class must be one of two classes, but is {self.positive_class!r} "
                    f"and y holds {self.classes_.tolist()}."
                )
            positive = int(np.flatnonzero(self.classes_ == self.positive_class)[0])
            learned, default = [positive], 1 - positive
        self.default_class_ = _plain(self.classes_[default])
        seeds = [seed, *np.random.SeedSequence(seed).generate_state(self.restarts - 1).tolist()]
        lists = [self._learn(encoded, numbers, learned, default, importances, each) for each in seeds]
        best = most_agreed([found.predicted for found in lists], numbers, [len(found.rules) for found in lists])
        self.rules_, self._frequencies = lists[best].rules, lists[best].frequencies
        self.n_rules_ = len(self.rules_)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of the first rule that matches each row, or the default class."""
        first = self._first_match(X)  # checks that the classifier is fitted
        return self.classes_[self._frequencies.argmax(axis=1)[first]]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the class frequencies, with a Laplace correction, among the training rows of the same rule.

        The class of the rule always has the largest frequency.
        """
        first = self._first_match(X)
        return self._frequencies[first]

    def _learn(
        self,
        encoded: Encoded,
        class_numbers: NDArray[np.int64],
        learned: Sequence[int],
        default: int,
        importances: NDArray[np.float64],
        seed: int,
    ) -> _RuleList:
        """Learn the rules of all classes in turn."""
        names = getattr(self, "feature_names_in_", None)
        signs: tuple[Literal["=", "<=", ">"], ...] = ("=", "<=", ">")
        rules, frequencies = [], []
        predicted = np.full(len(class_numbers), default)
        left_rows = np.arange(len(class_numbers))
        for label in learned:
            codes = encoded.codes if left_rows.size == len(class_numbers) else encoded.codes[left_rows]
            learner = Learner(
                checked_table(codes, class_numbers[left_rows] == label, encoded.n_values, encoded.ordinal),
                importances=importances,
                optimizations=self.optimizations,
                prune_fraction=self.prune_fraction,
                description_length_allowance=self.description_length_allowance,
                max_growing_rows=self.max_growing_rows,
                seed=seed,
            )
            decided = np.zeros(left_rows.size, np.bool_)
            for rule in learner.learn():
                matched = kernels.row_numbers(learner.table, rule.rows)
                matched = matched[~decided[matched]]
                decided[matched] = True
                counts = np.bincount(class_numbers[left_rows[matched]], minlength=self.classes_.size)
                conditions = []
                for feature, operator, code in rule.conditions.tolist():
                    name = f"x{feature}" if names is None else str(names[feature])
                    value = _plain(encoded.values[feature][code])
                    conditions.append(RipperCondition(feature, name, signs[operator], value))
                rules.append(
                    RipperRule(tuple(conditions), _plain(self.classes_[label]), matched.size, int(counts[label]))
                )
                frequencies.append(_frequencies(counts, label))
            predicted[left_rows[decided]] = label
            left_rows = left_rows[~decided]
        counts = np.bincount(class_numbers[left_rows], minlength=self.classes_.size)
        return _RuleList(rules, np.array([*frequencies, _frequencies(counts, default)]), predicted)

    def _nominal_features(self, X: ArrayLike, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the features whose conditions are equalities."""
        nominal = np.array([str(dtype) == "category" for dtype in getattr(X, "dtypes", [])], np.bool_)
        if nominal.size != rows.shape[1]:
            nominal = np.zeros(rows.shape[1], np.bool_)
        if rows.dtype.kind in "US":
            nominal[:] = True
        elif rows.dtype == object:
            nominal |= [all(isinstance(value, str) for value in column) for column in rows.T]
        given, size = np.asarray(self.categorical_features), nominal.size
        names = getattr(self, "feature_names_in_", np.empty(0, object))
        if self.categorical_features is None or (given.size == 0 and given.ndim):
            return nominal
        if given.ndim == 0 and given == "all":
            return np.ones_like(nominal)
        if given.dtype == np.bool_ and given.shape == nominal.shape:
            return nominal | given
        if given.dtype.kind in "iu" and given.ndim == 1 and -size <= given.min() <= given.max() < size:
            nominal[given] = True
            return nominal
        if given.dtype.kind in "UO" and given.ndim == 1 and np.isin(given.astype(object), names).all():
            return nominal | np.isin(names, given.astype(object))
        raise RipperError(
            f"categorical_features must be 'all', a mask of {size} bools, or numbers or names of features, "
            f"got {self.categorical_features!r}."
        )

    def _first_match(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the number of the first rule that matches each row, or the number of rules."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=None, reset=False)
        first = np.full(len(rows), self.n_rules_)
        for number, rule in enumerate(self.rules_):
            first[rule.matching(rows, np.flatnonzero(first == self.n_rules_))] = number
        return first


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python value, which prints better."""
    return value.item() if isinstance(value, np.generic) else value


def _frequencies(counts: NDArray[np.int64], label: int) -> NDArray[np.float64]:
    """Return class frequencies with a Laplace correction; the label always has the largest one."""
    weights = counts + 1.0
    weights[label] = max(weights[label], np.delete(weights, label).max(initial=0.0) + 1.0)
    return weights / weights.sum()
