"""The rules of PAC-Man as small scenarios, each worked by hand, and laws that every play obeys.

`SCENARIOS` and `play` know nothing of an implementation: `play(factory, scenario)` needs only something that behaves
like `Game`, so that the same list can be put to any implementation of the game. Here it is put to the plain-Python
reference. A scenario with ``decision=True`` pins down a point that the rules leave open.

Mazes are drawn with north at the top; the bottom-left cell is (0, 0).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import resources
from typing import Any, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacman_reference import Ghost, Reference, State

N, S, E, W, STOP = range(5)

Move = tuple[int, tuple[float, ...]]


class Game(Protocol):
    """What `play` asks of an implementation."""

    @property
    def state(self) -> State: ...
    @state.setter
    def state(self, state: State) -> None: ...
    def reset(self) -> Sequence[float]: ...
    def step(self, action: int, uniforms: Sequence[float]) -> tuple[Sequence[float], float, bool, bool]: ...
    def observe(self) -> Sequence[float]: ...


@dataclass(frozen=True)
class Expected:
    """What is true after a move; fields left at None are not looked at."""

    reward: float | None = None
    terminated: bool = False
    truncated: bool = False
    pacman: tuple[int, int] | None = None
    ghosts: tuple[Ghost, ...] | None = None
    food: frozenset[tuple[int, int]] | None = None
    capsules: frozenset[tuple[int, int]] | None = None
    steps: int | None = None
    features: Mapping[int, float] = field(default_factory=dict)
    observation: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Scenario:
    """A situation, some moves, and what must be true after each; without moves, of the situation itself."""

    name: str
    maze: str
    expected: tuple[Expected, ...]
    state: State | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    moves: tuple[Move, ...] = ()
    decision: bool = False


def play(implementation_factory: Callable[..., Game], scenario: Scenario) -> None:
    """Run the scenario on ``implementation_factory(maze, **settings)`` and assert what it expects."""
    game = implementation_factory(scenario.maze, **scenario.settings)
    observation = game.reset()
    assert list(observation) == list(game.observe()), "reset() and observe() differ"
    if scenario.state is not None:
        game.state = scenario.state
        assert game.state == scenario.state, "the state that was assigned does not come back"
    if not scenario.moves:
        (expected,) = scenario.expected
        _check_situation(game, expected, "as given")
        return
    for number, ((action, uniforms), expected) in enumerate(
        zip(scenario.moves, scenario.expected, strict=True), start=1
    ):
        where = f"after move {number}"
        observation, reward, terminated, truncated = game.step(action, uniforms)
        assert list(observation) == list(game.observe()), f"step() and observe() differ {where}"
        if expected.reward is not None:
            assert reward == pytest.approx(expected.reward), f"reward {where}"
        assert (terminated, truncated) == (expected.terminated, expected.truncated), f"end {where}"
        _check_situation(game, expected, where)


def _check_situation(game: Game, expected: Expected, where: str) -> None:
    state = game.state
    for name in ("pacman", "ghosts", "food", "capsules", "steps"):
        value = getattr(expected, name)
        if value is not None:
            assert getattr(state, name) == value, f"{name} {where}"
    observation = [float(value) for value in game.observe()]
    for index, value in expected.features.items():
        assert observation[index] == pytest.approx(value, abs=1e-6), f"feature {index} {where}"
    if expected.observation is not None:
        assert observation == pytest.approx(list(expected.observation), abs=1e-6), f"observation {where}"


def _cells(*cells: tuple[int, int]) -> frozenset[tuple[int, int]]:
    return frozenset(cells)


def _state(
    pacman: tuple[int, int],
    *ghosts: Ghost,
    food: frozenset[tuple[int, int]],
    capsules: frozenset[tuple[int, int]] = frozenset(),
    steps: int = 0,
) -> State:
    return State(pacman, ghosts, food, capsules, steps)


def _hot(first: int, chosen: int | None, size: int = 5) -> dict[int, float]:
    """One-hot block that begins at index `first`; all zero when nothing is chosen."""
    return {first + offset: float(offset == chosen) for offset in range(size)}


# ---- mazes ------------------------------------------------------------------------------------------------------

# Pac-Man (1,1), food (3,1) and (5,1), ghost (7,1); 9 x 3. In a lane a ghost that has a heading has no choice.
LANE = """
%%%%%%%%%
%P . . G%
%%%%%%%%%
"""

# Pac-Man (1,1), food (3,1) and (4,1), ghost walled in at (7,1); 9 x 3.
CELL = """
%%%%%%%%%
%P .. %G%
%%%%%%%%%
"""

# Food (1,1) and (4,1), Pac-Man (2,1), capsule (3,1), ghost (8,1) in a pen of two cells, (8,1) and (9,1); 11 x 3.
PEN = """
%%%%%%%%%%%
%.Po.  %G %
%%%%%%%%%%%
"""

# Pac-Man (1,1), food (3,1), ghost 0 (6,1) in the lane, ghost 1 (8,1) in a pen of two cells; 11 x 3.
LANE_AND_PEN = """
%%%%%%%%%%%
%P .  1%2 %
%%%%%%%%%%%
"""

# The same with the numbers exchanged: ghost 0 (8,1) in the pen, ghost 1 (6,1) in the lane.
PEN_FIRST = """
%%%%%%%%%%%
%P .  2%1 %
%%%%%%%%%%%
"""

# Pac-Man (1,1), food (3,1), capsule (4,1), ghost 0 (6,1), ghost 1 (7,1), all in one lane; 9 x 3.
TWINS = """
%%%%%%%%%
%P .o 12%
%%%%%%%%%
"""

# Pac-Man (3,1), ghost at the crossing (3,3), food (3,5); arms: (3,4)-(3,5), (3,2)-(3,1), (4,3)-(5,3), (2,3)-(1,3).
CROSS = """
%%%%%%%
%%%.%%%
%%% %%%
%  G  %
%%% %%%
%%%P%%%
%%%%%%%
"""

# Four corridors around one block. Pac-Man (1,3), food (3,3), ghost (3,1); 5 x 5.
RING = """
%%%%%
%P .%
% % %
%  G%
%%%%%
"""

# Ghost 0 (5,5), ghost 1 (5,1), Pac-Man (3,3), capsule (1,5), food (1,1); four blocks at (2|4, 2|4); 7 x 7.
BLOCKS = """
%%%%%%%
%o   1%
% % % %
%  P  %
% % % %
%.   2%
%%%%%%%
"""

# Food (1,1), Pac-Man (2,1), wall (3,1), ghost (4,1): neighbours but for a wall, ten steps apart on foot; 7 x 5.
DETOUR = """
%%%%%%%
%     %
% %%% %
%.P%G %
%%%%%%%
"""

# Ghosts 0 (1,7), 1 (7,7), 2 (1,1), 3 (7,1), food (3,5), Pac-Man (4,4), capsule (4,1); 9 x 9.
FOUR = """
%%%%%%%%%
%1     2%
% %%%%% %
% %.  % %
%   P   %
% %   % %
% %%%%% %
%3  o  4%
%%%%%%%%%
"""

# An open room, every cell from (1,1) to (15,15), Pac-Man in the middle at (8,8); 17 x 17.
_EMPTY_LINE = "%               %\n"
ROOM = (
    "%%%%%%%%%%%%%%%%%\n"
    "%o              %\n"
    + 6 * _EMPTY_LINE
    + "%       P       %\n"
    + 6 * _EMPTY_LINE
    + "%.             G%\n"
    + "%%%%%%%%%%%%%%%%%\n"
)

# The ghost (3,4) may go south into a blind alley that ends above Pac-Man (3,1), or east on the way to it; 7 x 6.
BLIND_ALLEY = """
%%%%%%%
%%%G  %
%%% % %
%%%%% %
%%%P .%
%%%%%%%
"""

LANE_FOOD = _cells((3, 1), (5, 1))
CROSS_FOOD = _cells((3, 5))


def _quiet(**expected: Any) -> Expected:
    """A step that only costs its 1."""
    return Expected(reward=-1, **expected)


# ---- Pac-Man's move ---------------------------------------------------------------------------------------------

PACMAN_SCENARIOS = [
    Scenario(
        "standing still costs 1",
        CELL,
        moves=((STOP, (0.0,)),),
        expected=(_quiet(pacman=(1, 1), ghosts=(Ghost(7, 1, STOP, 0),), food=_cells((3, 1), (4, 1)), steps=1),),
    ),
    Scenario(
        "every step costs 1, moving or not",
        CELL,
        moves=((E, (0.0,)), (W, (0.0,)), (STOP, (0.0,)), (E, (0.0,))),
        expected=(
            _quiet(pacman=(2, 1), steps=1),
            _quiet(pacman=(1, 1), steps=2),
            _quiet(pacman=(1, 1), steps=3),
            _quiet(pacman=(2, 1), steps=4),
        ),
    ),
    Scenario(
        "north and south are up and down",
        RING,
        # From (1,2): N is (1,3), S back. The ghost came down into the corner (3,1), so W is its only way on.
        state=_state((1, 2), Ghost(3, 1, S, 0), food=_cells((3, 3))),
        moves=((N, (0.0,)), (S, (0.0,))),
        expected=(
            _quiet(pacman=(1, 3), ghosts=(Ghost(2, 1, W, 0),)),
            _quiet(pacman=(1, 2), ghosts=(Ghost(1, 1, W, 0),)),
        ),
    ),
    Scenario(
        "a wall leaves Pac-Man in place at the price of a step",
        CELL,
        moves=((N, (0.0,)), (S, (0.0,)), (W, (0.0,))),
        expected=(_quiet(pacman=(1, 1)), _quiet(pacman=(1, 1)), _quiet(pacman=(1, 1), steps=3)),
    ),
    Scenario(
        "a wall to the east",
        CELL,
        state=_state((5, 1), Ghost(7, 1, STOP, 0), food=_cells((3, 1))),
        moves=((E, (0.0,)),),
        expected=(_quiet(pacman=(5, 1)),),
    ),
    Scenario(
        "the penalty for running into a wall is taken off besides the 1",
        CELL,
        settings={"illegal_move_penalty": 10.0},
        # -1 - 10, twice; standing still and walking are legal: -1 each; food: -1 + 10.
        moves=((N, (0.0,)), (W, (0.0,)), (STOP, (0.0,)), (E, (0.0,)), (E, (0.0,))),
        expected=(
            Expected(reward=-11, pacman=(1, 1)),
            Expected(reward=-11, pacman=(1, 1)),
            _quiet(pacman=(1, 1)),
            _quiet(pacman=(2, 1)),
            Expected(reward=9, pacman=(3, 1)),
        ),
    ),
    Scenario(
        "the penalty adds to the loss in the same round",
        LANE,
        settings={"illegal_move_penalty": 10.0},
        # -1 - 10 for the wall, then the ghost steps from (5,1) onto Pac-Man: -500.
        state=_state((4, 1), Ghost(5, 1, W, 0), food=LANE_FOOD),
        moves=((N, (0.0,)),),
        expected=(Expected(reward=-511, terminated=True, pacman=(4, 1), ghosts=(Ghost(4, 1, W, 0),)),),
    ),
    Scenario(
        "food gives 10 and is gone",
        CELL,
        state=_state((2, 1), Ghost(7, 1, STOP, 0), food=_cells((3, 1), (4, 1))),
        moves=((E, (0.0,)), (W, (0.0,)), (E, (0.0,))),
        expected=(
            Expected(reward=9, pacman=(3, 1), food=_cells((4, 1))),
            _quiet(),
            _quiet(pacman=(3, 1), food=_cells((4, 1))),
        ),
    ),
    Scenario(
        "the last food wins",
        CELL,
        # -1 + 10, then -1 + 10 + 500.
        state=_state((2, 1), Ghost(7, 1, STOP, 0), food=_cells((3, 1), (4, 1))),
        moves=((E, (0.0,)), (E, (0.0,))),
        expected=(Expected(reward=9), Expected(reward=509, terminated=True, food=_cells(), steps=2)),
    ),
    Scenario(
        "the last food wins even with capsules left",
        PEN,
        state=_state((2, 1), Ghost(8, 1, STOP, 0), food=_cells((1, 1)), capsules=_cells((3, 1))),
        moves=((W, (0.0,)),),
        expected=(
            Expected(
                reward=509,
                terminated=True,
                food=_cells(),
                capsules=_cells((3, 1)),
                ghosts=(Ghost(8, 1, STOP, 0),),
            ),
        ),
    ),
    Scenario(
        "a win ends the round before the ghosts move",
        LANE,
        # The ghost at (6,1) would step onto (5,1).
        state=_state((4, 1), Ghost(6, 1, W, 0), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=509, terminated=True, pacman=(5, 1), ghosts=(Ghost(6, 1, W, 0),)),),
    ),
    Scenario(
        "taking the last capsule does not win",
        PEN,
        moves=((E, (0.0,)),),
        expected=(_quiet(capsules=_cells(), food=_cells((1, 1), (4, 1))),),
    ),
]

# ---- capsules ---------------------------------------------------------------------------------------------------

CAPSULE_SCENARIOS = [
    Scenario(
        "a capsule scores nothing and scares",
        PEN,
        # Timer 40, then the ghost's half step east from (8,1) and 40 - 1; on to (9,1); back from the dead end.
        moves=((E, (0.0,)), (STOP, (0.0,)), (STOP, (0.0,))),
        expected=(
            _quiet(pacman=(3, 1), capsules=_cells(), ghosts=(Ghost(8.5, 1, E, 39),)),
            _quiet(ghosts=(Ghost(9, 1, E, 38),)),
            _quiet(ghosts=(Ghost(8.5, 1, W, 37),)),
        ),
    ),
    Scenario(
        "forty half steps, then full speed",
        PEN,
        # The pen is walked in four half steps: 8.5, 9, 8.5, 8. After 39: 8.5, timer 1; after 40: 8, timer 0; then
        # one whole cell out of the dead end (8,1).
        moves=((E, (0.0,)), *(((STOP, (0.0,)),) * 40)),
        expected=(
            *((_quiet(),) * 38),
            _quiet(ghosts=(Ghost(8.5, 1, W, 1),)),
            _quiet(ghosts=(Ghost(8, 1, W, 0),)),
            _quiet(ghosts=(Ghost(9, 1, E, 0),)),
        ),
    ),
    Scenario(
        "a capsule sets every timer to 40, whatever it was",
        TWINS,
        # Ghost 0 was unscared, ghost 1 had 3 left between two cells: both 40, half a step, 39.
        state=_state((3, 1), Ghost(6, 1, E, 0), Ghost(6.5, 1, W, 3), food=_cells((2, 1)), capsules=_cells((4, 1))),
        moves=((E, (0.0, 0.0)),),
        expected=(_quiet(capsules=_cells(), ghosts=(Ghost(6.5, 1, E, 39), Ghost(6, 1, W, 39))),),
    ),
    Scenario(
        "a capsule scares before collisions are checked",
        TWINS,
        # Ghost 0 sits on the capsule and is eaten: -1 + 200; home to (6,1), then a whole step: E has 0.8 / 2 = 0.4, so
        # 0.1 takes E to (7,1). Ghost 1 is scared: half a step W from (7,1), 39.
        state=_state((3, 1), Ghost(4, 1, W, 0), Ghost(7, 1, STOP, 0), food=_cells((2, 1)), capsules=_cells((4, 1))),
        moves=((E, (0.1, 0.0)),),
        expected=(Expected(reward=199, pacman=(4, 1), ghosts=(Ghost(7, 1, E, 0), Ghost(6.5, 1, W, 39))),),
    ),
    Scenario(
        "only the capsule under Pac-Man is used up",
        ROOM,
        # Ghost far in the corner (15,1), heading E, N is the only way on: half a step.
        state=_state((2, 8), Ghost(15, 1, E, 0), food=_cells((1, 1)), capsules=_cells((3, 8), (1, 15))),
        moves=((E, (0.0,)),),
        expected=(_quiet(capsules=_cells((1, 15)), ghosts=(Ghost(15, 1.5, N, 39),)),),
    ),
    Scenario(
        "a level without capsules: no one is scared",
        PEN,
        settings={"capsules": False},
        # Nothing at (3,1): the ghost walks its pen at full speed.
        moves=((E, (0.0,)),),
        expected=(_quiet(pacman=(3, 1), capsules=_cells(), ghosts=(Ghost(9, 1, E, 0),)),),
    ),
    Scenario(
        "a level without capsules keeps the width of its observation: all 69 features",
        TWINS,
        settings={"capsules": False},
        expected=(
            Expected(
                capsules=_cells(),
                observation=(
                    *(0, 0),
                    *(0, 0, 0, 0, 0, -1),
                    *(2, 0, 0, 1, 0, 0),
                    *(0, *(0, 0, 1, 0, 0, 0, 0, 0), *(0, 0, 1, 0, 0, 5), *(0, 0, 0, 0, 1), 0, 0, 6, 1),
                    *(0, *(0, 0, 1, 0, 0, 0, 0, 0), *(0, 0, 1, 0, 0, 6), *(0, 0, 0, 0, 1), 0, 0, 7, 1),
                    *(0, 0, 1, 0, 1),
                    *(1, 1),
                ),
            ),
        ),
    ),
]

# ---- contact ----------------------------------------------------------------------------------------------------

CONTACT_SCENARIOS = [
    Scenario(
        "walking into an unscared ghost loses",
        LANE,
        # -1 - 500, and the ghost does not move any more.
        state=_state((3, 1), Ghost(4, 1, W, 0), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(
            Expected(reward=-501, terminated=True, pacman=(4, 1), ghosts=(Ghost(4, 1, W, 0),), food=_cells((5, 1))),
        ),
    ),
    Scenario(
        "food is eaten before the ghost on it is met",
        LANE,
        # -1 + 10 - 500: not the last food.
        state=_state((4, 1), Ghost(5, 1, W, 0), food=LANE_FOOD),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=-491, terminated=True, food=_cells((3, 1))),),
    ),
    Scenario(
        "a ghost walking into Pac-Man wins",
        LANE,
        # Pac-Man (3,1) -> (4,1), then the ghost (5,1) -> (4,1).
        state=_state((3, 1), Ghost(5, 1, W, 0), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=-501, terminated=True, pacman=(4, 1), ghosts=(Ghost(4, 1, W, 0),)),),
    ),
    Scenario(
        "a ghost one cell away is no contact",
        LANE,
        # Pac-Man steps up to the ghost, which is heading away: (4,1) -> (5,1).
        state=_state((2, 1), Ghost(4, 1, E, 0), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(_quiet(pacman=(3, 1), ghosts=(Ghost(5, 1, E, 0),)),),
    ),
    Scenario(
        "eating a scared ghost",
        LANE,
        # -1 + 200; home to (7,1), timer 0, heading Stop; in the same round one whole cell W from there.
        state=_state((3, 1), Ghost(4, 1, W, 10), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=199, pacman=(4, 1), ghosts=(Ghost(6, 1, W, 0),)),),
    ),
    Scenario(
        "half a cell apart is contact when Pac-Man moves",
        LANE,
        # |3.5 - 3| = 0.5 <= 0.7.
        state=_state((2, 1), Ghost(3.5, 1, E, 10), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=199, pacman=(3, 1), ghosts=(Ghost(6, 1, W, 0),)),),
    ),
    Scenario(
        "half a cell apart is contact when Pac-Man moves, vertically",
        CROSS,
        # Pac-Man (3,1) -> (3,2), ghost (3,2.5): eaten, home to (3,3); 0.1 takes N (0.2) from there: (3,4).
        state=_state((3, 1), Ghost(3, 2.5, N, 10), food=CROSS_FOOD),
        moves=((N, (0.1,)),),
        expected=(Expected(reward=199, pacman=(3, 2), ghosts=(Ghost(3, 4, N, 0),)),),
    ),
    Scenario(
        "one and a half cells apart is no contact",
        LANE,
        # |4.5 - 3| = 1.5, then the ghost goes on to (5,1): 2.
        state=_state((2, 1), Ghost(4.5, 1, E, 10), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(_quiet(pacman=(3, 1), ghosts=(Ghost(5, 1, E, 9),)),),
    ),
    Scenario(
        "one cell apart is no contact with a scared ghost either",
        LANE,
        state=_state((3, 1), Ghost(4, 1, E, 10), food=_cells((5, 1))),
        moves=((STOP, (0.0,)),),
        expected=(_quiet(ghosts=(Ghost(4.5, 1, E, 9),)),),
    ),
    Scenario(
        "diagonal neighbours do not touch",
        BLOCKS,
        # Pac-Man (3,3) -> (2,3); ghost 0 at (1,4) is then 1 + 1 away and goes on N to (1,5). Ghost 1 goes E.
        state=_state((3, 3), Ghost(1, 4, N, 0), Ghost(4, 1, E, 0), food=_cells((1, 1))),
        moves=((W, (0.0, 0.0)),),
        expected=(_quiet(pacman=(2, 3), ghosts=(Ghost(1, 5, N, 0), Ghost(5, 1, E, 0))),),
    ),
    Scenario(
        "a scared ghost running into Pac-Man is eaten and has moved already",
        LANE,
        # Half a step W to (4.5,1): distance 0.5. Home, and there it stays until the next round.
        state=_state((4, 1), Ghost(5, 1, W, 10), food=_cells((3, 1))),
        moves=((STOP, (0.0,)), (STOP, (0.0,))),
        expected=(
            Expected(reward=199, ghosts=(Ghost(7, 1, STOP, 0),)),
            _quiet(ghosts=(Ghost(6, 1, W, 0),)),
        ),
    ),
    Scenario(
        "an eaten ghost is deadly in the same round",
        CROSS,
        # Eaten at (3,2): +200, home to the crossing (3,3) above Pac-Man; attack 1 sends it S, at full speed: -500.
        state=_state((3, 1), Ghost(3, 2, S, 10), food=CROSS_FOOD),
        settings={"attack": 1.0, "flee": 0.0},
        moves=((N, (0.0,)),),
        expected=(Expected(reward=-301, terminated=True, pacman=(3, 2), ghosts=(Ghost(3, 2, S, 0),)),),
    ),
    Scenario(
        "an eaten ghost is deadly while the other is still scared",
        TWINS,
        state=_state((3, 1), Ghost(4, 1, W, 0), Ghost(6, 1, W, 20), food=_cells((2, 1))),
        moves=((E, (0.0, 0.0)),),
        expected=(Expected(reward=-501, terminated=True, ghosts=(Ghost(4, 1, W, 0), Ghost(6, 1, W, 20))),),
    ),
    Scenario(
        "after a win an unscared ghost is ignored",
        LANE,
        state=_state((4, 1), Ghost(5, 1, W, 0), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=509, terminated=True, ghosts=(Ghost(5, 1, W, 0),)),),
    ),
    Scenario(
        "after a win a scared ghost still scores",
        LANE,
        # -1 + 10 + 500 + 200; it goes home and no one moves.
        state=_state((4, 1), Ghost(5, 1, W, 10), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=709, terminated=True, ghosts=(Ghost(7, 1, STOP, 0),)),),
    ),
    Scenario(
        "after a win one of each: only the scared one counts",
        TWINS,
        state=_state((4, 1), Ghost(5, 1, W, 0), Ghost(5, 1, W, 10), food=_cells((5, 1))),
        moves=((E, (0.0, 0.0)),),
        expected=(Expected(reward=709, terminated=True, ghosts=(Ghost(5, 1, W, 0), Ghost(7, 1, STOP, 0))),),
    ),
    Scenario(
        "two scared ghosts on one cell are both eaten",
        TWINS,
        # -1 + 400. Ghost 0 from (6,1): E has 0.4, W has 0.6; 0.1 takes E to (7,1). Ghost 1 from (7,1): W to (6,1).
        state=_state((4, 1), Ghost(5, 1, W, 10), Ghost(5, 1, W, 10), food=_cells((2, 1))),
        moves=((E, (0.1, 0.0)),),
        expected=(Expected(reward=399, pacman=(5, 1), ghosts=(Ghost(7, 1, E, 0), Ghost(6, 1, W, 0))),),
    ),
    Scenario(
        "two eaten, the first comes back at once",
        TWINS,
        # As above, but 0.9 takes W onto Pac-Man (5,1): -1 + 400 - 500; ghost 1 does not move.
        state=_state((4, 1), Ghost(5, 1, W, 10), Ghost(5, 1, W, 10), food=_cells((2, 1))),
        moves=((E, (0.9, 0.0)),),
        expected=(Expected(reward=-101, terminated=True, ghosts=(Ghost(5, 1, W, 0), Ghost(7, 1, STOP, 0))),),
    ),
    Scenario(
        "two unscared ghosts on one cell: each contact costs 500",
        TWINS,
        # Collisions with all ghosts are settled, so -1 - 500 - 500.
        state=_state((4, 1), Ghost(5, 1, W, 0), Ghost(5, 1, W, 0), food=_cells((2, 1))),
        moves=((E, (0.0, 0.0)),),
        expected=(Expected(reward=-1001, terminated=True, ghosts=(Ghost(5, 1, W, 0), Ghost(5, 1, W, 0))),),
        decision=True,
    ),
    Scenario(
        "an unscared ghost before a scared one: both contacts count",
        TWINS,
        # -1 - 500 + 200.
        state=_state((4, 1), Ghost(5, 1, W, 0), Ghost(5, 1, W, 10), food=_cells((2, 1))),
        moves=((E, (0.0, 0.0)),),
        expected=(Expected(reward=-301, terminated=True, ghosts=(Ghost(5, 1, W, 0), Ghost(7, 1, STOP, 0))),),
        decision=True,
    ),
    Scenario(
        "a scared ghost before an unscared one: both contacts count",
        TWINS,
        # -1 + 200 - 500.
        state=_state((4, 1), Ghost(5, 1, W, 10), Ghost(5, 1, W, 0), food=_cells((2, 1))),
        moves=((E, (0.0, 0.0)),),
        expected=(Expected(reward=-301, terminated=True, ghosts=(Ghost(6, 1, STOP, 0), Ghost(5, 1, W, 0))),),
    ),
    Scenario(
        "two ghosts arriving one after the other: the first ends the round",
        TWINS,
        # Both at (6,1) heading W, Pac-Man waits at (5,1): ghost 0 -500, ghost 1 stays where it is.
        state=_state((5, 1), Ghost(6, 1, W, 0), Ghost(6, 1, W, 0), food=_cells((2, 1))),
        moves=((STOP, (0.0, 0.0)),),
        expected=(Expected(reward=-501, terminated=True, ghosts=(Ghost(5, 1, W, 0), Ghost(6, 1, W, 0))),),
    ),
    Scenario(
        "a loss on a ghost's move ends the round: later ghosts and timers stand still",
        LANE_AND_PEN,
        state=_state((4, 1), Ghost(5, 1, W, 0), Ghost(8, 1, W, 10), food=_cells((3, 1))),
        moves=((STOP, (0.0, 0.0)),),
        expected=(Expected(reward=-501, terminated=True, ghosts=(Ghost(4, 1, W, 0), Ghost(8, 1, W, 10))),),
    ),
    Scenario(
        "ghosts before the one that ends the round have moved",
        PEN_FIRST,
        # Ghost 0 in the dead end (8,1) of its pen, heading W: half a step E, 9. Then ghost 1 (5,1) -> (4,1).
        state=_state((4, 1), Ghost(8, 1, W, 10), Ghost(5, 1, W, 0), food=_cells((3, 1))),
        moves=((STOP, (0.0, 0.0)),),
        expected=(Expected(reward=-501, terminated=True, ghosts=(Ghost(8.5, 1, E, 9), Ghost(4, 1, W, 0))),),
    ),
    Scenario(
        "a loss on Pac-Man's move ends the round: no ghost moves",
        LANE_AND_PEN,
        state=_state((4, 1), Ghost(5, 1, W, 0), Ghost(8, 1, W, 10), food=_cells((3, 1))),
        moves=((E, (0.0, 0.0)),),
        expected=(Expected(reward=-501, terminated=True, ghosts=(Ghost(5, 1, W, 0), Ghost(8, 1, W, 10))),),
    ),
    Scenario(
        "eaten on its own start, a ghost leaves it; other ghosts' moves check only themselves",
        TWINS,
        # Pac-Man steps on (7,1), the start of ghost 1, and eats it there: ghost 1 is put on (7,1), unscared. Ghost 0
        # moves (3,1) -> (2,1): only its own contact is looked at. Ghost 1 moves W to (6,1): distance 1, no contact.
        state=_state((6, 1), Ghost(3, 1, W, 0), Ghost(7, 1, E, 10), food=_cells((2, 1))),
        moves=((E, (0.0, 0.0)),),
        expected=(Expected(reward=199, pacman=(7, 1), ghosts=(Ghost(2, 1, W, 0), Ghost(6, 1, W, 0))),),
    ),
    Scenario(
        "eaten in its own move while Pac-Man stands on its start",
        TWINS,
        # Ghost 1 (6,1) runs E to (6.5,1): +200, put on (7,1) with Pac-Man, unscared. They are at the same place: flag
        # 38, no bearing 39-46, Stop 51, path 52 = 0, one unscared ghost within 1 (feature 0). Next round Pac-Man stays:
        # contact, -500.
        state=_state((7, 1), Ghost(3, 1, W, 0), Ghost(6, 1, E, 10), food=_cells((2, 1))),
        moves=((STOP, (0.0, 0.0)), (STOP, (0.0, 0.0))),
        expected=(
            Expected(
                reward=199,
                ghosts=(Ghost(2, 1, W, 0), Ghost(7, 1, STOP, 0)),
                features={0: 1, 1: 0, 38: 1, **_hot(39, None, 8), **_hot(47, STOP), 52: 0, **_hot(53, STOP)},
            ),
            Expected(reward=-501, terminated=True, ghosts=(Ghost(2, 1, W, 0), Ghost(7, 1, STOP, 0))),
        ),
    ),
]

# ---- scared time ------------------------------------------------------------------------------------------------

SCARED_SCENARIOS = [
    Scenario(
        "half speed while scared",
        LANE,
        state=_state((1, 1), Ghost(6, 1, W, 10), food=LANE_FOOD),
        moves=((STOP, (0.0,)), (STOP, (0.0,)), (STOP, (0.0,))),
        expected=(
            _quiet(ghosts=(Ghost(5.5, 1, W, 9),)),
            _quiet(ghosts=(Ghost(5, 1, W, 8),)),
            _quiet(ghosts=(Ghost(4.5, 1, W, 7),)),
        ),
    ),
    Scenario(
        "no snap at timer 2, and full speed from 0 on",
        LANE,
        # 5 -> 4.5 (timer 1) -> 4 (timer 0) -> 3.
        state=_state((1, 1), Ghost(5, 1, W, 2), food=LANE_FOOD),
        moves=((STOP, (0.0,)), (STOP, (0.0,)), (STOP, (0.0,))),
        expected=(
            _quiet(ghosts=(Ghost(4.5, 1, W, 1),)),
            _quiet(ghosts=(Ghost(4, 1, W, 0),)),
            _quiet(ghosts=(Ghost(3, 1, W, 0),)),
        ),
    ),
    Scenario(
        "the snap rounds halves up: heading west it undoes the step",
        LANE,
        # 5 - 0.5 = 4.5 -> int(5.0) = 5; the heading stays W, so the next move goes on to (4,1).
        state=_state((1, 1), Ghost(5, 1, W, 1), food=LANE_FOOD),
        moves=((STOP, (0.0,)), (STOP, (0.0,))),
        expected=(_quiet(ghosts=(Ghost(5, 1, W, 0),)), _quiet(ghosts=(Ghost(4, 1, W, 0),))),
    ),
    Scenario(
        "the snap rounds halves up: heading east it completes the step",
        LANE,
        state=_state((1, 1), Ghost(5, 1, E, 1), food=LANE_FOOD),
        moves=((STOP, (0.0,)),),
        expected=(_quiet(ghosts=(Ghost(6, 1, E, 0),)),),
    ),
    Scenario(
        "the snap heading north",
        CROSS,
        # (3,4) + 0.5 = 4.5 -> 5.
        state=_state((3, 1), Ghost(3, 4, N, 1), food=CROSS_FOOD),
        moves=((STOP, (0.0,)),),
        expected=(_quiet(ghosts=(Ghost(3, 5, N, 0),)),),
    ),
    Scenario(
        "the snap heading south",
        CROSS,
        # (3,4) - 0.5 = 3.5 -> 4.
        state=_state((3, 1), Ghost(3, 4, S, 1), food=CROSS_FOOD),
        moves=((STOP, (0.0,)),),
        expected=(_quiet(ghosts=(Ghost(3, 4, S, 0),)),),
    ),
    Scenario(
        "from between two cells the last scared move reaches a cell",
        LANE,
        state=_state((1, 1), Ghost(4.5, 1, W, 1), food=LANE_FOOD),
        moves=((STOP, (0.0,)),),
        expected=(_quiet(ghosts=(Ghost(4, 1, W, 0),)),),
    ),
    Scenario(
        "deadly on the very move that ends its timer",
        LANE,
        # 3 + 0.5 = 3.5 snaps to 4, Pac-Man's cell, with timer 0: -500.
        state=_state((4, 1), Ghost(3, 1, E, 1), food=_cells((5, 1))),
        moves=((STOP, (0.0,)),),
        expected=(Expected(reward=-501, terminated=True, ghosts=(Ghost(4, 1, E, 0),)),),
    ),
    Scenario(
        "the snap can keep it off Pac-Man",
        LANE,
        # 5 - 0.5 = 4.5 snaps back to 5: distance 1.
        state=_state((4, 1), Ghost(5, 1, W, 1), food=_cells((3, 1))),
        moves=((STOP, (0.0,)),),
        expected=(_quiet(ghosts=(Ghost(5, 1, W, 0),)),),
    ),
    Scenario(
        "with timer 2 it is still food after the move",
        LANE,
        # 3 + 0.5 = 3.5, timer 1: +200, home.
        state=_state((4, 1), Ghost(3, 1, E, 2), food=_cells((5, 1))),
        moves=((STOP, (0.0,)),),
        expected=(Expected(reward=199, ghosts=(Ghost(7, 1, STOP, 0),)),),
    ),
    Scenario(
        "with timer 1 it is still food on Pac-Man's move",
        LANE,
        state=_state((3, 1), Ghost(4, 1, W, 1), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=199, ghosts=(Ghost(6, 1, W, 0),)),),
    ),
    Scenario(
        "a walled-in ghost stays, its timer runs",
        CELL,
        state=_state((1, 1), Ghost(7, 1, STOP, 2), food=_cells((3, 1))),
        moves=((STOP, (0.5,)), (STOP, (0.5,)), (STOP, (0.5,))),
        expected=(
            _quiet(ghosts=(Ghost(7, 1, STOP, 1),)),
            _quiet(ghosts=(Ghost(7, 1, STOP, 0),)),
            _quiet(ghosts=(Ghost(7, 1, STOP, 0),)),
        ),
    ),
]

# ---- the ghosts' directions -------------------------------------------------------------------------------------


def _choice(name: str, ghost: Ghost, uniform: float, after: Ghost, *, maze: str = CROSS, **options: float) -> Scenario:
    """Pac-Man waits at (3,1) south of the crossing while the ghost makes one choice."""
    return Scenario(
        f"{name}: heading {'NSEW-'[ghost.heading]} at ({ghost.x}, {ghost.y}), uniform {uniform}",
        maze,
        state=_state((3, 1), ghost, food=CROSS_FOOD if maze is CROSS else _cells((5, 1))),
        settings=options,
        moves=((STOP, (uniform,)),),
        expected=(_quiet(pacman=(3, 1), ghosts=(after,)),),
    )


_TO_N, _TO_S, _TO_E, _TO_W = Ghost(3, 4, N, 0), Ghost(3, 2, S, 0), Ghost(4, 3, E, 0), Ghost(2, 3, W, 0)
_FLEE_N, _FLEE_S = Ghost(3, 3.5, N, 9), Ghost(3, 2.5, S, 9)
_FLEE_E, _FLEE_W = Ghost(3.5, 3, E, 9), Ghost(2.5, 3, W, 9)

_AT_START = Ghost(3, 3, STOP, 0)
_AT_START_SCARED = Ghost(3, 3, STOP, 10)

DIRECTION_SCENARIOS = [
    # Heading Stop: all four. Distances to (3,1) after a step: N 3, S 1, E 3, W 3, so S alone is best.
    # p = 0: a quarter each.
    *(
        _choice("a start, attack 0: every open direction, never Stop", _AT_START, uniform, after, attack=0.0)
        for uniform, after in [
            *((0.0, _TO_N), (0.24, _TO_N), (0.25, _TO_S), (0.49, _TO_S)),
            *((0.5, _TO_E), (0.74, _TO_E), (0.75, _TO_W), (0.99, _TO_W)),
        ]
    ),
    # p = 0.2: 0.8 / 4 = 0.2 each, S 0.2 more: cumulative 0.2, 0.6, 0.8, 1.
    *(
        _choice("a start, attack 0.2", _AT_START, uniform, after)
        for uniform, after in [
            *((0.0, _TO_N), (0.19, _TO_N), (0.21, _TO_S), (0.59, _TO_S)),
            *((0.61, _TO_E), (0.79, _TO_E), (0.81, _TO_W), (0.99, _TO_W)),
        ]
    ),
    # p = 1: S whatever happens.
    *(_choice("a start, attack 1", _AT_START, uniform, _TO_S, attack=1.0) for uniform in (0.0, 0.3, 0.7, 0.99)),
    # Scared, half steps: N 2.5, S 1.5, E 2.5, W 2.5, so N, E and W are best. p = 0: a quarter each.
    *(
        _choice("scared, flee 0", _AT_START_SCARED, uniform, after, flee=0.0, attack=1.0)
        for uniform, after in [(0.1, _FLEE_N), (0.3, _FLEE_S), (0.6, _FLEE_E), (0.9, _FLEE_W)]
    ),
    # p = 0.2: 0.2 each, a third of 0.2 more for N, E, W: cumulative 0.2667, 0.4667, 0.7333, 1.
    *(
        _choice("scared, flee 0.2", _AT_START_SCARED, uniform, after)
        for uniform, after in [
            *((0.26, _FLEE_N), (0.27, _FLEE_S), (0.46, _FLEE_S), (0.47, _FLEE_E)),
            *((0.73, _FLEE_E), (0.74, _FLEE_W), (0.99, _FLEE_W)),
        ]
    ),
    # p = 1: a third each for N, E, W.
    *(
        _choice("scared, flee 1", _AT_START_SCARED, uniform, after, flee=1.0, attack=0.0)
        for uniform, after in [
            *((0.0, _FLEE_N), (0.33, _FLEE_N), (0.34, _FLEE_E), (0.66, _FLEE_E), (0.67, _FLEE_W)),
            (0.99, _FLEE_W),
        ]
    ),
    # Heading E at the crossing: not W. p = 0: a third each; p = 0.2: 0.2667, S 0.4667: cumulative 0.2667, 0.7333, 1.
    *(
        _choice("heading east, no way back, attack 0", Ghost(3, 3, E, 0), uniform, after, attack=0.0)
        for uniform, after in [(0.33, _TO_N), (0.34, _TO_S), (0.66, _TO_S), (0.67, _TO_E), (0.99, _TO_E)]
    ),
    *(
        _choice("heading east, no way back, attack 0.2", Ghost(3, 3, E, 0), uniform, after)
        for uniform, after in [(0.26, _TO_N), (0.27, _TO_S), (0.73, _TO_S), (0.74, _TO_E)]
    ),
    *(
        _choice("heading west, not east", Ghost(3, 3, W, 0), uniform, after, attack=0.0)
        for uniform, after in [(0.3, _TO_N), (0.5, _TO_S), (0.99, _TO_W)]
    ),
    # Heading N: not S, although it is the best of all. N, E, W all lead to distance 3: a third each at any p.
    *(
        _choice("heading north, not south", Ghost(3, 3, N, 0), uniform, after, attack=1.0)
        for uniform, after in [(0.33, _TO_N), (0.34, _TO_E), (0.66, _TO_E), (0.67, _TO_W)]
    ),
    *(
        _choice("heading south, not north", Ghost(3, 3, S, 0), uniform, after, attack=0.0)
        for uniform, after in [(0.0, _TO_S), (0.34, _TO_E), (0.67, _TO_W)]
    ),
    # Corridors and dead ends leave no choice.
    _choice("in a corridor on, not back, though back is nearer", Ghost(4, 3, E, 0), 0.0, Ghost(5, 3, E, 0)),
    _choice("in a corridor back to the crossing", Ghost(4, 3, W, 0), 0.99, Ghost(3, 3, W, 0)),
    _choice("a dead end in the east turns it round", Ghost(5, 3, E, 0), 0.0, Ghost(4, 3, W, 0)),
    _choice("a dead end in the west turns it round", Ghost(1, 3, W, 0), 0.0, Ghost(2, 3, E, 0)),
    _choice("a dead end in the north turns it round", Ghost(3, 5, N, 0), 0.0, Ghost(3, 4, S, 0)),
    _choice("a dead end turns a scared ghost round", Ghost(3, 5, N, 10), 0.0, Ghost(3, 4.5, S, 9), flee=1.0),
    Scenario(
        "a dead end in the south turns it round",
        CROSS,
        # Pac-Man keeps to the far end of the north arm.
        state=_state((3, 5), Ghost(3, 1, S, 0), food=_cells((1, 3))),
        moves=((STOP, (0.0,)),),
        expected=(_quiet(ghosts=(Ghost(3, 2, N, 0),)),),
    ),
    Scenario(
        "a corner has one way on",
        RING,
        # Heading E into the corner (3,1): W is back, N is open. Then N again, and W at the corner (3,3).
        state=_state((1, 1), Ghost(3, 1, E, 0), food=_cells((2, 1))),
        moves=((STOP, (0.99,)), (STOP, (0.99,)), (STOP, (0.99,))),
        expected=(
            _quiet(ghosts=(Ghost(3, 2, N, 0),)),
            _quiet(ghosts=(Ghost(3, 3, N, 0),)),
            _quiet(ghosts=(Ghost(2, 3, W, 0),)),
        ),
    ),
    # Between two cells only the heading, whatever the uniform; the crossing is next door.
    *(
        _choice("between two cells only on", ghost, uniform, after)
        for uniform in (0.0, 0.99)
        for ghost, after in [
            (Ghost(3, 3.5, N, 10), Ghost(3, 4, N, 9)),
            (Ghost(3, 3.5, S, 10), Ghost(3, 3, S, 9)),
            (Ghost(3.5, 3, E, 10), Ghost(4, 3, E, 9)),
            (Ghost(2.5, 3, W, 10), Ghost(2, 3, W, 9)),
        ]
    ),
    # With timer 1 it still flees: heading E, flee 1, best N and E (2.5), S 1.5; then the snap.
    _choice("the last scared move flees", Ghost(3, 3, E, 1), 0.49, Ghost(3, 4, N, 0), flee=1.0, attack=1.0),
    _choice("the last scared move flees", Ghost(3, 3, E, 1), 0.5, Ghost(4, 3, E, 0), flee=1.0, attack=1.0),
    # Manhattan, not path: S into the blind alley (distance 2) rather than E (4), which is the way to Pac-Man.
    *(
        _choice(
            "nearness is Manhattan, not by path",
            Ghost(3, 4, STOP, 0),
            uniform,
            Ghost(3, 3, S, 0),
            maze=BLIND_ALLEY,
            attack=1.0,
        )
        for uniform in (0.0, 0.99)
    ),
    Scenario(
        "ghosts look at where Pac-Man is after its move",
        ROOM,
        # Ghost (8,8) with heading E: N, S, E. Before: Pac-Man (8,6), S alone is best. After: (9,6); S and E both
        # lead to distance 2, half each: 0.9 takes E.
        state=_state((8, 6), Ghost(8, 8, E, 0), food=_cells((1, 1))),
        settings={"attack": 1.0},
        moves=((E, (0.9,)),),
        expected=(_quiet(pacman=(9, 6), ghosts=(Ghost(9, 8, E, 0),)),),
    ),
    *(
        Scenario(
            f"an eaten ghost may leave its start in every open direction, uniform {uniform}",
            CROSS,
            # Eaten at (3,2) with heading S; from (3,3) a quarter each with attack 0, whole steps.
            state=_state((3, 1), Ghost(3, 2, S, 10), food=CROSS_FOOD),
            settings={"attack": 0.0, "flee": 1.0},
            moves=((N, (uniform,)),),
            expected=(Expected(reward=199, pacman=(3, 2), ghosts=(after,)),),
        )
        for uniform, after in [(0.1, _TO_N), (0.6, _TO_E), (0.9, _TO_W)]
    ),
    Scenario(
        "each ghost has its own number and its own mood",
        BLOCKS,
        # Pac-Man waits at (1,1). Ghost 0 (3,3), heading E: N, S, E. Distances: S 3, N 5, E 5; attack 1: S.
        # Ghost 1 (3,5), scared, heading W: S, W (wall N, E is back). Distances after half a step: from 2 + 4, both
        # 5.5; half each: 0.9 takes W.
        state=_state((1, 1), Ghost(3, 3, E, 0), Ghost(3, 5, W, 10), food=_cells((5, 5))),
        settings={"attack": 1.0, "flee": 1.0},
        moves=((STOP, (0.99, 0.9)),),
        expected=(_quiet(ghosts=(Ghost(3, 2, S, 0), Ghost(2.5, 5, W, 9))),),
    ),
    Scenario(
        "the uniforms are not mixed up",
        BLOCKS,
        # Attack 0, starts (5,5): S, W; (5,1): N, W; half each.
        settings={"attack": 0.0},
        moves=((STOP, (0.1, 0.9)),),
        expected=(_quiet(ghosts=(Ghost(5, 4, S, 0), Ghost(4, 1, W, 0))),),
    ),
]

# ---- the end of an episode --------------------------------------------------------------------------------------

END_SCENARIOS = [
    Scenario(
        "truncated at the step cap",
        CELL,
        settings={"step_cap": 3},
        moves=((STOP, (0.0,)),) * 3,
        expected=(_quiet(steps=1), _quiet(steps=2), _quiet(steps=3, truncated=True)),
    ),
    Scenario(
        "the cap is 400 unless told otherwise",
        CELL,
        state=_state((1, 1), Ghost(7, 1, STOP, 0), food=_cells((3, 1)), steps=398),
        moves=((STOP, (0.0,)),) * 2,
        expected=(_quiet(steps=399), _quiet(steps=400, truncated=True)),
    ),
    Scenario(
        "a win at the cap is a win",
        CELL,
        settings={"step_cap": 1},
        state=_state((2, 1), Ghost(7, 1, STOP, 0), food=_cells((3, 1))),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=509, terminated=True, truncated=False, steps=1),),
    ),
    Scenario(
        "a loss at the cap is a loss",
        LANE,
        settings={"step_cap": 10},
        state=_state((4, 1), Ghost(5, 1, W, 0), food=LANE_FOOD, steps=9),
        moves=((STOP, (0.0,)),),
        expected=(Expected(reward=-501, terminated=True, truncated=False, steps=10),),
    ),
    Scenario(
        "food at the cap still counts",
        CELL,
        settings={"step_cap": 1},
        state=_state((2, 1), Ghost(7, 1, STOP, 0), food=_cells((3, 1), (4, 1))),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=9, truncated=True, food=_cells((4, 1))),),
    ),
]

# ---- reading mazes ----------------------------------------------------------------------------------------------

MAZE_SCENARIOS = [
    Scenario(
        "signs of a maze, bottom-left cell (0, 0)",
        LANE,
        expected=(Expected(pacman=(1, 1), ghosts=(Ghost(7, 1, STOP, 0),), food=LANE_FOOD, capsules=_cells(), steps=0),),
    ),
    Scenario(
        "0 is Pac-Man, other signs are empty",
        "%%%%%%%\n%o?0x.%\n%.5 91%\n%%%%%%%\n",
        expected=(
            Expected(
                pacman=(3, 2),
                ghosts=(Ghost(5, 1, STOP, 0),),
                food=_cells((5, 2), (1, 1)),
                capsules=_cells((1, 2)),
                # Open all round but north: '?', 'x' and '5' are floor; index 14 + 24 = 38.
                features={38: 0, 39: 1, 40: 1, 41: 1, 42: 1},
            ),
        ),
    ),
    Scenario(
        "ghosts by digit, G as 1, equal ones by (x, y)",
        "%%%%%%%%%\n%G P  .2%\n%G%1% % %\n%%%%%%%%%\n",
        # Ones: (1,1), (1,2), (3,1) by x, then y; two: (7,2).
        expected=(
            Expected(
                ghosts=(
                    Ghost(1, 1, STOP, 0),
                    Ghost(1, 2, STOP, 0),
                    Ghost(3, 1, STOP, 0),
                    Ghost(7, 2, STOP, 0),
                )
            ),
        ),
    ),
    Scenario(
        "beyond the edge of the grid is wall",
        # One row of five cells without a border: Pac-Man (1,0), ghost (4,0).
        ".P  G",
        # Pac-Man bumps at the edges; the ghost in the corner (4,0) can only go W, and on.
        moves=((N, (0.0,)), (S, (0.0,))),
        expected=(
            _quiet(pacman=(1, 0), ghosts=(Ghost(3, 0, W, 0),)),
            _quiet(pacman=(1, 0), ghosts=(Ghost(2, 0, W, 0),)),
        ),
        decision=True,
    ),
    Scenario(
        "a maze without ghosts",
        "%%%%%\n%P .%\n%%%%%\n",
        moves=((E, ()), (E, ())),
        expected=(
            # 14 + 7 features: food 1 E; open E, W.
            _quiet(observation=(*(0, 0, 0, 0, 0, 0, 0, -1), *(1, 0, 0, 1, 0, 0), *(0, 0, 1, 1, 1), 2, 1)),
            Expected(reward=509, terminated=True),
        ),
    ),
]

# ---- the observation --------------------------------------------------------------------------------------------

_ROOM_FOOD = _cells((1, 1))

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
    return Scenario(
        f"bearing of a ghost at ({dx}, {dy})",
        ROOM,
        state=_state((8, 8), ghost, food=_ROOM_FOOD),
        expected=(
            Expected(
                features={14: 0, **_hot(15, sector, 8), 28: abs(dx) + abs(dy), 36: 8 + dx, 37: 8 + dy},
            ),
        ),
    )


def _room(name: str, ghost: Ghost, features: Mapping[int, float], **objects: Any) -> Scenario:
    objects.setdefault("food", _ROOM_FOOD)
    return Scenario(name, ROOM, state=_state((8, 8), ghost, **objects), expected=(Expected(features=features),))


# Cells around (8,8) and the first step to the nearest of them. Ties: N before S before E before W.
NEAREST: list[tuple[tuple[tuple[int, int], ...], int, int]] = [
    (((8, 10),), N, 2),
    (((8, 6),), S, 2),
    (((10, 8),), E, 2),
    (((6, 8),), W, 2),
    (((9, 9),), N, 2),  # N then E, or E then N
    (((7, 9),), N, 2),
    (((9, 7),), S, 2),
    (((7, 7),), S, 2),
    (((12, 7),), S, 5),  # one step S somewhere, and that may be the first
    (((8, 6), (8, 10)), N, 2),
    (((10, 8), (8, 6)), S, 2),
    (((6, 8), (8, 6)), S, 2),
    (((6, 8), (10, 8)), E, 2),
    (((6, 8), (10, 8), (8, 6), (8, 10)), N, 2),
    (((7, 8), (8, 10)), W, 1),  # nearer goes before order
    (((7, 7), (10, 8)), S, 2),
]

OBSERVATION_SCENARIOS = [
    *(_bearing(*row) for row in BEARINGS),
    *(
        _room(
            f"nearest food of {targets}",
            Ghost(15, 1, STOP, 0),
            {8: length, **_hot(9, first), **_hot(2, None), 7: -1},
            food=_cells(*targets),
        )
        for targets, first, length in NEAREST
    ),
    *(
        _room(
            f"nearest capsule of {targets}",
            Ghost(15, 1, STOP, 0),
            # Food (1,1) lies 7 + 7 away, S before W.
            {**_hot(2, first), 7: length, 8: 14, **_hot(9, S)},
            capsules=_cells(*targets),
        )
        for targets, first, length in NEAREST
    ),
    *(
        _room(
            f"first step to a ghost at {targets[0]}",
            Ghost(*targets[0], STOP, 0),
            {**_hot(23, first), 28: length},
        )
        for targets, first, length in NEAREST
        if len(targets) == 1
    ),
    *(
        _room(f"heading {heading} of a ghost", Ghost(3, 3, heading, 0), _hot(29, heading))
        for heading in (N, S, E, W, STOP)
    ),
    *(
        _room(
            f"timer {timer} of a ghost",
            Ghost(3, 3, N, timer),
            {34: float(timer > 0), 35: share, 36: 3, 37: 3},
        )
        for timer, share in [(0, 0.0), (1, 0.025), (10, 0.25), (39, 0.975), (40, 1.0)]
    ),
    # Ghosts within Manhattan distance 1, unscared and scared; 1.5 is outside, so is a diagonal neighbour (2).
    *(
        _room(f"{ghost} nearby", ghost, {0: unscared, 1: scared})
        for ghost, unscared, scared in [
            (Ghost(8, 9, N, 0), 1, 0),
            (Ghost(7, 8, STOP, 0), 1, 0),
            (Ghost(8, 7, S, 1), 0, 1),
            (Ghost(9, 8, W, 40), 0, 1),
            (Ghost(9.5, 8, W, 40), 0, 0),
            (Ghost(9, 9, W, 40), 0, 0),
            (Ghost(7, 9, W, 0), 0, 0),
            (Ghost(10, 8, W, 0), 0, 0),
            (Ghost(8.5, 9, E, 7), 0, 0),
        ]
    ),
    Scenario(
        "the start of a lane, all 45 features",
        LANE,
        expected=(
            Expected(
                observation=(
                    *(0, 0),  # the ghost is 6 away
                    *(0, 0, 0, 0, 0, -1),  # no capsule
                    *(2, 0, 0, 1, 0, 0),  # food (3,1): 2 E
                    0,
                    *(0, 0, 1, 0, 0, 0, 0, 0),  # ghost in the E
                    *(0, 0, 1, 0, 0, 6),  # 6 E
                    *(0, 0, 0, 0, 1),  # heading Stop
                    *(0, 0, 7, 1),
                    *(0, 0, 1, 0, 1),  # open: E
                    *(1, 1),
                )
            ),
        ),
    ),
    Scenario(
        "the lane after two rounds, all 45 features",
        LANE,
        # Pac-Man (2,1), then (3,1) with food; ghost (6,1), then (5,1).
        moves=((E, (0.0,)), (E, (0.0,))),
        expected=(
            _quiet(pacman=(2, 1)),
            Expected(
                reward=9,
                observation=(
                    *(0, 0),
                    *(0, 0, 0, 0, 0, -1),
                    *(2, 0, 0, 1, 0, 0),  # food (5,1): 2 E
                    0,
                    *(0, 0, 1, 0, 0, 0, 0, 0),
                    *(0, 0, 1, 0, 0, 2),
                    *(0, 0, 0, 1, 0),  # heading W
                    *(0, 0, 5, 1),
                    *(0, 0, 1, 1, 1),  # open: E, W
                    *(3, 1),
                ),
            ),
        ),
    ),
    Scenario(
        "bearings see through walls, paths do not: all 45 features",
        DETOUR,
        # On foot: (1,1) (1,2) (1,3) (2,3) (3,3) (4,3) (5,3) (5,2) (5,1) (4,1): 10 steps, the first W.
        expected=(
            Expected(
                observation=(
                    *(0, 0),
                    *(0, 0, 0, 0, 0, -1),
                    *(1, 0, 0, 0, 1, 0),  # food 1 W
                    0,
                    *(0, 0, 1, 0, 0, 0, 0, 0),  # E
                    *(0, 0, 0, 1, 0, 10),  # 10 W
                    *(0, 0, 0, 0, 1),
                    *(0, 0, 4, 1),
                    *(0, 0, 0, 1, 1),  # open: W
                    *(2, 1),
                )
            ),
        ),
    ),
    Scenario(
        "a ghost between two cells is reached through the one nearer on foot",
        DETOUR,
        # (4.5,1) lies between (4,1), 10 steps, and (5,1), 9 steps: 9 + 0.5, although (4,1) is nearer as the crow flies.
        state=_state((2, 1), Ghost(4.5, 1, W, 5), food=_cells((1, 1))),
        expected=(
            Expected(features={**_hot(15, 2, 8), **_hot(23, W), 28: 9.5, **_hot(29, W), 34: 1, 35: 0.125, 36: 4.5}),
        ),
    ),
    Scenario(
        "two ghosts at the start, all 69 features",
        BLOCKS,
        # Everything is in a corner 2 + 2 away. (1,5): N or W, so N. (1,1): S or W, so S. (5,5): N. (5,1): S.
        expected=(
            Expected(
                observation=(
                    *(0, 0),
                    *(1, 0, 0, 0, 0, 4),  # capsule
                    *(4, 0, 1, 0, 0, 0),  # food
                    *(0, *(0, 1, 0, 0, 0, 0, 0, 0), *(1, 0, 0, 0, 0, 4), *(0, 0, 0, 0, 1), 0, 0, 5, 5),  # NE
                    *(0, *(0, 0, 0, 1, 0, 0, 0, 0), *(0, 1, 0, 0, 0, 4), *(0, 0, 0, 0, 1), 0, 0, 5, 1),  # SE
                    *(1, 1, 1, 1, 1),
                    *(3, 3),
                )
            ),
        ),
    ),
    Scenario(
        "two ghosts, one of them scared and between cells, all 69 features",
        BLOCKS,
        # Ghost 0 at (4.5,3): 1.5 E, not within 1; (4,3) is 1 step, + 0.5. Timer 26 / 40 = 0.65.
        # Ghost 1 at (3,2): 1 S, within 1, unscared. Food (5,5): 4, N before E. No capsule.
        state=_state((3, 3), Ghost(4.5, 3, W, 26), Ghost(3, 2, S, 0), food=_cells((5, 5)), steps=7),
        expected=(
            Expected(
                observation=(
                    *(1, 0),
                    *(0, 0, 0, 0, 0, -1),
                    *(4, 1, 0, 0, 0, 0),
                    *(0, *(0, 0, 1, 0, 0, 0, 0, 0), *(0, 0, 1, 0, 0, 1.5), *(0, 0, 0, 1, 0), 1, 0.65, 4.5, 3),
                    *(0, *(0, 0, 0, 0, 1, 0, 0, 0), *(0, 1, 0, 0, 0, 1), *(0, 1, 0, 0, 0), 0, 0, 3, 2),
                    *(1, 1, 1, 1, 1),
                    *(3, 3),
                )
            ),
        ),
    ),
    Scenario(
        "both kinds of ghosts nearby, seen from the west corridor, all 69 features",
        BLOCKS,
        # Pac-Man (1,2). Ghost 0 (1,3), scared, timer 1: N, 1. Ghost 1 (1,1), unscared: S, 1.
        # Capsule (1,5): 3 N. Food (3,3): N then E, E: 3.
        state=_state((1, 2), Ghost(1, 3, E, 1), Ghost(1, 1, N, 0), food=_cells((3, 3)), capsules=_cells((1, 5))),
        expected=(
            Expected(
                observation=(
                    *(1, 1),
                    *(1, 0, 0, 0, 0, 3),
                    *(3, 1, 0, 0, 0, 0),
                    *(0, *(1, 0, 0, 0, 0, 0, 0, 0), *(1, 0, 0, 0, 0, 1), *(0, 0, 1, 0, 0), 1, 0.025, 1, 3),
                    *(0, *(0, 0, 0, 0, 1, 0, 0, 0), *(0, 1, 0, 0, 0, 1), *(1, 0, 0, 0, 0), 0, 0, 1, 1),
                    *(1, 1, 0, 0, 1),  # between the wall and a block
                    *(1, 2),
                )
            ),
        ),
    ),
    Scenario(
        "the cell nearer on foot decides the first step",
        BLOCKS,
        # Ghost 0 at (5,1.5): (5,2) is E, E, S = 3 steps and only so; (5,1) would be 4, by S. So 3.5 by E.
        # Bearing (2,-1.5): 1.5/2 = 0.75, SE. Ghost 1 (1,3): 2 W.
        state=_state((3, 3), Ghost(5, 1.5, N, 4), Ghost(1, 3, W, 0), food=_cells((1, 1))),
        expected=(
            Expected(features={**_hot(15, 3, 8), **_hot(23, E), 28: 3.5, **_hot(39, 6, 8), **_hot(47, W), 52: 2}),
        ),
    ),
    Scenario(
        "four ghosts, all 117 features",
        FOUR,
        # Pac-Man (4,4). Capsule (4,1): round the ring by E or W, 3 + 3 + 3 = 9, E first. Food (3,5): N, W = 2.
        # Ghost 0 (1,6): 3 W + 2 N = 5; (-3, 2), 2/3: NW. Ghost 1 (7,5.5): (7,5) is 3 + 1 = 4, + 0.5; (3, 1.5), 0.5:
        # NE; 30/40. Ghost 2 (4.5,1): (5,1) is 3 + 3 + 2 = 8 by E, (4,1) is 9: 8.5 E; (0.5, -3): S; 8/40.
        # Ghost 3 (3,4): 1 W, within 1 and unscared.
        state=_state(
            (4, 4),
            *(Ghost(1, 6, N, 0), Ghost(7, 5.5, S, 30), Ghost(4.5, 1, E, 8), Ghost(3, 4, W, 0)),
            food=_cells((3, 5)),
            capsules=_cells((4, 1)),
        ),
        expected=(
            Expected(
                observation=(
                    *(1, 0),
                    *(0, 0, 1, 0, 0, 9),
                    *(2, 1, 0, 0, 0, 0),
                    *(0, *(0, 0, 0, 0, 0, 0, 0, 1), *(0, 0, 0, 1, 0, 5), *(1, 0, 0, 0, 0), 0, 0, 1, 6),
                    *(0, *(0, 1, 0, 0, 0, 0, 0, 0), *(0, 0, 1, 0, 0, 4.5), *(0, 1, 0, 0, 0), 1, 0.75, 7, 5.5),
                    *(0, *(0, 0, 0, 0, 1, 0, 0, 0), *(0, 0, 1, 0, 0, 8.5), *(0, 0, 1, 0, 0), 1, 0.2, 4.5, 1),
                    *(0, *(0, 0, 0, 0, 0, 0, 1, 0), *(0, 0, 0, 1, 0, 1), *(0, 0, 0, 1, 0), 0, 0, 3, 4),
                    *(1, 1, 1, 1, 1),
                    *(4, 4),
                )
            ),
        ),
    ),
    Scenario(
        "four ghosts at the start, all 117 features",
        FOUR,
        # Every corner is 3 + 3 away, west or east first: the ring is left by (1,4) and (7,4) only.
        expected=(
            Expected(
                observation=(
                    *(0, 0),
                    *(0, 0, 1, 0, 0, 9),
                    *(2, 1, 0, 0, 0, 0),
                    *(0, *(0, 0, 0, 0, 0, 0, 0, 1), *(0, 0, 0, 1, 0, 6), *(0, 0, 0, 0, 1), 0, 0, 1, 7),
                    *(0, *(0, 1, 0, 0, 0, 0, 0, 0), *(0, 0, 1, 0, 0, 6), *(0, 0, 0, 0, 1), 0, 0, 7, 7),
                    *(0, *(0, 0, 0, 0, 0, 1, 0, 0), *(0, 0, 0, 1, 0, 6), *(0, 0, 0, 0, 1), 0, 0, 1, 1),
                    *(0, *(0, 0, 0, 1, 0, 0, 0, 0), *(0, 0, 1, 0, 0, 6), *(0, 0, 0, 0, 1), 0, 0, 7, 1),
                    *(1, 1, 1, 1, 1),
                    *(4, 4),
                )
            ),
        ),
    ),
    Scenario(
        "three ghosts nearby at once",
        FOUR,
        # (4,5) and (5,4) unscared, (3,4) scared; the fourth at (7,1) is 3 + 3 away.
        state=_state(
            (4, 4),
            *(Ghost(4, 5, N, 0), Ghost(5, 4, E, 0), Ghost(3, 4, W, 12), Ghost(7, 1, STOP, 0)),
            food=_cells((3, 5)),
        ),
        expected=(Expected(features={0: 2, 1: 1}),),
    ),
    Scenario(
        "open directions in a corner",
        RING,
        # (1,3): S and E. One ghost: 38-41, Stop 42, then x, y.
        expected=(Expected(features={38: 0, 39: 1, 40: 1, 41: 0, 42: 1, 43: 1, 44: 3}),),
    ),
    Scenario(
        "open directions in a vertical corridor",
        RING,
        state=_state((3, 2), Ghost(1, 1, N, 0), food=_cells((3, 3))),
        expected=(Expected(features={38: 1, 39: 1, 40: 0, 41: 0, 42: 1, 43: 3, 44: 2}),),
    ),
    Scenario(
        "open directions at the foot of the cross",
        CROSS,
        expected=(Expected(features={38: 1, 39: 0, 40: 0, 41: 0, 42: 1, 43: 3, 44: 1}),),
    ),
    Scenario(
        "a ghost does not close a direction",
        LANE,
        state=_state((3, 1), Ghost(4, 1, E, 0), food=_cells((5, 1))),
        expected=(Expected(features={38: 0, 39: 0, 40: 1, 41: 1, 42: 1}),),
    ),
    Scenario(
        "no food left in a wide maze: the longer side",
        LANE,
        state=_state((4, 1), Ghost(7, 1, STOP, 0), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=509, terminated=True, features={8: 9}),),
    ),
    Scenario(
        "no food left in a tall maze: the longer side",
        "%%%\n%G%\n% %\n% %\n%P%\n%.%\n%%%\n",
        moves=((S, (0.0,)),),
        expected=(Expected(reward=509, terminated=True, features={8: 7}),),
    ),
    Scenario(
        "no food left: its direction is Stop",
        LANE,
        state=_state((4, 1), Ghost(7, 1, STOP, 0), food=_cells((5, 1))),
        moves=((E, (0.0,)),),
        expected=(Expected(reward=509, terminated=True, features=_hot(9, STOP)),),
        decision=True,
    ),
    Scenario(
        "what cannot be reached: food and capsules count as none, a ghost as far, its bearing stands",
        CELL,
        # Behind the wall (6,1) lies (7,1) with everything on it. Width 9.
        state=_state((1, 1), Ghost(7, 1, STOP, 0), food=_cells((7, 1)), capsules=_cells((7, 1))),
        expected=(
            Expected(
                features={
                    **_hot(2, None),
                    7: -1,
                    8: 9,
                    **_hot(9, STOP),
                    14: 0,
                    **_hot(15, 2, 8),
                    **_hot(23, STOP),
                    28: 9,
                }
            ),
        ),
        decision=True,
    ),
]

SCENARIOS = [
    *PACMAN_SCENARIOS,
    *CAPSULE_SCENARIOS,
    *CONTACT_SCENARIOS,
    *SCARED_SCENARIOS,
    *DIRECTION_SCENARIOS,
    *END_SCENARIOS,
    *MAZE_SCENARIOS,
    *OBSERVATION_SCENARIOS,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenario(scenario: Scenario) -> None:
    play(Reference, scenario)


def test_scenario_names_differ() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))


# ---- the levels of the paper ------------------------------------------------------------------------------------


def _board(level: str) -> str:
    board = resources.files("pacai") / "resources" / "boards" / f"classic-{level}.board"
    _, _, maze = board.read_text(encoding="utf-8").partition("---\n")
    return maze


@pytest.mark.parametrize("with_capsules", [True, False])
@pytest.mark.parametrize(
    ("level", "size", "food", "capsules", "pacman", "ghosts", "width"),
    [
        ("small", (20, 7), 55, 2, (9, 1), [(8, 5), (11, 5)], 69),
        ("medium", (20, 11), 97, 2, (9, 1), [(8, 5), (11, 5)], 69),
        ("original", (28, 27), 229, 4, (14, 1), [(10, 13), (13, 13), (14, 13), (17, 13)], 117),
    ],
)
def test_levels(
    level: str,
    size: tuple[int, int],
    food: int,
    capsules: int,
    pacman: tuple[int, int],
    ghosts: list[tuple[int, int]],
    width: int,
    with_capsules: bool,
) -> None:
    game = Reference(_board(level), capsules=with_capsules)
    assert (game.width, game.height) == size
    assert len(game.state.food) == food
    assert len(game.state.capsules) == (capsules if with_capsules else 0)
    assert game.state.pacman == pacman
    assert [(ghost.x, ghost.y) for ghost in game.state.ghosts] == ghosts
    assert len(game.reset()) == width


# ---- the ghosts' choice as a distribution -----------------------------------------------------------------------


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
        game.state = _state((3, 1), Ghost(3, 3, heading, 10 if scared else 0), food=CROSS_FOOD)
        game.step(STOP, [(number + 0.5) / slices])
        counts[game.state.ghosts[0].heading] += 1
    for direction in legal:
        assert abs(counts[direction] - expected[direction] * slices) <= 1


# ---- laws of every play -----------------------------------------------------------------------------------------


@st.composite
def mazes(draw: st.DrawFn) -> str:
    """Small mazes with or without a border, one Pac-Man, up to four ghosts, and whatever else comes."""
    width, height = draw(st.integers(2, 8)), draw(st.integers(1, 6))
    signs = draw(st.lists(st.sampled_from("% .. o"), min_size=width * height, max_size=width * height))
    figures = draw(st.lists(st.sampled_from("G1234"), max_size=min(4, width * height - 1)))
    places = draw(
        st.lists(
            st.integers(0, width * height - 1),
            min_size=1 + len(figures),
            max_size=1 + len(figures),
            unique=True,
        )
    )
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
        game.state = after  # refused if it is a state that play cannot reach
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


@settings(max_examples=40, deadline=None, derandomize=True)
@given(games(), st.integers(0, 2**32))
def test_same_uniforms_same_play(game: Reference, seed: int) -> None:
    def record() -> list[Any]:
        generator = random.Random(seed)
        rounds: list[Any] = [game.reset()]
        for _ in range(40):
            rounds.append((game.step(generator.randrange(5), _uniforms(generator, game)), game.state))
            if rounds[-1][0][2] or rounds[-1][0][3]:
                break
        return rounds

    assert record() == record()


@pytest.mark.parametrize("level", ["small", "medium", "original"])
def test_levels_can_be_played(level: str) -> None:
    """Long random plays on the paper's levels keep to the laws as well."""
    generator = random.Random(20250101)
    game = Reference(_board(level))
    observation = game.reset()
    for _ in range(600):
        before = game.state
        observation, reward, terminated, truncated = game.step(generator.randrange(5), _uniforms(generator, game))
        _assert_ghosts_possible(game.state)
        _assert_reward_adds_up(before, game.state, reward, terminated)
        _assert_observation_possible(game, observation)
        if terminated or truncated:
            game.reset()


# ---- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("maze", "message"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        ("%%%%\n%P%\n%%%%", "line 2"),
        ("%%%%\n%. %\n%%%%", "exactly one Pac-Man"),
        ("%%%%\n%P0%\n%%%%", "exactly one Pac-Man"),
    ],
)
def test_bad_mazes_are_refused(maze: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Reference(maze)


@pytest.mark.parametrize(
    "state",
    [
        _state((0, 0), Ghost(7, 1, STOP, 0), food=LANE_FOOD),
        _state((1, 1), food=LANE_FOOD),
        _state((1, 1), Ghost(7, 2, STOP, 0), food=LANE_FOOD),
        _state((1, 1), Ghost(7, 1, STOP, 41), food=LANE_FOOD),
        _state((1, 1), Ghost(7, 1, 5, 0), food=LANE_FOOD),
        _state((1, 1), Ghost(6.5, 1, W, 0), food=LANE_FOOD),
        _state((1, 1), Ghost(6.5, 1, STOP, 3), food=LANE_FOOD),
        _state((1, 1), Ghost(6.25, 1, W, 3), food=LANE_FOOD),
        _state((1, 1), Ghost(7, 1, STOP, 0), food=_cells((0, 1))),
    ],
)
def test_impossible_states_are_refused(state: State) -> None:
    game = Reference(LANE)
    with pytest.raises(ValueError):
        game.state = state


def test_a_round_after_the_end_is_refused() -> None:
    game = Reference(CELL, step_cap=1)
    game.step(STOP, [0.0])
    with pytest.raises(RuntimeError, match="over"):
        game.step(STOP, [0.0])
    game.reset()
    game.step(STOP, [0.0])


def test_bad_actions_and_missing_uniforms_are_refused() -> None:
    game = Reference(BLOCKS)
    with pytest.raises(ValueError, match="action 5"):
        game.step(5, [0.0, 0.0])
    with pytest.raises(ValueError, match="2 ghosts"):
        game.step(STOP, [0.0])
