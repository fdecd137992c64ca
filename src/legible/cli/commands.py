"""The command line: it parses, calls the library and prints.

Exit codes: 0; 1 if a command ran but the answer is no, or something failed on the way; 2 for wrong input; 130 after
Ctrl-C. ``legible verify`` has 1 for a violation only, 3 for undecided, and 4 if something failed on the way.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import rich_click as click

from legible import __version__
from legible.cli.check import check
from legible.cli.comparing import compare
from legible.cli.distil import distil
from legible.cli.drawing import complain, say
from legible.cli.open import open_command
from legible.cli.options import add_help_all
from legible.cli.play import play
from legible.cli.relations import relations
from legible.cli.run import run, settings
from legible.cli.show import show
from legible.cli.training import export, train, zoo
from legible.cli.trying import try_command
from legible.cli.verifying import verify
from legible.errors import LegibleError, describe_error, place_in_user_code

STOPPED = 130
STOPPED_WORDS = "Stopped. Finished work is kept; the same command continues."
STOP_SECONDS = 2.0  # for an orderly end after Ctrl-C
PANELS: dict[str, tuple[click.Command, ...]] = {
    "Find weaknesses": (run, show, settings),
    "Ask one question": (try_command, open_command, compare, verify),
    "Policies": (distil, train, zoo, export, play),
    "Environments": (check, relations),
}


@click.group(
    panels=[click.RichCommandPanel(title, [str(c.name) for c in commands]) for title, commands in PANELS.items()],
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Tab completes commands, options, environments, relations, studies and zoo:NAME after "
    "'eval \"$(_LEGIBLE_COMPLETE=bash_source legible)\"' (or zsh_source, fish_source) in your shell's start-up file.",
)
@click.version_option(__version__, message="legible %(version)s", help="Print the version.")
def app() -> None:
    """Find out where a reinforcement-learning policy is weak, why, and fix it with rules."""


for _commands in PANELS.values():
    for _command in _commands:
        app.add_command(_command)
        for _inner in _command.commands.values() if isinstance(_command, click.Group) else (_command,):
            add_help_all(_inner)


def main() -> None:
    """Run the command line and exit; an error is one line on standard error and an exit code, never a traceback.

    With ``--verbose``, the place in the code where the error was raised follows.
    """
    atexit.register(gc.freeze)  # otherwise, the garbage collector looks through everything at exit, for seconds
    try:
        with _stopping_in_time():
            sys.exit(_run())
    except BrokenPipeError:
        os._exit(1)  # the reader of our output is gone; flushing would raise again
    except Exception as error:
        complain(_describe(error))
        if {"-v", "--verbose"} & set(sys.argv[1:]):
            traceback.print_exc()
        sys.exit(error.exit_code if isinstance(error, LegibleError) else 1)


def _describe(error: Exception) -> str:
    """Return an error in a line for users."""
    if isinstance(error, LegibleError):  # wrong input, or something that cannot be done: the message is for users
        return str(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}."
    if place_in_user_code(error):  # an environment or policy of the user's
        return f"your code raised {describe_error(error)} when legible called it. Fix it there."
    return f"unexpected {type(error).__name__}: {error} (a bug: please report it with the output of --verbose)."


@contextmanager
def _stopping_in_time() -> Iterator[None]:
    """End the program `STOP_SECONDS` after Ctrl-C even if the code in the ``with`` block does not react.

    Compiled code, for instance, does not return to Python, where Ctrl-C raises KeyboardInterrupt. So a thread watches:
    Python writes the number of every signal to a socket, and the thread reads it. Files are written whole or not at
    all, so the program may end at any moment.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def watch() -> None:
        """Wait for Ctrl-C, then give the code some seconds to end, and end the program."""
        signal_byte = reader.recv(1)
        while signal_byte and signal_byte[0] != signal.SIGINT:
            signal_byte = reader.recv(1)
        # No byte: the socket was closed because the block has ended. The block may also end within the seconds.
        if not signal_byte or has_ended.wait(STOP_SECONDS):
            return
        processes = sys.modules.get("multiprocessing")  # it is slow to import, and there only if there are workers
        for child in processes.active_children() if processes else ():
            child.kill()
        say(STOPPED_WORDS)
        sys.stdout.flush()
        os._exit(STOPPED)

    has_ended = threading.Event()
    previous_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        has_ended.set()
        signal.set_wakeup_fd(previous_fd)
        writer.close()


def _run() -> int:
    """Run a command and return its exit code."""
    try:
        result = app.main(prog_name="legible", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        say(STOPPED_WORDS)
        return STOPPED
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        command = context.command_path if context is not None else "legible"
        complain(f"{error.format_message()} ('{command} --help' shows how it is used.)")
        return error.exit_code
    return result if isinstance(result, int) else 0
