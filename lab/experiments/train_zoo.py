"""Train the zoo, group by group, in pieces of a few minutes.

``python -m lab.experiments.train_zoo --group small-medium-dqn --minutes 9 --out results`` trains as long as it may,
leaves a light checkpoint in ``results`` (and a full one in ``--scratch``, if that is given), and goes on from there
when it is called again. When a group is complete, its policies lie in ``--zoo`` and, packed, in
``results/<group>.policies.zip``.

``--rules FOLDER`` trains the policies of a group further with rules: those of the studies in the folder, each named as
``legible run`` names it (``PacmanSmall-dqn-0``); a policy without such a study, or whose study has no composition, is
trained without.

Several groups are trained one after the other.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import zipfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lab.fleet.checkpoint import load_checkpoint, remove_checkpoint, save_checkpoint
from lab.fleet.fleet import Fleet, FleetProgress
from lab.fleet.plan import FleetPlan, Member, make_fleet, save_to_zoo
from legible.environments import EnvironmentSpec, feature_space_of
from legible.training.presets import short_name
from legible.training.rules import RuleSettings, TrainingRules, read_rules
from legible_envs.highway.training import HIGHWAY_DQN
from legible_envs.pacman.training import PACMAN_DQN, PACMAN_PPO, PACMAN_PPO_REWARD_SCALE

SEEDS = (0, 1, 2, 3, 4)
MILLION = 1_000_000
# Left of the minutes for measuring the policies and writing files.
_FINISH_SECONDS = 45.0


def _levels(*names: str) -> tuple[EnvironmentSpec, ...]:
    return tuple(EnvironmentSpec(f"legible/Pacman{name}-v0") for name in names)


def _scenarios(*names: str) -> tuple[EnvironmentSpec, ...]:
    return tuple(EnvironmentSpec(f"legible/{name}-v0") for name in names)


def _ppo(level: str, millions: float) -> FleetPlan:
    return FleetPlan(_levels(level), SEEDS, PACMAN_PPO, int(millions * MILLION), PACMAN_PPO_REWARD_SCALE)


_SMALL_MEDIUM = FleetPlan(_levels("Small", "SmallNC", "Medium", "MediumNC"), SEEDS, PACMAN_DQN, int(2.5 * MILLION))
_ORIGINAL = FleetPlan(_levels("Original", "OriginalNC"), SEEDS, PACMAN_DQN, 5 * MILLION)
_ROADS = FleetPlan(_scenarios("Highway", "HighwayFast", "Merge", "Roundabout"), SEEDS, HIGHWAY_DQN, MILLION // 2)
# Three actions, so a separate fleet.
_INTERSECTION = FleetPlan(_scenarios("Intersection"), SEEDS, HIGHWAY_DQN, MILLION // 2)

GROUPS: dict[str, FleetPlan] = {
    "small-medium-dqn": _SMALL_MEDIUM,
    "original-dqn": _ORIGINAL,
    "small-medium-dqn-extended": _SMALL_MEDIUM.extended_training(),
    "original-dqn-extended": _ORIGINAL.extended_training(),
    "small-medium-capsules-dqn-extended": replace(
        _SMALL_MEDIUM, environments=_levels("Small", "Medium")
    ).extended_training(),
    "original-capsules-dqn-extended": replace(_ORIGINAL, environments=_levels("Original")).extended_training(),
    "small-medium-ppo": replace(_ppo("Small", 2.5), environments=_levels("Small", "Medium")),
    "roads-dqn": _ROADS,
    "roads-dqn-extended": _ROADS.extended_training(),
    "intersection-dqn": _INTERSECTION,
    "intersection-dqn-extended": _INTERSECTION.extended_training(),
    "original-ppo": _ppo("Original", 5),
    "small-ppo-extended": _ppo("Small", 2.5).extended_training(),
    "medium-ppo-extended": _ppo("Medium", 2.5).extended_training(),
    "original-ppo-extended": _ppo("Original", 5).extended_training(),
}


class Reporter:
    """Prints how a training goes."""

    def __init__(self, group: str, plan: FleetPlan, fleet: Fleet) -> None:
        self._group, self._plan = group, plan
        self._last = (time.monotonic(), fleet.steps, fleet.updates)

    def __call__(self, progress: FleetProgress) -> None:
        """Print a line."""
        now, (then, steps, updates) = time.monotonic(), self._last
        seconds = max(now - then, 1e-9)
        rate = (progress.steps - steps) / seconds
        each = 1e6 * seconds / max(progress.updates - updates, 1)
        left = (progress.total_steps - progress.steps) / max(rate, 1e-9)
        self._last = (now, progress.steps, progress.updates)
        by_level: dict[str, list[float]] = defaultdict(list)
        for member, mean in zip(self._plan.members, progress.mean_returns, strict=True):
            if not np.isnan(mean):
                by_level[short_name(member.environment.name)].append(float(mean))
        returns = ", ".join(f"{level} {np.mean(means):.0f}" for level, means in by_level.items())
        print(
            f"{self._group}: {progress.steps:,} of {progress.total_steps:,} steps, ε {progress.epsilon:.3f}; "
            f"{rate:,.0f} steps/s a policy, {len(self._plan.members) * rate:,.0f} in all, {each:.1f} µs an update all "
            f"included, {left / 60:.1f} min left; {returns}",
            flush=True,
        )


class Run:
    """One group: its fleet, its checkpoints and its policies."""

    def __init__(self, group: str, arguments: argparse.Namespace, fused: dict[str, Any] | None) -> None:
        self.group, self._arguments = group, arguments
        plan = GROUPS[group]
        if arguments.steps is not None:
            plan = FleetPlan(**{**vars(plan), "total_steps": arguments.steps})
        if arguments.rules is not None:
            rules = [rules_of(member, arguments.rules) for member in plan.members]
            plan = plan.training_with_rules(rules, RuleSettings(margin=arguments.margin))
            self.group = f"{group}-rules"
        self.plan = plan
        begin = time.monotonic()
        self.fleet = make_fleet(
            plan,
            device=arguments.device,
            backend=arguments.backend,
            fused=fused,
            threads=arguments.threads,
            zoo=arguments.zoo,
        )
        print(f"{group}: fleet of {len(plan.members)} policies made in {time.monotonic() - begin:.1f} s", flush=True)

    def train(self, until: float) -> None:
        """Resume, train until the end or until the time is up, one phase at least, and save checkpoints."""
        arguments, fleet = self._arguments, self.fleet
        for place in (arguments.scratch, arguments.out):
            if place is not None and load_checkpoint(fleet, place / self.group):
                print(f"{self.group}: going on from {place} at step {fleet.steps:,}", flush=True)
                break
        reporter = Reporter(self.group, self.plan, fleet)
        pause = 0.0
        while not fleet.done and pause < until:
            pause = min(until, time.monotonic() + 60.0 * arguments.checkpoint_minutes)
            fleet.learn(until=pause, report=reporter, report_seconds=arguments.report_seconds)
            if not fleet.done and arguments.out is not None:
                save_checkpoint(fleet, arguments.out / self.group, full=False)
            if not fleet.done and arguments.scratch is not None and pause == until:
                save_checkpoint(fleet, arguments.scratch / self.group, full=True)
        fleet.synchronize()
        reporter(fleet.progress())
        if not fleet.done:
            print(f"{self.group}: stopped at step {fleet.steps:,}; the same command goes on", flush=True)

    def save_to_zoo(self) -> None:
        """Measure the policies and write them; the checkpoint of an unfinished training stays."""
        zoo, out = self._arguments.zoo, self._arguments.out
        results = save_to_zoo(self.fleet, self.plan, zoo, n_episodes=self._arguments.episodes)
        for file, result in results.items():
            print(f"{file.relative_to(zoo)}: {result.mean_return:.1f} ± {result.standard_error:.1f}")
        if out is not None and self.fleet.done:
            remove_checkpoint(out / self.group)
            target = out / f"{self.group}.policies.zip"
            with zipfile.ZipFile(target, "w") as archive:
                for file in results:
                    archive.write(file, file.relative_to(zoo).as_posix())
            print(f"wrote {target}", flush=True)


def rules_of(member: Member, folder: Path) -> TrainingRules:
    """Return the rules of a policy, from its study; none where there is no study, or no composition in it."""
    study = folder / "-".join(member.base_path.with_suffix("").parts)
    if (study / "guided.safetensors").is_file():
        return read_rules(study, member.environment)
    print(f"{study}: no guided policy, so this one is trained without rules", flush=True)
    env = member.environment.make()
    space = feature_space_of(env)
    env.close()
    return TrainingRules((), space)


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", action="append", required=True, choices=sorted(GROUPS), help="may be repeated")
    parser.add_argument("--minutes", type=float, default=9.0, help="time for all groups of this call")
    parser.add_argument("--out", type=Path, help="where checkpoints and packed policies go")
    parser.add_argument("--scratch", type=Path, help="where full checkpoints go (large)")
    parser.add_argument("--zoo", type=Path, default=Path("zoo"), help="where policies go and extended training begins")
    parser.add_argument("--rules", type=Path, help="folder of studies whose rules guide a further training")
    parser.add_argument("--margin", type=float, help="hold these rules with a margin loss, too")
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    parser.add_argument("--backend", choices=("torch", "fused"), help="default: fused on a GPU")
    parser.add_argument("--fused", help="settings of the fused kernels: JSON, or a file with it")
    parser.add_argument("--threads", type=int, default=8 if on_gpu else 1, help="threads that step the environments")
    parser.add_argument("--steps", type=int, help="environment steps of a policy, instead of the plan's")
    parser.add_argument("--episodes", type=int, default=250, help="episodes on which a finished policy is measured")
    parser.add_argument("--checkpoint-minutes", type=float, default=2.0, help="minutes between two light checkpoints")
    parser.add_argument("--report-seconds", type=float, default=20.0)
    parser.add_argument("--unfinished", action="store_true", help="write policies although the training is not done")
    arguments = parser.parse_args(given)
    arguments.backend = arguments.backend or ("fused" if arguments.device == "cuda" else "torch")
    return arguments


def main(given: Sequence[str] | None = None) -> int:
    """Run from the command line; the exit status is 0 also when time ran out before the end."""
    began = time.monotonic()
    arguments = _arguments(given)
    for folder in (arguments.out, arguments.scratch):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {arguments.device}, {arguments.backend}")
    fused: dict[str, Any] | None = None
    if arguments.fused is not None:
        text = arguments.fused
        fused = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text())
    for group in arguments.group:
        run = Run(group, arguments, fused)
        run.train(began + 60.0 * arguments.minutes - _FINISH_SECONDS)
        if run.fleet.done or arguments.unfinished:
            run.save_to_zoo()
        if not run.fleet.done:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
