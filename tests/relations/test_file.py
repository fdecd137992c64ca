"""The relations file: language, errors, writing and reading back, and shipped files."""

import re
import time

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legible.environments import shipped_features
from legible.features import Feature, FeatureSpace, deciles
from legible.relations import (
    ANY,
    EQUAL,
    HOLDS,
    NEGATE,
    Affine,
    FeatureRelation,
    MetamorphicRelation,
    RelationError,
    RelationFileError,
    ValueTable,
    dump_relations,
    generalise,
    load_relations,
    map_states,
    parse_relations,
    reflect,
    share_cuts,
    shipped_relations,
)
from legible.relations.reader import _row_number
from legible.rules import parse_rule
from legible_envs.pacman.features import pacman_features

COLUMNS = ("presence", "x", "y", "vx", "vy", "cos_h", "sin_h")
ROWS = ("ego", *(f"vehicle{n}" for n in range(1, 10)))
HIGHWAY = FeatureSpace.of(
    [f"{row}.{column}" for row in ROWS for column in COLUMNS], ["LANE_LEFT", "IDLE", "LANE_RIGHT", "FASTER", "SLOWER"]
)
WITHOUT_HEADING = FeatureSpace.of(
    [f"{row}.{column}" for row in ROWS[:5] for column in COLUMNS[:5]], [action.name for action in HIGHWAY.actions]
)
INTERSECTION = FeatureSpace.of(HIGHWAY.names, ["SLOWER", "IDLE", "FASTER"])
SMALL = FeatureSpace(
    (
        *(Feature(name) for name in ("left.gap", "right.gap", "left.speed", "right.speed", "y")),
        Feature("lane", "categorical"),
        Feature("length", sentinels=(-1.0,)),
    ),
    FeatureSpace.of([], ["Left", "Right", "Stay"]).actions,
)


HEAD = '[[relation]]\nname = "r"\nactions = { map = { Left = "Right" } }\n'


def read(text: str) -> tuple[MetamorphicRelation, ...]:
    return parse_relations(HEAD + text, SMALL, "r.toml")


def pairs(relation: MetamorphicRelation, space: FeatureSpace = SMALL) -> dict[str, tuple[str, object]]:
    names = space.names
    return {names[fr.feature]: (names[fr.image_feature], fr.relation) for fr in relation.features}


# --- The language ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        'swap = ["left.*", "right.*"]',
        'swap = [["left.gap", "right.gap"], ["left.speed", "right.speed"]]',
        '[[relation.pair]]\nfrom = "left.*"\nto = "right.*"\n[[relation.pair]]\nfrom = "right.*"\nto = "left.*"',
    ],
)
def test_swap(form):
    (relation,) = read(form)
    assert pairs(relation) == {
        "left.gap": ("right.gap", EQUAL),
        "right.gap": ("left.gap", EQUAL),
        "left.speed": ("right.speed", EQUAL),
        "right.speed": ("left.speed", EQUAL),
    }


def test_cycle_goes_to_the_next():
    (relation,) = read('cycle = ["left.gap", "right.speed", "y"]')
    assert {name: image for name, (image, _) in pairs(relation).items()} == {
        "left.gap": "right.speed",
        "right.speed": "y",
        "y": "left.gap",
    }


def test_statements_on_one_feature():
    (relation,) = read(
        """
        negate = "*.gap"
        ignore = ["*.speed"]
        reflect = { features = "y", about = 0.5 }
        map = [{ features = "lane", values = [[0, 1], [0, 2]] }]
        drop = "length"
        """
    )
    assert pairs(relation) == {
        "left.gap": ("left.gap", NEGATE),
        "right.gap": ("right.gap", NEGATE),
        "left.speed": ("left.speed", ANY),
        "right.speed": ("right.speed", ANY),
        "y": ("y", reflect(0.5)),
        "lane": ("lane", ValueTable(((0, 1), (0, 2)))),
    }
    assert relation.unmapped == (6,)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("", EQUAL),
        (", negate = true", NEGATE),
        (", about = 2", reflect(2.0)),
        (", times = 2", Affine(2.0)),
        (", plus = -1.5", Affine(1.0, -1.5)),
        (", times = -0.5, plus = 1", Affine(-0.5, 1.0)),
        (", values = [[0, 1.5]]", ValueTable(((0, 1.5),))),
        (", any = true", ANY),
    ],
)
def test_pair(how, expected):
    (relation,) = read(f'pair = {{ from = "left.*", to = "right.*"{how} }}')
    assert pairs(relation) == {"left.gap": ("right.gap", expected), "left.speed": ("right.speed", expected)}


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ('"same"', [(0, 0), (1, 1), (2, 2)]),
        ('{ cycle = ["Left", "Stay", "Right"] }', [(0, 2), (2, 1), (1, 0)]),
        ('{ swap = ["Left", "Right"], same = "Stay" }', [(0, 1), (1, 0), (2, 2)]),
        ('{ swap = [["Left", "Right"]] }', [(0, 1), (1, 0)]),
        ('{ map = { Stay = "Left" } }', [(2, 0)]),
    ],
)
def test_actions(actions, expected):
    made = parse_relations(f'[[relation]]\nname = "r"\nactions = {actions}', SMALL)
    assert [(r.action, r.image_action) for r in made] == expected


def test_descriptions():
    (relation,) = read('words = "w"\nnote = "n"\nholds = { "a-v0" = "yes", b = "no" }')
    assert (relation.name, relation.words, relation.note) == ("r", "w", "n")
    assert relation.holds == {"a-v0": "yes", "b": "no"}


def test_a_statement_twice_is_no_contradiction():
    (relation,) = read('ignore = ["*.gap", "left.*"]')
    assert set(pairs(relation)) == {"left.gap", "right.gap", "left.speed"}


def test_a_name_that_may_match_nothing():
    (relation,) = read('negate = ["y", "heading?", "*.width?"]\ndrop = "left.*?"')
    assert pairs(relation) == {"y": ("y", NEGATE)}
    assert [SMALL.names[i] for i in relation.unmapped] == ["left.gap", "left.speed"]


def test_shift_moves_rows_and_drops_what_falls_off():
    text = '[[relation]]\nname = "s"\nactions = "same"\nshift = { features = "vehicle{n}.*", by = 7 }'
    relation = parse_relations(text, HIGHWAY)[0]
    images = {name: image for name, (image, _) in pairs(relation, HIGHWAY).items()}
    assert images == {f"vehicle{n}.{c}": f"vehicle{n + 7}.{c}" for n in (1, 2) for c in COLUMNS}
    assert [HIGHWAY.names[i] for i in relation.unmapped] == [f"vehicle{n}.{c}" for n in range(3, 10) for c in COLUMNS]


# --- Errors ----------------------------------------------------------------------------------------------------------

WRONG = [
    # statement, line, message
    ('negate = "left.gpa"', 4, "there is no feature called 'left.gpa'. Did you mean 'left.gap'"),
    ('ignore = [\n  "y",\n  "speed",\n]', 6, "there is no feature called 'speed'"),
    ('negate = "*.width"', 4, "'*.width' matches no feature"),
    ('# negate = "y"\nnegate = ["*.gap", "z*"]', 5, "'z*' matches no feature"),
    ('swap = ["*.gap", "*.width"]', 4, "'*.width' matches no feature"),
    ('swap = ["left.*", "righ*.*"]', 4, "must hold the same number of '*'"),
    ('swap = ["l*.gap", "rig*.gap"]', 4, "'l*.gap' matches 'left.gap', but there is no corresponding 'rigeft.gap'"),
    ('swap = ["y", "length", "lane"]', 4, "a swap needs exactly two names"),
    ('cycle = [["y"]]', 4, "a cycle needs at least two names"),
    ('cycle = ["y", "length", "y"]', 4, "'y' occurs more than once in the cycle"),
    ('cycle = "y"', 4, "'cycle' must be a list of names"),
    ("cycle = [1, 2]", 4, "'cycle' must be a list of names"),
    ('swap = ["y", "lane"]', 4, "'y' is numeric but 'lane' is categorical"),
    ('negate = "y"\nignore = "y"', 5, "'y' is already mapped differently by 'negate' in line 4"),
    ('swap = ["y", "length"]\nignore = [\n"*.gap",\n"length"]', 7, "mapped differently by 'swap' in line 4"),
    ('drop = "y"\nnegate = "y"', 5, "'y' is already mapped differently by 'drop' in line 4"),
    (
        'pair = [\n{ from = "left.gap", to = "y" },\n{ from = "right.gap", to = "y" }]',
        6,
        "'right.gap' and 'left.gap' (line 5) would both become 'y'; the pairing of features must be one-to-one",
    ),
    ('pair = { from = "y" }', 4, "'pair' needs 'to'"),
    ('pair = { from = "y", to = 3 }', 4, "'from' and 'to' of a pair must be names"),
    ('pair = { from = "y", to = "y", about = 1, negate = true }', 4, "single relation, got 'negate' and 'about'"),
    ('pair = { from = "y", to = "y", negate = false }', 4, "'negate' must be true or left out"),
    ('pair = { from = "y", to = "y", times = 0 }', 4, "'times' must not be 0"),
    ('pair = { from = "y", to = "y", plus = "1" }', 4, "'plus' must be a finite number"),
    ('reflect = { features = "y", abuot = 1 }', 4, "unknown key 'abuot' in 'reflect'. Did you mean 'about'"),
    ('reflect = { features = "y", about = inf }', 4, "'about' must be a finite number"),
    ('reflect = "y"', 4, "'reflect' must be a table with features and about"),
    ('negate = "length"', 4, "'length' cannot be negated: -1 is a special value"),
    ('negate = { features = "y" }', 4, "'negate' must be a name or a list of names"),
    ('map = { features = "lane", values = [[0, 1, 2]] }', 4, "'values' must be a list of pairs"),
    ('map = { features = "lane", values = [] }', 4, "'values' must be a list of pairs"),
    ('map = { features = "lane", values = [[0, true]] }', 4, "'values' must be a finite number"),
    ('shift = { features = "*.gap", by = 1 }', 4, "must hold {n}, the row's number, once"),
    ('shift = { features = "car{n}.gap", by = 1 }', 4, "'car{n}.gap' matches no feature"),
    ('shift = { features = "car{n}.gap", by = 0 }', 4, "whole number of rows other than 0"),
    ('ignroe = "y"', 4, "unknown key 'ignroe'. Did you mean 'ignore'"),
    ("words = 3", 4, "'words' must be a text"),
    ('\nholds = { a = "perhaps" }', 5, "'holds' for 'a' is 'perhaps'; it must be one of yes, nearly, partly, no"),
    ('holds = "yes"', 4, "'holds' must be a table"),
    ('negate = ["y"', 4, "not valid TOML"),
    ('negate = "y"\nnegate = "y"', 5, "not valid TOML"),
]


NAMED = '[[relation]]\nname = "r"\n'
WRONG_ACTIONS = [
    ("", 1, "there is no [[relation]]"),
    ("\n[relation]\nname = 3", 2, "there is no [[relation]]"),
    (f'{NAMED}[[relations]]\nname = "s"', 3, "unknown key 'relations'"),
    ('\n[[relation]]\nactions = "same"', 2, "has no 'name'"),
    ('\n[[relation]]\nname = "turn"', 2, "'turn' has no 'actions'"),
    (f'{NAMED}actions = "some"', 3, "'actions' must be \"same\" or a table"),
    (f'{NAMED}actions = {{ swap = ["Left", "Rihgt"] }}', 3, "no action called 'Rihgt'. Did you mean"),
    (f'{NAMED}actions = {{ same = "Up" }}', 3, "The actions are Left, Right, Stay"),
    (f'{NAMED}actions = {{ sawp = ["Left", "Right"] }}', 3, "unknown key 'sawp' in 'actions'"),
    (f'{NAMED}actions = {{ map = ["Left"] }}', 3, "'map' of actions must be a table"),
    (f'{NAMED}[relation.actions]\nswap = ["Left", "Right"]\nsame = [\n"Left"]', 4, "to both 'Right' and 'Left'"),
    (f'{NAMED}actions = {{ map = {{ Left = "Stay", Right = "Stay" }} }}', 3, "two actions are mapped to 'Stay'"),
]


@pytest.mark.parametrize(
    ("text", "line", "message"), [*((HEAD + text, *rest) for text, *rest in WRONG), *WRONG_ACTIONS]
)
def test_errors_name_the_line(text, line, message):
    with pytest.raises(RelationFileError) as error:
        parse_relations(text, SMALL, "r.toml")
    assert message in str(error.value)
    assert str(error.value).startswith(f"r.toml:{line}: ")
    assert error.value.line == line


TWO_RELATIONS = """
[[relation]]
name = "first"
actions = "same"
words = '''
[[relation]]
negate = "nothing"
'''
negate = "y" # negate = "nothing"

[[relation]]
name = "second"
actions = "same"
ignore = "y"
negate = [ # not "nothing" here
  "left.gap", "nothing",
]
"""


def test_lines_of_errors_with_misleading_texts_and_comments(raises_saved):
    with raises_saved(RelationFileError):
        parse_relations(TWO_RELATIONS, SMALL, "r.toml")


def test_files_that_cannot_be_read(tmp_path, raises_saved):
    with pytest.raises(RelationError, match="cannot be read"):
        load_relations(tmp_path / "none.toml", SMALL)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RelationError, match="not UTF-8"):
        load_relations(tmp_path / "binary.toml", SMALL)
    (tmp_path / "bad.toml").write_text("[[relation]]\nname = 3\n")
    with raises_saved(RelationFileError):
        load_relations(tmp_path / "bad.toml", SMALL)


# --- There and back --------------------------------------------------------------------------------------------------

numbers = st.floats(-1e6, 1e6, width=32)
value_relations = st.one_of(
    st.sampled_from([EQUAL, EQUAL, ANY, NEGATE, Affine(1.0)]),
    st.builds(reflect, numbers),
    st.builds(Affine, numbers.filter(bool), st.floats(-1e6, 1e6)),
    st.builds(ValueTable, st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4).map(tuple)),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN = FeatureSpace.of([f"f{i}" for i in range(7)], ["Left", "Right", "Stay"])


@st.composite
def relation_sets(draw):
    """Draw relations, each for some pairs of actions."""
    made = []
    for _ in range(draw(st.integers(1, 3))):
        features = draw(st.permutations(range(7)))[: draw(st.integers(0, 7))]
        images = draw(st.permutations(sorted(features) if draw(st.booleans()) else range(7)))[: len(features)]
        unmapped = draw(st.sets(st.integers(0, 6))) - set(features)
        drawn = [(i, j, draw(value_relations)) for i, j in zip(features, images, strict=True)]
        people = draw(st.tuples(texts, texts, st.dictionaries(texts, st.sampled_from(HOLDS), max_size=2), texts))
        for a, b in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=3)):
            frs = tuple(FeatureRelation(a, b, i, j, r) for i, j, r in drawn)
            made.append(MetamorphicRelation(a, b, frs, tuple(unmapped), *people))
    return tuple(made)


@given(relation_sets())
@settings(max_examples=100, deadline=None)
def test_written_relations_are_read_back_equal(relations):
    text = dump_relations(relations, PLAIN)
    assert parse_relations(text, PLAIN) == relations
    assert dump_relations(parse_relations(text, PLAIN), PLAIN) == text


@pytest.mark.parametrize("affine", [Affine(2.0, 2e38), Affine(-1.0, 2e38), Affine(-1.0, 1e300)])
def test_maps_with_a_huge_shift_are_read_back_equal(affine):
    far = MetamorphicRelation.of([FeatureRelation(0, 1, 0, 0, affine)], name="far")
    assert parse_relations(dump_relations([far], PLAIN), PLAIN) == (far,)


def test_written_files_are_short(tmp_path, snapshot):
    space = pacman_features(2)
    turn = load_relations(shipped_relations("legible/PacmanSmall-v0")[0].path, space)
    text = dump_relations(turn, space)
    assert text == snapshot
    (tmp_path / "turn.toml").write_text(text, encoding="utf-8")
    assert load_relations(tmp_path / "turn.toml", space) == turn


# --- Shipped files ---------------------------------------------------------------------------------------------------

SHIPPED = [
    *((f"legible/Pacman{level}{nc}-v0", pacman_features(2)) for level in ("Small", "Medium") for nc in ("", "NC")),
    *((f"legible/PacmanOriginal{nc}-v0", pacman_features(4)) for nc in ("", "NC")),
    *((f"{name}-v0", HIGHWAY) for name in ("highway", "highway-fast", "merge", "roundabout")),
    ("legible/HighwayFast-v0", HIGHWAY),
    *((f"{name}-v0", WITHOUT_HEADING) for name in ("highway", "highway-fast", "merge", "roundabout")),
    ("intersection-v0", INTERSECTION),
    *((env, shipped_features(env)) for env in ("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "LunarLander-v3")),
    *((env, shipped_features(env)) for env in ("FrozenLake-v1", "FrozenLake8x8-v1")),
]


@pytest.mark.parametrize(("env", "space"), SHIPPED, ids=[env for env, _ in SHIPPED])
def test_shipped_files_load_and_can_be_written_again(env, space):
    files = shipped_relations(env)
    assert files
    for file in files:
        relations = load_relations(file.path, space)
        assert relations
        assert all(r.name and r.words and r.holds for r in relations), file.name
        assert parse_relations(dump_relations(relations, space), space) == relations


def test_the_defaults_are_the_papers():
    def defaults(env):
        return [file.name for file in shipped_relations(env) if file.default]

    assert defaults("legible/PacmanMediumNC-v0") == ["turn"]
    assert defaults("highway-fast-v0") == ["vehicles", "mirror-3-lanes"]
    assert defaults("highway_env:highway-v0") == defaults("highway-v0") == ["vehicles", "mirror-4-lanes"]
    assert defaults("farama/Highway-v0") == defaults("legible/Highway-v0") == ["vehicles", "mirror-3-lanes"]
    assert defaults("legible/Merge-v0") == ["vehicles", "mirror-merge"]
    assert defaults("roundabout-v0") == ["vehicles", "mirror-roundabout"]
    assert defaults("intersection-v0") == ["vehicles"]
    assert defaults("CartPole-v1") == ["cartpole"]
    assert defaults("MountainCar-v0") == []
    assert defaults("FrozenLake-v1") == []
    assert shipped_relations("Pong-v5") == []
    assert shipped_features("Pong-v5") is None


def shipped(env: str, name: str, space: FeatureSpace) -> tuple[MetamorphicRelation, ...]:
    return load_relations(next(file.path for file in shipped_relations(env) if file.name == name), space)


def texts_of(text: str, relations, space: FeatureSpace) -> set[str]:
    made = generalise(parse_rule(text, space), relations)
    return {rule.text(space) for rule in made.rules}


def test_vehicles_moves_all_rows_alike_and_never_ego():
    relations = shipped("highway-v0", "vehicles", HIGHWAY)
    made = texts_of("-FASTER <- ego.vx > 0.5 & vehicle2.x <= 0.2 & vehicle5.y <= 0", relations, HIGHWAY)
    assert made == {f"-FASTER <- ego.vx > 0.5 & vehicle{n}.x <= 0.2 & vehicle{n + 3}.y <= 0" for n in range(1, 7)}
    assert texts_of("+IDLE <- ego.vx > 0.5", relations, HIGHWAY) == {"+IDLE <- ego.vx > 0.5"}


def test_the_mirror_of_the_highway():
    relations = shipped("highway-v0", "mirror-4-lanes", HIGHWAY)
    left = parse_rule("+LANE_LEFT <- ego.y > 0.25 & vehicle1.x <= 0.1 & 0 < vehicle1.y <= 0.5", HIGHWAY)
    right = parse_rule("+LANE_RIGHT <- ego.y < 0.5 & vehicle1.x <= 0.1 & -0.5 <= vehicle1.y < 0", HIGHWAY)
    assert generalise(left, relations).rules == (left, right)
    assert generalise(right, relations).rules == (right, left)
    assert len(texts_of("+IDLE <- vehicle1.y > 0.2", relations, HIGHWAY)) == 2
    assert len(texts_of("+IDLE <- vehicle1.x > 0.2", relations, HIGHWAY)) == 1


@pytest.mark.parametrize(
    ("file", "env", "lanes"),
    [("mirror-3-lanes", "highway-v0", 3), ("mirror-4-lanes", "highway-v0", 4), ("mirror-merge", "merge-v0", 2)],
)
def test_the_mirror_sends_each_lane_to_its_counterpart(file, env, lanes):
    mirror = next(r for r in shipped(env, file, HIGHWAY) if r.action == 0)
    states, y = np.zeros((lanes, len(HIGHWAY)), np.float32), HIGHWAY.feature_index("ego.y")
    states[:, y] = np.arange(lanes) * 4 / (4 * lanes)
    images, _ = map_states(mirror, states)
    assert np.allclose(images[:, y], states[::-1, y], atol=1e-7)


def test_rules_on_shared_cuts_stay_on_shared_cuts():
    relations = (*shipped("highway-v0", "vehicles", HIGHWAY), *shipped("highway-v0", "mirror-3-lanes", HIGHWAY))
    observations = np.random.default_rng(3).uniform(-1, 1, (500, len(HIGHWAY))).astype(np.float32)
    intervals = share_cuts(deciles(HIGHWAY, observations), HIGHWAY, relations)
    y = HIGHWAY.feature_index("ego.y")
    vy = HIGHWAY.feature_index("vehicle4.vy")
    for k in range(1, 5):
        body = [f"{intervals.lows[i][k]!r} < {HIGHWAY.names[i]} <= {intervals.highs[i][k]!r}" for i in (y, vy)]
        text = f"+LANE_LEFT <- {' & '.join(body)}".replace("np.float32(", "").replace(")", "")
        made = generalise(parse_rule(text, HIGHWAY), relations).rules
        assert made[0] == parse_rule(text, HIGHWAY)
        assert len(made) == 18
        for condition in (c for rule in made for c in rule.conditions):
            (number,) = np.flatnonzero(intervals.highs[condition.feature] == np.float32(condition.high))
            assert intervals.lows[condition.feature][number] == np.float32(condition.low)


def test_the_exchange_of_four_ghosts_gives_every_order():
    space = pacman_features(4)
    relations = shipped("legible/PacmanOriginal-v0", "exchange-4-ghosts", space)
    one = texts_of("-North <- ghost2.path.north & open.north", relations, space)
    assert one == {f"-North <- ghost{i}.path.north & open.north" for i in range(4)}
    two = texts_of("+Stop <- ghost0.scared & not ghost3.scared", relations, space)
    assert len(two) == 12


# --- Mirrored steps of Gymnasium's environments ----------------------------------------------------------------------


def one_step(env, state, action):
    env.reset(seed=0)
    env.unwrapped.state = state
    observation, reward, terminated, *_ = env.unwrapped.step(action)
    return observation, reward, terminated


@pytest.mark.parametrize(
    ("name", "scale", "middle", "exact"),
    [
        ("CartPole-v1", [2.3, 2.0, 0.2, 2.0], 0.0, 0.0),
        ("Acrobot-v1", [3.1, 3.1, 5.0, 9.0], 0.0, 1e-6),
        ("MountainCar-v0", [0.55, 0.05], [-np.pi / 6, 0.0], 1e-6),
    ],
)
def test_mirrors_of_classic_control_hold(name, scale, middle, exact):
    env = gymnasium.make(name)
    relations = load_relations(shipped_relations(name)[0].path, shipped_features(name))
    assert {r.action for r in relations} == set(range(env.action_space.n))
    states = np.random.default_rng(0).uniform(-1, 1, (100, len(scale))) * scale
    for relation in relations:
        for offset in states:
            state, mirrored = offset + middle, -offset + middle
            observation, *outcome = one_step(env, state, relation.action)
            other, *other_outcome = one_step(env, mirrored, relation.image_action)
            images, defined = map_states(relation, [observation])
            assert defined.all()
            assert np.abs(images[0] - other).max() <= exact
            assert outcome == other_outcome
    env.close()


# --- Patterns and derived features -----------------------------------------------------------------------------------


def test_a_pattern_of_many_stars_takes_no_time():
    space = FeatureSpace.of([f"{'a' * 190}{i}" for i in range(100)], ["Go"])
    begin = time.process_time()
    for statement in (
        'negate = "PATTERN"',
        'shift = { features = "PATTERN{n}*", by = 1 }',
        'swap = ["PATTERN", "*c" ]',
    ):
        text = f'[[relation]]\nname = "slow"\nactions = "same"\n{statement}'.replace("PATTERN", "*a" * 14 + "*b")
        with pytest.raises(RelationFileError):
            parse_relations(text, space)
    assert time.process_time() - begin < 5


PIECES = st.text("a01*", max_size=5)


@given(PIECES, PIECES, st.text("a01", min_size=1, max_size=8))
def test_rows_are_found_as_a_greedy_regular_expression_finds_them(before, after, name):
    left, right = (re.escape(piece).replace(re.escape("*"), "(.*)") for piece in (before, after))
    found = re.fullmatch(rf"{left}(?P<n>0|[1-9]\d*){right}", name)
    assert _row_number(f"{before}{{n}}{after}", name) == (None if found is None else found.span("n"))


def test_derived_features_are_mapped_by_name_or_have_no_image() -> None:
    """Patterns match features of the observation; derived features of mapped ones have no image."""
    space = FeatureSpace.from_dict(
        {
            "features": ["x", "speed"],
            "actions": ["Left", "Right"],
            "derived": {"drift": "change(x)", "before": "last_action", "fast": "speed > 1"},
        }
    )
    text = '[[relation]]\nname = "mirror"\nactions = { swap = ["Left", "Right"] }\nnegate = "x"\n'
    relation = parse_relations(text, space)[0]
    assert relation.unmapped == (2, 3)  # drift and before, but not fast
    named = parse_relations(text.replace('"x"', '["x", "drift"]'), space)[0]
    assert named.unmapped == (3,)
    everything = parse_relations(text.replace('"x"', '"*"'), space)[0]
    assert {fr.feature for fr in everything.features} == {0, 1}
    assert everything.unmapped == (2, 3, 4)
    rules = [parse_rule(rule, space) for rule in ("+Left <- x > 1 & drift > 0", "+Right <- x < -1 & drift < 0")]
    assert list(generalise(rules[0], [relation]).rules) == rules[:1]
    assert list(generalise(rules[0], [named]).rules) == rules
