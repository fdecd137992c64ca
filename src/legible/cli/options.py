"""Arguments and options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

from legible.cli.choice import EnvironmentChoice, PlayChoice, StudyChoice
from legible.cli.completion import (
    complete_env,
    complete_env_or_folder,
    complete_policy,
    complete_relations,
    complete_setting,
)
from legible.settings import PRESETS, DistillationSettings, all_settings, settings_in
from legible.settings.values import toml_value

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

PATH = click.Path(path_type=Path)

_POLICY = (
    "Policy: a Stable-Baselines3, CleanRL, PyTorch, ONNX or legible file, zoo:NAME, hf:USER/REPO or module:function"
)
_ENV = "Environment: an id such as CartPole-v1, or module:factory."

advanced = partial(click.option, hidden=True)  # an option that only --help-all shows
# --- Single arguments and options ------------------------------------------------------------------------------------


def env_argument(
    metavar: str = "ENV", more_help: str = "", *, required: bool = True, shell_complete: Any = complete_env
) -> Callable[[Command], Command]:
    """Return a decorator that adds ENV, and what else can stand in its place."""
    return click.argument(
        "env", metavar=metavar, required=required, help=f"{_ENV} {more_help}".strip(), shell_complete=shell_complete
    )


def target_argument(more_help: str, metavar: str = "ENV|STUDY") -> Decorator:
    """Return a decorator that adds ENV, or the folder of a study."""
    return click.argument("target", metavar=metavar, help=f"{_ENV} {more_help}", shell_complete=complete_env_or_folder)


def policy_argument(more_help: str = "", *, required: bool = False) -> Callable[[Command], Command]:
    """Return a decorator that adds POLICY."""
    return click.argument(
        "policy",
        metavar="POLICY" if required else "[POLICY]",
        required=required,
        help=f"{_POLICY}{more_help}.",
        shell_complete=complete_policy,
    )


def policy_options(command: Command) -> Command:
    """Return the command with options for facts that a policy file may lack, such as ``--policy-output``.

    They are advanced options, which only ``--help-all`` shows.
    """
    normalisation = advanced(
        "--normalisation",
        metavar="FILE|none",
        help="Observation statistics of the training: a .npz, .toml or VecNormalize .pkl file. "
        "[default: the file next to the policy]",
    )
    output = advanced(
        "--policy-output",
        type=click.Choice(["values", "logits", "log-probabilities", "probabilities", "actions"]),
        metavar="WORD",
        help="Output of a policy that is code (module:function, TorchScript): values, logits, log-probabilities, "
        "probabilities or actions.",
    )
    fallback = advanced(
        "--fallback",
        metavar="ACTION",
        help="Action, by name or number, to take if rules block the action that a policy without scores returns; "
        "without it, such rules are not tested.",
    )
    activation = advanced(
        "--activation",
        metavar="WORD",
        help="Activation function between the layers of a network, if its file does not say: elu, relu, tanh, …",
    )
    return normalisation(output(fallback(activation(command))))


relations_argument = click.argument(
    "file",
    metavar="[FILE]",
    required=False,
    help="A relations file, or the name of one that comes with the package.",
    shell_complete=complete_relations,
)


def seed_option(what: str) -> Callable[[Command], Command]:
    """``--seed``, 0 by default."""
    return click.option("--seed", metavar="N", type=click.IntRange(min=0), default=0, show_default=True, help=what)


def count_option(name: str, default: int, help_text: str, *, least: int, most: int | None = 1_000_000) -> Decorator:
    """Return a decorator that adds an option for a number of episodes, seeds, states or steps."""
    limits = click.IntRange(least, most)
    return click.option(name, metavar="N", type=limits, default=default, show_default=True, help=help_text)


names_option = click.option(
    "--names", metavar="FILE", type=PATH, help="TOML file with names of features and actions, and derived features."
)


features_option = click.option(
    "--features",
    metavar="WHAT",
    help="Features for rules, if not the observation: MODULE:FUNCTION, info:NAME,…, entries:NAME,… or objects (Atari).",
)


def _keep_for_arguments(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep the value of an option of seats until the arguments of the environment are read."""
    context.meta[f"legible.seats.{parameter.name}"] = value


def _add_seats(context: click.Context, _: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments of an environment with those that the options of seats stand for."""
    seat, given, draws = (context.meta.get(f"legible.seats.{name}") for name in ("seat", "others", "others_stochastic"))
    added = [] if seat is None else [f"seat={json.dumps(seat)}"]
    if given:
        added.append(f"others={others_text(given)}")
    if draws:
        added.append("others_stochastic=true")
    return (*value, *added)


def others_text(given: Sequence[str]) -> str:
    """Return the values of ``--others`` as a TOML value: a player, or a table of players by seat.

    >>> others_text(["random"]), others_text(["good_*=a.zip", "random"])
    ('"random"', '{"good_*" = "a.zip", "*" = "random"}')
    """
    table: dict[str, str] = {}
    for entry in given:
        seat, _, player = entry.rpartition("=")
        path = Path(player)
        table[seat or "*"] = str(path.resolve()) if path.exists() else player
    if list(table) == ["*"]:
        return json.dumps(table["*"])
    return "{" + ", ".join(f"{json.dumps(seat)} = {json.dumps(player)}" for seat, player in table.items()) + "}"


def environment_options(command: Command) -> Command:
    """Return the command with ``--arg`` and ``--wrap``, and ``--seat`` and ``--others`` for games of several agents.

    The options of games do not reach the command: callbacks keep their values, and `_add_seats` adds them to the
    arguments of the environment.
    """
    of_game = partial(advanced, is_eager=True, expose_value=False, callback=_keep_for_arguments)
    seats: list[Decorator] = [
        of_game(
            "--seat",
            metavar="SEAT",
            help="Seat of the policy in a game of several agents (pettingzoo:MODULE). Several seats "
            "('adversary_*', all) share the policy; any: drawn for each episode.",
        ),
        of_game(
            "--others", metavar="[SEAT=]POLICY|random", multiple=True, help="Who plays the other seats; repeatable."
        ),
        of_game("--others-stochastic", is_flag=True, help="Sample the actions of the policies in other seats."),
    ]
    arg = click.option(
        "--arg",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_add_seats,
        help="Argument of the environment, VALUE as in TOML; repeatable.",
    )
    wrap = click.option(
        "--wrap",
        metavar="MODULE:CLASS",
        multiple=True,
        help="Wrapper, innermost first, such as 'VecFrameStack(n_stack=4)'; repeatable. none: no wrappers.",
    )
    # Each option is put before those that are there, so the last one in the help comes first here.
    for option in (*reversed(seats), wrap, arg):
        command = option(command)
    return command


trust_option = advanced(
    "--trust",
    is_flag=True,
    help="Run programs that files contain or name: TorchScript policies, and code that a study's folder or a guided "
    "policy's file names (environments, wrappers, classes). Use it only for files from people you trust.",
)


other_option = advanced(
    "--other",
    metavar="[NAME=]POLICY",
    multiple=True,
    help="Another policy to compare with, next to random play and constant actions; repeatable.",
    shell_complete=complete_policy,
)


def others(given: tuple[str, ...]) -> dict[str, str]:
    """Read ``--other``: ``NAME=POLICY``, or a policy whose path is its name.

    >>> others(("Distilled=guided.safetensors", "zoo:PacmanSmall/dqn/0"))
    {'Distilled': 'guided.safetensors', 'zoo:PacmanSmall/dqn/0': 'zoo:PacmanSmall/dqn/0'}
    """
    pairs = (entry.rpartition("=") for entry in given)
    return {name or policy: policy for name, _, policy in pairs}


workers_option = click.option(
    "--workers", metavar="N", type=click.IntRange(min=1), help="Worker processes. [default: one per core]"
)


def engine_options(command: Command) -> Command:
    """``--workers``, ``--engine`` and ``--address``: where episodes run."""
    engine = advanced(
        "--engine",
        type=click.Choice(["inline", "processes", "ray"]),
        default="processes",
        show_default=True,
        help="Where episodes run: in this process, in worker processes, or on Ray.",
    )
    address = advanced("--address", metavar="TEXT", help="Address of a running Ray cluster.")
    return workers_option(engine(address(command)))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def verbose_option(command: Command, *, expose_value: bool = False) -> Command:
    """``--verbose``; `legible.cli.commands.main` reads it from the command line, so few commands need its value."""
    return advanced(
        "--verbose", "-v", is_flag=True, expose_value=expose_value, help="Print more, and tracebacks of errors."
    )(command)


def preset_option(help_text: str) -> Callable[[Command], Command]:
    """``--preset``."""
    return click.option("--preset", type=click.Choice(list(PRESETS)), help=help_text)


relations_option = click.option(
    "--relations",
    metavar="FILE",
    multiple=True,
    help="Relations file, or the name of a shipped one, or none; repeatable. [default: those shipped for ENV]",
    shell_complete=complete_relations,
)


set_option = click.option(
    "--set",
    "settings_given",
    metavar="NAME=VALUE",
    multiple=True,
    help="Change a setting, such as search.budget=400000 ('legible settings' lists them); repeatable.",
    shell_complete=complete_setting,
)


# --- Options that are passed together --------------------------------------------------------------------------------


def _together(kind: type[StudyChoice | EnvironmentChoice], options: Sequence[Decorator]) -> Decorator:
    """Add options to a command, which receives them first, as one object."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_choice(**values: Any) -> Any:
            choice = kind(**{field.name: values.pop(field.name) for field in fields(kind) if field.name in values})
            return command(choice, **values)

        decorated: Callable[..., Any] = with_choice
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


plain_environment = _together(EnvironmentChoice, [environment_options])
"""``--arg`` and ``--wrap``; the command receives an `EnvironmentChoice` first."""
named_environment = _together(EnvironmentChoice, [names_option, environment_options])
"""The same with ``--names``."""
described_environment = _together(EnvironmentChoice, [names_option, features_option, environment_options])
"""The same with ``--names`` and ``--features``."""


def playing_options(stochastic_help: str) -> Decorator:
    """Add the options of playing policies to a command, which receives a `PlayChoice` first."""
    options: list[Decorator] = [
        seed_option("Random seed of all episodes."),
        names_option,
        features_option,
        environment_options,
        click.option("--stochastic", is_flag=True, help=stochastic_help),
        click.option("--no-cache", is_flag=True, help="Play all episodes again, and keep none."),
        policy_options,
        trust_option,
        engine_options,
        json_option,
        verbose_option,
    ]
    return _together(PlayChoice, options)


def study_options(more_help: str, out_help: str, metavar: str = "ENV|STUDY") -> Decorator:
    """Return a decorator that adds the arguments and options of a study; the command gets them as one `StudyChoice`.

    `more_help` ends the help of the first argument, the environment or the folder of a study, whose name is `metavar`;
    `out_help` is the help of ``--out``.
    """
    # In the order of the help; `advanced` options are only in --help-all.
    options: list[Decorator] = [
        target_argument(more_help, metavar),
        policy_argument(),
        click.option("--out", metavar="PATH", type=PATH, help=out_help),
        click.option("--seed", metavar="N", type=click.IntRange(min=0), help="Random seed of the study. [default: 0]"),
        preset_option("Settings to start from: the paper's, or small budgets for a quick look."),
        set_option,
        click.option("--settings", metavar="FILE", type=PATH, help="TOML file with settings; --set overrides it."),
        click.option(
            "--rule",
            metavar="RULE",
            multiple=True,
            help="Rule of your own to test, such as '+Brake <- gap < 5'; repeatable.",
        ),
        click.option(
            "--veto", metavar="RULE", multiple=True, help="Rule that the guided policy must not use; repeatable."
        ),
        advanced(
            "--rules-from",
            metavar="POLICY|STUDY",
            multiple=True,
            help="Another policy or study whose rules are tested on this policy; repeatable.",
            shell_complete=complete_policy,
        ),
        click.option(
            "--relations",
            metavar="FILE",
            multiple=True,
            help="Relations file, name of a shipped one, discover or none; repeatable. [default: shipped for ENV]",
            shell_complete=complete_relations,
        ),
        names_option,
        features_option,
        environment_options,
        click.option(
            "--objective",
            metavar="WORD",
            help="What to raise: mean, median, worst-tenth, success or term:NAME (a reward term); or to lower: cost. "
            "[default: mean]",
        ),
        advanced(
            "--worst-loss",
            metavar="X",
            type=click.FloatRange(min=0.0, min_open=True),
            help="Largest loss of an episode that is possible, if you know it. [default: the largest seen]",
        ),
        advanced(
            "--until-excluded",
            is_flag=True,
            help="Confirm gains on as many episodes as exclude that rare losses cancel them. This can take long.",
        ),
        click.option("--stochastic", is_flag=True, help="Sample the policy's actions instead of taking the best one."),
        advanced(
            "--unpaired",
            is_flag=True,
            help="Compare independent episodes, for environments whose seeds are not reproducible; needs many more.",
        ),
        policy_options,
        trust_option,
        engine_options,
        json_option,
        partial(verbose_option, expose_value=True),
    ]
    return _together(StudyChoice, options)


def add_help_all(command: click.Command) -> None:
    """Add ``--help-all`` to a command that has hidden (advanced) options; it shows them and the settings of a study."""
    hidden = [parameter for parameter in command.params if isinstance(parameter, click.Option) and parameter.hidden]
    if not hidden:
        return

    def show_all(context: click.Context, _: Any, value: bool) -> None:
        """Print the help with all options, then the settings for ``--set``, and end the program; called by click."""
        if not value:  # the option was not given
            return
        for parameter in hidden:
            parameter.hidden = False
        click.echo(context.get_help())
        if any(parameter.name == "settings_given" for parameter in command.params):
            click.echo("Settings for --set:\n")
            # The command "distil" also has settings of learning.
            learning = settings_in(DistillationSettings, "distillation") if command.name == "distil" else ()
            for setting in (*all_settings(), *learning):
                click.echo(f"  {setting.dotted} = {toml_value(setting.default)}\n      {setting.help}")
        context.exit()

    option = click.Option(
        ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show_all, help="Show all options."
    )
    command.params.append(option)
