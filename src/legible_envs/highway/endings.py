"""Endings of driving episodes."""

from __future__ import annotations

from legible.environments import LastStep


def read_ending(last: LastStep) -> str | None:
    """Return how an episode ended; None for scenarios that do not report success."""
    if last.info.get("crashed"):
        return "failure: ego crashes"
    if "is_success" not in last.info:
        return None
    if last.info["is_success"]:
        return f"success: ego {'arrives' if last.terminated else 'drives to the end without a crash'}"
    return "failure: ego leaves the road" if last.terminated else "time limit: time runs out before ego arrives"
