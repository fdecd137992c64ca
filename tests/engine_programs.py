"""Whole programs for the tests of the engines, which are interrupted or killed."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

PROGRAM = """
    import os, sys, time
    from pathlib import Path
    from legible.engines import make_engine

    folder = Path(sys.argv[1])

    def work(shared, unit):
        if unit > 0:
            (folder / f"unit {unit}").write_text(str(os.getpid()))
            time.sleep(60)
        return unit

    if __name__ == "__mp_main__":
        (folder / "a worker imports").touch()
        time.sleep(float(sys.argv[2]))

    if __name__ == "__main__":
        for report in make_engine(sys.argv[3], 2).run(work, None, range(10)):
            (folder / "first report").touch()
"""


def start(program: str, folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    script = folder / "program.py"
    script.write_text(textwrap.dedent(program))
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | environment,
    )


def in_mid_run(folder: Path) -> bool:
    running = [path for path in folder.glob("unit *") if path.read_text()]  # a file is there before its content
    return len(running) == 2 and (folder / "first report").exists()


def session_members(session: int) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, member_of = (process / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(member_of) == session and state != "Z":
            found.append(int(process.name))
    return found
