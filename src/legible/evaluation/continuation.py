"""Continuation of an evaluation: rule sets that are not confirmed yet are tested again, on new seeds.

The k-th continuation tests at the level alpha / 2^k, so that all continuations together, however many there are, find
something that is not there with a probability of at most alpha, in addition to that of the study itself. What is
confirmed stays confirmed.

- `continue_evaluation`: one continuation. `Continuation`: its numbers of tested and confirmed rule sets.
"""

from __future__ import annotations

from dataclasses import replace

from legible.errors import LegibleError
from legible.evaluation.blocks import Runner
from legible.evaluation.confirmation import OVERSAMPLING, Expectation, confirm
from legible.evaluation.recorded import find_repetition
from legible.evaluation.units import Setup, run_units
from legible.evaluation.verdicts import Continuation, Evaluation, Verdict
from legible.play.stages import seed_of_round
from legible.settings import FEWEST_CHANGES


def continue_evaluation(
    setup: Setup,
    evaluation: Evaluation,
    *,
    seed: int,
    episodes: int,
    run: Runner = run_units,
) -> Evaluation:
    """Return the evaluation with new verdicts on undecided rule sets, which are tested on further seeds.

    Undecided rule sets did better than the unguided policy, but not significantly. If none of them changes enough
    episodes for a test, the evaluation is returned unchanged.

    Parameters
    ----------
    setup, evaluation
        Policy and environment, and the verdicts so far.
    seed
        Seed of the study.
    episodes
        Maximum number of episodes. The most promising rule sets are tested, as many as these episodes suffice for.
    run
        Plays lists of episodes and returns their results: `run_units`, possibly with engine and store already chosen.
    """
    round_number, settings = len(evaluation.continuations) + 1, evaluation.settings
    if settings.method != "racing":
        raise LegibleError(
            f"only studies that race rule sets can be continued, and this one used the method {settings.method!r}. Run "
            "a new study with --set evaluation.method=racing."
        )
    chosen, seeds = choose_undecided(evaluation, episodes)
    if not chosen:
        return evaluation
    # Each round has half the significance level of the one before, so that all rounds together stay below alpha, and
    # its own seeds, on which nothing was selected.
    level = settings.alpha / 2**round_number
    seed = seed_of_round(seed, round_number)
    repetition = find_repetition(setup, seed, "racing confirmation", run)
    played = confirm(
        replace(setup, treatments=(), rows=repetition.rows),
        repetition,
        [evaluation.verdicts[i].treatment for i in chosen],
        # This asks for as many changed episodes as there are seeds, so that every rule set plays all of them.
        [Expectation(_changed_share(evaluation.verdicts[i]), changes_to_exclude_losses=seeds) for i in chosen],
        seed=seed,
        settings=replace(settings, alpha=level, confirmation_seeds=seeds, confirmation_changes=FEWEST_CHANGES),
        run=run,
        worst_loss=evaluation.worst_loss,
    )
    # Update the verdicts of the tested rule sets; the others stay as they are.
    verdicts, n_confirmed = list(evaluation.verdicts), 0
    for i, confirmation, steps in zip(chosen, played.confirmations, played.steps, strict=True):
        # q is multiplied by the inverse of the share of alpha, so that it compares with alpha like all others.
        new_confirmation = replace(confirmation, q=min(1.0, 2**round_number * confirmation.q))
        is_confirmed = new_confirmation.is_passed(settings.alpha)
        old_verdict = verdicts[i]
        # A test on too few changed episodes says nothing: then the earlier confirmation stays.
        keeps_old = new_confirmation.is_too_rare and old_verdict.confirmation is not None
        verdicts[i] = replace(
            old_verdict,
            confirmation=old_verdict.confirmation if keeps_old else new_confirmation,
            is_confirmed=is_confirmed,
            is_weakness=old_verdict.is_weakness or is_confirmed,
            is_set_aside=old_verdict.is_set_aside and not is_confirmed,
            steps=old_verdict.steps + steps,
        )
        n_confirmed += is_confirmed
    return replace(
        evaluation,
        verdicts=tuple(verdicts),
        confirmation_blocks=evaluation.confirmation_blocks or played.blocks,
        unguided_steps=evaluation.unguided_steps + int(played.blocks.base.lengths.sum()),
        continuations=(*evaluation.continuations, Continuation(len(chosen), seeds, level, n_confirmed)),
    )


def choose_undecided(evaluation: Evaluation, episodes: int) -> tuple[list[int], int]:
    """Return the indices of the undecided rule sets that are tested next, and the number of seeds that each plays.

    Undecided means not confirmed, though better than the unguided policy so far, and not known to be negligible. The
    most promising come first. One more is added as long as every rule set gets the changed episodes that a test needs.

    Parameters
    ----------
    evaluation
        The verdicts so far; the indices are those of its `verdicts`.
    episodes
        Maximum number of episodes, guided and unguided ones, of all these rule sets together.
    """

    def promise(i: int) -> tuple[bool, float]:
        """Return a sort key: set-aside rule sets last, then by the p-value of the best test so far."""
        verdict = evaluation.verdicts[i]
        confirmation = verdict.confirmation
        if confirmation is None or confirmation.is_too_rare:
            return verdict.is_set_aside, verdict.p
        return verdict.is_set_aside, confirmation.effect.p

    undecided = [
        i
        for i, verdict in enumerate(evaluation.verdicts)
        if not verdict.is_confirmed
        and verdict.difference > evaluation.settings.smallest_effect
        and evaluation.relevance(verdict) != "negligible"
    ]
    # The unguided policy plays every seed once. A rule set, and the mined rule behind it, play only the seeds on which
    # they change the episode. So the episodes per seed grow with the share of changed episodes of the chosen rule sets.
    chosen: list[int] = []
    seeds = guided_per_seed = 0.0
    smallest_share = 1.0
    for i in sorted(undecided, key=promise):
        share = _changed_share(evaluation.verdicts[i])
        new_smallest = min(smallest_share, share)
        new_guided = guided_per_seed + 2.0 * share  # the rule set, and the mined rule behind it
        new_seeds = episodes / (1.0 + new_guided)
        # The rarest rule set must still be expected to change enough episodes, with a margin for both estimates: its
        # share, and the number of seeds.
        if new_smallest * new_seeds >= OVERSAMPLING**2 * FEWEST_CHANGES:
            chosen.append(i)
            smallest_share, guided_per_seed, seeds = new_smallest, new_guided, new_seeds
    return chosen, int(seeds)


def _changed_share(verdict: Verdict) -> float:
    """Return the share of the episodes that a rule set changed in the race."""
    return (verdict.changed_episodes or 0) / max(1, verdict.sample.episodes)
