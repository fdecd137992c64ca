"""Search for signed maps that leave a structure unchanged.

`search_maps` tries one start after another: a map of discrete actions, or a pair of nodes that must map to each other.
From each start the map grows node by node, as in individualisation and refinement of coloured graphs, but with noise:
the nodes that are mapped so far say how well each other node fits each image, and the clearest fits are mapped next.
The full map is then improved while another assignment, an exchange or a change of a sign improves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.relations.check.answers import Flags, Values
from legible.relations.discovery.signed_map import SignedMap
from legible.relations.discovery.structure import Structure

NEVER = 1e6
# Preference for maps that change little, where the structure does not decide.
INERTIA = 1e-4
MOST_ITERATIONS = 20
# A node moves if it then fits the nodes that moved before better by this share of its squared entries.
LEAST_GAIN = 0.02
# Pairs of features in a map with at most this mismatch start no search of their own.
GOOD_MISMATCH = 0.1
# All maps of at most this many discrete actions are tried.
FEW_ACTIONS = 5
# All signs of at most this many features are tried.
FEW_FEATURES = 6
# With more nodes than FEW_NODES, FEW_IMAGES images are tried for each.
FEW_NODES, FEW_IMAGES = 12, 3


@dataclass(frozen=True)
class Proposal:
    """A map and its mismatch: 0 for equal structure up to noise, about 1 for an unrelated one."""

    map: SignedMap
    mismatch: float


class Matcher:
    """Completes maps of nodes for a given map of discrete actions."""

    def __init__(self, structure: Structure) -> None:
        self.structure, self.size = structure, len(structure.allowed)

    def matrices(self, actions: NDArray[np.int64]) -> tuple[Values, Values]:
        """Return the matrices of one half of the data, and the matrices of the other half that they must become."""
        here, there = [], []
        for part in self.structure.matrices:
            one, other = part.clear
            here.append(one)
            there.append(other[actions] if len(other) > 1 else other)
        return np.concatenate(here), np.concatenate(there)

    def attributes(self, actions: NDArray[np.int64]) -> tuple[Values, Values]:
        """Return minus the squared distances of attributes of nodes: with equal and with opposite signs."""
        equal, opposite = np.zeros((2, self.size, self.size))
        for parts, sign in ((self.structure.odd, -1.0), (self.structure.even, 1.0)):
            for part in parts:
                one, other = part.clear
                other = other[actions] if len(other) > 1 else other
                squares = (one**2).sum(axis=0)[:, None] + (other**2).sum(axis=0)[None, :]
                cross = 2 * one.T @ other
                equal -= squares - cross
                opposite -= squares - sign * cross
        here, there = self.matrices(actions)
        diagonals = np.einsum("lii->li", here), np.einsum("lii->li", there)
        squares = (diagonals[0] ** 2).sum(axis=0)[:, None] + (diagonals[1] ** 2).sum(axis=0)[None, :]
        own = squares - 2 * diagonals[0].T @ diagonals[1]
        return equal - own + INERTIA * np.eye(self.size), opposite - own

    def together(self, feature: int) -> frozenset[int]:  # noqa: ARG002 (others form groups)
        """Return the features that are repaired together: all."""
        return frozenset(range(self.structure.n_features))

    def correct(
        self, signed: SignedMap, wrong: frozenset[int], tried: Iterable[tuple[int, int, int]]
    ) -> SignedMap | None:
        """Return the map with other images for wrong features, given those of all others; None if there are none.

        `tried` holds features with images and signs that are known to be wrong.
        """
        n = self.structure.n_features
        parts = [*zip(signed.action_images, signed.action_signs, strict=True)] if self.size > n else []
        forced = {i: (signed.images[i], signed.signs[i]) for i in range(n) if i not in wrong}
        forced |= {n + g: (n + image, sign) for g, (image, sign) in enumerate(parts)}
        actions = np.array([0] if parts else signed.action_images, np.int64)
        structure = self.structure
        allowed, opposite = structure.allowed.copy(), structure.opposite.copy()
        for i, image, sign in tried:
            (allowed if sign > 0 else opposite)[i, image] = False
        completed = Matcher(replace(structure, allowed=allowed, opposite=opposite)).complete(actions, forced)
        return None if completed is None else as_map(structure, actions, *completed)

    def _allowed(self, forced: dict[int, tuple[int, int]]) -> tuple[Flags, Flags]:
        """Return which nodes may map to which with equal and with opposite signs, given the images of some nodes."""
        allowed = self.structure.allowed.copy(), self.structure.opposite.copy()
        for i, (j, sign) in forced.items():
            for part, its_sign in zip(allowed, (1, -1), strict=True):
                keep = part[i, j] and sign == its_sign
                part[i], part[:, j] = False, False
                part[i, j] = keep
        return allowed

    def complete(
        self, actions: NDArray[np.int64], forced: dict[int, tuple[int, int]]
    ) -> tuple[NDArray[np.int64], Values] | None:
        """Return images and signs of nodes, given those of some nodes; None if that is impossible."""
        here, there = self.matrices(actions)
        plus, minus = self.attributes(actions)
        allowed = self._allowed(forced)
        g = np.zeros((self.size, self.size))
        for i, (j, sign) in forced.items():
            g[i, j] = sign
        open_nodes = np.array([i for i in range(self.size) if i not in forced])
        while open_nodes.size:
            known = np.flatnonzero(g.any(axis=1))
            images = np.abs(g[known]).argmax(axis=1)
            cross = 2 * gradient(here, there, g)
            squares = (here[:, :, known] ** 2).sum(axis=(0, 2)) + (here[:, known] ** 2).sum(axis=(0, 1))
            image_squares = (there[:, :, images] ** 2).sum(axis=(0, 2)) + (there[:, images] ** 2).sum(axis=(0, 1))
            base = squares[:, None] + image_squares[None, :]
            equal, opposite = plus - base + cross, minus - base - cross
            weight, pair_signs = _assign(equal, opposite, allowed)
            best = np.where(allowed[0], equal, -NEVER), np.where(allowed[1], opposite, -NEVER)
            chosen = weight[open_nodes].argmax(axis=1)
            got = np.maximum(*best)[open_nodes, chosen]
            if (got <= -NEVER / 2).any():
                return None
            # How much worse is the next best image or sign?
            rivals = np.stack(best)[:, open_nodes].copy()
            rivals[np.where(pair_signs[open_nodes, chosen] > 0, 0, 1), np.arange(len(open_nodes)), chosen] = -NEVER
            margin = got - rivals.max(axis=(0, 2))
            relative = margin / (base[open_nodes, chosen] - (plus + minus)[open_nodes, chosen] + 1e-6)
            take = np.argsort(-relative, kind="stable")[: max(1, len(open_nodes) // 8)]
            for place in take:
                i, j = int(open_nodes[place]), int(chosen[place])
                g[i, j] = pair_signs[i, j]
                for part, its_sign in zip(allowed, (1, -1), strict=True):
                    keep = part[i, j] and g[i, j] == its_sign
                    part[i], part[:, j] = False, False
                    part[i, j] = keep
            open_nodes = np.delete(open_nodes, take)
        return self._polish(here, there, plus, minus, g, forced)

    def grow(
        self, actions: NDArray[np.int64], forced: dict[int, tuple[int, int]]
    ) -> tuple[NDArray[np.int64], Values] | None:
        """Return images and signs of nodes. A node keeps its place unless another fits the moved nodes much better.

        `forced` are images and signs of some nodes. The result is None if no completion is allowed.
        """
        here, there = self.matrices(actions)
        plus, minus = self.attributes(actions)
        equal, opposite = self.structure.allowed.copy(), self.structure.opposite.copy()
        energy = (here**2).sum(axis=(0, 1)) + (here**2).sum(axis=(0, 2))
        g = np.zeros((self.size, self.size))  # the map: g[i, j] is the sign if node i maps to j, else 0
        waiting: list[int] = []  # nodes that must move, because another node maps to them
        forced_pairs = list(forced.items())
        while True:
            if forced_pairs:
                i, (j, sign) = forced_pairs.pop()
            else:
                known = np.flatnonzero(g.any(axis=1))
                images = np.abs(g[known]).argmax(axis=1)
                cross = 2 * gradient(here, there, g)
                squares = (here[:, :, known] ** 2).sum(axis=(0, 2)) + (here[:, known] ** 2).sum(axis=(0, 1))
                image_squares = (there[:, :, images] ** 2).sum(axis=(0, 2)) + (there[:, images] ** 2).sum(axis=(0, 1))
                base = squares[:, None] + image_squares[None, :]
                costs = np.stack([base - cross - plus, base + cross - minus])
                stay = np.diag(costs[0])
                moves = np.where(np.stack([equal, opposite]), costs, np.inf)
                moves[0, np.arange(self.size), np.arange(self.size)] = np.inf
                best = moves.min(axis=(0, 2))
                if waiting:
                    # The place of this node is taken, so it must move.
                    i = min(waiting, key=lambda node: float(best[node]))
                    if not np.isfinite(best[i]):
                        return None
                else:
                    gain = np.where(np.isfinite(best), stay - best, -np.inf)
                    gain[known] = -np.inf
                    gain[gain < np.maximum(LEAST_GAIN * energy, 0.3 * stay)] = -np.inf
                    i = int(gain.argmax())
                    if not np.isfinite(gain[i]):
                        break
                opposed, j = divmod(int(moves[:, i].argmin()), self.size)
                sign = -1 if opposed else 1
            g[i, j] = sign
            equal[i] = opposite[i] = False
            equal[:, j] = opposite[:, j] = False
            if i in waiting:
                waiting.remove(i)
            if not g[j].any() and j not in waiting:
                waiting.append(j)
        for still in np.flatnonzero(~g.any(axis=1)):
            g[still, still] = 1.0
        return self._polish(here, there, plus, minus, g, forced)

    def _polish(
        self,
        here: Values,
        there: Values,
        plus: Values,
        minus: Values,
        g: Values,
        forced: dict[int, tuple[int, int]],
    ) -> tuple[NDArray[np.int64], Values]:
        """Improve a full map by assigning all nodes anew, by exchanging two images and by changing single signs."""
        g = self._reassign(here, there, plus, minus, g, forced)
        free = np.array([i for i in range(self.size) if i not in forced and self.structure.active[i]], np.int64)
        best = self.value(here, there, plus, minus, g)
        equal, opposite = self.structure.allowed, self.structure.opposite
        for _ in range(MOST_ITERATIONS):
            slope = 2 * gradient(here, there, g) + (plus - minus) / 2
            images = np.abs(g).argmax(axis=1)
            signs = g[np.arange(self.size), images]
            own = (slope * g).sum(axis=1)
            trials = []
            across = np.abs(slope[:, images])
            gain = across + across.T - own[:, None] - own[None, :]
            permitted = (self.structure.allowed | opposite)[:, images]
            gain[~(permitted & permitted.T)] = -np.inf
            pairs = [(i, j) for i in free for j in free if i < j and np.isfinite(gain[i, j])]
            for i, j in sorted(pairs, key=lambda pair: -gain[pair])[:12]:
                trial = g.copy()
                trial[[i, j]] = 0.0
                for one, image in ((i, images[j]), (j, images[i])):
                    trial[one, image] = (
                        1.0 if not opposite[one, image] or (equal[one, image] and slope[one, image] >= 0) else -1.0
                    )
                trials.append(trial)
            for i in free[np.argsort(own[free], kind="stable")[:6]]:
                if (equal if signs[i] < 0 else opposite)[i, images[i]]:
                    trial = g.copy()
                    trial[i, images[i]] = -signs[i]
                    trials.append(trial)
            values = [self.value(here, there, plus, minus, trial) for trial in trials]
            if not values or max(values) <= best + 1e-9:
                break
            place = int(np.argmax(values))
            g, best = trials[place], values[place]
        images = np.abs(g).argmax(axis=1)
        return images, g[np.arange(self.size), images]

    def _reassign(
        self, here: Values, there: Values, plus: Values, minus: Values, g: Values, forced: dict[int, tuple[int, int]]
    ) -> Values:
        """Assign all nodes anew while that improves the map: each goes where it fits the images of all others best."""
        allowed = self._allowed(forced)
        best = self.value(here, there, plus, minus, g)
        for _ in range(MOST_ITERATIONS):
            cross = 2 * gradient(here, there, g)
            weight, signs = _assign(plus + cross, minus - cross, allowed)
            value = self.value(here, there, plus, minus, weight * signs)
            if value <= best + 1e-9:
                break
            g, best = weight * signs, value
        return g

    @staticmethod
    def value(here: NDArray[Any], there: NDArray[Any], plus: Values, minus: Values, g: Values) -> float:
        """Return how well the map `g` fits: the larger, the better."""
        quadratic = float((gradient(here, there, g) * g).sum())
        return quadratic + float(plus[g > 0].sum() + minus[g < 0].sum())

    def mismatch(self, actions: NDArray[np.int64], images: NDArray[np.int64], signs: Values) -> float:
        """Return the mismatch of everything that the map touches, without noise."""
        structure, pairs = self.structure, signs[:, None] * signs[None, :]
        moved = (images != np.arange(self.size)) | (signs < 0)
        moved_actions = actions != np.arange(len(actions))
        total, norm = 0.0, 0.0
        kinds = ((structure.matrices, pairs), (structure.odd, signs), (structure.even, np.ones(self.size)))
        for parts, sign in kinds:
            for part in parts:
                (one, other), (noise, other_noise) = part.values, part.noise
                if len(other) > 1:
                    other, other_noise = other[actions], other_noise[actions]
                place = (images[:, None], images[None, :]) if one.ndim == 3 else (images,)
                other, other_noise = other[:, *place], other_noise[:, *place]
                errors = (one * sign - other) ** 2 - noise - other_noise
                norms = one**2 + other**2 - noise - other_noise
                touched = (moved[:, None] | moved[None, :]) if one.ndim == 3 else moved
                touched = np.broadcast_to(touched, one.shape).copy()
                if len(one) > 1:
                    touched[moved_actions] = True
                total += float(errors[touched].sum())
                norm += float(norms[touched].sum())
        for part in structure.per_action:
            (one, other), (noise, other_noise) = part.values, part.noise
            total += float(((one - other[actions]) ** 2 - noise - other_noise[actions])[moved_actions].sum())
            norm += float((one**2 + other[actions] ** 2 - noise - other_noise[actions])[moved_actions].sum())
        return max(total, 0.0) / norm if norm > 1e-6 else 1.0


def gradient(here: NDArray[Any], there: NDArray[Any], g: NDArray[Any]) -> Values:
    """Return the sums of ``here · G · thereᵀ`` and of the same for transposed matrices."""
    return np.asarray((here @ g @ there.transpose(0, 2, 1) + here.transpose(0, 2, 1) @ g @ there).sum(axis=0))


def _assign(plus: Values, minus: Values, allowed: tuple[Flags, Flags]) -> tuple[Values, Values]:
    """Return the best assignment as a 0-1 matrix, and the sign of every pair."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 (it takes a while)

    equal, opposite = np.where(allowed[0], plus, -NEVER), np.where(allowed[1], minus, -NEVER)
    sign = np.where(equal >= opposite, 1.0, -1.0)
    rows, columns = linear_sum_assignment(np.maximum(equal, opposite), maximize=True)
    weight = np.zeros(plus.shape)
    weight[rows, columns] = 1.0
    return weight, sign


def action_maps(structure: Structure) -> Iterator[NDArray[np.int64]]:
    """Yield maps of discrete actions: all of few actions, first those that exchange two, else exchanges of pairs.

    The identity comes after the exchanges.
    """
    n = structure.n_actions
    if n <= FEW_ACTIONS:
        places = np.arange(n)
        every = [np.array(images, np.int64) for images in permutations(range(n))]
        moved = {0: 2.5}
        yield from sorted(every, key=lambda images: moved.get(int((images != places).sum()), (images != places).sum()))
        return
    for i in range(n):
        for j in range(i + 1, n):
            images = np.arange(n)
            images[[i, j]] = j, i
            yield images
    yield np.arange(n)


def search_maps(structure: Structure, most_mismatch: float, stop: Callable[[], bool] = lambda: False) -> list[Proposal]:
    """Return maps whose mismatch is at most `most_mismatch`: the best for each map of actions, then the second best.

    `Matcher.grow` adds one pair of features after another, `Matcher.complete` assigns all at once. The identity of the
    actions has many symmetric features, so its maps start from pairs that are given ("forced").
    """
    matcher = Matcher(structure)
    found: dict[SignedMap, Proposal] = {}
    n = structure.n_features

    def add(actions: NDArray[np.int64], images: NDArray[np.int64], signs: Values) -> None:
        candidate = as_map(structure, actions, images, signs)
        if not candidate.is_identity and candidate not in found:
            found[candidate] = Proposal(candidate, matcher.mismatch(actions, images, signs))

    for actions in action_maps(structure):
        is_identity = bool((actions == np.arange(len(actions))).all())
        starts = _forced_pairs(structure, matcher) if is_identity else iter([{}])
        for forced in starts:
            if stop():
                break
            if is_identity and n > FEW_FEATURES and _is_found(forced, found.values(), n):
                continue
            for completed in (
                matcher.grow(actions, forced),
                matcher.complete(actions, forced) if not forced or structure.n_actions == 1 else None,
            ):
                if completed is None:
                    continue
                add(actions, *completed)
                if n <= FEW_FEATURES:
                    for signs in product((1.0, -1.0), repeat=n):
                        add(actions, completed[0], np.array([*signs, *completed[1][n:]]))
    good = [proposal for proposal in found.values() if proposal.mismatch <= most_mismatch]
    # Near copies of one good map must not keep those of other actions from being tried.
    ranks: dict[tuple[int, ...], int] = {}
    ordered = []
    for proposal in sorted(good, key=lambda proposal: (proposal.mismatch, proposal.map)):
        rank = ranks.get(proposal.map.action_images, 0)
        ranks[proposal.map.action_images] = rank + 1
        ordered.append((rank, proposal.mismatch, proposal.map, proposal))
    return [proposal for *_, proposal in sorted(ordered, key=lambda entry: entry[:3])]


def _is_found(forced: dict[int, tuple[int, int]], found: Iterable[Proposal], n: int) -> bool:
    """Return whether a good map without a change of discrete actions already maps these nodes as they must."""
    wanted = [(node, image, sign) for node, (image, sign) in forced.items() if node < n]
    return bool(wanted) and any(
        (proposal.map.images[node], proposal.map.signs[node]) == (image, sign)
        for proposal in found
        if proposal.mismatch <= GOOD_MISMATCH and not proposal.map.changes_actions
        for node, image, sign in wanted
    )


def _forced_pairs(structure: Structure, matcher: Matcher) -> Iterator[dict[int, tuple[int, int]]]:
    """Yield pairs of nodes that must map to each other, with a sign: those with the nearest attributes."""
    size = len(structure.allowed)
    equal, opposite = matcher.attributes(np.arange(structure.n_actions))
    order = [*range(structure.n_features, size), *range(structure.n_features)]
    for i in (i for i in order if structure.active[i]):
        options = [
            (float(match[i, j]), j, sign)
            for match, allowed, sign in ((equal, structure.allowed, 1), (opposite, structure.opposite, -1))
            for j in np.flatnonzero(allowed[i]).tolist()
            if structure.active[j] and (j, sign) != (i, 1)
        ]
        for _, j, sign in sorted(options, key=lambda option: -option[0])[: FEW_IMAGES if size > FEW_NODES else None]:
            yield {i: (j, sign)}


def as_map(structure: Structure, actions: NDArray[np.int64], images: NDArray[np.int64], signs: Values) -> SignedMap:
    """Return images and signs of nodes with images of discrete actions as a map."""
    n = structure.n_features
    feature_images, feature_signs = tuple(images[:n].tolist()), tuple(int(s) for s in signs[:n])
    if len(images) > n:
        return SignedMap(
            feature_images, feature_signs, tuple((images[n:] - n).tolist()), tuple(int(s) for s in signs[n:])
        )
    return SignedMap(feature_images, feature_signs, tuple(actions.tolist()), (1,) * len(actions))
