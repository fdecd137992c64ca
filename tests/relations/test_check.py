"""Turned and mirrored PAC-Man, and checks of relations: right ones pass, wrong ones are rejected with the reason."""

# ruff: noqa: ARG002 (signatures are those of Gymnasium)

import json
import re
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner
from gymnasium import spaces
from gymnasium.envs.classic_control import AcrobotEnv

from legible import cli
from legible.environments import EnvironmentSpec, shipped_features
from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.relations import (
    ANY,
    FeatureRelation,
    MetamorphicRelation,
    RelationError,
    ValueTable,
    load_relations,
    parse_relations,
    shipped_relations,
)
from legible.relations.check import STATE_SETTERS, StateSetter, check_relations, state_in_words
from legible_envs.pacman import GhostState, PacmanSettings, PacmanState, load_maze, pacman_features
from legible_envs.pacman.checker import HOME, ORDER, SNAP, TIE
from legible_envs.pacman.games import Games
from legible_envs.pacman.kernel import EAST, NORTH, SOUTH, STOP, WEST
from legible_envs.pacman.maze import STEPS, Maze
from legible_envs.pacman.symmetry import (
    Symmetry,
    carry,
    every_symmetry,
    fork,
    play_matched,
    sample_games,
    tied_steps,
)
from named_environments import MIRROR_OF_OWN

SMALL = PacmanSettings("small")
LEVELS = [f"legible/Pacman{level}{nc}-v0" for level in ("Small", "Medium", "Original") for nc in ("", "NC")]
TURN = Symmetry(turns=1)
MAZE = """
%%%%%
%P.1%
%.%o%
%%%%%
"""


# --- Turning and mirroring -------------------------------------------------------------------------------------------


def test_a_turn_takes_north_to_east_and_a_mirror_takes_east_to_west():
    assert [TURN.direction(d) for d in (NORTH, EAST, SOUTH, WEST, STOP)] == [EAST, SOUTH, WEST, NORTH, STOP]
    assert [Symmetry(mirrored=True).direction(d) for d in (NORTH, EAST, SOUTH, WEST)] == [NORTH, WEST, SOUTH, EAST]


def test_the_turned_maze_is_the_maze_turned():
    turned = load_maze("%%%%\n%.P%\n%%.%\n%o1%\n%%%%\n")
    maze = TURN.maze(load_maze(MAZE))
    assert (maze.width, maze.height) == (4, 5)
    assert maze == replace(turned, name=maze.name)


def test_the_words_say_what_is_done(snapshot):
    assert TURN.words == snapshot
    assert Symmetry(ghosts=(1, 0)).words == snapshot
    words = {symmetry.words for symmetry in every_symmetry(2)}
    assert len(words) == 16


@pytest.mark.parametrize("symmetry", list(every_symmetry(0)), ids=lambda s: s.words)
def test_directions_and_places_move_alike(symmetry):
    maze = load_maze("small")
    for x, y in ((3, 2), (0, 0), (19, 6)):
        start = symmetry.point(x, y, maze)
        for direction, (dx, dy) in enumerate(STEPS):
            end = symmetry.point(x + dx, y + dy, maze)
            assert (end[0] - start[0], end[1] - start[1]) == STEPS[symmetry.direction(direction)]


@pytest.mark.parametrize(("symmetry", "times"), [(TURN, 4), (Symmetry(1, True), 2), (Symmetry(2), 2)])
def test_symmetries_come_back_to_where_they_started(symmetry, times):
    maze, state = load_maze("small"), sample_games(SMALL, 4, 5, 0).state(3)
    image, image_state = maze, state
    for _ in range(times):
        image, image_state = symmetry.maze(image), image_of_state(symmetry, image_state, image)
    assert image == maze
    assert image_state == state


def image_of_state(symmetry: Symmetry, state: PacmanState, maze: Maze) -> PacmanState:
    """The image of a state of a game in a maze, ghost by ghost."""
    places = [symmetry.point(ghost.x, ghost.y, maze) for ghost in state.ghosts]
    ghosts = [
        GhostState(x, y, symmetry.direction(ghost.heading), ghost.timer)
        for (x, y), ghost in zip(places, state.ghosts, strict=True)
    ]
    return replace(
        state,
        pacman=symmetry.point(*state.pacman, maze),
        ghosts=tuple(ghosts[i] for i in np.argsort(symmetry.renumber(len(ghosts)))),
        food=frozenset(symmetry.point(*cell, maze) for cell in state.food),
        capsules=frozenset(symmetry.point(*cell, maze) for cell in state.capsules),
        facing=symmetry.direction(state.facing),
    )


def image_of(games: Games, settings: PacmanSettings, symmetry: Symmetry) -> Games:
    images = Games(len(games.agents), replace(settings, maze=symmetry.maze(games.maze)))
    carry(games, symmetry, images)
    return images


@pytest.mark.parametrize("symmetry", [TURN, Symmetry(3, True, (1, 0)), Symmetry(0, True)], ids=lambda s: s.words)
def test_batches_are_carried_as_single_states_are(symmetry):
    games = sample_games(SMALL, 16, 60, 1)
    images = image_of(games, SMALL, symmetry)
    for i in range(len(games.agents)):
        assert images.state(i) == image_of_state(symmetry, games.state(i), games.maze)


def test_an_exchanged_ghost_keeps_its_place_and_changes_its_number():
    exchange = Symmetry(ghosts=(1, 0))
    ghosts = (GhostState(8, 5, EAST), GhostState(11.5, 5, WEST, 7))
    state = PacmanState((9, 1), ghosts, frozenset({(1, 1)}), frozenset())
    assert image_of_state(exchange, state, load_maze("small")).ghosts == ghosts[::-1]


def test_sampled_states_are_the_same_for_the_same_seed_and_none_is_over():
    first, second, third = (sample_games(SMALL, 12, 200, seed) for seed in (5, 5, 6))
    assert np.array_equal(first.agents, second.agents)
    assert np.array_equal(first.pellets, second.pellets)
    assert not np.array_equal(first.agents, third.agents)
    assert len(first.agents) == 200
    assert (first.status == 0).all()
    assert (first.agents[:, 8::4] > 0).any()  # some ghosts are scared


# --- Rounds with matched ghosts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["small", "original"])
@pytest.mark.parametrize("symmetry", [TURN, Symmetry(0, True), Symmetry(3, True)], ids=lambda s: s.words)
def test_the_image_of_a_round_is_the_round_of_the_image_but_for_snaps(level, symmetry):
    settings = PacmanSettings(level)
    games = sample_games(settings, 200, 3000, 2)
    images = image_of(games, settings, symmetry)
    snapped = np.zeros(len(games.agents), bool)
    for action in range(5):
        played = play_matched(games, images, symmetry, action, symmetry.direction(action), seed=action)
        expected = fork(played.image_after)
        carry(played.after, symmetry, expected)
        same = (expected.agents == played.image_after.agents).all(axis=1)
        same &= (expected.pellets == played.image_after.pellets).all(axis=1)
        same &= played.after.rewards == played.image_after.rewards
        assert not played.chances.any()
        assert (same | played.snaps.any(axis=1)).all()
        snapped |= ~same
    assert 0 < snapped.mean() < 0.02


CORRIDOR = PacmanSettings("%%%%%%%%%%\n%P..o.1..%\n%%%%%%%%%%\n")


def corridor_with(ghost: GhostState) -> Games:
    games = Games(1, CORRIDOR)
    games.set_state(0, PacmanState((1, 1), (ghost,), frozenset({(2, 1)}), frozenset({(4, 1)})))
    return games


def test_a_ghost_that_stops_being_scared_between_two_cells_snaps_to_the_east():
    mirror = Symmetry(mirrored=True)
    games = corridor_with(GhostState(6, 1, EAST, timer=1))
    played = play_matched(games, image_of(games, CORRIDOR, mirror), mirror, STOP, STOP, seed=0)
    assert played.snaps.tolist() == [[True]]
    # East of it: half a cell on, and then to the nearest cell, which is the next one; its image snaps back.
    assert played.after.state(0).ghosts[0].x == 7
    assert played.image_after.state(0).ghosts[0].x == 9 - 6


@pytest.mark.parametrize("ghost", [GhostState(6, 1, EAST, 2), GhostState(6.5, 1, EAST, 1), GhostState(6, 1, EAST, 0)])
def test_other_ghosts_do_not_snap(ghost):
    mirror = Symmetry(mirrored=True)
    games = corridor_with(ghost)
    played = play_matched(games, image_of(games, CORRIDOR, mirror), mirror, STOP, STOP, seed=0)
    assert not played.snaps.any()
    assert played.image_after.state(0) == image_of_state(mirror, played.after.state(0), games.maze)


def test_eaten_ghosts_are_noticed_whoever_moved():
    mirror = Symmetry(mirrored=True)
    for x, heading, action in ((2, EAST, EAST), (2, WEST, STOP)):
        games = corridor_with(GhostState(x, 1, heading, timer=9))
        played = play_matched(games, image_of(games, CORRIDOR, mirror), mirror, action, mirror.direction(action), 0)
        assert played.eaten.tolist() == [[True]]
        assert played.after.rewards[0] >= 199


def test_ghosts_of_the_image_go_the_same_ways():
    settings = PacmanSettings("%%%%%\n%...%\n%.%.%\n%.1.%\n%.%.%\n%P..%\n%%%%%\n", attack=0.9)
    games = sample_games(settings, 16, 200, 0)
    images = image_of(games, settings, TURN)
    ways = set()
    for seed in range(4):
        played = play_matched(games, images, TURN, STOP, STOP, seed)
        ways |= {
            (int(a), int(b)) for a, b in zip(played.after.agents[:, 7], played.image_after.agents[:, 7], strict=True)
        }
    assert ways == {(NORTH, EAST), (EAST, SOUTH), (SOUTH, WEST), (WEST, NORTH)}


def shortest_first_steps(maze, start, goals) -> set[int]:
    """An independent reference: breadth-first search from every neighbour, in plain Python."""

    def distance(source):
        seen, frontier, length = {source}, [source], 0
        while frontier:
            if goals & set(frontier):
                return length
            reached = {(x + dx, y + dy) for x, y in frontier for dx, dy in STEPS}
            frontier = [cell for cell in sorted(reached) if cell not in maze.walls and cell not in seen]
            seen |= set(frontier)
            length += 1
        return np.inf

    lengths = {}
    for direction, (dx, dy) in enumerate(STEPS):
        cell = start[0] + dx, start[1] + dy
        if cell not in maze.walls:
            lengths[direction] = distance(cell)
    least = min(lengths.values())
    return {direction for direction, length in lengths.items() if length == least < np.inf}


def _floor(x: float, y: float) -> tuple[int, int]:
    return int(np.floor(x)), int(np.floor(y))


def test_ties_are_where_several_first_steps_begin_a_shortest_path():
    games = sample_games(SMALL, 8, 60, 3)
    tied = tied_steps(games)
    assert 0.1 < tied.any(axis=(1, 2)).mean() < 0.9
    for i in range(len(games.agents)):
        state = games.state(i)
        goals = [state.capsules, state.food, *({_floor(g.x, g.y), _floor(g.x + 0.5, g.y + 0.5)} for g in state.ghosts)]
        for target, cells in enumerate(goals):
            steps = (
                shortest_first_steps(games.maze, state.pacman, set(cells))
                if cells and state.pacman not in cells
                else set()
            )
            expected = steps if len(steps) > 1 else set()
            assert set(np.flatnonzero(tied[i, target]).tolist()) == expected


# --- PAC-Man: right relations ----------------------------------------------------------------------------------------


def shipped(env: str, name: str, space: FeatureSpace | None = None) -> tuple[MetamorphicRelation, ...]:
    path = next(file.path for file in shipped_relations(env) if file.name == name)
    return load_relations(path, space or pacman_features(4 if "Original" in env else 2))


@pytest.mark.parametrize("env", LEVELS)
def test_the_turn_is_exact_but_for_ties_and_snaps(env):
    answers = check_relations(env, shipped(env, "turn"), states=1000)
    turned = {"North": "East", "East": "South", "South": "West", "West": "North"}
    assert {a.action: a.image_action for a in answers} == turned
    for answer in answers:
        assert answer.verdict == "holds approximately"
        assert answer.states == 1000
        assert set(answer.causes) <= {TIE, SNAP}
        assert answer.agreement + sum(answer.causes.values()) == pytest.approx(1)
        assert 0.3 < answer.agreement < 0.9
        assert "turned by 90° clockwise" in answer.note


@pytest.mark.parametrize(("env", "file"), [(LEVELS[0], "exchange-2-ghosts"), (LEVELS[4], "exchange-4-ghosts")])
def test_exchanged_ghosts_differ_in_where_they_return_to_and_in_who_moves_first(env, file):
    answers = check_relations(env, shipped(env, file), states=1500)
    assert {answer.verdict for answer in answers} == {"holds approximately"}
    assert set().union(*(answer.causes for answer in answers)) == {HOME, ORDER}
    assert all(answer.agreement > 0.9 for answer in answers)


def maze_spec(text: str, **settings) -> EnvironmentSpec:
    return EnvironmentSpec("legible/PacmanSmall-v0", {"maze": text, **settings})


def test_in_a_maze_without_ties_the_turn_holds_exactly():
    spec = maze_spec("%%%%%%%%%%\n%P  1   .%\n%%%%%%%%%%\n", capsules=False)
    answers = check_relations(spec, shipped(LEVELS[0], "turn", pacman_features(1)), states=400)
    assert [(a.verdict, a.agreement, a.causes, a.deviation) for a in answers] == [("holds", 1.0, {}, 0.0)] * 4
    assert all(a.counterexample is None for a in answers)


def test_a_maze_without_ghosts_can_be_checked():
    spec = maze_spec("%%%%%%\n%P   %\n%.% %%\n%....%\n%%%%%%\n")
    text = 'actions = { swap = ["East", "West"] }\nswap = ["*.east", "*.west"]\nignore = ["*.x", "*.y"]'
    for answer in check_relations(spec, pacman_relation(text, ghosts=0), states=200):
        assert answer.verdict in {"holds", "holds approximately"}
        assert set(answer.causes) <= {TIE}


def test_states_whose_image_is_not_in_a_table_are_left_out():
    """Pac-Man's column in the mirrored maze, but for the first three columns."""
    table = ", ".join(f"[{x}, {19 - x}]" for x in range(4, 19))
    text = (
        'actions = { swap = ["East", "West"] }\nignore = ["ghost*", "capsule.*", "food.*", "*.y"]\n'
        f'swap = ["open.east", "open.west"]\nmap = {{ features = "pacman.x", values = [{table}] }}'
    )
    for answer in check_relations(LEVELS[0], pacman_relation(text), states=800):
        assert (answer.verdict, answer.agreement) == ("holds", 1.0)
        assert 400 < answer.states < 800
        assert "states have no image" in answer.note


def pacman_relation(text: str, ghosts: int = 2) -> tuple[MetamorphicRelation, ...]:
    return parse_relations(f'[[relation]]\nname = "r"\n{text}', pacman_features(ghosts))


DIAGONAL = """
actions = { swap = [["North", "East"], ["South", "West"]] }
swap = [["*.north", "*.east"], ["*.south", "*.west"], ["*.n", "*.e"], ["*.s", "*.w"], ["*.nw", "*.se"]]
ignore = ["*.x", "*.y"]
"""
LOOK_AT_WALLS_ONLY = """
actions = { cycle = ["North", "East", "South", "West"] }
cycle = ["open.north", "open.east", "open.south", "open.west"]
ignore = ["near.*", "capsule.*", "food.*", "ghost*", "pacman.*"]
"""


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        (DIAGONAL, "rising diagonal"),
        (LOOK_AT_WALLS_ONLY, "turned by 90° clockwise"),
    ],
)
def test_other_right_relations_pass_and_are_read_rightly(text, reading):
    for answer in check_relations(LEVELS[0], pacman_relation(text), states=500):
        assert answer.verdict in {"holds", "holds approximately"}
        assert set(answer.causes) <= {TIE, SNAP}
        assert reading in answer.note


# --- PAC-Man: wrong relations ----------------------------------------------------------------------------------------

CLOCKWISE = 'actions = { cycle = ["North", "East", "South", "West"] }\nignore = ["*.x", "*.y"]\n'
STEPS_CLOCKWISE = '["*.north", "*.east", "*.south", "*.west"]'
BEARINGS_CLOCKWISE = '["*.n", "*.e", "*.s", "*.w"], ["*.ne", "*.se", "*.sw", "*.nw"]'
NO_HEADING = ", ".join(
    f'["{what}.north", "{what}.east", "{what}.south", "{what}.west"]' for what in ("capsule", "food", "open", "*.path")
)
WRONG = {
    "swapped axes": (
        CLOCKWISE + f'swap = [["*.north", "*.east"], ["*.south", "*.west"]]\ncycle = [{BEARINGS_CLOCKWISE}]',
        {"open.south", "food.south", "ghost0.heading.west"},
    ),
    "a forgotten one-hot group": (
        CLOCKWISE + f"cycle = [{NO_HEADING}, {BEARINGS_CLOCKWISE}]",
        {"ghost0.heading.north", "ghost0.heading.east", "ghost1.heading.south"},
    ),
    "features counter-clockwise, actions clockwise": (
        CLOCKWISE
        + 'cycle = [["*.north", "*.west", "*.south", "*.east"], ["*.n", "*.w", "*.s", "*.e"],'
        + ' ["*.ne", "*.nw", "*.sw", "*.se"]]',
        {"open.north", "open.south", "food.east"},
    ),
    "coordinates that stay": (
        'actions = { cycle = ["North", "East", "South", "West"] }\n'
        f"cycle = [{STEPS_CLOCKWISE}, {BEARINGS_CLOCKWISE}]",
        {"pacman.x", "pacman.y", "ghost0.x"},
    ),
    "ghosts exchanged but for their headings": (
        'actions = "same"\nswap = [["ghost0.path.*", "ghost1.path.*"], ["ghost0.bearing.*", "ghost1.bearing.*"],'
        ' ["ghost0.length", "ghost1.length"], ["ghost0.here", "ghost1.here"], ["ghost0.timer", "ghost1.timer"],'
        ' ["ghost0.scared", "ghost1.scared"], ["ghost0.x", "ghost1.x"], ["ghost0.y", "ghost1.y"]]',
        {"ghost0.heading.north", "ghost1.heading.east", "ghost0.heading.stop"},
    ),
    "actions that no symmetry has": (
        'actions = { map = { North = "East", East = "North", South = "South" } }\nignore = ["*.x", "*.y"]\n'
        f"cycle = [{STEPS_CLOCKWISE}, {BEARINGS_CLOCKWISE}]",
        set(),
    ),
    "stopping is like going north": ('actions = { map = { Stop = "North" } }\nignore = ["*.x", "*.y"]', {"reward"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_relations_are_caught(name):
    text, culprits = WRONG[name]
    answers = check_relations(LEVELS[0], pacman_relation(text), states=600)
    worst = [answer for answer in answers if answer.verdict == "does not hold"]
    assert worst, name
    if len(answers) > 1 and name != "actions that no symmetry has":
        assert len(worst) == len(answers)
    for answer in worst:
        assert answer.causes["other"] > 0.05
        example = answer.counterexample
        assert example is not None
        assert example.cause == "other"
        assert example.differences
        for difference in example.differences:
            assert difference.expected != difference.found
        assert answer.action in example.text
        assert answer.image_action in example.text
    said = {difference.what for answer in worst for difference in answer.counterexample.differences}
    assert said & culprits if culprits else said


def test_a_counterexample_is_one_when_it_is_played_again():
    """The forgotten group: the relation leaves headings alone, the turned game shows them turned."""
    text, _ = WRONG["a forgotten one-hot group"]
    (answer, *_) = check_relations(LEVELS[0], pacman_relation(text), states=200)
    example = answer.counterexample
    for difference in example.differences:
        if difference.when != "in the image" or ".heading." not in difference.what:
            continue
        ghost, _, direction = difference.what.split(".")
        before = {"north": "west", "east": "north", "south": "east", "west": "south", "stop": "stop"}[direction]
        assert difference.expected == example.state[difference.what]
        assert difference.found == example.state[f"{ghost}.heading.{before}"]
    assert any(d.when == "in the image" and ".heading." in d.what for d in example.differences)


# --- Environments whose state can be set -----------------------------------------------------------------------------


def relation_for(env: str, text: str) -> tuple[MetamorphicRelation, ...]:
    return parse_relations(f'[[relation]]\nname = "r"\n{text}', shipped_features(env))


def only_shipped(env: str = "CartPole-v1") -> tuple[MetamorphicRelation, ...]:
    (file,) = shipped_relations(env)
    return load_relations(file.path, shipped_features(env))


def check_shipped(env: str, **settings):
    return check_relations(env, only_shipped(env), **settings)


def test_the_mirror_of_cartpole_holds_to_the_last_bit():
    answers = check_shipped("CartPole-v1", states=600)
    assert [(a.verdict, a.agreement, a.deviation) for a in answers] == [("holds", 1.0, 0.0)] * 2


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ('actions = { swap = ["Left", "Right"] }\nnegate = ["*.position", "*.angle"]', "cart.position"),
        ('actions = { swap = ["Left", "Right"] }\nnegate = ["cart.*", "pole.angle"]', "pole.angle"),
        ('actions = "same"\nnegate = "*"', "pole.velocity"),
        ('actions = { swap = ["Left", "Right"] }', "cart.velocity"),
        (
            'actions = { swap = ["Left", "Right"] }\nnegate = "*.velocity"\nswap = ["cart.position", "pole.angle"]',
            "end",
        ),
    ],
    ids=["velocities forgotten", "one velocity forgotten", "actions forgotten", "features forgotten", "swapped"],
)
def test_wrong_mirrors_of_cartpole_are_caught(text, culprit):
    for answer in check_relations("CartPole-v1", relation_for("CartPole-v1", text), states=300):
        assert answer.verdict == "does not hold"
        assert culprit in {difference.what for difference in answer.counterexample.differences}
        assert "the pole's angle is" in answer.counterexample.words


def test_what_a_relation_leaves_open_may_be_anything():
    """Where the cart stands does not matter for its pole; only the ends of the track tell places apart."""
    text = 'actions = "same"\nignore = "cart.position"'
    for answer in check_relations("CartPole-v1", relation_for("CartPole-v1", text), states=1000):
        assert answer.verdict == "holds approximately"
        assert {difference.what for difference in answer.counterexample.differences} == {"end"}
        assert answer.agreement > 0.95


def test_the_mirror_of_mountaincar_holds_but_at_the_wall():
    for answer in check_shipped("MountainCar-v0", states=1500):
        assert answer.verdict == "holds approximately"
        assert 0.98 < answer.agreement < 1
        assert "no image in this environment" in answer.note
        position = answer.counterexample.state["position"]
        # The wall, or its mirror image.
        assert position < -1.1 or 0.05 < position < 0.154


def test_the_mirror_of_acrobot_holds_and_one_that_forgets_a_sine_does_not():
    assert {answer.verdict for answer in check_shipped("Acrobot-v1", states=200)} == {"holds"}
    wrong = 'actions = { swap = ["TorqueMinus", "TorquePlus"] }\nnegate = ["link1.sin", "*.velocity"]'
    for answer in check_relations("Acrobot-v1", relation_for("Acrobot-v1", wrong), states=200):
        assert answer.verdict == "does not hold"


def test_actions_that_change_little_in_a_step_are_not_exchanged():
    wrong = 'actions = { swap = ["TorqueMinus", "TorquePlus"] }'
    for answer in check_relations("Acrobot-v1", relation_for("Acrobot-v1", wrong), states=200):
        assert answer.verdict == "does not hold"


def test_impossible_images_are_not_compared():
    stretched = 'actions = "same"\npair = { from = "link1.cos", to = "link1.cos", times = 0.5 }'
    for answer in check_relations("Acrobot-v1", relation_for("Acrobot-v1", stretched), states=100):
        assert answer.verdict == "cannot tell"
        assert "no observation of this environment" in answer.note


def test_a_random_step_cannot_be_compared_exactly(monkeypatch):
    monkeypatch.setattr(AcrobotEnv, "torque_noise_max", 0.5)
    answers = check_shipped("Acrobot-v1", states=10, episodes=2)
    assert answers[0].method.startswith("statistical")


class Falling(gymnasium.Env):
    """A stone that is pushed left or right while it falls; the state is what is seen."""

    observation_space = spaces.Box(-10, 10, (2,))
    action_space = spaces.Discrete(2)
    wind = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.array([self.np_random.uniform(-1, 1), 5.0])
        return self.state.astype(np.float32), {}

    def step(self, action):
        self.state += np.array([0.1 * (2 * action - 1) + self.wind, -0.5])
        return self.state.astype(np.float32), 0.0, bool(self.state[1] <= 0), False, {}


class Windy(Falling):
    wind = 0.05


FALLING = FeatureSpace.of(["x", "height"], ["Left", "Right"])
FALLING_MIRROR = parse_relations(
    '[[relation]]\nname = "mirror"\nactions = { swap = ["Left", "Right"] }\nnegate = "x"', FALLING
)


def test_state_setters_can_be_added(monkeypatch):
    setter = StateSetter(np.array, np.array, (-2, 0.5), (2, 5))
    for kind, verdict in ((Falling, "holds"), (Windy, "does not hold")):
        monkeypatch.setitem(STATE_SETTERS, kind, setter)
        answers = check_relations(kind(), FALLING_MIRROR, FALLING, states=100)
        assert [(a.verdict, a.method.split(":")[0]) for a in answers] == [(verdict, "exact up to rounding")] * 2


# --- Environments with a table of transitions ------------------------------------------------------------------------


@pytest.mark.parametrize("slippery", [True, False])
@pytest.mark.parametrize("env", ["FrozenLake-v1", "FrozenLake8x8-v1"])
def test_the_turn_of_the_frozen_lake_does_not_hold_on_its_map(env, slippery, snapshot):
    for answer in check_relations(EnvironmentSpec(env, {"is_slippery": slippery}), only_shipped(env)):
        assert answer.verdict == "does not hold"
        assert answer.method == snapshot(name="method")
        assert answer.states == (11 if env == "FrozenLake-v1" else 53)
        assert answer.counterexample.words.startswith("in row")


@pytest.mark.parametrize("slippery", [True, False])
def test_the_turn_holds_on_a_lake_that_looks_the_same_from_all_sides(slippery):
    spec = EnvironmentSpec("FrozenLake-v1", {"desc": ["GFFG", "FSHF", "FHHF", "GFFG"], "is_slippery": slippery})
    relations = only_shipped("FrozenLake-v1")
    verdicts = [answer.verdict for answer in check_relations(spec, relations)]
    assert verdicts == ["does not hold"] * 4  # one cell of the four in the middle is no hole
    spec.arguments["desc"][1] = "FHHF"
    spec.arguments["desc"][0] = "GSFG"  # the start is ice like any other
    answers = check_relations(spec, relations)
    assert [(answer.verdict, answer.deviation) for answer in answers] == [("holds", 0.0)] * 4


# --- All other environments ------------------------------------------------------------------------------------------


class Cart(gymnasium.Env):
    """A cart with friction on noisy ground; `tilt` and `prize` break its symmetry."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,))
    action_space = spaces.Discrete(2)

    def __init__(self, tilt: float = 0.0, prize: float = 0.0) -> None:
        self.tilt, self.prize = tilt, prize

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed, self.steps = self.np_random.uniform(-1, 1), 0.0, 0
        return self._see(), {}

    def _see(self):
        return np.array([self.place, self.speed], np.float32)

    def step(self, action):
        self.speed += 0.1 * (2 * action - 1) - 0.1 * self.speed + self.tilt + self.np_random.normal(0, 0.02)
        self.place += self.speed
        self.steps += 1
        reward = self.prize * self.place - abs(self.place)
        return self._see(), reward, abs(self.place) > 3, self.steps >= 50, {}


CART = FeatureSpace.of(["place", "speed"], ["Left", "Right"])


def check_cart(text: str = 'negate = "*"', actions: str = '{ swap = ["Left", "Right"] }', episodes=80, **settings):
    relations = parse_relations(f'[[relation]]\nname = "mirror"\nactions = {actions}\n{text}', CART)
    return check_relations(Cart(**settings), relations, CART, episodes=episodes)


def test_a_right_mirror_holds_in_a_noisy_environment():
    for answer in check_cart():
        assert answer.verdict == "holds"
        assert answer.method == "statistical: transitions of random play"
        assert answer.agreement > 0.97
        assert answer.states > 500
        assert answer.counterexample is None


@pytest.mark.parametrize(
    ("settings", "culprit"),
    [
        ({"text": 'negate = "place"'}, "place"),
        ({"actions": '"same"'}, "speed"),
        ({"tilt": 0.05}, "speed"),
        ({"prize": 0.8}, "reward"),
    ],
    ids=["speed forgotten", "actions forgotten", "tilted ground", "prize on one side"],
)
def test_wrong_mirrors_are_caught_in_a_noisy_environment(settings, culprit):
    for answer in check_cart(**settings):
        assert answer.verdict == "does not hold"
        assert culprit in answer.note
        assert answer.counterexample is not None
        assert answer.deviation > 0.1


def test_too_few_episodes_give_no_verdict():
    for answer in check_cart(episodes=2):
        assert answer.verdict == "cannot tell"
        needed = int(re.search(r"about (\d+) episodes would be enough", answer.note)[1])
        assert 100 <= needed <= 1000
    assert "cannot tell" not in {answer.verdict for answer in check_cart(episodes=needed)}
    for answer in check_cart('pair = { from = "place", to = "place", plus = 50.0 }', episodes=20):
        assert answer.verdict == "cannot tell"
        assert "similar to states of random play" in answer.note


class Dice(gymnasium.Env):
    """Nothing that is done has any effect on what is seen next."""

    observation_space = spaces.Box(0, 1, (6,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.random(6).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        return self.np_random.random(6).astype(np.float32), 0.0, False, self.steps == 30, {}


def test_unpredictable_environments_give_little_evidence():
    space = FeatureSpace.of([f"d{i}" for i in range(6)], ["Left", "Right"])
    for text, verdicts in (
        ('swap = ["d0", "d1"]', {"holds", "cannot tell"}),
        ('reflect = { features = "d0", about = 0.5 }', {"holds", "cannot tell"}),
        ('negate = "d0"', {"cannot tell", "does not hold"}),
    ):
        relations = parse_relations(f'[[relation]]\nname = "r"\nactions = "same"\n{text}', space)
        answers = check_relations(Dice(), relations, space, episodes=60)
        assert {answer.verdict for answer in answers} <= verdicts, text


def test_wrapped_environments_are_watched_from_outside():
    env = gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), lambda reward: reward)
    (answer, _) = check_relations(env, only_shipped(), shipped_features("CartPole-v1"), episodes=40)
    assert answer.method.startswith("statistical")
    limited = gymnasium.wrappers.TimeLimit(gymnasium.make("CartPole-v1"), 5)
    (answer, _) = check_relations(limited, only_shipped(), states=50)
    assert answer.method.startswith("exact")


# --- Answers ---------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_answer():
    def answers(seed):
        return [
            *check_relations(LEVELS[0], shipped(LEVELS[0], "turn"), states=100, seed=seed),
            *check_relations("CartPole-v1", only_shipped(), states=50, seed=seed),
            *check_relations(Cart(), FALLING_MIRROR, FALLING, episodes=20, seed=seed),
        ]

    first = [repr(answer) for answer in answers(3)]
    assert first == [repr(answer) for answer in answers(3)]
    assert first != [repr(answer) for answer in answers(4)]


def test_relations_that_do_not_fit_are_refused(raises_saved):
    beyond = MetamorphicRelation.of([FeatureRelation(0, 1, 7, 7)], name="beyond")
    with pytest.raises(RelationError, match="needs features up to 7, but there are 4"):
        check_relations("CartPole-v1", [beyond])
    with pytest.raises(RelationError, match="needs actions up to 2, but there are 2"):
        check_relations("CartPole-v1", [MetamorphicRelation(0, 2, name="beyond")])
    with raises_saved(LegibleError):
        check_relations("CartPole-v1", [], states=0)


def test_relations_that_cannot_be_checked_say_so():
    several = MetamorphicRelation.of([FeatureRelation(0, 0, 0, 0, ValueTable(((0, 1), (0, 2))))], name="several")
    nothing = MetamorphicRelation.of([FeatureRelation(0, 0, i, i, ANY) for i in range(4)], name="nothing")
    first, second = check_relations("CartPole-v1", [several, nothing], states=40)
    assert first.verdict == "cannot tell"
    assert "several images" in first.note
    # Only reward and end are compared.
    assert {difference.what for difference in second.counterexample.differences} == {"end"}


def test_answers_become_json():
    (answer, *_) = check_relations(LEVELS[0], pacman_relation(WRONG["swapped axes"][0]), states=50)
    data = json.loads(json.dumps(answer.to_dict()))
    assert data["verdict"] == "does not hold"
    assert len(data["counterexample"]["state"]) == 69
    assert data["counterexample"]["differences"][0].keys() == {"what", "when", "expected", "found"}
    (untold, *_) = check_cart(episodes=2)
    assert untold.to_dict()["agreement"] is None


def test_progress_is_reported():
    seen = []
    check_relations("CartPole-v1", only_shipped(), states=300, on_progress=lambda *a: seen.append(a))
    assert seen[-1] == (1.0, "comparing")
    assert {"playing", "taking Left", "taking Right"} <= {what for _, what in seen}
    assert all(0 <= share <= 1 for share, _ in seen)


def test_a_state_in_words_begins_with_the_given_features(snapshot):
    space = pacman_features(2)
    observation = np.zeros(69, np.float32)
    observation[[9, 8, 62]] = 1, 3, 1
    words = state_in_words(space, observation, about=[9], most=2)
    assert words == snapshot


# --- Command line ----------------------------------------------------------------------------------------------------


def run(*arguments: str):
    return CliRunner(env={"COLUMNS": "120"}).invoke(cli.app, ["relations", *arguments])


def test_list_names_files_and_environments(snapshot):
    everything = run("list").output
    for name in ("turn *", "cartpole *", "mirror-3-lanes", "exchange-4-ghosts", "LunarLander-v3", "highway-fast-v0"):
        assert name in everything
    some = run("list", "CartPole-v1").output
    assert next(" ".join(line.split()) for line in some.splitlines() if "cartpole" in line) == snapshot
    assert "turn" not in some


def test_show_prints_features_and_images(snapshot):
    output = run("show", LEVELS[0], "turn").output
    assert next(line for line in output.splitlines() if "North → East" in line) == snapshot
    assert ["food.north", "food.east", "="] in [line.split() for line in output.splitlines()]
    assert "ignored" in output


def test_a_wrapper_and_names_of_its_own_count_in_show_and_check(tmp_path, snapshot):
    path = tmp_path / "mine.toml"
    path.write_text(MIRROR_OF_OWN)
    wrapped = ("CartPole-v1", str(path), "--wrap", "named_environments:Renamed")
    shown = run("show", *wrapped).output
    assert next(line for line in shown.splitlines() if line.startswith("Actions")) == snapshot
    result = run("check", *wrapped, "--episodes", "5", "--json")
    checks = json.loads(result.output)["checks"]
    assert {c["action"]: c["image_action"] for c in checks} == {"West": "East", "East": "West"}


def test_check_ends_with_1_when_one_does_not_hold():
    result = run("check", "FrozenLake-v1", "--arg", "is_slippery=false")
    assert result.exit_code == 1
    assert "does not hold" in result.output
    assert "Counterexample: In row" in result.output


def test_check_prints_json_for_machines(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[[relation]]\nname = "bad"\nactions = "same"\nnegate = "*"\n', encoding="utf-8")
    result = run("check", "CartPole-v1", str(file), "--states", "40", "--seed", "2", "--json")
    data = json.loads(result.output)
    assert result.exit_code == 1
    assert (data["environment"], data["seed"], data["states"]) == ("CartPole-v1", 2, 40)
    found = [(c["file"], c["relation"], c["verdict"]) for c in data["checks"]]
    assert found == [(str(file), "bad", "does not hold")] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "Nowhere-v0"], "cannot be made"),
        (["check", "CartPole-v1", "cartpol"], "Did you mean 'cartpole'?"),
        (["check", "Taxi-v4", "turn"], "turn: there is no such file"),
        (["check", "named_environments:cartpole"], "no relations come with the package for 'named_environments"),
        (["show", "Taxi-v4"], "no relations come with the package for 'Taxi-v4'"),
        (["list", "Taxi-v4"], "no relations come with the package for 'Taxi-v4'"),
        (["check", "CartPole-v1", "--arg", "gravity"], "NAME=VALUE"),
        (["check", "CartPole-v1", "--names", "nowhere.toml"], "cannot be read"),
    ],
)
def test_errors_are_one_line_with_exit_code_2(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["legible", "relations", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_the_first_example_of_the_guide_prints_what_it_says(capsys):
    guide = (Path(__file__).parents[2] / "docs" / "relations.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", guide, re.DOTALL)[1]
    exec(example, {})
    said = [line.removeprefix("# ") for line in example.splitlines() if line.startswith("# ")]
    assert capsys.readouterr().out.splitlines() == said
