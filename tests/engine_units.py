"""Units of work for the tests of the engines, in a module that worker processes can import."""

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from legible.errors import LegibleError


def seeded(shared: np.ndarray, unit: int) -> np.ndarray:
    rng = np.random.default_rng(unit)
    states = rng.normal(size=(256, shared.shape[0])).astype(np.float32)
    return np.tanh(states @ shared) @ rng.normal(size=(shared.shape[1], 5)).astype(np.float32)


def torch_product(shared: np.ndarray, unit: int) -> np.ndarray:
    import torch

    states = np.random.default_rng(unit).normal(size=(512, shared.shape[0])).astype(np.float32)
    return (torch.from_numpy(states) @ torch.from_numpy(shared)).sum(dim=0).numpy()


def note(folder: Path, unit: object) -> int:
    """Record another run of the unit; return the number of its runs."""
    with (folder / f"{unit}.runs").open("a") as file:
        file.write(f"{os.getpid()}\n")
    return len(runs(folder, unit))


def runs(folder: Path, unit: object) -> list[int]:
    """Return the processes that have run the unit, one entry per run."""
    path = folder / f"{unit}.runs"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def wait_for_the_word(folder: Path, unit: int) -> int:
    """Return the unit; unit 0 waits until the caller has the other's result."""
    if unit == 0:
        assert wait_for((folder / "go on").exists)
    return unit


def misbehave(folder: Path, unit: str) -> object:
    """Misbehave as the unit says; return other units unchanged."""
    count = note(folder, unit)
    if unit == "dies" or (unit == "dies twice" and count <= 2) or (unit == "dies, then raises" and count == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if unit in {"raises", "dies, then raises"} or (unit == "raises once" and count == 1):
        raise ZeroDivisionError("the cart has no wheels")
    if unit == "exits":
        sys.exit("the environment has had enough")
    if unit == "leaves":
        os._exit(7)
    while unit == "hangs":
        try:
            time.sleep(60)
        except Exception:  # as environments do that want to go on at any price
            continue
    if unit == "hangs in C":
        deque(repeat(0), maxlen=0)
    given = {"gives a lock": threading.Lock(), "gives its process": os.getpid()}
    return given.get(unit, unit)


def leave_a_child(folder: Path, unit: str) -> None:
    """Die in the first run and leave a process behind that keeps all files open."""
    if note(folder, unit) == 1:
        if os.fork() > 0:
            os._exit(7)
        time.sleep(5)
        os._exit(0)


class OneWay:
    """An object that can be pickled but not unpickled."""

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return int, ("not a number",)


def give_one_way(shared: None, unit: int) -> OneWay:
    return OneWay()


class PickyError(LegibleError):
    """An error that cannot be rebuilt from its message alone."""

    def __init__(self, place: str, number: int) -> None:
        super().__init__(f"{place} {number}")


class UnfitError(LegibleError):
    """An error that can."""


def refuse(shared: None, unit: str) -> None:
    if unit == "picky":
        raise PickyError("place", 3)
    raise UnfitError("the environment is unfit")


def hang_stubbornly(folder: Path, unit: str) -> None:
    """Hang, and go on after the first interruption."""
    try:
        time.sleep(60)
    except BaseException:
        note(folder, unit)
        time.sleep(60)


def slowly(folder: Path, unit: int) -> int:
    note(folder, unit)
    time.sleep(0.2)
    return unit * unit


def threads_in_use(shared: None, unit: int) -> set[int]:
    import torch
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    return {torch.get_num_threads()} | {pool["num_threads"] for pool in threadpool_info()}


class Parcel:
    """Notes in a folder when it is packed, and in which process it is unpacked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getstate__(self) -> dict[str, object]:
        note(self.folder, "packed")
        return self.__dict__

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__ |= state
        note(self.folder, "unpacked")


def with_parcel(shared: Parcel, unit: int) -> int:
    time.sleep(0.05)
    return unit


def slow_table(shared: SimpleNamespace, unit: int) -> np.ndarray:
    """Return a result so large that Ray leaves it where it was made."""
    if shared.folder is not None:
        note(shared.folder, unit)
    time.sleep(shared.seconds)
    return np.random.default_rng(unit).normal(size=(400, 400))


_half_done: list[object] = []


def half_done(folder: Path, unit: object) -> str:
    """Begin work that only a fresh process can finish; in its first run, unit "a" takes too long."""
    times = note(folder, unit)
    if _half_done:
        return "half done"
    _half_done.append(unit)
    if times == 1 and unit == "a":
        time.sleep(60)
    return "all done"
