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
from legible.settings import PRESETS, Setting, StudySettings, all_settings

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
MADE_BY = "<!-- Made by docs/make_reference.py; change the code and run it again. -->\n\n"

# The names that people use, by task: a module and its classes, functions or methods.
TASKS: dict[str, dict[str, tuple[str, ...]]] = {
    "Study a policy": {
        "legible.study.study": (
            *("Study", "Study.open", "Study.run", "Study.mine", "Study.generalise", "Study.evaluate", "Study.improve"),
            *("Study.play_references", "Study.explain", "Study.find_mistakes", "Study.guided_policy"),
        ),
        "legible.settings.study": (
            "StudySettings",
            "StudySettings.quick",
            "StudySettings.paper",
            "StudySettings.updated",
        ),
        "legible.study.check": ("check_env",),
        "legible.report.builder": ("write_report",),
    },
    "Ask one question": {
        "legible.workbench.trying": ("try_rule", "TryResult"),
        "legible.workbench.comparing": ("compare_policies", "PolicyComparison"),
        "legible.workbench.cross_play": ("play_against", "CrossPlay"),
        "legible.workbench.exploiting": ("exploit", "Exploit"),
        "legible.workbench.verifying": ("verify", "verify_policy", "Verification"),
        "legible.workbench.checks": ("export_checks", "read_checks"),
        "legible.testing": ("assert_not_worse", "assert_no_weakness"),
    },
    "Read the results": {
        "legible.evaluation.verdicts": ("Evaluation", "Verdict"),
        "legible.improvement.composition": ("Improvement",),
        "legible.explanation.weakness": ("WeaknessExplanation",),
        "legible.mistakes.finding": ("Mistakes",),
        "legible.evaluation.references": ("References",),
    },
    "Load and save policies": {
        "legible.policies.loading": ("load_policy",),
        "legible.policies.policy_file": ("save_policy",),
        "legible.policies.describing": ("describe_policy",),
        "legible.policies.registry": ("PolicyReader", "register_reader"),
    },
    "Use a guided policy": {
        "legible.guidance.policy": ("GuidedPolicy", "GuidedPolicy.predict"),
        "legible.guidance.env": ("GuidedEnv",),
        "legible.guidance.audit": ("AuditLog",),
    },
    "Train and distil": {
        "legible.study.distilling": ("distil",),
        "legible.study.mending": ("mend",),
        "legible.training.sb3": ("train",),
    },
    "The steps of the paper": {
        "legible.play.experiences": ("collect", "Experiences"),
        "legible.mining.mining": ("mine", "Mining"),
        "legible.mining.ripper.classifier": ("RipperClassifier",),
        "legible.relations.generalisation": ("generalise",),
        "legible.evaluation.evaluate": ("evaluate",),
        "legible.improvement.composition": ("improve",),
    },
    "Rules, features and relations": {
        "legible.rules.rule": ("Condition", "Rule", "RuleSet", "parse_rule"),
        "legible.features.space": ("FeatureSpace",),
        "legible.relations.relation": ("MetamorphicRelation",),
        "legible.relations.reader": ("load_relations",),
    },
    "Extend legible": {
        "legible.study.steps": ("Step", "register_step"),
        "legible.environments.domain_registry": ("Domain", "register_plugin"),
        "legible.engines.base": ("Engine",),
    },
}


def commands_page() -> str:
    """Return the page of commands."""
    parts = [
        MADE_BY + "# Commands\n\n"
        "`legible COMMAND --help` shows the most used options, `--help-all` all of them; `python -m legible` works, "
        "too. Exit codes: 0; 1 if a command ran but the answer is no, or something failed on the way; 2 for wrong "
        "input; 130 after Ctrl-C (`legible verify`: see there). Results go to standard output, everything else to "
        "standard error.\n\n"
        "Every [setting](reference-settings.md) can be changed with `--set`, such as `--set evaluation.alpha=0.01`. "
        "`--set` overrides the settings file, which overrides the preset.\n"
    ]
    return "\n".join([*parts, *(_command(name, command) for name, command in _commands(app, "legible"))])


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for key, inner in command.commands.items():
        yield from _commands(inner, f"{name} {key}")


def _command(name: str, command: Any) -> str:
    parameters = [p for p in command.params if "--help-all" not in p.opts]
    arguments = " ".join(_usage(p) for p in parameters if p.param_type_name == "argument")
    text = f"## {name}\n\n```text\n{name} [OPTIONS] {arguments}".rstrip() + f"\n```\n\n{_plain(command.help)}\n"
    shown = [p for p in parameters if not getattr(p, "hidden", False)]
    if shown:
        text += f"\n{_table(shown)}"
    advanced = [p for p in parameters if getattr(p, "hidden", False)]
    if advanced:
        text += f"\nAdvanced (`--help-all`):\n\n{_table(advanced)}"
    return text


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


def settings_page() -> str:
    """The page of settings."""
    parts = [
        MADE_BY + "# Settings\n\n"
        "Change one with `--set evaluation.alpha=0.01`, or several in a file: `legible settings > mine.toml` writes "
        "the most used ones to edit (`--all`: all of them), and `--settings mine.toml` reads the file. In Python: "
        "`StudySettings.from_toml(path)`, `StudySettings.quick()`, `StudySettings.paper()`, or the "
        "dataclasses themselves.\n\n"
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
    """Return the page of classes and functions."""
    parts = [
        MADE_BY + "# Python\n\n"
        "The names that people use, by task. Most can be imported from `legible` itself: `from legible import Study`. "
        "`help(legible)` lists them.\n"
    ]
    for title, modules in TASKS.items():
        parts.append(f"## {title}\n")
        parts += [_name(module, name) for module, names in modules.items() for name in names]
    return "\n".join(parts)


def _name(module: str, name: str) -> str:
    """Return the signature and the docstring of a class, function or method."""
    body = ast.parse((SOURCE / Path(*module.split("."))).with_suffix(".py").read_text(encoding="utf-8")).body
    *outer, last = name.split(".")
    for part in (*outer, last):
        node = next(n for n in body if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and n.name == part)
        body = node.body
    text = ast.get_docstring(node) or ""
    # Literals have two backticks in docstrings; blocks are set off by two colons.
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"::\n\n((?: {4}.*\n?|\n)+)", r":\n\n```text\n\1\n```\n", text)
    text = re.sub(r"(?m)^(Examples|Parameters|Attributes|Returns|Raises)\n-+\n", r"**\1**\n\n", text)
    # The parameters of numpydoc, a name and an indented text, become a list.
    text = re.sub(r"(?m)^([\w, *]+)\n((?: {4}.+\n?)+)", lambda m: f"- `{m[1]}`: {' '.join(m[2].split())}\n", text)
    text = re.sub(r"((?:^(?:>>>|\.\.\.) .*\n?(?:^(?!>>>)\S.*\n?)*)+)", r"```pycon\n\1\n```\n", text, flags=re.MULTILINE)
    return f"### {name}\n\n```text\n{_signature(module, name, node)}\n```\n\n{text}\n"


def _signature(module: str, name: str, node: ast.ClassDef | ast.FunctionDef) -> str:
    if isinstance(node, ast.FunctionDef):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
        return f"{module}.{name}({ast.unparse(node.args)}){returns}"
    makers = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    if makers:
        return f"{module}.{name}({ast.unparse(makers[0].args)})"
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    return f"{module}.{name}({', '.join(ast.unparse(field.target) for field in fields)})"


PAGES = {
    "reference-commands.md": commands_page,
    "reference-settings.md": settings_page,
    "reference-python.md": python_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
