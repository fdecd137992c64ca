"""Endings of episodes.

- `Ending`: the kind of an ending and a clause that describes it; texts such as "failure: the pole falls to the left".
- `LastStep`: the last step of an episode, from which its ending is read.
- `EndingReader`: assigns an ending to every episode.

The first of these that knows the ending decides: a function of the user, ``info["ending"]``, the domain of the
environment, flags in the infos such as ``is_success`` or ``crashed``, and the time limit. Other terminations have the
kind "other".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, cast, get_args

from legible.environments.domain_registry import load_by_name
from legible.environments.domains import domain_of
from legible.environments.spaces import UnfitEnvironmentError
from legible.environments.spec import Env
from legible.errors import LegibleError, describe_error

EndingKind = Literal["success", "failure", "time limit", "other"]
MAX_ENDING_CHARACTERS = 100

_PLAIN_WORDS: dict[EndingKind, str] = {
    "success": "it succeeds",
    "failure": "it fails",
    "time limit": "time runs out",
    "other": "the episode terminates",
}
# Entries of infos that are true in the last step of an episode with this ending; the first one that is true decides.
_FAILURE_FLAGS = {
    "it crashes": ("crashed", "crash"),
    "it collides": ("collision",),
    "it leaves the road": ("out_of_road",),
    "it leaves the area": ("out_of_bounds",),
    "it falls": ("fell", "fallen"),
    "it dies": ("dead", "died"),
    "it loses": ("lose", "lost"),
    "it fails": ("failure", "failed"),
}
_SUCCESS_FLAGS = {
    "it succeeds": ("is_success", "success"),
    "it wins": ("win", "won"),
    "it reaches the goal": ("goal_reached",),
    "it arrives": ("arrived", "arrive_dest"),
}


class Ending(NamedTuple):
    """The kind of an ending, and a clause that describes it: "the pole falls to the left"."""

    kind: EndingKind
    words: str

    @property
    def text(self) -> str:
        """The ending as files keep it.

        >>> Ending("failure", "it crashes").text
        'failure: it crashes'
        """
        return f"{self.kind}: {self.words}"

    @staticmethod
    @lru_cache(maxsize=1024)  # every episode has an ending, and few are different
    def parse(text: str) -> Ending:
        """Read a text; a kind alone gets plain words, and words alone get the kind "other".

        >>> Ending.parse("failure: it crashes"), Ending.parse("success").words, Ending.parse("it stops").kind
        (Ending(kind='failure', words='it crashes'), 'it succeeds', 'other')
        """
        kind, _, words = (part.strip() for part in text.partition(":"))
        if kind not in get_args(EndingKind):
            return Ending("other", text.strip())
        known = cast("EndingKind", kind)
        return Ending(known, words or _PLAIN_WORDS[known])


class LastStep(NamedTuple):
    """The last step of an episode."""

    # The bare environment, or the vector environment and the row of the episode in it
    env: Any
    row: int
    # As the environment returned them; of vector environments the entries of the episode. Observations are flat where
    # rules see flat ones.
    observation: Any
    reward: float
    info: Mapping[str, Any]
    terminated: bool  # whether the environment terminated the episode; otherwise a limit of time cut it off


Reader = Callable[[LastStep], str | None]


class EndingReader:
    """A function that returns the text of the ending of an episode from its last step.

    The domain of the environment may know endings. The user's function, ``module:function``, takes a `LastStep` and
    returns "success", "failure", "time limit", "other" or any of these with a clause ("failure: it hits the wall"); or
    None where it does not know the ending.
    """

    def __init__(self, environment: str | Env | None = None, function: str = "") -> None:
        domain = None if environment is None else domain_of(environment)
        self._own, self._of_domain = _load(function), _load("" if domain is None else domain.endings)

    def __call__(self, last: LastStep) -> str:
        """Return the text of an ending."""
        reported = last.info.get("ending")
        text = self._own(last) or (reported if isinstance(reported, str) else None) or self._of_domain(last)
        return (Ending.parse(text) if text else _read_flags(last)).text[:MAX_ENDING_CHARACTERS]


def _load(name: str) -> Reader:
    """Return the function ``module:function``, whose errors name it; without a name one that knows no ending."""
    function = load_by_name(name) if name else lambda _: None
    if not callable(function):
        raise LegibleError(f"endings: {name!r} is no function; name one as module:function.")

    def read(last: LastStep) -> str | None:
        try:
            text = function(last)
        except Exception as error:
            raise UnfitEnvironmentError(f"the function of endings {name!r} failed: {describe_error(error)}.") from error
        if text is not None and not isinstance(text, str):
            raise UnfitEnvironmentError(
                f"the function of endings {name!r} returned {text!r}; it must return a text or None."
            )
        return text

    return read


def _read_flags(last: LastStep) -> Ending:
    """Return the ending that flags in the infos and the time limit imply."""
    flags = {name: bool(value) for name, value in last.info.items() if _is_flag(value)}
    for kind, words_and_names in (("failure", _FAILURE_FLAGS), ("success", _SUCCESS_FLAGS)):
        for words, names in words_and_names.items():
            if any(flags.get(name) for name in names):
                return Ending(cast("EndingKind", kind), words)
    if not last.terminated:
        return Ending("time limit", _PLAIN_WORDS["time limit"])
    # An environment that reports successes, and none here, reports a failure.
    reports_success = any(name in flags for names in _SUCCESS_FLAGS.values() for name in names)
    return Ending.parse("failure" if reports_success else "other")


def _is_flag(value: Any) -> bool:
    """Return whether a value is a single truth value, also as a number or as an array's element."""
    return getattr(value, "shape", ()) == () and isinstance(getattr(value, "item", lambda: value)(), bool | int | float)
