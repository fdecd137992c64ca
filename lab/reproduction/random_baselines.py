"""The paper's two baselines: random testing (RT) and random rules (RR).

- `RandomTest`: blocks or enforces randomly chosen actions, each in about one percent of the states; the same state
  always gets the same change.
- `random_tests`: draws random tests.
- `random_rule_sets`: draws rule sets of the same shape as the mined and generalised ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.evaluation.units import Setup
from legible.guidance import CountingChooser
from legible.imports import njit
from legible.play import Observations, Scores, choose_row
from legible.policies.protocol import MASKED
from legible.rules import Condition, Polarity, Rule, RuleSet
from legible.streams import GOLDEN, group_key, mix

REGIONS = 100
ATTEMPTS = 20


@dataclass(frozen=True)
class RandomTest:
    """Changes of a policy, each in one of a hundred hashed regions of the state space.

    Parameters
    ----------
    regions
        One distinct region per change.
    actions
        The action that is blocked, or enforced, in each region.
    enforce
        Whether actions are enforced; otherwise they are blocked.
    salt
        Determines which states lie in which region.
    """

    regions: tuple[int, ...]
    actions: tuple[int, ...]
    enforce: bool
    salt: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @staticmethod
    def chooser(setup: Setup, episodes: NDArray[np.int64], seeds: Sequence[int]) -> RandomTestChooser:
        """Return the chooser that plays episodes, each with its random test."""
        return RandomTestChooser(setup, episodes, seeds)


def random_tests(n_actions: int, count: int, *, enforce: bool, seed: int, changes: int = 3) -> list[RandomTest]:
    """Draw random tests with the given number of changes (the paper: 3)."""
    if not 1 <= changes <= REGIONS:
        raise LegibleError(f"changes must lie between 1 and {REGIONS}, got {changes}.")
    rng = np.random.default_rng([seed, int(enforce)])
    return [
        RandomTest(
            regions=tuple(rng.choice(REGIONS, changes, replace=False).tolist()),
            actions=tuple(rng.integers(n_actions, size=changes).tolist()),
            enforce=enforce,
            salt=int(rng.integers(2**63)),
        )
        for _ in range(count)
    ]


@njit(cache=True)
def region_of(observation: NDArray[np.float32], salt: np.uint64) -> int:
    """Return the region of an observation, 0 to 99: a hash of its bits."""
    state = mix(salt + GOLDEN)
    bits = (observation + np.float32(0.0)).view(np.uint32)  # -0 and 0 are the same state
    for i in range(bits.size):
        state = mix(state ^ np.uint64(bits[i]))
    return int(state % np.uint64(REGIONS))


@njit(cache=True, nogil=True)
def _test_rows(
    observations: Observations,
    scores: Scores,
    starts: NDArray[np.int64],
    tests: NDArray[np.int64],
    regions: NDArray[np.int64],
    changed_actions: NDArray[np.int64],
    enforce: NDArray[np.bool_],
    salts: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    steps: NDArray[np.int64],
    epsilon: float,
    guided_epsilon: float,
    sample: bool,
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the choices in all rows, and the rows in which a random test triggered and in which it changed a choice.

    Test t changes the policy in the regions ``regions[t]`` of the observation space: it enforces or blocks the choice
    ``changed_actions[t, k]`` in the k-th one. Test -1 changes nothing.
    """
    n, n_groups = scores.shape[0], starts.size - 1
    choices = np.empty((n, n_groups), np.int64)
    fired, changed = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for i in range(n):
        for g in range(n_groups):
            first, last = starts[g], starts[g + 1]
            unguided = choose_row(scores[i, first:last], group_key(keys[i], g), steps[i], epsilon, sample)
            choices[i, g] = first + unguided
        t = tests[i]
        if t < 0:
            continue
        region = region_of(observations[i], salts[t])
        for k in range(regions.shape[1]):
            if regions[t, k] == region:
                fired[i] = True
                choice = changed_actions[t, k]
                g = np.searchsorted(starts, choice, side="right") - 1
                first, last = starts[g], starts[g + 1]
                wanted = choices[i, g]
                if enforce[t]:
                    choices[i, g] = choice if scores[i, choice] != MASKED else wanted
                elif scores[i, choice] != MASKED:
                    masked = scores[i, first:last].copy()
                    masked[choice - first] = -np.inf
                    unguided = choose_row(masked, group_key(keys[i], g), steps[i], guided_epsilon, sample)
                    choices[i, g] = first + unguided
                changed[i] = choices[i, g] != wanted
    return choices, fired, changed


class RandomTestChooser(CountingChooser):
    """Chooser that plays episodes, each with its random test."""

    def __init__(self, setup: Setup, episodes: NDArray[np.int64], seeds: Sequence[int]) -> None:
        tests = [test for test in setup.treatments if isinstance(test, RandomTest)]
        if len({len(test.regions) for test in tests}) > 1:
            raise LegibleError("random tests that run together must have the same number of changes.")
        super().__init__(setup.asked_policy, episodes, seeds, sample=setup.play.sample, enforce=setup.play.enforce)
        self._play = setup.play
        self._regions = np.array([test.regions for test in tests], np.int64)
        self._actions = np.array([test.actions for test in tests], np.int64)
        self._enforces = np.array([test.enforce for test in tests], np.bool_)
        self._salts = np.array([test.salt for test in tests], np.uint64)

    def choose(
        self,
        observations: Observations,
        scores: Scores,
        treatments: NDArray[np.int64],
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Change the actions of rows that lie in a region of their test."""
        return _test_rows(
            observations,
            np.ascontiguousarray(scores),
            self._starts,
            treatments,
            self._regions,
            self._actions,
            self._enforces,
            self._salts,
            keys,
            steps,
            self._play.epsilon,
            self._play.epsilon if self._play.epsilon_when_guided else 0.0,
            self._draws,
        )


def random_rule_sets(
    mined: Sequence[Rule], generalised: Sequence[RuleSet], n_actions: int, count: int, *, seed: int
) -> list[RuleSet]:
    """Draw random rule sets of the same shape as the mined rules.

    Each set has one polarity and one rule length, both drawn by their frequency among the mined rules, and as many
    rules as a generalised set drawn at random. A rule's features are drawn without repetition from the features
    of the mined rules, each with one of its intervals in the mined rules; actions are uniform.
    """
    if not mined or not generalised:
        raise LegibleError("random rules are modelled on mined and generalised rules, and there are none.")
    rng = np.random.default_rng(seed)
    values: dict[int, list[Condition]] = {}
    for rule in mined:
        for condition in rule.conditions:
            values.setdefault(condition.feature, []).append(condition)
    features = sorted(values)
    sizes = [len(rule_set) for rule_set in generalised]
    drawn = []
    for _ in range(count):
        polarity: Polarity = mined[int(rng.integers(len(mined)))].polarity
        length = len(mined[int(rng.integers(len(mined)))])
        size = sizes[int(rng.integers(len(sizes)))]
        rules: dict[Rule, None] = {}
        for _ in range(ATTEMPTS * size):  # there may be fewer different rules than wanted
            if len(rules) == size:
                break
            chosen = rng.choice(features, length, replace=False)
            conditions = tuple(values[f][int(rng.integers(len(values[f])))] for f in chosen.tolist())
            rules[Rule(polarity, int(rng.integers(n_actions)), conditions)] = None
        drawn.append(RuleSet(tuple(rules)))
    return drawn
