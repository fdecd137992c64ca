"""Step 3 of the paper, `evaluate`: guide a policy with every rule set and compare returns, by racing or screening."""

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
    "Rules may help this policy little, because it outputs probabilities (PPO, A2C): the authors of the method found "
    "guidance to work badly for such policies. The results on held-out seeds show whether it works here."
)
UNPAIRED_NOTE = (
    "Seeds are not reproducible here, so guided and unguided episodes are compared as independent samples (Welch's "
    "test), which needs many more episodes than pairs on the same seeds."
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
    on_candidates: Callable[[Sequence[Verdict]], None] | None = None,
) -> Evaluation:
    """Return a verdict on every rule set: whether the policy does better, or worse, when it is guided by it.

    Parameters
    ----------
    setup
        Policy, environment, rule sets (or other treatments: guidance of another kind), and settings of play.
    seed
        Seed of the study; determines the seeds of all episodes.
    settings
        Method, numbers of episodes and significance level.
    stage
        For the paper's method: the block of seeds that the first comparison (screening) uses.
    confirm
        Whether to test the rule sets that look good again, on held-out seeds.
    sources
        Generators of further rule sets, such as searches, by name. Theirs are tested after those of the setup.
    run
        Plays lists of episodes and returns their results: `run_units`, possibly with engine and store already chosen.
    on_candidates
        Called with the rule sets that passed the race, before they are confirmed.
    """
    settings = settings or EvaluationSettings()
    check_objectives(settings.objective, settings.constraint, setup.play)  # before anything is played
    if settings.method != "racing":
        evaluation = screen(setup, seed, settings, stage, confirm, sources, run)
    else:
        evaluation = race(setup, seed, settings, confirm, sources, run, on_candidates=on_candidates)
    # Notes are sentences that the report shows with the results. An environment whose random numbers do not all come
    # from the seed makes effects less precise.
    has_probabilities = setup.policy.kind == "log-probabilities"
    notes = (
        UNPAIRED_NOTE if settings.method == "unpaired" else "",
        PROBABILITIES_NOTE if has_probabilities and not evaluation.confirmed else "",
        "" if evaluation.repetition is None else evaluation.repetition.describe_leak(),
    )
    return replace(evaluation, notes=tuple(filter(None, notes)))
