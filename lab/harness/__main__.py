"""``python -m lab fuzz|chaos|mutate``: damaged files, killed studies, sources with small errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DESCRIPTION = "Try to break legible: read damaged files, kill studies, put errors into its sources."


def main() -> None:
    """Run the command; the exit code is 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m lab", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True)
    fuzz = commands.add_parser("fuzz", help="read damaged files of every kind")
    fuzz.add_argument("--mutants", type=int, help="how many; 20,000 unless --minutes is given")
    fuzz.add_argument("--minutes", type=float, help="run for this long instead")
    fuzz.add_argument("--seed", type=int, default=0, help="decides all mutants")
    fuzz.add_argument("--only", type=int, metavar="NUMBER", help="read this one mutant and say what happens")
    fuzz.add_argument("--kind", action="append", default=[], help="only files whose kind has this in its name")
    chaos = commands.add_parser("chaos", help="kill studies and resume them")
    chaos.add_argument("--kills", type=int, default=50, help="how many")
    chaos.add_argument("--engine", default="processes", choices=("processes", "inline", "ray"))
    chaos.add_argument("--seed", type=int, default=0, help="decides the moments")
    mutate = commands.add_parser("mutate", help="put small errors into modules and see whether their tests notice")
    mutate.add_argument(
        "--mutants", type=int, default=100, help="how many errors, one at a time; of the modules in turn"
    )
    mutate.add_argument("--seed", type=int, default=0, help="decides which")
    mutate.add_argument("--workers", type=int, default=2, help="how many side by side")
    mutate.add_argument(
        "--module", action="append", default=[], metavar="ROOM/MODULE.py", help="only this one; again for more"
    )
    mutate.add_argument("--out", type=Path, help="write the result as JSON, too")
    study = commands.add_parser("study", help="run the small study in a folder; chaos kills this")
    study.add_argument("folder", type=Path)
    study.add_argument("policy", type=Path)
    study.add_argument("engine")
    arguments = parser.parse_args()
    sys.exit({"fuzz": _fuzz, "chaos": _chaos, "mutate": _mutate, "study": _study}[arguments.command](arguments))


def _fuzz(arguments: argparse.Namespace) -> int:
    from lab.harness.fuzz import run_fuzz

    mutants = arguments.mutants or (None if arguments.minutes else 20_000)
    counts = run_fuzz(mutants, arguments.seed, minutes=arguments.minutes, only=arguments.only, kinds=arguments.kind)
    print(counts.table())
    return bool(counts.findings)


def _chaos(arguments: argparse.Namespace) -> int:
    from lab.harness.chaos import run_chaos

    result = run_chaos(arguments.kills, arguments.engine, arguments.seed, verbose=True)
    return bool(result.differences)


def _mutate(arguments: argparse.Namespace) -> int:
    from lab.harness.mutate import LEAST_NOTICED, run_mutate, save_result

    result = run_mutate(
        arguments.mutants, seed=arguments.seed, workers=arguments.workers, modules=tuple(arguments.module)
    )
    print(result.table())
    if arguments.out is not None:
        save_result(result, arguments.out)
    return bool(result.unjudged) or not result.share >= LEAST_NOTICED


def _study(arguments: argparse.Namespace) -> int:
    from lab.harness.chaos import run_study

    run_study(arguments.folder, arguments.policy, arguments.engine)
    return 0


if __name__ == "__main__":
    main()
