"""Small data and rules for the tests of RIPPER."""

import numpy as np
from hypothesis import strategies as st

from legible.mining.ripper import kernels
from legible.mining.ripper.kernels import AT_MOST, EQUAL
from legible.mining.ripper.learner import CoveringRule, Learner, RipperSettings


def learner_on(codes, positive, n_values=None, ordinal=False, importances=None, seed=0, **settings):
    codes = np.asarray(codes, np.uint8)
    n_values = codes.max(axis=0).astype(np.int64) + 1 if n_values is None else np.asarray(n_values, np.int64)
    ordinal = np.broadcast_to(np.asarray(ordinal), n_values.shape).copy()
    table = kernels.build_table(codes, np.asarray(positive, np.bool_), n_values, ordinal)
    importances = np.ones(n_values.size) if importances is None else importances
    return Learner(table, importances, RipperSettings(**settings), seed=seed)


def row_set(table, numbers):
    return np.packbits(np.isin(table.row_of_slot, numbers), bitorder="little").view(np.uint64)


def conditions(*triples):
    return np.array(triples, np.int64).reshape(-1, 3)


def rule_of(learner, *triples):
    """A rule with these conditions, none of them pruned."""
    kept = conditions(*triples)
    covered, _ = kernels.prefixes(learner.table, learner.all_rows, kept, learner.all_rows)
    return CoveringRule(kept, covered[-1])


def triples(rule):
    return [tuple(condition) for condition in rule.conditions.tolist()]


def meets(codes, feature, operator, value):
    column = codes[:, feature].astype(int)
    return column == value if operator == EQUAL else column <= value if operator == AT_MOST else column > value


def covers(rule, codes):
    return np.logical_and.reduce([codes[:, feature] == value for feature, value in rule])


def noisy_conjunctions(rows, seed, noise=0.05):
    """Two conjunctions over ten binary features and one with five values."""
    rng = np.random.default_rng(seed)
    n_values = np.array([2] * 10 + [5])
    codes = rng.integers(n_values, size=(rows, 11)).astype(np.uint8)
    truth = ((codes[:, 0] == 1) & (codes[:, 3] == 0)) | ((codes[:, 10] == 2) & (codes[:, 7] == 1))
    return codes, truth ^ (rng.random(rows) < noise), n_values


@st.composite
def tables(draw, max_rows=80):
    """Codes, classes, numbers of values and which features are ordinal; a feature of 70 values has no bitsets."""
    n_values = np.array(draw(st.lists(st.sampled_from([1, 2, 3, 5, 64, 70]), min_size=1, max_size=4)))
    rows = draw(st.integers(1, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = np.minimum(rng.integers(n_values, size=(rows, n_values.size)), rng.integers(1, 70, n_values.size))
    positive = rng.random(rows) < draw(st.sampled_from([0.1, 0.5, 0.9]))
    ordinal = np.array(draw(st.lists(st.booleans(), min_size=n_values.size, max_size=n_values.size)))
    return codes.astype(np.uint8), positive, n_values, ordinal
