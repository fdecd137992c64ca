"""RIPPER: every step of Cohen's algorithm on cases worked by hand, and its laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legible.errors import LegibleError
from legible.mining.ripper import RipperError, RipperSettings, kernels, learn_rules
from legible.mining.ripper.description_length import data_length, subset_length, theory_length
from legible.mining.ripper.kernels import ABOVE, AT_MOST, EQUAL
from legible.mining.ripper.learner import accuracy_worth, precision_worth
from mining.ripper_cases import (
    conditions,
    covers,
    learner_on,
    meets,
    noisy_conjunctions,
    row_set,
    rule_of,
    tables,
    triples,
)

# Point 3: growing


def test_foil_gain_by_hand():
    assert kernels.foil_gain(4, 0, 4, 4) == 4.0
    assert kernels.foil_gain(3, 1, 4, 4) == pytest.approx(3 * (math.log2(3 / 4) + 1))
    assert kernels.foil_gain(2, 2, 4, 4) == 0.0
    assert kernels.foil_gain(1, 3, 4, 4) == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("codes", "positive", "importances", "grown"),
    [
        # x0 = 1 has 4 positives and 1 negative: gain 4·(log₂ 4/5 + 1) = 2.71, more than any other.
        # Within it x1 = 0 leaves 3 positives and no negative.
        ([[1, 0]] * 3 + [[1, 1]] * 2 + [[0, 0]] * 2 + [[0, 1]], [1] * 4 + [0] * 4, [1.0, 1.0], [(0, 1), (1, 0)]),
        ([[0, 1], [1, 0], [0, 1], [1, 0]], [1, 1, 0, 0], [1.0, 1.0], []),  # nothing gains
        # x0 gains nothing, however important it is.
        ([[0, 1], [1, 1], [0, 1], [0, 0], [1, 0], [0, 0]], [1, 1, 1, 0, 0, 0], [1.0, 1e-9], [(1, 1)]),
        # A feature of no importance is the last resort.
        ([[1, 1], [1, 1], [1, 0], [0, 1], [0, 0], [0, 0]], [1, 1, 1, 0, 0, 0], [0.0, 1.0], [(1, 1), (0, 1)]),
    ],
)
def test_grow_by_hand(codes, positive, importances, grown):
    learner = learner_on(codes, positive, importances=np.array(importances))
    assert learner.grow(learner.all_rows).tolist() == [[feature, EQUAL, value] for feature, value in grown]


def test_grow_stops_when_no_negative_is_covered():
    learner = learner_on([[1, 1], [1, 0], [0, 1], [0, 0]], [1, 1, 0, 0])
    assert learner.grow(learner.all_rows).tolist() == [[0, EQUAL, 1]]
    assert learner.grow(row_set(learner.table, [0, 1])).tolist() == []


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


@pytest.mark.parametrize(
    ("codes", "positive", "worth", "kept"),
    [
        # x0: 2 of 3 are positive (1/3); x0 x1: 2 of 2 (1); x0 x1 x2: 1 of 1 (1). The shorter of the two best wins.
        ([[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]], [1, 1, 0, 0], precision_worth, 2),
        # x0 = 1 is right once and wrong twice (−1/3); with x1 = 1 it covers nothing, which is worth less still.
        ([[1, 0], [1, 0], [1, 0], [0, 1]], [1, 0, 0, 0], precision_worth, 1),
        # x0 covers 5 positives and 1 negative (+4), with x1 3 and none (+3); by precision the longer one wins.
        ([[1, 1]] * 3 + [[1, 0]] * 3 + [[0, 0]], [1, 1, 1, 1, 1, 0, 0], accuracy_worth, 1),
        ([[1, 1]] * 3 + [[1, 0]] * 3 + [[0, 0]], [1, 1, 1, 1, 1, 0, 0], precision_worth, 2),
    ],
)
def test_pruning_keeps_the_best_prefix(codes, positive, worth, kept):
    learner = learner_on(codes, positive)
    grown = [(feature, EQUAL, 1) for feature in range(len(codes[0]))]
    pruned = learner.pruned(conditions(*grown), learner.all_rows, worth)
    assert triples(pruned) == grown[:kept]
    covered = np.flatnonzero(np.all(np.array(codes)[:, :kept] == 1, axis=1))
    assert sorted(kernels.row_numbers(learner.table, pruned.rows)) == covered.tolist()


def test_pruning_never_empties_a_rule():
    learner = learner_on([[1], [0], [0]], [0, 1, 1])
    assert len(learner.pruned(conditions((0, EQUAL, 1)), learner.all_rows, precision_worth).conditions) == 1
    assert learner.pruned(conditions(), learner.all_rows, precision_worth) is None


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


def test_stops_when_half_of_the_covered_rows_are_wrong(monkeypatch):
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


def test_a_rule_may_cost_as_much_as_is_allowed(monkeypatch):
    learner = learner_on([[1]] * 6 + [[0]] * 6, [1] * 6 + [0] * 6, description_length_allowance=64.0)
    monkeypatch.setattr(learner, "data_length", lambda covered: 0.0)
    for bits, kept in ((64.0, 1), (64.5, 0)):
        monkeypatch.setattr(learner, "theory_length", lambda rule, bits=bits: bits)
        assert len(learner.cover([])) == kept


def test_noise_alone_gives_no_rules():
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=(2000, 20)).astype(np.uint8)
    assert learn_rules(codes, rng.random(2000) < 0.2, n_values=[2] * 20, seed=0) == []


# Point 6: optimisation


@pytest.fixture
def learner():
    """A learner on two concepts without noise: x0 x1, and x2 x3 x4."""
    codes = np.random.default_rng(0).integers(2, size=(400, 8)).astype(np.uint8)
    return learner_on(codes, codes[:, :2].all(axis=1) | codes[:, 2:5].all(axis=1))


def rule(learner, *features):
    return rule_of(learner, *((feature, EQUAL, 1) for feature in features))


def test_optimising_replaces_a_poor_rule(learner):
    poor = rule_of(learner, (5, EQUAL, 1), (6, EQUAL, 0))
    (chosen,) = learner.optimise([poor])
    assert sorted(triples(chosen)) == [(0, EQUAL, 1), (1, EQUAL, 1)]


def test_optimising_revises_a_rule_that_is_too_general(learner):
    # From nothing the larger concept would be found again, which the rule before has already covered.
    first = rule(learner, 2, 3, 4)
    general = rule(learner, 0)
    chosen = learner.optimise([general, first])
    assert sorted(triples(chosen[0])) == [(0, EQUAL, 1), (1, EQUAL, 1)]
    assert triples(chosen[0])[0] == (0, EQUAL, 1)
    assert chosen[1] is first


def test_optimising_keeps_a_rule_that_cannot_be_bettered(learner):
    rules = [rule(learner, 1, 0), rule(learner, 4, 3, 2)]
    chosen = learner.optimise(rules)
    assert [sorted(triples(rule)) for rule in chosen] == [sorted(triples(rule)) for rule in rules]
    assert all(one is other for one, other in zip(chosen, rules, strict=True))


def test_variants_are_pruned_without_the_rows_of_later_rules(learner, monkeypatch):
    rules = [rule(learner, 0, 1), rule(learner, 2, 3, 4)]
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


def test_a_revision_is_grown_on_the_rows_of_its_rule(learner, monkeypatch):
    general = rule(learner, 0)
    divided, grown_on = [], []
    divide, grow = learner.split, learner.grow
    monkeypatch.setattr(learner, "split", lambda rows: divided.append(divide(rows)) or divided[-1])
    monkeypatch.setattr(learner, "grow", lambda rows: grown_on.append(rows.copy()) or grow(rows))
    learner.optimise([general])
    ((growing, _),) = divided
    revision, replacement = grown_on
    assert (revision == growing & general.rows).all()
    assert (replacement == growing).all()


# Point 7: what is left is covered, then rules are deleted


def test_mopping_up_looks_at_the_residual_rows_only(learner, monkeypatch):
    first = rule(learner, 0, 1)
    divided = []
    divide = learner.split
    monkeypatch.setattr(learner, "split", lambda rows: divided.append(rows.copy()) or divide(rows))
    rules = learner.cover([first])
    assert rules[0] is first
    assert sorted(triples(rules[1])) == [(2, EQUAL, 1), (3, EQUAL, 1), (4, EQUAL, 1)]
    assert len(rules) == len(divided) + 1 == 2  # then no positive is left, and it stops by itself
    assert not (divided[0] & first.rows).any()
    assert ((divided[0] | first.rows) == learner.all_rows).all()


def test_deleting_goes_from_the_last_rule_to_the_first(learner):
    one = rule(learner, 0, 1)
    other = rule(learner, 2, 3, 4)
    twin = rule(learner, 1, 0)
    assert learner.delete([one, other]) == [one, other]
    kept = learner.delete([one, other, twin])
    assert kept[0] is one
    assert kept[1] is other
    assert len(kept) == 2
    assert learner.delete([]) == []


def test_deleting_an_earlier_rule_that_a_later_one_makes_needless(learner):
    narrow = rule(learner, 0, 1, 2)
    wide = rule(learner, 0, 1)
    assert not (narrow.rows & ~wide.rows).any()
    assert learner.delete([narrow]) == [narrow]  # alone it is of use
    assert learner.delete([narrow, wide]) == [wide]


def test_a_rule_that_costs_what_it_saves_stays(monkeypatch):
    learner = learner_on([[1]] * 6 + [[0]] * 6, [1] * 6 + [0] * 6)
    only = rule(learner, 0)
    monkeypatch.setattr(learner, "data_length", lambda covered: 0.0 if covered.any() else 3.0)
    for bits, kept in ((3.0, [only]), (3.5, [])):
        monkeypatch.setattr(learner, "theory_length", lambda rule, bits=bits: bits)
        assert learner.delete([only]) == kept


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


def test_data_that_separates_nothing_gives_no_rules():
    one = np.ones(30, np.bool_)
    codes = np.arange(30, dtype=np.uint8)[:, None] % 3
    assert learn_rules(np.empty((0, 4), np.uint8), np.empty(0, np.bool_), n_values=[2] * 4, seed=0) == []
    assert learn_rules(codes, one, n_values=[3], seed=0) == []
    assert learn_rules(codes, ~one, n_values=[3], seed=0) == []
    assert learn_rules(np.zeros((30, 2), np.uint8), codes[:, 0] == 1, n_values=[1, 5], seed=0) == []
    assert learn_rules(np.empty((30, 0), np.uint8), codes[:, 0] == 1, n_values=[], seed=0) == []
    assert learn_rules(codes[:1], one[:1], n_values=[3], seed=0) == []


@pytest.mark.parametrize(("value", "positives", "negatives"), [(1, 50, 1), (256, 40, 40)])
def test_one_negative_is_enough_to_learn_from_and_codes_may_be_large(value, positives, negatives):
    codes = np.array([[value]] * positives + [[0]] * negatives)
    assert learn_rules(codes, codes[:, 0] == value, n_values=[value + 1], seed=0) == [((0, value),)]


def test_a_seed_gives_the_same_rules_for_ever():
    """Results that people keep depend on how rows are divided."""
    codes, positive, n_values = noisy_conjunctions(80, 1, 0.2)
    found = [learn_rules(codes, positive, n_values=n_values, seed=seed) for seed in range(6)]
    assert found == [
        [((3, 0), (0, 1))],
        [((0, 1), (3, 0))],
        [((3, 0), (0, 1)), ((10, 2), (7, 1)), ((10, 0), (6, 1))],
        [((3, 0), (0, 1)), ((10, 2), (7, 1))],
        [((3, 0), (0, 1)), ((10, 0), (6, 1)), ((7, 1), (10, 2))],
        [((0, 1), (3, 0)), ((7, 1), (10, 2)), ((10, 0), (6, 1))],
    ]


def test_rows_may_stand_in_both_classes():
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 50, np.uint8)
    both = np.concatenate([codes, codes])
    assert learn_rules(both, np.arange(400) < 200, n_values=[2, 2], seed=0) == []
    # x0 = 1 is positive nine times in ten, x0 = 0 never.
    positive = (codes[:, 0] == 1) & (np.arange(200) % 10 != 3)
    assert learn_rules(codes, positive, n_values=[2, 2], seed=0) == [((0, 1),)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": np.zeros(4, np.uint8)}, "matrix of integers"),
        ({"codes": np.zeros((4, 2))}, "matrix of integers, got float64"),
        ({"codes": np.full((4, 2), -1)}, "negative"),
        ({"codes": np.full((4, 2), 2**32)}, "negative or huge"),
        ({"codes": np.full((4, 2), 2**32 - 1)}, "check codes against n_values"),
        ({"codes": np.full((4, 2), 5)}, "feature 0 has a code that is not below its number of values, 2"),
        ({"positive": np.zeros(4)}, "one bool for each of the 4 rows"),
        ({"positive": np.zeros(3, np.bool_)}, "one bool for each of the 4 rows"),
        ({"n_values": [2]}, "each of the 2 features"),
        ({"n_values": [2, 0]}, "at least 1"),
        ({"importances": [1.0]}, "each of the 2 features"),
        ({"importances": [1.0, -2.0]}, "that of feature 1 is -2.0"),
        ({"importances": [np.nan, 1.0]}, "that of feature 0 is nan"),
        ({"importances": [1.0, np.inf]}, "that of feature 1 is inf"),
    ],
)
def test_errors_say_what_is_wrong(change, message):
    positive = np.array([True, True, False, False])
    arguments = {"codes": np.zeros((4, 2), np.uint8), "positive": positive, "n_values": [2, 2]}
    with pytest.raises(RipperError, match=message) as caught:
        learn_rules(**arguments | change, seed=0)
    assert isinstance(caught.value, LegibleError)
    assert learn_rules(**arguments, settings=RipperSettings(description_length_allowance=0.0), seed=0) == []


@pytest.mark.parametrize(
    "setting",
    [
        {"optimizations": -1},
        {"optimizations": 0.5},
        {"prune_fraction": 0.0},
        {"prune_fraction": 1.0},
        {"description_length_allowance": -1.0},
    ],
)
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(RipperError, match=next(iter(setting))):
        RipperSettings(**setting)
