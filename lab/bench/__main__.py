"""``python -m lab.bench [--quick] [NAME …]``: all benchmarks, or those named."""

from __future__ import annotations

import argparse
import importlib

from rich.console import Console

NAMES = (
    "pacman",
    "ripper",
    "lime",
    "mining",
    "relations",
    "discovery",
    "evaluation",
    "fleet",
    "highway",
    "confirmation",
    "finding",
    "workbench",
    "causes",
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="less data, rougher figures")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(NAMES))
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; they are {', '.join(NAMES)}")
    for name in arguments.names or NAMES:
        Console().rule(name)
        importlib.import_module(f"lab.bench.bench_{name}").main(quick=arguments.quick)
