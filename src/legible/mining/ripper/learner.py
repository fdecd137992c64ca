"""RIPPER for one class against all others, on integer codes.

- `learn_rules`: learns the rules.
- `RipperSettings`: the settings of the algorithm.
- `Learner`: Cohen's algorithm, step by step: `cover`, `optimise`, `delete`.
- `CoveringRule`: a rule during learning, with the rows that it covers.
- `precision_worth`, `accuracy_worth`: objectives of pruning.

In addition to Cohen, the importance of features can guide growing: the added condition maximises FOIL's gain ×
importance. Equal importances give plain RIPPER to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError
from legible.mining.ripper import kernels
from legible.mining.ripper.description_length import data_length, theory_length
from legible.mining.ripper.kernels import Conditions, Rows


class RipperError(LegibleError, ValueError):
    """Invalid data or parameters for RIPPER."""


def precision_worth(p: int, n: int) -> float:
    """Return Cohen's (p − n)/(p + n), or −1 for a rule that covers nothing."""
    return (p - n) / (p + n) if p + n else -1.0


def accuracy_worth(p: int, n: int) -> float:
    """Return how many more rows are classified correctly with the rule."""
    return p - n


class CoveringRule(NamedTuple):
    """Conditions, and the set of rows that meet them."""

    conditions: Conditions
    rows: Rows


@dataclass(frozen=True)
class RipperSettings:
    """Settings of RIPPER."""

    optimizations: int = 2  # how often all rules are revised
    prune_fraction: float = 1 / 3  # the share of the rows on which a new rule is shortened; it is grown on the others
    # Bits by which the description of rules and errors may exceed the shortest one so far before no more rules are
    # added.
    description_length_allowance: float = 64.0
    max_growing_rows: int | None = None  # the largest number of rows on which a rule is grown; None for all

    def __post_init__(self) -> None:
        if not isinstance(self.optimizations, (int, np.integer)) or self.optimizations < 0:
            raise RipperError(f"optimizations must be a whole number of at least 0, got {self.optimizations!r}.")
        if not 0 < self.prune_fraction < 1:
            raise RipperError(f"prune_fraction must lie between 0 and 1, got {self.prune_fraction!r}.")
        if not self.description_length_allowance >= 0:
            raise RipperError(
                f"description_length_allowance must be at least 0 bits, got {self.description_length_allowance!r}."
            )


class Learner:
    """RIPPER on two classes, with rules for the positives."""

    def __init__(
        self, table: kernels.BitTable, importances: NDArray[np.float64], settings: RipperSettings, *, seed: int
    ) -> None:
        """Prepare learning.

        Parameters
        ----------
        table
            The rows of both classes, with the values of features as codes.
        importances
            ``float64[features]``: weights of the features in growing rules.
        settings
            The settings of the algorithm.
        seed
            Seed of the random splits.
        """
        self.table = table
        self.importances = importances
        self.settings = settings
        self.random_state: NDArray[Any] = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        self.all_rows = kernels.all_rows(table)
        self.positives, self.negatives = self.count(self.all_rows)
        # All possible conditions: x <= v and x > v for cuts of ordinal features, x = v for values of nominal ones.
        self.n_conditions = int(np.where(table.ordinal, 2 * (table.n_values - 1), table.n_values).sum())

    def learn(self) -> list[CoveringRule]:
        """Cover the positives with rules, then optimise the rules and cover the remaining positives."""
        if self.positives == 0 or self.negatives == 0:
            return []
        rules = self.delete(self.cover([]))
        for _ in range(self.settings.optimizations):
            rules = self.delete(self.cover(self.optimise(rules)))
        return rules

    def cover(self, rules: Sequence[CoveringRule]) -> list[CoveringRule]:
        """Return the given rules with further ones for the positive rows that they do not cover.

        Rules are added until one does not pay, by the minimum description length principle: the bits that describe the
        rules and their errors. That rule is dropped.

        Parameters
        ----------
        rules
            The rules to begin with, may be none.
        """
        rules = list(rules)
        covered = np.zeros_like(self.all_rows)
        for given in rules:
            covered |= given.rows
        # The bits that describe the rules, and the shortest description so far of the rules and their errors.
        rules_length = sum(self.theory_length(rule) for rule in rules)
        shortest = rules_length + self.data_length(covered)
        while self.count(remaining := self.all_rows & ~covered)[0] > 0:
            # Grow a rule on one part of the uncovered rows, and shorten it on the other.
            growing, pruning = self.split(remaining)
            rule = self.pruned(self.grow(growing), pruning, precision_worth)
            if rule is None:
                break
            # Stop if the description becomes too long, or if the rule covers at least as many negatives (n) as
            # positives (p) of the rows that it was not grown on.
            rules_length += self.theory_length(rule)
            length = rules_length + self.data_length(covered | rule.rows)
            p, n = self.count(rule.rows & pruning)
            if length > shortest + self.settings.description_length_allowance or n >= p:
                break
            rules.append(rule)
            covered |= rule.rows
            shortest = min(shortest, length)
        return rules

    def optimise(self, rules: Sequence[CoveringRule]) -> list[CoveringRule]:
        """Keep, revise or replace every rule, by the shortest description."""
        # The rows that the rules after each rule cover, and those that the chosen rules before it do.
        rows_covered_later = self.unions_after(rules)
        covered_before = np.zeros_like(self.all_rows)
        chosen = []
        for rule, covered_later in zip(rules, rows_covered_later, strict=True):
            # A revision has further conditions, a replacement is grown anew; both are shortened on other rows, for the
            # accuracy of all rules together.
            growing, pruning = self.split(self.all_rows & ~covered_before)
            pruning &= ~covered_later
            extension = self.grow(growing & rule.rows)
            revision = self.pruned(np.concatenate([rule.conditions, extension]), pruning, accuracy_worth)
            replacement = self.pruned(self.grow(growing), pruning, accuracy_worth)
            variants = [variant for variant in (rule, revision, replacement) if variant is not None]
            lengths = [
                self.theory_length(variant) + self.data_length(covered_before | covered_later | variant.rows)
                for variant in variants
            ]
            chosen.append(variants[lengths.index(min(lengths))])
            covered_before |= chosen[-1].rows
        return chosen

    def delete(self, rules: Sequence[CoveringRule]) -> list[CoveringRule]:
        """Drop rules, from the last to the first, if the description gets shorter without them."""
        before = self.unions_after(rules[::-1])
        later = np.zeros_like(self.all_rows)
        kept: list[CoveringRule] = []
        for rule, earlier in zip(rules[::-1], before, strict=True):
            others = earlier | later
            if self.data_length(others) >= self.data_length(others | rule.rows) + self.theory_length(rule):
                kept.append(rule)
                later |= rule.rows
        return kept[::-1]

    def split(self, rows: Rows) -> tuple[Rows, Rows]:
        """Draw rows to grow on, the same share of each class; the others are to prune on.

        Of very many rows to grow on, a random part is enough: sweeps over all of them dominate the run time.
        """
        growing = kernels.split(rows, self.table.positive_words, self.settings.prune_fraction, self.random_state)
        pruning = rows & ~growing
        share = self.share_to_grow_on(growing)
        if share < 1:
            kernels.keep_words(growing, share, self.random_state)
        return growing, pruning

    def share_to_grow_on(self, rows: Rows) -> float:
        """Return the share of rows that gives `max_growing_rows`, or more, so that a tenth of it is positive."""
        most = self.settings.max_growing_rows
        if most is None:
            return 1.0
        positives, negatives = self.count(rows)
        return max(most / max(1, positives + negatives), most / 10 / max(1, positives))

    def grow(self, rows: Rows) -> Conditions:
        """Add the best condition until no negative is covered or no condition gains."""
        return kernels.grow(self.table, rows, self.importances)

    def pruned(self, conditions: Conditions, rows: Rows, worth: Callable[[int, int], float]) -> CoveringRule | None:
        """Remove the last conditions to maximise the worth; of equal rules keep the shortest.

        The first condition stays. None for a rule without conditions.
        """
        if len(conditions) == 0:
            return None
        covered, counts = kernels.prefixes(self.table, self.all_rows, conditions, rows)
        worths = [worth(p, n) for p, n in counts.tolist()]
        last = worths.index(max(worths))
        kept = conditions[: last + 1]
        # Drop x ≤ 5 if x ≤ 3 follows: later conditions are stricter.
        strictest = {(feature, operator): i for i, (feature, operator, _) in enumerate(kept.tolist())}
        return CoveringRule(kept[sorted(strictest.values())], covered[last].copy())

    def theory_length(self, rule: CoveringRule) -> float:
        """Return the bits of a rule."""
        return theory_length(len(rule.conditions), self.n_conditions)

    def data_length(self, covered: Rows) -> float:
        """Return the bits of the exceptions if these rows are covered."""
        return data_length(*self.count(covered), self.positives, self.negatives)

    def count(self, rows: Rows) -> tuple[int, int]:
        """Count positives and negatives."""
        return kernels.count(rows, self.table.positive_words)

    def unions_after(self, rules: Sequence[CoveringRule]) -> list[Rows]:
        """Return the rows that the rules after each rule cover."""
        unions = [np.zeros_like(self.all_rows)]
        for rule in reversed(rules):
            unions.append(unions[-1] | rule.rows)
        return unions[-2::-1]


def learn_rules(
    codes: NDArray[np.integer[Any]],
    positive: NDArray[np.bool_],
    *,
    n_values: ArrayLike,
    importances: ArrayLike | None = None,
    settings: RipperSettings | None = None,
    seed: int,
) -> list[tuple[tuple[int, int], ...]]:
    """Return the conditions of rules that hold in positive rows and in few others, of the form feature = value.

    Parameters
    ----------
    codes : integer array of shape (rows, features)
        The value of every feature, numbered from 0. uint8, uint16 and uint32 are not copied.
    positive : bool array of shape (rows,)
        Rows that the rules should cover. A row may occur in both classes.
    n_values : integers of shape (features,)
        Number of values of each feature.
    importances : numbers of shape (features,), optional
        Weights of the features in the choice of conditions; by default all are equal.
    settings : RipperSettings
        Settings of the algorithm; by default Cohen's.
    seed : int
        Seed of the splits into rows to grow and rows to prune on.

    Returns
    -------
    list of rules
        Each rule is a tuple of (feature, value) conditions in the order in which they were added, at least one and
        no feature twice. Empty without rows of both classes, or if nothing separates them.

    Examples
    --------
    >>> codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10, dtype=np.uint8)
    >>> learn_rules(codes, (codes == 1).all(axis=1), n_values=[2, 2], seed=0)
    [((1, 1), (0, 1))]
    """
    codes, positive = np.asarray(codes), np.asarray(positive)
    value_counts = np.asarray(n_values, np.int64)
    if codes.ndim != 2 or codes.dtype.kind not in "iu":
        raise RipperError(f"codes must be a matrix of integers, got {codes.dtype} of shape {codes.shape}.")
    if positive.dtype != np.bool_ or positive.shape != codes.shape[:1]:
        raise RipperError(
            f"positive must hold one bool for each of the {len(codes)} rows, "
            f"got {positive.dtype} of shape {positive.shape}."
        )
    if value_counts.shape != codes.shape[1:] or (value_counts < 1).any():
        raise RipperError(
            f"n_values must hold a number of at least 1 for each of the {codes.shape[1]} features, "
            f"got {value_counts.tolist()}."
        )
    if len(codes) == 0:
        return []

    # No feature is ordinal here: conditions are equalities, so the operator of a condition is not returned.
    table = checked_table(codes, positive, value_counts, np.zeros(value_counts.shape, np.bool_))
    weights = relative_importances(importances, value_counts.size)
    learner = Learner(table, weights, settings or RipperSettings(), seed=seed)
    return [tuple((feature, value) for feature, _, value in rule.conditions.tolist()) for rule in learner.learn()]


def checked_table(
    codes: NDArray[Any], positive: NDArray[np.bool_], n_values: NDArray[np.int64], ordinal: NDArray[np.bool_]
) -> kernels.BitTable:
    """Build the table of the kernels from codes of any integer type; raise an error for codes out of range."""
    if codes.dtype not in (np.uint8, np.uint16, np.uint32):
        if codes.min(initial=0) < 0 or codes.max(initial=0) > np.iinfo(np.uint32).max:
            raise RipperError("codes must number the values of each feature from 0, but some are negative or huge.")
        codes = codes.astype(np.uint8 if codes.max(initial=0) < 256 else np.uint32)
    try:
        # Read-only arrays would compile the kernels a second time.
        return kernels.build_table(np.require(codes, requirements=["C", "W"]), positive, n_values, ordinal)
    except IndexError as error:
        raise RipperError(f"{error}: check codes against n_values.") from None


def relative_importances(importances: ArrayLike | None, n_features: int) -> NDArray[np.float64]:
    """Return importances divided by the largest, so that equal ones are exactly 1."""
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
