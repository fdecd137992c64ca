"""``legible reproduce``: the paper's tables, from trained policies."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from legible.cli.choice import look_here_for_modules
from legible.cli.options import PATH, seed_option, trust_option, verbose_option, workers_option

if TYPE_CHECKING:
    from legible.reproduction import Job


@click.command
@click.argument(
    "tables", metavar="TABLE…", nargs=-1, required=True, help="table1 … table5, table6 and table7 (PPO), or all."
)
@click.option(
    "--out",
    metavar="DIR",
    type=PATH,
    default=Path("experiments/results"),
    show_default=True,
    help="Where records and tables go; records there are kept.",
)
@click.option(
    "--experiments",
    metavar="DIR",
    type=PATH,
    default=Path("experiments"),
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
@click.option("--row", metavar="NAME", multiple=True, help="Run this row only; may be given repeatedly.")
@click.option("--mode", metavar="NAME", multiple=True, help="Run this mode only; may be given repeatedly.")
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
    without_baselines: bool,
    seed: int,
    trust: bool,
    workers: int | None,
) -> None:
    """Run the paper's experiments on the zoo's policies and write its tables.

    What has been run already is not run again: stop it at any time and start it again with the same command. With
    --scale 0.05 a first look takes minutes; give it an --out of its own.
    """
    from legible.engines import LocalProcesses  # noqa: PLC0415 (torch takes seconds to import)
    from legible.reproduction import reproduce as run  # noqa: PLC0415

    if trust:
        look_here_for_modules()
    console = Console()
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
            baselines=not without_baselines,
            seed=seed,
            trust=trust,
            engine=LocalProcesses(workers),
            on_job=on_job,
            progress=on_progress,
        )
    for table in made:
        console.print(f"\n[bold]{table.title}[/]")
        console.print(table.to_markdown(), markup=False, highlight=False, soft_wrap=True)
        console.print(f"{out / table.name}.md, .csv, .png")
