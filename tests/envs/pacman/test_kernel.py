"""The compiled kernel against the hand-worked scenarios and, in lockstep, against the plain-Python reference."""

from dataclasses import astuple, replace
from importlib import resources

import numpy as np
import pytest

from envs.pacman.test_rules import SCENARIOS, Scenario, play
from legible.streams import key_of_seed, next_key, uniform
from legible_envs.pacman import GhostState, Maze, PacmanError, PacmanSettings, PacmanState, kernel
from legible_envs.pacman.domain import LEVELS
from legible_envs.pacman.games import Games
from legible_envs.pacman.maze import parse_maze
from pacman_reference import Ghost, Reference, State

# A situation that the environment refuses, because such a game could not be won.
REFUSED = "what cannot be reached: food and capsules count as none, a ghost as far, its bearing stands"


class KernelGame:
    """The kernel behind the interface that the scenarios speak to: one game, random numbers from outside."""

    def __init__(self, maze: str | Maze, **settings: object) -> None:
        if isinstance(maze, str):
            maze = parse_maze(maze.replace("0", "P"))
        self.settings = PacmanSettings(maze=maze, **settings)
        self.games = Games(1, self.settings)

    @property
    def state(self) -> State:
        state = self.games.state(0)
        ghosts = tuple(Ghost(g.x, g.y, g.heading, g.timer) for g in state.ghosts)
        return State(state.pacman, ghosts, state.food, state.capsules, state.steps)

    @state.setter
    def state(self, state: State) -> None:
        ghosts = tuple(GhostState(g.x, g.y, g.heading, g.timer) for g in state.ghosts)
        if state.capsules - self.games.maze.capsules:  # the environment puts capsules only where the maze has them
            maze = replace(self.games.maze, capsules=state.capsules, food=state.food)
            self.games = Games(1, replace(self.settings, maze=maze))
        self.games.set_state(0, PacmanState(state.pacman, ghosts, state.food, state.capsules, state.steps))

    def reset(self):
        self.games.start(np.array([True]), [0])
        return self.observe()

    def observe(self):
        self.games.observe(np.array([0]))
        return self.games.observations[0].tolist()

    def step(self, action, uniforms):
        games, draws = self.games, np.array(uniforms[: len(self.games.maze.ghosts)], np.float64)
        reward = kernel.play_round(games.tables, games.rules, games.agents[0], games.pellets[0], draws, action)
        status = games.status[0]
        return self.observe(), reward, status in {kernel.WON, kernel.LOST}, status == kernel.CUT_OFF


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_kernel_plays_every_scenario(scenario: Scenario) -> None:
    if scenario.name == REFUSED:
        with pytest.raises(PacmanError, match="no capsule at"):
            play(KernelGame, scenario)
    else:
        play(KernelGame, scenario)


def level(name: str, seed: int) -> tuple[Games, Reference]:
    """Return the same level twice: compiled, and in plain Python from the text of the board."""
    arguments = dict(LEVELS[name])
    games = Games(1, PacmanSettings(**arguments))
    games.start(np.array([True]), [seed])
    board = resources.files("pacai") / "resources" / "boards" / f"classic-{arguments.pop('maze')}.board"
    return games, Reference(board.read_text(encoding="utf-8").split("---\n")[1], **arguments)


def clever(reference: Reference, rng: np.random.Generator) -> int:
    """Mostly follow the food, so that episodes are long, capsules get eaten and levels are sometimes won."""
    observation = np.array(reference.observe())
    if rng.random() < 0.15:
        return int(rng.integers(5))
    towards = observation[2:6] if observation[:6].any() and rng.random() < 0.5 else observation[9:13]
    return int(np.argmax(towards)) if towards.any() else int(rng.integers(4))


@pytest.mark.parametrize("player", ["random", "clever"])
@pytest.mark.parametrize("name", LEVELS)
def test_kernel_and_reference_agree_step_by_step(name: str, player: str) -> None:
    steps = 0
    outcomes = set()
    for seed in range(30):
        games, reference = level(name, seed)
        rng = np.random.default_rng(seed)
        np.testing.assert_allclose(games.observations[0], reference.reset(), atol=1e-6)
        over = False
        while not over:
            action = int(rng.integers(5)) if player == "random" else clever(reference, rng)
            draws = [kernel.ghost_draw(games.keys[0], reference.state.steps, g) for g in range(len(games.maze.ghosts))]
            observation, reward, terminated, truncated = reference.step(action, draws)
            games.step(np.array([action]), np.array([False]))
            assert games.rewards[0] == reward
            np.testing.assert_allclose(games.observations[0], observation, atol=1e-6)
            status = games.status[0]
            assert (terminated, truncated) == (status in {kernel.WON, kernel.LOST}, status == kernel.CUT_OFF)
            state, expected = games.state(0), reference.state
            for part in ("pacman", "food", "capsules", "steps"):
                assert getattr(state, part) == getattr(expected, part)
            assert list(map(astuple, state.ghosts)) == list(map(astuple, expected.ghosts))
            over = terminated or truncated
            steps += 1
        outcomes.add(int(status))
    assert steps > 300
    assert kernel.LOST in outcomes


def test_draws_are_uniform_and_independent_between_ghosts_steps_and_seeds() -> None:
    keys = [np.uint64(key_of_seed(np.uint64(seed))) for seed in range(100)]
    draws = np.array([[[kernel.ghost_draw(k, t, g) for g in range(4)] for t in range(50)] for k in keys])
    assert 0.0 <= draws.min() < draws.max() < 1.0
    counts, _ = np.histogram(draws, bins=20, range=(0, 1))
    expected = draws.size / 20
    assert ((counts - expected) ** 2 / expected).sum() < 43.8  # χ² with 19 degrees of freedom, p = 0.001
    for axis in range(3):
        flat = np.moveaxis(draws, axis, 0).reshape(draws.shape[axis], -1)
        correlation = np.corrcoef(flat)[np.triu_indices(len(flat), 1)]
        assert abs(correlation.mean()) < 4 / np.sqrt(flat.shape[1] * len(correlation))


def test_a_ghost_s_draw_has_a_place_in_the_stream_of_its_episode() -> None:
    """Four places a step, however many ghosts there are; saved results depend on it."""
    key = np.uint64(key_of_seed(np.uint64(7)))
    assert kernel.ghost_draw(key, 3, 1) == uniform(key, np.uint64(13))
    assert kernel.ghost_draw(key, 0, 0) == uniform(key, np.uint64(0))


def test_streams_of_successive_episodes_differ() -> None:
    keys = [np.uint64(key_of_seed(np.uint64(0)))]
    for _ in range(1000):
        keys.append(np.uint64(next_key(keys[-1])))
    assert len({int(k) for k in keys}) == len(keys)
