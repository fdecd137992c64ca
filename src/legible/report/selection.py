"""Which episodes are worth watching, and why.

- `Choice`, `choose_episodes`: seeds on which guidance gained or lost; `chosen_seeds`: those that were asked for.
- `worst_episodes`: of the policy alone.
- `typical_episode`: one for a rule set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legible.errors import LegibleError
from legible.evaluation import PlayedBlocks
from legible.evaluation.units import UNGUIDED, UnitResult
from legible.rules import RuleSet


@dataclass(frozen=True)
class Choice:
    """An episode to replay, and why this one.

    Parameters
    ----------
    treatment, episode
        Number of the treatment (−1: none, the policy alone) and place among the seeds of the played blocks.
    why
        For people: "the largest gain".
    """

    treatment: int
    episode: int
    why: str


def choose_episodes(base: UnitResult, guided: UnitResult, treatment: int, *, extremes: bool) -> list[Choice]:
    """Choose seeds on which guidance changed something: a typical gain and, if asked for, the largest gain and loss.

    Typical is the gain in the middle of all gains; among nearly equal ones the shortest episode.
    """
    difference = guided.returns - base.returns
    changed = guided.changed > 0
    gains, losses = np.flatnonzero(changed & (difference > 0)), np.flatnonzero(changed & (difference < 0))
    choices = []
    if gains.size:
        if extremes:
            best = int(gains[np.argmax(difference[gains])])
            choices.append(Choice(treatment, best, f"the largest gain of all {len(base)} seeds"))
        ordered = gains[np.argsort(difference[gains], kind="stable")]
        first = max(0, (len(ordered) - 5) // 2)
        middle = ordered[first : first + 5]
        typical = int(middle[np.argmin((guided.lengths + base.lengths)[middle])])
        choices.append(
            Choice(
                treatment, typical, f"a typical gain: the middle of the {gains.size} of {len(base)} seeds that gained"
            )
        )
    if losses.size and (extremes or not gains.size):
        worst = int(losses[np.argmin(difference[losses])])
        choices.append(Choice(treatment, worst, f"the largest loss: {losses.size} of {len(base)} seeds return less"))
    return choices


def worst_episodes(base: UnitResult, most: int = 3) -> list[Choice]:
    """Choose the episodes of the unguided policy that return least, the worst first; failed ones cannot be shown."""
    order = [int(i) for i in np.argsort(base.returns, kind="stable") if not base.failed[i]]
    if not order or base.returns[order[0]] == base.returns[order[-1]]:
        return [Choice(UNGUIDED, i, "one for all: every episode returns the same") for i in order[:1]]
    names = ("the worst", "the second worst", "the third worst")
    return [Choice(UNGUIDED, i, f"{name} of {len(base)} seeds") for name, i in zip(names, order[:most], strict=False)]


def chosen_seeds(seeds: Sequence[int], wanted: Sequence[int], treatment: int) -> list[Choice]:
    """Choose the episodes of the seeds that were asked for."""
    unknown = [seed for seed in wanted if seed not in seeds]
    if unknown:
        raise LegibleError(
            f"seed {unknown[0]} is none of the final figure's seeds, which can be watched: {seeds[0]} to {seeds[-1]}."
        )
    return [Choice(treatment, list(seeds).index(seed), "as you asked") for seed in wanted]


def typical_episode(blocks: PlayedBlocks, rule_set: RuleSet) -> Choice | None:
    """A typical episode of a rule set on the confirmation's seeds, if it was played there."""
    if rule_set not in blocks.setup.treatments:
        return None
    treatment = blocks.setup.treatments.index(rule_set)
    choices = choose_episodes(*blocks.pair(treatment), treatment, extremes=False)
    return choices[0] if choices else None
