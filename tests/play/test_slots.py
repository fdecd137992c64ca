"""Places for episodes: what is opened, what is closed, what is refused."""

import gymnasium
import numpy as np
import pytest

from legible.environments import EnvironmentSpec, UnfitEnvironmentError
from legible.errors import LegibleError
from legible.play import SingleSlots, SpaceSlots, make_slots, make_space_slots
from play import spaces_environments
from toy_environments import Scripted, Spaces

SMALL = "legible/PacmanSmall-v0"


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


def test_slots_that_cannot_be_are_refused(raises_saved) -> None:
    for n in (0, -1):
        with raises_saved(LegibleError):
            make_slots(SMALL, n)
    env = Scripted()
    with raises_saved(UnfitEnvironmentError):
        SingleSlots([env, Scripted(), env])


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
    for mask, said in (([False] * 5, "episode with seed 3: .* allows no action"), ([True] * 4, "has 4 entries")):
        env = spaces_environments.MaskedParts()
        env.action_masks = lambda mask=mask: np.array(mask)
        with pytest.raises(UnfitEnvironmentError, match=said):
            SpaceSlots([env]).start(np.array([0]), [3])
