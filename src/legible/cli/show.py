"""``legible show``: the results of a study, section by section.

- `SECTIONS`: how each section is printed, and its plain data for JSON.
- `print_section`: prints one of them; ``legible run --until`` uses it, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import rich_click as click
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from legible.cli.choice import open_study
from legible.cli.completion import complete_study
from legible.cli.drawing import Bars, out, print_json, table, tell
from legible.cli.options import PATH, json_option, other_option, others, trust_option, verbose_option
from legible.errors import LegibleError
from legible.formatting import capitalise, confidence_interval, counted, number, p_value, percent, signed, with_error

if TYPE_CHECKING:
    from rich.console import Console

    from legible.evaluation import Evaluation, Verdict
    from legible.evaluation.ledger import Ledger
    from legible.mining import Mining
    from legible.study import Study

# Modules that need PyTorch are imported inside functions: that takes seconds.

MOST_LINES = 40  # of a verdict
MOST_WEAKNESSES, MOST_BASELINES, MOST_NEXT_STEPS = 3, 2, 4
# Headings of figures that are too long for a table on a narrow terminal.
_SHORT_WORDS = {"Mean return of the worst tenth": "Worst tenth", "Share of successful episodes": "Successes"}


@click.command
@click.argument("study", metavar="STUDY", type=PATH, help="Folder of a study.", shell_complete=complete_study)
@click.argument(
    "section",
    metavar="[SECTION]",
    type=click.Choice(["verdict", "weaknesses", "rules", "mistakes", "failures", "composition", "seeds", "report"]),
    default="verdict",
    help="verdict (default), weaknesses, rules, mistakes, failures, composition, seeds, or report: write the HTML "
    "report again.",
)
@click.option("--html", metavar="FILE", type=PATH, help="report: where to write it. [default: report.html in STUDY]")
@click.option(
    "--replay", metavar="SEED", type=int, multiple=True, help="report: add a replay of this seed; repeatable."
)
@other_option
@trust_option
@json_option
@verbose_option
def show(
    study: Path,
    section: str,
    html: Path | None,
    replay: tuple[int, ...],
    other: tuple[str, ...],
    trust: bool,
    as_json: bool,
) -> None:
    """Print the results of a study: the verdict, or one section in full."""
    # `html` (its file), `replay` (seeds) and `other` (policies to compare with) are options of the section "report",
    # which is written and not printed.
    if section != "report":
        for option, value in {"--html": html, "--replay": replay, "--other": other}.items():
            if value:
                raise LegibleError(f"{option} belongs to the report: legible show {study} report {option} …")
        print_section(open_study(study, trust=trust), section, as_json=as_json)
        return
    from legible.report import write_report  # noqa: PLC0415

    with Bars(quiet=as_json) as bars:
        opened = open_study(study, trust=trust, progress=bars)
        with opened.engine:
            path = write_report(opened, html, others=others(other), watch=replay)
    if as_json:
        print_json({**identify(opened), "report": path})
    else:
        out().print(f"Report: {path}", soft_wrap=True, markup=False)


def print_section(study: Study, section: str, *, as_json: bool) -> None:
    """Print a section of a study as text or as JSON."""
    if as_json:
        print_json({**identify(study), **SECTIONS[section].to_data(study)})
    else:
        SECTIONS[section].print(study)


def identify(study: Study) -> dict[str, Any]:
    """Return the folder, environment, policy and seed of a study."""
    return {
        "folder": study.folder,
        "environment": study.named_environment.name,
        "arguments": dict(study.named_environment.arguments),
        "policy": study.policy_name,
        "seed": study.seed,
    }


# --- Verdict ---------------------------------------------------------------------------------------------------------


def _print_verdict(study: Study) -> None:
    """Print the verdict of a finished study on one screen: conclusion, weaknesses, figures, next steps and files.

    A terminal shows fewer weaknesses, then no parts of the gain, where more would not fit into `MOST_LINES`.
    """
    for most_weaknesses, splits_gain in (*((most, True) for most in range(MOST_WEAKNESSES, 0, -1)), (1, False)):
        console = out()
        with console.capture() as drawn:
            _draw_verdict(console, study, most_weaknesses, splits_gain=splits_gain)
        lengths = [Text.from_ansi(line).cell_len for line in drawn.get().splitlines()]
        lines = sum(max(1, math.ceil(length / console.width)) for length in lengths)  # as a terminal wraps them
        if lines <= MOST_LINES or not console.is_terminal:
            break
    click.echo(drawn.get(), nl=False, color=console.color_system is not None)


def _draw_verdict(console: Console, study: Study, most_weaknesses: int, *, splits_gain: bool) -> None:
    """Draw the verdict of a finished study, with at most `most_weaknesses` weaknesses.

    With `splits_gain`, a sentence says which ending, reward term or time the gain of the guided policy comes from.
    """
    from legible.mistakes import summarise_mistakes  # noqa: PLC0415

    conclusion, improvement = study.conclusion, study.improvement
    if study.has("own rules") and study.own_rules.rules:
        console.print("[bold]Your rules[/]:")
        for sentence in study.own_rules.sentences():
            console.print(Padding(escape(sentence), (0, 0, 0, 2)))
        console.print()
    _draw_text(console, conclusion.headline, "bold")
    for sentence in conclusion.sentences:
        _draw_text(console, sentence)
    _draw_weaknesses(console, study, most_weaknesses)
    console.print(_figures(study, compact=True))
    # How the episodes end, where the gain of the guided policy comes from, and single decisions.
    if len(study.endings) > 1:
        _draw_text(console, _endings_sentence(study))
    if splits_gain and study.ledger is not None and study.ledger.sentence():
        _draw_text(console, f"Gain of {study.ledger.sentence(most=1)}")
    if study.has("mistakes"):
        _draw_text(console, summarise_mistakes(study.mistakes))
    next_steps = study.next_steps
    if next_steps is not None:
        for sentence in (*next_steps.seen, *next_steps.steps)[:MOST_NEXT_STEPS]:
            console.print(Padding(f"• {escape(sentence)}", (0, 0, 0, 1)))
    # Further sections, and the files.
    files = {"Details": f"legible show {study.folder} weaknesses|rules|mistakes|failures|composition|seeds"}
    if len(improvement.composition):
        # A policy that is no network cannot be saved with its rules; then there is only the file of the rules.
        saved = study.folder / "guided.safetensors"
        files[f"Guided policy{_doubt(study)}"] = str(saved if saved.exists() else study.folder / "composition.json")
    report = study.folder / "report.html"
    if report.exists():
        files["Report"] = str(report)
    for name, file in files.items():
        console.print(f"{name}: {file}", soft_wrap=True, markup=False)


def _draw_text(console: Console, text: str, style: str = "") -> None:
    """Draw sentences: a terminal's lines break between words, elsewhere each is one line."""
    console.print(text, style=style, soft_wrap=not console.is_terminal, markup=False)


def _draw_weaknesses(console: Console, study: Study, most: int) -> None:
    """Draw the strongest weaknesses: the rule as advice, and the gain of following it."""
    # Only the strongest have explanations.
    confirmed = [explanation for explanation in study.explanations if explanation.verdict.is_confirmed]
    if not confirmed:
        return
    count, shown = sum(group.is_confirmed for group in study.weaknesses), confirmed[:most]
    how_many = f" ({len(shown)} of {count})" if count > len(shown) else ""
    console.print(f"\n[bold]Weaknesses{how_many}[/]: following the rule changes the mean return by")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column()
    for explanation in shown:
        effect = explanation.verdict.confirmation.effect  # type: ignore[union-attr]
        grid.add_row(
            f"  [bold]{signed(effect.mean)}[/] ({signed(effect.low)} to {signed(effect.high)})",
            escape(_advice(study, explanation.rule_set)),
        )
    console.print(grid)


def _endings_sentence(study: Study) -> str:
    """Return how the episodes end, with their shares unguided and, in brackets, guided."""
    shares = [
        f"{share.words} {percent(share.base.value)}" + (f" ({percent(share.guided.value)})" if share.guided else "")
        for share in study.endings
    ]
    guided = " (in brackets: guided)" if study.endings[0].guided is not None else ""
    return f"How episodes end{guided}: {', '.join(shares)}."


def _doubt(study: Study) -> str:
    """Return why a guided policy is no repair, as the end of its name."""
    from legible.explanation import is_repair  # noqa: PLC0415

    improvement, best = study.improvement, study.references.best
    if is_repair(improvement, study.references):
        return ""
    return f" (no better than {best.words})" if best and improvement.effect.low > 0 else " (the gain may be chance)"


def _figures(study: Study, *, compact: bool) -> Table:
    """Return a table of policy, guided policy and baselines by every objective; a compact one has no intervals."""
    from legible.evaluation.figures import figure_table  # noqa: PLC0415

    quoted = study.references.quoted[: MOST_BASELINES if compact else None]
    names = [entry.words.removeprefix("the same policy with ") if compact else entry.words for entry in quoted]
    columns, rows = figure_table(study.summary.figure_rows(names))
    # There are few objectives and perhaps many baselines: one line per policy fits a narrow terminal.
    header, *lines = zip(columns, *rows, strict=True)
    if compact:
        header = ("On held-out seeds", *(_SHORT_WORDS.get(words, words) for words in header[1:]))
        lines = [(line[0], *(cell.partition(" (")[0] for cell in line[1:])) for line in lines]
    return table(header, lines)


def _verdict_data(study: Study) -> dict[str, Any]:
    """Return what ``--json`` prints of a finished study: verdict, weaknesses, figures and next steps as plain data.

    Names of entries are those of the Python objects; steps that were not done have no entry.
    """
    from legible.study.sources import source_rows  # noqa: PLC0415

    conclusion, evaluation = study.conclusion, study.evaluation
    return {
        **({"own_rules": study.own_rules.to_rows()} if study.has("own rules") else {}),
        "headline": conclusion.headline,
        "verdict": conclusion.text,
        "answers": {answer.question: " ".join(answer.sentences) for answer in study.answers},
        "endings": [share.to_dict() for share in study.endings],
        "ledger": None if study.ledger is None else study.ledger.to_dict(),
        "weakness_ledgers": _ledger_data(study.weakness_ledgers),
        "confirmed_weaknesses": sum(group.is_confirmed for group in study.weaknesses),
        "before_you_deploy": study.deployment.to_dict(),
        "what_now": study.next_steps,
        **({"first_facts": asdict(study.first_facts)} if study.has("first facts") else {}),
        **({"time_limit": asdict(study.time_limit_probe)} if study.has("time limit") else {}),
        "references": study.references.to_rows(),
        "weaknesses": [
            {**explanation.to_dict(), "discovered_relations": study.discovered_behind(explanation.verdict.rule_set)}
            for explanation in study.explanations
        ],
        "evaluation": _shares(evaluation),
        "sources": [row.to_dict() for row in source_rows(study)],
        "improvement": _composition_data(study),
        "features": list(study.space.names),
        "relations": len(study.relations),
        **({"mistakes": _mistake_data(study)} if study.has("mistakes") else {}),
        **({"failures": study.failures.to_dict(study.space)} if study.has("failures") else {}),
    }


# --- Weaknesses ------------------------------------------------------------------------------------------------------


def _print_weaknesses(study: Study) -> None:
    """Print every rule set that looked like a weakness, with its tests, and the explanations of the strongest.

    A rule set is a rule with its related forms. It looks like a weakness if the policy did better in the first test
    when it was guided by it; it is confirmed if that holds on held-out seeds.
    """
    console, evaluation, base = out(), study.evaluation, study.evaluation.base
    console.print(
        f"Unguided: mean return {with_error(base.mean, base.error)} over {base.episodes} episodes "
        f"({study.settings.play.words}).",
        soft_wrap=True,
    )
    # Confirmed ones first, then the others by p-value.
    suspected = sorted((verdict for verdict in evaluation.weaknesses if not verdict.is_confirmed), key=lambda v: v.p)
    rows, shown_advice = [], set()
    n_actions = len(study.space.actions) if study.space.is_discrete else 0  # 0: actions have several parts
    for verdict in (*evaluation.confirmed, *suspected):
        advice_key = verdict.rule_set.advice_key(n_actions)
        if advice_key in shown_advice:  # rule sets that give the same advice are listed once
            continue
        shown_advice.add(advice_key)
        # Without a confirmation: effect and p-value of the first test. With one: its effect, and both the p-value and
        # the q-value, which is corrected for the number of confirmations.
        confirmation = verdict.confirmation
        if confirmation is None:
            effect_text, tests = signed(verdict.difference), p_value(verdict.p, "p")
        else:
            effect = confirmation.effect
            effect_text = f"{signed(effect.mean)}\n({signed(effect.low)} to {signed(effect.high)})"
            tests = f"{p_value(verdict.p, 'p')}\n{p_value(confirmation.q, 'q')}"
        rows.append((_advice(study, verdict.rule_set), effect_text, tests, _confirmed_word(evaluation, verdict)))
    if rows:
        columns = ("Guided by", "Effect (95 % CI)", "Tests", "Confirmed")
        console.print(table(columns, rows, right=columns[1:-1]))
    else:
        console.print("No rule set looked like a weakness.")
    # Explanations in numbered paragraphs; the first line is the weakness itself.
    if study.has("explanations"):
        for position, explanation in enumerate(study.explanations, start=1):
            first_line, *more_lines = explanation.text().splitlines()
            grid = Table.grid(padding=(0, 1))
            grid.add_row(f" {position}.", f"[bold]{escape(first_line)}[/]")
            for line in more_lines:
                grid.add_row("", escape(line.strip()))
            if relations := study.discovered_behind(explanation.verdict.rule_set):
                grid.add_row("", escape(f"Its related forms follow from a relation: {', '.join(relations)}."))
            console.print(grid)
    if study.has("improvement") and study.has("references"):
        _print_sources(study)
    for note in evaluation.notes:
        tell(note)
    _remark_on_rules(study)


def _confirmed_word(evaluation: Evaluation, verdict: Verdict) -> str:
    """Return the entry of the column "Confirmed": yes, or why not."""
    if verdict.is_confirmed:
        return "yes"
    if verdict.confirmation is not None and verdict.confirmation.is_too_rare:
        return "too few changed episodes"
    return "negligible" if evaluation.relevance(verdict) == "negligible" else "no"


def _print_sources(study: Study) -> None:
    """Print how many rule sets of each source were tried, confirmed and used, unless there is one source only."""
    from legible.study.sources import source_rows  # noqa: PLC0415

    rows = source_rows(study)
    if len(rows) > 1:
        columns = ("Source of rules", "Tried", "On held-out seeds", "Confirmed", "Used", "Steps")
        cells = [(r.source, *map(number, (r.tried, r.tested_held_out, r.confirmed, r.used, r.steps))) for r in rows]
        out().print(table(columns, cells, right=columns[1:]))


def _remark_on_rules(study: Study) -> None:
    """Print how to find more: rules where there are none, relations where there are none."""
    mining = study.mining
    if not mining.rules:
        actions = study.experiences.actions
        dropped = _dropped(mining)
        why = f"dropped: {dropped}" if dropped else "none learned"
        if (actions == actions[:1]).all():
            why = "it always takes the same action"
        tell(f"No rule describes the policy ({why}).")
    elif not study.relations:
        from legible.environments import shipped_relations  # noqa: PLC0415

        how = "docs/relations.md shows how to write them for --relations FILE"
        for file in shipped_relations(study.environment)[:1]:
            how = f"--relations {file.name} uses one that comes with the package"
        tell(f"No relations were used, so each rule was tested without related forms; {how}.")


def _dropped(mining: Mining) -> str:
    """Return how many learned rules were dropped for each reason, in words; "" if none was."""
    return ", ".join(f"{count} {reason}" for reason, count in mining.dropped.items() if count)


def _shares(evaluation: Any) -> dict[str, Any]:
    kinds = ("weakness", "significant", "confirmed")
    return {"tested": len(evaluation.verdicts), **{kind: evaluation.share(kind) for kind in kinds}}


def _weaknesses_data(study: Study) -> dict[str, Any]:
    evaluation = study.evaluation
    return {
        "base": evaluation.base,
        "rule_sets": _shares(evaluation),
        "verdicts": evaluation.to_rows(study.space),
        "notes": list(evaluation.notes),
        "weaknesses": [e.to_dict() for e in study.explanations] if study.has("explanations") else [],
    }


# --- Rules -----------------------------------------------------------------------------------------------------------


def _print_rules(study: Study) -> None:
    """Print the mined rules, which describe habits of the policy, with the number of related forms of each.

    Related forms are the rules that symmetries of the task make from a rule; they are known once rules are generalised.
    """
    from legible.rules import describe_rule  # noqa: PLC0415

    console, mining = out(), study.mining
    form_counts = [len(related) for related in study.generalisations] if study.has("generalisations") else None
    # "Agrees": share of the covered states in which the policy follows the rule; "Covers": share of states in which its
    # conditions hold.
    columns = ["The policy …", "Agrees", "Covers", *(["Related forms"] if form_counts else [])]
    rows = []
    for i, (figures, mined) in enumerate(zip(mining.to_rows(), mining.rules, strict=True)):
        words = capitalise(describe_rule(mined.rule, study.space))
        cells = [words, percent(figures["agreement"]), percent(figures["coverage"])]
        if form_counts:
            cells.append(number(form_counts[i]))
        rows.append(cells)
    console.print(table(columns, rows, right=columns[1:]))
    dropped = _dropped(mining)
    learned = f" ({mining.learned} learned; dropped: {dropped})" if dropped else ""
    console.print(f"{len(rows)} rules from {study.experiences.n_episodes} episodes{learned}.", markup=False)
    if form_counts:
        sizes = f"{sum(form_counts)} rules in {len(form_counts)} rule sets"
        console.print(f"With related forms: {sizes}, by {counted(len(study.relations), 'relation')} of actions.")
    _remark_on_rules(study)


def _rules_data(study: Study) -> dict[str, Any]:
    """Return what ``--json`` prints of the mined rules: each with its figures and in words, and the rule sets.

    A rule set is a mined rule with its related forms, the rules that symmetries of the task make from it.
    """
    from legible.rules import describe_rule  # noqa: PLC0415

    mining, space = study.mining, study.space
    rows = zip(mining.to_rows(), mining.rules, strict=True)
    data: dict[str, Any] = {
        "learned": mining.learned,
        "dropped": mining.dropped,
        "rules": [{**row, "words": describe_rule(mined.rule, space)} for row, mined in rows],
    }
    if study.has("generalisations"):
        data["relations"] = len(study.relations)
        data["rule_sets"] = [
            {
                "rule": related.short_text(space),
                "rules": [rule.text(space) for rule in related.rules],
                "tested": bool(related.rules),  # no rules are left if relations ignore all features of a rule
            }
            for related in study.generalisations
        ]
    return data


# --- Composition -----------------------------------------------------------------------------------------------------


def _print_composition(study: Study) -> None:
    """Print the composition, the rules to deploy together: how it was selected, its figures, and alternatives."""
    from legible.explanation.objective_words import ObjectiveWords  # noqa: PLC0415

    console, improvement = out(), study.improvement
    # Rule sets in the order in which they were tried, with what each adds to those before it. The paper's method tests
    # no additions and shows mean returns; the other methods show none, because promising rule sets play more seeds.
    words, rows = ObjectiveWords(improvement.evaluation_settings.objective), []
    is_tested = any(step.effect is not None for step in improvement.steps)
    for step in improvement.steps:
        outcome = "yes" if step.accepted else "no"
        if step.is_removal:
            outcome = "removed"
        figure = "not tested" if is_tested else with_error(step.mean, step.error)
        if step.effect is not None:
            figure = f"{words.amount(step.effect.mean)}\n({words.ends(step.effect)})"
        rows.append((_advice(study, step.rule_set), figure, outcome))
    if rows:
        columns = ("Tried", "Adds (95 % CI)" if is_tested else "Mean return with it", "Kept")
        console.print(table(columns, rows, right=columns[1:2]))
    if is_tested:
        tell("In each step, the rule set that adds most on half of the seeds is tested on the other half.")
    # The Pareto front: compositions that no other one beats in both gain and share of changed actions.
    front = [
        (
            percent(row["changed"]),
            number(len(row["rules"])),
            f"{signed(row['effect'])} ({signed(row['low'])} to {signed(row['high'])})",
            "yes" if row["chosen"] else "",
        )
        for row in improvement.front_rows(study.space)
    ]
    if len(front) > 1:
        front_columns = ("Actions changed", "Rules", "Gain (95 % CI)", "Chosen")
        console.print(table(front_columns, front, right=front_columns[:-1]))
    # Reasons why there may be no composition, or why not to deploy it.
    check = improvement.check
    if check is not None and not check.is_passed:
        why = "too few episodes change" if check.is_too_rare else "the gain may be chance"
        gain = confidence_interval(check.effect.mean, check.effect.low, check.effect.high)
        rules = counted(len(check.composition), "rule")
        tell(f"The composition of {rules} was given up: on held-out seeds {why}, {gain}.")
    if improvement.changes_too_much:
        tell(
            f"On held-out seeds it changes {percent(improvement.guided.changed)} of the actions, more than the "
            f"{percent(improvement.settings.most_changed)} allowed (improvement.most_changed)."
        )
    if study.has("references"):
        console.print(_figures(study, compact=False))
    for constraint in improvement.constraints():
        outcome = "is kept" if constraint.is_kept else "is not shown to be kept"
        interval = confidence_interval(constraint.effect.mean, constraint.effect.low, constraint.effect.high)
        tell(f"The constraint {constraint.constraint!r} {outcome}: {interval}.")
    if len(improvement.composition):
        console.print(f"Rules of the guided policy: {study.folder / 'composition.json'}", soft_wrap=True, markup=False)
    else:
        console.print("No rule set is in the composition.")


def _composition_data(study: Study) -> dict[str, Any]:
    """Return what ``--json`` prints of the composition (the rules to deploy together): rules, check and figures."""
    from legible.explanation import imitated_reference, is_repair  # noqa: PLC0415

    improvement, space = study.improvement, study.space
    # The check on held-out seeds; the paper's method has none.
    check = improvement.check
    check_data = None
    if check is not None:
        check_data = {
            "rules": [rule.text(space) for rule in check.composition.rules],
            "effect": check.effect,
            "changed": check.changed,
            "too_rare": check.is_too_rare,
            "constraints": check.constraints,
            "passed": check.is_passed,
        }
    data: dict[str, Any] = {
        "base": improvement.base,
        "guided": improvement.guided,
        "effect": improvement.effect,
        "composition": [rule.text(space) for rule in improvement.composition.rules],
        "changed": improvement.guided.changed,
        "changes_too_much": improvement.changes_too_much,
        "front": improvement.front_rows(space),
        "check": check_data,
        "environment_steps": improvement.environment_steps,
        "steps": len(improvement.steps),
        "accepted": len(improvement.rule_sets),
        "objective": improvement.evaluation_settings.objective,
        "constraints": improvement.constraints(),
    }
    # With the baselines: a gain that only imitates one of them, or only repairs the policy, is reported as such.
    if study.has("references"):
        references = study.references
        imitated = imitated_reference(improvement, references)
        data |= {
            "figures": study.summary.figure_rows([baseline.name for baseline in references.quoted]),
            "repair": is_repair(improvement, references),
            "imitates": imitated.name if imitated is not None else None,
        }
    return data


# --- Mistakes and seeds ----------------------------------------------------------------------------------------------


def _print_mistakes(study: Study) -> None:
    """Print the figures about single decisions, and each mistake in a sentence."""
    from legible.mistakes import describe_mistake, describe_mistakes  # noqa: PLC0415

    found = study.mistakes
    for sentence in describe_mistakes(found):
        tell(sentence)
    grid = Table.grid(padding=(0, 1))
    for place, mistake in enumerate(found.listed, start=1):
        grid.add_row(f" {place}.", escape(describe_mistake(mistake, study.decisions)))
        ledger = study.mistake_ledgers[place - 1 : place]
        if ledger and ledger[0] is not None and ledger[0].sentence():
            grid.add_row("", escape(f"Gain of {ledger[0].sentence()}"))
    out().print(grid)


def _mistake_data(study: Study) -> dict[str, Any]:
    return {**study.mistakes.to_dict(), "ledgers": _ledger_data(study.mistake_ledgers)}


def _ledger_data(ledgers: Sequence[Ledger | None]) -> list[dict[str, Any] | None]:
    return [None if ledger is None else ledger.to_dict() for ledger in ledgers]


def _print_failures(study: Study) -> None:
    """Print failure modes, until when they can be avoided, and causes, a sentence each."""
    tell("\n".join(study.failures.sentences(study.space)))


def _print_seeds(study: Study) -> None:
    """Print the block of seeds of every stage that was played."""
    columns = ("Stage", "Used for", "First seed", "Seeds")
    stages = _seeds_data(study)["stages"]
    rows = [(row["stage"], row["used_for"], str(row["first"]), number(row["episodes"])) for row in stages]
    out().print(table(columns, rows, right=columns[2:]))


def _seeds_data(study: Study) -> dict[str, Any]:
    from legible.report.tables import seed_rows  # noqa: PLC0415

    return {"stages": [vars(row) for row in seed_rows(study)]}


def _advice(study: Study, rule_set: Any) -> str:
    from legible.rules import describe_rule_set  # noqa: PLC0415

    return capitalise(describe_rule_set(rule_set, study.space, "advice"))


class Section(NamedTuple):
    """One section of the results: how it is printed, and its plain data."""

    print: Callable[[Study], None]
    to_data: Callable[[Study], dict[str, Any]]


SECTIONS = {
    "verdict": Section(_print_verdict, _verdict_data),
    "weaknesses": Section(_print_weaknesses, _weaknesses_data),
    "rules": Section(_print_rules, _rules_data),
    "mistakes": Section(_print_mistakes, _mistake_data),
    "failures": Section(_print_failures, lambda study: study.failures.to_dict(study.space)),
    "composition": Section(_print_composition, _composition_data),
    "seeds": Section(_print_seeds, _seeds_data),
}
