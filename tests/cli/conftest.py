"""The command line as a person types it, in this process."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from legible import cli


class Said(NamedTuple):
    """What a command said: its exit code, and what stands on standard output and standard error."""

    code: int
    out: str
    err: str


@pytest.fixture
def legible(monkeypatch, capsys) -> Callable[..., Said]:
    """Return a function that runs the command with words after it."""

    def call(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["legible", *map(str, words)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as left:
            cli.main()
        said = capsys.readouterr()
        return Said(int(left.value.code or 0), said.out, said.err)

    return call
