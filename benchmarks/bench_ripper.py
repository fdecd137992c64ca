"""RIPPER against Weka's JRip and wittgenstein: time to fit, accuracy on rows kept back, number of rules.

``python -m benchmarks.bench_ripper [--quick] [--rows 60000]`` runs all of them on the same data in one process, on one
thread. Compilation is not in the times: every learner first fits a small sample, and of three fits the fastest counts
(of one for wittgenstein). Converting the data to what a peer reads is not in its time either; validating
and encoding it is in ours.

The data has 69 integer features, 54 with two values and 15 with ten; a row is positive when one of six conjunctions
holds, and 5 % of the labels are flipped. JRip reads all features as nominal, which is its faster way.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedShuffleSplit

from legible.mining.ripper import RipperClassifier

NOISE = 0.05
SEED = 8  # of the data sets with seeds 0 … 11, the one nearest to a majority of .845 and a best accuracy of .951
GROWTH = (60_000, 125_000, 250_000, 500_000, 1_000_000, 2_000_000)


@dataclass(frozen=True)
class Data:
    """Rows to fit, rows kept back, and the accuracy that nothing but luck could exceed."""

    X: NDArray[Any]
    y: NDArray[np.bool_]
    X_test: NDArray[Any]
    y_test: NDArray[np.bool_]
    nominal: bool
    best_accuracy: float = float("nan")

    @property
    def majority(self) -> float:
        return max(float(self.y_test.mean()), 1 - float(self.y_test.mean()))


def conjunctions(rows: int, seed: int) -> Data:
    """Six conjunctions of three to six conditions that together hold in 11.5 to 11.9 % of the rows, and noise."""
    rng = np.random.default_rng([seed, 0])
    n_values = rng.permutation(np.repeat([2, 10], [54, 15]))
    two, ten = np.flatnonzero(n_values == 2), np.flatnonzero(n_values == 10)
    share = 0.0
    rules: list[list[tuple[int, int]]] = []
    while not 0.115 < share < 0.119:
        rules = []
        for with_ten in rng.random(6) < 0.5:
            features = rng.choice(two, rng.integers(2, 4) if with_ten else rng.integers(5, 7), replace=False).tolist()
            features += rng.choice(ten, int(with_ten), replace=False).tolist()
            rules.append([(feature, int(rng.integers(n_values[feature]))) for feature in features])
        share = 1 - np.prod([1 - np.prod([1 / n_values[feature] for feature, _ in rule]) for rule in rules])
    rng = np.random.default_rng([seed, 1])
    X = np.empty((rows, n_values.size), np.uint8)
    for feature, values in enumerate(n_values):
        X[:, feature] = rng.integers(values, size=rows, dtype=np.uint8)
    truth = np.zeros(rows, np.bool_)
    for rule in rules:
        truth |= np.logical_and.reduce([X[:, feature] == value for feature, value in rule])
    y = truth ^ (rng.random(rows) < NOISE)
    cut = rows * 3 // 4
    return Data(X[:cut], y[:cut], X[cut:], y[cut:], True, float((truth == y)[cut:].mean()))


def breast_cancer(splits: int) -> list[Data]:
    X, y = load_breast_cancer(return_X_y=True)
    parts = StratifiedShuffleSplit(splits, test_size=0.25, random_state=0).split(X, y)
    return [Data(X[a], y[a] == 0, X[b], y[b] == 0, False) for a, b in parts]


class Fit(NamedTuple):
    seconds: float
    accuracy: float
    rules: float


class Legible:
    name = "legible"

    def fit(self, data: Data, seed: int, repeats: int) -> Fit:
        classifier = RipperClassifier(
            categorical_features="all" if data.nominal else None, positive_class=True, random_state=seed
        )
        seconds = fastest(lambda: classifier.fit(data.X, data.y), repeats)
        return Fit(seconds, float(classifier.score(data.X_test, data.y_test)), classifier.n_rules_)


class JRip:
    name = "Weka JRip"

    def __init__(self) -> None:
        import jpype
        import weka

        if not jpype.isJVMStarted():
            jars = str(Path(next(iter(weka.__path__))) / "lib" / "*")
            jpype.startJVM("-Xmx6g", "-Dweka.packageManager.loadPackages=false", classpath=[jars])
        self.java = jpype.JClass
        self.array = jpype.JArray(jpype.JDouble)
        self.java("java.util.logging.LogManager").getLogManager().reset()  # it warns of libraries that JRip never uses

    def fit(self, data: Data, seed: int, repeats: int) -> Fit:
        classifier = self.java("weka.classifiers.rules.JRip")()
        classifier.setSeed(seed)
        train, test = self.instances(data, data.X, data.y), self.instances(data, data.X_test, data.y_test)
        seconds = fastest(lambda: classifier.buildClassifier(train), repeats)
        predicted = np.array([classifier.classifyInstance(test.instance(i)) for i in range(len(data.X_test))])
        rules = int(classifier.getMeasure("measureNumRules")) - 1  # the default counts as one
        return Fit(seconds, float((predicted == data.y_test).mean()), rules)

    def instances(self, data: Data, X: NDArray[Any], y: NDArray[np.bool_]) -> Any:
        attribute, listing = self.java("weka.core.Attribute"), self.java("java.util.ArrayList")
        attributes = listing()
        for feature in range(X.shape[1]):
            words = [str(value) for value in range(int(data.X[:, feature].max()) + 1)] if data.nominal else None
            attributes.add(attribute(f"x{feature}", listing(words)) if words else attribute(f"x{feature}"))
        attributes.add(attribute("class", listing(["negative", "positive"])))
        instances = self.java("weka.core.Instances")("rows", attributes, len(X))
        instances.setClassIndex(X.shape[1])
        row_type = self.java("weka.core.DenseInstance")
        for row in np.column_stack([X, y]).astype(np.float64):
            instances.add(row_type(1.0, self.array(row)))
        return instances


class Wittgenstein:
    name = "wittgenstein"

    def __init__(self) -> None:
        import pandas as pd
        import wittgenstein

        self.frame, self.ripper = pd.DataFrame, wittgenstein.RIPPER

    def fit(self, data: Data, seed: int, repeats: int) -> Fit:
        names = [f"x{feature}" for feature in range(data.X.shape[1])]
        train, test = self.frame(data.X, columns=names), self.frame(data.X_test, columns=names)
        classifier = self.ripper(random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds = fastest(lambda: classifier.fit(train.copy(), data.y.copy(), pos_class=True), repeats)
            accuracy = float((np.array(classifier.predict(test)) == data.y_test).mean())
        return Fit(seconds, accuracy, len(classifier.ruleset_.rules))


Learner = Legible | JRip | Wittgenstein


def available() -> list[Learner]:
    learners: list[Learner] = []
    for kind in (Legible, JRip, Wittgenstein):
        try:
            learners.append(kind())
        except Exception as error:  # no Java, no package: the others still run
            print(f"{kind.name} is left out: {type(error).__name__}: {error}")
    return learners


def fastest(task: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of several runs."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def compare(title: str, learners: list[Learner], datasets: list[Data], seeds: int) -> dict[str, Fit]:
    """Fit everything to everything; print and return the means."""
    print(f"\n{title}")
    print(f"  {'':13} {'fit seconds':>11} {'ratio':>7} {'accuracy':>9} {'rules':>6}")
    means: dict[str, Fit] = {}
    for learner in learners:
        slow = isinstance(learner, Wittgenstein)
        once = slow and len(datasets[0].X) > 2000
        fits = [
            learner.fit(data, seed, repeats=1 if slow else 3)
            for data in (datasets[:1] if once else datasets)
            for seed in range(1, 2 if once else 1 + seeds)
        ]
        mean = means[learner.name] = Fit(*(float(np.mean(column)) for column in zip(*fits, strict=True)))
        ratio = mean.seconds / means[Legible.name].seconds
        print(
            f"  {learner.name:13} {mean.seconds:>11.4f} {ratio:>6.0f}x {mean.accuracy:>9.4f} {mean.rules:>6.1f}"
            f"   ({len(fits)} fits)"
        )
    return means


def robustness(rows: int, data_seeds: int, seeds: int) -> list[Fit]:
    """The accuracy and the number of rules over many data sets and seeds."""
    fits, regrets = [], []
    for data_seed in range(data_seeds):
        data = conjunctions(rows, data_seed)
        for seed in range(seeds):
            fits.append(Legible().fit(data, seed, repeats=1))
            regrets.append(data.best_accuracy - fits[-1].accuracy)
    accuracy, rules = [fit.accuracy for fit in fits], [int(fit.rules) for fit in fits]
    print(f"\nlegible on {data_seeds} sets of {rows} rows, {seeds} seeds each")
    print(f"  accuracy {np.mean(accuracy):.4f} (lowest {min(accuracy):.4f})", end="")
    print(f", below the best possible by {np.mean(regrets):.4f} (at most {max(regrets):.4f})")
    print(f"  rules {min(rules)} to {max(rules)}, mean {np.mean(rules):.2f}")
    return fits


def growth(sizes: tuple[int, ...], seeds: int) -> list[tuple[int, float]]:
    """Time and memory of legible as the rows grow, means over seeds."""
    print(f"\nlegible as the rows grow (three quarters are fitted), mean of {seeds} seeds")
    print(f"  {'rows':>9} {'fit seconds':>11} {'µs a row':>9} {'memory':>9} {'accuracy':>9} {'rules':>6}")
    times = []
    for rows in sizes:
        data = conjunctions(rows, SEED)
        fits = [Legible().fit(data, seed, repeats=2) for seed in range(seeds)]
        seconds, accuracy, rules = (float(np.mean(column)) for column in zip(*fits, strict=True))
        tracemalloc.start()
        RipperClassifier(categorical_features="all", random_state=1).fit(data.X, data.y)
        megabytes = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        print(
            f"  {rows:>9} {seconds:>11.4f} {1e6 * seconds / len(data.X):>9.3f} {megabytes:>6.0f} MB"
            f" {accuracy:>9.4f} {rules:>6.1f}"
        )
        times.append((rows, seconds))
    log_rows, log_seconds = np.log(np.array(times)).T.tolist()
    slope = float(np.polyfit(log_rows, log_seconds, 1)[0])
    print(f"  time grows as rows to the power of {slope:.2f}")
    return times


def main(quick: bool = False, rows: int = 0) -> dict[str, dict[str, Fit]]:
    """Run all comparisons; return the mean fit of every learner on either data."""
    rows = rows or (20_000 if quick else 60_000)
    learners = available()
    for learner in learners:
        for warm_up in (conjunctions(1000, seed=99), breast_cancer(1)[0]):
            learner.fit(warm_up, seed=0, repeats=1)
    data = conjunctions(rows, SEED)
    shape = f"{rows} rows × 69, majority {data.majority:.3f}, best possible {data.best_accuracy:.3f}"
    results = {
        "conjunctions": compare(shape, learners, [data], seeds=1 if quick else 3),
        "breast cancer": compare("breast cancer, 569 rows × 30", learners, breast_cancer(3 if quick else 10), seeds=3),
    }
    robustness(rows, *(3, 1) if quick else (10, 3))
    growth(GROWTH[:2] if quick else GROWTH, seeds=3)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows, seeds and sizes")
    parser.add_argument("--rows", type=int, default=0, help="rows of the comparison (60000, or 20000 with --quick)")
    arguments = parser.parse_args()
    main(arguments.quick, arguments.rows)
