"""Returns of constant actions and random play on the road: ``python -m lab.experiments.road_references``.

Whole episodes of the paper's configuration, 200 each, in legible's own environments, which agree with highway-env step
by step (docs/highway-agreement.md). The figures go to ``lab/experiments/results/road-references.json``.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from functools import partial
from pathlib import Path

from lab.reproduction.origin import code_version
from legible.engines import LocalProcesses
from legible.environments import EnvironmentSpec, resolve_names
from legible.evaluation import Sample, play_blocks
from legible.evaluation.references import default_references
from legible.evaluation.units import Setup, run_units
from legible.files import write_json
from legible.play import stage_seeds
from legible.policies import load_policy

OUT = Path(__file__).with_name("results") / "road-references.json"
ROADS = {
    "highway": "Highway",
    "highway-fast": "HighwayFast",
    "merge": "Merge",
    "intersection": "Intersection",
    "roundabout": "Roundabout",
}


def references_of(name: str, episodes: int, engine: LocalProcesses) -> dict[str, dict[str, float]]:
    """Play one scenario; the policy of the setup only says how many features there are."""
    environment, policy = EnvironmentSpec(f"legible/{name}-v0"), load_policy(f"zoo:{name}/dqn/0")
    with closing(environment.make()) as env:
        space = resolve_names(env).space
    references, _ = default_references([space.action_names], 100, [0])
    setup = Setup(policy, environment, tuple(references))
    seeds = stage_seeds(0, "references", 0, episodes)
    plan = [(number, seeds) for number in range(len(references))]
    played = play_blocks(setup, plan, partial(run_units, engine=engine))
    samples = [Sample.of(result) for result in played]
    return {
        reference.name: {"mean": round(sample.mean, 4), "error": round(sample.error, 4), "episodes": sample.episodes}
        for reference, sample in zip(references, samples, strict=True)
    }


def main() -> None:
    """Play all scenarios and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=200, help="of each reference (default: 200)")
    parser.add_argument("--workers", type=int, default=None, help="processes (default: one a core)")
    arguments = parser.parse_args()
    with LocalProcesses(arguments.workers) as engine:
        found = {row: references_of(name, arguments.episodes, engine) for row, name in ROADS.items()}
    write_json(OUT, {"code": code_version(), "references": found})
    for row, references in found.items():
        print(row, {name: f"{figure['mean']:.1f} ± {figure['error']:.1f}" for name, figure in references.items()})


if __name__ == "__main__":
    main()
