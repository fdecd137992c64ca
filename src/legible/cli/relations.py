"""``legible relations``: list the relations that come with the package, show them as tables, check them."""

from __future__ import annotations

import json
import math
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from legible.cli.choice import environment_spec
from legible.cli.completion import complete_env
from legible.cli.options import (
    env_argument,
    environment_options,
    json_option,
    names_option,
    relations_argument,
    seed_option,
    verbose_option,
)
from legible.errors import LegibleError, did_you_mean

if TYPE_CHECKING:
    from legible.environments import EnvironmentSpec
    from legible.features import FeatureSpace
    from legible.relations import MetamorphicRelation, ShippedRelations
    from legible.relations.check import RelationCheck
    from legible.relations.check.answers import Progress as OnProgress

# What needs NumPy, Gymnasium or PyTorch is imported when it is used.


@click.group
def relations() -> None:
    """Relations: list them, show them, check them."""


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
def list_relations(env: str | None) -> None:
    """List the relations files that come with the package; those with a star are used by default."""
    shipped = _shipped_for(env) if env is not None else _all_shipped()
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("File", no_wrap=True)
    table.add_column("For", overflow="fold")
    table.add_column("Relations")
    for path, (file, environments) in shipped.items():
        relations = tomllib.loads(path.read_text(encoding="utf-8"))["relation"]
        says = "\n".join(f"[bold]{escape(r['name'])}[/]: {escape(r.get('words', ''))}" for r in relations)
        table.add_row(f"{file.name}{' *' if file.default else ''}", ", ".join(dict.fromkeys(environments)), says)
    Console().print(table)


@relations.command
@env_argument
@relations_argument
@names_option
@environment_options
@verbose_option
def show(env: str, file: str | None, names: Path | None, arg: tuple[str, ...], wrap: tuple[str, ...]) -> None:
    """Show relations as tables of feature → feature; without FILE, all that come with the package for ENV."""
    from legible.relations import by_name  # noqa: PLC0415

    console = Console()
    spec = environment_spec(env, arg, wrap)
    space = _features(spec, names)
    for source, relations in _load(env, file, space):
        for name, group in by_name(relations).items():
            _show_group(console, f"{name} ({source})" if source != name else name, group, space)


@relations.command
@env_argument
@relations_argument
@click.option(
    "--episodes", metavar="N", type=click.IntRange(min=1), help="Episodes to play; the default depends on ENV."
)
@click.option(
    "--states",
    metavar="N",
    type=click.IntRange(min=1),
    default=2000,
    show_default=True,
    help="The most states to compare for a pair of actions.",
)
@seed_option("The same seed gives the same answer.")
@names_option
@environment_options
@json_option
@verbose_option
def check(
    env: str,
    file: str | None,
    episodes: int | None,
    states: int,
    seed: int,
    names: Path | None,
    arg: tuple[str, ...],
    wrap: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check whether ENV agrees with relations; without FILE, with all that come with the package for it.

    Ends with exit code 1 when one of them does not hold.
    """
    from legible.relations.check import check_relations  # noqa: PLC0415

    spec = environment_spec(env, arg, wrap)
    space = _features(spec, names)
    console = Console()
    found: dict[str, list[RelationCheck]] = {}
    for source, relations in _load(env, file, space):
        with _progress(source) as report:
            found[source] = check_relations(
                spec, relations, space, episodes=episodes, states=states, seed=seed, on_progress=report
            )
    if as_json:
        answers = [{"file": source, **answer.to_dict()} for source, checks in found.items() for answer in checks]
        settings = {"environment": env, "arguments": spec.arguments, "episodes": episodes, "states": states}
        click.echo(json.dumps({**settings, "seed": seed, "checks": answers}, default=str, indent=2))
    else:
        for source, checks in found.items():
            for relation in dict.fromkeys(answer.relation for answer in checks):
                _print_checks(console, source, [answer for answer in checks if answer.relation == relation])
    if any(answer.verdict == "does not hold" for checks in found.values() for answer in checks):
        raise Exit(1)


# --- What is meant ---------------------------------------------------------------------------------------------------


def _features(spec: EnvironmentSpec, names: Path | None) -> FeatureSpace:
    from legible.features import FeatureSpace  # noqa: PLC0415
    from legible.relations.check import features_of  # noqa: PLC0415

    env = spec.make()
    try:
        return features_of(env, spec.name, None if names is None else FeatureSpace.from_toml(names))
    finally:
        env.close()


def _plain_id(env: str) -> str:
    """The id without the module that registers it."""
    return env.rpartition(":")[2]


def _load(env: str, file: str | None, space: FeatureSpace) -> list[tuple[str, tuple[MetamorphicRelation, ...]]]:
    """Read the file that is meant, or all that come with the package for the environment."""
    from legible.relations import load_relations, shipped_relations  # noqa: PLC0415

    shipped = shipped_relations(_plain_id(env))
    if file is None:
        if not shipped:
            raise LegibleError(
                f"no relations come with the package for {env!r}; write a relations file and give it as FILE."
            )
        return [(entry.name, load_relations(entry.path, space)) for entry in shipped]
    for entry in shipped:
        if entry.name == file:
            return [(entry.name, load_relations(entry.path, space))]
    if not Path(file).exists():
        known = [entry.name for entry in shipped]
        hint = did_you_mean(file, known) or (f" Those that come with the package: {', '.join(known)}." if known else "")
        raise LegibleError(f"there is no relations file {file!r} for {env!r}.{hint}")
    return [(file, load_relations(file, space))]


def _shipped_for(env: str) -> dict[Path, tuple[ShippedRelations, list[str]]]:
    from legible.relations import shipped_relations  # noqa: PLC0415

    found = {entry.path: (entry, [_plain_id(env)]) for entry in shipped_relations(_plain_id(env))}
    if not found:
        raise LegibleError(f"no relations come with the package for {env!r}; 'legible relations list' lists all.")
    return found


def _all_shipped() -> dict[Path, tuple[ShippedRelations, list[str]]]:
    """All files with the environments that they are for, installed or not."""
    import gymnasium  # noqa: PLC0415

    from legible.relations import shipped_relations  # noqa: PLC0415

    root = Path(__file__).parent.parent / "environments"
    ids = dict.fromkeys(gymnasium.registry)
    for path in sorted(root.glob("*/relations/*.toml")):
        for relation in tomllib.loads(path.read_text(encoding="utf-8"))["relation"]:
            ids |= dict.fromkeys(relation.get("holds", {}))
    found: dict[Path, tuple[ShippedRelations, list[str]]] = {}
    for env in ids:
        # Names without a version ("pacman") stand for several environments.
        for entry in shipped_relations(env) if "-v" in env else ():
            found.setdefault(entry.path, (entry, []))[1].append(env.rpartition("/")[2])
    return dict(sorted(found.items()))


# --- Drawing ---------------------------------------------------------------------------------------------------------


def _show_group(console: Console, title: str, group: Sequence[MetamorphicRelation], space: FeatureSpace) -> None:
    """One table for all relations of a group that differ in their actions alone."""
    alike: dict[tuple[tuple[str, str, str], ...], list[MetamorphicRelation]] = {}
    for relation in group:
        alike.setdefault(tuple(relation.rows(space)), []).append(relation)
    for rows, relations in alike.items():
        first, actions = relations[0], space.action_names
        console.print(
            f"[bold]{escape(title)}[/]: {escape(first.words)}" if first.words else f"[bold]{escape(title)}[/]"
        )
        arrows = (f"{actions[r.action]} → {actions[r.image_action]}" for r in relations)
        console.print(f"Actions: {escape(', '.join(arrows))}", highlight=False)
        for env, answer in first.holds.items():
            console.print(f"Said to hold in {escape(env)}: {answer}", highlight=False)
        table = Table("Feature", "Its value goes to", "How", box=box.SIMPLE_HEAD)
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)
        if first.note:
            console.print(escape(first.note.strip()), highlight=False)
        console.print()


def _print_checks(console: Console, source: str, checks: Sequence[RelationCheck]) -> None:
    """One table for a relation, with a line for every pair of actions, and what there is to say below it."""
    from legible.relations.check.answers import OTHER, percent  # noqa: PLC0415

    name, file = checks[0].relation, f" ({source})" if source != checks[0].relation else ""
    console.print(f"[bold]{escape(name)}[/]{escape(file)}, {escape(checks[0].method)}", highlight=False)
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("Actions", "States", "Agree", "Largest deviation", "Verdict"):
        table.add_column(column, justify="right" if column in {"States", "Agree"} else "left")
    for answer in checks:
        agreement = "" if math.isnan(answer.agreement) else percent(answer.agreement)
        verdict = f"[{VERDICT_COLOURS[answer.verdict]}]{answer.verdict}[/]"
        table.add_row(_actions(answer), str(answer.states), agreement, _deviation(answer), verdict)
    console.print(table)
    notes: dict[str, list[str]] = {}
    for answer in checks:
        shares = [f"{cause} {percent(share)}" for cause, share in answer.causes.items()]
        causes = f"disagreements: {', '.join(shares)}" if set(answer.causes) - {OTHER} else ""
        notes.setdefault("; ".join(filter(None, (answer.note, causes))), []).append(_actions(answer))
    for note, which in notes.items():
        if note:
            console.print(f"{', '.join(which)}: {escape(note)}.", highlight=False)
    for answer in _worst_first(checks)[:1]:
        if answer.counterexample is not None:
            console.print(f"Counterexample: {escape(answer.counterexample.text)}", highlight=False)
    console.print()


def _actions(answer: RelationCheck) -> str:
    return escape(f"{answer.action} → {answer.image_action}")


def _deviation(answer: RelationCheck) -> str:
    if math.isnan(answer.deviation):
        return ""
    return f"{answer.deviation:.3g}" + (f" ({escape(answer.deviation_of)})" if answer.deviation_of else "")


def _worst_first(checks: Sequence[RelationCheck]) -> list[RelationCheck]:
    """Answers with a counterexample, those that do not hold first; JSON has them all."""
    examples = [answer for answer in checks if answer.counterexample is not None]
    return sorted(examples, key=lambda answer: (answer.verdict != "does not hold", answer.agreement))


@contextmanager
def _progress(source: str, patience: float = 1.0) -> Iterator[OnProgress]:
    """A bar on standard error, for what takes longer than a second."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    started = time.monotonic()
    task = bar.add_task(source, total=1.0)

    def report(share: float, what: str) -> None:
        if not bar.live.is_started and time.monotonic() - started > patience and bar.console.is_terminal:
            bar.start()
        bar.update(task, completed=share, description=f"{source}: {what}")

    try:
        yield report
    finally:
        bar.stop()
