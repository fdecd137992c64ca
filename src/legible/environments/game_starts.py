"""Reuse of Atari games and of their first states.

- `make_or_reuse`: makes an environment, or reuses a closed one; an Atari game is in a `RememberedStarts`.

The emulator loads a game when it is made and with every seed, which takes as long as hundreds of steps. Rule sets are
compared on the same seeds, so that most starts are needed again and again.
"""

from __future__ import annotations

import atexit
import copy
import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium
import numpy as np

Env: TypeAlias = gymnasium.Env[Any, Any]

MOST_STARTS = 4096
"""Starts that a process remembers, about 15 kB each; the least recently used one is dropped first."""
MOST_IDLE = 64
"""Closed games that a process keeps for reuse."""
_WITHOUT_STATE = ("PassiveEnvChecker", "OrderEnforcing", "TimeLimit")  # once an episode begins


@dataclass(frozen=True)
class _Start:
    """A game after a start with a seed: the emulator's state, the generator, a digest of the observation."""

    emulator: bytes
    generator: np.random.Generator
    seed: Any
    shown: bytes
    info: dict[str, Any]


_starts: OrderedDict[tuple[str, int], _Start] = OrderedDict()
_idle: dict[str, list[Env]] = {}
atexit.register(_idle.clear)  # emulators do not outlive their library


class RememberedStarts(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A game that remembers its starts by the game's key and the seed; they equal the emulator's to the bit."""

    def __init__(self, env: Env, key: str) -> None:
        super().__init__(env)
        self._key, self._open = key, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, and return its first observation and info.

        Starting an Atari game with a seed is slow. So the state after each seeded start is kept, and copied into the
        game the next time that the seed occurs.
        """
        if seed is None:
            return self.env.reset(options=options)
        game: Any = self.unwrapped
        key = (self._key, int(seed))  # the game with its arguments, and the seed
        remembered = _starts.get(key)
        if remembered is not None:
            _starts.move_to_end(key)
            # Restoring a state resets neither the last action nor the screen. So first start without a seed, which
            # resets both; the state is used only if that start shows the same screen as the remembered one.
            observation, _ = self.env.reset(options=options)
            if _digest(observation) == remembered.shown:
                game.restore_state(pickle.loads(remembered.emulator))
                game._np_random, game._np_random_seed = copy.deepcopy(remembered.generator), remembered.seed
                return observation, dict(remembered.info)

        # The first time, or a screen that differs: start with the seed and remember the result.
        observation, info = self.env.reset(seed=seed, options=options)
        emulator = pickle.dumps(game.clone_state(include_rng=True))
        generator = copy.deepcopy(game._np_random)
        _starts[key] = _Start(emulator, generator, game._np_random_seed, _digest(observation), dict(info))
        if len(_starts) > MOST_STARTS:
            _starts.popitem(last=False)
        return observation, info

    def close(self) -> None:
        """Keep the game for reuse."""
        if self._open:
            self._open = False
            idle = _idle.setdefault(self._key, [])
            if sum(map(len, _idle.values())) < MOST_IDLE:
                idle.append(self.env)
            else:
                self.env.close()


def _digest(observation: Any) -> bytes:
    return hashlib.blake2b(np.asarray(observation).tobytes(), digest_size=16).digest()


def make_or_reuse(name: str, arguments: Mapping[str, Any]) -> Env:
    """Make an environment with ``gymnasium.make``; an Atari game remembers its starts and is reused once closed."""
    key = f"{name} {sorted(arguments.items())!r}"
    if _idle.get(key):
        return RememberedStarts(_idle[key].pop(), key)
    made = gymnasium.make(name, **arguments)
    inner: Any = made.unwrapped
    around: Any = made  # wrappers around a game must keep no state between episodes
    while isinstance(around, gymnasium.Wrapper) and type(around).__name__ in _WITHOUT_STATE:
        around = around.env
    shows_array = isinstance(inner.observation_space, gymnasium.spaces.Box)
    is_game = around is inner and shows_array and type(inner).__module__.startswith("ale_py.")
    return RememberedStarts(made, key) if is_game and made.render_mode is None else made
