"""``legible play``: watch an episode of a policy, guided or not, in the terminal or in a window."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import gymnasium
import numpy as np
import typer
from numpy.typing import NDArray
from rich.color import Color
from rich.console import Console
from rich.markup import escape
from rich.style import Style
from rich.text import Text

from legible.cli.options import ArgOption, TrustOption, VerboseOption, WrapOption, environment_spec, open_study
from legible.environments import (
    CannotDrawError,
    EnvironmentSpec,
    ObservationEncoder,
    UnfitEnvironmentError,
    count_actions,
    first_action,
)
from legible.errors import LegibleError
from legible.imports import needs_extra

if TYPE_CHECKING:
    from legible.guidance import GuidedPolicy, Intervention
    from legible.policies import Policy

RenderMode = Literal["ansi", "rgb_array", "human"]
Chooser = Callable[[Any], "tuple[int, Intervention | None]"]


def play(
    target: Annotated[
        str,
        typer.Argument(
            metavar="ENV|DIR",
            help="Environment, such as legible/PacmanSmall-v0; or the folder of a study, whose guided policy plays.",
        ),
    ],
    policy: Annotated[
        str | None,
        typer.Argument(
            metavar="[POLICY]",
            help="Policy: a .zip or .safetensors file, guided or not, or zoo:NAME; random actions without.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episode and of random actions.")] = 0,
    fps: Annotated[float, typer.Option(min=0.1, help="Frames a second.")] = 12,
    window: Annotated[bool, typer.Option("--window", help="Watch in a window instead of the terminal.")] = False,
    unguided: Annotated[bool, typer.Option("--unguided", help="Leave the rules out.")] = False,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add what the rules changed to this file, as JSON lines.")
    ] = None,
    arg: ArgOption = None,
    wrap: WrapOption = None,
    trust: TrustOption = False,
    verbose: VerboseOption = False,  # noqa: ARG001 (read by main)
) -> None:
    """Watch one episode, and where rules step in if the policy is guided."""
    spec, player = _find(target, policy, arg, wrap, seed, unguided=unguided, trust=trust)
    console = Console(highlight=False)
    environment = _make(spec, window=window, drawn=console.is_terminal)
    try:
        with needs_extra("human", f"drawing {spec.name!r}"):
            _watch(environment, player, console, seed, 1 / fps, log)
    finally:
        environment.close()


def _find(
    target: str,
    policy: str | None,
    arguments: list[str] | None,
    wrappers: list[str] | None,
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
    if not isinstance(policy, GuidedPolicy):
        return policy
    return policy.network if unguided else policy.seeded(seed)


def _make(spec: EnvironmentSpec, *, window: bool, drawn: bool) -> gymnasium.Env[Any, Any]:
    """Make the environment with a way of drawing it that it knows."""
    plain = spec.make()
    modes = list(plain.metadata.get("render_modes") or ())
    plain.close()
    if window:
        if "human" not in modes:
            raise UnfitEnvironmentError(f"environment {spec.name!r} cannot be watched in a window.")
        return spec.make(render_mode="human")
    for mode in ("ansi", "rgb_array") if drawn else ("ansi",):
        if mode in modes:
            return spec.make(render_mode=mode)
    return spec.make()


def _watch(
    env: gymnasium.Env[Any, Any],
    player: Policy | GuidedPolicy | None,
    console: Console,
    seed: int,
    pause: float,
    log_file: Path | None,
) -> None:
    from legible.guidance import AuditLog  # noqa: PLC0415

    choose, first = _chooser(env, player, seed), first_action(env.action_space)
    log = None if log_file is None else AuditLog(log_file)
    observation, info = env.reset(seed=seed)
    total, steps, triggered, changed, over = 0.0, 0, 0, 0, False
    drawn = console.is_terminal
    while not over:
        action, intervention = choose(observation)
        if intervention is not None:
            triggered += bool(intervention.triggered)
            changed += intervention.changed
            if log is not None:
                log.record(intervention, step=steps, seed=seed)
        observation, reward, terminated, truncated, info = env.step(np.int64(first + action))
        total += float(reward)
        steps += 1
        over = bool(terminated or truncated)
        if drawn:
            try:
                _draw(env, console, intervention, f"step {steps}, return {total:g}", pause)
            except CannotDrawError as error:
                console.print(f"[yellow]{escape(str(error))}[/] The episode goes on without pictures.")
                drawn = False
    if log is not None:
        log.close()
    if not console.is_terminal and env.render_mode == "ansi":
        console.print(env.render(), markup=False)
    outcome = "over" if "is_success" not in info else "won" if info["is_success"] else "not won"
    console.print(f"The episode is {outcome}; return {total:g} in {steps} steps.")
    if hasattr(player, "explain"):
        console.print(f"Rules triggered in {triggered} steps and changed the action in {changed}.")


def _chooser(env: gymnasium.Env[Any, Any], player: Policy | GuidedPolicy | None, seed: int) -> Chooser:
    """Choose actions as a policy says, or at random without one; a guided one says why."""
    n_actions = count_actions(env.action_space)
    if player is None:
        rng = np.random.default_rng(seed)
        return lambda _: (int(rng.integers(n_actions)), None)
    from legible.guidance import GuidedPolicy  # noqa: PLC0415
    from legible.play import check_policy  # noqa: PLC0415

    encoder = ObservationEncoder.of(env.observation_space)
    check_policy(player, encoder.width, n_actions)

    def choose(observation: Any) -> tuple[int, Intervention | None]:
        row = encoder.encode([observation])
        if isinstance(player, GuidedPolicy):
            intervention = player.explain(row)
            return intervention.action, intervention
        return int(player.scores(row)[0].argmax()), None

    return choose


def _draw(
    env: gymnasium.Env[Any, Any], console: Console, intervention: Intervention | None, status: str, pause: float
) -> None:
    if env.render_mode == "human":
        return  # the environment draws and waits by itself
    console.clear()
    if env.render_mode == "ansi":
        console.print(env.render(), markup=False)
    elif env.render_mode == "rgb_array":
        console.print(half_blocks(np.asarray(env.render()), console.width, max(4, console.height - 4)))
    console.print(status)
    if intervention is not None and intervention.changed:
        console.print(f"[yellow]{escape(_tell(intervention))}[/]")
    time.sleep(pause)


def _tell(intervention: Intervention) -> str:
    from legible.rules import describe_rule  # noqa: PLC0415

    names, space = intervention.space.action_names, intervention.space
    why = "; ".join(dict.fromkeys(describe_rule(rule, space, "advice") for rule in intervention.triggered))
    return f"{names[intervention.action]} instead of {names[intervention.wanted]}: {why}"


def half_blocks(picture: NDArray[Any], width: int, height: int) -> Text:
    """Draw a picture with characters, two pixels in each, no larger than so many columns and lines."""
    rows, columns = picture.shape[:2]
    scale = max(columns / width, rows / (2 * height))
    wide, high = max(1, int(columns / scale)), max(2, int(rows / scale) // 2 * 2)
    # Every pixel of the small picture is the mean of those that it stands for.
    sums = np.add.reduceat(picture.astype(np.float64), np.arange(high) * rows // high, axis=0)
    sums = np.add.reduceat(sums, np.arange(wide) * columns // wide, axis=1)
    sizes = np.diff([*(np.arange(high) * rows // high), rows])[:, None] * np.diff(
        [*(np.arange(wide) * columns // wide), columns]
    )
    small = (sums / sizes[..., None]).astype(np.uint8)
    text = Text()
    for y in range(0, high, 2):
        for x in range(wide):
            upper, lower = (Color.from_rgb(*map(int, small[y + k, x, :3])) for k in (0, 1))
            text.append("▀", Style(color=upper, bgcolor=lower))
        text.append("\n")
    return text
