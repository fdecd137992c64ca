"""Relations of groups of choices: the file, whole actions, and checks with actions that are not Discrete."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from legible.environments import EnvironmentSpec, feature_space_of, shipped_relations
from legible.features import ActionGroup, FeatureSpace, GroupLink, Regions, cut_choices
from legible.relations import (
    MetamorphicRelation,
    RelationError,
    dump_relations,
    generalise,
    link_groups,
    load_relations,
    map_actions,
    parse_relations,
)
from legible.relations.check import check_relations
from legible.rules import parse_rule


def grouped(**groups: object) -> FeatureSpace:
    """One feature, x, and groups as a names file has them."""
    return FeatureSpace.from_dict({"features": [{"name": "x"}], "groups": groups})


REGIONS = {"left": [-1, -0.3], "straight": [-0.3, 0.3], "right": [0.3, 1]}
CAR = grouped(steer=REGIONS, gas={"off": [0, 0.5], "on": [0.5, 1]})
LEGS = grouped(**{f"leg{i}.{joint}": ["back", "weak", "forward"] for i in (1, 2) for joint in ("hip", "knee")})
SWITCHES = grouped(steer=["left", "straight", "right"], gear=["slow", "fast"])


def read(actions: str, space: FeatureSpace, more: str = "") -> tuple[MetamorphicRelation, ...]:
    return parse_relations(f'[[relation]]\nname = "mirror"\nactions = {actions}\n{more}', space)


def pairs(relations: tuple[MetamorphicRelation, ...]) -> dict[int, int]:
    return {relation.action: relation.image_action for relation in relations}


# --- The file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "space", "expected"),
    [
        ('{ negate = "steer" }', CAR, {0: 2, 1: 1, 2: 0}),
        ('{ negate = "steer", same = "gas" }', CAR, {0: 2, 1: 1, 2: 0, 3: 3, 4: 4}),
        ('{ swap = ["steer.left", "steer.right"], same = "steer.straight" }', CAR, {0: 2, 2: 0, 1: 1}),
        ('{ map = { "steer.left" = "steer.right" } }', CAR, {0: 2}),
        ('"same"', CAR, {i: i for i in range(5)}),
        ('{ swap = ["leg1.hip", "leg2.hip"] }', LEGS, {0: 6, 1: 7, 2: 8, 6: 0, 7: 1, 8: 2}),
        ('{ swap = ["leg1.*", "leg2.*"] }', LEGS, {i: (i + 6) % 12 for i in range(12)}),
        ('{ pair = { from = "leg1.hip", to = "leg2.hip", negate = true } }', LEGS, {0: 8, 1: 7, 2: 6}),
        ('{ pair = { from = "leg1.hip", to = "leg2.knee" } }', LEGS, {0: 9, 1: 10, 2: 11}),
        ('{ cycle = ["leg1.hip", "leg1.knee", "leg2.hip"] }', LEGS, {**{i: i + 3 for i in range(6)}, 6: 0, 7: 1, 8: 2}),
    ],
)
def test_groups_and_choices_can_be_named(actions: str, space: FeatureSpace, expected: dict[int, int]) -> None:
    relations = read(actions, space)
    assert pairs(relations) == expected
    assert set(parse_relations(dump_relations(relations, space), space)) == set(relations)


def test_whole_groups_are_written_by_name_so_that_regions_may_be_cut_in_another_way() -> None:
    space = grouped(steer=list(REGIONS), leg1=["back", "weak", "forward"], leg2=["back", "weak", "forward"])
    text = dump_relations(read('{ negate = "steer", swap = ["leg1", "leg2"] }', space), space)
    fewer = grouped(steer=["left", "right"], leg1=["back", "forward"], leg2=["back", "forward"])
    assert pairs(parse_relations(text, fewer)) == {0: 1, 1: 0, 2: 4, 3: 5, 4: 2, 5: 3}


@pytest.mark.parametrize(
    ("actions", "space", "message"),
    [
        ('{ negate = "ster" }', CAR, "there is no group or choice called 'ster'. Did you mean 'steer'"),
        ('{ swap = ["steer.left", "steer.rigt"] }', CAR, "no group or choice called 'steer.rigt'"),
        ('{ swap = ["steer", "gas"] }', CAR, "'steer' has 3 choices and 'gas' has 2; they must have the same number"),
        ('{ swap = ["steer", "steer.left"] }', CAR, "no group or choice called 'steer.left'"),
        ('{ negate = "steer", same = "steer.straight" }', CAR, "'steer.straight' is mapped to both"),
        ('{ pair = { from = "steer" } }', CAR, "'pair' needs 'to'"),
        ('{ pair = { from = "steer", to = "steer", negate = false } }', CAR, "'pair' of actions must be a table"),
        ('{ swap = ["leg1.*", "leg3.*"] }', LEGS, "'leg3.\\*' matches no group"),
        ('{ negate = "Left" }', FeatureSpace.of(["x"], ["Left", "Right"]), "write swap instead"),
    ],
)
def test_errors_name_the_line(actions: str, space: FeatureSpace, message: str) -> None:
    with pytest.raises(RelationError, match=f"relations:3: .*{message}"):
        read(actions, space)


def test_rules_are_generalised_from_region_to_region() -> None:
    rule = parse_rule("+steer.left <- x > 2", CAR)
    rules = generalise(rule, read('{ negate = "steer" }', CAR, 'negate = "x"')).rules
    assert [found.text(CAR) for found in rules] == ["+steer.left <- x > 2", "+steer.right <- x < -2"]


# --- Whole actions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "image", "links"),
    [
        (0, 2, {GroupLink(0, 0, negated=True)}),
        (2, 2, {GroupLink(0, 0, negated=False)}),
        (1, 1, set()),  # the middle one stays, mirrored or not
        (0, 3, {GroupLink(0, 1, negated=False)}),
        (2, 3, {GroupLink(0, 1, negated=True)}),
        (3, 2, {GroupLink(1, 0, negated=True)}),
        (5, 2, {GroupLink(1, 0, negated=False)}),
        (0, 4, set()),  # neither the same place nor the mirrored one
        (1, 5, set()),
        (0, 6, set()),  # another number of choices
    ],
)
def test_links_of_groups_by_hand(action: int, image: int, links: set[GroupLink]) -> None:
    space = grouped(a=["left", "straight", "right"], b=["low", "middle", "high"], c=["off", "on"])
    assert set(link_groups([MetamorphicRelation(action, image)], space)) == links


def test_numbers_are_mirrored_and_exchanged() -> None:
    actions = np.array([[-0.7, 0.9], [0.1, 0.0]], np.float32)
    images, defined = map_actions(read('{ negate = "steer" }', CAR), CAR, actions)
    np.testing.assert_array_equal(images, np.array([[0.7, 0.9], [-0.1, 0.0]], np.float32))
    assert defined.all()
    # Mirrored within bounds that are not symmetric about 0.
    images, _ = map_actions(read('{ negate = "gas" }', CAR), CAR, actions)
    np.testing.assert_allclose(images[:, 1], [0.1, 1.0], atol=1e-6)
    # Only some regions have an image.
    images, defined = map_actions(read('{ map = { "steer.left" = "steer.right" } }', CAR), CAR, actions)
    assert defined.tolist() == [True, False]
    assert images[0].tolist() == [np.float32(0.7), np.float32(0.9)]


def test_parts_are_exchanged() -> None:
    cut = cut_choices(FeatureSpace(LEGS.features, LEGS.actions, tuple(
        ActionGroup(g.name, g.first, g.count, Regions(-1.0, 1.0)) for g in LEGS.groups
    )))  # fmt: skip
    actions = np.array([[0.1, 0.2, 0.3, 0.4]], np.float32)
    images, _ = map_actions(read('{ swap = ["leg1.*", "leg2.*"] }', cut), cut, actions)
    np.testing.assert_array_equal(images, actions[:, [2, 3, 0, 1]])


def test_choices_are_exchanged() -> None:
    relations = read('{ swap = ["steer.left", "steer.right"], same = ["gear"] }', SWITCHES)
    images, defined = map_actions(relations, SWITCHES, np.array([[0, 1], [2, 0], [1, 1]]))
    assert images[:2].tolist() == [[2, 1], [0, 0]]
    assert defined.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ('{ cycle = ["steer.left", "steer.straight", "steer.right"] }', "neither in order nor reversed"),
        ('{ map = { "steer.left" = "gas.off", "steer.right" = "steer.left" } }', "to several groups"),
    ],
)
def test_other_orders_of_regions_cannot_map_whole_actions(actions: str, message: str) -> None:
    with pytest.raises(RelationError, match=message):
        map_actions(read(actions, CAR), CAR, np.zeros((1, 2), np.float32))


# --- The check -------------------------------------------------------------------------------------------------------

EXACT = {
    "Pendulum-v1": "holds",
    "MountainCarContinuous-v0": "holds approximately",
    "InvertedPendulum-v5": "holds approximately",
    "Walker2d-v5": "holds",
}


def shipped(env_id: str) -> tuple[MetamorphicRelation, ...]:
    env = EnvironmentSpec(env_id).make()
    return load_relations(shipped_relations(env)[0].path, feature_space_of(env))


@pytest.mark.parametrize("env_id", EXACT)
def test_shipped_relations_hold_as_documented(env_id: str, snapshot) -> None:
    relations = shipped(env_id)
    answers = check_relations(
        env_id, relations, states=1000 if env_id == "MountainCarContinuous-v0" else 400, episodes=4
    )
    assert {answer.verdict for answer in answers} == {EXACT[env_id]}
    (method,) = {answer.method for answer in answers}
    assert method == snapshot(name="method")
    said = set(relations[0].holds.values())
    assert (said == {"yes"}) == (EXACT[env_id] == "holds")


@pytest.mark.parametrize(("env_id", "episodes"), [("LunarLanderContinuous-v3", 30), ("BipedalWalker-v3", 8)])
def test_shipped_relations_are_not_rejected(env_id: str, episodes: int) -> None:
    answers = check_relations(env_id, shipped(env_id), states=200, episodes=episodes)
    assert {answer.verdict for answer in answers} <= {"holds", "cannot tell"}
    assert {answer.method for answer in answers} == {"statistical: transitions of random play"}


@pytest.mark.parametrize(
    ("env_id", "text"),
    [
        ("Pendulum-v1", 'actions = "same"\nnegate = ["sin", "velocity"]'),
        ("Pendulum-v1", 'actions = { negate = "torque" }\nnegate = ["sin"]'),
        ("Walker2d-v5", 'actions = "same"\nswap = ["right.*", "left.*"]'),
        ("LunarLander-v3", 'actions = { same = ["main", "side"] }\nnegate = ["x", "vx", "angle", "spin"]'),
    ],
)
def test_wrong_relations_are_rejected(env_id: str, text: str) -> None:
    spec = EnvironmentSpec(env_id, {"continuous": True} if env_id == "LunarLander-v3" else {})
    space = feature_space_of(spec.make())
    relations = parse_relations(f'[[relation]]\nname = "wrong"\n{text}', space)
    answers = check_relations(spec, relations, states=600, episodes=30)
    assert "does not hold" in {answer.verdict for answer in answers}


class Bits(gymnasium.Env):
    """Two lamps; each that is lit earns the value of its own feature."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.MultiBinary(2)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.left = 20
        return self._show(), {}

    def step(self, action):
        reward, self.left = float(np.dot(self.seen, action)), self.left - 1
        return self._show(), reward, self.left == 0, False, {}

    def _show(self):
        self.seen = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.seen


@pytest.mark.parametrize(("swapped", "verdict"), [("a", "holds"), ("", "does not hold")])
def test_bits_are_checked_as_well(swapped: str, verdict: str) -> None:
    names = FeatureSpace.from_dict(
        {"features": [{"name": "f.a"}, {"name": "f.b"}], "groups": {"a": ["off", "on"], "b": ["off", "on"]}}
    )
    features = 'swap = ["f.a", "f.b"]' if swapped else ""
    relations = parse_relations(f'[[relation]]\nname = "swap"\nactions = {{ swap = ["a", "b"] }}\n{features}', names)
    answers = check_relations(Bits(), relations, names, states=400, episodes=60)
    found = [answer for answer in answers if answer.deviation_of == "reward" or answer.verdict == verdict]
    assert found
    assert all(answer.verdict != "holds" for answer in answers) == (verdict != "holds")
