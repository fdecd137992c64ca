"""Names and words of the highway environments' observation, in the order of the vector.

An observation is a table with a row for ego and one for each of the nearest other vehicles, read row by row. Rows are
called ``ego``, ``vehicle1``, ``vehicle2`` …, columns as in highway-env: ``vehicle3.x``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from legible.features import Action, Feature, FeatureError, FeatureSpace

COLUMNS = ("presence", "x", "y", "vx", "vy", "cos_h", "sin_h")
"""The columns of the paper's experiments."""

PAPER_CUTS = tuple(round(0.2 * k - 1.0, 1) for k in range(10))
"""-1.0, -0.8 … 0.8: ten intervals of equal width between -1 and 1, and one for values that are clipped to -1."""

WORDS_OF_ACTIONS = {
    "LANE_LEFT": "change to the lane on the left",
    "IDLE": "keep lane and speed",
    "LANE_RIGHT": "change to the lane on the right",
    "FASTER": "go faster",
    "SLOWER": "go slower",
}
ACTIONS = tuple(Action(name, words) for name, words in WORDS_OF_ACTIONS.items())
"""The five actions of all scenarios but the intersection."""

# Columns that lie between -1 and 1 whatever the settings.
_ALWAYS_NORMALISED = {"presence", "cos_h", "sin_h", "cos_d", "sin_d"}
_UNITS = {
    "x": "m",
    "y": "m",
    "vx": "m/s",
    "vy": "m/s",
    "heading": "rad",
    "long_off": "m",
    "lat_off": "m",
    "ang_off": "rad",
}
# column → words on a straight road, words on one with bends; "is above 0.2" can follow. x runs to the right of the map,
# y downwards.
_ABSOLUTE = {
    "x": ("the place of {who} along the road", "the place of {who} from west to east"),
    "y": ("the place of {who} from left to right", "the place of {who} from north to south"),
    "vx": ("the speed of {who} along the road", "the speed of {who} eastwards"),
    "vy": ("the speed of {who} to the right", "the speed of {who} southwards"),
    "heading": ("the angle of {who} to the road, to the right", "the angle of {who} from east towards south"),
    "cos_h": ("the share of {who}'s heading along the road", "the share of {who}'s heading eastwards"),
    "sin_h": ("the share of {who}'s heading to the right", "the share of {who}'s heading southwards"),
    "cos_d": ("the share of {who}'s way to go along the road", "the share of {who}'s way to go eastwards"),
    "sin_d": ("the share of {who}'s way to go to the right", "the share of {who}'s way to go southwards"),
    "long_off": ("the place of {who} along its lane",) * 2,
    "lat_off": ("the distance by which {who} is right of its lane's middle",) * 2,
    "ang_off": ("the angle of {who} to its lane",) * 2,
}
# The columns that highway-env gives as differences to ego.
_RELATIVE = {
    "x": ("the distance by which {who} is ahead", "the distance by which {who} is east of ego"),
    "y": ("the distance by which {who} is to the right", "the distance by which {who} is south of ego"),
    "vx": ("the speed by which {who} is faster than ego", "the speed by which {who} is faster eastwards than ego"),
    "vy": (
        "the speed at which {who} moves to the right of ego",
        "the speed by which {who} is faster southwards than ego",
    ),
}

# Words for values below and above 0, on a straight road and on one with bends.
_SIDES = {
    ("x", True): ("behind", "ahead"),
    ("x", False): ("west of ego", "east of ego"),
    ("y", True): ("to the left", "to the right"),
    ("y", False): ("north of ego", "south of ego"),
    ("vx", True): ("slower than ego", "faster than ego"),
}


def row_names(rows: int) -> tuple[str, ...]:
    """Return ``ego``, ``vehicle1`` …, one name a row."""
    return ("ego", *(f"vehicle{n}" for n in range(1, rows)))


def highway_features(
    rows: int = 10,
    columns: Sequence[str] = COLUMNS,
    actions: Sequence[Action] = ACTIONS,
    *,
    absolute: bool = False,
    straight: bool = True,
    ranges: Mapping[str, Sequence[float]] | None = None,
) -> FeatureSpace:
    """Return the names, words and cuts of the features of a Kinematics observation: a table with a row per vehicle.

    Parameters
    ----------
    rows
        Vehicles in the observation, ego (the one that the policy drives) among them.
    columns
        Columns of each row.
    actions
        The environment's actions.
    absolute
        Whether other vehicles are seen in the coordinates of the map; by default relative to ego.
    straight
        Whether the road runs along x, so that words can speak of ahead and right instead of east and south.
    ranges
        For normalised columns, the values that become -1 and 1 (highway-env's ``features_range``). They get the paper's
        ten intervals; the intervals of columns that are not normalised are up to the data.

    Examples
    --------
    >>> space = highway_features(ranges={"x": (-200.0, 200.0)})
    >>> len(space), space.names[2], space.names[22], space[22].label
    (70, 'ego.y', 'vehicle3.x', 'the distance by which vehicle 3 is ahead (1 is 200 m)')
    """
    unknown = [column for column in columns if column != "presence" and column not in _ABSOLUTE]
    if unknown:
        known = ", ".join(("presence", *_ABSOLUTE))
        raise FeatureError(f"an observation column {unknown[0]!r} is not known; the columns are {known}.")
    # Tuples instead of lists and dictionaries, because the result is cached by its arguments.
    ranges_by_column = tuple(
        (column, tuple(float(end) for end in ends)) for column, ends in sorted((ranges or {}).items())
    )
    return _highway_features(rows, tuple(columns), tuple(actions), absolute, straight, ranges_by_column)


@lru_cache
def _highway_features(
    rows: int,
    columns: tuple[str, ...],
    actions: tuple[Action, ...],
    absolute: bool,
    straight: bool,
    ranges_by_column: tuple[tuple[str, tuple[float, ...]], ...],
) -> FeatureSpace:
    """Return the features as `highway_features` does; `ranges_by_column` holds pairs of a column and its range."""
    ranges = dict(ranges_by_column)
    features = []
    for row, row_name in enumerate(row_names(rows)):
        who = "ego" if row == 0 else f"vehicle {row}"
        for column in columns:
            # Presence says whether the row holds a vehicle at all.
            if column == "presence":
                yes, no = f"{who} is there", f"there is no {who}"
                values: dict[float, str] = {1: yes, 0: no}
                features.append(Feature(f"{row_name}.presence", "categorical", words=yes, values=values, group=who))
                continue
            # Every other column is a number, of other vehicles often relative to ego.
            is_relative = row > 0 and not absolute and column in _RELATIVE
            words = (_RELATIVE if is_relative else _ABSOLUTE)[column][0 if straight else 1]
            is_normalised = column in ranges or column in _ALWAYS_NORMALISED
            unit, scale, remark = _scale(column, ranges.get(column))
            features.append(
                Feature(
                    f"{row_name}.{column}",
                    words=f"{words.format(who=who)}{remark}",
                    group=who,
                    cuts=PAPER_CUTS if is_normalised else None,
                    needs=f"{row_name}.presence" if row > 0 and "presence" in columns else "",
                    unit=unit,
                    scale=scale,
                    sides=_SIDES.get((column, straight), ()) if is_relative and unit else (),
                )
            )
    return FeatureSpace(tuple(features), actions)


def _scale(column: str, ends: tuple[float, ...] | None) -> tuple[str, float | None, str]:
    """Return the unit of a column, the size of 1 in that unit, and a remark where 0 is not the middle.

    `ends` are the values that become -1 and 1; None: the column is not normalised.
    """
    unit = _UNITS.get(column, "")
    if not unit or ends is None:
        return unit, None, ""
    low, high = ends
    if low == -high:
        return unit, float(high), ""
    return "", None, f" (-1 is {low:g} {unit}, 1 is {high:g} {unit})"
