"""Small PettingZoo games with agents that end early: one in parallel form, one in AEC form, and one with memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import AgentSelector, wrappers

from legible.features import Feature, FeatureSpace

STEPS = 12
ROUNDS = 10
THROWS = 10


class Cliff(ParallelEnv[str, Any, int]):
    """Three walkers see the distance to a cliff and the wind. A step on earns 1; who falls loses 5 and is out."""

    metadata: dict[str, Any] = {"name": "cliff_v0", "render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.possible_agents = [f"walker_{i}" for i in range(3)]
        self.agents: list[str] = []
        self.render_mode = render_mode
        self._random, _ = seeding.np_random(0)
        self._spaces = {agent: spaces.Box(-1.0, 9.0, (2,), np.float32) for agent in self.possible_agents}
        self._actions = {agent: spaces.Discrete(2) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._actions[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ARG002
        if seed is not None:
            self._random, _ = seeding.np_random(seed)
        self.agents = list(self.possible_agents)
        self.steps = 0
        self.left = {agent: float(self._random.integers(2, 9)) for agent in self.agents}
        self._blow()
        return self._seen(), {agent: {} for agent in self.agents}

    def _blow(self) -> None:
        self.wind = float(self._random.integers(2))

    def _seen(self) -> dict[str, Any]:
        return {agent: np.array([self.left[agent], self.wind], np.float32) for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        self.steps += 1
        rewards, fallen = {}, {}
        for agent in self.agents:
            walks = int(actions[agent]) == 1
            self.left[agent] -= walks * (1.0 + self.wind)
            fallen[agent] = self.left[agent] < 0.0
            rewards[agent] = -5.0 if fallen[agent] else 1.0 * walks
            if not fallen[agent] and self.left[agent] < 1.0:  # a new path
                self.left[agent] = float(self._random.integers(2, 9))
        self._blow()
        seen = self._seen()
        late = dict.fromkeys(self.agents, self.steps >= STEPS)
        infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not fallen[agent] and not late[agent]]
        return seen, rewards, fallen, late, infos

    def feature_space(self, seat: str) -> FeatureSpace:  # noqa: ARG002
        return FeatureSpace(
            (Feature("distance"), Feature("wind", "categorical")), FeatureSpace.of([], ["wait", "walk"]).actions
        )

    def render(self) -> Any:
        picture = np.full((60, 100, 3), 230, np.uint8)
        for place, agent in enumerate(self.possible_agents):
            x = int(10 * max(0.0, self.left[agent]))
            picture[20 * place + 4 : 20 * place + 16, x : x + 8] = (200, 60, 60)
        return picture

    def close(self) -> None:
        pass


class Bank(AECEnv[str, Any, int]):
    """Three players push their luck in turn. A push earns 1 and adds a risk; at a risk above 1 the player is out.

    The action mask forbids a third push in a row. The last player who is left earns 2.
    """

    metadata: dict[str, Any] = {"name": "bank_v0", "is_parallelizable": False, "render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = [f"player_{i}" for i in range(3)]
        self.render_mode = None
        self._random, _ = seeding.np_random(0)
        parts = {"observation": spaces.Box(0.0, 4.0, (2,), np.float32), "action_mask": spaces.MultiBinary(2)}
        self._spaces = {agent: spaces.Dict(parts) for agent in self.possible_agents}
        self._actions = {agent: spaces.Discrete(2) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._actions[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> None:  # noqa: ARG002
        if seed is not None:
            self._random, _ = seeding.np_random(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.risk = dict.fromkeys(self.agents, 0.0)
        self.pushes = dict.fromkeys(self.agents, 0)
        self.turns = 0
        self._order = AgentSelector(self.agents)
        self.agent_selection = self._order.reset()

    def observe(self, agent: str) -> Any:
        left = sum(not (self.terminations[one] or self.truncations[one]) for one in self.agents)
        seen = np.array([self.risk[agent], left], np.float32)
        return {"observation": seen, "action_mask": np.array([1, int(self.pushes[agent] < 2)], np.int8)}

    def feature_space(self, seat: str) -> FeatureSpace:  # noqa: ARG002
        return FeatureSpace.of(["risk", "players_left"], ["wait", "push"])

    def step(self, action: int | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        assert action == 0 or self.pushes[agent] < 2, "the mask forbids a third push"
        if action == 1:
            self.pushes[agent] += 1
            self.risk[agent] += float(self._random.uniform(0.0, 0.6))
            self.rewards[agent] = 1.0
        else:
            self.pushes[agent] = 0
            self.risk[agent] *= 0.5
        if self.risk[agent] > 1.0:
            self.rewards[agent] = -4.0
            self.terminations[agent] = True
        living = [one for one in self.agents if not self.terminations[one]]
        self.turns += 1
        if len(living) == 1:
            self.rewards[living[0]] += 2.0
            self.terminations[living[0]] = True
        elif self.turns >= 3 * ROUNDS:
            for one in living:
                self.truncations[one] = True
        self._accumulate_rewards()
        self.agent_selection = self._order.next()
        while self.agent_selection not in self.agents:
            self.agent_selection = self._order.next()
        self._deads_step_first()

    def render(self) -> None:
        pass

    def close(self) -> None:
        pass


class Throws(ParallelEnv[str, Any, int]):
    """Rock, paper, scissors: players see their own last throw and the other's, 3 at first. A win earns 1, a loss −1."""

    metadata: dict[str, Any] = {"name": "throws_v0", "render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        self.possible_agents = ["left", "right"]
        self.agents: list[str] = []
        self.render_mode = None
        self._spaces = {agent: spaces.MultiDiscrete([4, 4]) for agent in self.possible_agents}
        self._actions = {agent: spaces.Discrete(3) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._actions[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ARG002
        self.agents, self.count = list(self.possible_agents), 0
        return self._seen(3, 3), {agent: {} for agent in self.agents}

    def feature_space(self, seat: str) -> FeatureSpace:  # noqa: ARG002
        return FeatureSpace.of(["mine", "theirs"], ["Rock", "Paper", "Scissors"], "categorical")

    def _seen(self, left: int, right: int) -> dict[str, Any]:
        return {"left": np.array([left, right]), "right": np.array([right, left])}

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        self.count += 1
        left, right = int(actions["left"]), int(actions["right"])
        won = float((left - right + 1) % 3 - 1)
        over = self.count >= THROWS
        agents = list(self.possible_agents)
        if over:
            self.agents = []
        seen = self._seen(left, right)
        return (
            seen,
            {"left": won, "right": -won},
            dict.fromkeys(agents, False),
            dict.fromkeys(agents, over),
            {agent: {} for agent in agents},
        )

    def render(self) -> None:
        pass

    def close(self) -> None:
        pass


class Ring(ParallelEnv[str, Any, int]):
    """A hunter and a prey on a ring of 12 places. The prey loses 1 when it is caught, and the game ends."""

    metadata: dict[str, Any] = {"name": "ring_v0", "render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        self.possible_agents = ["hunter", "prey"]
        self.agents: list[str] = []
        self.render_mode = None
        self._random, _ = seeding.np_random(0)
        self._spaces = {agent: spaces.Box(-6.0, 6.0, (1,), np.float32) for agent in self.possible_agents}
        self._actions = {agent: spaces.Discrete(3) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._actions[agent]

    def feature_space(self, seat: str) -> FeatureSpace:
        other = "prey" if seat == "hunter" else "hunter"
        return FeatureSpace.of([f"{other}.offset"], ["Stay", "Left", "Right"])

    def _seen(self) -> dict[str, Any]:
        offset = (self.places["prey"] - self.places["hunter"] + 6) % 12 - 6
        return {"hunter": np.array([offset], np.float32), "prey": np.array([-offset], np.float32)}

    def reset(
        self,
        seed: int | None = None,
        options: Any = None,  # noqa: ARG002
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if seed is not None:
            self._random, _ = seeding.np_random(seed)
        self.agents, self.count = list(self.possible_agents), 0
        self.places = {"hunter": 0, "prey": int(self._random.integers(2, 11))}
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        self.count += 1
        for agent in self.agents:
            self.places[agent] = (self.places[agent] + (0, -1, 1)[int(actions[agent])]) % 12
        caught = self.places["hunter"] == self.places["prey"]
        agents = list(self.agents)
        over = self.count >= STEPS
        if caught or over:
            self.agents = []
        return (
            self._seen(),
            {"hunter": float(caught), "prey": -float(caught)},
            dict.fromkeys(agents, caught),
            dict.fromkeys(agents, over),
            {agent: {} for agent in agents},
        )

    def render(self) -> None:
        pass

    def close(self) -> None:
        pass


def bank() -> Any:
    """Return the AEC game with PettingZoo's usual wrapper."""
    return wrappers.OrderEnforcingWrapper(Bank())


cliff, ring, throws = Cliff, Ring, Throws
