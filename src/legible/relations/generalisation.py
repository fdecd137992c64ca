"""Step 2 of the paper: the related forms of a mined rule.

- `generalise`, `generalise_all`: the fixed point M_gen of a rule, a `Generalisation`. `Dropped`: a missing image.
- `describe`: a rule with its related forms as text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from legible.features import FeatureSpace
from legible.relations.relation import MetamorphicRelation
from legible.relations.values import Affine, Anything, RelationError
from legible.rules import Condition, Rule, RuleSet

MOST_RULES = 256


class Dropped(NamedTuple):
    """A missing image of a rule: one of its conditions has no image under the relation."""

    rule: Rule
    relation: MetamorphicRelation
    condition: Condition


@dataclass(frozen=True)
class Generalisation:
    """The related forms M_gen(ρ) of a rule.

    Parameters
    ----------
    rule_set
        The rules, the given one first, with the given one as source. Empty if all conditions of the rule are on
        features that the relations ignore.
    removed
        Conditions of the given rule on ignored features, which are in no rule of the set.
    dropped
        Missing images.
    """

    rule_set: RuleSet
    removed: tuple[Condition, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if no condition was left to generalise."""
        return not self.rule_set.rules


def generalise(rule: Rule, relations: Iterable[MetamorphicRelation], *, most_rules: int = MOST_RULES) -> Generalisation:
    """Return all related forms of a rule: the fixed point M_gen.

    >>> from legible.relations import FeatureRelation
    >>> turn = MetamorphicRelation.of([FeatureRelation(0, 2, 62, 64)])
    >>> rule = Rule("-", 0, (Condition.equals(62, 0),))
    >>> [r.paper() for r in generalise(rule, [turn]).rule_set.rules]
    ['-action(0) <- f62=0', '-action(2) <- f64=0']

    Parameters
    ----------
    rule
        A mined rule.
    relations
        The metamorphic relations M. Conditions on features that a relation ignores (R = ℝ × ℝ) are removed first, also
        from the given rule, if the relation applies to the rule or to one of its related forms.
    most_rules
        Maximum number of rules.
    """
    return _Generaliser(relations, most_rules)(rule)


def generalise_all(
    rules: Iterable[Rule], relations: Iterable[MetamorphicRelation], *, most_rules: int = MOST_RULES
) -> list[Generalisation]:
    """Generalise many rules by the same relations; see `generalise`."""
    generaliser = _Generaliser(relations, most_rules)
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
        taken = {image for image, _ in self._targets.values()}
        # A feature that is only an image is overwritten, so conditions on it have no image.
        self._unmapped = set(relation.unmapped) | (taken - self._targets.keys())
        self._known: dict[Condition, tuple[Condition, ...]] = {}

    def images(self, condition: Condition) -> tuple[Condition, ...]:
        if condition not in self._known:
            if condition.feature in self._unmapped:
                found: tuple[Condition, ...] = ()
            elif condition.feature not in self._targets:
                found = (condition,)
            else:
                feature, relation = self._targets[condition.feature]
                found = relation.images(condition, feature)
            self._known[condition] = found
        return self._known[condition]


class _Reach(NamedTuple):
    """Ignored features, and maps that round, for all related forms of rules with one action."""

    ignored: frozenset[int]
    rounding: dict[int, tuple[Affine, ...]]


class _Generaliser:
    """The relations, indexed by the action of the rules to which they apply."""

    def __init__(self, relations: Iterable[MetamorphicRelation], most_rules: int) -> None:
        if most_rules < 1:
            raise RelationError(f"most_rules must be at least 1, got {most_rules}.")
        self.most_rules = most_rules
        self.relations: dict[int, list[_IndexedRelation]] = {}
        for relation in relations:
            self.relations.setdefault(relation.action, []).append(_IndexedRelation(relation))
        self._reaches: dict[int, _Reach] = {}

    def __call__(self, rule: Rule) -> Generalisation:
        """Return a rule with its images under the relations, their images, and so on.

        Conditions on features that one of the relations ignores are removed first.
        """
        reach = self._reach(rule.action)
        start = _strip(rule, reach.ignored)
        if not reach.rounding.keys().isdisjoint(start.features):
            # Move bounds without an exact image to the next ones that have an image.
            settled = tuple(_settle(c, reach.rounding.get(c.feature, ())) for c in start.conditions)
            start = Rule(rule.polarity, rule.action, settled)
        removed = tuple(c for c in rule.conditions if c.feature in reach.ignored)
        if not start.conditions:
            return Generalisation(RuleSet((), rule), removed)
        related = [start]  # grows while it is walked through, until no rule has a new image
        known = {start}
        without_image: list[Dropped] = []
        for current in related:
            for relation in self.relations.get(current.action, ()):
                for image in self._images(current, relation, reach, without_image):
                    if image not in known:
                        known.add(image)
                        related.append(image)
                self._refuse_beyond(len(related), rule)
        return Generalisation(RuleSet(tuple(related), rule), removed, tuple(without_image))

    def _images(self, rule: Rule, indexed: _IndexedRelation, reach: _Reach, dropped: list[Dropped]) -> Iterable[Rule]:
        action, choices = indexed.relation.image_action, []
        for condition in rule.conditions:
            images = indexed.images(condition)
            if not images:
                dropped.append(Dropped(rule, indexed.relation, condition))
                return ()
            choices.append(images)
        self._refuse_beyond(math.prod(map(len, choices)), rule)
        images_of_rule = (Rule(rule.polarity, action, body) for body in product(*choices))
        if not reach.ignored:
            return images_of_rule
        # Other relations may ignore features of an image; an image without other conditions is left out.
        return (stripped for image in images_of_rule if (stripped := _strip(image, reach.ignored)).conditions)

    def _refuse_beyond(self, count: int, rule: Rule) -> None:
        if count > self.most_rules:
            names = ", ".join(sorted({repr(r.relation.name) for group in self.relations.values() for r in group}))
            raise RelationError(
                f"{rule.paper()} has more than {self.most_rules} related forms under the relations {names}. "
                "Use fewer relations, or look for one that moves values further each time it is applied."
            )

    def _reach(self, action: int) -> _Reach:
        if action in self._reaches:
            return self._reaches[action]
        actions = [action]
        ignored: set[int] = set()
        rounding: dict[int, dict[Affine, None]] = {}
        for current in actions:
            for relation in (indexed.relation for indexed in self.relations.get(current, ())):
                ignored |= relation.ignored
                if relation.image_action not in actions:
                    actions.append(relation.image_action)
                for fr in relation.features:
                    if isinstance(fr.relation, Affine) and not fr.relation.exact:
                        rounding.setdefault(fr.feature, {})[fr.relation] = None
        found = _Reach(frozenset(ignored), {feature: tuple(maps) for feature, maps in rounding.items()})
        self._reaches[action] = found
        return found


def _strip(rule: Rule, features: frozenset[int]) -> Rule:
    """Return the rule without conditions on these features."""
    if features.isdisjoint(rule.features):
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


def describe(rule_set: RuleSet, space: FeatureSpace) -> str:
    """Return a rule and its related forms as text.

    >>> from legible.relations import FeatureRelation
    >>> space = FeatureSpace.of(["gap.left", "gap.right"], ["Left", "Right"])
    >>> mirror = MetamorphicRelation.of([FeatureRelation(0, 1, 0, 1)], name="mirror")
    >>> rule = Rule("-", 0, (Condition(0, -math.inf, 5.0),))
    >>> print(describe(generalise(rule, [mirror]).rule_set, space))
    -Left <- gap.left <= 5
      generalises to 2 rules:
      -Left <- gap.left <= 5
      -Right <- gap.right <= 5
    """
    rules, source = rule_set.rules, rule_set.source
    if source is None:
        return rule_set.text(space)
    lines = [source.text(space)]
    if not rules:
        lines.append("  is not generalised: all its conditions are on features that the relations ignore.")
    elif rules == (source,):
        lines.append("  has no related forms.")
    else:
        lines.append(f"  generalises to {len(rules)} rule{'s' if len(rules) > 1 else ''}:")
        lines += [f"  {rule.text(space)}" for rule in rules]
    return "\n".join(lines)
