"""RIPPER's kernels: sets of rows as bits, and how they are divided, against plain counts."""

import itertools

import llvmlite.binding
import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from legible.mining.ripper import kernels
from legible.mining.ripper.kernels import ABOVE, AT_MOST, EQUAL
from mining.ripper_cases import conditions, learner_on, meets, noisy_conjunctions, row_set, tables

# Sets of rows


def test_popcount_is_the_hardware_instruction():
    @njit
    def bits(word):
        return kernels.popcount(word)

    assert bits(np.uint64(0)) == 0
    assert bits(np.uint64(2**64 - 1)) == 64
    assert bits(np.uint64(0b1011 << 60)) == 3
    compiled_for_host = numba.config.CPU_NAME in {None, "host"}
    if compiled_for_host and llvmlite.binding.get_host_cpu_features().get("popcnt"):
        assert "popcnt" in next(iter(bits.inspect_asm().values()))


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


def test_a_seed_gives_the_same_splits_for_ever():
    """Results that people keep depend on these numbers."""
    learner = learner_on(np.zeros((200, 1)), np.arange(200) < 20, [2], seed=5)
    _, pruning = learner.split(learner.all_rows)
    assert sorted(kernels.row_numbers(learner.table, pruning).tolist())[:9] == [3, 4, 8, 10, 11, 13, 17, 24, 27]
    some = learner_on(np.zeros((2560, 1)), np.arange(2560) < 640, [2], seed=5, max_growing_rows=500)
    growing, _ = some.split(some.all_rows)
    assert np.flatnonzero(growing).tolist() == [1, 30, 35]


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


def test_growing_on_some_words_keeps_the_rows_to_prune_on() -> None:
    codes, positive, n_values = noisy_conjunctions(60_000, seed=0)
    learner = learner_on(codes, positive, n_values, max_growing_rows=5000)
    growing, pruning = learner.split(learner.all_rows)
    assert not (growing & pruning).any()
    assert sum(learner.count(pruning)) == 20_000
    positives, negatives = learner.count(growing)
    assert 4000 < positives + negatives < 6000
    # Where positives are rare, there are more rows: a tenth of the number shall be positive.
    rare = learner_on(codes, np.arange(60_000) < 1200, n_values, max_growing_rows=5000)
    assert rare.share_to_grow_on(rare.all_rows) == 500 / 1200
    lone = learner_on(np.zeros((31, 1)), np.arange(31) == 0, [2], max_growing_rows=3)
    assert lone.share_to_grow_on(lone.all_rows) == 3 / 10
    assert lone.share_to_grow_on(row_set(lone.table, [7])) == 3.0
    few = learner_on(codes[:3000], positive[:3000], n_values, max_growing_rows=5000)
    assert sum(few.count(few.split(few.all_rows)[0])) == 2000
