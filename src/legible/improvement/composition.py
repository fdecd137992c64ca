"""Compose the rule sets that reveal weaknesses into a guided policy that is better.

By default rule sets are selected so that the composition stays small and does not overfit
(`legible.improvement.selection`); `--preset paper` has Algorithm 2 of the paper (`legible.improvement.algorithm_2`).

Evaluation, composition, its check and the final figure use disjoint blocks of seeds: what is picked because it did well
on some seeds is never quoted from the same ones.

- `improve`: composes, and measures the result on fresh seeds; `Improvement`: what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.evaluation import Evaluation, PlayedBlocks, Runner, Sample, find_objective, play_on_same_seeds
from legible.evaluation.figures import check_constraints, effect_by, effects, figure_rows
from legible.evaluation.objectives import ConstraintCheck
from legible.evaluation.statistics import Effect
from legible.evaluation.units import Setup, UnitResult, run_units
from legible.features import FeatureSpace
from legible.formatting import data_frame
from legible.improvement.algorithm_2 import compose_as_in_paper
from legible.improvement.composed import CompositionCheck, CompositionStep, FrontPoint, share_changed
from legible.improvement.selection import compose_by_selection
from legible.play import stage_seeds
from legible.rules import Rule, RuleSet
from legible.settings import EvaluationSettings, ImprovementSettings


@dataclass(frozen=True)
class Improvement:
    """A composition of rule sets and what it is worth.

    Parameters
    ----------
    rule_sets
        The rule sets that were accepted, in the order of their acceptance.
    composition
        Their union: the rules of the guided policy.
    steps
        How it came about.
    chosen
        The composition on the seeds on which it was chosen: the paper's figure, too good because it was picked for it.
    effect
        Guided minus base by the objective, on the fresh seeds of the final figure, failed episodes at their worst.
    final_blocks
        The episodes of the final figure: the unguided policy and, unless the composition is empty, the guided one.
    settings, evaluation_settings
        Of the composition; of the evaluation, for objective, constraints and method.
    front
        Compositions that no other one beats in both gain and changed actions, the fewest changes first; none in the
        paper's method.
    check
        What seeds that chose nothing say of the composition; None where there was nothing to check, or in the paper's
        method. Where it is not passed, the composition is empty.
    environment_steps
        Environment steps of composition, check and final figure.
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

    @property
    def base(self) -> Sample:
        """The unguided policy on the seeds of the final figure."""
        return Sample.of(self.final_blocks.base)

    @property
    def guided(self) -> Sample:
        """The guided policy on the seeds of the final figure; the unguided one when the composition is empty."""
        return Sample.of(self.final_blocks.results[-1])

    @property
    def changes_too_much(self) -> bool:
        """Whether it changes more actions on the seeds of the final figure than it may."""
        return share_changed(self.final_blocks.results[-1]) > self.settings.most_changed

    @property
    def choice_shares(self) -> NDArray[np.float64]:
        """Share of the final figure's steps in which the guided policy takes each choice; empty where not counted."""
        guided = self.final_blocks.results[-1]
        counted = guided.taken.any(axis=1)
        if not counted.any():
            return np.zeros(0)
        shares: NDArray[np.float64] = guided.taken.sum(axis=0) / guided.lengths[counted].sum()
        return shares

    def effects(self) -> dict[str, Effect]:
        """Guided minus base on the seeds of the final figure by every objective, whichever was asked for."""
        blocks = self.final_blocks
        return effects(blocks.results, blocks.results[-1], blocks.base, self.evaluation_settings.method)

    def figure_rows(self, references: Mapping[str, UnitResult] | None = None) -> list[dict[str, Any]]:
        """Base, guided policy (if there is one), difference and references on the final seeds, a row an objective."""
        blocks = self.final_blocks
        if not len(self.composition):
            return figure_rows({"base": blocks.base}, references=references)
        return figure_rows({"base": blocks.base, "guided": blocks.results[-1]}, self.effects(), references)

    def constraints(self) -> tuple[ConstraintCheck, ...]:
        """Whether the seeds of the final figure show that the constraints are kept."""
        blocks = self.final_blocks
        return check_constraints(self.evaluation_settings, blocks.results, blocks.results[-1], blocks.base)

    def to_rows(self, space: FeatureSpace) -> list[dict[str, Any]]:
        """The steps of the composition as plain rows, for JSON or a data frame."""
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

    def to_pandas(self, space: FeatureSpace) -> Any:
        """Return the steps of the composition as a data frame, a row each."""
        return data_frame(self.to_rows(space), ("rule", "rules", "mean", "error", "changed", "removal", "accepted"))

    def front_rows(self, space: FeatureSpace) -> list[dict[str, Any]]:
        """The front as plain rows, the fewest changed actions first, for JSON or a data frame."""
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
    on_episodes: Callable[[int], None] | None = None,
) -> Improvement:
    """Compose rule sets, then measure the result on fresh seeds.

    Parameters
    ----------
    setup
        As for the evaluation; its treatments are not used.
    evaluation
        Which rule sets reveal weaknesses.
    seed
        Of the study.
    settings
        Numbers of episodes, and which candidates in which order.
    veto
        Rules that must not be in the composition: a rule set that contains one, or was generalised from one, is not
        tried.
    run, on_episodes
        As in `legible.evaluation.evaluate`.
    """
    settings = settings or ImprovementSettings()
    compose = compose_by_selection if evaluation.settings.method == "racing" else compose_as_in_paper
    found = compose(setup, evaluation, seed=seed, settings=settings, veto=veto, run=run, on_episodes=on_episodes)
    treatments = (found.composition,) if len(found.composition) else ()
    final = replace(setup, treatments=treatments, count_choices=True)
    blocks = play_on_same_seeds(final, stage_seeds(seed, "final", 0, settings.final_episodes), run, on_episodes)
    played = sum(int(result.lengths.sum()) for result in blocks.results)
    objective, method = find_objective(evaluation.settings.objective), evaluation.settings.method
    return Improvement(
        rule_sets=found.rule_sets,
        composition=found.composition,
        steps=found.steps,
        chosen=found.chosen,
        effect=effect_by(objective, blocks.results, blocks.results[-1], blocks.base, method),
        final_blocks=blocks,
        settings=settings,
        evaluation_settings=evaluation.settings,
        front=found.front,
        check=found.check,
        environment_steps=found.environment_steps + played,
    )
