"""Mistakes: single decisions in which another choice would have been better beyond doubt.

- `find_mistakes`: looks for them; `Mistakes`: what was found, with honest figures; `Mistake`: one of them.
- `plan_decisions`: how many decisions can be looked at within a number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.files import DamagedFileError, read_json, write_json
from legible.formatting import number
from legible.hypotheses import DecisionGains
from legible.mistakes.decisions import Decisions, choose_decisions, other_choices, steps_of
from legible.mistakes.racing import FINAL_FUTURES, FINAL_SHARE, OTHERS_IN_SECOND, SECOND_SHARE, Measure, race_decisions
from legible.mistakes.statistics import Estimated, false_coverage, gain_of, per_episode, share_of
from legible.play import Experiences, FoundWay, Point
from legible.settings import MistakeSettings

# With fewer decisions there is nothing to say.
FEWEST_DECISIONS = 20
# A later mistake of the same episode is the same loss if an earlier one is worth at least this share of it.
SAME_LOSS = 0.5
# Where nothing is random, the second rollout only shows that.
EXACT_ROLLOUTS = 2
_ROUNDING = 1e-6

Futures = Callable[[int, int, int], list[int]]
"""Called as ``futures(number, first, count)``: the seeds of some futures of a decision."""


@dataclass(frozen=True)
class Mistake:
    """A decision in which another choice would have been better.

    Parameters
    ----------
    row
        Its row in the recorded experiences.
    seed, step
        Of the episode, and which of its decisions.
    action, better
        The choice that was taken, and the better one.
    gain
        What the better one returns beyond it, following the policy from there; on rollouts that chose neither.
    low, high
        The interval of the gain, adjusted for the choice of what is listed; both are the gain where nothing is random,
        and None where it is known of this very game only.
    future
        Seed of a future in which the difference is about the gain; the episode's own where it cannot be another.
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


@dataclass(frozen=True)
class Mistakes:
    """What was found about single decisions.

    Parameters
    ----------
    listed
        The proven mistakes, the largest gain first; of one loss only the earliest.
    share
        Share of all decisions that are proven mistakes; None where it is not known.
    headroom
        What mending the decisions that look like mistakes, one step at a time, would be worth an episode: to the first
        order, on rollouts that did not choose them, those included that turn out to be none.
    decisions, random_decisions
        How many were looked at, and how many of them are a random sample of all.
    proven
        How many are proven mistakes, later ones of a loss included.
    steps_played
        Steps that it took.
    branching
        How the environment was brought to the decisions (`legible.play.WAYS`); "" where it cannot be.
    is_exact
        Whether nothing is random after the start, so that gains are exact.
    level
        Of the intervals, before the adjustment.
    problem
        Why nothing was looked at, or what limits the figures.
    choices
        Names of all choices.
    """

    listed: tuple[Mistake, ...] = ()
    share: Estimated | None = None
    headroom: Estimated | None = None
    decisions: int = 0
    random_decisions: int = 0
    proven: int = 0
    steps_played: int = 0
    branching: str = ""
    is_exact: bool = False
    level: float = 0.95
    problem: str = ""
    choices: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return what was found as plain data."""
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
        """Write everything into one file, whole or not at all."""
        write_json(path, asdict(self), key)

    @classmethod
    def load(cls, path: Path, key: str | None = None) -> Mistakes:
        """Read what `save` wrote."""
        advice = "delete it to look for mistakes again"
        kept = read_json(path, key, advice)
        try:
            values = {name: kept[name] for name in cls.__dataclass_fields__}
            values["choices"] = tuple(values["choices"])
            values["listed"] = tuple(Mistake(**one) for one in values["listed"])
            for name in ("share", "headroom"):
                values[name] = None if values[name] is None else Estimated(**values[name])
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise DamagedFileError(f"{path}: is damaged, or holds no mistakes ({error}); {advice}.") from error


def plan_decisions(
    experiences: Experiences, settings: MistakeSettings, choices: int, *, way: str, exact: bool
) -> tuple[int, str]:
    """Return how many decisions can be looked at within the steps of the settings; 0 with the reason if too few.

    Parameters
    ----------
    experiences
        The recorded episodes.
    settings
        How many steps, and how many rollouts.
    choices
        Of a decision, what was done included.
    way
        How the environment is brought to the decisions; a replay takes all steps before them.
    exact
        Whether nothing is random, so that `EXACT_ROLLOUTS` do.
    """
    lengths = experiences.lengths[experiences.episode_ids]
    left = float(lengths.mean() if way == "replay" else (lengths - steps_of(experiences)).mean())
    rollouts = choices * EXACT_ROLLOUTS if exact else _rollouts(choices, settings)
    found = min(settings.decisions, int(settings.steps / (left * rollouts)))
    if found >= min(FEWEST_DECISIONS, settings.decisions, len(experiences)):
        return found, ""
    return 0, (
        f"episodes are too long to look at single decisions: from a decision to the end are {number(left)} steps, and "
        f"each decision takes {rollouts} rollouts, but {number(settings.steps)} steps may be played "
        "(--mistakes.steps)."
    )


def _rollouts(choices: int, settings: MistakeSettings) -> int:
    """How many rollouts a decision takes in all rungs, at most."""
    second = round(SECOND_SHARE * (1 + OTHERS_IN_SECOND) * settings.second_rollouts)
    return choices * settings.rollouts + second + round(FINAL_SHARE * 2 * settings.final_rollouts)


def points_of(experiences: Experiences, rows: NDArray[np.int64]) -> tuple[Point, ...]:
    """Return the decisions in some rows as points to branch at; their actions end with what was done."""
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
    """What is looked at: the recorded episodes, decisions of them, and the choices of each.

    `numbers` are those of the decisions for whoever plays rollouts, where these are only some of them.
    """

    experiences: Experiences
    decisions: Decisions
    choices: NDArray[np.int64]
    numbers: NDArray[np.intp] | None = None

    @classmethod
    def plan(cls, experiences: Experiences, count: int, *, seed: int) -> DecisionSearch:
        """Choose decisions, and take all choices of each."""
        decisions = choose_decisions(experiences, count, seed=seed)
        return cls(experiences, decisions, other_choices(experiences.space, experiences.actions[decisions.rows]))

    def some(self, count: int, *, seed: int) -> DecisionSearch:
        """Return some of the decisions, drawn by a seed."""
        chosen = np.sort(np.random.default_rng([seed, 1]).permutation(len(self.decisions))[:count])
        decisions = Decisions(self.decisions.rows[chosen], self.decisions.is_random[chosen])
        return DecisionSearch(self.experiences, decisions, self.choices[chosen], chosen)

    @property
    def points(self) -> tuple[Point, ...]:
        """The decisions as points to branch at."""
        return points_of(self.experiences, self.decisions.rows)

    def gains(self, measure: Measure, count: int) -> DecisionGains:
        """What other choices are worth at all decisions that did not fail, from the first rollouts of each."""
        returns = measure(np.arange(len(self.decisions)), self.choices, 0, count)
        differences = returns[:, 1:] - returns[:, :1]
        well = ~np.isnan(differences).any(axis=(1, 2))
        seen, rows = self.experiences, self.decisions.rows[well]
        spread = differences[well].std(axis=2, ddof=1) if count > 1 else np.zeros(differences[well].shape[:2])
        return DecisionGains(
            observations=seen.observations[rows],
            taken=seen.actions[rows].reshape(len(rows), len(seen.space.groups)),
            choices=self.choices[well, 1:],
            gains=differences[well].mean(axis=2),
            errors=spread / np.sqrt(count),
            scores=seen.scores[rows],
            episodes=seen.episode_ids[rows],
        )


def find_mistakes(
    search: DecisionSearch,
    measure: Measure,
    futures: Futures,
    way: FoundWay,
    *,
    greedy: bool,
    settings: MistakeSettings,
    alpha: float,
    seed: int,
) -> Mistakes:
    """Look for decisions in which another choice is better beyond doubt.

    Parameters
    ----------
    search
        The decisions.
    measure
        Plays rollouts; see `legible.mistakes.running.RolloutRunner`.
    futures
        Seeds of futures of a decision, as `measure` has them.
    way
        How the environment is brought to the decisions, and whether it has other futures.
    greedy
        Whether the policy draws no random numbers.
    settings, alpha, seed
        How many rollouts, the level of the tests, and of what is resampled.
    """
    numbers, is_exact = np.arange(len(search.decisions)), False
    if way.futures == "nothing random" and greedy:
        returns = measure(numbers, search.choices, 0, EXACT_ROLLOUTS)
        # Networks may give another last bit in another row of their batch, so that continuous actions, and with them
        # returns, are the same up to rounding only.
        is_exact = np.allclose(returns, returns[:, :, :1], rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
        if not is_exact:
            # It takes many more rollouts than was thought, so there are fewer decisions for them.
            exact, full = EXACT_ROLLOUTS * search.choices.shape[1], _rollouts(search.choices.shape[1], settings)
            search = search.some(max(1, len(numbers) * exact // full), seed=seed)
    if way.futures == "cannot be reseeded":
        found = _in_this_very_game(search, measure(numbers, search.choices, 0, 1))
    elif is_exact:
        found = _exact(search, returns, futures, alpha=alpha, seed=seed)
    else:
        found = _proven(search, measure, futures, settings=settings, alpha=alpha, seed=seed)
    return replace(
        found,
        decisions=len(search.decisions),
        branching=way.way or "",
        level=1 - alpha,
        choices=search.experiences.space.action_names,
    )


def _mistake(
    search: DecisionSearch, decision: int, better: int, gain: float, interval: tuple[float, float], future: int
) -> Mistake:
    row, seen = int(search.decisions.rows[decision]), search.experiences
    seed, step = int(seen.seeds[seen.episode_ids[row]]), int(steps_of(seen)[row])
    action = int(seen.actions[row] if seen.space.is_discrete else seen.actions[row, seen.space.group_of(better)])
    return Mistake(row, seed, step, action, better, gain, *interval, future)


def _earliest(search: DecisionSearch, numbers: NDArray[np.intp], gains: NDArray[np.float64]) -> NDArray[np.intp]:
    """Of decisions of one episode keep those that no earlier one stands for; returns places in `numbers`."""
    episodes = search.experiences.episode_ids[search.decisions.rows[numbers]]
    kept: list[int] = []
    for place in range(len(numbers)):  # in the order of their steps
        earlier = [other for other in kept if episodes[other] == episodes[place]]
        if not any(gains[other] >= SAME_LOSS * gains[place] for other in earlier):
            kept.append(place)
    return np.array(kept, np.intp)


def _figures(
    search: DecisionSearch,
    proven: NDArray[np.intp],
    gains: NDArray[np.float64],
    headroom: NDArray[np.float64],
    *,
    alpha: float,
    seed: int,
) -> dict[str, Any]:
    """Share and headroom, from the random sample alone.

    Parameters
    ----------
    search
        All decisions.
    proven, gains
        Those that are proven mistakes, and what each is worth.
    headroom
        What mending each decision is worth; NaN where it failed.
    alpha, seed
        One minus the level of intervals, and of what is resampled.
    """
    seen, sample = search.experiences, np.flatnonzero(search.decisions.is_random & ~np.isnan(headroom))
    if not len(sample):
        return {}
    episodes = seen.episode_ids[search.decisions.rows[sample]]
    is_proven = np.isin(sample, proven)
    share = share_of(is_proven, episodes, seen.n_episodes, alpha=alpha, seed=seed)
    room = per_episode(headroom[sample], episodes, seen.lengths, alpha=alpha, seed=seed)
    if len(gains):
        # A sample without mistakes, or with few, does not resample to more: as many as there may be, of the usual size.
        room = replace(room, high=max(room.high, share.high * float(gains.mean()) * float(seen.lengths.mean())))
    return {"share": share, "headroom": room, "random_decisions": len(sample)}


def _proven(
    search: DecisionSearch, measure: Measure, futures: Futures, *, settings: MistakeSettings, alpha: float, seed: int
) -> Mistakes:
    every = np.arange(len(search.decisions)) if search.numbers is None else search.numbers

    def measured(numbers: NDArray[np.intp], choices: NDArray[np.int64], first: int, count: int) -> NDArray[np.float64]:
        return measure(every[numbers], choices, first, count)

    raced = race_decisions(measured, search.choices, settings)
    gains = [gain_of(differences) for differences in raced.differences]
    means = np.array([gain.mean for gain in gains])

    def listed_of(places: NDArray[np.intp]) -> NDArray[np.intp]:
        better = places[means[places] > 0]
        return better[_earliest(search, raced.numbers[better], means[better])]

    p_values = np.array([gain.p for gain in gains])
    proven, listed, level = false_coverage(p_values, alpha, listed_of)
    proven = proven[means[proven] > 0]
    mistakes = []
    for place in listed.tolist():
        decision, gain = int(raced.numbers[place]), gains[place]
        typical = int(np.abs(raced.differences[place] - gain.mean).argmin())
        future = futures(int(every[decision]), FINAL_FUTURES + typical, 1)[0]
        mistakes.append(_mistake(search, decision, int(raced.better[place]), gain.mean, gain.interval(level), future))
    headroom = np.where(np.isnan(raced.returns).any(axis=(1, 2)), np.nan, 0.0)
    headroom[raced.numbers] = means
    return Mistakes(
        listed=_largest_first(mistakes),
        proven=len(proven),
        **_figures(search, raced.numbers[proven], means[proven], headroom, alpha=alpha, seed=seed),
    )


def _exact(
    search: DecisionSearch, returns: NDArray[np.float64], futures: Futures, *, alpha: float, seed: int
) -> Mistakes:
    gains = returns[:, 1:, 0] - returns[:, :1, 0]
    best = np.nan_to_num(gains, nan=-np.inf).argmax(axis=1)
    largest = gains[np.arange(len(gains)), best]
    # What rounding can make of a return is no gain.
    proven = np.flatnonzero(largest > _ROUNDING * np.maximum(1.0, np.abs(returns[:, 0, 0])))
    mistakes = []
    for decision in proven[_earliest(search, proven, largest[proven])].tolist():
        better, gain = int(search.choices[decision, 1 + best[decision]]), float(largest[decision])
        mistakes.append(_mistake(search, decision, better, gain, (gain, gain), futures(decision, 0, 1)[0]))
    headroom = np.where(np.isnan(largest), np.nan, np.maximum(largest, 0.0))
    return Mistakes(
        listed=_largest_first(mistakes),
        proven=len(proven),
        is_exact=True,
        **_figures(search, proven, largest[proven], headroom, alpha=alpha, seed=seed),
    )


def _in_this_very_game(search: DecisionSearch, returns: NDArray[np.float64]) -> Mistakes:
    found = _exact(search, returns, lambda *_: [0], alpha=0.05, seed=0)
    listed = tuple(replace(one, low=None, high=None, future=one.seed) for one in found.listed)
    return Mistakes(
        listed=listed,
        random_decisions=found.random_decisions,
        problem="other futures cannot be had in this environment: what is listed holds in these very games, and is not "
        "counted.",
    )


def _largest_first(mistakes: list[Mistake]) -> tuple[Mistake, ...]:
    return tuple(sorted(mistakes, key=lambda one: (-one.gain, one.seed, one.step)))
