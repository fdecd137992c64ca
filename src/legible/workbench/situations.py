"""Where two policies part, and in which of these situations one of them does better.

Both policies play the same seeds. Up to the first different action their episodes are the same, so the difference of
the returns is due to what they do from there on.

- `first_partings`: the last state that both policies share, for every seed.
- `find_situations`: rules that describe the states from which one policy does better, learned on one half of the seeds
  and tested on the other; a `Situation` each.
- `different_habits`: mined rules that one policy follows and the other does not.
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
    found: list[Parting | None] = []
    for (_, one), (_, two) in zip(first.parts(0, episodes), second.parts(0, episodes), strict=True):
        found += [_parting(one, two, place, space) for place in range(len(one))]
    return found[:episodes]


def _parting(one: RecordedEpisodes, two: RecordedEpisodes, place: int, space: FeatureSpace) -> Parting | None:
    if one.failed[place] or two.failed[place]:
        return None
    rows = [slice(int(part.starts[place]), int(part.starts[place + 1])) for part in (one, two)]
    shared = min(row.stop - row.start for row in rows)
    seen = [part.observations[row][:shared] for part, row in zip((one, two), rows, strict=True)]
    rewards = [part.rewards[row][:shared] for part, row in zip((one, two), rows, strict=True)]
    scores = [part.scores[row][:shared] for part, row in zip((one, two), rows, strict=True)]
    chosen = [np.stack([part[:, group.choices].argmax(axis=1) for group in space.groups], axis=1) for part in scores]
    differs = (chosen[0] != chosen[1]).any(axis=1) | (rewards[0] != rewards[1])
    # What is seen in a step follows from the step before.
    new = ((seen[0] != seen[1]) & ~(np.isnan(seen[0]) & np.isnan(seen[1]))).any(axis=1)
    differs[:-1] |= new[1:]
    steps = np.flatnonzero(differs)
    if not steps.size and rows[0].stop - rows[0].start == rows[1].stop - rows[1].start:
        return None
    step = int(steps[0]) if steps.size else shared - 1
    actions = (int(chosen[0][step, 0]), int(chosen[1][step, 0])) if space.is_discrete else None
    return Parting(step, seen[0][step], actions)


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
        """Say who does better where, and by how much."""
        better = names[int(self.mean > 0.0)]
        where = describe_conditions(self.conditions, space)
        share = percent(self.episodes / max(1, self.held_out))
        does = ""
        if all(self.actions):
            does = f" {names[0]} mostly takes {self.actions[0]} there, {names[1]} {self.actions[1]}."
        return (
            f"{better} does better when {where}: {signed(abs(self.mean))} per episode that parts there ({share} of the "
            f"episodes).{does}"
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
    """Describe the states from which one policy does better.

    Rules are learned on every other seed: they separate partings after which one policy loses from all other partings,
    and from states before partings. Each is tested on the remaining seeds, corrected for the number of rules.

    Parameters
    ----------
    partings, differences
        The last state that both policies share, and the difference of their returns, second minus first; one entry per
        seed.
    shared_states
        States before the partings of the seeds to learn from (every other seed, beginning with the first).
    space, seed, alpha
        Names of features, seed of the learner, and the level of all tests together.
    """
    from legible.mining.ripper import RipperClassifier  # noqa: PLC0415 (it needs scikit-learn)

    parted = np.array([parting is not None for parting in partings])
    learning = np.arange(len(partings)) % 2 == 0
    width = len(space)
    states = np.array(
        [np.zeros(width) if parting is None else np.asarray(parting.state)[:width] for parting in partings], np.float32
    )
    learned: list[tuple[float, tuple[Condition, ...]]] = []
    for sign in (-1.0, 1.0):
        chosen = learning & parted & (sign * differences > 0.0)
        others = learning & parted & ~chosen
        if chosen.sum() < FEWEST_PARTINGS:
            continue
        rows = np.concatenate([states[chosen], states[others], shared_states[:, :width]]).astype(np.float64)
        labels = np.arange(len(rows)) < chosen.sum()
        if labels.all():
            continue
        model = RipperClassifier(positive_class=True, random_state=seed, description_length_allowance=8.0)
        model.fit(np.nan_to_num(rows), labels)
        for rule in model.rules_:
            conditions = _conditions(rule.conditions)
            inside = _holds(conditions, states) & learning & parted
            total = float(differences[inside].sum())
            if sign * total > 0.0 and inside.sum() >= FEWEST_PARTINGS // 2:
                learned.append((abs(total), conditions))
    best = [conditions for _, conditions in sorted(learned, key=lambda one: -one[0])[:MOST_SITUATIONS]]
    found = [
        _measure_situation(conditions, partings, states, differences, ~learning, alpha / (2 * len(best)), seed, space)
        for conditions in best
    ]
    return tuple(situation for situation in found if situation.contribution.side)


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
    """Return a situation with its figures on the held-out seeds; `tail` is the level of each side of the interval."""
    parted = np.array([parting is not None for parting in partings])
    inside = _holds(conditions, states) & parted & held_out
    effect = np.where(inside, differences, 0.0)[held_out]
    taken = [parting.actions for parting, is_in in zip(partings, inside, strict=True) if is_in and parting is not None]
    names = ("", "")
    if space.is_discrete and taken and taken[0] is not None:
        most_frequent = [
            Counter(pair[side] for pair in taken if pair is not None).most_common(1)[0][0] for side in (0, 1)
        ]
        names = (space.action_names[most_frequent[0]], space.action_names[most_frequent[1]])
    return Situation(
        conditions,
        int(inside.sum()),
        int(held_out.sum()),
        float(differences[inside].mean()) if inside.any() else 0.0,
        interval_of_differences(effect, tail, seed),
        names,
    )


def shared_states_of(record: EpisodeRecord, partings: Sequence[Parting | None]) -> NDArray[np.float32]:
    """Return some states before the partings of every other seed, spread evenly over the shared steps."""
    found = []
    for rows, part in record.parts(0, len(partings)):
        for place in range(rows.start, min(rows.stop, len(partings))):
            parting, start = partings[place], int(part.starts[place - rows.start])
            length = int(part.result.lengths[place - rows.start])
            shared = length if parting is None else parting.step
            if place % 2 == 0 and shared:
                steps = np.unique(np.linspace(0, shared - 1, min(shared, SHARED_STATES)).astype(int))
                found.append(part.observations[start + steps])
    return np.concatenate(found) if found else np.zeros((0, record.parts(0, 1)[0][1].observations.shape[1]), np.float32)


def different_habits(
    players: Sequence[Policy], seen: Sequence[Experiences], seed: int
) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return the mined rules of each of two policies that the other one follows clearly less often."""
    settings = MiningSettings(importance="none")
    found = []
    for own, other in ((0, 1), (1, 0)):
        mined = mine(players[own], seen[own], seed=seed, settings=settings)
        rules = [one.rule for one in sorted(mined.rules, key=lambda one: -one.coverage)]
        known = zip(rules, knowledge_of(rules, seen[own]), knowledge_of(rules, seen[other]), strict=True)
        found.append(tuple(rule for rule, mine_, theirs in known if _is_habit_of_one(mine_, theirs)))
    return found[0], found[1]


def _is_habit_of_one(own: Knowledge, other: Knowledge) -> bool:
    if other.triggered < MIN_STATES:
        return False
    gap = own.kept - other.kept
    return gap >= MIN_KEPT_DIFFERENCE and gap > _CLEAR_Z * float(np.hypot(own.error, other.error))
