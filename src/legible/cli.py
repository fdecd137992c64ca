"""The command line: thin; it parses, calls the library and draws."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import gymnasium
import numpy as np
import typer
from rich.console import Console

from legible.errors import LegibleError

app = typer.Typer(
    help="Find out where a reinforcement-learning policy is weak, why, and mend it with rules.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def _about() -> None:
    """Keep the commands as sub-commands while there is only one."""


@app.command()
def play(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment id, such as legible/PacmanSmall-v0.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episode and of the random actions.")] = 0,
    fps: Annotated[
        float, typer.Option(min=0.1, help="Frames a second (in a terminal; elsewhere there is no wait).")
    ] = 20,
) -> None:
    """Watch one episode with random actions in the terminal."""
    console = Console()
    environment = _make(env, render_mode="ansi")
    actions = np.random.default_rng(seed)
    environment.reset(seed=seed)
    total, over = 0.0, False
    info: dict[str, Any] = {}
    while not over:
        action = actions.integers(environment.action_space.n)  # type: ignore[attr-defined]
        _, reward, terminated, truncated, info = environment.step(action)
        total += float(reward)
        over = terminated or truncated
        if console.is_terminal:
            console.clear()
            console.print(environment.render(), highlight=False, markup=False)
            time.sleep(1 / fps)
    if not console.is_terminal:
        console.print(environment.render(), highlight=False, markup=False)
    outcome = {True: "won", False: "not won"}.get(info.get("is_success"), "over")  # type: ignore[arg-type]
    console.print(f"The episode is {outcome}; return {total:g}.")


def _make(env_id: str, **arguments: Any) -> gymnasium.Env[Any, Any]:
    """Make an environment, or say in a line why it cannot be made."""
    try:
        return gymnasium.make(env_id, **arguments)
    except gymnasium.error.Error as error:
        raise LegibleError(f"environment {env_id!r} cannot be made: {error}") from error


def main() -> None:
    """Run the command line; what goes wrong is one line on standard error and exit code 2."""
    try:
        app()
    except LegibleError as error:
        Console(stderr=True).print(f"[bold red]legible:[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)
