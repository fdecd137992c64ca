"""The commands of a study as a person types them, in one process: what they print, their exit codes, their mistakes."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import mirror_world
from flawed_network import save_flawed_network
from legible import cli
from legible.cli.choice import default_folder, environment_spec
from legible.cli.study import run
from legible.errors import LegibleError
from legible.settings import all_settings
from legible.study import Study
from unfinished import forget_results

WORLD = "mirror_world:MirrorWorld"
STEPS = ("mine", "generalise", "evaluate", "improve", "explain", "report", "baselines")
QUICK = """
episodes = 60
sources = "mined,others,yours"
[mining]
lime_states = 10
lime_samples = 200
[play]
batch = 8
unit_episodes = 40
[evaluation]
method = "paper"
episodes = 40
confirmation_episodes = 40
[improvement]
episodes = 40
final_episodes = 120
[references]
episodes = 20
[baselines]
random_tests = 3
"""


class Broken(mirror_world.MirrorWorld):
    """Fails in the middle of some episodes, from when it is told to."""

    broken, steps = False, 0

    def step(self, action):
        Broken.steps += self.broken
        if Broken.steps > 1000:
            raise RuntimeError("the walker fell over")
        return super().step(action)


class Forgetful(mirror_world.MirrorWorld):
    """Pays no attention to its seed."""

    def _observe(self):
        observation = super()._observe()
        observation[4] = np.random.random()  # noqa: NPY002 (the mistake that is looked for)
        return observation


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a policy, relations and settings."""
    folder = tmp_path_factory.mktemp("place")
    save_flawed_network(folder / "policy.safetensors")
    (folder / "mirror.toml").write_text(mirror_world.MIRROR)
    (folder / "quick.toml").write_text(QUICK)
    return folder


@pytest.fixture(scope="module")
def studied(place: Path) -> Path:
    """A study that has been run."""
    words = words_for(place, place / "studied")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["legible", "run", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            cli.main()
    assert not left.value.code
    return place / "studied"


@pytest.fixture
def unfinished(studied: Path, tmp_path: Path) -> Path:
    """A study whose rule sets are still to be tested."""
    return forget_results(shutil.copytree(studied, tmp_path / "unfinished"))


def words_for(place: Path, out: Path) -> list[object]:
    """ENV, POLICY and options of a small study."""
    return [
        WORLD,
        place / "policy.safetensors",
        "--relations",
        place / "mirror.toml",
        "--settings",
        place / "quick.toml",
        "--engine",
        "inline",
        "--out",
        out,
    ]


def test_run_ends_with_verdict_weaknesses_gain_and_report(legible, studied) -> None:
    played = {path: path.stat().st_mtime_ns for path in (studied / "units").iterdir()}
    done = legible("run", studied, "--trust", "--engine", "inline")
    assert done.code == 0, done.err
    assert {path: path.stat().st_mtime_ns for path in (studied / "units").iterdir()} == played  # nothing twice
    said = " ".join(done.out.split())  # lines break anywhere, and numbers stay with their units by narrow spaces
    assert "The policy is weak" in said
    assert "1. The policy " in said
    assert ", 95 % CI +" in said
    assert str(studied / "guided.safetensors") in done.out
    assert done.out.rstrip().endswith(f"Report: {studied / 'report.html'}")
    assert "<html" in (studied / "report.html").read_text()[:300]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("mine", "Agrees"),
        ("generalise", "relations of actions"),
        ("evaluate", "Unguided: mean return"),
        ("improve", "Rules of the guided policy"),
        ("explain", "The most telling weakness"),
        ("report", "report.html"),
        ("baselines", "random tests, blocking"),
    ],
)
def test_each_step_alone(legible, studied, command, words) -> None:
    done = legible(command, studied, "--trust", "--engine", "inline")
    assert done.code == 0, done.err
    assert words in done.out


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("mine", {"rules", "learned"}),
        ("generalise", {"rule_sets"}),
        ("evaluate", {"verdicts", "base"}),
        ("improve", {"effect", "composition"}),
        ("explain", {"verdict", "weaknesses"}),
        ("report", {"report"}),
        ("baselines", {"baselines"}),
        ("run", {"verdict", "references", "weaknesses", "improvement", "report"}),
    ],
)
def test_json_for_machines(legible, studied, command, keys) -> None:
    done = legible(command, studied, "--trust", "--engine", "inline", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert keys <= document.keys()
    assert document["folder"] == str(studied)
    assert done.err == ""


def test_references_for_machines_and_for_people(legible, studied, place, tmp_path) -> None:
    shutil.copytree(studied, tmp_path / "s")
    words = ("run", tmp_path / "s", "--trust", "--engine", "inline", "--other", f"again={place / 'policy.safetensors'}")
    document = json.loads(legible(*words, "--json").out)
    rows = {row["name"]: row for row in document["references"]}
    assert list(rows) == ["random play", "always Left", "always Right", "always Stay", "again"]
    for row in rows.values():
        assert {"name", "mean", "error", "low", "high", "success", "episodes"} <= row.keys()
        assert row["low"] <= row["mean"] <= row["high"]
    assert rows["again"]["mean"] == document["improvement"]["base"]["mean"]
    assert rows["again"]["episodes"] == rows["random play"]["episodes"] == 120
    assert document["improvement"]["repair"] is True
    assert document["improvement"]["imitates"] is None
    assert "random play" in document["verdict"]
    improved = " ".join(legible("improve", tmp_path / "s", "--trust", "--engine", "inline").out.split())
    assert "random play" in improved
    assert document["verdict"].split(". ")[0] in improved
    assert "again" in (tmp_path / "s" / "report.html").read_text(encoding="utf-8")


def test_another_policy_that_is_not_there_is_named(legible, studied, tmp_path) -> None:
    shutil.copytree(studied, tmp_path / "s")
    done = legible("report", tmp_path / "s", "--trust", "--engine", "inline", "--other", "lost=nowhere.zip")
    assert done.code != 0
    assert "nowhere.zip" in done.err


def test_rules_from_a_study_and_a_policy(legible, studied, place, tmp_path) -> None:
    words = [*words_for(place, tmp_path / "s"), "--rules-from", studied, "--rules-from", place / "policy.safetensors"]
    done = legible("run", *words, "--json")
    assert done.code == 0, done.err
    rows = {row["source"]: row for row in json.loads(done.out)["sources"]}
    assert list(rows) == ["mined", f"others: {studied}", f"others: {place / 'policy.safetensors'}"]
    # It is the same policy: its rules are the mined ones.
    assert rows[f"others: {place / 'policy.safetensors'}"]["tried"] == rows["mined"]["tried"]
    assert rows[f"others: {studied}"]["confirmed"] >= 1
    said = legible("explain", tmp_path / "s", "--trust", "--engine", "inline")
    assert "Where it came from" in said.out
    refused = legible("run", *words_for(place, tmp_path / "t"), "--rules-from", tmp_path / "nowhere")
    assert refused.code == 2
    assert "nowhere: no such file" in refused.err


@pytest.mark.slow
def test_steps_that_are_missing_are_done_first(legible, place, tmp_path) -> None:
    done = legible("improve", *words_for(place, tmp_path / "s"))
    assert done.code == 0, done.err
    assert "raise" in done.out
    assert legible("compare", tmp_path / "s", tmp_path / "s", "--trust", "--episodes", 20).code == 0


@pytest.mark.slow
def test_compare_says_what_two_policies_share(legible, studied, place, tmp_path) -> None:
    shutil.copytree(studied, tmp_path / "other")
    done = legible("compare", studied, tmp_path / "other", "--trust", "--episodes", 40)
    assert done.code == 0, done.err
    assert "of the same policy" in done.out
    assert "helps both" in done.out
    assert "Only the first policy" not in done.out
    words = ("compare", studied, tmp_path / "other", "--trust", "--json", "--episodes", 40)
    document = json.loads(legible(*words).out)
    assert document["difference"]["mean"] == 0.0
    assert document["rules"]["both"]
    assert not document["rules"]["first"]


def test_without_relations_it_says_that_they_would_tell_more(legible, place, tmp_path, snapshot) -> None:
    words = words_for(place, tmp_path / "s")
    words[words.index(place / "mirror.toml")] = "none"
    done = legible("evaluate", *words)
    assert done.code == 0, done.err
    assert next(line for line in done.out.splitlines() if "Relations" in line) == snapshot


# ---- options -------------------------------------------------------------------------------------------------------


def test_every_setting_is_an_option() -> None:
    options = {name for parameter in run.params for name in parameter.opts}
    assert {f"--{setting.dotted.replace('_', '-')}" for setting in all_settings()} <= options


def test_options_come_after_the_file_and_the_file_after_the_preset(legible, place, tmp_path) -> None:
    words = [*words_for(place, tmp_path / "s"), "--preset", "quick", "--seed", 7, "--evaluation.episodes", 41]
    done = legible("mine", *words, "--mining.criterion", "purity")
    assert done.code == 0, done.err
    study = Study.open(tmp_path / "s", trust=True)
    assert study.seed == 7
    assert study.settings.evaluation.episodes == 41  # the option
    assert study.settings.evaluation.confirmation_episodes == 40  # the file
    assert study.settings.improvement.most_candidates == 4  # the preset
    assert study.settings.mining.criterion == "purity"


def test_settings_are_printed_as_the_file_that_can_be_given(legible, place, tmp_path) -> None:
    (tmp_path / "printed.toml").write_text(legible("settings", "--preset", "quick").out)
    words = words_for(place, tmp_path / "s")
    words[words.index(place / "quick.toml")] = tmp_path / "printed.toml"
    assert legible("mine", *words, "--episodes", 60).code == 0
    assert Study.open(tmp_path / "s", trust=True).settings.evaluation.episodes == 25


def test_arguments_and_wrappers_of_the_environment(legible, place, tmp_path) -> None:
    words = words_for(place, tmp_path / "s")
    wrapper = "gymnasium.wrappers:FlattenObservation"
    assert legible("mine", *words, "--arg", "noise=0.25", "--wrap", wrapper).code == 0
    spec = Study.open(tmp_path / "s", trust=True).environment
    assert (spec.arguments, spec.wrappers) == ({"noise": 0.25}, (wrapper,))


def test_normalisation_of_the_policys_observations(legible, place, tmp_path) -> None:
    shutil.copy(place / "policy.safetensors", tmp_path)
    words = words_for(place, tmp_path / "beside")
    words[1] = tmp_path / "policy.safetensors"
    statistics = "mean = [0, 0, 0, 0, 1]\nvar = [1, 1, 1, 1, 4]\nepsilon = 1e-8\nclip = 10\n"
    (tmp_path / "policy.normalisation.toml").write_text(statistics)
    done = legible("mine", *words)
    assert done.code == 0, done.err
    assert f"Observations are normalised with {tmp_path / 'policy.normalisation.toml'}" in done.err
    assert Study.open(tmp_path / "beside", trust=True).policy.normalisation.mean[4] == 1
    words[words.index(tmp_path / "beside")] = tmp_path / "without"
    without = legible("mine", *words, "--normalisation", "none")
    assert (without.code, "normalised" in without.err) == (0, False)
    assert Study.open(tmp_path / "without", trust=True).policy.normalisation is None
    wrong = legible("check", WORLD, tmp_path / "policy.safetensors", "--normalisation", "nowhere.npz")
    assert wrong.code == 2
    assert "nowhere.npz" in wrong.err


def test_a_function_can_be_the_policy_if_the_person_names_it(legible, place, tmp_path) -> None:
    words = words_for(place, tmp_path / "s")
    words[1] = "mirror_world:scores"
    unclear = legible("mine", *words)
    assert unclear.code == 2
    assert "say whether it is values" in unclear.err
    assert "--policy-output" in unclear.err
    done = legible("mine", *words, "--policy-output", "values")
    assert done.code == 0, done.err
    assert legible("explain", tmp_path / "s", "--trust", "--engine", "inline").code == 0
    document = json.loads((tmp_path / "s" / "study.json").read_text())
    document |= {"environment": "CartPole-v1", "wrappers": []}
    del document["_key"], document["_checksum"]
    (tmp_path / "s" / "study.json").write_text(json.dumps(document))
    refused = legible("explain", tmp_path / "s")
    assert refused.code == 2
    assert "would import the module 'mirror_world'" in refused.err
    played = legible("play", WORLD, "mirror_world:scores", "--policy-output", "values")
    assert played.code == 0, played.err


def test_folders_are_named_after_environment_and_policy() -> None:
    assert default_folder("my_levels:tiny", "runs/best.safetensors") == Path("studies/tiny-best")
    assert default_folder("legible/PacmanSmall-v0", "zoo:PacmanSmall/dqn/0") == Path("studies/PacmanSmall-dqn-0")
    assert default_folder("CartPole-v1", "zoo:Other/ppo/1") == Path("studies/CartPole-Other-ppo-1")
    assert default_folder("CartPole-v1", "hf:sb3/dqn-CartPole-v1") == Path("studies/CartPole-sb3-dqn-CartPole-v1")
    assert default_folder("CartPole-v1", "agents.mine:best") == Path("studies/CartPole-agents.mine-best")


def test_arguments_are_toml_or_texts() -> None:
    assert environment_spec("e", ["a=1", "b=[1, 2]", "c=x.lay", "d=true"]).arguments == {
        "a": 1,
        "b": [1, 2],
        "c": "x.lay",
        "d": True,
    }
    with pytest.raises(LegibleError, match="write it as NAME=VALUE"):
        environment_spec("e", ["a"])


# ---- trust ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [*STEPS, "run", "play", "compare"])
def test_a_folder_that_names_code_is_not_opened_without_trust(legible, studied, tmp_path, command) -> None:
    shutil.copytree(studied, tmp_path / "received")
    document = json.loads((tmp_path / "received" / "study.json").read_text())
    document |= {"environment": "os:system", "arguments": {"command": f"touch {tmp_path / 'ran'}"}}
    del document["_key"], document["_checksum"]  # whoever sends a folder can also make it look whole
    (tmp_path / "received" / "study.json").write_text(json.dumps(document))
    done = legible(command, tmp_path / "received", *([studied] if command == "compare" else []))
    assert done.code == 2
    assert "would import os" in done.err
    assert "--trust" in done.err
    assert not (tmp_path / "ran").exists()


def test_wrappers_and_ids_with_a_module_need_trust_too(legible, studied, tmp_path) -> None:
    shutil.copytree(studied, tmp_path / "received")
    document = json.loads((tmp_path / "received" / "study.json").read_text())
    del document["_key"], document["_checksum"]
    for change, module in (
        ({"environment": "CartPole-v1", "wrappers": ["os:system"]}, "os"),
        ({"environment": "antigravity:CartPole-v1"}, "antigravity"),
        (
            {"environment": "highway-v0", "arguments": {"config": {"other_vehicles_type": "antigravity.Car"}}},
            "antigravity",
        ),
    ):
        (tmp_path / "received" / "study.json").write_text(json.dumps({**document, **change}))
        done = legible("explain", tmp_path / "received")
        assert done.code == 2
        assert f"would import {module}" in done.err


@pytest.mark.parametrize(
    "change", [{"environment": 5}, {"arguments": [1]}, {"wrappers": "os:system"}, {"wrappers": [1]}]
)
def test_a_folder_that_names_no_environment_is_damaged(legible, studied, tmp_path, change) -> None:
    shutil.copytree(studied, tmp_path / "received")
    document = json.loads((tmp_path / "received" / "study.json").read_text())
    del document["_key"], document["_checksum"]
    (tmp_path / "received" / "study.json").write_text(json.dumps({**document, **change}))
    done = legible("explain", tmp_path / "received", "--trust")
    assert done.code == 2
    assert "study.json: is damaged" in done.err


@pytest.mark.subprocess
def test_a_file_of_the_current_folder_takes_no_packages_place(studied, tmp_path) -> None:
    (tmp_path / "torch.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    for words in (["explain", str(studied)], ["check", "CartPole-v1"], ["check", f"{Path(__file__).stem}:Broken"]):
        for start in (["-c", "from legible.cli import main; main()"], ["-m", "legible"]):
            command = [sys.executable, *(["-P"] if start[0] == "-c" else []), *start, *words]
            subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert not (tmp_path / "ran").exists()


# ---- places where nothing can be written ---------------------------------------------------------------------------


@pytest.fixture
def read_only(studied, tmp_path, monkeypatch):
    """A finished study in which nothing can be written, made or locked, as on a read-only file system."""
    folder = tmp_path / "read-only"
    shutil.copytree(studied, folder)
    (folder / "lock").unlink(missing_ok=True)
    (folder / "report.html").unlink()
    (folder / "plots").rename(tmp_path / "plots of before")
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    watched = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event not in watched or not guarding or not str(arguments[0]).startswith(str(folder)):
            return
        if event != "open" or int(arguments[2]) & writing:
            raise OSError(errno.EROFS, "Read-only file system", str(arguments[0]))

    guarding = [True]
    sys.addaudithook(refuse)
    yield folder
    guarding.clear()  # a hook stays for as long as the process


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("explain", "The most telling weakness"),
        ("play", "Rules triggered in"),
        ("mine", "Agrees"),
        ("evaluate", "Unguided: mean return"),
        ("improve", "Rules of the guided policy"),
    ],
)
def test_a_finished_study_can_be_read_where_nothing_can_be_written(legible, read_only, command, words) -> None:
    done = legible(command, read_only, "--trust")
    assert done.code == 0, done.err
    assert words in done.out


@pytest.mark.slow
def test_a_report_and_a_comparison_of_a_study_where_nothing_can_be_written(
    legible, read_only, studied, tmp_path
) -> None:
    assert legible("compare", read_only, studied, "--trust", "--episodes", 20).code == 0
    done = legible("report", read_only, "--trust", "--out", tmp_path / "elsewhere")
    assert done.code == 0, done.err
    assert done.out.strip() == f"Report: {tmp_path / 'elsewhere' / 'report.html'}"
    assert (tmp_path / "elsewhere" / "plots" / "verdicts.csv").is_file()
    done = legible("report", read_only, "--trust", "--out", tmp_path / "mine.html")
    assert done.out.strip() == f"Report: {tmp_path / 'mine.html'}"
    assert legible("report", read_only, "--trust", "--html", tmp_path / "again.html").code == 0
    both = legible("report", read_only, "--trust", "--html", tmp_path / "a.html", "--out", tmp_path / "b")
    assert (both.code, "give one of them" in both.err) == (2, True)


def test_what_has_to_be_written_says_where_it_cannot(legible, read_only) -> None:
    done = legible("report", read_only, "--trust")
    assert done.code == 2
    assert "cannot be" in done.err
    assert "Read-only file system" in done.err
    assert len(done.err.splitlines()) == 1


# ---- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["NoSuch-v1", "POLICY"], "cannot be made"),
        (["CartPol-v1", "POLICY"], "Did you mean: `CartPole`"),
        ([WORLD, "nowhere.zip"], "nowhere.zip: no such file"),
        ([WORLD, "zoo:PacmanSmal/dqn/0"], "Did you mean"),
        (["CartPole-v1", "POLICY"], "the policy reads 5 features, but the environment shows 4"),
        ([WORLD, "POLICY", "--out", "FILE/s"], "FILE/s: cannot be made (Not a directory)"),
        ([WORLD, "POLICY", "--settings", "broken.toml"], "broken.toml: is not valid TOML"),
        ([WORLD, "POLICY", "--settings", "nowhere.toml"], "nowhere.toml: cannot be read (No such file or directory)"),
        ([WORLD, "POLICY", "--evaluation.episodes", "1"], "episodes must be at least 2"),
        ([WORLD, "POLICY", "--evaluation.episodes", "many"], "valid int"),
        ([WORLD, "POLICY", "--evaluation.epsodes", "5"], "No such option"),
        ([WORLD, "POLICY", "--relations", "nowhere.toml"], "nowhere.toml: there is no such file"),
        ([WORLD, "POLICY", "--names", "nowhere.toml"], "nowhere.toml: cannot be read"),
        ([WORLD, "POLICY", "--rule", "+Lef <- left"], "Did you mean 'Left'"),
        ([WORLD, "POLICY", "--workers", "3", "--engine", "inline"], "one process, not 3 workers"),
        ([WORLD], "is no folder of a study; give ENV and POLICY"),
        (["."], "holds no study"),
        ([], "Missing argument"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(legible, place, tmp_path, monkeypatch, words, message) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text("")
    (tmp_path / "broken.toml").write_text("episodes = ")
    words = [str(place / "policy.safetensors") if word == "POLICY" else word for word in words]
    done = legible("run", *words)
    assert done.code == 2, done
    assert message in done.err
    assert done.err.startswith("legible: ")
    assert len(done.err.splitlines()) == 1
    assert done.out == ""


@pytest.mark.parametrize("command", STEPS)
def test_every_step_makes_the_same_of_mistakes(legible, place, tmp_path, command) -> None:
    (tmp_path / "FILE").write_text("")
    for words, message in (
        ([WORLD, "nowhere.zip"], "nowhere.zip: no such file"),
        (["CartPole-v1", place / "policy.safetensors"], "do not belong together"),
        ([WORLD, place / "policy.safetensors", "--out", tmp_path / "FILE" / "s"], "cannot be made"),
        ([tmp_path], "holds no study"),
    ):
        done = legible(command, *words)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
        assert message in done.err


def test_settings_of_a_study_cannot_be_changed(legible, studied, place, tmp_path, snapshot) -> None:
    done = legible("evaluate", studied, "--seed", 3)
    assert done.code == 2
    assert done.err == snapshot
    done = legible("evaluate", *words_for(place, studied), "--seed", 3)
    assert done.code == 2
    assert done.err == snapshot


def test_an_episode_that_fails_is_exit_code_1_and_nothing_is_lost(legible, place, tmp_path) -> None:
    words = words_for(place, tmp_path / "s")
    words[0] = f"{__name__}:Broken"
    assert legible("mine", *words).code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Broken, "broken", True)
        done = legible("evaluate", tmp_path / "s", "--trust", "--engine", "inline", "--json")
        assert done.code == 1, done
        assert "the walker fell over" in done.err
        assert "Allow more failures (--most-failed)" in done.err
        assert len(done.err.splitlines()) == 1
    Broken.steps = 0
    words = ("evaluate", tmp_path / "s", "--trust", "--engine", "inline")
    assert legible(*words).code == 1  # failures are not tried for ever
    assert legible(*words, "--most-failed", "0.9").code == 0
    assert legible(*words).code == 0  # the study keeps it


def test_stopping_is_one_line_that_says_how_to_go_on(legible, unfinished, monkeypatch, snapshot) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("legible.study.steps.evaluate", stop)
    done = legible("evaluate", unfinished, "--trust")
    assert done.code == 130
    assert done.err.strip() == snapshot


def test_a_full_disk_is_one_line(legible, place, tmp_path, monkeypatch, snapshot) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("legible.files.os.fsync", no_room)
    done = legible("mine", *words_for(place, tmp_path / "s"))
    assert done.code == 2
    assert done.err == snapshot
    assert len(done.err.splitlines()) == 1
    assert not list((tmp_path / "s").rglob("*.part"))


def test_what_nobody_expected_is_one_line_and_with_verbose_more(legible, unfinished, monkeypatch) -> None:
    def surprise(*_: object, **__: object) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr("legible.study.steps.evaluate", surprise)
    done = legible("evaluate", unfinished, "--trust")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "unexpected ZeroDivisionError: odd" in done.err
    assert "Traceback" in legible("evaluate", unfinished, "--trust", "-v").err


# ---- check and play ------------------------------------------------------------------------------------------------


def test_check_finds_an_environment_fit(legible, snapshot) -> None:
    done = legible("check", "CartPole-v1")
    assert done.code == 0
    assert done.out.splitlines()[-1] == snapshot
    assert "same seed, same episode" in done.out


@pytest.mark.slow
def test_check_knows_randomness_that_comes_later(legible, snapshot) -> None:
    said = legible("check", "legible/PacmanSmall-v0")
    assert next(line for line in said.out.splitlines() if "seeds make" in line) == snapshot
    frozen = legible("check", "FrozenLake-v1", "--arg", "is_slippery=false")
    assert next(line for line in frozen.out.splitlines() if "nothing to test" in line) == snapshot


@pytest.mark.slow
def test_check_finds_what_is_random_without_a_seed(legible) -> None:
    done = legible("check", f"{__name__}:Forgetful", "--json")
    assert done.code == 1
    document = json.loads(done.out)
    assert not document["fit"]
    (bad,) = [finding for finding in document["findings"] if finding["answer"] == "no"]
    assert bad["question"] == "same seed, same episode"
    assert "self.np_random" in bad["details"]


@pytest.mark.slow
def test_check_says_what_rules_see_of_dictionaries(legible, snapshot) -> None:
    pytest.importorskip("minigrid")
    said = legible("check", "MiniGrid-Empty-5x5-v0").out
    assert next(line for line in said.splitlines() if "features by entries" in line) == snapshot
    done = legible("check", "MiniGrid-Empty-5x5-v0", "--wrap", "minigrid.wrappers:FlatObsWrapper")
    assert done.code == 0
    assert "2835 features" in done.out


def test_play_shows_where_rules_step_in(legible, studied, tmp_path) -> None:
    done = legible("play", studied, "--trust", "--seed", 4, "--log", tmp_path / "log.jsonl")
    assert done.code == 0, done.err
    assert "Rules triggered in" in done.out
    unguided = legible("play", studied, "--trust", "--seed", 4, "--unguided")
    assert "Rules" not in unguided.out
    by_file = legible("play", WORLD, studied / "guided.safetensors", "--seed", 4)
    assert by_file.out == done.out
    for line in (tmp_path / "log.jsonl").read_text().splitlines():
        assert json.loads(line)["seed"] == 4


def test_play_without_a_window_says_so(legible, snapshot) -> None:
    done = legible("play", WORLD, "--window")
    assert done.code == 2
    assert done.err == snapshot


def test_worlds_of_these_tests_are_environments() -> None:
    assert issubclass(Broken, gymnasium.Env)
    assert issubclass(Forgetful, gymnasium.Env)
