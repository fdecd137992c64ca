"""`measure_symmetry`: measures how far a policy respects relations, without a study.

For every relation it counts the states of the policy's own play in whose image the policy takes the related action. It
then plays the policy with its scores averaged over states and their images, on the same seeds: the difference of the
mean return is what the asymmetry costs. Studies measure the same with their own units (`legible.study.symmetry`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation.statistics import paired
from legible.features import FeatureSpace, Observations
from legible.play import StepRecord, play_policy
from legible.play.stages import stage_seeds
from legible.policies import Policy
from legible.relations import MetamorphicRelation, by_name
from legible.streams import check_seed
from legible.study.symmetry import SymmetryScore, average_policy, count_related

MOST_STATES = 20_000
_STREAM = 8  # separates the draw of states from other random numbers of the seed


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
        played = step.episodes >= 0  # a row of the batch without an episode has -1
        steps.append((np.asarray(step.observations[played], np.float32), np.asarray(step.actions[played])))

    returns = play_policy(policy, environment, seeds, on_step=record).returns
    observations, actions = (np.concatenate(column) for column in zip(*steps, strict=True))
    if observations.ndim != 2 or observations.shape[1] != space.n_own:
        raise LegibleError("the symmetry of a policy is measured for flat observations only.")
    # A random sample of at most `MOST_STATES` states, in the order of play.
    sample = np.sort(np.random.default_rng([seed, _STREAM]).permutation(len(actions))[:MOST_STATES])
    observations, actions = observations[sample], actions[sample]
    scores = []
    for name, group in by_name(relations).items():
        states, share = count_related(policy, group, observations, actions)
        if not states:
            continue
        # What averaging the policy over the symmetry is worth. It averages scores, which some policies do not have.
        effect = None
        if policy.kind != "none":
            averaged = average_policy(policy, group, space.n_own)
            effect = paired(play_policy(averaged, environment, seeds).returns, returns)
        scores.append(SymmetryScore(name, states, share, episodes, effect))
    return scores
