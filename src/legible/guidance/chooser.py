"""Who chooses the actions of guided episodes.

- `CountingChooser`: plays every episode with a treatment of its own and counts how often the treatments stepped in.
- `Acted`: what was done in the rows of a batch.
- `GuidedChooser`: the one whose treatments are rule sets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError
from legible.guidance.kernel import check_precedence, choose_guided, first_guided_changes
from legible.play import Observations, Scores, check_exploration
from legible.play.choosing import ask_policy, group_starts, take_choices
from legible.policies import Policy
from legible.rules import CompiledRules, RuleSet
from legible.rules.condition_bits import ConditionBits, pack_rows
from legible.settings import Enforce, Precedence
from legible.streams import policy_keys


class Acted(NamedTuple):
    """What was done in the rows of a batch.

    Parameters
    ----------
    actions
        The actions.
    choices
        ``int64[n, groups]``, the choices that they are.
    scores
        The policy's scores of all choices.
    fired, changed
        Where treatments stepped in, and where that changed a choice.
    """

    actions: NDArray[Any]
    choices: NDArray[np.int64]
    scores: Scores
    fired: NDArray[np.bool_]
    changed: NDArray[np.bool_]


class CountingChooser(ABC):
    """Chooses the actions of episodes, each with its treatment, and counts how often treatments stepped in.

    Parameters
    ----------
    policy
        The policy.
    treatments
        For every episode, the number of its treatment; −1 plays without any.
    seeds
        For every episode, its seed.
    sample
        Draw actions from the policy's probabilities instead of taking the best one.
    enforce
        What a continuous action becomes that is moved into a region.

    Attributes
    ----------
    fired, changed
        For every episode, the number of steps in which its treatment stepped in, and in which that changed the action.
    taken
        For every episode, the number of steps in which each choice was taken: ``int64[episodes, choices]``, without
        columns unless `count_choices` was called.
    """

    def __init__(
        self,
        policy: Policy,
        treatments: ArrayLike,
        seeds: Sequence[int],
        *,
        sample: bool = False,
        enforce: Enforce = "typical",
    ) -> None:
        self._policy = policy
        self._starts = group_starts(policy)
        self._sample, self._enforce = sample, enforce
        # The last entries serve idle rows, whose episode is −1.
        self._treatments = np.append(np.asarray(treatments, np.int64), -1)
        self._keys = policy_keys([*seeds, 0])
        self.fired = np.zeros(len(seeds), np.int64)
        self.changed = np.zeros(len(seeds), np.int64)
        self.taken = np.zeros((len(seeds), 0), np.int64)

    def count_choices(self) -> None:
        """Count from now on how often each choice is taken."""
        self.taken = np.zeros((len(self.fired), self._policy.n_actions), np.int64)

    def __call__(
        self, observations: Observations, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[Any], Scores]:
        """Choose for every row."""
        done = self.act(observations, self._treatments[episodes], self._keys[episodes], steps)
        self.fired[episodes[done.fired]] += 1
        self.changed[episodes[done.changed]] += 1
        if self.taken.size:
            playing = episodes >= 0
            self.taken[episodes[playing, None], done.choices[playing]] += 1
        return done.actions, done.scores

    def act(
        self,
        observations: Observations,
        treatments: NDArray[np.int64],
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
    ) -> Acted:
        """Choose actions; the parameters are those of `choose`."""
        scores, wanted = ask_policy(self._policy, observations, keys, steps, self._sample)
        choices, fired, changed = self.choose(observations, scores, treatments, keys, steps)
        return Acted(take_choices(self._policy, choices, wanted, self._enforce), choices, scores, fired, changed)

    @property
    def _draws(self) -> bool:
        """Whether choices are drawn from the scores; continuous actions are drawn before."""
        return self._sample and self._policy.kind == "log-probabilities"

    @abstractmethod
    def choose(
        self,
        observations: Observations,
        scores: Scores,
        treatments: NDArray[np.int64],
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the choices ``int64[n, groups]``, where treatments stepped in, and where that changed a choice.

        `keys` are those of the rows' random numbers (see `legible.play.choose_actions`).
        """


class GuidedChooser(CountingChooser):
    """Guides a policy in episodes, each with a rule set of its own.

    Parameters
    ----------
    policy
        The policy.
    rule_sets
        The rule sets that episodes may use.
    episodes
        For every episode, the number of its rule set; −1 plays without guidance.
    seeds
        For every episode, its seed.
    epsilon, sample
        Random actions, guided or not: see `legible.play.choose_actions`. Rules hold when the policy explores, too.
    epsilon_when_guided
        Whether random actions are taken in states in which a rule triggers, too.
    precedence
        Which rules win where they conflict.
    enforce
        What a continuous action becomes that rules move into a region.
    """

    def __init__(
        self,
        policy: Policy,
        rule_sets: Sequence[RuleSet],
        episodes: ArrayLike,
        seeds: Sequence[int],
        *,
        epsilon: float = 0.0,
        epsilon_when_guided: bool = True,
        sample: bool = False,
        precedence: Precedence = "positive",
        enforce: Enforce = "typical",
    ) -> None:
        check_exploration(policy, epsilon, sample)
        check_precedence(precedence)
        chosen = np.asarray(episodes, np.int64)
        if chosen.shape != (len(seeds),) or (chosen >= len(rule_sets)).any() or (chosen < -1).any():
            raise LegibleError(f"a rule set −1 … {len(rule_sets) - 1} is needed for each of {len(seeds)} episodes.")
        super().__init__(policy, chosen, seeds, sample=sample, enforce=enforce)
        self._rules = CompiledRules.compile(rule_sets)
        self._epsilon = epsilon
        self._guided_epsilon = epsilon if epsilon_when_guided else 0.0
        self._negative_first = precedence == "negative"

    def choose(
        self,
        observations: Observations,
        scores: Scores,
        treatments: NDArray[np.int64],
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Guide every row with its rule set."""
        return choose_guided(
            self._rules,
            treatments,
            observations,
            np.ascontiguousarray(scores),
            self._starts,
            self._negative_first,
            keys,
            steps,
            self._epsilon,
            self._guided_epsilon,
            self._draws,
        )

    def first_changes(
        self,
        observations: Observations,
        scores: Scores,
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
        own: NDArray[np.int64],
        taken: NDArray[np.int64],
        episodes: NDArray[np.int64],
        changes: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    ) -> None:
        """Find out when the first rule sets would make another choice; see `kernel.first_guided_changes`.

        It is what `choose` would tell of every row, without the rows that come after the first change.
        """
        first_guided_changes(
            self._rules,
            ConditionBits.of(self._rules, observations),
            np.ascontiguousarray(scores),
            self._starts,
            self._negative_first,
            keys,
            steps,
            self._guided_epsilon,
            self._draws,
            own,
            taken,
            pack_rows((own != taken).any(axis=1)),
            episodes,
            *changes,
        )
