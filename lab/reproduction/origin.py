"""Origin of a record: the version of the code, the processor.

- `code_version`: the package's version, the commit of a clone, and a fingerprint of the sources.
- `processor_name`: the kind of processor, as the system calls it.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
from pathlib import Path

import legible

PACKAGE = Path(legible.__file__).parent
DIGITS = 12


def code_version() -> dict[str, str]:
    """Return ``version``, ``commit`` ("" outside a clone) and ``sources``, a hash of all modules."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    commit, git = "", shutil.which("git")
    if git is not None:
        command = [git, "-C", str(PACKAGE), "rev-parse", "HEAD"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        commit = asked.stdout.strip()[:DIGITS] if asked.returncode == 0 else ""
    return {"version": legible.__version__, "commit": commit, "sources": digest.hexdigest()[:DIGITS]}


def processor_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
