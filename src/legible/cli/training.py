"""``legible train``, ``zoo`` and ``export``: make policies, list the shipped ones, hand them to Stable-Baselines3."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import rich_click as click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from legible.cli.choice import environment_spec
from legible.cli.options import PATH, env_argument, environment_options, policy_argument, seed_option, verbose_option
from legible.formatting import number, with_error

# What needs PyTorch or Stable-Baselines3 is imported when it is used: that takes seconds.


@click.command
@env_argument()
@click.option(
    "--algo",
    type=click.Choice(["dqn", "ppo", "sac", "td3"]),
    help="The algorithm. [default: dqn for Discrete, sac for Box, else ppo]",
)
@click.option("--steps", metavar="N", type=click.IntRange(min=1), help="Environment steps; by default the preset's.")
@click.option("--long", is_flag=True, help="The preset's longer training, where it has one.")
@seed_option("Seed of networks, exploration and environment.")
@click.option("--out", metavar="FILE", type=PATH, help="Where to, without suffix. [default: policies/ENV-ALGO-SEED]")
@environment_options
@verbose_option
def train(
    env: str,
    algo: Literal["dqn", "ppo", "sac", "td3"] | None,
    steps: int | None,
    long: bool,
    seed: int,
    out: Path | None,
    arg: tuple[str, ...],
    wrap: tuple[str, ...],
) -> None:
    """Train one policy with Stable-Baselines3, with the paper's hyperparameters where it has some.

    Writes FILE.zip (for Stable-Baselines3) and FILE.safetensors. A training that was stopped goes on from its last
    checkpoint when the same command is given again.
    """
    from legible.training import choose_algorithm  # noqa: PLC0415
    from legible.training import train as train_policy  # noqa: PLC0415

    spec = environment_spec(env, arg, wrap)
    algo, _ = choose_algorithm(spec, algo)
    target = out or Path("policies") / f"{env.rsplit('/', maxsplit=1)[-1].replace(':', '-')}-{algo}-{seed}"
    console = Console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} steps"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task(f"{algo} on {env}", total=steps or 1)
        trained = train_policy(
            spec,
            algo,
            steps,
            seed,
            out=target,
            long=long,
            on_progress=lambda done, of: progress.update(bar, completed=done, total=of),
        )
    played = trained.evaluation
    console.print(
        f"Mean return {with_error(played.mean_return, played.standard_error)} over {played.episodes} greedy episodes."
    )
    files = [str(file) for file in (trained.zip, trained.safetensors, trained.normalisation) if file is not None]
    console.print(", ".join(files), highlight=False, soft_wrap=True)


@click.command
def zoo() -> None:
    """List the trained policies that come with legible; use one as zoo:NAME wherever a policy is asked for."""
    from legible.policies import NetworkPolicy, load_policy  # noqa: PLC0415
    from legible.policies.zoo import zoo_names, zoo_path  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("Name", "Algorithm", "Steps", "Mean return"):
        table.add_column(column, justify="left" if column in {"Name", "Algorithm"} else "right", no_wrap=True)
    for name in zoo_names():
        policy = load_policy(zoo_path(name))
        said = policy.metadata if isinstance(policy, NetworkPolicy) else {}
        played = said.get("evaluation", {})
        result = with_error(played["mean_return"], played["standard_error"]) if played else ""
        table.add_row(f"zoo:{name}", str(said.get("algorithm", "")), number(said.get("steps", 0)), result)
    Console().print(table)


@click.command
@policy_argument(required=True)
@click.argument("file", metavar="FILE", type=PATH, help="The .zip or .safetensors file to write.")
@verbose_option
def export(policy: str, file: Path) -> None:
    """Write a policy as a zip that Stable-Baselines3's DQN.load or PPO.load accepts, or as legible's own file.

    Both hold feed-forward networks with discrete actions; a .safetensors file also holds how observations are
    normalised.
    """
    if file.suffix == ".safetensors":
        from legible.policies import load_policy, save_policy  # noqa: PLC0415

        written = save_policy(load_policy(policy, typed=True), file)
    else:
        from legible.training import export_sb3  # noqa: PLC0415

        written = export_sb3(policy, file)
    Console().print(f"wrote {written}", highlight=False, soft_wrap=True)
