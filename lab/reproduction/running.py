"""Run the studies that tables lack, and write the tables from the records.

- `load_table_plans`, `jobs_of`: which tables, and the studies that they need.
- `missing_jobs`: the studies that have no record yet, and `expected_seconds`: how long they take.
- `reproduce`: runs missing jobs and writes the tables.
- `compare_records`: what differs between records and those of the repository.
- `write_tables`, `table_from_records`: tables from the records that are there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lab.reproduction.plan import Job, TablePlan, find_tables
from lab.reproduction.records import Record, load_record, make_record, save_record
from lab.reproduction.tables import Table, build_table
from legible.engines import Engine, LocalProcesses
from legible.environments import refuse_named_code
from legible.errors import LegibleError
from legible.files import write_text

OnJob = Callable[[Job, int, int], None]
"""Called before every job that has to run, with its number and the number of all jobs."""


def load_table_plans(names: Sequence[str], folder: Path) -> list[TablePlan]:
    """Return the plans of the named tables; "all" means all."""
    found = find_tables(folder)
    if "all" in names:
        return [TablePlan.load(path) for path in found.values()]
    for name in names:
        if name not in found:
            raise LegibleError(f"there is no {name!r} in {folder}; the tables are {', '.join(found)}, or all.")
    return [TablePlan.load(found[name]) for name in dict.fromkeys(names)]


def jobs_of(plans: Sequence[TablePlan], scale: float = 1.0) -> dict[str, list[Job]]:
    """Return all jobs that tables need, by the name of their studies; tables that share studies share the jobs."""
    jobs: dict[str, list[Job]] = {}
    for plan in plans:
        for studies in plan.plans().values():
            jobs.setdefault(studies.name, studies.scaled(scale).jobs())
    return jobs


def record_path(out: Path, studies: str, job: Job) -> Path:
    """Return the path of the record of a job."""
    return out / "records" / studies / f"{job.name}.json.gz"


def reproduce(
    names: Sequence[str],
    *,
    experiments: Path,
    out: Path,
    work: Path,
    scale: float = 1.0,
    rows: Sequence[str] = (),
    modes: Sequence[str] = (),
    policies: Sequence[int] = (),
    baselines: bool = True,
    seed: int = 0,
    minutes: float = 0.0,
    trust: bool = False,
    engine: Engine | None = None,
    on_job: OnJob | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Table]:
    """Run missing jobs and write the tables.

    Parameters
    ----------
    names
        Tables, or "all".
    experiments
        Folder of the table files.
    out
        Where records and tables go. Records that lie there are not made again.
    work
        Where studies are kept while they run; may be deleted afterwards.
    scale
        Share of all numbers of episodes, for a quick look.
    rows, modes, policies
        Names of the rows and modes to run, and training seeds of the policies; others are left "not run". Empty runs
        all.
    baselines
        Whether random tests and random rules are run; without them their cells are "not run".
    seed
        Of every study.
    minutes
        After this many no further study is begun; 0 for no limit. The next call runs the rest.
    trust
        Whether to import factories of environments and policies that are code, if the table files name some. Files from
        other people can name any code.
    engine
        Where episodes run.
    on_job, progress
        Called before each study, and while it runs.
    """
    plans = load_table_plans(names, experiments)
    jobs = jobs_of(plans, scale)
    for studies, found in jobs.items():
        for job in found:
            refuse_named_code(job.row.spec, f"{experiments / studies}.toml", trust=trust)
    missing = missing_jobs(jobs, out, rows, modes, policies)
    until = time.monotonic() + 60.0 * minutes if minutes else math.inf
    with engine or LocalProcesses() as running:
        for number, (studies, job) in enumerate(missing, 1):
            if time.monotonic() >= until:
                break
            if on_job is not None:
                on_job(job, number, len(missing))
            folder = work / studies / job.name
            wanted = job if baselines else replace(job, baselines=False)
            record = make_record(wanted, folder, seed=seed, engine=running, trust=trust, progress=progress)
            path = record_path(out, studies, job)
            path.parent.mkdir(parents=True, exist_ok=True)
            save_record(record, path)
    return write_tables(plans, out, scale)


def missing_jobs(
    jobs: Mapping[str, Sequence[Job]],
    out: Path,
    rows: Sequence[str] = (),
    modes: Sequence[str] = (),
    policies: Sequence[int] = (),
) -> list[tuple[str, Job]]:
    """Return the jobs that have no record, with the name of their studies; parameters as for `reproduce`."""
    return [
        (studies, job)
        for studies, found in jobs.items()
        for job in found
        if not record_path(out, studies, job).exists()
        and (not rows or job.row.name in rows)
        and (not modes or job.mode in modes)
        and (not policies or job.seed in policies)
    ]


def expected_seconds(missing: Sequence[tuple[str, Job]], out: Path, workers: int) -> float:
    """Guess how long jobs take on some workers, by what records of the same row took, or of the same studies.

    NaN where there are none to go by. Records without their seconds are ignored.
    """
    took: dict[tuple[str, str], list[float]] = {}
    for path in sorted((out / "records").glob("*/*.json.gz")):
        record = load_record(path)
        if "seconds" in record and "workers" in record:
            seconds = sum(record["seconds"].values()) * record["workers"] / workers
            for place in ((path.parent.name, record["row"]), (path.parent.name, "")):
                took.setdefault(place, []).append(seconds)
    known = [took.get((studies, job.row.name)) or took.get((studies, "")) for studies, job in missing]
    return sum(sum(found) / len(found) if found else math.nan for found in known)


def compare_records(out: Path, reference: Path) -> dict[str, list[str]]:
    """Compare the records of a folder with those of another: by name, the entries that differ ([] where none does).

    When, where and with which version a record was made does not count. Records that the other folder lacks are left
    out.
    """
    found = {}
    for path in sorted((out / "records").glob("*/*.json.gz")):
        other = reference / "records" / path.parent.name / path.name
        if other.exists():
            one, two = load_record(path), load_record(other)
            keys = [key for key in sorted({*one, *two} - _MADE) if one.get(key) != two.get(key)]
            found[f"{path.parent.name}/{path.name.removesuffix('.json.gz')}"] = keys
    return found


_MADE = {"seconds", "workers", "code", "processor"}


def write_tables(plans: Sequence[TablePlan], out: Path, scale: float = 1.0) -> list[Table]:
    """Build tables from the records that are there, and write them as Markdown, CSV and pictures."""
    from lab.reproduction.figures import draw_table  # noqa: PLC0415 (matplotlib takes a second to import)

    tables = [table_from_records(plan, out, scale) for plan in plans]
    out.mkdir(parents=True, exist_ok=True)
    for table in tables:
        write_text(out / f"{table.name}.md", table.to_markdown())
        write_text(out / f"{table.name}.csv", table.to_csv())
        draw_table(table, out / f"{table.name}.png")
    return tables


def table_from_records(plan: TablePlan, out: Path, scale: float = 1.0) -> Table:
    """Build a table from the records that are there."""
    records: dict[str, list[Record]] = {}
    for label, studies in plan.plans().items():
        paths = [record_path(out, studies.name, job) for job in studies.scaled(scale).jobs()]
        records[label] = [load_record(path) for path in paths if path.exists()]
    return build_table(plan, records)
