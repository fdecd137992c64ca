"""Seconds that a user of the workbench waits: until the page can be typed in, for first figures, and for verdicts.

``python -m lab.bench.workbench_seconds [--wait S] [--workers N] POLICY_OF_CARTPOLE`` starts ``legible open`` with an
empty cache of episodes, on PacmanSmall and on CartPole, and tries three rules over HTTP: one that helps, one without
effect, one that harms. `--wait` is the time that the user takes to type the first rule; all others follow at once.

With ``--idle`` and a study instead of the policy: the memory of the workbench while its page asks for news of a study
as often as in eight hours, but faster.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PACMAN = ("legible/PacmanSmall-v0", "zoo:PacmanSmall/ppo/4")
RULES = {
    "legible/PacmanSmall-v0": (
        "\n".join(f"-{way} <- not food.{way.lower()} & ghost1.scared" for way in ("North", "South", "East", "West")),
        "-North <- ghost0.path.north & ghost0.length < 3 & not ghost0.scared",
        "-North <- food.north",
    ),
    "CartPole-v1": (
        "+Right <- pole.angle > 0 & pole.velocity > 0",
        "+Right <- pole.angle > 0.1",
        "+Left <- cart.velocity > 0.5",
    ),
}
"""For each environment a rule that helps, one without effect, and one that harms."""
POLL_SECONDS, POLLS = 2, 14_400
"""The page asks for news every two seconds: so often in eight hours."""
POLLS_PER_SECOND = 35.0  # fewer than the server's limit


class Page:
    """A page of the workbench: it has entered with the token and asks over HTTP."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=600)
        self._connection.request("GET", f"/?{parts.query}")
        answer = self._connection.getresponse()
        answer.read()
        self._cookie = answer.headers["set-cookie"].partition(";")[0]

    def _post(self, name: str, body: dict[str, Any]) -> http.client.HTTPResponse:
        headers = {"content-type": "application/json", "x-legible": "1", "cookie": self._cookie}
        self._connection.request("POST", f"/api/{name}", json.dumps({"subject": 0, **body}), headers)
        return self._connection.getresponse()

    def ask(self, name: str, **body: Any) -> Any:
        """Return an answer."""
        return json.loads(self._post(name, body).read())

    def stream(self, name: str, **body: Any) -> Iterator[tuple[float, Any]]:
        """Yield messages, each with the seconds since the question."""
        started, answer = time.perf_counter(), self._post(name, body)
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield time.perf_counter() - started, json.loads(line[6:])


@contextmanager
def opened(*words: str) -> Iterator[tuple[str, int]]:
    """Start ``legible open`` with an empty cache; give its address and process id, and stop it at the end."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "legible", "open", "--no-browser", *words]
        environment = os.environ | {"LEGIBLE_CACHE": cache}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)


def measure(environment: str, policy: str, options: list[str], wait: float) -> None:
    """Print the seconds of one environment."""
    started = time.perf_counter()
    with opened(environment, policy, *options) as (address, _):
        listens = time.perf_counter() - started
        page = Page(address)
        about = page.ask("about")
        if "error" in about:
            sys.exit(about["error"])
        print(f"{environment}: address after {listens:.1f} s, page ready after {time.perf_counter() - started:.1f} s")
        time.sleep(wait)
        for rule in RULES[environment]:
            read = page.ask("read", rule=rule)
            first, looks = None, []
            for seconds, message in page.stream("try", rule=rule, related=False):
                if message["kind"] == "error":
                    sys.exit(message["error"])
                if message["kind"] == "figures":
                    first = seconds if first is None else first
                    looks.append(f"{seconds:.1f}: {message['rules'][0]['changed']}")
            print(
                f"  read {read['milliseconds']:4.0f} ms, first figure {first:4.1f} s, verdict {seconds:4.1f} s "
                f" {rule!r}"
                f"\n    {message['rules'][0]['sentence']}\n    changed episodes by time: {', '.join(looks)}",
                flush=True,
            )


def memory(process: int) -> float:
    """Return the megabytes that a process and its children use; memory that they share counts once (PSS)."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if process in (int(folder.name), parent):
                (kilobytes,) = re.findall(r"^Pss: *(\d+) kB", (folder / "smaps_rollup").read_text(), re.MULTILINE)
                total += int(kilobytes)
    return total / 1024


def measure_idle(study: str, options: list[str]) -> None:
    """Print the memory of the workbench of a study while its page waits for eight hours, in fast motion."""
    with opened(study, *options) as (address, process):
        page = Page(address)
        page.ask("about")
        list(page.stream("try", rule=RULES[PACMAN[0]][0]))
        version = page.ask("studies")["version"]
        for polls in range(POLLS + 1):
            if polls % (POLLS // 4) == 0:
                print(f"{polls * POLL_SECONDS / 3600:.0f} hours: {memory(process):.0f} MB", flush=True)
            time.sleep(1.0 / POLLS_PER_SECOND)
            answer = page.ask("studies", version=version)
            if answer != {"version": version}:
                sys.exit(f"an unexpected answer: {answer}")


def main() -> None:
    """Measure both environments, or the memory of a study's workbench."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", type=Path, help="a policy for CartPole-v1, or a study")
    parser.add_argument("--idle", action="store_true", help="measure memory")
    parser.add_argument("--wait", type=float, default=0.0)
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    options = [] if arguments.workers is None else ["--workers", str(arguments.workers)]
    if arguments.idle:
        measure_idle(str(arguments.policy), options)
        return
    for environment, policy in (PACMAN, ("CartPole-v1", str(arguments.policy))):
        measure(environment, policy, options, arguments.wait)


if __name__ == "__main__":
    main()
