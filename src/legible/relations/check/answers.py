"""Results of checks, and helpers that all checkers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legible.environments import Env
from legible.features import Feature, FeatureSpace, Observations
from legible.relations.relation import MetamorphicRelation, map_states

Flags: TypeAlias = NDArray[np.bool_]
Values: TypeAlias = NDArray[np.float64]
OnProgress: TypeAlias = Callable[[float, str], None]
CheckVerdict = Literal["holds", "holds approximately", "does not hold", "cannot tell"]

FEWEST_STATES = 20  # minimum number of states for a verdict
NEARLY = 0.9  # minimum agreement for "holds approximately" if differences have no known cause
OTHER = "other"
AGREES = "agrees"
IN_IMAGE, AFTER_STEP = "in the image", "after the step"


class Stream(IntEnum):
    """Second half of the seed of a random generator, so that no two draws of a check depend on each other."""

    RANDOM_PLAY = 1
    BOOTSTRAP = 2
    OPEN_FEATURES = 3
    COMPARED_ROWS = 4
    MODEL_ROWS = 5
    OWN_STATE = 6
    INFLUENCE = 9


@dataclass(frozen=True)
class Difference:
    """A difference from the relation in a feature, the reward or the end of the episode."""

    what: str
    when: str
    expected: float
    found: float

    @property
    def text(self) -> str:
        """The difference in words."""
        return f"{self.what} {self.when}: the relation says {self.expected:g}, the environment {self.found:g}"


@dataclass(frozen=True)
class Counterexample:
    """A state in which the environment differs from the relation."""

    state: Mapping[str, float]  # the observation by feature name
    words: str  # the relevant part of the state in words
    action: str
    image_action: str
    differences: tuple[Difference, ...]  # the differences, the largest first
    cause: str = OTHER  # the cause, if known

    @classmethod
    def of(
        cls,
        relation: MetamorphicRelation,
        space: FeatureSpace,
        observation: Observations,
        differences: Sequence[Difference],
        cause: str = OTHER,
    ) -> Counterexample:
        """Return the counterexample for an observation and its differences."""
        # In words: the features that differ, and those that the relation maps to them.
        differing = {space.names.index(difference.what) for difference in differences if difference.what in space.names}
        mapped_from = {pair.image_feature: pair.feature for pair in relation.features}
        relevant = sorted({mapped_from.get(i, i) for i in differing} | differing)
        return cls(
            state={name: float(value) for name, value in zip(space.names, observation, strict=True)},
            words=state_in_words(space, observation, relevant),
            action=space.action_names[relation.action],
            image_action=space.action_names[relation.image_action],
            differences=tuple(differences),
            cause=cause,
        )

    @property
    def text(self) -> str:
        """The counterexample in words."""
        shown = "; ".join(difference.text for difference in self.differences[:4])
        more = f"; and {len(self.differences) - 4} more" if len(self.differences) > 4 else ""
        cause = "" if self.cause == OTHER else f" ({self.cause})"
        state = f"{self.words[:1].upper()}{self.words[1:]}{'' if self.words.endswith('…') else '.'}"
        return f"{state} {self.action} here, {self.image_action} in the image{cause}: {shown}{more}."


@dataclass(frozen=True)
class RelationCheck:
    """Result of the check of a relation for one pair of actions."""

    # The relation's name, and the actions a → a′.
    relation: str
    action: str
    image_action: str
    method: str  # method of the check; begins with "exact" or "statistical"
    states: int  # number of compared states
    # Share of states that agree; for statistical checks, the share of images that are predicted no worse than 99 % of
    # real transitions.
    agreement: float
    causes: Mapping[str, float]  # shares of states that differ, by cause, for exact checks
    # The largest deviation and its column: of a value or a probability for exact checks, else the excess error of
    # images over real transitions, as a share of the variance.
    deviation: float
    deviation_of: str
    # Verdict and further remarks.
    verdict: CheckVerdict
    note: str = ""
    counterexample: Counterexample | None = None  # the worst state, if there is a difference
    # Shares of states that differ without a known cause, by feature, reward or end, for exact checks of states. Slight
    # deviations do not count.
    disagreements: Mapping[str, float] = field(default_factory=dict)
    slight: str = ""  # the remark on slight deviations, if the verdict allows for some; part of the note

    @property
    def is_exact(self) -> bool:
        """True if states were compared value by value, rather than by statistics."""
        return self.method.startswith("exact")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; NaN becomes None."""
        data: dict[str, Any] = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in {"causes", "counterexample", "disagreements", "slight"}
        }
        data |= {name: _or_none(data[name]) for name in ("agreement", "deviation")}
        data |= {"causes": dict(self.causes), "disagreements": dict(self.disagreements)}
        example = self.counterexample
        data["counterexample"] = example and {
            "state": {name: _or_none(value) for name, value in example.state.items()},
            "words": example.words,
            "cause": example.cause,
            "differences": [
                {"what": d.what, "when": d.when, "expected": _or_none(d.expected), "found": _or_none(d.found)}
                for d in example.differences
            ],
        }
        return data


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def inconclusive_check(
    relation: MetamorphicRelation, space: FeatureSpace, method: str, states: int, note: str
) -> RelationCheck:
    """Return the check with the verdict "cannot tell", and the reason."""
    actions = space.action_names[relation.action], space.action_names[relation.image_action]
    return RelationCheck(relation.name, *actions, method, states, np.nan, {}, np.nan, "", "cannot tell", note)


@dataclass(frozen=True)
class CheckInputs:
    """Inputs of all checkers."""

    env: Env
    space: FeatureSpace
    episodes: int | None
    states: int
    seed: int
    on_progress: OnProgress | None = None
    first: int = 0  # number of the first episode to play; blocks of episodes that do not overlap share no seeds
    # Number of relations among which those are that hold: the error rate of statistical checks is split over them.
    tests: int = 1

    def report(self, share: float, what: str) -> None:
        """Report the share that is done, and the current activity."""
        if self.on_progress is not None:
            self.on_progress(share, what)


class Checker(Protocol):
    """A method of checking relations."""

    method: str

    def check(self, relation: MetamorphicRelation, group: Sequence[MetamorphicRelation]) -> RelationCheck:
        """Check one relation; `group` holds all relations of its name."""


# --- Exact comparisons -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateComparison:
    """Expected and observed values, state by state and column by column."""

    observations: Observations  # the states before they are mapped
    columns: Sequence[tuple[str, str]]  # name and time of each compared value
    # ``[n, columns]``.
    expected: Values
    found: Values
    compared: Flags  # ``bool[columns]``: the columns that the relation determines
    differs: Flags  # ``bool[n, columns]``; never set in other columns
    causes: NDArray[np.object_]  # ``object[n]``: the cause of the differences of a state

    @cached_property
    def agrees(self) -> Flags:
        """States without differences."""
        return np.asarray(~self.differs.any(axis=1))

    @cached_property
    def deviations(self) -> Values:
        """Absolute deviations, 0 in columns that are not compared."""
        return np.where(self.compared, np.abs(self.expected - self.found), 0.0)

    def shares(self) -> dict[str, float]:
        """Return the shares of states that differ by cause, the largest first."""
        found, counts = np.unique(self.causes[~self.agrees].astype(str), return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {str(found[i]): float(counts[i] / len(self.causes)) for i in order}

    def unexplained(self, counted: Flags | None = None) -> dict[str, float]:
        """Return the shares of states that differ without a known cause, by what differs; only in counted columns."""
        rows = self.differs[self.causes == OTHER]
        shares: dict[str, float] = {}
        for column in np.flatnonzero(rows.any(axis=0) & (True if counted is None else counted)).tolist():
            what = self.columns[column][0]
            shares[what] = max(shares.get(what, 0.0), float(rows[:, column].sum() / len(self.differs)))
        return shares

    def largest(self) -> tuple[float, str]:
        """Return the largest deviation and its column."""
        row, column = divmod(int(self.deviations.argmax()), len(self.columns))
        deviation = float(self.deviations[row, column])
        return deviation, self.columns[column][0] if deviation else ""

    def worst(self, relation: MetamorphicRelation, space: FeatureSpace) -> Counterexample | None:
        """Return the worst state without a known cause, or else the simplest one with the commonest cause."""
        if self.agrees.all():
            return None
        unexplained = np.flatnonzero(self.causes == OTHER)
        n_differences = self.differs.sum(axis=1)
        if unexplained.size:  # most differences first, then the largest
            order = np.lexsort((-self.deviations[unexplained].max(axis=1), -n_differences[unexplained]))
            row = int(unexplained[order[0]])
        else:  # fewest differences
            has_commonest_cause = self.causes == next(iter(self.shares()))
            row = int(np.where(has_commonest_cause, n_differences, np.iinfo(np.int64).max).argmin())
        differing_columns = np.flatnonzero(self.differs[row])
        largest_first = differing_columns[np.argsort(-self.deviations[row, differing_columns], kind="stable")]
        differences = []
        for i in largest_first.tolist():
            what, when = self.columns[i]
            differences.append(Difference(what, when, float(self.expected[row, i]), float(self.found[row, i])))
        return Counterexample.of(relation, space, self.observations[row], differences, str(self.causes[row]))


def state_in_words(space: FeatureSpace, observation: Observations, about: Sequence[int] = (), most: int = 8) -> str:
    """Return an observation in words: at most `most` features, first those of `about` and of their groups.

    >>> space = FeatureSpace((Feature("y", words="the height"), Feature("on", "categorical", values={1: "it is on"})))
    >>> state_in_words(space, np.array([0.5, 1.0], np.float32))
    'the height is 0.5, it is on'
    """
    groups = {space[i].group for i in about} - {""}
    first = [i for i in range(len(space)) if i in about or space[i].group in groups]
    order = first + [i for i in range(len(space)) if i not in first]
    phrases = [text for i in order if (text := phrase(space[i], float(observation[i])))]
    return ", ".join(phrases[:most]) + (", …" if len(phrases) > most else "")


def phrase(feature: Feature, value: float) -> str:
    """Return one value in words; empty for a flag that is not set."""
    if feature.is_flag and value == 0.0:
        return ""
    return feature.values.get(value, f"{feature.label} is {value:g}")


def exact_answer(
    relation: MetamorphicRelation,
    space: FeatureSpace,
    method: str,
    comparison: StateComparison,
    note: str,
    verdict: CheckVerdict,
    counted: Flags | None = None,
    slight: str = "",
) -> RelationCheck:
    """Return the check for an exact comparison.

    `counted` marks the columns that decided the verdict; `slight` is the remark on deviations that did not.
    """
    deviation, deviation_of = comparison.largest()
    return RelationCheck(
        relation=relation.name,
        action=space.action_names[relation.action],
        image_action=space.action_names[relation.image_action],
        method=method,
        states=len(comparison.agrees),
        agreement=float(comparison.agrees.mean()),
        causes=comparison.shares(),
        deviation=deviation,
        deviation_of=deviation_of,
        verdict=verdict,
        note=note,
        counterexample=comparison.worst(relation, space),
        disagreements=comparison.unexplained(counted),
        slight=slight,
    )


def expected_observations(
    relation: MetamorphicRelation, observations: Observations, found: Observations
) -> Observations:
    """Return the images of observations; those found where an image is undefined."""
    images, defined = map_states(relation, observations)
    return np.where(defined[:, None], images, found)


def known_features(relation: MetamorphicRelation, n_features: int) -> Flags:
    """Mark the features of the image that the relation determines."""
    determined = np.ones(n_features, np.bool_)
    determined[list(relation.unconstrained)] = False
    return determined
