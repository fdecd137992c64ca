"""Run the studies that tables lack, and write the tables from the records.

- `load_table_plans`, `jobs_of`: which tables, and the studies that they need.
- `reproduce`: runs what is missing and writes the tables.
- `write_tables`, `table_from_records`: tables from the records that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from legible.engines import Engine, LocalProcesses
from legible.environments import refuse_named_code
from legible.errors import LegibleError
from legible.files import write_text
from legible.reproduction.plan import Job, TablePlan, find_tables
from legible.reproduction.records import Record, load_record, make_record, save_record
from legible.reproduction.tables import Table, build_table

OnJob = Callable[[Job, int, int], None]
"""Called before every job that has to run, with its number and the number of all jobs."""


def load_table_plans(names: Sequence[str], folder: Path) -> list[TablePlan]:
    """The plans of the named tables; "all" means all."""
    found = find_tables(folder)
    if "all" in names:
        return [TablePlan.load(path) for path in found.values()]
    for name in names:
        if name not in found:
            raise LegibleError(f"there is no {name!r} in {folder}; the tables are {', '.join(found)}, or all.")
    return [TablePlan.load(found[name]) for name in dict.fromkeys(names)]


def jobs_of(plans: Sequence[TablePlan], scale: float = 1.0) -> dict[str, list[Job]]:
    """All jobs that tables need, by the name of their studies; tables that share studies share the jobs."""
    jobs: dict[str, list[Job]] = {}
    for plan in plans:
        for studies in plan.plans().values():
            jobs.setdefault(studies.name, studies.scaled(scale).jobs())
    return jobs


def record_path(out: Path, studies: str, job: Job) -> Path:
    """Where the record of a job lies."""
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
    baselines: bool = True,
    seed: int = 0,
    trust: bool = False,
    engine: Engine | None = None,
    on_job: OnJob | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Table]:
    """Run what is missing and write the tables.

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
    rows, modes
        Names of the rows and modes to run; others are left "not run". Empty runs all.
    baselines
        Whether random tests and random rules are run; without them their cells are "not run".
    seed
        Of every study.
    trust
        Whether to import factories of environments and policies that are code, if the table files name some. Files from
        somebody else can name any code.
    engine
        Where episodes run.
    on_job, progress
        Called before each study, and while it runs.
    """
    plans = load_table_plans(names, experiments)
    jobs = [(studies, job) for studies, found in jobs_of(plans, scale).items() for job in found]
    for studies, job in jobs:
        refuse_named_code(job.row.spec, f"{experiments / studies}.toml", trust=trust)
    missing = [
        (studies, job)
        for studies, job in jobs
        if not record_path(out, studies, job).exists()
        and (not rows or job.row.name in rows)
        and (not modes or job.mode in modes)
    ]
    with engine or LocalProcesses() as running:
        for number, (studies, job) in enumerate(missing, 1):
            if on_job is not None:
                on_job(job, number, len(missing))
            folder = work / studies / job.name
            wanted = job if baselines else replace(job, baselines=False)
            record = make_record(wanted, folder, seed=seed, engine=running, trust=trust, progress=progress)
            path = record_path(out, studies, job)
            path.parent.mkdir(parents=True, exist_ok=True)
            save_record(record, path)
    return write_tables(plans, out, scale)


def write_tables(plans: Sequence[TablePlan], out: Path, scale: float = 1.0) -> list[Table]:
    """Build tables from the records that are there, and write them as Markdown, CSV and pictures."""
    from legible.reproduction.figures import draw_table  # noqa: PLC0415 (matplotlib takes a second to import)

    tables = [table_from_records(plan, out, scale) for plan in plans]
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
