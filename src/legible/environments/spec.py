"""Environments by name: making them.

- `EnvironmentSpec`: an id or ``module:factory`` with arguments and wrappers; enough to make the environment again,
  anywhere. Packages that are known to register environments are imported when one of theirs is asked for.
- `refuse_named_code`: an environment that a file describes imports nothing by names from the file without trust.
- `CannotDrawError`: what draws an environment is not installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import gymnasium
from gymnasium.envs import registration
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import VectorEnv

from legible.environments.game_starts import make_or_reuse
from legible.environments.known_wrappers import make_known_wrapper, parse_wrapper
from legible.environments.repeatable import made_repeatable
from legible.environments.spaces import UnfitEnvironmentError
from legible.errors import LegibleError

Env: TypeAlias = gymnasium.Env[Any, Any]

# Arguments of gymnasium.make itself: it wraps the environment, which a vector environment knows nothing of.
_ARGUMENTS_OF_MAKE = {"max_episode_steps", "disable_env_checker"}


# Packages whose environments Gymnasium knows only after an import: the ids, the package, how it is installed.
_PACKAGES = (
    (r"(highway|exit|intersection|lane-keeping|merge|parking|racetrack|roundabout|two-way|u-turn)\b.*", "highway_env"),
    (r"(MiniGrid|BabyAI)-.*", "minigrid"),
    (r"ALE/.*|\w+(NoFrameskip|Deterministic)-v[04]", "ale_py"),
)
NO_WRAPPERS = "none"
"""What stands among wrappers to say that there are none, not even those that a policy was trained behind."""
_INSTALL = {"highway_env": "legible-rl[highway]", "minigrid": "minigrid", "ale_py": "legible-rl[atari]"}


@dataclass(frozen=True)
class EnvironmentSpec:
    """What it takes to make an environment.

    Parameters
    ----------
    name
        An id of Gymnasium's, or ``module:factory``.
    arguments
        For the factory, or for ``gymnasium.make``.
    wrappers
        Wrappers to put around it, the innermost first, each as ``module:class``, such as
        ``gymnasium.wrappers:FlattenObservation``, or by a name that `legible.environments.known_wrappers` knows;
        arguments may follow: ``VecFrameStack(n_stack=4)``. `NO_WRAPPERS` stands for none.

    Examples
    --------
    >>> EnvironmentSpec("CartPole-v1").make().action_space
    Discrete(2)
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    wrappers: tuple[str, ...] = ()

    @property
    def named_code(self) -> tuple[str, ...]:
        """What would be imported because this spec names it, not because an installed package registered it.

        A factory, a module that registers an id, wrappers, and arguments that are names of something importable: some
        environments, such as highway-env's, take classes by such names. Specs that come from files need trust for them.
        """
        names = [self.name] if ":" in self.name else []
        wrappers = [parse_wrapper(text) for text in self.wrappers]
        names += [name for name, _ in wrappers if ":" in name]
        texts = _texts([dict(self.arguments), *(arguments for _, arguments in wrappers)])
        for text in texts:  # nothing is imported to find out
            if re.fullmatch(r"[^\W\d]\w*([.:][^\W\d]\w*)+", text):
                package = re.split("[.:]", text, maxsplit=1)[0]
                if package in sys.modules or importlib.util.find_spec(package) is not None:
                    names.append(text)
        return tuple(names)

    @property
    def solved_from(self) -> float | None:
        """The mean return from which on its makers call the environment solved; None where they do not say.

        >>> EnvironmentSpec("CartPole-v1").solved_from
        475.0
        """
        registered = gymnasium.registry.get(self.name.rpartition(":")[2])
        threshold = None if registered is None else registered.reward_threshold
        return None if threshold is None else float(threshold)

    def make(self, **more: Any) -> Env:
        """Make one environment."""
        arguments = {**self.arguments, **more}
        if arguments.get("render_mode") is not None:
            # Left alone, MuJoCo looks for a screen and fails where there is none.
            screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
            if sys.platform.startswith("linux") and not screen:
                os.environ.setdefault("MUJOCO_GL", "egl")
        factory = self._factory()
        with self._explained():
            if factory is not None:
                made = _checked(factory(**arguments), self.name)
            else:
                _import_package(self.name)
                made = make_or_reuse(self.name, {"disable_env_checker": True, **arguments})
        made = made_repeatable(made)
        for wrapper in self.wrappers:
            if wrapper != NO_WRAPPERS:
                made = _wrapped(made, wrapper)
        # What draws is imported when something is first drawn.
        return made if made.render_mode is None else _Drawn(made)

    def make_batch(self, n: int) -> VectorEnv[Any, Any, Any] | None:
        """Make n environments in one, if this environment has a vector form in which every episode has its own seed.

        Vector environments that draw from one stream for the whole batch (such as Gymnasium's own CartPole) cannot be
        used: an episode would depend on its neighbours. The class says that it fits by ``seeds_each_episode = True``;
        it then takes ``autoreset_mode="Disabled"`` and ``copy=False``, and ``reset`` a list of seeds with a
        ``reset_mask``. Wrappers and time limits around the single environment rule the vector form out.
        """
        if any(wrapper != NO_WRAPPERS for wrapper in self.wrappers):
            return None
        _import_package(self.name)
        spec = None if self._factory() is not None else _registered(self.name.rpartition(":")[2])
        if spec is None or spec.vector_entry_point is None:
            return None
        if spec.additional_wrappers or _ARGUMENTS_OF_MAKE & self.arguments.keys():
            return None
        with self._explained():
            entry = spec.vector_entry_point
            loaded = registration.load_env_creator(entry) if isinstance(entry, str) else entry
            if not getattr(loaded, "seeds_each_episode", False):
                return None
            return gymnasium.make_vec(
                self.name,
                num_envs=n,
                vectorization_mode="vector_entry_point",
                autoreset_mode="Disabled",
                copy=False,
                **self.arguments,
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say of whatever goes wrong inside that it was the making of this environment."""
        try:
            yield
        except LegibleError:
            raise
        except gymnasium.error.Error as error:
            missing = isinstance(error, DependencyNotInstalled) and "mujoco" in str(error).lower()
            hint = " It comes with pip install 'legible-rl[mujoco]', too." if missing else ""
            raise UnfitEnvironmentError(f"environment {self.name!r} cannot be made: {error}{hint}") from error
        except Exception as error:
            way, hint = os.environ.get("MUJOCO_GL"), ""
            files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
            if way and any("OpenGL" in file or "mujoco" in file for file in files):
                hint = f" MUJOCO_GL={way} asks for a way of drawing that does not work on this machine; try without it."
            raise UnfitEnvironmentError(
                f"environment {self.name!r} cannot be made: {type(error).__name__}: {error}.{hint}"
            ) from error

    def _factory(self) -> Callable[..., Any] | None:
        """The callable behind ``module:factory``, or None when the name is an id of Gymnasium's."""
        module_name, colon, attribute = self.name.partition(":")
        if not colon:
            return None
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            raise UnfitEnvironmentError(
                f"environment {self.name!r}: the module {module_name!r} cannot be imported "
                f"({type(error).__name__}: {error})."
            ) from error
        factory = getattr(module, attribute, None)
        if callable(factory):
            return cast("Callable[..., Any]", factory)
        if _registered(attribute) is None:
            raise UnfitEnvironmentError(
                f"environment {self.name!r}: the module {module_name!r} has neither a factory {attribute!r} nor "
                "registers an environment of that id."
            )
        return None


def _texts(value: Any) -> Iterator[str]:
    """All texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _texts(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _texts(entry)


class UntrustedCodeError(UnfitEnvironmentError):
    """A file that names code which would be imported."""


def refuse_named_code(spec: EnvironmentSpec, where: str, *, trust: bool) -> None:
    """Refuse an environment that a file describes if making it would import what the file chose, unless it is trusted.

    Parameters
    ----------
    spec
        The environment.
    where
        The file or folder that describes it.
    trust
        Whether the person who opens the file trusts it.
    """
    named = spec.named_code
    if named and not trust:
        modules = ", ".join(dict.fromkeys(name.replace(":", ".").rpartition(".")[0] for name in named))
        raise UntrustedCodeError(
            f"{where}: its environment names {', '.join(named)}, so making it would import {modules}. If you know "
            "where this comes from, say that you trust it (--trust)."
        )


class CannotDrawError(UnfitEnvironmentError):
    """What draws an environment is not installed, or does not work on this machine."""


class _Drawn(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Says what to install where something is missing that draws the environment."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        with self._explained():
            return super().reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        with self._explained():
            return super().step(action)

    def render(self) -> Any:
        try:
            with self._explained():
                return super().render()
        except CannotDrawError:
            raise
        except Exception as error:  # whatever a machine without a screen or graphics makes of it
            hint = (
                " MuJoCo draws by OpenGL, on a machine without a screen with MUJOCO_GL=egl (Debian's package libegl1) "
                "or MUJOCO_GL=osmesa (libosmesa6)."
            )
            is_mujoco = any(".mujoco" in base.__module__ for base in type(self.unwrapped).__mro__)
            raise self._cannot(f"{type(error).__name__}: {error}", hint if is_mujoco else "") from error

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DependencyNotInstalled as error:
            hint = " It comes with pip install 'legible-rl[human]', too." if "pygame" in str(error) else ""
            raise self._cannot(str(error), hint) from error

    def _cannot(self, why: str, hint: str) -> CannotDrawError:
        name = self.spec.id if self.spec is not None else type(self.unwrapped).__name__
        return CannotDrawError(f"environment {name!r} cannot be drawn: {why.splitlines()[0].rstrip('.')}.{hint}")


def _registered(env_id: str) -> registration.EnvSpec | None:
    """What Gymnasium knows by an id; the latest version where the id names none, as in ``gymnasium.make``."""
    if env_id in gymnasium.registry:
        return gymnasium.registry[env_id]
    try:
        namespace, name, version = registration.parse_env_id(env_id)
    except gymnasium.error.Error:
        return None
    if version is None:
        version = registration.find_highest_version(namespace, name)
    return gymnasium.registry.get(registration.get_env_id(namespace, name, version))


def _import_package(env_id: str) -> None:
    """Import the package that registers an environment, if Gymnasium does not know it yet and the package is known."""
    plain = env_id.rpartition(":")[2]
    if _registered(plain) is not None:
        return
    for pattern, package in _PACKAGES:
        if re.fullmatch(pattern, plain):
            try:
                imported = importlib.import_module(package)
            except ImportError as error:
                raise UnfitEnvironmentError(
                    f"environment {env_id!r} belongs to the package {package}, which cannot be imported ({error}); "
                    f"pip install '{_INSTALL[package]}'."
                ) from error
            if package == "ale_py":  # every process would greet on standard error
                imported.ALEInterface.setLoggerMode(imported.LoggerMode.Error)


def _wrapped(env: Env, text: str) -> Env:
    """Put a wrapper, named as ``module:class`` or by a known name, around an environment."""
    name, arguments = parse_wrapper(text)
    module_name, colon, attribute = name.partition(":")
    try:
        if not colon:
            return make_known_wrapper(env, name, arguments)
        wrapper = getattr(importlib.import_module(module_name), attribute)
        return _checked(wrapper(env, **arguments), name)
    except LegibleError:
        raise
    except Exception as error:
        raise UnfitEnvironmentError(
            f"wrapper {name!r} cannot be put around the environment: {type(error).__name__}: {error}."
        ) from error


def as_environment(environment: str | EnvironmentSpec | Env) -> EnvironmentSpec | Env:
    """Return the spec of a name, or the spec or the environment that was given; refuse anything else."""
    if isinstance(environment, str):
        return EnvironmentSpec(environment)
    if isinstance(environment, (EnvironmentSpec, gymnasium.Env)):
        return environment
    raise UnfitEnvironmentError(
        f"a {type(environment).__name__} is no environment; give an id or module:factory, an EnvironmentSpec, or one "
        "gymnasium.Env."
    )


def _checked(made: Any, name: str) -> Env:
    if not isinstance(made, gymnasium.Env):
        raise UnfitEnvironmentError(f"{name!r} made a {type(made).__name__}, not a gymnasium.Env.")
    return made
