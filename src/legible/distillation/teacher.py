"""What a guided policy says about states: what a network without rules is to do there.

- `Teacher`: labels observations.
- `Labels`: what it says.
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

_AT_ONCE = 4096


def best_choices(scores: Scores, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the best choice of each group ``int64[n, groups]``; the first of equals.

    >>> best_choices(np.array([[0.0, 2.0, 5.0, 1.0]]), np.array([0, 2, 4])).tolist()
    [[1, 2]]
    """
    groups = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    return np.stack([first + scores[:, first:last].argmax(axis=1) for first, last in groups], axis=1)


class Labels(NamedTuple):
    """What the teacher says about states, a row each.

    Parameters
    ----------
    targets
        ``float32[n, outputs]``: the policy's own Q-values; the guided policy's log-probabilities; or the outputs that
        become its continuous actions.
    choices
        ``int64[n, groups]``, what it does.
    changed
        Where rules change what the policy does.
    clear
        Where it says anything: not where rules block every choice.
    """

    targets: NDArray[np.float32]
    choices: NDArray[np.int64]
    changed: NDArray[np.bool_]
    clear: NDArray[np.bool_]

    def rows(self, chosen: NDArray[np.bool_] | slice) -> Labels:
        """Return those of some states."""
        return Labels(self.targets[chosen], self.choices[chosen], self.changed[chosen], self.clear[chosen])

    @classmethod
    def concatenate(cls, parts: Sequence[Labels]) -> Labels:
        """Put them one after the other."""
        return cls(
            np.concatenate([part.targets for part in parts]),
            np.concatenate([part.choices for part in parts]),
            np.concatenate([part.changed for part in parts]),
            np.concatenate([part.clear for part in parts]),
        )


class Teacher:
    """A guided policy that is asked what to do.

    Parameters
    ----------
    guided
        The guided policy; it may have been guided several times.
    """

    def __init__(self, guided: GuidedPolicy) -> None:
        network = guided.network
        assert isinstance(network, NetworkPolicy | ActorPolicy)
        self.guided, self.network = guided, network
        self.starts = guided.space.group_starts
        self._unguided = GuidedPolicy(network, RuleSet(()), guided.space, features=guided.features)
        self._untaught = Student(network)

    def own_scores(self, observations: Observations) -> Scores:
        """Return what the policy alone thinks of all choices."""
        return self._unguided.scores(observations)

    def shown(self, observations: Observations) -> Observations:
        """Return what the network reads of states, where rules see more than that."""
        features = self.guided.features
        return observations if features is None else np.ascontiguousarray(observations[:, features.shown])

    def label(self, observations: Observations) -> Labels:
        """Say what to do in states."""
        starts = range(0, max(len(observations), 1), _AT_ONCE)
        return Labels.concatenate([self._label(observations[i : i + _AT_ONCE]) for i in starts])

    def _label(self, observations: Observations) -> Labels:
        own, guided = self.own_scores(observations), self.guided.scores(observations)
        before, choices = best_choices(own, self.starts), best_choices(guided, self.starts)
        moved = before != choices
        best = np.take_along_axis(guided, choices, axis=1)
        clear: NDArray[np.bool_] = np.all(np.isfinite(best), axis=1)
        targets = {"values": own, "log-probabilities": guided}.get(self._untaught.kind)
        if targets is None:
            targets = self._actions(observations, moved)
        return Labels(np.asarray(targets, np.float32), choices, moved.any(axis=1), clear)

    def _actions(self, observations: Observations, moved: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The outputs that become the guided actions: the policy's own but for the parts that rules move."""
        student = self._untaught
        with torch.no_grad():
            own = student.outputs(student.inputs(self.shown(observations))).numpy()
        done, _ = self.guided.predict(observations, rng=np.random.default_rng(0))
        return np.where(moved, student.as_outputs(done.reshape(len(observations), -1)), own)
