"""Sources of the names of features and actions, in their order: the user, the environment, its domain, none."""

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation, FrameStackObservation, TimeAwareObservation, TimeLimit

from legible.environments import EnvironmentSpec, UnfitEnvironmentError, feature_space_of, resolve_names
from legible.features import FeatureSpace
from legible.play import collect
from legible.policies import load_policy
from legible.relations import load_relations
from legible.relations.check import check_relations
from legible.study.check import check_env
from named_environments import MIRROR_OF_OWN, OWN, Renamed
from toy_environments import Scripted

CARTPOLE = ("cart.position", "cart.velocity", "pole.angle", "pole.spin")
RENAMED = EnvironmentSpec("CartPole-v1", wrappers=("named_environments:Renamed",))


def test_names_come_from_the_user_then_the_environment_then_its_domain(tmp_path) -> None:
    given = FeatureSpace.of("abcd", ["L", "R"])
    path = tmp_path / "names.toml"
    path.write_text('features = ["a", "b", "c", "d"]')
    renamed = TimeLimit(Renamed(gymnasium.make("CartPole-v1")), 10)
    assert resolve_names(renamed, path) == (FeatureSpace.of("abcd", ["action0", "action1"]), f"the names file {path}")
    assert resolve_names(renamed, given) == (given, "the given feature space")
    assert resolve_names(renamed) == (OWN, "the environment")
    plain = resolve_names(gymnasium.make("CartPole-v1"))
    assert (plain.space.names[0], plain.source) == ("cart.position", "legible")
    assert resolve_names(Scripted()) == (FeatureSpace.unnamed(2, 2), "unnamed")
    assert resolve_names(EnvironmentSpec("named_environments:cartpole").make()).source == "unnamed"
    named = [resolve_names(renamed, given), resolve_names(renamed), plain, resolve_names(Scripted())]
    assert [each.is_given for each in named] == [True, False, False, False]
    assert [each.is_shipped for each in named] == [False, False, True, False]
    assert [each.is_named for each in named] == [True, True, True, False]


def test_names_of_a_domain_that_do_not_fit_are_ignored(raises_saved) -> None:
    timed = TimeAwareObservation(gymnasium.make("CartPole-v1"))
    assert resolve_names(timed) == (FeatureSpace.unnamed(5, 2), "unnamed")
    own = TimeAwareObservation(Renamed(gymnasium.make("CartPole-v1")))
    with raises_saved(UnfitEnvironmentError):
        resolve_names(own)


def test_stacked_frames_are_named_after_the_steps_they_come_from(snapshot) -> None:
    stacked = FrameStackObservation(gymnasium.make("CartPole-v1"), 2)
    space, source = resolve_names(TimeLimit(FlattenObservation(stacked), 10))
    assert space.names[:5] == ("cart.position.1ago", *[f"{name}.1ago" for name in space.names[5:]], "cart.position")
    assert space.features[2].words == snapshot
    assert source == "the environment"
    observation, _ = stacked.reset(seed=0)
    later = stacked.step(1)[0]
    named = dict(zip(space.names, later.ravel(), strict=True))
    assert named["pole.angle.1ago"] == observation[1][2]
    assert named["pole.angle"] == later[1][2]
    own = resolve_names(FrameStackObservation(Renamed(gymnasium.make("CartPole-v1")), 3)).space
    assert own.names[:4] == tuple(f"{name}.2ago" for name in OWN.names)


class Named(Scripted):
    """An environment with meanings of actions, as Atari games have."""

    meanings = ("NOOP", "FIRE")

    def get_action_meanings(self) -> list[str]:
        return list(self.meanings)


@pytest.mark.parametrize("meanings", [("NOOP",), ("GO", "GO"), ("a b", "c")])
def test_actions_are_called_as_the_environment_calls_them(meanings, monkeypatch) -> None:
    assert resolve_names(Named()).space.action_names == ("NOOP", "FIRE")
    monkeypatch.setattr(Named, "meanings", meanings)  # too few, not different, no names for rules
    assert resolve_names(Named()).space.action_names == ("action0", "action1")


def test_actions_of_grids_have_names() -> None:
    pytest.importorskip("minigrid")
    env = EnvironmentSpec("MiniGrid-Empty-5x5-v0", {}, ("minigrid.wrappers:FlatObsWrapper",)).make()
    assert resolve_names(env).space.action_names == ("left", "right", "forward", "pickup", "drop", "toggle", "done")


@pytest.mark.slow
def test_all_modules_use_the_same_names(tmp_path, snapshot) -> None:
    """A relations file that `check` accepts must not fail in a study."""
    env = RENAMED.make()
    path = tmp_path / "mirror.toml"
    path.write_text(MIRROR_OF_OWN)
    assert feature_space_of(env) == OWN
    relations = load_relations(path, resolve_names(env).space)
    answers = check_relations(RENAMED, relations, states=40, episodes=20)
    assert [(answer.action, answer.image_action) for answer in answers] == [("West", "East"), ("East", "West")]
    policy = load_policy(lambda rows: np.zeros((len(rows), 2)), output="values", n_features=4, n_actions=2)
    assert collect(policy, RENAMED, 2, seed=0).space == OWN
    found = {finding.question: finding.details for finding in check_env(RENAMED, policy)}
    assert found["observations"] == snapshot
    assert found["actions"] == "2: West, East"
    assert "cartpole does not fit the names" in found["relations"]
