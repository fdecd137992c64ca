"""The Gymnasium side of PAC-Man: single and vector environments, seeds, resets, state, pictures and bad input."""

import sys
import time
import tracemalloc
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import legible
from legible.environments import EnvironmentSpec
from legible.environments.domain_registry import register_plugin
from legible.errors import LegibleError
from legible_envs.pacman import GhostState, MazeError, PacmanEnv, PacmanError, PacmanVectorEnv, domain, load_maze
from legible_envs.pacman.domain import LEVELS
from legible_envs.pacman.maze import parse_maze

IDS = [f"legible/{name}-v0" for name in LEVELS]
SMALL = "legible/PacmanSmall-v0"
WIDTHS = {"Small": 69, "Medium": 69, "Original": 117}

LANE = """
%%%%%%%
%P.o.G%
%%%%%%%
"""


def actions_for(n: int, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 5, (steps, n))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("env_id", IDS)
def test_check_env_passes(env_id: str) -> None:
    env = gymnasium.make(env_id, render_mode="rgb_array").unwrapped
    check_env(env)


@pytest.mark.parametrize("env_id", IDS)
def test_vector_environment_is_native_and_fits_its_spaces(env_id: str) -> None:
    envs = gymnasium.make_vec(env_id, num_envs=7)
    assert isinstance(envs.unwrapped, PacmanVectorEnv)
    observations, _ = envs.reset(seed=3)
    assert observations in envs.observation_space
    for actions in actions_for(7, 60):
        observations, rewards, terminated, truncated, _ = envs.step(actions)
        assert observations in envs.observation_space
        assert observations.dtype == np.float32
        assert rewards.dtype == np.float64
        assert not (terminated & truncated).any()


@pytest.mark.parametrize("env_id", IDS)
def test_observation_width_and_names(env_id: str) -> None:
    env = gymnasium.make(env_id)
    level = env_id.removeprefix("legible/Pacman").removesuffix("-v0").removesuffix("NC")
    space = env.unwrapped.feature_space
    assert env.observation_space.shape == (WIDTHS[level],)
    assert len(space) == WIDTHS[level]
    assert space.action_names == ("North", "South", "East", "West", "Stop")


def test_names_stand_where_the_paper_quotes_them() -> None:
    quoted = {
        **{0: "near.unscared", 2: "capsule.north", 7: "capsule.length", 8: "food.length", 9: "food.north"},
        **{14: "ghost0.here", 15: "ghost0.bearing.n", 22: "ghost0.bearing.nw", 23: "ghost0.path.north"},
        **{28: "ghost0.length", 29: "ghost0.heading.north", 34: "ghost0.scared", 35: "ghost0.timer", 36: "ghost0.x"},
        **{39: "ghost1.bearing.n", 50: "ghost1.path.west", 62: "open.north", 65: "open.west"},
        **{67: "pacman.x", 68: "pacman.y"},
    }
    names = gymnasium.make(SMALL).unwrapped.feature_space.names
    assert {index: names[index] for index in quoted} == quoted


def test_numeric_features_are_those_of_the_game() -> None:
    space = gymnasium.make(SMALL).unwrapped.feature_space
    numeric = [i for i, feature in enumerate(space.features) if feature.kind == "numeric"]
    assert numeric == [0, 1, 7, 8, 28, 35, 36, 37, 52, 59, 60, 61, 67, 68]


def play_alone(env_id: str, seed: int, actions: np.ndarray) -> list[tuple[np.ndarray, float, bool, bool]]:
    """Play one episode in the single environment, up to its end or the end of the actions."""
    env = gymnasium.make(env_id)
    observation, _ = env.reset(seed=seed)
    trace = [(observation, 0.0, False, False)]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        trace.append((observation, reward, terminated, truncated))
        if terminated or truncated:
            break
    return trace


@pytest.mark.parametrize("env_id", IDS)
def test_single_and_vector_give_the_same_trajectories(env_id: str) -> None:
    n, seeds = 12, [5, 900, 17, 3, 4, 2**40, 0, 1, 2, 77, 78, 79]
    actions = actions_for(n, 120)
    envs = gymnasium.make_vec(env_id, num_envs=n)
    traces = [[row] for row in envs.reset(seed=seeds)[0]]
    over = np.zeros(n, bool)
    for row in actions:
        observations, _, terminated, truncated, _ = envs.step(row)
        for i in np.flatnonzero(~over):
            traces[i].append(observations[i])
        over |= terminated | truncated
    for i, seed in enumerate(seeds):
        alone = np.array([step[0] for step in play_alone(env_id, seed, actions[:, i])])
        np.testing.assert_array_equal(np.array(traces[i]), alone)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_autoreset_modes_agree_with_gymnasium_itself(mode: AutoresetMode) -> None:
    """Games, rewards, ends, final observations and infos are those of SyncVectorEnv over single environments."""
    n = 6
    native = gymnasium.make_vec(SMALL, num_envs=n, autoreset_mode=mode, step_cap=25)
    synchronous = SyncVectorEnv([lambda: PacmanEnv(step_cap=25) for _ in range(n)], autoreset_mode=mode)
    assert native.metadata["autoreset_mode"] == mode
    np.testing.assert_array_equal(native.reset(seed=11)[0], synchronous.reset(seed=11)[0])
    ends = 0
    for row in actions_for(n, 150):
        ours, theirs = native.step(row), synchronous.step(row)
        for mine, other in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(mine, other)
        over = ours[2] | ours[3]
        ends += over.sum()
        assert set(ours[4]) == set(theirs[4])
        if over.any() and mode is AutoresetMode.SAME_STEP:
            for i in np.flatnonzero(over):
                np.testing.assert_array_equal(ours[4]["final_obs"][i], theirs[4]["final_obs"][i])
            np.testing.assert_array_equal(ours[4]["_final_obs"], theirs[4]["_final_obs"])
            np.testing.assert_array_equal(ours[4]["final_info"]["is_success"], theirs[4]["final_info"]["is_success"])
        elif over.any():
            np.testing.assert_array_equal(ours[4]["is_success"], theirs[4]["is_success"])
            np.testing.assert_array_equal(ours[4]["_is_success"], theirs[4]["_is_success"])
        if over.any() and mode is AutoresetMode.DISABLED:
            options = [{"reset_mask": over.copy()} for _ in range(2)]
            np.testing.assert_array_equal(native.reset(options=options[0])[0], synchronous.reset(options=options[1])[0])
    assert ends > 20


def test_reset_mask_with_seeds_touches_only_the_marked_games() -> None:
    envs = gymnasium.make_vec(SMALL, num_envs=3, autoreset_mode="Disabled")
    envs.reset(seed=[1, 2, 3])
    for row in actions_for(3, 5):
        envs.step(row)
    before = [envs.unwrapped.state(i) for i in range(3)]
    envs.reset(seed=[None, 40, None], options={"reset_mask": np.array([False, True, False])})
    after = [envs.unwrapped.state(i) for i in range(3)]
    assert after[0] == before[0]
    assert after[2] == before[2]
    fresh = gymnasium.make(SMALL)
    fresh.reset(seed=40)
    assert after[1] == fresh.unwrapped.state


def test_without_a_seed_episodes_differ_and_follow_from_the_first_seed() -> None:
    def second_episode(seed: int) -> int:
        env = gymnasium.make(SMALL)
        env.reset(seed=seed)
        env.reset()
        return env.unwrapped.state.stream

    assert second_episode(1) == second_episode(1) != second_episode(2)


def test_no_copies_when_asked() -> None:
    fast = gymnasium.make_vec(SMALL, num_envs=2, copy=False)
    first, _ = fast.reset(seed=0)
    assert fast.step(np.array([2, 2]))[0] is first
    safe = gymnasium.make_vec(SMALL, num_envs=2)
    first, _ = safe.reset(seed=0)
    kept = first.copy()
    safe.step(np.array([2, 2]))
    np.testing.assert_array_equal(first, kept)


def test_state_can_be_read_and_set_and_decides_the_rest_of_the_episode() -> None:
    env = gymnasium.make(SMALL)
    env.reset(seed=8)
    rng = np.random.default_rng(0)
    for _ in range(10):
        env.step(rng.integers(5))
    state = env.unwrapped.state
    other = gymnasium.make_vec(SMALL, num_envs=2)
    other.reset(seed=123)
    np.testing.assert_array_equal(other.unwrapped.set_state(1, state), env.unwrapped.games.observations[0])
    for action in [0, 3, 3, 2, 1]:
        observation, reward, terminated, *_ = env.step(action)
        observations, rewards, *_ = other.step(np.array([4, action]))
        np.testing.assert_array_equal(observations[1], observation)
        assert rewards[1] == reward
        if terminated:
            break


def test_success_is_reported_at_the_end_only() -> None:
    env = gymnasium.make(SMALL, maze="%%%%%\n%P..%\n%%%%%")
    env.reset(seed=0)
    assert env.step(2)[4] == {}
    *_, terminated, truncated, info = env.step(2)
    assert (terminated, truncated, info) == (True, False, {"is_success": True})


def test_a_step_after_the_end_is_refused() -> None:
    env = PacmanEnv(maze="%%%%\n%P.%\n%%%%")
    env.reset(seed=0)
    env.step(2)
    with pytest.raises(PacmanError, match="over; call reset"):
        env.step(2)
    envs = PacmanVectorEnv(2, maze="%%%%\n%P.%\n%%%%", autoreset_mode="Disabled")
    envs.reset(seed=0)
    envs.step(np.array([4, 2]))
    before = envs.state(1)
    _, rewards, terminated, _, _ = envs.step(np.array([4, 2]))  # no autoreset, no new game
    assert (rewards[1], terminated.tolist()) == (0.0, [False, True])
    assert envs.state(1) == before
    assert envs.state(0).steps == 2


@pytest.mark.parametrize(
    ("maze", "message"),
    [
        ("%%%%\n%..%\n%%%%", "one Pac-Man .* none found"),
        ("%%%%\n%P.%\n%P.%\n%%%%", r"one Pac-Man .* 2 \(line 2, line 3\)"),
        ("%%%%\n%P %\n%%%%", "no food"),
        ("%%%%%%\n%P.%.%\n%%%%%%", "food in line 2, column 5"),
        ("%%%%%%\n%P.%o%\n%%%%%%", "capsule in line 2, column 5"),
        ("%%%%%\n%P.%\n%%%%%", "line 2 has 4 signs, line 1 has 5"),
        ("%%%%%\n%P.1%\n%GGG%\n%GG.%\n%%%%%", "6 ghosts.*holds 4.*line"),
        ("\n\n", "empty"),
        ("no-such-file.lay", "cannot be read: No such file"),
        ("---\n%%%%\n%P.%\n%%%%", r"one Pac-Man \('0'\)"),
    ],
)
def test_bad_mazes_are_refused_with_the_line(maze: str, message: str) -> None:
    with pytest.raises(MazeError, match=message):
        gymnasium.make(SMALL, maze=maze)


def test_line_numbers_count_the_header_of_a_board(raises_saved) -> None:
    with raises_saved(MazeError):
        parse_maze('{"a": 1}\n---\n%%%%\n%0.%\n%%%')


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: "%" * 10**7, "cannot be read: File name too long"),
        (lambda: "%" * 10**7 + "\n", "the maze is too large"),
        (lambda: "%" * 10**5 + "\n" + "P" * 10**5 + "\n", r"one Pac-Man \('P'\) is needed, 100000 \("),
        (lambda: "\n" * 10**7, "the maze is too large"),
        (lambda: "\n" * 2**18, "the maze is empty"),
        (lambda: "\n" * 2**17 + "%%%%\n%P.%\n%%%", "line 131075 has 3 signs, line 131073 has 4"),
        (lambda: ("%" + " " * 510 + "%\n") * 510 + "P" + "." * 511, "4096 is the most"),
        (lambda: "no\0file", "cannot be read: it is not a text file"),
    ],
)
def test_absurd_mazes_are_refused_at_once(make, message: str) -> None:
    maze = make()
    tracemalloc.start()
    started = time.process_time()
    with pytest.raises(MazeError, match=message) as refused:
        load_maze(maze)
    seconds, (_, most) = time.process_time() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 3  # under tracemalloc, which takes most of it
    assert most < 100e6
    assert len(str(refused.value)) < 500


def test_of_an_endless_file_only_the_beginning_is_read(tmp_path, raises_saved) -> None:
    path = tmp_path / "large.lay"
    with path.open("wb") as file:
        file.write(b"%%%%\n%P.%\n%%%%\n")
        file.truncate(2**34)  # a hole that takes no room
    with raises_saved(MazeError):
        load_maze(path)


@pytest.mark.parametrize("suffix", [".lay", ".board"])
def test_mazes_are_read_from_files(tmp_path, suffix: str) -> None:
    board = '{"class": "x"}\n---\n' + LANE.strip().translate(str.maketrans("PG", "01"))
    text = LANE.strip("\n") if suffix == ".lay" else board
    path = tmp_path / f"lane{suffix}"
    path.write_text(text)
    maze = load_maze(path)
    assert maze == replace(parse_maze(LANE), name=f"lane{suffix}")
    assert maze.pacman == (1, 1)
    assert maze.ghosts == ((5, 1),)
    assert gymnasium.make(SMALL, maze=str(path)).observation_space.shape == (14 + 24 + 7,)


@pytest.mark.parametrize("action", [5, -1, 1.0, np.nan, None, "North", [0, 1], True])
def test_bad_actions_are_refused(action: object) -> None:
    env = PacmanEnv()
    env.reset(seed=0)
    before = env.state
    with pytest.raises(PacmanError, match="action"):
        env.step(action)
    assert env.state == before


def test_a_bad_action_in_a_batch_is_named_and_nothing_moves(raises_saved) -> None:
    envs = PacmanVectorEnv(3)
    envs.reset(seed=0)
    before = [envs.state(i) for i in range(3)]
    with raises_saved(PacmanError):
        envs.step(np.array([0, 9, 0]))
    with pytest.raises(PacmanError, match="3 actions are expected"):
        envs.step(np.array([0, 0]))
    assert [envs.state(i) for i in range(3)] == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attack": 1.5}, "attack is a probability"),
        ({"flee": float("nan")}, "flee is a probability"),
        ({"illegal_move_penalty": float("nan")}, "illegal_move_penalty"),
        ({"illegal_move_penalty": -1}, "illegal_move_penalty"),
        ({"step_cap": 0}, "step_cap"),
        ({"step_cap": 10.5}, "step_cap"),
        ({"render_mode": "braille"}, "render_mode 'braille' is not known"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(PacmanError, match=message):
        PacmanEnv(**settings)


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True])
def test_bad_seeds_are_refused(seed: object) -> None:
    for env in (PacmanEnv(), PacmanVectorEnv(1)):
        with pytest.raises((legible.LegibleError, TypeError)):
            env.reset(seed=seed)
    with pytest.raises(PacmanError, match="3 seeds are expected"):
        PacmanVectorEnv(3).reset(seed=[1, 2])


@pytest.mark.parametrize("mask", [[True, False], np.array([1, 0]), np.array([True]), np.array([False, False])], ids=str)
def test_bad_reset_masks_are_refused(mask: object) -> None:
    envs = PacmanVectorEnv(2)
    with pytest.raises(PacmanError, match="reset_mask"):
        envs.reset(options={"reset_mask": mask})


def bad_states():
    ghost = GhostState(8.0, 5.0)
    yield {"pacman": (0, 0)}, "wall"
    yield {"pacman": (99, 0)}, "outside the maze"
    yield {"ghosts": (ghost,)}, "2 ghosts, the state has 1"
    yield {"ghosts": (replace(ghost, x=float("nan")), ghost)}, "x must be a whole or half cell, got nan"
    yield {"ghosts": (replace(ghost, x=8.25), ghost)}, "whole or half cell, got 8.25"
    yield {"ghosts": (replace(ghost, x=9.5), ghost)}, "between two cells"
    yield {"ghosts": (replace(ghost, timer=41), ghost)}, "timer"
    yield {"ghosts": (replace(ghost, heading=7), ghost)}, "heading"
    yield {"food": frozenset()}, "without food"
    yield {"capsules": frozenset({(1, 1)})}, r"no capsule at \(1, 1\)"
    yield {"steps": 400}, "below the cap"
    yield {"stream": -1}, "stream"


@pytest.mark.parametrize(("change", "message"), list(bad_states()), ids=lambda value: str(value)[:40])
def test_bad_states_are_refused_and_change_nothing(change: dict[str, object], message: str) -> None:
    env = PacmanEnv()
    env.reset(seed=0)
    before = env.state
    with pytest.raises(PacmanError, match=message):
        env.set_state(replace(before, **change))
    assert env.state == before


def test_text_picture() -> None:
    env = gymnasium.make(SMALL, maze=LANE, render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "%%%%%%%\n%P.o.0%\n%%%%%%%\nstep 0, 2 food left\n"


@pytest.mark.parametrize("env_id", [SMALL, "legible/PacmanOriginal-v0"])
def test_picture_shows_the_figures_in_their_colours(env_id: str) -> None:
    from legible_envs.pacman import render

    env = gymnasium.make(env_id, render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    maze, scale = env.unwrapped.maze, 24
    assert frame.shape == (maze.height * scale, maze.width * scale, 3)
    assert frame.dtype == np.uint8

    def pixel(cell: tuple[int, int], dx: float = 0.0, dy: float = 0.0) -> tuple[int, ...]:
        row, column = (maze.height - 0.5 - cell[1] - dy) * scale, (cell[0] + 0.5 + dx) * scale
        return tuple(frame[int(row), int(column)])

    assert pixel(maze.pacman, dx=-0.2) == render.PACMAN
    assert pixel(min(maze.capsules)) == render.PELLET
    assert pixel(min(maze.food)) == render.PELLET
    for i, ghost in enumerate(maze.ghosts):
        assert pixel(ghost, dy=-0.15) == render.GHOSTS[i]


def test_scared_ghosts_are_blue_and_flash_at_the_end() -> None:
    from legible_envs.pacman import render

    env = PacmanEnv(render_mode="rgb_array")
    env.reset(seed=0)
    state = env.state
    seen = []
    for timer in (30, 5):
        env.set_state(replace(state, ghosts=(GhostState(8.0, 5.0, 4, timer), state.ghosts[1])))
        seen.append(tuple(env.render()[int((7 - 0.5 - 5 + 0.15) * 24), int(8.5 * 24)]))
    assert seen == [render.SCARED, render.ENDING]


def test_vector_pictures() -> None:
    for mode, kind in (("rgb_array", np.ndarray), ("ansi", str)):
        envs = gymnasium.make_vec(SMALL, num_envs=3, render_mode=mode)
        envs.reset(seed=0)
        frames = envs.render()
        assert len(frames) == 3
        assert all(isinstance(frame, kind) for frame in frames)


def test_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame = pytest.importorskip("pygame")
    env = gymnasium.make(SMALL, render_mode="human")
    env.reset(seed=0)
    env.step(2)
    shown = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
    expected = PacmanEnv(render_mode="rgb_array")
    expected.reset(seed=0)
    expected.step(2)
    np.testing.assert_array_equal(shown, expected.render())
    env.close()


def test_window_without_pygame_says_what_to_install(monkeypatch: pytest.MonkeyPatch, raises_saved) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with raises_saved(LegibleError):
        PacmanEnv(render_mode="human")


def test_without_the_boards_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, raises_saved) -> None:
    monkeypatch.setitem(sys.modules, "pacai", None)
    for make in (EnvironmentSpec(SMALL).make, lambda: EnvironmentSpec(SMALL).make_batch(2)):
        with raises_saved(LegibleError):
            make()
    assert EnvironmentSpec(SMALL, {"maze": "%%%%\n%P.%\n%%%%"}).make().observation_space.shape == (21,)


def test_registering_twice_changes_nothing() -> None:
    before = dict(gymnasium.registry)
    register_plugin(domain)
    assert gymnasium.registry == before
