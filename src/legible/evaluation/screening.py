"""Step 3 of the paper: guide a policy with every rule set, compare returns, and report where the policy is weak.

- *Screening*: the unguided policy and every rule set play episodes with different seeds. The paper's verdict is Welch's
  one-sided test; Benjamini-Hochberg corrects for multiple tests.
- *Confirmation*: each candidate and the unguided policy play the same held-out seeds. The paired differences give the
  effect that is reported, with its confidence interval.
- *Failed episodes* count as the worst case (`legible.evaluation.failures`).
- *Cause*: the mined rule alone plays the same seeds. A further gain of its related forms is a failure to generalise.

`screen` runs screening and confirmation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from legible.evaluation.blocks import PlayedBlocks, Runner, play_blocks, play_on_same_seeds
from legible.evaluation.failures import WorstCase
from legible.evaluation.figures import check_constraints
from legible.evaluation.objectives import find_objective
from legible.evaluation.racing import make_explore
from legible.evaluation.statistics import Effect, benjamini_hochberg, standard_error, welch
from legible.evaluation.units import UNGUIDED, Setup, Treatment, UnitResult, run_units
from legible.evaluation.verdicts import Confirmation, Evaluation, Sample, Verdict
from legible.hypotheses import Hypotheses, MeasuredEffect, Named, run_sources
from legible.play.stages import stage_seeds
from legible.rules import RuleSet
from legible.settings import EvaluationSettings


def screen(
    setup: Setup,
    seed: int,
    settings: EvaluationSettings,
    stage: str = "screening",
    confirm: bool = True,
    sources: Mapping[str, Hypotheses] | None = None,
    run: Runner = run_units,
) -> Evaluation:
    """Return a verdict on every rule set by the paper's method: Welch's test of guided against unguided returns.

    Parameters
    ----------
    setup
        Policy, environment, settings of play, and the rule sets (or other guidance) that are tested first.
    seed, settings
        Seed of the study; numbers of episodes and significance level.
    stage
        Name of the block of seeds that this test uses.
    confirm
        Whether to test rule sets that look good again, on held-out seeds.
    sources
        Generators of further rule sets, such as searches, by name.
    run
        Plays lists of episodes and returns their results: `run_units`, possibly with engine and store already chosen.
    """
    screening = _Screening(setup, seed, settings.episodes, stage, run)
    screening.play(setup.treatments)
    # Sources try rule sets with `explore`, on seeds of their own, and have those that they propose tested. `named` are
    # these rule sets, each with the name of its source.
    explore = make_explore(setup, seed, settings, run)
    named = run_sources(sources or {}, screening.measure, explore)
    treatments = (*setup.treatments, *(rule_set for _, rule_set in named))
    verdicts = _make_verdicts(treatments, screening.base, screening.others, settings.alpha)
    for i, (name, _) in enumerate(named, start=len(setup.treatments)):
        verdicts[i] = replace(verdicts[i], found_by=name)
    # Confirm the rule sets whose test here is significant (`is_weakness`: their p is below alpha).
    candidates = [i for i, verdict in enumerate(verdicts) if verdict.is_weakness]
    blocks, unguided_steps = None, int(screening.base.lengths.sum())
    if confirm and candidates and settings.confirmation_episodes:
        blocks = _confirm(setup, seed, settings, verdicts, candidates, run)
        unguided_steps += int(blocks.base.lengths.sum())
    return Evaluation(Sample.of(screening.base), tuple(verdicts), settings, blocks, unguided_steps=unguided_steps)


class _Screening:
    """Episodes of the unguided policy and of every treatment, each on different seeds; treatments can be added."""

    def __init__(self, setup: Setup, seed: int, episodes: int, stage: str, run: Runner) -> None:
        self._setup, self._seed, self._episodes, self._stage, self._run = setup, seed, episodes, stage, run
        self._results: list[UnitResult] = []

    @property
    def base(self) -> UnitResult:
        """The episodes of the unguided policy."""
        if not self._results:
            self._play((), [UNGUIDED])
        return self._results[0]

    @property
    def others(self) -> list[UnitResult]:
        """The episodes of every treatment."""
        return self._results[1:]

    def play(self, treatments: Sequence[RuleSet | Treatment]) -> list[UnitResult]:
        """Play treatments and return their episodes; the unguided policy plays with the first of them."""
        if not treatments:
            return []
        first = UNGUIDED if not self._results else 0
        self._play(treatments, range(first, len(treatments)))
        return self._results[-len(treatments) :]

    def _play(self, treatments: Sequence[RuleSet | Treatment], numbers: Sequence[int]) -> None:
        n, done = self._episodes, len(self._results)
        screened_setup = replace(self._setup, treatments=tuple(treatments))
        plan = [(number, stage_seeds(self._seed, self._stage, (done + i) * n, n)) for i, number in enumerate(numbers)]
        self._results += play_blocks(screened_setup, plan, self._run)

    def measure(self, named: Sequence[Named]) -> list[MeasuredEffect]:
        """Play rule sets of sources, and return the effect of each on the mean return."""
        played = self.play([one.rule_set for one in named])
        worst = WorstCase((self.base, *self.others))
        pairs = [worst.of(result, self.base) for result in played]
        return [
            MeasuredEffect(
                float(guided.returns.mean() - base.returns.mean()),
                float(np.hypot(standard_error(guided.returns), standard_error(base.returns))),
                welch(guided.returns, base.returns),
            )
            for guided, base in pairs
        ]


def _make_verdicts(
    treatments: Sequence[RuleSet | Treatment], base: UnitResult, others: Sequence[UnitResult], alpha: float
) -> list[Verdict]:
    """Return a verdict on each treatment (a rule set or other guidance): whether it helps or harms the policy.

    Parameters
    ----------
    treatments, others
        The treatments, and the episodes guided by each.
    base
        The unguided episodes, on other seeds.
    """
    # Failed episodes count as the worst case for the claim that is tested: first that guidance helps (guided,
    # unguided), then that it harms (unguided, guided).
    worst = WorstCase((base, *others))
    if_helps = [worst.of(guided, base) for guided in others]
    if_harms = [worst.of(base, guided) for guided in others]
    p = [welch(guided.returns, unguided.returns) for guided, unguided in if_helps]
    p_harm = [welch(unguided.returns, guided.returns) for unguided, guided in if_harms]
    q, q_harm = benjamini_hochberg(p), benjamini_hochberg(p_harm)  # corrected for the number of treatments
    verdicts = []
    for i, (treatment, result) in enumerate(zip(treatments, others, strict=True)):
        guided, unguided = if_helps[i]
        verdicts.append(
            Verdict(
                treatment=treatment,
                sample=Sample.of(result),
                difference=float(guided.returns.mean()) - float(unguided.returns.mean()),
                p=p[i],
                q=float(q[i]),
                p_harm=p_harm[i],
                q_harm=float(q_harm[i]),
                is_weakness=p[i] < alpha,
                is_harmful=bool(q_harm[i] < alpha),
                steps=int(result.lengths.sum()),
            )
        )
    return verdicts


def _confirm(
    setup: Setup,
    seed: int,
    settings: EvaluationSettings,
    verdicts: list[Verdict],
    candidates: list[int],
    run: Runner,
) -> PlayedBlocks:
    """Test candidates again on held-out seeds: update `verdicts` in place and return the episodes that were played.

    Parameters
    ----------
    verdicts
        The verdicts on all rule sets; those of the candidates get a confirmation.
    candidates
        Indices of the candidates among the verdicts.
    run
        Plays lists of episodes and returns their results.
    """
    # Play the candidates, the mined rule behind each of them alone, and the unguided policy on the same seeds.
    treatments = [verdicts[i].treatment for i in candidates]
    mined_rules = [t.source if isinstance(t, RuleSet) else None for t in treatments]
    alone = [RuleSet((rule,), rule) for rule in mined_rules if rule is not None]
    seeds = stage_seeds(seed, "confirmation", 0, settings.confirmation_episodes)
    blocks = play_on_same_seeds(replace(setup, treatments=(*treatments, *alone)), seeds, run)
    base, guided = blocks.base, [blocks.guided(number) for number in range(len(treatments))]
    mined_results = (blocks.guided(number) for number in range(len(treatments), len(treatments) + len(alone)))
    objective = find_objective(settings.objective)
    worst = WorstCase(blocks.results, objective.value)

    def compare(better: UnitResult, worse: UnitResult) -> Effect:
        """Return the effect of the first treatment over the second; failed episodes count as the worst case for it."""
        sides = worst.of(better, worse)
        return objective.compare(*sides, method=settings.method, relevant=settings.smallest_effect)

    effects = [compare(result, base) for result in guided]
    q = benjamini_hochberg([effect.p for effect in effects])
    for number, i in enumerate(candidates):
        mined = next(mined_results) if mined_rules[number] is not None else None
        confirmation = Confirmation(
            effect=effects[number],
            q=float(q[number]),
            of_rule=None if mined is None else compare(mined, base),
            # What the related forms of the mined rule add to it.
            of_generalisation=None if mined is None else compare(guided[number], mined),
            failed=int(guided[number].failed.sum()),
            failed_unguided=int(base.failed.sum()),
            constraints=check_constraints(settings, blocks.results, guided[number], base),
        )
        new_results = [guided[number]] if mined is None else [guided[number], mined]
        steps = verdicts[i].steps + sum(int(result.lengths.sum()) for result in new_results)
        is_confirmed = confirmation.is_passed(settings.alpha)
        verdicts[i] = replace(verdicts[i], confirmation=confirmation, is_confirmed=is_confirmed, steps=steps)
    return blocks
