"""The paper's baselines in a study.

- `BASELINES`: their names; `check_baseline`: whether a word is one.
- `evaluate_baseline`: random testing or random rules, as the rule sets are evaluated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from legible.errors import LegibleError
from legible.evaluation import Evaluation, Runner, evaluate
from legible.evaluation.baselines import random_rule_sets, random_tests

if TYPE_CHECKING:
    from legible.study.study import Study

BASELINES = ("block", "enforce", "rules")


def check_baseline(kind: str) -> None:
    """Refuse anything but the name of a baseline."""
    if kind not in BASELINES:
        raise LegibleError(f"there is no baseline {kind!r}; they are 'block', 'enforce' and 'rules'.")


def evaluate_baseline(study: Study, kind: str) -> Evaluation:
    """Evaluate a baseline of a study whose own rule sets are known."""
    mined, sets, actions = [found.rule for found in study.mining.rules], study.rule_sets, len(study.space.actions)
    if kind == "rules":
        treatments: list[Any] = list(random_rule_sets(mined, sets, actions, len(sets), seed=study.seed))
    else:
        count, changes = study.settings.baselines.random_tests, study.settings.baselines.changes
        tests = random_tests(actions, count, enforce=kind == "enforce", seed=study.seed, changes=changes)
        treatments = list(tests)
    return evaluate(
        study.setup(treatments),
        seed=study.seed,
        settings=study.settings.evaluation,
        stage="random rules" if kind == "rules" else "random tests",
        run=_runner(study, kind),
    )


def _runner(study: Study, kind: str) -> Runner:
    """Return how units are run; a race of the baseline is told apart from the one of the study."""
    name = f"baseline {kind}"
    run = study.runner(name)
    return lambda *units, stage="", **options: run(*units, stage=stage and f"{name}: {stage}", **options)
