"""``legible run`` and its steps, ``mine`` to ``report``; ``baselines``, ``compare`` and ``settings``.

Every command takes ENV and POLICY, and makes a study, or the folder of a study, and goes on with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import rich_click as click
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from legible.cli.announcing import announce
from legible.cli.choice import StudyChoice, open_study
from legible.cli.completion import complete_study
from legible.cli.composition import composition_data, print_composition
from legible.cli.drawing import Bars, out, print_json, say, table, tell
from legible.cli.options import (
    PATH,
    json_option,
    other_option,
    others,
    preset_option,
    study_command,
    trust_option,
    verbose_option,
)
from legible.errors import LegibleError
from legible.formatting import capitalise, confidence_interval, number, p_value, percent, signed, with_error
from legible.settings import PRESETS, StudySettings

if TYPE_CHECKING:
    from legible.evaluation import Evaluation
    from legible.study import Study

# What needs PyTorch is imported when it is used: that takes seconds.


@contextmanager
def working(choice: StudyChoice) -> Iterator[Study]:
    """Open or make the study, with bars and workers for as long as it is worked on."""
    with Bars(quiet=choice.as_json) as bars:
        study = choice.study(bars)
        for left_out in study.relations_left_out:
            say(f"Relations that are not used: {escape(left_out)}.")
        for left_out in study.other_rules.left_out:
            say(f"{escape(left_out)}.")
        statistics = getattr(getattr(study.policy, "normalisation", None), "source", None)
        if statistics and not choice.is_folder and not choice.normalisation:
            say(f"Observations are normalised with {escape(str(statistics))} (--normalisation none leaves it out).")
        with study.engine:
            yield study


@click.command
@study_command()
@click.option("--with-baselines", is_flag=True, help="Run the paper's baselines, too, for the report.")
@other_option
def run(choice: StudyChoice, with_baselines: bool, other: tuple[str, ...]) -> None:
    """Do the whole study: mine rules, generalise them, find weaknesses, improve the policy, write the report.

    A run that was stopped goes on where it was when the same command, or 'legible run DIR', is given.
    """
    from legible.report import write_report  # noqa: PLC0415

    started = time.monotonic()
    with working(choice) as study:
        announce(study, choice)
        improvement = study.run(baselines=with_baselines, others=others(other))
        path = write_report(study)
    if choice.as_json:
        print_json({**_summary(study), "report": path, "seconds": time.monotonic() - started})
        return
    _print_findings(study)
    console = out()
    if len(improvement.composition):
        saved = study.folder / "guided.safetensors"
        file = saved if saved.exists() else study.folder / "composition.json"
        console.print(f"Guided policy{_doubt(study)}: {file}", soft_wrap=True, markup=False)
    console.print(f"Report: {path}", soft_wrap=True, markup=False)


@click.command
@study_command()
def mine(choice: StudyChoice) -> None:
    """Step 1: collect experiences and mine rules that say what the policy does and what it avoids."""
    from legible.rules import describe_rule  # noqa: PLC0415

    with working(choice) as study:
        mining = study.mine()
    rows = [{**row, "words": describe_rule(m.rule, study.space)} for row, m in zip(mining.to_rows(), mining.rules)]  # noqa: B905
    if choice.as_json:
        print_json({**about(study), "learned": mining.learned, "dropped": mining.dropped, "rules": rows})
        return
    console = out()
    cells = [(capitalise(row["words"]), percent(row["agreement"]), percent(row["coverage"])) for row in rows]
    console.print(table(("The policy …", "Agrees", "Covers"), cells, right=("Agrees", "Covers")))
    if choice.verbose:
        console.print("\n".join(row["rule"] for row in rows), markup=False, soft_wrap=True)
    dropped = ", ".join(f"{count} {reason}" for reason, count in mining.dropped.items() if count)
    console.print(
        f"{len(rows)} rules from {study.experiences.n_episodes} episodes"
        + (f" ({mining.learned} learned; dropped: {dropped})." if dropped else "."),
        markup=False,
    )
    _next(study, "generalise")


@click.command
@study_command()
def generalise(choice: StudyChoice) -> None:
    """Step 2: carry the mined rules over to related situations, as the relations say."""
    from legible.rules import describe_rule_set  # noqa: PLC0415

    with working(choice) as study:
        found = study.generalise()
    space = study.space
    if choice.as_json:
        sets = [
            {
                "rule": g.rule_set.short_text(space),
                "rules": [rule.text(space) for rule in g.rule_set.rules],
                "tested": not g.is_empty,
            }
            for g in found
        ]
        print_json({**about(study), "relations": len(study.relations), "rule_sets": sets})
        return
    console = out()
    for generalisation in found:
        console.print(f"• {capitalise(describe_rule_set(generalisation.rule_set, space))}", markup=False)
        if choice.verbose:
            lines = "\n".join(rule.text(space) for rule in generalisation.rule_set.rules)
            console.print(Padding(escape(lines), (0, 0, 0, 4)))
    rules = sum(len(g.rule_set) for g in found)
    console.print(f"{len(found)} mined rules became {rules} by {len(study.relations)} relations of actions.")
    _remark_on_relations(study)
    _next(study, "evaluate")


@click.command
@study_command()
def evaluate(choice: StudyChoice) -> None:
    """Step 3: guide the policy with every rule set, compare returns, and confirm weaknesses on fresh seeds."""
    from legible.explanation import verdict_sentence  # noqa: PLC0415

    with working(choice) as study:
        announce(study, choice, without=("improve", "compare", "explain", "mistakes"))
        evaluation = study.evaluate()
    if choice.as_json:
        shares, rows = _shares(evaluation), evaluation.to_rows(study.space)
        told = {"base": evaluation.base, "rule_sets": shares, "verdicts": rows, "notes": list(evaluation.notes)}
        print_json({**about(study), **told})
        return
    console = out()
    base = evaluation.base
    console.print(
        f"Unguided: mean return {with_error(base.mean, base.error)} over {base.episodes} episodes "
        f"({study.settings.play.words}).",
        soft_wrap=True,
    )
    _print_verdicts(study)
    for note in evaluation.notes:
        tell(note)
    tell(verdict_sentence(evaluation, weaknesses=study.weaknesses))
    _remark_on_relations(study)
    _next(study, "improve")


@click.command
@study_command()
def improve(choice: StudyChoice) -> None:
    """Compose the rule sets that help into a guided policy, and measure it on fresh seeds."""
    with working(choice) as study:
        announce(study, choice, without=("explain", "mistakes"))
        improvement, references = study.improve(), study.play_references()
    if choice.as_json:
        print_json({**about(study), **_improvement(study), "references": references.to_rows()})
        return
    console = out()
    rows = [
        (
            _words(study, step.rule_set),
            with_error(step.mean, step.error),
            "left out" if step.is_removal else "yes" if step.accepted else "no",
        )
        for step in improvement.steps
    ]
    if rows:
        console.print(table(("Tried", "Mean return then", "Kept"), rows, right=("Mean return then",)))
    print_composition(study)
    _print_figures(study)
    tell(study.conclusion.text)
    if len(improvement.composition):
        console.print(f"Rules of the guided policy: {study.folder / 'composition.json'}", soft_wrap=True, markup=False)
    _next(study, "report")


@click.command
@study_command()
def explain(choice: StudyChoice) -> None:
    """Put the most telling weaknesses into words: what is known, what is not, and which rules make the difference."""
    with working(choice) as study:
        announce(study, choice, without=("mistakes",))
        study.play_references()
        study.explain()
    if choice.as_json:
        print_json(_summary(study))
        return
    _print_findings(study)


@click.command
@study_command("Folder of the study. With DIR: where the report goes, a folder or a .html file.")
@click.option(
    "--html",
    metavar="FILE",
    type=PATH,
    help="Where the report goes; with DIR, --out says it, too. [default: report.html in the study's folder]",
)
@click.option(
    "--watch",
    metavar="SEED",
    type=int,
    multiple=True,
    help="Seed of the final figure to show as a replay, too (plots/returns.csv lists them); may be given repeatedly. "
    "With DIR, --seed says it, too.",
)
@other_option
def report(choice: StudyChoice, html: Path | None, watch: tuple[int, ...], other: tuple[str, ...]) -> None:
    """Write the report: one HTML file that needs nothing else. Steps that are missing are done first."""
    from legible.report import write_report  # noqa: PLC0415

    if choice.is_folder and choice.out is not None:  # the study has its folder, so that this can only be the report's
        if html is not None:
            raise LegibleError("--html and --out both say where the report goes; give one of them.")
        html = choice.out if choice.out.suffix == ".html" else choice.out / "report.html"
        choice = replace(choice, out=None)
    if choice.is_folder and choice.seed is not None:  # the study has its seed, so that this can only be one to watch
        watch, choice = (choice.seed, *watch), replace(choice, seed=None)
    with working(choice) as study:
        announce(study, choice, without=("mistakes",))
        path = write_report(study, html, others=others(other), watch=watch)
    if choice.as_json:
        print_json({**about(study), "report": path})
        return
    out().print(f"Report: {path}", soft_wrap=True, markup=False)


@click.command
@study_command()
@click.option(
    "--kind",
    type=click.Choice(["block", "enforce", "rules"]),
    multiple=True,
    help="Random tests that block or enforce actions, or random rules; may be given repeatedly.",
)
def baselines(choice: StudyChoice, kind: tuple[str, ...]) -> None:
    """Compare with the paper's baselines: random testing and random rules; all three by default."""
    with working(choice) as study:
        found: dict[str, Evaluation] = {"mined rules": study.evaluate()}
        for name in kind or ("block", "enforce", "rules"):
            found[_BASELINE_NAMES.get(name, name)] = study.play_baseline(name)
    if choice.as_json:
        print_json({**about(study), "baselines": {name: _shares(e) for name, e in found.items()}})
        return
    rows = [
        (
            name,
            str(len(e.verdicts)),
            *(percent(e.share(kind)) for kind in ("weakness", "significant", "confirmed")),
        )
        for name, e in found.items()
    ]
    columns = ("Guided by", "Tested", "Weakness", "After correction", "Confirmed")
    out().print(table(columns, rows, right=columns[1:]))


_BASELINE_NAMES = {"block": "random tests, blocking", "enforce": "random tests, enforcing", "rules": "random rules"}


@click.command
@click.argument("first", metavar="DIR", type=PATH, help="Folder of a study.", shell_complete=complete_study)
@click.argument("second", metavar="DIR", type=PATH, help="Folder of another.", shell_complete=complete_study)
@click.option(
    "--episodes",
    metavar="N",
    type=click.IntRange(min=2),
    default=500,
    show_default=True,
    help="Episodes of each policy with each rule set.",
)
@trust_option
@json_option
@verbose_option
def compare(first: Path, second: Path, episodes: int, trust: bool, as_json: bool) -> None:
    """Compare two studies by playing: what the rule sets of either do to both policies, on the same fresh seeds."""
    from legible.study.comparison import compare_studies  # noqa: PLC0415

    with Bars(quiet=as_json) as bars:
        one, two = (open_study(folder, trust=trust, progress=bars) for folder in (first, second))
        with one.engine, two.engine:
            found = compare_studies(one, two, episodes)
    if as_json:
        print_json(found.to_dict())
        return
    console = out()
    console.print(f"[bold]{escape(found.headline())}[/]")
    sides = [
        (
            str(study.folder),
            study.policy_name or "policy",
            with_error(sample.mean, sample.error),
            f"{sum(group.is_confirmed for group in study.weaknesses)}",
        )
        for study, sample in zip((one, two), found.base, strict=True)
    ]
    console.print(table(("Study", "Policy", "Mean return, unguided", "Confirmed weaknesses"), sides))
    columns, rows = found.table()
    if rows:
        console.print(f"What rule sets change in the mean return, on {found.episodes} seeds (95 % CI):")
        console.print(table(columns, rows))
    for title, sentences in found.paragraphs():
        console.print(f"[bold]{escape(title)}[/]")
        for sentence in sentences:
            console.print(Padding(f"• {escape(sentence)}", (0, 0, 0, 2)))


@click.command
@preset_option("Print this preset's.")
def settings(preset: str | None) -> None:
    """Print all settings as TOML, each with what it means; edit it and give it as --settings FILE."""
    chosen = PRESETS[preset]() if preset else StudySettings()
    click.echo(chosen.to_toml(comments=True), nl=False)


# --- What is told ----------------------------------------------------------------------------------------------------


def _print_findings(study: Study) -> None:
    """The conclusion, the most telling weaknesses in words, what guidance costs, and what relations would add."""
    console, explanations, conclusion = out(), study.explanations, study.conclusion
    tell(f"\n[bold]{escape(conclusion.headline)}[/]", markup=True)
    for sentence in conclusion.sentences:
        tell(sentence)
    if any(explanation.verdict.is_confirmed for explanation in explanations):
        which = "weaknesses" if len(explanations) > 1 else "weakness"
        tell(f"\nThe most telling {which} (q: the share of false alarms to expect among results at least as clear):")
    elif explanations:
        console.print("\nWhat looked like a weakness, but is not confirmed:")
    for place, explanation in enumerate(explanations, start=1):
        first, *others = explanation.text().splitlines()
        grid = Table.grid(padding=(0, 1))
        grid.add_row(f" {place}.", f"[bold]{escape(first)}[/]")
        for line in others:
            grid.add_row("", escape(line.strip()))
        console.print(grid)
    if explanations and not study.leaves_rules_out:
        console.print("Which rules of a set make the difference was not played: it takes longer than all the rest.")
    console.print()
    _print_figures(study)
    print_composition(study)
    _print_sources(study)
    for note in (*study.evaluation.notes, *study.references.notes):
        tell(note)
    play = study.settings.play
    spared = " Part of the gain is that guidance spares the policy its random actions there."
    more = spared if play.epsilon and not play.epsilon_when_guided else ""
    tell(f"How it was played: {play.words}.{more}")
    _remark_on_relations(study)
    outlook = study.outlook
    if outlook is not None:
        console.print("\n[bold]What now?[/]")
        for sentence in (*outlook.seen, *outlook.steps):
            console.print(Padding(f"• {escape(sentence)}", (0, 0, 0, 1)))
    if study.has("mistakes"):
        from legible.cli.mistakes import print_mistakes  # noqa: PLC0415

        console.print()
        print_mistakes(study)
    console.print()


def _print_sources(study: Study) -> None:
    """How many rule sets of each source were tried, confirmed and used, and what they cost; nothing for one source."""
    from legible.study.sources import source_rows  # noqa: PLC0415

    rows = source_rows(study)
    if len(rows) > 1:
        columns = ("Where it came from", "Tried", "On fresh seeds", "Confirmed", "Used", "Steps")
        cells = [(r.source, *map(number, (r.tried, r.entered, r.confirmed, r.used, r.steps))) for r in rows]
        out().print(table(columns, cells, right=columns[1:]))


def _doubt(study: Study) -> str:
    """What keeps a guided policy from being a repair."""
    from legible.explanation import is_repair  # noqa: PLC0415

    improvement, best = study.improvement, study.references.best
    if is_repair(improvement, study.references):
        return ""
    return f", no better than {best.words}" if best and improvement.effect.low > 0 else ", whose gain may be chance"


def _print_figures(study: Study) -> None:
    """Policy, guided policy and references by every objective, and whether constraints are kept."""
    from legible.evaluation.figures import figure_table  # noqa: PLC0415

    references = {entry.words: entry.result for entry in study.references.quoted}
    columns, rows = figure_table(study.improvement.figure_rows(references))
    # There are few objectives and perhaps many references: a line for each policy fits a narrow terminal.
    header, *lines = zip(columns, *rows, strict=True)
    out().print(table(header, lines))
    for check in study.improvement.constraints():
        kept = "is kept" if check.is_kept else "is not shown to be kept"
        interval = confidence_interval(check.effect.mean, check.effect.low, check.effect.high)
        tell(f"The constraint {check.constraint!r} {kept}: {interval}.")


def _remark_on_relations(study: Study) -> None:
    """Say what would tell more: rules where there are none, relations where there are none."""
    mining = study.mining
    if not mining.rules:
        dropped = ", ".join(f"{count} {reason}" for reason, count in mining.dropped.items() if count)
        actions = study.experiences.actions
        constant = bool((actions == actions[:1]).all())
        why = (
            "it always takes the same action" if constant else f"dropped: {dropped}" if dropped else "none were learned"
        )
        tell(f"No rule describes the policy ({why}).")
    elif not study.relations:
        from legible.environments import shipped_relations  # noqa: PLC0415

        there = [file.name for file in shipped_relations(study.environment)]
        known = (
            f"some come with the package, but are not taken unasked ({', '.join(there)}): --relations {there[0]}"
            if there
            else "write them as in docs/relations.md and give them as --relations FILE"
        )
        tell(
            "No relations were used, so every mined rule was tested by itself. Relations (symmetries of the "
            f"environment) would tell more: {known}."
        )


def _print_verdicts(study: Study) -> None:
    """The weaknesses, the largest confirmed effect first; the words get the room, figures stand below each other."""
    evaluation = study.evaluation
    suspected = sorted((v for v in evaluation.weaknesses if not v.is_confirmed), key=lambda v: v.p)
    rows = []
    for verdict in (*evaluation.confirmed, *suspected):
        confirmation = verdict.confirmation
        if confirmation is None:
            effect, tests = signed(verdict.difference), p_value(verdict.p, "p")
        else:
            found = confirmation.effect
            effect = f"{signed(found.mean)}\n({signed(found.low)} to {signed(found.high)})"
            tests = f"{p_value(verdict.p, 'p')}\n{p_value(confirmation.q, 'q')}"
        rare = confirmation is not None and confirmation.is_too_rare
        confirmed = "yes" if verdict.is_confirmed else "too few to tell" if rare else "no"
        rows.append((_words(study, verdict.rule_set), effect, tests, confirmed))
    if rows:
        columns = ("Guided by", "Effect (95 % CI)", "Tests", "Confirmed")
        out().print(table(columns, rows, right=columns[1:-1]))


def _words(study: Study, rule_set: Any) -> str:
    from legible.rules import describe_rule_set  # noqa: PLC0415

    return capitalise(describe_rule_set(rule_set, study.space, "advice"))


def _next(study: Study, command: str) -> None:
    say(f"[dim]Next: legible {command} {escape(str(study.folder))}[/]")


def about(study: Study) -> dict[str, Any]:
    """Return what tells a study from others, as plain data."""
    return {
        "folder": study.folder,
        "environment": study.environment.name,
        "arguments": dict(study.environment.arguments),
        "policy": study.policy_name,
        "seed": study.seed,
    }


def _shares(evaluation: Evaluation) -> dict[str, Any]:
    kinds: tuple[Literal["weakness", "significant", "confirmed"], ...] = ("weakness", "significant", "confirmed")
    return {"tested": len(evaluation.verdicts), **{kind: evaluation.share(kind) for kind in kinds}}


def _improvement(study: Study) -> dict[str, Any]:
    from legible.explanation import imitated_reference, is_repair  # noqa: PLC0415

    improvement, space, references = study.improvement, study.space, study.references
    imitated = imitated_reference(improvement, references)
    return {
        "base": improvement.base,
        "guided": improvement.guided,
        "effect": improvement.effect,
        "composition": [rule.text(space) for rule in improvement.composition.rules],
        **composition_data(study),
        "steps": len(improvement.steps),
        "accepted": len(improvement.rule_sets),
        "objective": improvement.evaluation_settings.objective,
        "figures": improvement.figure_rows({entry.name: entry.result for entry in references.quoted}),
        "constraints": improvement.constraints(),
        "repair": is_repair(improvement, references),
        "imitates": imitated.name if imitated is not None else None,
    }


def _summary(study: Study) -> dict[str, Any]:
    from legible.study.sources import source_rows  # noqa: PLC0415

    conclusion = study.conclusion
    return {
        **about(study),
        "headline": conclusion.headline,
        "verdict": conclusion.text,
        "confirmed_weaknesses": sum(group.is_confirmed for group in study.weaknesses),
        "before_you_deploy": study.deployment.to_dict(),
        "what_now": study.outlook,
        "references": study.references.to_rows(),
        "weaknesses": [explanation.to_dict() for explanation in study.explanations],
        "evaluation": _shares(study.evaluation),
        "sources": [row.to_dict() for row in source_rows(study)],
        "improvement": _improvement(study),
        "features": list(study.space.names),
        "relations": len(study.relations),
        **({"mistakes": study.mistakes.to_dict()} if study.has("mistakes") else {}),
    }
