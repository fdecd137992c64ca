"""Branching: back to states that were visited, and on from there, to the bit."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from legible.environments import EnvironmentSpec
from legible.play import (
    ActingChooser,
    Branches,
    BranchingError,
    Point,
    PolicyChooser,
    Recorder,
    Slots,
    SpaceSlots,
    find_branching_method,
    make_branching,
    make_slots,
    make_space_slots,
    play_episodes,
)
from legible.play.branching.finding import try_way
from legible.play.branching.generators import can_reseed, find_generators, reseed
from legible.policies.protocol import ScoreKind
from play.branching_environments import Drift
from play.playing import network

MINIGRID = EnvironmentSpec("MiniGrid-Dynamic-Obstacles-6x6-v0", {}, ("minigrid.wrappers:FlatObsWrapper",))
DRIFT = "play.branching_environments:Drift"
DISCRETE = [
    ("legible/PacmanSmall-v0", "rows", "random"),
    ("legible/PacmanOriginal-v0", "rows", "random"),
    ("legible/HighwayFast-v0", "rows", "nothing random"),
    ("legible/Intersection-v0", "rows", "random"),
    ("legible/Roundabout-v0", "rows", "nothing random"),
    (EnvironmentSpec("legible/PacmanSmall-v0", {"max_episode_steps": 30}), "own state", "random"),
    (EnvironmentSpec("CartPole-v1", {"max_episode_steps": 9}), "copy", "nothing random"),
    ("CartPole-v1", "replay", "nothing random"),
    ("LunarLander-v3", "replay", "random"),
    ("Acrobot-v1", "copy", "nothing random"),
    ("MountainCar-v0", "copy", "nothing random"),
    ("FrozenLake-v1", "copy", "random"),
    ("FrozenLake-v1", "replay", "random"),
    (MINIGRID, "copy", "random"),
]
CONTINUOUS = [
    ("Pendulum-v1", "copy", "nothing random"),
    ("Pendulum-v1", "replay", "nothing random"),
    ("Hopper-v5", "own state", "nothing random"),
    (EnvironmentSpec("Hopper-v5", {"max_episode_steps": 20}), "own state", "nothing random"),
]


def named(case: Any) -> str:
    spec, way, _ = case
    return f"{getattr(spec, 'name', spec)}-{way}".replace("/", ".")


@pytest.mark.parametrize("case", DISCRETE + CONTINUOUS, ids=named)
def test_what_was_recorded_is_repeated_to_the_bit(case: Any) -> None:
    environment, way, futures = case
    spec = environment if isinstance(environment, EnvironmentSpec) else EnvironmentSpec(environment)
    if spec.name.startswith(("Hopper", "MiniGrid")):
        pytest.importorskip("mujoco" if spec.name.startswith("Hopper") else "minigrid")
    assert try_way(spec, (way, 3)) == futures


def record(slots: Slots, policy: Any, seeds: list[int], limit: int = 60) -> tuple[Any, list[Any]]:
    recorder = Recorder()
    played = play_episodes(slots, PolicyChooser(policy, seeds), seeds, step_limit=limit, on_step=recorder)
    return played, recorder.recordings(seeds)


def branches_at(branching: Any, points: list[Point], rewards: list[Any], *chooser: Any) -> Branches:
    """Return starts at these points, with the returns that their episodes had there."""
    steps, states = np.array([point.step for point in points]), branching.visit(points, *chooser)
    returns = [earned[:step].cumsum()[-1] if step else 0.0 for earned, step in zip(rewards, steps, strict=True)]
    return Branches(branching, states, np.arange(len(points)), steps, returns=np.array(returns))


@pytest.mark.parametrize("case", [case for case in DISCRETE if case[0] != "legible/PacmanOriginal-v0"], ids=named)
def test_episodes_go_on_as_they_were_played(case: Any) -> None:
    """A policy's episodes, branched at the start, in the middle and at the last step, have the bits of whole ones."""
    environment, way, _ = case
    if environment is MINIGRID:
        pytest.importorskip("minigrid")
    slots = make_slots(environment, 3)
    policy = network(slots.observations.shape[1], slots.n_actions)
    played, recordings = record(slots, policy, [5, 6, 7, 8])
    points, numbers = [], []
    for number, recording in enumerate(recordings):
        last = len(recording.actions) - 1
        for step in sorted({last, 0, last // 2}, reverse=True):
            points.append(Point(recording.seed, step, recording.actions, recording.observations[step]))
            numbers.append(number)
    branching = make_branching(slots, way)
    branches = branches_at(branching, points, [recordings[number].rewards for number in numbers])
    seeds = [point.seed for point in points]
    recorder = Recorder()
    again = play_episodes(slots, PolicyChooser(policy, seeds), seeds, step_limit=60, starts=branches, on_step=recorder)
    slots.close()
    for name in ("returns", "lengths", "truncated", "success"):
        whole = getattr(played, name)[numbers]
        assert getattr(again, name).tobytes() == whole.tobytes(), name
    for part, point, number in zip(recorder.recordings(seeds), points, numbers, strict=True):
        assert part.actions.tolist() == recordings[number].actions[point.step :].tolist()
        assert part.observations.tobytes() == recordings[number].observations[point.step :].tobytes()


@pytest.mark.parametrize(
    ("environment", "way"),
    [("legible/PacmanSmall-v0", "rows"), ("FrozenLake-v1", "copy"), (DRIFT, "replay"), (DRIFT, "copy")],
)
def test_new_futures_follow_from_their_seeds(environment: str, way: Any) -> None:
    slots = make_slots(environment, 4)
    policy = network(slots.observations.shape[1], slots.n_actions)
    _, recordings = record(slots, policy, [5])
    branching = make_branching(slots, way)
    states = branching.visit([Point(5, 1, recordings[0].actions)])
    seeds = [11, 12, 11, 13, 14, 15, 16]
    starts = Branches(branching, states, np.zeros(7, np.intp), np.ones(7, np.int64), future="new")
    recorder = Recorder()
    play_episodes(slots, PolicyChooser(policy, seeds), seeds, step_limit=40, starts=starts, on_step=recorder)
    slots.close()
    futures = [part.observations.tobytes() for part in recorder.recordings(seeds)]
    assert futures[0] == futures[2]
    assert len(set(futures)) > 1
    shown = {part.observations[0].tobytes() for part in recorder.recordings(seeds)}
    assert shown == {recordings[0].observations[1].tobytes()}


def test_other_rows_go_on_as_if_nothing_had_happened() -> None:
    slots = make_slots("CartPole-v1", 2)
    policy = network(4, 2)
    _, (alone,) = record(make_slots("CartPole-v1", 2), policy, [4])
    branching = make_branching(slots, "replay")
    states = branching.visit([Point(9, 3, np.array([0, 1, 0, 1]))])
    slots.start(np.array([0]), [4])
    first = np.array([True, False])
    for step, action in enumerate(alone.actions):
        assert slots.observations[0].tobytes() == alone.observations[step].tobytes()
        branching.start(np.array([1]), states)
        slots.step(np.array([action, 0]), first)


def test_what_a_policy_remembers_is_carried_along() -> None:
    """A policy that counts its steps since the start acts in a branch as it did in the episode."""
    seeds = [3, 4]
    slots = make_space_slots(DRIFT, 2)
    counting = Counting()
    recorder = Recorder()
    whole = play_episodes(slots, ActingChooser(counting, slots, seeds), seeds, step_limit=30, on_step=recorder)
    recordings = recorder.recordings(seeds)
    assert len({tuple(recording.actions.tolist()) for recording in recordings}) == 1  # its memory alone decides
    points = [Point(r.seed, step, r.actions) for r in recordings for step in (0, 7, 20)]
    rewards = [recording.rewards for recording in recordings for _ in range(3)]
    chooser = ActingChooser(counting, slots, seeds)
    starts = branches_at(make_branching(slots, "replay"), points, rewards, chooser)
    every = [point.seed for point in points]
    again = play_episodes(slots, ActingChooser(counting, slots, every), every, step_limit=30, starts=starts)
    assert again.returns.tolist() == np.repeat(whole.returns, 3).tolist()


class Counting:
    """Goes up in every third step, down otherwise; what it remembers is how many steps there were."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)
    recurrent, stochastic, n_actions, n_features = True, False, 2, None
    kind: ScoreKind = "none"

    def scores(self, observations: Any) -> Any:
        raise NotImplementedError

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,  # noqa: ARG002
    ) -> Any:
        count = np.zeros((1, len(observation), 1)) if state is None else state[0]
        count = np.where(np.asarray(episode_start)[None, :, None], 0.0, count) + 1
        return (count[0, :, 0] % 3 == 0).astype(np.int64), (count,)


def test_find_way_tries_the_quickest_first(snapshot) -> None:
    assert find_branching_method("legible/PacmanSmall-v0").way == "rows"
    lander = find_branching_method("LunarLander-v3")
    assert (lander.way, lander.futures) == ("replay", "random")
    assert str(lander) == snapshot


@pytest.mark.subprocess
def test_copies_are_tried_in_a_process_of_their_own() -> None:
    assert find_branching_method("FrozenLake-v1").way == "copy"
    fragile = find_branching_method("play.branching_environments:Fragile")
    assert (fragile.way, fragile.futures) == ("replay", "random")
    assert "worker died (exit code 3)" in fragile.problem


def test_copies_that_share_their_state_are_not_trusted(raises_saved) -> None:
    shared = EnvironmentSpec("play.branching_environments:Shared")
    with raises_saved(BranchingError):
        try_way(shared, ("copy", 0))
    assert try_way(shared, ("replay", 0)) == "random"


def test_an_environment_that_cannot_be_repeated_has_no_way(raises_saved, snapshot) -> None:
    found = find_branching_method(Drift("outside"))
    assert found.way is None
    assert str(found) == snapshot
    slots = make_slots(EnvironmentSpec(DRIFT, {"generator": "outside"}), 1)
    _, (recording,) = record(slots, network(2, 2), [0])
    branching = make_branching(slots, "replay")
    states = branching.visit([Point(0, 5, recording.actions, recording.observations[5])])
    with raises_saved(BranchingError):
        branching.start(np.array([0]), states)


def test_generators_of_an_environments_own_are_reseeded_too() -> None:
    env = gymnasium.wrappers.TimeLimit(Drift("own"), 50)
    env.reset(seed=1)
    assert can_reseed(env)
    assert len(find_generators(env)) >= 2
    places = []
    for seed in (4, 5, 4):
        env.reset(seed=1)
        reseed(env, seed)
        places.append(float(env.step(1)[0][0]))
    assert places[0] == places[2] != places[1]


def test_own_state_without_a_way_to_reseed() -> None:
    cloned = EnvironmentSpec("play.branching_environments:Cloned", {"generator": "own"})
    assert try_way(cloned, ("own state", 0)) == "cannot be reseeded"


def test_starts_are_checked(raises_saved) -> None:
    slots = make_slots("CartPole-v1", 2)
    branching = make_branching(slots, "replay")
    states = branching.visit([Point(0, 1, np.zeros(1, np.int64))])
    with pytest.raises(BranchingError, match="new futures need one seed"):
        branching.start(np.array([0]), states, future="new")
    with pytest.raises(BranchingError, match="2 rows, 1 states"):
        branching.start(np.array([0, 1]), states)
    with raises_saved(BranchingError):
        make_branching(slots, "rows")
    with pytest.raises(BranchingError, match="a native batch cannot"):
        make_branching(make_slots("legible/PacmanSmall-v0", 2), "copy")
    with raises_saved(BranchingError):
        make_branching(slots, "copy").visit([Point(0, 60, np.zeros(60, np.int64))])  # its episode ends before
    with pytest.raises(BranchingError, match="lies beyond its 2 actions"):
        Point(0, 3, np.zeros(2, np.int64))


def test_points_of_many_episodes_come_in_any_order() -> None:
    slots = make_slots("legible/PacmanSmall-v0", 3)
    _, recordings = record(slots, network(slots.observations.shape[1], 5), list(range(7)), limit=25)
    rng = np.random.default_rng(0)
    chosen = [(recordings[i], int(rng.integers(len(recordings[i].actions)))) for i in rng.integers(7, size=40)]
    branching = make_branching(slots, "rows")
    states = branching.visit([Point(r.seed, step, r.actions, r.observations[step]) for r, step in chosen])
    for i, (recording, step) in enumerate(chosen):
        branching.start(np.array([i % 3]), states[np.array([i])])
        assert slots.observations[i % 3].tobytes() == recording.observations[step].tobytes()


def test_slots_of_any_spaces_are_branched() -> None:
    slots = make_space_slots("Pendulum-v1", 2)
    assert isinstance(slots, SpaceSlots)
    actions = np.random.default_rng(0).uniform(-2, 2, (30, 1)).astype(np.float32)
    branching = make_branching(slots, "copy")
    states = branching.visit([Point(1, 10, actions), Point(1, 30, actions)])
    branching.start(np.array([1]), states[np.array([0])])
    for action in actions[10:]:
        slots.step(np.array([action, action]), np.array([False, True]))
    ended = slots.observations[1].copy()
    branching.start(np.array([0]), states[np.array([1])])
    assert slots.observations[0].tobytes() == ended.tobytes()
