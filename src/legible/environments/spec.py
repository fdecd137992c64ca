"""Specifications of environments, and the environments made from them.

- `EnvironmentSpec`: an id or ``module:factory`` with arguments and wrappers, enough to make the environment again
  anywhere. Packages that are known to register environments are imported when one of theirs is asked for.
- `refuse_named_code`: refuses to import code that an untrusted file names.
- `CannotDrawError`: an environment cannot be drawn on this machine.
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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, cast

import gymnasium
from gymnasium.envs import registration
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import VectorEnv

from legible.environments.faults import check_spaces, explain_not_environment
from legible.environments.game_starts import make_or_reuse
from legible.environments.known_wrappers import make_known_wrapper, parse_wrapper
from legible.environments.mujoco_messages import ignore_unfinished_viewers, show_warnings_once
from legible.environments.spaces import UnfitEnvironmentError
from legible.errors import LegibleError, describe_error, did_you_mean

Env: TypeAlias = gymnasium.Env[Any, Any]

# Arguments with which gymnasium.make itself wraps the environment; vector environments do not take them.
_MAKE_ARGUMENTS = {"max_episode_steps", "disable_env_checker"}
_HIGHWAY_IDS = r"(highway|exit|intersection|lane-keeping|merge|parking|racetrack|roundabout|two-way|u-turn)\b.*"
# Packages whose environments Gymnasium knows only after an import: the ids, the package, the name to install it by.
_PACKAGES = (
    (_HIGHWAY_IDS, "highway_env", "legible-rl[highway]"),
    (r"(MiniGrid|BabyAI)-.*", "minigrid", "minigrid"),
    (r"ALE/.*|\w+(NoFrameskip|Deterministic)-v[04]", "ale_py", "legible-rl[atari]"),
)
# BipedalWalker keeps one Box2D world for all episodes, and earlier ones leave traces in it; LunarLander makes new ones.
_KEEPING_WORLDS = {"gymnasium.envs.box2d.bipedal_walker:BipedalWalker"}
# Vector classes with one random stream for all episodes, and legible's version of them with a seed for each.
_SEEDED_CLASSES = {
    "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv": (
        "legible.environments.gymnasium.cartpole:SeededCartPole"
    ),
}
_SEAT_ARGUMENTS = {"seat", "others"}
# Makers of environments that are no Gymnasium environments themselves, by what stands before the colon of their names.
_MAKERS = {"pettingzoo": "legible.agents.seats:make_seat_env"}
# Their packages that are known: files may name them, as they may name Gymnasium's ids.
_KNOWN_GAMES = r"pettingzoo:(pettingzoo|mpe2)\.[\w.]+"
NO_WRAPPERS = "none"
"""Wrapper name that stands for no wrappers, not even those that a policy was trained behind."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """A description from which an environment can be made.

    Parameters
    ----------
    name
        A Gymnasium id, ``module:factory``, or ``pettingzoo:module`` for a game of several agents, one seat of which is
        played here (`legible.agents.make_seat_env`).
    arguments
        Arguments of the factory or of ``gymnasium.make``.
    wrappers
        Wrappers, innermost first, each as ``module:class``, such as ``gymnasium.wrappers:FlattenObservation``, or by a
        name that `legible.environments.known_wrappers` knows. Arguments may follow: ``VecFrameStack(n_stack=4)``.
        `NO_WRAPPERS` stands for none.

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
        """Names of code that is imported when this environment is made, because the specification names it.

        These are a factory (``module:function``), a module that registers an id, wrappers, and arguments that name
        something importable: some environments, such as highway-env's, take classes by name. A specification that comes
        from a file needs the user's trust for such code.
        """
        is_known_game = re.fullmatch(_KNOWN_GAMES, self.name) is not None  # its module is a package of games
        names = [self.name] if ":" in self.name and not is_known_game else []
        wrappers = [parse_wrapper(text) for text in self.wrappers]
        names += [name for name, _ in wrappers if ":" in name]
        # Search all arguments, also nested ones, for texts such as "package.module.Class" whose package is installed.
        # Looking for a package does not import it.
        values: list[Any] = [dict(self.arguments), *(arguments for _, arguments in wrappers)]
        while values:
            value = values.pop(0)
            if isinstance(value, Mapping):
                values = [*value.values(), *values]
            elif isinstance(value, (list, tuple)):
                values = [*value, *values]
            elif isinstance(value, str) and re.fullmatch(r"[^\W\d]\w*([.:][^\W\d]\w*)+", value):
                package = re.split("[.:]", value, maxsplit=1)[0]
                if package in sys.modules or importlib.util.find_spec(package) is not None:
                    names.append(value)
        return tuple(names)

    @property
    def solved_from(self) -> float | None:
        """The mean return from which its authors call the environment solved; None where they do not say.

        >>> EnvironmentSpec("CartPole-v1").solved_from
        475.0
        """
        registered = gymnasium.registry.get(self.name.rpartition(":")[2])
        threshold = None if registered is None else registered.reward_threshold
        return None if threshold is None else float(threshold)

    def make(self, **more: Any) -> Env:
        """Return a new environment with its wrappers, after a check of its spaces.

        Further arguments of the environment, such as ``render_mode``, replace those of the specification.
        """
        arguments = {**self.arguments, **more}
        if arguments.get("render_mode") is not None:
            # By default, MuJoCo looks for a screen and fails where there is none.
            screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
            if sys.platform.startswith("linux") and not screen:
                os.environ.setdefault("MUJOCO_GL", "egl")

        # Errors of the environment's own code are explained to the user.
        factory = self._factory()
        with self._explained():
            if factory is not None:
                env = _checked(factory(**arguments), self.name)
            else:
                _import_package(self.name)
                registered = _registered(self.name.rpartition(":")[2])
                show_warnings_once(None if registered is None else registered.entry_point)
                env = make_or_reuse(self.name, {"disable_env_checker": True, **arguments})
        # BipedalWalker's physics carries traces of earlier episodes: make a new world for every episode.
        class_names = {f"{class_.__module__}:{class_.__qualname__}" for class_ in type(env.unwrapped).__mro__}
        if class_names & _KEEPING_WORLDS:
            env = _FreshWorld(env)

        # The user's wrappers, innermost first.
        for wrapper in self.wrappers:
            if wrapper != NO_WRAPPERS:  # which only keeps away the wrappers that a policy was trained with
                env = _wrap(env, wrapper)
        check_spaces(env, self.name)
        # Environments that draw explain which package is missing if drawing fails.
        return env if env.render_mode is None else _DrawnEnv(env)

    @property
    def vector_class(self) -> Callable[..., VectorEnv[Any, Any, Any]] | None:
        """The class with which Gymnasium plays whole batches of this environment; None if it is registered without one.

        Wrappers and factories exist for single environments only. `_SEEDED_CLASSES` replaces classes that would draw
        the random numbers of all episodes from one stream.
        """
        if any(wrapper != NO_WRAPPERS for wrapper in self.wrappers):
            return None
        _import_package(self.name)
        spec = None if self._factory() is not None else _registered(self.name.rpartition(":")[2])
        entry = None if spec is None or spec.additional_wrappers else spec.vector_entry_point
        if entry is None:
            return None
        with self._explained():
            made = registration.load_env_creator(_SEEDED_CLASSES.get(entry, entry)) if isinstance(entry, str) else entry
        return cast("Callable[..., VectorEnv[Any, Any, Any]]", made)

    def make_batch(self, n: int, *, undeclared: bool = False) -> VectorEnv[Any, Any, Any] | None:
        """Return a vector environment that plays n episodes at once, or None if this environment has no suitable one.

        Its ``reset`` takes a list of seeds with a ``reset_mask``, and finished episodes wait until they are reset.
        Vector environments that draw random numbers from one stream for all episodes are not suitable: an episode would
        depend on its neighbours. A suitable class says so: ``seeds_each_episode = True``; it also takes ``copy=False``.

        Parameters
        ----------
        n
            The number of episodes that are played at once.
        undeclared
            Also make vector environments of other classes. `legible.play.vector_envs` checks whether they are suitable.
        """
        env_class = self.vector_class
        if env_class is None:
            return None
        is_declared = getattr(env_class, "seeds_each_episode", False)
        # Suitable classes take no arguments such as a time limit, for which `gymnasium.make` adds a wrapper.
        if not undeclared and (not is_declared or _MAKE_ARGUMENTS & self.arguments.keys()):
            return None
        with self._explained():
            registered = _registered(self.name.rpartition(":")[2])
            assert registered is not None
            arguments = {**self.arguments, "autoreset_mode": "Disabled", **({"copy": False} if is_declared else {})}
            spec = replace(registered, vector_entry_point=env_class)
            return gymnasium.make_vec(spec, num_envs=n, vectorization_mode="vector_entry_point", **arguments)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn any exception into an `UnfitEnvironmentError` that names this environment."""
        try:
            yield
        except LegibleError:
            raise
        except gymnasium.error.Error as error:
            lacks_mujoco = isinstance(error, DependencyNotInstalled) and "mujoco" in str(error).lower()
            hint = " Or: pip install 'legible-rl[mujoco]'." if lacks_mujoco else _hint_at_games(self.name)
            raise UnfitEnvironmentError(f"environment {self.name!r} cannot be made: {error}{hint}") from error
        except Exception as error:
            # Hints for three usual causes: how MuJoCo draws, wrong arguments, and seats of games of one agent.
            backend, hint = os.environ.get("MUJOCO_GL"), ""
            files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
            if backend and any("OpenGL" in file or "mujoco" in file for file in files):
                hint = f" MUJOCO_GL={backend} does not work on this machine; try without it."
            if isinstance(error, TypeError) and "argument" in str(error):
                is_seat = any(f"argument '{name}'" in str(error) for name in _SEAT_ARGUMENTS)
                if is_seat and not self.name.startswith("pettingzoo:"):
                    raise UnfitEnvironmentError(
                        f"environment {self.name!r} has no seats: --seat, --others and --against are for games of "
                        "several agents, which are named pettingzoo:MODULE."
                    ) from error
                hint = " Arguments are given with --arg NAME=VALUE."
            raise UnfitEnvironmentError(
                f"environment {self.name!r} cannot be made: {describe_error(error)}.{hint}"
            ) from error

    def _factory(self) -> Callable[..., Any] | None:
        """Return the callable that ``module:factory`` names, or None if the environment is made by its Gymnasium id.

        In ``module:Id-v0``, the module registers the id, so importing it is enough.
        """
        module_name, has_colon, attribute = self.name.partition(":")
        if not has_colon:
            return None
        # Prefixes of legible itself, such as "pettingzoo:", have a function that makes their environments.
        if module_name in _MAKERS:
            maker, _, function = _MAKERS[module_name].partition(":")
            return partial(getattr(importlib.import_module(maker), function), attribute)
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            raise UnfitEnvironmentError(
                f"environment {self.name!r}: the module {module_name!r} cannot be imported ({describe_error(error)})."
            ) from error

        # The factory may be nested, with dots. If there is none, the module must have registered the id.
        factory: Any = module
        try:
            for name in attribute.split("."):
                factory = getattr(factory, name)
        except Exception:  # modules can have a __getattr__ that raises anything
            factory = None
        if callable(factory):
            return cast("Callable[..., Any]", factory)
        if _registered(attribute) is None:
            raise UnfitEnvironmentError(
                f"environment {self.name!r}: the module {module_name!r} has neither a factory {attribute!r} nor "
                "registers an environment of that id."
                + did_you_mean(attribute, [name for name, value in vars(module).items() if callable(value)])
                + _hint_at_games(self.name)
            )
        return None


def _hint_at_games(name: str) -> str:
    """Return how to write the name of a PettingZoo environment, if an unknown name looks like one."""
    if not re.fullmatch(r"(pettingzoo|mpe2)\..+|\w+_v\d+", name):
        return ""
    return " PettingZoo environments are named pettingzoo:MODULE, such as pettingzoo:pettingzoo.classic.tictactoe_v3."


class UntrustedCodeError(UnfitEnvironmentError):
    """An untrusted file names code that would be imported."""


def refuse_named_code(spec: EnvironmentSpec, where: str, *, trust: bool) -> None:
    """Raise if making an environment would import code that the untrusted file `where` names."""
    named = spec.named_code
    if named and not trust:
        modules = ", ".join(dict.fromkeys(name.replace(":", ".").rpartition(".")[0] for name in named))
        raise UntrustedCodeError(
            f"{where}: its environment names {', '.join(named)}, so making it would import {modules}. If you trust "
            "the source of this file, add --trust."
        )


class _FreshWorld(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper that makes a new Box2D world for every episode, so that its seed alone determines an episode."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        inner: Any = self.unwrapped
        inner._destroy()
        inner.world = importlib.import_module("Box2D").b2World()
        return super().reset(**options)


class CannotDrawError(UnfitEnvironmentError):
    """A package that draws an environment is not installed, or does not work on this machine."""


class _DrawnEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Explains what to install where the environment cannot be drawn; packages are imported with the first frame."""

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
        except Exception as error:  # rendering fails in many ways on a machine without a screen or graphics
            hint = (
                " MuJoCo draws with OpenGL; without a screen, set MUJOCO_GL=egl (Debian's package libegl1) or "
                "MUJOCO_GL=osmesa (libosmesa6)."
            )
            is_mujoco = any(".mujoco" in base.__module__ for base in type(self.unwrapped).__mro__)
            if is_mujoco:
                ignore_unfinished_viewers()
            raise self._error(f"{type(error).__name__}: {error}", hint if is_mujoco else "") from error

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DependencyNotInstalled as error:
            hint = " Or: pip install 'legible-rl[human]'." if "pygame" in str(error) else ""
            raise self._error(str(error), hint) from error

    def _error(self, reason: str, hint: str) -> CannotDrawError:
        name = self.spec.id if self.spec is not None else type(self.unwrapped).__name__
        return CannotDrawError(f"environment {name!r} cannot be drawn: {reason.splitlines()[0].rstrip('.')}.{hint}")


def _registered(env_id: str) -> registration.EnvSpec | None:
    """Return Gymnasium's record of an id, of the latest version where the id names none, as in ``gymnasium.make``."""
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
    """Import the known package that registers an environment, unless Gymnasium knows the environment already."""
    plain = env_id.rpartition(":")[2]
    if _registered(plain) is not None:
        return
    for pattern, package, install in _PACKAGES:
        if re.fullmatch(pattern, plain):
            try:
                imported = importlib.import_module(package)
            except ImportError as error:
                raise UnfitEnvironmentError(
                    f"environment {env_id!r} belongs to the package {package}, which cannot be imported ({error}); "
                    f"pip install '{install}'."
                ) from error
            if package == "ale_py":  # by default every process prints a greeting
                imported.ALEInterface.setLoggerMode(imported.LoggerMode.Error)


def _wrap(env: Env, text: str) -> Env:
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
    """Return the spec of a name; return specs and environments as they are, and raise for anything else."""
    if isinstance(environment, str):
        return EnvironmentSpec(environment)
    if isinstance(environment, (EnvironmentSpec, gymnasium.Env)):
        return environment
    if callable(getattr(environment, "reset", None)) and not isinstance(environment, type):
        raise UnfitEnvironmentError(explain_not_environment(environment, type(environment).__name__))
    raise UnfitEnvironmentError(
        f"a {type(environment).__name__} is no environment; give an id or module:factory, an EnvironmentSpec, or a "
        "gymnasium.Env."
    )


def _checked(made: Any, name: str) -> Env:
    if not isinstance(made, gymnasium.Env):
        raise UnfitEnvironmentError(explain_not_environment(made, name))
    return made
