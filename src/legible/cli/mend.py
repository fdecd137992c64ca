"""``legible mend``: study, distil, study the network, in rounds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from legible.cli.choice import StudyChoice, default_folder, look_here_for_modules
from legible.cli.distil import learning_options, learning_settings, tell_round
from legible.cli.drawing import Bars, out, print_json, say, table
from legible.cli.options import study_command
from legible.errors import LegibleError
from legible.formatting import counted, signed, with_error

if TYPE_CHECKING:
    from legible.study import Study
    from legible.study.mending import MendedRound, Mending

# What needs PyTorch is imported when it is used: that takes seconds.


@click.command
@study_command("Folder of all rounds. [default: studies/ENV-POLICY-mended]")
@click.option("--rounds", metavar="N", type=click.IntRange(min=1), help="Rounds at most. [default: 3]")
@click.option("--reports/--no-reports", default=True, help="Whether reports are written.")
@learning_options
def mend(choice: StudyChoice, rounds: int | None, reports: bool, **given: Any) -> None:
    """Study a policy, distil what helped into its network, study that, until a round confirms nothing.

    Every round is an ordinary study in the folder (round-1, round-2, …) and leaves a network without rules
    (network-1.safetensors, …); the best of them is mended.safetensors. Stopped, it goes on when the same command, or
    'legible mend DIR', is given.
    """
    from legible.engines import make_engine  # noqa: PLC0415
    from legible.report.rounds import write_rounds  # noqa: PLC0415
    from legible.study.mending import mend as mend_policy  # noqa: PLC0415

    started = time.monotonic()
    folder, arguments = _what(choice)
    with Bars(quiet=choice.as_json) as bars:
        mending = mend_policy(
            folder,
            **arguments,
            rounds=rounds,
            distillation=learning_settings(given),
            engine=make_engine(choice.engine, choice.workers, choice.address),
            trust=choice.trust,
            progress=bars,
            on_round=None if choice.as_json else tell_round,
            on_mended=None if choice.as_json else _tell_mended,
            on_study=_write_missing_report if reports else None,
        )
    if reports:
        write_rounds(mending)
    if choice.as_json:
        print_json({**mending.to_dict(), "seconds": time.monotonic() - started})
        return
    print_mending(mending)


def _write_missing_report(study: Study) -> None:
    from legible.report import write_report  # noqa: PLC0415

    if not (study.folder / "report.html").exists():
        write_report(study)


def _what(choice: StudyChoice) -> tuple[Path, dict[str, Any]]:
    """The folder, and what is mended there; nothing where the folder says it."""
    if choice.policy is None:
        if not (Path(choice.target) / "mend.json").is_file():
            raise LegibleError(
                f"{choice.target!r} is no folder of a mending; give ENV and POLICY, or the folder of one."
            )
        choice.refuse_making_options()
        if choice.trust:
            look_here_for_modules()
        return Path(choice.target), {}
    usual = default_folder(choice.target, choice.policy)
    folder = choice.out or usual.with_name(f"{usual.name}-mended")
    if (folder / "study.json").is_file():
        raise LegibleError(f"{folder}: holds a study, not a mending; use another folder.")
    return folder, {"policy": choice.policy, **choice.arguments(choice.policy)}


def _tell_mended(found: MendedRound) -> None:
    back = f", {len(found.came_back)} of them came back" if found.came_back else ""
    say(
        f"Round {found.number} is done: {counted(len(found.confirmed), 'weakness', 'weaknesses')} confirmed of "
        f"{counted(found.tested, 'rule set')} tested{back}."
    )


def print_mending(mending: Mending) -> None:
    """Print what every round found and left, and the verdict."""
    console = out()
    rows = [("the policy", "", "", _return(mending, 0), "", "")]
    leaving = [found.number for found in mending.rounds if found.distilled is not None]
    places = {number: place for place, number in enumerate(leaving, start=1)}
    for found in mending.rounds:
        place = places.get(found.number)
        rows.append(
            (
                f"round {found.number}",
                f"{len(found.confirmed)} of {found.tested}",
                str(len(found.came_back)),
                "no network" if place is None else _return(mending, place),
                "" if place is None else _difference(mending, place, place - 1),
                "" if place is None else _difference(mending, place, 0),
            )
        )
    columns = ("", "Confirmed", "Again", "Mean return", "Against the last", "Against the policy")
    console.print(table(columns, rows, right=columns[1:4]))
    console.print(f"[bold]{mending.verdict()}[/]", soft_wrap=True)
    if mending.file is not None:
        console.print(f"Network: {mending.file}", soft_wrap=True, markup=False)
    report = mending.folder / "report.html"
    if report.exists():
        console.print(f"Report: {report}", soft_wrap=True, markup=False)


def _return(mending: Mending, place: int) -> str:
    from legible.evaluation import Sample  # noqa: PLC0415

    sample = Sample.of(mending.results[place])
    return with_error(sample.mean, sample.error)


def _difference(mending: Mending, place: int, against: int) -> str:
    effect = mending.effect(place, against)
    return f"{signed(effect.mean)} ({signed(effect.low)} to {signed(effect.high)})"
