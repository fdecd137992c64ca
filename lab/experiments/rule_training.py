"""One policy trained further: without rules (the paper's extended training) and with rules, as many steps and seeds.

``python -m lab.experiments.rule_training --policy PacmanSmall/ppo/4 --rules studies/PacmanSmall-ppo-4 --steps 30000``
trains the policy of the zoo with the fleet trainer, once for every seed, and prints how each result plays in 250
episodes that no training and no study has seen. All trainings of a seed begin with the same weights, environments and
random numbers. ``--margin`` (may be repeated) adds a training with a margin loss, as SIZE or SIZE:WEIGHT.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lab.fleet.plan import FleetPlan, make_fleet, policies_of
from legible.environments import EnvironmentSpec
from legible.policies import load_policy
from legible.policies.zoo import zoo_path
from legible.training.hyperparameters import DqnSettings, PpoSettings
from legible.training.measuring import measure_policy
from legible.training.presets import preset
from legible.training.rules import RuleSettings, TrainingRules, read_rules


def plans(arguments: argparse.Namespace, rules: TrainingRules) -> dict[str, FleetPlan]:
    """Return the trainings that are compared."""
    level, algorithm, _ = arguments.policy.split("/")
    environment = EnvironmentSpec(f"legible/{level}-v0")
    found = preset(environment.name, algorithm)
    settings = found.settings
    assert isinstance(settings, DqnSettings | PpoSettings)
    if isinstance(settings, DqnSettings) and arguments.exploration is not None:
        settings = replace(settings, exploration_initial_eps=arguments.exploration)
    seeds = tuple(range(arguments.seeds))
    base = FleetPlan((environment,), seeds, settings, arguments.steps, found.reward_scale)
    wanted = {"extended": base.extended_training()}
    for margin in [None, *arguments.margin]:
        size, _, weight = (margin or "").partition(":")
        fading = RuleSettings(arguments.fade, float(size) if size else None, float(weight or 1.0))
        name = "rules" if margin is None else f"rules, margin {size}, weight {weight or 1}"
        wanted[name] = base.training_with_rules([rules] * len(seeds), fading)
    return wanted


def compare(arguments: argparse.Namespace) -> None:
    """Train and print."""
    level, algorithm, _ = arguments.policy.split("/")
    environment = EnvironmentSpec(f"legible/{level}-v0")
    own = zoo_path(arguments.policy)
    rules = read_rules(arguments.rules, environment)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seeds):  # a zoo in which every seed begins with the same policy
            place = Path(folder, level, algorithm, f"{seed}.safetensors")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(own, place)
        before = measure_policy(load_policy(own), environment, arguments.episodes)
        print(f"{arguments.policy}: {before.mean_return:.0f} ± {before.standard_error:.0f}; {rules.n_rules} rules")
        for name, plan in plans(arguments, rules).items():
            began = time.monotonic()
            fleet = make_fleet(plan, zoo=folder)
            fleet.learn()
            taken = time.monotonic() - began
            played = [measure_policy(each, environment, arguments.episodes) for each in policies_of(fleet, plan)]
            means = np.array([each.mean_return for each in played])
            error = means.std(ddof=1) / math.sqrt(len(means)) if len(means) > 1 else math.nan
            each = ", ".join(f"{mean:.0f}" for mean in means)
            print(
                f"{name}, {fleet.steps:,} steps: {means.mean():.0f} ± {error:.0f} ({each}), {taken:.0f} s", flush=True
            )


def main(given: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="PacmanSmall/ppo/4", help="a policy of the zoo")
    parser.add_argument("--rules", type=Path, required=True, help="a study, a guided policy or a text of rules")
    parser.add_argument("--steps", type=int, default=30_000, help="environment steps of every training")
    parser.add_argument("--seeds", type=int, default=3, help="how many trainings of each kind")
    parser.add_argument("--fade", type=float, default=0.5, help="share of the training over which rules fade out")
    parser.add_argument("--exploration", type=float, help="random actions with which DQN begins, not the preset's 1")
    parser.add_argument("--margin", action="append", default=[], metavar="SIZE[:WEIGHT]", help="may be repeated")
    parser.add_argument("--episodes", type=int, default=250, help="episodes in which policies are measured")
    compare(parser.parse_args(given))
    return 0


if __name__ == "__main__":
    sys.exit(main())
