"""Arguments and options that several commands share; each is written here once.

- `study_command`: gives a command all arguments and options of a study. Those for settings are generated:
  `legible.settings` is their source.
- `env_argument`, `environment_options`, `seed_option` and others: what other commands are put together from.
- `STUDY_PANEL`, `WHERE_PANEL`: the groups under which help shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import rich_click as click

from legible.cli.choice import StudyChoice, parameter_name
from legible.cli.completion import complete_env, complete_env_or_folder, complete_policy, complete_relations
from legible.settings import PRESETS, Setting, all_settings

Command = TypeVar("Command", bound=Callable[..., Any])

STUDY_PANEL = "The study"
WHERE_PANEL = "Where it runs, what it prints"
SETTINGS_PANELS = {
    "": "Settings of the whole study",
    "mining": "Settings of rule mining",
    "play": "Settings of how episodes are played",
    "evaluation": "Settings of the evaluation",
    "search": "Settings of the search",
    "improvement": "Settings of the improvement",
    "references": "Settings of the references",
    "baselines": "Settings of the baselines",
    "mistakes": "Settings of the search for single decisions that cost most",
}
PATH = click.Path(path_type=Path)

_POLICY = (
    "Policy: a file of Stable-Baselines3, CleanRL, PyTorch, ONNX or legible; zoo:NAME, hf:USER/REPO or module:function"
)
_ENV = "Environment: an id, such as CartPole-v1, or module:factory."


# --- One at a time ---------------------------------------------------------------------------------------------------


def env_argument(
    metavar: str = "ENV", more_help: str = "", *, required: bool = True, shell_complete: Any = complete_env
) -> Callable[[Command], Command]:
    """ENV, and what else can stand in its place."""
    return click.argument(
        "env",
        metavar=metavar,
        required=required,
        help=f"{_ENV} {more_help}".strip(),
        shell_complete=shell_complete,
    )


def target_argument(more_help: str) -> Callable[[Command], Command]:
    """ENV, or the folder of a study."""
    return click.argument(
        "target", metavar="ENV|DIR", help=f"{_ENV} {more_help}", shell_complete=complete_env_or_folder
    )


def policy_argument(more_help: str = "", *, required: bool = False) -> Callable[[Command], Command]:
    """POLICY."""
    return click.argument(
        "policy",
        metavar="POLICY" if required else "[POLICY]",
        required=required,
        help=f"{_POLICY}{more_help}.",
        shell_complete=complete_policy,
    )


def policy_options(command: Command) -> Command:
    """``--normalisation`` and ``--policy-output``: what the file of a policy may not say."""
    normalisation = click.option(
        "--normalisation",
        metavar="FILE|none",
        help="Statistics of observations that the policy was trained with: a .npz, .toml or VecNormalize's .pkl file. "
        "[default: those beside the policy]",
        panel=STUDY_PANEL,
    )
    output = click.option(
        "--policy-output",
        type=click.Choice(["values", "logits", "log-probabilities", "probabilities", "actions"]),
        metavar="WORD",
        help="What a policy that is code (module:function, TorchScript) returns: values, logits, log-probabilities, "
        "probabilities, or actions.",
        panel=STUDY_PANEL,
    )
    return normalisation(output(command))


relations_argument = click.argument(
    "file",
    metavar="[FILE]",
    required=False,
    help="A relations file, or the name of one that comes with the package.",
    shell_complete=complete_relations,
)
"""FILE, of relations."""


def seed_option(what: str) -> Callable[[Command], Command]:
    """``--seed``, 0 by default."""
    return click.option("--seed", metavar="N", type=click.IntRange(min=0), default=0, show_default=True, help=what)


names_option = click.option(
    "--names",
    metavar="FILE",
    type=PATH,
    help="TOML file with names of features and actions, and with derived features.",
    panel=STUDY_PANEL,
)
"""``--names``."""


features_option = click.option(
    "--features",
    metavar="WHAT",
    help="What rules see, if not the observation: MODULE:FUNCTION, info:NAME,…, entries:NAME,… of a Dict, or "
    "objects of an Atari game.",
    panel=STUDY_PANEL,
)
"""``--features``."""


def environment_options(command: Command) -> Command:
    """``--arg`` and ``--wrap``: what an environment is made with."""
    arg = click.option(
        "--arg",
        metavar="NAME=VALUE",
        multiple=True,
        help="Argument of the environment, VALUE as in TOML; may be given repeatedly.",
        panel=STUDY_PANEL,
    )
    wrap = click.option(
        "--wrap",
        metavar="MODULE:CLASS",
        multiple=True,
        help="Wrapper to put around the environment, the innermost first, such as minigrid.wrappers:FlatObsWrapper or "
        "'VecFrameStack(n_stack=4)'; may be given repeatedly. none: not even those that the policy's files tell of.",
        panel=STUDY_PANEL,
    )
    return arg(wrap(command))


trust_option = click.option(
    "--trust",
    is_flag=True,
    help="Import what a study's folder, an experiment's file or that of a guided policy names: an environment's "
    "factory, wrappers, classes. Files from somebody else can name any code.",
    panel=STUDY_PANEL,
)
"""``--trust``."""


other_option = click.option(
    "--other",
    metavar="[NAME=]POLICY",
    multiple=True,
    help="Other policy to compare this one with, beside random play and constant choices; may be given repeatedly.",
    shell_complete=complete_policy,
)
"""``--other``; `others` reads it."""


def others(given: tuple[str, ...]) -> dict[str, str]:
    """Read what ``--other`` says: ``NAME=POLICY``, or a policy that is its own name.

    >>> others(("Mended=guided.safetensors", "zoo:PacmanSmall/dqn/0"))
    {'Mended': 'guided.safetensors', 'zoo:PacmanSmall/dqn/0': 'zoo:PacmanSmall/dqn/0'}
    """
    pairs = (entry.rpartition("=") for entry in given)
    return {name or policy: policy for name, _, policy in pairs}


workers_option = click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(min=1),
    help="Processes. [default: one a core]",
    panel=WHERE_PANEL,
)
"""``--workers``."""


def engine_options(command: Command) -> Command:
    """``--engine``, ``--workers`` and ``--address``: where episodes run."""
    engine = click.option(
        "--engine",
        type=click.Choice(["inline", "processes", "ray"]),
        default="processes",
        show_default=True,
        help="Where episodes run: in this process, in processes of this machine, or on Ray.",
        panel=WHERE_PANEL,
    )
    address = click.option("--address", metavar="TEXT", help="Address of a running Ray cluster.", panel=WHERE_PANEL)
    return engine(workers_option(address(command)))


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, for machines, instead of text.", panel=WHERE_PANEL
)
"""``--json``, as ``as_json``."""


def verbose_option(command: Command, *, expose_value: bool = False) -> Command:
    """``--verbose``; the program's end looks for it by itself, so few commands need its value."""
    return click.option(
        "--verbose",
        "-v",
        is_flag=True,
        expose_value=expose_value,
        help="Say more; show where in the program an error arose.",
        panel=WHERE_PANEL,
    )(command)


def preset_option(help_text: str) -> Callable[[Command], Command]:
    """``--preset``."""
    return click.option("--preset", type=click.Choice(list(PRESETS)), help=help_text, panel=STUDY_PANEL)


# --- All of a study --------------------------------------------------------------------------------------------------


def study_command(out_help: str = "Folder of the study.") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, which takes a `StudyChoice` first, all arguments and options of a study.

    Options of its own, put on it before, come to it by their names.
    """
    options = [*_options_of_a_study(out_help), *map(_setting_option, all_settings())]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_choice(**values: Any) -> None:
            choice = StudyChoice.taken_from(values)
            command(choice, **values)

        decorated: Callable[..., None] = with_choice
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def _options_of_a_study(out_help: str) -> list[Callable[[Any], Any]]:
    return [
        target_argument("Or, without POLICY, the folder of a study that goes on."),
        policy_argument(),
        click.option(
            "--out", metavar="DIR", type=PATH, help=f"{out_help} [default: studies/ENV-POLICY]", panel=STUDY_PANEL
        ),
        click.option(
            "--seed",
            metavar="N",
            type=click.IntRange(min=0),
            help="Decides everything that is random. [default: 0]",
            panel=STUDY_PANEL,
        ),
        preset_option("Settings to start from: the paper's, or a first look with fewer episodes."),
        click.option(
            "--settings",
            metavar="FILE",
            type=PATH,
            help="TOML file with settings; 'legible settings' prints one. Options below come after it.",
            panel=STUDY_PANEL,
        ),
        click.option(
            "--relations",
            metavar="FILE",
            multiple=True,
            help="Relations file, the name of one that comes with the package, or 'none'; may be given repeatedly. "
            "[default: those that the package has for ENV]",
            shell_complete=complete_relations,
            panel=STUDY_PANEL,
        ),
        names_option,
        features_option,
        environment_options,
        policy_options,
        trust_option,
        click.option(
            "--rule",
            metavar="RULE",
            multiple=True,
            help="Rule of your own to test like the mined ones, such as '+Brake <- gap < 5'; may be given repeatedly.",
            panel=STUDY_PANEL,
        ),
        click.option(
            "--rules-from",
            metavar="POLICY|DIR",
            multiple=True,
            help="Another policy, or the folder of another study, whose rules are tested on this policy, too; may be "
            "given repeatedly.",
            shell_complete=complete_policy,
            panel=STUDY_PANEL,
        ),
        click.option(
            "--veto",
            metavar="RULE",
            multiple=True,
            help="Rule that must not be in the guided policy; may be given repeatedly.",
            panel=STUDY_PANEL,
        ),
        engine_options,
        json_option,
        lambda command: verbose_option(command, expose_value=True),
    ]


# Settings that people choose often have a short name, too.
_SHORT_NAMES = {"evaluation.objective": "--objective", "evaluation.constraint": "--constraint"}


def _setting_option(setting: Setting) -> Callable[[Any], Any]:
    """Make the option of a setting; a flag that is off by default can only be switched on."""
    name = setting.dotted.replace("_", "-")
    default = f"{setting.default:.4g}" if isinstance(setting.default, float) else str(setting.default)
    is_flag = setting.kind is bool
    short = [_SHORT_NAMES[setting.dotted]] if setting.dotted in _SHORT_NAMES else []
    return click.option(
        f"--{name}/--no-{name}" if setting.default is True else f"--{name}",
        *short,
        parameter_name(setting.dotted),
        type=click.Choice(get_args(setting.kind)) if get_origin(setting.kind) is Literal else setting.kind,
        is_flag=is_flag,
        default=None,
        metavar=None if is_flag else {int: "N", float: "X"}.get(setting.kind, "WORD"),
        help=setting.help if is_flag else f"{setting.help} [default: {default or 'none'}]",
        panel=SETTINGS_PANELS[setting.section],
    )
