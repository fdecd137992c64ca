"""``python -m lab NAME …``: benchmarks, harnesses, the paper's tables, studies of many policies."""

from __future__ import annotations

import runpy
import sys

PROGRAMS = {
    "bench": "lab.bench",
    "fuzz": "lab.harness",
    "chaos": "lab.harness",
    "mutate": "lab.harness",
    "reproduce": "lab.reproduction",
    "studies": "lab.studies",
}


def main() -> None:
    """Run the program that the first word names."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in PROGRAMS:
        sys.exit(f"usage: python -m lab {'|'.join(PROGRAMS)} …")
    module = PROGRAMS[name]
    rest = sys.argv[1:] if module == "lab.harness" else sys.argv[2:]
    sys.argv = [f"python -m {module}", *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
