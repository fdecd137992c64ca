"""Environments by name, supported and refused spaces, and names of features."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.toy_text.taxi import TaxiEnv
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import (
    ClipReward,
    FlattenObservation,
    FrameStackObservation,
    RecordEpisodeStatistics,
    TimeAwareObservation,
    TimeLimit,
)

from legible.environments import (
    CannotDrawError,
    EnvironmentSpec,
    ObservationEncoder,
    UnfitEnvironmentError,
    as_environment,
    count_actions,
    feature_space_of,
    first_action,
)
from legible.features import FeatureError, FeatureSpace, Regions
from legible_envs.pacman import PacmanError, PacmanVectorEnv
from toy_environments import Scripted, Shifted, Spaces

SMALL = "legible/PacmanSmall-v0"


# Making environments


def test_arguments_reach_the_environment_and_can_be_added_to() -> None:
    spec = EnvironmentSpec("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False})
    assert spec.make().observation_space.n == 64
    assert spec.make(map_name="4x4").observation_space.n == 16
    assert spec.make(render_mode="ansi").render_mode == "ansi"
    limited = EnvironmentSpec("toy/Scripted-v0", {"max_episode_steps": 2}).make()
    limited.reset(seed=5)
    assert [limited.step(0)[3] for _ in range(2)] == [False, True]


def test_environments_are_not_watched_by_gymnasium_unless_asked() -> None:
    """Gymnasium's checker of every step costs time and prints warnings."""

    def layers(env: gymnasium.Env) -> list[str]:
        return [type(env).__name__, *layers(env.env)] if isinstance(env, gymnasium.Wrapper) else []

    assert "PassiveEnvChecker" not in layers(EnvironmentSpec("CartPole-v1").make())
    assert "PassiveEnvChecker" in layers(EnvironmentSpec("CartPole-v1", {"disable_env_checker": False}).make())


@pytest.mark.parametrize("name", ["toy_environments:Scripted", "toy_environments:toy/Scripted-v0", "toy/Scripted-v0"])
def test_a_factory_or_an_id_with_its_module(name: str) -> None:
    env = EnvironmentSpec(name, {"ends": "truncated"}).make()
    assert type(env.unwrapped).__name__ == "Scripted"
    assert env.unwrapped.ends == "truncated"


def test_the_module_of_an_id_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fresh_module_of_ours.py").write_text(
        'import gymnasium\ngymnasium.register("fresh/Pole-v3", "gymnasium.envs.classic_control:CartPoleEnv")\n'
    )
    (tmp_path / "failing_module_of_ours.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        env = EnvironmentSpec("fresh_module_of_ours:fresh/Pole-v3").make()
        assert env.action_space.n == 2
    finally:
        gymnasium.registry.pop("fresh/Pole-v3", None)
        sys.modules.pop("fresh_module_of_ours", None)
    with pytest.raises(UnfitEnvironmentError, match="ZeroDivisionError: division by zero"):
        EnvironmentSpec("failing_module_of_ours:make").make()


@pytest.mark.filterwarnings("ignore:.*Using the latest versioned environment.*:UserWarning")
@pytest.mark.parametrize("name", ["CartPole", "gymnasium:CartPole", "legible:legible/PacmanSmall"])
def test_an_id_without_a_version_means_the_latest(name: str) -> None:
    spec = EnvironmentSpec(name)
    assert spec.make().spec.version is not None
    assert (spec.make_batch(2) is not None) == ("Pacman" in name)


def test_wrong_arguments_are_named() -> None:
    for name in ("CartPole-v1", "toy_environments:Scripted", "FrozenLake-v1", SMALL):
        arguments = {"map_name": "mars"} if name == "FrozenLake-v1" else {"gravity_of_mars": 3}
        with pytest.raises(UnfitEnvironmentError, match=f"environment '{name}' cannot be made: .*mars"):
            EnvironmentSpec(name, arguments).make()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("CartPol-v1", "`CartPol` doesn't exist"),
        ("CartPole-v77", "`v77`"),
        ("nowhere/CartPole-v1", "Namespace nowhere not found"),
        ("", "Malformed environment ID"),
        (":make", "the module '' cannot be imported"),
        (".relative:make", "the module '.relative' cannot be imported"),
        ("toy_environments:A_NUMBER", "neither a factory 'A_NUMBER' nor registers"),
        ("toy_environments:toy/NoSuch-v0", "neither a factory 'toy/NoSuch-v0' nor registers"),
        ("toy_environments:not_an_environment", "not a gymnasium.Env"),
        ("toy_environments:broken_factory", "KeyError: 'map'"),
        ("CartPole-v1 in NoSuch", "write it as module:class; known by name alone are VecFrameStack, "),
        ("CartPole-v1 in FrameSkip(skip=0)", "skip is a whole number from 1 to 1000000, not 0"),
        ("CartPole-v1 in FrameSkip(skip=abs(1))", "write its arguments as FrameSkip(name=value)"),
        ("CartPole-v1 in no_such_module:Wrapper", "cannot be put around the environment: ModuleNotFoundError"),
        ("CartPole-v1 in gymnasium.wrappers:NoSuch", "AttributeError"),
        ("CartPole-v1 in builtins:repr", "not a gymnasium.Env"),
    ],
)
def test_unknown_names_and_wrappers_are_refused_with_the_reason(name: str, words: str) -> None:
    name, *wrappers = name.split(" in ")
    with pytest.raises(UnfitEnvironmentError) as refusal:
        EnvironmentSpec(name, {}, tuple(wrappers)).make()
    assert words in str(refusal.value)
    assert wrappers or name in str(refusal.value)


def test_legible_s_own_errors_pass_unchanged() -> None:
    spec = EnvironmentSpec(SMALL, {"attack": 2.0})
    for make in (spec.make, lambda: spec.make_batch(2)):
        with pytest.raises(PacmanError, match=r"^attack is a probability"):
            make()
    with pytest.raises(UnfitEnvironmentError, match=r"cannot be made: TypeError: .*gravity"):
        EnvironmentSpec(SMALL, {"gravity": 3}).make_batch(2)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, raises_saved) -> None:
    def factory() -> gymnasium.Env:
        raise gymnasium.error.DependencyNotInstalled("Box2D is not installed, run `pip install box2d`")

    monkeypatch.setattr("toy_environments.broken_factory", factory)
    with raises_saved(UnfitEnvironmentError):
        EnvironmentSpec("toy_environments:broken_factory").make()
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with raises_saved(UnfitEnvironmentError):
        EnvironmentSpec("ALE/NoSuchGame-v5").make()


def test_specs_are_values() -> None:
    spec = EnvironmentSpec("FrozenLake-v1", {"map_name": "8x8"})
    assert spec == EnvironmentSpec("FrozenLake-v1", {"map_name": "8x8"})
    assert spec != EnvironmentSpec("FrozenLake-v1")
    assert len({spec, EnvironmentSpec("FrozenLake-v1", {"map_name": "8x8"})}) == 1
    assert pickle.loads(pickle.dumps(spec)) == spec


# Batches


def test_pacman_comes_as_a_native_batch() -> None:
    for name in (SMALL, f"legible:{SMALL}"):
        envs = EnvironmentSpec(name, {"step_cap": 17}).make_batch(3)
        assert isinstance(envs, PacmanVectorEnv)
        assert envs.num_envs == 3
        assert envs.settings.step_cap == 17


@pytest.mark.parametrize(
    "spec",
    [
        EnvironmentSpec("CartPole-v1"),  # its vector form has one generator for all
        EnvironmentSpec("FrozenLake-v1"),  # has none
        EnvironmentSpec("toy_environments:Scripted"),
        EnvironmentSpec(SMALL, {"max_episode_steps": 5}),  # the limit is a wrapper around the single environment
        EnvironmentSpec("no such environment"),
    ],
)
def test_no_batch_where_an_episode_would_depend_on_others_or_change(spec: EnvironmentSpec) -> None:
    assert spec.make_batch(2) is None


def test_no_batch_under_wrappers_of_the_registration() -> None:
    """Gymnasium puts them around single environments only; without them the game would be another one."""
    clipped = ClipReward(EnvironmentSpec(SMALL).make(), -1.0, 1.0).spec
    assert clipped is not None
    gymnasium.register(
        "toy/ClippedPacman-v0",
        entry_point=clipped.entry_point,
        vector_entry_point=clipped.vector_entry_point,
        additional_wrappers=clipped.additional_wrappers,
    )
    try:
        spec = EnvironmentSpec("toy/ClippedPacman-v0")
        assert isinstance(spec.make(), ClipReward)
        assert spec.make_batch(2) is None
    finally:
        gymnasium.registry.pop("toy/ClippedPacman-v0")


def test_names_specs_and_environments_are_environments() -> None:
    env, spec = Scripted(), EnvironmentSpec("toy/Scripted-v0")
    assert as_environment("toy/Scripted-v0") == spec
    assert as_environment(spec) is spec
    assert as_environment(env) is env
    with pytest.raises(UnfitEnvironmentError, match="is a vector environment"):
        as_environment(SyncVectorEnv([Scripted]))
    for other in (Scripted, None):
        with pytest.raises(UnfitEnvironmentError, match="is no environment; give an id"):
            as_environment(other)


# Observations


@pytest.mark.parametrize(
    ("space", "width", "categorical"),
    [
        (spaces.Box(0, 1, (5,)), 5, False),
        (spaces.Box(0, 255, (2, 3), np.uint8), 6, False),
        (spaces.Box(-1, 1, (), np.float64), 1, False),
        (spaces.Discrete(7, start=-3), 1, True),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), 4, True),
        (spaces.MultiBinary((2, 2)), 4, True),
    ],
)
def test_observations_become_rows_of_float32(space: spaces.Space, width: int, categorical: bool) -> None:
    space.seed(1)
    observations = [space.sample() for _ in range(6)]
    encoder = ObservationEncoder.of(space)
    rows = encoder.encode(observations)
    assert (encoder.width, encoder.categorical) == (width, categorical)
    assert rows.dtype == np.float32
    assert rows.shape == (6, width)
    expected = [np.ravel(observation).astype(np.float32) for observation in observations]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(rows, np.concatenate([encoder.encode([each]) for each in observations]))


def test_rows_of_float32_are_not_copied() -> None:
    batch = np.zeros((4, 3), np.float32)
    assert np.shares_memory(ObservationEncoder.of(spaces.Box(0, 1, (3,))).encode(batch), batch)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Dict(a=spaces.Discrete(2)), "a Dict space, but .*FlattenObservation"),
        (spaces.Tuple([spaces.Discrete(2)]), "a Tuple space, but rules need one row"),
        (spaces.Text(5), "a Text space; Box, Discrete, MultiDiscrete or MultiBinary is needed"),
        (spaces.Box(0, 1, (0,)), "observations are empty"),
    ],
)
def test_other_observations_are_refused_with_the_reason(space: spaces.Space, words: str) -> None:
    with pytest.raises(UnfitEnvironmentError, match=words):
        ObservationEncoder.of(space)
    with pytest.raises(UnfitEnvironmentError, match=words):
        feature_space_of(Spaces(space))


def test_the_advice_for_dictionaries_works() -> None:
    space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, (3,)))
    assert len(feature_space_of(FlattenObservation(Spaces(space)))) == 5


@pytest.mark.parametrize("wrong", [[np.zeros(3)], [np.zeros(2), np.zeros(3)], ["north"], [None], [{"a": 1}]])
def test_observations_outside_their_space_are_refused(wrong: list[object]) -> None:
    with pytest.raises(UnfitEnvironmentError, match="its observation_space holds 2 numbers"):
        ObservationEncoder.of(spaces.Box(0, 1, (2,))).encode(wrong)


# Actions


def test_actions_are_counted_and_may_start_anywhere() -> None:
    assert count_actions(spaces.Discrete(6)) == 6
    assert first_action(spaces.Discrete(6)) == 0
    assert count_actions(Shifted().action_space) == 4
    assert first_action(Shifted().action_space) == -2
    with pytest.raises(UnfitEnvironmentError, match="a MultiBinary space; rules choose among the actions of a Disc"):
        count_actions(spaces.MultiBinary(3))


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Text(3), "actions are a Text space; rules support Discrete, MultiDiscrete, MultiBinary and Box"),
        (spaces.Dict({"a": spaces.Discrete(2)}), "actions are a Dict space"),
        (spaces.Box(1, 1, (2,)), "leaves nothing to choose"),
        (spaces.Box(0, 1, (0,)), "leaves nothing to choose"),
    ],
)
def test_other_actions_are_refused_in_one_line(space: spaces.Space, words: str) -> None:
    with pytest.raises(UnfitEnvironmentError, match=words) as refused:
        feature_space_of(Spaces(action_space=space))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("space", "names", "label"),
    [
        (spaces.Box(-2.0, 2.0, (1,)), "0.low 0.middle 0.high", "set action0 middle"),
        (spaces.MultiDiscrete([[2, 3]]), "0.0 0.1 1.0 1.1 1.2", "set action0 to 1"),
        (spaces.MultiBinary(2), "0.off 0.on 1.off 1.on", "set action0 on"),
    ],
)
def test_parts_of_actions_have_choices(space: spaces.Space, names: str, label: str) -> None:
    named = feature_space_of(Spaces(action_space=space))
    assert named.action_names == tuple(f"action{name}" for name in names.split())
    assert named.actions[1].label == label
    assert named.groups[0].regions == (Regions(-2.0, 2.0) if isinstance(space, spaces.Box) else None)


GROUPS = {"steer": {"left": [-1, 0], "right": [0, 1]}, "gas": ["low", "high"]}
TWO = spaces.Box(-1, 1, (2,))


@pytest.mark.parametrize(
    ("groups", "space", "said"),
    [
        (GROUPS, spaces.Box(-2, 2, (2,)), "'steer' reach from -1 to 1, but the environment's bounds are -2 and 2"),
        (GROUPS, spaces.Box(-1, 1, (3,)), "names 2 groups of choices, but actions have 3 parts"),
        (GROUPS, spaces.MultiDiscrete([2, 2]), "gives regions of group 'steer', but it has whole numbers"),
        ({"gear": ["a", "b"]}, spaces.MultiDiscrete([3]), "names 2 choices of group 'gear', but the environment has 3"),
        ({"steer": ["all"], "gas": ["a", "b"]}, TWO, "names one region of group 'steer'"),
        (None, TWO, "names 1 actions, but the action space is Box"),
        (GROUPS, spaces.Discrete(4), "names 4 actions, but the environment has 4; name each or none"),
    ],
)
def test_named_choices_that_do_not_fit_are_refused_in_one_line(groups: Any, space: spaces.Space, said: str) -> None:
    features = list(feature_space_of(Spaces()).names)
    data = {"features": features, **({"groups": groups} if groups else {"actions": ["Go"]})}
    with pytest.raises(UnfitEnvironmentError, match=said) as refused:
        feature_space_of(Spaces(action_space=space), FeatureSpace.from_dict(data))
    assert "\n" not in str(refused.value)
    named = FeatureSpace.from_dict({"features": features, "groups": GROUPS})
    fitting = feature_space_of(Spaces(action_space=TWO), named)
    assert [group.regions for group in fitting.groups] == [Regions(-1.0, 1.0, (0.0,)), Regions(-1.0, 1.0)]


# Names


def test_discrete_observations_are_categorical() -> None:
    (feature,) = feature_space_of(TaxiEnv()).features
    assert (feature.name, feature.kind) == ("f0", "categorical")


def test_wrappers_that_widen_the_observation_need_new_names(raises_saved) -> None:
    env = TimeAwareObservation(TimeLimit(EnvironmentSpec(SMALL).make(), 100))
    with raises_saved(UnfitEnvironmentError):
        feature_space_of(env)
    assert len(feature_space_of(env, FeatureSpace.unnamed(70, 0))) == 70
    assert len(feature_space_of(FrameStackObservation(EnvironmentSpec(SMALL).make(), 2))) == 138


def test_names_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "names.toml"
    text = 'features = ["seed", { name = "steps", kind = "categorical", words = "steps so far" }]\n'
    path.write_text(text + 'actions = ["Wait", "Go"]')
    space = feature_space_of(Scripted(), str(path))
    assert space.names == ("seed", "steps")
    assert (space[1].label, space[1].kind) == ("steps so far", "categorical")
    assert space.action_names == ("Wait", "Go")
    path.write_text(text)
    assert feature_space_of(Scripted(), path).action_names == ("action0", "action1")
    with pytest.raises(FeatureError, match=r"nowhere\.toml: cannot be read"):
        feature_space_of(Scripted(), tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('features = ["seed"]', "names 1 features, but observations have 2; name each of them"),
        ('features = ["a", "b", "c"]', "names 3 features, but observations have 2"),
        ('features = ["a", "b"]\nactions = ["Go"]', "names 1 actions, but the environment has 2; name each or none"),
    ],
)
def test_a_file_that_does_not_fit_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "names.toml"
    path.write_text(text)
    with pytest.raises(UnfitEnvironmentError, match=words) as refusal:
        feature_space_of(Scripted(), path)
    assert str(refusal.value).startswith(f"the names file {path}")


# Wrappers and packages that are imported on demand


def test_wrappers_are_put_around_the_innermost_first() -> None:
    names = ("FlattenObservation", "RecordEpisodeStatistics")
    spec = EnvironmentSpec("FrozenLake-v1", {}, tuple(f"gymnasium.wrappers:{name}" for name in names))
    env = spec.make()
    assert isinstance(env, RecordEpisodeStatistics)
    assert isinstance(env.env, FlattenObservation)
    assert env.observation_space.shape == (16,)
    assert EnvironmentSpec(SMALL, {}, ("gymnasium.wrappers:FlattenObservation",)).make_batch(2) is None


def test_known_packages_are_imported_when_asked_for() -> None:
    pytest.importorskip("minigrid")
    env = EnvironmentSpec("MiniGrid-Empty-5x5-v0", {}, ("minigrid.wrappers:FlatObsWrapper",)).make()
    assert ObservationEncoder.of(env.observation_space).width == 2835


# Drawing


@pytest.mark.parametrize("mode", ["rgb_array", "human"])
def test_packages_that_draw_are_named(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    env = EnvironmentSpec("CartPole-v1").make(render_mode=mode)
    with pytest.raises(CannotDrawError, match=r"pygame is not .*legible-rl\[human\]"):
        _draw_once(env)


def test_errors_of_drawing_say_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a screen and without EGL, MuJoCo's drawing raises errors of several kinds."""
    pytest.importorskip("mujoco")

    def fail(*_arguments: object) -> None:
        raise RuntimeError("no OpenGL context\nand more lines")

    walker = EnvironmentSpec("Walker2d-v5").make(render_mode="rgb_array")
    monkeypatch.setattr(walker.unwrapped.mujoco_renderer, "render", fail)
    words = r"Walker2d-v5' cannot be drawn: RuntimeError: no OpenGL context\. MuJoCo .* MUJOCO_GL=egl .*libosmesa6\)\.$"
    with pytest.raises(CannotDrawError, match=words):
        _draw_once(walker)


def test_a_drawing_backend_that_does_not_work_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With MUJOCO_GL=osmesa and without OSMesa, MuJoCo cannot even be imported."""
    names: dict = {}
    exec(compile("def factory():\n    raise AttributeError('glGetError')", "packages/OpenGL/error.py", "exec"), names)
    monkeypatch.setattr("toy_environments.broken_factory", names["factory"])
    spec = EnvironmentSpec("toy_environments:broken_factory")
    for backend, hint in (("osmesa", r"\. MUJOCO_GL=osmesa does .* try without it\.$"), ("", r"\.$")):
        monkeypatch.setenv("MUJOCO_GL", backend)
        with pytest.raises(UnfitEnvironmentError, match=f"cannot be made: AttributeError: glGetError{hint}"):
            spec.make()


def _draw_once(env: gymnasium.Env) -> None:
    env.reset(seed=0)
    env.render()


def test_an_environment_that_is_drawn_is_the_same_otherwise() -> None:
    plain, drawn = EnvironmentSpec(SMALL).make(), EnvironmentSpec(SMALL).make(render_mode="ansi")
    assert feature_space_of(drawn) == feature_space_of(plain)
    assert drawn.spec is not None
    assert (drawn.spec.id, drawn.render_mode) == (SMALL, "ansi")
    for env in (plain, drawn):
        env.reset(seed=3)
    for _ in range(5):
        one, other = plain.step(2), drawn.step(2)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:] == other[1:]
    assert "%" in drawn.render()


QUIET_ROBOT = """
import gc
from legible.environments import CannotDrawError, EnvironmentSpec

spec = EnvironmentSpec("HalfCheetah-v5")
spec.make().reset(seed=0)
drawn = spec.make(render_mode="rgb_array")
drawn.reset(seed=0)
try:
    drawn.render()
except CannotDrawError:
    print("cannot draw")
del drawn
gc.collect()
"""


@pytest.mark.subprocess
def test_robots_print_no_warnings_and_leave_no_log(tmp_path) -> None:
    pytest.importorskip("mujoco")
    # There is no such graphics device, so the viewer cannot be made.
    environment = {**os.environ, "MUJOCO_GL": "egl", "MUJOCO_EGL_DEVICE_ID": "99"}
    done = subprocess.run(
        [sys.executable, "-c", QUIET_ROBOT], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("cannot draw\n", "")
    assert not list(tmp_path.iterdir())
