"""Steering towards the middle of a lane, compiled; ego and all others steer alike.

The sine of the slip angle β stands for the steering angle δ, of which only β = atan(tan δ / 2) is ever used.
"""

from __future__ import annotations

import numpy as np

from legible_envs.compiled import inlined
from legible_envs.highway.roads import Roads, heading_at, is_after_end, local_coordinates, next_lane, wrap_to_pi
from legible_envs.highway.state import HEADING, LENGTH, SPEED, TARGET_LANE, Marks, Motion, X, Y

# Gains of the controllers: heading, lateral position; how far ahead the lane's heading is looked up (seconds).
_KP_HEADING, _KP_LATERAL = 1 / 0.2, 1 / 0.6
_PURSUIT = 0.5 * 0.2
# The steering angle ends at ±π/3; this is the sine of the slip angle there.
_MAX_SLIP = np.sin(np.arctan(0.5 * np.tan(np.pi / 3)))
_SIN_45 = np.sin(np.pi / 4)


@inlined
def follow_road(roads: Roads, motion: Motion, marks: Marks, i: int) -> None:
    """At the end of the target lane, go for the next one."""
    lane, x, y = marks[TARGET_LANE, i], motion[X, i], motion[Y, i]
    if is_after_end(roads, lane, x, y):
        marks[TARGET_LANE, i] = next_lane(roads, marks, i, lane, x, y)


@inlined
def not_zero(value: float) -> float:
    """Return the value, or one of its sign that is safe to divide by."""
    if abs(value) > 1e-2:
        return value
    return 1e-2 if value >= 0 else -1e-2


@inlined
def steer(roads: Roads, motion: Motion, i: int, lane: int) -> float:
    """Return the sine of the slip angle with which vehicle i steers towards the middle of a lane."""
    speed = motion[SPEED, i]
    s, r = local_coordinates(roads, lane, motion[X, i], motion[Y, i])
    reference = heading_at(roads, lane, s + speed * _PURSUIT)
    divisor = not_zero(speed)
    sideways = -_KP_LATERAL * r / divisor
    if abs(sideways) >= _SIN_45:
        reference += np.copysign(np.pi / 4, sideways)
    elif sideways != 0.0:
        reference += np.arcsin(sideways)
    rate = _KP_HEADING * wrap_to_pi(reference - motion[HEADING, i])
    return min(max(LENGTH / 2 / divisor * rate, -_MAX_SLIP), _MAX_SLIP)
