"""Experiences: columns in order, kept and read back to the bit, and refused when they are not what they should be."""

import io
import json
import pickle
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from legible.environments import EnvironmentSpec, UnfitEnvironmentError
from legible.errors import LegibleError
from legible.features import FeatureError, FeatureSpace
from legible.play import Experiences, collect, episode_seeds
from legible.play.experiences import ExperienceSetup, collect_unit, join_experiences
from legible.policies import PolicyError, load_policy
from legible_envs.pacman import PacmanEnv, pacman_features
from toy_environments import Constant, Noisy, Rowwise, Scripted, Shifted

SMALL = "legible/PacmanSmall-v0"
NOISY = "toy_environments:Noisy"


def assert_same(one: Experiences, other: Experiences) -> None:
    """Equal to the bit: NaN as NaN, minus zero as minus zero."""
    for column in fields(Experiences):
        first, second = getattr(one, column.name), getattr(other, column.name)
        if column.name == "space":
            assert first == second
        else:
            assert (first.dtype, first.shape) == (second.dtype, second.shape), column.name
            assert first.tobytes() == second.tobytes(), column.name


def tiny(**changed: Any) -> Experiences:
    """Two episodes, of two steps and of one."""
    columns: dict[str, Any] = {
        "observations": np.array([[0.1, 1], [0.2, 0], [-0.0, 1]], np.float32),
        "actions": np.array([1, 0, 1]),
        "scores": np.array([[0, 1], [1, 0], [-np.inf, 0]], np.float32),
        "episode_ids": np.array([0, 0, 1]),
        "returns": np.array([0.1 + 0.2, -5.0]),
        "lengths": np.array([2, 1]),
        "seeds": np.array([2**62 + 1, 4]),
        "success": np.array([np.nan, 1.0]),
        "space": FeatureSpace.of(["gap", "wet"], ["Brake", "Go"]),
    }
    return Experiences(**{**columns, **changed})


# Collecting


@pytest.mark.parametrize("environment", [SMALL, NOISY, "CartPole-v1"])
def test_rows_stand_in_the_order_of_episodes_and_steps(environment: str) -> None:
    width, n_actions = {SMALL: (69, 5), NOISY: (3, 4)}.get(environment, (4, 2))
    made = collect(Rowwise(width, n_actions), environment, 11, seed=3, batch=4, epsilon=0.3)
    assert made.n_episodes == 11
    assert len(made) == made.lengths.sum()
    np.testing.assert_array_equal(made.episode_ids, np.repeat(np.arange(11), made.lengths))
    assert made.seeds.tolist() == episode_seeds(3, 0, 11)
    types = {column.name: getattr(made, column.name).dtype for column in fields(made) if column.name != "space"}
    floats, doubles = {"observations", "scores"}, {"returns", "success"}
    assert {name for name, dtype in types.items() if dtype == np.float32} == floats
    assert {name for name, dtype in types.items() if dtype == np.float64} == doubles
    assert types["endings"].kind == "U"
    assert all(dtype == np.int64 for name, dtype in types.items() if name not in floats | doubles | {"endings"})


def test_columns_worked_by_hand() -> None:
    """Seed s lasts s % 100 steps; its observation is (seed, step), the reward of step k is k + 1."""
    made = collect(Constant(0, 3), "toy_environments:Scripted", 4, seed=0, batch=3, step_limit=5)
    expected = [(seed, step) for seed in made.seeds.tolist() for step in range(min(seed % 100 or 100, 5))]
    np.testing.assert_array_equal(made.observations, np.array(expected, np.float32))
    assert made.actions.tolist() == [1] * len(expected)
    assert made.scores.tolist() == [[0.0, 3.0]] * len(expected)
    assert made.returns.tolist() == [length * (length + 1) / 2 for length in made.lengths.tolist()]


@pytest.mark.parametrize("environment", [SMALL, NOISY])
def test_replaying_the_recorded_actions_gives_the_recorded_episodes(environment: str) -> None:
    made = collect(Rowwise(*((69, 5) if environment == SMALL else (3, 4))), environment, 6, seed=8, epsilon=0.5)
    env = EnvironmentSpec(environment).make()
    for episode in range(6):
        rows = np.flatnonzero(made.episode_ids == episode)
        observation, _ = env.reset(seed=int(made.seeds[episode]))
        total, over = 0.0, False
        for row in rows:
            assert not over
            np.testing.assert_array_equal(made.observations[row], np.asarray(observation, np.float32))
            observation, reward, terminated, truncated, info = env.step(made.actions[row])
            total, over = total + float(reward), terminated or truncated
        assert over
        assert total == made.returns[episode]
        assert made.success[episode] == info["is_success"]


def test_a_policy_of_log_probabilities() -> None:
    torch.manual_seed(0)
    policy = load_policy(torch.nn.Sequential(torch.nn.Linear(3, 4)), output="logits")
    assert policy.kind == "log-probabilities"
    greedy, sampled = (collect(policy, NOISY, 40, seed=1, sample=sample) for sample in (False, True))
    np.testing.assert_allclose(np.exp(sampled.scores).sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(greedy.actions, greedy.scores.argmax(axis=1))
    assert 0.2 < (sampled.actions == sampled.scores.argmax(axis=1)).mean() < 0.9
    # Both saw the same starts, which the seeds alone decide.
    firsts = [made.observations[np.cumsum(made.lengths) - made.lengths] for made in (greedy, sampled)]
    np.testing.assert_array_equal(*firsts)


def test_a_spec_with_arguments_and_progress() -> None:
    ended: list[int] = []
    made = collect(
        Constant(0, 0, 0, 0, 1), EnvironmentSpec(SMALL, {"step_cap": 3}), 7, seed=0, batch=2, on_episode=ended.append
    )
    assert made.lengths.max() <= 3
    assert sum(ended) == 7


def test_an_environment_object_is_used_and_left_open() -> None:
    env = Scripted()
    made = collect(Constant(0, 1), env, 3, seed=1, step_limit=4)
    assert env.seeds_seen == [1, *made.seeds.tolist()]  # once before the episodes, for action masks in infos
    assert not env.closed


@pytest.mark.parametrize("fails", [False, True])
def test_what_collect_opens_it_closes(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    import toy_environments

    opened: list[Scripted] = []

    class Watched(Scripted):
        def __init__(self) -> None:
            super().__init__()
            opened.append(self)

        def step(self, action: Any) -> Any:
            if fails:
                raise RuntimeError("out of cheese")
            return super().step(action)

    monkeypatch.setattr(toy_environments, "Watched", Watched, raising=False)
    with pytest.raises(UnfitEnvironmentError, match="out of cheese") if fails else nullcontext():
        collect(Constant(0, 1), "toy_environments:Watched", 3, seed=1, step_limit=4)
    assert len(opened) == 4  # three slots, and one to ask for the names
    assert all(env.closed for env in opened)


TWO = FeatureSpace.unnamed(2, 4)
NO_NUMBERS = load_policy(lambda o: o[:, [0] * 4] * np.nan, output="values", n_actions=4)


@pytest.mark.parametrize(
    ("gather", "error", "words"),
    [
        (lambda: collect(Constant(0, 1), SMALL, 0, seed=0), LegibleError, "at least one episode is needed, got 0"),
        (lambda: collect(Rowwise(69, 5), SMALL, 2**24 + 1, seed=0), LegibleError, "more than a stage holds"),
        (lambda: collect(Constant(0, 1), NOISY, 1, seed=0), LegibleError, "among 2 actions, .* has 4"),
        (lambda: collect(Rowwise(3, 5), SMALL, 1, seed=0), LegibleError, "reads 3 features, .* shows 69"),
        (lambda: collect(Rowwise(3, 4), NOISY, 1, seed=-1), LegibleError, "a seed is a whole number"),
        (lambda: collect(Rowwise(3, 4), NOISY, 1, seed=0, batch=0), LegibleError, "at least one slot is needed"),
        (lambda: collect(Rowwise(3, 4), NOISY, 1, seed=0, epsilon=2), LegibleError, "epsilon must be a probability"),
        (lambda: collect(Rowwise(3, 4), NOISY, 1, seed=0, sample=True), LegibleError, "cannot be sampled"),
        (lambda: collect(Rowwise(3, 4), NOISY, 1, seed=0, step_limit=0), LegibleError, "step_limit must be"),
        (lambda: collect(np.zeros, NOISY, 1, seed=0), LegibleError, "is not a policy"),
        (lambda: collect(Rowwise(3, 4), "Noisy-v0", 1, seed=0), UnfitEnvironmentError, "'Noisy-v0' cannot be made"),
        (
            lambda: collect(Rowwise(3, 4), SyncVectorEnv([Noisy]), 1, seed=0),
            UnfitEnvironmentError,
            "is a vector environment",
        ),
        (lambda: collect(Constant(0), "Pendulum-v1", 1, seed=0), LegibleError, "they do not belong together"),
        (lambda: collect(Rowwise(3, 4), NOISY, 1, seed=0, names="no.toml"), FeatureError, "cannot be read"),
        (
            lambda: collect(Rowwise(3, 4), NOISY, 1, seed=0, names=TWO),
            UnfitEnvironmentError,
            "the given feature space names 2 features, but observations have 3",
        ),
        (lambda: collect(NO_NUMBERS, NOISY, seed=0), PolicyError, "NaN"),
    ],
)
def test_what_cannot_be_collected_is_refused(gather: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        gather()


# Names and kinds


class Mixed(gymnasium.Env):
    """A flag, a measure and a counter of many values, none of them named."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1, 100, (3,))
        self.action_space = gymnasium.spaces.Discrete(2)

    def _look(self) -> np.ndarray:
        return np.array([self.steps % 2, self.np_random.random(), self.steps], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.steps = 0
        return self._look(), {}

    def step(self, action: int) -> Any:  # noqa: ARG002 (Gymnasium's signature)
        self.steps += 1
        return self._look(), 0.0, self.steps == 30, False, {}


def kinds(made: Experiences) -> list[str]:
    return [feature.kind for feature in made.space.features]


def test_kinds_are_guessed_unless_names_are_given(tmp_path: Path) -> None:
    made = collect(Constant(0, 1), Mixed(), 2, seed=0)
    assert made.space.names == ("f0", "f1", "f2")
    assert kinds(made) == ["categorical", "numeric", "numeric"]
    path = tmp_path / "names.toml"
    path.write_text('features = ["flag", "measure", { name = "count", kind = "categorical" }]\n')
    made = collect(Constant(0, 1), Mixed(), 1, seed=0, names=path)
    assert made.space.names == ("flag", "measure", "count")
    assert kinds(made) == ["numeric", "numeric", "categorical"]
    assert made.space.action_names == ("action0", "action1")


def test_the_environment_s_own_names_and_kinds_are_kept() -> None:
    for environment in (SMALL, PacmanEnv()):
        assert collect(Rowwise(69, 5), environment, 2, seed=0).space == pacman_features(2)


def test_discrete_observations_stay_categorical() -> None:
    """FrozenLake 8x8 has more places than the guess would call categories."""
    spec = EnvironmentSpec("FrozenLake-v1", {"map_name": "8x8"})
    made = collect(Constant(0, 1, 0, 0), spec, 40, seed=0, epsilon=0.5)
    assert len(np.unique(made.observations)) > 10
    assert kinds(made) == ["categorical"]
    assert kinds(collect(Rowwise(1, 4), Shifted(), 1, seed=0)) == ["categorical"]


# Experiences as values


def test_rows_of_episodes() -> None:
    made = tiny()
    assert len(made) == 3
    assert made.n_episodes == 2
    assert made.of_episodes(np.array([1])).tolist() == [False, False, True]
    assert made.of_episodes(np.array([0, 1])).tolist() == [True, True, True]
    assert made.of_episodes(np.array([], np.int64)).tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("actions", np.array([1]), r"actions must have shape \(3,\), got \(1,\)"),
        ("scores", np.zeros((3, 5)), r"scores must have shape \(3, 2\), got \(3, 5\)"),
        ("episode_ids", np.array([0, 1, 2]), r"episode ids must lie in 0 … 1\."),
        ("episode_ids", np.array([-1, 0, 1]), "episode ids must lie in"),
        ("lengths", np.array([3]), r"lengths must have shape \(2,\), got \(1,\)"),
        ("observations", np.zeros((3, 4)), r"observations of shape \(n, 2\) are expected, got \(3, 4\)"),
    ],
)
def test_columns_that_do_not_belong_together_are_refused(column: str, value: np.ndarray, words: str) -> None:
    with pytest.raises(LegibleError, match=words):
        tiny(**{column: value})


def test_units_are_put_one_after_the_other() -> None:
    whole = collect(Rowwise(3, 4), NOISY, 5, seed=1, names=FeatureSpace.unnamed(3, 4))
    setup = ExperienceSetup(Rowwise(3, 4), EnvironmentSpec(NOISY))
    seeds = whole.seeds.tolist()
    parts = [collect_unit(setup, seeds[:2]), collect_unit(setup, seeds[2:])]
    assert_same(join_experiences(parts, whole.space), whole)
    first = join_experiences(parts[:1], whole.space)
    assert first.episode_ids.max() == 1
    assert_same(join_experiences([first, parts[1]], whole.space), whole)


# One file


@st.composite
def experiences(draw: st.DrawFn) -> Experiences:
    width, n_actions, episodes = draw(st.tuples(*[st.integers(1, 4)] * 3))
    lengths = draw(arrays(np.int64, episodes, elements=st.integers(0, 3)))
    n = int(lengths.sum())

    def column(dtype: Any, *shape: int, **bounds: Any) -> np.ndarray:
        if np.issubdtype(dtype, np.floating):
            elements: Any = st.floats(width=8 * np.dtype(dtype).itemsize, **bounds)
        else:
            elements = st.integers(**{"min_value": 0, "max_value": 2**62, **bounds})
        return draw(arrays(dtype, shape, elements=elements))

    return Experiences(
        observations=column(np.float32, n, width),
        actions=column(np.int64, n, max_value=n_actions - 1),
        scores=column(np.float32, n, n_actions),
        episode_ids=np.repeat(np.arange(episodes), lengths),
        returns=column(np.float64, episodes, allow_nan=False),
        lengths=lengths,
        seeds=column(np.int64, episodes),
        success=column(np.float64, episodes, min_value=0.0, max_value=1.0),
        space=FeatureSpace.unnamed(width, n_actions),
    )


@settings(deadline=None, max_examples=60)
@given(experiences())
def test_any_experiences_survive_the_file(tmp_path_factory: pytest.TempPathFactory, made: Experiences) -> None:
    path = tmp_path_factory.getbasetemp() / "any.npz"
    made.save(path)
    assert_same(Experiences.load(path), made)


def test_files_that_cannot_be_read(tmp_path: Path, raises_saved) -> None:
    with raises_saved(LegibleError):
        Experiences.load(tmp_path / "nowhere.npz")
    with pytest.raises(LegibleError, match="cannot be read"):
        Experiences.load(tmp_path)


REFUSED = r"is damaged(, or not a file of experiences)?"


def archive(**changed: Any) -> bytes:
    """Return the file of `tiny`, with some of its entries changed or (None) left out."""
    entries = {field.name: getattr(tiny(), field.name) for field in fields(Experiences)}
    entries["space"] = json.dumps(tiny().space.to_dict())
    file = io.BytesIO()
    np.savez(file, **{name: entry for name, entry in {**entries, **changed}.items() if entry is not None})
    return file.getvalue()


OTHER_FILES = {
    "empty": b"",
    "text": b"policy = 3\n",
    "a pickle": pickle.dumps({"returns": 3}),
    "pickled column": archive(returns=np.array([{}, {}], object)),
    "missing column": archive(returns=None),
    "no names": archive(space=None),
    "names that are no JSON": archive(space="{"),
    "names that are a list": archive(space="[1, 2]"),
    "names that cannot be": archive(space='{"features": ["a", "a"]}'),
    "columns that do not belong together": archive(actions=np.zeros(9, np.int64)),
    "a column that is a number": archive(observations=np.float32(3)),
}


@pytest.mark.parametrize("what", OTHER_FILES)
def test_other_files_are_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "other.npz"
    path.write_bytes(OTHER_FILES[what])
    with pytest.raises(LegibleError, match=rf"other\.npz: {REFUSED} \("):
        Experiences.load(path)


def test_a_damaged_file_is_refused_or_has_lost_nothing(tmp_path: Path) -> None:
    """Bytes that hold data are guarded by checksums; some others, such as dates, mean nothing here."""
    path, damaged = tmp_path / "whole.npz", tmp_path / "damaged.npz"
    tiny().save(path)
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 5):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        damaged.write_bytes(broken)
        try:
            read = Experiences.load(damaged)
        except LegibleError as error:
            assert re.search(REFUSED, str(error))  # noqa: PT017 (either outcome is right)
            refused += 1
        else:
            assert_same(read, tiny())
    assert refused > len(whole) / 5 / 2
