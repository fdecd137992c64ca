"""Metamorphic relations, as the paper defines them.

- `FeatureRelation`: the paper's ⟨a, a′, i, j, R⟩. `MetamorphicRelation`: a set of them on the same actions.
- `by_name`: groups of relations with the same name.
- `map_states`: images of whole observations, to check a relation in an environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.features import FeatureSpace, Observations
from legible.relations.values import EQUAL, Anything, RelationError, ValueRelation


@dataclass(frozen=True)
class FeatureRelation:
    """The paper's ⟨a, a′, i, j, R⟩: R relates feature i, where action a is taken, to feature j, where a′ is taken."""

    action: int
    image_action: int
    feature: int
    image_feature: int
    relation: ValueRelation = EQUAL

    def __post_init__(self) -> None:
        numbers = (self.action, self.image_action, self.feature, self.image_feature)
        if min(numbers) < 0:
            raise RelationError(f"indices of actions and features must not be negative, got {numbers}.")


@dataclass(frozen=True)
class MetamorphicRelation:
    """A set of feature relations on the same actions: where a is right, a′ is right in the image of the state.

    Parameters
    ----------
    action, image_action
        The actions a and a′.
    features
        The feature relations. The pairing of features is one-to-one, R need not be. Other features do not change.
    unmapped
        Features without an image, such as the last row of a shift. A rule with a condition on one has no image.
    name, words
        Name, and description. Relations with the same name belong together.
    holds
        ``"yes"``, ``"nearly"``, ``"partly"`` or ``"no"`` by environment.
    note
        Further remarks.
    """

    action: int
    image_action: int
    features: tuple[FeatureRelation, ...] = ()
    unmapped: tuple[int, ...] = ()
    name: str = ""
    words: str = ""
    holds: Mapping[str, str] = field(default_factory=dict, hash=False)
    note: str = ""

    def __post_init__(self) -> None:
        features = tuple(sorted(set(self.features), key=lambda fr: (fr.feature, fr.image_feature)))
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "unmapped", tuple(sorted(set(self.unmapped))))
        object.__setattr__(self, "holds", dict(self.holds))
        for fr in features:
            if (fr.action, fr.image_action) != (self.action, self.image_action):
                raise RelationError(
                    f"{self._called}: all feature relations must be on actions {self.action} and {self.image_action}, "
                    f"one is on {fr.action} and {fr.image_action}."
                )
        sources, images = [fr.feature for fr in features], [fr.image_feature for fr in features]
        for what, numbers in (("maps feature", [*sources, *self.unmapped]), ("maps to feature", images)):
            twice = sorted({number for number in numbers if numbers.count(number) > 1})
            if twice:
                raise RelationError(f"{self._called} {what} {twice[0]} more than once: the pairing must be one-to-one.")

    @property
    def _called(self) -> str:
        return f"relation {self.name!r}" if self.name else "the relation"

    @classmethod
    def of(cls, features: Iterable[FeatureRelation], name: str = "", words: str = "") -> MetamorphicRelation:
        """Return the relation of feature relations, which also name the actions."""
        features = tuple(features)
        if not features:
            raise RelationError("a metamorphic relation without feature relations needs actions.")
        return cls(features[0].action, features[0].image_action, features, name=name, words=words)

    @property
    def ignored(self) -> frozenset[int]:
        """Features on which conditions are removed: those with R = ℝ × ℝ."""
        pairs = [fr for fr in self.features if isinstance(fr.relation, Anything)]
        return frozenset(number for fr in pairs for number in (fr.feature, fr.image_feature))

    @property
    def unconstrained(self) -> tuple[int, ...]:
        """Features of the image of a state that the relation leaves open."""
        named = {fr.feature for fr in self.features} | set(self.unmapped)
        determined = {fr.image_feature for fr in self.features if not isinstance(fr.relation, Anything)}
        return tuple(sorted((named | self.ignored) - determined))

    def of_first(self, n: int) -> MetamorphicRelation:
        """Return the relation restricted to the first n features, which come before derived ones."""
        features = tuple(fr for fr in self.features if max(fr.feature, fr.image_feature) < n)
        return replace(self, features=features, unmapped=tuple(i for i in self.unmapped if i < n))

    def rows(self, space: FeatureSpace) -> list[tuple[str, str, str]]:
        """Return the rows of a table: feature, image, and the relation of their values."""
        names = space.names
        rows = {
            fr.feature: (names[fr.feature], "", "ignored")
            if isinstance(fr.relation, Anything) and fr.feature == fr.image_feature
            else (names[fr.feature], names[fr.image_feature], fr.relation.text)
            for fr in self.features
        }
        rows |= {number: (names[number], "", "no image") for number in self.unmapped}
        return [rows[number] for number in sorted(rows)]


def by_name(relations: Iterable[MetamorphicRelation]) -> dict[str, tuple[MetamorphicRelation, ...]]:
    """Return relations grouped by name, in order of first appearance."""
    groups: dict[str, list[MetamorphicRelation]] = {}
    for relation in relations:
        groups.setdefault(relation.name, []).append(relation)
    return {name: tuple(group) for name, group in groups.items()}


def map_states(relation: MetamorphicRelation, observations: ArrayLike) -> tuple[Observations, NDArray[np.bool_]]:
    """Return the images of observations, ``float32[n, features]``, and which of them are defined, ``bool[n]``.

    Features that the relation leaves open (`MetamorphicRelation.unconstrained`) keep their value. An image is undefined
    if a value is not in its table or becomes infinite. A relation with several images of one value is refused.
    """
    source = np.asarray(observations, np.float32)
    images = source.copy()
    defined = np.ones(len(source), np.bool_)
    for fr in relation.features:
        if not isinstance(fr.relation, Anything):
            images[:, fr.image_feature], known = fr.relation.map_values(source[:, fr.feature])
            defined &= known
    return images, defined
