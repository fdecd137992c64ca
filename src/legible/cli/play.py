"""``legible play``: watch an episode of a policy, guided or not, in the terminal or in a window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from rich.console import Console

from legible.cli.choice import (
    EnvironmentChoice,
    load_typed_policy,
    look_here_for_modules,
    open_study,
    options_of_policy,
)
from legible.cli.drawing import Bars
from legible.cli.options import (
    PATH,
    plain_environment,
    policy_argument,
    policy_options,
    seed_option,
    target_argument,
    trust_option,
    verbose_option,
)

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
@plain_environment
@policy_options
@trust_option
@verbose_option
def play(
    choice: EnvironmentChoice,
    target: str,
    policy: str | None,
    seed: int,
    fps: float,
    window: bool,
    unguided: bool,
    log: Path | None,
    trust: bool,
    **of_policy: str | None,
) -> None:
    """Watch one episode, and where rules step in if the policy is guided."""
    # `target` is an environment or the folder of a study; `fps` is the number of frames per second; `log` is a file for
    # what the rules changed. `choice` has the options of the environment, `of_policy` those of a policy file.
    player: Policy | GuidedPolicy | None  # None plays random actions
    console = Console(highlight=False, emoji=False)
    with Bars() as bars:
        bars.now("loading the policy and the environment")
        from legible.cli.watch import make_watchable, watch  # noqa: PLC0415
        from legible.play import adapt_policy, environment_for  # noqa: PLC0415

        if policy is None and Path(target, "study.json").is_file():
            # A study: its policy with the rules of the composition, or without.
            choice.refuse_for_study(target, **of_policy)
            study = open_study(Path(target), trust=trust)
            spec = study.environment
            player = adapt_policy(study.policy, spec) if unguided else study.guided_policy(seed)
        else:
            spec, player = choice.spec(target), None
            if policy is not None:
                loaded = load_typed_policy(spec, policy, options_of_policy(of_policy), trust=trust)
                player = _player(loaded, seed, unguided=unguided, trust=trust)
                spec = environment_for(player, spec)
        environment = make_watchable(spec, window=window, can_show_pictures=console.is_terminal)
    # Outside of the bars, which would write over the picture.
    try:
        watch(environment, player, console, seed, 1 / fps, log)
    finally:
        environment.close()


def _player(policy: Policy, seed: int, *, unguided: bool, trust: bool) -> Policy | GuidedPolicy:
    """Return the policy that plays: that of a file, with the rules in the file unless `unguided`."""
    from legible.guidance import GuidedPolicy  # noqa: PLC0415

    if not isinstance(policy, GuidedPolicy):
        return policy
    if trust:
        look_here_for_modules()
        policy = policy.trusting()
    return policy.network if unguided else policy.seeded(seed)
