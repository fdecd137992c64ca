"""Rules that see something else than the observation: a memory, entries of dictionaries, info, functions of one's own.

Every policy has a fault that a rule about these features can name; studies are small.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import seen_worlds
import turning_world
from legible.engines import InProcess
from legible.environments import EnvironmentSpec, FeaturedSpec, UntrustedCodeError
from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.guidance import GuidedEnv, GuidedPolicy
from legible.policies import load_policy
from legible.report import write_report
from legible.rules import parse_rule
from legible.settings import StudySettings
from legible.study import Study
from legible.training.rules import TrainingRules
from study.studies import make_study, open_study, settings_of

PICTURES, GOALS = "seen_worlds:PictureWorld", "seen_worlds:GoalWorld"
BEFORE = FeatureSpace.from_dict({"derived": {"before": "last_action"}})


def small(**changes: Any) -> StudySettings:
    settings = settings_of(
        episodes=40,
        sources="mined,searched",
        mining={"lime_states": 20, "lime_samples": 500},
        play={"batch": 32, "unit_episodes": 200},
        evaluation={"rung_changes": 8, "rungs": 2, "race_seeds": 60, "confirmation_seeds": 400},
        search={"budget": 60_000, "most_conditions": 1},
        improvement={"episodes": 60, "final_episodes": 80},
        references={"episodes": 20},
    )
    return settings.updated(changes, "test")


def turning(folder: Path, names: FeatureSpace | None) -> Study:
    policy = load_policy(turning_world.turns_in_gusts, output="values", n_features=2, n_actions=2)
    spec = EnvironmentSpec("turning_world:TurningWorld")
    return make_study(folder, spec, policy, names=names, settings=small())


@pytest.mark.slow
def test_a_fault_that_only_a_memory_can_express(tmp_path: Path) -> None:
    study = turning(tmp_path / "with", BEFORE)
    improvement = study.improve()
    (weakness, *_) = study.explain()
    assert "go on when" in weakness.text()
    assert "the last action was Turn" in weakness.text()
    assert weakness.verdict.is_confirmed
    assert study.space.names == ("gust", "light", "before")
    assert improvement.effect.low > 0.0
    # The policy earns 6 on average, without turning twice in a row it would be 9.2.
    assert improvement.guided.mean > improvement.base.mean + 1.5
    assert study.mining.importance is not None
    assert study.mining.importance.method == "lime and surrogate"

    without = turning(tmp_path / "without", None)
    assert not without.evaluate().confirmed

    again = open_study(tmp_path / "with", policy=study.policy)
    assert again.space == study.space
    assert [rule.text(again.space) for rule in again.improvement.composition.rules] == [
        rule.text(study.space) for rule in improvement.composition.rules
    ]

    # Whoever plays by predict carries the memory as a state, and earns what the study says.
    guided, env = study.guided_policy(), turning_world.TurningWorld()
    assert guided.recurrent
    total, observation, state = 0.0, env.reset(seed=3)[0], None
    for _ in range(turning_world.STEPS):
        action, state = guided.predict(observation, state)
        observation, reward, *_ = env.step(action)
        total += reward
    safe = GuidedEnv(turning_world.TurningWorld(), guided)
    assert total == play_by(safe, lambda seen: turning_world.turns_in_gusts(seen[None])[0].argmax(), 3)


def play_by(env: Any, policy: Any, seed: int) -> float:
    total, over = 0.0, False
    observation, _ = env.reset(seed=seed)
    while not over:
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        total, over = total + reward, terminated or truncated
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "policy", "features", "names", "fault"),
    [
        (PICTURES, seen_worlds.PictureNetwork(), "seen_worlds:thing_in_picture", ("thing.row", "thing.column"), True),
        (PICTURES, seen_worlds.PictureNetwork(), "info:row,column", ("row", "column"), False),
        (GOALS, seen_worlds.GoalPolicy(), None, ("achieved_goal.0", "desired_goal.1", "lamp"), False),
    ],
)
def test_a_fault_in_what_is_no_flat_observation(
    tmp_path: Path, world: str, policy: Any, features: str | None, names: tuple[str, ...], fault: bool, raises_saved
) -> None:
    study = make_study(tmp_path, world, policy, features=features, settings=small())
    assert isinstance(study.environment, FeaturedSpec)
    best = study.evaluate().confirmed[0]
    rule = best.rule_set.rules[0]
    assert set(names) <= set(study.space.names)
    # To go right where the thing is on the right is what it does not do everywhere.
    assert (rule.polarity, rule.action) in {("+", seen_worlds.RIGHT), ("-", seen_worlds.LEFT)}
    assert {"thing.column", "column", "desired_goal.0"} & {study.space.names[i] for i in rule.features}
    assert study.experiences.observations.shape[1] == len(study.space)  # features are kept, no pictures
    assert study.improve().effect.low > 0.0
    importance = study.mining.importance
    assert importance is not None
    assert (importance.method == "surrogate") == (features is not None)
    if not fault:
        return
    assert importance.fidelity > 0.9
    study.play_references()
    study.explain()
    assert "random forest that imitates" in write_report(study).read_text(encoding="utf-8")
    guided = study.guided_policy()
    observation = seen_worlds.PictureWorld().reset(seed=0)[0]
    with raises_saved(LegibleError):
        guided.predict(observation)
    safe = GuidedEnv(seen_worlds.PictureWorld(), guided)
    alone = play_by(seen_worlds.PictureWorld(), lambda seen: policy.scores(seen[None])[0].argmax(), 5)
    assert play_by(safe, lambda seen: policy.scores(seen[None])[0].argmax(), 5) > alone
    with pytest.raises(UntrustedCodeError, match="seen_worlds"):
        Study.open(tmp_path, policy=policy, engine=InProcess())
    assert open_study(tmp_path, policy=policy).space == study.space


def test_features_of_a_function_are_asked_of_the_environment(tmp_path: Path) -> None:
    study = make_study(
        tmp_path, PICTURES, seen_worlds.PictureNetwork(), features="seen_worlds:thing_of_environment", settings=small()
    )
    seen = study.collect()
    assert seen.space.names == ("row", "column")
    right = (seen.observations[:, 1] >= seen_worlds.SIZE // 2) & (seen.observations[:, 0] >= seen_worlds.HIGH)
    assert np.array_equal(seen.actions == seen_worlds.RIGHT, right)


@pytest.mark.parametrize(
    ("features", "error"),
    [
        ("seen_worlds:sometimes_nan", r"sometimes_nan: feature 'row' is nan; every value must be a finite number\."),
        ("seen_worlds:sometimes_wider", r"gave 2 features, 1 are expected, the same in every step; 'column' is not in"),
        ("seen_worlds:names_twice", r"the name 'row' is used for more than one feature\."),
        ("seen_worlds:raises", r"raised ZeroDivisionError"),
        ("seen_worlds:missing", r"has no function 'missing'\."),
        ("no_such_module:missing", r"cannot be imported \(ModuleNotFoundError"),
        ("info:row,colum", "info has no 'colum'. Did you mean 'column'"),
        ("info:row,row", r"the name 'row' is given twice"),
        ("info:words", r"--features info:words: feature 'words' is 'a thing', which is no number"),
        ("seen_worlds:nothing", r"returned nothing; it must return named numbers"),
        ("entries:row", r"observations are Box.*, which has no entries"),
        ("row", r"write entries:NAME,NAME, info:NAME,NAME, objects or the MODULE:FUNCTION"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(tmp_path: Path, features: str, error: str) -> None:
    with pytest.raises(LegibleError, match=error) as raised:
        make_study(tmp_path, PICTURES, seen_worlds.PictureNetwork(), features=features)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_run_names_the_features_that_it_used(tmp_path: Path, legible) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(small(episodes=12, sources="mined").to_toml(), encoding="utf-8")
    policy, features = "seen_worlds:dark_or_bright", "seen_worlds:thing_in_picture"
    words = f"run {PICTURES} {policy} --features {features} --policy-output values --workers 1 --json"
    told = json.loads(legible(*words.split(), "--settings", settings, "--out", tmp_path / "out").out)
    assert told["features"] == ["thing.row", "thing.column"]
    assert f"--features {features}" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", ["pictures need features", "another entry than there is"])
def test_features_that_are_needed_are_named(tmp_path: Path, case: str, raises_saved) -> None:
    with raises_saved(LegibleError):
        if case == "pictures need features":
            make_study(tmp_path, PICTURES, seen_worlds.PictureNetwork())
        make_study(tmp_path, GOALS, seen_worlds.GoalPolicy(), features="entries:desired")


def test_guided_policies_with_a_memory_are_saved(tmp_path: Path, raises_saved) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(2, 2))
    policy = load_policy(network, output="values", n_features=2, n_actions=2)
    space = turning_world.TurningWorld.feature_space
    derived = FeatureSpace.from_dict({**space.to_dict(), "derived": {"before": "last_action"}})
    guided = GuidedPolicy(policy, [parse_rule("+GoOn <- before = 1", derived)], derived)
    with raises_saved(LegibleError):
        TrainingRules.of(guided)
    guided.save(tmp_path / "guided.safetensors")
    loaded = GuidedPolicy.load(tmp_path / "guided.safetensors")
    assert loaded.space == derived
    batch = np.array([[0.9, 0.1], [0.2, 0.3]], np.float32)
    actions, state = loaded.predict(batch)
    assert actions.shape == (2,)
    before = state[0][0][:, 0]
    assert before.tolist() == actions.tolist()
    turned = (np.array([[[1.0], [1.0]]]),)
    assert loaded.predict(batch, turned)[0].tolist() == [0, 0]  # both have just turned
    alone = policy.scores(batch).argmax(axis=1)
    assert loaded.predict(batch, turned, episode_start=[True, True])[0].tolist() == alone.tolist()
