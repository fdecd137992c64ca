"""Positions of the objects of Atari games as features.

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
"""Kinds with more objects, such as the blocks of a wall, become one feature: their count."""
ABSENT = -1.0
"""The position of an object that is absent."""


@dataclass(frozen=True)
class ObjectReader(FeatureReader):
    """The objects of an Atari game: ``ball.x``, ``ball.y``, ``car1.x``, …, in pixels from the picture's top left.

    They depend on the memory of the game only, so that copies and repetitions of an episode have the same ones.
    """

    game: str  # the name of ocatari's module
    kinds: tuple[tuple[str, int], ...]  # kinds of objects with the largest number of each
    needs = "the environment"

    @classmethod
    def of(cls, env: Env) -> ObjectReader:
        """Return the reader for a game."""
        spec = env.unwrapped.spec
        game = str((spec.kwargs if spec is not None else {}).get("game", ""))
        if not game or not hasattr(env.unwrapped, "ale"):
            raise UnfitEnvironmentError("--features objects: this is not an Atari game of ale_py.")
        name = game.replace("_", "")
        most: Mapping[str, int] = _module(name).MAX_NB_OBJECTS
        return cls(name, tuple((kind, int(n)) for kind, n in most.items()))

    @property
    def text(self) -> str:
        """The text of ``--features`` that selects it."""
        return "objects"

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features: two for each object, one for kinds that are counted."""
        names: list[str] = []
        for kind, most in self.kinds:
            if most > MOST_ALIKE:
                names.append(f"{kind.lower()}.count")
            else:
                numbers = [""] if most == 1 else range(1, most + 1)
                names += [f"{kind.lower()}{number}.{axis}" for number in numbers for axis in "xy"]
        return tuple(Feature(name) for name in names)

    def read(self, observation: Any, info: Mapping[str, Any], env: Env | None) -> Row:  # noqa: ARG002
        """Return the positions and counts of the objects."""
        assert env is not None
        unwrapped: Any = env.unwrapped
        module = _module(self.game)
        objects = module._init_objects_ram(False)  # the only access without ocatari's own wrapper
        # ocatari relies on bytes that exceed 255 and fall below 0, as they did before NumPy 2.
        module._detect_objects_ram(objects, unwrapped.ale.getRAM().astype(np.int64), False)
        row: list[float] = []
        for kind, most in self.kinds:
            alike = [item for item in objects if item and item.category == kind]
            if most > MOST_ALIKE:
                row.append(len(alike))
                continue
            positions = [float(number) for item in alike[:most] for number in item.xy]
            row += positions + [ABSENT] * (2 * most - len(positions))
        return np.asarray(row, np.float32)


def _module(game: str) -> Any:
    """Return ocatari's module of a game."""
    try:
        importlib.import_module("ocatari")
    except ImportError as error:
        raise UnfitEnvironmentError(
            f"--features objects: the package ocatari cannot be imported ({error}); "
            "pip install 'legible-rl[ocatari]', then pip install --no-deps ocatari."
        ) from error
    try:
        return importlib.import_module(f"ocatari.ram.{game}")
    except ImportError as error:
        raise UnfitEnvironmentError(f"--features objects: ocatari does not know the objects of {game}.") from error
