"""``legible distil`` and ``legible mend`` as a person types them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import mirror_world
from flawed_network import save_flawed_network
from legible import GuidedPolicy, load_policy
from legible.play import one_thread
from legible.rules import RuleSet, parse_rule

WORLD = "mirror_world:MirrorWorld"
LEARNING = [
    *("--distil-rounds", 2, "--distil-episodes", 24, "--distil-steps", 100, "--distil-batch", 64),
    *("--distil-learning-rate", 0.002, "--distil-check-episodes", 40, "--distil-final-episodes", 60),
    *("--engine", "inline"),
]
QUICK = """
episodes = 60
[mining]
lime_states = 10
lime_samples = 200
[play]
batch = 8
unit_episodes = 40
[evaluation]
method = "paper"
episodes = 60
confirmation_episodes = 60
[improvement]
episodes = 40
final_episodes = 40
[references]
episodes = 20
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    with one_thread():
        save_flawed_network(folder / "policy.safetensors")
    rules = RuleSet((parse_rule("+Left <- left", mirror_world.SPACE),))
    GuidedPolicy(load_policy(folder / "policy.safetensors"), rules, mirror_world.SPACE).save(
        folder / "guided.safetensors"
    )
    (folder / "mirror.toml").write_text(mirror_world.MIRROR)
    (folder / "quick.toml").write_text(QUICK)
    return folder


def test_distil_says_what_is_kept(legible, place, tmp_path, snapshot) -> None:
    words = ["distil", place / "guided.safetensors", "--env", WORLD, "--out", tmp_path / "network.zip", *LEARNING]
    said = legible(*words)
    assert said.code == 0, said.err
    assert "The network without rules returns" in said.out
    assert "of the gain" in said.out
    assert "Round 1: does what" in said.err
    refused = legible(*words)
    assert refused.code == 2
    assert refused.err == snapshot
    told = json.loads(legible(*words, "--force", "--json").out)
    assert told["kept"] > 0.9
    assert {"mean", "error", "median"} <= told["base"].keys() & told["guided"].keys() & told["distilled"].keys()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["policy.safetensors", "--out", "n.zip"], "is no guided policy and no folder of a study"),
        (["guided.safetensors", "--out", "n.pt"], "not '.pt'"),
        (["guided.safetensors", "--out", "n.zip"], "does not name its environment; give it (--env)"),
        (["guided.safetensors", "--out", "n.zip", "--env", "CartPole-v1"], "they do not belong together"),
        (["guided.safetensors", "--out", "n.zip", "--env", WORLD, "--distil-rounds", "0"], "rounds must be at least 1"),
        (["nothing.safetensors", "--out", "n.zip"], "nothing.safetensors"),
    ],
)
def test_refusals_are_one_line_and_exit_code_2(legible, place, tmp_path, monkeypatch, words, message) -> None:
    monkeypatch.chdir(tmp_path)
    source, *others = words
    said = legible("distil", place / source, *others)
    assert said.code == 2
    assert message in said.err
    assert said.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_environment_that_a_file_names_is_data(legible, place, tmp_path) -> None:
    """A guided policy from somebody else names a factory, which would run whatever it likes."""
    network = load_policy(place / "policy.safetensors")
    harm = {"environment": {"arguments": {"path": str(tmp_path / "harm")}}}
    named = replace(network, env_id="pathlib:Path.mkdir", metadata={**network.metadata, **harm})
    rules = RuleSet((parse_rule("+Left <- left", mirror_world.SPACE),))
    for policy, told in ((named, "pathlib"), (replace(named, env_id="os:mkdir"), "os"), (network, None)):
        GuidedPolicy(policy, rules, mirror_world.SPACE).save(tmp_path / "guided.safetensors")
        said = legible("distil", tmp_path / "guided.safetensors", "--out", tmp_path / "n.zip")
        assert said.code == 2
        assert said.err.count("\n") == 1
        assert "(--env)" in said.err if told is None else f"would import {told}" in said.err
        assert (told is None) or "(--trust)" in said.err
    assert {one.name for one in tmp_path.iterdir()} == {"guided.safetensors"}


def test_a_folder_is_no_file_to_write_and_that_is_said_at_once(legible, place, tmp_path, snapshot) -> None:
    (tmp_path / "n.zip").mkdir()
    words = ["distil", place / "guided.safetensors", "--env", WORLD, "--out", tmp_path / "n.zip", "--force", *LEARNING]
    said = legible(*words)
    assert said.code == 2
    assert said.err == snapshot


@pytest.mark.slow
def test_mend_in_one_folder(legible, place, tmp_path, snapshot) -> None:
    words = [WORLD, place / "policy.safetensors", "--settings", place / "quick.toml", "--no-reports", *LEARNING]
    words += ["--relations", place / "mirror.toml", "--out", tmp_path / "mended"]
    said = legible("mend", *words)
    assert said.code == 0, said.err
    assert "network of round 1 returns" in said.out
    ending = next(line for line in said.out.splitlines() if "Round 2" in line)
    assert ending.rpartition(". ")[2] == snapshot
    told = json.loads(
        legible("mend", tmp_path / "mended", "--json", "--trust", "--no-reports", "--engine", "inline").out
    )
    assert [len(found["confirmed"]) > 0 for found in told["rounds"]] == [True, False]
    assert told["networks"][1]["against_base"]["low"] > 0
    # Neither is a study taken for a mending, nor an empty composition distilled.
    wrong = legible("mend", tmp_path / "mended" / "round-1")
    assert wrong.code == 2
    assert wrong.err == snapshot
    empty = legible("distil", tmp_path / "mended" / "round-2", "--out", tmp_path / "n.zip", "--trust")
    assert empty.code == 2
    assert empty.err == snapshot
