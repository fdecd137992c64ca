"""Batched LIME against the lime package: time for a state, and how well the rankings of features agree.

``python -m lab.bench.bench_lime [--quick]`` runs both on the same data and the same policy, in one process. Times are
CPU times of one thread, so that other work on the machine disturbs them little; they hold everything from the bare data
to the weights, the policy included. The lime package is timed as it comes (it selects features first, even if all are
asked for) and without this selection, its fastest way to explain with all features. "faster" compares with the former,
"(fastest)" with the latter.

Ours is timed with a pool of samples for every state, as lime has, and with one for every two and for every ten states:
the policy is asked less often, and the error of a pool is shared by its states. With 1,000 features fewer states are
explained, since lime needs seconds for each.

``--profile`` prints where our time goes instead: milliseconds a state for each part.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits

from legible.features import Action, Feature, FeatureSpace, deciles
from legible.mining import Importance
from legible.mining.lime import lime, lime_importance
from legible.mining.lime.sampling import DrawnValues

Array = NDArray[np.float32]
ACTIONS = 5
SHARING = (1, 2, 10)
"""How many states share a pool of samples."""


@dataclass(frozen=True)
class Case:
    """Data in the shape of PAC-Man's, and a random network that looks at some features more than at others."""

    space: FeatureSpace
    background: Array
    states: Array
    layers: tuple[Array, ...]

    @classmethod
    def make(cls, flags: int, numbers: int, states: int, seed: int, rows: int = 20_000) -> Case:
        rng = np.random.default_rng(seed)
        often = rng.uniform(0.05, 0.95, flags)
        columns = [rng.random((rows, flags)) < often, np.floor(rng.gamma(2.0, 6.0, (rows, numbers)))]
        background = np.concatenate(columns, axis=1).astype(np.float32)
        features = flags + numbers
        space = FeatureSpace(
            tuple(Feature(f"flag{i}", "categorical") for i in range(flags))
            + tuple(Feature(f"number{i}") for i in range(numbers)),
            tuple(Action(f"action{i}") for i in range(ACTIONS)),
        )
        attention = rng.permutation(np.geomspace(0.02, 1.0, features))[:, None]
        shapes = ((features, 64), (64, 64), (64, ACTIONS))
        layers = [rng.normal(size=shape) * np.sqrt(2.0 / shape[0]) for shape in shapes]
        layers[0] *= 2.0 * attention / background.std(axis=0, dtype=np.float64)[:, None]
        return cls(space, background, background[:states], tuple(w.astype(np.float32) for w in layers))

    def scores(self, observations: Array) -> Array:
        hidden = observations
        for weights in self.layers[:-1]:
            hidden = hidden @ weights
            np.maximum(hidden, 0.0, out=hidden)
        return hidden @ self.layers[-1]

    def probabilities(self, observations: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = self.scores(observations.astype(np.float32)).astype(np.float64)
        odds: NDArray[np.float64] = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)


def ours(case: Case, samples: int, pools: int, seed: int) -> Importance:
    intervals = deciles(case.space, case.background)
    return lime_importance(
        case.scores, case.background, case.states, intervals, case.space, samples=samples, pools=pools, seed=seed
    )


def theirs(case: Case, samples: int, seed: int, selection: str = "none") -> Importance:
    from lime.lime_tabular import LimeTabularExplainer

    features = len(case.space)
    explainer = LimeTabularExplainer(
        case.background.astype(np.float64),
        categorical_features=[i for i, f in enumerate(case.space.features) if f.kind == "categorical"],
        discretizer="decile",
        feature_selection=selection,
        random_state=seed,
    )
    weights = np.zeros((len(case.states), ACTIONS, features))
    intercepts = np.zeros((len(case.states), ACTIONS))
    for state, row in enumerate(case.states.astype(np.float64)):
        explained = explainer.explain_instance(
            row, case.probabilities, labels=range(ACTIONS), num_features=features, num_samples=samples
        )
        for action in range(ACTIONS):
            found, values = zip(*explained.local_exp[action], strict=True)
            weights[state, action, list(found)] = values
            intercepts[state, action] = explained.intercept[action]
    return Importance(weights, intercepts)


def agreement(one: Importance, other: Importance) -> float:
    """Return Spearman's correlation of the rankings of features, mean over actions and polarities."""
    sums = zip((*one.positive, *one.negative), (*other.positive, *other.negative), strict=True)
    return float(np.mean([spearmanr(a, b).statistic for a, b in sums]))


def timed(task: Callable[[int], Importance], seeds: int) -> tuple[list[Importance], float]:
    """Return the results of a task for some seeds, and the median of its CPU times in milliseconds for a state."""
    results, times = [], []
    for seed in range(seeds):
        start = time.process_time()
        results.append(task(seed))
        times.append(1000.0 * (time.process_time() - start) / len(results[-1].weights))
    return results, statistics.median(times)


def compare(flags: int, numbers: int, states: int, samples: int, seeds: int = 3) -> list[dict[str, Any]]:
    """Return the time and agreement of the lime package, and of ours with more or fewer states to a pool."""
    case = Case.make(flags, numbers, states, seed=0)
    ours(case, samples=64, pools=1, seed=0)  # compiles the kernels
    peers, fastest = timed(lambda seed: theirs(case, samples, seed), seeds)
    _, usual = timed(lambda seed: theirs(case, samples, seed, "auto"), seeds=1)
    measured = [("lime", peers, usual), ("lime, no selection", peers, fastest)]
    for pools in (max(1, states // sharing) for sharing in SHARING):
        results, ms = timed(lambda seed, pools=pools: ours(case, samples, pools, seed), seeds)  # type: ignore[misc]
        measured.append((f"legible, {pools} pools", results, ms))
    return [
        {
            "features": flags + numbers,
            "who": who,
            "ms": ms,
            "faster": usual / ms,
            "faster_than_fastest": fastest / ms,
            "own_agreement": float(np.mean([agreement(a, b) for a, b in itertools.combinations(results, 2)])),
            "lime_agreement": float(np.mean([agreement(a, b) for a in results for b in peers if a is not b])),
        }
        for who, results, ms in measured
    ]


def profile(flags: int, numbers: int, states: int, samples: int, pools: int) -> dict[str, float]:
    """Return the CPU milliseconds a state that each part of our LIME takes, "all" of them together included."""
    case = Case.make(flags, numbers, states, seed=0)
    ours(case, samples=64, pools=1, seed=0)  # compiles the kernels
    spent: dict[str, float] = defaultdict(float)

    def clocked(function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            start = time.process_time()
            result = function(*arguments, **named)
            spent[part] += 1000.0 * (time.process_time() - start) / states
            return result

        return call

    with ExitStack() as patches:
        for owner, name, part in (
            (lime, "normal_equations", "counting bits for the Gram matrix"),
            (lime, "solve", "solving"),
            (lime, "_choices", "network and softmax"),
            (Case, "scores", "  of these the network"),
            (DrawnValues, "combine", "combining values to observations"),
        ):
            patches.enter_context(patch.object(owner, name, clocked(getattr(owner, name), part)))
        draw = classmethod(clocked(DrawnValues.draw.__func__, "drawing values"))  # type: ignore[attr-defined]
        patches.enter_context(patch.object(DrawnValues, "draw", draw))
        patches.enter_context(patch(f"{__name__}.deciles", clocked(deciles, "deciles")))
        clocked(ours, "all")(case, samples, pools, seed=0)
    return dict(spent)


def print_profiles() -> None:
    """Print `profile` for 69 and 117 features, with a pool for every state and for every two."""
    with threadpool_limits(1):
        for flags, pools in itertools.product((54, 102), (100, 50)):
            parts = profile(flags, 15, 100, 5000, pools)
            print(f"{flags + 15} features, {pools} pools for 100 states of 5000 samples, milliseconds a state")
            for part, ms in sorted(parts.items(), key=lambda item: -item[1]):
                print(f"  {part:<36} {ms:>6.2f}")


def main(quick: bool = False) -> list[dict[str, Any]]:
    states, samples = (20, 1000) if quick else (100, 5000)
    cases = ((54, 15, states, 3),) if quick else ((54, 15, states, 3), (102, 15, states, 3), (900, 100, 10, 2))
    print(f"LIME: {states} states, {samples} samples each, {ACTIONS} actions, 20000 rows of background, one thread")
    print("Agreement: Spearman's correlation of the features' ranks by summed importance")
    print(f"features {'':<19} {'a state':>9} {'faster':>7} {'(fastest)':>9} {'seed/seed':>10} {'seed/lime':>10}")
    results = []
    with threadpool_limits(1):
        for flags, numbers, explained, seeds in cases:
            for row in compare(flags, numbers, explained, samples, seeds):
                print(
                    "{features:>8} {who:<19} {ms:>6.2f} ms {faster:>6.1f}x {faster_than_fastest:>8.1f}x "
                    "{own_agreement:>10.4f} {lime_agreement:>10.4f}".format(**row)
                )
                results.append(row)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer states and samples")
    parser.add_argument("--profile", action="store_true", help="where our time goes")
    options = parser.parse_args()
    if options.profile:
        print_profiles()
    else:
        main(options.quick)
