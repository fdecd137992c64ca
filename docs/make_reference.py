"""Write the reference from the code, so that it says what the code does: ``python docs/make_reference.py``.

- ``reference-commands.md``: the commands with their arguments and options, from the command line itself.
- ``reference-settings.md``: every setting with its type, default and presets, from the dataclasses.
- ``reference-python.md``: what each module holds, from its docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from legible.cli import app
from legible.cli.options import SETTINGS_PANELS, STUDY_PANEL, WHERE_PANEL
from legible.settings import PRESETS, Setting, StudySettings, all_settings

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
MADE_BY = "<!-- Made by docs/make_reference.py; change the code and run it again. -->\n\n"

# What people use; the rest is described by ARCHITECTURE.md and by its own docstrings.
MODULES = {
    "One study": (
        "legible.study.study",
        "legible.settings",
        "legible.report",
        "legible.explanation",
        "legible.rules.wording",
        "legible.report.plots",
    ),
    "Using the result": (
        "legible.guidance.policy",
        "legible.guidance.env",
        "legible.guidance.audit",
        "legible.study.comparison",
    ),
    "Back into the network": (
        "legible.distillation",
        "legible.distillation.distil",
        "legible.study.distilling",
        "legible.study.mending",
    ),
    "The steps of the paper": (
        "legible.play.experiences",
        "legible.play.returns",
        "legible.play.trained_environments",
        "legible.mining.importance",
        "legible.mining.lime.lime",
        "legible.mining.ripper",
        "legible.mining.methods",
        "legible.mining.mining",
        "legible.relations.relation",
        "legible.relations.values",
        "legible.relations.generalisation",
        "legible.relations.cuts",
        "legible.relations.reader",
        "legible.relations.sources",
        "legible.relations.check",
        "legible.evaluation.verdicts",
        "legible.improvement.composition",
        "legible.evaluation.baselines",
        "legible.evaluation.statistics",
        "legible.mistakes.finding",
        "legible.mistakes.statistics",
    ),
    "Values": (
        "legible.features.space",
        "legible.features.intervals",
        "legible.rules.rule",
        "legible.policies",
        "legible.environments.spec",
        "legible.environments.known_wrappers",
        "legible.environments.spaces",
        "legible.environments.names",
        "legible.environments.domain_registry",
        "legible.environments.domains",
        "legible.policies.zoo",
    ),
    "Running": (
        "legible.engines",
        "legible.play.branching",
        "legible.evaluation.units",
        "legible.play.slots",
        "legible.play.acting",
        "legible.play.returns",
        "legible.play.choosing",
        "legible.play.episodes",
        "legible.play.recording",
        "legible.study.estimate",
        "legible.study.check",
        "legible.errors",
    ),
    "Environments and training": (
        "legible_envs.pacman",
        "legible_envs.highway",
        "legible.training",
        "legible.training.sb3",
    ),
}


def commands_page() -> str:
    """The page of commands."""
    commands = list(_commands(app, "legible"))
    studies = [(name, command) for name, command in commands if _is_of_a_study(command)]
    parts = [
        MADE_BY + "# Commands\n\n"
        "`legible COMMAND --help` says the same in the terminal; `python -m legible` works, too. Exit codes: 0; 1 when "
        "a command ran but the answer is no, or something failed on the way; 2 when what was given is wrong; 130 after "
        "Ctrl-C. Results go to standard output, everything else to standard error.\n"
    ]
    parts += [_command(name, command) for name, command in commands]
    first = studies[0][1].params
    shared = [p for p in first if p.param_type_name == "argument" or _panel(p) in _SHARED_PANELS]
    parts.append(
        "## Options of a study\n\n"
        f"{_enumerated(f'`{name}`' for name, _ in studies)} take these. With POLICY they make the study or go on with "
        "it; with the folder of a study they go on with that, and only options about where it runs and what it prints "
        f"are allowed.\n\n{_table(shared)}\n"
        "Every [setting](reference-settings.md) is an option, too: `--evaluation.episodes 500`, `--mining.min-accuracy "
        "0.95`. What is said last wins: preset, settings file, options.\n"
    )
    return "\n".join(parts)


_SHARED_PANELS = (STUDY_PANEL, WHERE_PANEL)


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for key, inner in command.commands.items():
        yield from _commands(inner, f"{name} {key}")


def _panel(parameter: Any) -> str:
    return getattr(parameter, "panel", None) or ""


def _is_of_a_study(command: Any) -> bool:
    return any(_is_setting(parameter) for parameter in command.params)


def _command(name: str, command: Any) -> str:
    own = [p for p in command.params if not _is_setting(p)]
    shared = _is_of_a_study(command)
    if shared:
        own = [p for p in own if _panel(p) not in _SHARED_PANELS and p.param_type_name != "argument"]
    arguments = " ".join(_usage(p) for p in command.params if p.param_type_name == "argument")
    text = f"## {name}\n\n```text\n{name} [OPTIONS] {arguments}".rstrip() + f"\n```\n\n{_plain(command.help)}\n"
    if own:
        text += f"\n{_table(own)}"
    if shared:
        text += "\nAnd the [options of a study](#options-of-a-study).\n"
    return text


def _is_setting(parameter: Any) -> bool:
    return _panel(parameter) in SETTINGS_PANELS.values()


def _usage(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _table(parameters: Iterable[Any]) -> str:
    lines = ["| option | value | |", "|---|---|---|"]
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            names, value = _words(_usage(parameter).strip("[]")), ""
        else:
            names = ", ".join(f"`{name}`" for name in parameter.opts)
            value = "" if parameter.is_flag else _words(_value(parameter))
        lines.append(f"| {names} | {value} | {_plain(parameter.help)}{_default(parameter)} |")
    return "\n".join(lines) + "\n"


def _value(option: Any) -> str:
    return "|".join(getattr(option.type, "choices", ())) or option.metavar


def _words(choices: str) -> str:
    """Several words to choose from, without the bar, which would end a table's cell."""
    return " or ".join(f"`{word}`" for word in choices.split("|"))


def _default(parameter: Any) -> str:
    return f" [default: {parameter.default}]" if getattr(parameter, "show_default", False) else ""


def _plain(text: str | None) -> str:
    """Help, a line for each paragraph."""
    paragraphs = re.split(r"\n\s*\n", text or "")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _enumerated(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def settings_page() -> str:
    """The page of settings."""
    parts = [
        MADE_BY + "# Settings\n\n"
        "One set of dataclasses (`legible.settings`) is the source of the command line's options, of settings files "
        "and of this page. `legible settings > mine.toml` writes a file to edit, `--settings mine.toml` reads it, and "
        "a file need only hold what differs. In Python: `StudySettings.from_toml(path)`, `StudySettings.quick()`, "
        "`StudySettings.paper()`, or the dataclasses themselves.\n\n"
        "The last two columns show what the presets change. Environments that cannot be stepped in whole batches get "
        "`play.batch` 25 and `play.unit_episodes` 100 unless you say otherwise.\n"
    ]
    sections: dict[str, list[Setting]] = {}
    for setting in all_settings():
        sections.setdefault(setting.section, []).append(setting)
    presets = {name: make() for name, make in PRESETS.items()}
    for section, found in sections.items():
        title = f"`[{section}]`" if section else "The whole study"
        lines = [f"## {title}\n", f"| setting | default | {' | '.join(presets)} | |", "|---" * (3 + len(presets)) + "|"]
        lines += [_setting(setting, presets) for setting in found]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _setting(setting: Setting, presets: dict[str, StudySettings]) -> str:
    shown = _shown(setting.default)
    others = [_shown(setting.of(preset)) for preset in presets.values()]
    words = ""
    if get_origin(setting.kind) is Literal:
        words = f" One of {', '.join(f'`{word}`' for word in get_args(setting.kind))}."
    cells = [f"`{setting.name}`", shown, *("" if other == shown else other for other in others), setting.help + words]
    return f"| {' | '.join(cells)} |"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value) if value != "" else '""'


def python_page() -> str:
    """The page of modules."""
    parts = [
        MADE_BY + "# Python\n\n"
        "What each module holds. Every public name has a docstring with its parameters: `help(legible.study.Study)`.\n"
    ]
    for title, modules in MODULES.items():
        parts.append(f"## {title}\n")
        parts += [_module(name) for name in modules]
    return "\n".join(parts)


def _module(name: str) -> str:
    path = SOURCE / Path(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    # Literals have two backticks in docstrings; blocks are set off by two colons.
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"::\n\n((?: {4}.*\n?|\n)+)", r":\n\n```text\n\1\n```\n", text)
    return f"### {name}\n\n{text}\n"


PAGES = {
    "reference-commands.md": commands_page,
    "reference-settings.md": settings_page,
    "reference-python.md": python_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
