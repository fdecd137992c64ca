"""``legible play``: watch an episode of a policy, guided or not, in the terminal or in a window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from rich.console import Console

from legible.cli.choice import environment_spec, load_typed_policy, look_here_for_modules, open_study, options_of_policy
from legible.cli.drawing import Bars
from legible.cli.options import (
    PATH,
    environment_options,
    policy_argument,
    policy_options,
    seed_option,
    target_argument,
    trust_option,
    verbose_option,
)
from legible.errors import LegibleError

if TYPE_CHECKING:
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
@policy_options
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
    **of_policy: str | None,
) -> None:
    """Watch one episode, and where rules step in if the policy is guided."""
    player: Policy | GuidedPolicy | None
    console = Console(highlight=False)
    with Bars() as bars:
        bars.now("loading the policy and the environment")
        from legible.cli.watch import make_watchable, watch  # noqa: PLC0415
        from legible.play import adapt_policy, environment_for  # noqa: PLC0415

        if policy is None and Path(target, "study.json").is_file():
            for option, value in {"arg": arg, "wrap": wrap, **of_policy}.items():
                if value:
                    name = f"--{option.replace('_', '-')}"
                    raise LegibleError(f"{name}: the study in {target} has its environment and its policy already.")
            study = open_study(Path(target), trust=trust)
            spec = study.environment
            player = adapt_policy(study.policy, spec) if unguided else study.guided_policy(seed)
        else:
            spec, player = environment_spec(target, arg, wrap), None
            if policy is not None:
                loaded = load_typed_policy(spec, policy, options_of_policy(of_policy), trust=trust)
                player = _player(loaded, seed, unguided=unguided, trust=trust)
                spec = environment_for(player, spec)
        environment = make_watchable(spec, window=window, drawn=console.is_terminal)
    try:
        watch(environment, player, console, seed, 1 / fps, log)
    finally:
        environment.close()


def _player(policy: Policy, seed: int, *, unguided: bool, trust: bool) -> Policy | GuidedPolicy:
    """Return the policy of a file, with the rules that the file holds unless they are to be left out."""
    from legible.guidance import GuidedPolicy  # noqa: PLC0415

    if not isinstance(policy, GuidedPolicy):
        return policy
    if trust:
        look_here_for_modules()
        policy = policy.trusting()
    return policy.network if unguided else policy.seeded(seed)
