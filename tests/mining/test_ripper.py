"""RIPPER: every step of Cohen's algorithm on cases worked by hand, its laws, and the estimator around it."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle

import llvmlite.binding
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from legible.errors import LegibleError
from legible.mining import ripper_kernels as kernels
from legible.mining.ripper import (
    RipperClassifier,
    RipperError,
    _Learner,
    _relative_importances,
    _Rule,
    accuracy_worth,
    data_length,
    learn_rules,
    precision_worth,
    subset_length,
    theory_length,
)
from legible.mining.ripper_kernels import ABOVE, AT_MOST, EQUAL


def learner_on(codes, positive, n_values=None, ordinal=False, **settings):
    codes = np.asarray(codes, np.uint8)
    n_values = codes.max(axis=0).astype(np.int64) + 1 if n_values is None else np.asarray(n_values, np.int64)
    ordinal = np.broadcast_to(np.asarray(ordinal), n_values.shape).copy()
    table = kernels.build_table(codes, np.asarray(positive, np.bool_), n_values, ordinal)
    defaults = {
        "importances": np.ones(n_values.size),
        "optimizations": 2,
        "prune_fraction": 1 / 3,
        "description_length_allowance": 64.0,
        "seed": 0,
    }
    return _Learner(table, **defaults | settings)


def row_set(table, numbers):
    return np.packbits(np.isin(table.row_of_slot, numbers), bitorder="little").view(np.uint64)


def conditions(*triples):
    return np.array(triples, np.int64).reshape(-1, 3)


def rule_of(learner, *triples):
    """A rule with these conditions, none of them pruned."""
    kept = conditions(*triples)
    covered, _ = kernels.prefixes(learner.table, learner.all_rows, kept, learner.all_rows)
    return _Rule(kept, covered[-1])


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


# Sets of rows


def test_popcount_is_the_hardware_instruction():
    @njit
    def bits(word):
        return kernels.popcount(word)

    assert bits(np.uint64(0)) == 0
    assert bits(np.uint64(2**64 - 1)) == 64
    assert bits(np.uint64(0b1011 << 60)) == 3
    if llvmlite.binding.get_host_cpu_features().get("popcnt"):
        assert "popcnt" in next(iter(bits.inspect_asm().values()))


def test_positives_come_first_and_classes_share_no_word():
    positive = np.arange(130) % 2 == 0
    table = kernels.build_table(np.zeros((130, 1), np.uint8), positive, np.array([2]), np.array([False]))
    assert table.positive_words == 2
    assert positive[table.row_of_slot[:65]].all()
    assert (table.row_of_slot[65:128] == -1).all()
    rows = kernels.all_rows(table)
    assert kernels.count(rows, table.positive_words) == (65, 65)
    assert sorted(kernels.row_numbers(table, rows)) == list(range(130))


@given(tables(), st.data())
def test_conditions_cover_the_rows_that_meet_them(case, data):
    codes, positive, n_values, ordinal = case
    table = kernels.build_table(codes, positive, n_values, ordinal)
    possible = [
        (feature, operator, value)
        for feature, size in enumerate(n_values)
        for operator in ((AT_MOST, ABOVE) if ordinal[feature] else (EQUAL,))
        for value in range(size - 1 if ordinal[feature] else size)
    ]
    if not possible:
        return
    chosen = data.draw(st.lists(st.sampled_from(possible), min_size=1, max_size=3))
    expected = [np.logical_and.reduce([meets(codes, *c) for c in chosen[: i + 1]]) for i in range(len(chosen))]
    judged = np.random.default_rng(0).random(len(codes)) < 0.5
    covered, counts = kernels.prefixes(
        table, kernels.all_rows(table), conditions(*chosen), row_set(table, np.flatnonzero(judged))
    )
    for rows, found, (p, n) in zip(expected, covered, counts, strict=True):
        assert sorted(kernels.row_numbers(table, found)) == np.flatnonzero(rows).tolist()
        assert p == (rows & judged & positive).sum()
        assert n == (rows & judged & ~positive).sum()


@given(st.integers(0, 2**32), st.sampled_from([0.01, 0.05, 0.2, 1.0]), st.booleans())
def test_compacting_keeps_what_every_test_counts(seed, density, flip):
    rng = np.random.default_rng(seed)
    rows, n_values = 5000, np.array([2, 2, 5, 3])
    codes = rng.integers(n_values, size=(rows, 4)).astype(np.uint8)
    table = kernels.build_table(codes, rng.random(rows) < rng.choice([0.0, 0.01, 0.5]), n_values, np.zeros(4, np.bool_))
    chosen = row_set(table, np.flatnonzero(rng.random(rows) < density))
    condition = 2, 5, ~np.uint64(0) if flip else np.uint64(0)  # x2 among 0, 1, 2 or not
    counts = np.empty((2, table.n_tests), np.uint32)
    new_counts = np.empty_like(counts)
    bits, words, positive_words = kernels._compact(table.bits, chosen, table.positive_words, *condition)
    no_condition = 0, 0, ~np.uint64(0)
    kernels._restrict_and_count(bits, words, positive_words, *no_condition, new_counts)
    kernels._restrict_and_count(table.bits, chosen, table.positive_words, *condition, counts)
    assert (new_counts == counts).all()
    assert kernels.count(words, positive_words) == kernels.count(chosen, table.positive_words)
    if density == 0.01:
        assert words.size < chosen.size / 4


# Point 2: the rows left are divided 2:1, by class, before every rule


@given(st.integers(0, 200), st.integers(0, 200), st.sampled_from([0.1, 1 / 3, 0.5]), st.integers(0, 99))
def test_split_takes_the_same_part_of_each_class(positives, negatives, fraction, seed):
    if positives + negatives == 0:
        return
    positive = np.arange(positives + negatives) < positives
    learner = learner_on(np.zeros((positive.size, 1)), positive, [2], prune_fraction=fraction, seed=seed)
    growing, pruning = learner.split(learner.all_rows)
    assert not (growing & pruning).any()
    assert ((growing | pruning) == learner.all_rows).all()
    assert learner.count(pruning) == (round(positives * fraction), round(negatives * fraction))


def test_split_uses_only_the_rows_left():
    learner = learner_on(np.zeros((300, 1)), np.arange(300) < 150, [2])
    left = row_set(learner.table, np.r_[0:30, 200:260])
    growing, pruning = learner.split(left)
    assert ((growing | pruning) == left).all()
    assert learner.count(growing) == (20, 40)


def test_every_split_differs():
    learner = learner_on(np.zeros((300, 1)), np.arange(300) < 150, [2])
    splits = {learner.split(learner.all_rows)[0].tobytes() for _ in range(50)}
    assert len(splits) == 50


def test_rules_are_grown_on_different_splits(monkeypatch):
    codes, positive, n_values = noisy_conjunctions(600, seed=1)
    learner = learner_on(codes, positive, n_values)
    grown_on = []
    divide = learner.split
    monkeypatch.setattr(learner, "split", lambda rows: grown_on.append(divide(rows)) or grown_on[-1])
    learner.optimise(learner.optimise(learner.cover([])))
    common = [set(kernels.row_numbers(learner.table, growing)) for growing, _ in grown_on]
    assert len(common) > 4
    for one, other in itertools.pairwise(common):
        # Independent halves of 2/3 share 4/9 of the rows, one split used twice would share 6/9.
        assert len(one & other) < 0.55 * 600


def test_split_treats_all_rows_alike():
    learner = learner_on(np.zeros((9, 1)), np.arange(9) < 6, [2])
    drawn = np.zeros(9)
    pairs = np.zeros((9, 9))
    for _ in range(6000):
        numbers = kernels.row_numbers(learner.table, learner.split(learner.all_rows)[0])
        drawn[numbers] += 1
        pairs[np.ix_(numbers, numbers)] += 1
    # 4 of 6 positives and 2 of 3 negatives; the standard error of a share is below 0.0065.
    np.testing.assert_allclose(drawn / 6000, 2 / 3, atol=0.03)
    np.testing.assert_allclose(pairs[:6, :6][np.triu_indices(6, 1)] / 6000, 2 / 3 * 3 / 5, atol=0.03)


# Point 3: growing


def test_foil_gain_by_hand():
    assert kernels.foil_gain(4, 0, 4, 4) == 4.0
    assert kernels.foil_gain(3, 1, 4, 4) == pytest.approx(3 * (math.log2(3 / 4) + 1))
    assert kernels.foil_gain(2, 2, 4, 4) == 0.0
    assert kernels.foil_gain(1, 3, 4, 4) == pytest.approx(-1.0)


def test_grow_by_hand():
    # x0 = 1 has 4 positives and 1 negative: gain 4·(log₂ 4/5 + 1) = 2.71, more than any other.
    # Within it x1 = 0 leaves 3 positives and no negative; then there is nothing left to exclude.
    codes = [[1, 0], [1, 0], [1, 0], [1, 1], [1, 1], [0, 0], [0, 0], [0, 1]]
    learner = learner_on(codes, [1, 1, 1, 1, 0, 0, 0, 0])
    assert learner.grow(learner.all_rows).tolist() == [[0, EQUAL, 1], [1, EQUAL, 0]]


def test_grow_stops_when_no_negative_is_covered():
    learner = learner_on([[1, 1], [1, 0], [0, 1], [0, 0]], [1, 1, 0, 0])
    assert learner.grow(learner.all_rows).tolist() == [[0, EQUAL, 1]]
    assert learner.grow(row_set(learner.table, [0, 1])).tolist() == []


def test_grow_stops_when_nothing_helps():
    learner = learner_on([[0, 1], [1, 0], [0, 1], [1, 0]], [1, 1, 0, 0])
    assert learner.grow(learner.all_rows).tolist() == []


def test_grow_finds_thresholds():
    codes = np.arange(10)[:, None]
    positive = (codes[:, 0] > 3) & (codes[:, 0] <= 6)
    learner = learner_on(codes, positive, ordinal=True)
    # x ≤ 6 leaves 3 of 7, x > 3 leaves 3 of 6: the latter gains more, then x ≤ 6 excludes the rest.
    assert learner.grow(learner.all_rows).tolist() == [[0, ABOVE, 3], [0, AT_MOST, 6]]


def test_importance_changes_the_choice():
    # x0 gains 4·(log₂ 4/5 + 1) = 2.71, x1 gains 3·(log₂ 3/4 + 1) = 1.75.
    codes = [[1, 1], [1, 1], [1, 1], [1, 0], [1, 1], [0, 0], [0, 0], [0, 0]]
    positive = [1, 1, 1, 1, 0, 0, 0, 0]

    def first(importances):
        learner = learner_on(codes, positive, importances=np.array(importances))
        return learner.grow(learner.all_rows)[0, 0]

    assert first([1.0, 1.0]) == 0
    assert first([0.66, 1.0]) == 0  # 1.79 against 1.75
    assert first([0.64, 1.0]) == 1  # 1.74 against 1.75
    assert first([0.0, 0.1]) == 1


def test_gain_is_tested_before_the_product():
    # x0 tells nothing apart, however important it is.
    codes = [[0, 1], [1, 1], [0, 1], [0, 0], [1, 0], [0, 0]]
    learner = learner_on(codes, [1, 1, 1, 0, 0, 0], importances=np.array([1.0, 1e-9]))
    assert learner.grow(learner.all_rows).tolist() == [[1, EQUAL, 1]]


def test_a_feature_of_no_importance_is_the_last_resort():
    codes = [[1, 1], [1, 1], [1, 0], [0, 1], [0, 0], [0, 0]]
    learner = learner_on(codes, [1, 1, 1, 0, 0, 0], importances=np.array([0.0, 1.0]))
    assert learner.grow(learner.all_rows).tolist() == [[1, EQUAL, 1], [0, EQUAL, 1]]


def reference_best(codes, positive, n_values, ordinal, importances):
    """The best condition, counted row by row."""
    P, N = int(positive.sum()), int((~positive).sum())
    best, best_key = (-1, EQUAL, 0), None
    for feature, size in enumerate(n_values):
        for value in range(size - 1 if ordinal[feature] else size):
            for operator in (AT_MOST, ABOVE) if ordinal[feature] else (EQUAL,):
                met = meets(codes, feature, operator, value)
                p, n = int((met & positive).sum()), int((met & ~positive).sum())
                if p * (P + N) <= P * (p + n):
                    continue
                gain = kernels.foil_gain(p, n, P, N)
                key = (gain * importances[feature], gain)
                if best_key is None or key > best_key:
                    best, best_key = (feature, operator, value), key
    return best


@given(tables(), st.integers(0, 2**32))
def test_growing_chooses_as_a_plain_count_does(case, seed):
    codes, positive, n_values, ordinal = case
    importances = np.random.default_rng(seed).choice([0.0, 0.5, 1.0], n_values.size)
    learner = learner_on(codes, positive, n_values, ordinal, importances=importances)
    left = np.ones(len(codes), np.bool_)
    for condition in learner.grow(learner.all_rows).tolist():
        rows = codes[left], positive[left]
        assert tuple(condition) == reference_best(*rows, n_values, ordinal, importances)
        left &= meets(codes, *condition)
    if positive[left].any() and not positive[left].all():
        assert reference_best(codes[left], positive[left], n_values, ordinal, importances)[0] == -1


# Point 4: pruning


def test_worth_by_hand():
    assert precision_worth(3, 1) == 0.5
    assert precision_worth(0, 2) == -1.0
    assert precision_worth(0, 0) == -1.0
    assert accuracy_worth(3, 1) == 2
    assert accuracy_worth(0, 0) == 0


def test_pruning_keeps_the_best_prefix():
    # x0: 2 of 3 are positive (1/3); x0 x1: 2 of 2 (1); x0 x1 x2: 1 of 1 (1). The shorter of the two best wins.
    codes = [[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]]
    learner = learner_on(codes, [1, 1, 0, 0])
    grown = conditions((0, EQUAL, 1), (1, EQUAL, 1), (2, EQUAL, 1))
    pruned = learner.pruned(grown, learner.all_rows, precision_worth)
    assert triples(pruned) == [(0, EQUAL, 1), (1, EQUAL, 1)]
    assert kernels.row_numbers(learner.table, pruned.rows).tolist() == [0, 1]


def test_pruning_looks_at_the_rows_it_is_given():
    codes = [[1, 1], [1, 0], [1, 0], [0, 0]]
    learner = learner_on(codes, [1, 1, 0, 0])
    grown = conditions((0, EQUAL, 1), (1, EQUAL, 1))
    assert len(learner.pruned(grown, row_set(learner.table, [0, 1, 3]), precision_worth).conditions) == 1
    assert len(learner.pruned(grown, row_set(learner.table, [0, 2, 3]), precision_worth).conditions) == 2


def test_a_rule_that_covers_nothing_is_not_the_best():
    # x0 = 1 is right once and wrong twice (−1/3); with x1 = 1 it covers nothing, which is worth less still.
    codes = [[1, 0], [1, 0], [1, 0], [0, 1]]
    learner = learner_on(codes, [1, 0, 0, 0])
    grown = conditions((0, EQUAL, 1), (1, EQUAL, 1))
    assert triples(learner.pruned(grown, learner.all_rows, precision_worth)) == [(0, EQUAL, 1)]


def test_pruning_never_empties_a_rule():
    learner = learner_on([[1], [0], [0]], [0, 1, 1])
    assert len(learner.pruned(conditions((0, EQUAL, 1)), learner.all_rows, precision_worth).conditions) == 1
    assert learner.pruned(conditions(), learner.all_rows, precision_worth) is None


def test_pruning_by_accuracy_prefers_coverage():
    # x0 covers 5 positives and 1 negative (+4), with x1 3 and none (+3); by precision the longer one would win.
    codes = [[1, 1]] * 3 + [[1, 0]] * 3 + [[0, 0]]
    learner = learner_on(codes, [1, 1, 1, 1, 1, 0, 0])
    grown = conditions((0, EQUAL, 1), (1, EQUAL, 1))
    assert len(learner.pruned(grown, learner.all_rows, accuracy_worth).conditions) == 1
    assert len(learner.pruned(grown, learner.all_rows, precision_worth).conditions) == 2


def test_implied_thresholds_are_dropped():
    learner = learner_on(np.arange(8)[:, None], np.arange(8) < 2, ordinal=True)
    grown = conditions((0, AT_MOST, 5), (0, ABOVE, 0), (0, AT_MOST, 1))
    assert triples(learner.pruned(grown, learner.all_rows, precision_worth)) == [(0, ABOVE, 0), (0, AT_MOST, 1)]


# Point 5: description length, and when to stop


def test_subset_length_by_hand():
    assert subset_length(4, 2, 0.5) == 4.0
    assert subset_length(4, 1, 0.25) == pytest.approx(2 + 3 * math.log2(4 / 3))
    assert subset_length(5, 0, 0.0) == 0.0
    assert subset_length(5, 5, 1.0) == 0.0
    assert subset_length(0, 0, 0.5) == 0.0


def test_theory_length_by_hand():
    assert theory_length(0, 8) == 0.0
    assert theory_length(1, 1) == 0.0
    assert theory_length(1, 4) == pytest.approx(0.5 * (0 + 2 + 3 * math.log2(4 / 3)))
    assert theory_length(2, 4) == pytest.approx(0.5 * (1 + 0 + 4))
    assert theory_length(4, 8) == pytest.approx(0.5 * (2 + 2 * 1 + 8))


def test_data_length_by_hand():
    assert data_length(0, 0, 4, 4) == pytest.approx(math.log2(9) + 8)
    assert data_length(4, 0, 4, 4) == pytest.approx(math.log2(9))
    assert data_length(3, 1, 4, 4) == pytest.approx(math.log2(9) + 2 * (2 + 3 * math.log2(4 / 3)))
    assert data_length(4, 4, 4, 4) == pytest.approx(math.log2(9) + 8)
    assert data_length(4, 4, 4, 12) == pytest.approx(math.log2(17) + 8)


def test_all_possible_conditions_are_counted():
    learner = learner_on([[0, 0, 0]], [True], [2, 10, 5], [False, False, True])
    assert learner.n_conditions == 2 + 10 + 2 * 4


def test_stops_when_the_description_gets_too_long():
    # x0 = 1 holds in two of 30 positives and no negative: naming it among 252 conditions takes more bits than it saves.
    codes = np.zeros((60, 2), np.uint8)
    codes[:2, 0] = 1
    positive = np.arange(60) < 30
    longer = theory_length(1, 252) + data_length(2, 0, 30, 30) - data_length(0, 0, 30, 30)
    assert longer == pytest.approx(2.7, abs=0.1)

    def rules_found(allowance):
        learners = (
            learner_on(codes, positive, [2, 250], description_length_allowance=allowance, seed=seed)
            for seed in range(20)
        )
        return {len(learner.cover([])) for learner in learners}

    # By its error on the rows to prune on it may stay, whenever one of the two is there.
    assert rules_found(longer - 0.01) == {0}
    assert rules_found(longer + 0.01) == {0, 1}


def test_stops_when_half_of_what_a_rule_covers_is_wrong(monkeypatch):
    codes = np.repeat([[1], [0]], 6, axis=0)
    positive = np.array([1, 1, 1, 1, 0, 0] + [0] * 6, np.bool_)
    learner = learner_on(codes, positive)

    def prune_on(numbers):
        pruning = row_set(learner.table, numbers)
        monkeypatch.setattr(learner, "split", lambda rows: (rows & ~pruning, rows & pruning))
        return len(learner.cover([]))

    assert prune_on([2, 3, 4, 8, 9]) == 1  # 2 right, 1 wrong
    assert prune_on([2, 3, 4, 5, 8, 9]) == 0  # 2 right, 2 wrong
    assert prune_on([4, 8, 9]) == 0  # no positive
    assert prune_on([8, 9]) == 0  # nothing at all


def test_the_rule_that_stopped_it_is_dropped(monkeypatch):
    learner = learner_on([[1, 0]] * 6 + [[0, 1]] * 2 + [[0, 0]] * 8, [1] * 7 + [0] * 9)
    pruning = row_set(learner.table, [0, 1, 7, 8, 9])  # of x1 = 1 only the negative is here
    monkeypatch.setattr(learner, "split", lambda rows: (rows & ~pruning, rows & pruning))
    assert [triples(rule) for rule in learner.cover([])] == [[(0, EQUAL, 1)]]


def test_noise_alone_gives_no_rules():
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=(2000, 20)).astype(np.uint8)
    assert learn_rules(codes, rng.random(2000) < 0.2, n_values=[2] * 20, seed=0) == []


# Point 6: optimisation


def two_concepts(rows=400, seed=0):
    """Positives: x0 x1, and x2 x3 x4."""
    codes = np.random.default_rng(seed).integers(2, size=(rows, 8)).astype(np.uint8)
    return codes, codes[:, :2].all(axis=1) | codes[:, 2:5].all(axis=1)


def test_optimising_replaces_a_poor_rule():
    codes, positive = two_concepts()
    learner = learner_on(codes, positive)
    poor = rule_of(learner, (5, EQUAL, 1), (6, EQUAL, 0))
    (chosen,) = learner.optimise([poor])
    assert sorted(triples(chosen)) == [(0, EQUAL, 1), (1, EQUAL, 1)]


def test_optimising_revises_a_rule_that_is_too_general():
    # From nothing the larger concept would be found again, which the rule before has already covered.
    codes, positive = two_concepts()
    learner = learner_on(codes, positive)
    first = rule_of(learner, (2, EQUAL, 1), (3, EQUAL, 1), (4, EQUAL, 1))
    general = rule_of(learner, (0, EQUAL, 1))
    chosen = learner.optimise([general, first])
    assert sorted(triples(chosen[0])) == [(0, EQUAL, 1), (1, EQUAL, 1)]
    assert triples(chosen[0])[0] == (0, EQUAL, 1)
    assert chosen[1] is first


def test_optimising_keeps_a_rule_that_cannot_be_bettered():
    codes, positive = two_concepts()
    learner = learner_on(codes, positive)
    rules = [
        rule_of(learner, (1, EQUAL, 1), (0, EQUAL, 1)),
        rule_of(learner, (4, EQUAL, 1), (3, EQUAL, 1), (2, EQUAL, 1)),
    ]
    chosen = learner.optimise(rules)
    assert [sorted(triples(rule)) for rule in chosen] == [sorted(triples(rule)) for rule in rules]
    assert all(one is other for one, other in zip(chosen, rules, strict=True))


def test_variants_are_pruned_without_the_rows_of_later_rules(monkeypatch):
    codes, positive = two_concepts()
    learner = learner_on(codes, positive)
    rules = [
        rule_of(learner, (0, EQUAL, 1), (1, EQUAL, 1)),
        rule_of(learner, (2, EQUAL, 1), (3, EQUAL, 1), (4, EQUAL, 1)),
    ]
    seen = []
    prune = learner.pruned
    monkeypatch.setattr(
        learner, "pruned", lambda grown, rows, worth: seen.append((rows, worth)) or prune(grown, rows, worth)
    )
    learner.optimise(rules)
    assert len(seen) == 4  # a revision and a replacement of each
    assert all(worth is accuracy_worth for _, worth in seen)
    for rows, _ in seen[:2]:
        assert not (rows & rules[1].rows).any()
        assert (rows & rules[0].rows).any()
    for rows, _ in seen[2:]:
        assert not (rows & rules[0].rows).any()  # rows of earlier rules are not even grown on
        assert (rows & rules[1].rows).any()


# Point 7: what is left is covered, then rules are deleted


def test_mopping_up_looks_at_the_residual_rows_only(monkeypatch):
    codes, positive = two_concepts()
    learner = learner_on(codes, positive)
    first = rule_of(learner, (0, EQUAL, 1), (1, EQUAL, 1))
    divided = []
    divide = learner.split
    monkeypatch.setattr(learner, "split", lambda rows: divided.append(rows.copy()) or divide(rows))
    rules = learner.cover([first])
    assert rules[0] is first
    assert sorted(triples(rules[1])) == [(2, EQUAL, 1), (3, EQUAL, 1), (4, EQUAL, 1)]
    assert len(rules) == len(divided) + 1 == 2  # then no positive is left, and it stops by itself
    assert not (divided[0] & first.rows).any()
    assert ((divided[0] | first.rows) == learner.all_rows).all()


def test_deleting_goes_from_the_last_rule_to_the_first():
    codes, positive = two_concepts()
    learner = learner_on(codes, positive)
    one = rule_of(learner, (0, EQUAL, 1), (1, EQUAL, 1))
    other = rule_of(learner, (2, EQUAL, 1), (3, EQUAL, 1), (4, EQUAL, 1))
    twin = rule_of(learner, (1, EQUAL, 1), (0, EQUAL, 1))
    assert learner.delete([one, other]) == [one, other]
    kept = learner.delete([one, other, twin])
    assert kept[0] is one
    assert kept[1] is other
    assert len(kept) == 2
    assert learner.delete([]) == []


def test_deleting_drops_a_rule_that_costs_more_than_it_saves():
    codes, positive = two_concepts()
    learner = learner_on(codes, positive)
    good = rule_of(learner, (0, EQUAL, 1), (1, EQUAL, 1))
    bad = rule_of(learner, (5, EQUAL, 1), (6, EQUAL, 1), (7, EQUAL, 1))
    assert learner.delete([bad, good])[0] is good
    assert len(learner.delete([bad, good])) == 1


def test_every_pass_optimises_covers_and_deletes(monkeypatch):
    codes, positive, n_values = noisy_conjunctions(500, seed=0)
    steps = []
    for optimizations in (0, 3):
        learner = learner_on(codes, positive, n_values, optimizations=optimizations)
        for name in ("optimise", "cover", "delete"):
            step = getattr(learner, name)
            monkeypatch.setattr(learner, name, lambda rules, step=step, name=name: steps.append(name) or step(rules))
        learner.learn()
    assert steps == ["cover", "delete"] * 2 + ["optimise", "cover", "delete"] * 3


# learn_rules: laws and degenerate data


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.floats(1e-300, 1e300))
def test_equal_importances_are_plain_ripper(seed, importance):
    codes, positive, n_values = noisy_conjunctions(300, seed)
    plain = learn_rules(codes, positive, n_values=n_values, seed=seed)
    assert learn_rules(codes, positive, n_values=n_values, importances=[importance] * 11, seed=seed) == plain
    assert learn_rules(codes, positive, n_values=n_values, importances=[0] * 11, seed=seed) == plain


@given(st.floats(1e-300, 1e300), st.integers(1, 5))
def test_equal_importances_are_exactly_one(importance, n_features):
    assert _relative_importances([importance] * n_features, n_features).tolist() == [1.0] * n_features
    assert _relative_importances([0.0] * n_features, n_features).tolist() == [1.0] * n_features
    assert _relative_importances(None, n_features).tolist() == [1.0] * n_features


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(-20, 20))
def test_only_ratios_of_importances_matter(seed, exponent):
    codes, positive, n_values = noisy_conjunctions(300, seed)
    importances = np.random.default_rng(seed).random(11)
    one = learn_rules(codes, positive, n_values=n_values, importances=importances, seed=seed)
    assert learn_rules(codes, positive, n_values=n_values, importances=importances * 2.0**exponent, seed=seed) == one


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.4]))
def test_rules_have_conditions_and_no_feature_twice(seed, noise):
    codes, positive, n_values = noisy_conjunctions(300, seed, noise)
    for rule in learn_rules(codes, positive, n_values=n_values, seed=seed):
        features = [feature for feature, _ in rule]
        assert len(set(features)) == len(features) > 0
        assert all(0 <= value < n_values[feature] for feature, value in rule)
        assert (covers(rule, codes) & positive).any()


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_a_conjunction_without_noise_is_found(data):
    body = data.draw(st.dictionaries(st.integers(0, 7), st.integers(0, 1), min_size=1, max_size=3))
    seed = data.draw(st.integers(0, 10**6))
    codes = np.random.default_rng(seed).integers(2, size=(600, 8)).astype(np.uint8)
    positive = covers(body.items(), codes)
    (rule,) = learn_rules(codes, positive, n_values=[2] * 8, seed=seed)
    assert dict(rule) == body


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6))
def test_the_same_seed_gives_the_same_rules_whatever_the_dtype(seed):
    codes, positive, n_values = noisy_conjunctions(300, seed, 0.2)
    rules = learn_rules(codes, positive, n_values=n_values, seed=seed)
    for dtype in (np.uint8, np.uint16, np.int64):
        assert learn_rules(codes.astype(dtype), positive, n_values=n_values, seed=seed) == rules
    frozen = np.asfortranarray(codes)
    frozen.flags.writeable = False
    assert learn_rules(frozen, positive, n_values=n_values, seed=seed) == rules


def test_noisy_concepts_are_found_and_seeds_matter_little():
    codes, positive, n_values = noisy_conjunctions(3000, seed=5)
    for seed in range(10):
        rules = learn_rules(codes, positive, n_values=n_values, seed=seed)
        assert sorted(sorted(rule) for rule in rules) == [[(0, 1), (3, 0)], [(7, 1), (10, 2)]]


def test_importance_decides_between_features_that_say_the_same():
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=(500, 6)).astype(np.uint8)
    codes[:, 4] = codes[:, 1]
    positive = codes[:, 1] == 1
    assert learn_rules(codes, positive, n_values=[2] * 6, seed=0) == [((1, 1),)]
    assert learn_rules(codes, positive, n_values=[2] * 6, importances=[0.1] * 4 + [0.2, 0.1], seed=0) == [((4, 1),)]


def test_data_that_tells_nothing_apart_gives_no_rules():
    one = np.ones(30, np.bool_)
    codes = np.arange(30, dtype=np.uint8)[:, None] % 3
    assert learn_rules(np.empty((0, 4), np.uint8), np.empty(0, np.bool_), n_values=[2] * 4, seed=0) == []
    assert learn_rules(codes, one, n_values=[3], seed=0) == []
    assert learn_rules(codes, ~one, n_values=[3], seed=0) == []
    assert learn_rules(np.zeros((30, 2), np.uint8), codes[:, 0] == 1, n_values=[1, 5], seed=0) == []
    assert learn_rules(np.empty((30, 0), np.uint8), codes[:, 0] == 1, n_values=[], seed=0) == []
    assert learn_rules(codes[:1], one[:1], n_values=[3], seed=0) == []


def test_rows_may_stand_in_both_classes():
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 50, np.uint8)
    both = np.concatenate([codes, codes])
    assert learn_rules(both, np.arange(400) < 200, n_values=[2, 2], seed=0) == []
    # x0 = 1 is positive nine times in ten, x0 = 0 never.
    positive = (codes[:, 0] == 1) & (np.arange(200) % 10 != 3)
    assert learn_rules(codes, positive, n_values=[2, 2], seed=0) == [((0, 1),)]


def test_duplicate_rows_are_as_many_examples():
    codes = np.array([[1, 0]] * 40 + [[0, 0]] * 40, np.uint8)
    assert learn_rules(codes, codes[:, 0] == 1, n_values=[2, 2], seed=0) == [((0, 1),)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": np.zeros(4, np.uint8)}, "matrix of integers"),
        ({"codes": np.zeros((4, 2))}, "matrix of integers, got float64"),
        ({"codes": np.full((4, 2), -1)}, "negative"),
        ({"codes": np.full((4, 2), 5)}, "feature 0 has a code that is not below its number of values, 2"),
        ({"positive": np.zeros(4)}, "one bool for each of the 4 rows"),
        ({"positive": np.zeros(3, np.bool_)}, "one bool for each of the 4 rows"),
        ({"n_values": [2]}, "each of the 2 features"),
        ({"n_values": [2, 0]}, "at least 1"),
        ({"importances": [1.0]}, "each of the 2 features"),
        ({"importances": [1.0, -2.0]}, "that of feature 1 is -2.0"),
        ({"importances": [np.nan, 1.0]}, "that of feature 0 is nan"),
        ({"optimizations": -1}, "optimizations"),
        ({"prune_fraction": 1.0}, "prune_fraction"),
        ({"description_length_allowance": -1.0}, "description_length_allowance"),
    ],
)
def test_errors_say_what_is_wrong(change, message):
    positive = np.array([True, True, False, False])
    arguments = {"codes": np.zeros((4, 2), np.uint8), "positive": positive, "n_values": [2, 2]}
    with pytest.raises(RipperError, match=message) as caught:
        learn_rules(**arguments | change, seed=0)
    assert isinstance(caught.value, LegibleError)


# RipperClassifier


@parametrize_with_checks(
    [
        RipperClassifier(),
        RipperClassifier(optimizations=0, max_bins=4, random_state=1),
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_rules_speak_for_the_rarer_class():
    X = np.arange(20)[:, None] * 1.0
    rare_high = X[:, 0] > 13
    classifier = RipperClassifier(random_state=0).fit(X, rare_high)
    assert classifier.default_class_ is False
    assert [str(rule) for rule in classifier.rules_] == ["True if x0 > 13 (6 of 6)"]
    classifier = RipperClassifier(random_state=0).fit(X, ~rare_high)
    assert [str(rule) for rule in classifier.rules_] == ["False if x0 > 13 (6 of 6)"]
    classifier = RipperClassifier(positive_class=True, random_state=0).fit(X, ~rare_high)
    assert [str(rule) for rule in classifier.rules_] == ["True if x0 <= 13 (14 of 14)"]
    assert classifier.default_class_ is False


def test_positive_class_must_be_one_of_two():
    X, y = np.arange(12.0)[:, None], np.arange(12) % 3
    with pytest.raises(RipperError, match="positive_class must be one of two classes"):
        RipperClassifier(positive_class=1).fit(X, y)
    with pytest.raises(RipperError, match="is 7 and y holds"):
        RipperClassifier(positive_class=7).fit(X, y == 1)


def test_classes_are_learned_from_the_rarest_to_the_most_frequent():
    rng = np.random.default_rng(0)
    X = rng.integers(10, size=(600, 4))
    y = np.select([X[:, 0] == 3, X[:, 1] < 3], ["rare", "some"], "usual")
    classifier = RipperClassifier(random_state=0).fit(X, y)
    labels = [rule.label for rule in classifier.rules_]
    assert labels == sorted(labels, key=["rare", "some"].index)
    assert set(labels) == {"rare", "some"}
    assert classifier.default_class_ == "usual"
    assert classifier.score(X, y) == 1.0
    assert sum(rule.covered for rule in classifier.rules_) == (y != "usual").sum()


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_a_prediction_is_the_first_rule_that_matches(seed, n_classes):
    rng = np.random.default_rng(seed)
    X = rng.integers(5, size=(200, 5))
    y = np.where(rng.random(200) < 0.2, rng.integers(n_classes, size=200), X[:, 0] * n_classes // 5)
    nominal = rng.random(5) < 0.5
    classifier = RipperClassifier(categorical_features=nominal, random_state=seed).fit(X, y)
    expected = np.full(200, classifier.default_class_)
    for rule in reversed(classifier.rules_):
        expected[rule.matches(X)] = rule.label
    assert (classifier.predict(X) == expected).all()
    probabilities = classifier.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (classifier.classes_[probabilities.argmax(axis=1)] == expected).all()
    for rule in classifier.rules_:
        assert rule.covered >= rule.correct > 0
        assert rule.matches(X).sum() >= rule.covered


def test_two_classes_are_predicted_by_the_union_of_the_rules():
    codes, positive, _ = noisy_conjunctions(2000, seed=3)
    classifier = RipperClassifier(categorical_features="all", random_state=0).fit(codes, positive)
    union = np.logical_or.reduce([rule.matches(codes) for rule in classifier.rules_])
    assert classifier.n_rules_ == len(classifier.rules_) == 2
    assert (classifier.predict(codes) == union).all()


def test_learns_what_learn_rules_learns():
    codes, positive, n_values = noisy_conjunctions(2000, seed=4)
    importances = np.linspace(1, 2, 11)
    classifier = RipperClassifier(categorical_features="all", feature_importances=importances, random_state=7)
    classifier.fit(codes, positive)
    seed = int(np.random.RandomState(7).randint(2**31 - 1))
    rules = learn_rules(codes, positive, n_values=n_values, importances=importances, seed=seed)
    assert [tuple((c.feature, c.value) for c in rule.conditions) for rule in classifier.rules_] == rules


def test_probabilities_are_corrected_frequencies():
    X = np.repeat([0.0, 1.0], [30, 10])[:, None]
    y = np.repeat([0, 1], [30, 10])
    y[30] = 0
    classifier = RipperClassifier(random_state=0).fit(X, y)
    np.testing.assert_allclose(classifier.predict_proba([[1.0], [0.0]]), [[2 / 12, 10 / 12], [31 / 32, 1 / 32]])


def test_one_class_is_predicted_without_rules():
    X = np.arange(6.0)[:, None]
    classifier = RipperClassifier().fit(X, ["only"] * 6)
    assert classifier.rules_ == []
    assert classifier.predict(X).tolist() == ["only"] * 6
    assert classifier.predict_proba(X).tolist() == [[1.0]] * 6


def test_no_rows_raise_the_usual_error():
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        RipperClassifier().fit(np.empty((0, 3)), [])
    with pytest.raises(NotFittedError):
        RipperClassifier().predict([[1.0]])


def test_the_callers_data_stays_as_it_is():
    X, y = load_iris(return_X_y=True)
    before = X.copy(), y.copy()
    X.flags.writeable = y.flags.writeable = False
    classifier = RipperClassifier(random_state=0).fit(X, y)
    classifier.predict(X)
    assert (before[0] == X).all()
    assert (before[1] == y).all()
    codes, positive, n_values = noisy_conjunctions(300, seed=0)
    copies = codes.copy(), positive.copy()
    learn_rules(codes, positive, n_values=n_values, seed=0)
    assert (codes == copies[0]).all()
    assert (positive == copies[1]).all()


def test_rules_print_with_the_names_of_a_frame():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], 400),
            "size": rng.normal(size=400),
            "shape": pd.Categorical(rng.choice([10, 20, 30], 400)),
        }
    )
    y = np.where((frame["colour"] == "red") & (frame["shape"] == 20), "yes", "no")
    original = frame.copy()
    classifier = RipperClassifier(random_state=0).fit(frame, y)
    (rule,) = classifier.rules_
    assert {str(condition) for condition in rule.conditions} == {"colour = red", "shape = 20"}
    assert str(rule).startswith("yes if ")
    assert classifier.score(frame, y) == 1.0
    pd.testing.assert_frame_equal(frame, original)
    unseen = frame.assign(colour="violet")
    assert set(classifier.predict(unseen)) == {"no"}
    by_name = RipperClassifier(categorical_features=["shape"], random_state=0).fit(frame, y)
    assert by_name.rules_ == classifier.rules_


def test_strings_and_mixed_columns():
    rng = np.random.default_rng(1)
    words = rng.choice(["a", "b", "c"], size=(300, 3))
    with_b = words[:, 1] == "b"
    classifier = RipperClassifier(random_state=0).fit(words, with_b)
    assert [str(rule) for rule in classifier.rules_] == [f"True if x1 = b ({with_b.sum()} of {with_b.sum()})"]
    mixed = np.empty((300, 2), object)
    mixed[:, 0] = words[:, 0]
    mixed[:, 1] = rng.integers(100, size=300)
    y = (mixed[:, 0] == "a") & (mixed[:, 1].astype(int) > 49)
    classifier = RipperClassifier(random_state=0).fit(mixed, y)
    assert classifier.score(mixed, y) == 1.0
    assert {(c.feature, c.operator) for rule in classifier.rules_ for c in rule.conditions} == {(0, "="), (1, ">")}


@pytest.mark.parametrize("given", [[True, False], [0], np.array([-2]), "all"])
def test_categorical_features_have_equalities(given):
    rng = np.random.default_rng(0)
    X = rng.integers(6, size=(400, 2))
    classifier = RipperClassifier(categorical_features=given, random_state=0).fit(X, X[:, 0] == 3)
    assert [(c.feature, c.operator, c.value) for c in classifier.rules_[0].conditions] == [(0, "=", 3)]


@pytest.mark.parametrize("given", [[True], [2], ["colour"], "some", [0.5], [[0], [1]]])
def test_unknown_categorical_features_are_refused(given):
    with pytest.raises(RipperError, match="categorical_features must be"):
        RipperClassifier(categorical_features=given).fit(np.zeros((4, 2)), [0, 0, 1, 1])


@pytest.mark.parametrize("change", [{"max_bins": 1}, {"optimizations": 0.5}, {"feature_importances": [1.0]}])
def test_wrong_parameters_are_refused_when_fitting(change):
    with pytest.raises(RipperError):
        RipperClassifier(**change).fit(np.zeros((4, 2)), [0, 0, 1, 1])


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float32, np.float64, ">f8", np.float16, object])
def test_the_type_of_the_numbers_does_not_matter(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, size=(300, 4)) * 2  # whole numbers with gaps
    y = (X[:, 1] > -1) & (X[:, 2] <= 2)
    expected = RipperClassifier(random_state=0).fit(X, y)
    classifier = RipperClassifier(random_state=0).fit(X.astype(dtype), y)
    assert [str(rule) for rule in classifier.rules_] == [str(rule) for rule in expected.rules_]
    assert (classifier.predict(X.astype(dtype)) == expected.predict(X)).all()


def test_thresholds_separate_neighbouring_floats():
    below = np.float32(1.0)
    above = np.nextafter(below, np.float32(2.0))
    X = np.array([below, above] * 20, np.float32)[:, None]
    classifier = RipperClassifier(random_state=0).fit(X, X[:, 0] == above)
    assert classifier.n_rules_ == 1
    assert (classifier.predict(X) == (X[:, 0] == above)).all()


def test_extreme_numbers():
    X = np.array([-1.7e308, 1.7e308, 0.0, 2.0**60, 2.0**60 + 2**10] * 20)[:, None]
    y = X[:, 0] > 2.0**60
    classifier = RipperClassifier(random_state=0).fit(X, y)
    assert (classifier.predict(X) == y).all()


def test_max_bins_limits_the_thresholds():
    X = np.random.default_rng(0).random((2000, 1))
    y = (X[:, 0] > 0.4) & (X[:, 0] < 0.46)
    fine = RipperClassifier(random_state=0).fit(X, y)
    assert fine.score(X, y) > 0.99
    coarse = RipperClassifier(max_bins=4, random_state=0).fit(X, y)
    thresholds = {c.value for rule in coarse.rules_ for c in rule.conditions}
    assert all(min(abs(threshold - quarter) for quarter in (0.25, 0.5, 0.75)) < 0.03 for threshold in thresholds)


def test_many_categories():
    rng = np.random.default_rng(0)
    X = rng.integers(1000, size=(3000, 2))
    X[:300, 0] = 777
    y = X[:, 0] == 777
    classifier = RipperClassifier(categorical_features="all", random_state=0).fit(X, y)
    assert [(c.feature, c.operator, c.value) for rule in classifier.rules_ for c in rule.conditions] == [(0, "=", 777)]
    assert (classifier.predict(X) == y).all()


def test_importances_steer_the_classifier():
    X = np.random.default_rng(0).random((400, 3))
    X[:, 2] = X[:, 0]
    y = X[:, 0] > 0.7
    plain = RipperClassifier(random_state=0).fit(X, y)
    steered = RipperClassifier(feature_importances=[1, 1, 2], random_state=0).fit(X, y)
    assert {c.feature for rule in plain.rules_ for c in rule.conditions} == {0}
    assert {c.feature for rule in steered.rules_ for c in rule.conditions} == {2}


def test_fitting_is_repeatable_and_rules_are_values():
    X, y = load_breast_cancer(return_X_y=True)
    classifier = RipperClassifier(random_state=3).fit(X, y)
    again = clone(classifier).fit(X, y)
    assert classifier.rules_ == again.rules_
    assert pickle.loads(pickle.dumps(classifier)).rules_ == again.rules_
    assert len(set(classifier.rules_ + again.rules_)) == classifier.n_rules_
    with pytest.raises(dataclasses.FrozenInstanceError):
        classifier.rules_[0].label = 1


def test_as_accurate_as_a_peer():
    wittgenstein = pytest.importorskip("wittgenstein")
    pd = pytest.importorskip("pandas")
    X, y = load_breast_cancer(return_X_y=True)
    ours, theirs = [], []
    for seed in range(3):
        X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
        ours.append(RipperClassifier(random_state=seed).fit(X_fit, y_fit).score(X_test, y_test))
        peer = wittgenstein.RIPPER(random_state=seed)
        peer.fit(pd.DataFrame(X_fit), y_fit, pos_class=0)
        theirs.append(np.mean(np.asarray(peer.predict(pd.DataFrame(X_test))) == (y_test == 0)))
    assert np.mean(ours) > 0.9
    assert np.mean(ours) > np.mean(theirs) - 0.02
