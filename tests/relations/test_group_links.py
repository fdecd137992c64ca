"""Groups of choices that relations map to each other: same order, reversed, or nothing to share."""

import numpy as np

from legible.features import Action, ActionGroup, Feature, FeatureSpace, GroupLink, Regions, cut_choices
from legible.relations import generalise, link_groups, parse_relations
from legible.rules import parse_rule

NAMES = ("low", "middle", "high")
SPACE = FeatureSpace(
    (Feature("x"),),
    tuple(Action(f"{group}.{name}") for group in ("hip", "knee") for name in NAMES),
    tuple(ActionGroup(group, 3 * i, 3, Regions(-1.0, 1.0)) for i, group in enumerate(("hip", "knee"))),
)


def relations(actions: str):
    return parse_relations(f'[[relation]]\nname = "r"\nactions = {actions}\nnegate = ["x"]', SPACE)


def test_choices_that_are_exchanged_with_their_mirror_image_negate_the_group() -> None:
    found = relations('{ swap = ["hip.low", "hip.high"], same = ["hip.middle"] }')
    assert link_groups(found, SPACE) == (GroupLink(0, 0, negated=True),)


def test_groups_that_are_exchanged_share_cuts_in_the_same_order() -> None:
    found = relations('{ swap = [["hip.low", "knee.low"], ["hip.high", "knee.high"]] }')
    assert link_groups(found, SPACE) == (GroupLink(0, 1, negated=False), GroupLink(1, 0, negated=False))


def test_choices_in_places_that_are_no_images_share_nothing() -> None:
    assert link_groups(relations('{ map = { "hip.low" = "knee.middle" } }'), SPACE) == ()
    assert link_groups(relations('{ map = { "hip.middle" = "knee.middle" } }'), SPACE) == ()


def test_a_rule_about_a_region_is_generalised_to_its_image_on_which_the_policy_acts_alike() -> None:
    found = relations('{ swap = ["hip.low", "hip.high"], same = ["hip.middle"] }')
    actions = np.array([[-0.9, 0.0], [-0.2, 0.5], [0.1, 1.0], [0.4, -1.0]], np.float32)
    cut = cut_choices(SPACE, actions, link_groups(found, SPACE))
    assert cut.action_names == SPACE.action_names
    rule = parse_rule("+hip.low <- x > 0", cut)
    assert [r.text(cut) for r in generalise(rule, found).rule_set.rules] == ["+hip.low <- x > 0", "+hip.high <- x < 0"]
    hip = cut.groups[0].regions
    assert hip is not None
    assert (hip.region_of(-actions[:, 0]) == 2 - hip.region_of(actions[:, 0])).all()
