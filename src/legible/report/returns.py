"""Returns episode by episode, read back from the study: what the distributions and the choice of replays need.

- `PlayedBlocks`: blocks of episodes on one list of seeds, the unguided policy first.
- `final_blocks`, `confirmation_blocks`: those of the final figure and of the confirmation. A finished study has all
  their units in its store, so nothing is played again.
- `other_returns`: other policies on the seeds of the final figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from legible.engines import InProcess
from legible.evaluation import play_all, stage_seeds
from legible.evaluation.units import UNGUIDED, Setup, Unit, UnitResult, cut_into_units, run_units
from legible.policies import Policy
from legible.rules import RuleSet
from legible.study import Study, fingerprint_of


@dataclass(frozen=True)
class PlayedBlocks:
    """The unguided policy and every treatment of a setup, all on the same seeds.

    Parameters
    ----------
    setup
        Policy, environment and treatments.
    seeds
        Of the episodes of every block.
    results
        One for the unguided policy, then one for each treatment.
    """

    setup: Setup
    seeds: tuple[int, ...]
    results: tuple[UnitResult, ...]

    @property
    def base(self) -> UnitResult:
        """The unguided policy."""
        return self.results[0]

    def guided(self, treatment: int) -> UnitResult:
        """The policy with one of the treatments."""
        return self.results[treatment + 1]

    def unit_of(self, treatment: int, episode: int) -> tuple[Unit, int]:
        """Return the unit in which an episode of a treatment (−1: unguided) was played, and its place there."""
        every = range(UNGUIDED, len(self.setup.treatments))
        treatments = [t for t in every for _ in self.seeds]
        size = self.setup.play.unit_episodes
        units = cut_into_units(treatments, list(self.seeds) * len(every), size)
        position = (treatment + 1) * len(self.seeds) + episode
        return units[position // size], position % size


def _played(study: Study, setup: Setup, seeds: list[int]) -> PlayedBlocks:
    plan = [(treatment, seeds) for treatment in range(UNGUIDED, len(setup.treatments))]
    return PlayedBlocks(setup, tuple(seeds), tuple(play_all(setup, plan, study.runner("report"))))


def final_blocks(study: Study) -> PlayedBlocks:
    """Base and composition on the seeds of the final figure; the base alone when the composition is empty."""
    composition = study.improvement.composition
    seeds = stage_seeds(study.seed, "final", 0, study.settings.improvement.final_episodes)
    return _played(study, study.setup((composition,) if len(composition) else ()), seeds)


def confirmation_blocks(study: Study) -> PlayedBlocks | None:
    """Base, every candidate and every mined rule alone on the seeds of the confirmation; None if there was none."""
    candidates = [v.rule_set for v in study.evaluation.verdicts if v.confirmation is not None]
    if not candidates:
        return None
    alone = [RuleSet((found.source,), found.source) for found in candidates if found.source is not None]
    seeds = stage_seeds(study.seed, "confirmation", 0, study.settings.evaluation.confirmation_episodes)
    return _played(study, study.setup((*candidates, *alone)), seeds)


def other_returns(study: Study, others: Mapping[str, Policy]) -> dict[str, UnitResult]:
    """Let other policies play the seeds of the final figure, in this process."""
    seeds = stage_seeds(study.seed, "final", 0, study.settings.improvement.final_episodes)
    returns = {}
    for name, policy in others.items():
        run = partial(run_units, engine=InProcess(), fingerprint=fingerprint_of(policy, study.environment))
        setup = Setup(policy, study.environment, (), study.settings.play)
        returns[name] = play_all(setup, [(UNGUIDED, seeds)], run)[0]
    return returns
