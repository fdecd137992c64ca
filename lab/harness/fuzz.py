"""Damaged files: every one is refused with a `LegibleError`, or read without harm.

- `run_fuzz`: reads mutants of all samples and counts what happens; `Outcome`: what can happen.

A mutant has a number. The seed and the number alone decide which file is damaged and how, so any finding can be made
again with ``--only NUMBER``.
"""

from __future__ import annotations

import random
import resource
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any

import torch

from lab.harness.samples import Sample, make_samples, plain
from legible.errors import LegibleError

SECONDS = 1.0  # of processor time; more is a hang
MEMORY = 200 * 2**20  # more than before is a bomb
_MOST_MEMORY = 4 * 2**30  # keeps the machine alive
_MOST_SECONDS = 60.0  # of any time, should a reader wait for something


class Outcome(StrEnum):
    """Outcome of reading a mutant; all but the first two are findings."""

    REFUSED = "refused"
    READ = "read"
    EXCEPTION = "other exception"
    HANG = "hang"
    MEMORY = "memory"
    DIFFERENCE = "silent difference"

    @property
    def is_finding(self) -> bool:
        """True for outcomes that must not happen."""
        return self not in {Outcome.REFUSED, Outcome.READ}


@dataclass
class Counts:
    """Counts of each outcome for every sample; and the findings in words."""

    outcomes: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def total(self, outcome: Outcome) -> int:
        """Return how often an outcome happened."""
        return sum(times for (_, what), times in self.outcomes.items() if what is outcome)

    def table(self) -> str:
        """Return all counts, a line for every sample."""
        names = dict.fromkeys(name for name, _ in self.outcomes)
        rows = [["", *Outcome]]
        rows += [[name, *(str(self.outcomes[name, what]) for what in Outcome)] for name in names]
        rows.append(["all", *(str(self.total(what)) for what in Outcome)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


class _TooLongError(BaseException):
    """No `Exception`, so that no reader takes it for damage."""


def run_fuzz(
    mutants: int | None,
    seed: int = 0,
    *,
    minutes: float | None = None,
    only: int | None = None,
    kinds: Sequence[str] = (),
) -> Counts:
    """Read mutants and count what happens; findings are printed as they come.

    Parameters
    ----------
    mutants
        How many; None for as many as there is time for.
    seed
        Decides all mutants.
    minutes
        The time after which it ends.
    only
        The number of the one mutant to read.
    kinds
        Read only files whose kinds have one of these texts in their names; numbers stay as they are.
    """
    torch.set_num_threads(1)
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        samples = make_samples(Path(folder))
        originals = [sample.path.read_bytes() for sample in samples]
        expected = [plain(sample.read(sample.path)) for sample in samples]
        with _limits():
            for number in _numbers(mutants, minutes, only):
                which = number % len(samples)
                sample = samples[which]
                if kinds and not any(kind in sample.name for kind in kinds):
                    continue
                draw = random.Random(f"{seed} {number}")
                damaged = sample.mutate(originals[which], draw)
                outcome, words = read_mutant(sample, damaged, expected[which])
                counts.outcomes[sample.name, outcome] += 1
                if only is not None:
                    print(f"{sample.name}: {outcome}: {words}")
                elif outcome.is_finding:
                    counts.findings.append(f"--seed {seed} --only {number}: {sample.name}: {outcome}: {words}")
                    print(counts.findings[-1], flush=True)
                sample.path.write_bytes(originals[which])
    return counts


def _numbers(mutants: int | None, minutes: float | None, only: int | None) -> Iterator[int]:
    if only is not None:
        yield only
        return
    end = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    numbers: Iterable[int] = count() if mutants is None else range(mutants)
    for number in numbers:
        if time.monotonic() > end:
            return
        yield number


@contextmanager
def _limits() -> Iterator[None]:
    """Let time limits raise, and keep mutants from taking all memory."""

    def stop(_signal: int, _frame: Any) -> None:
        raise _TooLongError

    signals = (signal.SIGPROF, signal.SIGALRM)
    before = [signal.signal(number, stop) for number in signals]
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + _MOST_MEMORY, hard))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _memory(name: str) -> int:
    """Return an entry of what Linux says about this process's memory, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def read_mutant(sample: Sample, damaged: bytes, expected: Any) -> tuple[Outcome, str]:
    """Read a damaged file; return what happened, and in words why."""
    sample.path.write_bytes(damaged)
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory starts anew
    memory, start = _memory("VmRSS"), time.process_time()
    outcome, words = Outcome.READ, ""
    try:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, _MOST_SECONDS)
        found = sample.read(sample.path)
    except LegibleError as error:
        outcome, words = Outcome.REFUSED, str(error)
    except _TooLongError:
        outcome, words = Outcome.HANG, f"took longer than {SECONDS:g} s"
    except Exception as error:
        outcome, words = Outcome.EXCEPTION, _where(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    seconds, grown = time.process_time() - start, _memory("VmHWM") - memory
    if seconds > SECONDS:
        return Outcome.HANG, f"took {seconds:.1f} s; {words}"
    if grown > MEMORY:
        return Outcome.MEMORY, f"took {grown / 2**20:.0f} MB; {words}"
    if outcome is Outcome.READ and sample.is_checked and plain(found) != expected:
        return Outcome.DIFFERENCE, "was read without complaint, and is not what was written"
    return outcome, words


def _where(error: Exception) -> str:
    """Return the error in words, with the innermost place in legible."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{Path(code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__}: {str(error)[:150]!r} at {' > '.join(places[-5:])}"
