"""Names and words of PAC-Man's observation, in the order of the vector."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from legible.features import Action, Feature, FeatureSpace

DIRECTIONS = ("north", "south", "east", "west")
SECTORS = {
    "n": "north",
    "ne": "north-east",
    "e": "east",
    "se": "south-east",
    "s": "south",
    "sw": "south-west",
    "w": "west",
    "nw": "north-west",
}
ACTIONS = (
    Action("North", "go north"),
    Action("South", "go south"),
    Action("East", "go east"),
    Action("West", "go west"),
    Action("Stop", "stop"),
)


def _flag(name: str, yes: str, no: str, group: str) -> Feature:
    """Return a feature that is 1 or 0, with words for both; reports show features of a group together."""
    return Feature(name, "categorical", words=yes, values={1: yes, 0: no}, group=group)


def _number(name: str, words: str, group: str) -> Feature:
    return Feature(name, "numeric", words=words, group=group)


def _first_step(prefix: str, to: str, group: str) -> Iterator[Feature]:
    """Yield the features of a one-hot first step of the shortest path."""
    for direction in DIRECTIONS:
        path = f"path to {to} starts {direction}"
        yield _flag(f"{prefix}.{direction}", f"the {path}", f"the {path.replace('starts', 'does not start')}", group)
    yield _flag(f"{prefix}.stop", f"{to} is reached", f"{to} is not reached", group)


def _ghost(i: int) -> Iterator[Feature]:
    """Yield the features of ghost i, in the order in which the compiled game writes them.

    Yes-or-no features have a word for each value; the last argument of all is the group that reports show together.
    """
    ghost, name = f"ghost {i}", f"ghost{i}"
    # Where it lies from Pac-Man.
    yield _flag(f"{name}.here", f"{ghost} is right here", f"{ghost} is not right here", f"{ghost} bearing")
    for sector, words in SECTORS.items():
        yes, no = f"{ghost} lies {words}", f"{ghost} does not lie {words}"
        yield _flag(f"{name}.bearing.{sector}", yes, no, f"{ghost} bearing")
    # The shortest path to it.
    yield from _first_step(f"{name}.path", ghost, f"{ghost} path")
    yield _number(f"{name}.length", f"the path length to {ghost}", f"{ghost} path")
    # Where it goes.
    for direction in DIRECTIONS:
        yes, no = f"{ghost} is heading {direction}", f"{ghost} is not heading {direction}"
        yield _flag(f"{name}.heading.{direction}", yes, no, f"{ghost} heading")
    yield _flag(f"{name}.heading.stop", f"{ghost} stands still", f"{ghost} is on the move", f"{ghost} heading")
    # Whether Pac-Man can eat it, and for how long.
    yield _flag(f"{name}.scared", f"{ghost} is scared", f"{ghost} is not scared", f"{ghost} scared")
    yield Feature(
        f"{name}.timer",
        words=f"the time for which {ghost} is still scared (share)",
        group=f"{ghost} scared",
        values={0: f"{ghost} is not scared"},
        least=0.0,
    )
    yield _number(f"{name}.x", f"the column of {ghost}", f"{ghost} place")
    yield _number(f"{name}.y", f"the row of {ghost}", f"{ghost} place")


@lru_cache
def pacman_features(n_ghosts: int) -> FeatureSpace:
    """Return the names and words of PAC-Man's features and actions, for a level with `n_ghosts` ghosts.

    Features are yes-or-no (`_flag`) or numbers; those of a path are a first step and a length.

    >>> space = pacman_features(2)
    >>> len(space), space.names[9], space.names[62], space[9].values[1]
    (69, 'food.north', 'open.north', 'the path to the closest food starts north')
    >>> len(pacman_features(4))
    117
    """
    features = [
        # What is near Pac-Man.
        _number("near.unscared", "the number of unscared ghosts next to Pac-Man", "near ghosts"),
        _number("near.scared", "the number of scared ghosts next to Pac-Man", "near ghosts"),
        *_first_step("capsule", "the closest capsule", "capsule"),
        Feature(
            "capsule.length",
            words="the path length to the closest capsule",
            group="capsule",
            sentinels=(-1.0,),
            values={-1: "no capsule is left"},
        ),
        _number("food.length", "the path length to the closest food", "food"),
        *_first_step("food", "the closest food", "food"),
        # The ghosts.
        *(feature for i in range(n_ghosts) for feature in _ghost(i)),
        # Pac-Man's surroundings.
        *(
            _flag(f"open.{direction}", f"{direction} is open", f"{direction} is a wall", "walls")
            for direction in DIRECTIONS
        ),
        _flag("open.stop", "stopping is possible", "stopping is not possible", "walls"),
        _number("pacman.x", "the column of Pac-Man", "pacman place"),
        _number("pacman.y", "the row of Pac-Man", "pacman place"),
    ]
    return FeatureSpace(tuple(features), ACTIONS)
