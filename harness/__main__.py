"""``python -m harness fuzz|chaos``: damaged files, killed studies."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DESCRIPTION = "Try to break legible: read damaged files, kill studies."


def main() -> None:
    """Read the arguments and do what they say; the exit code tells whether anything was found."""
    parser = argparse.ArgumentParser(prog="python -m harness", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True)
    fuzz = commands.add_parser("fuzz", help="read damaged files of every kind")
    fuzz.add_argument("--mutants", type=int, help="how many; 20,000 unless --minutes is given")
    fuzz.add_argument("--minutes", type=float, help="go on for so long")
    fuzz.add_argument("--seed", type=int, default=0, help="decides all mutants")
    fuzz.add_argument("--only", type=int, metavar="NUMBER", help="read this one mutant and say what happens")
    fuzz.add_argument("--kind", action="append", default=[], help="only files whose kind has this in its name")
    chaos = commands.add_parser("chaos", help="kill studies and resume them")
    chaos.add_argument("--kills", type=int, default=50, help="how many")
    chaos.add_argument("--engine", default="processes", choices=("processes", "inline", "ray"))
    chaos.add_argument("--seed", type=int, default=0, help="decides the moments")
    study = commands.add_parser("study", help="run the small study in a folder; chaos kills this")
    study.add_argument("folder", type=Path)
    study.add_argument("policy", type=Path)
    study.add_argument("engine")
    arguments = parser.parse_args()
    sys.exit({"fuzz": _fuzz, "chaos": _chaos, "study": _study}[arguments.command](arguments))


def _fuzz(arguments: argparse.Namespace) -> int:
    from harness.fuzz import run_fuzz

    mutants = arguments.mutants or (None if arguments.minutes else 20_000)
    counts = run_fuzz(mutants, arguments.seed, minutes=arguments.minutes, only=arguments.only, kinds=arguments.kind)
    print(counts.table())
    return bool(counts.findings)


def _chaos(arguments: argparse.Namespace) -> int:
    from harness.chaos import run_chaos

    result = run_chaos(arguments.kills, arguments.engine, arguments.seed)
    print(result)
    return bool(result.differences)


def _study(arguments: argparse.Namespace) -> int:
    from harness.chaos import run_study

    run_study(arguments.folder, arguments.policy, arguments.engine)
    return 0


if __name__ == "__main__":
    main()
