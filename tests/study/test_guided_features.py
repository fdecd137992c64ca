"""Guided policies whose rules see a memory or a function's features, studied, played and refused as any other."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import seen_worlds
import turning_world
from legible import GuidedPolicy, distil, load_policy
from legible.cli.play import _player
from legible.environments import EnvironmentSpec, UntrustedCodeError, map_features
from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.guidance import GuidedEnv
from legible.play import environment_for
from legible.policies import Policy
from legible.rules import parse_rule
from legible.settings import DistillationSettings, MiningSettings, StudySettings
from legible.study import Study
from legible.study.check import check_env
from study.studies import make_study, open_study

PICTURES, FUNCTION = "seen_worlds:PictureWorld", "seen_worlds:thing_in_picture"
WORLD = EnvironmentSpec(PICTURES)
SMALL = StudySettings(episodes=8, mining=MiningSettings(lime_states=5, lime_samples=100))


def network(inputs: int) -> Policy:
    torch.manual_seed(0)
    return load_policy(torch.nn.Sequential(torch.nn.Linear(inputs, 2)), output="values", n_features=inputs, n_actions=2)


@pytest.fixture
def of_function(tmp_path: Path) -> Path:
    """The file of a guided policy whose rules see what a function computes."""
    features = map_features(seen_worlds.PictureWorld(), None, FUNCTION)
    rule = parse_rule("+action1 <- thing.column > 5", features.space)
    made = GuidedPolicy(network(seen_worlds.SIZE**2), [rule], features.space, features=features)
    made.save(tmp_path / "guided.safetensors")
    return tmp_path / "guided.safetensors"


def test_who_names_the_function_studies_the_file(of_function: Path, tmp_path: Path, raises_saved) -> None:
    with pytest.raises(UntrustedCodeError, match=r"name it yourself \(--features seen_worlds:thing_in_picture;"):
        make_study(tmp_path / "s", PICTURES, of_function, settings=SMALL).mine()
    with raises_saved(LegibleError):
        make_study(tmp_path / "s", PICTURES, of_function, features="seen_worlds:raises", settings=SMALL)
    made = make_study(tmp_path / "s", PICTURES, of_function, features=FUNCTION, settings=SMALL)
    mining = made.mine()
    assert "thing.column" in mining.space.names
    with pytest.raises(UntrustedCodeError, match="--trust"):
        Study.open(tmp_path / "s")
    assert open_study(tmp_path / "s").mining.rules == mining.rules


def test_a_file_does_not_import_the_function_that_it_names(of_function: Path) -> None:
    loaded = GuidedPolicy.load(of_function)
    with pytest.raises(UntrustedCodeError, match=r"names the function 'seen_worlds:thing_in_picture'"):
        GuidedEnv(seen_worlds.PictureWorld(), loaded).reset(seed=0)
    with pytest.raises(LegibleError, match="not of 'seen_worlds:raises'"):
        GuidedEnv(seen_worlds.PictureWorld(), loaded, features="seen_worlds:raises")
    safe = GuidedEnv(seen_worlds.PictureWorld(), loaded, features=FUNCTION)
    observation, info = safe.reset(seed=0)
    assert observation.shape == (seen_worlds.SIZE, seen_worlds.SIZE, 1)
    for _ in range(seen_worlds.STEPS):
        right = info["column"] > 5
        *_, info = safe.step(np.int64(0))
        assert (info["intervention"] is not None) == right


@pytest.mark.slow
def test_the_file_is_checked_and_played_by_who_trusts_it(of_function: Path) -> None:
    loaded = load_policy(of_function)
    assert any(found.answer == "no" for found in check_env(WORLD, loaded, time_limit=None))
    assert all(found.answer != "no" for found in check_env(WORLD, loaded, features=FUNCTION, time_limit=None))
    player = _player(loaded, 0, unguided=False, trust=True)
    env = environment_for(player, WORLD).make()
    rows, _ = env.reset(seed=0)
    assert player.predict(rows)[0] in (0, 1)
    distrusted = environment_for(_player(loaded, 0, unguided=False, trust=False), WORLD).make()
    with pytest.raises(UntrustedCodeError):
        distrusted.reset(seed=0)


def test_a_network_learns_from_its_picture_what_rules_read_off_it(of_function: Path, raises_saved) -> None:
    few = DistillationSettings(rounds=1, episodes=40, steps=400, batch=64, check_episodes=40, final_episodes=40)
    found = distil(of_function, environment=PICTURES, trust=True, settings=few)
    played = found.comparison
    assert played.base.returns.mean() < played.guided.returns.mean()
    assert played.base.returns.mean() < played.distilled.returns.mean()
    with raises_saved(UntrustedCodeError):
        distil(of_function, environment=PICTURES, settings=few)


def test_a_guided_policy_that_remembers_is_mined(tmp_path: Path) -> None:
    own = turning_world.TurningWorld.feature_space
    space = FeatureSpace.from_dict({**own.to_dict(), "derived": {"before": "last_action"}})
    policy = load_policy(turning_world.turns_in_gusts, output="values", n_features=2, n_actions=2)
    guided = GuidedPolicy(policy, [parse_rule("+GoOn <- before = 1", space)], space)
    settings = replace(SMALL, episodes=20)
    made = make_study(tmp_path, "turning_world:TurningWorld", guided, settings=settings)
    rules = [mined.rule.text(made.space) for mined in made.mine().rules]
    assert any("before" in rule for rule in rules)
    taken = made.experiences
    after = taken.observations[:, 2] == turning_world.TURN
    assert np.all(taken.actions[after] == turning_world.GO_ON)
