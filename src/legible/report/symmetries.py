"""The part of the report about relations: how well the policy respects them, and pictures of discovered ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from legible.formatting import percent
from legible.relations import MetamorphicRelation, by_name
from legible.relations.discovery import LABEL
from legible.relations.values import Anything, Equal
from legible.study import Study

# Pairs of actions that are named in a sentence.
MOST_PAIRS = 2
# Height of a row of a picture.
ROW = 18


@dataclass(frozen=True)
class Link:
    """One line of a picture: from the row of a feature to the row of its image; `kind` is equal, turned or ignored."""

    source: int
    image: int
    kind: str
    words: str


@dataclass(frozen=True)
class Symmetry:
    """One relation: its score in a sentence, and its picture if legible discovered it.

    `names` are the features of the picture from top to bottom, `note` is the evidence of the proof.
    """

    name: str
    sentence: str
    discovered: bool
    actions: str
    names: tuple[str, ...]
    links: tuple[Link, ...]
    note: str

    @property
    def row(self) -> int:
        """Height of a row of the picture."""
        return ROW

    @property
    def height(self) -> int:
        """Height of the picture."""
        return ROW * max(len(self.names), 1)


def gather_symmetries(study: Study) -> tuple[Symmetry, ...]:
    """Return the relations of a study with their scores; none where actions have several parts."""
    groups = by_name(study.relations)
    symmetries = []
    for score in study.symmetry_scores if study.has("symmetry") else ():
        name, group = score.relation, groups[score.relation]
        # The pairs of an action and its image; in the sentence a few of them, such as "left for right".
        pairs = [(each.action, each.image_action) for each in group if each.action != each.image_action]
        shown = [
            f"{study.space.action_names[image]} for {study.space.action_names[action]}"
            for action, image in islice(pairs, MOST_PAIRS)
        ]
        example = f" (such as {' and '.join(shown)}{', …' if len(pairs) > MOST_PAIRS else ''})" if shown else ""
        sentence = (
            f"The policy respects “{name}” in {percent(score.share)} of {score.states} states: there it takes the "
            f"matching action in the matching state{example}{f'; {score.worth}' if score.worth else ''}."
        )
        discovered = name.endswith(LABEL)  # the label that `legible.relations.discovery` adds; pictures show these only
        names, links = picture(group[0], study.space.names) if discovered else ((), ())
        action_names = study.space.action_names
        arrows = ", ".join(f"{action_names[action]} → {action_names[image]}" for action, image in pairs)
        symmetries.append(Symmetry(name, sentence, discovered, arrows, names, links, group[0].note.strip()))
    return tuple(symmetries)


def picture(relation: MetamorphicRelation, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Link, ...]]:
    """Return the features that a relation changes or ignores, and a line from each to its image."""
    features = sorted({i for mapping in relation.features for i in (mapping.feature, mapping.image_feature)})
    row_of = {feature: row for row, feature in enumerate(features)}
    links = []
    for mapping in relation.features:
        kind, words = "turned", mapping.relation.text
        if isinstance(mapping.relation, Anything):
            kind = words = "ignored"
        elif isinstance(mapping.relation, Equal):
            kind = "equal"
        links.append(Link(row_of[mapping.feature], row_of[mapping.image_feature], kind, words))
    return tuple(names[feature] for feature in features), tuple(links)
