"""A game of the Arcade Learning Environment: the example of the page on features.

Networks that see pictures have a fault; rules speak of bytes of the game's memory and name it.
"""

import json
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from legible.environments import EnvironmentSpec, map_features
from legible.environments.atari import MOST_ALIKE, ObjectReader
from legible.environments.spaces import UnfitEnvironmentError
from study.studies import open_study
from test_documents import blocks_of

PAGE = "docs/features.md"
RECORD = Path(__file__).parents[2] / "lab" / "experiments" / "results" / "freeway.json"
# What the page's search finds is asked directly, in fewer episodes.
FEW = (
    "sources=yours episodes=6 evaluation.episodes=12 evaluation.confirmation_episodes=12 improvement.episodes=4 "
    "improvement.final_episodes=6 references.episodes=2 references.most_constants=1"
)
OPTIONS = [*(word for few in FEW.split() for word in ("--set", few)), "--engine", "inline", "--json"]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The page's command, in a folder with the page's files."""
    pytest.importorskip("ale_py")
    for block in blocks_of(PAGE):
        if block.file in {"freeway.py", "freeway.toml", "small.toml"}:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    commands = [words for block in blocks_of(PAGE) for words in block.commands]
    (words,) = (words for words in commands if words[:2] == ["run", "ALE/Freeway-v5"])
    yield words
    sys.modules.pop("freeway", None)


def check_told(told: dict[str, Any], height: int) -> None:
    assert told["features"] == ["chicken.height", "car.quarter"]
    (weakness,) = told["weaknesses"]
    assert weakness["confirmed"]
    assert re.search(r"\bgo(es)? up when", weakness["headline"])
    assert f"chicken's height is above {height}" in weakness["headline"]
    assert told["improvement"]["effect"]["low"] > 0.0


@pytest.mark.slow
def test_a_fault_of_a_network_that_sees_pictures(page: list[str], legible) -> None:
    check_told(json.loads(legible(*page, *OPTIONS, "--rule", "+UP <- chicken.height>125").out), 125)
    study = open_study("freeway")
    assert study.mining.rules
    report = Path("freeway/report.html").read_text(encoding="utf-8")
    assert "random forest that imitates" in report
    assert "data:image/" in report  # pictures of the game are replayed


def test_the_record_is_of_the_command_on_the_page(page: list[str]) -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    for name, value in record["arguments"].items():
        assert f"{name}={json.dumps(value)}" in page
    (weakness, *_) = record["weaknesses"]
    assert weakness["confirmed"]
    assert "do not wait when" in weakness["headline"]
    assert "chicken's height is above 128" in weakness["headline"]


def save_network_of_sb3(path: Path, environment: EnvironmentSpec) -> None:
    """Save a CnnPolicy that goes up; with something yellow where the chicken has two lanes to go, down."""
    model = pytest.importorskip("stable_baselines3").DQN(
        "CnnPolicy",
        environment.make(),
        buffer_size=1,
        device="cpu",
        policy_kwargs={"net_arch": [], "features_extractor_kwargs": {"features_dim": 1}},
    )
    network = model.policy.q_net
    first, second, third = (network.features_extractor.cnn[i].weight for i in (0, 2, 4))
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.zero_()
        first[0] = torch.tensor([0.05, 0.05, -0.1])[:, None, None]  # yellow, of which grey has nothing
        second[0, 0, 1:3, 1:3] = third[0, 0, 1, 1] = 1.0
        place = torch.zeros(64, 22, 16)
        place[0, 1:5, 4] = 1.0
        network.features_extractor.linear[0].weight[0] = place.flatten()
        network.q_net[0].weight[2, 0] = network.q_net[0].bias[1] = 1.0
    model.save(path)


@pytest.mark.slow
def test_a_fault_of_a_network_of_stable_baselines3(page: list[str], legible) -> None:
    save_network_of_sb3(Path("dqn.zip"), EnvironmentSpec("ALE/Freeway-v5", {"frameskip": 8}))
    of_the_page = page[page.index("--features") :]
    colours = of_the_page.index('obs_type="grayscale"')
    frames = of_the_page.index("FrameStackObservation(stack_size=2)")
    kept = [word for i, word in enumerate(of_the_page) if i not in {colours - 1, colours, frames - 1, frames}]
    # Yellow cars in the upper lanes drive it down as well.
    words = ["run", "ALE/Freeway-v5", "dqn.zip", *kept, *OPTIONS, "--rule", "+UP <- chicken.height>60"]
    check_told(json.loads(legible(*words).out), 60)
    assert "data:image/" in Path("freeway/report.html").read_text(encoding="utf-8")


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


def test_objects_that_are_half_outside_the_picture() -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("ocatari")
    env = EnvironmentSpec("ALE/Freeway-v5", {"frameskip": 8}).make()
    mapped = map_features(env, features="objects")
    observation, info = env.reset(seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(150):
            env.step(1)
            row = mapped.reader.read(observation, info, env)
            assert ((row >= -10) & (row <= 210)).all()


def test_objects_are_those_of_games(raises_saved) -> None:
    with raises_saved(UnfitEnvironmentError):
        ObjectReader.of(EnvironmentSpec("CartPole-v1").make())


def test_without_ocatari_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, raises_saved) -> None:
    pytest.importorskip("ale_py")
    monkeypatch.setitem(sys.modules, "ocatari", None)
    with raises_saved(UnfitEnvironmentError):
        map_features(EnvironmentSpec("ALE/Pong-v5").make(), features="objects")
