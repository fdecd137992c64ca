"""Work that takes longer than an answer may: one piece at a time, streamed, and stopped when the page is gone.

- `make_workers`: the worker processes that play.
- `Player`: the thread that plays; pieces wait in line, and the line is short.
- `Job`: one piece of work; `StoppedError` ends it.
- `Emit`: a function that sends a message to the page.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from legible.engines import LocalProcesses
from legible.errors import LegibleError, describe_error

Emit = Callable[[Mapping[str, Any]], None]
Work = Callable[[Emit], None]
MOST_WAITING = 6
MOST_WORKERS = 3
"""Workers by default: they stay, and each needs about 300 MB."""


class BusyError(LegibleError):
    """Too much is being played already."""


class StoppedError(Exception):
    """The end of a piece of work whose page is gone."""


class Job:
    """One piece of work, and where its messages go.

    Parameters
    ----------
    work
        Called with a function that sends messages.
    send
        Gets every message; None at the end.
    is_background
        Whether it ends when anything else has to be played.
    """

    def __init__(
        self, work: Work, send: Callable[[Mapping[str, Any] | None], None], *, is_background: bool = False
    ) -> None:
        self._work, self._send, self.is_background = work, send, is_background
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let the work end at its next message."""
        self._stopped.set()

    def emit(self, message: Mapping[str, Any]) -> None:
        """Send a message; end the work if the page is gone."""
        if self._stopped.is_set():
            raise StoppedError
        self._send(message)

    def run(self) -> None:
        """Do the work; an error is a message, too."""
        try:
            if not self._stopped.is_set():
                self._work(self.emit)
        except StoppedError:
            pass
        except LegibleError as error:
            self._send({"kind": "error", "error": str(error)})
        except Exception as error:  # the page must show it, and the server goes on
            self._send({"kind": "error", "error": f"Unexpected {describe_error(error)}."})
        finally:
            self._send(None)


def make_workers(count: int | None = None) -> LocalProcesses:
    """Return worker processes: by default one per core, but at most `MOST_WORKERS`."""
    per_core = LocalProcesses(count)
    return per_core if count is not None else LocalProcesses(min(per_core.workers, MOST_WORKERS))


class Player:
    """A thread that does one piece of work after the other."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[Job | None] = queue.Queue()
        self._jobs: list[Job] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="legible player", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Put work in line; raise `BusyError` if the line is long."""
        with self._lock:
            in_line = [other for other in self._jobs if not other.is_background]
            if len(in_line) >= MOST_WAITING:
                raise BusyError(f"{len(in_line)} plays are running or waiting; wait until one has ended.")
            for other in self._jobs:
                if other.is_background:
                    other.stop()
            if in_line:
                job.emit({"kind": "progress", "stage": "waiting", "done": 0, "of": len(in_line)})
            self._jobs.append(job)
        self._waiting.put(job)

    def prepare(self, work: Work) -> None:
        """Do work in the background, which nobody waits for, until something else has to be played."""
        with suppress(BusyError):
            self.submit(Job(work, lambda _: None, is_background=True))

    def close(self) -> None:
        """Stop what runs and waits, and the thread."""
        with self._lock:
            for job in self._jobs:
                job.stop()
        self._waiting.put(None)
        self._thread.join(1.0)

    def _run(self) -> None:
        while (job := self._waiting.get()) is not None:
            job.run()
            with self._lock:
                self._jobs.remove(job)
