"""RipperClassifier: the estimator around RIPPER."""

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from legible.mining.ripper import RipperClassifier, RipperError, learn_rules
from legible.mining.ripper.classifier import most_agreed
from mining.ripper_cases import noisy_conjunctions


@parametrize_with_checks(
    [
        RipperClassifier(),
        RipperClassifier(optimizations=0, max_bins=4, random_state=1),
        RipperClassifier(restarts=3, random_state=1),
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_rules_speak_for_the_rarer_class(snapshot):
    X = np.arange(20)[:, None] * 1.0
    rare_high = X[:, 0] > 13
    classifier = RipperClassifier(random_state=0).fit(X, rare_high)
    assert classifier.default_class_ is False
    assert "\n".join(map(str, classifier.rules_)) == snapshot
    classifier = RipperClassifier(random_state=0).fit(X, ~rare_high)
    assert "\n".join(map(str, classifier.rules_)) == snapshot
    classifier = RipperClassifier(positive_class=True, random_state=0).fit(X, ~rare_high)
    assert "\n".join(map(str, classifier.rules_)) == snapshot
    assert classifier.default_class_ is False


def test_positive_class_must_be_one_of_two(raises_saved):
    X, y = np.arange(12.0)[:, None], np.arange(12) % 3
    with raises_saved(RipperError):
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({name: value}, "") for name, value in (("max_bins", 1), ("restarts", 0), ("max_growing_rows", 0))),
        *(({name: value}, "") for name, value in (("optimizations", 0.5), ("feature_importances", [1.0]))),
        *(
            ({"categorical_features": given}, "categorical_features must be")
            for given in ([True], [2], ["colour"], "some", [0.5], [[0], [1]])
        ),
    ],
)
def test_wrong_parameters_are_refused_when_fitting(change, message):
    with pytest.raises(RipperError, match=message):
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


@pytest.mark.parametrize(
    ("values", "threshold"),
    [
        (np.array([1.0, np.nextafter(np.float32(1.0), np.float32(2.0))], np.float32), 1.0),  # adjacent floats
        (np.array([-1.7e308, 1.7e308, 0.0, 2.0**60, 2.0**60 + 2**10]), 2.0**60),
    ],
)
def test_thresholds_of_extreme_numbers(values, threshold):
    X = np.tile(values, 20)[:, None]
    y = X[:, 0] > threshold
    assert (RipperClassifier(random_state=0).fit(X, y).predict(X) == y).all()


def test_max_bins_limits_the_thresholds():
    X = np.random.default_rng(0).random((2000, 1))
    y = (X[:, 0] > 0.4) & (X[:, 0] < 0.46)
    fine = RipperClassifier(random_state=0).fit(X, y)
    assert fine.score(X, y) > 0.99
    coarse = RipperClassifier(max_bins=4, random_state=0).fit(X, y)
    thresholds = {c.value for rule in coarse.rules_ for c in rule.conditions}
    assert all(min(abs(threshold - quarter) for quarter in (0.25, 0.5, 0.75)) < 0.03 for threshold in thresholds)


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


# More lists of rules than one


def test_the_list_that_agrees_best_is_kept() -> None:
    truth = np.array([0, 0, 0, 1, 1, 1])
    usual, odd, right = np.array([0, 0, 0, 0, 1, 1]), np.array([1, 1, 0, 1, 1, 1]), np.array([0, 0, 0, 1, 1, 1])
    # Of five votes three are the usual one. It differs from the vote in 1·⅖ + 2·⅕ rows and from the truth in one: 1.8;
    # the right one in 1·⅗ + 2·⅕ rows and in none: 1.0.
    assert most_agreed([usual, usual, usual, odd, right], truth, [1] * 5) == 4
    assert most_agreed([usual, usual, usual, odd, right], truth, [1, 1, 1, 1, 2]) == 0  # a rule costs a row
    assert most_agreed([odd], truth, [7]) == 0


def test_restarts_learn_other_lists_and_keep_one_of_them() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    one = RipperClassifier(random_state=3).fit(X, y)
    many = RipperClassifier(restarts=5, random_state=3).fit(X, y)
    assert many.rules_ == RipperClassifier(restarts=5, random_state=3).fit(X, y).rules_
    assert RipperClassifier(restarts=1, random_state=3).fit(X, y).rules_ == one.rules_
    for number, rule in enumerate(many.rules_):  # figures and probabilities belong to the rules that were kept
        left = ~np.any([other.matches(X) for other in many.rules_[:number]] + [np.zeros(len(X), bool)], axis=0)
        assert rule.covered == (rule.matches(X) & left).sum()


def test_restarts_make_small_data_more_accurate() -> None:
    X, y = load_iris(return_X_y=True)
    accuracy = {1: [], 15: []}
    for seed in range(12):
        parts = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
        for restarts, scores in accuracy.items():
            classifier = RipperClassifier(restarts=restarts, random_state=seed).fit(parts[0], parts[2])
            scores.append(classifier.score(parts[1], parts[3]))
    assert np.mean(accuracy[15]) >= np.mean(accuracy[1])


def test_growing_on_some_of_very_many_rows_finds_the_same_rules() -> None:
    codes, positive, _ = noisy_conjunctions(30_000, seed=2)
    fits = [
        RipperClassifier(categorical_features="all", max_growing_rows=most, random_state=0).fit(codes, positive)
        for most in (None, 2000, 10**9)
    ]
    bodies = [{frozenset((c.feature, c.value) for c in rule.conditions) for rule in fit.rules_} for fit in fits]
    assert bodies[0] == bodies[1] == {frozenset({(0, 1), (3, 0)}), frozenset({(7, 1), (10, 2)})}
    assert fits[0].rules_ == fits[2].rules_  # not reached: the same to the bit
