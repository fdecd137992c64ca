"""The command line: thin; it parses, calls the library and draws.

Exit codes: 0; 1 when a command ran but the answer is no, or something failed on the way; 2 when what was given is
wrong; 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import typer

from legible.cli.check import check
from legible.cli.drawing import complain, say
from legible.cli.play import play
from legible.cli.relations import relations_app
from legible.cli.reproduce import reproduce
from legible.cli.study import baselines, compare, evaluate, explain, generalise, improve, mine, report, run, settings
from legible.cli.training import export, train, zoo
from legible.errors import LegibleError

STOPPED = 130
_STUDY = "A study"
_STEPS = "Its steps, each alone"
_OTHERS = "Policies and environments"

app = typer.Typer(
    help="Find out where a reinforcement-learning policy is weak, why, and mend it with rules.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for panel, commands in {
    _STUDY: (run, compare, settings),
    _STEPS: (mine, generalise, evaluate, improve, explain, report, baselines),
    _OTHERS: (check, play, train, zoo, export, reproduce),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(relations_app, name="relations", rich_help_panel=_OTHERS)


def _say_version(asked: bool) -> None:
    if asked:
        from legible import __version__  # noqa: PLC0415

        typer.echo(f"legible {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: bool = typer.Option(False, "--version", callback=_say_version, is_eager=True, help="Say the version."),
) -> None:
    """Find out where a reinforcement-learning policy is weak, why, and mend it with rules."""


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
        result: Any = app(standalone_mode=False)
    except KeyboardInterrupt:
        result = STOPPED
    except Exception as error:
        # Mistakes in the words themselves: Typer has its own copy of Click's exceptions, which all know their code.
        if not hasattr(error, "exit_code") or not hasattr(error, "format_message"):
            raise
        complain(f"{error.format_message()} ('legible {_command()}--help' shows how it is used.)")
        return int(error.exit_code)
    if result == STOPPED:
        say("\nStopped. What was finished is kept; give the same command again to go on.")
    return result if isinstance(result, int) else 0


def _command() -> str:
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    return f"{first} " if first and not first.startswith("-") else ""


def _show_where(words: list[str]) -> None:
    if "-v" in words or "--verbose" in words:
        traceback.print_exc()
