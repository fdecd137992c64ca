"""Episodes by stage of whole drawn studies, and what they find: rule sets with and without effect, quick budgets.

``PYTHONPATH=tests python -m lab.bench.drawn_stages FACTOR STUDIES EFFECTS``: FACTOR scales the budgets of the quick
preset for slow environments; EFFECTS are the gains of the first rule sets of forty, such as ``6,4,2.5,1.5``. The
difference of a changed episode has a standard deviation of 10, and every episode is changed.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from typing import Any
from unittest import mock

from legible.evaluation import evaluate
from legible.evaluation.recorded import Repetition
from legible.improvement import improve
from legible.settings import StudySettings
from legible.study.budget import scaled

RULE_SETS, NOISE, SEARCH_STEPS = 40, 10.0, 400_000


def quick_settings(factor: float) -> StudySettings:
    """Return the settings of the quick preset for slow environments, with scaled budgets."""
    quick = StudySettings.quick().for_single_environments()
    settings = quick if factor == 1.0 else scaled(quick, factor, SEARCH_STEPS)
    return replace(settings, evaluation=replace(settings.evaluation, relevant="0"))


def main(factor: float, studies: int, effects: list[float]) -> None:
    """Print what the studies find on average, and the episodes of every stage."""
    from drawn_play import SETUP, DrawnPlay, noise, rule, rule_set

    settings, repetition = quick_settings(factor), Repetition(rows=32, holds=False)
    episodes: Counter[str] = Counter()
    found = others = composed = 0
    gain = 0.0
    every = tuple(rule_set(k) for k in range(RULE_SETS))
    setup = replace(SETUP, rows=32, play=settings.play, treatments=every)
    for seed in range(studies):
        draws = {rule(k): noise(NOISE, effects[k] if k < len(effects) else 0.0) for k in range(RULE_SETS)}
        play, recorded = DrawnPlay(draws, world=seed), set()

        def run(this: Any, units: Any, *, stage: str = "final", kept: Any = None, **_: Any) -> Any:
            for unit in units:
                # A study reads recorded episodes that it has played from its folder.
                key = (this.treatments, unit.seeds) if kept is not None else None
                if key is None or key not in recorded:  # noqa: B023
                    episodes[stage + (" (recorded)" if key else "")] += len(unit)
                recorded.add(key)  # noqa: B023
            return play(this, units, kept=kept)  # noqa: B023

        with mock.patch("legible.evaluation.racing.find_repetition", return_value=repetition):
            evaluation = evaluate(setup, seed=seed, settings=settings.evaluation, run=run)
        confirmed = [v.treatment in every[: len(effects)] for v in evaluation.confirmed]
        found, others = found + sum(confirmed), others + len(confirmed) - sum(confirmed)
        alone = replace(setup, treatments=())
        composition = improve(alone, evaluation, seed=seed, settings=settings.improvement, run=run).composition
        composed += bool(len(composition))
        gain += sum(effect for k, effect in enumerate(effects) if rule(k) in composition.rules)
    print(
        f"budgets x {factor:g}, effects {effects}: {episodes.total() / studies:.0f} episodes a study; confirmed "
        f"{found} with an effect, {others} others; {composed} of {studies} compose, true gain {gain / studies:.2f}"
    )
    for name, n in episodes.most_common():
        print(f"  {name:32} {n / studies:6.0f}")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), [float(effect) for effect in sys.argv[3].split(",")])
