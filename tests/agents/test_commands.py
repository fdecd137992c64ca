"""Commands in games of several agents: the options of seats, and cross-play."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from legible.cli.choice import with_player_outputs
from legible.cli.commands import app
from legible.environments import EnvironmentSpec
from legible.policies import NetworkPolicy, Plain, save_policy
from legible.policies.network import Layer


def save_constant(path: Path, action: int, actions: int, width: int) -> Path:
    bias = np.zeros(actions, np.float32)
    bias[action] = 1.0
    layer = Layer(np.zeros((actions, width), np.float32), bias)
    return save_policy(NetworkPolicy((layer,), "values", Plain(width)), path)


def run(*words: Any) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGIBLE_CACHE", str(tmp_path / "cache"))


def test_try_finds_a_planted_weakness_in_a_seat(tmp_path: Path) -> None:
    walks = save_constant(tmp_path / "walks.safetensors", 1, 2, 2)
    words = ("try", "pettingzoo:small_games:cliff", walks, "+wait <- distance < 2 & wind = 1", "--seat", "walker_1")
    out = run(*words, "--others", "random", "--engine", "inline", "--json", "--seeds", 400)
    assert json.loads(out)["rules"][0]["verdict"] == "helps"


@pytest.mark.slow
def test_run_finds_a_planted_weakness_in_a_seat_that_takes_turns(tmp_path: Path) -> None:
    """The player stops pushing at a risk of 0.45, as it should, except where two players are left."""
    layers = (
        Layer(np.array([[0, -1], [-1, 0]], np.float32), np.array([3, 9], np.float32)),
        Layer(np.array([[0, 0], [10, 1]], np.float32), np.array([0, -8.55], np.float32)),
    )
    reckless = save_policy(NetworkPolicy(layers, "values", Plain(2)), tmp_path / "reckless.safetensors")
    words = ("run", "pettingzoo:small_games:bank", reckless, "--seat", "player_1", "--others", "random", "--json")
    settings = ("episodes=60", "sources=searched", "search.budget=6000", "search.proposed=2")
    given = [word for setting in (*settings, "evaluation.confirmation_seeds=1500") for word in ("--set", setting)]
    out = run(*words, *given, "--preset", "quick", "--until", "evaluate", "--engine", "inline", "--out", tmp_path / "s")
    confirmed = [row["rule"] for row in json.loads(out)["verdicts"] if row["confirmed"]]
    assert confirmed
    assert all(("wait" in rule) == rule.startswith("+") and "risk" in rule for rule in confirmed)


def test_compare_plays_against_opponents(tmp_path: Path) -> None:
    rock = save_constant(tmp_path / "rock.safetensors", 0, 3, 2)
    paper = save_constant(tmp_path / "paper.safetensors", 1, 3, 2)
    words = ("compare", "pettingzoo:small_games:throws", rock, "--seat", "left", "--against", paper)
    out = run(*words, "--against", "random", "--episodes", 100, "--engine", "inline")
    text = " ".join(out.split())
    assert "lowest against paper: mean" in text
    assert "mean return −10." in text


def test_players_that_are_code_have_the_output_of_the_option() -> None:
    spec = EnvironmentSpec("pettingzoo:small_games:bank", {"seat": "a", "others": {"b": "random", "*": "players:f"}})
    others = with_player_outputs(spec, "values").arguments["others"]
    assert others == {"b": "random", "*": {"policy": "players:f", "output": "values"}}
    assert with_player_outputs(spec, None) is spec


def test_a_cache_knows_the_policies_of_other_seats(tmp_path: Path) -> None:
    rock = save_constant(tmp_path / "rock.safetensors", 0, 3, 2)
    other = save_constant(tmp_path / "other.safetensors", 1, 3, 2)
    words = ("compare", "pettingzoo:small_games:throws", rock, "--seat", "left", "--against", other, "--json")
    first = json.loads(run(*words, "--episodes", 60, "--engine", "inline"))
    save_constant(other, 2, 3, 2)
    second = json.loads(run(*words, "--episodes", 60, "--engine", "inline"))
    assert (first["cells"][0]["mean"], second["cells"][0]["mean"]) == (-10.0, 10.0)
