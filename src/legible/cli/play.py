"""``legible play``: watch an episode of a policy, guided or not, in the terminal or in a window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from rich.console import Console

from legible.cli.choice import environment_spec, open_study
from legible.cli.options import (
    PATH,
    environment_options,
    policy_argument,
    seed_option,
    target_argument,
    trust_option,
    verbose_option,
)
from legible.errors import LegibleError

if TYPE_CHECKING:
    from legible.environments import EnvironmentSpec
    from legible.guidance import GuidedPolicy
    from legible.policies import Policy


@click.command
@target_argument("Or the folder of a study, whose guided policy plays.")
@policy_argument(", guided or not; random actions without")
@seed_option("Seed of the episode and of random actions.")
@click.option(
    "--fps", metavar="X", type=click.FloatRange(min=0.1), default=12, show_default=True, help="Frames a second."
)
@click.option("--window", is_flag=True, help="Watch in a window instead of the terminal.")
@click.option("--unguided", is_flag=True, help="Leave the rules out.")
@click.option("--log", metavar="FILE", type=PATH, help="Add what the rules changed to this file, as JSON lines.")
@environment_options
@trust_option
@verbose_option
def play(
    target: str,
    policy: str | None,
    seed: int,
    fps: float,
    window: bool,
    unguided: bool,
    log: Path | None,
    arg: tuple[str, ...],
    wrap: tuple[str, ...],
    trust: bool,
) -> None:
    """Watch one episode, and where rules step in if the policy is guided."""
    from legible.cli.watch import make_watchable, watch  # noqa: PLC0415

    spec, player = _find(target, policy, arg, wrap, seed, unguided=unguided, trust=trust)
    console = Console(highlight=False)
    environment = make_watchable(spec, window=window, drawn=console.is_terminal)
    try:
        watch(environment, player, console, seed, 1 / fps, log)
    finally:
        environment.close()


def _find(
    target: str,
    policy: str | None,
    arguments: tuple[str, ...],
    wrappers: tuple[str, ...],
    seed: int,
    *,
    unguided: bool,
    trust: bool,
) -> tuple[EnvironmentSpec, Policy | GuidedPolicy | None]:
    """What is meant: an environment and who plays in it; None plays at random."""
    if policy is None and Path(target, "study.json").is_file():
        if arguments or wrappers:
            raise LegibleError(f"--arg and --wrap: the study in {target} has its environment already.")
        study = open_study(Path(target), trust=trust)
        return study.environment, study.policy if unguided else study.guided_policy(seed)
    spec = environment_spec(target, arguments, wrappers)
    if policy is None:
        return spec, None
    return spec, _load(policy, seed, unguided=unguided)


def _load(path: str, seed: int, *, unguided: bool) -> Policy | GuidedPolicy:
    from legible.guidance import GuidedPolicy  # noqa: PLC0415
    from legible.policies import load_policy  # noqa: PLC0415

    policy = load_policy(path)
    if unguided or not GuidedPolicy.is_in(policy):
        return policy
    return GuidedPolicy.load(path, seed=seed)
