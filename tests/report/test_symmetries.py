"""Symmetry of the policy in the report: scores, and pictures of discovered relations."""

from __future__ import annotations

import numpy as np

from legible.environments import EnvironmentSpec
from legible.features import FeatureSpace
from legible.policies import load_policy
from legible.relations import load_relations, parse_relations, shipped_relations
from legible.report.builder import template_environment
from legible.report.symmetries import Symmetry, picture
from legible.study.symmetry import count_related

SPACE = FeatureSpace.of(["x", "near", "far", "place"], ["Left", "Right", "Wait"])
TOML = """
[[relation]]
name = "mirror left-right (discovered)"
actions = { swap = ["Left", "Right"] }
negate = "x"
swap = ["near", "far"]
ignore = "place"
"""


def test_pictures_link_features_with_their_images():
    names, links = picture(parse_relations(TOML, SPACE)[0], SPACE.names)
    assert names == ("x", "near", "far", "place")
    assert [(link.source, link.image, link.kind) for link in links] == [
        (0, 0, "turned"),
        (1, 2, "equal"),
        (2, 1, "equal"),
        (3, 3, "ignored"),
    ]


def test_only_states_with_a_related_action_count():
    group = parse_relations(TOML, SPACE)
    policy = load_policy(
        lambda rows: np.eye(3)[(rows[:, 0] > 0.5).astype(int)], output="values", n_features=4, n_actions=3
    )
    observations = np.array([[1, 0, 0, 0], [-1, 0, 0, 0], [0.2, 0, 0, 0], [0, 0, 0, 0]], np.float32)
    # Right at 1 and Left at -1 agree; Left at 0.2 and at -0.2 does not; Wait has no related action.
    assert count_related(policy, group, observations, np.array([1, 0, 0, 2])) == (3, 2 / 3)


def test_the_shipped_mirror_of_the_cart_maps_every_feature():
    env = EnvironmentSpec("CartPole-v1").make()
    space = FeatureSpace.of(["cart.position", "cart.velocity", "pole.angle", "pole.velocity"], ["Left", "Right"])
    (file,) = shipped_relations(env)
    names, links = picture(load_relations(file.path, space)[0], space.names)
    assert len(names) == 4
    assert {link.kind for link in links} == {"turned"}


def test_the_section_shows_discovered_relations_only_as_pictures():
    names, links = picture(parse_relations(TOML, SPACE)[0], SPACE.names)
    shown = Symmetry("found", "Score.", True, "Left → Right", names, links, "Exact.")
    listed = Symmetry("shipped", "Other score.", False, "", (), (), "")
    html = template_environment().from_string('{% include "symmetries.html.j2" %}')
    text = html.render(f={"symmetries": (shown, listed), "cards": ()})
    assert text.count("<svg") == 1
    assert text.count("<line") == 4
    assert "Other score." in text
