"""Metamorphic relations, as the paper defines them.

- `FeatureRelation`: the paper's ⟨a, a′, i, j, R⟩. `MetamorphicRelation`: a set of them on the same actions.
- `by_name`: relations of one name, together.
- `map_states`, `map_action`: the image of whole observations, to test a relation against an environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.features import FeatureSpace, Observations
from legible.relations.values import EQUAL, Anything, RelationError, ValueRelation
from legible.rules import Condition, Rule

StateAction: TypeAlias = tuple[ArrayLike, int]


@dataclass(frozen=True)
class FeatureRelation:
    """The paper's ⟨a, a′, i, j, R⟩: feature i where action a is taken is related by R to feature j where a′ is taken.

    >>> fr = FeatureRelation(0, 2, 62, 64, EQUAL)
    >>> rule = Rule("-", 0, (Condition.equals(62, 0),))
    >>> fr.rules_related(rule, Rule("-", 2, (Condition.equals(64, 0),)))
    True
    """

    action: int
    image_action: int
    feature: int
    image_feature: int
    relation: ValueRelation = EQUAL

    def __post_init__(self) -> None:
        numbers = (self.action, self.image_action, self.feature, self.image_feature)
        if min(numbers) < 0:
            raise RelationError(f"actions and features have numbers from 0 on, got {numbers}.")

    def related(self, first: StateAction, second: StateAction) -> bool:
        """Whether two state-action pairs are feature-related: a, a′ are taken and the values are in R."""
        (s1, a1), (s2, a2) = first, second
        if (a1, a2) != (self.action, self.image_action):
            return False
        x, y = np.asarray(s1, np.float32)[self.feature], np.asarray(s2, np.float32)[self.image_feature]
        return self.relation.contains(float(x), float(y))

    def rules_related(self, first: Rule, second: Rule) -> bool:
        """Whether both rules have these heads and one polarity, and both bodies speak of (i, j) in R, or neither."""
        if first.polarity != second.polarity or (first.action, second.action) != (self.action, self.image_action):
            return False
        one, two = _condition_on(first, self.feature), _condition_on(second, self.image_feature)
        if one is None or two is None:
            return one is two
        return isinstance(self.relation, Anything) or two in self.relation.images(one, self.image_feature)


def _condition_on(rule: Rule, feature: int) -> Condition | None:
    return next((condition for condition in rule.conditions if condition.feature == feature), None)


@dataclass(frozen=True)
class MetamorphicRelation:
    """A set of feature relations on the same actions: where a is right, a′ is right in the image of the state.

    Parameters
    ----------
    action, image_action
        The actions a and a′.
    features
        The feature relations. The pairing of features is one-to-one, R need not be. Features that are not named stay
        as they are.
    unmapped
        Features that have no image: a rule that speaks of one of them has none either (the last row of a shift).
    name, words
        What it is called, and what it says, for people. Relations of one name belong together.
    holds
        Whether it holds, environment by environment: ``"yes"``, ``"nearly"``, ``"partly"`` or ``"no"``.
    note
        Anything else that a reader should know.
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
        """Make the relation from its feature relations, which say what the actions are."""
        features = tuple(features)
        if not features:
            raise RelationError("a metamorphic relation without feature relations must be given its actions.")
        return cls(features[0].action, features[0].image_action, features, name=name, words=words)

    @property
    def ignored(self) -> frozenset[int]:
        """Features on which conditions are removed: those of R = ℝ × ℝ."""
        pairs = [fr for fr in self.features if isinstance(fr.relation, Anything)]
        return frozenset(number for fr in pairs for number in (fr.feature, fr.image_feature))

    @property
    def unconstrained(self) -> tuple[int, ...]:
        """Features of the image of a state about which the relation says nothing."""
        named = {fr.feature for fr in self.features} | set(self.unmapped)
        told = {fr.image_feature for fr in self.features if not isinstance(fr.relation, Anything)}
        return tuple(sorted((named | self.ignored) - told))

    def of_first(self, n: int) -> MetamorphicRelation:
        """Return what the relation says of the first n features; derived ones come after those of the observation."""
        features = tuple(fr for fr in self.features if max(fr.feature, fr.image_feature) < n)
        return replace(self, features=features, unmapped=tuple(i for i in self.unmapped if i < n))

    def related(self, first: StateAction, second: StateAction) -> bool:
        """Whether two state-action pairs are related by every feature relation."""
        return (first[1], second[1]) == (self.action, self.image_action) and all(
            fr.related(first, second) for fr in self.features
        )

    def rules_related(self, first: Rule, second: Rule) -> bool:
        """Whether two rules are related by every feature relation.

        As in the paper, this says nothing of features that no feature relation names; `generalise` keeps those.
        """
        heads = (first.polarity, first.action, second.action) == (second.polarity, self.action, self.image_action)
        if not heads or not set(self.unmapped).isdisjoint(first.features):
            return False
        return all(fr.rules_related(first, second) for fr in self.features)

    def rows(self, space: FeatureSpace) -> list[tuple[str, str, str]]:
        """Feature, image and how the values are related, for a table."""
        names = space.names
        rows = {
            fr.feature: (names[fr.feature], "", "ignored")
            if isinstance(fr.relation, Anything) and fr.feature == fr.image_feature
            else (names[fr.feature], names[fr.image_feature], fr.relation.text)
            for fr in self.features
        }
        rows |= {number: (names[number], "", "no image") for number in self.unmapped}
        return [rows[number] for number in sorted(rows)]

    def table(self, space: FeatureSpace) -> str:
        """Draw the relation as plain text: which action and feature becomes which.

        >>> fr = FeatureRelation(0, 1, 0, 1)
        >>> space = FeatureSpace.of(["gap.left", "gap.right"], ["Left", "Right"])
        >>> print(MetamorphicRelation.of([fr], name="mirror").table(space))
        mirror: Left → Right
          gap.left → gap.right  =
        """
        actions = space.action_names
        rows = self.rows(space)
        first, second = (max((len(row[k]) for row in rows), default=0) for k in (0, 1))
        lines = [f"{self.name or 'relation'}: {actions[self.action]} → {actions[self.image_action]}"]
        for name, image, how in rows:
            arrow = "→" if image else " "
            lines.append(f"  {name:<{first}} {arrow} {image:<{second}}  {how}")
        return "\n".join(lines)


def by_name(relations: Iterable[MetamorphicRelation]) -> dict[str, tuple[MetamorphicRelation, ...]]:
    """Put relations of one name together, in the order of their first appearance."""
    groups: dict[str, list[MetamorphicRelation]] = {}
    for relation in relations:
        groups.setdefault(relation.name, []).append(relation)
    return {name: tuple(group) for name, group in groups.items()}


# --- Observations ----------------------------------------------------------------------------------------------------


def map_states(relation: MetamorphicRelation, observations: ArrayLike) -> tuple[Observations, NDArray[np.bool_]]:
    """Return the images of observations, ``float32[n, features]``, and which of them are defined, ``bool[n]``.

    Features of which the relation says nothing (`MetamorphicRelation.unconstrained`) keep their value. An image is
    undefined when a value is not in its table or becomes infinite. A relation that gives one value several images is
    refused.
    """
    source = np.asarray(observations, np.float32)
    images = source.copy()
    defined = np.ones(len(source), np.bool_)
    for fr in relation.features:
        if not isinstance(fr.relation, Anything):
            images[:, fr.image_feature], known = fr.relation.map_values(source[:, fr.feature])
            defined &= known
    return images, defined


def map_action(relation: MetamorphicRelation, action: int) -> int | None:
    """Return the image of an action, or None when the relation is not about it."""
    return relation.image_action if action == relation.action else None
