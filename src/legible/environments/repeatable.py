"""Environments whose episodes depend on those before them, made such that the seed alone decides.

- `made_repeatable`: puts a `FreshWorld` around an environment that needs one.

BipedalWalker keeps one world of Box2D for all of its episodes, and what happened in earlier ones stays in it: the same
seed gives another episode the second time. LunarLander makes a new world itself.
"""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium

_KEEP_THEIR_WORLD = ("gymnasium.envs.box2d.bipedal_walker:BipedalWalker",)


def made_repeatable(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return the environment, in a `FreshWorld` where its episodes would depend on those before."""
    names = {f"{kind.__module__}:{kind.__qualname__}" for kind in type(env.unwrapped).__mro__}
    return env if names.isdisjoint(_KEEP_THEIR_WORLD) else FreshWorld(env)


class FreshWorld(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gives every episode a world of Box2D of its own."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in a new world."""
        inner: Any = self.unwrapped
        inner._destroy()
        inner.world = importlib.import_module("Box2D").b2World()
        return super().reset(**options)
