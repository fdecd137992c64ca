"""Endings of episodes: from infos, flags, domains and functions of the user."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from legible.environments import Ending, EndingReader, EnvironmentSpec, LastStep, UnfitEnvironmentError
from legible.environments.gymnasium import endings as gymnasium_endings
from legible.errors import LegibleError
from legible.play import RandomChooser, SingleSlots, collect, make_slots, make_space_slots, play_episodes
from play.playing import play
from toy_environments import Constant, Scripted

SIDES = ("left", "right")


def last(*, terminated: bool = True, **info: Any) -> LastStep:
    """Return a last step with these infos."""
    return LastStep(None, 0, np.zeros(2), 0.0, info, terminated)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (last(is_success=True), "success"),
        (last(is_success=np.float32(0.0)), "failure"),
        (last(is_success=False, terminated=False), "time limit"),
        (last(is_success=True, crashed=np.True_), "failure"),
        (last(win=1), "success"),
        (last(lose=True, success=False), "failure"),
        (last(crashed=np.array([True, False])), "other"),
        (last(), "other"),
        (last(terminated=False), "time limit"),
        (last(ending="failure: it sinks", is_success=True), "failure"),
    ],
)
def test_flags_of_infos(step: LastStep, kind: str) -> None:
    assert Ending.parse(EndingReader()(step)).kind == kind


def sinks(step: LastStep) -> str | None:
    """Return an ending, if the infos have a depth."""
    return "failure: it sinks" if "depth" in step.info else None


def is_wrong(step: LastStep) -> int:
    """Return something that is no ending, or fail."""
    return 1 // len(step.info)


def test_a_function_of_the_user_comes_first_and_may_leave_the_rest_to_others() -> None:
    read = EndingReader(function=f"{__name__}:sinks")
    assert read(last(depth=3.0, is_success=True)) == "failure: it sinks"
    assert Ending.parse(read(last(is_success=True))).kind == "success"


def test_errors_of_a_function_name_it() -> None:
    read = EndingReader(function=f"{__name__}:is_wrong")
    for step in (last(), last(depth=3.0)):
        with pytest.raises(UnfitEnvironmentError, match="is_wrong"):
            read(step)
    with pytest.raises(LegibleError, match="no_such_module"):
        EndingReader(function="no_such_module:read")


def test_episodes_know_their_endings_and_the_last_state_of_unknown_ones() -> None:
    played, _ = play(SingleSlots([Scripted()]), Constant(0, 1), [1003, 2])
    assert [Ending.parse(text).kind for text in played.endings] == ["success", "failure"]
    assert played.last.shape == (2, 0)
    played, _ = play(SingleSlots([Scripted(ends="truncated")]), Constant(0, 1), [1003, 2])
    assert {Ending.parse(text).kind for text in played.endings} == {"time limit"}
    silent = SingleSlots([Scripted(), Scripted()])
    silent.ending_reader = lambda _: "other: it stops"  # type: ignore[assignment]
    played, _ = play(silent, Constant(0, 1), [1003, 2])
    np.testing.assert_array_equal(played.last, [[1003, 3], [2, 2]])


def test_endings_of_cart_pole_follow_from_the_state() -> None:
    env = SimpleNamespace(x_threshold=2.4)
    for state, word in (((-2.5, 0, 0.3, 0), "track"), ((0, 0, -0.3, 0), "left"), ((0, 0, 0.3, 0), "right")):
        env.state = state
        assert word in gymnasium_endings.cartpole(LastStep(env, 0, None, 1.0, {}, terminated=True))
    always_left = collect(Constant(1, 0), "CartPole-v1", 5, seed=0, batch=2)
    assert {Ending.parse(text).words.split()[-1] for text in always_left.endings} == {"right"}


def test_pacman_is_caught_by_a_ghost_in_batches_as_in_single_games() -> None:
    seeds = list(range(12))
    stays = Constant(*[0.0] * 4, 1.0)
    batch, _ = play(make_slots("legible/PacmanSmall-v0", 4), stays, seeds)
    single, _ = play(make_slots(EnvironmentSpec("legible/PacmanSmall-v0").make(), 1), stays, seeds)
    np.testing.assert_array_equal(batch.endings, single.endings)
    assert any("catches" in text for text in batch.endings)


@pytest.mark.parametrize(
    ("environment", "possible"),
    [
        ("MountainCar-v0", {"time limit: time runs out before the goal"}),
        ("FrozenLake-v1", {"success: it reaches the goal", "failure: it falls into a hole"}),
        ("LunarLander-v3", {"failure: it crashes", *(f"failure: it flies out of sight on the {s}" for s in SIDES)}),
        ("InvertedPendulum-v5", {f"failure: the pole falls to the {side}" for side in SIDES}),
        ("Hopper-v5", {"failure: it falls"}),
    ],
)
def test_random_play_ends_as_the_environment_can_end(environment: str, possible: set[str]) -> None:
    slots = make_space_slots(environment, 1)
    seeds = list(range(6))
    played = play_episodes(slots, RandomChooser(slots, 0), seeds)
    slots.close()
    assert set(played.endings.tolist()) <= possible


def halves(step: LastStep) -> dict[str, float]:
    """Return two terms of the reward."""
    return {"first": 0.25 * step.reward, "second": 0.75 * step.reward}


def test_a_function_of_the_user_names_the_terms_of_the_reward() -> None:
    slots = make_slots(Scripted(), 1, terms=f"{__name__}:halves")
    played, _ = play(slots, Constant(0, 1), [1003, 2])
    np.testing.assert_allclose(played.terms["first"] + played.terms["second"], played.returns)
    with pytest.raises(LegibleError, match="batches"):
        make_slots("legible/PacmanSmall-v0", 2, terms=f"{__name__}:halves")
    with pytest.raises(UnfitEnvironmentError, match="is_wrong"):
        play(make_slots(Scripted(), 1, terms=f"{__name__}:is_wrong"), Constant(0, 1), [1003])


def test_the_score_of_a_game_is_the_sum_of_its_terms() -> None:
    seeds = list(range(20))
    played, _ = play(make_slots("legible/PacmanSmall-v0", 4), Constant(0.0, 0.0, 1.0, 0.5, 0.0), seeds, epsilon=0.5)
    names = played.terms.dtype.names or ()
    assert {"food", "being caught"} <= set(names)
    np.testing.assert_allclose(sum(played.terms[name] for name in names), played.returns)
    assert set((played.terms["ghosts eaten"] / 200).tolist()) <= {0.0, 1.0, 2.0, 3.0, 4.0}
