"""The runner of a study: it plays the units that the folder does not hold yet, with progress by stage.

- `StageRunner`: runs units of one or more stages.
- `StepMissingError`: the result of a step was asked for, and it has not been done.
- `run_within_limit`: one piece of work on an engine, within a time limit, with a clear line when it fails.
- `Progress`, `ProgressCount`, `ignore_progress`: reports of progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from legible.engines import Engine, UnitFailedError, run_one
from legible.errors import LegibleError
from legible.evaluation import FailureLimit
from legible.evaluation.units import RETURNS, Kept, R, Setup, Store, Unit, run_units

Shared = TypeVar("Shared")
Work = TypeVar("Work")
T = TypeVar("T")
Progress = Callable[[str, int, int], None]
"""Called as ``progress(stage, done, of)`` whenever more of a stage became known."""


class StepMissingError(LegibleError):
    """The result of a step was asked for, and it has not been done."""


def ignore_progress(_stage: str, _done: int, _of: int) -> None:
    """Progress that is not shown."""


def run_within_limit(
    engine: Engine, function: Callable[[Shared, Work], T], shared: Shared, unit: Work, time_limit: float, what: str
) -> T:
    """Run one piece of work on an engine within a time limit; `what` says what failed when it does."""
    try:
        return run_one(engine, function, shared, unit, time_limit)
    except UnitFailedError as error:
        raise UnitFailedError(
            f"{what}: {str(error).rstrip('.')}. If the environment is only slow, give it more time (check: "
            "--time-limit, run: --set time_limit=N); if it hangs, repair it."
        ) from error


class ProgressCount:
    """Counts the finished episodes of a stage and reports them."""

    def __init__(self, progress: Progress | None, stage: str, of: int) -> None:
        self.stage = stage
        self._progress, self._done, self._known, self._of = progress or ignore_progress, 0, 0, of

    def expect(self, more: int) -> None:
        """Learn that more is to come than was known."""
        self._known += more
        self._of = max(self._of, self._known)

    def add(self, n: int) -> None:
        """Count, and tell."""
        self._done += n
        self._progress(self.stage, self._done, self._of)


class StageRunner:
    """Runs units as `legible.evaluation.units.run_units` does, with engine and store already chosen.

    Parameters
    ----------
    stages
        What the successive calls are called in progress; the last name stays.
    of
        Episodes of all calls together, where they are known.
    expected
        For stages that calls name themselves: how many episodes they play at least, and how many are to be expected.
    store_of
        Where results are kept, by what is kept of episodes.
    engine, fingerprint, time_limit
        As in `run_units`.
    most_failed
        Share of the episodes of a stage that may fail.
    progress
        Called with the progress.
    """

    def __init__(
        self,
        stages: Sequence[str],
        of: int,
        *,
        expected: Mapping[str, tuple[int, int]] | None = None,
        engine: Engine,
        store_of: Callable[[Kept[Any]], Store[Any]],
        fingerprint: str,
        time_limit: float | None,
        most_failed: float,
        progress: Progress | None,
    ) -> None:
        self._stages, self._expected, self._store_of = list(stages), expected or {}, store_of
        self._progress, self._count = progress, ProgressCount(progress, stages[0], of)
        self._failures = FailureLimit(most_failed, stages[0], of)
        self._options: dict[str, Any] = {
            "engine": engine,
            "fingerprint": fingerprint,
            "time_limit": time_limit,
        }

    def __call__(
        self,
        setup: Setup,
        units: Sequence[Unit],
        *,
        kept: Kept[R] = RETURNS,  # type: ignore[assignment]  # mypy knows no default for a type variable
        stage: str = "",
        failures: FailureLimit | None = None,
        on_episodes: Callable[[int], None] | None = None,
    ) -> R:
        """Run all units that are not in the store; with `failures`, those count there and not for the stage."""
        name = stage or self._stages[0]
        if name != self._count.stage:
            least, expected = self._expected.get(name, (0, 0))
            self._count = ProgressCount(self._progress, name, expected)
            self._failures = FailureLimit(self._failures.most_failed, name, least)
        if len(self._stages) > 1:
            self._stages.pop(0)
        self._count.expect(sum(len(unit) for unit in units))

        def tell(n: int) -> None:
            self._count.add(n)
            if on_episodes is not None:
                on_episodes(n)

        return run_units(
            setup,
            units,
            kept=kept,
            store=self._store_of(kept),
            failures=failures or self._failures,
            on_episodes=tell,
            **self._options,
        )
