"""Agreement of the policy of a study with each relation of the task, and the cost of its asymmetry.

A relation says that two states are alike, such as a state and its mirror image. A symmetric policy takes the related
action in the image (Right for Left). What an asymmetric policy loses is measured by playing it with its scores averaged
over states and their images, on the same seeds.

- `SymmetryScore`: the result for one relation; `score_symmetries`: the step of a study.
- `count_related`: in how many states a policy takes the related action; plays nothing.
- `AveragedScores`: the scores of a policy, averaged over states and images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.references import Reference, play_references
from legible.evaluation.statistics import Effect, paired
from legible.evaluation.units import UNGUIDED
from legible.features import Observations
from legible.formatting import percent, signed
from legible.play import stage_seeds
from legible.play.adapted import features_read
from legible.policies import Policy, acting
from legible.relations import MetamorphicRelation, by_name, map_states

if TYPE_CHECKING:
    from legible.study.study import Study

MOST_STATES = 2000
MOST_EPISODES, MOST_PLAYED = 100, 4
"""A study plays at most 100 episodes of its policy and of each of 4 averaged policies: 500 in all."""
_STREAM = 9  # separates the draw of states from other random numbers of the seed


@dataclass(frozen=True)
class SymmetryScore:
    """A measure of how far a policy respects one relation.

    Parameters
    ----------
    relation
        Name of the relation.
    states
        Number of states of the policy's play whose action has an image.
    share
        Share of them in whose image the policy takes the related action.
    episodes
        Number of episodes of `effect`; 0 without one.
    effect
        Mean return of the policy with scores averaged over states and images, minus its own, on the same seeds; None if
        that was not played.
    """

    relation: str
    states: int
    share: float
    episodes: int
    effect: Effect | None

    @property
    def worth(self) -> str:
        """A clause on what a symmetric policy would gain; "" where that was not played."""
        if self.effect is None:
            return ""
        low, high = signed(self.effect.low), signed(self.effect.high)
        return f"acting alike in both changes its mean return by {signed(self.effect.mean)} ({low} to {high})"

    @property
    def text(self) -> str:
        """The score in a sentence."""
        first = f"{self.relation}: the policy takes the related action in {percent(self.share)} of {self.states} states"
        return f"{first}; {self.worth}." if self.worth else f"{first}."

    @property
    def is_costly(self) -> bool:
        """Return whether a symmetric policy would return more, beyond chance."""
        return self.effect is not None and self.effect.low > 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        effect = self.effect and {name: getattr(self.effect, name) for name in ("mean", "low", "high", "p")}
        plain = {name: getattr(self, name) for name in ("relation", "states", "share", "episodes")}
        return {**plain, "effect": effect}


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
    image_actions = {relation.action: relation.image_action for relation in group}
    wanted = np.array([image_actions.get(int(action), -1) for action in actions])
    defined &= wanted >= 0
    if not defined.any():
        return 0, float("nan")
    taken = np.asarray(acting(policy).predict(images[defined], deterministic=True)[0])
    return int(defined.sum()), float((taken == wanted[defined]).mean())


class AveragedScores:
    """Scores of a policy, averaged over a state and its image under the relations of one name.

    The score of Left is averaged with that of Right in the mirror image, for example. States without an image, and
    actions without a relation, keep their scores.
    """

    def __init__(self, policy: Policy, group: Sequence[MetamorphicRelation], n_features: int) -> None:
        # The relations of a name map states in the same way, each for another action.
        self._policy, self._map_of_states = policy, group[0].of_first(n_features)
        self._actions = np.array([relation.action for relation in group])
        self._image_actions = np.array([relation.image_action for relation in group])

    def __call__(self, observations: Observations) -> NDArray[np.float64]:
        """Return averaged scores ``[n, actions]``."""
        scores = np.asarray(self._policy.scores(observations), np.float64)
        images, defined = map_states(self._map_of_states, observations)
        image_scores = np.asarray(self._policy.scores(images), np.float64)
        mean = scores.copy()
        mean[:, self._actions] = (scores[:, self._actions] + image_scores[:, self._image_actions]) / 2
        return np.where(defined[:, None], mean, scores)


def average_policy(policy: Policy, group: Sequence[MetamorphicRelation], n_features: int) -> Policy:
    """Return the policy that acts by the averaged scores of another one; it also samples as that one does."""
    from legible.policies import load_policy  # noqa: PLC0415 (PyTorch takes a while)

    output: Literal["logits", "values"] = "logits" if policy.kind == "log-probabilities" else "values"
    averaged = AveragedScores(policy, group, n_features)
    return load_policy(averaged, output=output, n_features=n_features, n_actions=policy.n_actions)


def score_symmetries(study: Study) -> tuple[SymmetryScore, ...]:
    """Return how far the policy of a study respects each of its relations, and what its asymmetry costs.

    Shares are counted in recorded states. For the relations that it respects least, the symmetrised policy is then
    played: one with averaged scores. Averaging needs scores, observations that are plain rows of numbers, and a policy
    without memory.
    """
    if not study.space.is_discrete or not study.relations:
        return ()
    policy, n_features = study.player(), study.space.n_own
    experiences = study.experiences
    rows = np.sort(np.random.default_rng([study.seed, _STREAM]).permutation(len(experiences.actions))[:MOST_STATES])
    observations, actions = experiences.observations[rows, :n_features], experiences.actions[rows]
    groups = by_name(study.relations)
    # By relation: the number of states that it maps, and the share of them in which the policy respects it.
    counted = {name: count_related(policy, group, observations, actions) for name, group in groups.items()}
    shares = {name: share for name, (states, share) in counted.items() if states}
    effects: dict[str, Effect] = {}
    has_scores, has_memory = policy.kind != "none", acting(policy).recurrent
    reads_plain_rows = features_read(policy) is None
    can_average = has_scores and reads_plain_rows and not has_memory
    played = [name for name in sorted(shares, key=lambda name: shares[name]) if shares[name] < 1.0][:MOST_PLAYED]
    episodes = min(MOST_EPISODES, study.settings.references.episodes)
    if played and can_average:
        references = [
            Reference(
                f"symmetric under {name}",
                fingerprint=sha256(repr(groups[name]).encode()).hexdigest(),
                policy=average_policy(policy, groups[name], n_features),
            )
            for name in played
        ]
        results = play_references(
            study.setup(),
            references,
            seeds=stage_seeds(study.seed, "symmetry", 0, episodes),
            most_failed=study.settings.most_failed,
            run=study.runner("symmetry", of=episodes * (1 + len(references))),
        )
        base = results.pop(UNGUIDED)
        # The episodes of an averaged policy that fails too often are missing; a failed episode has no return.
        for number, result in results.items():
            if not base.failed.any() and not result.failed.any():
                effects[played[number]] = paired(result.played.returns, base.played.returns)
    return tuple(
        SymmetryScore(name, states, shares[name], episodes if name in effects else 0, effects.get(name))
        for name, (states, _) in counted.items()
        if states
    )
