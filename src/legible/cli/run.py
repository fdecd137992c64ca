"""``legible run`` and ``settings``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import rich_click as click
from rich.markup import escape

from legible.cli.choice import StudyChoice
from legible.cli.drawing import Bars, now, print_json, say
from legible.cli.exploiting import find_exploit
from legible.cli.options import advanced, other_option, others, preset_option, study_options
from legible.cli.show import SECTIONS, identify, print_section
from legible.errors import LegibleError
from legible.formatting import counted, duration, number, percent
from legible.settings import PRESETS, StudySettings

if TYPE_CHECKING:
    from legible.study import Study
    from legible.study.estimate import Estimate, Rate

# Modules that need PyTorch are imported inside functions: that takes seconds.

MIN_ANNOUNCED_SECONDS = 5.0  # shorter runs are not announced
TARGET_SECONDS = {None: 600.0, "quick": 120.0}  # by preset; slow environments get lower budgets, see fit_to_ladder
# The section that `--until` prints for each step of the paper.
UNTIL = {
    "mine": "rules",
    "generalise": "rules",
    "evaluate": "weaknesses",
    "improve": "composition",
    "mistakes": "mistakes",
}


@contextmanager
def working(choice: StudyChoice) -> Iterator[Study]:
    """Open or make the study, with progress bars and workers while it is worked on.

    Remarks on policy and environment are printed if the command names a policy. A command that names the folder of a
    study continues it, and they were printed when the study was made.
    """
    with Bars(quiet=choice.as_json) as bars:
        discovering = ", and discovering relations (2 to 10 minutes at most)" if "discover" in choice.relations else ""
        bars.now(f"loading the policy and the environment{discovering}")
        from legible.agents import describe_seats  # noqa: PLC0415
        from legible.policies.protocol import traits_of  # noqa: PLC0415

        study = choice.study(bars)
        if not choice.as_json:
            study.remark = lambda text: say(escape(text))
        for left_out in (*study.relations_left_out, *study.other_rules.left_out):
            say(f"Not used: {escape(left_out)}.")
        if study.observations_outside is not None and choice.policy is not None:
            say(f"Warning: {escape(study.observations_outside)}.")
        seats = describe_seats(study.environment) if choice.policy is not None else ""
        if seats:
            say(escape(seats))
        statistics = getattr(traits_of(study.policy).normalisation, "source", None)
        if statistics and choice.policy is not None and not choice.normalisation:
            say(f"Observations are normalised with {escape(str(statistics))}; --normalisation none turns that off.")
        with study.engine:
            yield study


@click.command
@study_options(
    "Or, without POLICY, the folder of a study to continue.", "Folder of the study. [default: studies/ENV-POLICY]"
)
@click.option(
    "--until",
    metavar="STEP",
    type=click.Choice(list(UNTIL)),
    help="Stop after mine, generalise, evaluate or improve; mistakes: only look for single mistakes.",
)
@click.option(
    "--minutes",
    metavar="N",
    type=click.FloatRange(min=0, min_open=True),
    help="Time for the whole run; budgets are chosen from the measured speed and kept in the study.",
)
@other_option
@advanced(
    "--exploit",
    metavar="SEATS|all",
    help="In a game of several agents: instead search for a rule of these other seats that beats the policy, and for "
    "the rule that repairs it.",
)
def run(
    choice: StudyChoice, until: str | None, minutes: float | None, other: tuple[str, ...], exploit: str | None
) -> None:
    """Study a policy: mine rules, find weaknesses, compose rules that help, and write a report.

    A run that was stopped continues with the same command, or with 'legible run STUDY'. 'legible run STUDY --minutes N'
    tests the undecided rule sets of a finished study on new seeds.

    In a game of several agents, --seat and --others say who plays, and --exploit finds how to beat the policy (see
    --help-all).
    """
    # `choice` has the inputs and settings of the study, `until` the last step to do, and `other` further policies to
    # compare with. With `minutes`, budgets are fitted to the time that is left, without that for the report. `exploit`
    # names the seats that search for rules against the policy.
    if exploit is not None:
        if until or minutes or other:
            raise LegibleError("--exploit cannot be used with --until, --minutes or --other.")
        find_exploit(choice, exploit)
        return
    started = time.monotonic()
    with working(choice) as study:
        from legible.study.budget import fit_composition, fit_continuation  # noqa: PLC0415
        from legible.workbench import export_checks  # noqa: PLC0415

        seconds = None if minutes is None else 60.0 * minutes - _report_seconds(study, minutes)
        if until is not None:
            _run_until(study, choice, until)
        else:
            _play_and_plan(study, choice, started, seconds)
            # A finished study with time left: test the undecided rule sets on new seeds.
            if seconds is not None and study.has("summary"):
                seconds_left = started + seconds - time.monotonic()
                if study.continue_testing(fit_continuation(study, _measure(study), seconds_left)) is None:
                    say("Nothing was tested again: in this time, no undecided rule set can change enough episodes.")
            # Testing takes more or less time than was estimated, so the composition gets what is left.
            if seconds is not None and not study.has("improvement"):
                study.evaluate()
                fit_composition(study, _measure(study), started + seconds - time.monotonic())
            study.run(others(other))
            now("writing the report")
            from legible.report import write_report  # noqa: PLC0415

            report = write_report(study)
            export_checks(study)  # the file of checks with which 'legible verify' tests a new policy
    if until is not None:
        print_section(study, UNTIL[until], as_json=choice.as_json)
    elif choice.as_json:
        data = SECTIONS["verdict"].to_data(study)
        print_json({**identify(study), **data, "report": report, "seconds": time.monotonic() - started})
    else:
        print_section(study, "verdict", as_json=False)


def _report_seconds(study: Study, minutes: float) -> float:
    """Return about how long the pictures of the report take, at most half of the time for the whole run."""
    from legible.report.replays import no_window  # noqa: PLC0415
    from legible.report.scenes import drawing_seconds  # noqa: PLC0415

    with no_window():
        return min(30.0 * minutes, drawing_seconds(study.environment))


def _run_until(study: Study, choice: StudyChoice, until: str) -> None:
    if until == "mine":
        study.mine()
    elif until == "generalise":
        study.generalise()
    elif until == "mistakes":
        study.find_mistakes()
    else:
        later = ("explain", "mistakes") if until == "improve" else ("improve", "compare", "explain", "mistakes")
        _play_and_plan(study, choice, time.monotonic(), steps_left_out=later)
        study.evaluate()
        if until == "improve":
            study.improve()
            study.play_references()


def _play_and_plan(
    study: Study,
    choice: StudyChoice,
    started: float,
    seconds: float | None = None,
    *,
    steps_left_out: tuple[str, ...] = (),
) -> None:
    """Do the steps of a study up to its rule sets, with budgets that fit the speed of play; print time estimates.

    Mined rules and their related forms (made by symmetries of the task) are the rule sets. With
    --minutes, the speed is measured again after mining, because the machine may have become busier.

    If rule sets have been tested already, budgets stay as they are. `started` is the time at which the command started
    (a value of `time.monotonic`), and `seconds` the time for the whole run (None: no limit). Steps of `steps_left_out`
    will not be done, and do not count in the estimates.
    """
    from legible.study.budget import LADDER_FACTOR, fit_to_ladder, fit_to_minutes  # noqa: PLC0415
    from legible.study.estimate import describe_endless, estimate  # noqa: PLC0415

    if study.is_played:
        study.generalise()
        return
    setup = study.setup()
    remark: Callable[[str], None] = (lambda _: None) if choice.as_json else say  # prints a sentence, unless for JSON
    if not study.has("experiences"):
        endless = "" if study.settings.time_limit else describe_endless(setup, seed=study.seed)
        if endless:
            remark(endless)
        # Measure the speed, and fit the budgets to the time of --minutes or to the usual time of the preset.
        rate = _measure(study)
        ends = f", {percent(rate.truncated)} end at the time limit" if rate.truncated else ""
        remark(f"Measured the speed with {counted(rate.played, 'episode')}: mean return {number(rate.mean)}{ends}.")
        if seconds is not None:
            fit_to_minutes(study, rate, started + seconds - time.monotonic())
        elif not choice.pins_budgets and choice.preset in TARGET_SECONDS:
            times_lowered = fit_to_ladder(study, rate, TARGET_SECONDS[choice.preset])
            if times_lowered:
                share = f"1/{round(LADDER_FACTOR**times_lowered)}"
                speed = f"{number(rate.episodes)} episodes/s"
                remark(f"Episodes are slow here ({speed}), so budgets are {share} of the usual ones (see --minutes).")
        whole = estimate(setup, study.settings, study.engine, rate=rate).without(*steps_left_out)
        _expect(whole)
        if whole.seconds > MIN_ANNOUNCED_SECONDS and seconds is None:
            speed = f"{number(rate.episodes * whole.workers)} episodes/s"
            remark(f"The study takes roughly {duration(whole.seconds)} at {speed}.")
    else:
        rate = None  # not measured yet: an earlier run has recorded the episodes and fitted the budgets
    # First facts and the user's own rules, then the rule sets; after that, their number makes a better estimate.
    for sentence in (*study.do("first facts").sentences(), *study.do("own rules").sentences()):
        remark(escape(sentence))
    study.generalise()
    rule_sets = len(study.rule_sets)
    if rate is None or seconds is not None:
        rate = _measure(study)
    if seconds is not None:
        fit_to_minutes(study, rate, started + seconds - time.monotonic(), rule_sets)
    rest = estimate(setup, study.settings, study.engine, rule_sets, rate=rate).without(*steps_left_out)
    _expect(rest)
    if rest.seconds > MIN_ANNOUNCED_SECONDS:
        most_raced = study.settings.evaluation.most_raced
        which = f"the {most_raced} that change most actions" if 0 < most_raced < rule_sets else "them"
        searching = " and searching for better rules" if rest.episodes.get("search") else ""
        habits = counted(rule_sets, "habit")
        remark(f"Found {habits} of the policy. Testing {which}{searching}: about {duration(rest.seconds)}.")


def _measure(study: Study) -> Rate:
    from legible.study.estimate import measure_rate  # noqa: PLC0415

    now("measuring the speed")
    return measure_rate(study.setup(), engine=study.engine, time_limit=study.settings.time_limit or None)


def _expect(guess: Estimate) -> None:
    """Show the time left of the whole study from here on."""
    if Bars.current is not None:
        Bars.current.expect(guess.seconds, guess.episodes)


@click.command
@preset_option("Print the values of this preset.")
@click.option("--all", "every", is_flag=True, help="Print all settings instead of the most used ones.")
def settings(preset: str | None, every: bool) -> None:
    """Print settings as TOML, each with its meaning, for --settings FILE or --set NAME=VALUE."""
    chosen = PRESETS[preset]() if preset else StudySettings()
    click.echo(chosen.to_toml(comments=True, common_only=not every), nl=False)
    if not every:
        click.echo("\n# More: legible settings --all")
