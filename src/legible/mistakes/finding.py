"""Mistakes: single decisions in which another choice is significantly better.

- `find_mistakes`: searches for mistakes; `Mistakes`: the results, with valid intervals; `Mistake`: one mistake.
- `plan_decisions`: the number of decisions that can be examined within a number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.display import Displayed
from legible.files import DamagedFileError, read_json, write_json
from legible.formatting import number
from legible.hypotheses import DecisionGains
from legible.mistakes.decisions import Decisions, choose_decisions, other_choices, steps_of
from legible.mistakes.racing import (
    FINAL_FUTURES,
    FINAL_SHARE,
    OTHERS_IN_SECOND,
    SECOND_SHARE,
    SHOWN_FUTURES,
    Measure,
    race_decisions,
)
from legible.mistakes.statistics import IntervalEstimate, false_coverage, gain_of, per_episode, share_of
from legible.play import BranchingMethod, Experiences, Point
from legible.records import DAMAGE_ERRORS
from legible.schemas import check_fields
from legible.settings import MistakeSettings

# Fewer decisions give no useful result.
FEWEST_DECISIONS = 20
# A later mistake of an episode counts as the same loss if an earlier one has at least this share of its gain.
SAME_LOSS = 0.5
# The second rollout only verifies that nothing is random.
EXACT_ROLLOUTS = 2
_ROUNDING = 1e-6
# Largest mistakes that are measured once more: being the largest, they were also lucky.
MEASURED_AGAIN = 10

Futures = Callable[[int, int, int], list[int]]
"""Called as ``futures(number, first, count)``; returns the seeds of futures of a decision."""


@dataclass(frozen=True)
class Mistake:
    """A decision in which another choice would have been better.

    Parameters
    ----------
    row
        Row in the recorded experiences.
    seed, step
        Seed of the episode, and the step of the decision.
    action, better
        The choice that was taken, and the better one.
    gain
        Additional return of the better choice, following the policy afterwards; from held-out rollouts. Rollouts of
        the first mistakes are played after the ranking, so the first gains are not overstated.
    low, high
        Confidence interval of the gain, adjusted for selection in the case of later mistakes. Both equal the gain if
        nothing is random, and are None if the gain is only known for this episode.
    future
        Seed of a future in which the difference is close to the gain; the seed of the episode if futures cannot differ.
    """

    row: int
    seed: int
    step: int
    action: int
    better: int
    gain: float
    low: float | None
    high: float | None
    future: int

    def to_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the mistake as plain data, choices by their names."""
        return {
            "seed": self.seed,
            "step": self.step,
            "action": names[self.action],
            "better": names[self.better],
            "gain": self.gain,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True, repr=False)
class Mistakes(Displayed):
    """Results of a search for mistakes.

    Parameters
    ----------
    listed
        The proven mistakes, ranked by their gain in the race; only the earliest of each loss.
    share
        Share of all decisions that are proven mistakes; None where it is not known.
    headroom
        First-order estimate of the gain per episode of correcting all decisions that look like mistakes, one at a time;
        from held-out rollouts, so it includes decisions that turn out not to be mistakes.
    decisions, random_decisions
        Numbers of decisions that were examined, and of those in the random sample.
    proven
        Number of proven mistakes, including later ones of a loss.
    steps_played
        Environment steps of the search.
    branching
        How decisions were reached again (`legible.play.WAYS`); "" where that is not possible.
    is_exact
        Whether nothing is random after the start, so that gains are exact.
    level
        Level of the intervals, before the adjustment.
    problem
        Why no decisions were examined, or what limits the results.
    choices
        Names of all choices.
    """

    listed: tuple[Mistake, ...] = ()
    share: IntervalEstimate | None = None
    headroom: IntervalEstimate | None = None
    decisions: int = 0
    random_decisions: int = 0
    proven: int = 0
    steps_played: int = 0
    branching: str = ""
    is_exact: bool = False
    level: float = 0.95
    problem: str = ""
    choices: tuple[str, ...] = ()

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        worst = {"largest loss": number(self.listed[0].gain)} if self.listed else {}
        return {"proven": self.proven, "decisions examined": self.decisions, **worst}

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain data."""
        return {
            "mistakes": [mistake.to_dict(self.choices) for mistake in self.listed],
            "share": None if self.share is None else asdict(self.share),
            "headroom": None if self.headroom is None else asdict(self.headroom),
            "decisions": self.decisions,
            "proven": self.proven,
            "steps_played": self.steps_played,
            "branching": self.branching or None,
            "exact": self.is_exact,
            "problem": self.problem or None,
        }

    def save(self, path: Path, key: str = "") -> None:
        """Write all results to one file, atomically."""
        write_json(path, asdict(self), key)

    @classmethod
    def load(cls, path: Path, key: str | None = None) -> Mistakes:
        """Read what `save` wrote."""
        advice = "delete it to search for mistakes again"
        kept = read_json(path, key, advice)
        try:
            values = {name: kept[name] for name in cls.__dataclass_fields__}
            values["choices"] = tuple(values["choices"])
            for one in values["listed"]:
                check_fields(Mistake, one)
            values["listed"] = tuple(Mistake(**one) for one in values["listed"])
            for name in ("share", "headroom"):
                if values[name] is not None:
                    check_fields(IntervalEstimate, values[name])
                    values[name] = IntervalEstimate(**values[name])
            check_fields(cls, values)
            if any(
                not 0 <= choice < len(values["choices"]) for m in values["listed"] for choice in (m.action, m.better)
            ):
                raise ValueError("a choice does not exist")
            return cls(**values)
        except DAMAGE_ERRORS as error:
            raise DamagedFileError(f"{path}: is damaged or holds no mistakes ({error}); {advice}.") from error


def plan_decisions(
    experiences: Experiences, settings: MistakeSettings, choices: int, *, way: str, exact: bool
) -> tuple[int, str]:
    """Return how many decisions can be examined within the steps of the settings; 0 and the reason if too few.

    Parameters
    ----------
    experiences
        The recorded episodes.
    settings
        Numbers of steps and rollouts.
    choices
        Number of choices at a decision, including the one taken.
    way
        How decisions are reached again; a replay takes all steps before them.
    exact
        Whether nothing is random, so that `EXACT_ROLLOUTS` are enough.
    """
    lengths = experiences.lengths[experiences.episode_ids]
    left = float(lengths.mean() if way == "replay" else (lengths - steps_of(experiences)).mean())
    rollouts = choices * EXACT_ROLLOUTS if exact else _count_rollouts(choices, settings)
    found = min(settings.decisions, int(settings.steps / (left * rollouts)))
    if found >= min(FEWEST_DECISIONS, settings.decisions, len(experiences)):
        return found, ""
    return 0, (
        f"episodes are too long to examine single decisions: a rollout takes {number(left)} steps on average, and "
        f"each decision takes {rollouts} rollouts, but at most {number(settings.steps)} steps may be played. Raise "
        "--set mistakes.steps=N."
    )


def _count_rollouts(choices: int, settings: MistakeSettings) -> int:
    """Return the maximum number of rollouts of a decision in all rungs."""
    second = round(SECOND_SHARE * (1 + OTHERS_IN_SECOND) * settings.second_rollouts)
    return choices * settings.rollouts + second + round(FINAL_SHARE * 2 * settings.final_rollouts)


def points_of(experiences: Experiences, rows: NDArray[np.int64]) -> tuple[Point, ...]:
    """Return the decisions in rows as points to branch at; their actions end with the one taken."""
    starts, steps = np.cumsum(experiences.lengths) - experiences.lengths, steps_of(experiences)
    done = experiences.actions if experiences.space.is_discrete else experiences.numbers
    points = []
    for row in rows.tolist():
        episode, seen = int(experiences.episode_ids[row]), experiences.observations[row].copy()
        seed, actions = int(experiences.seeds[episode]), done[starts[episode] : row + 1]
        points.append(Point(seed, int(steps[row]), actions, seen))
    return tuple(points)


@dataclass(frozen=True)
class DecisionSearch:
    """Decisions to examine: the recorded episodes, decisions of them, and the choices of each.

    `numbers` are the numbers of the decisions for `Measure`, if these are only some of the decisions.
    """

    experiences: Experiences
    decisions: Decisions
    choices: NDArray[np.int64]
    numbers: NDArray[np.intp] | None = None

    @classmethod
    def plan(cls, experiences: Experiences, count: int, *, seed: int) -> DecisionSearch:
        """Choose decisions, and include all choices of each."""
        decisions = choose_decisions(experiences, count, seed=seed)
        rows = decisions.rows
        choices = other_choices(experiences.space, experiences.actions[rows], experiences.scores[rows])
        return cls(experiences, decisions, choices)

    def some(self, count: int, *, seed: int) -> DecisionSearch:
        """Return a random subset of the decisions."""
        chosen = np.sort(np.random.default_rng([seed, 1]).permutation(len(self.decisions))[:count])
        decisions = Decisions(self.decisions.rows[chosen], self.decisions.is_random[chosen])
        return DecisionSearch(self.experiences, decisions, self.choices[chosen], chosen)

    @property
    def points(self) -> tuple[Point, ...]:
        """The decisions as points to branch at."""
        return points_of(self.experiences, self.decisions.rows)

    def gains(self, measure: Measure, count: int) -> DecisionGains:
        """Return the gains of other choices at all decisions that did not fail, from the first rollouts of each."""
        returns = measure(np.arange(len(self.decisions)), self.choices, 0, count)
        differences = returns[:, 1:] - returns[:, :1]
        is_complete = ~np.isnan(differences).any(axis=(1, 2))
        seen, rows = self.experiences, self.decisions.rows[is_complete]
        spread = (
            differences[is_complete].std(axis=2, ddof=1) if count > 1 else np.zeros(differences[is_complete].shape[:2])
        )
        return DecisionGains(
            observations=seen.observations[rows],
            taken=seen.actions[rows].reshape(len(rows), len(seen.space.groups)),
            choices=self.choices[is_complete, 1:],
            gains=differences[is_complete].mean(axis=2),
            errors=spread / np.sqrt(count),
            scores=seen.scores[rows],
            episodes=seen.episode_ids[rows],
        )


def find_mistakes(
    search: DecisionSearch,
    measure: Measure,
    futures: Futures,
    way: BranchingMethod,
    *,
    greedy: bool,
    settings: MistakeSettings,
    alpha: float,
    seed: int,
) -> Mistakes:
    """Find decisions in which another choice is significantly better.

    Parameters
    ----------
    search
        The decisions.
    measure
        Plays rollouts; see `legible.mistakes.running.RolloutRunner`.
    futures
        Returns the seeds of futures of a decision that `measure` uses.
    way
        How decisions are reached again, and whether the environment has other futures.
    greedy
        Whether the policy draws no random numbers.
    settings, alpha, seed
        Numbers of rollouts, significance level, and seed of the resampling.
    """
    numbers, is_exact = np.arange(len(search.decisions)), False
    if way.futures == "nothing random" and greedy:
        returns = measure(numbers, search.choices, 0, EXACT_ROLLOUTS)
        # The last bit of a network's output may depend on its row in the batch, so that continuous actions, and with
        # them returns, are only equal up to rounding.
        is_exact = np.allclose(returns, returns[:, :, :1], rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
        if not is_exact:
            # Each decision needs many more rollouts than planned, so fewer decisions are examined.
            exact, full = EXACT_ROLLOUTS * search.choices.shape[1], _count_rollouts(search.choices.shape[1], settings)
            search = search.some(max(1, len(numbers) * exact // full), seed=seed)
    if way.futures == "cannot be reseeded":
        found = _find_in_recorded(search, measure(numbers, search.choices, 0, 1))
    elif is_exact:
        found = _find_exact(search, returns, futures, alpha=alpha, seed=seed)
    else:
        found = _find_proven(search, measure, futures, settings=settings, alpha=alpha, seed=seed)
    return replace(
        found,
        decisions=len(search.decisions),
        branching=way.way or "",
        level=1 - alpha,
        choices=search.experiences.space.action_names,
    )


def _make_mistake(
    search: DecisionSearch, decision: int, better: int, gain: float, interval: tuple[float, float], future: int
) -> Mistake:
    row, seen = int(search.decisions.rows[decision]), search.experiences
    seed, step = int(seen.seeds[seen.episode_ids[row]]), int(steps_of(seen)[row])
    action = int(seen.actions[row] if seen.space.is_discrete else seen.actions[row, seen.space.group_of(better)])
    return Mistake(row, seed, step, action, better, gain, *interval, future)


def _drop_repeated(search: DecisionSearch, numbers: NDArray[np.intp], gains: NDArray[np.float64]) -> NDArray[np.intp]:
    """Drop decisions whose loss an earlier one of the episode accounts for; return places in `numbers`."""
    episodes = search.experiences.episode_ids[search.decisions.rows[numbers]]
    kept: list[int] = []
    for place in range(len(numbers)):  # in the order of their steps
        earlier = [other for other in kept if episodes[other] == episodes[place]]
        if not any(gains[other] >= SAME_LOSS * gains[place] for other in earlier):
            kept.append(place)
    return np.array(kept, np.intp)


def _estimate_figures(
    search: DecisionSearch,
    proven: NDArray[np.intp],
    gains: NDArray[np.float64],
    headroom: NDArray[np.float64],
    *,
    alpha: float,
    seed: int,
) -> dict[str, Any]:
    """Return the share of decisions that are mistakes, and the headroom, from the randomly drawn decisions alone.

    Parameters
    ----------
    search
        All decisions.
    proven, gains
        The proven mistakes, and the gain of each.
    headroom
        Gain of correcting each decision; NaN where its rollouts failed.
    alpha, seed
        One minus the level of the intervals, and seed of the resampling.
    """
    seen, sample = search.experiences, np.flatnonzero(search.decisions.is_random & ~np.isnan(headroom))
    if not len(sample):
        return {}
    episodes = seen.episode_ids[search.decisions.rows[sample]]
    is_proven = np.isin(sample, proven)
    share = share_of(is_proven, episodes, seen.n_episodes, alpha=alpha, seed=seed)
    room = per_episode(headroom[sample], episodes, seen.lengths, alpha=alpha, seed=seed)
    if len(gains):
        # Resampling a sample with few mistakes gives no more of them: use the upper limit of the share instead.
        room = replace(room, high=max(room.high, share.high * float(gains.mean()) * float(seen.lengths.mean())))
    return {"share": share, "headroom": room, "random_decisions": len(sample)}


def _find_proven(
    search: DecisionSearch, measure: Measure, futures: Futures, *, settings: MistakeSettings, alpha: float, seed: int
) -> Mistakes:
    """Return the mistakes that rollouts prove, the largest gain first.

    The first mistakes are measured again on other futures, because the ranking selected them.
    """
    every = np.arange(len(search.decisions)) if search.numbers is None else search.numbers

    def measured(numbers: NDArray[np.intp], choices: NDArray[np.int64], first: int, count: int) -> NDArray[np.float64]:
        return measure(every[numbers], choices, first, count)

    raced = race_decisions(measured, search.choices, settings)
    gains = [gain_of(differences) for differences in raced.differences]
    means = np.array([gain.mean for gain in gains])

    def listed_of(places: NDArray[np.intp]) -> NDArray[np.intp]:
        better = places[means[places] > 0]
        return better[_drop_repeated(search, raced.numbers[better], means[better])]

    p_values = np.array([gain.p for gain in gains])
    proven, listed, level = false_coverage(p_values, alpha, listed_of)
    proven = proven[means[proven] > 0]
    ranked = listed[np.argsort(-means[listed], kind="stable")]
    first, numbers = ranked[:MEASURED_AGAIN], raced.numbers[ranked[:MEASURED_AGAIN]]
    both = np.stack([search.choices[numbers, 0], raced.better[first]], axis=1)
    again = measured(numbers, both, SHOWN_FUTURES, settings.final_rollouts)
    mistakes = []
    for rank, place in enumerate(ranked.tolist()):
        decision, differences = int(raced.numbers[place]), raced.differences[place]
        from_future, own_level = FINAL_FUTURES, level
        if rank < len(again) and not np.isnan(again[rank]).any():
            differences, from_future, own_level = again[rank, 1] - again[rank, 0], SHOWN_FUTURES, 1 - alpha
        gain = gain_of(differences)
        typical = int(np.abs(differences - gain.mean).argmin())
        future = futures(int(every[decision]), from_future + typical, 1)[0]
        mistakes.append(
            _make_mistake(search, decision, int(raced.better[place]), gain.mean, gain.interval(own_level), future)
        )
    headroom = np.where(np.isnan(raced.returns).any(axis=(1, 2)), np.nan, 0.0)
    headroom[raced.numbers] = means
    return Mistakes(
        listed=tuple(mistakes),
        proven=len(proven),
        **_estimate_figures(search, raced.numbers[proven], means[proven], headroom, alpha=alpha, seed=seed),
    )


def _find_exact(
    search: DecisionSearch, returns: NDArray[np.float64], futures: Futures, *, alpha: float, seed: int
) -> Mistakes:
    gains = returns[:, 1:, 0] - returns[:, :1, 0]
    best = np.nan_to_num(gains, nan=-np.inf).argmax(axis=1)
    largest = gains[np.arange(len(gains)), best]
    # Differences due to rounding are no gains.
    proven = np.flatnonzero(largest > _ROUNDING * np.maximum(1.0, np.abs(returns[:, 0, 0])))
    mistakes = []
    for decision in proven[_drop_repeated(search, proven, largest[proven])].tolist():
        better, gain = int(search.choices[decision, 1 + best[decision]]), float(largest[decision])
        mistakes.append(_make_mistake(search, decision, better, gain, (gain, gain), futures(decision, 0, 1)[0]))
    headroom = np.where(np.isnan(largest), np.nan, np.maximum(largest, 0.0))
    return Mistakes(
        listed=tuple(sorted(mistakes, key=lambda one: (-one.gain, one.seed, one.step))),
        proven=len(proven),
        is_exact=True,
        **_estimate_figures(search, proven, largest[proven], headroom, alpha=alpha, seed=seed),
    )


def _find_in_recorded(search: DecisionSearch, returns: NDArray[np.float64]) -> Mistakes:
    found = _find_exact(search, returns, lambda *_: [0], alpha=0.05, seed=0)
    listed = tuple(replace(one, low=None, high=None, future=one.seed) for one in found.listed)
    return Mistakes(
        listed=listed,
        random_decisions=found.random_decisions,
        problem="this environment cannot be reseeded after a decision: the mistakes listed hold only for the recorded "
        "episodes, and are not counted.",
    )
