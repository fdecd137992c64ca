"""Step 3 of the paper: guide a policy with every rule set, compare returns, and report where the policy is weak.

- `evaluate`: by racing (`legible.evaluation.racing`) or by the paper's method (`legible.evaluation.screening`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from legible.evaluation.blocks import Runner
from legible.evaluation.objectives import check_objectives
from legible.evaluation.racing import race
from legible.evaluation.screening import screen
from legible.evaluation.units import Setup, run_units
from legible.evaluation.verdicts import Evaluation, Verdict
from legible.hypotheses import Hypotheses
from legible.settings import EvaluationSettings

PROBABILITIES_NOTE = (
    "Guidance may not work well for this policy, because it gives probabilities (PPO, A2C). Guidance masks actions and "
    "renormalises the rest, which the authors of the method found to work badly for such policies. The results on "
    "held-out seeds show whether it works here."
)
UNPAIRED_NOTE = (
    "Seeds are not reproducible here, so guided and unguided episodes are compared as independent samples (Welch's "
    "test). This needs many more episodes than pairs."
)


def evaluate(
    setup: Setup,
    *,
    seed: int,
    settings: EvaluationSettings | None = None,
    stage: str = "screening",
    confirm: bool = True,
    sources: Mapping[str, Hypotheses] | None = None,
    run: Runner = run_units,
    on_episodes: Callable[[int], None] | None = None,
    on_candidates: Callable[[Sequence[Verdict]], None] | None = None,
) -> Evaluation:
    """Guide the policy with every treatment of the setup and compare it with the unguided policy.

    Parameters
    ----------
    setup
        Policy, environment, rule sets, and settings of play.
    seed
        Seed of the study; determines the seeds of all episodes.
    settings
        Method, numbers of episodes and significance level.
    stage
        For the paper's method: the block of seeds that screening uses.
    confirm
        Whether to confirm candidates on held-out seeds.
    sources
        Sources of hypotheses by name. Their rule sets are tested after the treatments of the setup.
    run
        Runs units: see `legible.evaluation.units.run_units`.
    on_episodes
        Called with the number of episodes that have finished or were found in the store.
    on_candidates
        Called with the rule sets that passed the race, before they are confirmed.
    """
    settings = settings or EvaluationSettings()
    check_objectives(settings.objective, settings.constraint, setup.play)  # before anything is played
    notes = (PROBABILITIES_NOTE,) if setup.policy.kind == "log-probabilities" else ()
    if settings.method == "unpaired":
        notes = (UNPAIRED_NOTE, *notes)
    if settings.method != "racing":
        evaluation = screen(setup, seed, settings, stage, confirm, sources, run, on_episodes)
    else:
        evaluation = race(setup, seed, settings, confirm, sources, run, on_episodes, on_candidates)
    leak = "" if evaluation.repetition is None else evaluation.repetition.describe_leak()
    return replace(evaluation, notes=(*notes, leak) if leak else notes)
