"""Labels of a guided policy, from which a network without rules learns.

- `Teacher`: labels observations with `Labels`.
- `best_choices`: the best choice of each group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from legible.distillation.student import Student
from legible.guidance import GuidedPolicy
from legible.play import Observations, Scores
from legible.policies import ActorPolicy, NetworkPolicy
from legible.rules import RuleSet

_BATCH = 4096


def best_choices(scores: Scores, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the best choice of each group ``int64[n, groups]``; the first of equals.

    >>> best_choices(np.array([[0.0, 2.0, 5.0, 1.0]]), np.array([0, 2, 4])).tolist()
    [[1, 2]]
    """
    groups = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    return np.stack([first + scores[:, first:last].argmax(axis=1) for first, last in groups], axis=1)


class Labels(NamedTuple):
    """Labels of states, one row per state."""

    # ``float32[n, outputs]``: the policy's own Q-values; the guided policy's log-probabilities; or the outputs that
    # become its continuous actions
    targets: NDArray[np.float32]
    choices: NDArray[np.int64]  # ``int64[n, groups]``, the guided policy's choices
    changed: NDArray[np.bool_]  # where rules change the action
    clear: NDArray[np.bool_]  # where the label is valid: rules do not block every choice

    def rows(self, chosen: NDArray[np.bool_] | slice) -> Labels:
        """Return the labels of some states."""
        return Labels(self.targets[chosen], self.choices[chosen], self.changed[chosen], self.clear[chosen])

    @classmethod
    def concatenate(cls, parts: Sequence[Labels]) -> Labels:
        """Return the labels of all parts."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class Teacher:
    """A guided policy, possibly with several layers of rules, that labels states."""

    def __init__(self, guided: GuidedPolicy) -> None:
        network = guided.network
        assert isinstance(network, NetworkPolicy | ActorPolicy)
        self.guided, self.network = guided, network
        self.starts = guided.space.group_starts
        self._unguided = GuidedPolicy(network, RuleSet(()), guided.space, features=guided.features)
        self._untaught = Student(network)

    def own_scores(self, observations: Observations) -> Scores:
        """Return the unguided policy's scores of all choices."""
        return self._unguided.scores(observations)

    def shown(self, observations: Observations) -> Observations:
        """Return the network's own observations, where rules see more than these."""
        features = self.guided.features
        return observations if features is None else np.ascontiguousarray(observations[:, features.shown])

    def label(self, observations: Observations) -> Labels:
        """Return the labels of states."""
        starts = range(0, max(len(observations), 1), _BATCH)
        return Labels.concatenate([self._label(observations[i : i + _BATCH]) for i in starts])

    def _label(self, observations: Observations) -> Labels:
        unguided, guided = self.own_scores(observations), self.guided.scores(observations)
        before, choices = best_choices(unguided, self.starts), best_choices(guided, self.starts)
        moved = before != choices
        best = np.take_along_axis(guided, choices, axis=1)
        clear: NDArray[np.bool_] = np.all(np.isfinite(best), axis=1)
        student = self._untaught
        targets = unguided if student.kind == "values" else guided
        if student.kind == "actions":  # the policy's own outputs, except for the parts that rules move
            with torch.no_grad():
                outputs = student.outputs(student.inputs(self.shown(observations))).numpy()
            taken, _ = self.guided.predict(observations, rng=np.random.default_rng(0))
            targets = np.where(moved, student.as_outputs(taken.reshape(len(observations), -1)), outputs)
        return Labels(np.asarray(targets, np.float32), choices, moved.any(axis=1), clear)
