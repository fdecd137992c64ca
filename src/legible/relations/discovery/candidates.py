"""Candidates: signed maps as relations, with the centres of mirrored features.

- `Candidate`: a signed map with offsets and ignored features; its relations.
- `usual_offsets`, `fit_offsets`: where mirrored features have their centre.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from legible.features import FeatureSpace
from legible.relations.check.answers import Values
from legible.relations.check.settable import StateChecker
from legible.relations.discovery.sampling import Sample
from legible.relations.discovery.signed_map import SignedMap, close
from legible.relations.relation import FeatureRelation, MetamorphicRelation
from legible.relations.values import ANY, EQUAL, NEGATE, ValueRelation, reflect

# States on which the centre of a feature is fitted, and points of the first grid.
FITTED_STATES, GRID, GOLDEN_STEPS = 48, 33, 30
# The middle of the values, as a share of their range, from which on the centre is not taken to be 0.
OFF_CENTRE = 0.15
# With fewer images that are states of the environment, an offset cannot be judged.
MIN_EXISTING_SHARE = 0.3
# A fitted offset that is a smaller share of the range of values is taken to be 0.
NO_OFFSET = 1e-4


@dataclass(frozen=True)
class Candidate:
    """A signed map with the sums ``x + image`` of mirrored features (0 for others), and features to ignore.

    ``prices`` holds features with the share of states in which the environment disagreed before they were ignored.
    """

    map: SignedMap
    offsets: tuple[float, ...]
    ignored: frozenset[int] = frozenset()
    prices: tuple[tuple[int, float], ...] = ()

    def ignoring(self, features: frozenset[int], prices: Mapping[int, float] | None = None) -> Candidate:
        """Return the candidate that also ignores these features and all that the map connects with them."""
        ignored = self.map.orbit(self.ignored | features)
        kept = [
            (i, 1) if i in ignored else pair for i, pair in enumerate(zip(self.map.images, self.map.signs, strict=True))
        ]
        images, signs = zip(*kept, strict=True)
        offsets = tuple(0.0 if i in ignored else offset for i, offset in enumerate(self.offsets))
        new = {i: share for i, share in (prices or {}).items() if i in ignored - self.ignored}
        return replace(
            self,
            map=replace(self.map, images=images, signs=signs),
            offsets=offsets,
            ignored=ignored,
            prices=(*self.prices, *sorted(new.items())),
        )

    def with_offset(self, feature: int, offset: float) -> Candidate:
        """Return the candidate with another offset of a feature, and of its image if that is mapped back."""
        changed = {
            feature,
            *({self.map.images[feature]} if self.map.images[self.map.images[feature]] == feature else ()),
        }
        return replace(self, offsets=tuple(offset if i in changed else old for i, old in enumerate(self.offsets)))

    def follows_from(self, others: Sequence[Candidate]) -> bool:
        """Return whether others, which ignore no other features, generate this map but for its ignored features."""
        kept = [i for i in range(len(self.offsets)) if i not in self.ignored]
        return any(
            (element.action_images, element.action_signs) == (self.map.action_images, self.map.action_signs)
            and all((element.images[i], element.signs[i]) == (self.map.images[i], self.map.signs[i]) for i in kept)
            for element in close([other.map for other in others if other.ignored <= self.ignored])
        )

    @property
    def changes(self) -> bool:
        """True if the candidate changes anything that is not ignored."""
        return not self.map.is_identity

    def value_relation(self, feature: int) -> ValueRelation:
        """Return how values of a feature become values of its image."""
        if self.map.signs[feature] > 0:
            return EQUAL
        about = self.offsets[feature] / 2
        return reflect(about) if about else NEGATE

    def apply(self, observations: Values) -> Values:
        """Return the images of observations; ignored features keep their values."""
        images = observations.copy()
        for i, (j, sign) in enumerate(zip(self.map.images, self.map.signs, strict=True)):
            if i not in self.ignored:
                images[:, j] = observations[:, i] if sign > 0 else self.offsets[i] - observations[:, i]
        return images

    def action_pairs(self, space: FeatureSpace) -> list[tuple[int, int]]:
        """Return all actions, or all choices of groups, with their images."""
        if space.is_discrete:
            return list(enumerate(self.map.action_images))
        pairs = []
        for number, group in enumerate(space.groups):
            image = space.groups[self.map.action_images[number]]
            for place in range(group.count):
                there = place if self.map.action_signs[number] > 0 else group.count - 1 - place
                pairs.append((group.first + place, image.first + there))
        return pairs

    def relations(self, space: FeatureSpace, name: str = "", words: str = "") -> tuple[MetamorphicRelation, ...]:
        """Return the relations of one name, one for every pair of actions."""
        return tuple(
            MetamorphicRelation(
                action,
                image,
                tuple(
                    [
                        FeatureRelation(action, image, i, self.map.images[i], self.value_relation(i))
                        for i in self.map.changes
                    ]
                    + [FeatureRelation(action, image, i, i, ANY) for i in sorted(self.ignored)]
                ),
                name=name,
                words=words,
            )
            for action, image in self.action_pairs(space)
        )


def usual_offsets(sample: Sample, signed: SignedMap) -> tuple[float, ...]:
    """Return the offsets of mirrored features: 0 where the values lie about 0, else the middle of their range."""
    low, high = np.quantile(sample.observations, (0.005, 0.995), axis=0)
    offsets = []
    for i, (j, sign) in enumerate(zip(signed.images, signed.signs, strict=True)):
        middle = (low[i] + high[i] + low[j] + high[j]) / 2
        width = (high[i] - low[i] + high[j] - low[j]) / 2
        off_centre = sign < 0 and abs(middle) > OFF_CENTRE * width
        offsets.append(float(np.float32(middle)) if off_centre else 0.0)
    return tuple(offsets)


def fit_offsets(checker: StateChecker, sample: Sample, candidate: Candidate, rng: np.random.Generator) -> Candidate:
    """Return the candidate with fitted offsets, one feature after the other.

    The offset of a mirrored feature is the sum of a value and its image: twice the centre of the mirror. It is
    best if stepping from the images of states gives most nearly the images of the next states. A grid search finds an
    interval, which a golden-section search then narrows.
    """
    signs, images = candidate.map.signs, candidate.map.images
    chosen = rng.permutation(len(sample.rewards))[:FITTED_STATES]
    scale = np.maximum((sample.after - sample.observations).std(axis=0), 1e-9)
    low, high = sample.observations.min(axis=0), sample.observations.max(axis=0)
    # One of each mirrored pair of features. Those with an offset of 0 are mirrored about 0 and need no fit.
    to_fit = {min(i, images[i]) for i in range(len(images)) if signs[i] < 0 and candidate.offsets[i] != 0.0}

    def disagreement(trial: Candidate) -> float:
        """Return the mean over states of the disagreement after a step, cut off at 1."""
        mapped = trial.apply(sample.observations[chosen]).astype(np.float32)
        exists = np.array([checker.exists(image) for image in mapped])
        if exists.mean() < MIN_EXISTING_SHARE:
            return np.inf
        actions = _image_actions(checker, sample, trial, chosen[exists])
        found = checker.step(mapped[exists], actions, "images")[:, :-2]  # without reward and end of the episode
        expected = trial.apply(sample.after[chosen[exists]])
        errors = np.abs(found - expected) / scale
        return float(np.minimum(errors, 1.0).mean())

    for i in sorted(to_fit):
        j = images[i]
        moved = partial(candidate.with_offset, i)  # the candidate with another offset of this feature
        grid = np.linspace(low[i] + low[j], high[i] + high[j], GRID)
        values = [disagreement(moved(float(offset))) for offset in grid]
        best = int(np.argmin(values))
        if not np.isfinite(values[best]):
            continue
        left, right = grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)]
        for _ in range(GOLDEN_STEPS):
            lower, upper = left + (right - left) * 0.382, left + (right - left) * 0.618  # the golden section
            if disagreement(moved(float(lower))) <= disagreement(moved(float(upper))):
                right = upper
            else:
                left = lower
        fitted = float(np.float32((left + right) / 2))
        candidate = moved(0.0 if abs(fitted) < NO_OFFSET * (high[i] - low[i]) else fitted)
    return candidate


def _image_actions(
    checker: StateChecker, sample: Sample, candidate: Candidate, rows: NDArray[np.int64]
) -> NDArray[np.float64] | NDArray[np.int64]:
    """Return the images of the actions of some rows, as the environment takes them."""
    taken = sample.actions[rows]
    if taken.ndim == 1:
        return checker.as_taken(np.array(candidate.map.action_images)[taken])
    space, images = checker.inputs.space, taken.copy()
    for number, (image, sign) in enumerate(zip(candidate.map.action_images, candidate.map.action_signs, strict=True)):
        images[:, image] = taken[:, number] if sign > 0 else _mirrored(space, number, taken[:, number])
    return checker.as_taken(images)


def _mirrored(space: FeatureSpace, number: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
    group = space.groups[number]
    regions = group.regions
    if regions is None:
        return np.asarray(group.count - 1 - values)
    bounded = np.isfinite(regions.low) and np.isfinite(regions.high)
    return np.asarray((regions.low + regions.high if bounded else 0.0) - values)
