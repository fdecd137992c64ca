"""Policies with a fault that is known, and pools of paired episodes to draw studies from.

- `Fault`, `FaultyPolicy`: a policy that errs in states that a rule describes; the rule that mends it is known.
- `Pool`, `play_pool`: the faulty policy, the mending rule and rules that have nothing to do with it, on common seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.environments import EnvironmentSpec
from legible.evaluation.blocks import Runner
from legible.evaluation.pairs import PairedPlay
from legible.evaluation.recorded import EpisodeRecord, find_repetition
from legible.evaluation.units import Setup, run_units
from legible.policies import Policy
from legible.rules import Rule, RuleSet


@dataclass(frozen=True)
class Fault:
    """A rule whose states a policy errs in: it takes the rule's action there, in a share of these states.

    The rule that mends it says that the action is not to be taken.
    """

    rule: Rule
    share: float

    @property
    def mending(self) -> RuleSet:
        """The rule that mends the fault."""
        return RuleSet((replace(self.rule, polarity="-"),))


@dataclass(frozen=True)
class FaultyPolicy:
    """A policy with a fault. Whether it errs in a state follows from the state alone."""

    policy: Policy
    fault: Fault

    @property
    def kind(self) -> Any:
        """The kind of the scores."""
        return self.policy.kind

    @property
    def n_features(self) -> Any:
        """Number of features that the policy reads."""
        return self.policy.n_features

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.policy.n_actions

    def scores(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        """Return the scores of the policy, the action of the fault first where it errs."""
        scores = np.array(self.policy.scores(observations))
        errs = self.fault.rule.matches(observations) & (_hash(observations) < self.fault.share)
        scores[errs, self.fault.rule.action] = scores[errs].max(axis=1, initial=0.0) + 1.0
        return scores


def _hash(observations: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return a number in [0, 1) for every observation, as good as random."""
    weights = np.sin(1.0 + np.arange(observations.shape[1])) * 1000.0
    found: NDArray[np.float64] = (observations.astype(np.float64) * weights).sum(axis=1) % 1.0
    return found


@dataclass(frozen=True)
class Pool:
    """Paired episodes on common seeds, to draw seeds from.

    Parameters
    ----------
    base, base_steps
        Returns and lengths of the unguided episodes.
    differences
        For every rule set guided minus unguided returns; the first rule set is the one that mends.
    changed
        Which episodes each rule set changed.
    whole_steps, new_steps
        Environment steps of the guided episodes; and only those from the first change on, 0 where nothing is changed.
    """

    base: NDArray[np.float64]
    base_steps: NDArray[np.int64]
    differences: NDArray[np.float64]
    changed: NDArray[np.bool_]
    whole_steps: NDArray[np.int64]
    new_steps: NDArray[np.int64]

    @property
    def effect(self) -> float:
        """The effect of the mending rule."""
        return float(self.differences[0].mean())

    @property
    def rarity(self) -> float:
        """The share of the episodes that the mending rule changes."""
        return float(self.changed[0].mean())


def play_pool(
    policy: Policy,
    environment: EnvironmentSpec,
    rule_sets: Sequence[RuleSet],
    seeds: int,
    run: Runner = run_units,
    seed: int = 0,
) -> Pool:
    """Play a policy and rule sets on common seeds."""
    setup = Setup(policy, environment)
    repetition = find_repetition(setup, seed, "racing", run)
    record = EpisodeRecord(replace(setup, rows=repetition.rows), seed, "racing", seeds, run)
    play = PairedPlay(setup, repetition, record, run)
    numbers = [play.add(rule_set) for rule_set in rule_sets]
    play.play_seeds(dict.fromkeys(numbers, seeds))
    pairs = [play.pairs(number, seeds) for number in numbers]
    base = record.result[:seeds]
    whole = np.array([pair.guided.lengths for pair in pairs])
    changed = np.array([pair.changed for pair in pairs])
    first = np.array([play.first_changes(number)[:seeds] for number in numbers])
    return Pool(
        base=base.returns,
        base_steps=base.lengths,
        differences=np.array([pair.guided.returns for pair in pairs]) - base.returns,
        changed=changed,
        whole_steps=whole,
        new_steps=np.where(changed, whole - np.maximum(first, 0), 0),
    )
