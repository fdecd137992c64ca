"""The part of the report about relations: how well the policy respects them, and pictures of discovered relations.

- `Symmetry`: one relation with its score; `gather_symmetries` collects them from a study.
- `Link`: one line of a picture, from a feature to its image.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from legible.formatting import percent
from legible.relations import MetamorphicRelation, by_name
from legible.relations.discovery import LABEL
from legible.relations.values import Anything, Equal
from legible.study import Study
from legible.workbench.symmetry import count_related

MOST_STATES = 2000
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
    experiences = study.experiences
    if not study.space.is_discrete:
        return ()
    policy = study.player()
    rows = np.sort(np.random.default_rng([study.seed, 9]).permutation(len(experiences.actions))[:MOST_STATES])
    observations, actions = experiences.observations[rows, : study.space.n_own], experiences.actions[rows]
    found = []
    for name, group in by_name(study.relations).items():
        states, share = count_related(policy, group, observations, actions)
        if not states:
            continue
        pairs = [(r.action, r.image_action) for r in group if r.action != r.image_action]
        shown = [
            f"{study.space.action_names[image]} for {study.space.action_names[action]}"
            for action, image in islice(pairs, MOST_PAIRS)
        ]
        example = f" (such as {' and '.join(shown)}{', …' if len(pairs) > MOST_PAIRS else ''})" if shown else ""
        sentence = (
            f"In {percent(share)} of {states} pairs of states that relation “{name}” says are alike, the policy takes "
            f"the matching action{example}."
        )
        discovered = name.endswith(LABEL)
        names, links = picture(group[0], study.space.names) if discovered else ((), ())
        arrows = ", ".join(f"{study.space.action_names[a]} → {study.space.action_names[b]}" for a, b in pairs)
        found.append(Symmetry(name, sentence, discovered, arrows, names, links, group[0].note.strip()))
    return tuple(found)


def picture(relation: MetamorphicRelation, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Link, ...]]:
    """Return the features that a relation changes or ignores, and a line from each to its image."""
    numbers = sorted({i for fr in relation.features for i in (fr.feature, fr.image_feature)})
    rows = {number: row for row, number in enumerate(numbers)}
    links = []
    for fr in relation.features:
        kind = (
            "ignored" if isinstance(fr.relation, Anything) else "equal" if isinstance(fr.relation, Equal) else "turned"
        )
        words = "ignored" if kind == "ignored" else fr.relation.text
        links.append(Link(rows[fr.feature], rows[fr.image_feature], kind, words))
    return tuple(names[number] for number in numbers), tuple(links)
