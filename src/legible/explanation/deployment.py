"""Facts about a guided policy that matter before it is deployed.

- `Deployment`: every figure unguided and guided, the figures that get worse, the worst seeds, what was not tested.
- `summarise_deployment` makes it; `FigureChange` is one figure unguided and guided, `SeedLoss` one seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.environments import Ending
from legible.evaluation import Figure, Objective, find_objective
from legible.evaluation.figures import effect_by, figure_of, objectives_with_data
from legible.evaluation.units import UnitResult
from legible.formatting import counted, join_words, number, percent, signed
from legible.improvement import Improvement
from legible.settings import PlaySettings

MAX_LOSSES = 5

Direction = Literal["better", "worse", "unclear", "same"]
"""Effect of guidance on a figure: significantly better or worse, not significant, or exactly the same."""

_SHORT_WORDS = {
    "mean": "the mean return",
    "median": "the median return",
    "worst-tenth": "the worst tenth",
    "success": "success",
    "cost": "the mean cost",
    "failure": "failures",
    "below-zero": "returns below 0",
}
_PLURAL = ("failure", "below-zero")


@dataclass(frozen=True)
class FigureChange:
    """One figure of the unguided and the guided policy.

    Parameters
    ----------
    name, words
        Name of the figure (an objective, "failure" or "below-zero"), and the name in words.
    base, guided
        The figure unguided and guided; `guided` is None if there is no guided policy.
    difference
        Guided minus unguided on the same seeds; None if there is no guided policy.
    direction
        Effect of guidance on the figure.
    is_share
        Whether it is a share of episodes.
    """

    name: str
    words: str
    base: Figure
    guided: Figure | None
    difference: Figure | None
    direction: Direction
    is_share: bool

    @property
    def short_words(self) -> str:
        """Return the name within a sentence."""
        return _SHORT_WORDS.get(self.name, f"the {self.words}")

    def cells(self) -> tuple[str, ...]:
        """Return name, figures and difference as text, each figure with its 95 % confidence interval."""
        write = percent if self.is_share else number
        figures = [figure for figure in (self.base, self.guided) if figure is not None]
        cells = [self.words, *(f"{write(f.value)} ({write(f.low)} to {write(f.high)})" for f in figures)]
        if self.difference is not None:
            scale, unit = (100.0, " points") if self.is_share else (1.0, "")
            value, low, high = (signed(scale * value) for value in self.difference)
            cells.append(f"{value}{unit} ({low} to {high})")
        return tuple(cells)

    def clause(self) -> str:
        """Return the change as a clause: "the worst tenth falls from −71.5 to −169"."""
        if self.guided is None:
            return ""
        write = percent if self.is_share else number
        rises = self.guided.value > self.base.value
        verb = ("rise" if rises else "fall") + ("" if self.name in _PLURAL else "s")
        return f"{self.short_words} {verb} from {write(self.base.value)} to {write(self.guided.value)}"


@dataclass(frozen=True)
class SeedLoss:
    """A seed on which guidance loses, with the unguided and the guided return."""

    seed: int
    base: float
    guided: float


@dataclass(frozen=True)
class Deployment:
    """Facts about a guided policy that matter before it is deployed.

    Parameters
    ----------
    objective
        The objective that guidance should improve.
    figures
        Every figure unguided and guided.
    episodes
        Number of held-out seeds.
    is_guided
        Whether there is a guided policy.
    overridden, fired, episodes_changed
        Override rate, share of the steps in which a rule holds, and share of the episodes with an overridden action.
    losses
        The seeds that lose most.
    seeds_lost
        Share of the seeds with a lower return than unguided.
    success
        Definition of success, in words.
    not_tested
        What the figures do not cover, a sentence each.
    rare_losses
        How rare large losses must be for the gain to hold, and what the episodes exclude.
    """

    objective: str
    figures: tuple[FigureChange, ...]
    episodes: int
    is_guided: bool
    overridden: float
    fired: float
    episodes_changed: float
    losses: tuple[SeedLoss, ...]
    seeds_lost: float
    success: str
    not_tested: tuple[str, ...]
    rare_losses: str = ""

    @property
    def worse(self) -> tuple[FigureChange, ...]:
        """Return the figures that guidance makes significantly worse."""
        return tuple(change for change in self.figures if change.direction == "worse")

    def verdict(self) -> str:
        """Say which figures guidance improves and worsens, and how often the guided policy still fails."""
        # Failures have their own sentence: where success is known, they are nearly its complement.
        names: dict[str, list[str]] = {"better": [], "worse": [], "unclear": [], "same": []}
        for change in self.figures:
            if change.name != "failure":
                names[change.direction].append(change.short_words)
        parts = [
            f"Better: {join_words(names['better']) or 'no figure'}.",
            f"Worse: {join_words(names['worse']) or 'no figure'}.",
        ]
        if names["unclear"]:
            parts.append(f"Not significant: {join_words(names['unclear'])}.")
        fails = next((change.guided for change in self.figures if change.name == "failure"), None)
        if fails is not None and fails.value:
            parts.append(f"The guided policy still fails in {percent(fails.value)} of the episodes.")
        return " ".join(parts)

    def cost_clause(self) -> str:
        """Return the first cost of guidance as a clause: "the worst tenth falls from 20 to 10"."""
        others = [change for change in self.figures if change.name != self.objective]
        for change in others:
            if change.direction == "worse":
                return change.clause()
        unclear = sorted((c for c in others if c.direction == "unclear"), key=lambda c: c.name != "worst-tenth")
        return f"the effect on {unclear[0].short_words} is not significant" if unclear else "no figure gets worse"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


def summarise_deployment(
    improvement: Improvement,
    *,
    environment: str = "",
    play: PlaySettings | None = None,
    success: str = "",
    solved: float | None = None,
) -> Deployment:
    """Collect the facts that matter before a guided policy is deployed.

    Parameters
    ----------
    improvement
        The composition, with its episodes on held-out seeds.
    environment
        Name of the environment, for `Deployment.not_tested`.
    play
        Settings that say how actions were chosen, for `Deployment.not_tested`.
    success
        Definition of success, to follow "an episode succeeds when".
    solved
        The mean return from which the environment counts as solved, if it defines one.
    """
    # Without a composition, the only result is that of the unguided policy.
    base, guided = improvement.final_blocks.base, improvement.final_blocks.results[-1]
    is_guided = bool(len(improvement.composition))
    # Failed episodes have no return (NaN): they count as unchanged here.
    differences = np.nan_to_num(guided.returns - base.returns)
    worst = np.argsort(differences, kind="stable")[:MAX_LOSSES]
    return Deployment(
        objective=improvement.evaluation_settings.objective,
        figures=tuple(_changes(improvement)),
        episodes=len(base),
        is_guided=is_guided,
        overridden=improvement.guided.changed,
        fired=improvement.guided.fired,
        episodes_changed=float((guided.changed > 0).mean()),
        losses=tuple(
            SeedLoss(int(improvement.final_blocks.seeds[i]), float(base.returns[i]), float(guided.returns[i]))
            for i in worst.tolist()
            if differences[i] < 0.0
        ),
        seeds_lost=float((differences < 0).mean()),
        success=_success_sentences(improvement, success, solved),
        not_tested=tuple(_not_tested(base, environment, play, is_guided=is_guided)),
        rare_losses="" if improvement.rare_losses is None else improvement.rare_losses.sentence(),
    )


def _not_failing(episodes: UnitResult) -> NDArray[np.float64]:
    # A truncated episode has not failed.
    return ((episodes.success == 1.0) | episodes.truncated).astype(np.float64)


def _not_below_zero(episodes: UnitResult) -> NDArray[np.float64]:
    return (episodes.returns >= 0.0).astype(np.float64)


_NOT_FAILING = Objective("not failing", "share of episodes that do not fail", _not_failing, is_binary=True)
_NOT_BELOW_ZERO = Objective("not below zero", "share of returns not below 0", _not_below_zero, is_binary=True)


def _changes(improvement: Improvement) -> Iterator[FigureChange]:
    base, guided = improvement.final_blocks.base, improvement.final_blocks.results[-1]
    objectives = objectives_with_data(base.played, guided.played, also=improvement.evaluation_settings.objective)
    for objective in objectives:
        yield _change(improvement, objective, objective.name, objective.words)
    if any(objective.name == "success" for objective in objectives):
        yield _change(improvement, _NOT_FAILING, "failure", "share of episodes that fail", is_complement=True)
    returns = np.concatenate([base.played.returns, guided.played.returns])
    if (returns < 0).any() and (returns >= 0).any():
        yield _change(improvement, _NOT_BELOW_ZERO, "below-zero", "share of returns below 0", is_complement=True)


def _change(
    improvement: Improvement, objective: Objective, name: str, words: str, *, is_complement: bool = False
) -> FigureChange:
    """Return a figure unguided and guided.

    A complement is shown as one minus the objective, such as the share that fails for the share that does not fail:
    tests need an objective of which more is better.
    """
    blocks = improvement.final_blocks
    base, guided = blocks.base, blocks.results[-1]

    def shown(episodes: UnitResult) -> Figure:
        figure = figure_of(objective, episodes.played)
        return Figure(1 - figure.value, 1 - figure.high, 1 - figure.low) if is_complement else figure

    if not len(improvement.composition):
        return FigureChange(name, words, shown(base), None, None, "same", objective.is_binary)
    effect = effect_by(objective, blocks.results, guided, base, improvement.evaluation_settings.method)
    direction: Direction = "same" if effect.low == effect.high == 0.0 else "unclear"
    if effect.low > 0.0:
        direction = "better"
    elif effect.high < 0.0:
        direction = "worse"
    sign = -1.0 if is_complement or objective.less_is_better else 1.0
    low, high = sorted((sign * effect.low, sign * effect.high))
    difference = Figure(sign * effect.mean, low, high)
    return FigureChange(name, words, shown(base), shown(guided), difference, direction, objective.is_binary)


def _success_sentences(improvement: Improvement, success: str, solved: float | None) -> str:
    """Define success, and say on which side of the environment's threshold the mean returns are."""
    blocks, mean = improvement.final_blocks, find_objective("mean")
    if np.isnan(blocks.base.played.success).any():
        endings_tell = any(
            Ending.parse(text).kind in {"success", "failure"} for text in set(blocks.base.endings.tolist())
        )
        unknown = "Success is not reported: the environment does not say whether an episode succeeded."
        text = "" if endings_tell else unknown  # the report shows the endings
    else:
        text = f"An episode succeeds when {success or 'the environment says so (is_success in its last infos)'}."
    if solved is None:
        return text
    policies = [("the unguided policy", blocks.base)]
    if len(improvement.composition):
        policies.append(("the guided policy", blocks.results[-1]))
    sides: dict[str, list[str]] = {}  # the policies on each side of the threshold
    for name, episodes in policies:
        figure = figure_of(mean, episodes.played)
        side = (
            "is above" if figure.low >= solved else "is below" if figure.high < solved else "may be on either side of"
        )
        sides.setdefault(side, []).append(name)
    stands = [
        f"both policies {side.replace('is ', 'are ')} that" if len(names) == 2 else f"{names[0]} {side} that"
        for side, names in sides.items()
    ]
    solved_from = f"The environment counts as solved from a mean return of {number(solved)}: {join_words(stands)}."
    return f"{text} {solved_from}".strip()


def _not_tested(base: UnitResult, environment: str, play: PlaySettings | None, *, is_guided: bool) -> Iterator[str]:
    seeds = f"{counted(len(base), 'seed')} of {environment or 'the environment'} as configured here"
    yield f"Situations that do not occur in the {seeds}, other versions, a changed environment."
    if play is not None:
        yield f"Other ways to choose actions: all episodes were played {play.words}."
    truncated = float(base.truncated.mean())
    if truncated:
        yield f"Anything after the step limit, which ends {percent(truncated)} of the unguided episodes."
    yield (
        f"Rare events: {counted(len(base), 'episode')} cannot show what happens in fewer than 1 of "
        f"{number(max(1, len(base) // 3))} of them (95 % confidence)."
    )
    if is_guided:
        yield "Other policies, or this policy after further training."
