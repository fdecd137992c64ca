"""Environments by name: making them, saying whether they fit, and naming what they show.

- `EnvironmentSpec`: an id or ``module:factory`` with arguments; enough to make the environment again, anywhere.
- `ObservationEncoder`: observations of any supported space as rows of float32.
- `feature_space_of`: names from the environment, from a TOML file, or ``f0, f1, …``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.features import Feature, FeatureSpace

Env: TypeAlias = gymnasium.Env[Any, Any]


class UnfitEnvironmentError(LegibleError):
    """An environment that cannot be made, or that legible cannot work with."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """What it takes to make an environment: an id of Gymnasium's, or ``module:factory``, and arguments.

    >>> EnvironmentSpec("CartPole-v1").make().action_space
    Discrete(2)
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def make(self, **more: Any) -> Env:
        """Make one environment."""
        arguments = {**self.arguments, **more}
        factory = self._factory()
        try:
            if factory is not None:
                return _checked(factory(**arguments), self.name)
            return gymnasium.make(self.name, disable_env_checker=True, **arguments)
        except gymnasium.error.Error as error:
            raise UnfitEnvironmentError(f"environment {self.name!r} cannot be made: {error}") from error
        except (ImportError, TypeError) as error:
            raise UnfitEnvironmentError(
                f"environment {self.name!r} cannot be made: {type(error).__name__}: {error}."
            ) from error

    def make_batch(self, n: int) -> VectorEnv[Any, Any, Any] | None:
        """Make n environments in one, if this environment has a vector form in which every episode has its own seed.

        Vector environments that draw from one stream for the whole batch (such as Gymnasium's own CartPole) cannot be
        used: an episode would depend on its neighbours. The class says that it fits by ``one_seed_an_episode = True``.
        """
        if self._factory() is not None:
            return None
        spec = gymnasium.spec(self.name)
        entry = spec.vector_entry_point
        if entry is None:
            return None
        loaded = gymnasium.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
        if not getattr(loaded, "one_seed_an_episode", False):
            return None
        return gymnasium.make_vec(
            self.name,
            num_envs=n,
            vectorization_mode="vector_entry_point",
            autoreset_mode="Disabled",
            copy=False,
            **self.arguments,
        )

    def _factory(self) -> Callable[..., Any] | None:
        """The callable behind ``module:factory``, or None when the name is an id of Gymnasium's."""
        module_name, colon, attribute = self.name.partition(":")
        if not colon:
            return None
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise UnfitEnvironmentError(
                f"environment {self.name!r}: the module {module_name!r} cannot be imported ({error})."
            ) from error
        factory = getattr(module, attribute, None)
        if factory is None and self.name.split(":", 1)[1] not in gymnasium.registry:
            raise UnfitEnvironmentError(
                f"environment {self.name!r}: the module {module_name!r} has neither a factory {attribute!r} nor "
                "registers an environment of that id."
            )
        return factory if callable(factory) else None


def _checked(made: Any, name: str) -> Env:
    if not isinstance(made, gymnasium.Env):
        raise UnfitEnvironmentError(f"{name!r} made a {type(made).__name__}, not a gymnasium.Env.")
    return made


@dataclass(frozen=True)
class ObservationEncoder:
    """Turns observations into rows of float32: a box is flattened, a discrete value stays the number it is."""

    width: int
    categorical: bool

    @classmethod
    def of(cls, space: spaces.Space[Any]) -> ObservationEncoder:
        """Choose the encoding for an observation space, or say why there is none."""
        match space:
            case spaces.Box():
                return cls(int(np.prod(space.shape)), categorical=False)
            case spaces.Discrete():
                return cls(1, categorical=True)
            case spaces.MultiDiscrete():
                return cls(int(space.nvec.size), categorical=True)
            case spaces.MultiBinary():
                return cls(int(np.prod(space.shape)), categorical=True)
            case spaces.Dict() | spaces.Tuple():
                raise UnfitEnvironmentError(
                    f"observations are a {type(space).__name__} space; flatten them first, for instance with "
                    "gymnasium.wrappers.FlattenObservation."
                )
        raise UnfitEnvironmentError(
            f"observations are a {type(space).__name__} space; Box, Discrete, MultiDiscrete or MultiBinary is needed."
        )

    def encode(self, observations: Sequence[Any] | NDArray[Any]) -> NDArray[np.float32]:
        """Return ``float32[n, width]``."""
        return np.asarray(observations, np.float32).reshape(len(observations), self.width)


def count_actions(space: spaces.Space[Any]) -> int:
    """Return the number of actions, or say why the action space is none that rules can speak of."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    raise UnfitEnvironmentError(
        f"actions are a {type(space).__name__} space; rules choose among the actions of a Discrete space."
    )


def first_action(space: spaces.Space[Any]) -> int:
    """The number that the environment gives to its first action (``Discrete(n, start=…)``)."""
    return int(getattr(space, "start", 0))


def feature_space_of(env: Env, names: str | Path | FeatureSpace | None = None) -> FeatureSpace:
    """Return the features and actions of an environment.

    Names come from `names` (a feature space or a TOML file) where it is given, then from the environment's
    ``feature_space``, else they are ``f0, f1, …``. Kinds that nothing tells are "numeric" for a box, "categorical" for
    discrete observations; `FeatureSpace.guess_kinds` looks at data.
    """
    encoder = ObservationEncoder.of(env.observation_space)
    n_actions = count_actions(env.action_space)
    if isinstance(names, (str, Path)):
        space, source = FeatureSpace.from_toml(names), str(names)
    elif names is not None:
        space, source = names, "the given feature space"
    else:
        own = getattr(env.unwrapped, "feature_space", None)
        if not isinstance(own, FeatureSpace):
            return _unnamed(encoder, n_actions)
        space, source = own, "the environment's feature space"
    if len(space) != encoder.width:
        raise UnfitEnvironmentError(f"{source} names {len(space)} features, but observations have {encoder.width}.")
    if not space.actions:
        space = FeatureSpace(space.features, FeatureSpace.unnamed(0, n_actions).actions)
    if len(space.actions) != n_actions:
        raise UnfitEnvironmentError(
            f"{source} names {len(space.actions)} actions, but the environment has {n_actions}."
        )
    return space


def _unnamed(encoder: ObservationEncoder, n_actions: int) -> FeatureSpace:
    space = FeatureSpace.unnamed(encoder.width, n_actions)
    if not encoder.categorical:
        return space
    return FeatureSpace(tuple(Feature(f.name, "categorical") for f in space.features), space.actions)
