"""Networks without rules: base, guided, distilled, mended in three rounds, trained for longer, for the zoo's policies.

``python -m lab.experiments.network_table --cores 16 --minutes 9 --scratch /tmp/networks --out /tmp/records`` mends
policies in three rounds, one core each, and stops after some minutes; given again it goes on. A policy that is done
leaves a record in ``--out``, its rules and networks in ``--networks``. ``--only 'PacmanSmall-ppo-*'`` picks policies.

``--trained ZOO`` plays policies that were trained further (``python -m lab.experiments.train_zoo``) on the same seeds,
and adds them to the records. ``--pack FILE`` packs unfinished work, to go on elsewhere. ``--table`` prints the
table from the records alone.

All figures of a policy come from the same seeds, which chose nothing.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import signal
import tarfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.experiments.side_by_side import run_side_by_side
from lab.experiments.table_cells import interval_ends
from lab.reproduction.origin import code_version, processor_name
from legible.engines import InProcess
from legible.environments import EnvironmentSpec, resolve_names
from legible.evaluation import Sample
from legible.evaluation.statistics import Effect, paired
from legible.evaluation.units import UNGUIDED, Setup, UnitResult, cut_into_units, run_units, usual_rows
from legible.files import read_json, write_json
from legible.guidance import GuidedPolicy
from legible.play import adapt_policy, stage_seeds
from legible.policies import Policy, load_policy
from legible.policies.zoo import zoo_folder
from legible.settings import PRESETS, MistakeSettings, StudySettings
from legible.study import settings_for
from legible.study.distilling import distillation_settings_for
from legible.study.mending import Mending, mend

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "networks"
ROWS = (
    ("PacmanSmall", "ppo"),
    ("PacmanMedium", "ppo"),
    ("PacmanOriginal", "ppo"),
    ("HighwayFast", "dqn"),
    ("Roundabout", "dqn"),
    ("PacmanSmall", "dqn"),
    ("PacmanMedium", "dqn"),
    ("PacmanOriginal", "dqn"),
)
SEEDS = (0, 1, 2, 3, 4)
ROUNDS = 3
COLUMNS = ("base", "guided", "distilled", "mended", "zoo's extended", "extended", "extended with rules")
NOT_PACKED = ("unguided", "experiences.npz")  # large, and soon made again
MOST_PACKED = 15_000_000
MILLION = 1e6
SEARCH_STEPS = 4_000_000  # fewer than a study takes by default: there are many studies
FULL = ("PacmanSmall", "ppo")  # these are mended with the budgets that `legible mend` has by default
QUICK = ("HighwayFast", "Roundabout")  # good drivers drive for a thousand steps: studied with this preset
WORTH_KEEPING = 50.0  # smaller gains are too uncertain to say which share of them was kept
SEED = 0


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
        """The environment that it plays."""
        return EnvironmentSpec(f"legible/{self.level}-v0")

    def is_done(self, out: Path) -> bool:
        """True if its record exists."""
        file = out / f"{self.name}.json"
        return file.exists() and int(read_json(file)["asked"]) >= ROUNDS


def all_jobs() -> list[Job]:
    """Return every job, the most informative first."""
    return [Job(*row, seed) for row in ROWS for seed in SEEDS]


# --- One policy ------------------------------------------------------------------------------------------------------


class Clock:
    """Seconds of processor time that the parts of a job took, added up over all times that it was begun.

    Called with the progress, as `legible.study.running.Progress`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seconds: dict[str, float] = read_json(path) if path.exists() else {}
        self._last = time.process_time()

    def __call__(self, stage: str, done: int, of: int) -> None:  # noqa: ARG002 (only when, and of what)
        """Count what was done since the last time as part of a stage."""
        now = time.process_time()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now

    def keep(self) -> None:
        """Write it down."""
        self("end", 0, 0)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self._path, self.seconds)

    def keep_and_leave(self) -> None:
        """Write it down and end the process, whatever it does: what it has played is kept."""
        self.keep()
        os._exit(1)


def make_record(job: Job, folder: Path, settings: StudySettings, networks: Path | None) -> dict[str, Any]:
    """Mend a policy, and play everything that the table needs on the same seeds."""
    clock = Clock(folder / "seconds.json")
    signal.signal(signal.SIGTERM, lambda *_: clock.keep_and_leave())
    mending = mend(
        folder / "mending",
        job.environment,
        job.policy,
        rounds=ROUNDS,
        seed=SEED,
        settings=settings,
        engine=InProcess(),
        progress=_telling(job, folder, clock, networks),
    )
    clock.keep()
    results = _results(job, mending, folder / "mending" / "round-1" / "guided.safetensors")
    first = mending.rounds[0]
    steps = {
        "guided": first.steps - (first.distilled["steps"] if first.distilled else 0),
        "distilled": first.steps,
        "mended": sum(one.steps for one in mending.rounds),
    }
    _keep_networks(job, folder, networks)
    return {
        "name": job.name,
        "level": job.level,
        "algorithm": job.algorithm,
        "policy": job.policy,
        "asked": ROUNDS,
        "rules": [found.rules for found in mending.rounds],
        "confirmed": [len(found.confirmed) for found in mending.rounds],
        "came_back": [len(found.came_back) for found in mending.rounds],
        "distillation_rounds": [len(found.distilled["rounds"]) for found in mending.rounds if found.distilled],
        "broken": [found.distilled["rules"]["broken"] for found in mending.rounds if found.distilled],
        "best": mending.best,
        "stopped": mending.stopped,
        "figures": {name: _figure(result) for name, result in results.items()},
        "against_base": {name: _effect(result, results["base"]) for name, result in results.items() if name != "base"},
        "rounds": [_effect(result, mending.results[0]) for result in mending.results[1:]],
        "mended_against_distilled": _effect(results["mended"], results["distilled"]),
        "steps": steps,
        "seconds": clock.seconds,
        "settings": asdict(settings),
        "code": code_version(),
        "processor": processor_name(),
    }


def _telling(job: Job, folder: Path, clock: Clock, networks: Path | None) -> Any:
    """Return a progress function: the clock, which also saves the first round's rules as soon as they are known."""

    def progress(stage: str, done: int, of: int) -> None:
        clock(stage, done, of)
        if stage == "distillation":
            _keep_networks(job, folder, networks)

    return progress


def _keep_networks(job: Job, folder: Path, networks: Path | None) -> None:
    """Copy rules and networks that are there to where they are kept."""
    if networks is None:
        return
    place = networks / job.name
    mending = folder / "mending"
    found = [mending / "round-1" / "guided.safetensors", *sorted(mending.glob("network-*.safetensors"))]
    for file in found:
        if file.exists() and not (place / file.name).exists():
            place.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place / f".{file.name}.part")
            (place / f".{file.name}.part").replace(place / file.name)


def _results(job: Job, mending: Mending, guided: Path) -> dict[str, UnitResult]:
    """Episodes on the seeds that chose nothing; what there is not is what it was made from."""
    base = mending.results[0]
    results = {
        "base": base,
        "guided": play(job, load_policy(guided)) if guided.exists() else base,
        "distilled": mending.results[min(1, len(mending.results) - 1)],
        "mended": mending.results[mending.best],
    }
    longer = zoo_folder() / job.level / job.algorithm / f"{job.seed}-extended.safetensors"
    return {**results, "zoo's extended": play(job, load_policy(longer))} if longer.exists() else results


def play(job: Job, policy: Policy) -> UnitResult:
    """Play the seeds that mending quotes its figures from."""
    environment = job.environment
    settings = settings_for(environment).play
    episodes = distillation_settings_for(None, environment).final_episodes
    seeds = stage_seeds(SEED, "rounds", episodes, episodes)
    rules = (policy.rules,) if isinstance(policy, GuidedPolicy) else ()
    network = policy.policy if isinstance(policy, GuidedPolicy) else policy
    env = environment.make()
    space = resolve_names(env).space
    env.close()
    player = adapt_policy(network, environment, space)
    setup = Setup(player, environment, rules, settings, usual_rows(settings))
    treatment = 0 if rules else UNGUIDED
    return run_units(setup, cut_into_units([treatment] * len(seeds), seeds, settings.unit_episodes))


def _figure(result: UnitResult) -> dict[str, float]:
    sample = Sample.of(result)
    return {"mean": sample.mean, "error": sample.error, "episodes": sample.episodes}


def _effect(result: UnitResult, base: UnitResult) -> dict[str, Any]:
    finite = np.isfinite(result.returns) & np.isfinite(base.returns)
    effect: Effect = paired(result.returns[finite], base.returns[finite])
    return {"mean": effect.mean, "low": effect.low, "high": effect.high}


def add_trained(record: dict[str, Any], zoo: Path) -> bool:
    """Add policies that were trained further to a record; returns whether there are some."""
    job = Job(record["level"], record["algorithm"], int(record["name"].rsplit("-", maxsplit=1)[-1]))
    places = {"extended": "extended", "extended with rules": "rules"}
    files = {
        name: zoo / job.level / job.algorithm / f"{job.seed}-{ending}.safetensors" for name, ending in places.items()
    }
    found = {name: load_policy(file) for name, file in files.items() if file.exists()}
    if not found:
        return False
    base = play(job, load_policy(job.policy))
    results = {name: play(job, policy) for name, policy in found.items()}
    record["figures"] |= {name: _figure(result) for name, result in results.items()}
    record["against_base"] |= {name: _effect(result, base) for name, result in results.items()}
    record["steps"] |= {name: policy.metadata["steps"] for name, policy in found.items()}
    if len(results) == 2:
        record["rules_against_extended"] = _effect(results["extended with rules"], results["extended"])
    return True


# --- All of them -----------------------------------------------------------------------------------------------------


def run_job(job: Job, arguments: argparse.Namespace) -> None:
    """Make the record of one policy."""
    preset = "quick" if arguments.preset == "default" and job.level in QUICK else arguments.preset
    chosen = None if preset == "default" else PRESETS[preset]()
    settings = replace(settings_for(job.environment, chosen), mistakes=MistakeSettings(when="never"))
    if chosen is None and (job.level, job.algorithm) != FULL:
        settings = replace(settings, search=replace(settings.search, budget=SEARCH_STEPS))
    record = make_record(job, arguments.scratch / job.name, settings, arguments.networks)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_json(arguments.out / f"{job.name}.json", record)
    figures = ", ".join(f"{name} {figure['mean']:.1f}" for name, figure in record["figures"].items())
    print(f"{job.name}: {figures}", flush=True)


def pack(jobs: Sequence[Job], arguments: argparse.Namespace) -> None:
    """Pack the folders of jobs that are begun and not done, the first ones first, as far as they fit into one file."""
    begun = [job for job in jobs if not job.is_done(arguments.out)]
    with tarfile.open(arguments.pack, "w:gz") as archive:
        for name in dict.fromkeys(job.name for job in begun):
            folder = arguments.scratch / name
            files = [file for file in folder.rglob("*") if file.is_file() and not set(file.parts) & set(NOT_PACKED)]
            if arguments.pack.stat().st_size + sum(file.stat().st_size for file in files) <= MOST_PACKED:
                for file in files:
                    archive.add(file, file.relative_to(arguments.scratch))


# --- The table -------------------------------------------------------------------------------------------------------


def load_records(folder: Path) -> list[dict[str, Any]]:
    """Read all records."""
    return [read_json(path) for path in sorted(folder.glob("*.json"))]


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the table as Markdown: means over policies, errors between policies, environment steps."""
    columns = [name for name in COLUMNS if any(name in record["figures"] for record in records)]
    more = ("gain kept", "three rounds better than one", "minutes")
    lines = [f"| | policies | {' | '.join((*columns, *more))} |", "|---" * (2 + len(columns) + len(more)) + "|"]
    for level, algorithm in ROWS:
        mine = [record for record in records if (record["level"], record["algorithm"]) == (level, algorithm)]
        if mine:
            cells = [*(_cell(mine, name) for name in columns), *_last_cells(mine)]
            lines.append(f"| {level} {algorithm.upper()} | {len(mine)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _column(records: Sequence[dict[str, Any]], name: str) -> tuple[NDArray[np.float64], float | None]:
    """Return the means of the policies that have such a figure, and millions of steps where they are known."""
    mine = [record for record in records if name in record["figures"]]
    steps = [record["steps"][name] for record in mine if name in record["steps"]]
    means = np.array([record["figures"][name]["mean"] for record in mine])
    return means, float(np.mean(steps)) / MILLION if steps else None


def _cell(records: Sequence[dict[str, Any]], name: str) -> str:
    means, steps = _column(records, name)
    if not len(means):
        return ""
    error = f" ± {means.std(ddof=1) / np.sqrt(len(means)):.{_digits(means)}f}" if len(means) > 1 else ""
    some = "" if len(means) == len(records) else f" ({len(means)})"
    cost = "" if steps is None else f", {steps:.1f} M"
    return f"{means.mean():.{_digits(means)}f}{error}{some}{cost}"


def _digits(means: np.ndarray) -> int:
    return 0 if np.abs(means).mean() >= 100 else 1


def _last_cells(records: Sequence[dict[str, Any]]) -> list[str]:
    share = _share_kept(records)
    kept = "–" if share is None else f"{100 * share:.0f} %"
    mended = [record["mended_against_distilled"] for record in records]
    better = f"{sum(effect['low'] > 0 for effect in mended)} of {len(mended)}"
    minutes = np.mean([processor_seconds(record) / 60.0 for record in records])
    return [kept, better, f"{minutes:.0f}"]


def _share_kept(records: Sequence[dict[str, Any]]) -> float | None:
    """Return the mean gain of distilled over that of guided; None where that is too small to say."""
    guided, distilled = (
        float(np.mean([record["against_base"][name]["mean"] for record in records])) for name in ("guided", "distilled")
    )
    return distilled / guided if guided > WORTH_KEEPING else None


def network_facts(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures that the text quotes, by row: mean, steps in millions, and so on."""
    rows: dict[str, Any] = {}
    for level, algorithm in ROWS:
        mine = [record for record in records if (record["level"], record["algorithm"]) == (level, algorithm)]
        if mine:
            rows[f"{level} {algorithm}"] = _row_facts(mine)
    gains = [
        (record["against_base"]["distilled"]["mean"], record["against_base"]["guided"]["mean"])
        for record in records
        if record["against_base"]["guided"]["mean"] > WORTH_KEEPING
    ]
    kept = [distilled / guided for distilled, guided in gains]
    return {
        "rows": rows,
        "policies": len(records),
        "kept": float(np.mean(kept)),
        "kept_of": len(kept),
        "above": WORTH_KEEPING,
    }


def _row_facts(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    facts: dict[str, Any] = {"policies": len(records), "kept": _share_kept(records)}
    for name in COLUMNS:
        means, steps = _column(records, name)
        if len(means) == len(records):
            facts[name] = {"mean": float(means.mean()), "steps": steps or 0.0}
    mended = [record["mended_against_distilled"] for record in records]
    facts |= {"rounds_better": sum(effect["low"] > 0 for effect in mended), "rounds_of": len(mended)}
    pairs = [("extended", "mended"), ("extended", "distilled"), ("extended with rules", "extended")]
    return facts | {f"{a} less {b}": _less(records, a, b) for a, b in pairs if {a, b} <= facts.keys()}


def _less(records: Sequence[dict[str, Any]], first: str, second: str) -> dict[str, float]:
    """By how much one column exceeds another: mean and interval over policies, and in how many of them."""
    less = np.array([r["figures"][first]["mean"] - r["figures"][second]["mean"] for r in records])
    low, high = interval_ends(less)
    return {"mean": less.mean(), "low": low, "high": high, "better": int((less > 0).sum())}


def processor_seconds(record: dict[str, Any]) -> float:
    """Return the processor seconds that a policy took."""
    return float(sum(value for name, value in record["seconds"].items() if name != "processes"))


def main() -> None:
    """Run, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="names of policies, such as 'PacmanSmall-ppo-*'")
    parser.add_argument("--cores", type=int, default=2, help="cores to use")
    parser.add_argument("--minutes", type=float, default=1e6, help="minutes after which it stops")
    parser.add_argument("--scratch", type=Path, default=Path("networks"), help="where studies and networks lie")
    parser.add_argument("--networks", type=Path, help="where rules and networks are kept")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where records lie")
    parser.add_argument("--preset", choices=("default", *PRESETS), default="default", help="settings of the studies")
    parser.add_argument("--trained", type=Path, help="a zoo with policies that were trained further")
    parser.add_argument("--pack", type=Path, help="file for unfinished work")
    parser.add_argument("--table", action="store_true", help="print the table from the records alone")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(load_records(arguments.out)), end="")
    elif arguments.trained:
        for record in load_records(arguments.out):
            if add_trained(record, arguments.trained):
                write_json(arguments.out / f"{record['name']}.json", record)
    else:
        chosen = [job for job in all_jobs() if fnmatch.fnmatch(job.name, arguments.only)]
        waiting = {job.name: (job, arguments) for job in chosen if not job.is_done(arguments.out)}
        run_side_by_side(run_job, waiting, workers=arguments.cores, minutes=arguments.minutes)
        if arguments.pack:
            pack(chosen, arguments)


if __name__ == "__main__":
    main()
