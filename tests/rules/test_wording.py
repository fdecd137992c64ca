"""Rules in words: grammar by hand, and different words for different rules."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legible.environments import shipped_features
from legible.features import Action, Feature, FeatureSpace, above, below
from legible.relations import generalise, load_relations, shipped_relations
from legible.rules import Condition, Rule, RuleSet, parse_rule
from legible.rules.wording import (
    describe_condition,
    describe_rule,
    describe_rule_set,
    gerund,
    representative_rule,
    rule_parts,
    short_action_words,
    third_person,
)
from legible_envs.highway.features import highway_features
from legible_envs.pacman.features import pacman_features

PACMAN = pacman_features(2)
INFINITY = float("inf")


def side_by_side(phrases: Mapping[object, str]) -> str:
    """Return lines with each key and its words."""
    return "\n".join(f"{key}: {words}" for key, words in phrases.items())


@pytest.mark.parametrize(
    ("phrase", "ing", "third"),
    [
        ("go north", "going north", "goes north"),
        ("stop", "stopping", "stops"),
        ("do action0", "doing action0", "does action0"),
        ("push left", "pushing left", "pushes left"),
        ("brake", "braking", "brakes"),
        ("slow down", "slowing down", "slows down"),
        ("steer left", "steering left", "steers left"),
        ("change to the left lane", "changing to the left lane", "changes to the left lane"),
        ("apply no torque", "applying no torque", "applies no torque"),
        ("stay", "staying", "stays"),
        ("fire the main engine", "firing the main engine", "fires the main engine"),
        ("cut in", "cutting in", "cuts in"),
        ("open the door", "opening the door", "opens the door"),
        ("lie still", "lying still", "lies still"),
        ("flee", "fleeing", "flees"),
        ("quit", "quitting", "quits"),
        ("fix it", "fixing it", "fixes it"),
        ("be careful", "being careful", "is careful"),
        ("have patience", "having patience", "has patience"),
        ("not accelerate", "not accelerating", "does not accelerate"),
        ("pick up the key", "picking up the key", "picks up the key"),
    ],
)
def test_verbs(phrase: str, ing: str, third: str) -> None:
    assert gerund(phrase) == ing
    assert third_person(phrase) == third


@pytest.mark.parametrize(
    "text",
    [
        "-North <- not open.north",
        "+East <- open.east & food.east",
        "+Stop <- true",
        "-Stop <- true",
        "-West <- not food.north & not food.south & not food.east",
        "+West <- not ghost0.scared & not ghost1.scared",
        "+West <- not capsule.west & not food.west & not ghost1.path.west",
        # The bearing of a ghost is not the first step of the path to it.
        "-West <- ghost0.bearing.w & ghost0.path.west",
        "-North <- near.unscared <= 0",
        "-North <- near.unscared > 0",
        "-North <- 0 < near.unscared <= 1",
        "+North <- capsule.length = -1",
        "+North <- -1 < capsule.length <= 3",
        "+North <- capsule.length <= 3",
        "+North <- 2 < food.length <= 5",
        "+North <- food.length < 5",
        "+North <- food.length >= 5",
    ],
)
def test_rules_of_pacman(text: str, snapshot) -> None:
    assert describe_rule(parse_rule(text, PACMAN), PACMAN) == snapshot


COASTING = FeatureSpace((Feature("x"),), (Action("Coast", "not accelerate"), Action("None", "apply no torque")))


@pytest.mark.parametrize(
    ("space", "texts"),
    [
        (PACMAN, ("-North <- not open.north", "+North <- open.north", "-North <- true", "+Stop <- true")),
        (COASTING, ("+Coast <- x > 1", "-Coast <- x > 1", "-None <- true", "+None <- x > 1")),
    ],
    ids=["pacman", "coasting"],
)
def test_advice(space: FeatureSpace, texts: tuple[str, ...], snapshot) -> None:
    assert side_by_side({text: describe_rule(parse_rule(text, space), space, "advice") for text in texts}) == snapshot


def test_names_replace_missing_words(snapshot) -> None:
    space = FeatureSpace((Feature("f0"), Feature("kind", "categorical")), (Action("action0"), Action("action1")))
    assert describe_rule(parse_rule("+action1 <- f0 > 0.5 & kind = 3", space), space) == snapshot


def test_shipped_words_make_sentences(snapshot) -> None:
    lander = shipped_features("LunarLander-v3")
    assert lander is not None
    rule = parse_rule("-MainEngine <- vy > 0 & not leg0.contact & not leg1.contact", lander)
    assert describe_rule(rule, lander) == snapshot


def test_several_categories(snapshot) -> None:
    light = Feature("light", "categorical", values={0: "the light is red", 1: "it is amber", 2: "it is green"})
    assert describe_condition(Condition(0, 0.5, 2.0), light) == snapshot
    assert describe_condition(Condition(0, -INFINITY, 2.0), light) == ""
    assert describe_condition(Condition(0, 4.0, 5.0), light) == snapshot


def test_numbers_are_rounded_but_stay_apart(snapshot) -> None:
    speed = Feature("speed", words="the speed")
    conditions = {
        "1/3 to 2/3": Condition(0, 1 / 3, 2 / 3),
        "12.3451 to 12.3458": Condition(0, 12.3451, 12.3458),
        "up to 123456": Condition(0, -INFINITY, 123456.0),
        "from the number below 5 on": Condition(0, float(below(5.0)), INFINITY),
        "from the number above 0 on": Condition(0, float(above(0.0)), INFINITY),
        "0": Condition.equals(0, 0.0),
    }
    assert side_by_side({what: describe_condition(one, speed) for what, one in conditions.items()}) == snapshot


def test_the_least_value_is_described_by_its_phrase(snapshot) -> None:
    space = PACMAN
    timer = space.feature_index("ghost0.timer")
    assert describe_condition(Condition(timer, -INFINITY, 0.0), space[timer]) == "ghost 0 is not scared"
    assert describe_condition(Condition(timer, 0.0, INFINITY), space[timer]) == snapshot
    unbounded = replace(space[timer], least=None)
    assert describe_condition(Condition(timer, -INFINITY, 0.0), unbounded).endswith("is at most 0")


def test_the_words_of_a_feature_as_such(snapshot) -> None:
    space = pacman_features(2)
    assert space[space.feature_index("open.north")].question == snapshot
    assert space[space.feature_index("food.length")].question == snapshot


def test_a_rule_set_with_related_actions(snapshot) -> None:
    turn = [file.path for file in shipped_relations("legible/PacmanSmall-v0") if file.name == "turn"]
    relations = load_relations(turn[0], PACMAN)
    rule = parse_rule("-North <- not open.north & 2 < pacman.x <= 3", PACMAN)
    found = generalise(rule, relations)
    assert describe_rule_set(found, PACMAN) == snapshot
    assert representative_rule(found) == parse_rule("-North <- not open.north", PACMAN)


def test_a_rule_set_with_exchanged_ghosts(snapshot) -> None:
    rules = tuple(parse_rule(f"+Stop <- ghost{i}.scared & ghost{i}.here", PACMAN) for i in (0, 1))
    assert describe_rule_set(RuleSet(rules, rules[0]), PACMAN) == snapshot
    three = (*rules, parse_rule("+Stop <- near.scared > 1", PACMAN))
    assert describe_rule_set(RuleSet(three, rules[0]), PACMAN) == snapshot


def test_a_rule_set_without_a_mined_rule_lists_its_rules(snapshot) -> None:
    rules = (parse_rule("+East <- open.east", PACMAN), parse_rule("-Stop <- open.east", PACMAN))
    assert describe_rule_set(RuleSet(rules), PACMAN) == snapshot
    assert describe_rule_set(RuleSet(()), PACMAN) == "no rule"


def test_short_words_for_actions() -> None:
    assert short_action_words([3, 0], PACMAN) == {3: "west", 0: "north"}
    assert short_action_words([0], PACMAN) == {0: "going north"}
    assert short_action_words([0, 4], PACMAN) == {0: "going north", 4: "stopping"}


RELATED = (
    "capsule.north",
    "food.north",
    "food.south",
    "ghost0.bearing.n",
    "ghost1.bearing.n",
    "ghost0.path.north",
    "ghost0.scared",
    "ghost1.scared",
)


def _rule(body: Mapping[int, float]) -> Rule:
    return Rule("+", 0, tuple(Condition.equals(i, value) for i, value in body.items()))


def test_rules_with_merged_phrases_read_differently() -> None:
    """All 3⁸ bodies over features whose phrases resemble each other read differently."""
    indices = [PACMAN.feature_index(name) for name in RELATED]
    texts = {
        describe_rule(_rule({i: v for i, v in zip(indices, values, strict=True) if v is not None}), PACMAN)
        for values in product((None, 0.0, 1.0), repeat=len(indices))
    }
    assert len(texts) == 3 ** len(indices)


FLAGS = [i for i, feature in enumerate(PACMAN.features) if feature.is_flag]
bodies = st.dictionaries(st.sampled_from(FLAGS), st.sampled_from([0.0, 1.0]), min_size=1, max_size=8)


@given(bodies, st.sampled_from(FLAGS))
def test_one_condition_more_or_less_changes_the_words(body: dict[int, float], flag: int) -> None:
    changed = {i: v for i, v in body.items() if i != flag} if flag in body else {**body, flag: 0.0}
    assert describe_rule(_rule(body), PACMAN) != describe_rule(_rule(changed), PACMAN)


# --- Distances and absent objects ------------------------------------------------------------------------------------


def test_distances_in_metres_and_speeds_in_metres_a_second(snapshot) -> None:
    space = highway_features(
        ranges={"x": (-200.0, 200.0), "y": (-12.0, 12.0), "vx": (-80.0, 80.0), "vy": (-80.0, 80.0)}
    )

    there = "+SLOWER <- vehicle1.presence & "
    texts = (
        f"{there}-0.2 < vehicle1.x <= 0.0",
        f"{there}0.2 < vehicle1.y <= 0.4",
        f"{there}vehicle1.vx > 0.2",
        "+SLOWER <- ego.vx > 0.2",
    )
    assert side_by_side({text: describe_rule(parse_rule(text, space), space) for text in texts}) == snapshot


def test_absent_vehicles(snapshot) -> None:
    space = highway_features(ranges={"x": (-200.0, 200.0)})
    texts = (
        "not vehicle9.presence",
        "-0.2 < vehicle9.x <= 0.0",  # zeros in the row of an absent vehicle satisfy this condition, too
        "vehicle9.x > 0.2",
        " & ".join(f"vehicle{n}.presence & -0.2 < vehicle{n}.x <= 0.2" for n in (7, 8, 9)),
    )
    assert side_by_side({text: describe_rule(parse_rule(f"+SLOWER <- {text}", space), space) for text in texts}) == (
        snapshot
    )


def test_the_parts_of_a_rule_hold_the_presence_with_the_position() -> None:
    space = highway_features(ranges={"x": (-200.0, 200.0)})
    rule = parse_rule("+SLOWER <- vehicle9.presence & 0.1 < vehicle9.x <= 0.2 & ego.x > 0", space)
    advice, parts = rule_parts(rule, space)
    assert advice == "go slower"
    assert [len(conditions) for _, conditions in parts] == [1, 2]


def test_short_words_for_actions_with_prepositions(snapshot) -> None:
    space = highway_features()
    assert side_by_side(short_action_words([0, 2], space)) == snapshot


@pytest.mark.parametrize(
    ("low", "high"),
    [(-2.25e-6, 2.83e-6), (-0.04, -2.25e-6), (-3.3e-6, np.inf), (2.0e-6, np.inf), (-np.inf, 2.0e-6)],
)
def test_bounds_near_zero_are_zero(low: float, high: float, snapshot) -> None:
    assert describe_condition(Condition(0, low, high), Feature("vy", words="the climb")) == snapshot
