"""Cross-play: means against each opponent, and the worst opponent with an interval that allows for its choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.play import PolicyChooser, make_slots, play_episodes, stage_seeds
from legible.policies import NetworkPolicy, Plain, save_policy
from legible.policies.network import Layer
from legible.report.comparison import write_cross_play
from legible.workbench import CrossPlay, play_against
from legible.workbench.cross_play import Cell, against
from legible.workbench.looks import interval_of_mean

THROWS = EnvironmentSpec("pettingzoo:small_games:throws", {"seat": "left"})


def always(throw: int) -> NetworkPolicy:
    bias = np.zeros(3, np.float32)
    bias[throw] = 1.0
    return NetworkPolicy((Layer(np.zeros((3, 2), np.float32), bias),), "values", Plain(2))


def play_here(policies: list[Any], opponents: list[Any], **options: Any) -> CrossPlay:
    return play_against(
        THROWS, policies, opponents, **{"episodes": 100, "cache": False, "relations": "none", **options}
    )


@pytest.fixture(scope="module")
def found() -> CrossPlay:
    return play_here(
        [always(0), always(1)],
        ["random", always(2), always(1)],
        names=["rock", "paper"],
        opponent_names=["random", "scissors", "paper"],
    )


def test_every_policy_plays_every_opponent_on_the_same_seeds(found: CrossPlay) -> None:
    means = [[cell.mean.mean for cell in row] for row in found.cells]
    assert means[0][1:] == [10.0, -10.0]
    assert means[1][1:] == [-10.0, 0.0]
    seeds = stage_seeds(0, "compare", 0, 100)
    slots = make_slots(against(THROWS, "random"), 4)
    played = play_episodes(slots, PolicyChooser(always(0), seeds), seeds)
    slots.close()
    assert played.returns.tolist() == found.results[0][0].returns.tolist()
    assert [d.mean for d in found.differences[0]][1:] == [-20.0, 10.0]


def test_the_report_has_the_matrix_and_marks_the_worst_opponents(found: CrossPlay, tmp_path: Path) -> None:
    text = write_cross_play(found, tmp_path / "out" / "cross.html").read_text()
    assert found.headline() in text
    assert [text.count(f">{word}</span>") for word in ("worst", "may be the worst")] == [2, 0]
    assert text.count('class="dot"') == 6


def test_the_worst_opponent_is_named(found: CrossPlay, snapshot: Any) -> None:
    rock, paper = found.worst(0), found.worst(1)
    assert (found.opponents[rock.opponent], found.opponents[paper.opponent]) == ("paper", "scissors")
    assert rock.candidates == (2,)
    assert rock.interval.low < -10.0 < rock.interval.high
    assert found.headline().startswith("No policy is shown")
    assert found.worst_sentence(0).startswith("rock scores lowest against paper")
    data = json.loads(json.dumps(found.to_dict()))
    assert sorted(data) == snapshot
    assert [each["opponent"] for each in data["worst"]] == ["paper", "scissors"]


def test_opponents_that_may_be_the_worst_are_named() -> None:
    found = play_here([always(0)], ["random", "random"], opponent_names=["one", "two"])
    assert found.worst(0).candidates == (0, 1)
    assert "The worst may also be" in found.headline()


def test_a_policy_with_the_best_worst_case() -> None:
    found = play_here([always(0), always(2)], [always(0), always(2)], names=["rock", "scissors"])
    assert found.headline().startswith("rock has the best worst")


@pytest.mark.statistical
def test_the_interval_of_the_worst_holds_whichever_is_the_worst() -> None:
    """With five opponents that are equally bad, the smallest mean is smaller than the truth nearly always."""
    rng, missed, naive = np.random.default_rng(3), 0, 0
    worlds, opponents, tail = 120, 5, 0.05 / 10
    for world in range(worlds):
        cells = []
        for _ in range(opponents):
            values = np.where(rng.random(100) < 0.8, 1.0, -1.0)
            cells.append(Cell(interval_of_mean(values, tail, world, 2.0), 0))
        found = CrossPlay("", "", ("p",), tuple("abcde"), (tuple(cells),), (), 200, 0.05)
        worst = found.worst(0).interval
        missed += not worst.low <= 0.6 <= worst.high
        one = cells[found.worst(0).opponent].mean
        plain = interval_of_mean(np.where(np.arange(100) < 50 * (1 + one.mean), 1.0, -1.0), 0.025, world, 2.0)
        naive += not plain.low <= 0.6 <= plain.high
    assert missed / worlds <= 0.05
    assert naive / worlds > 0.05  # the plain interval of the worst misses more often than it says


def test_games_of_one_agent_have_no_opponents() -> None:
    with pytest.raises(LegibleError, match="has one agent"):
        play_against(EnvironmentSpec("CartPole-v1"), [always(0)], ["random"])


def test_seats_that_others_fill_stay_theirs(tmp_path: Path) -> None:
    path = tmp_path / "rock.safetensors"
    save_policy(always(0), path)
    spec = EnvironmentSpec(
        "pettingzoo:mpe2.simple_tag_v3", {"seat": "adversary_0", "others": {"adversary_1": "random"}}
    )
    assert against(spec, path).arguments["others"] == {"adversary_1": "random", "*": str(path)}
    assert against(THROWS, "random").arguments["others"] == "random"
