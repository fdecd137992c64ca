"""Units of work whose episodes may fail."""

import pytest

from legible.engines import InProcess, UnitFailedError
from legible.errors import LegibleError
from legible.play.failures import FailedEpisode, FailureLimit, TooManyFailuresError
from legible.play.runner import Pieces, run_units_or_pieces


def add_all(setup: int, unit: tuple[int, ...]) -> int:
    """Add the numbers of a unit to what is shared; a negative one is an episode that fails, 0 a setup that does."""
    if 0 in unit:
        raise LegibleError("nothing can be played.")
    if min(unit) < 0:
        raise ValueError("negative")
    return setup + sum(unit)


def ran(units: list[tuple[int, ...]], failures: FailureLimit) -> list[tuple[int, list[int | None]]]:
    return list(
        run_units_or_pieces(
            add_all,
            100,
            units,
            cut=lambda unit: Pieces(200, [(one,) for one in unit], unit),
            engine=InProcess(),
            time_limit=None,
            failures=failures,
            problem="no sums",
        )
    )


def test_a_unit_that_fails_is_played_again_piece_by_piece_after_the_others() -> None:
    failures = FailureLimit(0.5, episodes=6)
    assert ran([(1, -2, 3), (4, 5), (-6,)], failures) == [(1, [109]), (0, [201, None, 203]), (2, [None])]
    assert failures.found == [FailedEpisode(False, seed, "ValueError: negative") for seed in (-2, -6)]


def test_too_many_pieces_that_fail_or_what_no_episode_caused_ends_the_run() -> None:
    with pytest.raises(UnitFailedError, match=r"^no sums: nothing can be played\.$"):
        ran([(1, 0)], FailureLimit(1.0, episodes=2))
    with pytest.raises(TooManyFailuresError, match="2 of the 3 episodes"):
        ran([(1, -2, -3)], FailureLimit(0.4, episodes=3))
