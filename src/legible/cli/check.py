"""``legible check``: whether an environment is fit for a study."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from legible.cli.drawing import out, print_json
from legible.cli.options import (
    ArgOption,
    EnvArgument,
    JsonOption,
    NamesOption,
    VerboseOption,
    WrapOption,
    environment_spec,
)

_MARKS = {"yes": "[green]✓[/]", "no": "[bold red]✗[/]", "mind": "[yellow]![/]"}


def check(
    env: EnvArgument,
    policy: Annotated[
        str | None, typer.Argument(metavar="[POLICY]", help="Policy: a .zip or .safetensors file, or zoo:NAME.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the episodes that are tried.")] = 0,
    time_limit: Annotated[
        float, typer.Option(min=0, help="Seconds after which an episode is given up (0: never), if it may hang.")
    ] = 0.0,
    names: NamesOption = None,
    arg: ArgOption = None,
    wrap: WrapOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,  # noqa: ARG001 (read by main)
) -> None:
    """Check whether ENV is fit for a study: same seed, same episode; kinds of features; how long a study takes.

    Ends with exit code 1 when it is not.
    """
    from legible.study.check import check_env  # noqa: PLC0415

    spec = environment_spec(env, arg, wrap)
    found = check_env(spec, policy, names=names, seed=seed, time_limit=time_limit or None)
    fit = all(finding.answer != "no" for finding in found)
    if as_json:
        print_json({"environment": env, "arguments": dict(spec.arguments), "fit": fit, "findings": found})
    else:
        console = out()
        for finding in found:
            console.print(
                f"{_MARKS[finding.answer]} [bold]{finding.question}[/]: {escape(finding.details)}", soft_wrap=True
            )
        console.print(f"{escape(env)} is fit for a study." if fit else f"{escape(env)} is not fit for a study.")
    if not fit:
        raise typer.Exit(1)
