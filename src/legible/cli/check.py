"""``legible check``: whether an environment is fit for a study."""

from __future__ import annotations

from pathlib import Path

import rich_click as click
from click.exceptions import Exit
from rich.markup import escape

from legible.cli.choice import environment_spec, load_typed_policy
from legible.cli.drawing import out, print_json
from legible.cli.options import (
    env_argument,
    environment_options,
    json_option,
    names_option,
    policy_argument,
    policy_options,
    seed_option,
    verbose_option,
)

_MARKS = {"yes": "[green]✓[/]", "no": "[bold red]✗[/]", "mind": "[yellow]![/]"}


@click.command
@env_argument()
@policy_argument()
@seed_option("Of the episodes that are tried.")
@names_option
@environment_options
@policy_options
@json_option
@verbose_option
def check(
    env: str,
    policy: str | None,
    seed: int,
    names: Path | None,
    arg: tuple[str, ...],
    wrap: tuple[str, ...],
    normalisation: str | None,
    policy_output: str | None,
    as_json: bool,
) -> None:
    """Check whether ENV is fit for a study: same seed, same episode; kinds of features; how long a study takes.

    Ends with exit code 1 when it is not.
    """
    from legible.study.check import check_env  # noqa: PLC0415

    spec = environment_spec(env, arg, wrap)
    loaded = None if policy is None else load_typed_policy(spec, policy, normalisation, policy_output)
    found = check_env(spec, loaded, names=names, seed=seed)
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
        raise Exit(1)
