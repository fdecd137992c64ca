"""``legible relations``: list the relations that come with the package, show, check and discover relations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from legible.cli.choice import EnvironmentChoice, load_typed_policy, options_of_policy
from legible.cli.completion import complete_env, complete_env_or_relations
from legible.cli.drawing import Bars, out, print_json, table
from legible.cli.options import (
    count_option,
    env_argument,
    json_option,
    named_environment,
    policy_argument,
    policy_options,
    relations_argument,
    seed_option,
    trust_option,
    verbose_option,
)
from legible.errors import LegibleError
from legible.formatting import number, percent

if TYPE_CHECKING:
    from legible.environments import EnvironmentSpec, RelationsFile
    from legible.features import FeatureSpace
    from legible.relations import MetamorphicRelation
    from legible.relations.check import RelationCheck

# What the commands use is imported by those that use it: numba, scikit-learn and PyTorch take seconds to load.


@click.group
def relations() -> None:
    """List, show, check and discover relations (symmetries of the task); measure how far a policy respects them."""


VERDICT_COLOURS = {
    "holds": "green",
    "holds approximately": "yellow",
    "does not hold": "bold red",
    "cannot tell": "bright_black",
}


@relations.command("list")
@click.argument(
    "env", metavar="[ENV]", required=False, help="Only those for this environment.", shell_complete=complete_env
)
@verbose_option
def list_relations(env: str | None) -> None:
    """List the relations files that come with the package; those with a star are used by default."""
    from legible.files import read_toml  # noqa: PLC0415

    listed = _shipped_for(env) if env is not None else _all_shipped()
    files = Table(box=box.SIMPLE_HEAD)
    files.add_column("File", no_wrap=True)
    files.add_column("For", overflow="fold")
    files.add_column("Relations")
    for path, (file, environments) in listed.items():
        entries = [(relation["name"], relation.get("words", "")) for relation in read_toml(path)["relation"]]
        described = "\n".join(f"[bold]{escape(name)}[/]: {escape(words)}" for name, words in entries)
        plain = dict.fromkeys(env.rpartition("/")[2] for env in environments)
        files.add_row(f"{file.name}{' *' if file.default else ''}", ", ".join(plain), described)
    Console(emoji=False).print(files)


@relations.command
@env_argument(
    "ENV|FILE",
    "Or, alone, the name of a file that comes with the package, for the first environment that it is for.",
    shell_complete=complete_env_or_relations,
)
@relations_argument
@named_environment
@verbose_option
def show(choice: EnvironmentChoice, env: str, file: str | None) -> None:
    """Show relations as tables of feature → feature; without FILE, all that come with the package for ENV."""
    from legible.relations import by_name  # noqa: PLC0415

    environment = _environment_of(env) if file is None else None
    if environment is not None:  # what stands at the place of ENV is the name of a file
        env, file = environment, env
    space, loaded = _load(choice.spec(env), file, choice.names)
    for source, relations in loaded:
        for name, group in by_name(relations).items():
            _show_group(out(), f"{name} ({source})" if source != name else name, group, space)


@relations.command
@env_argument()
@relations_argument
@click.option(
    "--episodes", metavar="N", type=click.IntRange(min=1), help="Episodes to play; the default depends on ENV."
)
@count_option("--states", 2000, "Maximum number of states to compare for a pair of actions.", least=1, most=None)
@seed_option("The same seed gives the same answer.")
@named_environment
@json_option
@verbose_option
def check(
    choice: EnvironmentChoice,
    env: str,
    file: str | None,
    episodes: int | None,
    states: int,
    seed: int,
    as_json: bool,
) -> None:
    """Check whether relations hold in ENV; without FILE, all relations that come with the package for it.

    Ends with exit code 1 if one of them does not hold.
    """
    from legible.relations.check import check_relations  # noqa: PLC0415

    # `states` is the maximum number of states that are compared for a pair of actions. Relations are symmetries of the
    # environment, from one file or several.
    spec = choice.spec(env)
    space, loaded = _load(spec, file, choice.names)
    checks_by_file: dict[str, list[RelationCheck]] = {}
    with Bars(quiet=as_json) as bars:
        for source, relations in loaded:
            # The default value keeps the source of this round of the loop.
            def report(share: float, what: str, source: str = source) -> None:
                bars.now(f"{source}: {what} ({percent(share)})")

            checks_by_file[source] = check_relations(
                spec, relations, space, episodes=episodes, states=states, seed=seed, on_progress=report
            )
    if as_json:
        rows = [{"file": source, **result.to_dict()} for source, checks in checks_by_file.items() for result in checks]
        settings = {"environment": env, "arguments": dict(spec.arguments), "episodes": episodes, "states": states}
        print_json({**settings, "seed": seed, "checks": rows})
    else:
        for source, checks in checks_by_file.items():
            for name in dict.fromkeys(result.relation for result in checks):
                _print_checks(out(), source, [result for result in checks if result.relation == name])
    if any(result.verdict == "does not hold" for checks in checks_by_file.values() for result in checks):
        raise Exit(1)


@relations.command
@env_argument()
@click.option(
    "--output", "-o", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Write the relations here."
)
@count_option("--steps", 200_000, "Maximum number of steps in ENV.", least=2000, most=None)
@click.option(
    "--minutes",
    metavar="N",
    type=click.FloatRange(min=0, min_open=True),
    help="Maximum time, by default 2 to 10 minutes by the number of features. What is not proven then is left out.",
)
@seed_option("The same seed gives the same relations unless time runs out.")
@named_environment
@json_option
@verbose_option
def discover(
    choice: EnvironmentChoice,
    env: str,
    output: Path | None,
    steps: int,
    minutes: float | None,
    seed: int,
    as_json: bool,
) -> None:
    """Find symmetries of ENV, prove them on held-out seeds, and write them as a relations file.

    A relation maps features to features, with signs and centres, and actions to actions; rewards and ends must agree.
    With -o, the same command continues a run that was stopped. Ends with exit code 1 when none is found.
    """
    from legible.environments import resolve_names  # noqa: PLC0415
    from legible.files import write_text  # noqa: PLC0415
    from legible.relations.discovery import discover_relations  # noqa: PLC0415

    # `steps` and `minutes` limit the search. Names of features and actions: the user's file, or those of ENV.
    spec = choice.spec(env)
    with closing(spec.make()) as environment:
        space = resolve_names(environment, choice.names).space
    with Bars(quiet=as_json) as bars:

        def report(share: float, what: str) -> None:
            bars.now(f"{env}: {what} ({percent(share)})")

        discovery = discover_relations(
            spec,
            space,
            steps=steps,
            minutes=minutes,
            seed=seed,
            on_progress=report,
            parts_folder=None if output is None else output.with_name(f".{output.name}.parts"),
        )
    if output is not None and discovery.found:
        write_text(output, discovery.toml())
    if as_json:
        print_json(discovery.to_dict())
    else:
        # The relations that were proven, those that were rejected with the reason, and a line of totals.
        console = out()
        for proven in discovery.found:
            _show_group(console, proven.name, proven.relations, discovery.space)
            console.print(f"{escape(proven.evidence)}\n")
        for rejected in discovery.rejected:
            console.print(f"{escape(rejected.name)}: {escape(rejected.text)}\n")
        count = len(discovery.found)
        time_out = "" if discovery.complete else " Time ran out; the same command with more --minutes goes on."
        effort = f"{discovery.screened} proposals, {discovery.steps} steps, {discovery.seconds:.0f} s.{time_out}"
        where = f" Written to {output}." if output is not None and count else ""
        console.print(f"{count or 'No'} relation{'s' * (count != 1)} found.{where} {effort}")
    if not discovery.found:
        raise Exit(1)


@relations.command
@env_argument()
@policy_argument(required=True)
@relations_argument
@count_option("--episodes", 100, "Episodes to play.", least=2, most=None)
@seed_option("The same seed gives the same answer.")
@named_environment
@policy_options
@trust_option
@json_option
@verbose_option
def symmetry(
    choice: EnvironmentChoice,
    env: str,
    policy: str,
    file: str | None,
    episodes: int,
    seed: int,
    trust: bool,
    as_json: bool,
    **of_policy: str | None,
) -> None:
    """Measure how far POLICY respects relations, and what its asymmetry costs; discrete actions only.

    Without FILE, the relations that come with the package for ENV.
    """
    from legible.workbench import measure_symmetry  # noqa: PLC0415

    # `of_policy` holds the options for a policy file. Relations come from one file or several; the policy gets a score
    # for each relation.
    spec = choice.spec(env)
    space, loaded = _load(spec, file, choice.names)
    loaded_policy = load_typed_policy(spec, policy, options_of_policy(of_policy), trust=trust)
    relations = [relation for _, relations_of_file in loaded for relation in relations_of_file]
    scores = measure_symmetry(spec, loaded_policy, relations, space, episodes=episodes, seed=seed)
    if as_json:
        inputs = {"environment": env, "policy": policy, "episodes": episodes, "seed": seed}
        print_json({**inputs, "scores": [score.to_dict() for score in scores]})
    else:
        for score in scores:
            click.echo(score.text)


# --- What is meant ---------------------------------------------------------------------------------------------------


def _load(
    spec: EnvironmentSpec, file: str | None, names: Path | None
) -> tuple[FeatureSpace, list[tuple[str, tuple[MetamorphicRelation, ...]]]]:
    """Return the features of an environment, and the relations of a file, or of all shipped files, by their names."""
    from legible.environments import resolve_names, shipped_relations  # noqa: PLC0415
    from legible.relations import resolve_relations  # noqa: PLC0415

    with closing(spec.make()) as env:
        space = resolve_names(env, names).space
        wanted = [entry.name for entry in shipped_relations(env)] if file is None else [file]
        if not wanted:
            raise LegibleError(
                f"no relations come with the package for {spec.name!r}; write a relations file and give it as FILE."
            )
        texts = resolve_relations(env, space, wanted).texts
    return space, [(name, text.relations(space)) for name, text in zip(wanted, texts, strict=True)]


def _environment_of(file: str) -> str | None:
    """Return the first environment, in its latest version, of a shipped file; None if no shipped file has this name."""
    environments_of = [environments for entry, environments in _all_shipped().values() if entry.name == file]
    if len(environments_of) > 1:
        example = f"legible relations show {environments_of[0][0]} {file}"
        raise LegibleError(
            f"there are {len(environments_of)} relations files called {file!r}; name the environment, too: {example}."
        )
    if not environments_of:
        return None
    (environments,) = environments_of
    name = environments[0].rpartition("-v")[0]
    versions = [env for env in environments if env.rpartition("-v")[0] == name]
    return max(versions, key=lambda env: int(env.rpartition("-v")[2]))


def _shipped_for(env: str) -> dict[Path, tuple[RelationsFile, list[str]]]:
    from legible.environments import EnvironmentSpec, shipped_relations  # noqa: PLC0415

    shipped = shipped_relations(env) or shipped_relations(EnvironmentSpec(env))
    if not shipped:
        raise LegibleError(f"no relations come with the package for {env!r}; 'legible relations list' lists all.")
    return {entry.path: (entry, [env.rpartition(":")[2]]) for entry in shipped}


def _all_shipped() -> dict[Path, tuple[RelationsFile, list[str]]]:
    """Return all shipped files with the environments that they are for, installed or not."""
    import gymnasium  # noqa: PLC0415

    from legible.environments import all_domains, shipped_relations  # noqa: PLC0415
    from legible.files import read_toml  # noqa: PLC0415

    ids = dict.fromkeys(gymnasium.registry)
    for domain in all_domains():
        for file in domain.relations:
            for relation in read_toml(file.path)["relation"]:
                # Names without a version ("pacman") stand for several environments.
                ids |= dict.fromkeys(env for env in relation.get("holds", {}) if "-v" in env)
    shipped: dict[Path, tuple[RelationsFile, list[str]]] = {}
    for env in ids:
        for entry in shipped_relations(env):
            shipped.setdefault(entry.path, (entry, []))[1].append(env)
    return dict(sorted(shipped.items()))


# --- Drawing ---------------------------------------------------------------------------------------------------------


def _show_group(console: Console, title: str, group: Sequence[MetamorphicRelation], space: FeatureSpace) -> None:
    """Print relations of a group in tables: how each maps features, and which actions it maps to which.

    A relation is for one action; those of a group that map features in the same way share a table.
    """
    # By the rows of the table: feature, feature that its value goes to, and how.
    same_features: dict[tuple[tuple[str, str, str], ...], list[MetamorphicRelation]] = {}
    for relation in group:
        same_features.setdefault(tuple(relation.rows(space)), []).append(relation)
    for rows, relations in same_features.items():
        first, action_names = relations[0], space.action_names
        console.print(f"[bold]{escape(title)}[/]{escape(f': {first.words}' if first.words else '')}")
        arrows = [f"{action_names[each.action]} → {action_names[each.image_action]}" for each in relations]
        console.print(f"Actions: {escape(', '.join(arrows))}")
        for env, answer in first.holds.items():
            console.print(f"Holds in {escape(env)} (according to its file): {answer}")
        console.print(table(("Feature", "Its value goes to", "How"), rows))
        if first.note:
            console.print(escape(first.note.strip()))
        console.print()


def _print_checks(console: Console, source: str, checks: Sequence[RelationCheck]) -> None:
    """Print whether a relation holds: a table with a line for every pair of actions, and notes below it.

    `checks` are the results of this relation, one for every pair of an action and the action that the relation maps it
    to; `source` is the file of the relation, or its name.
    """
    from legible.relations.check.answers import OTHER  # noqa: PLC0415

    name, file = checks[0].relation, f" ({source})" if source != checks[0].relation else ""
    console.print(f"[bold]{escape(name)}[/]{escape(file)}, {escape(checks[0].method)}")
    answers = Table(box=box.SIMPLE_HEAD)
    for column in ("Actions", "States", "Agree", "Largest deviation", "Verdict"):
        answers.add_column(column, justify="right" if column in {"States", "Agree"} else "left")
    for check in checks:
        agreement = "" if math.isnan(check.agreement) else percent(check.agreement)
        verdict = f"[{VERDICT_COLOURS[check.verdict]}]{check.verdict}[/]"
        deviation = "" if math.isnan(check.deviation) else number(check.deviation)
        feature = f" ({escape(check.deviation_of)})" if deviation and check.deviation_of else ""
        answers.add_row(_actions(check), str(check.states), agreement, f"{deviation}{feature}", verdict)
    console.print(answers)
    # Notes and known causes of disagreements; pairs of actions with the same note share a line.
    actions_by_note: dict[str, list[str]] = {}
    for check in checks:
        shares = [f"{cause} {percent(share)}" for cause, share in check.causes.items()]
        causes = f"disagreements: {', '.join(shares)}" if set(check.causes) - {OTHER} else ""
        note = "; ".join(filter(None, (check.note, causes)))
        actions_by_note.setdefault(note, []).append(_actions(check))
    for note, actions in actions_by_note.items():
        if note:
            console.print(f"{', '.join(actions)}: {escape(note)}.")
    # One counterexample: of a pair for which the relation does not hold, if there is any, with the lowest agreement.
    worst_first = sorted(checks, key=lambda check: (check.verdict != "does not hold", check.agreement))
    counterexample = next((check.counterexample for check in worst_first if check.counterexample is not None), None)
    if counterexample is not None:
        console.print(f"Counterexample: {escape(counterexample.text)}")
    console.print()


def _actions(answer: RelationCheck) -> str:
    return escape(f"{answer.action} → {answer.image_action}")
