"""Measures of how far a policy respects relations: `measure_symmetry`, and `count_related`, which plays nothing.

For every relation it counts the states of the policy's own play in whose image the policy takes the related action. It
then plays the policy with its scores averaged over states and their images, on the same seeds: the difference of the
mean return is what the asymmetry costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation.statistics import Effect, paired
from legible.features import FeatureSpace, Observations
from legible.formatting import percent, signed
from legible.play import StepRecord, play_policy
from legible.play.stages import stage_seeds
from legible.policies import Policy, acting, load_policy
from legible.relations import MetamorphicRelation, by_name, map_states
from legible.streams import check_seed

MOST_STATES = 20_000
_STREAM = 8  # separates the draw of states from other random numbers of the seed


@dataclass(frozen=True)
class SymmetryScore:
    """A measure of how far a policy respects one relation.

    Parameters
    ----------
    relation, episodes
        Name of the relation; number of episodes that were played.
    states, share
        Number of states of the policy's play whose action has an image; share of them in whose image the policy takes
        the related action.
    effect
        Mean return of the policy with scores averaged over states and images, minus its own, on the same seeds; None if
        the policy has no scores.
    """

    relation: str
    states: int
    share: float
    episodes: int
    effect: Effect | None

    @property
    def text(self) -> str:
        """The score in a sentence."""
        first = f"{self.relation}: the policy takes the related action in {percent(self.share)} of {self.states} states"
        if self.effect is None:
            return f"{first}."
        low, high = signed(self.effect.low), signed(self.effect.high)
        return f"{first}; acting alike in both changes its mean return by {signed(self.effect.mean)} ({low} to {high})."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        effect = self.effect and {name: getattr(self.effect, name) for name in ("mean", "low", "high", "p")}
        return {**vars(self), "effect": effect}


def measure_symmetry(
    environment: EnvironmentSpec,
    policy: Policy,
    relations: Sequence[MetamorphicRelation],
    space: FeatureSpace,
    *,
    episodes: int = 100,
    seed: int = 0,
) -> list[SymmetryScore]:
    """Return, for the relations of every name, how symmetric the policy is under them.

    Actions must be discrete and observations flat. The policy, and for every relation the averaged policy, plays this
    many `episodes`.
    """
    check_seed(seed)
    if not space.is_discrete:
        raise LegibleError("the symmetry of a policy is measured for discrete actions only.")
    seeds = stage_seeds(seed, "symmetry", 0, episodes)
    steps: list[tuple[Observations, NDArray[np.int64]]] = []

    def record(step: StepRecord) -> None:
        played = step.episodes >= 0
        steps.append((np.asarray(step.observations[played], np.float32), np.asarray(step.actions[played])))

    returns = play_policy(policy, environment, seeds, on_step=record).returns
    observations, actions = (np.concatenate(column) for column in zip(*steps, strict=True))
    if observations.ndim != 2 or observations.shape[1] != space.n_own:
        raise LegibleError("the symmetry of a policy is measured for flat observations only.")
    sample = np.sort(np.random.default_rng([seed, _STREAM]).permutation(len(actions))[:MOST_STATES])
    observations, actions = observations[sample], actions[sample]
    scores = []
    for name, group in by_name(relations).items():
        # The relations of a name map states in the same way, each for another action.
        map_of_states = group[0].of_first(space.n_own)
        related_actions = {relation.action: relation.image_action for relation in group}
        states, share = count_related(policy, group, observations, actions)
        if not states:
            continue
        effect = None
        if policy.kind != "none":
            averaged = load_policy(
                _Averaged(policy, map_of_states, related_actions),
                output="values",
                n_features=space.n_own,
                n_actions=len(space.actions),
            )
            effect = paired(play_policy(averaged, environment, seeds).returns, returns)
        scores.append(SymmetryScore(name, states, share, episodes, effect))
    return scores


def count_related(
    policy: Policy,
    group: Sequence[MetamorphicRelation],
    observations: Observations,
    actions: NDArray[np.int64],
) -> tuple[int, float]:
    """Return the number of states with an image and a related action, and the share in which the policy takes it.

    The relations of `group` have one name, observations are those that the policy sees.
    """
    images, defined = map_states(group[0].of_first(observations.shape[1]), observations)
    related = {relation.action: relation.image_action for relation in group}
    wanted = np.array([related.get(int(action), -1) for action in actions])
    defined &= wanted >= 0
    if not defined.any():
        return 0, float("nan")
    taken = np.asarray(acting(policy).predict(images[defined], deterministic=True)[0])
    return int(defined.sum()), float((taken == wanted[defined]).mean())


class _Averaged:
    """Scores of a policy, averaged over a state and its image."""

    def __init__(self, policy: Policy, relation: MetamorphicRelation, related: dict[int, int]) -> None:
        self._policy, self._relation = policy, relation
        self._sources, self._targets = np.array(list(related)), np.array(list(related.values()))

    def __call__(self, observations: Observations) -> NDArray[np.float64]:
        scores = np.asarray(self._policy.scores(observations), np.float64)
        images, defined = map_states(self._relation, observations)
        image_scores = np.asarray(self._policy.scores(images), np.float64)
        mean = scores.copy()
        mean[:, self._sources] = (scores[:, self._sources] + image_scores[:, self._targets]) / 2
        return np.where(defined[:, None], mean, scores)
