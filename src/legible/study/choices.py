"""The choices of a study: continuous actions are cut into regions by what the policy does.

- `cut_experiences`: experiences with the regions that follow from them, and from the relations.
- `read_relations`: relations in the numbers of the choices that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from legible.features import FeatureSpace, cut_choices, is_cut
from legible.play import Experiences
from legible.relations import MetamorphicRelation, RelationsText, link_groups


def cut_experiences(found: Experiences, texts: Sequence[RelationsText]) -> Experiences:
    """Cut continuous actions into regions; groups that relations map to each other share them."""
    if is_cut(found.space):
        return found
    relations = [relation for text in texts for relation in text.relations(found.space)]
    return found.with_choices(cut_choices(found.space, found.numbers, link_groups(relations, found.space)))


def read_relations(
    texts: Sequence[RelationsText], named: FeatureSpace, space: FeatureSpace
) -> tuple[MetamorphicRelation, ...]:
    """Read relations that speak of the choices of `named`, and return them in the numbers of `space`.

    Regions in which nothing lies are no choices any more; relations on them are left out.
    """
    if named.action_names == space.action_names:
        return tuple(relation for text in texts for relation in text.relations(space))
    before = replace(named, features=space.features)
    read = [relation for text in texts for relation in text.relations(before)]
    left = {name: number for number, name in enumerate(space.action_names)}
    numbers = {number: left[name] for number, name in enumerate(named.action_names) if name in left}
    return tuple(
        _renumbered(relation, numbers[relation.action], numbers[relation.image_action])
        for relation in read
        if relation.action in numbers and relation.image_action in numbers
    )


def _renumbered(relation: MetamorphicRelation, action: int, image: int) -> MetamorphicRelation:
    features = tuple(replace(fr, action=action, image_action=image) for fr in relation.features)
    return replace(relation, action=action, image_action=image, features=features)
