"""``legible distil``, once and in rounds, as a person types it."""

import json
from dataclasses import replace

import mirror_world
from legible import GuidedPolicy, load_policy
from legible.rules import RuleSet, parse_rule

WORLD = "mirror_world:MirrorWorld"
RULES = RuleSet((parse_rule("+Left <- left", mirror_world.SPACE),))
QUICK = "rounds=2 episodes=24 steps=100 batch=64 learning_rate=0.002 check_episodes=40 final_episodes=60"
LEARNING = ["--engine", "inline", *(w for setting in QUICK.split() for w in ("--set", f"distillation.{setting}"))]


def test_distil_says_how_much_of_the_gain_is_kept(legible, place, tmp_path, snapshot) -> None:
    guided = GuidedPolicy(load_policy(place / "policy.safetensors"), RULES, mirror_world.SPACE)
    guided.save(tmp_path / "guided.safetensors")
    words = ["distil", tmp_path / "guided.safetensors", "--env", WORLD, "--out", tmp_path / "network.zip", *LEARNING]
    said = legible(*words)
    assert (said.code, "of the gain" in said.out) == (0, True), said.err
    assert "agrees with the guided policy" in said.err
    refused = legible(*words)
    assert (refused.code, refused.err) == (2, snapshot)
    document = json.loads(legible(*words, "--force", "--json").out)
    assert document["kept"] > 0.9


def test_the_environment_that_a_file_names_is_data(legible, place, tmp_path) -> None:
    """A guided policy from somebody else names a factory, which would run whatever it likes."""
    network = load_policy(place / "policy.safetensors")
    harm = {"environment": {"arguments": {"path": str(tmp_path / "harm")}}}
    named = replace(network, env_id="pathlib:Path.mkdir", metadata={**network.metadata, **harm})
    for policy, module in ((named, "pathlib"), (replace(named, env_id="os:mkdir"), "os"), (network, None)):
        GuidedPolicy(policy, RULES, mirror_world.SPACE).save(tmp_path / "guided.safetensors")
        said = legible("distil", tmp_path / "guided.safetensors", "--out", tmp_path / "n.zip")
        assert said.code == 2
        assert (f"would import {module}" if module else "does not name its environment") in said.err
    assert not (tmp_path / "harm").exists()


def test_rounds_in_one_folder(legible, words_for, tmp_path, snapshot) -> None:
    words = [*words_for(tmp_path / "mended"), "--set", "evaluation.episodes=60", "--rounds", 3, "--no-reports"]
    words += ["--set", "evaluation.confirmation_episodes=60", "--set", "mistakes.when=never", *LEARNING]
    said = legible("distil", *words)
    assert said.code == 0, said.err
    assert "network of round 1 scores" in said.out
    assert next(line for line in said.out.splitlines() if "Round 2" in line).rpartition(". ")[2] == snapshot
    again = legible("distil", tmp_path / "mended", "--json", "--trust", "--no-reports", "--engine", "inline")
    document = json.loads(again.out)
    assert [len(found["confirmed"]) > 0 for found in document["rounds"]] == [True, False]
    assert document["networks"][1]["against_base"]["low"] > 0
    empty = legible("distil", tmp_path / "mended" / "round-2", "--out", tmp_path / "n.zip", "--trust")
    assert (empty.code, empty.err) == (2, snapshot)
