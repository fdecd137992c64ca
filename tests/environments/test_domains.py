"""Domains: their environments, and domains that users register."""

import gymnasium
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from legible.environments import (
    Domain,
    EnvironmentSpec,
    RelationsFile,
    all_domains,
    domain_groups,
    domain_of,
    domain_registry,
    feature_space_of,
    load_by_name,
    register_domain,
    resolve_names,
    shipped_relations,
)
from legible.errors import LegibleError
from legible.relations import resolve_relations
from legible.relations.check import check_relations
from legible.report.scenes import FeatureScene, is_drawn_from_state, scene_of
from legible_envs.pacman import PacmanEnv
from legible_envs.pacman.features import pacman_features
from legible_envs.pacman.scene import PacmanScene
from named_environments import Pond, pond_domain


def name_of(environment: object) -> str | None:
    domain = domain_of(environment)
    return None if domain is None else domain.name


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("legible/PacmanSmall-v0", "pacman"),
        ("mine/Pacman-v0", None),
        ("legible/Highway-v0", "highway"),
        ("farama/Merge-v0", "highway"),
        ("highway-fast-v0", "highway"),
        ("highway_env:highway-v0", "highway"),
        ("mine/highway-v0", None),
        ("CartPole-v0", "cartpole"),
        ("CartPoleSwingUp-v0", None),
        ("gymnasium:CartPole-v1", "cartpole"),
        ("mymodule:CartPole", None),
        ("MountainCarContinuous-v0", "mountaincar-continuous"),
        ("LunarLander-v3", "lunarlander"),
        ("FrozenLake8x8-v1", "frozenlake"),
        ("Taxi-v3", None),
    ],
)
def test_domains_of_ids(env_id: str, name: str | None) -> None:
    assert name_of(env_id) == name


class Heavy(CartPoleEnv):
    """Inherits from CartPole."""


def test_the_class_of_an_environment_decides() -> None:
    assert name_of(gymnasium.make("CartPole-v1")) == name_of(CartPoleEnv()) == name_of(Heavy()) == "cartpole"
    for env_id in ("MountainCar-v0", "Acrobot-v1", "FrozenLake-v1", "legible/PacmanSmall-v0", "legible/Merge-v0"):
        assert name_of(gymnasium.make(env_id)) == name_of(env_id) is not None
    assert name_of(Pond()) is None
    gymnasium.register("mine/CartPole-v9", entry_point=Pond)
    assert name_of(gymnasium.make("mine/CartPole-v9")) is None
    gymnasium.register("mine/Pole-v9", entry_point=CartPoleEnv)
    assert name_of(gymnasium.make("mine/Pole-v9")) == "cartpole"


def test_the_environment_of_a_spec_decides() -> None:
    assert name_of(EnvironmentSpec("named_environments:real_cartpole")) == "cartpole"
    assert name_of(EnvironmentSpec("named_environments:cartpole")) is None
    assert [file.name for file in shipped_relations(EnvironmentSpec("named_environments:real_cartpole"))] == [
        "cartpole"
    ]


def test_files_for_some_of_a_domain_need_an_id() -> None:
    with_id = [file.name for file in shipped_relations(gymnasium.make("legible/PacmanOriginal-v0"))]
    without = [file.name for file in shipped_relations(PacmanEnv(maze="original"))]
    assert with_id == [*without, "exchange-4-ghosts"]
    assert without == ["turn", "mirror-east-west", "mirror-north-south"]


def test_every_text_of_the_shipped_records_leads_somewhere() -> None:
    for domain in all_domains():
        for text in (domain.scene, domain.checker, *(source for source in domain.names.values() if ":" in str(source))):
            assert not text or callable(load_by_name(text)), domain.name
        assert all(file.path.is_file() for file in domain.relations), domain.name


def test_groups_need_the_names_that_the_domain_knows() -> None:
    space = pacman_features(2)
    assert list(domain_groups(PacmanEnv(), space)) == ["Ghosts", "Scared"]
    assert domain_groups(PacmanEnv(), feature_space_of(Pond())) is None
    assert domain_groups("CartPole-v1", space) is None


def test_failed_imports_are_named() -> None:
    for text in ("nowhere:thing", "named_environments:thing", "named_environments"):
        with pytest.raises(LegibleError, match=rf"'{text}': cannot be imported .*module:attribute"):
            load_by_name(text)


# A domain from outside


@pytest.fixture
def pond(tmp_path, monkeypatch) -> Domain:
    monkeypatch.setattr(domain_registry, "_DOMAINS", dict(domain_registry._DOMAINS))
    domain = pond_domain(tmp_path)
    register_domain(domain)
    return domain


def test_a_domain_from_outside_is_asked_like_those_of_the_package(pond, snapshot) -> None:
    env = Pond()
    assert domain_of(env) is domain_of("water/PondDeep-v3") is pond
    named = resolve_names(env)
    assert named.space.names == ("boat.place", "boat.speed")
    assert named.source == "legible"
    (text,) = resolve_relations(env, named.space).texts
    assert text.name == "over-the-bow"
    assert domain_groups(env, named.space) == {"Boat": ("boat.place", "boat.speed")}
    answers = check_relations(env, text.relations(named.space), states=40)
    assert [answer.verdict for answer in answers] == ["holds"] * 2
    assert "\n".join(answer.method for answer in answers) == snapshot


def test_the_report_draws_a_domain_from_outside_by_its_scene(pond) -> None:
    spec = EnvironmentSpec("named_environments:Pond")
    _, scene = scene_of(spec, pond_space := resolve_names(Pond()).space, [1], 1000)
    assert isinstance(scene, FeatureScene)
    assert scene.layout == {"features": [pond_space[0].label], "note": ""}
    assert is_drawn_from_state(spec)
    assert isinstance(scene_of(EnvironmentSpec("legible/PacmanSmall-v0"), pond_space, [], 0)[1], PacmanScene)


def test_two_domains_of_one_name_are_refused(pond, raises_saved) -> None:
    register_domain(pond)
    with raises_saved(LegibleError):
        register_domain(Domain("pond"))


def test_a_domain_whose_files_are_not_there_is_refused(tmp_path, raises_saved) -> None:
    with raises_saved(LegibleError):
        register_domain(Domain("lake", names={".*": tmp_path / "names.toml"}))
    with raises_saved(LegibleError):
        register_domain(Domain("lake", relations=(RelationsFile(".*", tmp_path / "mirror.toml", default=False),)))
    assert "lake" not in {domain.name for domain in all_domains()}
