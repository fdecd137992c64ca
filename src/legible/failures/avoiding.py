"""Until when a failure could have been avoided.

At steps further and further from the end of failing episodes, every other choice is tried, followed by the policy. Some
rollouts choose the last step at which a choice avoids the failure, and which choice; fresh ones measure it, so that the
choice of the moment does not flatter the result.

- `find_last_chance`: the search; `Chance`: steps and choices to try; `Avoidable`: the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.environments import Ending
from legible.evaluation.figures import Figure
from legible.formatting import number, percent

STEPS_BACK = (2, 5, 10, 20, 40, 80, 160)
MIN_AVOIDED = 0.5
"""Share of rollouts that a choice must save for a step to count as a chance."""
RESAMPLES = 2000


class Chance(NamedTuple):
    """Steps of a failing episode, and the choices to try at each: the one taken first, ``int64[steps, choices]``."""

    episode: int
    steps: NDArray[np.int64]
    choices: NDArray[np.int64]


TryChoices = Callable[[Sequence[Chance], int, int], Sequence[NDArray[np.str_]]]
"""Called as ``try_choices(chances, first, count)``; returns how the futures ``first … first + count - 1`` of each end,
``[steps, choices, count]``."""


@dataclass(frozen=True)
class Avoidable:
    """Until when failures of a mode could have been avoided, with 95 % confidence intervals over episodes.

    Parameters
    ----------
    episodes
        Number of failing episodes that were examined.
    found
        Share of them with a step at which another choice avoids the failure.
    steps
        Median number of steps before the end of the last such step; NaN where there is none.
    avoided, as_played
        Shares of fresh rollouts from that step that do not fail then or soon after, with the other choice and with the
        policy's.
    furthest
        Largest number of steps before the end at which choices were tried.
    """

    episodes: int
    found: float
    steps: Figure
    avoided: Figure
    as_played: Figure
    furthest: int = 0

    @property
    def is_shown(self) -> bool:
        """True if another choice is shown to avoid failures."""
        return self.found > 0.0 and self.avoided.low > self.as_played.value

    def sentence(self) -> str:
        """Return the result in words."""
        if not self.found:
            return (
                f"At up to {self.furthest} steps before the end, every other choice was tried once; that avoids none "
                f"of {self.episodes} failures examined."
            )
        if not self.is_shown:
            return (
                f"No single choice is shown to avoid it, in {self.episodes} failures examined. After the best other "
                f"choice {_share(self.avoided)} of fresh rollouts survive, after the policy's own "
                f"{_share(self.as_played)}."
            )
        return (
            f"In {round(self.found * self.episodes)} of {self.episodes} failures, another choice up to "
            f"{_steps(self.steps)} before the end raises survival. After that choice "
            f"{_share(self.avoided)} of fresh rollouts survive, after the policy's own {_share(self.as_played)}."
        )

    def summary(self) -> str:
        """Return the result in a sentence without intervals; "" where no choice is shown to avoid failures."""
        if not self.is_shown:
            return ""
        survive = f"{percent(self.avoided.value)} of fresh rollouts survive instead of {percent(self.as_played.value)}"
        return (
            f"In {round(self.found * self.episodes)} of {self.episodes} failures examined, another choice up to "
            f"{number(self.steps.value)} steps before the end raises survival: {survive}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        figures = {name: getattr(self, name)._asdict() for name in ("steps", "avoided", "as_played")}
        return {"episodes": self.episodes, "found": self.found, **(figures if self.found else {})}


def _steps(figure: Figure) -> str:
    return f"{number(figure.value)} steps ({number(figure.low)} to {number(figure.high)})"


def _share(figure: Figure) -> str:
    return f"{percent(figure.value)} ({percent(figure.low)} to {percent(figure.high)})"


def find_last_chance(
    chances: Sequence[Chance], lengths: Sequence[int], try_choices: TryChoices, *, rollouts: int, seed: int
) -> Avoidable:
    """Return until when failing episodes could have been avoided.

    Parameters
    ----------
    chances
        Steps of the failing episodes, from the end backwards, and the choices there.
    lengths
        Lengths of the episodes.
    try_choices
        Plays futures.
    rollouts
        Rollouts of each choice, and as many fresh ones of the chosen moment.
    seed
        Seed of the resampling.
    """
    # In each episode, the last step at which another choice survives more often than the policy's own.
    last_chances: list[Chance] = []
    steps_before_end: list[float] = []
    for chance, length, endings in zip(chances, lengths, try_choices(chances, 0, rollouts), strict=True):
        survived = (~fails_at_end(endings)).mean(axis=2)  # share of the rollouts, [steps, choices]
        best = 1 + survived[:, 1:].argmax(axis=1)  # of the other choices, at each step
        best_survived = survived[np.arange(len(best)), best]
        saving = np.flatnonzero((best_survived >= MIN_AVOIDED) & (best_survived > survived[:, 0]))
        if len(saving):
            last = saving[:1]  # steps go from the end backwards
            own_and_best = np.stack([chance.choices[last, 0], chance.choices[last, best[last]]], axis=1)
            last_chances.append(Chance(chance.episode, chance.steps[last], own_and_best))
            steps_before_end.append(float(length - chance.steps[last[0]]))
    # Fresh rollouts of these choices: the share that survives with the policy's own choice, and with the other one.
    fresh = [(~fails_at_end(endings)[0]).mean(axis=1) for endings in try_choices(last_chances, rollouts, rollouts)]
    as_played, avoided = [float(pair[0]) for pair in fresh], [float(pair[1]) for pair in fresh]
    n, n_found = len(lengths), len(last_chances)
    unknown = Figure(float("nan"), float("nan"), float("nan"))
    furthest = max(int(length - chance.steps.min()) for chance, length in zip(chances, lengths, strict=True))
    if not n_found:
        return Avoidable(n, found=0.0, steps=unknown, avoided=unknown, as_played=unknown, furthest=furthest)
    # Indexes of resampled episodes, [resamples, episodes], for the intervals.
    drawn = np.random.default_rng([seed, n_found]).integers(n_found, size=(RESAMPLES, n_found))
    return Avoidable(
        n,
        found=n_found / n,
        steps=_figure(np.array(steps_before_end), drawn, np.median),
        avoided=_figure(np.array(avoided), drawn, np.mean),
        as_played=_figure(np.array(as_played), drawn, np.mean),
        furthest=furthest,
    )


def _figure(values: NDArray[np.float64], drawn: NDArray[np.int64], of: Callable[..., Any]) -> Figure:
    low, high = np.quantile(of(values[drawn], axis=1), [0.025, 0.975]).tolist()
    return Figure(float(of(values)), low, high)


def fails_at_end(endings: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Return which endings, as texts in an array of any shape, are failures; an unknown ending ("") is none."""
    texts, text_numbers = np.unique(endings, return_inverse=True)
    is_failure = np.array([bool(text) and Ending.parse(str(text)).kind == "failure" for text in texts], bool)
    return is_failure[text_numbers].reshape(endings.shape)
