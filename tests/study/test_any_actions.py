"""Studies of policies whose actions are made of several parts, or continuous, from the policy to the report."""

from pathlib import Path

import numpy as np
import pytest
from stable_baselines3.common.evaluation import evaluate_policy as sb3_evaluate_policy

from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.features import is_cut
from legible.guidance import GuidedPolicy
from legible.play import collect, play_policy, stage_seeds
from legible.policies import load_policy
from legible.report import write_report
from legible.rules import parse_rule
from legible.study import Study
from legible.study.check import check_env
from play.spaces_environments import Buttons, Matrix, Walk, make_model
from study.studies import make_study, open_study, settings_of

SETTINGS = settings_of(
    sources="mined,yours",
    episodes=40,
    mining={"lime_states": 10, "lime_samples": 200, "min_accuracy": 0.7},
    play={"batch": 8, "unit_episodes": 20},
    evaluation={
        "rung_changes": 8,
        "rungs": 2,
        "race_seeds": 40,
        "confirmation_seeds": 300,
        "confirmation_episodes": 10,
        "alpha": 0.3,
    },
    improvement={"episodes": 10, "final_episodes": 10},
    references={"episodes": 10},
)
WORLDS = {"parts": ("PPO", Walk), "switches": ("PPO", Buttons), "numbers": ("SAC", Matrix)}


@pytest.fixture(scope="module", params=WORLDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Study:
    algorithm, world = WORLDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    model = make_model(algorithm, world())
    model.save(folder / "model.zip")
    spec = EnvironmentSpec(f"play.spaces_environments:{world.__name__}")
    names = {"parts": "action1.1", "switches": "action1.on", "numbers": "action0.high"}
    study = make_study(
        folder / "study", spec, folder / "model.zip", rules=[f"+{names[request.param]} <- f0 > 0"], settings=SETTINGS
    )
    study.run()
    return study


def test_a_study_goes_to_the_report(made: Study) -> None:
    experiences = made.experiences
    assert is_cut(made.space)
    assert experiences.actions.shape == (len(experiences), len(made.space.groups))
    assert made.mining.rules
    assert {made.space.group_of(found.rule.action) for found in made.mining.rules} == set(range(len(made.space.groups)))
    assert write_report(made).stat().st_size > 10_000
    given = made.evaluation.verdicts[-1]
    assert given.rule_set.source == parse_rule(made.rule_texts[0], made.space)
    assert 0 < given.sample.changed < 1


def test_the_base_return_is_that_of_stable_baselines3(made: Study) -> None:
    algorithm, world = next(pair for pair in WORLDS.values() if made.environment.name.endswith(pair[1].__name__))
    env = world()
    model = make_model(algorithm, env)
    for seed in stage_seeds(0, "final", 0, 2):
        model.set_env(env)
        wrapped = model.get_env()
        wrapped.seed(seed)
        expected, _ = sb3_evaluate_policy(model, wrapped, n_eval_episodes=1)
        played = play_policy(made.policy, made.environment, [seed])
        assert played.returns[0] == pytest.approx(expected, abs=1e-4)
        place = seed - stage_seeds(0, "final", 0, 1)[0]
        assert made.improvement.final_blocks.base.returns[place] == pytest.approx(expected, abs=1e-4)


def test_what_was_done_is_kept_beside_the_choices(made: Study) -> None:
    experiences, groups = made.experiences, made.space.groups
    for number, group in enumerate(groups):
        column = experiences.numbers[:, number]
        inside = column if group.regions is None else group.regions.region_of(column)
        assert (experiences.actions[:, number] == group.first + inside).all()
        if group.regions is not None:
            assert np.bincount(inside.astype(int), minlength=group.count).min() > 0
    frame = experiences.to_frame()
    assert f"number.{groups[0].name}" in frame.columns


def test_a_study_is_opened_again_with_its_choices(made: Study) -> None:
    again = open_study(made.folder)
    assert again.space == made.space
    assert [v.p for v in again.evaluation.verdicts] == [v.p for v in made.evaluation.verdicts]
    assert again.improvement.effect == made.improvement.effect


def test_the_guided_policy_gives_actions_of_the_space_and_is_saved(made: Study, tmp_path: Path) -> None:
    guided = GuidedPolicy(made.policy, made.rules, made.space)
    observations = made.experiences.observations[:50]
    actions, _ = guided.predict(observations)
    env = made.environment.make()
    assert all(env.action_space.contains(action) for action in actions)
    asked = observations[:, 0] > 0
    alone, _ = made.policy.predict(observations)  # type: ignore[attr-defined]
    assert (actions[~asked] == alone[~asked]).all()
    guided.save(tmp_path / "guided.safetensors")
    loaded = GuidedPolicy.load(tmp_path / "guided.safetensors")
    assert (loaded.predict(observations)[0] == actions).all()
    assert play_policy(loaded, made.environment, [1, 2]).returns.shape == (2,)


@pytest.mark.slow
def test_check_finds_them_fit(made: Study) -> None:
    found = {finding.question: finding for finding in check_env(made.environment, made.policy)}
    assert found["actions"].answer == "yes"
    assert "with choices of their own" in found["actions"].details
    assert found["policy"].answer == "yes"
    assert all(finding.answer != "no" for finding in check_env(made.environment))


def test_drawn_actions_are_the_same_whatever_the_batch() -> None:
    policy = load_policy(make_model("SAC", Matrix()))
    spec = EnvironmentSpec("play.spaces_environments:Matrix")
    one, two = (collect(policy, spec, 6, seed=0, sample=True, batch=batch) for batch in (2, 6))
    np.testing.assert_allclose(one.numbers, two.numbers, atol=1e-4)
    calm = collect(policy, spec, 6, seed=0)
    assert np.abs(calm.numbers - one.numbers).max() > 0.1


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ('{ negate = "steering" }', r"mine.toml:3: there is no group or choice called 'steering'"),
        ('{ swap = ["action0.low", "action0.hihg"] }', r"called 'action0.hihg'. Did you mean 'action0.high'"),
    ],
)
def test_relations_on_groups_that_are_not_there_are_refused_before_anything_is_played(
    actions: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_arguments: object, **_options: object) -> None:
        raise AssertionError("an episode began")

    make_model("SAC", Matrix()).save(tmp_path / "model.zip")
    (tmp_path / "mine.toml").write_text(f'[[relation]]\nname = "mirror"\nactions = {actions}\n')
    monkeypatch.setattr(Matrix, "reset", never)
    spec = EnvironmentSpec("play.spaces_environments:Matrix")
    with pytest.raises(LegibleError, match=message):
        make_study(tmp_path / "study", spec, tmp_path / "model.zip", relations=tmp_path / "mine.toml")
    assert not (tmp_path / "study").exists()
