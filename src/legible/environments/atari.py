"""Objects of Atari games as features: where the player, the ball and the cars are.

- `ObjectReader`: reads them from a game's memory by the package ocatari (``--features objects``).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from legible.environments.feature_readers import FeatureReader, Row
from legible.environments.spaces import UnfitEnvironmentError
from legible.environments.spec import Env
from legible.features import Feature

MOST_ALIKE = 12
"""Objects of one kind of which there may be more, such as blocks of a wall, are counted, not told apart."""
ABSENT = -1.0
"""Where an object is that is not there."""


@dataclass(frozen=True)
class ObjectReader(FeatureReader):
    """The objects of an Atari game: ``ball.x``, ``ball.y``, ``car1.x``, …, in pixels from the picture's top left.

    They follow from the memory of the game alone, so that copies and repetitions of an episode have the same ones.

    Parameters
    ----------
    game
        As ocatari calls its module.
    kinds
        Kinds of objects, and how many of each there are at most.
    """

    game: str
    kinds: tuple[tuple[str, int], ...]
    needs = "the environment"

    @classmethod
    def of(cls, env: Env) -> ObjectReader:
        """Look up the objects of a game."""
        spec = env.unwrapped.spec
        game = str((spec.kwargs if spec is not None else {}).get("game", ""))
        if not game or not hasattr(env.unwrapped, "ale"):
            raise UnfitEnvironmentError("--features objects: this is no game of the Arcade Learning Environment.")
        name = game.replace("_", "")
        most: Mapping[str, int] = _module(name).MAX_NB_OBJECTS
        return cls(name, tuple((kind, int(n)) for kind, n in most.items()))

    @property
    def text(self) -> str:
        """By what it is asked for."""
        return "objects"

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features: two for each object, one for kinds that are counted."""
        found: list[str] = []
        for kind, most in self.kinds:
            plain = kind.lower()
            if most > MOST_ALIKE:
                found.append(f"{plain}.count")
            else:
                numbers = [""] if most == 1 else range(1, most + 1)
                found += [f"{plain}{number}.{axis}" for number in numbers for axis in "xy"]
        return tuple(Feature(name) for name in found)

    def read(self, observation: Any, info: Mapping[str, Any], env: Env | None) -> Row:  # noqa: ARG002
        """Return where the objects are."""
        assert env is not None
        unwrapped: Any = env.unwrapped
        module = _module(self.game)
        objects = module._init_objects_ram(False)  # it has no other door without its own wrapper
        # ocatari computes with bytes that grow beyond 255 and below 0, as they did before NumPy 2.
        module._detect_objects_ram(objects, unwrapped.ale.getRAM().astype(np.int64), False)
        row: list[float] = []
        for kind, most in self.kinds:
            alike = [one for one in objects if one and one.category == kind]
            if most > MOST_ALIKE:
                row.append(len(alike))
                continue
            places = [float(number) for one in alike[:most] for number in one.xy]
            row += places + [ABSENT] * (2 * most - len(places))
        return np.asarray(row, np.float32)


def _module(game: str) -> Any:
    """What ocatari knows of a game."""
    try:
        importlib.import_module("ocatari")
    except ImportError as error:
        raise UnfitEnvironmentError(
            f"--features objects: the package ocatari finds them, which cannot be imported ({error}); "
            "pip install 'legible-rl[ocatari]', then pip install --no-deps ocatari."
        ) from error
    try:
        return importlib.import_module(f"ocatari.ram.{game}")
    except ImportError as error:
        raise UnfitEnvironmentError(f"--features objects: ocatari does not know the objects of {game}.") from error
