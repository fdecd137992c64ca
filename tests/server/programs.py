"""``legible open`` as a program, and the browser."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

CHROMIUM = os.environ.get("LEGIBLE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
]


class Opened:
    """``legible open`` as a program."""

    def __init__(self, *words: str | Path) -> None:
        command = [sys.executable, "-m", "legible", "open", "--no-browser", "--workers", "1", *map(str, words)]
        folders = [str(Path(__file__).parents[1]), *sys.path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)
        self.address = self.process.stdout.readline().strip()
        self.cookie = ""

    def ask(self, path: str, body: object = None, **headers: str) -> bytes:
        base = self.address.partition("/?token=")[0]
        data = None if body is None else json.dumps(body).encode()
        sent = {"content-type": "application/json", "x-legible": "1", "cookie": self.cookie, **headers}
        with urllib.request.urlopen(urllib.request.Request(base + path, data, sent), timeout=60) as answer:
            self.cookie = (answer.headers["set-cookie"] or self.cookie).partition(";")[0]
            return answer.read()

    def children(self) -> list[int]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                name, _, rest = entry.read_text().rpartition(")")
            except OSError:
                continue
            if int(rest.split()[1]) == self.process.pid:
                found.append(int(name.split()[0]))
        return found
