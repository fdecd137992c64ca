import json

import numpy as np
import pytest

import mirror_world
import seen_worlds
import steering_world
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.policies import load_policy
from legible.report.comparison import write_comparison
from legible.workbench import compare_policies
from small_studies import WORLD

ONLY_ON_THE_LEFT = "left = 1"


def compare_here(*policies, world=WORLD, **options):
    return compare_policies(
        world, *policies, **{"engine": InProcess(), "episodes": 300, "relations": "none", **options}
    )


def damaged_scores(observations: np.ndarray) -> np.ndarray:
    """Return the scores of the best policy, but it stays where it is when the goal is left and luck is high."""
    scores = mirror_world.right_scores(observations)
    scores[(observations[:, 0] == 1) & (observations[:, 4] > 0.5)] = [0.0, 0.0, 1.0]
    return scores


def damaged():
    return load_policy(damaged_scores, output="values", n_features=5, n_actions=3)


def test_the_better_policy_and_where_it_is_better(snapshot) -> None:
    found = compare_here(mirror_world.policy(), mirror_world.best_policy(), names=["flawed", "best"])
    mean, *_ = found.differences
    assert found.headline().startswith("best beats flawed by")
    assert mean.better == 1
    assert 0 < mean.interval.low < mean.interval.mean < mean.interval.high
    assert [difference.name for difference in found.differences] == ["mean", "worst-tenth", "success", "length"]
    assert found.situations
    assert any("left" in situation.text(found.space) for situation in found.situations)
    assert all(situation.mean > 0 for situation in found.situations)
    assert found.habits[0] or found.habits[1]
    assert found.policies[1].endings == {"it succeeds": 1.0}
    assert sorted(found.to_dict()) == snapshot


def test_a_damage_in_one_situation_is_named() -> None:
    found = compare_here(mirror_world.best_policy(), damaged(), names=["old", "new"], habits=False)
    assert found.differences[0].better == 0
    first = found.situations[0]
    assert {found.space.names[condition.feature] for condition in first.conditions} <= {"left", "right", "luck"}
    assert "luck" in first.text(found.space)
    assert first.actions == ("Left", "Stay")


def test_a_policy_and_itself_differ_in_nothing(policy_file) -> None:
    found = compare_here(policy_file, policy_file)
    assert found.is_same
    assert found.parted == 0
    assert not found.situations
    assert not any(found.habits)
    assert not found.extremes
    assert all(difference.interval.mean == 0.0 for difference in found.differences)
    assert "to the bit" in found.headline()


def test_an_order_of_the_policies_decides_nothing(policy_file) -> None:
    best = mirror_world.best_policy()
    one, two = compare_here(policy_file, best, habits=False), compare_here(best, policy_file, habits=False)
    mean, other = one.differences[0].interval, two.differences[0].interval
    assert (mean.low, mean.mean, mean.high) == pytest.approx((-other.high, -other.mean, -other.low))


def test_more_policies_are_ranked(policy_file) -> None:
    found = compare_here(policy_file, mirror_world.best_policy(), damaged(), names=["flawed", "best", "damaged"])
    assert [found.names[i] for i, _ in found.ranking] == ["best", "damaged", "flawed"]
    assert dict(found.ranking)[1] == (1, 1)
    assert len(found.pairs) == 3
    alone = compare_here(policy_file, mirror_world.best_policy(), habits=False).differences[0].interval
    assert found.pairs[0, 1].level > alone.level, "three intervals here, four there"


def test_continuous_actions() -> None:
    spec = steering_world.spec(steering_world.Steering)
    flawed, right = (steering_world.policy(steering_world.Steering, flawed=flawed) for flawed in (True, False))
    found = compare_here(flawed, right, world=spec, names=["flawed", "right"])
    assert found.headline().startswith("right beats flawed")
    assert found.situations


def test_pictures_and_dictionaries() -> None:
    pictures = EnvironmentSpec("seen_worlds:PictureWorld")
    found = compare_here(
        seen_worlds.PictureNetwork(), seen_worlds.PictureNetwork(), world=pictures, features="info:row,column"
    )
    assert found.is_same
    goals = EnvironmentSpec("seen_worlds:GoalWorld")
    assert compare_here(seen_worlds.GoalPolicy(), seen_worlds.GoalPolicy(), world=goals).is_same


def test_wrong_input(policy_file, raises_saved) -> None:
    with raises_saved(LegibleError):
        compare_here(policy_file)
    with raises_saved(LegibleError):
        compare_here(policy_file, policy_file, names=["only one"])


def test_the_report_shows_the_two_episodes_that_differ_most(tmp_path, policy_file) -> None:
    found = compare_here(policy_file, mirror_world.best_policy(), names=["<old>", "new"])
    text = write_comparison(found, tmp_path / "out" / "report.html").read_text()
    data = json.loads(text.partition('id="replays">')[2].partition("</script>")[0])
    assert [replay["seed"] for replay in data] == [found.seeds[i] for i in found.extremes]
    assert data[0]["names"] == ["<old>", "new"]
    assert len(data[0]["sides"]) == 2
    assert "&lt;old&gt;" in text
    assert "\nexport " not in text  # a plain script with exports would not run, and show no episode
    assert "<old>" not in text.partition("<body>")[2].partition("<script")[0]
    assert "<PolicyComparison: new beats" in repr(found)
