"""Finding weaknesses: the steps that the race takes to find planted faults, compared with the paper's method.

PAC-Man small and medium, a DQN policy of the zoo each, with faults of known size and rarity: the policy errs in states
that a rule describes, and the rule that mends it is tested among twenty rule sets without effect. Real episodes are
played once into pools; studies are drawn from them (`lab.bench.drawn_studies`). Both sides count every environment
step up to the confirmed verdict: unguided, all rungs (or screening) and confirmation.

- *Steps for the same power*: budgets of the race from small to large; the smallest steps at which it finds as large a
  share of the faults as the paper's method does with 250 and 500 episodes.
- *Share found at the same cost*: of the faults of about 60 points in PAC-Man small, with budgets of the race that take
  as many steps.

``python -m lab.bench finding [--quick]``
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from lab.bench.drawn_studies import Outcome, paper_study, race_study
from lab.bench.planted import Fault, FaultyPolicy, Pool, play_pool
from legible.environments import EnvironmentSpec
from legible.policies import load_policy
from legible.rules import parse_rule
from legible.settings import EvaluationSettings
from legible_envs.pacman.features import pacman_features

ZOO = Path(__file__).parents[2] / "zoo"
PAPER = EvaluationSettings(method="paper")
RACE = EvaluationSettings()
BUDGETS = tuple(
    replace(RACE, rung_changes=rung, rungs=n, race_seeds=race, confirmation_changes=changes, confirmation_seeds=most)
    for rung, n, race, changes, most in (
        (12, 4, 192, 200, 1024),
        (12, 4, 192, 200, 2560),
        (12, 4, 256, 200, 2560),
        (16, 4, 256, 200, 4000),
        (24, 5, 1000, 500, 4000),
        (48, 5, 2000, 600, 6000),
        (96, 5, 4000, 1200, 8000),
    )
)
"""From small to large; the fifth is the default."""
COLUMNS = (
    *("level", "fault", "effect", "changed", "paper: found", "false", "steps"),
    *("race, same power: steps", "ratio", "race, same steps: found"),
)


class Planted(NamedTuple):
    """A fault: the level, the rule, the share of its states in which the policy errs, the size that it is meant for."""

    level: str
    rule: str
    share: float
    size: int


WAITS = "+Stop <- food.length <= 1 & ghost0.length >= 6"
WALKS_SOUTH = "+South <- ghost1.path.south & 2 < ghost1.length <= 4"
LEAVES_CAPSULE, STOPS = "+North <- capsule.south & capsule.length <= 3", "+Stop <- near.unscared >= 1"
WALKS_EAST = "+East <- ghost0.path.east & ghost0.length <= 1 & ghost1.bearing.w"
WALKS_WEST = "+West <- near.unscared >= 2"
FAULTS = (
    Planted("Small", WAITS, 0.045, 60),
    Planted("Small", WALKS_SOUTH, 1.0, 60),
    Planted("Small", LEAVES_CAPSULE, 0.3, 60),
    Planted("Small", STOPS, 0.006, 60),
    Planted("Small", WALKS_EAST, 0.17, 60),
    Planted("Small", WALKS_WEST, 1.0, 60),
    Planted("Small", LEAVES_CAPSULE, 0.2, 30),
    Planted("Small", STOPS, 0.003, 30),
    Planted("Small", WAITS, 0.08, 120),
    Planted("Small", LEAVES_CAPSULE, 0.5, 120),
    Planted("Small", WALKS_EAST, 0.4, 120),
    Planted("Medium", WAITS, 0.025, 60),
    Planted("Medium", WALKS_SOUTH, 0.75, 60),
    Planted("Medium", STOPS, 0.006, 60),
    Planted("Medium", WALKS_EAST, 0.27, 60),
    Planted("Medium", STOPS, 0.003, 30),
    Planted("Medium", WAITS, 0.06, 120),
    Planted("Medium", WALKS_EAST, 0.7, 120),
)


def draw_pool(planted: Planted, seeds: int) -> Pool:
    """Play the pool of a fault: the mending rule, and those of other faults of the level."""
    policy = load_policy(ZOO / f"Pacman{planted.level}" / "dqn" / "0.safetensors")
    space = pacman_features(2 if policy.n_features == 69 else 4)
    fault = Fault(parse_rule(planted.rule, space), planted.share)
    rules = dict.fromkeys(other.rule for other in FAULTS if other.level == planted.level and other.rule != planted.rule)
    others = [Fault(parse_rule(rule, space), 1.0).mending for rule in list(rules)[:3]]
    environment = EnvironmentSpec(f"legible/Pacman{planted.level}-v0")
    return play_pool(FaultyPolicy(policy, fault), environment, [fault.mending, *others], seeds)


class Power(NamedTuple):
    """Shares of the studies that found the fault, that found something else, and their mean steps."""

    found: float
    false: float
    steps: float

    @classmethod
    def of(cls, outcomes: list[Outcome]) -> Power:
        """Sum up studies."""
        return cls(*(float(np.mean(column)) for column in zip(*outcomes, strict=True)))

    @classmethod
    def mean(cls, powers: list[Power]) -> Power:
        """Return the mean over faults."""
        return cls(*(float(np.mean(column)) for column in zip(*powers, strict=True)))


def steps_for_power(power: float, curve: list[Power]) -> float:
    """Return the steps at which a race finds this share, interpolated in the logarithm of the steps."""
    steps, found = np.log([one.steps for one in curve]), np.maximum.accumulate([one.found for one in curve])
    if power > found[-1]:
        return float("nan")
    return float(np.exp(np.interp(power, found, steps))) if power > found[0] else float(np.exp(steps[0]))


def found_for_steps(steps: float, curve: list[Power]) -> float:
    """Return the share of faults that a race finds with a budget of steps."""
    return float(np.interp(np.log(steps), np.log([one.steps for one in curve]), [one.found for one in curve]))


def _powers(pool: Pool, studies: int) -> tuple[Power, list[Power]]:
    """Return what the paper's method and every budget of the race find, and false alarms of studies without effect.

    Benjamini-Hochberg allows more false alarms next to a true effect, so those would not compare.
    """

    def power(study: Callable[..., Outcome], settings: EvaluationSettings) -> Power:
        found = Power.of([study(pool, settings, seed) for seed in range(studies)])
        nothing = Power.of([study(pool, settings, seed, planted=False) for seed in range(studies)])
        return found._replace(false=nothing.false)

    return power(paper_study, PAPER), [power(race_study, budget) for budget in BUDGETS]


def main(quick: bool = False) -> None:
    console = Console(width=200)
    seeds, studies = (600, 10) if quick else (1500, 60)
    table = Table(title=f"{studies} drawn studies a fault and budget, twenty rule sets without effect")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("level", "fault") else "right")
    papers, curves = [], []
    for planted in FAULTS:
        pool = draw_pool(planted, seeds)
        paper, curve = _powers(pool, studies)
        papers.append(paper)
        curves.append(curve)
        about = (planted.level, f"{planted.rule} ({planted.share:g})", f"{pool.effect:.0f}", f"{pool.rarity:.0%}")
        table.add_row(*about, *_cells(paper, curve))
        console.print(*about, *_cells(paper, curve), [f"{one.found:.2f}" for one in curve])
    table.add_section()
    for name, chosen in _groups():
        paper = Power.mean([papers[i] for i in chosen])
        curve = [Power.mean([curves[i][k] for i in chosen]) for k in range(len(BUDGETS))]
        table.add_row(name, "", "", "", *_cells(paper, curve))
    console.print(table)
    budgets = Table(title="Budgets of the race, mean over all faults")
    for column in ("changes on the first and last rung", "seeds", "to confirm", "seeds", "found", "false", "steps"):
        budgets.add_column(column, justify="right")
    for k, budget in enumerate(BUDGETS):
        mean = Power.mean([curve[k] for curve in curves])
        race = (f"{budget.rung_changes}, {budget.last_rung}", str(budget.race_seeds))
        fresh = (str(budget.confirmation_changes), str(budget.confirmation_seeds))
        budgets.add_row(*race, *fresh, f"{mean.found:.0%}", f"{mean.false:.1%}", f"{mean.steps:,.0f}")
    console.print(budgets)


def _cells(paper: Power, curve: list[Power]) -> tuple[str, ...]:
    steps = steps_for_power(paper.found, curve)
    more = found_for_steps(paper.steps, curve)
    return (
        f"{paper.found:.0%}",
        f"{paper.false:.0%}",
        f"{paper.steps:,.0f}",
        f"{steps:,.0f}",
        f"1/{paper.steps / steps:.1f}",
        f"{more:.0%} ({more / paper.found:.1f}×)" if paper.found else f"{more:.0%}",
    )


def _groups() -> list[tuple[str, list[int]]]:
    every = list(range(len(FAULTS)))
    sixty = [i for i in every if FAULTS[i].size == 60 and FAULTS[i].level == "Small"]
    levels = [(f"all of {level}", [i for i in every if FAULTS[i].level == level]) for level in ("Small", "Medium")]
    return [("all", every), *levels, ("small, about 60 points", sixty)]


if __name__ == "__main__":
    main()
