"""Wherever a policy is read, a file with rules is a guided policy: studied, compared, played and saved as one."""

import numpy as np
import pytest

import mirror_world
from flawed_network import save_flawed_network
from legible import GuidedPolicy, LegibleError, Study, load_policy
from legible.engines import InProcess
from legible.evaluation.units import Setup, Unit, play_unit
from legible.policies import NetworkPolicy
from legible.rules import RuleSet, parse_rule
from legible.settings import EvaluationSettings, ImprovementSettings, MiningSettings, PlaySettings, StudySettings
from legible.training import export_sb3
from mirror_world import WORLD

GOOD = RuleSet((parse_rule("+Left <- left", mirror_world.SPACE),))
PLAY = PlaySettings(batch=8, unit_episodes=40)
SETTINGS = StudySettings(
    sources="mined,yours",
    episodes=40,
    mining=MiningSettings(lime_samples=200),
    play=PLAY,
    evaluation=EvaluationSettings(method="paper", episodes=40, confirmation_episodes=40),
    improvement=ImprovementSettings(episodes=40, final_episodes=40),
)


@pytest.fixture
def guided_file(tmp_path):
    network = load_policy(save_flawed_network(tmp_path / "network.safetensors"))
    path = tmp_path / "guided.safetensors"
    GuidedPolicy(network, GOOD, mirror_world.SPACE).save(path)
    return path


def study_of(folder, policy) -> Study:
    relations = mirror_world.mirror()
    return Study(folder, WORLD, policy, relations=relations, settings=SETTINGS, engine=InProcess())


def returns(policy, rules=()) -> np.ndarray:
    setup = Setup(policy, WORLD, tuple(rules), PLAY)
    return play_unit(setup, Unit((0 if rules else -1,) * 40, tuple(range(40)))).returns


def test_a_guided_file_loads_as_what_it_is(guided_file) -> None:
    policy = load_policy(guided_file)
    assert isinstance(policy, GuidedPolicy)
    assert policy.rules == GOOD
    assert isinstance(policy.network, NetworkPolicy)
    # It plays as the network does when it is guided, and better than the network alone.
    np.testing.assert_array_equal(returns(policy), returns(policy.network, [GOOD]))
    assert returns(policy).mean() > returns(policy.network).mean()


def test_guiding_it_again_survives_the_file(guided_file, tmp_path) -> None:
    more = RuleSet((parse_rule("-Stay <- right", mirror_world.SPACE),))
    twice = GuidedPolicy(load_policy(guided_file), more, mirror_world.SPACE, precedence="negative")
    twice.save(tmp_path / "twice.safetensors")
    loaded = load_policy(tmp_path / "twice.safetensors")
    assert isinstance(loaded, GuidedPolicy)
    assert isinstance(loaded.policy, GuidedPolicy)
    assert (loaded.rules, loaded.policy.rules, loaded.precedence) == (more, GOOD, "negative")
    states = np.random.default_rng(0).integers(0, 2, (50, 5)).astype(np.float32)
    np.testing.assert_array_equal(loaded.scores(states), twice.scores(states))


def test_a_mended_policy_can_be_studied(guided_file, tmp_path) -> None:
    final = study_of(tmp_path / "again", guided_file).improve().final_blocks
    setup = Setup(load_policy(guided_file), WORLD, (), PLAY)
    alone = play_unit(setup, Unit((-1,) * 40, final.seeds))
    np.testing.assert_array_equal(final.base.returns, alone.returns)  # the guided policy, not the bare network
    opened = Study.open(tmp_path / "again", trust=True, engine=InProcess())
    assert isinstance(opened.policy, GuidedPolicy)
    assert opened.policy.rules == GOOD


def test_what_cannot_carry_rules_is_refused_with_the_way_out(guided_file, tmp_path, raises_saved) -> None:
    pytest.importorskip("stable_baselines3")
    with raises_saved(LegibleError):
        export_sb3(guided_file, tmp_path / "guided.zip")
    assert not (tmp_path / "guided.zip").exists()


def test_a_guided_file_says_what_its_rules_gained(tmp_path) -> None:
    effect = study_of(tmp_path / "s", save_flawed_network(tmp_path / "network.safetensors")).improve().effect
    gain = load_policy(tmp_path / "s" / "guided.safetensors").network.metadata["legible.gain"]
    assert (gain["mean"], gain["low"], gain["may_be_chance"]) == (effect.mean, effect.low, effect.low <= 0)
    (tmp_path / "s" / "guided.safetensors").unlink()  # what is deleted or damaged is written again
    again = Study.open(tmp_path / "s", trust=True, engine=InProcess())
    again.improve()
    content = (tmp_path / "s" / "guided.safetensors").read_bytes()
    (tmp_path / "s" / "guided.safetensors").write_bytes(content[:-5])
    Study.open(tmp_path / "s", trust=True, engine=InProcess()).improve()
    assert (tmp_path / "s" / "guided.safetensors").read_bytes() == content
