"""``legible mistakes``: single decisions that cost most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click
from rich.markup import escape
from rich.table import Table

from legible.cli.choice import StudyChoice
from legible.cli.drawing import out, print_json, say
from legible.cli.options import study_command
from legible.cli.study import about, working
from legible.formatting import number

if TYPE_CHECKING:
    from legible.study import Study

# What needs PyTorch is imported when it is used: that takes seconds.

SHOWN = 5


@click.command
@study_command()
def mistakes(choice: StudyChoice) -> None:
    """Look for single decisions that cost most: branch there, try every choice, follow the policy.

    Independent of the other steps: nothing has to be mined first.
    """
    with working(choice) as study:
        if not choice.as_json and not study.has("mistakes"):
            say(f"Up to {number(study.settings.mistakes.steps)} steps are played (--mistakes.steps).")
        found = study.find_mistakes()
    if choice.as_json:
        print_json({**about(study), **found.to_dict()})
        return
    print_mistakes(study, most=None if choice.verbose else SHOWN)


def print_mistakes(study: Study, most: int | None = SHOWN) -> None:
    """Print what was found about single decisions: the figures, and the worst, a sentence each."""
    from legible.mistakes import describe_mistake, describe_mistakes  # noqa: PLC0415

    console, found = out(), study.mistakes
    for sentence in describe_mistakes(found):
        console.print(sentence, soft_wrap=True, markup=False)
    if not found.listed:
        return
    shown = found.listed[:most]
    console.print("\nThe decisions that cost most:" if len(shown) > 1 else "\nThe decision that cost most:")
    grid = Table.grid(padding=(0, 1))
    for place, mistake in enumerate(shown, start=1):
        grid.add_row(f" {place}.", escape(describe_mistake(mistake, study.decisions)))
    console.print(grid)
    if len(found.listed) > len(shown):
        console.print(f"{len(found.listed) - len(shown)} more: legible mistakes {study.folder} --verbose", markup=False)
