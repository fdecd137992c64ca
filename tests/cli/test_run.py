"""``legible run``, ``compare`` and ``settings`` as a person types them: results, options, exit codes, errors."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from legible.cli.choice import StudyChoice, default_folder, environment_spec, read_settings
from legible.cli.run import UNTIL
from legible.settings import EvaluationSettings, StudySettings, all_settings
from legible.study import Study
from small_studies import SETTINGS, small_study
from unfinished import forget_results

WORLD = "mirror_world:MirrorWorld"
WAY = "the same policy with 5 % random actions"
INLINE = ("--trust", "--engine", "inline")


# --- Results ---------------------------------------------------------------------------------------------------------


def test_a_finished_study_is_not_played_again(legible, studied) -> None:
    played = {path: path.stat().st_mtime_ns for path in (studied / "units").iterdir()}
    done = legible("run", studied, *INLINE)
    assert (done.code, done.out) == (0, legible("show", studied, "--trust").out)
    document = json.loads(legible("run", studied, *INLINE, "--json").out)
    assert {"verdict", "weaknesses", "improvement", "report", "seconds"} <= document.keys()
    assert {path: path.stat().st_mtime_ns for path in (studied / "units").iterdir()} == played
    assert "<html" in (studied / "report.html").read_text()[:300]


@pytest.mark.parametrize("step", UNTIL)
def test_until_a_step_prints_its_section(legible, studied, step) -> None:
    for more in ((), ("--json",)):
        done = legible("run", studied, "--until", step, *INLINE, *more)
        assert (done.code, done.out) == (0, legible("show", studied, UNTIL[step], "--trust", *more).out)


def test_another_policy_is_a_baseline(legible, copied, place) -> None:
    words = ("run", copied, *INLINE, "--other", f"again={place / 'policy.safetensors'}", "--json")
    document = json.loads(legible(*words).out)
    rows = {row["name"]: row for row in document["references"]}
    assert list(rows) == ["random play", "always Left", "always Right", "always Stay", WAY, "again"]
    assert all(row["low"] <= row["mean"] <= row["high"] for row in rows.values())
    assert rows["again"]["mean"] == document["improvement"]["base"]["mean"]
    assert rows["again"]["episodes"] == rows["random play"]["episodes"] == 120
    assert (document["improvement"]["repair"], document["improvement"]["imitates"]) == (True, None)
    assert "again" in (copied / "report.html").read_text(encoding="utf-8")


def test_rules_from_a_study_and_a_policy(legible, studied, place, words_for, tmp_path) -> None:
    policy = place / "policy.safetensors"
    done = legible("run", *words_for(tmp_path / "s"), "--rules-from", studied, "--rules-from", policy, "--json")
    assert done.code == 0, done.err
    rows = {row["source"]: row for row in json.loads(done.out)["sources"]}
    assert list(rows) == ["mined", f"others: {studied}", f"others: {policy}"]
    assert rows[f"others: {policy}"]["tried"] == rows["mined"]["tried"]  # it is the same policy
    assert rows[f"others: {studied}"]["confirmed"] >= 1
    assert "Source of rules" in legible("show", tmp_path / "s", "weaknesses", "--trust").out


def test_without_relations_it_says_how_to_use_some(legible, words_for, tmp_path, snapshot) -> None:
    done = legible("run", *words_for(tmp_path / "s", relations="none"), "--until", "mine")
    assert done.code == 0, done.err
    assert next(line for line in done.out.splitlines() if "relations" in line) == snapshot


# --- Options ---------------------------------------------------------------------------------------------------------


def test_set_comes_after_the_file_and_the_file_after_the_preset(legible, words_for, tmp_path) -> None:
    words = [*words_for(tmp_path / "s"), "--preset", "quick", "--seed", 7, "--set", "evaluation.episodes=41"]
    words += ["--set", "mining.criterion=purity", "--set", 'evaluation.constraint="worst-tenth no lower than by 20"']
    done = legible("run", *words, "--objective", "median", "--until", "mine")
    assert done.code == 0, done.err
    study = Study.open(tmp_path / "s", trust=True)
    evaluation = study.settings.evaluation
    assert (study.seed, study.settings.mining.criterion, evaluation.episodes) == (7, "purity", 41)
    assert evaluation.confirmation_episodes == 40  # the file
    assert study.settings.improvement.most_candidates == 4  # the preset
    assert (evaluation.objective, evaluation.constraint) == ("median", "worst-tenth no lower than by 20")
    choice = StudyChoice(WORLD, "policy.zip", settings_given=("play.epsilon=0.1",), stochastic=True)
    play = choice.arguments("policy.zip")["settings"].play
    assert (play.epsilon, play.sample) == (0.1, True)


def test_every_setting_can_be_set() -> None:
    settings = StudySettings()
    given = read_settings([f"{setting.dotted}={json.dumps(setting.default)}" for setting in all_settings()])
    assert settings.updated(given, "--set") == settings


def test_printed_settings_are_a_file_for_settings(legible, tmp_path) -> None:
    few, every = (legible("settings", "--preset", "quick", *more).out for more in ((), ("--all",)))
    assert len(few) < len(every) / 2
    for printed in (few, every):
        (tmp_path / "printed.toml").write_text(printed)
        words = ("run", WORLD, "nowhere.zip", "--settings", tmp_path / "printed.toml")
        assert "nowhere.zip: no such file" in legible(*words).err  # not: settings that are wrong


def test_arguments_and_wrappers_of_the_environment(legible, words_for, tmp_path) -> None:
    wrapper = "gymnasium.wrappers:FlattenObservation"
    words = (*words_for(tmp_path / "s"), "--arg", "noise=0.25", "--wrap", wrapper, "--until", "mine")
    assert legible("run", *words).code == 0
    spec = Study.open(tmp_path / "s", trust=True).environment
    assert (spec.arguments, spec.wrappers) == ({"noise": 0.25}, (wrapper,))
    arguments = environment_spec("e", ["a=1", "b=[1, 2]", "c=x.lay", "d=true"]).arguments
    assert arguments == {"a": 1, "b": [1, 2], "c": "x.lay", "d": True}


def test_normalisation_of_the_policys_observations(legible, place, words_for, tmp_path) -> None:
    policy = shutil.copy(place / "policy.safetensors", tmp_path)
    statistics = tmp_path / "policy.normalisation.toml"
    statistics.write_text("mean = [0, 0, 0, 0, 1]\nvar = [1, 1, 1, 1, 4]\nepsilon = 1e-8\nclip = 10\n")
    done = legible("run", *words_for(tmp_path / "with", policy=policy), "--until", "mine")
    assert (done.code, f"normalised with {statistics}" in done.err) == (0, True), done.err
    assert Study.open(tmp_path / "with", trust=True).policy.normalisation.mean[4] == 1
    words = (*words_for(tmp_path / "without", policy=policy), "--normalisation", "none", "--until", "mine")
    assert "normalised" not in legible("run", *words).err
    assert Study.open(tmp_path / "without", trust=True).policy.normalisation is None


def test_a_function_can_be_the_policy_if_the_person_names_it(legible, words_for, tmp_path) -> None:
    words = ("run", *words_for(tmp_path / "s", policy="mirror_world:scores"), "--until", "mine")
    unclear = legible(*words)
    assert (unclear.code, "--policy-output" in unclear.err) == (2, True)
    assert legible(*words, "--policy-output", "values").code == 0
    assert legible("show", tmp_path / "s", "rules", "--trust").code == 0
    rewrite(tmp_path / "s", environment="CartPole-v1", wrappers=[])
    refused = legible("run", tmp_path / "s", "--engine", "inline")
    assert (refused.code, "would import the module 'mirror_world'" in refused.err) == (2, True)
    assert legible("play", WORLD, "mirror_world:scores", "--policy-output", "values").code == 0


def test_folders_are_named_after_environment_and_policy() -> None:
    assert default_folder("my_levels:tiny", "runs/best.safetensors") == Path("studies/tiny-best")
    assert default_folder("CartPole-v1", "hf:sb3/dqn-CartPole-v1") == Path("studies/CartPole-sb3-dqn-CartPole-v1")
    assert default_folder("CartPole-v1", "agents.mine:best") == Path("studies/CartPole-agents.mine-best")


# --- Trust -----------------------------------------------------------------------------------------------------------


def rewrite(folder: Path, **changes: object) -> None:
    """Change what a study's folder says, without a checksum: whoever sends a folder can also make it look whole."""
    document = json.loads((folder / "study.json").read_text())
    kept = {name: value for name, value in document.items() if name not in {"_key", "_checksum"}}
    (folder / "study.json").write_text(json.dumps(kept | changes))


@pytest.mark.parametrize("command", ["run", "show", "show … report", "play", "compare", "distil"])
def test_a_folder_that_names_code_is_not_opened_without_trust(legible, copied, tmp_path, command) -> None:
    rewrite(copied, environment="os:system", arguments={"command": f"touch {tmp_path / 'ran'}"})
    more = {"show … report": ["report"], "compare": [copied], "distil": ["--out", tmp_path / "n.zip"]}
    done = legible(command.split()[0], copied, *more.get(command, []))
    assert (done.code, "would import os" in done.err, "--trust" in done.err) == (2, True, True), done.err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"environment": "CartPole-v1", "wrappers": ["os:system"]}, "would import os"),
        ({"environment": "antigravity:CartPole-v1"}, "would import antigravity"),
        ({"environment": "highway-v0", "arguments": {"config": {"other_vehicles_type": "os.Car"}}}, "would import os"),
        ({"environment": 5}, "study.json: is damaged"),
    ],
)
def test_what_a_folder_says_is_data(legible, copied, change, message) -> None:
    rewrite(copied, **change)
    done = legible("show", copied, *(["--trust"] if "damaged" in message else []))
    assert (done.code, message in done.err) == (2, True), done.err


@pytest.mark.subprocess
def test_a_file_of_the_current_folder_takes_no_packages_place(studied, tmp_path) -> None:
    (tmp_path / "torch.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    for words in (["show", str(studied)], ["check", "CartPole-v1"], ["check", "my_levels:tiny"]):
        for start in (["-P", "-c", "from legible.cli import main; main()"], ["-m", "legible"]):
            subprocess.run([sys.executable, *start, *words], cwd=tmp_path, capture_output=True, check=False)
    assert not (tmp_path / "ran").exists()


# --- Errors ----------------------------------------------------------------------------------------------------------


def test_episodes_that_fail_are_exit_code_1_until_more_may_fail(legible, words_for, tmp_path) -> None:
    words = ("run", *words_for(tmp_path / "s", "failing_world:FailingWorld"), "--arg", "every=7", "--until", "mine")
    done = legible(*words, "--json")
    assert (done.code, len(done.err.splitlines())) == (1, 1), done
    assert "the motor is on fire" in done.err
    assert "most_failed" in done.err.replace("-", "_")
    words = ("run", tmp_path / "s", *INLINE, "--until", "mine")
    assert [legible(*words, *more).code for more in ((), ("--set", "most_failed=0.4"), ())] == [1, 0, 0]


@pytest.mark.parametrize("stopped", [True, False], ids=["interrupted", "bug"])
def test_what_ends_a_run_is_one_line(legible, copied, monkeypatch, stopped, snapshot) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("legible.study.steps.evaluate", interrupt if stopped else None)
    done = legible("run", forget_results(copied), *INLINE, "--json")
    assert (done.code, done.err.strip()) == (130 if stopped else 1, snapshot)
    assert ("Traceback" in legible("run", copied, *INLINE, "-v").err) == (not stopped)


def test_a_full_disk_is_one_line(legible, words_for, tmp_path, monkeypatch, snapshot) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("legible.files.os.fsync", no_room)
    done = legible("run", *words_for(tmp_path / "s"), "--until", "mine")
    assert (done.code, done.err) == (2, snapshot)
    assert not list((tmp_path / "s").rglob("*.part"))


@pytest.mark.slow
def test_minutes_for_a_finished_study(legible, tmp_path, policy_file) -> None:
    few = EvaluationSettings(race_seeds=120, confirmation_changes=200, confirmation_seeds=250)
    study = small_study(tmp_path / "s", policy_file, settings=replace(SETTINGS, evaluation=few))
    study.run()
    said = legible("run", study.folder, "--minutes", 0.2, *INLINE)
    assert said.code == 0, said.err
    assert len(Study.open(study.folder, trust=True).evaluation.continuations) == 1
    assert "Continued:" in said.out
