"""``legible play`` and ``legible check`` with policies and environments of all spaces, as a person types them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from flawed_network import save_flawed_network
from legible.environments import EnvironmentSpec
from legible.features import FeatureSpace
from legible.guidance import GuidedPolicy
from legible.play import evaluate_policy
from legible.policies import load_policy
from legible.rules import parse_rule
from play import spaces_environments
from play.spaces_environments import make_model

HERE = spaces_environments.__name__


def saved(folder: Path, algorithm: str, name: str, file: str = "model.zip") -> Path:
    make_model(algorithm, EnvironmentSpec(name).make()).save(folder / file)
    return folder / file


PLAYED = [
    ("DQN", "CartPole-v1"),
    ("SAC", "Pendulum-v1"),
    ("RecurrentPPO", "CartPole-v1"),
    ("PPO", f"{HERE}:Walk"),
    ("PPO", f"{HERE}:Buttons"),
    ("DQN", f"{HERE}:Picture"),
    ("SAC", f"{HERE}:Goal"),
    ("MaskablePPO", f"{HERE}:Masked"),
    ("MaskablePPO", f"{HERE}:MaskedParts"),
    ("DQN", f"{HERE}:Masked"),
]


@pytest.mark.parametrize(("algorithm", "name"), PLAYED, ids=lambda case: case.rpartition(":")[2])
def test_policies_of_all_spaces_play(legible, tmp_path, algorithm, name) -> None:
    path = saved(tmp_path, algorithm, name)
    done = legible("play", name, path, "--seed", 3)
    assert done.code == 0, done.err
    played = evaluate_policy(load_policy(path), name, [3], slots=1).episodes
    assert f"return {played.returns[0]:g} in {played.lengths[0]} steps" in done.out


@pytest.mark.parametrize("kind", ["Buttons", "Matrix", "Goal", "Masked", "MaskedParts", "Pair", "Words", "Graphs"])
def test_random_actions_play_whatever_is_observed(legible, kind) -> None:
    done = legible("play", f"{HERE}:{kind}", "--seed", 3)
    assert done.code == 0, done.err
    assert "in 12 steps" in done.out


def test_continuous_actions_are_shown_as_numbers_with_their_names(legible, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    monkeypatch.setitem(sys.modules, "pygame", None)
    done = legible("play", "Pendulum-v1", saved(tmp_path, "SAC", "Pendulum-v1"), "--fps", 100_000)
    assert re.search(r"step 200, return.*torque −?[\d.]+", done.out), done.out[-500:]
    done = legible("play", f"{HERE}:Buttons", "--fps", 100_000)
    assert re.search(r"step 12, return.*action( [01]){3}\b", done.out)


def test_guided_files_play_guided(legible, tmp_path) -> None:
    save_flawed_network(tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors")
    env = EnvironmentSpec("mirror_world:MirrorWorld").make()
    space: FeatureSpace = env.get_wrapper_attr("feature_space")
    first = space.features[0].name
    rule = parse_rule(f"+{space.action_names[0]} <- {first} <= 1000", space)
    GuidedPolicy(policy, [rule], space).save(tmp_path / "guided.safetensors")
    done = legible("play", "mirror_world:MirrorWorld", tmp_path / "guided.safetensors", "--seed", 1)
    steps = int(re.search(r"in (\d+) steps", done.out)[1])
    assert f"Rules triggered in {steps} steps" in done.out
    returns = [
        evaluate_policy(load_policy(tmp_path / f"{name}.safetensors"), "mirror_world:MirrorWorld", range(20)).mean
        for name in ("policy", "guided")
    ]
    assert returns[0] != returns[1]
    described = legible("check", tmp_path / "guided.safetensors")
    assert (described.code, "rules: 1, which guide it" in described.out) == (0, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("play", f"{HERE}:Lists"), "actions are a Sequence space; policies act in Discrete, MultiDiscrete"),
        (("play", f"{HERE}:Words", "POLICY"), "observations are a Text space; policies read Box, Discrete"),
        (("play", f"{HERE}:Graphs", "POLICY"), "observations are a Graph space; policies read Box, Discrete"),
        (("play", f"{HERE}:Buttons", "POLICY"), "they do not belong together"),
        (("check", "nowhere.zip"), "nowhere.zip: no such file"),
    ],
)
def test_refusals_are_one_line(legible, tmp_path, words, said) -> None:
    path = saved(tmp_path, "PPO", f"{HERE}:Walk")
    done = legible(*(path if word == "POLICY" else word for word in words))
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert said in done.err


@pytest.mark.parametrize(
    ("algorithm", "name", "said"),
    [
        ("RecurrentPPO", "CartPole-v1", "the policy remembers earlier observations"),
        ("MaskablePPO", f"{HERE}:Masked", "the environment masks actions"),
    ],
)
def test_check_says_what_works_and_what_does_not_yet(legible, tmp_path, algorithm, name, said, snapshot) -> None:
    done = legible("check", name, saved(tmp_path, algorithm, name))
    assert done.code == 1, done.err
    *_, line, verdict = done.out.splitlines()
    assert said in line
    assert "legible play" in line
    assert "a study does not yet" in line
    assert verdict == snapshot


@pytest.mark.slow
def test_check_says_what_rules_see_of_dictionaries_and_pictures(legible, tmp_path, snapshot) -> None:
    goal = legible("check", f"{HERE}:Goal", saved(tmp_path, "SAC", f"{HERE}:Goal"))
    assert goal.code == 0, goal.out
    assert re.search(r"features by entries \(\w+", goal.out)
    picture = saved(tmp_path, "DQN", f"{HERE}:Picture", "picture.zip")
    without = legible("check", f"{HERE}:Picture", picture)
    assert without.code == 1
    assert "\n".join(without.out.splitlines()[-2:]) == snapshot
    named = legible("check", f"{HERE}:Picture", picture, "--features", f"{HERE}:brightness", "--json")
    assert named.code == 0, named.out
    found = {finding["question"]: finding["details"] for finding in json.loads(named.out)["findings"]}
    assert "brightness" in found["observations"]
    assert found["policy"].startswith("reads its own observations")


@pytest.mark.parametrize("kind", ["Words", "Graphs", "Lists"])
def test_check_refuses_what_no_policy_reads_or_takes(legible, kind) -> None:
    done = legible("check", f"{HERE}:{kind}")
    assert done.code == 1
    assert "space; policies" in done.out
    assert "legible play works" not in done.out


def test_check_describes_a_policy_alone(legible, tmp_path, snapshot) -> None:
    path = saved(tmp_path, "SAC", "Pendulum-v1", "sac-Pendulum-v0.zip")
    done = legible("check", path)
    assert done.code == 0, done.err
    assert "algorithm: SAC, Stable-Baselines3 " in done.out
    assert "actions: Box(-2.0, 2.0, (1,), float32)" in done.out
    assert next(line for line in done.out.splitlines() if "environment:" in line) == snapshot
    assert "fit for a study: yes" in done.out
    document = json.loads(legible("check", path, "--json").out)
    assert (document["todays_env_id"], document["kind"], document["fit"]) == ("Pendulum-v1", "none", True)
    fit = legible("check", saved(tmp_path, "DQN", "CartPole-v1"))
    assert "scores: values of 2 actions" in fit.out
    assert "fit for a study: yes" in fit.out
    unfit = legible("check", saved(tmp_path, "RecurrentPPO", "CartPole-v1"))
    assert next(line for line in unfit.out.splitlines() if "fit for a study" in line) == snapshot


def test_an_environment_that_cannot_be_drawn_is_played_without_pictures(legible, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    done = legible("play", "CartPole-v1", "--fps", 10000)
    assert done.code == 0, done.err
    assert "pip install 'legible-rl[human]'" in " ".join(done.err.split())
    assert "is played without pictures." in done.err
    assert "The episode is over; return" in done.out
