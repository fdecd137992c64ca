"""What guidance changes beside the objective: what a person wants to know before a guided policy is used.

- `Deployment`: every figure before and after, what gets worse, the seeds that lose most, what was not tested.
- `weigh_deployment` makes it; `FigureChange` is one figure before and after, `SeedLoss` one seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.evaluation import Figure, Objective, find_objective
from legible.evaluation.figures import effect_by, figure_of, objectives_told
from legible.evaluation.statistics import Effect
from legible.evaluation.units import UnitResult
from legible.formatting import counted, join_words, number, percent, signed
from legible.improvement import Improvement
from legible.settings import PlaySettings

MOST_SEEDS = 5

Direction = Literal["better", "worse", "unclear", "same"]
"""What guidance does to a figure: for certain the one or the other, neither for certain, or nothing at all."""

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
    """One figure of the policy alone and guided, as people read it.

    Parameters
    ----------
    name, words
        Of the figure: that of an objective, "failure" or "below-zero".
    base, guided
        The policy alone, and guided; the latter is None where there is no guided policy.
    difference
        Guided minus alone on the same seeds; None where there is no guided policy.
    direction
        What guidance does to it.
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
        """What it is called within a sentence."""
        return _SHORT_WORDS.get(self.name, f"the {self.words}")

    def cells(self) -> tuple[str, ...]:
        """Words, figures and difference as texts, each figure with its 95 % interval."""
        write = percent if self.is_share else number
        told = [self.words, _with_interval(self.base, write)]
        if self.guided is not None and self.difference is not None:
            scale = 100.0 if self.is_share else 1.0
            change = Figure(*(scale * value for value in self.difference))
            unit = " points" if self.is_share else ""
            told += [
                _with_interval(self.guided, write),
                f"{signed(change.value)}{unit} ({signed(change.low)} to {signed(change.high)})",
            ]
        return tuple(told)

    def clause(self) -> str:
        """What becomes of it: "the worst tenth falls from −71.5 to −169"."""
        if self.guided is None:
            return ""
        write = percent if self.is_share else number
        rises = self.guided.value > self.base.value
        verb = ("rise" if rises else "fall") + ("" if self.name in _PLURAL else "s")
        return f"{self.short_words} {verb} from {write(self.base.value)} to {write(self.guided.value)}"


def _with_interval(figure: Figure, write: Any) -> str:
    return f"{write(figure.value)} ({write(figure.low)} to {write(figure.high)})"


@dataclass(frozen=True)
class SeedLoss:
    """A seed on which guidance loses: the return of the policy alone, and guided."""

    seed: int
    base: float
    guided: float


@dataclass(frozen=True)
class Deployment:
    """What a person wants to know before a guided policy is used.

    Parameters
    ----------
    objective
        What guidance was to raise.
    figures
        Every figure before and after.
    episodes
        On how many fresh seeds.
    is_guided
        Whether there is a guided policy.
    overridden, fired, episodes_changed
        Shares of the steps in which guidance takes another action and in which a rule holds, and of the episodes in
        which it takes another action at all.
    losses
        The seeds that lose most.
    seeds_lost
        The share of seeds that return less than without guidance.
    success
        What counts as success here, in words.
    not_tested
        What the figures say nothing about, a sentence each.
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

    @property
    def worse(self) -> tuple[FigureChange, ...]:
        """The figures that guidance makes worse for certain."""
        return tuple(change for change in self.figures if change.direction == "worse")

    def verdict(self) -> str:
        """What a guided policy is better and worse in, all figures in one sentence, and how often it still fails."""
        # Failures are told apart: where success is known they are nearly its complement.
        named = {
            direction: join_words(
                [c.short_words for c in self.figures if c.direction == direction and c.name != "failure"]
            )
            for direction in ("better", "worse", "unclear")
        }
        parts = [f"better in {named['better']}" if named["better"] else "no better in any figure for certain"]
        parts.append(f"worse in {named['worse']}" if named["worse"] else "worse in none for certain")
        if named["unclear"]:
            parts.append(f"{named['unclear']} may go either way")
        told = f"Guided, the policy is {'; '.join(parts)}."
        fails = next((change.guided for change in self.figures if change.name == "failure"), None)
        if fails is None or not fails.value:
            return told
        return f"{told} It still fails in {percent(fails.value)} of the episodes."

    @property
    def unclear(self) -> tuple[FigureChange, ...]:
        """The figures of which nobody can tell whether guidance makes them better or worse."""
        return tuple(change for change in self.figures if change.direction == "unclear")

    def cost_clause(self, most: int = 1) -> str:
        """What guidance costs beside the objective: "the worst tenth falls from 20 to 10"."""
        others = [change for change in self.figures if change.name != self.objective]
        worse = [change for change in others if change.direction == "worse"]
        if worse:
            return join_words([change.clause() for change in worse[:most]])
        unclear = sorted((c for c in others if c.direction == "unclear"), key=lambda c: c.name != "worst-tenth")
        if unclear:
            return f"what becomes of {join_words([change.short_words for change in unclear[:most]])} is not certain"
        return "no figure gets worse"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def weigh_deployment(
    improvement: Improvement,
    *,
    environment: str = "",
    play: PlaySettings | None = None,
    success: str = "",
    solved: float | None = None,
) -> Deployment:
    """Gather what a person wants to know before a guided policy is used.

    Parameters
    ----------
    improvement
        The composition, with its episodes on fresh seeds.
    environment
        Its name, for what was not tested.
    play
        How actions were chosen, for what was not tested.
    success
        What counts as success, to follow "an episode succeeds when".
    solved
        The mean return from which on the environment counts as solved, if it says so.
    """
    base, guided = improvement.final_blocks.base, improvement.final_blocks.results[-1]
    is_guided = bool(len(improvement.composition))
    differences = np.nan_to_num(guided.returns - base.returns)
    worst = np.argsort(differences, kind="stable")[:MOST_SEEDS]
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
        success=" ".join(filter(None, (_success_words(base, success), _solved_words(improvement, solved)))),
        not_tested=tuple(_not_tested(base, environment, play, is_guided=is_guided)),
    )


def _changes(improvement: Improvement) -> Iterator[FigureChange]:
    base, guided = improvement.final_blocks.base, improvement.final_blocks.results[-1]
    told = objectives_told(base.played, guided.played)
    for objective in told:
        yield _change(improvement, objective, objective.name, objective.words)
    if any(objective.name == "success" for objective in told):
        yield _change(improvement, _NOT_FAILING, "failure", "share of episodes that fail", is_complement=True)
    returns = np.concatenate([base.played.returns, guided.played.returns])
    if (returns < 0).any() and (returns >= 0).any():
        yield _change(improvement, _NOT_BELOW_ZERO, "below-zero", "share of returns below 0", is_complement=True)


def _not_failing(episodes: UnitResult) -> NDArray[np.float64]:
    """An episode that was cut off has not failed yet."""
    return ((episodes.success == 1.0) | episodes.truncated).astype(np.float64)


def _not_below_zero(episodes: UnitResult) -> NDArray[np.float64]:
    return (episodes.returns >= 0.0).astype(np.float64)


_NOT_FAILING = Objective("not failing", "share of episodes that do not fail", _not_failing, is_binary=True)
_NOT_BELOW_ZERO = Objective("not below zero", "share of returns not below 0", _not_below_zero, is_binary=True)


def _change(
    improvement: Improvement, objective: Objective, name: str, words: str, *, is_complement: bool = False
) -> FigureChange:
    """A figure before and after; a complement is shown as one minus the objective."""
    blocks, is_guided = improvement.final_blocks, bool(len(improvement.composition))
    base, guided = blocks.base, blocks.results[-1]

    def shown(episodes: UnitResult) -> Figure:
        figure = figure_of(objective, episodes.played)
        return Figure(1 - figure.value, 1 - figure.high, 1 - figure.low) if is_complement else figure

    if not is_guided:
        return FigureChange(name, words, shown(base), None, None, "same", objective.is_binary)
    effect = effect_by(objective, blocks.results, guided, base, improvement.evaluation_settings.method)
    sign = -1.0 if is_complement or objective.less_is_better else 1.0
    low, high = sorted((sign * effect.low, sign * effect.high))
    difference = Figure(sign * effect.mean, low, high)
    return FigureChange(name, words, shown(base), shown(guided), difference, _direction(effect), objective.is_binary)


def _direction(effect: Effect) -> Direction:
    if effect.low > 0.0:
        return "better"
    if effect.high < 0.0:
        return "worse"
    return "same" if effect.low == effect.high == 0.0 else "unclear"


def _success_words(base: UnitResult, success: str) -> str:
    if np.isnan(base.played.success).any():
        return "This environment does not say whether an episode succeeded, so success is not among the figures."
    return f"An episode succeeds when {success or 'the environment says so (is_success in its last infos)'}."


def _solved_words(improvement: Improvement, solved: float | None) -> str:
    """How the mean returns stand to the one from which on the environment counts as solved."""
    if solved is None:
        return ""
    blocks, mean = improvement.final_blocks, find_objective("mean")
    told = [("the policy alone", blocks.base)]
    if len(improvement.composition):
        told.append(("guided, it", blocks.results[-1]))

    def reaches(episodes: UnitResult) -> str:
        figure = figure_of(mean, episodes.played)
        if figure.low >= solved:
            return "is above that"
        return "is below that" if figure.high < solved else "may be on either side of that"

    stands = join_words([f"{name} {reaches(episodes)}" for name, episodes in told])
    return f"Its makers call this environment solved from a mean return of {number(solved)} on: {stands}."


def _not_tested(base: UnitResult, environment: str, play: PlaySettings | None, *, is_guided: bool) -> Iterator[str]:
    name = f"{environment} as it was configured here" if environment else "the environment as it was configured here"
    yield (
        f"Other situations than those of {counted(len(base), 'seed')} of {name}: rare ones that none of them "
        "shows, other versions, a changed world."
    )
    if play is not None:
        yield f"Other ways of choosing actions: all episodes were played {play.words}."
    cut = float(base.truncated.mean())
    if cut:
        yield f"What comes after the step limit, which cuts off {percent(cut)} of the episodes of the policy alone."
    if is_guided:
        yield "What guidance does to a policy that is trained further, or to another policy."
