"""Step 3 of the paper: guide a policy with every rule set, compare returns, and say where the policy is weak.

- `evaluate`: by racing (`legible.evaluation.racing`) or by the paper's method (`legible.evaluation.screening`).
- `notes_on`: what a reader of the verdicts should know about the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from legible.evaluation.blocks import Runner
from legible.evaluation.objectives import check_objectives
from legible.evaluation.racing import race
from legible.evaluation.screening import screen
from legible.evaluation.units import Setup, run_units
from legible.evaluation.verdicts import Evaluation
from legible.hypotheses import Hypotheses
from legible.settings import EvaluationSettings


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
) -> Evaluation:
    """Guide the policy with every treatment of the setup and compare it with the unguided policy.

    Parameters
    ----------
    setup
        Policy, environment, rule sets, and how episodes are played.
    seed
        Of the study; decides the seeds of all episodes.
    settings
        The method, numbers of episodes and the level of the tests.
    stage
        The paper's method: which block of seeds screening uses.
    confirm
        Whether candidates are confirmed on fresh seeds.
    sources
        Sources of hypotheses, by name, whose rule sets are tested after those of the setup.
    run
        How units are run: see `legible.evaluation.units.run_units`.
    on_episodes
        Called with the number of episodes that became known.
    """
    settings = settings or EvaluationSettings()
    check_objectives(settings.objective, settings.constraint, setup.play)  # before anything is played
    if settings.method == "paper":
        found = screen(
            setup,
            seed=seed,
            settings=settings,
            stage=stage,
            confirm=confirm,
            sources=sources,
            run=run,
            on_episodes=on_episodes,
        )
    else:
        found = race(
            setup, seed=seed, settings=settings, confirmed=confirm, sources=sources, run=run, on_episodes=on_episodes
        )
    return replace(found, notes=notes_on(setup))


def notes_on(setup: Setup) -> tuple[str, ...]:
    """What a reader of the verdicts should know about the policy."""
    if setup.policy.kind == "log-probabilities":
        return (
            "This policy gives probabilities (PPO, A2C). Guidance masks actions and renormalises them; the "
            "authors of the method found that this does not work well for such policies. Figures on fresh seeds tell "
            "whether it does for this one.",
        )
    return ()
