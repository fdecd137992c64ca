"""One episode in the terminal or in a window, and where rules step in."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.console import Console
from rich.markup import escape
from rich.style import Style
from rich.text import Text

from legible.cli.drawing import say
from legible.environments import (
    CannotDrawError,
    EnvironmentSpec,
    UnfitEnvironmentError,
    action_words,
    explain_outside,
    reset_environment,
)
from legible.guidance import AuditLog, GuidedPolicy, Intervention, JointIntervention
from legible.play import ActingChooser, RandomChooser, SpaceSlots
from legible.policies import Policy
from legible.rules.wording import describe_rule


def make_watchable(spec: EnvironmentSpec, *, window: bool, can_show_pictures: bool) -> gymnasium.Env[Any, Any]:
    """Return the environment in the best render mode that works here, or without one if none works.

    With `window`, an environment that cannot be drawn in a window is refused. `can_show_pictures` says whether pictures
    can be shown while the episode is played: whether the output is a terminal.
    """
    without_drawing = spec.make()
    modes = list(without_drawing.metadata.get("render_modes") or ())
    if window:
        without_drawing.close()
        if "human" not in modes:
            raise UnfitEnvironmentError(
                f"environment {spec.name!r} cannot be watched in a window; leave --window out to watch it in the "
                "terminal."
            )
        return _drawing(spec, "human")
    # The first mode that works: text, then pictures, which a terminal shows as characters.
    for mode in ("ansi", "rgb_array") if can_show_pictures else ("ansi",):
        if mode in modes:
            try:
                with_drawing = _drawing(spec, mode)
            except CannotDrawError as error:
                say(f"{escape(str(error))} The episode is played without pictures.")
                continue
            without_drawing.close()
            return with_drawing
    return without_drawing


def _drawing(spec: EnvironmentSpec, mode: str) -> gymnasium.Env[Any, Any]:
    """Make an environment that has drawn once: what draws is imported when something is first drawn."""
    env = spec.make(render_mode=mode)
    try:
        reset_environment(env, 0)
        env.render()
    except CannotDrawError:
        env.close()
        raise
    return env


def watch(
    env: gymnasium.Env[Any, Any],
    player: Policy | GuidedPolicy | None,
    console: Console,
    seed: int,
    pause: float,
    log_file: Path | None,
) -> None:
    """Play one episode, draw every step where the output is a terminal, and print the outcome at its end.

    Without a `player`, actions are random. `seed` is that of the episode and of random actions, and `pause` the number
    of seconds between two drawn steps. The interventions of rules (steps in which they trigger) are appended to
    `log_file` as JSON lines.
    """
    # Slots step several environments together; here is one, with number 0, and its episode has the number 0, too.
    slots, zero = SpaceSlots([env]), np.zeros(1, np.int64)
    choose = RandomChooser(slots, seed) if player is None else ActingChooser(player, slots, [seed])
    log = None if log_file is None else AuditLog(log_file)
    slots.start(zero, [seed])
    total_return, has_ended = 0.0, False
    steps = triggered = changed = 0
    outside_bounds: str | None = None  # which values of an observation lay outside of their declared range
    while not has_ended:
        actions, _ = choose(slots.observations, zero, np.array([steps]))  # one action, of slot 0
        # A guided policy also says what its rules did in this step.
        intervention = _explain(player, slots, actions[0]) if isinstance(player, GuidedPolicy) else None
        if intervention is not None:
            actions = np.array([intervention.action])
            triggered += bool(intervention.triggered)
            changed += intervention.changed
            if log is not None:
                log.record(intervention, step=steps, seed=seed)
        slots.step(actions, np.ones(1, np.bool_))
        total_return += float(slots.rewards[0])
        steps += 1
        has_ended = bool(slots.terminated[0] or slots.truncated[0])
        # Compare arrays of numbers with their declared range; dictionaries and other objects are not compared.
        is_array = isinstance(slots.observations, np.ndarray) and slots.observations.dtype != object
        if outside_bounds is None and is_array:
            outside_bounds = explain_outside(slots.observation_space, slots.observations.reshape(1, -1))
        if console.is_terminal:
            status = f"step {steps}, return {total_return:g}, {action_words(env, actions[0])}"
            _draw(env, console, intervention, status, pause)
    if log is not None:
        log.close()
    # Where nothing was drawn, print the last state. Success is NaN if the environment does not report it.
    if not console.is_terminal and env.render_mode == "ansi":
        console.print(env.render(), markup=False)
    success = slots.success[0]
    won_or_not = "won" if success else "not won"
    outcome = "over" if np.isnan(success) else won_or_not
    console.print(f"The episode is {outcome}; return {total_return:g} in {steps} steps.")
    if outside_bounds is not None:
        say(f"Warning: {escape(outside_bounds)}.")
    if isinstance(player, GuidedPolicy):
        console.print(f"Rules triggered in {triggered} steps and changed the action in {changed}.")


def _explain(player: GuidedPolicy, slots: SpaceSlots, allowed: Any) -> Intervention | JointIntervention:
    """Return the action of a guided policy and its reasons; `allowed` where a mask of the environment forbids it."""
    intervention = player.explain(slots.observations.reshape(1, -1))
    if isinstance(intervention, JointIntervention):
        return intervention
    if slots.masks is None or slots.masks[0, intervention.action]:
        return intervention
    return replace(intervention, action=int(allowed))


def _draw(
    env: gymnasium.Env[Any, Any],
    console: Console,
    intervention: Intervention | JointIntervention | None,
    status: str,
    pause: float,
) -> None:
    if env.render_mode == "human":
        return  # the environment draws and waits itself
    console.clear()
    if env.render_mode == "ansi":
        console.print(env.render(), markup=False)
    elif env.render_mode == "rgb_array":
        console.print(half_blocks(np.asarray(env.render()), console.width, max(4, console.height - 4)))
    console.print(status, markup=False)
    if intervention is not None and intervention.changed:
        console.print(f"[yellow]{escape(_describe(intervention))}[/]")
    time.sleep(pause)


def _describe(intervention: Intervention | JointIntervention) -> str:
    """Return the action that rules chose, the one that they replaced, and why."""
    if isinstance(intervention, JointIntervention):
        return "; ".join(_describe(part) for part in intervention.parts if part.changed)
    names, space = intervention.space.action_names, intervention.space
    why = "; ".join(dict.fromkeys(describe_rule(rule, space, "advice") for rule in intervention.triggered))
    return f"{names[intervention.action]} instead of {names[intervention.wanted]}: {why}"


def half_blocks(picture: NDArray[Any], width: int, height: int) -> Text:
    """Draw a picture with characters, two pixels in each, within a number of columns and lines."""
    rows, columns = picture.shape[:2]
    scale = max(columns / width, rows / (2 * height))
    wide, high = max(1, int(columns / scale)), max(2, int(rows / scale) // 2 * 2)
    # Every pixel of the small picture is the mean of a block of pixels, from these rows and columns on.
    first_rows, first_columns = np.arange(high) * rows // high, np.arange(wide) * columns // wide
    sums = np.add.reduceat(picture.astype(np.float64), first_rows, axis=0)
    sums = np.add.reduceat(sums, first_columns, axis=1)
    block_sizes = np.outer(np.diff(first_rows, append=rows), np.diff(first_columns, append=columns))
    small = (sums / block_sizes[..., None]).astype(np.uint8)  # uint8[high, wide, colours]
    text = Text()
    for y in range(0, high, 2):
        for x in range(wide):
            upper, lower = (Color.from_rgb(*map(int, small[row, x, :3])) for row in (y, y + 1))
            text.append("▀", Style(color=upper, bgcolor=lower))
        text.append("\n")
    return text
