"""Environments by name, what fits and what does not, and how features get their names."""

import pickle
import sys
import textwrap
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
from hypothesis import given
from hypothesis import strategies as st

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
from legible.errors import LegibleError
from legible.features import Feature, FeatureError, FeatureSpace, Regions
from legible_envs.pacman import PacmanEnv, PacmanError, PacmanVectorEnv
from toy_environments import Scripted, Shifted, Spaces

SMALL = "legible/PacmanSmall-v0"


# Making environments


def test_an_id_of_gymnasium() -> None:
    env = EnvironmentSpec("CartPole-v1").make()
    assert env.spec is not None
    assert env.spec.id == "CartPole-v1"


def test_arguments_reach_the_environment_and_can_be_added_to() -> None:
    spec = EnvironmentSpec("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False})
    assert spec.make().observation_space.n == 64
    assert spec.make(map_name="4x4").observation_space.n == 16
    assert spec.make(render_mode="ansi").render_mode == "ansi"


def test_a_limit_on_steps_is_an_argument_like_any_other() -> None:
    env = EnvironmentSpec("toy/Scripted-v0", {"max_episode_steps": 2}).make()
    env.reset(seed=5)
    assert [env.step(0)[3] for _ in range(2)] == [False, True]


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
    monkeypatch.syspath_prepend(tmp_path)
    try:
        env = EnvironmentSpec("fresh_module_of_ours:fresh/Pole-v3").make()
        assert env.action_space.n == 2
    finally:
        gymnasium.registry.pop("fresh/Pole-v3", None)
        sys.modules.pop("fresh_module_of_ours", None)


@pytest.mark.filterwarnings("ignore:.*Using the latest versioned environment.*:UserWarning")
@pytest.mark.parametrize("name", ["CartPole", "gymnasium:CartPole", "legible:legible/PacmanSmall"])
def test_an_id_without_a_version_means_the_latest(name: str) -> None:
    spec = EnvironmentSpec(name)
    assert spec.make().spec.version is not None
    assert (spec.make_batch(2) is not None) == ("Pacman" in name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("CartPol-v1", "`CartPol` doesn't exist"),
        ("CartPole-v77", "`v77`"),
        ("nowhere/CartPole-v1", "Namespace nowhere not found"),
        ("no spaces allowed", "Malformed environment ID"),
        ("", "Malformed environment ID"),
        ("no_such_module:make", "the module 'no_such_module' cannot be imported"),
        (":make", "the module '' cannot be imported"),
        (".relative:make", "the module '.relative' cannot be imported"),
        ("toy_environments:no_such_factory", "neither a factory 'no_such_factory' nor registers"),
        ("toy_environments:A_NUMBER", "neither a factory 'A_NUMBER' nor registers"),
        ("toy_environments:toy/NoSuch-v0", "neither a factory 'toy/NoSuch-v0' nor registers"),
        ("toy_environments:", "neither a factory '' nor registers"),
        ("toy_environments:a:b", "neither a factory 'a:b' nor registers"),
        ("toy_environments:not_an_environment", "made a dict, not a gymnasium.Env"),
        ("toy_environments:broken_factory", "KeyError: 'map'"),
    ],
)
def test_unknown_names_are_refused_with_the_reason(name: str, words: str) -> None:
    with pytest.raises(UnfitEnvironmentError) as refusal:
        EnvironmentSpec(name).make()
    assert words in str(refusal.value)
    assert name in str(refusal.value)


def test_a_module_that_fails_names_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_module_of_ours.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnfitEnvironmentError, match="ZeroDivisionError: division by zero") as refusal:
        EnvironmentSpec("failing_module_of_ours:make").make()
    assert isinstance(refusal.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("CartPole-v1", {"gravity_of_mars": 3}),
        ("toy_environments:Scripted", {"gravity_of_mars": 3}),
        ("FrozenLake-v1", {"map_name": "mars"}),
        (SMALL, {"gravity_of_mars": 3}),
    ],
)
def test_wrong_arguments_are_named(name: str, arguments: dict[str, object]) -> None:
    with pytest.raises(UnfitEnvironmentError, match=f"environment '{name}' cannot be made: .*mars"):
        EnvironmentSpec(name, arguments).make()


def test_our_own_errors_pass_unchanged() -> None:
    spec = EnvironmentSpec(SMALL, {"attack": 2.0})
    for make in (spec.make, lambda: spec.make_batch(2)):
        with pytest.raises(PacmanError, match=r"^attack is a probability"):
            make()


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


def test_batches_that_cannot_be_made_say_why() -> None:
    with pytest.raises(UnfitEnvironmentError, match=r"cannot be made: TypeError: .*gravity"):
        EnvironmentSpec(SMALL, {"gravity": 3}).make_batch(2)


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


# What can stand for an environment


def test_names_specs_and_environments_are_environments() -> None:
    env, spec = Scripted(), EnvironmentSpec("toy/Scripted-v0")
    assert as_environment("toy/Scripted-v0") == spec
    assert as_environment(spec) is spec
    assert as_environment(env) is env


@pytest.mark.parametrize("other", [SyncVectorEnv([Scripted]), Scripted, None, 3])
def test_other_things_are_not(other: object, raises_saved) -> None:
    with raises_saved(UnfitEnvironmentError):
        as_environment(other)


# Observations


@pytest.mark.parametrize(
    ("space", "width", "categorical"),
    [
        (spaces.Box(0, 1, (5,)), 5, False),
        (spaces.Box(0, 255, (2, 3), np.uint8), 6, False),
        (spaces.Box(-1, 1, (), np.float64), 1, False),
        (spaces.Discrete(7), 1, True),
        (spaces.Discrete(7, start=-3), 1, True),
        (spaces.MultiDiscrete([2, 3, 4]), 3, True),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), 4, True),
        (spaces.MultiBinary(4), 4, True),
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


def test_discrete_values_keep_their_numbers() -> None:
    encoder = ObservationEncoder.of(spaces.Discrete(3, start=5))
    assert encoder.encode([np.int64(5), 7]).tolist() == [[5.0], [7.0]]


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_a_batch_is_its_rows(rows: int, columns: int, seed: int) -> None:
    space = spaces.Box(-1e6, 1e6, (rows, columns), seed=seed)
    batch = [space.sample() for _ in range(5)]
    encoder = ObservationEncoder.of(space)
    together = encoder.encode(np.stack(batch))
    np.testing.assert_array_equal(together, np.concatenate([encoder.encode([one]) for one in batch]))


def test_rows_of_float32_are_not_copied() -> None:
    batch = np.zeros((4, 3), np.float32)
    assert np.shares_memory(ObservationEncoder.of(spaces.Box(0, 1, (3,))).encode(batch), batch)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Dict(a=spaces.Discrete(2)), "a Dict space; flatten them first, .*FlattenObservation"),
        (spaces.Tuple([spaces.Discrete(2)]), "a Tuple space; flatten them first"),
        (spaces.Text(5), "a Text space; Box, Discrete, MultiDiscrete or MultiBinary is needed"),
        (spaces.Sequence(spaces.Discrete(2)), "a Sequence space; Box"),
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
    with pytest.raises(UnfitEnvironmentError, match="2 numbers wide, does not hold"):
        ObservationEncoder.of(spaces.Box(0, 1, (2,))).encode(wrong)


# Actions


def test_actions_are_counted_and_may_start_anywhere() -> None:
    assert count_actions(spaces.Discrete(6)) == 6
    assert first_action(spaces.Discrete(6)) == 0
    assert count_actions(Shifted().action_space) == 4
    assert first_action(Shifted().action_space) == -2


@pytest.mark.parametrize(
    "space",
    [spaces.Box(-1, 1, (1,)), spaces.MultiDiscrete([2, 2]), spaces.MultiBinary(3), spaces.Tuple([spaces.Discrete(2)])],
)
def test_actions_that_cannot_be_numbered_are_refused(space: spaces.Space) -> None:
    words = f"actions are a {type(space).__name__} space; rules choose among the actions of a Discrete space"
    with pytest.raises(UnfitEnvironmentError, match=words):
        count_actions(space)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(3),
        spaces.Graph(spaces.Box(-1, 1), None),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Tuple([spaces.Discrete(2)]),
        spaces.Dict({"a": spaces.Discrete(2)}),
    ],
)
def test_actions_that_rules_cannot_speak_of_are_refused_in_one_line(space: spaces.Space) -> None:
    words = f"actions are a {type(space).__name__} space; rules speak of Discrete, MultiDiscrete, MultiBinary and Box"
    with pytest.raises(UnfitEnvironmentError, match=words) as refused:
        feature_space_of(Spaces(action_space=space))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("space", [spaces.Box(1, 1, (2,)), spaces.Box(0, 1, (0,))])
def test_actions_that_leave_nothing_to_choose_are_refused(space: spaces.Space) -> None:
    with pytest.raises(UnfitEnvironmentError, match="which leaves nothing to choose"):
        feature_space_of(Spaces(action_space=space))


def test_continuous_actions_have_choices_by_the_names_of_their_parts() -> None:
    space = feature_space_of(Spaces(action_space=spaces.Box(-2.0, 2.0, (1,))))
    assert space.action_names == ("action0.low", "action0.middle", "action0.high")
    assert space.actions[0].label == "set action0 low"
    assert space.groups[0].regions == Regions(-2.0, 2.0)


def test_parts_of_whole_numbers_have_choices_by_their_values() -> None:
    several = feature_space_of(Spaces(action_space=spaces.MultiDiscrete([[2, 3]])))
    assert several.action_names == ("action0.0", "action0.1", "action1.0", "action1.1", "action1.2")
    assert several.actions[1].label == "set action0 to 1"
    switches = feature_space_of(Spaces(action_space=spaces.MultiBinary(2)))
    assert switches.action_names == ("action0.off", "action0.on", "action1.off", "action1.on")


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
        (None, TWO, "names 1 actions, but the environment's are Box"),
        (GROUPS, spaces.Discrete(4), "names 4 actions, but the environment has 4; name each or none"),
    ],
)
def test_named_choices_that_do_not_fit_are_refused_in_one_line(groups: Any, space: spaces.Space, said: str) -> None:
    env = Spaces(action_space=space)
    features = list(feature_space_of(Spaces()).names)
    data = {"features": features, **({"groups": groups} if groups else {"actions": ["Go"]})}
    with pytest.raises(UnfitEnvironmentError, match=said) as refused:
        feature_space_of(env, FeatureSpace.from_dict(data))
    assert "\n" not in str(refused.value)


def test_named_choices_get_the_bounds_of_the_environment() -> None:
    features = list(feature_space_of(Spaces()).names)
    space = feature_space_of(Spaces(action_space=TWO), FeatureSpace.from_dict({"features": features, "groups": GROUPS}))
    assert [group.regions for group in space.groups] == [Regions(-1.0, 1.0, (0.0,)), Regions(-1.0, 1.0)]


# Names


def test_an_environment_without_names_gets_numbers() -> None:
    space = feature_space_of(Scripted())
    assert space.names == ("f0", "f1")
    assert space.action_names == ("action0", "action1")
    assert {feature.kind for feature in space.features} == {"numeric"}


def test_discrete_observations_are_categorical() -> None:
    space = feature_space_of(TaxiEnv())
    assert [(feature.name, feature.kind) for feature in space.features] == [("f0", "categorical")]
    assert len(space.actions) == 6


def test_an_environment_brings_its_own_names_through_wrappers() -> None:
    env = EnvironmentSpec(SMALL).make()
    assert feature_space_of(TimeLimit(env, 10)) is env.unwrapped.feature_space


def test_the_outermost_wrapper_that_has_names_wins() -> None:
    class Renamed(gymnasium.Wrapper):
        feature_space = FeatureSpace.of([f"renamed{i}" for i in range(69)], "NSEWX")

    assert feature_space_of(TimeLimit(Renamed(PacmanEnv()), 10)).names[0] == "renamed0"


def test_an_attribute_that_is_no_feature_space_is_not_taken_for_one() -> None:
    env = Scripted()
    env.feature_space = ["a", "b"]
    assert feature_space_of(env).names == ("f0", "f1")


def test_wrappers_that_widen_the_observation_need_new_names(raises_saved) -> None:
    env = TimeAwareObservation(TimeLimit(EnvironmentSpec(SMALL).make(), 100))
    with raises_saved(UnfitEnvironmentError):
        feature_space_of(env)
    assert len(feature_space_of(env, FeatureSpace.unnamed(70, 0))) == 70
    assert len(feature_space_of(FrameStackObservation(EnvironmentSpec(SMALL).make(), 2))) == 138


def test_given_names_come_before_the_environment_s() -> None:
    given_names = FeatureSpace.unnamed(69, 5)
    assert feature_space_of(EnvironmentSpec(SMALL).make(), given_names) is given_names


def test_a_feature_space_without_actions_gets_them_numbered() -> None:
    space = feature_space_of(Scripted(), FeatureSpace((Feature("seed"), Feature("steps", "categorical"))))
    assert space.action_names == ("action0", "action1")
    assert [feature.kind for feature in space.features] == ["numeric", "categorical"]


def names_file(folder: Path, text: str) -> Path:
    path = folder / "names.toml"
    path.write_text(textwrap.dedent(text))
    return path


@pytest.mark.parametrize("as_text", [False, True])
def test_names_from_a_file(tmp_path: Path, as_text: bool) -> None:
    path = names_file(
        tmp_path,
        """
        features = ["seed", { name = "steps", kind = "categorical", words = "steps so far" }]
        actions = ["Wait", "Go"]
        """,
    )
    space = feature_space_of(Scripted(), str(path) if as_text else path)
    assert space.names == ("seed", "steps")
    assert space[1].label == "steps so far"
    assert space.action_names == ("Wait", "Go")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('features = ["seed"]', "names 1 features, but observations have 2; name each of them"),
        ('features = ["a", "b", "c"]', "names 3 features, but observations have 2"),
        ('features = ["a", "b"]\nactions = ["Go"]', "names 1 actions, but the environment has 2; name each or none"),
    ],
)
def test_a_file_that_does_not_fit_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = names_file(tmp_path, text)
    with pytest.raises(UnfitEnvironmentError, match=words) as refusal:
        feature_space_of(Scripted(), path)
    assert str(refusal.value).startswith(f"the names file {path}")


def test_given_names_that_do_not_fit(raises_saved) -> None:
    with raises_saved(UnfitEnvironmentError):
        feature_space_of(Scripted(), FeatureSpace.unnamed(3, 2))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FeatureError, match=r"nowhere\.toml: cannot be read"):
        feature_space_of(Scripted(), tmp_path / "nowhere.toml")


def test_errors_are_ours() -> None:
    assert issubclass(UnfitEnvironmentError, LegibleError)


# ---- wrappers and packages that are imported on need ----------------------------------------------------------------


def test_wrappers_are_put_around_the_innermost_first() -> None:
    names = ("FlattenObservation", "RecordEpisodeStatistics")
    spec = EnvironmentSpec("FrozenLake-v1", {}, tuple(f"gymnasium.wrappers:{name}" for name in names))
    env = spec.make()
    assert isinstance(env, RecordEpisodeStatistics)
    assert isinstance(env.env, FlattenObservation)
    assert env.observation_space.shape == (16,)
    assert EnvironmentSpec(SMALL, {}, ("gymnasium.wrappers:FlattenObservation",)).make_batch(2) is None


@pytest.mark.parametrize(
    ("wrapper", "words"),
    [
        ("NoSuch", "write it as module:class; known by name alone are VecFrameStack, "),
        ("FrameSkip(skip=0)", "skip is a whole number of at least 1, not 0"),
        ("FrameSkip(skip=abs(1))", r"write its arguments as FrameSkip\(name=value\)"),
        ("no_such_module:Wrapper", "cannot be put around the environment: ModuleNotFoundError"),
        ("gymnasium.wrappers:NoSuch", "AttributeError"),
        ("builtins:repr", "made a str, not a gymnasium.Env"),
    ],
)
def test_a_wrapper_that_does_not_fit_is_named(wrapper: str, words: str) -> None:
    with pytest.raises(UnfitEnvironmentError, match=words):
        EnvironmentSpec("CartPole-v1", {}, (wrapper,)).make()


def test_known_packages_are_imported_when_asked_for() -> None:
    pytest.importorskip("minigrid")
    env = EnvironmentSpec("MiniGrid-Empty-5x5-v0", {}, ("minigrid.wrappers:FlatObsWrapper",)).make()
    assert ObservationEncoder.of(env.observation_space).width == 2835


def test_a_package_that_is_missing_is_named(monkeypatch, raises_saved) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with raises_saved(UnfitEnvironmentError):
        EnvironmentSpec("ALE/NoSuchGame-v5").make()


# Drawing


@pytest.mark.parametrize("mode", ["rgb_array", "human"])
def test_what_is_missing_to_draw_an_environment_is_named(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    env = EnvironmentSpec("CartPole-v1").make(render_mode=mode)
    with pytest.raises(CannotDrawError, match=r"pygame is not .*legible-rl\[human\]"):
        _draw_once(env)


def test_a_machine_that_cannot_draw_is_told_what_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a screen and without EGL, MuJoCo's drawing fails in ways of its own."""
    pytest.importorskip("mujoco")

    def fail(*_arguments: object) -> None:
        raise RuntimeError("no OpenGL context\nand more lines")

    walker = EnvironmentSpec("Walker2d-v5").make(render_mode="rgb_array")
    monkeypatch.setattr(walker.unwrapped.mujoco_renderer, "render", fail)
    told = r"'Walker2d-v5' cannot be drawn: RuntimeError: no OpenGL context\. MuJoCo .* MUJOCO_GL=egl .*libosmesa6\)\.$"
    with pytest.raises(CannotDrawError, match=told):
        _draw_once(walker)


def test_a_way_of_drawing_that_does_not_work_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With MUJOCO_GL=osmesa and without OSMesa, MuJoCo cannot even be imported."""
    names: dict = {}
    exec(compile("def factory():\n    raise AttributeError('glGetError')", "packages/OpenGL/error.py", "exec"), names)
    monkeypatch.setattr("toy_environments.broken_factory", names["factory"])
    spec = EnvironmentSpec("toy_environments:broken_factory")
    for told, hint in (("osmesa", r"\. MUJOCO_GL=osmesa asks .* try without it\.$"), ("", r"\.$")):
        monkeypatch.setenv("MUJOCO_GL", told)
        with pytest.raises(UnfitEnvironmentError, match=f"cannot be made: AttributeError: glGetError{hint}"):
            spec.make()


def _draw_once(env: gymnasium.Env) -> None:
    env.reset(seed=0)
    env.render()


def test_what_is_missing_to_make_an_environment_is_named(monkeypatch: pytest.MonkeyPatch, raises_saved) -> None:
    def factory() -> gymnasium.Env:
        raise gymnasium.error.DependencyNotInstalled("Box2D is not installed, run `pip install box2d`")

    monkeypatch.setattr("toy_environments.broken_factory", factory)
    with raises_saved(UnfitEnvironmentError):
        EnvironmentSpec("toy_environments:broken_factory").make()


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
