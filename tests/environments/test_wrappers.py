"""Wrappers that policies were trained behind, each against a few hand-worked steps."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common import atari_wrappers
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from legible.environments import EnvironmentSpec, UnfitEnvironmentError
from legible.environments.known_wrappers import (
    KNOWN_WRAPPERS,
    known_name,
    make_known_wrapper,
    parse_wrapper,
    wrapper_text,
)
from legible.environments.wrappers import FRAMES_RESTART, FrameStack, TimeFeature


class Counter(gymnasium.Env):
    """Shows the number of steps, and ten times that; the reward is the action."""

    def __init__(self, length: int = 5, *, continuous: bool = False, goal: bool = False) -> None:
        box = spaces.Box(-100, 100, (2,), np.float32)
        self.observation_space = spaces.Dict({"observation": box, "desired_goal": box}) if goal else box
        self.action_space = spaces.Box(-1, 1, (1,), np.float32) if continuous else spaces.Discrete(3)
        self._length, self._goal = length, goal

    def _see(self):
        seen = np.array([self.steps, 10 * self.steps], np.float32)
        return {"observation": seen, "desired_goal": seen} if self._goal else seen

    def reset(self, *, seed=None, options=None):  # noqa: ARG002 (Gymnasium's signature)
        super().reset(seed=seed)
        self.steps, self.done = 0, []
        return self._see(), {}

    def step(self, action):
        self.steps += 1
        self.done.append(action)
        return self._see(), float(np.sum(action)), self.steps == self._length, False, {"is_success": self.steps >= 3}


def steps_of(env, *actions):
    return [env.reset(seed=0)[0], *(env.step(action)[:4] for action in actions)]


def wrapped(name, env=None, **arguments):
    return make_known_wrapper(env or Counter(), name, arguments)


def test_frames_are_stacked_and_forgotten():
    env = FrameStack(Counter(), 3)
    assert env.observation_space.shape == (6,)
    for _ in range(2):
        first, second, *_, last = steps_of(env, 0, 0, 0)
        assert first.tolist() == [0, 0, 0, 0, 0, 0]
        assert second[0].tolist() == [0, 0, 0, 0, 1, 10]
        assert last[0].tolist() == [1, 10, 2, 20, 3, 30]


def test_frames_begin_with_the_padding():
    env = FrameStack(Counter(goal=True), 2, padding={"observation": [7, 8]})
    first = env.reset(seed=0)[0]
    assert first["observation"].tolist() == [7, 8, 0, 0]
    assert first["desired_goal"].tolist() == [0, 0, 0, 0]
    with pytest.raises(UnfitEnvironmentError, match="padding has 3 numbers"):
        FrameStack(Counter(), 2, padding=[1, 2, 3])


@pytest.mark.parametrize(
    ("shape", "high", "order", "stacked"),
    [
        ((5, 6, 3), 255, None, (5, 6, 9)),
        ((3, 5, 6), 255, None, (9, 5, 6)),
        ((3, 5, 6), 1, None, (3, 5, 18)),  # no picture
        ((3, 5, 6), 1, "first", (9, 5, 6)),
        ((5, 6), 255, None, (5, 18)),
    ],
)
def test_the_axis_of_stacked_frames(shape, high, order, stacked):
    env = Counter()
    env.observation_space = spaces.Box(0, high, shape, np.uint8)
    assert FrameStack(env, 3, order).observation_space.shape == stacked


def test_time_is_left():
    env = gymnasium.wrappers.TimeLimit(Counter(), 4)
    assert [row[0][2] for row in steps_of(TimeFeature(env, max_steps=10), 0, 0)[1:]] == pytest.approx([0.9, 0.8])
    limited = EnvironmentSpec("CartPole-v1", {"max_episode_steps": 4}, ("TimeFeatureWrapper(max_steps=10)",)).make()
    limited.reset(seed=0)
    assert limited.step(0)[0][4] == 0.75
    assert TimeFeature(Counter(goal=True)).reset()[0]["observation"].tolist() == [0, 0, 1]


def test_history(raises_saved):
    env = wrapped("HistoryWrapper", Counter(continuous=True), horizon=2)
    first, second, third = steps_of(env, np.float32([0.5]), np.float32([-0.25]))
    assert first.tolist() == [0, 0, 0, 0, 0, 0]
    assert second[0].tolist() == [0, 0, 1, 10, 0, 0.5]
    assert third[0].tolist() == [1, 10, 2, 20, 0.5, -0.25]
    assert env.observation_space.contains(third[0])
    goal = wrapped("HistoryWrapperObsDict", Counter(continuous=True, goal=True), horizon=2)
    assert goal.reset()[0]["observation"].shape == (6,)
    with raises_saved(UnfitEnvironmentError):
        wrapped("HistoryWrapper")


def test_velocities_are_masked():
    env = EnvironmentSpec("CartPole-v1", wrappers=("MaskVelocityWrapper",)).make()
    seen = env.reset(seed=1)[0]
    assert seen[[1, 3]].tolist() == [0, 0]
    assert seen[[0, 2]].all()
    with pytest.raises(UnfitEnvironmentError, match="not of this"):
        wrapped("MaskVelocityWrapper")


def test_actions_are_smoothed():
    env = wrapped("ActionSmoothingWrapper", Counter(continuous=True), smoothing_coef=0.5)
    for _ in range(2):
        steps_of(env, np.float32([1.0]), np.float32([0.0]))
        assert [float(action[0]) for action in env.unwrapped.done] == [0.5, 0.25]


@pytest.mark.parametrize(
    ("name", "arguments", "actions", "rewards", "last"),
    [
        ("FrameSkip", {"skip": 3}, (2, 1), [6, 2], (True, False)),  # an action is repeated
        ("DelayedRewardWrapper", {"delay": 2}, (1, 1, 2, 0, 1), [0, 2, 0, 2, 1], (True, False)),
        ("DoneOnSuccessWrapper", {"reward_offset": -1.0, "n_successes": 2}, (1, 1, 1, 1), [0] * 4, (False, True)),
    ],
)
def test_steps_are_changed(name, arguments, actions, rewards, last):
    rows = steps_of(wrapped(name, **arguments), *actions)[1:]
    assert [row[1] for row in rows] == rewards
    assert [row[2:] for row in rows] == [(False, False)] * (len(rows) - 1) + [last]


class Game(gymnasium.Env):
    """A game of three lives, one lost every fourth frame, which pays five points a frame for firing."""

    class _Console:
        def __init__(self, game):
            self._game = game

        def lives(self):
            return self._game.lives

    def __init__(self, last_frame: int = 99) -> None:
        self.observation_space = spaces.Box(0, 255, (4, 4, 3), np.uint8)
        self.action_space = spaces.Discrete(4)
        self.ale, self._last = self._Console(self), last_frame

    def get_action_meanings(self):
        return ["NOOP", "FIRE", "LEFT", "RIGHT"]

    def reset(self, *, seed=None, options=None):  # noqa: ARG002 (Gymnasium's signature)
        super().reset(seed=seed)
        self.frame, self.lives = 0, 3
        return self._see(), {}

    def _see(self):
        return np.full((4, 4, 3), self.frame, np.uint8)

    def step(self, action):
        self.frame += 1
        self.lives -= self.frame % 4 == 0
        return self._see(), 5.0 * (action == 1), self.lives == 0 or self.frame >= self._last, False, {}


@pytest.mark.parametrize("last_frame", [99, 5, 6])
def test_an_atari_game_goes_on_as_in_stable_baselines3(monkeypatch, last_frame):
    """Without its last wrapper, which needs OpenCV."""
    monkeypatch.setattr(atari_wrappers, "WarpFrame", lambda env, **_: env)
    monkeypatch.setattr(atari_wrappers.NoopResetEnv, "reset", lambda self, **options: self.env.reset(**options))
    options = {"noop_max": 1, "frame_skip": 1}
    theirs = DummyVecEnv([lambda: atari_wrappers.AtariWrapper(Monitor(Game(last_frame)), **options)])
    ours = wrapped("AtariWrapper", Game(last_frame), **options)
    assert ours.reset(seed=0)[0].tolist() == theirs.reset()[0].tolist()
    total, restarts, over = 0.0, 0, False
    while not over:
        seen, reward, over, _, info = ours.step(2)
        total += reward
        restarts += FRAMES_RESTART in info
        expected, _, _, infos = theirs.step([2])
        if not over:
            assert seen.tolist() == expected[0].tolist()
    if last_frame == 99:  # else a move after a lost life ends the game, which their evaluation does not see
        assert infos[0]["episode"]["r"] == total == 15
    assert (total, restarts) == {99: (15, 2), 5: (5, 1), 6: (10, 1)}[last_frame]
    assert ours.reset(seed=0)[0].max() == 2


class TestNames:
    @pytest.mark.parametrize(
        "full_name",
        [
            "stable_baselines3.common.atari_wrappers.AtariWrapper",
            "sb3_contrib.common.wrappers.time_feature.TimeFeatureWrapper",
            "utils.wrappers.TimeFeatureWrapper",
            "gym.wrappers.resize_observation.ResizeObservation",
            "gym_minigrid.wrappers.FlatObsWrapper",
            "gymnasium.wrappers.FlattenObservation",
            "stable_baselines3.common.vec_env.VecFrameStack",
        ],
    )
    def test_of_libraries(self, full_name):
        assert known_name(full_name) == full_name.rpartition(".")[2]
        for other in ("my.wrappers.TimeFeatureWrapper", "os.system", ""):
            assert known_name(other) is None

    @pytest.mark.parametrize(
        ("name", "env"),
        [
            ("FlattenObservation", "CartPole-v1"),
            ("ImgObsWrapper", "MiniGrid-Empty-5x5-v0"),
            ("RescaleAction(a=-1, b=1)", "Pendulum-v1"),
            ("FrameStack(num_stack=2)", "CartPole-v1"),
            ("Monitor(filename='x')", "CartPole-v1"),
        ],
    )
    def test_of_other_libraries_make_environments(self, name, env):
        made = EnvironmentSpec(env, wrappers=(name,)).make()
        seen, _ = made.reset(seed=0)
        assert made.observation_space.contains(seen)

    def test_pictures_are_grey(self):
        env = Counter()
        env.observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)
        assert wrapped("GrayScaleObservation", env, keep_dim=True).observation_space.shape == (8, 8, 1)

    def test_a_name_of_the_table_is_no_code_of_a_file(self):
        spec = EnvironmentSpec("CartPole-v1", wrappers=(*KNOWN_WRAPPERS, "my.own:Wrapper(kind='os.system')"))
        assert spec.named_code == ("my.own:Wrapper", "os.system")


class TestTexts:
    @pytest.mark.parametrize(
        "arguments", [{}, {"n": 3}, {"a": [1.5, None], "b": {"c": "d)("}}, {"shape": [64, 64], "keep": True}]
    )
    def test_round_trip(self, arguments):
        assert parse_wrapper(wrapper_text("module:Name", arguments)) == ("module:Name", arguments)

    @pytest.mark.parametrize(
        "text",
        ["A(3)", "A(n=open('x'))", "A(n=1", "A(**{})", "A(n=1)(m=2)", "A(n=" + "(" * 5000, "A(n=1) or B", "A(n=n)"],
    )
    def test_other_values_are_refused(self, text):
        with pytest.raises(UnfitEnvironmentError, match="each a plain value"):
            parse_wrapper(text)
        with pytest.raises(UnfitEnvironmentError):
            wrapper_text("A", {"n": float("inf")})
