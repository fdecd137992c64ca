"""``python -m lab reproduce``: the paper's tables, from trained policies."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from legible.cli.choice import look_here_for_modules
from legible.cli.options import PATH, seed_option, trust_option, verbose_option, workers_option
from legible.errors import LegibleError
from legible.formatting import counted, duration

if TYPE_CHECKING:
    from lab.reproduction import Job


@click.command
@click.argument(
    "tables",
    metavar="TABLE…",
    nargs=-1,
    required=True,
    help="table1 … table5, table6 and table7 (PPO), or all; or check, which compares records.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=PATH,
    default=Path("lab/experiments/results"),
    show_default=True,
    help="Where records and tables go; records there are kept.",
)
@click.option(
    "--experiments",
    metavar="DIR",
    type=PATH,
    default=Path("lab/experiments"),
    show_default=True,
    help="The folder of the table files.",
)
@click.option(
    "--work",
    metavar="DIR",
    type=PATH,
    default=Path("studies"),
    show_default=True,
    help="Where studies live while they run.",
)
@click.option(
    "--scale",
    metavar="X",
    type=click.FloatRange(0.01, 1.0),
    default=1.0,
    show_default=True,
    help="Share of all episodes, for a quick look.",
)
@click.option(
    "--minutes",
    metavar="N",
    type=click.FloatRange(min=0.0),
    default=0.0,
    help="Begin no further study after this many minutes; the same command goes on later.",
)
@click.option("--row", metavar="NAME", multiple=True, help="Run this row only; may be given repeatedly.")
@click.option("--mode", metavar="NAME", multiple=True, help="Run this mode only; may be given repeatedly.")
@click.option(
    "--policy",
    metavar="N",
    type=click.IntRange(min=0),
    multiple=True,
    help="Run the policies of this training seed only, such as 0; may be given repeatedly.",
)
@click.option("--without-baselines", is_flag=True, help="Leave out random tests and random rules: half of the time.")
@seed_option("Of every study.")
@trust_option
@workers_option
@verbose_option
def reproduce(
    tables: tuple[str, ...],
    out: Path,
    experiments: Path,
    work: Path,
    scale: float,
    row: tuple[str, ...],
    mode: tuple[str, ...],
    policy: tuple[int, ...],
    without_baselines: bool,
    minutes: float,
    seed: int,
    trust: bool,
    workers: int | None,
) -> None:
    """Run the paper's experiments on the zoo's policies and write its tables.

    What has been run already is not run again: stop it at any time and start it again with the same command. With
    --scale 0.05 a first look takes minutes; give it a separate --out. To see whether a row comes out as it did here,
    run it with a separate --out, then 'python -m lab reproduce check --out THERE'.
    """
    from lab.reproduction import jobs_of, load_table_plans, missing_jobs  # noqa: PLC0415
    from lab.reproduction import reproduce as run  # noqa: PLC0415
    from legible.engines import LocalProcesses  # noqa: PLC0415 (torch takes seconds to import)

    console = Console()
    if tables == ("check",):
        _check(console, out, experiments / "results")
        return
    if trust:
        look_here_for_modules()
    engine = LocalProcesses(workers)
    jobs = jobs_of(load_table_plans(tables, experiments), scale)
    _say_missing(console, missing_jobs(jobs, out, row, mode, policy), out, scale, engine.workers)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    began = time.monotonic()
    with Progress(*columns, console=console, transient=True) as bars:
        studies = bars.add_task("studies", total=None)
        stage = bars.add_task("", total=None)

        def on_job(job: Job, number: int, of: int) -> None:
            bars.update(studies, total=of, completed=number - 1, description=f"{job.policy}, {job.mode}")
            if not console.is_terminal:
                console.print(f"{time.monotonic() - began:7.0f} s  {number} of {of}: {job.policy}, {job.mode}")

        def on_progress(name: str, done: int, of: int) -> None:
            bars.update(stage, description=name, total=of, completed=done)

        made = run(
            tables,
            experiments=experiments,
            out=out,
            work=work,
            scale=scale,
            rows=row,
            modes=mode,
            policies=policy,
            baselines=not without_baselines,
            seed=seed,
            minutes=minutes,
            trust=trust,
            engine=engine,
            on_job=on_job,
            progress=on_progress,
        )
    for table in made:
        console.print(f"\n[bold]{table.title}[/]")
        console.print(table.to_markdown(), markup=False, highlight=False, soft_wrap=True)
        console.print(f"{out / table.name}.md, .csv, .png")


def _say_missing(console: Console, missing: Sequence[tuple[str, Job]], out: Path, scale: float, workers: int) -> None:
    """Say how many studies of each row have no record yet, and how long they take."""
    from lab.reproduction import expected_seconds  # noqa: PLC0415

    if not missing:
        console.print("Every study has its record; the tables are written again.")
        return
    for (row, mode), count in Counter((job.row.name, job.mode) for _, job in missing).items():
        console.print(f"missing: {row}, {mode}: {counted(count, 'study', 'studies')}")
    seconds = expected_seconds(missing, out, workers) * scale
    about = "no record says how long such studies take" if math.isnan(seconds) else f"about {duration(seconds)}"
    console.print(f"In all {counted(len(missing), 'study', 'studies')} on {counted(workers, 'worker')}: {about}.")


def _check(console: Console, out: Path, reference: Path) -> None:
    """Say which records agree with those of the repository."""
    from lab.reproduction import compare_records  # noqa: PLC0415

    if out.resolve() == reference.resolve():
        raise LegibleError(
            "check compares the records of another run with the repository's: run a row with a separate --out first."
        )
    compared = compare_records(out, reference)
    if not compared:
        raise LegibleError(f"{out}: holds no record that {reference} has, too.")
    for name, keys in compared.items():
        console.print(f"{name}: " + (f"differs in {', '.join(keys)}" if keys else "equal to the digit"))
    differing = sum(bool(keys) for keys in compared.values())
    if differing:
        raise LegibleError(
            f"{differing} of {counted(len(compared), 'record')} differ. Another processor or other packages can change "
            "the last bit of a network's scores, and with it whole episodes: compare the tables, not the digits."
        )
