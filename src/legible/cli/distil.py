"""``legible distil``: a guided policy as a network without rules, once or in rounds with studies in between."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from legible.cli.choice import StudyChoice, default_folder, environment_spec, look_here_for_modules, read_settings
from legible.cli.drawing import Bars, out, print_json, say, table
from legible.cli.options import advanced, study_options
from legible.errors import LegibleError
from legible.formatting import counted, number, percent, signed, with_error
from legible.settings import DistillationSettings, read_distillation_settings, settings_in

if TYPE_CHECKING:
    from legible.distillation import Distillation, RoundCheck
    from legible.study import Study
    from legible.study.mending import MendedRound, Mending

# Modules that need PyTorch are imported inside functions: that takes seconds.

MOST_BROKEN_RULES = 5


@click.command
@study_options(
    "Or, without POLICY: a study's folder, a guided policy's file, or the folder of earlier rounds.",
    "STUDY, GUIDED: the .zip (Stable-Baselines3) or .safetensors file to write. ENV POLICY: the folder of all rounds. "
    "[default: studies/ENV-POLICY-mended]",
    "ENV|STUDY|GUIDED",
)
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(min=1),
    help="ENV POLICY: rounds of study and distillation. [default: 3]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@advanced("--env", metavar="ENV", help="GUIDED: the environment to play. [default: the one that the file names]")
@advanced("--reports/--no-reports", default=True, help="ENV POLICY: write the report of every round.")
def distil(choice: StudyChoice, rounds: int | None, force: bool, env: str | None, reports: bool) -> None:
    """Train a network that needs no rules to act like a guided policy, and compare all three on held-out seeds.

    With ENV and POLICY: study the policy, distil the rules that help into its network, study the network, and so on,
    until no weakness is confirmed. A run that was stopped continues with the same command.
    """
    # Settings of learning ("distillation.…") apart from those of a study.
    of_learning = [word for word in choice.settings_given if word.startswith("distillation.")]
    tables = read_settings(of_learning, tuple(settings_in(DistillationSettings, "distillation")))
    learning = read_distillation_settings(tables["distillation"], "--set: distillation") if tables else None
    choice = replace(choice, settings_given=tuple(word for word in choice.settings_given if word not in of_learning))
    if choice.policy is not None or (Path(choice.target) / "mend.json").is_file():
        _distil_in_rounds(choice, rounds, learning, reports=reports)
    elif rounds is not None:
        raise LegibleError("--rounds needs ENV and POLICY, or the folder of earlier rounds.")
    else:
        _distil_once(choice, learning, env, force=force)


# The differences of `legible.distillation.figures.DistillationComparison.effects`, in words.
_DIFFERENCES = {
    "guided": "Guided against the policy alone",
    "distilled": "Distilled against the policy alone",
    "distilled against guided": "Distilled against guided",
}


# --- Once ------------------------------------------------------------------------------------------------------------


def _distil_once(choice: StudyChoice, learning: DistillationSettings | None, env: str | None, *, force: bool) -> None:
    """Distil a study or a guided policy into a network without rules, write it, and print how it compares.

    The target of `choice` is the folder of a study, or the file of a guided policy, whose environment is `env` (None:
    the one that the file names).
    """
    from legible.engines import make_engine  # noqa: PLC0415
    from legible.study.distilling import distil as distil_source  # noqa: PLC0415

    started = time.monotonic()
    choice.refuse_making_options("out", "seed", "arg", "wrap")  # options of a new study make no sense, except these
    if choice.out is None:
        raise LegibleError("--out FILE is missing: the .zip or .safetensors file to write the network to.")
    if choice.trust:
        look_here_for_modules()
    if env is None and (choice.arg or choice.wrap):
        raise LegibleError("--arg and --wrap need --env: a study and a guided policy have their environment already.")
    with Bars(quiet=choice.as_json) as bars:
        distilled = distil_source(
            choice.target,
            choice.out,
            environment=None if env is None else environment_spec(env, choice.arg, choice.wrap),
            seed=choice.seed,
            settings=learning,
            engine=make_engine(choice.engine, choice.workers, choice.address),
            trust=choice.trust,
            force=force,
            progress=bars,
            on_round=None if choice.as_json else _say_round,
        )
    if choice.as_json:
        seconds = time.monotonic() - started
        print_json({"source": choice.target, "file": choice.out, **distilled.to_dict(), "seconds": seconds})
    else:
        _print_distillation(distilled, choice.out)


def _say_round(check: RoundCheck) -> None:
    say(
        f"Round {check.number}: agrees with the guided policy in {percent(check.agreement)} of its states, mean return "
        f"{with_error(check.mean, check.error)} (held-out seeds)."
    )


def _print_distillation(distillation: Distillation, path: Path) -> None:
    """Print what distillation has kept of the guided policy's gain, and the rules that the network still breaks."""
    from legible.evaluation.figures import figure_table  # noqa: PLC0415

    console = out()
    # `figure_table` has a row per objective; here objectives are columns and policies are rows.
    columns, rows = figure_table(distillation.comparison.figure_rows())
    header, *lines = zip(columns, *rows, strict=True)
    console.print(f"[bold]{distillation.verdict()}[/]", soft_wrap=True)
    console.print(table(header, lines))
    differences = distillation.comparison.effects()
    for name, words in _DIFFERENCES.items():
        effect = differences[name]["mean"]
        interval = f"{signed(effect.mean)} (95 % CI {signed(effect.low)} to {signed(effect.high)})"
        console.print(f"{words}, same seeds: {interval}", markup=False)
    console.print(distillation.rules_sentence(), soft_wrap=True)
    for rule in distillation.still_broken[:MOST_BROKEN_RULES]:
        console.print(
            f"  • {rule.rule.text(distillation.space)}: {percent(rule.broken)} of {number(rule.states)} states "
            f"(before: {percent(rule.broken_before)})",
            soft_wrap=True,
            markup=False,
        )
    console.print(f"Network: {path}", soft_wrap=True, markup=False)


# --- In rounds -------------------------------------------------------------------------------------------------------


def _distil_in_rounds(
    choice: StudyChoice, rounds: int | None, learning: DistillationSettings | None, *, reports: bool
) -> None:
    """Study a policy, distil its rules into the network, study that network, and so on; print all results.

    `rounds` is the maximum number of rounds (None: the default, or that of the rounds that are continued). With
    `reports`, a report of every round's study is written, and one of all rounds.
    """
    from legible.engines import make_engine  # noqa: PLC0415
    from legible.report import write_report  # noqa: PLC0415
    from legible.report.rounds import write_rounds  # noqa: PLC0415
    from legible.study.mending import mend  # noqa: PLC0415

    started = time.monotonic()
    folder, arguments = _choose_folder(choice)

    def write_missing_report(study: Study) -> None:
        """Write the report of a round, unless an earlier run has."""
        if not (study.folder / "report.html").exists():
            write_report(study)

    # Rounds that the folder holds already are only read, so a command that was stopped can be repeated.
    with Bars(quiet=choice.as_json) as bars:
        mending = mend(
            folder,
            **arguments,
            rounds=rounds,
            distillation=learning,
            engine=make_engine(choice.engine, choice.workers, choice.address),
            trust=choice.trust,
            progress=bars,
            on_round=None if choice.as_json else _say_round,
            on_mended=None if choice.as_json else _say_mended,
            on_study=write_missing_report if reports else None,
        )
    if reports:
        write_rounds(mending)
    if choice.as_json:
        print_json({**mending.to_dict(), "seconds": time.monotonic() - started})
    else:
        _print_mending(mending)


def _choose_folder(choice: StudyChoice) -> tuple[Path, dict[str, Any]]:
    """Return the folder of the rounds, and the arguments of their studies unless the folder has them."""
    if choice.policy is None:
        choice.refuse_making_options()
        if choice.trust:
            look_here_for_modules()
        return Path(choice.target), {}
    usual = default_folder(choice.target, choice.policy)
    folder = choice.out or usual.with_name(f"{usual.name}-mended")
    if (folder / "study.json").is_file():
        raise LegibleError(f"{folder}: holds a study, not rounds of distillation; use another folder.")
    return folder, {"policy": choice.policy, **choice.arguments(choice.policy)}


def _say_mended(finished: MendedRound) -> None:
    """Remark on the study of a round: how many weaknesses it confirmed, and how many of them are not new."""
    known = f", {len(finished.came_back)} of them known from earlier rounds" if finished.came_back else ""
    weaknesses = counted(len(finished.confirmed), "weakness", "weaknesses")
    say(f"Round {finished.number}: {weaknesses} confirmed{known} ({counted(finished.tested, 'rule set')} tested).")


def _print_mending(mending: Mending) -> None:
    """Print the result of mending: the verdict, and a row for the policy and for every round.

    Mending repeats: find weaknesses of the network, confirm rules that correct them, distil the guided policy into a
    new network. `mending.results` has the episodes of the policy, then those of the network of every round that made
    one, all on the same seeds.
    """
    from legible.evaluation import Sample  # noqa: PLC0415

    def mean_return(player: int) -> str:
        """Return the mean return of a player (0: the policy, 1: the first network, …) with its standard error."""
        sample = Sample.of(mending.results[player])
        return with_error(sample.mean, sample.error)

    def difference(player: int, other: int) -> str:
        """Return how much better a player is than another, with the confidence interval."""
        effect = mending.effect(player, other)
        return f"{signed(effect.mean)} ({signed(effect.low)} to {signed(effect.high)})"

    console = out()
    rows = [("the policy", "", "", mean_return(0), "", "")]
    player = 0
    for mended_round in mending.rounds:
        results = ("no network", "", "")
        if mended_round.distilled is not None:
            player += 1
            results = (mean_return(player), difference(player, player - 1), difference(player, 0))
        confirmed = f"{len(mended_round.confirmed)} of {mended_round.tested}"
        rows.append((f"round {mended_round.number}", confirmed, str(len(mended_round.came_back)), *results))
    console.print(f"[bold]{mending.verdict()}[/]", soft_wrap=True)
    # "Again" counts weaknesses that an earlier round had confirmed, too.
    columns = ("", "Confirmed", "Again", "Mean return", "Against the last", "Against the policy")
    console.print(table(columns, rows, right=columns[1:4]))
    for name, file in {"Network": mending.file, "Report": mending.folder / "report.html"}.items():
        if file is not None and file.exists():
            console.print(f"{name}: {file}", soft_wrap=True, markup=False)
