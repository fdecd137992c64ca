"""`RolloutRunner`: rollouts in units of work, stored when they finish, with results that do not depend on workers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.engines import Engine
from legible.evaluation.units import choices_content
from legible.files import DamagedFileError
from legible.mistakes.rollouts import Rollouts, RolloutSetup, RolloutUnit, play_rollouts
from legible.play import Point, stage_seeds
from legible.play.failures import FailureLimit
from legible.play.runner import Pieces, run_units_or_pieces
from legible.play.stages import FUTURES_PER_DECISION

Store = MutableMapping[str, Rollouts]
"""Rollouts by the key of their unit; a study stores them on disk."""

STAGE = "mistakes rollouts"
# Minimum rollouts of a unit per slot: slots are idle while the last rollouts end.
ROLLOUTS_PER_SLOT = 16


class RolloutRunner:
    """Runner of the rollouts of a race (`legible.mistakes.racing.Measure`).

    Parameters
    ----------
    setup
        What all rollouts share.
    points
        The decisions.
    seed
        Seed of the study; determines all futures.
    engine
        Where units run.
    store
        Where units are stored; stored ones are not played again.
    fingerprint
        Stands for the policy in the keys of units.
    time_limit
        Seconds after which a unit is given up.
    failures
        Limits the number of failed decisions, which are left out.
    on_plan, on_rollouts
        Called with the number of planned rollouts, and with the number of finished or stored ones.

    Attributes
    ----------
    steps_played
        Steps of all rollouts, including the steps up to the decisions.
    """

    def __init__(
        self,
        setup: RolloutSetup,
        points: Sequence[Point],
        *,
        seed: int,
        engine: Engine,
        store: Store | None = None,
        fingerprint: str = "",
        time_limit: float | None = None,
        failures: FailureLimit | None = None,
        on_plan: Callable[[int], None] | None = None,
        on_rollouts: Callable[[int], None] | None = None,
    ) -> None:
        self._setup, self._points, self._seed = setup, points, seed
        self._engine, self._store, self._fingerprint = engine, {} if store is None else store, fingerprint
        self._time_limit, self._failures = time_limit, failures or FailureLimit()
        self._expect, self._report = on_plan or (lambda _: None), on_rollouts or (lambda _: None)
        self.steps_played = 0

    def __call__(
        self, numbers: NDArray[np.intp], choices: NDArray[np.int64], first: int, count: int
    ) -> NDArray[np.float64]:
        """Play rollouts and return their returns."""
        if not len(numbers):
            return np.empty((0, choices.shape[1], count))
        size = max(1, ROLLOUTS_PER_SLOT * self._setup.play.batch // (choices.shape[1] * count))
        seeds = np.array([self.futures(number, first, count) for number in numbers.tolist()], np.int64)
        points = [self._points[number] for number in numbers.tolist()]
        cuts = [slice(i, i + size) for i in range(0, len(numbers), size)]
        units = [RolloutUnit(tuple(points[cut]), choices[cut], seeds[cut]) for cut in cuts]
        self._failures.expect(len(numbers))
        self._expect(sum(len(unit) for unit in units))
        return np.concatenate([rollouts.returns for rollouts in self._run(units)])

    def futures(self, number: int, first: int, count: int) -> list[int]:
        """Return the seeds of futures of a decision."""
        return stage_seeds(self._seed, STAGE, number * FUTURES_PER_DECISION + first, count)

    def _run(self, units: list[RolloutUnit]) -> list[Rollouts]:
        """Return the rollouts of each unit; units that are in the store are not played again.

        A unit that fails is played again decision by decision; decisions that fail again get NaN as their returns.

        Parameters
        ----------
        units
            Some decisions each, with the choices to make there and the seeds of the futures.
        """
        keys = [self._key(unit) for unit in units]
        to_play = [i for i, key in enumerate(keys) if key not in self._store]
        stored = sum(len(unit) for unit in units) - sum(len(units[i]) for i in to_play)
        self._report(stored)
        for index, results in run_units_or_pieces(
            play_rollouts,
            self._setup,
            [units[i] for i in to_play],
            cut=self._by_decision,
            engine=self._engine,
            time_limit=self._time_limit,
            failures=self._failures,
            problem="rollouts failed",
        ):
            # `results` has one entry for the whole unit, or one per decision, None if it failed.
            key, unit = keys[to_play[index]], units[to_play[index]]
            shape = (1, unit.choices.shape[1], unit.seeds.shape[1])
            failed_decision = Rollouts(np.full(shape, np.nan), np.zeros(shape, np.int64))
            returns, steps = zip(*(failed_decision if result is None else result for result in results), strict=True)
            self._store[key] = Rollouts(np.concatenate(returns), np.concatenate(steps))
            self._report(len(unit))

        # Stored files could belong to other decisions: their shapes must fit.
        all_rollouts = [self._store[key] for key in keys]
        for unit, key, rollouts in zip(units, keys, all_rollouts, strict=True):
            if rollouts.returns.shape != (*unit.choices.shape, unit.seeds.shape[1]):
                raise DamagedFileError(
                    f"rollouts/{key}.npz: is damaged (it holds other decisions); delete it and run the study again."
                )
            self.steps_played += self._steps(unit, rollouts)
        return all_rollouts

    def _by_decision(self, unit: RolloutUnit) -> Pieces[RolloutSetup, RolloutUnit]:
        """Cut a unit into units of one decision."""
        cuts = [slice(i, i + 1) for i in range(len(unit.points))]
        lone = [RolloutUnit(unit.points[cut], unit.choices[cut], unit.seeds[cut]) for cut in cuts]
        return Pieces(self._setup, lone, [point.seed for point in unit.points])

    def _steps(self, unit: RolloutUnit, rollouts: Rollouts) -> int:
        """Return the steps of rollouts, and of the way to their decisions.

        A replay plays them before each rollout; otherwise each episode is played once, up to its last decision.
        """
        if self._setup.way == "replay":
            steps_before = sum(point.step for point in unit.points) * rollouts.returns[0].size
        else:
            last_decisions: dict[int, int] = {}
            for point in unit.points:
                last_decisions[point.seed] = max(point.step, last_decisions.get(point.seed, 0))
            steps_before = sum(last_decisions.values())
        return steps_before + int(rollouts.steps.sum())

    def _key(self, unit: RolloutUnit) -> str:
        """Return a key of everything that determines the result of a unit."""
        play = asdict(self._setup.play)
        content: dict[str, Any] = {
            **choices_content(self._setup.policy),
            "fingerprint": self._fingerprint,
            "environment": repr(self._setup.environment),
            "play": {name: play[name] for name in ("epsilon", "sample", "batch", "step_limit")},
            "way": self._setup.way,
            "future": self._setup.future,
            "points": [
                (point.seed, point.step, np.asarray(point.actions[: point.step + 1]).tolist()) for point in unit.points
            ],
            "choices": unit.choices.tolist(),
            "seeds": unit.seeds.tolist(),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
