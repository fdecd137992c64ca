"""The program as a shell starts it: help, completion, training, environments of the current folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from legible import __version__
from legible.settings import all_settings

ZOO = Path(__file__).parents[2] / "zoo" / "PacmanSmall" / "dqn" / "0.safetensors"
SMALL = "legible/PacmanSmall-v0"
COMMANDS = [
    *("run", "show", "settings", "try", "open", "compare", "verify"),
    *("distil", "train", "zoo", "export", "play", "check", "relations"),
]


def legible(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command, columns = [sys.executable, "-m", "legible", *words], {"COLUMNS": "100"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, env=os.environ | columns)


# --- Help ------------------------------------------------------------------------------------------------------------


def test_help_lists_few_commands() -> None:
    shown = legible("--help").stdout
    listed = re.findall(r"^│ ([a-z]+)  ", shown, re.MULTILINE)
    assert listed == COMMANDS
    assert len(listed) <= 14
    assert "Tab completes" in shown
    alone = legible()
    assert (alone.returncode, alone.stderr, "Find weaknesses" in alone.stdout) == (2, "", True)
    assert legible("--version").stdout == f"legible {__version__}\n"


def test_help_of_run_fits_on_a_screen_and_help_all_shows_the_rest() -> None:
    shown, everything = (legible("run", word).stdout for word in ("--help", "--help-all"))
    few, every = (set(re.findall(r"^│ (--[\w-]+)", text, re.MULTILINE)) for text in (shown, everything))
    assert len(few) <= 20
    assert len(shown.rstrip().splitlines()) <= 60
    assert {"--engine", "--trust", "--rules-from", "--normalisation", "--verbose"} <= every - few
    assert few < every
    assert all(f"\n  {setting.dotted} = " in everything for setting in all_settings())
    assert "search.budget =" not in shown


@pytest.mark.parametrize("words", [(), ("run", "--help"), ("relations", "check", "--help"), ("settings", "--all")])
def test_help_imports_nothing_that_takes_long(words: tuple[str, ...]) -> None:
    heavy = ("gymnasium", "numba", "numpy", "torch")
    program = f"""
import sys, legible
sys.argv = ["legible", *{words!r}]
try:
    if {words!r}:
        from legible.cli import main
        main()
finally:
    print("imported:", *(name for name in {heavy!r} if name in sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["imported:"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("legible rel", "plain,relations"),
        ("legible run legible/PacmanSm", "plain,legible/PacmanSmall-v0"),
        ("legible run CartPole-v1 zoo:PacmanSmall/dqn/", "plain,zoo:PacmanSmall/dqn/0"),
        ("legible run CartPole-v1 p.zip --set evaluation.ep", "plain,evaluation.episodes="),
        ("legible run CartPole-v1 p.zip --until im", "plain,improve"),
        ("legible relations show legible/PacmanSmall-v0 tu", "plain,turn"),
        ("legible run legible/PacmanSmall-v0 zoo : PacmanSmall/dqn/0 --relations tu", "plain,turn"),
        ("legible run CartPole-v1 zo", "plain,zoo:"),
        ("legible run CartPole-v1 zoo : PacmanSmall/dqn/", "plain,PacmanSmall/dqn/0"),  # as bash splits words
        ("legible run CartPole-v1 mod", "file,mod"),
        ("legible show my-st", "plain,my-studies/one"),
        ("legible show my-studies/one weak", "plain,weaknesses"),
        ("legible compare my-studies/one my-studies/", "plain,my-studies/two"),
    ],
)
def test_tab_completes(monkeypatch, tmp_path, words: str, found: str) -> None:
    for name in ("one", "two"):
        (tmp_path / "my-studies" / name).mkdir(parents=True)
        (tmp_path / "my-studies" / name / "study.json").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("_LEGIBLE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    offered = legible().stdout.splitlines()
    assert found in offered
    # A shell that is offered files or folders forgets all words.
    assert len(offered) == 1 or {line.partition(",")[0] for line in offered} == {"plain"}


# --- Environments and policies ---------------------------------------------------------------------------------------


@pytest.mark.subprocess
def test_an_environment_of_the_users_own_folder(tmp_path) -> None:
    (tmp_path / "my_levels.py").write_text(
        "from legible_envs.pacman import PacmanEnv\n"
        "def tiny(**more):\n    return PacmanEnv(maze='%%%%\\n%P.%\\n%%%%', **more)\n"
    )
    done = legible("play", "my_levels:tiny", cwd=tmp_path)
    assert (done.returncode, "The episode is won" in done.stdout) == (0, True), done.stderr


@pytest.mark.slow
def test_the_zoo_is_listed_and_its_names_are_policies() -> None:
    listed = legible("zoo").stdout
    assert "zoo:PacmanSmall/dqn/0 " in listed
    assert "2\u202f500\u202f000" in listed
    assert "The episode is won" in legible("play", SMALL, "zoo:PacmanSmall/dqn/0", "--seed", "1").stdout


@pytest.mark.slow
def test_train_writes_a_policy_and_export_hands_it_to_stable_baselines(tmp_path) -> None:
    from stable_baselines3 import DQN

    for words in (
        ("train", "CartPole-v1", "--steps", "300", "--out", "cart"),
        ("export", "cart.safetensors", "again.zip"),
        ("export", "again.zip", "back.safetensors"),
    ):
        done = legible(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "back.safetensors").is_file()
    first, second = (DQN.load(tmp_path / name) for name in ("cart.zip", "again.zip"))
    row = [0.1, 0.2, -0.1, 0.3]
    assert first.predict(row, deterministic=True)[0] == second.predict(row, deterministic=True)[0]


@pytest.mark.slow
def test_train_goes_on_with_a_policy_and_rules(tmp_path) -> None:
    (tmp_path / "rules.txt").write_text("# walls\n-North <- not open.north\n")
    words = ("--steps", "120", "--from", "zoo:PacmanSmall/dqn/0", "--exploration", "0.1", "--margin", "5")
    trained = legible("train", *words, "--rules", "rules.txt", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert "over 250 greedy episodes; before, " in " ".join(trained.stdout.split())
    assert (tmp_path / "policies" / "PacmanSmall-v0-dqn-0-rules.zip").is_file()
