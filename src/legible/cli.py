"""The command line: thin; it parses, calls the library and draws."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from legible.cli_relations import relations_app
from legible.cli_training import export, train, zoo
from legible.environments import EnvironmentSpec, ObservationEncoder, count_actions, first_action
from legible.errors import LegibleError

app = typer.Typer(
    help="Find out where a reinforcement-learning policy is weak, why, and mend it with rules.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(relations_app, name="relations")
for command in (train, zoo, export):
    app.command()(command)


@app.callback()
def _about() -> None:
    """Keep the commands as sub-commands while there is only one."""


@app.command()
def play(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment id, such as legible/PacmanSmall-v0.")],
    policy: Annotated[
        str | None, typer.Argument(metavar="[POLICY]", help="Policy file (.zip, .safetensors); random actions without.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episode and of random actions.")] = 0,
    fps: Annotated[float, typer.Option(min=0.1, help="Frames a second, in a terminal.")] = 12,
) -> None:
    """Watch one episode in the terminal."""
    console = Console()
    environment = EnvironmentSpec(env).make(render_mode="ansi")
    choose = _chooser(environment, policy, seed)
    observation, info = environment.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, info = environment.step(choose(observation))
        total += float(reward)
        over = terminated or truncated
        if console.is_terminal:
            console.clear()
            console.print(environment.render(), highlight=False, markup=False)
            time.sleep(1 / fps)
    if not console.is_terminal:
        console.print(environment.render(), highlight=False, markup=False)
    outcome = "over" if "is_success" not in info else "won" if info["is_success"] else "not won"
    console.print(f"The episode is {outcome}; return {total:g}.")


def _chooser(env: gymnasium.Env[Any, Any], path: str | None, seed: int) -> Callable[[Any], np.int64]:
    """Choose actions as a policy says, or at random without one."""
    n_actions, first = count_actions(env.action_space), first_action(env.action_space)
    if path is None:
        rng = np.random.default_rng(seed)
        return lambda _: np.int64(first + rng.integers(n_actions))
    from legible.policies import load_policy  # noqa: PLC0415 (torch takes seconds to import)

    encoder = ObservationEncoder.of(env.observation_space)
    policy = load_policy(path, n_features=encoder.width, n_actions=n_actions)
    return lambda observation: np.int64(first + policy.scores(encoder.encode([observation]))[0].argmax())


def main() -> None:
    """Run the command line; what goes wrong is one line on standard error and exit code 2."""
    sys.path.insert(0, str(Path.cwd()))  # so that module:factory finds modules of the user's folder
    try:
        app()
    except LegibleError as error:
        Console(stderr=True).print(f"[bold red]legible:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
