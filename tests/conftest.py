"""Settings and fixtures of all tests: reproducible examples, no deadline on a busy machine, texts as snapshots."""

from __future__ import annotations

import re
import shutil
import signal
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import settings
from syrupy.extensions.amber import AmberSnapshotExtension

from legible.play import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from syrupy.assertion import SnapshotAssertion

# A shell that runs the tests in the background has them ignore Ctrl-C, and every process that they start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("legible", derandomize=True, deadline=None)
settings.load_profile("legible")


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion, tmp_path_factory: pytest.TempPathFactory) -> SnapshotAssertion:
    """Compare a text with the one in ``__snapshots__``; ``make snapshots`` writes them anew after a rewording.

    The temporary folder of a test, addresses of objects and lines of code are replaced, so that texts are the same
    everywhere.
    """
    test_folder = re.compile(re.escape(str(tmp_path_factory.getbasetemp())) + r"/[^/\s'\":]+")

    class Texts(AmberSnapshotExtension):
        def serialize(self, data: Any, **options: Any) -> str:
            if isinstance(data, str):
                data = re.sub(r"0x[0-9a-f]{8,}", "0x…", test_folder.sub("TMP", data))
                data = re.sub(r"(\.py):\d+\)", r"\1:…)", data)
            return super().serialize(data, **options)

    return snapshot.use_extension(Texts)


@pytest.fixture
def raises_saved(snapshot: SnapshotAssertion) -> Callable[..., Any]:
    """As `pytest.raises`, and the message must be the one in the snapshot."""

    @contextmanager
    def check(error: type[Exception]) -> Iterator[pytest.ExceptionInfo[Exception]]:
        with pytest.raises(error) as caught:
            yield caught
        assert str(caught.value) == snapshot

    return check


@pytest.fixture(scope="session")
def policy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network for the mirror world that has a known flaw."""
    from flawed_network import save_flawed_network

    with one_thread():
        return save_flawed_network(tmp_path_factory.mktemp("policy") / "mirror.safetensors")


@pytest.fixture(scope="session")
def finished_study(policy_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small study with all its steps done; tests that change it take `study_copy`."""
    from small_studies import small_study

    folder = tmp_path_factory.mktemp("finished") / "s"
    small_study(folder, policy_file).run()
    return folder


@pytest.fixture
def study_copy(finished_study: Path, tmp_path: Path) -> Path:
    """A copy of the finished study."""
    return shutil.copytree(finished_study, tmp_path / "s")


class Said(NamedTuple):
    """The exit code of a command, its standard output and its standard error."""

    code: int
    out: str
    err: str


@pytest.fixture
def legible(monkeypatch, capsys) -> Callable[..., Said]:
    """Return a function that runs a command in a terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")

    from legible import cli

    def call(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["legible", *map(str, words)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as left:
            cli.main()
        said = capsys.readouterr()
        return Said(int(left.value.code or 0), said.out, said.err)

    return call


HOW_TO_ENABLE = {
    "Chromium": "apt-get install chromium",
    "ray": "make test-ray",
    "GPU": "a CUDA device",
    "Triton": "PyTorch for CUDA",
    "ocatari": "pip install --no-deps ocatari",
    "wittgenstein": "pip install -e '.[peers]'",
}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End with one line that says what was skipped and how to enable it."""
    skipped: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        name = next((name for name in HOW_TO_ENABLE if re.search(rf"\b{name}\b", reason)), "")
        skipped[f"need {name} ({HOW_TO_ENABLE[name]})" if name else "do not apply (pytest -rs)"] += 1
    if skipped:
        parts = [f"{count} {reason}" for reason, count in skipped.most_common()]
        terminalreporter.write_line(f"Skipped tests: {', '.join(parts)}.")
