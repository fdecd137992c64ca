"""PettingZoo games by name.

- `make_game`: makes a game from the part of a name after ``pettingzoo:``; games whose agents act at the same time take
  turns within a step.
- `possible_seats`: the seats of a game.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, TypeAlias

from legible.environments import UnfitEnvironmentError
from legible.errors import did_you_mean
from legible.imports import needs_extra

Game: TypeAlias = Any
"""A game in PettingZoo's AEC form; PettingZoo is optional, so its classes are not named here."""

_FACTORIES = ("env", "parallel_env", "raw_env")
_PROBE_SEED = 1


def make_game(name: str, arguments: Mapping[str, Any]) -> Game:
    """Make a PettingZoo game in AEC form.

    - `name`: a module with ``env`` or ``parallel_env``, such as ``mpe2.simple_tag_v3``, or ``module:factory``.
    - `arguments`: arguments of the factory.
    """
    with needs_extra("agents", f"the game {name}"):
        conversions = importlib.import_module("pettingzoo.utils.conversions")
        factory = _find_factory(name)
    made = factory(**arguments)
    if hasattr(made, "agent_iter"):
        return made
    if hasattr(made, "possible_agents") or hasattr(made, "agents"):
        return conversions.parallel_to_aec(made)
    raise UnfitEnvironmentError(
        f"environment 'pettingzoo:{name}' is a {type(made).__name__}, not a game of PettingZoo (AECEnv or ParallelEnv)."
    )


def _find_factory(name: str) -> Any:
    """Return the function that makes a game, or raise an error that says which module or function is missing."""
    module_name, colon, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(f"{missing}."):
            # The module is there, and something that it imports is not. For games of PettingZoo, name the extra of
            # their family; for others, `make_game` turns this error into the advice to install legible's extra.
            if not module_name.startswith("pettingzoo."):
                raise
            family = module_name.split(".")[1]
            raise UnfitEnvironmentError(
                f"environment 'pettingzoo:{name}' needs {missing!r}: pip install 'pettingzoo[{family}]'."
            ) from None
        if missing in {"pettingzoo", "mpe2"}:  # also in legible's extra
            raise
        hint = " Games of mpe2 are named mpe2.simple_tag_v3." if "simple" in name else ""
        raise UnfitEnvironmentError(
            f"environment 'pettingzoo:{name}': there is no module {missing!r}.{hint} Write pettingzoo:MODULE, such as "
            "pettingzoo:pettingzoo.classic.tictactoe_v3, or pettingzoo:MODULE:FACTORY."
        ) from None  # `make_game` would take a ModuleNotFoundError as the cause for a missing extra
    names = (attribute,) if colon else _FACTORIES
    factory = next((value for value in (getattr(module, each, None) for each in names) if callable(value)), None)
    if factory is None:
        expected = f"factory {attribute!r}" if colon else "env() or parallel_env()"
        callables = [each for each, value in vars(module).items() if callable(value)]
        hint = did_you_mean(attribute, callables)
        raise UnfitEnvironmentError(
            f"environment 'pettingzoo:{name}': the module {module_name!r} has no {expected}.{hint}"
        )
    return factory


def possible_seats(game: Game) -> list[str]:
    """Return the names of the seats; a game that does not list them is reset once."""
    known = getattr(game, "possible_agents", None)
    if not known:
        game.reset(seed=_PROBE_SEED)
        known = game.agents
    return [str(seat) for seat in known]
