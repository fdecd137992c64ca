"""Mistakes of policies in environments: found with the right gain, or a clear line why not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legible.engines import Engine, InProcess, LocalProcesses
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import FailureLimit
from legible.features import FeatureSpace
from legible.files import DamagedFileError
from legible.mistakes import (
    CHOICE_TAKEN,
    DecisionSearch,
    IntervalEstimate,
    Mistake,
    Mistakes,
    RolloutRunner,
    Rollouts,
    RolloutSetup,
    RolloutUnit,
    choose_decisions,
    describe_mistake,
    describe_mistakes,
    find_mistakes,
    plan_decisions,
    points_of,
    record_futures,
    similar_mistakes,
    unusual_features,
)
from legible.mistakes.decisions import Decisions, forced_actions, other_choices
from legible.play import AdaptedPolicy, BranchingMethod, collect
from legible.play.branching.finding import try_way
from legible.policies import acting
from legible.settings import MistakeSettings, PlaySettings, SettingsError
from legible.study import UnitFiles
from mistakes.planted import DOES, EARNS, RoomPolicy, experiences_of
from play.playing import network

ROOMS = EnvironmentSpec("mistakes.planted:Rooms")
SMALL = MistakeSettings(rollouts=8, second_rollouts=16, final_rollouts=32)


def look(
    spec: EnvironmentSpec,
    policy: Any,
    way: Any,
    count: int,
    *,
    episodes: int = 12,
    engine: Engine | None = None,
    store: Any = None,
    futures: Any = None,
    limit: int = 200,
    most_failed: float = 0.01,
) -> tuple[Mistakes, DecisionSearch, RolloutRunner]:
    """Look for mistakes of a policy in some decisions."""
    play = PlaySettings(batch=32, step_limit=limit)
    seen = collect(policy, spec, episodes, seed=0, batch=8, step_limit=limit)
    search = DecisionSearch.plan(seen, count, seed=0)
    found = BranchingMethod(way, futures or try_way(spec, (way, 0)))
    future: Any = "same" if found.futures == "cannot be reseeded" else "new"
    setup = RolloutSetup(policy, spec, way, future, play)
    runner = RolloutRunner(
        setup, search.points, seed=0, engine=engine or InProcess(), store=store, failures=FailureLimit(most_failed)
    )
    mistakes = find_mistakes(search, runner, runner.futures, found, greedy=True, settings=SMALL, alpha=0.05, seed=0)
    return mistakes, search, runner


def test_the_planted_mistake_is_found_with_its_gain() -> None:
    found, search, _ = look(ROOMS, RoomPolicy(), "copy", 72)
    rooms = search.experiences.observations.argmax(axis=1)
    gains = EARNS.max(axis=1) - EARNS[np.arange(6), DOES]
    assert gains.tolist() == [0, 0, 0, 19, 0, 0]
    assert found.listed
    for mistake in found.listed:
        assert rooms[mistake.row] == 3
        assert (mistake.action, mistake.better) == (0, 2)
        assert mistake.low is not None
        assert mistake.high is not None
        assert mistake.low < 19 < mistake.high
    # One room in six, six rooms an episode: 19 an episode.
    assert found.share is not None
    assert found.headroom is not None
    assert found.share.low <= 1 / 6 <= found.share.high
    assert found.headroom.low <= 19 <= found.headroom.high
    assert not found.is_exact


@pytest.mark.parametrize("hold", [1, 3])
def test_a_choice_is_held_for_some_steps(hold: int) -> None:
    policy, choice = RoomPolicy(), 1
    seen = collect(policy, ROOMS, 1, seed=0, batch=8, step_limit=200)
    unit = RolloutUnit(points_of(seen, np.array([1])), np.array([[CHOICE_TAKEN, choice]]), np.array([[5]]))
    setup = RolloutSetup(policy, ROOMS, "copy", "new", PlaySettings(batch=4), hold)
    held = record_futures(setup, unit)[1]
    does = DOES[held.observations.argmax(axis=1)]
    assert len(held.actions) == 5
    assert held.actions.tolist() == [*[choice] * hold, *does[hold:].tolist()]
    assert (does[:hold] != choice).any()  # the policy alone would do something else


def test_a_perfect_policy_is_not_accused(snapshot) -> None:
    found, _, _ = look(ROOMS, RoomPolicy(perfect=True), "copy", 72)
    assert found.listed == ()
    assert describe_mistakes(found)[-1] == snapshot


def test_gains_are_exact_where_nothing_is_random_after_the_start() -> None:
    spec = EnvironmentSpec("mistakes.planted:Rooms", {"noise": 0.0, "coin": False})
    found, search, runner = look(spec, RoomPolicy(), "copy", 40)
    assert found.is_exact
    assert {(m.gain, m.low, m.high) for m in found.listed} == {(19.0, 19.0, 19.0)}
    assert found.proven >= len(found.listed)
    assert describe_mistake(found.listed[0], search.experiences).count("returns 19 more, exactly") == 1
    # Six rooms in six steps, one after another: every episode has the mistake once.
    assert found.headroom is not None
    assert found.headroom.low <= 19 <= found.headroom.high
    starts = [point.step for point in search.points]
    walked = sum(max(p.step for p in search.points if p.seed == seed) for seed in {p.seed for p in search.points})
    assert runner.steps_played == walked + sum(3 * 2 * (6 - start) for start in starts)


def test_without_other_futures_gains_hold_for_the_episode_only() -> None:
    found, search, _ = look(ROOMS, RoomPolicy(), "replay", 40, futures="cannot be reseeded")
    assert found.listed
    assert all(m.low is None and m.high is None and m.future == m.seed for m in found.listed)
    assert (found.share, found.headroom, found.proven) == (None, None, 0)
    assert "more in this episode" in describe_mistake(found.listed[0], search.experiences)


@pytest.mark.slow
def test_the_same_bits_whatever_the_workers(tmp_path: Path) -> None:
    with LocalProcesses(2) as engine:
        there, _, _ = look(ROOMS, RoomPolicy(), "copy", 40, engine=engine, store=UnitFiles(tmp_path, Rollouts))
    here, _, runner = look(ROOMS, RoomPolicy(), "copy", 40)
    assert there == here
    # What was kept is not played again.
    again, _, _ = look(ROOMS, RoomPolicy(), "copy", 40, engine=NoEngine(), store=UnitFiles(tmp_path, Rollouts))
    assert again == here
    assert runner.steps_played > 0


class NoEngine(InProcess):
    """Refuses to run anything."""

    def run(self, function: Any, shared: Any, units: Any, **_: Any) -> Any:  # noqa: ARG002
        assert not units
        return iter(())


KINDS = [
    ("legible/PacmanSmall-v0", (), "rows"),
    ("legible/HighwayFast-v0", (), "rows"),
    ("CartPole-v1", (), "copy"),
    ("LunarLander-v3", (), "replay"),
    ("Acrobot-v1", (), "copy"),
    ("MountainCar-v0", (), "copy"),
    ("FrozenLake-v1", (), "copy"),
    ("MiniGrid-Empty-5x5-v0", ("minigrid.wrappers:FlatObsWrapper",), "copy"),
]


@pytest.mark.parametrize(("name", "wrappers", "way"), KINDS, ids=[kind[0].replace("/", ".") for kind in KINDS])
def test_kinds_of_environments(name: str, wrappers: tuple[str, ...], way: Any) -> None:
    if name.startswith("MiniGrid"):
        pytest.importorskip("minigrid")
    spec = EnvironmentSpec(name, {}, wrappers)
    env = spec.make()
    width = int(np.prod(env.observation_space.shape or (1,)))
    policy = network(width, int(env.action_space.n))  # type: ignore[attr-defined]
    found, search, runner = look(spec, policy, way, 8, episodes=3, limit=60)
    assert found.decisions == 8
    assert found.random_decisions == 4
    assert runner.steps_played > 0
    assert found.share is not None
    assert 0 <= found.share.mean <= 1
    assert all(m.gain > 0 and m.better != m.action for m in found.listed)
    assert found.is_exact == (name not in {"legible/PacmanSmall-v0", "LunarLander-v3", "FrozenLake-v1"})
    assert len(search.points) == 8


def test_decisions_are_a_random_sample_and_likely_ones() -> None:
    seen = experiences_of(400, 20, np.zeros(400, np.int64))
    chosen = choose_decisions(seen, 40, seed=1)
    assert len(chosen) == 40
    assert chosen.is_random.sum() == 20
    assert chosen.rows.tolist() == sorted(set(chosen.rows.tolist()))
    assert choose_decisions(seen, 40, seed=1).rows.tolist() == chosen.rows.tolist()
    assert choose_decisions(seen, 40, seed=2).rows.tolist() != chosen.rows.tolist()
    # Returns are 0 to 19: the lowest quarter of the episodes went badly.
    likely = seen.episode_ids[chosen.rows[~chosen.is_random]]
    assert (likely < 5).sum() >= 10
    assert len(choose_decisions(seen, 1000, seed=0)) <= 400


def test_choices_are_what_was_done_and_all_others() -> None:
    choices = other_choices(experiences_of(4, 2, np.array([1, 0, 2, 3])).space, np.array([1, 0, 2, 3]))
    assert choices.tolist() == [[-1, 0, 2, 3], [-1, 1, 2, 3], [-1, 0, 1, 3], [-1, 0, 1, 2]]
    assert forced_actions(RoomPolicy(), np.array([1, 0]), choices[:2]).tolist() == [[1, 0, 2, 3], [0, 1, 2, 3]]
    assert CHOICE_TAKEN == -1


def search_drawn(n: int, measure: Any, *, greedy: bool = True) -> Mistakes:
    """Search n decisions, five per episode, whose rollouts are drawn by a function; nothing seems to be random."""
    seen, way = experiences_of(n, 5, np.zeros(n, np.int64)), BranchingMethod("rows", "nothing random")
    decisions = Decisions(np.arange(n), np.ones(n, np.bool_))
    search = DecisionSearch(seen, decisions, other_choices(seen.space, seen.actions))
    settings = MistakeSettings()
    return find_mistakes(search, measure, lambda *_: [7], way, greedy=greedy, settings=settings, alpha=0.05, seed=0)


def test_only_the_earliest_decision_of_a_loss_is_listed() -> None:
    """Episode 0: worth 100 at step 0, 120 at step 3 (the same loss), 500 at step 4 (another one)."""
    gains = np.zeros(10)
    gains[[0, 3, 4, 8]] = [100, 120, 500, 70]

    def measure(numbers: Any, choices: Any, first: int, count: int) -> Any:
        returns = np.zeros((len(numbers), choices.shape[1], count))
        returns[choices == 2] = gains[numbers][:, None]
        return returns

    found = search_drawn(10, measure)
    assert [(m.seed, m.step, m.gain) for m in found.listed] == [(1000, 4, 500), (1000, 0, 100), (1001, 3, 70)]
    assert found.proven == 4
    assert all(m.better == 2 and m.future == 7 for m in found.listed)


@pytest.mark.parametrize("greedy", [True, False])
def test_only_greedy_policies_are_exact_also_where_returns_differ_by_rounding(greedy: bool) -> None:
    def measure(numbers: Any, choices: Any, first: int, count: int) -> Any:
        return np.full((len(numbers), choices.shape[1], count), 100.0) + 1e-9 * np.arange(count)

    assert search_drawn(10, measure, greedy=greedy).is_exact == greedy


def test_if_returns_turn_out_to_be_random_fewer_decisions_are_measured() -> None:
    """Forty decisions with two rollouts of four choices take as many rollouts as two decisions in all rungs."""
    asked: list[Any] = []

    def measure(numbers: Any, choices: Any, first: int, count: int) -> Any:
        asked.append((numbers.tolist(), first, count))
        return np.random.default_rng(0).normal(size=(len(numbers), choices.shape[1], count))

    found = search_drawn(40, measure)
    assert not found.is_exact
    assert found.decisions == 40 * 8 // (64 + 36 + 26) == 2
    assert asked[0] == (list(range(40)), 0, 2)
    assert (len(asked[1][0]), *asked[1][1:]) == (2, 0, 16)


def test_continuous_actions_have_a_choice_for_each_region_of_each_part() -> None:
    space = FeatureSpace.from_dict(
        {
            "features": [{"name": "place"}],
            "groups": {
                "steer": {"choices": ["left", "right"], "low": -1, "high": 1, "cuts": [0.0], "typical": [-0.5, 0.5]},
                "gear": ["one", "two", "three"],
            },
        }
    )
    taken = np.array([[0, 3], [1, 2]])
    choices = other_choices(space, taken)
    assert choices.tolist() == [[-1, 1, 2, 4], [-1, 0, 3, 4]]
    policy = AdaptedPolicy(acting(RoomPolicy()), space)
    forced = forced_actions(policy, np.array([[-0.25, 1.0], [0.75, 0.0]], np.float32), choices)
    assert forced.tolist() == [
        [[-0.25, 1], [0.5, 1], [-0.25, 0], [-0.25, 2]],
        [[0.75, 0], [-0.5, 0], [0.75, 1], [0.75, 2]],
    ]


def test_long_episodes_are_refused_with_a_clear_line(snapshot) -> None:
    seen = experiences_of(2000, 1000, np.zeros(2000, np.int64))
    count, problem = plan_decisions(seen, MistakeSettings(steps=10_000), 4, way="rows", exact=False)
    assert count == 0
    assert problem == snapshot
    assert describe_mistakes(Mistakes(branching="rows", problem=problem)) == [problem[0].upper() + problem[1:]]
    count, problem = plan_decisions(seen, MistakeSettings(steps=10_000_000), 4, way="rows", exact=False)
    assert (count, problem) == (158, "")  # 500.5 steps × (4 × 16 + 36 + 26 rollouts)
    assert plan_decisions(seen, MistakeSettings(steps=10_000_000), 4, way="replay", exact=False)[0] == 79


def test_results_are_saved_and_loaded(tmp_path: Path) -> None:
    one = Mistake(3, 1000, 3, 0, 2, 5.5, 1.0, 10.0, 99)
    found = Mistakes(
        (one,),
        IntervalEstimate(0.1, 0.0, 0.2),
        IntervalEstimate(5.0, 1.0, 9.0),
        8,
        4,
        1,
        99,
        "rows",
        choices=("a", "b", "c"),
    )
    found.save(tmp_path / "mistakes.json", "key")
    assert Mistakes.load(tmp_path / "mistakes.json", "key") == found
    assert found.to_dict()["mistakes"] == [
        {"seed": 1000, "step": 3, "action": "a", "better": "c", "gain": 5.5, "low": 1.0, "high": 10.0}
    ]
    assert found.to_dict()["share"] == {"mean": 0.1, "low": 0.0, "high": 0.2}
    (tmp_path / "mistakes.json").write_text("{}")
    with pytest.raises(DamagedFileError, match="mistakes"):
        Mistakes.load(tmp_path / "mistakes.json")


def test_unusual_features_and_similar_mistakes(snapshot) -> None:
    seen = experiences_of(200, 5, np.zeros(200, np.int64))
    (low,) = unusual_features(seen, 3)
    assert (low.value, low.share, low.side) == (3.0, 0.02, "low")
    assert low.words(seen.space) == snapshot
    assert unusual_features(seen, 100) == ()
    mistakes = [
        Mistake(3, 1000, 3, 0, 2, 5.0, 1.0, 10.0, 0),
        Mistake(100, 1020, 0, 0, 2, 4.0, 1.0, 10.0, 0),
        Mistake(4, 1000, 4, 0, 2, 3.0, 1.0, 10.0, 0),
    ]
    assert [[m.row for m in group] for group in similar_mistakes(mistakes, seen)] == [[3, 4], [100]]
    assert describe_mistake(mistakes[0], seen) == snapshot


def test_rollouts_that_fail_leave_their_decision_out() -> None:
    spec = EnvironmentSpec("mistakes.planted:Stumbling")
    found, _, _ = look(spec, RoomPolicy(), "copy", 40, futures="random", most_failed=0.9)
    assert found.decisions == 40
    assert found.random_decisions < 20


def test_settings_are_checked(raises_saved) -> None:
    with raises_saved(SettingsError):
        MistakeSettings(rollouts=2)
    with pytest.raises(SettingsError, match="when must be"):
        MistakeSettings(when="sometimes")  # type: ignore[arg-type]
    with raises_saved(LegibleError):
        MistakeSettings(decisions=20_000)
