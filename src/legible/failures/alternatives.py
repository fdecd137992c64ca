"""Actions of the policy in some states, and the test whether another choice is better there.

At held-out decisions in these states, every choice is made, once and held for some steps, before the policy goes on.
One half of the episodes selects the best of these alternatives; the other half measures it, so that the selection does
not flatter the result.

- `find_alternative`: the comparison; `Alternative`: the result; `Trials`: the results of the rollouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.figures import Figure
from legible.formatting import number, percent, signed
from legible.mistakes.statistics import gain_of
from legible.play import Experiences
from legible.rules import gerund, third_person

HOLDS = (1, 10)
"""Numbers of steps for which an alternative is held: in fast environments, a single step changes little."""
HORIZON = 150
"""Number of steps after a decision that count: later differences are mostly noise, and cost as much to play."""
FEWEST_EPISODES = 6
"""Fewer episodes on either side of the split give no verdict."""
ALMOST_ALWAYS = 0.9


class Trials(NamedTuple):
    """Results of rollouts from decisions within `HORIZON` steps: their returns, and the share that fails.

    Both are ``float64[decisions, 1 + choices]``. The first column is the choice that the policy took, the others are
    all choices, NaN where they are forbidden. Decisions whose rollouts raised an error are NaN in all columns.
    """

    returns: NDArray[np.float64]
    fails: NDArray[np.float64]


@dataclass(frozen=True)
class Alternative:
    """Actions of the policy in some states, and the best other choice there.

    Parameters
    ----------
    usual, usual_share, elsewhere
        The choice that the policy takes most in these states, in words ("fires no engine"); the shares of these and of
        all other states in which it takes it (NaN if there are no others).
    best, hold
        The alternative that the first half of the episodes selected ("firing the main engine"), and the number of steps
        for which it is held.
    tried
        Number of alternatives.
    decisions
        Number of decisions of the other episodes, which measured it.
    gain
        What it adds to the return of the next `HORIZON` steps.
    fails, fails_as_played
        Shares of the rollouts that fail in these steps, with the alternative and as the policy plays.
    preference
        How the policy scores the alternative there: its probability, or its value minus that of the choice taken; NaN
        if it has no scores.
    score_kind
        Meaning of the scores.
    """

    usual: str
    usual_share: float
    elsewhere: float
    best: str
    hold: int
    tried: int
    decisions: int
    gain: Figure
    fails: float
    fails_as_played: float
    preference: float
    score_kind: str

    @property
    def is_better(self) -> bool:
        """True if the alternative is shown to be better than what the policy does."""
        return self.gain.low > 0.0

    def habit(self) -> str:
        """Return what the policy does in these states."""
        almost = "almost always " if self.usual_share >= ALMOST_ALWAYS else ""
        if self.usual_share == 1.0:
            almost = "always "
        share = f"in {percent(self.usual_share)} of the steps"
        elsewhere = "" if np.isnan(self.elsewhere) else f"; in other states in {percent(self.elsewhere)}"
        return f"it {almost}{self.usual} ({share}{elsewhere})"

    def sentences(self, *, short: bool = False) -> list[str]:
        """Return in words the best alternative and how the policy scores it, or what was tried in vain.

        What was tried in vain is said in a shorter way if `short`.
        """
        held = f" for {self.hold} steps" if self.hold > 1 else " once"
        interval = f"95 % CI {signed(self.gain.low)} to {signed(self.gain.high)}"
        effect = f"{signed(self.gain.value)} in the return of the next {HORIZON} steps ({interval})"
        evidence = f"measured at {self.decisions} held-out decisions"
        fails = ""
        if self.fails == self.fails_as_played > 0.0:
            fails = f", though it still fails in {percent(self.fails)} of the cases"
        elif max(self.fails, self.fails_as_played) > 0.0:
            fails = f"; it then fails in {percent(self.fails)} instead of {percent(self.fails_as_played)} of the cases"
        if self.is_better:
            found = f"Better there: {self.best}{held}, which gives {effect}{fails} ({evidence})."
            return [found, *self._scoring()]
        if short:
            return [
                f"No choice is shown to be better in all of these states: {self.best}{held}, the best of {self.tried} "
                f"that were tried, gives {signed(self.gain.value)} of return ({interval})."
            ]
        holds = " or ".join("once" if hold == 1 else f"for {hold} steps" for hold in HOLDS)
        return [
            f"No choice is shown to be better in all of these states, made {holds}: the best of {self.tried}, "
            f"{self.best}{held}, gives {effect}{fails} ({evidence})."
        ]

    def _scoring(self) -> list[str]:
        """Say how the policy scores the better choice, if it has scores."""
        if self.score_kind == "log-probabilities":
            rated = f"The policy gives this choice a probability of {percent(self.preference)} there"
            return [f"{rated}: it misjudges it." if self.preference < 1.0 / 3.0 else f"{rated}."]
        if self.score_kind == "values" and self.preference < 0.0:
            return [
                f"The policy's own values rank this choice below the one it takes, by {number(-self.preference)} on "
                "average: they are wrong there."
            ]
        return []

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "does": self.usual,
            "does_share": self.usual_share,
            "does_elsewhere": _known(self.elsewhere),
            "alternative": self.best,
            "held_for": self.hold,
            "is_better": self.is_better,
            "decisions": self.decisions,
            "gain": self.gain._asdict(),
            "fails": self.fails,
            "fails_as_played": self.fails_as_played,
            "preference": _known(self.preference),
            "score_kind": self.score_kind,
        }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def find_alternative(
    held_out: Experiences,
    is_inside: NDArray[np.bool_],
    rows: NDArray[np.int64],
    trials: dict[int, Trials],
    score_kind: str,
) -> Alternative | None:
    """Return what the policy does in some states and the best other choice there; None if too few episodes have them.

    Parameters
    ----------
    held_out
        Recorded episodes that did not choose these states.
    is_inside
        Which of their states are meant.
    rows
        Rows of the decisions that were tried, all of them inside.
    trials
        The results, by the number of steps for which choices were held.
    score_kind
        Meaning of the policy's scores.
    """
    # Gains over what the policy does, ``float64[decisions, alternatives]``: every choice held for one step, then every
    # choice held for longer. Column 0 of trials is the policy's own choice, held for one step, which is plain play.
    own_returns, own_fails = trials[1].returns[:, 0], trials[1].fails[:, 0]
    gains = np.hstack([trial.returns[:, 1:] - own_returns[:, None] for trial in trials.values()])
    fails = np.hstack([trial.fails[:, 1:] for trial in trials.values()])
    # A forbidden choice (NaN) cannot be made: there the policy plays as it does, with a gain of 0.
    gains, fails = np.nan_to_num(gains), np.where(np.isnan(fails), own_fails[:, None], fails)
    # Decisions whose rollouts raised an error are left out.
    is_played = ~np.isnan([trial.returns[:, 0] for trial in trials.values()]).any(axis=0)
    rows, gains, fails, own_fails = rows[is_played], gains[is_played], fails[is_played], own_fails[is_played]
    episodes = held_out.episode_ids[rows]
    tried_episodes = np.unique(episodes)
    if len(tried_episodes) < 2 * FEWEST_EPISODES:
        return None
    # The first half of the episodes selects the alternative; the others measure it. The decisions of one episode are
    # not independent, so their mean counts as one observation.
    selects = np.isin(episodes, tried_episodes[: len(tried_episodes) // 2])
    changes_anything = (gains[selects] != 0.0).any(axis=0)
    if not changes_anything.any():
        return None
    selected = int(np.where(changes_anything, gains[selects].mean(axis=0), -np.inf).argmax())
    _, episode_of = np.unique(episodes[~selects], return_inverse=True)  # of every decision, numbered from 0
    gain = gain_of(np.bincount(episode_of, gains[~selects, selected]) / np.bincount(episode_of))
    space = held_out.space
    hold_index, choice = divmod(selected, len(space.actions))  # alternatives are ordered by hold, then by choice
    usual, usual_share, elsewhere = _usual_choice(held_out, is_inside)
    return Alternative(
        usual=third_person(space.actions[usual].label),
        usual_share=usual_share,
        elsewhere=elsewhere,
        best=gerund(space.actions[choice].label),
        hold=list(trials)[hold_index],
        tried=int(changes_anything.sum()),
        decisions=int((~selects).sum()),
        gain=Figure(gain.mean, *gain.interval(0.95)),
        fails=float(fails[~selects, selected].mean()),
        fails_as_played=float(own_fails[~selects].mean()),
        preference=_preference(held_out, rows[~selects], choice, score_kind) if space.is_discrete else float("nan"),
        score_kind=score_kind if space.is_discrete else "none",
    )


def _usual_choice(held_out: Experiences, is_inside: NDArray[np.bool_]) -> tuple[int, float, float]:
    """Return the choice taken most in some states, and the shares of these and of all other states with it."""
    shares = [float(held_out.taken(choice)[is_inside].mean()) for choice in range(len(held_out.space.actions))]
    usual = int(np.argmax(shares))
    elsewhere = held_out.taken(usual)[~is_inside]
    return usual, shares[usual], float(elsewhere.mean()) if len(elsewhere) else float("nan")


def _preference(held_out: Experiences, rows: NDArray[np.int64], choice: int, score_kind: str) -> float:
    """Return the mean probability of a choice, or its mean value minus that of the choice taken, at decisions."""
    scores = np.asarray(held_out.scores[rows], np.float64)
    if score_kind == "log-probabilities":
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return float((weights[:, choice] / weights.sum(axis=1)).mean())
    taken = held_out.actions[rows]
    is_other = taken != choice
    if score_kind != "values" or not is_other.any():
        return float("nan")
    differences = scores[:, choice] - np.take_along_axis(scores, taken[:, None], axis=1)[:, 0]
    return float(differences[is_other].mean())
