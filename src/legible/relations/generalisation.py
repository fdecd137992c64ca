"""Step 2 of the paper: the related forms of a rule, `generalise`, and those of many rules, `generalise_all`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from legible.relations.relation import MetamorphicRelation
from legible.relations.values import Affine, Anything, RelationError
from legible.rules import Condition, Rule, RuleSet

MOST_RULES = 256  # related forms of one rule


def generalise(rule: Rule, relations: Iterable[MetamorphicRelation]) -> RuleSet:
    """Return a rule with all its related forms: the fixed point M_gen, with the given rule as source.

    Conditions on features that a relation ignores (R = ℝ × ℝ) are removed first, also from the given rule, if the
    relation applies to the rule or to one of its related forms. If no condition is left, there are no rules.

    >>> from legible.relations import FeatureRelation
    >>> turn = MetamorphicRelation.of([FeatureRelation(0, 2, 62, 64)])
    >>> rule = Rule("-", 0, (Condition.equals(62, 0),))
    >>> [r.paper() for r in generalise(rule, [turn]).rules]
    ['-action(0) <- f62=0', '-action(2) <- f64=0']

    Parameters
    ----------
    rule
        A mined rule.
    relations
        The metamorphic relations M.
    """
    return _Generaliser(relations)(rule)


def generalise_all(rules: Iterable[Rule], relations: Iterable[MetamorphicRelation]) -> list[RuleSet]:
    """Generalise many rules by the same relations; see `generalise`."""
    generaliser = _Generaliser(relations)
    return [generaliser(rule) for rule in rules]


class _IndexedRelation:
    """A metamorphic relation indexed by feature, with a cache of images of conditions."""

    def __init__(self, relation: MetamorphicRelation) -> None:
        self.relation = relation
        self._targets = {
            fr.feature: (fr.image_feature, fr.relation)
            for fr in relation.features
            if not isinstance(fr.relation, Anything)
        }
        # A feature that is only an image is overwritten, so conditions on it have no image.
        image_features = {image for image, _ in self._targets.values()}
        self._unmapped = set(relation.unmapped) | (image_features - self._targets.keys())
        self._images: dict[Condition, tuple[Condition, ...]] = {}

    def images(self, condition: Condition) -> tuple[Condition, ...]:
        """Return the images of a condition; none if its feature or its bounds have no image."""
        if condition not in self._images:
            images: tuple[Condition, ...] = (condition,)
            if condition.feature in self._unmapped:
                images = ()
            elif condition.feature in self._targets:
                image_feature, relation = self._targets[condition.feature]
                images = relation.images(condition, image_feature)
            self._images[condition] = images
        return self._images[condition]


class _Reach(NamedTuple):
    """Ignored features, and maps that round by feature, of all relations that rules with one action meet."""

    ignored: frozenset[int]
    rounding: dict[int, tuple[Affine, ...]]


class _Generaliser:
    """The relations, indexed by the action of the rules to which they apply."""

    def __init__(self, relations: Iterable[MetamorphicRelation]) -> None:
        self._relations: dict[int, list[_IndexedRelation]] = {}
        for relation in relations:
            self._relations.setdefault(relation.action, []).append(_IndexedRelation(relation))
        self._reaches: dict[int, _Reach] = {}

    def __call__(self, rule: Rule) -> RuleSet:
        """Return a rule with its images under the relations, their images, and so on."""
        reach = self._reach(rule.action)
        start = _without(rule, reach.ignored)
        if not reach.rounding.keys().isdisjoint(start.features):
            # Move bounds without an exact image to the next ones that have an image.
            settled = tuple(_settle(c, reach.rounding.get(c.feature, ())) for c in start.conditions)
            start = Rule(rule.polarity, rule.action, settled)
        if not start.conditions:
            return RuleSet((), rule)
        related = [start]  # grows while it is walked through, until no rule has a new image
        known = {start}
        for current in related:
            for relation in self._relations.get(current.action, ()):
                for image in self._images(current, relation, reach.ignored):
                    if image not in known:
                        known.add(image)
                        related.append(image)
                self._refuse_beyond(len(related), rule)
        return RuleSet(tuple(related), rule)

    def _images(self, rule: Rule, indexed: _IndexedRelation, ignored: frozenset[int]) -> Iterator[Rule]:
        """Yield the images of a rule under a relation; none if one of its conditions has no image."""
        images = [indexed.images(condition) for condition in rule.conditions]
        self._refuse_beyond(math.prod(map(len, images)), rule)
        for conditions in product(*images):
            # Other relations may ignore features of an image; an image without other conditions is left out.
            image = _without(Rule(rule.polarity, indexed.relation.image_action, conditions), ignored)
            if image.conditions:
                yield image

    def _refuse_beyond(self, count: int, rule: Rule) -> None:
        if count > MOST_RULES:
            names = ", ".join(sorted({repr(r.relation.name) for group in self._relations.values() for r in group}))
            raise RelationError(
                f"{rule.paper()} has more than {MOST_RULES} related forms under the relations {names}. "
                "Use fewer relations, or look for one that moves values further each time it is applied."
            )

    def _reach(self, action: int) -> _Reach:
        """Return what all relations that apply to a rule with this action, or to a related form, ignore and round."""
        if action not in self._reaches:
            actions = [action]  # grows while it is walked through
            ignored: set[int] = set()
            rounding: dict[int, dict[Affine, None]] = {}
            for current in actions:
                for relation in (indexed.relation for indexed in self._relations.get(current, ())):
                    ignored |= relation.ignored
                    if relation.image_action not in actions:
                        actions.append(relation.image_action)
                    for fr in relation.features:
                        if isinstance(fr.relation, Affine) and not fr.relation.exact:
                            rounding.setdefault(fr.feature, {})[fr.relation] = None
            maps = {feature: tuple(affine_maps) for feature, affine_maps in rounding.items()}
            self._reaches[action] = _Reach(frozenset(ignored), maps)
        return self._reaches[action]


def _without(rule: Rule, features: frozenset[int]) -> Rule:
    """Return the rule without conditions on these features."""
    if not features or features.isdisjoint(rule.features):
        return rule
    return Rule(rule.polarity, rule.action, tuple(c for c in rule.conditions if c.feature not in features))


def _settle(condition: Condition, maps: Sequence[Affine]) -> Condition:
    """Return a condition with bounds that have exact images under the maps."""
    if condition.value is not None:
        return condition
    for affine in maps:
        low, high = affine.settle(condition.low), affine.settle(condition.high)
        if low < high:
            condition = Condition(condition.feature, low, high)
    return condition
