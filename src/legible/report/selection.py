"""Selection of the episodes to replay: a `Choice` each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legible.errors import LegibleError
from legible.evaluation import PlayedBlocks
from legible.evaluation.units import UNGUIDED, UnitResult
from legible.rules import RuleSet

# Gains around the median that count as typical.
_NEAR_MEDIAN = 5


@dataclass(frozen=True)
class Choice:
    """An episode to replay, and the reason in words, such as "the largest gain".

    `treatment` is the number of the rule set that guides it (−1: unguided), and `episode` the position of its seed.
    """

    treatment: int
    episode: int
    why: str


def choose_episodes(base: UnitResult, guided: UnitResult, treatment: int, *, extremes: bool) -> list[Choice]:
    """Choose seeds that guidance changes: a typical gain and, with `extremes`, the largest gain and loss.

    A typical gain is near the median of all gains; among the nearest the shortest episode is chosen.
    """
    difference = guided.returns - base.returns
    changed = guided.changed > 0
    gains, losses = np.flatnonzero(changed & (difference > 0)), np.flatnonzero(changed & (difference < 0))
    choices = []
    if gains.size:
        if extremes:
            best = int(gains[np.argmax(difference[gains])])
            choices.append(Choice(treatment, best, f"the largest gain of {len(base)} seeds"))
        ordered = gains[np.argsort(difference[gains], kind="stable")]
        start = max(0, (len(ordered) - _NEAR_MEDIAN) // 2)
        middle = ordered[start : start + _NEAR_MEDIAN]
        typical = int(middle[np.argmin((guided.lengths + base.lengths)[middle])])
        choices.append(
            Choice(treatment, typical, f"a typical gain: near the median of the {gains.size} seeds that gain")
        )
    if losses.size and (extremes or not gains.size):
        worst = int(losses[np.argmin(difference[losses])])
        choices.append(Choice(treatment, worst, f"the largest loss: {losses.size} of {len(base)} seeds score lower"))
    return choices


def worst_episodes(base: UnitResult, most: int = 3) -> list[Choice]:
    """Choose the unguided episodes with the lowest returns, the worst first; failed ones cannot be shown."""
    order = [int(i) for i in np.argsort(base.returns, kind="stable") if not base.failed[i]]
    if not order or base.returns[order[0]] == base.returns[order[-1]]:
        return [Choice(UNGUIDED, i, "an example: all episodes have the same return") for i in order[:1]]
    names = ("the worst", "the second worst", "the third worst")
    return [Choice(UNGUIDED, i, f"{name} of {len(base)} seeds") for name, i in zip(names, order[:most], strict=False)]


def chosen_seeds(seeds: Sequence[int], wanted: Sequence[int], treatment: int) -> list[Choice]:
    """Choose the episodes of the requested seeds."""
    unknown = [seed for seed in wanted if seed not in seeds]
    if unknown:
        raise LegibleError(f"seed {unknown[0]} was not played; choose a held-out seed from {seeds[0]} to {seeds[-1]}.")
    return [Choice(treatment, list(seeds).index(seed), "the requested seed") for seed in wanted]


def typical_episode(blocks: PlayedBlocks, rule_set: RuleSet) -> Choice | None:
    """Choose a typical episode of a rule set on the seeds of the confirmation, if it was played there."""
    if rule_set not in blocks.setup.treatments:
        return None
    treatment = blocks.setup.treatments.index(rule_set)
    choices = choose_episodes(*blocks.pair(treatment), treatment, extremes=False)
    return choices[0] if choices else None
