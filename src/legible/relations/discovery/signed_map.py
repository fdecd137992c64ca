"""Signed permutations of features with a map of actions.

- `SignedMap`: one such map, with composition, for groups.
- `close`: the group that maps generate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_ELEMENTS = 400


@dataclass(frozen=True, order=True)
class SignedMap:
    """A signed permutation of features and a map of actions.

    Parameters
    ----------
    images, signs
        Feature i goes to feature ``images[i]``; with sign -1 it is mirrored.
    action_images, action_signs
        The same for discrete actions (signs are 1), or for the parts of actions that have several or continuous parts.
    """

    images: tuple[int, ...]
    signs: tuple[int, ...]
    action_images: tuple[int, ...]
    action_signs: tuple[int, ...]

    @classmethod
    def identity(cls, n_features: int, n_actions: int) -> SignedMap:
        """Return the map that changes nothing."""
        return cls(tuple(range(n_features)), (1,) * n_features, tuple(range(n_actions)), (1,) * n_actions)

    def then(self, other: SignedMap) -> SignedMap:
        """Return this map followed by the other."""
        return SignedMap(
            tuple(other.images[i] for i in self.images),
            tuple(s * other.signs[i] for s, i in zip(self.signs, self.images, strict=True)),
            tuple(other.action_images[a] for a in self.action_images),
            tuple(s * other.action_signs[a] for s, a in zip(self.action_signs, self.action_images, strict=True)),
        )

    @property
    def changes(self) -> tuple[int, ...]:
        """Features that move or change their sign."""
        return tuple(i for i, (j, s) in enumerate(zip(self.images, self.signs, strict=True)) if i != j or s < 0)

    @property
    def changes_actions(self) -> bool:
        """True if an action moves or changes its sign."""
        return self.action_images != tuple(range(len(self.action_images))) or -1 in self.action_signs

    @property
    def is_identity(self) -> bool:
        """True if nothing changes."""
        return not self.changes and not self.changes_actions

    def orbit(self, features: Iterable[int]) -> frozenset[int]:
        """Return all features that these reach when the map is repeated."""
        reached = set(features)
        waiting = list(reached)
        while waiting:
            image = self.images[waiting.pop()]
            if image not in reached:
                reached.add(image)
                waiting.append(image)
        return frozenset(reached)

    @property
    def order(self) -> int:
        """Number of repetitions after which nothing changes, at most 64."""
        power, count = self, 1
        while not power.is_identity and count < 64:
            power, count = power.then(self), count + 1
        return count


def close(maps: Sequence[SignedMap], most: int = MOST_ELEMENTS) -> set[SignedMap]:
    """Return the group that maps generate; only the first `most` elements that are reached."""
    if not maps:
        return set()
    first = SignedMap.identity(len(maps[0].images), len(maps[0].action_images))
    group, waiting = {first}, [first]
    while waiting and len(group) < most:
        element = waiting.pop(0)
        for generator in maps:
            product = element.then(generator)
            if product not in group:
                group.add(product)
                waiting.append(product)
    return group
