"""The runner of a study: it plays the units that the folder does not hold yet, with progress by stage."""

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
    """Ignore progress."""


def run_within_limit(
    engine: Engine, function: Callable[[Shared, Work], T], shared: Shared, unit: Work, time_limit: float, what: str
) -> T:
    """Run one piece of work on an engine within a time limit in seconds; `what` names it in the error of a failure."""
    try:
        return run_one(engine, function, shared, unit, time_limit)
    except UnitFailedError as error:
        raise UnitFailedError(
            f"{what}: {str(error).rstrip('.')}. If the environment is only slow, give it more time (check: "
            "--time-limit, run: --set time_limit=N); if it hangs, fix it."
        ) from error


class ProgressCount:
    """Counts the finished episodes of a stage and reports them."""

    def __init__(self, progress: Progress | None, stage: str, of: int) -> None:
        self.stage = stage
        self._progress, self._done, self._known, self._of = progress or ignore_progress, 0, 0, of

    def expect(self, more: int) -> None:
        """Expect more episodes than were known of."""
        self._known += more
        self._of = max(self._of, self._known)

    def add(self, n: int) -> None:
        """Count finished episodes, and report the progress."""
        self._done += n
        self._progress(self.stage, self._done, self._of)


class StageRunner:
    """Plays units, which are fixed lists of episodes, as `legible.evaluation.units.run_units` does."""

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
        """Prepare the first stage; nothing is played yet.

        Parameters
        ----------
        stages
            Names, in progress messages, of the first, second, … call; further calls keep the last name.
        of
            Number of episodes of all calls together, 0 if it is not known.
        expected
            For stages that calls name themselves, the minimum and the expected number of episodes.
        engine, fingerprint, time_limit
            Where units run, a hash of policy and environment for their keys, and the seconds after which one is given
            up.
        store_of
            Returns the store of results for a kind of data that is kept.
        most_failed
            Share of the episodes of a stage that may fail.
        progress
            Called as ``progress(stage, done, of)``.
        """
        self._stages, self._expected, self._store_of = list(stages), expected or {}, store_of
        # `_count` reports the progress of the current stage, `_failures` refuses too many failed episodes in it.
        self._progress, self._count = progress, ProgressCount(progress, stages[0], of)
        self._failures = FailureLimit(most_failed, stages[0], of)
        # Arguments of every call of `run_units`.
        self._options: dict[str, Any] = {"engine": engine, "fingerprint": fingerprint, "time_limit": time_limit}

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
        """Return the results of units, one element per episode; units that the folder does not hold are played.

        Parameters
        ----------
        setup, units
            Policy, environment, rule sets and settings of play; lists of episodes, each with a rule set and a seed.
        kept
            Data to keep of the episodes: per-episode results by default, or all steps.
        stage, failures
            Name for progress (by default the next one of the runner's stages), and the count of failed episodes.
        on_episodes
            Called with the number of episodes that have finished.
        """
        # A new stage begins its own progress and its own count of failures. The progress starts from the expected
        # number of episodes, the share of failures from the smallest possible one, so as not to allow too many.
        name = stage or self._stages[0]
        if name != self._count.stage:
            least_episodes, expected_episodes = self._expected.get(name, (0, 0))
            self._count = ProgressCount(self._progress, name, expected_episodes)
            self._failures = FailureLimit(self._failures.most_failed, name, least_episodes)
        if len(self._stages) > 1:  # the last name serves for all further calls
            self._stages.pop(0)
        self._count.expect(sum(len(unit) for unit in units))

        def report(n: int) -> None:
            """Add finished episodes to the progress of the stage, and pass them on."""
            self._count.add(n)
            if on_episodes is not None:
                on_episodes(n)

        return run_units(
            setup,
            units,
            kept=kept,
            store=self._store_of(kept),
            failures=failures or self._failures,
            on_episodes=report,
            **self._options,
        )
