"""The command line as a person types it."""

import subprocess
import sys
from pathlib import Path

import pytest

from legible import __version__

ZOO = Path(__file__).parents[2] / "zoo" / "PacmanSmall" / "dqn" / "0.safetensors"
SMALL = "legible/PacmanSmall-v0"


def legible(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "legible", *words], capture_output=True, text=True, cwd=cwd, check=False
    )


def test_play_shows_the_end_of_an_episode_and_its_return() -> None:
    done = legible("play", SMALL, "--seed", "1")
    assert done.returncode == 0
    assert "%%%%%%%%%%%%%%%%%%%%" in done.stdout
    assert "is not won; return" in done.stdout


@pytest.mark.slow
def test_a_trained_policy_wins() -> None:
    done = legible("play", SMALL, str(ZOO), "--seed", "1")
    assert done.returncode == 0
    assert "The episode is won" in done.stdout


@pytest.mark.subprocess
def test_an_environment_of_the_users_own_folder(tmp_path) -> None:
    (tmp_path / "my_levels.py").write_text(
        "from legible_envs.pacman import PacmanEnv\n"
        "def tiny(**more):\n    return PacmanEnv(maze='%%%%\\n%P.%\\n%%%%', **more)\n"
    )
    done = legible("play", "my_levels:tiny", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The episode is won" in done.stdout


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("play", "legible/PacmanSmal-v0"), "Did you mean: `PacmanSmall`"),
        (("play", SMALL, "no-such-policy.zip"), "no-such-policy.zip"),
        (("play", "legible/PacmanOriginal-v0", str(ZOO)), "117"),
        (("relations", "check", "NoSuch-v1"), "cannot be made"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(words: tuple[str, ...], message: str) -> None:
    done = legible(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert message in done.stderr
    assert done.stderr.startswith("legible: ")


@pytest.mark.slow
def test_the_zoo_is_listed_and_its_names_are_policies() -> None:
    listed = legible("zoo")
    assert listed.returncode == 0
    assert "zoo:PacmanSmall/dqn/0 " in listed.stdout
    assert "2\u202f500\u202f000" in listed.stdout
    played = legible("play", SMALL, "zoo:PacmanSmall/dqn/0", "--seed", "1")
    assert "The episode is won" in played.stdout
    wrong = legible("play", SMALL, "zoo:PacmanSmal/dqn/0")
    assert wrong.returncode == 2
    assert "Did you mean 'PacmanSmall/dqn/0'" in wrong.stderr


@pytest.mark.slow
def test_train_writes_a_policy_and_export_hands_it_to_stable_baselines(tmp_path) -> None:
    trained = legible("train", "CartPole-v1", "--steps", "300", "--out", str(tmp_path / "cart"))
    assert trained.returncode == 0, trained.stderr
    assert "Mean return" in trained.stdout
    exported = legible("export", str(tmp_path / "cart.safetensors"), str(tmp_path / "again.zip"))
    assert exported.returncode == 0, exported.stderr
    back = legible("export", str(tmp_path / "again.zip"), str(tmp_path / "back.safetensors"))
    assert back.returncode == 0, back.stderr
    assert (tmp_path / "back.safetensors").is_file()
    from stable_baselines3 import DQN

    first, second = (DQN.load(tmp_path / name) for name in ("cart.zip", "again.zip"))
    row = [0.1, 0.2, -0.1, 0.3]
    assert first.predict(row, deterministic=True)[0] == second.predict(row, deterministic=True)[0]


@pytest.mark.slow
def test_train_goes_on_with_a_policy_and_rules(tmp_path, snapshot) -> None:
    (tmp_path / "rules.txt").write_text("# walls\n-North <- not open.north\n")
    common = ("--steps", "120", "--from", "zoo:PacmanSmall/dqn/0", "--exploration", "0.1")
    trained = legible("train", *common, "--rules", "rules.txt", "--margin", "5", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert "over 250 greedy episodes; before, " in " ".join(trained.stdout.split())
    assert trained.stderr.splitlines()[-1] == snapshot
    assert (tmp_path / "policies" / "PacmanSmall-v0-dqn-0-rules.zip").is_file()
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.json").write_text("{}")
    refused = legible("train", *common, "--rules", "study", cwd=tmp_path)
    assert refused.returncode == 2
    assert "its composition is empty" in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr


HEAVY = ("gymnasium", "numba", "numpy", "torch")


@pytest.mark.parametrize("words", [(), ("--help",), ("run", "--help"), ("relations", "check", "--help"), ("settings",)])
def test_help_imports_nothing_that_takes_long(words: tuple[str, ...]) -> None:
    program = f"""
import sys, legible
sys.argv = ["legible", *{words!r}]
try:
    if {words!r}:
        from legible.cli import main
        main()
finally:
    print("imported:", *(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["imported:"]


def test_help_names_the_commands_and_their_groups() -> None:
    done = legible("--help")
    assert done.returncode == 0
    for word in ("A study", "Its steps, each alone", "Policies and environments", "play", "relations", "Tab completes"):
        assert word in done.stdout
    alone = legible()
    assert (alone.returncode, alone.stderr) == (2, "")
    assert "Its steps, each alone" in alone.stdout
    assert legible("--version").stdout == f"legible {__version__}\n"


def test_help_of_a_command_shows_its_own_options_first() -> None:
    shown = legible("run", "--help").stdout
    places = [
        shown.index(word)
        for word in ("ENV|DIR", "--with-baselines", "--seed", "--workers", "--episodes", "--mining.min-accuracy")
    ]
    assert places == sorted(places)
    assert "Settings of rule mining" in shown
    assert "[default: 0.9]" in shown


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("legible rel", "plain,relations"),
        ("legible relations ", "plain,check"),
        ("legible run legible/PacmanSm", "plain,legible/PacmanSmall-v0"),
        ("legible run CartPole-v1 zoo:PacmanSmall/dqn/", "plain,zoo:PacmanSmall/dqn/0"),
        ("legible run CartPole-v1 p.zip --evaluation.ep", "plain,--evaluation.episodes"),
        ("legible run CartPole-v1 p.zip --mining.criterion ", "plain,purity"),
        ("legible relations show legible/PacmanSmall-v0 tu", "plain,turn"),
        ("legible relations show tu", "plain,turn"),
        ("legible run legible/PacmanSmall-v0 zoo : PacmanSmall/dqn/0 --relations tu", "plain,turn"),
        ("legible run CartPole-v1 zo", "plain,zoo:"),
        ("legible run CartPole-v1 zoo : PacmanSmall/dqn/", "plain,PacmanSmall/dqn/0"),  # as bash splits words
        ("legible run CartPole-v1 zoo :", "plain,PacmanSmall/dqn/0"),
        ("legible run CartPole-v1 mod", "file,mod"),
        ("legible report my-st", "plain,my-studies/one"),
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
    told = legible().stdout.splitlines()
    assert found in told
    # A shell that is told of files or folders forgets all words.
    assert len(told) == 1 or {line.partition(",")[0] for line in told} == {"plain"}
