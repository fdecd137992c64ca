"""Replays: the chosen episodes, the steps that rules change, and that replays show what was played."""

import base64
import io
import json
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from PIL import Image

from legible.environments import EnvironmentSpec, feature_space_of
from legible.evaluation.units import Setup, Unit, UnitResult, record_episode, record_unit
from legible.features import FeatureSpace
from legible.play import Recording
from legible.policies import load_policy
from legible.report.interventions import interventions
from legible.report.replays import Replays, _number_replays, make_replays, no_window, record_choices
from legible.report.scenes import FeatureScene, PictureScene, scene_of
from legible.report.selection import choose_episodes
from legible.rules import RuleSet, parse_rule
from legible.settings import PlaySettings
from legible_envs.highway.scene import RoadScene
from legible_envs.pacman.scene import PacmanScene
from played_blocks import result as episodes_with

SPACE = FeatureSpace.of(["gap", "speed", "wish"], ["Brake", "Keep", "Go"])


def results(returns: list[float], changed: list[int], lengths: list[int] | None = None) -> UnitResult:
    return replace(episodes_with(returns), changed=np.array(changed), lengths=np.array(lengths or [10] * len(returns)))


def recording(rows: list[tuple[float, float]], wanted: list[int], actions: list[int] | None = None) -> Recording:
    done = np.array(actions if actions is not None else wanted)
    seen = [(*row, wish) for row, wish in zip(rows, wanted, strict=True)]
    return Recording(0, np.array(seen, np.float32), done, np.array(wanted), np.zeros(len(wanted)))


def setup(guide: RuleSet, **play: object) -> Setup:
    """Make a policy that prefers the action in the last feature."""

    def outputs(observations: np.ndarray) -> np.ndarray:
        return np.eye(3)[observations[:, 2].astype(int)] + [0.0, 0.2, 0.1]  # in doubt, Keep

    policy = load_policy(outputs, output="values", n_features=3, n_actions=3)
    return Setup(policy, EnvironmentSpec("CartPole-v1"), (guide,), PlaySettings(**play))


def rules(*texts: str) -> RuleSet:
    return RuleSet(tuple(parse_rule(text, SPACE) for text in texts))


def test_extremes_and_a_typical_gain_are_chosen() -> None:
    base = results([0.0] * 7, [0] * 7)
    guided = results([5.0, 1.0, 2.0, 3.0, -4.0, 9.0, -1.0], [1, 1, 1, 1, 1, 0, 1])
    chosen = choose_episodes(base, guided, 2, extremes=True)
    # Episode 5 gained most, but guidance changed nothing there: noise is no reason to show it.
    assert [choice.episode for choice in chosen] == [0, 1, 4]
    assert {choice.treatment for choice in chosen} == {2}
    assert [choice.why.split(":")[0] for choice in chosen][1:] == ["a typical gain", "the largest loss"]


def test_the_typical_gain_is_the_shortest_of_the_middle_ones() -> None:
    n = 21
    base = results([0.0] * n, [0] * n)
    lengths = [1] * 8 + [50, 50, 50, 20, 50] + [1] * 8
    guided = results([float(i + 1) for i in range(n)], [1] * n, lengths)
    assert choose_episodes(base, guided, 0, extremes=False)[0].episode == 11


def test_where_nothing_gains_the_largest_loss_is_shown_and_where_nothing_changes_nothing() -> None:
    base = results([0.0, 0.0], [0, 0])
    assert [c.episode for c in choose_episodes(base, results([-1.0, -2.0], [1, 1]), 0, extremes=False)] == [1]
    assert choose_episodes(base, results([3.0, -2.0], [0, 0]), 0, extremes=True) == []


def test_interventions_by_hand() -> None:
    guide = rules("+Brake <- gap < 5", "-Go <- speed > 8", "-Keep <- speed > 8", "+Keep <- gap < 1")
    episode = recording(
        [(9, 1), (3, 1), (3, 1), (9, 9), (9, 9), (0, 1), (0, 9)],
        wanted=[2, 2, 0, 2, 0, 2, 1],
    )
    marks = interventions(setup(guide), 0, episode)
    assert [(m.step, m.alone, m.guided, m.rules) for m in marks] == [
        (1, 2, 0, (0,)),  # Brake is enforced
        (3, 2, 0, (1,)),  # Go is blocked; that Keep is, too, leaves Brake
        (6, 1, 0, (0, 2)),  # Brake and Keep contradict each other, so neither is enforced; Keep and Go are blocked
    ]
    assert not any(mark.by_chance for mark in marks)


def test_with_negative_precedence_blocked_actions_are_not_enforced() -> None:
    guide = rules("+Brake <- gap < 5", "-Brake <- speed > 8", "+Keep <- gap < 5")
    episode = recording([(3, 9), (3, 1)], wanted=[2, 2])
    assert [m.guided for m in interventions(setup(guide, precedence="negative"), 0, episode)] == [1]
    assert interventions(setup(guide), 0, episode) == []


def test_prevented_random_actions_are_marked() -> None:
    guide = rules("-Go <- gap < 5")
    episode = recording([(3, 1)] * 200, wanted=[0] * 200)
    play = {"epsilon": 0.5, "epsilon_when_guided": False}
    marks = interventions(setup(guide, **play), 0, episode)
    assert 40 < len(marks) < 100  # a third of the random actions is what it wants anyway
    assert all(m.by_chance and m.guided == 0 and m.alone != 0 and m.rules == (0,) for m in marks)
    assert all(m.spared == (m.alone != 2) for m in marks)  # the rule forbids to Go, and Keep only as it spares chance
    # Where rules let it explore, only random actions that they forbid are changed.
    some = interventions(setup(guide, epsilon=0.5), 0, episode)
    assert {m.alone for m in some} >= {2}
    assert all(m.guided != 2 for m in some)


def test_random_actions_are_marked_as_often_as_they_were_changed(pacman_study) -> None:
    blocks = pacman_study.improvement.final_blocks
    play = replace(blocks.setup.play, epsilon=0.1, epsilon_when_guided=False)
    exploring = replace(blocks.setup, play=play)
    unit = Unit((0,) * 6, blocks.seeds[:6])
    recordings, result = record_unit(exploring, unit)
    marks = [interventions(exploring, 0, episode) for episode in recordings]
    assert [len(found) for found in marks] == result.changed.tolist()
    assert any(mark.by_chance for found in marks for mark in found)
    for found, episode in zip(marks, recordings, strict=True):
        assert all(episode.actions[mark.step] == mark.guided for mark in found)


def test_recorded_episodes_are_those_of_the_study(pacman_study) -> None:
    blocks = pacman_study.improvement.final_blocks
    chosen = choose_episodes(blocks.base, blocks.guided(0), 0, extremes=True)
    assert chosen
    for choice, pair in zip(chosen, record_choices(blocks, chosen), strict=True):
        for played, result in zip(pair, (blocks.base, blocks.guided(0)), strict=True):
            assert played.seed == blocks.seeds[choice.episode]
            assert played.rewards.sum() == result.returns[choice.episode]
            assert len(played.actions) == result.lengths[choice.episode]


def test_an_episode_that_goes_another_way_alone_is_recorded_in_its_unit(pacman_study, monkeypatch) -> None:
    blocks = pacman_study.improvement.final_blocks
    choice = choose_episodes(blocks.base, blocks.guided(0), 0, extremes=False)[0]
    other = (choice.episode + 1) % len(blocks.seeds)
    asked = []

    def watched(setup, unit, episode):
        asked.append((unit.seeds[episode], unit.treatments[episode]))
        return record_episode(setup, unit, episode)

    monkeypatch.setattr("legible.evaluation.blocks.record_episode", watched)
    lone = record_choices(blocks, [choice])[0]
    assert asked == []
    # As if the small unit had given other bits: the known returns are those of another episode.
    wrong = tuple(result[np.roll(np.arange(len(result)), -1)] for result in blocks.results)
    shifted = type(blocks)(blocks.setup, blocks.seeds, wrong)
    assert (wrong[0].returns[choice.episode], wrong[0].lengths[choice.episode]) == (
        blocks.base.returns[other],
        blocks.base.lengths[other],
    )
    again = record_choices(shifted, [choice])[0]
    seed = blocks.seeds[choice.episode]
    assert set(asked) <= {(seed, -1), (seed, 0)}
    assert asked
    assert np.array_equal(again[0].actions, lone[0].actions)
    assert np.array_equal(again[1].actions, lone[1].actions)


def test_marks_of_a_replay_are_the_steps_that_guidance_changed(pacman_study) -> None:
    blocks = pacman_study.improvement.final_blocks
    guided = blocks.guided(0)
    chosen = choose_episodes(blocks.base, guided, 0, extremes=True)
    for choice, replay in zip(chosen, make_replays(pacman_study, blocks, chosen, 0), strict=True):
        alone, side = replay["sides"]
        assert len(side["marks"]) == guided.changed[choice.episode]
        assert alone["drawn"] == side["drawn"] == []  # a greedy policy does what it prefers
        for step, unguided, instead, speaking, by_chance, spared in side["marks"]:
            assert side["actions"][step] == instead != unguided
            assert not by_chance
            assert not spared
            assert speaking
            assert max(speaking) < len(replay["rules"])
        parting = replay["branches_at"]
        assert alone["actions"][:parting] == side["actions"][:parting]
        assert alone["actions"][parting] != side["actions"][parting]
        assert side["marks"][0][0] == parting
        for one, result in zip((alone, side), (blocks.base, guided), strict=True):
            assert one["return"] == result.returns[choice.episode] == sum(one["rewards"])
            assert len(one["frames"]["places"]) == len(one["actions"]) + 1
        json.dumps(replay)
        for one in replay["sides"]:  # the conditions of the deciding rules hold
            for mark in one["marks"]:
                for changes in (one["holds"][rule] for rule in mark[3]):
                    assert all(sum(step <= mark[0] for step in steps) % 2 == 1 for steps in changes)
        assert all(words["does"].startswith(("go", "do not", "stop", "avoid")) for words in replay["parts"])


def test_random_actions_are_no_interventions(pacman_study) -> None:
    from legible.report.replays import _random_actions

    episode = recording([(3, 1), (9, 1), (9, 1)], wanted=[2, 2, 1], actions=[0, 1, 1])
    marks = interventions(setup(rules("+Brake <- gap < 5")), 0, episode)
    assert _random_actions(episode, marks) == [[1, 2]]


def test_pacman_frames_tell_the_whole_state(pacman_study) -> None:
    env, scene = scene_of(EnvironmentSpec("legible/PacmanSmall-v0"), pacman_study.space, [], 0)
    assert isinstance(scene, PacmanScene)
    scene.begin(2, [])
    observation, _ = env.reset(seed=3)
    scene.see(env, observation, 0)
    start = env.unwrapped.state
    observation, *_ = env.step(2)
    scene.see(env, observation, 1)
    after = env.unwrapped.state
    frames = scene.frames()
    assert frames["places"][0][:2] == list(start.pacman)
    assert frames["places"][1][:2] == list(after.pacman)
    assert frames["places"][1][3::4] == [round(2 * ghost.x) for ghost in after.ghosts]
    eaten = {(x, y) for x, y, gone in frames["food"] if gone == 1}
    assert eaten == start.food - after.food
    assert {(x, y) for x, y, gone in frames["food"] if gone == -1} == after.food
    assert "".join(scene.layout["walls"]).count("%") == len(env.unwrapped.maze.walls)


@pytest.fixture
def cart_pole() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1", render_mode="rgb_array")


def watch(env: gymnasium.Env, scene: PictureScene, steps: int, marked: list[int]) -> dict:
    scene.begin(steps, marked)
    observation, _ = env.reset(seed=0)
    env.unwrapped.theta_threshold_radians = env.unwrapped.x_threshold = 1e9  # let it fall as long as we like
    for step in range(steps + 1):
        scene.see(env, observation, step)
        observation, *_ = env.step(step % 2)
    return scene.frames()


def test_pictures(cart_pole) -> None:
    scene = PictureScene(10**6)
    frames = watch(cart_pole, scene, 300, [7, 111])
    assert len(frames["steps"]) <= 124
    assert {0, 7, 111, 300} <= set(frames["steps"])
    assert len(frames["numbers"]) == len(frames["steps"])
    assert max(frames["numbers"]) == len(frames["pictures"]) - 1
    assert scene.layout["width"] <= 240
    assert all(picture.startswith("data:image/") for picture in frames["pictures"])
    few = watch(cart_pole, PictureScene(6000), 60, [])
    assert sum(map(len, few["pictures"])) <= 6000
    assert (few["steps"][0], few["steps"][-1]) == (0, 60)
    scene.begin(1, [])
    cart_pole.reset(seed=0)
    for step in range(2):
        scene.see(cart_pole, None, step)
    assert scene.frames()["numbers"] == [0, 0]  # equal pictures are stored once


def test_pictures_that_would_be_left_out_are_not_drawn(cart_pole, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    render = cart_pole.render
    monkeypatch.setattr(cart_pole, "render", lambda: drawn.append(1) or render())
    whole = watch(cart_pole, PictureScene(10**6), 60, [])
    assert len(drawn) == 61
    drawn.clear()
    few = watch(cart_pole, PictureScene(6000), 60, [])
    assert len(few["steps"]) <= len(drawn) < 61  # pictures of the first steps are equal, so they need no room
    kept = [whole["pictures"][whole["numbers"][whole["steps"].index(step)]] for step in few["steps"]]
    assert [few["pictures"][number] for number in few["numbers"]] == kept


def test_features_are_shown_without_pictures(mirror) -> None:
    env, scene = scene_of(mirror.environment, mirror.space, [0, 1, 4], 0)
    assert isinstance(scene, FeatureScene)
    observation, _ = env.reset(seed=0)
    scene.begin(0, [])
    scene.see(env, observation, 0)
    assert scene.layout["features"] == ["left", "right", "luck"]
    row = scene.frames()["rows"][0]
    assert row[:2] == observation[:2].tolist()
    assert row[2] == pytest.approx(observation[4], rel=1e-3)


def test_a_machine_that_cannot_draw_shows_features_and_says_why(mirror, monkeypatch) -> None:
    assert scene_of(mirror.environment, mirror.space, [0], 0)[1].layout["note"] == ""  # it has no pictures anywhere
    monkeypatch.setitem(sys.modules, "pygame", None)
    _, scene = scene_of(EnvironmentSpec("CartPole-v1"), mirror.space, [0], 10**6)
    assert isinstance(scene, FeatureScene)
    assert scene.layout["note"].startswith("No pictures: environment 'CartPole-v1' cannot")
    assert "pygame is not" in scene.layout["note"]


def test_traffic(mirror) -> None:
    env, scene = scene_of(EnvironmentSpec("legible/Highway-v0"), mirror.space, [], 0)
    assert isinstance(scene, RoadScene)
    scene.begin(0, [])
    observation, _ = env.reset(seed=0)
    scene.see(env, observation, 0)
    traffic = env.unwrapped.traffic
    row = scene.frames()["moments"][0]
    assert row[0] == round(10 * traffic.x[traffic.ego])
    assert row[1:3] == [0, round(10 * traffic.y[traffic.ego])]
    ahead = traffic.x - traffic.x[traffic.ego]
    assert (len(row) - 1) // 5 == ((ahead > -35) & (ahead < 95)).sum()
    json.dumps(scene.layout)
    # Vehicles carry the numbers that rules use.
    space = feature_space_of(env)
    vehicles = {row[i + 4]: row[i] / 10 for i in range(6, len(row), 5) if row[i + 4]}
    assert set(vehicles) >= {1, 2, 3}
    for number, distance in vehicles.items():
        feature = space.feature_index(f"vehicle{number}.x")
        assert distance == pytest.approx(float(observation.reshape(-1)[feature]) * space[feature].scale, abs=0.1)


def test_episodes_that_do_not_repeat_are_not_shown(pacman_study, monkeypatch) -> None:
    blocks = pacman_study.improvement.final_blocks
    chosen = choose_episodes(blocks.base, blocks.guided(0), 0, extremes=False)
    pairs = record_choices(blocks, chosen)
    # An environment that forgets its seed: the same actions lead elsewhere.
    strange = [tuple(replace(side, seed=side.seed + 1) for side in pair) for pair in pairs]
    monkeypatch.setattr("legible.report.replays.record_choices", lambda *_: strange)
    assert make_replays(pacman_study, blocks, chosen, 0) == [None]


def test_replays_are_numbered_as_long_as_they_fit(monkeypatch) -> None:
    made = [(None, "first"), (None, None), (0, "x" * 40), (1, "second"), (2, None)]
    monkeypatch.setattr("legible.report.replays.REPLAY_BUDGET", 20)
    assert _number_replays(made, 4) == Replays(("first", "second"), (0,), (None, 1, None, None), 5)


@pytest.mark.parametrize("name", ["highway-fast-v0", "MountainCar-v0"])
def test_environments_draw_without_a_screen(name, mirror) -> None:
    pytest.importorskip("highway_env" if name.startswith("highway") else "pygame")
    with no_window():
        env, scene = scene_of(EnvironmentSpec(name), mirror.space, [], 10**6)
        assert isinstance(scene, PictureScene)
        scene.begin(0, [])
        observation, _ = env.reset(seed=0)
        scene.see(env, observation, 0)
        picture = scene.frames()["pictures"][0]
        env.close()
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.partition(",")[2]))).convert("L"))
    assert len(np.unique(image)) > 5
