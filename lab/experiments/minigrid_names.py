"""Names for MiniGrid's flat picture: `minigrid_space`.

A picture has 7 columns and 7 rows; the agent stands in the middle of the last row and looks along the rows towards the
first. Every cell has an object, its colour and its state.
"""

from __future__ import annotations

from legible.features import Action, Feature, FeatureSpace

CELLS = 7
OBJECTS = {
    0: "is unseen",
    1: "is empty",
    2: "is a wall",
    3: "is floor",
    4: "is a door",
    5: "is a key",
    6: "is a ball",
    7: "is a box",
    8: "is the goal",
    9: "is lava",
    10: "is the agent's",
}
ACTIONS = {
    "Left": "turn left",
    "Right": "turn right",
    "Forward": "go forward",
    "PickUp": "pick something up",
    "Drop": "drop something",
    "Toggle": "toggle what is ahead",
    "Done": "say that it is done",
}


def minigrid_space() -> FeatureSpace:
    """Return the names of all entries and actions.

    >>> space = minigrid_space()
    >>> space[(3 * 7 + 5) * 3].values[9], space[(1 * 7 + 4) * 3].name
    ('the cell 1 ahead is lava', 'ahead2.left2.object')
    """
    features = [feature for x in range(CELLS) for y in range(CELLS) for feature in _cell(x, y)]
    return FeatureSpace(tuple(features), tuple(Action(name, words) for name, words in ACTIONS.items()))


def _cell(x: int, y: int) -> list[Feature]:
    ahead, aside = CELLS - 1 - y, x - CELLS // 2
    side = "left" if aside < 0 else "right"
    name = f"ahead{ahead}" + (f".{side}{abs(aside)}" if aside else "")
    words = ", ".join(filter(None, (f"{ahead} ahead" if ahead else "", f"{abs(aside)} to the {side}" if aside else "")))
    cell = f"the cell {words}" if words else "its own cell"
    objects = {value: f"{cell} {text}" for value, text in OBJECTS.items()}
    return [
        Feature(f"{name}.object", "categorical", f"what is in {cell}", objects),
        Feature(f"{name}.colour", "categorical", f"the colour of {cell}"),
        Feature(f"{name}.state", "categorical", f"the state of {cell}"),
    ]
