"""Speed of generalising: 10,000 rules of five conditions, turned to 40,000.

    python -m lab.bench relations

The yardstick is the time of making the 30,000 new rules alone (the `Rule` objects from conditions that are there
already), measured in the same run, so that the ratio does not depend on the machine.
"""

from __future__ import annotations

import time

import numpy as np

from legible.features import FeatureSpace
from legible.relations import generalise_all, load_relations, shipped_relations
from legible.rules import Condition, Rule
from legible_envs.pacman.features import pacman_features

RULES = 10_000
CONDITIONS = 5


def random_rules(space: FeatureSpace, seed: int) -> list[Rule]:
    """Rules for the four directions, on features that the turn does not ignore."""
    rng = np.random.default_rng(seed)
    features = [i for i, feature in enumerate(space.features) if not feature.name.endswith((".x", ".y"))]
    rules = []
    for _ in range(RULES):
        chosen = rng.choice(features, CONDITIONS, replace=False)
        body = [_condition(int(i), space, rng) for i in chosen]
        rules.append(Rule("+" if rng.random() < 0.5 else "-", int(rng.integers(4)), tuple(body)))
    return rules


def _condition(feature: int, space: FeatureSpace, rng: np.random.Generator) -> Condition:
    if space[feature].kind == "categorical":
        return Condition.equals(feature, float(rng.integers(2)))
    low = float(rng.integers(10))
    return Condition(feature, low, low + 1)


def main(quick: bool = False) -> None:  # noqa: ARG001 (it is quick anyway)
    space = pacman_features(2)
    turn = load_relations(shipped_relations("legible/PacmanSmall-v0")[0].path, space)
    rules = random_rules(space, seed=0)
    times, yardsticks = [], []
    for _ in range(5):
        start = time.process_time()
        made = generalise_all(rules, turn)
        times.append(time.process_time() - start)
        bodies = [(r.polarity, r.action, r.conditions) for g in made for r in g.rules[1:]]
        start = time.process_time()
        for polarity, action, body in bodies:
            Rule(polarity, action, body)
        yardsticks.append(time.process_time() - start)
    count = sum(len(g) for g in made)
    best, yardstick = min(times), min(yardsticks)
    print(f"{RULES} rules of {CONDITIONS} conditions → {count} rules: {best:.2f} s CPU")
    print(f"making {len(bodies)} rules alone: {yardstick:.2f} s; ratio {best / yardstick:.1f}")


if __name__ == "__main__":
    main()
