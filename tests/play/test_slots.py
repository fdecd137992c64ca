"""Places for episodes: what is opened, what is closed, what is refused."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from legible.environments import EnvironmentSpec, UnfitEnvironmentError
from legible.errors import LegibleError
from legible.play import SingleSlots, SpaceSlots, make_slots, make_space_slots
from play import spaces_environments
from play.playing import play
from toy_environments import Constant, Scripted, Spaces

SMALL = "legible/PacmanSmall-v0"


def test_an_environment_object_makes_one_slot() -> None:
    env = Scripted()
    slots = make_slots(env, 256)
    assert slots.n == 1
    played, _ = play(slots, Constant(0, 1), [3, 104])
    assert played.lengths.tolist() == [3, 4]
    assert env.seeds_seen == [3, 104]
    assert not env.closed


def test_slots_close_what_they_opened() -> None:
    slots = make_slots("toy_environments:Scripted", 3)
    assert [env.closed for env in slots._envs] == [False] * 3
    slots.close()
    assert [env.closed for env in slots._envs] == [True] * 3


def test_what_does_not_fit_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import toy_environments

    opened: list[gymnasium.Env] = []

    class Continuous(Spaces):
        def __init__(self, limit: int = 99) -> None:
            super().__init__(action_space=gymnasium.spaces.Text(3))
            if len(opened) >= limit:
                raise RuntimeError("no more memory")
            opened.append(self)
            self.closed = False

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(toy_environments, "Continuous", Continuous, raising=False)
    with pytest.raises(UnfitEnvironmentError, match="actions are a Text space"):
        make_slots("toy_environments:Continuous", 4)
    assert [env.closed for env in opened] == [True] * 4
    opened.clear()
    with pytest.raises(UnfitEnvironmentError, match="RuntimeError: no more memory"):
        make_slots(EnvironmentSpec("toy_environments:Continuous", {"limit": 2}), 4)
    assert [env.closed for env in opened] == [True] * 2


def test_a_factory_that_makes_one_environment_for_all_is_refused(raises_saved) -> None:
    env = Scripted()
    with raises_saved(UnfitEnvironmentError):
        SingleSlots([env, Scripted(), env])


@pytest.mark.parametrize("n", [0, -1])
def test_there_must_be_a_slot(n: int, raises_saved) -> None:
    with raises_saved(LegibleError):
        make_slots(SMALL, n)


def test_a_vector_environment_is_no_environment() -> None:
    with pytest.raises(UnfitEnvironmentError, match="a SyncVectorEnv is no environment"):
        make_slots(SyncVectorEnv([Scripted]), 2)


def test_masks_are_not_passed_over_where_studies_play(raises_saved) -> None:
    with raises_saved(UnfitEnvironmentError):
        make_slots(f"{spaces_environments.__name__}:Masked", 2)


def test_slots_of_any_spaces_show_masks_and_leave_idle_rows_alone() -> None:
    slots = make_space_slots(f"{spaces_environments.__name__}:MaskedParts", 3)
    slots.start(np.array([0, 2]), [5, 6])
    env = spaces_environments.MaskedParts()
    for row, seed in ((0, 5), (1, 5), (2, 6)):  # what was never used shows the first observation
        np.testing.assert_array_equal(slots.observations[row], env.reset(seed=seed)[0])
        if row != 1:
            np.testing.assert_array_equal(slots.masks[row], env.action_masks())
    before = slots.observations.copy()
    slots.step(np.array([[0, int(mask[4])] for mask in slots.masks]), np.array([True, False, False]))
    assert (slots.observations != before).any(axis=1).tolist() == [True, False, False]
    slots.close()


def test_masks_that_allow_nothing_or_do_not_fit_are_named() -> None:
    for mask, said in (([False] * 5, "allows no action in the episode with seed 3"), ([True] * 4, "has 4 entries")):
        env = spaces_environments.MaskedParts()
        env.action_masks = lambda mask=mask: np.array(mask)
        with pytest.raises(UnfitEnvironmentError, match=said):
            SpaceSlots([env]).start(np.array([0]), [3])
