"""Search for maps of features that contain choices: groups of flags of which exactly one is on.

A symmetry maps choices to choices. `ChoiceSearch` assigns choices as wholes and single features one by one, and
maximises the agreement of a `Structure.of_support` with the Frank-Wolfe method, from several starts and with some
choices set free again. That is fast enough to try every map of few discrete actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from legible.relations.check.answers import Flags, Values
from legible.relations.discovery.repair import MANY_FEATURES
from legible.relations.discovery.sampling import Sample
from legible.relations.discovery.search import NEVER, Agreement, Matcher, Proposal, action_maps, as_map
from legible.relations.discovery.structure import Structure, find_choices

MOST_STEPS, MOST_ASCENTS = 30, 20
# Starts and kicks for every map of actions; kicks for each of the best maps.
STARTS, FIRST_KICKS, KICKS, BEST_MAPS = 3, 12, 60, 12
# Kicks where screening repairs maps.
FEW_FIRST_KICKS, FEW_KICKS = 4, 12
# Choices and features that a kick sets free.
MOST_FREE = 8
# Spread of the logarithms of random starts.
START_NOISE = 0.5
SCALING_STEPS = 15
# Matrices of a structure that are about single actions.
OF_ACTIONS = 2


class _Found(NamedTuple):
    images: NDArray[np.int64]
    signs: Values
    value: float


class ChoiceSearch:
    """Finds maps of features for given maps of discrete actions."""

    def __init__(self, structure: Structure, choices: Sequence[NDArray[np.int64]]) -> None:
        inside = set(np.concatenate(choices).tolist())
        single = [i for i in range(structure.n_features) if i not in inside]
        self.choices, self.single = list(choices), np.array(single, np.int64)
        self.groups = [*choices, *(np.array([i]) for i in single)]
        sizes = np.ones(structure.n_features, np.int64)
        for choice in choices:
            sizes[choice] = len(choice)
        alike = sizes[:, None] == sizes[None, :]
        self.allowed = structure.allowed & alike, structure.opposite & alike
        self.matcher, self.structure = Matcher(structure), structure
        self._of_actions = Matcher(replace(structure, matrices=structure.matrices[-OF_ACTIONS:]))

    def search(self, rng: np.random.Generator, stop: Callable[[], bool] = lambda: False) -> list[Proposal]:
        """Return maps, the best first: those of the most promising maps of actions, and exchanges of choices."""
        is_repaired = self.structure.n_features > MANY_FEATURES
        first_kicks, kicks = (FEW_FIRST_KICKS, FEW_KICKS) if is_repaired else (FIRST_KICKS, KICKS)
        exchanges = sorted(self._exchanges(rng, stop, first_kicks), key=lambda proposal: proposal.mismatch)[:BEST_MAPS]
        found: list[tuple[float, NDArray[np.int64], _Found]] = []
        for actions in self._some_action_maps():
            if stop():
                break
            best = self.climb(actions, rng, STARTS, first_kicks)
            found.append((self._of_actions.mismatch(actions, best.images, best.signs), actions, best))
        proposals = []
        for _, actions, best in sorted(found, key=lambda entry: entry[0])[:BEST_MAPS]:
            better = best if stop() else self.climb(actions, rng, 0, kicks, best)
            proposals.append(self._propose(actions, better))
        # Every second proposal exchanges choices without a change of actions, while there are any.
        mixed = [proposal for pair in zip(proposals, exchanges, strict=False) for proposal in pair]
        count = len(mixed) // 2
        unique = dict.fromkeys([*mixed, *proposals[count:], *exchanges[count:]])
        return [proposal for proposal in unique if not proposal.map.is_identity]

    def _some_action_maps(self) -> Iterator[NDArray[np.int64]]:
        """Yield maps of actions without the identity; one of each map and its inverse."""
        seen: set[tuple[int, ...]] = {tuple(range(self.structure.n_actions))}
        for actions in action_maps(self.structure):
            if tuple(np.argsort(actions).tolist()) not in seen:
                seen.add(tuple(actions.tolist()))
                yield actions

    def _exchanges(self, rng: np.random.Generator, stop: Callable[[], bool], kicks: int) -> Iterator[Proposal]:
        """Yield a map that keeps actions for every two choices of one size: the first maps to the second."""
        actions = np.arange(self.structure.n_actions)
        for one, other in combinations(self.choices, 2):
            if len(one) == len(other) and not stop():
                outside = np.setdiff1d(np.arange(self.structure.n_features), other)
                allowed = self.allowed[0].copy(), self.allowed[1].copy()
                for part in allowed:
                    part[np.ix_(one, outside)] = False
                yield self._propose(actions, self.climb(actions, rng, 1, kicks, allowed=allowed))

    def _propose(self, actions: NDArray[np.int64], found: _Found) -> Proposal:
        mismatch = self.matcher.mismatch(actions, found.images, found.signs)
        return Proposal(as_map(self.structure, actions, found.images, found.signs), mismatch)

    def climb(
        self,
        actions: NDArray[np.int64],
        rng: np.random.Generator,
        starts: int,
        kicks: int,
        best: _Found | None = None,
        allowed: tuple[Flags, Flags] | None = None,
    ) -> _Found:
        """Return the best map of features that is found for one map of actions.

        The search ascends from some random starts. Then each kick sets some images of the best map free and ascends
        again.

        Parameters
        ----------
        actions
            The image of each discrete action.
        starts, kicks
            How many of each.
        best
            A map that is known already.
        allowed
            ``bool[features, images]`` with equal and with opposite signs: the images that are allowed.
        """
        allowed = self.allowed if allowed is None else allowed
        agreement = self.matcher.agreement(actions)
        agreement = agreement._replace(
            sources=agreement.sources.astype(np.float32), targets=agreement.targets.astype(np.float32)
        )
        for number in range(starts):
            noise = rng.standard_normal(allowed[0].shape) * (START_NOISE if number else 0.0)
            found = self._ascend(agreement, self._spread(allowed, noise), allowed)
            if best is None or found.value > best.value:
                best = found
        assert best is not None
        for _ in range(kicks):
            chosen = rng.permutation(len(self.groups))[: rng.integers(2, MOST_FREE + 1)]
            free = np.concatenate([self.groups[k] for k in chosen])
            # The weights of the best map, except that the free features share their images evenly.
            weights = np.zeros((2, *allowed[0].shape))  # [equal or opposite sign, features, images]
            weights[np.where(best.signs > 0, 0, 1), np.arange(len(best.images)), best.images] = 1.0
            free_pairs = np.ix_(free, best.images[free])
            spread_weights = self._spread((allowed[0][free_pairs], allowed[1][free_pairs]))
            for weights_of_sign, spread in zip(weights, spread_weights, strict=True):
                weights_of_sign[free_pairs] = spread
            found = self._ascend(agreement, weights, allowed)
            if found.value > best.value + 1e-9:
                best = found
        return best

    @staticmethod
    def _spread(allowed: tuple[Flags, Flags], noise: Values | float = 0.0) -> Values:
        """Return weights ``[2, features, images]``, with sums near 1, for equal and for opposite signs."""
        ways = allowed[0].astype(float) + allowed[1]
        weight = ways * np.exp(noise)
        for _ in range(SCALING_STEPS):
            weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
            weight /= np.maximum(weight.sum(axis=0, keepdims=True), 1e-12)
        return np.stack([weight * part / np.maximum(ways, 1.0) for part in allowed])

    def _ascend(self, agreement: Agreement, start: Values, allowed: tuple[Flags, Flags]) -> _Found:
        """Return the map that the Frank-Wolfe method reaches from weights, and repeated assignments then improve.

        `start` are weights of pairs between 0 and 1, ``[2, features, images]``: with equal and with opposite signs.
        """
        equal, opposite = agreement.equal, agreement.opposite
        weights = start
        for _ in range(MOST_STEPS):
            slope = 2 * agreement.slope((weights[0] - weights[1]).astype(np.float32))
            towards = self._assign(equal + slope, opposite - slope, allowed) - weights
            step = (towards[0] - towards[1]).astype(np.float32)
            # The value along the step is a parabola with these coefficients; go to its top, at most the whole step.
            linear = float((slope * step).sum() + (equal * towards[0] + opposite * towards[1]).sum())
            quadratic = float((agreement.slope(step) * step).sum())
            if linear <= 1e-5:
                break
            weights = weights + towards * (1.0 if quadratic >= 0 else min(1.0, -linear / (2 * quadratic)))
        # Round the weights to a map, then take the best assignment for the slope there, as long as the value rises.
        assigned = self._assign(weights[0], weights[1], allowed)
        value = -np.inf
        for _ in range(MOST_ASCENTS):
            mapping = assigned[0] - assigned[1]
            new = agreement.value(mapping)
            if new <= value + 1e-9:
                break
            value, best = new, mapping
            slope = 2 * agreement.slope(mapping.astype(np.float32))
            assigned = self._assign(equal + slope, opposite - slope, allowed)
        images = np.abs(best).argmax(axis=1)
        return _Found(images, best[np.arange(len(images)), images], value)

    def _assign(self, plus: Values, minus: Values, allowed: tuple[Flags, Flags]) -> Values:
        """Return the best assignment ``[2, features, images]`` of 0 and 1 that maps choices to choices."""
        both = np.stack([np.where(allowed[0], plus, -NEVER), np.where(allowed[1], minus, -NEVER)])
        best, signs = both.max(axis=0), both.argmax(axis=0)
        n, count = len(self.choices), len(self.groups)
        worth = np.full((count, count), -100 * NEVER)
        worth[n:, n:] = best[np.ix_(self.single, self.single)]
        inner = {}
        for a, one in enumerate(self.choices):
            for b, other in enumerate(self.choices):
                if len(one) == len(other):
                    inside = best[np.ix_(one, other)]
                    rows, columns = linear_sum_assignment(inside, maximize=True)
                    inner[a, b], worth[a, b] = other[columns], inside[rows, columns].sum()
        assigned = np.zeros(both.shape)
        for a, b in zip(*linear_sum_assignment(worth, maximize=True), strict=True):
            sources = self.groups[a]
            images = inner[a, b] if a < n else self.groups[b]
            assigned[signs[sources, images], sources, images] = 1.0
        return assigned


def choice_search(sample: Sample) -> ChoiceSearch | None:
    """Return the search for features with choices; None without any, or if actions are not discrete."""
    choices = find_choices(sample) if sample.actions.ndim == 1 else []
    return ChoiceSearch(Structure.of_support(sample), choices) if choices else None
