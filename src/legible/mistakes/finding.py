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
    """A decision in which another choice would have been better."""

    row: int  # row in the recorded experiences
    # Seed of the episode, and the step of the decision.
    seed: int
    step: int
    # The choice that was taken, and the better one.
    action: int
    better: int
    # Additional return of the better choice, following the policy afterwards; from held-out rollouts. Rollouts of the
    # first mistakes are played after the ranking, so the first gains are not overstated.
    gain: float
    # Confidence interval of the gain, adjusted for selection in the case of later mistakes. Both equal the gain if
    # nothing is random, and are None if the gain is only known for this episode.
    low: float | None
    high: float | None
    # Seed of a future in which the difference is close to the gain; the seed of the episode if futures cannot differ.
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
        """Return the results in a file that `save` wrote, or raise an error if the file is damaged.

        Parameters
        ----------
        path
            The file.
        key
            The key of the study that the file must belong to; None to accept any.
        """
        advice = "delete it to search for mistakes again"
        contents = read_json(path, key, advice)
        # Convert the plain data to records, with a check of every field.
        try:
            values = {name: contents[name] for name in cls.__dataclass_fields__}
            values["choices"] = tuple(values["choices"])
            for mistake in values["listed"]:
                check_fields(Mistake, mistake)
            values["listed"] = tuple(Mistake(**mistake) for mistake in values["listed"])
            for name in ("share", "headroom"):
                if values[name] is not None:
                    check_fields(IntervalEstimate, values[name])
                    values[name] = IntervalEstimate(**values[name])
            check_fields(cls, values)
            choices = {choice for mistake in values["listed"] for choice in (mistake.action, mistake.better)}
            if not choices <= set(range(len(values["choices"]))):
                raise ValueError("a choice does not exist")
            return cls(**values)
        except DAMAGE_ERRORS as error:
            raise DamagedFileError(f"{path}: is damaged or holds no mistakes ({error}); {advice}.") from error


def plan_decisions(
    experiences: Experiences, settings: MistakeSettings, choices: int, *, way: str, exact: bool
) -> tuple[int, str]:
    """Return how many decisions can be examined within the allowed steps and ""; or 0 and the reason, if too few.

    At each decision, every choice is tried in several rollouts, each of which plays the episode to its end.

    Parameters
    ----------
    experiences
        The recorded episodes.
    settings
        The allowed number of steps, and the numbers of decisions and rollouts.
    choices
        The number of choices at a decision, including the one taken.
    way
        The method of returning to a decision (`legible.play.WAYS`); "replay" repeats all steps before it.
    exact
        Whether nothing is random, so that `EXACT_ROLLOUTS` per choice are enough.
    """
    # A rollout plays the rest of its episode; with "replay", also the steps before the decision.
    lengths = experiences.lengths[experiences.episode_ids]
    steps_per_rollout = float(lengths.mean() if way == "replay" else (lengths - steps_of(experiences)).mean())
    rollouts_per_decision = choices * EXACT_ROLLOUTS if exact else _count_rollouts(choices, settings)

    affordable = min(settings.decisions, int(settings.steps / (steps_per_rollout * rollouts_per_decision)))
    if affordable >= min(FEWEST_DECISIONS, settings.decisions, len(experiences)):
        return affordable, ""
    return 0, (
        f"episodes are too long to examine single decisions in {number(settings.steps)} steps. A rollout takes "
        f"{number(steps_per_rollout)} steps on average, and each decision takes {rollouts_per_decision} rollouts. "
        "Raise the number of steps with --set mistakes.steps=N."
    )


def _count_rollouts(choices: int, settings: MistakeSettings) -> int:
    """Return the maximum number of rollouts of a decision in all rungs."""
    second = round(SECOND_SHARE * (1 + OTHERS_IN_SECOND) * settings.second_rollouts)
    return choices * settings.rollouts + second + round(FINAL_SHARE * 2 * settings.final_rollouts)


def points_of(experiences: Experiences, rows: NDArray[np.int64]) -> tuple[Point, ...]:
    """Return the decisions in rows as points to branch at; their actions end with the one taken."""
    starts, steps = np.cumsum(experiences.lengths) - experiences.lengths, steps_of(experiences)
    taken_actions = experiences.actions if experiences.space.is_discrete else experiences.numbers
    points = []
    for row in rows.tolist():
        episode = int(experiences.episode_ids[row])
        actions = taken_actions[starts[episode] : row + 1]
        observation = experiences.observations[row].copy()
        points.append(Point(int(experiences.seeds[episode]), int(steps[row]), actions, observation))
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
        returns = measure(np.arange(len(self.decisions)), self.choices, first=0, count=count)
        differences = returns[:, 1:] - returns[:, :1]
        is_complete = ~np.isnan(differences).any(axis=(1, 2))
        differences, rows = differences[is_complete], self.decisions.rows[is_complete]
        deviations = differences.std(axis=2, ddof=1) if count > 1 else np.zeros(differences.shape[:2])
        experiences = self.experiences
        return DecisionGains(
            observations=experiences.observations[rows],
            taken=experiences.actions[rows].reshape(len(rows), len(experiences.space.groups)),
            choices=self.choices[is_complete, 1:],
            gains=differences.mean(axis=2),
            errors=deviations / np.sqrt(count),
            scores=experiences.scores[rows],
            episodes=experiences.episode_ids[rows],
        )


def find_mistakes(
    search: DecisionSearch,
    measure: Measure,
    futures: Futures,
    branching: BranchingMethod,
    *,
    greedy: bool,
    settings: MistakeSettings,
    alpha: float,
    seed: int,
) -> Mistakes:
    """Return the decisions in which another choice is significantly better than the one that the policy took.

    Each choice is tried in rollouts: return to the state, make the choice, follow the policy to the end of the episode.

    Parameters
    ----------
    search
        The decisions to examine, with the choices to compare at each.
    measure
        Function that plays rollouts and returns their returns, such as a `legible.mistakes.running.RolloutRunner`.
    futures
        Function that returns the seeds that `measure` uses for the random numbers after a decision (its futures).
    branching
        The method of returning to a decision, and whether the environment can continue with other random numbers.
    greedy
        Whether the policy itself draws no random numbers.
    settings
        Numbers of rollouts.
    alpha
        Significance level.
    seed
        Seed of the resampling, and of the draw if fewer decisions can be examined than planned.
    """
    # If nothing seems random, one rollout per choice shows the gain, and a second one verifies that. `returns` has the
    # shape [decisions, choices, rollouts].
    all_decisions = np.arange(len(search.decisions))
    is_exact = False
    if branching.futures == "nothing random" and greedy:
        returns = measure(all_decisions, search.choices, first=0, count=EXACT_ROLLOUTS)
        # The last bit of a network's output may depend on its row in the batch, so that continuous actions, and with
        # them returns, are only equal up to rounding.
        is_exact = np.allclose(returns, returns[:, :, :1], rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
        if not is_exact:
            # Each decision needs many more rollouts than planned, so fewer decisions are examined.
            n_choices = search.choices.shape[1]
            exact_rollouts, full_rollouts = EXACT_ROLLOUTS * n_choices, _count_rollouts(n_choices, settings)
            search = search.some(max(1, len(all_decisions) * exact_rollouts // full_rollouts), seed=seed)

    # Without other random numbers, only the recorded episodes can be judged; if nothing is random, gains are exact;
    # otherwise a gain is proven by tests over many futures.
    if branching.futures == "cannot be reseeded":
        result = _find_in_recorded(search, measure(all_decisions, search.choices, first=0, count=1))
    elif is_exact:
        result = _find_exact(search, returns, futures, alpha=alpha, seed=seed)
    else:
        result = _find_proven(search, measure, futures, settings=settings, alpha=alpha, seed=seed)
    return replace(
        result,
        decisions=len(search.decisions),
        branching=branching.way or "",
        level=1 - alpha,
        choices=search.experiences.space.action_names,
    )


def _make_mistake(
    search: DecisionSearch, decision: int, better: int, gain: float, interval: tuple[float, float], future: int
) -> Mistake:
    row, experiences = int(search.decisions.rows[decision]), search.experiences
    seed, step = int(experiences.seeds[experiences.episode_ids[row]]), int(steps_of(experiences)[row])
    taken = experiences.actions[row]
    action = int(taken if experiences.space.is_discrete else taken[experiences.space.group_of(better)])
    return Mistake(row, seed, step, action, better, gain, *interval, future)


def _drop_repeated(search: DecisionSearch, numbers: NDArray[np.intp], gains: NDArray[np.float64]) -> NDArray[np.intp]:
    """Drop decisions whose loss an earlier one of the episode accounts for; return positions in `numbers`."""
    episodes = search.experiences.episode_ids[search.decisions.rows[numbers]]
    kept: list[int] = []
    for position in range(len(numbers)):  # in the order of their steps
        earlier = [other for other in kept if episodes[other] == episodes[position]]
        if not any(gains[other] >= SAME_LOSS * gains[position] for other in earlier):
            kept.append(position)
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
    """Return estimates for all decisions of the policy: the share of mistakes, and the headroom.

    The headroom is the gain per episode of correcting every decision that looks like a mistake. Both are estimated from
    the randomly drawn decisions alone, because the others were chosen where mistakes are likely.

    Parameters
    ----------
    proven
        ``int[mistakes]``: the numbers of the decisions that are proven mistakes.
    gains
        ``float64[mistakes]``: the gain of correcting each of them.
    headroom
        ``float64[decisions]``: the estimated gain of correcting each decision, 0 if it does not look like a mistake;
        NaN if its rollouts failed.
    alpha
        One minus the level of the confidence intervals.

    Returns
    -------
    dict
        Values of the fields ``share``, ``headroom`` and ``random_decisions`` of `Mistakes`; empty without a sample.
    """
    experiences, sample = search.experiences, np.flatnonzero(search.decisions.is_random & ~np.isnan(headroom))
    if not len(sample):
        return {}
    episodes = experiences.episode_ids[search.decisions.rows[sample]]
    is_mistake = np.isin(sample, proven)
    share = share_of(is_mistake, episodes, experiences.n_episodes, alpha=alpha, seed=seed)
    headroom_estimate = per_episode(headroom[sample], episodes, experiences.lengths, alpha=alpha, seed=seed)
    if len(gains):
        # Resampling a sample with few mistakes never gives many, so its upper limit may be too low. Another upper
        # limit: the largest plausible share of mistakes, times their mean gain, times the decisions of an episode.
        headroom_estimate = replace(
            headroom_estimate,
            high=max(headroom_estimate.high, share.high * float(gains.mean()) * float(experiences.lengths.mean())),
        )
    return {"share": share, "headroom": headroom_estimate, "random_decisions": len(sample)}


def _find_proven(
    search: DecisionSearch, measure: Measure, futures: Futures, *, settings: MistakeSettings, alpha: float, seed: int
) -> Mistakes:
    """Return the mistakes that rollouts prove in an environment with random futures, the largest gain first.

    Parameters
    ----------
    search
        The decisions to examine, with the choices to compare at each.
    measure
        Function that plays rollouts in numbered futures (continuations with other random numbers), and returns their
        returns ``[decisions, choices, futures]``.
    futures
        Function that returns the seeds of the futures of a decision.
    """
    decision_numbers = np.arange(len(search.decisions)) if search.numbers is None else search.numbers

    def measure_searched(
        numbers: NDArray[np.intp], choices: NDArray[np.int64], first: int, count: int
    ) -> NDArray[np.float64]:
        # `measure` numbers all planned decisions, of which the search may have kept only some.
        return measure(decision_numbers[numbers], choices, first=first, count=count)

    # Rollouts in three rounds, in which only promising decisions go on. The decisions of the last round have the
    # numbers `race.numbers`; for each, `race.better` is the choice that looked best before that round, and
    # `race.differences` are its gains in the futures of that round. "Positions" below count these decisions.
    race = race_decisions(measure_searched, search.choices, settings)
    gains = [gain_of(differences) for differences in race.differences]
    means = np.array([gain.mean for gain in gains])

    def drop_repeated(positions: NDArray[np.intp]) -> NDArray[np.intp]:
        # Of several mistakes that lead to the same loss, keep the earliest.
        gaining = positions[means[positions] > 0]
        return gaining[_drop_repeated(search, race.numbers[gaining], means[gaining])]

    # Which gains are significant, corrected for the number of tests, and the level of intervals that stays valid for
    # the selected ones.
    p_values = np.array([gain.p for gain in gains])
    proven, listed, level = false_coverage(p_values, alpha, drop_repeated)
    proven = proven[means[proven] > 0]

    # The largest gains are the largest also by luck: measure them again in futures that were not used for the ranking.
    ranked = listed[np.argsort(-means[listed], kind="stable")]
    largest, largest_numbers = ranked[:MEASURED_AGAIN], race.numbers[ranked[:MEASURED_AGAIN]]
    taken = search.choices[largest_numbers, 0]  # the first column stands for the choice that was taken
    taken_and_better = np.stack([taken, race.better[largest]], axis=1)
    measured_again = measure_searched(
        largest_numbers, taken_and_better, first=SHOWN_FUTURES, count=settings.final_rollouts
    )

    # Futures are numbered: those of the last round from FINAL_FUTURES on, those that measured again from SHOWN_FUTURES.
    mistakes = []
    for rank, position in enumerate(ranked.tolist()):
        decision, differences = int(race.numbers[position]), race.differences[position]
        first_future, interval_level = FINAL_FUTURES, level
        if rank < len(measured_again) and not np.isnan(measured_again[rank]).any():
            differences = measured_again[rank, 1] - measured_again[rank, 0]  # the better choice minus the one taken
            first_future, interval_level = SHOWN_FUTURES, 1 - alpha  # no selection among these futures
        # For the replay, the future in which the difference is closest to the mean.
        gain = gain_of(differences)
        typical_future = int(np.abs(differences - gain.mean).argmin())
        future = futures(int(decision_numbers[decision]), first_future + typical_future, 1)[0]
        mistakes.append(
            _make_mistake(
                search, decision, int(race.better[position]), gain.mean, gain.interval(interval_level), future
            )
        )

    # The gain of correcting each decision: 0 for those that did not reach the last round, NaN for failed ones.
    headroom = np.where(np.isnan(race.returns).any(axis=(1, 2)), np.nan, 0.0)
    headroom[race.numbers] = means
    return Mistakes(
        listed=tuple(mistakes),
        proven=len(proven),
        **_estimate_figures(search, race.numbers[proven], means[proven], headroom, alpha=alpha, seed=seed),
    )


def _find_exact(
    search: DecisionSearch, returns: NDArray[np.float64], futures: Futures, *, alpha: float, seed: int
) -> Mistakes:
    """Return all decisions with a better choice, by the first rollout of each; nothing is random."""
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
    """Return the decisions with a better choice in the recorded episodes, which says nothing about others."""
    found = _find_exact(search, returns, lambda *_: [0], alpha=0.05, seed=0)
    listed = tuple(replace(one, low=None, high=None, future=one.seed) for one in found.listed)
    return Mistakes(
        listed=listed,
        random_decisions=found.random_decisions,
        problem="this environment cannot be reseeded after a decision: the mistakes listed hold only for the recorded "
        "episodes, and are not counted.",
    )
