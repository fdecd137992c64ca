"""Worlds in which every deviation earns a little and rarely costs a lot, and whole evaluations of them.

``python -m lab.bench.rare_loss_worlds [STUDIES]``: how many studies confirm something in worlds whose true effect is
at most zero (three sizes of the loss, three rates), and how often planted gains are confirmed without rare losses; each
with the worst loss of the whole study and, for comparison, with that of the confirmed candidates alone.

``python -m lab.bench.rare_loss_worlds --first [STUDIES]``: how often the interval of the first confirmed rule set
covers its effect, if all rule sets have the same effect, so that only luck decides which comes first.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from legible.evaluation import Evaluation, evaluate
from legible.evaluation.rare_losses import WorstLoss
from legible.evaluation.recorded import Repetition
from legible.hypotheses import Hypotheses, Proposal, Trial
from legible.settings import PRESETS

SIZES, RATES = (300.0, 1000.0, 3000.0), (1 / 300, 1 / 1000, 3 / 10_000)
GAIN_SHARE = 0.9
"""Gain of a deviation, as a share of its expected loss: the true effect is slightly negative."""
DEVIATIONS = (1, 1, 2, 8)
RULE_SETS = 8
SEARCHED, SEARCHED_CHANGES = 200, 96
"""Rule sets that a search tries, one deviation an episode."""


@dataclass(frozen=True)
class World:
    """Every deviation gains something and loses `size` at a rate; `planted` is an effect of the first rule set."""

    gain: float
    size: float = 0.0
    rate: float = 0.0
    planted: float = 0.0
    noise: float = 1.0

    def draw(self, rng: np.random.Generator, n: int, *, deviations: int, planted: bool) -> NDArray[np.float64]:
        """Draw what a rule set adds to the returns of n episodes."""
        added = self.gain * deviations - self.size * rng.binomial(deviations, self.rate, n)
        return added + rng.normal(self.planted if planted else 0.0, self.noise, n)


def study(world: World, seed: int, *, whole: bool = True, until_excluded: bool = False) -> Evaluation:
    """Evaluate rule sets of a world with the quick preset; without `whole`, only candidates' losses are known."""
    from drawn_play import SETUP, DrawnPlay, rule, rule_set

    draws = {
        rule(k): partial(world.draw, deviations=DEVIATIONS[k % len(DEVIATIONS)], planted=k == 1)
        for k in range(1, RULE_SETS + 1)
    }
    setup = replace(SETUP, treatments=tuple(rule_set(k) for k in range(1, RULE_SETS + 1)))
    settings = replace(PRESETS["quick"]().evaluation, until_excluded=until_excluded)
    searched = [rule_set(k) for k in range(RULE_SETS + 1, RULE_SETS + 1 + SEARCHED)]
    draws |= {one.rules[0]: partial(world.draw, deviations=1, planted=False) for one in searched}

    def search() -> Hypotheses:
        """Try rule sets and propose none of them."""
        yield Trial(searched, SEARCHED_CHANGES, SEARCHED_CHANGES)
        yield Proposal((), ())

    found = Repetition(rows=128, holds=False)  # nothing is recorded of drawn episodes, so that all are played
    add = WorstLoss.add if whole else lambda *_: None
    with (
        mock.patch("legible.evaluation.racing.find_repetition", return_value=found),
        mock.patch.object(WorstLoss, "add", add),
    ):
        return evaluate(
            setup, seed=seed, settings=settings, run=DrawnPlay(draws, world=seed), sources={"search": search()}
        )


def share_with(confirmed: list[bool]) -> str:
    """Return how many studies confirmed something, and the lower 95 % bound of the share."""
    low = stats.binomtest(sum(confirmed), len(confirmed), alternative="greater").proportion_ci(0.95, method="exact").low
    return f"{sum(confirmed)} of {len(confirmed)} (lower bound {low:.3f})"


def measure_first(studies: int) -> None:
    """Print how often intervals of confirmed rule sets cover the true effect: the first, the best, and all."""
    for noise in (4.0, 8.0):
        world = World(1.0, noise=noise)
        with mock.patch(f"{__name__}.DEVIATIONS", (1,)):
            found = [study(world, 1000 + seed).confirmed for seed in range(studies)]
        effects = [[v.confirmation.effect for v in one if v.confirmation] for one in found if one]
        shown = {
            "first": [one[0] for one in effects],
            "largest estimate": [max(one, key=lambda effect: effect.mean) for one in effects],
            "all": [effect for one in effects for effect in one],
        }
        for name, intervals in shown.items():
            covered = sum(effect.low <= world.gain <= effect.high for effect in intervals)
            interval = stats.binomtest(covered, len(intervals)).proportion_ci(0.95, method="exact")
            print(
                f"noise {noise:g}, {name}: {covered} of {len(intervals)} cover the truth "
                f"({100 * interval.low:.1f} to {100 * interval.high:.1f} %)",
                flush=True,
            )


def main(studies: int) -> None:
    """Print how many studies confirm something in each world."""
    for size in SIZES:
        for rate in RATES:
            world = World(GAIN_SHARE * size * rate, size, rate)
            found = {w: [study(world, seed, whole=w) for seed in range(studies)] for w in (False, True)}
            unless = sum(bool(one.unless_rare_losses) for one in found[True])
            shares = [share_with([bool(one.confirmed) for one in found[w]]) for w in (False, True)]
            print(
                f"loss {size:g} at {rate:.5f}: confirmed before {shares[0]}, now {shares[1]}; {unless} say 'unless'",
                flush=True,
            )
    for planted, noise in ((0.5, 2.0), (1.0, 4.0), (1.0, 8.0)):
        world = World(0.0, planted=planted, noise=noise)
        power = [
            np.mean(
                [
                    any(v is e.verdicts[0] for v in e.confirmed)
                    for e in (study(world, s, whole=w) for s in range(studies))
                ]
            )
            for w in (False, True)
        ]
        print(f"planted {planted:g}, noise {noise:g}: found before {power[0]:.3f}, now {power[1]:.3f}", flush=True)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--first"]
    measure = measure_first if "--first" in sys.argv else main
    measure(int(arguments[0]) if arguments else 60)
