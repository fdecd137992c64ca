"""A game of the Arcade Learning Environment: the example of the page on features.

A convolutional network that sees stacked pictures has a fault; rules speak of bytes of the game's memory and name it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from legible import cli
from legible.engines import InProcess
from legible.environments import EnvironmentSpec, map_features
from legible.environments.atari import MOST_ALIKE, ObjectReader
from legible.environments.spaces import UnfitEnvironmentError
from legible.study import Study
from test_documents import blocks_of

PAGE, DOWN = "docs/features.md", 2


def command_of_the_page() -> list[str]:
    (words,) = (
        words for block in blocks_of(PAGE) for words in block.commands if words[:2] == ["run", "ALE/Freeway-v5"]
    )
    return words


def test_a_fault_of_a_network_that_sees_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ale_py")
    for block in blocks_of(PAGE):
        if block.file in {"freeway.py", "freeway.toml", "small.toml"}:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["legible", *command_of_the_page(), "--engine", "inline", "--json"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert not left.value.code
    told = json.loads(capsys.readouterr().out)
    assert told["features"] == ["chicken.height", "car.place"]
    (weakness,) = told["weaknesses"]
    assert weakness["confirmed"]
    assert "go up when the chicken's height is above 125" in weakness["headline"]
    assert told["improvement"]["effect"]["low"] > 0.0
    # The fault is told by the mined rules: it goes down where the chicken is far up.
    study = Study.open(tmp_path / "freeway", trust=True, engine=InProcess())
    assert any(found.rule.action == DOWN and 0 in found.rule.features for found in study.mining.rules)
    report = (tmp_path / "freeway" / "report.html").read_text(encoding="utf-8")
    assert "surrogate" in report
    assert "data:image/" in report  # pictures of the game are replayed
    sys.modules.pop("freeway", None)


def test_objects_of_games_are_features() -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("ocatari")
    env = EnvironmentSpec("ALE/Breakout-v5").make()
    mapped = map_features(env, features="objects")
    assert mapped.space.names == ("player.x", "player.y", "ball.x", "ball.y", "block.count")
    assert dict(mapped.reader.kinds)["Block"] > MOST_ALIKE  # type: ignore[attr-defined]
    observation, info = env.reset(seed=0)
    player, _, ball, *_ = mapped.reader.read(observation, info, env)
    assert ball == -1.0  # before the first shot there is none
    for _ in range(20):
        env.step(2)
    assert mapped.reader.read(observation, info, env)[0] > player  # it went right


def test_objects_are_those_of_games() -> None:
    with pytest.raises(UnfitEnvironmentError, match="no game of the Arcade Learning Environment"):
        ObjectReader.of(EnvironmentSpec("CartPole-v1").make())


def test_without_ocatari_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ale_py")
    monkeypatch.setitem(sys.modules, "ocatari", None)
    with pytest.raises(UnfitEnvironmentError, match=r"package ocatari .*pip install --no-deps ocatari\."):
        map_features(EnvironmentSpec("ALE/Pong-v5").make(), features="objects")
