"""Where two policies part, and in which of these situations one of them does better.

Both policies play the same seeds. Up to the first different action their episodes are the same, so the difference of
the returns is due to what they do from there on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.recorded import EpisodeRecord, RecordedEpisodes
from legible.explanation import Knowledge, knowledge_of
from legible.explanation.knowledge import MIN_KEPT_DIFFERENCE, MIN_STATES
from legible.features import FeatureSpace
from legible.features.floats import below
from legible.formatting import percent, signed
from legible.mining import mine
from legible.play import Experiences
from legible.policies import Policy
from legible.rules import Condition, Rule
from legible.rules.wording import describe_conditions
from legible.settings import MiningSettings
from legible.workbench.looks import ALPHA, Interval, interval_of_differences

MOST_SITUATIONS = 3
"""Situations in which one policy does better that are tested."""
FEWEST_PARTINGS = 20
"""Partings of a kind, on the seeds to learn from, below which no rule is learned."""
SHARED_STATES = 4
"""States before a parting, per episode, that rules should not describe."""
# A difference of shares of this many standard errors is no chance.
_CLEAR_Z = 3.0
# Bits by which adding rules may lengthen the description: fewer than by default, so that only clear rules are learned.
_ALLOWANCE = 8.0


class Parting(NamedTuple):
    """The last state that two policies share: the step, the features, and what each policy does there.

    Actions are None where an action is not a single choice.
    """

    step: int
    state: NDArray[np.float32]
    actions: tuple[int, int] | None


def first_partings(
    first: EpisodeRecord, second: EpisodeRecord, episodes: int, space: FeatureSpace
) -> list[Parting | None]:
    """Return where the episodes of two policies part, seed by seed; None where they are the same to the bit.

    They part at the first different choice, or before the first different observation or reward. A seed on which an
    episode failed has no parting.
    """
    partings: list[Parting | None] = []
    for (_, part), (_, other) in zip(first.parts(0, episodes), second.parts(0, episodes), strict=True):
        partings += [_parting(part, other, episode, space) for episode in range(len(part))]
    return partings[:episodes]


def _parting(first: RecordedEpisodes, second: RecordedEpisodes, episode: int, space: FeatureSpace) -> Parting | None:
    """Return where two policies first differ on one seed; None if both episodes are the same to the bit, or one failed.

    `first` and `second` are recorded episodes of both policies on the same seeds, step by step.
    """
    if first.failed[episode] or second.failed[episode]:
        return None
    # The steps of this episode in both recordings, up to the shorter length.
    start_1, end_1 = int(first.starts[episode]), int(first.starts[episode + 1])
    start_2, end_2 = int(second.starts[episode]), int(second.starts[episode + 1])
    n_steps = min(end_1 - start_1, end_2 - start_2)
    steps_1, steps_2 = slice(start_1, start_1 + n_steps), slice(start_2, start_2 + n_steps)
    choices_1 = _best_choices(first.scores[steps_1], space)
    choices_2 = _best_choices(second.scores[steps_2], space)
    differs = (choices_1 != choices_2).any(axis=1) | (first.rewards[steps_1] != second.rewards[steps_2])
    # Another observation in a step follows from another action in the step before, which the scores may not show.
    seen_1, seen_2 = first.observations[steps_1], second.observations[steps_2]
    other_observation = ((seen_1 != seen_2) & ~(np.isnan(seen_1) & np.isnan(seen_2))).any(axis=1)
    differs[:-1] |= other_observation[1:]
    different_steps = np.flatnonzero(differs)
    if not different_steps.size and end_1 - start_1 == end_2 - start_2:
        return None
    # Where only the lengths differ, they part in the last common step.
    step = int(different_steps[0]) if different_steps.size else n_steps - 1
    actions = (int(choices_1[step, 0]), int(choices_2[step, 0])) if space.is_discrete else None
    return Parting(step, seen_1[step], actions)


def _best_choices(scores: NDArray[Any], space: FeatureSpace) -> NDArray[np.int64]:
    """Return the best choice of every group of choices, ``[steps, groups]``, for scores ``[steps, choices]``."""
    return np.stack([scores[:, group.choices].argmax(axis=1) for group in space.groups], axis=1)


@dataclass(frozen=True)
class Situation:
    """States from which one of two policies does better, on seeds that the description was not learned from.

    Parameters
    ----------
    conditions
        Description of the states.
    episodes, held_out
        Held-out episodes in which the policies part there, and all.
    mean
        Mean difference of the returns of these episodes, second minus first.
    contribution
        Its contribution to the difference of the mean returns, with a simultaneous interval.
    actions
        Most frequent actions of both policies there; "" where an action is not a single choice.
    """

    conditions: tuple[Condition, ...]
    episodes: int
    held_out: int
    mean: float
    contribution: Interval
    actions: tuple[str, str] = ("", "")

    def text(self, space: FeatureSpace) -> str:
        """Return the conditions with names, as in a rule."""
        return " & ".join(condition.text(space[condition.feature]) for condition in self.conditions)

    def sentence(self, space: FeatureSpace, names: Sequence[str]) -> str:
        """Return which policy does better where, and by how much; `names` are the names of both policies."""
        better = names[int(self.mean > 0.0)]
        where = describe_conditions(self.conditions, space)
        share = percent(self.episodes / max(1, self.held_out))
        actions = ""
        if all(self.actions):
            actions = f" {names[0]} mostly takes {self.actions[0]} there, {names[1]} {self.actions[1]}."
        return (
            f"{better} does better when {where}: {signed(abs(self.mean))} per episode that parts there ({share} of the "
            f"episodes).{actions}"
        )

    def to_dict(self, space: FeatureSpace) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "conditions": self.text(space),
            "words": describe_conditions(self.conditions, space),
            "episodes": self.episodes,
            "held_out": self.held_out,
            "mean_difference": self.mean,
            "contribution": [self.contribution.mean, self.contribution.low, self.contribution.high],
            "actions": list(self.actions),
        }


def find_situations(
    partings: Sequence[Parting | None],
    differences: NDArray[np.float64],
    shared_states: NDArray[np.float32],
    space: FeatureSpace,
    *,
    seed: int,
    alpha: float = ALPHA,
) -> tuple[Situation, ...]:
    """Return the situations (descriptions of states) in which one of two policies does better.

    Rules are learned on every other seed: they separate the states in which the policies part and one then loses from
    all other states. Each is tested on the remaining seeds, corrected for the number of rules.

    Parameters
    ----------
    partings
        ``[seeds]``: the last state that both policies share; None where their episodes are the same.
    differences
        ``[seeds]``: the difference of their returns, second minus first.
    shared_states
        ``[n, features]``: states before the partings, of every other seed, beginning with the first. The rules must not
        describe them, because both policies act alike there.
    space, seed, alpha
        Names of features, seed of the learner, and the level of all tests together.
    """
    from legible.mining.ripper import RipperClassifier  # noqa: PLC0415 (it needs scikit-learn)

    parted = np.array([parting is not None for parting in partings])
    for_learning = np.arange(len(partings)) % 2 == 0
    n_features = len(space)
    # The state of every parting, [seeds, features]; zeros where there is none.
    states = np.array(
        [np.zeros(n_features) if parting is None else np.asarray(parting.state)[:n_features] for parting in partings],
        np.float32,
    )

    # Learn rules for the states from which the second policy loses, and for those from which it wins.
    learned: list[tuple[float, tuple[Condition, ...]]] = []
    for sign in (-1.0, 1.0):
        positive = for_learning & parted & (sign * differences > 0.0)
        negative = for_learning & parted & ~positive
        if positive.sum() < FEWEST_PARTINGS:
            continue
        examples = np.concatenate([states[positive], states[negative], shared_states[:, :n_features]])
        labels = np.arange(len(examples)) < positive.sum()  # the positive examples come first
        if labels.all():
            continue
        model = RipperClassifier(positive_class=True, random_state=seed, description_length_allowance=_ALLOWANCE)
        model.fit(np.nan_to_num(examples.astype(np.float64)), labels)
        for rule in model.rules_:
            conditions = _conditions(rule.conditions)
            is_inside = _holds(conditions, states) & for_learning & parted
            total_difference = float(differences[is_inside].sum())
            # Other outcomes in the same states can outweigh those that the rule was learned for. A rule describes only
            # some of the partings, so half as many are enough here.
            if sign * total_difference > 0.0 and is_inside.sum() >= FEWEST_PARTINGS // 2:
                learned.append((abs(total_difference), conditions))

    # Test the rules with the largest differences on the seeds that they were not learned from.
    learned.sort(key=lambda difference_and_conditions: -difference_and_conditions[0])
    largest = [conditions for _, conditions in learned[:MOST_SITUATIONS]]
    tail = alpha / (2 * max(1, len(largest)))  # the level is split over both ends of all intervals
    tested = [
        _measure_situation(conditions, partings, states, differences, ~for_learning, tail, seed, space)
        for conditions in largest
    ]
    return tuple(situation for situation in tested if situation.contribution.side)  # side 0: the sign is not clear


def _conditions(learned: Sequence[Any]) -> tuple[Condition, ...]:
    """Return the conditions of a learned rule, one per feature."""
    bounds: dict[int, tuple[float, float]] = {}
    for condition in learned:
        low, high = bounds.get(condition.feature, (-np.inf, np.inf))
        value = np.float32(condition.value)
        if condition.operator == "=":
            low, high = float(below(value)), float(value)
        elif condition.operator == ">":
            low = max(low, float(value))
        else:
            high = min(high, float(value))
        bounds[condition.feature] = (low, high)
    return tuple(Condition(feature, low, high) for feature, (low, high) in bounds.items() if low < high)


def _holds(conditions: Sequence[Condition], states: NDArray[np.float32]) -> NDArray[np.bool_]:
    return Rule("+", 0, tuple(conditions)).matches(states)


def _measure_situation(
    conditions: tuple[Condition, ...],
    partings: Sequence[Parting | None],
    states: NDArray[np.float32],
    differences: NDArray[np.float64],
    held_out: NDArray[np.bool_],
    tail: float,
    seed: int,
    space: FeatureSpace,
) -> Situation:
    """Return the situation that conditions describe, with its figures on the held-out seeds.

    `partings` ``[seeds]`` and `states` ``[seeds, features]`` say where two policies part, and the state there.
    `differences` ``[seeds]`` are those of their returns, second minus first, and `held_out` ``[seeds]`` marks the seeds
    that the conditions were not learned from. `tail` is the error probability of each end of the interval.
    """
    parted = np.array([parting is not None for parting in partings])
    is_inside = _holds(conditions, states) & parted & held_out
    # All other seeds contribute nothing to the difference of the mean returns.
    contributions = np.where(is_inside, differences, 0.0)[held_out]

    # The most frequent action of each policy in these states; not for actions of several parts.
    action_pairs = [
        parting.actions
        for parting, inside in zip(partings, is_inside, strict=True)
        if inside and parting is not None and parting.actions is not None
    ]
    action_names = ("", "")
    if action_pairs:
        first, second = (Counter(actions).most_common(1)[0][0] for actions in zip(*action_pairs, strict=True))
        action_names = (space.action_names[first], space.action_names[second])
    return Situation(
        conditions,
        episodes=int(is_inside.sum()),
        held_out=int(held_out.sum()),
        mean=float(differences[is_inside].mean()) if is_inside.any() else 0.0,
        contribution=interval_of_differences(contributions, tail, seed),
        actions=action_names,
    )


def shared_states_of(record: EpisodeRecord, partings: Sequence[Parting | None]) -> NDArray[np.float32]:
    """Return states ``[n, features]`` before the partings of every other seed, spread evenly over the shared steps.

    `record` holds the episodes of either policy, which are the same up to the partings; `partings` has one entry per
    seed.
    """
    states = []
    for places, part in record.parts(0, len(partings)):  # the places of the seeds in a part of the record
        for place in range(places.start, min(places.stop, len(partings))):
            parting, first_row = partings[place], int(part.starts[place - places.start])
            length = int(part.result.lengths[place - places.start])
            n_shared = length if parting is None else parting.step
            if place % 2 == 0 and n_shared:
                steps = np.unique(np.linspace(0, n_shared - 1, min(n_shared, SHARED_STATES)).astype(int))
                states.append(part.observations[first_row + steps])
    if not states:
        return np.zeros((0, record.parts(0, 1)[0][1].observations.shape[1]), np.float32)
    return np.concatenate(states)


def different_habits(
    players: Sequence[Policy], experiences: Sequence[Experiences], seed: int
) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return, for each of two policies, the rules mined from it that the other follows clearly less often.

    `players` are the policies, `experiences` what they saw and did, and `seed` is the seed of mining.
    """
    settings = MiningSettings(importance="none")
    habits = []
    for one, other in ((0, 1), (1, 0)):
        mined = mine(players[one], experiences[one], seed=seed, settings=settings)
        rules = [mined_rule.rule for mined_rule in sorted(mined.rules, key=lambda mined_rule: -mined_rule.coverage)]
        # How often each policy follows each rule where its conditions hold.
        knowledge = zip(
            rules, knowledge_of(rules, experiences[one]), knowledge_of(rules, experiences[other]), strict=True
        )
        habits.append(tuple(rule for rule, of_one, of_other in knowledge if _is_habit_of_one(of_one, of_other)))
    return habits[0], habits[1]


def _is_habit_of_one(own: Knowledge, other: Knowledge) -> bool:
    if other.triggered < MIN_STATES:
        return False
    gap = own.kept - other.kept
    return gap >= MIN_KEPT_DIFFERENCE and gap > _CLEAR_Z * float(np.hypot(own.error, other.error))
