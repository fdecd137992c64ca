"""``legible play`` and ``legible check`` with policies and environments of all spaces, as a person types them."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import mirror_world
from legible.environments import EnvironmentSpec
from legible.play import evaluate_policy
from legible.policies import load_policy
from play import spaces_environments
from play.spaces_environments import make_model

HERE = spaces_environments.__name__
WORLD, POLICY = "mirror_world:MirrorWorld", "policy.safetensors"


class Forgetful(mirror_world.MirrorWorld):
    """Pays no attention to its seed."""

    def _observe(self):
        observation = super()._observe()
        observation[4] = np.random.random()  # noqa: NPY002 (the mistake that is looked for)
        return observation


def saved(folder: Path, algorithm: str, name: str, file: str = "model.zip") -> Path:
    make_model(algorithm, EnvironmentSpec(name).make()).save(folder / file)
    return folder / file


PLAYED = (
    "DQN CartPole-v1, DQN HERE:Picture, DQN HERE:Masked, SAC Pendulum-v1, SAC HERE:Goal, PPO HERE:Walk, "
    "PPO HERE:Buttons, RecurrentPPO CartPole-v1, MaskablePPO HERE:Masked, MaskablePPO HERE:MaskedParts"
)


@pytest.mark.parametrize("case", PLAYED.split(", "))
def test_policies_of_all_spaces_play(legible, tmp_path, case) -> None:
    algorithm, name = case.replace("HERE", HERE).split()
    path = saved(tmp_path, algorithm, name)
    done = legible("play", name, path, "--seed", 3)
    assert done.code == 0, done.err
    played = evaluate_policy(load_policy(path), name, [3], slots=1).episodes
    assert f"return {played.returns[0]:g} in {played.lengths[0]} steps" in done.out


@pytest.mark.parametrize("kind", ["Buttons", "Matrix", "Goal", "Masked", "MaskedParts", "Pair", "Words", "Graphs"])
def test_random_actions_play_whatever_is_observed(legible, kind) -> None:
    done = legible("play", f"{HERE}:{kind}", "--seed", 3)
    assert (done.code, "in 12 steps" in done.out) == (0, True), done.err


def test_continuous_actions_are_shown_as_numbers_with_their_names(legible, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    monkeypatch.setitem(sys.modules, "pygame", None)
    done = legible("play", "Pendulum-v1", saved(tmp_path, "SAC", "Pendulum-v1"), "--fps", 100_000)
    assert re.search(r"step 200, return.*torque −?[\d.]+", done.out), done.out[-500:]
    done = legible("play", f"{HERE}:Buttons", "--fps", 100_000)
    assert re.search(r"step 12, return.*action( [01]){3}\b", done.out)


def test_guided_policies_play_guided(legible, studied, tmp_path) -> None:
    done = legible("play", studied, "--trust", "--seed", 1, "--log", tmp_path / "log.jsonl")
    assert (done.code, "Rules triggered in" in done.out) == (0, True), done.err
    assert {json.loads(line)["seed"] for line in (tmp_path / "log.jsonl").read_text().splitlines()} == {1}
    file = studied / "guided.safetensors"
    assert legible("play", WORLD, file, "--seed", 1).out == done.out
    assert "Rules" not in legible("play", studied, "--trust", "--seed", 1, "--unguided").out
    returns = [evaluate_policy(load_policy(studied / name), WORLD, range(20)).mean for name in (file.name, POLICY)]
    assert returns[0] > returns[1]
    described = legible("check", file)
    assert (described.code, "which guide it" in described.out) == (0, True)


def test_check_says_that_masks_hold(legible, tmp_path) -> None:
    done = legible("check", f"{HERE}:Masked", saved(tmp_path, "MaskablePPO", f"{HERE}:Masked"))
    assert done.code == 0
    assert "action masks: by action_masks()" in done.out
    assert "trained with masks" in done.out


@pytest.mark.parametrize(
    ("algorithm", "name", "said"), [("RecurrentPPO", "CartPole-v1", "the policy remembers earlier observations")]
)
def test_check_says_what_works_and_what_does_not_yet(legible, tmp_path, algorithm, name, said, snapshot) -> None:
    done = legible("check", name, saved(tmp_path, algorithm, name))
    *_, line, verdict = done.out.splitlines()
    assert (done.code, verdict) == (1, snapshot)
    assert said in line
    assert "studies do not yet" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "question"),
    [
        (["CartPole-v1"], "same seed, same episode"),
        (["legible/PacmanSmall-v0"], "seeds make"),
        (["FrozenLake-v1", "--arg", "is_slippery=false"], "seeds make"),
        (["MiniGrid-Empty-5x5-v0"], "observations"),
        (["MiniGrid-Empty-5x5-v0", "--wrap", "minigrid.wrappers:FlatObsWrapper"], "observations"),
    ],
)
def test_check_finds_environments_fit(legible, words, question, snapshot) -> None:
    if "MiniGrid" in words[0]:
        pytest.importorskip("minigrid")
    done = legible("check", *words)
    assert (done.code, done.out.splitlines()[-1]) == (0, f"{words[0]} is fit for a study.")
    assert next(line for line in done.out.splitlines() if question in line) == snapshot


@pytest.mark.slow
def test_check_finds_what_is_random_without_a_seed(legible) -> None:
    done = legible("check", f"{__name__}:Forgetful", "--json")
    document = json.loads(done.out)
    assert (done.code, document["fit"]) == (1, False)
    (bad,) = [finding for finding in document["findings"] if finding["answer"] == "no"]
    assert (bad["question"], "self.np_random" in bad["details"]) == ("same seed, same episode", True)


@pytest.mark.slow
def test_check_says_what_rules_see_of_dictionaries_and_pictures(legible, tmp_path, snapshot) -> None:
    goal = legible("check", f"{HERE}:Goal", saved(tmp_path, "SAC", f"{HERE}:Goal"))
    assert (goal.code, "features by entries, " in goal.out) == (0, True), goal.out
    picture = saved(tmp_path, "DQN", f"{HERE}:Picture", "picture.zip")
    without = legible("check", f"{HERE}:Picture", picture)
    assert (without.code, "\n".join(without.out.splitlines()[-2:])) == (1, snapshot)
    named = legible("check", f"{HERE}:Picture", picture, "--features", f"{HERE}:brightness", "--json")
    assert named.code == 0, named.out
    found = {finding["question"]: finding["details"] for finding in json.loads(named.out)["findings"]}
    assert "brightness" in found["observations"]
    assert "brightness" in found["features"]
    assert found["policy"].startswith("reads its own observations")


def test_check_describes_a_policy_alone(legible, tmp_path, snapshot) -> None:
    path = saved(tmp_path, "SAC", "Pendulum-v1", "sac-Pendulum-v0.zip")
    done = legible("check", path)
    assert done.code == 0, done.err
    for words in ("algorithm: SAC, Stable-Baselines3 ", "actions: Box(-2.0, 2.0, (1,), float32)", "a study: yes"):
        assert words in done.out
    assert next(line for line in done.out.splitlines() if "environment:" in line) == snapshot
    document = json.loads(legible("check", path, "--json").out)
    assert (document["todays_env_id"], document["kind"], document["fit"]) == ("Pendulum-v1", "none", True)
    assert "scores: values of 2 actions" in legible("check", saved(tmp_path, "DQN", "CartPole-v1")).out
    unfit = legible("check", saved(tmp_path, "RecurrentPPO", "CartPole-v1"))
    assert next(line for line in unfit.out.splitlines() if "fit for a study" in line) == snapshot


def test_an_environment_that_cannot_be_drawn_is_played_without_pictures(legible, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    done = legible("play", "CartPole-v1", "--fps", 10000)
    said = " ".join(done.err.split())
    assert "pip install 'legible-rl[human]'" in said
    assert "is played without pictures." in said
    assert "The episode is over; return" in done.out
