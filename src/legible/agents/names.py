"""Names of features and actions in games of several agents, and of their results.

- `names_of_seats`: the names that a game has for some seats: its own, or those of known games of PettingZoo.
- `result_of_seat`: that a seat wins, loses or draws, in known games of PettingZoo.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from legible.features import Action, Feature, FeatureSpace

_MOVES = ("stay", "left", "right", "down", "up")


def names_of_seats(game: Any, seats: Sequence[str]) -> FeatureSpace | None:
    """Return the names of features and actions of seats that are alike; None where the game has none.

    A game of yours may have a method ``feature_space(seat)`` that returns a `legible.FeatureSpace`. Observations of
    known games of PettingZoo are named as their documentation describes them.
    """
    bare = game.unwrapped
    own = getattr(bare, "feature_space", None)
    if callable(own):
        named: FeatureSpace = own(seats[0])
        return named
    module = type(bare).__module__
    known = next((names for part, names in _KNOWN.items() if part in module), None)
    return None if known is None else known(bare, seats)


def result_of_seat(game: Any, reward: float) -> str | None:
    """Return how a game ends for a seat by its last reward, as the text of an ending; None where that is unknown."""
    if not any(part in type(game.unwrapped).__module__ for part in _WON_OR_LOST):
        return None
    if reward:
        return "success: it wins" if reward > 0.0 else "failure: it loses"
    return "other: the game ends in a draw"


def _board(squares: Sequence[str], actions: Sequence[str]) -> FeatureSpace:
    """Return the names of a board on which each square is mine, theirs or empty."""
    features = []
    for square, who in product(squares, ("mine", "theirs")):
        values = {0.0: f"square {square} is not {who}", 1.0: f"square {square} is {who}"}
        features.append(Feature(f"{who}.{square}", "categorical", values=values))
    choices = tuple(Action(action, f"play {action.replace('.', ' ', 1)}") for action in actions)
    return FeatureSpace(tuple(features), choices)


def _names_of_tictactoe(_: Any, __: Sequence[str]) -> FeatureSpace:
    squares = [f"{row}.{column}" for column, row in product(range(3), repeat=2)]  # column by column
    return _board(squares, [f"square.{square}" for square in squares])


def _names_of_connect_four(_: Any, __: Sequence[str]) -> FeatureSpace:
    squares = [f"{row}.{column}" for row, column in product(range(6), range(7))]
    return _board(squares, [f"column.{column}" for column in range(7)])


def _names_of_throws(bare: Any, seats: Sequence[str]) -> FeatureSpace | None:
    if int(bare.action_space(seats[0]).n) != 3:
        return None
    throws = ("Rock", "Paper", "Scissors")
    words = {float(i): f"they threw {throw} last" for i, throw in enumerate(throws)} | {3.0: "they have not thrown yet"}
    feature = Feature("their_last", "categorical", values=words)
    return FeatureSpace((feature,), tuple(Action(throw, f"throw {throw}") for throw in throws))


def _names_of_particles(bare: Any, seats: Sequence[str]) -> FeatureSpace | None:
    """Return the names of the features and actions of simple_tag and simple_spread; None if they do not fit the game.

    `bare` is the game without wrappers; `seats` are those that share the policy.
    """
    scenario, world = type(bare.scenario).__module__, bare.world
    # By seat: the other agents, in the order in which it sees them. Seats that share a policy see different agents in
    # some places of their observation, which are then named by the place.
    others = [[agent for agent in world.agents if agent.name != seat] for seat in seats]
    other_names = [
        agents[0].name if all(agent is agents[0] for agent in agents) else f"other_{i}"
        for i, agents in enumerate(zip(*others, strict=True))
    ]
    landmarks = [mark for mark in world.landmarks if not getattr(mark, "boundary", False)]
    # Each of these is two numbers of the observation, x and y, in this order.
    things = ["velocity", "position", *(f"landmark_{i}" for i in range(len(landmarks))), *other_names]
    if "simple_tag" in scenario:
        named_agents = zip(others[0], other_names, strict=True)
        things += [f"{name}.velocity" for agent, name in named_agents if not agent.adversary]
    elif "simple_spread" in scenario:
        things += [f"{name}.message" for name in other_names]
    else:
        return None
    names = [f"{thing}.{axis}" for thing in things for axis in "xy"]
    space, actions = bare.observation_space(seats[0]), bare.action_space(seats[0])
    if len(names) != space.shape[0] or getattr(actions, "n", 0) != len(_MOVES):  # other arguments of the game
        return None
    return FeatureSpace(tuple(Feature(name) for name in names), FeatureSpace.of([], _MOVES).actions)


_WON_OR_LOST = ("classic.tictactoe", "classic.connect_four", "classic.chess", "classic.go")
_KNOWN = {
    "classic.tictactoe": _names_of_tictactoe,
    "classic.connect_four": _names_of_connect_four,
    "classic.rps": _names_of_throws,
    "mpe2.": _names_of_particles,
}
