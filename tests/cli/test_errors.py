"""Mistakes on the command line: one line on standard error that names the mistake, and exit code 2."""

import shlex

import pytest
import torch

import mirror_world
from legible import GuidedPolicy, load_policy
from legible.rules import RuleSet, parse_rule
from play.spaces_environments import Walk, make_model

CASES = {
    "explain s": "No such command 'explain'",
    # Environments and policies
    "run NoSuch-v1 POLICY": "cannot be made",
    "run CartPol-v1 POLICY": "Did you mean: `CartPole`",
    "run CartPole-v1 POLICY": "the policy reads 5 features, but the environment shows 4",
    "run WORLD nowhere.zip": "nowhere.zip: no such file",
    "run WORLD zoo:PacmanSmal/dqn/0": "Did you mean 'PacmanSmall/dqn/0'",
    "play legible/PacmanSmal-v0": "Did you mean: `PacmanSmall`",
    "play WORLD --window": "cannot be watched in a window",
    "play SPACES:Lists": "actions are a Sequence space; policies act in Discrete, MultiDiscrete",
    "play SPACES:Words WALK": "observations are a Text space; policies read Box, Discrete",
    "play SPACES:Graphs WALK": "observations are a Graph space; policies read Box, Discrete",
    "play SPACES:Buttons WALK": "they do not belong together",
    "check nowhere.zip": "nowhere.zip: no such file",
    "check WORLD POLICY --normalisation nowhere.npz": "nowhere.npz",
    "relations check NoSuch-v1": "cannot be made",
    # Settings and other options
    "run WORLD POLICY --settings broken.toml": "broken.toml: is not valid TOML",
    "run WORLD POLICY --settings nowhere.toml": "nowhere.toml: cannot be read (No such file or directory)",
    "run WORLD POLICY --set evaluation.episodes=1": "episodes must be at least 2",
    "run WORLD POLICY --set evaluation.episodes=many": "must be a whole number, got 'many'",
    "run WORLD POLICY --set play.sample=1": "sample must be true or false, got 1",
    "run WORLD POLICY --set evaluation.epsodes=5": "Did you mean 'evaluation.episodes'",
    "run WORLD POLICY --set episodes": "write it as NAME=VALUE",
    "run WORLD POLICY --evaluation.episodes 5": "No such option",
    "run WORLD POLICY --objective fame": "there is no objective 'fame'",
    "run WORLD POLICY --until explain": "is not one of 'mine', 'generalise'",
    "run WORLD POLICY --relations nowhere.toml": "nowhere.toml: there is no such file",
    "run WORLD POLICY --names nowhere.toml": "nowhere.toml: cannot be read",
    "run WORLD POLICY --rule '+Lef <- left'": "Did you mean 'Left'",
    "run WORLD POLICY --rules-from nowhere": "nowhere: no such file",
    "run WORLD POLICY --arg noise": "write it as NAME=VALUE",
    "run WORLD POLICY --workers 3 --engine inline": "one process, not 3 workers",
    "run WORLD POLICY --out broken.toml/s": "broken.toml/s: cannot be made (Not a directory)",
    # Folders of studies
    "run": "Missing argument",
    "run WORLD": "is not the folder of a study; give ENV and POLICY",
    "run .": "holds no study",
    "run STUDY --seed 3": "--seed: the settings of",
    "run STUDY --set episodes=5": "--set episodes: the settings of",
    "run WORLD POLICY --seed 3 --out STUDY": "holds a study with other settings",
    "show STUDY verdicts": "is not one of 'verdict', 'weaknesses'",
    "show STUDY --replay 3": "--replay belongs to the report",
    "show STUDY rules --other a.zip": "--other belongs to the report",
    "show STUDY report --replay 5 --trust": "seed 5 was not played",
    "show STUDY report --other lost=nowhere.zip --trust": "nowhere.zip",
    "show nowhere": "nowhere: holds no study (there is no such folder)",
    # Distillation
    "distil POLICY --out n.zip": "neither a guided policy nor the folder of a study",
    "distil nowhere.safetensors --out n.zip": "nowhere.safetensors",
    "distil GUIDED": "--out FILE is missing",
    "distil GUIDED --out n.pt": "not '.pt'",
    "distil GUIDED --out folder.zip --env WORLD --force": "is a folder; give the name of a file",
    "distil GUIDED --out n.zip": "does not name its environment; give it (--env)",
    "distil GUIDED --out n.zip --arg noise=1": "--arg and --wrap need --env",
    "distil GUIDED --out n.zip --env CartPole-v1": "they do not belong together",
    "distil GUIDED --out n.zip --env WORLD --set distillation.rounds=0": "rounds must be at least 1",
    "distil GUIDED --out n.zip --set distillation.rouds=2": "Did you mean 'distillation.rounds'",
    "distil GUIDED --out n.zip --rounds 2": "--rounds needs ENV and POLICY",
    "distil WORLD POLICY --out STUDY": "holds a study, not rounds of distillation",
}


@pytest.fixture(scope="module")
def names(place, studied) -> dict[str, str]:
    """Return the names that stand for files in these command lines."""
    rules = RuleSet((parse_rule("+Left <- left", mirror_world.SPACE),))
    policy, guided = place / "policy.safetensors", place / "guided.safetensors"
    GuidedPolicy(load_policy(policy), rules, mirror_world.SPACE).save(guided)
    make_model("PPO", Walk()).save(place / "walk.zip")
    files = {"POLICY": policy, "GUIDED": guided, "WALK": place / "walk.zip", "STUDY": studied}
    return {"WORLD": "mirror_world:MirrorWorld", **{name: str(path) for name, path in files.items()}}


@pytest.mark.parametrize("line", CASES)
def test_mistakes_are_one_line_and_exit_code_2(legible, names, tmp_path, monkeypatch, line) -> None:
    (tmp_path / "broken.toml").write_text("episodes = ")
    (tmp_path / "folder.zip").mkdir()
    monkeypatch.chdir(tmp_path)
    words = [names.get(word, word.replace("SPACES", Walk.__module__)) for word in shlex.split(line)]
    done = legible(*words)
    assert (done.code, len(done.err.splitlines()), done.out) == (2, 1, ""), done
    assert done.err.startswith("legible: ")
    assert CASES[line] in done.err
    assert {path.name for path in tmp_path.iterdir()} == {"broken.toml", "folder.zip"}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_is_run_only_with_trust(legible, tmp_path):
    torch.jit.script(torch.nn.Linear(4, 2)).save(str(tmp_path / "program.pt"))
    words = ["CartPole-v1", tmp_path / "program.pt", "--policy-output", "values"]
    for command in ("check", "play", "run"):
        refused = legible(command, *words)
        assert refused.code == 2
        assert "--trust" in refused.err
    assert legible("check", *words, "--trust").code == 0
    assert legible("play", *words, "--trust").code == 0
