"""Whether episodes of the fast environments start like highway-env's: many starts of both, continued alike.

    python -m experiments.highway_starts --write docs/highway-starts.md

A step from the same state is the same in both (see highway_agreement), but highway-env takes hours for as many whole
episodes as it needs to tell small differences of starts. So highway-env only makes the starts here; legible drives on
from them, and from as many and more of its own, with the same actions. Returns over 40 s are compared by Welch's and by
Kolmogorov and Smirnov's test.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from legible.environments.highway import synchronise
from legible.environments.highway.env import HighwayVectorEnv
from legible.environments.highway.farama import FaramaEnv

# How many of highway-env's starts: with fifty vehicles, and for the intersection's warm-up, each takes a while.
STARTS = {"highway": 500, "highway-fast": 500, "merge": 1500, "roundabout": 1500, "intersection": 200}
OWN_STARTS = 4000
SECONDS = 40
POLICIES = ("IDLE", "SLOWER")
HEAD = ("scenario", "action", "starts", "return from highway-env's", "return from legible's", "p: mean", "p: returns")


def make(scenario: str, n: int) -> HighwayVectorEnv:
    """Make a batch that is over when its episodes are."""
    return HighwayVectorEnv(n, scenario, config=config_of(scenario), autoreset_mode="Disabled")


def config_of(scenario: str) -> dict[str, int]:
    """Return what differs from the preset (merge ends by itself)."""
    return {} if scenario == "merge" else {"duration": SECONDS}


def returns_of(envs: HighwayVectorEnv, action: int) -> NDArray[np.float64]:
    """Drive on from where the batch is until all episodes are over."""
    returns, over = np.zeros(envs.num_envs), np.zeros(envs.num_envs, np.bool_)
    while not over.all():
        _, rewards, terminated, truncated, _ = envs.step(np.full(envs.num_envs, action))
        returns += np.where(over, 0.0, rewards)
        over |= terminated | truncated
    return returns


def rows(scenario: str, seed: int) -> list[list[str]]:
    """Compare a scenario's starts."""
    theirs, ours = make(scenario, STARTS[scenario]), make(scenario, OWN_STARTS)
    env = FaramaEnv(scenario, config_of(scenario))
    theirs.reset(seed=0)
    for i in range(theirs.num_envs):
        env.reset(seed=seed + i)
        synchronise.read_state(env.inner, theirs.road_map, theirs.episodes.world, i)
    ours.reset(seed=seed)
    begun = [(envs, [array.copy() for array in envs.episodes.world]) for envs in (theirs, ours)]
    made = []
    for name in POLICIES:
        action = theirs.settings.action_names.index(name)
        samples = []
        for envs, arrays in begun:
            for array, first in zip(envs.episodes.world, arrays, strict=True):
                array[:] = first
            samples.append(returns_of(envs, action))
        means = [f"{sample.mean():.2f} ± {sample.std(ddof=1) / np.sqrt(len(sample)):.2f}" for sample in samples]
        if np.ptp(np.concatenate(samples)) < 1e-9:
            tests = ["equal", "equal"]
        else:
            tests = [
                f"{stats.ttest_ind(*samples, equal_var=False).pvalue:.2f}",
                f"{stats.ks_2samp(*samples).pvalue:.2f}",
            ]
        made.append([scenario, name, f"{len(samples[0])} and {len(samples[1])}", *means, *tests])
        print(made[-1], file=sys.stderr, flush=True)
    return made


def main() -> None:
    """Compare, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=50_000, help="of the first episode")
    parser.add_argument("--scenario", action="append", choices=tuple(STARTS), help="only these")
    parser.add_argument("--write", type=Path, help="write a document instead of printing the table")
    arguments = parser.parse_args()
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for scenario in arguments.scenario or STARTS:
        lines += ["| " + " | ".join(cells) + " |" for cells in rows(scenario, arguments.seed)]
    command = " ".join(["python -m experiments.highway_starts", *sys.argv[1:]])
    if arguments.write:
        text = f"# Starts of both, continued alike\n\nMade by `{command}`.\n\n" + "\n".join(lines) + "\n"
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
