"""Extras: what is not installed gives a line that names the extra, and nothing asks for it without need."""

import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from legible.errors import LegibleError
from legible.imports import PACKAGES_OF_EXTRAS, MissingPackageError, needs_extra, optional_package, when_imported

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
# Modules that are about the package of an extra from beginning to end, imported when they are used.
ABOUT_AN_EXTRA = re.compile(
    r"legible\.(policies\.sb3[._]models|server\.(web|widget)|training\.sb3(_checkpoint|_export|_rules)?)"
)
ZOO_POLICY = "zoo:PacmanSmall/ppo/4"
COMMANDS = {
    "train CartPole-v1 --steps 10": "sb3",
    f"export {ZOO_POLICY} policy.zip": "sb3",
    f"run legible/PacmanSmall-v0 {ZOO_POLICY}": "pacman",
    f"run legible/HighwayFast-v0 {ZOO_POLICY}": "highway",
    f"run farama/HighwayFast-v0 {ZOO_POLICY}": "highway",
    f"run highway-fast-v0 {ZOO_POLICY}": "highway",
    "play CartPole-v1 --window": "human",
    f"run Walker2d-v5 {ZOO_POLICY}": "mujoco",
    "run CartPole-v1 policy.onnx": "onnx",
    "run CartPole-v1 hf:somebody/policies": "hub",
    f"run CartPole-v1 {ZOO_POLICY} --engine ray": "ray",
}
HIDE = f"import sys; sys.modules.update(dict.fromkeys({sum(PACKAGES_OF_EXTRAS.values(), ())!r}))\n"


def run_without_extras(program: str, folder: Path) -> str:
    """Run a program in a process of its own in which the packages of all extras are missing."""
    command = [sys.executable, "-c", HIDE + program]
    return subprocess.run(command, cwd=folder, check=True, text=True, capture_output=True, timeout=300).stdout


@pytest.mark.subprocess
def test_commands_name_the_extra_that_they_lack(tmp_path: Path) -> None:
    program = f"""
import contextlib, io, shlex
from legible.cli import main
for words in {list(COMMANDS)!r}:
    sys.argv = ["legible", *shlex.split(words)]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            main()
    except SystemExit as ended:
        print(ended.code, " ".join(said.getvalue().split()))
"""
    (tmp_path / "policy.onnx").write_bytes(b"any")
    lines = run_without_extras(program, tmp_path).splitlines()
    assert len(lines) == len(COMMANDS)
    for words, line in zip(COMMANDS, lines, strict=True):
        extra = f"pip install 'legible-rl[{COMMANDS[words]}]'"
        assert re.match(r"2 legible: ", line), f"legible {words}: {line}"
        assert extra in line, f"legible {words}: {line}"
        assert "unexpected" not in line
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"], "what cannot run must leave nothing behind"


@pytest.mark.subprocess
def test_no_module_imports_an_extra_without_need(tmp_path: Path) -> None:
    program = """
import importlib, pkgutil, legible
for module in pkgutil.walk_packages(legible.__path__, "legible."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except legible.errors.LegibleError as error:
        print(module.name)
"""
    failed = run_without_extras(program, tmp_path).split()
    assert len(failed) == 7
    assert all(ABOUT_AN_EXTRA.fullmatch(name) for name in failed), failed


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert set(PACKAGES_OF_EXTRAS) == set(extras) - {"all", "dev", "docs", "ocatari", "peers"}
    assert [len(extras[name]) for name in PACKAGES_OF_EXTRAS] == [len(p) for p in PACKAGES_OF_EXTRAS.values()]
    (everything,) = extras["all"]
    found = re.fullmatch(r"legible-rl\[(.*)\]", everything)
    assert found is not None
    assert set(found[1].split(",")) == set(PACKAGES_OF_EXTRAS) - {"ray"}


def test_optional_packages(monkeypatch: pytest.MonkeyPatch, raises_saved) -> None:
    assert optional_package("pandas", "pandas", "data frames").__name__ == "pandas"
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with raises_saved(MissingPackageError) as caught:
        optional_package("stable_baselines3", "sb3", "training")
    assert isinstance(caught.value, LegibleError)


def test_errors_because_of_a_missing_package_count_and_others_stay(raises_saved) -> None:
    def fail(name: str, kind: type[Exception] = RuntimeError) -> None:
        try:
            raise ModuleNotFoundError(name=name)
        except ModuleNotFoundError as error:
            raise kind("a window cannot be opened") from error

    with (
        raises_saved(MissingPackageError),
        needs_extra("human", "a window"),
    ):
        fail("pygame")
    # A package that is there but lacks another is broken: its extra would not help.
    with pytest.raises(RuntimeError, match="cannot be opened"), needs_extra("human", "a window"):
        fail("numpy")
    with pytest.raises(ModuleNotFoundError, match="numpy"), needs_extra("human", "a window"):
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")


def test_a_module_is_watched_until_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "watched_module.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders, calls = list(sys.meta_path), []
    when_imported("watched_module", lambda: calls.append("imported"))
    assert importlib.util.find_spec("watched_module") is not None  # somebody asks whether it is installed
    assert not calls
    assert importlib.import_module("watched_module").value == 3
    assert calls == ["imported"]
    assert sys.meta_path == finders
    when_imported("watched_module", lambda: calls.append("it was there"))
    assert calls == ["imported", "it was there"]
