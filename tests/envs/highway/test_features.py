"""Names, words and intervals of the highway environments' observation."""

import numpy as np
import pytest

from legible.features import Action, FeatureError, FeatureSpace, deciles
from legible.relations import generalise, load_relations, share_cuts, shipped_relations
from legible.rules import parse_rule
from legible_envs.highway.features import (
    ACTIONS,
    COLUMNS,
    PAPER_CUTS,
    WORDS_OF_ACTIONS,
    highway_features,
    row_names,
)

RANGES = {"x": (-200.0, 200.0), "y": (-12.0, 12.0), "vx": (-80.0, 80.0), "vy": (-80.0, 80.0)}
PAPER = highway_features(ranges=RANGES)


def test_rows_and_columns_in_the_order_of_the_vector():
    assert len(PAPER) == 70
    assert PAPER.names[:7] == tuple(f"ego.{column}" for column in COLUMNS)
    assert PAPER.names[21:28] == tuple(f"vehicle3.{column}" for column in COLUMNS)
    assert row_names(3) == ("ego", "vehicle1", "vehicle2")
    assert PAPER.action_names == ("LANE_LEFT", "IDLE", "LANE_RIGHT", "FASTER", "SLOWER")


def words(space: FeatureSpace, *names: str) -> str:
    """Lines of names and the words for them."""
    return "\n".join(f"{name}: {space[space.feature_index(name)].words}" for name in names)


def test_words_say_what_a_number_stands_for(snapshot):
    assert words(PAPER, "vehicle3.x", "ego.y", "vehicle1.vx", "vehicle1.sin_h") == snapshot
    features = [PAPER[PAPER.feature_index(name)] for name in ("vehicle3.x", "ego.y", "vehicle1.vx")]
    assert [(one.unit, one.scale) for one in features] == [("m", 200.0), ("m", 12.0), ("m/s", 80.0)]
    raw = highway_features(2, ("x", "heading"))
    assert words(raw, "ego.x") == snapshot
    skewed = highway_features(2, ("x",), ranges={"x": (0, 100)})
    assert words(skewed, "ego.x") == snapshot


def test_words_depend_on_road_and_coordinates(snapshot):
    bends = highway_features(straight=False, ranges=RANGES)
    assert words(bends, "vehicle2.y", "ego.vx") == snapshot
    on_the_map = highway_features(straight=False, absolute=True, ranges=RANGES)
    assert words(on_the_map, "vehicle2.y") == snapshot


def test_words_differ_between_features():
    for space in (PAPER, highway_features(straight=False), highway_features(absolute=True)):
        labels = [feature.words for feature in space.features]
        assert len(set(labels)) == len(labels)


def test_presence_is_a_flag():
    presence = PAPER[PAPER.feature_index("vehicle4.presence")]
    assert presence.is_flag
    assert presence.values == {1.0: "vehicle 4 is there", 0.0: "there is no vehicle 4"}


def test_the_papers_intervals():
    assert PAPER_CUTS == (-1.0, -0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8)
    rows = np.random.default_rng(0).uniform(-1, 1, (50, 70)).astype(np.float32)
    rows[:, ::7] = 1.0
    intervals = deciles(PAPER, rows)
    x = PAPER.feature_index("vehicle1.x")
    assert intervals.highs[x].tolist() == [*np.float32(PAPER_CUTS), np.inf]
    probe = np.ones((4, 70), np.float32)
    probe[:, x] = [-1.0, -0.9, 0.0, 1.0]
    assert intervals.encode(probe)[:, x].tolist() == [0, 1, 5, 10]


def test_columns_that_are_not_normalised_are_cut_by_the_data():
    raw = highway_features(2, ("presence", "x", "cos_h"))
    assert [feature.cuts for feature in raw.features[:3]] == [None, None, PAPER_CUTS]


def test_unknown_columns_are_refused(raises_saved):
    with raises_saved(FeatureError):
        highway_features(columns=("x", "speed"))


def test_equal_settings_give_the_same_space():
    assert highway_features(10, list(COLUMNS), list(ACTIONS), ranges=dict(RANGES)) is PAPER
    assert FeatureSpace.from_dict(PAPER.to_dict()) == PAPER


@pytest.mark.parametrize("namespace", ["legible", "farama"])
@pytest.mark.parametrize("scenario", ["Highway", "HighwayFast", "Merge", "Intersection", "Roundabout"])
def test_shipped_relations_fit(namespace, scenario):
    names = ("SLOWER", "IDLE", "FASTER") if scenario == "Intersection" else WORDS_OF_ACTIONS
    actions = tuple(Action(name, WORDS_OF_ACTIONS[name]) for name in names)
    space = highway_features(actions=actions, ranges=RANGES)
    shipped = shipped_relations(f"{namespace}/{scenario}-v0")
    defaults = [relation for file in shipped if file.default for relation in load_relations(file.path, space)]
    mirror = scenario != "Intersection"
    assert {r.name for r in defaults} == {"next vehicle", "previous vehicle", *(["mirror"] if mirror else [])}
    rule = parse_rule("-FASTER <- vehicle1.presence & 0 < vehicle1.x <= 0.2 & 0 < vehicle1.y <= 0.2", space)
    made = generalise(rule, defaults).rules
    assert len(made) == (18 if mirror else 9)
    rows = np.random.default_rng(1).uniform(-1, 1, (50, 70)).astype(np.float32)
    rows[:, ::7] = 1.0
    intervals = share_cuts(deciles(space, rows), space, defaults)
    cuts = intervals.highs[space.feature_index("ego.y")]
    assert all(np.isclose(cuts, cut, atol=1e-6).any() for cut in PAPER_CUTS)
