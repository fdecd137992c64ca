"""The rules of PAC-Man as small scenarios, each worked by hand, and laws that every play obeys.

`SCENARIOS` and `play` do not depend on an implementation: `play(factory, scenario)` needs only something that behaves
like `Game`. Here the list is put to the plain-Python reference, in `test_kernel.py` to the compiled game.

Mazes are drawn with north at the top; the bottom-left cell is (0, 0).
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacman_reference import Ghost, Reference, State

N, S, E, W, STOP = range(5)
DIRECTIONS = {"N": N, "S": S, "E": E, "W": W, "Stop": STOP}


class Game(Protocol):
    """The part of an implementation that `play` uses."""

    @property
    def state(self) -> State: ...
    @state.setter
    def state(self, state: State) -> None: ...
    def reset(self) -> Sequence[float]: ...
    def step(self, action: int, uniforms: Sequence[float]) -> tuple[Sequence[float], float, bool, bool]: ...
    def observe(self) -> Sequence[float]: ...


@dataclass(frozen=True)
class Move:
    """An action with the uniforms of the ghosts, and the reward and end of the round that must follow."""

    action: int
    uniforms: tuple[float, ...]
    reward: float
    end: str = ""


@dataclass(frozen=True)
class Scenario:
    """A situation, some moves, and what must be true after each; without moves, of the situation itself.

    An entry of ``expected`` maps attributes of the state, ``features`` or ``observation`` to their values.
    """

    name: str
    maze: str
    expected: tuple[Mapping[str, Any], ...]
    state: State | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    moves: tuple[Move, ...] = ()


def play(implementation_factory: Callable[..., Game], scenario: Scenario) -> None:
    """Run the scenario on ``implementation_factory(maze, **settings)`` and assert what it expects."""
    game = implementation_factory(scenario.maze, **scenario.settings)
    observation = game.reset()
    assert list(observation) == list(game.observe()), "reset() and observe() differ"
    if scenario.state is not None:
        game.state = scenario.state
        assert game.state == scenario.state, "the state that was assigned does not come back"
    if not scenario.moves:
        _check_situation(game, scenario.expected[0], "as given")
        return
    for number, (move, expected) in enumerate(zip(scenario.moves, scenario.expected, strict=True), start=1):
        where = f"after move {number}"
        observation, reward, terminated, truncated = game.step(move.action, move.uniforms)
        assert list(observation) == list(game.observe()), f"step() and observe() differ {where}"
        assert reward == pytest.approx(move.reward), f"reward {where}"
        assert (terminated, truncated) == (move.end == "terminated", move.end == "truncated"), f"end {where}"
        _check_situation(game, expected, where)


def _check_situation(game: Game, expected: Mapping[str, Any], where: str) -> None:
    observation = [float(value) for value in game.observe()]
    for name, value in expected.items():
        if name == "features":
            for index, feature in value.items():
                assert observation[index] == pytest.approx(feature, abs=1e-6), f"feature {index} {where}"
        elif name == "observation":
            assert observation == pytest.approx(value, abs=1e-6), f"observation {where}"
        else:
            assert getattr(game.state, name) == value, f"{name} {where}"


def _state(pacman: tuple[int, int], *ghosts: Ghost, food: Any, capsules: Any = (), steps: int = 0) -> State:
    return State(pacman, ghosts, frozenset(food), frozenset(capsules), steps)


def _hot(first: int, chosen: int | None, size: int = 5) -> dict[int, float]:
    """Return a one-hot block that begins at index `first`; all zero when nothing is chosen."""
    return {first + offset: float(offset == chosen) for offset in range(size)}


# ---- Scenarios of the file ---------------------------------------------------------------------------------------


def _read_blocks() -> Iterator[list[str]]:
    """Yield the lines of each block of `scenarios.txt`, whose head describes the notation."""
    text = Path(__file__).with_name("scenarios.txt").read_text(encoding="utf-8")
    lines = [line.partition("#")[0].rstrip() for line in text.splitlines()]
    for block in "\n".join(line for line in lines if line).replace("\n  ", " ").split("== ")[1:]:
        yield block.strip().split("\n")


MAZES = {name[5:]: "\n".join(rows) for name, *rows in _read_blocks() if name.startswith("maze ")}
LANE, CELL, CROSS, BLOCKS, ROOM = (MAZES[name] for name in ("LANE", "CELL", "CROSS", "BLOCKS", "ROOM"))


def _read_scenarios() -> Iterator[Scenario]:
    for name, head, *rounds in _read_blocks():
        if name.startswith("maze "):
            continue
        maze, *given_situation = head.removeprefix("maze ").split("; ")
        options = dict(part.split("=") for part in given_situation if "=" in part)
        situation = _read_situation([part for part in given_situation if "=" not in part])
        maze = MAZES.get(maze) or maze.replace("/", "\n").replace("_", " ")
        moves: list[Move] = []
        expected: list[dict[str, Any]] = []
        plays = [(moves, expected)]
        for line in rounds:
            if line.startswith("or "):
                plays.append((moves := [], expected := []))
            choice, _, outcome = line.removeprefix("or ").partition(":")
            action, *uniforms = choice.split()
            reward, *parts = outcome.strip().split("; ")
            if action == "situation":
                expected.append(_read_situation([reward, *parts]))
                continue
            times = int(uniforms.pop()[1:]) if uniforms and uniforms[-1].startswith("x") else 1
            drawn = tuple(map(float, uniforms)) or (0.0,) * sum(sign in "G1234" for sign in maze)
            number, _, end = reward.partition(" ")
            moves += [Move(DIRECTIONS[action], drawn, float(number), end)] * times
            expected += [_read_situation(parts)] * times
        state = State(**{"capsules": frozenset(), **situation}) if situation else None
        settings = {name: json.loads(value.lower()) for name, value in options.items()}
        for number, (moves, expected) in enumerate(play for play in plays if play[1]):
            title = f"{name}, {number + 1}" if len(plays) > 1 else name
            yield Scenario(title, maze, tuple(expected), state, settings, tuple(moves))


def _read_situation(parts: list[str]) -> dict[str, Any]:
    situation: dict[str, Any] = {}
    for part in parts:
        name, *words = part.split()
        if name == "observation":
            situation[name] = tuple(map(float, words))
        elif name == "steps":
            situation[name] = int(words[0])
        elif name == "features":
            blocks = (word.split("=") for word in words)
            situation[name] = {
                int(first) + offset: float(value)
                for first, values in blocks
                for offset, value in enumerate(values.split(","))
            }
        elif name == "ghosts":
            fields = (word.split(",") for word in words)
            situation[name] = tuple(
                Ghost(float(x), float(y), DIRECTIONS[heading], int(timer)) for x, y, heading, timer in fields
            )
        else:
            cells = [tuple(map(int, word.split(","))) for word in words if word != "none"]
            situation[name] = cells[0] if name == "pacman" else frozenset(cells)
    return situation


# ---- The observation --------------------------------------------------------------------------------------------

# Offset of the ghost from Pac-Man and its bearing, 0 N to 7 NW. A sector ends 22.5 degrees off its middle, where the
# slope is tan 22.5 = 0.4142: 2/5 = 0.4 is inside, 3/7 = 0.4286 is outside.
BEARINGS: list[tuple[float, float, int]] = [
    *((0, 1, 0), (0, 3, 0), (1, 3, 0), (-1, 3, 0), (2, 5, 0), (-2, 5, 0)),
    *((1, 1, 1), (1, 2, 1), (2, 1, 1), (3, 7, 1), (7, 3, 1)),
    *((1, 0, 2), (3, 0, 2), (3, 1, 2), (3, -1, 2), (5, 2, 2), (5, -2, 2)),
    *((1, -1, 3), (1, -2, 3), (2, -1, 3), (3, -7, 3), (7, -3, 3)),
    *((0, -1, 4), (0, -3, 4), (1, -3, 4), (-1, -3, 4), (2, -5, 4), (-2, -5, 4)),
    *((-1, -1, 5), (-1, -2, 5), (-2, -1, 5), (-3, -7, 5), (-7, -3, 5)),
    *((-1, 0, 6), (-3, 0, 6), (-3, 1, 6), (-3, -1, 6), (-5, 2, 6), (-5, -2, 6)),
    *((-1, 1, 7), (-1, 2, 7), (-2, 1, 7), (-3, 7, 7), (-7, 3, 7)),
    # Half cells: 0.5/1 = 0.5 is diagonal, 0.5/2 = 0.25 is not, 1.5/3.5 lies outside N.
    *((0, 1.5, 0), (0.5, 2, 0), (0.5, 1, 1), (1, 0.5, 1), (2, 0.5, 2), (1.5, 0, 2), (1, -0.5, 3), (0.5, -1, 3)),
    *((-0.5, -2, 4), (0, -1.5, 4), (-0.5, -1, 5), (-1, -0.5, 5), (-1.5, 0, 6), (-2, 0.5, 6), (-1, 0.5, 7)),
]


def _bearing(dx: float, dy: float, sector: int) -> Scenario:
    """In the open room the path is as long as the Manhattan distance, offset included."""
    between_columns, between_lines = dx != int(dx), dy != int(dy)
    heading, timer = (E, 20) if between_columns else (N, 20) if between_lines else (STOP, 0)
    ghost = Ghost(8 + dx, 8 + dy, heading, timer)
    features = {14: 0, **_hot(15, sector, 8), 28: abs(dx) + abs(dy), 36: 8 + dx, 37: 8 + dy}
    return _room(f"bearing of a ghost at ({dx}, {dy})", ghost, features)


def _room(name: str, ghost: Ghost, features: Mapping[int, float], food: Any = ((1, 1),), **objects: Any) -> Scenario:
    state = _state((8, 8), ghost, food=food, **objects)
    return Scenario(name, ROOM, ({"features": features},), state)


# Cells around (8,8) and the first step to the nearest of them. Ties: N before S before E before W.
NEAREST: list[tuple[tuple[tuple[int, int], ...], int, int]] = [
    *((((8, 10),), N, 2), (((8, 6),), S, 2), (((10, 8),), E, 2), (((6, 8),), W, 2)),
    *((((9, 9),), N, 2), (((7, 9),), N, 2), (((9, 7),), S, 2), (((7, 7),), S, 2)),  # the first step of two
    (((12, 7),), S, 5),  # one step S somewhere, and that may be the first
    *((((8, 6), (8, 10)), N, 2), (((10, 8), (8, 6)), S, 2), (((6, 8), (8, 6)), S, 2), (((6, 8), (10, 8)), E, 2)),
    (((6, 8), (10, 8), (8, 6), (8, 10)), N, 2),
    *((((7, 8), (8, 10)), W, 1), (((7, 7), (10, 8)), S, 2)),  # the nearer one, whatever its direction
]

OBSERVATION_SCENARIOS = [
    *(_bearing(*row) for row in BEARINGS),
    *(
        _room(
            f"nearest food of {targets}",
            Ghost(15, 1, STOP, 0),
            {8: length, **_hot(9, first), **_hot(2, None), 7: -1},
            food=targets,
        )
        for targets, first, length in NEAREST
    ),
    *(
        _room(
            f"nearest capsule of {targets}",
            Ghost(15, 1, STOP, 0),
            # Food (1,1) lies 7 + 7 away, S before W.
            {**_hot(2, first), 7: length, 8: 14, **_hot(9, S)},
            capsules=targets,
        )
        for targets, first, length in NEAREST
    ),
    *(
        _room(f"first step to a ghost at {targets[0]}", Ghost(*targets[0], STOP, 0), {**_hot(23, first), 28: length})
        for targets, first, length in NEAREST
        if len(targets) == 1
    ),
    *(
        _room(f"heading {heading} of a ghost", Ghost(3, 3, heading, 0), _hot(29, heading))
        for heading in (N, S, E, W, STOP)
    ),
    *(
        _room(f"timer {timer} of a ghost", Ghost(3, 3, N, timer), {34: float(timer > 0), 35: share, 36: 3, 37: 3})
        for timer, share in [(0, 0.0), (1, 0.025), (10, 0.25), (39, 0.975), (40, 1.0)]
    ),
    # Ghosts within Manhattan distance 1, unscared and scared; 1.5 is outside, so is a diagonal neighbour (2).
    *(
        _room(f"{ghost} nearby", ghost, {0: unscared, 1: scared})
        for ghost, unscared, scared in [
            *((Ghost(8, 9, N, 0), 1, 0), (Ghost(7, 8, STOP, 0), 1, 0)),
            *((Ghost(8, 7, S, 1), 0, 1), (Ghost(9, 8, W, 40), 0, 1)),
            *((Ghost(9.5, 8, W, 40), 0, 0), (Ghost(9, 9, W, 40), 0, 0), (Ghost(8.5, 9, E, 7), 0, 0)),
            *((Ghost(7, 9, W, 0), 0, 0), (Ghost(10, 8, W, 0), 0, 0)),
        ]
    ),
]

SCENARIOS = [*_read_scenarios(), *OBSERVATION_SCENARIOS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenario(scenario: Scenario) -> None:
    play(Reference, scenario)


# ---- The levels of the paper ------------------------------------------------------------------------------------


def _board(level: str) -> str:
    board = resources.files("pacai") / "resources" / "boards" / f"classic-{level}.board"
    _, _, maze = board.read_text(encoding="utf-8").partition("---\n")
    return maze


@pytest.mark.parametrize("with_capsules", [True, False])
@pytest.mark.parametrize(
    ("level", "size", "pellets", "places", "width"),
    [
        ("small", (20, 7), (55, 2), [(9, 1), (8, 5), (11, 5)], 69),
        ("medium", (20, 11), (97, 2), [(9, 1), (8, 5), (11, 5)], 69),
        ("original", (28, 27), (229, 4), [(14, 1), (10, 13), (13, 13), (14, 13), (17, 13)], 117),
    ],
)
def test_levels(level: str, size: Any, pellets: Any, places: Any, width: int, with_capsules: bool) -> None:
    """The numbers of food and capsules, and the places of Pac-Man and of the ghosts."""
    game = Reference(_board(level), capsules=with_capsules)
    food, capsules = pellets
    assert (game.width, game.height) == size
    assert (len(game.state.food), len(game.state.capsules)) == (food, capsules if with_capsules else 0)
    assert [game.state.pacman, *((ghost.x, ghost.y) for ghost in game.state.ghosts)] == places
    assert len(game.reset()) == width


# ---- The ghosts' choice as a distribution -----------------------------------------------------------------------


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1, 5), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("scared", [False, True])
@pytest.mark.parametrize("heading", [N, S, E, W, STOP])
def test_choice_distribution(p: Fraction, scared: bool, heading: int) -> None:
    """Uniforms in the middle of 600 equal slices hit every direction in proportion to its probability."""
    back = {N: S, S: N, E: W, W: E, STOP: STOP}[heading]
    legal = [direction for direction in (N, S, E, W) if direction != back]
    # Pac-Man lies south of the crossing: only S leads nearer.
    best = [d for d in legal if (d == S) != scared] or legal
    expected = {direction: p * (direction in best) / len(best) + (1 - p) / len(legal) for direction in legal}
    assert sum(expected.values()) == 1

    game = Reference(CROSS, attack=float(p) if not scared else 1.0, flee=float(p) if scared else 1.0)
    slices = 600
    counts = dict.fromkeys(legal, 0)
    for number in range(slices):
        game.state = _state((3, 1), Ghost(3, 3, heading, 10 if scared else 0), food=[(3, 5)])
        game.step(STOP, [(number + 0.5) / slices])
        counts[game.state.ghosts[0].heading] += 1
    for direction in legal:
        assert abs(counts[direction] - expected[direction] * slices) <= 1


# ---- Laws of every play -----------------------------------------------------------------------------------------


@st.composite
def mazes(draw: st.DrawFn) -> str:
    """Small mazes with or without a border, one Pac-Man, up to four ghosts, and whatever else comes."""
    width, height = draw(st.integers(2, 8)), draw(st.integers(1, 6))
    signs = draw(st.lists(st.sampled_from("% .. o"), min_size=width * height, max_size=width * height))
    figures = draw(st.lists(st.sampled_from("G1234"), max_size=min(4, width * height - 1)))
    count = 1 + len(figures)
    places = draw(st.lists(st.integers(0, width * height - 1), min_size=count, max_size=count, unique=True))
    for place, sign in zip(places, [draw(st.sampled_from("P0")), *figures], strict=True):
        signs[place] = sign
    rows = ["".join(signs[line * width : (line + 1) * width]) for line in range(height)]
    if draw(st.booleans()):
        edge = "%" * (width + 2)
        rows = [edge, *(f"%{row}%" for row in rows), edge]
    return "\n".join(rows) + "\n"


@st.composite
def games(draw: st.DrawFn) -> Reference:
    probabilities = st.sampled_from([0.0, 0.2, 0.5, 1.0])
    return Reference(
        draw(mazes()), attack=draw(probabilities), flee=draw(probabilities), step_cap=draw(st.integers(1, 120))
    )


def _uniforms(generator: random.Random, game: Reference) -> list[float]:
    return [generator.random() for _ in game.state.ghosts]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(games(), st.integers(0, 2**32))
def test_laws_of_a_round(game: Reference, seed: int) -> None:
    generator = random.Random(seed)
    game.reset()
    for _ in range(120):
        before = game.state
        _, reward, terminated, truncated = game.step(generator.randrange(5), _uniforms(generator, game))
        after = game.state
        assert after.steps == before.steps + 1
        assert after.food <= before.food
        assert after.capsules <= before.capsules
        assert len(before.food) - len(after.food) <= 1
        _assert_ghosts_possible(after)
        _assert_reward_adds_up(before, after, reward, terminated)
        assert not (terminated and truncated)
        if terminated or truncated:
            break


def _assert_ghosts_possible(state: State) -> None:
    for ghost in state.ghosts:
        halves = (2 * ghost.x) % 2 + (2 * ghost.y) % 2
        assert halves in {0, 1}
        assert 0 <= ghost.timer <= 40
        if halves:
            assert ghost.timer > 0
            assert ghost.heading in ((E, W) if ghost.x != int(ghost.x) else (N, S))


def _assert_reward_adds_up(before: State, after: State, reward: float, terminated: bool) -> None:
    """The reward is made of the listed parts, and its parts say how the round ended."""
    eaten = len(before.food) - len(after.food)
    won = eaten == 1 and not after.food
    contacts = reward + 1 - 10 * eaten - 500 * won
    # A ghost is eaten at most once a round; with at most four eaten, 200 a - 500 b determines a and b.
    losses_by_sum: dict[float, int] = {
        200 * eaten_ghosts - 500 * losses: losses
        for eaten_ghosts in range(len(after.ghosts) + 1)
        for losses in range(len(after.ghosts) + 1)
    }
    assert contacts in losses_by_sum
    losses = losses_by_sum[contacts]
    assert terminated == (won or losses > 0)
    assert not (won and losses)
    touching = sum(
        ghost.timer == 0 and abs(ghost.x - after.pacman[0]) + abs(ghost.y - after.pacman[1]) <= 0.7
        for ghost in after.ghosts
    )
    assert losses <= touching


@settings(max_examples=150, deadline=None, derandomize=True)
@given(games(), st.integers(0, 2**32))
def test_laws_of_the_observation(game: Reference, seed: int) -> None:
    generator = random.Random(seed)
    observation = game.reset()
    for _ in range(40):
        _assert_observation_possible(game, observation)
        observation, _, terminated, truncated = game.step(generator.randrange(5), _uniforms(generator, game))
        if terminated or truncated:
            break
    _assert_observation_possible(game, observation)


def _assert_observation_possible(game: Reference, observation: list[float]) -> None:
    state = game.state
    ghosts = len(state.ghosts)
    assert len(observation) == 14 + 24 * ghosts + 7
    assert sum(observation[2:7]) == (observation[7] != -1)
    assert sum(observation[9:14]) == 1
    for number, ghost in enumerate(state.ghosts):
        block = observation[14 + 24 * number : 38 + 24 * number]
        assert sum(block[:9]) == 1  # the same place or one bearing
        assert sum(block[9:14]) == 1
        assert sum(block[15:20]) == 1
        assert block[15 + ghost.heading] == 1
        assert block[20:] == [float(ghost.timer > 0), ghost.timer / 40, ghost.x, ghost.y]
    assert set(observation[-7:-2]) <= {0, 1}
    assert observation[-3] == 1
    assert tuple(observation[-2:]) == state.pacman
    assert observation[0] + observation[1] <= ghosts


@settings(max_examples=100, deadline=None, derandomize=True)
@given(games(), st.integers(0, 2**32))
def test_first_steps_lie_on_shortest_paths(game: Reference, seed: int) -> None:
    """A path length is one more than the least of the neighbours', and the first step is the first that attains it.

    With 0 at the target this is what defines a shortest path, so no other search is needed to check it.
    """
    generator = random.Random(seed)
    game.reset()
    for _ in range(8):
        here = game.observe()
        original = game.state
        neighbours = {}
        for direction, (dx, dy) in enumerate([(0, 1), (0, -1), (1, 0), (-1, 0)]):
            if here[-7 + direction]:
                x, y = original.pacman
                game.state = State((x + dx, y + dy), original.ghosts, original.food, original.capsules)
                neighbours[direction] = game.observe()
        game.state = original
        far = max(game.width, game.height)
        # Where the length is kept, where the one-hot first step begins, the value for "none".
        kinds = [(7, 2, -1), (8, 9, far)]
        kinds += [(14 + 24 * g + 14, 14 + 24 * g + 9, far) for g in range(len(original.ghosts))]
        for length_at, first_at, none in kinds:
            length, first = here[length_at], here[first_at : first_at + 5]
            if 1 in first[:4]:
                assert neighbours[first.index(1)][length_at] == length - 1
                for direction, there in neighbours.items():
                    assert there[length_at] >= length - 1
                    assert direction >= first.index(1) or there[length_at] > length - 1
            else:
                assert length < 1 or length == none
        *_, terminated, truncated = game.step(generator.randrange(5), _uniforms(generator, game))
        if terminated or truncated:
            break
