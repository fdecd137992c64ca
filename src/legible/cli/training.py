"""``legible train``, ``zoo`` and ``export``: make policies, list the shipped ones, hand them to Stable-Baselines3."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import rich_click as click
from rich.console import Console

from legible.cli.choice import EnvironmentChoice
from legible.cli.completion import complete_policy
from legible.cli.drawing import Bars, table
from legible.cli.options import (
    PATH,
    env_argument,
    named_environment,
    policy_argument,
    seed_option,
    verbose_option,
)
from legible.errors import LegibleError
from legible.formatting import number, with_error

if TYPE_CHECKING:
    from legible.training.presets import AnySettings

# What needs PyTorch or Stable-Baselines3 is imported when it is used: that takes seconds.


@click.command
@env_argument("[ENV]", "Not needed with --from a policy that says which it is for.", required=False)
@click.option(
    "--algo",
    type=click.Choice(["dqn", "ppo", "sac", "td3"]),
    help="The algorithm. [default: dqn for Discrete, sac for Box, else ppo; with --from the policy's algorithm]",
)
@click.option("--steps", metavar="N", type=click.IntRange(min=1), help="Environment steps; by default the preset's.")
@click.option("--long", is_flag=True, help="The preset's longer training, where it has one.")
@seed_option("Seed of networks, exploration and environment.")
@click.option(
    "--out",
    metavar="FILE",
    type=PATH,
    help="Where to, without suffix. [default: policies/ENV-ALGO-SEED, with -extended or -rules at the end]",
)
@click.option(
    "--exploration",
    metavar="X",
    type=click.FloatRange(0, 1),
    help="Share of random actions with which DQN begins. [default: the preset's, 1]",
)
@click.option(
    "--from",
    "start",
    metavar="POLICY",
    help="Trained policy to begin with, any file or zoo:NAME that legible reads; without --rules that is the paper's "
    "extended training.",
    shell_complete=complete_policy,
)
@click.option(
    "--normalisation",
    metavar="FILE|none",
    help="Statistics of observations of the policy to begin with. [default: the file next to it]",
)
@click.option(
    "--rules",
    metavar="STUDY|GUIDED|FILE",
    help="Rules that guide exploration: a study's folder (its composition), a guided policy's file, or a text file "
    "with a rule a line.",
)
@click.option(
    "--rules-fade",
    metavar="X",
    type=float,
    default=0.5,
    show_default=True,
    help="Share of the training over which the rules fade out, from always to never.",
)
@click.option(
    "--margin",
    metavar="X",
    type=float,
    help="Hold the rules with a loss, too: what they forbid must score this much below the best that they allow "
    "(Q-values, logits, or depths in a region). [default: no such loss]",
)
@click.option(
    "--margin-weight",
    metavar="X",
    type=float,
    default=1.0,
    show_default=True,
    help="Weight of that loss; it fades out with the rules.",
)
@named_environment
@verbose_option
def train(
    choice: EnvironmentChoice,
    env: str | None,
    algo: Literal["dqn", "ppo", "sac", "td3"] | None,
    steps: int | None,
    long: bool,
    seed: int,
    out: Path | None,
    exploration: float | None,
    start: str | None,
    normalisation: str | None,
    rules: str | None,
    rules_fade: float,
    margin: float | None,
    margin_weight: float,
) -> None:
    """Train one policy with Stable-Baselines3, with the paper's hyperparameters where there are some.

    Writes FILE.zip (for Stable-Baselines3) and FILE.safetensors. A training that was stopped goes on from its last
    checkpoint when the same command is given again.
    """
    from legible.training import choose_algorithm, environment_of_start, preset, read_rules, read_start  # noqa: PLC0415
    from legible.training import train as train_policy  # noqa: PLC0415
    from legible.training.rules import RuleSettings  # noqa: PLC0415

    # The options: `start` (--from) is a policy to begin with. `rules` guide exploration, ever less until the share
    # `rules_fade` of the training; with `margin`, a term of the loss, weighted by `margin_weight`, also teaches them.
    # `long` takes the longer training of the preset. `choice` has the options of the environment.

    # The policy to begin with, and the environment, which its file may name.
    start_policy = None if start is None else read_start(start, algo, normalisation)
    if env is not None:
        spec = choice.spec(env)
    elif start_policy is not None:
        spec = environment_of_start(start_policy)
        spec = choice.spec(spec.name) if choice.arg or choice.wrap else spec  # the user's arguments replace the file's
    else:
        raise LegibleError(
            "which environment? Name it (ENV), or begin with a policy whose file names it (--from POLICY)."
        )
    # Rules that guide exploration, the algorithm, and its hyperparameters.
    rule_settings = RuleSettings(rules_fade, margin, margin_weight)
    guiding_rules = None if rules is None else read_rules(rules, spec, choice.names)
    algo, is_continuous = choose_algorithm(spec, start_policy.algorithm if start_policy is not None else algo)
    settings = _exploring(preset(spec.name, algo, continuous=is_continuous).settings, exploration)
    # The files of the trained policy, without suffix; the default name says how it was trained.
    ending = "" if start is None else "-extended"
    if rules is not None:
        ending = "-rules"
    plain_name = spec.name.rsplit("/", maxsplit=1)[-1].replace(":", "-")
    target = out or Path("policies") / f"{plain_name}-{algo}-{seed}{ending}"
    with Bars() as bars:
        bars.expect(1.0, {"training": 1})  # the time that it takes follows from the steps that are done
        trained = train_policy(
            spec,
            algo,
            steps,
            seed,
            out=target,
            start=start_policy,
            rules=guiding_rules,
            rule_settings=rule_settings,
            settings=settings,
            long=long,
            on_progress=partial(bars, "training"),
        )
    # The result, and that of the policy to begin with.
    console = Console(emoji=False)
    after, before = trained.evaluation, trained.before
    console.print(
        f"Mean return {with_error(after.mean_return, after.standard_error)} over {after.episodes} greedy episodes"
        + (f"; before, {with_error(before.mean_return, before.standard_error)}." if before is not None else ".")
    )
    files = [str(file) for file in (trained.zip, trained.safetensors, trained.normalisation) if file is not None]
    console.print(", ".join(files), highlight=False, soft_wrap=True)


def _exploring(settings: AnySettings, exploration: float | None) -> AnySettings:
    """Return hyperparameters with another share of random actions at the beginning."""
    from legible.training import DqnSettings  # noqa: PLC0415

    if exploration is None:
        return settings
    if not isinstance(settings, DqnSettings):
        raise LegibleError("--exploration is only for dqn; leave it out for other algorithms.")
    final = min(exploration, settings.exploration_final_eps)
    return replace(settings, exploration_initial_eps=exploration, exploration_final_eps=final)


@click.command
def zoo() -> None:
    """List the trained policies that come with legible; use one as zoo:NAME wherever a policy is asked for."""
    from legible.policies import NetworkPolicy, load_policy  # noqa: PLC0415
    from legible.policies.zoo import zoo_names, zoo_path  # noqa: PLC0415

    rows = []
    for name in zoo_names():
        policy = load_policy(zoo_path(name))
        metadata = policy.metadata if isinstance(policy, NetworkPolicy) else {}
        played = metadata.get("evaluation", {})
        result = with_error(played["mean_return"], played["standard_error"]) if played else ""
        rows.append((f"zoo:{name}", str(metadata.get("algorithm", "")), number(metadata.get("steps", 0)), result))
    columns = ("Name", "Algorithm", "Steps", "Mean return")
    Console(emoji=False).print(table(columns, rows, right=columns[2:]))


@click.command
@policy_argument(required=True)
@click.argument("file", metavar="FILE", type=PATH, help="The .zip or .safetensors file to write.")
@verbose_option
def export(policy: str, file: Path) -> None:
    """Write a policy as a zip that Stable-Baselines3 (DQN, PPO, SAC or TD3) loads, or as legible's own file.

    A zip holds feed-forward networks; a .safetensors file also holds how observations are normalised.
    """
    if file.suffix == ".safetensors":
        from legible.policies import load_policy, save_policy  # noqa: PLC0415

        written = save_policy(load_policy(policy, allow_code=True), file)
    else:
        from legible.training import export_sb3  # noqa: PLC0415

        written = export_sb3(policy, file)
    Console(emoji=False).print(f"wrote {written}", highlight=False, soft_wrap=True)
