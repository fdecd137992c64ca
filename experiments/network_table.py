"""Networks without rules: base, guided, distilled, mended in three rounds, trained for longer, for the zoo's policies.

``python -m experiments.network_table --workers 16 --minutes 60 --scratch /tmp/networks`` runs as many policies side by
side as there are workers, one core each, and stops after some minutes; given again it goes on. A policy that is done
leaves a record in ``--out``; ``--table`` prints the table from the records alone. ``--only 'PacmanSmall-ppo-*'`` picks
policies. ``--training-steps N`` adds extended training with and without rules (0: as many steps as mending took).

All figures of a policy come from the same seeds, which chose nothing.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.evaluation import Sample
from legible.evaluation.statistics import Effect, paired
from legible.evaluation.units import UNGUIDED, Setup, UnitResult, cut_into_units, run_units
from legible.files import write_text
from legible.play import stage_seeds
from legible.policies import Policy, load_policy
from legible.policies.zoo import zoo_folder
from legible.settings import PRESETS, MistakeSettings, StudySettings
from legible.study import Study, settings_for
from legible.study.distilling import distillation_settings_for
from legible.study.mending import Mending, mend, study_steps

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "networks"
LEVELS = {
    "PacmanSmall": ("dqn", "ppo"),
    "PacmanMedium": ("dqn", "ppo"),
    "PacmanOriginal": ("dqn", "ppo"),
    "HighwayFast": ("dqn",),
    "Roundabout": ("dqn",),
}
SEEDS = (0, 1, 2, 3, 4)
ROUNDS = 3
COLUMNS = ("base", "guided", "distilled", "mended", "zoo's extended", "extended", "extended with rules")
MILLION = 1e6


@dataclass(frozen=True)
class Job:
    """One policy of the zoo."""

    level: str
    algorithm: str
    seed: int

    @property
    def name(self) -> str:
        """By which records are called."""
        return f"{self.level}-{self.algorithm}-{self.seed}"

    @property
    def policy(self) -> str:
        """Its address."""
        return f"zoo:{self.level}/{self.algorithm}/{self.seed}"

    @property
    def environment(self) -> EnvironmentSpec:
        """Where it plays."""
        return EnvironmentSpec(f"legible/{self.level}-v0")


def all_jobs() -> list[Job]:
    """Every policy of the table."""
    return [Job(level, one, seed) for level, algorithms in LEVELS.items() for one in algorithms for seed in SEEDS]


# --- One policy ------------------------------------------------------------------------------------------------------


class Seconds:
    """Seconds that the parts of a job took, added up over all times that it was begun."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Count a part."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.known[part] = self.known.get(part, 0.0) + time.perf_counter() - begin
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self._path, json.dumps(self.known))


def make_record(job: Job, folder: Path, settings: StudySettings, training_steps: int | None) -> dict[str, Any]:
    """Mend a policy, and play everything that the table needs on the same seeds."""
    seconds = Seconds(folder / "seconds.json")
    with seconds.of("mending"):
        mending = mend(
            folder / "mending",
            job.environment,
            job.policy,
            rounds=ROUNDS,
            settings=settings,
            reports=False,
            engine=InProcess(),
        )
    study = Study.open(folder / "mending" / "round-1", engine=InProcess())
    results = _results(job, mending, study)
    steps = _steps(mending, study)
    if training_steps is not None:
        for name, rules in (("extended", False), ("extended with rules", True)):
            with seconds.of(name):
                trained = _train(job, folder / name.replace(" ", "-"), study, training_steps or steps["mended"], rules)
            if trained is not None:
                results[name] = _play(study, load_policy(trained))
                steps[name] = training_steps or steps["mended"]
    return {
        "name": job.name,
        "level": job.level,
        "algorithm": job.algorithm,
        "policy": job.policy,
        "rules": [found.rules for found in mending.rounds],
        "confirmed": [len(found.confirmed) for found in mending.rounds],
        "came_back": [len(found.came_back) for found in mending.rounds],
        "best": mending.best,
        "stopped": mending.stopped,
        "figures": {name: _figure(result) for name, result in results.items()},
        "against_base": {name: _effect(result, results["base"]) for name, result in results.items() if name != "base"},
        "mended_against_distilled": _effect(results["mended"], results["distilled"]),
        "steps": steps,
        "seconds": seconds.known,
        "settings": asdict(settings),
    }


def _results(job: Job, mending: Mending, study: Study) -> dict[str, UnitResult]:
    """Episodes on the seeds that chose nothing; what there is not is what it was made from."""
    base = mending.results[0]
    rules = study.improvement.composition
    results = {
        "base": base,
        "guided": _play(study, study.policy, rules) if len(rules) else base,
        "distilled": mending.results[min(1, len(mending.results) - 1)],
        "mended": mending.results[mending.best],
    }
    longer = zoo_folder() / job.level / job.algorithm / f"{job.seed}-extended.safetensors"
    return {**results, "zoo's extended": _play(study, load_policy(longer))} if longer.exists() else results


def _play(study: Study, policy: Policy, rules: Any = None) -> UnitResult:
    """Play the seeds that mending quotes its figures from."""
    episodes = distillation_settings_for(None, study.environment).final_episodes
    seeds = stage_seeds(study.seed, "rounds", episodes, episodes)
    setup: Setup = replace(study.setup(() if rules is None else (rules,)), policy=policy)
    treatment = UNGUIDED if rules is None else 0
    return run_units(setup, cut_into_units([treatment] * len(seeds), seeds, setup.play.unit_episodes))


def _steps(mending: Mending, study: Study) -> dict[str, int]:
    first = mending.rounds[0]
    return {"guided": study_steps(study), "distilled": first.steps, "mended": sum(one.steps for one in mending.rounds)}


def _train(job: Job, folder: Path, study: Study, steps: int, with_rules: bool) -> Path | None:
    """Go on training; None where there are no rules to train with."""
    from legible.training import read_rules, train  # noqa: PLC0415 (they need Stable-Baselines3)

    if with_rules and not len(study.improvement.composition):
        return None
    done = folder / "policy.safetensors"
    if not done.exists():
        rules = read_rules(study.folder, job.environment) if with_rules else None
        train(job.environment, job.algorithm, steps, job.seed, out=folder / "policy", start=job.policy, rules=rules)
    return done


def _figure(result: UnitResult) -> dict[str, float]:
    sample = Sample.of(result)
    return {"mean": sample.mean, "error": sample.error, "episodes": sample.episodes}


def _effect(result: UnitResult, base: UnitResult) -> dict[str, Any]:
    told = np.isfinite(result.returns) & np.isfinite(base.returns)
    effect: Effect = paired(result.returns[told], base.returns[told])
    return {"mean": effect.mean, "low": effect.low, "high": effect.high}


# --- All of them -----------------------------------------------------------------------------------------------------


def run_all(jobs: Sequence[Job], arguments: argparse.Namespace) -> None:
    """Run jobs in processes of their own, as many as there are workers, until all are done or time is up."""
    over = time.monotonic() + 60.0 * arguments.minutes
    waiting = [job for job in jobs if not (arguments.out / f"{job.name}.json").exists()]
    running: dict[str, subprocess.Popen[bytes]] = {}
    while (waiting or running) and time.monotonic() < over:
        while waiting and len(running) < arguments.workers:
            job = waiting.pop(0)
            running[job.name] = subprocess.Popen(_command(job, arguments))
        for name, process in list(running.items()):
            if process.poll() is not None:
                del running[name]
                print(f"{name}: {'done' if process.returncode == 0 else 'failed'}", flush=True)
        time.sleep(1.0)
    for process in running.values():  # what they have done is kept
        process.terminate()
        process.wait()
    if waiting or running:
        print(f"{len(waiting) + len(running)} policies are left; give the command again.", flush=True)


def _command(job: Job, arguments: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "experiments.network_table", "--job", job.name, "--preset", arguments.preset]
    command += ["--scratch", str(arguments.scratch), "--out", str(arguments.out)]
    more = arguments.training_steps
    return command if more is None else [*command, "--training-steps", str(more)]


def run_job(job: Job, arguments: argparse.Namespace) -> None:
    """Make the record of one policy."""
    chosen = None if arguments.preset == "default" else PRESETS[arguments.preset]()
    settings = replace(settings_for(job.environment, chosen), mistakes=MistakeSettings(when="never"))
    record = make_record(job, arguments.scratch / job.name, settings, arguments.training_steps)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_text(arguments.out / f"{job.name}.json", json.dumps(record, indent=1) + "\n")


# --- The table -------------------------------------------------------------------------------------------------------


def load_records(folder: Path) -> list[dict[str, Any]]:
    """Read all records."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the table as Markdown: means over policies, errors between policies."""
    columns = [name for name in COLUMNS if any(name in record["figures"] for record in records)]
    more = ("gain kept", "three rounds better than one", "million steps", "minutes")
    lines = [f"| | policies | {' | '.join((*columns, *more))} |", "|---" * (2 + len(columns) + len(more)) + "|"]
    for level, algorithms in LEVELS.items():
        for algorithm in algorithms:
            mine = [record for record in records if (record["level"], record["algorithm"]) == (level, algorithm)]
            if mine:
                cells = [*(_cell(mine, name) for name in columns), *_last_cells(mine)]
                lines.append(f"| {level} {algorithm.upper()} | {len(mine)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(records: Sequence[dict[str, Any]], name: str) -> str:
    means = np.array([record["figures"][name]["mean"] for record in records if name in record["figures"]])
    if not len(means):
        return ""
    error = f" ± {means.std(ddof=1) / np.sqrt(len(means)):.{_digits(means)}f}" if len(means) > 1 else ""
    some = "" if len(means) == len(records) else f" ({len(means)})"
    return f"{means.mean():.{_digits(means)}f}{error}{some}"


def _digits(means: np.ndarray) -> int:
    return 0 if np.abs(means).mean() >= 100 else 1


def _last_cells(records: Sequence[dict[str, Any]]) -> list[str]:
    gains = {
        name: float(np.mean([record["against_base"][name]["mean"] for record in records]))
        for name in ("guided", "distilled")
    }
    kept = f"{100 * gains['distilled'] / gains['guided']:.0f} %" if gains["guided"] > 0 else ""
    better = sum(record["mended_against_distilled"]["low"] > 0 for record in records)
    steps = [record["steps"] for record in records]
    shown = " / ".join(
        f"{np.mean([one[name] for one in steps]) / MILLION:.1f}" for name in ("guided", "distilled", "mended")
    )
    minutes = np.mean([sum(record["seconds"].values()) / 60.0 for record in records])
    return [kept, f"{better} of {len(records)}", shown, f"{minutes:.0f}"]


def main() -> None:
    """Run, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", help="Names of policies, such as 'PacmanSmall-ppo-*'.")
    parser.add_argument("--workers", type=int, default=2, help="Policies side by side.")
    parser.add_argument("--minutes", type=float, default=1e6, help="Minutes after which it stops.")
    parser.add_argument("--scratch", type=Path, default=Path("networks"), help="Where studies and networks lie.")
    parser.add_argument("--out", type=Path, default=RESULTS, help="Where records lie.")
    parser.add_argument("--preset", choices=("default", *PRESETS), default="default", help="Settings of the studies.")
    parser.add_argument("--training-steps", type=int, help="Extended training, too; 0: as many steps as mending took.")
    parser.add_argument("--table", action="store_true", help="Print the table from the records alone.")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.table:
        print(table(load_records(arguments.out)), end="")
        return
    jobs = {job.name: job for job in all_jobs()}
    if arguments.job:
        run_job(jobs[arguments.job], arguments)
        return
    run_all([job for name, job in jobs.items() if fnmatch.fnmatch(name, arguments.only)], arguments)


if __name__ == "__main__":
    main()
