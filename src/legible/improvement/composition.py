"""Composition of the rule sets that reveal weaknesses into a better, guided policy.

By default rule sets are selected so that the composition stays small and does not overfit
(`legible.improvement.selection`); `--preset paper` uses Algorithm 2 of the paper (`legible.improvement.algorithm_2`).

Evaluation, composition, its check and the final figure use disjoint blocks of seeds, so that no result is reported from
the seeds on which it was selected.

- `improve`: composes rule sets, and measures the composition on held-out seeds; `Improvement`: the result.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.display import Displayed
from legible.evaluation import Evaluation, Figure, PlayedBlocks, Runner, Sample, find_objective, play_on_same_seeds
from legible.evaluation.figures import check_constraints, effect_by, effects, figures
from legible.evaluation.ledger import LedgerPart, courses_of, split_times
from legible.evaluation.objectives import ConstraintCheck
from legible.evaluation.rare_losses import RareLosses, judge_rare_losses
from legible.evaluation.statistics import Effect
from legible.evaluation.units import Setup, run_units
from legible.features import FeatureSpace
from legible.formatting import confidence_interval, data_frame, number
from legible.improvement.algorithm_2 import compose_as_in_paper
from legible.improvement.composed import CompositionCheck, CompositionStep, FrontPoint, share_changed
from legible.improvement.selection import compose_by_selection
from legible.play import stage_seeds
from legible.rules import Rule, RuleSet
from legible.settings import EvaluationSettings, ImprovementSettings


@dataclass(frozen=True, repr=False)
class Improvement(Displayed):
    """A composition of rule sets and its effect.

    Parameters
    ----------
    rule_sets
        The rule sets that were accepted, in the order of their acceptance.
    composition
        Their union: the rules of the guided policy.
    steps
        The steps of the composition.
    chosen
        The composition on the seeds on which it was selected: the paper's figure, which is too optimistic.
    effect
        Guided minus unguided by the objective on the final seeds, with the worst case of failed episodes.
    final_blocks
        The final episodes: of the unguided policy and, unless the composition is empty, of the guided one.
    settings, evaluation_settings
        Settings of the composition, and of the evaluation (objective, constraints and method).
    front
        Compositions that no other one beats in both gain and override rate, the lowest rate first; empty in the paper's
        method.
    check
        Check on held-out seeds; None where there was nothing to check, and in the paper's method. If it is not passed,
        the composition is empty.
    environment_steps
        Environment steps of composition, check and final episodes.
    worst_loss
        The worst paired loss of any rule set of the study, or the worst one that the user says to be possible.
    gain_by_time
        The gain in the mean return by the time after the first changed action; empty where it is unknown.
    """

    rule_sets: tuple[RuleSet, ...]
    composition: RuleSet
    steps: tuple[CompositionStep, ...]
    chosen: Sample
    effect: Effect
    final_blocks: PlayedBlocks = field(compare=False, repr=False)
    settings: ImprovementSettings
    evaluation_settings: EvaluationSettings = field(default_factory=EvaluationSettings)
    front: tuple[FrontPoint, ...] = ()
    check: CompositionCheck | None = None
    environment_steps: int = 0
    worst_loss: float = 0.0
    gain_by_time: tuple[LedgerPart, ...] = ()

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        effect = self.effect
        return {
            "rules": len(self.composition),
            "mean return": f"{number(self.base.mean)} → {number(self.guided.mean)}",
            "gain": confidence_interval(effect.mean, effect.low, effect.high),
        }

    @property
    def base(self) -> Sample:
        """Summary of the unguided policy on the final seeds."""
        return Sample.of(self.final_blocks.base)

    @property
    def guided(self) -> Sample:
        """Summary of the guided policy on the final seeds; of the unguided one if the composition is empty."""
        return Sample.of(self.final_blocks.results[-1])

    @property
    def rare_losses(self) -> RareLosses | None:
        """The effect of rare losses on the gain on the final seeds; None for objectives that are no means."""
        objective = find_objective(self.evaluation_settings.objective)
        if objective.ranks is not None or objective.is_binary or not len(self.composition):
            return None
        base, guided = self.final_blocks.base, self.final_blocks.results[-1]
        differences = objective.differences(guided, base)
        changed = ((guided.changed > 0) | (differences != 0.0)) & ~np.isnan(differences)
        return judge_rare_losses(
            differences[changed], self.worst_loss, is_known=bool(self.evaluation_settings.worst_loss)
        )

    @property
    def changes_too_much(self) -> bool:
        """True if the override rate on the final seeds exceeds the limit."""
        return share_changed(self.final_blocks.results[-1]) > self.settings.most_changed

    @property
    def choice_shares(self) -> NDArray[np.float64]:
        """Share of the final steps in which the guided policy takes each choice; empty where not counted."""
        guided = self.final_blocks.results[-1]
        counted = guided.taken.any(axis=1)
        if not counted.any():
            return np.zeros(0)
        shares: NDArray[np.float64] = guided.taken.sum(axis=0) / guided.lengths[counted].sum()
        return shares

    def effects(self) -> dict[str, Effect]:
        """Return guided minus unguided on the final seeds by every objective."""
        blocks = self.final_blocks
        settings = self.evaluation_settings
        return effects(blocks.results, blocks.results[-1], blocks.base, settings.method, settings.objective)

    def figures(self) -> dict[str, dict[str, Figure]]:
        """Return the figures of the unguided policy ("base") and, if there is a composition, of the guided one."""
        guided = {"guided": self.final_blocks.results[-1]} if len(self.composition) else {}
        blocks, objective = {"base": self.final_blocks.base, **guided}, self.evaluation_settings.objective
        return {name: figures(result, objective) for name, result in blocks.items()}

    def constraints(self) -> tuple[ConstraintCheck, ...]:
        """Check the constraints on the final seeds."""
        blocks = self.final_blocks
        return check_constraints(self.evaluation_settings, blocks.results, blocks.results[-1], blocks.base)

    def to_rows(self, space: FeatureSpace) -> list[dict[str, Any]]:
        """Return the steps of the composition as plain rows, for JSON or a data frame."""
        return [
            {
                "rule": step.rule_set.short_text(space),
                "rules": len(step.rule_set),
                "mean": step.mean,
                "error": step.error,
                "changed": step.changed,
                "removal": step.is_removal,
                "accepted": step.accepted,
            }
            for step in self.steps
        ]

    def to_frame(self, space: FeatureSpace) -> Any:
        """Return the steps of the composition as a data frame, one row each."""
        return data_frame(self.to_rows(space), ("rule", "rules", "mean", "error", "changed", "removal", "accepted"))

    def front_rows(self, space: FeatureSpace) -> list[dict[str, Any]]:
        """Return the front as plain rows, the lowest override rate first, for JSON or a data frame."""
        shown = find_objective(self.evaluation_settings.objective).shown
        return [
            {
                "rules": [rule.text(space) for rule in point.composition.rules],
                "changed": point.changed,
                "effect": shown(point.effect.mean),
                "low": min(shown(point.effect.low), shown(point.effect.high)),
                "high": max(shown(point.effect.low), shown(point.effect.high)),
                "chosen": point.is_chosen,
            }
            for point in self.front
        ]


def improve(
    setup: Setup,
    evaluation: Evaluation,
    *,
    seed: int,
    settings: ImprovementSettings | None = None,
    veto: Collection[Rule] = (),
    run: Runner = run_units,
) -> Improvement:
    """Return the composition, which is the rules that are best deployed together, and its gain on held-out seeds.

    Parameters
    ----------
    setup
        Policy, environment and settings of play, as for the evaluation; its rule sets are not used.
    evaluation
        Verdicts on the rule sets, from which those to compose are taken.
    seed
        Seed of the study.
    settings
        Numbers of episodes, candidates and their order.
    veto
        Rules to exclude: a rule set that contains one, or has one as its mined rule, is not tried.
    run
        Plays lists of episodes and returns their results: `run_units`, possibly with engine and store already chosen.
    """
    settings = settings or ImprovementSettings()
    # Select the rules, on seeds of their own.
    compose = compose_by_selection if evaluation.settings.method == "racing" else compose_as_in_paper
    composed = compose(setup, evaluation, seed=seed, settings=settings, veto=veto, run=run)
    # Play the policy with and without them on the final seeds, which selected nothing. If no rules were found, the
    # unguided policy plays alone.
    treatments = (composed.composition,) if len(composed.composition) else ()
    final_setup = replace(setup, treatments=treatments, count_choices=True)
    final_seeds = stage_seeds(seed, "final", 0, settings.final_episodes)
    blocks = play_on_same_seeds(final_setup, final_seeds, run)
    final_steps = sum(int(result.lengths.sum()) for result in blocks.results)
    # Split the gain by time after the first changed action, which needs the reward of every step; then drop those.
    is_split = treatments and len(blocks.base) > 1
    gain_by_time = split_times(courses_of(blocks.base, blocks.results[-1])) if is_split else ()
    blocks = replace(blocks, results=tuple(result.without_course for result in blocks.results))
    objective, method = find_objective(evaluation.settings.objective), evaluation.settings.method
    effect = effect_by(objective, blocks.results, blocks.results[-1], blocks.base, method)
    front = composed.front
    if settings.seeds == "confirmation":  # whose seeds have selected the composition
        final = FrontPoint(composed.composition, effect, share_changed(blocks.results[-1]), is_chosen=True)
        front = tuple(final if point.is_chosen else point for point in front)
    return Improvement(
        rule_sets=composed.rule_sets,
        composition=composed.composition,
        steps=composed.steps,
        chosen=composed.chosen,
        effect=effect,
        final_blocks=blocks,
        settings=settings,
        evaluation_settings=evaluation.settings,
        worst_loss=evaluation.worst_loss,
        gain_by_time=gain_by_time,
        front=front,
        check=composed.check,
        environment_steps=composed.environment_steps + final_steps,
    )
