"""Choosers of the actions in guided episodes.

- `CountingChooser`: base class; applies one treatment per episode and counts its interventions.
- `GuidedActions`: actions in the rows of a batch.
- `GuidedChooser`: treatments are rule sets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError
from legible.guidance.kernel import check_precedence, choose_guided, first_guided_changes
from legible.imports import njit_uncounted
from legible.play import Observations, Scores, check_exploration
from legible.play.choosing import choices_to_actions, group_starts, query_policy
from legible.policies import Policy
from legible.rules import CompiledRules, RuleSet
from legible.rules.condition_bits import ConditionBits, pack_rows
from legible.settings import Enforce, Precedence
from legible.streams import policy_keys


class GuidedActions(NamedTuple):
    """Actions in the rows of a batch."""

    # The actions, and their choices ``int64[n, groups]``.
    actions: NDArray[Any]
    choices: NDArray[np.int64]
    scores: Scores  # the policy's scores of all choices
    # Rows in which treatments intervened, and in which that changed a choice.
    fired: NDArray[np.bool_]
    changed: NDArray[np.bool_]


@njit_uncounted
def _count(
    episodes: NDArray[np.int64],
    steps: NDArray[np.int64],
    fired_rows: NDArray[np.bool_],
    changed_rows: NDArray[np.bool_],
    overruled_rows: NDArray[np.bool_],
    choices: NDArray[np.int64],
    fired: NDArray[np.int64],
    changed: NDArray[np.int64],
    first_changed: NDArray[np.int64],
    overruled: NDArray[np.int64],
    taken: NDArray[np.int64],
) -> None:
    """Count what guidance did in one step of a batch; the last five arrays are the counts of a `CountingChooser`.

    A row plays the episode ``episodes[row]``, −1 if it is idle. The arrays ``…_rows`` say for each row whether guidance
    intervened, changed the action, or was overruled by the action mask (empty if there is none), and
    ``choices[row, group]`` is the choice that was taken in each part of the action.
    """
    for row in range(episodes.size):
        episode = episodes[row]
        if episode < 0:
            continue
        fired[episode] += fired_rows[row]
        if changed_rows[row]:
            if changed[episode] == 0:
                first_changed[episode] = steps[row]
            changed[episode] += 1
        if overruled_rows.size:
            overruled[episode] += overruled_rows[row]
        if taken.shape[1]:
            for group in range(choices.shape[1]):
                taken[episode, choices[row, group]] += 1


class CountingChooser(ABC):
    """A chooser of actions that changes each episode's actions in one way (its treatment) and counts the changes.

    A treatment is whatever a subclass applies to a whole episode, such as a rule set. Treatments are numbered.

    Attributes
    ----------
    fired, changed, overruled
        Per episode, the number of steps in which its treatment intervened, in which that changed the action, and in
        which the action mask overruled rules.
    first_changed
        Per episode, the first step in which its treatment changed the action; −1 if it changed none.
    taken
        Per episode, the number of steps in which each choice was taken: ``int64[episodes, choices]``, without columns
        unless `count_choices` was called.
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
        """Prepare the treatments (such as rule sets) of episodes, and start all counts at 0.

        Parameters
        ----------
        policy
            The policy whose actions are changed.
        treatments
            ``int64[episodes]``: the number of each episode's treatment; −1 for none.
        seeds
            The seed of each episode, from which its random numbers follow.
        sample
            Whether to sample actions from the policy's probabilities instead of taking the best one.
        enforce
            The value of a continuous action that is moved into a region: ``"typical"`` or ``"nearest"``.
        """
        self._policy = policy
        self._starts = group_starts(policy)
        self._sample, self._enforce = sample, enforce
        # Arrays are read with the number of the episode that a row plays. Idle rows have the number −1, and so read the
        # entry that is appended here.
        self._treatments = np.append(np.asarray(treatments, np.int64), -1)
        self._keys = policy_keys([*seeds, 0])
        self.fired = np.zeros(len(seeds), np.int64)
        self.changed = np.zeros(len(seeds), np.int64)
        self.first_changed = np.full(len(seeds), -1, np.int64)
        self.overruled = np.zeros(len(seeds), np.int64)
        self._overruled_rows = np.zeros(0, np.bool_)
        self.taken = np.zeros((len(seeds), 0), np.int64)

    def count_choices(self) -> None:
        """Start to count how often each choice is taken."""
        self.taken = np.zeros((len(self.fired), self._policy.n_actions), np.int64)

    def __call__(
        self, observations: Observations, episodes: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> tuple[NDArray[Any], Scores]:
        """Choose an action for every row."""
        step = self.act(observations, self._treatments[episodes], self._keys[episodes], steps)
        counts = self.fired, self.changed, self.first_changed, self.overruled, self.taken
        _count(episodes, steps, step.fired, step.changed, self._overruled_rows, step.choices, *counts)
        return step.actions, step.scores

    def act(
        self,
        observations: Observations,
        treatments: NDArray[np.int64],
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
    ) -> GuidedActions:
        """Return the actions; for the parameters see `choose`."""
        scores, wanted = query_policy(self._policy, observations, keys, steps, self._sample)
        choices, fired, changed = self.choose(observations, scores, treatments, keys, steps)
        return GuidedActions(
            choices_to_actions(self._policy, choices, wanted, self._enforce), choices, scores, fired, changed
        )

    @property
    def _draws(self) -> bool:
        """Return whether choices are sampled from the scores; continuous actions are sampled before."""
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
        """Return the choices ``int64[n, groups]``, where treatments intervened, and where that changed a choice.

        `keys` are the random streams of the rows (see `legible.play.choose_actions`).
        """


class GuidedChooser(CountingChooser):
    """A chooser that guides a policy with one rule set per episode; rules also apply to random actions."""

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
        """Check the settings, and compile the rules to arrays.

        Parameters
        ----------
        policy
            The policy whose actions are guided.
        rule_sets
            The rule sets.
        episodes
            The number of each episode's rule set; −1 for an unguided episode.
        seeds
            The seed of each episode, from which its random numbers follow.
        epsilon
            Probability of a random action in each step.
        epsilon_when_guided
            Whether this also holds in states in which a rule triggers.
        sample
            Whether to sample actions from the policy's probabilities instead of taking the best one.
        precedence
            Which rules win a conflict: ``"positive"`` ("take") or ``"negative"`` ("avoid") ones.
        enforce
            The value of a continuous action that rules move into a region: ``"typical"`` or ``"nearest"``.
        """
        check_exploration(policy, epsilon, sample)
        check_precedence(precedence)
        set_of_episode = np.asarray(episodes, np.int64)
        is_known = (set_of_episode >= -1) & (set_of_episode < len(rule_sets))
        if set_of_episode.shape != (len(seeds),) or not is_known.all():
            raise LegibleError(
                f"each of the {len(seeds)} episodes needs the number of its rule set, from 0 to {len(rule_sets) - 1}, "
                "or −1 for none."
            )
        super().__init__(policy, set_of_episode, seeds, sample=sample, enforce=enforce)
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
        """Return the choices of n rows, each guided by its own rule set.

        Parameters
        ----------
        observations
            ``float32[n, features]``.
        scores
            ``float[n, choices]``: the policy's scores of all choices.
        treatments
            ``int64[n]``: the number of each row's rule set; −1 for none.
        keys
            ``uint64[n]``: the random key of each row's episode.
        steps
            ``int64[n]``: the number of steps that each episode has taken.

        Returns
        -------
        choices, fired, changed
            ``int64[n, groups]``: one choice per part of an action; ``bool[n]``: where a rule triggered, and where that
            changed a choice of the policy.
        """
        # The rows in which the action mask overruled rules are counted by the caller.
        choices, fired, changed, self._overruled_rows = choose_guided(
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
        return choices, fired, changed

    def first_changes(
        self,
        observations: Observations,
        scores: Scores,
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
        policy_choices: NDArray[np.int64],
        recorded_choices: NDArray[np.int64],
        episode_starts: NDArray[np.int64],
        results: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    ) -> None:
        """Find the first step of recorded episodes in which each rule set makes another choice than the recorded one.

        Until then, an episode with the rule set is the recorded one, so it need not be played again.

        Parameters
        ----------
        observations, scores, keys, steps
            The recorded steps, one row each, as for `choose`; the rows of an episode follow each other.
        policy_choices
            ``int64[n, groups]``: the choices of the policy without rules.
        recorded_choices
            ``int64[n, groups]``: the choices that were made in the recorded episodes, which may have been guided.
        episode_starts
            ``int64[episodes + 1]``: the first row of each episode, and the end of the last.
        results
            Three arrays ``int64[rule sets, episodes]``, filled in place: the first step that differs (left unchanged if
            there is none), and the numbers of steps before it in which a rule triggered, and in which that changed the
            policy's choice (possible before that step, where the recorded episode was guided to the same choice).
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
            policy_choices,
            recorded_choices,
            pack_rows((policy_choices != recorded_choices).any(axis=1)),
            episode_starts,
            *results,
        )
