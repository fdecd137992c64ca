"""Questions about an open policy, asked by a page or by a notebook.

- `ANSWERS`: questions that are answered at once; `STREAMS`: those whose answers come in pieces, during play.
- `to_plain`: an answer as data that JSON can hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from legible.server.bench import claims_of, confirm_on_bench, keep_rule, read_rule, try_on_bench
from legible.server.desk import Desk
from legible.server.jobs import Emit
from legible.server.states import find_states
from legible.server.viewer import branch, list_episodes, repeat_branch, scan_episode, show_episode, show_frames

Answer = Callable[[Desk, Mapping[str, Any]], dict[str, Any]]
Streamed = Callable[[Desk, Mapping[str, Any], Emit], None]

ANSWERS: dict[str, Answer] = {
    "about": lambda desk, _: desk.about(),
    "read": read_rule,
    "claims": claims_of,
    "keep": keep_rule,
    "episodes": list_episodes,
    "episode": show_episode,
    "frames": show_frames,
    "branch": branch,
    "states": find_states,
}
"""Questions about an open policy that are answered at once."""
STREAMS: dict[str, Streamed] = {
    "try": try_on_bench,
    "confirm": confirm_on_bench,
    "repeat": repeat_branch,
    "scan": scan_episode,
}
"""Questions whose answers come in pieces, while episodes are played."""


def to_plain(value: Any) -> Any:
    """Return data without NaN and infinities, which are no JSON, and without NumPy's types."""
    if isinstance(value, Mapping):
        return {key: to_plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(one) for one in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
