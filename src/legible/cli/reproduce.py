"""``legible reproduce``: the paper's tables, from trained policies."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from legible.reproduction import Job


def reproduce(
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE…", help="table1 … table5, table6 and table7 (PPO), or all.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where records and tables go; records there are kept.")
    ] = Path("experiments/results"),
    experiments: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the table files.")] = Path(
        "experiments"
    ),
    work: Annotated[Path, typer.Option(metavar="DIR", help="Where studies live while they run.")] = Path("studies"),
    scale: Annotated[float, typer.Option(min=0.01, max=1.0, help="Share of all episodes, for a quick look.")] = 1.0,
    row: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Run this row only; may be repeated.")] = None,
    mode: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Run this mode only; may be repeated.")] = None,
    without_baselines: Annotated[
        bool, typer.Option("--without-baselines", help="Leave out random tests and random rules: half of the time.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of every study.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; by default one a core.")] = None,
) -> None:
    """Run the paper's experiments on the zoo's policies and write its tables.

    What has been run already is not run again: stop it at any time and start it again with the same command. With
    --scale 0.05 a first look takes minutes; give it an --out of its own.
    """
    from legible.engines import LocalProcesses  # noqa: PLC0415 (torch takes seconds to import)
    from legible.reproduction import reproduce as run  # noqa: PLC0415

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
            rows=row or (),
            modes=mode or (),
            baselines=not without_baselines,
            seed=seed,
            engine=LocalProcesses(workers),
            on_job=on_job,
            progress=on_progress,
        )
    for table in made:
        console.print(f"\n[bold]{table.title}[/]")
        console.print(table.to_markdown(), markup=False, highlight=False, soft_wrap=True)
        console.print(f"{out / table.name}.md, .csv, .png")
