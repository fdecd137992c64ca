"""The paper's baselines for a study: random testing ("block", "enforce") and random rules ("rules").

- `BASELINES`: their names.
- `play_baseline`: evaluates one of them with the method and the budgets of the study.
"""

from __future__ import annotations

from typing import Any

from lab.reproduction.random_baselines import random_rule_sets, random_tests
from legible.errors import LegibleError
from legible.evaluation import Evaluation, evaluate
from legible.play.stages import Stage, declare_stage
from legible.study import Study

BASELINES = ("block", "enforce", "rules")
RANDOM_TESTS = 100
CHANGES = 3  # of the policy in each random test, one percent of the states apiece

for _name, _block in (("random tests", 5), ("random rules", 6)):
    declare_stage(Stage(_name, _block, "baseline", "a baseline of the paper", lambda *_: 0, lambda *_: 0))


def play_baseline(study: Study, kind: str, count: int = RANDOM_TESTS) -> Evaluation:
    """Evaluate a baseline of a study whose rules have been generalised; played units are kept in its folder.

    Parameters
    ----------
    study
        The study.
    kind
        One of `BASELINES`.
    count
        Number of random tests; there are as many random rules as the study has rule sets.
    """
    if kind not in BASELINES:
        raise LegibleError(f"there is no baseline {kind!r}; choose one of {', '.join(BASELINES)}.")
    mined, sets, actions = [found.rule for found in study.mining.rules], study.rule_sets, len(study.space.actions)
    if kind == "rules":
        treatments: list[Any] = list(random_rule_sets(mined, sets, actions, len(sets), seed=study.seed))
    else:
        treatments = list(random_tests(actions, count, enforce=kind == "enforce", seed=study.seed, changes=CHANGES))
    name = f"baseline {kind}"
    with study.lock():
        run = study.runner(name)
        return evaluate(
            study.setup(treatments),
            seed=study.seed,
            settings=study.settings.evaluation,
            stage="random rules" if kind == "rules" else "random tests",
            # The stages of this race are not those of the study's own.
            run=lambda *units, stage="", **options: run(*units, stage=stage and f"{name}: {stage}", **options),
        )
