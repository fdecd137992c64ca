"""The command line: thin; it parses, calls the library and draws.

Exit codes: 0; 1 when a command ran but the answer is no, or something failed on the way; 2 when what was given is
wrong; 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import traceback

import rich_click as click

from legible import __version__
from legible.cli.check import check
from legible.cli.distil import distil
from legible.cli.drawing import complain, say
from legible.cli.mend import mend
from legible.cli.mistakes import mistakes
from legible.cli.play import play
from legible.cli.relations import relations
from legible.cli.study import baselines, compare, evaluate, explain, generalise, improve, mine, report, run, settings
from legible.cli.training import export, train, zoo
from legible.errors import LegibleError

STOPPED = 130
PANELS: dict[str, tuple[click.Command, ...]] = {
    "A study": (run, compare, settings),
    "Back into the network": (distil, mend),
    "Its steps, each alone": (mine, generalise, evaluate, improve, explain, mistakes, report, baselines),
    "Policies and environments": (check, play, train, zoo, export, relations),
}


@click.group(
    panels=[click.RichCommandPanel(title, [str(c.name) for c in commands]) for title, commands in PANELS.items()],
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Tab completes commands, options, environments, relations, studies and zoo:NAME after "
    "'eval \"$(_LEGIBLE_COMPLETE=bash_source legible)\"' (or zsh_source, fish_source) in your shell's start-up file.",
)
@click.version_option(__version__, message="legible %(version)s", help="Say the version.")
def app() -> None:
    """Find out where a reinforcement-learning policy is weak, why, and mend it with rules."""


def _own_options_first(command: click.Command) -> None:
    """Let help show a command's arguments and its own options before those that it shares with others."""
    if isinstance(command, click.RichGroup):
        for inner in command.commands.values():
            _own_options_first(inner)
    elif isinstance(command, click.RichCommand):
        command.panels = [click.RichOptionPanel("Arguments"), click.RichOptionPanel("Options")]


for _commands in PANELS.values():
    for _command in _commands:
        _own_options_first(_command)
        app.add_command(_command)


def main() -> None:
    """Run the command line; what goes wrong is one line on standard error and an exit code, never a traceback."""
    words = sys.argv[1:]
    try:
        sys.exit(_run())
    except LegibleError as error:
        complain(str(error))
        _show_where(words)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os._exit(1)  # whoever read our output left; flushing it would complain again
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        complain(f"{place}{error.strerror or error}.")
        _show_where(words)
        sys.exit(1)
    except Exception as error:
        complain(f"unexpected {type(error).__name__}: {error} (with --verbose: where; please report it).")
        _show_where(words)
        sys.exit(1)


def _run() -> int:
    """Run a command and return its exit code."""
    try:
        result = app.main(prog_name="legible", standalone_mode=False)
    except click.Abort:
        say("Stopped. What was finished is kept; give the same command again to go on.")
        return STOPPED
    except click.ClickException as error:  # a mistake in the words themselves
        context = error.ctx if isinstance(error, click.UsageError) else None
        command = context.command_path if context is not None else "legible"
        complain(f"{error.format_message()} ('{command} --help' shows how it is used.)")
        return error.exit_code
    return result if isinstance(result, int) else 0


def _show_where(words: list[str]) -> None:
    if "-v" in words or "--verbose" in words:
        traceback.print_exc()
