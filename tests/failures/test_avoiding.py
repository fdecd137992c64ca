"""The last chance to avoid a failure: futures whose endings are known."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from legible.failures import Chance, find_last_chance

CHOICES = np.array([0, 1, 2])


def chances_of(lengths: Sequence[int]) -> list[Chance]:
    back = np.array([1, 2, 3, 5, 8])
    return [Chance(i, length - back, np.tile(CHOICES, (len(back), 1))) for i, length in enumerate(lengths)]


class Futures:
    """Choice 2 saves an episode from some steps before the end on; other choices never do."""

    def __init__(self, lengths: Sequence[int], needed: int, lucky_first: bool = False) -> None:
        self.lengths, self.needed, self.lucky_first = lengths, needed, lucky_first
        self.asked: list[tuple[int, int]] = []

    def __call__(self, chances: Sequence[Chance], first: int, count: int) -> list[NDArray[np.str_]]:
        self.asked.append((first, count))
        found = []
        for chance in chances:
            back = self.lengths[chance.episode] - chance.steps
            saved = (chance.choices == 2) & (back >= self.needed)[:, None]
            if self.lucky_first and first == 0:
                saved = chance.choices == 1
            endings = np.where(saved, "time limit", "failure: it falls")
            found.append(np.repeat(endings[:, :, None], count, axis=2))
        return found


def test_the_last_step_at_which_another_choice_helps() -> None:
    lengths = [30, 40, 50]
    futures = Futures(lengths, needed=3)
    found = find_last_chance(chances_of(lengths), lengths, futures, rollouts=4, seed=0)
    assert (found.episodes, found.found, found.steps.value) == (3, 1.0, 3.0)
    assert (found.avoided.value, found.as_played.value) == (1.0, 0.0)
    assert futures.asked == [(0, 4), (4, 4)]  # fresh futures judge what the first ones chose
    assert "3 steps" in found.sentence()
    assert found.summary() == (
        "Other choices up to 3 steps before the end help: 100 % of fresh rollouts survive instead of 0 %."
    )


def test_luck_in_the_first_futures_is_not_reported() -> None:
    lengths = [30, 40]
    found = find_last_chance(chances_of(lengths), lengths, Futures(lengths, 99, lucky_first=True), rollouts=2, seed=0)
    assert found.found == 1.0
    assert found.avoided.value == 0.0


def test_failures_that_cannot_be_avoided() -> None:
    found = find_last_chance(chances_of([30]), [30], Futures([30], needed=99), rollouts=2, seed=0)
    assert found.found == 0.0
    assert np.isnan(found.steps.value)
    assert "none of 1 failures" in found.sentence()
    assert found.summary() == ""
    assert found.to_dict() == {"episodes": 1, "found": 0.0}


@pytest.mark.parametrize("seed", [0, 1])
def test_same_seed_same_result(seed: int) -> None:
    lengths = [30, 40, 50]
    one, two = (
        find_last_chance(chances_of(lengths), lengths, Futures(lengths, needed=5), rollouts=2, seed=seed)
        for _ in range(2)
    )
    assert one == two
