"""``legible verify``: whether a new policy is as good as the policy of a study, for continuous integration."""

from __future__ import annotations

from pathlib import Path

import rich_click as click
from rich.markup import escape

from legible.cli.choice import look_here_for_policy, make_quick_engine, open_study, options_of_policy
from legible.cli.completion import complete_policy, complete_study
from legible.cli.drawing import Bars, print_json, print_list, tell
from legible.cli.options import (
    PATH,
    count_option,
    engine_options,
    json_option,
    policy_options,
    trust_option,
    verbose_option,
)
from legible.cli.trying import margin_option, minutes_option
from legible.errors import LegibleError

SOMETHING_WENT_WRONG = 4


class _VerifyError(LegibleError):
    """A failure of the program, neither wrong input nor an answer."""

    exit_code = SOMETHING_WENT_WRONG


@click.command
@click.argument("study", metavar="STUDY", type=PATH, help="Folder of the study.", shell_complete=complete_study)
@click.argument("policy", metavar="NEW_POLICY", help="The new policy.", shell_complete=complete_policy)
@click.option("--checks", metavar="FILE", type=PATH, help="File of checks. [default: weaknesses.toml of the study]")
@margin_option("--margin", "Largest loss of the mean return. [default: the margin of the checks, or 2 % of the scale]")
@count_option("--seeds", 4000, "Maximum number of seeds.", least=20)
@minutes_option("Time limit, checked whenever results are judged.")
@click.option("--junit", metavar="FILE", type=PATH, help="Also write the results as JUnit XML.")
@click.option("--markdown", metavar="FILE", type=PATH, help="Also write a summary for a pull request.")
@policy_options
@trust_option
@engine_options
@json_option
@verbose_option
def verify(
    study: Path,
    policy: str,
    checks: Path | None,
    margin: float | None,
    seeds: int,
    minutes: float | None,
    junit: Path | None,
    markdown: Path | None,
    trust: bool,
    engine: str,
    workers: int | None,
    address: str | None,
    as_json: bool,
    **of_policy: str | None,
) -> int:
    """Verify a new policy: not worse than the study's, fixed weaknesses stay fixed, requirements are met.

    Exit codes: 0 every required claim is shown; 1 a violation is shown; 2 wrong input; 3 undecided; 4 anything else.
    """
    from legible.files import write_text  # noqa: PLC0415

    # `checks` is a file of claims about the new policy, `margin` the largest loss that is allowed; `junit` and
    # `markdown` are files to write. Scripts read the exit code, so every failure that is not the user's input becomes a
    # `_VerifyError` with code 4.
    try:
        with Bars(quiet=as_json) as bars:
            bars.now("loading the policy and the environment")
            from legible.workbench import verify as verify_study  # noqa: PLC0415

            look_here_for_policy(policy)
            opened = open_study(study, trust=trust)
            verification = verify_study(
                opened,
                policy,
                checks=checks,
                margin=margin,
                most_seeds=seeds,
                minutes=minutes,
                engine=make_quick_engine(engine, workers, address),
                progress=bars,
                policy_options=options_of_policy(of_policy),
            )
        if junit is not None:
            write_text(junit, verification.junit())
        if markdown is not None:
            write_text(markdown, verification.markdown())
    except LegibleError as error:
        if error.exit_code == 2:  # wrong input
            raise
        raise _VerifyError(str(error)) from error
    except (click.ClickException, click.Abort):  # wrong options and Ctrl-C keep the exit codes that click gives them
        raise
    except Exception as error:
        raise _VerifyError(f"{type(error).__name__}: {error}") from error
    if as_json:
        print_json(verification.to_dict())
        return verification.exit_code
    # The verdict, the claims one by one, and the situations in which the new policy does worse or better.
    tell(f"[bold]{escape(verification.headline())}[/]", markup=True)
    print_list(check.sentence() for check in verification.checks)
    print_list(verification.situation_sentences())
    tell(verification.level_sentence())
    return verification.exit_code
