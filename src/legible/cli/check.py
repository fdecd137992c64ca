"""``legible check``: whether an environment is fit for a study, or what is in a policy's file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit
from rich.markup import escape

from legible.cli.choice import EnvironmentChoice, load_typed_policy, options_of_policy
from legible.cli.drawing import Bars, out, print_json, say
from legible.cli.options import (
    PATH,
    described_environment,
    env_argument,
    json_option,
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
@described_environment
@click.option(
    "--write-names",
    metavar="FILE",
    type=PATH,
    help="Write a names file to edit: features as they were found, with guessed kinds, and actions.",
)
@policy_options
@trust_option
@json_option
@verbose_option
def check(
    choice: EnvironmentChoice,
    env: str,
    policy: str | None,
    seed: int,
    time_limit: float,
    write_names: Path | None,
    trust: bool,
    as_json: bool,
    **of_policy: str | None,
) -> None:
    """Check whether ENV is fit for a study: reproducible seeds, kinds of features, how long a study takes.

    Ends with exit code 1 when it is not. A policy alone is described: what it reads and does, what it was trained on.
    """
    # `choice` has the options of ENV, `of_policy` those of a policy file; `write_names` is a names file to write.
    if policy is None and _is_policy(env):
        _describe(env, options_of_policy(of_policy), trust=trust, as_json=as_json)
        return
    spec = choice.spec(env)
    spaces: list[FeatureSpace] = []  # `check_env` puts the features and actions here, unless it fails before
    with Bars(quiet=as_json) as bars:
        bars.now("loading the policy and the environment")
        loaded = None if policy is None else load_typed_policy(spec, policy, options_of_policy(of_policy), trust=trust)
        from legible.study.check import check_env  # noqa: PLC0415

        bars.now("trying the environment")
        findings = check_env(
            spec,
            loaded,
            names=choice.names,
            features=choice.features,
            seed=seed,
            time_limit=time_limit or None,
            on_features=spaces.append,
        )
    if write_names is not None:
        _write_names(write_names, spaces)
    is_fit = all(finding.answer != "no" for finding in findings)
    if as_json:
        print_json({"environment": env, "arguments": dict(spec.arguments), "fit": is_fit, "findings": findings})
    else:
        console = out()
        for finding in findings:
            console.print(
                f"{_MARKS[finding.answer]} [bold]{finding.question}[/]: {escape(finding.details)}", soft_wrap=True
            )
        console.print(escape(_verdict(env, findings)), soft_wrap=True)
    if not is_fit:
        raise Exit(1)


def _write_names(path: Path, spaces: list[FeatureSpace]) -> None:
    """Write a names file, which must not take the place of another."""
    from legible.features.names_file import names_toml  # noqa: PLC0415
    from legible.files import write_text  # noqa: PLC0415 (it needs numpy)

    if path.exists():
        raise LegibleError(f"{path}: exists already; --write-names needs the name of a new file.")
    if not spaces:
        raise LegibleError("no names file can be written, because the features are unknown: fix what was found first.")
    write_text(path, names_toml(spaces[0]))
    say(f"Names to edit: {path}")


def _verdict(env: str, findings: list[Finding]) -> str:
    """Return, in a sentence, whether environment and policy are fit for a study, and which is the reason if not."""
    reasons = {finding.about for finding in findings if finding.answer == "no"}
    if not reasons:
        return f"{env} is fit for a study."
    if reasons == {"environment"}:
        return f"{env} is not fit for a study."
    and_env = f"; {env} is" if reasons == {"policy"} else f", and neither is {env}"
    return f"The policy is not fit for a study{and_env}."


def _is_policy(target: str) -> bool:
    """Return whether a policy stands where an environment could: an address, a file, a folder of the RL Zoo."""
    path = Path(target)
    if target.startswith(("zoo:", "hf:")) or path.is_file() or path.suffix in _POLICY_FILES:
        return True
    return path.is_dir() and any(path.glob("*.zip"))


def _describe(source: str, options: dict[str, str], *, trust: bool, as_json: bool) -> None:
    """Print what is in a policy's file: spaces, algorithm, training, rules, and whether it can be studied.

    `source` is its path or address, and `options` are facts that its file may lack, such as the activation function.
    """
    from legible.guidance import GuidedPolicy  # noqa: PLC0415
    from legible.play import explain_not_studied  # noqa: PLC0415
    from legible.play.choosing import explain_not_flat  # noqa: PLC0415
    from legible.policies import describe_policy, load_policy  # noqa: PLC0415

    policy = load_policy(source, trust=trust, allow_code=True, **options)  # type: ignore[arg-type]
    # A guided policy is a network with rules: describe the network, and count the rules.
    guided = policy if isinstance(policy, GuidedPolicy) else None
    description = describe_policy(source, policy if guided is None else guided.network)
    rules = 0 if guided is None else len(guided.rules.rules)
    problem = explain_not_studied(policy)  # None if it can be studied
    if as_json:
        print_json({**description.as_dict(), "rules": rules, "fit": problem is None})
        return
    facts = _facts(description)
    if rules:
        facts.append(("rules", f"{rules}, which guide it"))
    # Rules need features: numbers with names, which pictures and dictionaries do not have of their own.
    condition = "" if explain_not_flat(policy) is None else ", if --features or named entries give features for rules"
    facts.append(("fit for a study", f"yes{condition}" if problem is None else f"no, {problem}"))
    console = out()
    for name, text in facts:
        console.print(f"[bold]{name}[/]: {escape(' '.join(text.split()))}", soft_wrap=True)


def _facts(description: PolicyDescription) -> list[tuple[str, str]]:
    """Return the facts in a description of a policy, each with its name, in the order in which they are printed.

    Facts that the policy's file does not hold are left out.
    """
    traits = ["remembers earlier observations" if description.recurrent else "remembers nothing"]
    traits.append("actions can be sampled" if description.stochastic else "always the same action in a state")
    algorithm = description.algorithm
    if algorithm and description.library_version:
        algorithm = f"{algorithm}, Stable-Baselines3 {description.library_version}"
    facts: dict[str, str | None] = {
        "file": f"{description.source}, read as {description.format}",
        "algorithm": algorithm,
        "observations": description.observation_space or "unknown",
        "actions": description.action_space,
        "scores": "none" if description.kind == "none" else f"{description.kind} of {description.n_actions} actions",
        "behaviour": ", ".join(traits),
        "normalisation": description.normalisation,
        "environment": _environment(description),
    }
    # Wrappers, arguments and frame stacking of the training, where the file or one next to it has them.
    training = description.training
    if training is not None:
        facts["wrappers"] = ", ".join(map(str, training.wrappers))
        facts["arguments"] = ", ".join(f"{name}={value!r}" for name, value in training.env_arguments.items())
        facts["stacked frames"] = str(training.frame_stack) if training.frame_stack > 1 else None
    return [(name, text) for name, text in facts.items() if text]


def _environment(description: PolicyDescription) -> str:
    """Return the environment that a policy was trained in, and today's version of it."""
    if description.env_id is None:
        return "unknown"
    recorded = f"{description.env_id} (from {description.env_id_from})"
    if description.todays_env_id is None:
        return recorded
    changes = "; ".join(description.env_changes) or "none that legible can see"
    return f"{recorded}; today {description.todays_env_id}. Changes: {changes}"
