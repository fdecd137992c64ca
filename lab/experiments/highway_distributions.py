"""Whole episodes of the fast driving environments against highway-env: the same, and distributed alike.

Two policies that never look (IDLE, SLOWER) and one that acts at random drive episodes of 40 s in all five scenarios, in
the configuration of the paper's experiments. highway-env is slow and changes its drivers for the whole process when an
intersection is made, so each of its runs has its own process, and its episodes are kept in a file.

    python -m lab.experiments.highway_distributions collect --scenario merge --episodes 300   # hours for all
    python -m lab.experiments.highway_distributions collect --scenario intersection --same-numbers --episodes 20
    python -m lab.experiments.highway_distributions compare --write lab/experiments/results/highway-distributions.md

Collecting goes on where it stopped. Comparing makes three tables.

Alike: highway-env draws its own random numbers, legible others. Every line has four two-sample tests: Kolmogorov and
Smirnov's for returns and for lengths (p-values by permutation, because lengths and many returns are tied), Welch's for
the mean return, Fisher's for the share of episodes that end in a crash. Because highway-env's own episodes are few, the
same is done with many of its starts, from which legible drives on; at the intersection with its own random numbers
for vehicles that enter later.

The same: every episode of highway-env's is driven again by legible, from the same start with the same actions. New
vehicles come to the intersection during an episode; there highway-env was given legible's random numbers.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lab.synchronise import read_state
from legible.streams import key_of_seed
from legible_envs.highway import kernel
from legible_envs.highway.configuration import settings_of
from legible_envs.highway.episodes import Episodes
from legible_envs.highway.farama import FaramaEnv

RESULTS = Path(__file__).parent / "results"
REFERENCE = RESULTS / "highway-env-episodes.csv"
# Episodes in which highway-env drew legible's random numbers: of episode `seed`, those of the same seed here.
SAME_NUMBERS = RESULTS / "highway-env-episodes-same-numbers.csv"
TESTS_FOLDER = Path(__file__).parents[2] / "tests"
SCENARIOS = ("highway", "highway-fast", "merge", "roundabout", "intersection")
POLICIES = ("idle", "slower", "random")
SECONDS = 40
COLUMNS = ("scenario", "policy", "seed", "return", "length", "crashed")


@dataclass(frozen=True)
class Outcomes:
    """Figures of many episodes: an entry for each."""

    seeds: NDArray[np.int64]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    crashed: NDArray[np.bool_]


def config_of(scenario: str) -> dict[str, Any]:
    """Return the settings that differ from the preset: episodes of 40 s (merge has its own end)."""
    return {} if scenario == "merge" else {"duration": SECONDS}


def action_of(policy: str, names: Sequence[str], generator: np.random.Generator) -> int:
    """Return the action that a policy takes, whatever it sees."""
    if policy == "random":
        return int(generator.integers(len(names)))
    return list(names).index({"idle": "IDLE", "slower": "SLOWER"}[policy])


def drive_highway_env(
    scenario: str, policy: str, seeds: Sequence[int], *, same_numbers: bool
) -> Iterator[tuple[int, float, int, bool]]:
    """Drive episodes in highway-env; yield seed, return, length and whether ego crashed."""
    env = FaramaEnv(scenario, config_of(scenario))
    names = [action.name for action in env.feature_space.actions]
    for seed in seeds:
        generator = action_generator(scenario, seed)
        if same_numbers:
            env.inner.np_random = our_stream(seed)
        _, info = env.reset(seed=None if same_numbers else seed)
        total, length, over = 0.0, 0, False
        while not over:
            _, reward, terminated, truncated, info = env.step(action_of(policy, names, generator))
            total, length, over = total + reward, length + 1, terminated or truncated
        yield seed, total, length, bool(info["crashed"])


def action_generator(scenario: str, seed: int, *, collected: bool = True) -> np.random.Generator:
    """Return the source of the random policy's actions in an episode.

    Collected episodes have kept the generator with which they were driven. On the highway, whose number is 0, that is
    the very generator from which highway-env draws the start, because NumPy ignores zeros at the end of a seed: the
    same actions can be taken again, but actions and start are not independent (see `INDEPENDENT`).
    """
    entropy = [seed, SCENARIOS.index(scenario)]
    return np.random.default_rng(entropy if collected else [*entropy, 1])


def our_stream(seed: int) -> Any:
    """Return a generator that gives highway-env the numbers that legible draws in the episode with this seed."""
    sys.path.insert(0, str(TESTS_FOLDER))
    return importlib.import_module("envs.highway.reference").OurStream(int(key_of_seed(np.uint64(seed))))


def collect(scenario: str, policy: str, episodes: int, *, same_numbers: bool) -> None:
    """Drive the first episodes of highway-env that the file does not hold yet, and append them to it."""
    path = SAME_NUMBERS if same_numbers else REFERENCE
    new = not path.exists()
    known = set() if new else set(read_outcomes(path).get((scenario, policy), _outcomes([])).seeds.tolist())
    missing = [seed for seed in range(episodes) if seed not in known]
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(COLUMNS)
        for seed, total, length, crashed in drive_highway_env(scenario, policy, missing, same_numbers=same_numbers):
            writer.writerow([scenario, policy, seed, repr(total), length, int(crashed)])
            file.flush()


def read_outcomes(path: Path) -> dict[tuple[str, str], Outcomes]:
    """Read the episodes of highway-env, by scenario and policy."""
    rows: dict[tuple[str, str], list[tuple[int, float, int, bool]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            episode = (int(row["seed"]), float(row["return"]), int(row["length"]), row["crashed"] == "1")
            rows.setdefault((row["scenario"], row["policy"]), []).append(episode)
    return {key: _outcomes(episodes) for key, episodes in rows.items()}


def _outcomes(episodes: Sequence[tuple[int, float, int, bool]]) -> Outcomes:
    seeds, returns, lengths, crashed = zip(*episodes, strict=True) if episodes else ((), (), (), ())
    return Outcomes(
        np.array(seeds, np.int64),
        np.array(returns, np.float64),
        np.array(lengths, np.int64),
        np.array(crashed, np.bool_),
    )


def play(batch: Episodes, scenario: str, policy: str, seeds: Sequence[int], *, collected: bool) -> Outcomes:
    """Drive a batch whose episodes have begun to its end, with the actions that belong to the seeds."""
    names = batch.settings.action_names
    generators = [action_generator(scenario, seed, collected=collected) for seed in seeds]
    n = len(generators)
    returns, lengths = np.zeros(n), np.zeros(n, np.int64)
    while not batch.over.all():
        running = ~batch.over
        actions = np.array([action_of(policy, names, generator) for generator in generators], np.int64)
        batch.step(actions, np.where(running, kernel.PLAY, kernel.LEAVE).astype(np.uint8))
        returns += batch.rewards * running
        lengths += running
    return Outcomes(np.array(seeds, np.int64), returns, lengths, batch.crashed())


def drive_legible(scenario: str, policy: str, seeds: Sequence[int], *, collected: bool) -> Outcomes:
    """Drive the fast environment's own episodes."""
    batch = Episodes(len(seeds), settings_of(scenario, config_of(scenario)))
    batch.start(np.ones(len(seeds), np.bool_), seeds)
    return play(batch, scenario, policy, seeds, collected=collected)


def drive_again(scenario: str, policy: str, seeds: Sequence[int], *, collected: bool) -> Outcomes:
    """Drive from the states in which highway-env's episodes begin."""
    batch = Episodes(len(seeds), settings_of(scenario, config_of(scenario)))
    batch.start(np.ones(len(seeds), np.bool_), seeds)  # gives every episode random numbers; its start is replaced
    env = FaramaEnv(scenario, config_of(scenario))
    for e, seed in enumerate(seeds):
        env.reset(seed=seed)
        read_state(env.inner, batch.road_map, batch.world, e)
    return play(batch, scenario, policy, seeds, collected=collected)


def kolmogorov_smirnov(
    a: NDArray[np.float64], b: NDArray[np.float64], permutations: int = 2000, seed: int = 0
) -> float:
    """Return the p-value of the two-sample test, by permutation, so that ties do not matter.

    >>> kolmogorov_smirnov(np.arange(20.0), np.arange(20.0) + 15) < 0.001
    True
    >>> kolmogorov_smirnov(np.zeros(5), np.zeros(9))
    1.0
    """
    values, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    generator = np.random.default_rng(seed)
    counts = np.bincount(places, minlength=len(values))

    def statistic(first: NDArray[np.intp]) -> float:
        mine = np.bincount(first, minlength=len(values))
        gaps = np.cumsum(mine) / len(a) - np.cumsum(counts - mine) / len(b)
        return float(np.abs(gaps).max())

    observed = statistic(places[: len(a)])
    draws = (statistic(generator.permutation(places)[: len(a)]) for _ in range(permutations))
    return (1 + sum(draw >= observed - 1e-12 for draw in draws)) / (permutations + 1)


def p_values(theirs: Outcomes, ours: Outcomes) -> dict[str, float]:
    """Return the p-values of the four tests; where all episodes of both sides are equal there is nothing to test."""
    # Sums of rewards that are the same differ in their last bits.
    a, b = theirs.returns.round(6), ours.returns.round(6)
    found = {}
    if np.ptp(np.concatenate([a, b])) > 0:
        found["returns"] = kolmogorov_smirnov(a, b)
        found["mean return"] = float(stats.ttest_ind(a, b, equal_var=False).pvalue)
    if np.ptp(np.concatenate([theirs.lengths, ours.lengths])) > 0:
        found["lengths"] = kolmogorov_smirnov(theirs.lengths.astype(np.float64), ours.lengths.astype(np.float64))
    table = [[int(side.crashed.sum()), int((~side.crashed).sum())] for side in (theirs, ours)]
    if sum(row[0] for row in table) > 0 and sum(row[1] for row in table) > 0:
        found["crashes"] = float(stats.fisher_exact(table).pvalue)
    return found


TESTS = ("returns", "mean return", "lengths", "crashes")
# Collected episodes whose start and actions are independent; the others serve only to be driven again.
INDEPENDENT = {(scenario, policy) for scenario in SCENARIOS for policy in POLICIES} - {("highway", "random")}
# Our own episodes of the tables of distributions have seeds from here on, so that none is compared with itself.
FIRST_SEED = 1_000_000
FEW = (
    "These are the first seeds, and few: with 6 episodes a chance majority of starts in one lane shows. Except at the "
    "intersection, every one of them is among the same episodes above. The next table has the power that this one "
    "lacks."
)
# Seeds of starts that no collected episode has.
FIRST_START = 50_000


def distribution_table(pairs: Sequence[tuple[tuple[str, str], Outcomes]], episodes: int) -> str:
    """Return the table of distributions and what follows from it as Markdown."""
    lines = [
        "| scenario | policy | episodes | return | length | crashes | p: returns | p: mean | p: lengths | p: crashes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    found: list[float] = []
    for (scenario, policy), theirs in pairs:
        ours = drive_legible(scenario, policy, range(FIRST_SEED, FIRST_SEED + episodes), collected=False)
        tests = p_values(theirs, ours)
        found += tests.values()
        sides = (theirs, ours)
        cells = [
            scenario,
            policy,
            " / ".join(str(len(side.returns)) for side in sides),
            " / ".join(f"{side.returns.mean():.2f} ± {side.returns.std():.2f}" for side in sides),
            " / ".join(f"{side.lengths.mean():.1f}" for side in sides),
            " / ".join(f"{side.crashed.mean():.1%}" for side in sides),
            *(f"{tests[name]:.4f}" if name in tests else "equal" for name in TESTS),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    small, expected = sum(p < 0.05 for p in found), 0.05 * len(found)
    lines += [
        "",
        f"First highway-env, then legible. {small} of {len(found)} p-values are below 0.05 ({expected:.1f} are "
        f"expected when nothing differs); the smallest is {min(found):.4f}, with Bonferroni's correction "
        f"{min(1.0, min(found) * len(found)):.2f}.",
    ]
    return "\n".join(lines) + "\n"


def from_their_starts(starts: int) -> list[tuple[tuple[str, str], Outcomes]]:
    """Drive on with legible from many starts of highway-env: it is slow to drive, but its starts are cheap."""
    seeds = range(FIRST_START, FIRST_START + starts)
    return [((s, policy), drive_again(s, policy, seeds, collected=False)) for s in SCENARIOS for policy in POLICIES]


def same_episodes_table() -> str:
    """Return the table of episodes that both drove as Markdown."""
    lines = [
        "| scenario | policy | episodes | same length and end | same return (1e-6) | largest difference of returns |",
        "|---|---|---|---|---|---|",
    ]
    pairs = [
        (key, theirs, drive_again) for key, theirs in _in_order(read_outcomes(REFERENCE)) if key[0] != "intersection"
    ]
    if SAME_NUMBERS.exists():
        pairs += [(key, theirs, drive_legible) for key, theirs in _in_order(read_outcomes(SAME_NUMBERS))]
    for (scenario, policy), theirs, drive in pairs:
        ours = drive(scenario, policy, theirs.seeds.tolist(), collected=True)
        n = len(theirs.seeds)
        ends = (theirs.lengths == ours.lengths) & (theirs.crashed == ours.crashed)
        gaps = np.abs(theirs.returns - ours.returns)
        cells = [scenario, policy, str(n), f"{ends.sum()} of {n}", f"{(gaps < 1e-6).sum()} of {n}", f"{gaps.max():.1e}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _in_order(outcomes: dict[tuple[str, str], Outcomes]) -> list[tuple[tuple[str, str], Outcomes]]:
    keys = [(scenario, policy) for scenario in SCENARIOS for policy in POLICIES]
    return [(key, outcomes[key]) for key in keys if key in outcomes]


def _collect_in_processes(arguments: argparse.Namespace) -> None:
    """Run highway-env in a fresh process for every scenario and policy."""
    for scenario in arguments.scenario or SCENARIOS:
        for policy in arguments.policy or POLICIES:
            command = [sys.executable, "-m", "lab.experiments.highway_distributions", "worker", scenario, policy]
            numbers = ["--same-numbers"] if arguments.same_numbers else []
            subprocess.run([*command, str(arguments.episodes), *numbers], check=True)


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect", help="drive episodes in highway-env and keep them")
    collecting.add_argument("--scenario", action="append", choices=SCENARIOS)
    collecting.add_argument("--policy", action="append", choices=POLICIES)
    collecting.add_argument("--episodes", type=int, default=100)
    collecting.add_argument("--same-numbers", action="store_true", help="highway-env draws legible's random numbers")
    worker = commands.add_parser("worker", help="what collect starts")
    worker.add_argument("scenario", choices=SCENARIOS)
    worker.add_argument("policy", choices=POLICIES)
    worker.add_argument("episodes", type=int)
    worker.add_argument("--same-numbers", action="store_true")
    comparing = commands.add_parser("compare", help="drive the fast environments and test")
    comparing.add_argument("--episodes", type=int, default=2000)
    comparing.add_argument("--starts", type=int, default=500, help="starts of highway-env's for the third table")
    comparing.add_argument("--write", type=Path, help="where the table goes, besides the screen")
    arguments = parser.parse_args(words)
    if arguments.command == "collect":
        _collect_in_processes(arguments)
    elif arguments.command == "worker":
        collect(arguments.scenario, arguments.policy, arguments.episodes, same_numbers=arguments.same_numbers)
    else:
        reference = _in_order(read_outcomes(REFERENCE))
        own = distribution_table([(key, theirs) for key, theirs in reference if key in INDEPENDENT], arguments.episodes)
        starts = distribution_table(from_their_starts(arguments.starts), arguments.episodes)
        tables = (
            f"## The same episodes\n\n{same_episodes_table()}\n"
            f"## Distributed alike: highway-env's own episodes\n\n{own}\n{FEW}\n\n"
            f"## Distributed alike: highway-env's starts, driven by legible\n\n{starts}"
        )
        print(tables)
        if arguments.write is not None:
            arguments.write.write_text(tables, encoding="utf-8")


if __name__ == "__main__":
    main()
