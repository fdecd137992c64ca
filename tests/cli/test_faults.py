"""Faults of environments and policies: one line that says what is wrong, where, and what to do."""

from collections.abc import Callable

import pytest

import faulty_environments
from legible import cli
from legible.cli import commands

ENVIRONMENTS = (
    *("OldReset", "OldResetOfTwo", "OldStep", "OldStep-v0", "OldSeed", "OldObject"),
    *("RaisesInInit", "RaisesInReset", "RaisesInStep", "NeedsArgument"),
    *("NanReward", "LateInfiniteReward", "NoReward", "NoInfo"),
    *("NanObservation", "OtherShape", "OtherType", "MissingEntry", "NoObservationSpace", "NoActionSpace"),
    *("Aec", "Parallel", "make_vector", "make_number", "NoSuchThing", "Lines"),
)
POLICIES = ("unpacks", "decides", "columns", "lists", "numbers", "three", "raises", "nothing", "not_numbers", "godo")
RUN = ("--engine", "inline", "--preset", "quick", "--out", "s")


def refused(done) -> str:
    """Return the one line of a command that was refused; it asks for no report of a bug."""
    lines = done.err.splitlines()
    assert done.code in {1, 2}, done
    assert len(lines) == 1, done
    assert "report it" not in done.err
    return lines[0]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_faults_of_environments_are_named_by_every_command(legible, snapshot, tmp_path, monkeypatch, name) -> None:
    monkeypatch.chdir(tmp_path)
    env, policy = f"faulty_environments:{name}", ("faulty_environments:good", "--policy-output", "values")
    said = {"play": refused(legible("play", env)), "run": refused(legible("run", env, *policy, *RUN))}
    checked = legible("check", env)
    assert "report it" not in checked.err + checked.out
    said["check"] = refused(checked) if checked.err else next(one for one in checked.out.splitlines() if one[0] == "✗")
    assert "\n".join(f"{command}: {line}" for command, line in said.items()) == snapshot


@pytest.mark.parametrize("name", POLICIES)
def test_faults_of_policies_are_named_by_every_command(legible, snapshot, tmp_path, monkeypatch, name) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("faulty_environments:Line", f"faulty_environments:{name}", "--policy-output", "values")
    said = refused(legible("run", *words, *RUN))
    assert {refused(legible(command, *words)) for command in ("play", "check")} == {said}
    assert said == snapshot


def test_actions_that_the_environment_does_not_have(legible, snapshot, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(legible("play", "faulty_environments:Line", "faulty_environments:illegal")) == snapshot(
        name="illegal"
    )
    seven = ("faulty_environments:Line", "faulty_environments:sevens", "--policy-output", "actions")
    assert refused(legible("play", *seven)) == snapshot(name="function")
    far = ("faulty_environments:Strict", "faulty_environments:far", "--policy-output", "actions")
    assert legible("play", *far).code == 0  # functions of continuous actions saturate at the bounds


def test_observations_outside_of_their_space_are_remarked(legible, snapshot) -> None:
    for name in ("Outside", "OutsideOfCategories"):
        played, checked = (legible(command, f"faulty_environments:{name}") for command in ("play", "check"))
        assert (played.code, checked.code) == (0, 0)
        assert played.err == snapshot(name=f"{name}, play")
        assert next(one for one in checked.out.splitlines() if "numbers:" in one) == snapshot(name=f"{name}, check")


def test_observations_outside_of_their_space_are_remarked_in_a_study(legible, tmp_path) -> None:
    words = ("faulty_environments:Outside", "faulty_environments:good", "--policy-output", "values", "--until", "mine")
    done = legible("run", *words, "--engine", "inline", "--set", "episodes=20", "--out", tmp_path / "s")
    assert done.code == 0
    assert "observations leave their space" in done.err


@pytest.mark.parametrize(
    "option",
    [
        ("--rule", "+Left <- at > 1"),
        ("--rule", "+action0 <- wnid > 1"),
        ("--veto", "-action9 <- f0 > 1"),
        ("--veto", "-action1 <- f7 > 1"),
        ("--features", "info:wind"),
        ("--features", "entries:at"),
        ("--features", "obs:x"),
        ("--features", "faulty_environments:god"),
        ("--names", "names.toml"),
    ],
)
def test_mistyped_names_come_with_the_available_ones(legible, snapshot, tmp_path, monkeypatch, option) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names.toml").write_text('[derived]\nnear = "abs(f00) < 1"\n')
    words = ("faulty_environments:Line", "faulty_environments:good", "--policy-output", "values")
    assert refused(legible("run", *words, *option, *RUN)) == snapshot


@pytest.mark.parametrize("name", ["tictactoe_v3", "pettingzoo.classic:tictactoe_v3"])
def test_names_of_games_without_their_prefix(legible, snapshot, name) -> None:
    assert refused(legible("check", name)) == snapshot


def test_check_prints_the_features(legible) -> None:
    shown = legible("check", "CartPole-v1").out
    assert "features: cart.position, cart.velocity" in shown


def test_errors_of_other_code_are_no_bugs_of_legible(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["legible"])

    def call(what: Callable[[], object]) -> str:
        monkeypatch.setattr(commands, "_run", what)
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert left.value.code == 1
        return capsys.readouterr().err

    theirs, ours = call(lambda: faulty_environments.raises([])), call([].pop)
    assert "your code raised RuntimeError: weights" in theirs
    assert "a bug: please report it" in ours
