"""Choices of a study (continuous actions cut into regions), relations among them, and intervals of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from legible.features import FeatureSpace, Intervals, cut_choices, deciles, is_cut, round_cuts
from legible.play import Experiences
from legible.relations import MetamorphicRelation, RelationsText, link_groups, share_cuts

if TYPE_CHECKING:
    from legible.study.study import Study


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
    named_space = replace(named, features=space.features)  # the choices of `named`, the features of `space`
    number_of = {name: number for number, name in enumerate(space.action_names)}
    new_number = {old: number_of[name] for old, name in enumerate(named.action_names) if name in number_of}
    renumbered = []
    for relation in (relation for text in texts for relation in text.relations(named_space)):
        if relation.action in new_number and relation.image_action in new_number:
            action, image = new_number[relation.action], new_number[relation.image_action]
            features = tuple(replace(feature, action=action, image_action=image) for feature in relation.features)
            renumbered.append(replace(relation, action=action, image_action=image, features=features))
    return tuple(renumbered)


def intervals_for(study: Study, seen: Experiences) -> Intervals:
    """Return deciles of what was seen, rounded if the settings say so, with cuts that related features share."""
    intervals = deciles(seen.space, seen.observations)
    if study.settings.mining.plain_intervals:
        intervals = round_cuts(intervals, seen.space, seen.observations)
    return share_cuts(intervals, seen.space, study.relations)
