"""``legible check``: whether an environment is fit for a study, or what is in a policy's file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit
from rich.markup import escape

from legible.cli.choice import environment_spec, load_typed_policy, look_here_for_modules, options_of_policy
from legible.cli.drawing import Bars, out, print_json, say
from legible.cli.options import (
    PATH,
    env_argument,
    environment_options,
    features_option,
    json_option,
    names_option,
    policy_argument,
    policy_options,
    seed_option,
    trust_option,
    verbose_option,
)
from legible.errors import LegibleError

if TYPE_CHECKING:
    from legible.features import FeatureSpace
    from legible.policies import PolicyDescription
    from legible.study.check import Finding

_MARKS = {"yes": "[green]✓[/]", "no": "[bold red]✗[/]", "mind": "[yellow]![/]"}
_POLICY_FILES = {".zip", ".safetensors", ".cleanrl_model", ".pt", ".pth", ".onnx", ".ts"}


@click.command
@env_argument("ENV|POLICY", "Or a policy alone, to see what is in its file.")
@policy_argument()
@seed_option("Of the episodes that are tried.")
@click.option(
    "--time-limit",
    metavar="X",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Seconds after which an episode is given up (0: never), for environments that hang.",
)
@names_option
@features_option
@click.option(
    "--write-names",
    metavar="FILE",
    type=PATH,
    help="Write a names file to edit: features as they were found, with guessed kinds, and actions.",
)
@environment_options
@policy_options
@trust_option
@json_option
@verbose_option
def check(
    env: str,
    policy: str | None,
    seed: int,
    time_limit: float,
    names: Path | None,
    features: str | None,
    write_names: Path | None,
    arg: tuple[str, ...],
    wrap: tuple[str, ...],
    trust: bool,
    as_json: bool,
    **of_policy: str | None,
) -> None:
    """Check whether ENV is fit for a study: same seed, same episode; kinds of features; how long a study takes.

    Ends with exit code 1 when it is not. A policy alone is described: what it reads and does, what it was trained on.
    """
    if policy is None and _is_policy(env):
        _describe(env, options_of_policy(of_policy), trust=trust, as_json=as_json)
        return
    spec = environment_spec(env, arg, wrap)
    if features is not None and ":" in features:
        look_here_for_modules()
    spaces: list[FeatureSpace] = []
    with Bars(quiet=as_json) as bars:
        bars.now("loading the policy and the environment")
        loaded = None if policy is None else load_typed_policy(spec, policy, options_of_policy(of_policy), trust=trust)
        from legible.study.check import check_env  # noqa: PLC0415

        bars.now("trying the environment")
        found = check_env(
            spec,
            loaded,
            names=names,
            features=features,
            seed=seed,
            time_limit=time_limit or None,
            on_features=spaces.append,
        )
    if write_names is not None:
        _write_names(write_names, spaces)
    fit = all(finding.answer != "no" for finding in found)
    if as_json:
        print_json({"environment": env, "arguments": dict(spec.arguments), "fit": fit, "findings": found})
    else:
        console = out()
        for finding in found:
            console.print(
                f"{_MARKS[finding.answer]} [bold]{finding.question}[/]: {escape(finding.details)}", soft_wrap=True
            )
        console.print(escape(_verdict(env, found)), soft_wrap=True)
    if not fit:
        raise Exit(1)


def _write_names(path: Path, spaces: list[FeatureSpace]) -> None:
    """Write a names file, which must not take the place of another."""
    from legible.features.names_file import names_toml  # noqa: PLC0415
    from legible.files import write_text  # noqa: PLC0415 (it needs numpy)

    if path.exists():
        raise LegibleError(f"{path}: is there already; --write-names writes a new file.")
    if not spaces:
        raise LegibleError("no names can be written: what rules would see is not known.")
    write_text(path, names_toml(spaces[0]))
    say(f"Names to edit: {path}")


def _verdict(env: str, found: list[Finding]) -> str:
    """Say whether environment and policy are fit for a study, and which of them is the reason if not."""
    reasons = {finding.about for finding in found if finding.answer == "no"}
    if not reasons:
        return f"{env} is fit for a study."
    if reasons == {"environment"}:
        return f"{env} is not fit for a study."
    fit = f"; {env} is" if reasons == {"policy"} else f", and neither is {env}"
    return f"The policy is not fit for a study{fit}."


def _is_policy(target: str) -> bool:
    """Return whether a policy stands where an environment could: an address, a file, a folder of the RL Zoo."""
    path = Path(target)
    if target.startswith(("zoo:", "hf:")) or path.is_file() or path.suffix in _POLICY_FILES:
        return True
    return path.is_dir() and any(path.glob("*.zip"))


def _describe(source: str, options: dict[str, str], *, trust: bool, as_json: bool) -> None:
    """Print what is in a policy's file."""
    from legible.guidance import GuidedPolicy  # noqa: PLC0415
    from legible.play import explain_not_studied  # noqa: PLC0415
    from legible.play.choosing import explain_not_flat  # noqa: PLC0415
    from legible.policies import describe_policy, load_policy  # noqa: PLC0415

    policy = load_policy(source, trust=trust, allow_code=True, **options)  # type: ignore[arg-type]
    guided = policy if isinstance(policy, GuidedPolicy) else None
    found = describe_policy(source, policy if guided is None else guided.network)
    reason = explain_not_studied(policy)  # None if it can be studied
    rules = 0 if guided is None else len(guided.rules.rules)
    if as_json:
        print_json({**found.as_dict(), "rules": rules, "fit": reason is None})
        return
    lines = _lines(found) + ([("rules", f"{rules}, which guide it")] if rules else [])
    # Rules need features: numbers with names, which pictures and dictionaries do not have of their own.
    condition = "" if explain_not_flat(policy) is None else ", if --features or named entries give features for rules"
    lines.append(("fit for a study", f"yes{condition}" if reason is None else f"no, {reason}"))
    console = out()
    for name, text in lines:
        console.print(f"[bold]{name}[/]: {escape(' '.join(text.split()))}", soft_wrap=True)


def _lines(found: PolicyDescription) -> list[tuple[str, str]]:
    """Return the facts about a policy, each a name and a text, without facts that its file does not hold."""
    traits = ["remembers" if found.recurrent else "remembers nothing"]
    traits.append("actions can be drawn" if found.stochastic else "always the same action")
    version = f", Stable-Baselines3 {found.library_version}" if found.library_version else ""
    facts = {
        "file": f"{found.source}, read as {found.format}",
        "algorithm": found.algorithm and found.algorithm + version,
        "observations": found.observation_space or "not said",
        "actions": found.action_space,
        "scores": "none" if found.kind == "none" else f"{found.kind} of {found.n_actions} actions",
        "behaviour": ", ".join(traits),
        "normalisation": found.normalisation,
        "environment": _environment(found),
    }
    training = found.training
    if training is not None:
        facts["wrappers"] = ", ".join(map(str, training.wrappers))
        facts["arguments"] = ", ".join(f"{name}={value!r}" for name, value in training.env_arguments.items())
        facts["stacked frames"] = str(training.frame_stack) if training.frame_stack > 1 else None
    return [(name, text) for name, text in facts.items() if text]


def _environment(found: PolicyDescription) -> str:
    if found.env_id is None:
        return "not said"
    recorded = f"{found.env_id}, says {found.env_id_from}"
    if found.todays_env_id is None:
        return recorded
    changes = "; ".join(found.env_changes) or "nothing that shows"
    return f"{recorded}; today {found.todays_env_id}. What changed: {changes}"
