"""Relations and regions of a study: a region in which nothing lies is no choice, and no relation speaks of it."""

import numpy as np

from legible.features import Action, ActionGroup, Feature, FeatureSpace, Regions, cut_choices
from legible.relations import RelationsText
from legible.study.choices import read_relations

SPACE = FeatureSpace(
    (Feature("x"), Feature("y")),
    tuple(Action(name) for name in ("a.low", "a.middle", "a.high", "b.off", "b.on")),
    (ActionGroup("a", 0, 3, Regions(-1.0, 1.0)), ActionGroup("b", 3, 2)),
)
TEXT = RelationsText(
    "mirror",
    """
    [[relation]]
    name = "mirror"
    actions = { swap = [["a.low", "a.high"], ["b.off", "b.on"]], same = ["a.middle"] }
    swap = ["x", "y"]
    """,
    "mirror.toml",
)


def test_relations_follow_the_choices_that_are_left() -> None:
    actions = np.array([[-1.0, 0], [-1.0, 1], [-1.0, 0], [0.0, 1]])
    left = cut_choices(SPACE, actions)
    assert left.action_names == ("a.low", "a.high", "b.off", "b.on")
    found = read_relations([TEXT], SPACE, left)
    assert [(r.action, r.image_action) for r in found] == [(0, 1), (1, 0), (2, 3), (3, 2)]
    assert all(len(r.features) == 2 for r in found)


def test_relations_are_read_as_they_are_where_nothing_was_left_out() -> None:
    kept = cut_choices(SPACE)
    found = read_relations([TEXT], SPACE, kept)
    assert [(r.action, r.image_action) for r in found] == [(0, 2), (2, 0), (3, 4), (4, 3), (1, 1)]
