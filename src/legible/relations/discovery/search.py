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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.relations.check.answers import Flags, Values
from legible.relations.discovery.signed_map import SignedMap
from legible.relations.discovery.structure import Part, Structure

NEVER = 1e6
# Preference for maps that change little, where the structure does not decide.
INERTIA = 1e-4
MOST_ITERATIONS = 20
# Exchanges of two images and changes of a sign that are tried in one iteration.
MOST_EXCHANGES, MOST_SIGN_CHANGES = 12, 6
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


class Agreement(NamedTuple):
    """Fit of maps of nodes with a structure, for one map of discrete actions.

    A map of nodes is a matrix, ``mapping``: entry [i, j] is the sign if node i maps to node j, else 0.

    Parameters
    ----------
    sources, targets
        ``[matrices, nodes, nodes]``: matrices of one half of the data, and those of the other half, for the image
        actions. A symmetry G turns each source W into its target G W Gᵀ.
    equal, opposite
        ``[nodes, nodes]``: minus the squared distance of the attributes of two nodes, where the first maps to the
        second with an equal and with an opposite sign.
    """

    sources: NDArray[Any]
    targets: NDArray[Any]
    equal: Values
    opposite: Values

    def slope(self, mapping: NDArray[Any]) -> Values:
        """Return for every pair of nodes how well it agrees, in all matrices, with the pairs of a map."""
        forwards = self.sources @ mapping @ self.targets.transpose(0, 2, 1)
        backwards = self.sources.transpose(0, 2, 1) @ mapping @ self.targets
        return np.asarray((forwards + backwards).sum(axis=0))

    def value(self, mapping: Values) -> float:
        """Return how well a map fits: the larger, the better."""
        quadratic = float((self.slope(mapping) * mapping).sum())
        return quadratic + float(self.equal[mapping > 0].sum() + self.opposite[mapping < 0].sum())

    def squares_with_mapped(self, mapping: Values) -> Values:
        """Return for every pair of nodes the squared entries that it shares with the nodes mapped so far."""
        nodes = np.flatnonzero(mapping.any(axis=1))
        images = np.abs(mapping[nodes]).argmax(axis=1)
        of_sources = (self.sources[:, :, nodes] ** 2).sum(axis=(0, 2)) + (self.sources[:, nodes] ** 2).sum(axis=(0, 1))
        of_images = (self.targets[:, :, images] ** 2).sum(axis=(0, 2)) + (self.targets[:, images] ** 2).sum(axis=(0, 1))
        return np.asarray(of_sources[:, None] + of_images[None, :])


class Matcher:
    """Completes maps of nodes for a given map of discrete actions."""

    def __init__(self, structure: Structure) -> None:
        self.structure, self.size = structure, len(structure.allowed)

    def agreement(self, actions: NDArray[np.int64]) -> Agreement:
        """Return how well maps of nodes fit, given the images of discrete actions."""
        parts = [part.clear for part in self.structure.matrices]
        sources = np.concatenate([first for first, _ in parts])
        targets = np.concatenate([second[actions] if len(second) > 1 else second for _, second in parts])
        equal, opposite = np.zeros((2, self.size, self.size))
        for attributes, sign in ((self.structure.odd, -1.0), (self.structure.even, 1.0)):
            for part in attributes:
                first, second = part.clear
                second = second[actions] if len(second) > 1 else second
                squares = (first**2).sum(axis=0)[:, None] + (second**2).sum(axis=0)[None, :]
                cross = 2 * first.T @ second
                equal -= squares - cross
                opposite -= squares - sign * cross
        # The effect of a node on itself is an attribute, too.
        own, image_own = np.einsum("lii->li", sources), np.einsum("lii->li", targets)
        squares = (own**2).sum(axis=0)[:, None] + (image_own**2).sum(axis=0)[None, :]
        distances = squares - 2 * own.T @ image_own
        return Agreement(sources, targets, equal - distances + INERTIA * np.eye(self.size), opposite - distances)

    def fits_of_pairs(self, signed: SignedMap) -> Values:
        """Return how well images of features fit a map, ``[2, features, images]``: with equal and opposite signs."""
        n = self.structure.n_features
        mapping = np.zeros((self.size, self.size))
        mapping[np.arange(n), list(signed.images)] = signed.signs
        if self.size > n:  # further nodes are the parts of actions
            mapping[np.arange(n, self.size), n + np.array(signed.action_images)] = signed.action_signs
        agreement = self.agreement(np.array([0] if self.size > n else signed.action_images, np.int64))
        cross = 2 * agreement.slope(mapping)
        return np.stack([agreement.equal + cross, agreement.opposite - cross])[:, :n, :n]

    def correct(
        self, signed: SignedMap, wrong: frozenset[int], tried: Iterable[tuple[int, int, int]]
    ) -> SignedMap | None:
        """Return the map with other images for wrong features, given those of all others; None if there are none.

        `tried` holds features with images and signs that are known to be wrong.
        """
        n = self.structure.n_features
        parts = [*zip(signed.action_images, signed.action_signs, strict=True)] if self.size > n else []
        forced = {i: (signed.images[i], signed.signs[i]) for i in range(n) if i not in wrong}
        forced |= {n + number: (n + image, sign) for number, (image, sign) in enumerate(parts)}
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
        """Return images and signs of nodes, given those of some nodes; None if that is impossible.

        In each round all open nodes are assigned, and the eighth of them with the clearest images is kept.
        """
        agreement = self.agreement(actions)
        allowed = self._allowed(forced)
        mapping = np.zeros((self.size, self.size))
        for i, (j, sign) in forced.items():
            mapping[i, j] = sign
        open_nodes = np.array([i for i in range(self.size) if i not in forced])
        while open_nodes.size:
            # How well each pair fits with an equal and with an opposite sign: minus the squared distance of attributes,
            # and of its entries with the nodes mapped so far.
            cross, squares = 2 * agreement.slope(mapping), agreement.squares_with_mapped(mapping)
            equal, opposite = agreement.equal - squares + cross, agreement.opposite - squares - cross
            assigned, pair_signs = _assign(equal, opposite, allowed)
            images = assigned[open_nodes].argmax(axis=1)
            rows = np.arange(len(open_nodes))
            # scores[sign, open node, image]; the score of an image minus that of the best rival is its margin.
            scores = np.stack([np.where(allowed[0], equal, -NEVER), np.where(allowed[1], opposite, -NEVER)])
            scores = scores[:, open_nodes]
            chosen_scores = scores.max(axis=0)[rows, images]
            if (chosen_scores <= -NEVER / 2).any():
                return None
            scores[np.where(pair_signs[open_nodes, images] > 0, 0, 1), rows, images] = -NEVER
            margins = chosen_scores - scores.max(axis=(0, 2))
            attributes = (agreement.equal + agreement.opposite)[open_nodes, images]
            relative_margins = margins / (squares[open_nodes, images] - attributes + 1e-6)
            clearest = np.argsort(-relative_margins, kind="stable")[: max(1, len(open_nodes) // 8)]
            for row in clearest:
                i, j = int(open_nodes[row]), int(images[row])
                mapping[i, j] = pair_signs[i, j]
                # From now on, the node has only this image, and no other node has it.
                for part, its_sign in zip(allowed, (1, -1), strict=True):
                    keep = part[i, j] and mapping[i, j] == its_sign
                    part[i], part[:, j] = False, False
                    part[i, j] = keep
            open_nodes = np.delete(open_nodes, clearest)
        return self._polish(agreement, mapping, forced)

    def grow(
        self, actions: NDArray[np.int64], forced: dict[int, tuple[int, int]]
    ) -> tuple[NDArray[np.int64], Values] | None:
        """Return images and signs of nodes. A node keeps its place unless another fits the moved nodes much better.

        `forced` are images and signs of some nodes. The result is None if no completion is allowed.
        """
        agreement = self.agreement(actions)
        # bool[nodes, images]: the pairs that are still allowed, with equal and with opposite signs.
        allowed, allowed_opposite = self.structure.allowed.copy(), self.structure.opposite.copy()
        energy = (agreement.sources**2).sum(axis=(0, 1)) + (agreement.sources**2).sum(axis=(0, 2))
        mapping = np.zeros((self.size, self.size))
        displaced: list[int] = []  # nodes that must move, because another node maps to them
        forced_pairs = list(forced.items())
        while True:
            if forced_pairs:
                i, (j, sign) = forced_pairs.pop()
            else:
                # costs[sign, node, image]: squared distances from the nodes mapped so far.
                cross, squares = 2 * agreement.slope(mapping), agreement.squares_with_mapped(mapping)
                costs = np.stack([squares - cross - agreement.equal, squares + cross - agreement.opposite])
                costs_to_stay = np.diag(costs[0])
                costs_to_move = np.where(np.stack([allowed, allowed_opposite]), costs, np.inf)
                costs_to_move[0, np.arange(self.size), np.arange(self.size)] = np.inf
                least = costs_to_move.min(axis=(0, 2))
                if displaced:  # the displaced node that fits best moves next
                    i = min(displaced, key=lambda node: float(least[node]))
                    if not np.isfinite(least[i]):
                        return None
                else:  # the node that gains most by moving, if the gain is large enough
                    gain = np.where(np.isfinite(least), costs_to_stay - least, -np.inf)
                    gain[mapping.any(axis=1)] = -np.inf
                    gain[gain < np.maximum(LEAST_GAIN * energy, 0.3 * costs_to_stay)] = -np.inf
                    i = int(gain.argmax())
                    if not np.isfinite(gain[i]):
                        break
                opposed, j = divmod(int(costs_to_move[:, i].argmin()), self.size)
                sign = -1 if opposed else 1
            mapping[i, j] = sign
            allowed[i] = allowed_opposite[i] = False
            allowed[:, j] = allowed_opposite[:, j] = False
            if i in displaced:
                displaced.remove(i)
            if not mapping[j].any() and j not in displaced:
                displaced.append(j)
        for still in np.flatnonzero(~mapping.any(axis=1)):  # all other nodes stay where they are
            mapping[still, still] = 1.0
        return self._polish(agreement, mapping, forced)

    def _polish(
        self, agreement: Agreement, mapping: Values, forced: dict[int, tuple[int, int]]
    ) -> tuple[NDArray[np.int64], Values]:
        """Improve a full map by assigning all nodes anew, by exchanging two images and by changing single signs."""
        mapping = self._reassign(agreement, mapping, forced)
        free = np.array([i for i in range(self.size) if i not in forced and self.structure.active[i]], np.int64)
        best = agreement.value(mapping)
        for _ in range(MOST_ITERATIONS):
            slope = 2 * agreement.slope(mapping) + (agreement.equal - agreement.opposite) / 2
            trials = [*self._exchange_images(slope, mapping, free), *self._change_signs(slope, mapping, free)]
            values = [agreement.value(trial) for trial in trials]
            if not values or max(values) <= best + 1e-9:
                break
            number = int(np.argmax(values))
            mapping, best = trials[number], values[number]
        images = np.abs(mapping).argmax(axis=1)
        return images, mapping[np.arange(self.size), images]

    def _exchange_images(self, slope: Values, mapping: Values, free: NDArray[np.int64]) -> Iterator[Values]:
        """Yield the map with the images of two free nodes exchanged, for the pairs that promise most.

        `slope` says how much each pair of a node and an image, with equal signs, would add to the value of the map.
        """
        equal, opposite = self.structure.allowed, self.structure.opposite
        images = np.abs(mapping).argmax(axis=1)
        now = (slope * mapping).sum(axis=1)  # what each node adds with its image
        exchanged = np.abs(slope[:, images])  # [i, j]: what node i would add with the image of node j
        gain = exchanged + exchanged.T - now[:, None] - now[None, :]
        permitted = (equal | opposite)[:, images]
        gain[~(permitted & permitted.T)] = -np.inf
        pairs = [(i, j) for i in free for j in free if i < j and np.isfinite(gain[i, j])]
        for i, j in sorted(pairs, key=lambda pair: -gain[pair])[:MOST_EXCHANGES]:
            trial = mapping.copy()
            trial[[i, j]] = 0.0
            for node, image in ((i, images[j]), (j, images[i])):
                is_equal = not opposite[node, image] or (equal[node, image] and slope[node, image] >= 0)
                trial[node, image] = 1.0 if is_equal else -1.0
            yield trial

    def _change_signs(self, slope: Values, mapping: Values, free: NDArray[np.int64]) -> Iterator[Values]:
        """Yield the map with the sign of one free node changed, for the nodes that add least to its value."""
        images = np.abs(mapping).argmax(axis=1)
        signs, now = mapping[np.arange(self.size), images], (slope * mapping).sum(axis=1)
        for i in free[np.argsort(now[free], kind="stable")[:MOST_SIGN_CHANGES]]:
            allowed = self.structure.allowed if signs[i] < 0 else self.structure.opposite
            if allowed[i, images[i]]:
                trial = mapping.copy()
                trial[i, images[i]] = -signs[i]
                yield trial

    def _reassign(self, agreement: Agreement, mapping: Values, forced: dict[int, tuple[int, int]]) -> Values:
        """Assign all nodes anew while that improves the map: each goes where it fits the images of all others best."""
        allowed = self._allowed(forced)
        best = agreement.value(mapping)
        for _ in range(MOST_ITERATIONS):
            cross = 2 * agreement.slope(mapping)
            assigned, signs = _assign(agreement.equal + cross, agreement.opposite - cross, allowed)
            value = agreement.value(assigned * signs)
            if value <= best + 1e-9:
                break
            mapping, best = assigned * signs, value
        return mapping

    def mismatch(self, actions: NDArray[np.int64], images: NDArray[np.int64], signs: Values) -> float:
        """Return the mismatch of everything that the map touches, without noise.

        It is the share of squared errors in squared entries: 0 for equal structure, about 1 for an unrelated one.
        """
        structure = self.structure
        moved = (images != np.arange(self.size)) | (signs < 0)
        moved_actions = actions != np.arange(len(actions))
        errors_of_touched = squares_of_touched = 0.0

        def add(part: Part, second: Values, second_noise: Values, sign: Values | float, touched: Flags) -> None:
            """Add squared errors and squares of the touched entries of a part; `second` is the mapped second half."""
            nonlocal errors_of_touched, squares_of_touched
            first, noise = part.values[0], part.noise[0] + second_noise
            errors_of_touched += float(((first * sign - second) ** 2 - noise)[touched].sum())
            squares_of_touched += float((first**2 + second**2 - noise)[touched].sum())

        # Parts of a structure, and the factor by which the signs of the map change each of their entries.
        kinds = (
            (structure.matrices, signs[:, None] * signs[None, :]),
            (structure.odd, signs),
            (structure.even, np.ones(self.size)),
        )
        for parts, sign in kinds:
            for part in parts:
                second, second_noise = part.values[1], part.noise[1]  # [actions or 1, nodes] or [.., nodes, nodes]
                if len(second) > 1:
                    second, second_noise = second[actions], second_noise[actions]
                is_matrix = second.ndim == 3
                entries = (images[:, None], images[None, :]) if is_matrix else (images,)
                touched = (moved[:, None] | moved[None, :]) if is_matrix else moved
                touched = np.broadcast_to(touched, second.shape).copy()
                if len(second) > 1:
                    touched[moved_actions] = True
                add(part, second[:, *entries], second_noise[:, *entries], sign, touched)
        for part in structure.per_action:
            touched = np.broadcast_to(moved_actions[:, None], part.values[0].shape)
            add(part, part.values[1][actions], part.noise[1][actions], 1.0, touched)
        return max(errors_of_touched, 0.0) / squares_of_touched if squares_of_touched > 1e-6 else 1.0


def _assign(equal: Values, opposite: Values, allowed: tuple[Flags, Flags]) -> tuple[Values, Values]:
    """Return the best assignment of nodes to images as a 0-1 matrix, and the better sign of every pair.

    `equal` and `opposite` are the scores of pairs with equal and with opposite signs, `allowed` the pairs to choose of.
    """
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 (it takes a while)

    equal, opposite = np.where(allowed[0], equal, -NEVER), np.where(allowed[1], opposite, -NEVER)
    signs = np.where(equal >= opposite, 1.0, -1.0)
    rows, columns = linear_sum_assignment(np.maximum(equal, opposite), maximize=True)
    assigned = np.zeros(equal.shape)
    assigned[rows, columns] = 1.0
    return assigned, signs


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
    """Return maps whose mismatch is at most `most_mismatch`: the best of each map of actions, then each second best.

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
                if n <= FEW_FEATURES:  # try all signs of the features
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
    agreement = matcher.agreement(np.arange(structure.n_actions))
    order = [*range(structure.n_features, size), *range(structure.n_features)]
    for i in (i for i in order if structure.active[i]):
        options = [
            (float(match[i, j]), j, sign)
            for match, allowed, sign in (
                (agreement.equal, structure.allowed, 1),
                (agreement.opposite, structure.opposite, -1),
            )
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
