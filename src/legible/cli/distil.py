"""``legible distil``: a guided policy as a network without rules."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from legible.cli.choice import environment_spec, look_here_for_modules
from legible.cli.completion import complete_study
from legible.cli.drawing import Bars, out, print_json, say, table
from legible.cli.options import (
    PATH,
    engine_options,
    environment_options,
    json_option,
    trust_option,
    verbose_option,
)
from legible.errors import LegibleError
from legible.formatting import number, percent, signed, with_error
from legible.settings import DistillationSettings, settings_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from legible.distillation import Distillation, RoundCheck

# What needs PyTorch is imported when it is used: that takes seconds.

_PANEL = "Learning"
SHOWN = 5


def learning_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each of `DistillationSettings`."""
    for setting in reversed(tuple(settings_in(DistillationSettings))):
        command = click.option(
            f"--distil-{setting.name.replace('_', '-')}",
            type=setting.kind,
            metavar={int: "N", float: "X"}[setting.kind],
            help=f"{setting.help} [default: {setting.default:g}]",
            panel=_PANEL,
        )(command)
    return command


def learning_settings(given: dict[str, Any]) -> DistillationSettings | None:
    """Take the settings of learning out of the values of a command line; None where none was given."""
    said = {name: given.pop(f"distil_{name}") for name in [s.name for s in settings_in(DistillationSettings)]}
    said = {name: value for name, value in said.items() if value is not None}
    return DistillationSettings(**said) if said else None


@click.command
@click.argument(
    "source",
    metavar="STUDY|GUIDED",
    help="The folder of a study, or the file of a guided policy.",
    shell_complete=complete_study,
)
@click.option(
    "--out",
    metavar="FILE",
    type=PATH,
    required=True,
    help="Where the network goes: .zip for Stable-Baselines3 (DQN, PPO, SAC or TD3), or .safetensors.",
)
@click.option(
    "--env", metavar="ENV", help="Where a guided policy plays. [default: the environment that its file names]"
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    help="Decides everything that is random. [default: the study's, or 0]",
)
@click.option("--force", is_flag=True, help="Overwrite FILE if it is there.")
@environment_options
@learning_options
@trust_option
@engine_options
@json_option
@verbose_option
def distil(
    source: str,
    out: Path,
    env: str | None,
    seed: int | None,
    force: bool,
    arg: tuple[str, ...],
    wrap: tuple[str, ...],
    trust: bool,
    engine: str,
    workers: int | None,
    address: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Turn a guided policy into a network that needs no rules, and measure all three on fresh seeds.

    The network has the architecture of the policy and starts from its weights. It learns from its own episodes what
    the guided policy would do there, until agreement and return on held-out seeds no longer rise. Stopped, it goes on
    when the same command is given again.
    """
    from legible.engines import make_engine  # noqa: PLC0415
    from legible.study.distilling import distil as distil_source  # noqa: PLC0415

    started = time.monotonic()
    if trust:
        look_here_for_modules()
    if env is None and (arg or wrap):
        raise LegibleError("--arg and --wrap need --env: what else they belong to has its environment already.")
    with Bars(quiet=as_json) as bars:
        found = distil_source(
            source,
            out,
            environment=None if env is None else environment_spec(env, arg, wrap),
            seed=seed,
            settings=learning_settings(given),
            engine=make_engine(engine, workers, address),
            trust=trust,
            force=force,
            progress=bars,
            on_round=None if as_json else tell_round,
        )
    seconds = time.monotonic() - started
    if as_json:
        print_json({"source": source, "file": out, **found.to_dict(), "seconds": seconds})
        return
    print_distillation(found, out)


def tell_round(check: RoundCheck) -> None:
    """Say how far the network is after a round."""
    say(
        f"Round {check.number}: does what the guided policy would in {percent(check.agreement)} of its states, returns "
        f"{with_error(check.mean, check.error)} (held-out seeds)."
    )


def print_distillation(found: Distillation, path: Path) -> None:
    """Print the figures, the verdict and the rules that are still broken."""
    from legible.evaluation.figures import figure_table  # noqa: PLC0415

    console = out()
    columns, rows = figure_table(found.comparison.figure_rows())
    header, *lines = zip(columns, *rows, strict=True)
    console.print(table(header, lines))
    for name, effects in found.comparison.effects().items():
        effect = effects["mean"]
        against = "" if "against" in name else " against the policy alone"
        interval = f"{signed(effect.mean)} (95 % CI {signed(effect.low)} to {signed(effect.high)})"
        console.print(f"{name.capitalize()}{against}, same seeds: {interval}", markup=False)
    console.print(f"\n[bold]{found.verdict()}[/]", soft_wrap=True)
    console.print(found.rules_sentence(), soft_wrap=True)
    for rule in found.still_broken[:SHOWN]:
        console.print(
            f"  • {rule.rule.text(found.space)}: {percent(rule.broken)} of {number(rule.states)} states (before: "
            f"{percent(rule.broken_before)})",
            soft_wrap=True,
            markup=False,
        )
    console.print(f"Network: {path}", soft_wrap=True, markup=False)
