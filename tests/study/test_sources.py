"""A study asks for names and relations where `check` and `relations check` do."""

import numpy as np

from legible.environments import EnvironmentSpec, resolve_names
from legible.policies import Policy, load_policy
from legible.relations import load_relations
from legible.settings import StudySettings
from legible.study import Study
from named_environments import MIRROR_OF_OWN, OWN
from study.studies import make_study

RENAMED = EnvironmentSpec("CartPole-v1", wrappers=("named_environments:Renamed",))


def policy() -> Policy:
    return load_policy(lambda rows: np.stack([rows[:, 2], -rows[:, 2]], 1), output="values", n_features=4, n_actions=2)


def study(folder, environment, **arguments) -> Study:
    return make_study(folder, environment, policy(), settings=StudySettings(episodes=3), **arguments)


def test_relations_that_pass_the_check_are_those_of_the_study(tmp_path) -> None:
    path = tmp_path / "mirror.toml"
    path.write_text(MIRROR_OF_OWN)
    checked = load_relations(path, resolve_names(RENAMED.make()).space)
    made = study(tmp_path / "study", RENAMED, relations=[path])
    made.collect()
    assert made.space == OWN
    assert made.relations == checked


def test_a_factory_of_the_users_gets_the_relations_of_what_it_makes(tmp_path) -> None:
    real = study(tmp_path / "real", EnvironmentSpec("named_environments:real_cartpole"))
    real.collect()
    assert {relation.name for relation in real.relations} == {"mirror"}
    assert real.space.names[0] == "cart.position"
    named_by_user = study(tmp_path / "renamed", RENAMED)
    named_by_user.collect()
    assert named_by_user.relations == ()
