"""Choice of relations: those of the domain, those of the user, or none."""

import gymnasium
import pytest

from legible.environments import EnvironmentSpec, resolve_names
from legible.relations import RelationError, parse_relations, resolve_relations, shipped_relations
from legible.study.check import check_env
from named_environments import MIRROR_OF_OWN, OWN

SMALL = "legible/PacmanSmall-v0"


def chosen(environment: EnvironmentSpec, relations: object = None) -> list[str]:
    space = resolve_names(environment.make()).space
    return [text.name for text in resolve_relations(environment, space, relations).texts]


def test_by_default_those_of_the_domain() -> None:
    assert chosen(EnvironmentSpec(SMALL)) == ["turn"]
    assert chosen(EnvironmentSpec("CartPole-v1")) == ["cartpole"]
    assert chosen(EnvironmentSpec("MountainCar-v0")) == []
    assert chosen(EnvironmentSpec("mirror_world:MirrorWorld")) == []


def test_relations_of_a_factory_follow_from_its_environment() -> None:
    assert chosen(EnvironmentSpec("named_environments:real_cartpole")) == ["cartpole"]
    assert chosen(EnvironmentSpec("named_environments:cartpole")) == []


@pytest.mark.slow
@pytest.mark.parametrize(("factory", "answer"), [("real_cartpole", "yes"), ("cartpole", "mind")])
def test_check_says_what_a_study_does(factory: str, answer: str) -> None:
    spec = EnvironmentSpec(f"named_environments:{factory}")
    said = {finding.question: finding for finding in check_env(spec)}["relations"]
    assert said.answer == answer
    assert ("cartpole" in said.details) == (chosen(spec) == ["cartpole"])


def test_none_names_files_and_relations(tmp_path) -> None:
    spec, path = EnvironmentSpec(SMALL), tmp_path / "mine.toml"
    path.write_text('[[relation]]\nname = "nothing"\nactions = "same"\n')
    assert chosen(spec, "none") == chosen(spec, ["none"]) == chosen(spec, []) == []
    assert chosen(spec, "mirror-east-west") == ["mirror-east-west"]
    assert chosen(spec, ["turn", str(path), path]) == ["turn", "mine", "mine"]
    space = resolve_names(spec.make()).space
    objects = parse_relations(path.read_text(), space)
    mixed = resolve_relations(spec, space, [*objects, "turn"])
    assert [text.name for text in mixed.texts] == ["turn", "given"]
    assert mixed.texts[1].relations(space) == objects


def test_missing_files_are_named(raises_saved) -> None:
    with raises_saved(RelationError):
        chosen(EnvironmentSpec(SMALL), "turm")
    with raises_saved(RelationError):
        chosen(EnvironmentSpec("mirror_world:MirrorWorld"), ["nowhere.toml"])
    with raises_saved(RelationError):
        chosen(EnvironmentSpec("CartPole-v1"), ["what"])


def test_defaults_with_other_names_are_left_out(tmp_path, snapshot) -> None:
    env = gymnasium.make("CartPole-v1")
    left = resolve_relations(env, OWN)
    assert left.texts == ()
    (why,) = left.left_out
    assert why == snapshot
    path = tmp_path / "mine.toml"
    path.write_text(MIRROR_OF_OWN)
    assert [text.name for text in resolve_relations(env, OWN, [path]).texts] == ["mine"]
    with pytest.raises(RelationError, match=r"cartpole.toml:\d+: .* action called 'Left'"):
        resolve_relations(env, OWN, ["cartpole"])


def test_kinds_do_not_disable_defaults() -> None:
    """Kinds that do not fit are an error in the names, and do not disable the default relations."""
    env = gymnasium.make(SMALL)
    space = resolve_names(env).space.with_kinds({"food.north": "numeric"})
    (turn,) = resolve_relations(env, space).texts
    assert [text.name for text in resolve_relations(env, space, ["turn"]).texts] == ["turn"]
    with pytest.raises(RelationError, match=r"'food\.north' is numeric but 'food\.east'"):
        turn.relations(space)


def test_texts_say_where_they_are_from() -> None:
    (text,) = resolve_relations("CartPole-v1", resolve_names(gymnasium.make("CartPole-v1")).space).texts
    (file,) = shipped_relations("CartPole-v1")
    assert (text.where, text.text) == (str(file.path), file.path.read_text(encoding="utf-8"))
