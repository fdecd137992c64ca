"""How far policies respect relations."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from legible.cli.relations import relations as relations_command
from legible.environments import EnvironmentSpec, resolve_names
from legible.errors import LegibleError
from legible.policies import load_policy
from legible.relations import load_relations, shipped_relations
from legible.workbench import measure_symmetry

CARTPOLE = EnvironmentSpec("CartPole-v1")


def cartpole():
    env = CARTPOLE.make()
    space = resolve_names(env).space
    env.close()
    return space, load_relations(shipped_relations("CartPole-v1")[0].path, space)


def lean(observations: np.ndarray) -> np.ndarray:
    """Push to the side to which the pole leans."""
    return observations[:, 2:3] * [-1, 1]


def lean_but_left(observations: np.ndarray) -> np.ndarray:
    """Push to the left also where the pole leans to the right a little."""
    return (observations[:, 2:3] - 0.03) * [-1, 1]


def test_a_symmetric_policy_and_one_that_is_not():
    space, relations = cartpole()
    for function, symmetric in ((lean, True), (lean_but_left, False)):
        policy = load_policy(function, output="values", n_features=4, n_actions=2)
        (score,) = measure_symmetry(CARTPOLE, policy, relations, space, episodes=20)
        assert (score.share == 1.0) == symmetric
        assert score.states > 100
        assert score.effect is not None
        # The scores of both sides cancel the bias.
        assert (score.effect.mean == 0.0) == symmetric
        assert score.effect.mean >= 0.0
        assert score.text.startswith("mirror: ")


def test_continuous_actions_are_refused():
    space = resolve_names(EnvironmentSpec("Pendulum-v1").make()).space
    policy = load_policy(lean, output="values", n_features=4, n_actions=2)
    with pytest.raises(LegibleError, match="discrete actions only"):
        measure_symmetry(EnvironmentSpec("Pendulum-v1"), policy, (), space)


def test_command_prints_a_line_for_every_relation(tmp_path, monkeypatch):
    (tmp_path / "leaning.py").write_text("def lean(rows):\n    return rows[:, 2:3] * [-1, 1]\n")
    monkeypatch.syspath_prepend(tmp_path)
    words = ["symmetry", "CartPole-v1", "leaning:lean", "--policy-output", "values", "--episodes", "5"]
    ran = CliRunner().invoke(relations_command, words)
    assert ran.exit_code == 0, ran.output
    assert "mirror: the policy takes" in ran.output
