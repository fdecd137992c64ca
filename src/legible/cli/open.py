"""``legible open``: the workbench in the browser."""

from __future__ import annotations

import webbrowser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.markup import escape

from legible.cli.choice import EnvironmentChoice, look_here_for_policy, open_study, options_of_policy
from legible.cli.completion import complete_env_or_folder
from legible.cli.drawing import say
from legible.cli.options import (
    described_environment,
    policy_options,
    relations_option,
    seed_option,
    trust_option,
    verbose_option,
)
from legible.errors import LegibleError

if TYPE_CHECKING:
    from legible.engines import Engine
    from legible.server.desk import Desk

LOCAL = ("127.0.0.1", "localhost", "::1")
_STUDIES = Path("studies")


@click.command("open")
@click.argument(
    "words",
    metavar="[STUDY… | ENV POLICY]",
    nargs=-1,
    help="Folders of studies; or an environment and a policy. [default: the studies in ./studies]",
    shell_complete=complete_env_or_folder,
)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=0, help="Port. [default: a free one]")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@click.option(
    "--workers", metavar="N", type=click.IntRange(min=1), help="Worker processes. [default: one per core, at most 3]"
)
@relations_option
@seed_option("Random seed of all episodes.")
@described_environment
@policy_options
@trust_option
@verbose_option
def open_command(
    choice: EnvironmentChoice,
    words: tuple[str, ...],
    host: str,
    port: int,
    no_browser: bool,
    workers: int | None,
    relations: tuple[str, ...],
    seed: int,
    trust: bool,
    **of_policy: str | None,
) -> None:
    """Open the workbench in the browser: try rules, watch episodes, and see the outcome of other actions."""
    # `words` are folders of studies, or an environment, whose options are in `choice`, and a policy; `of_policy` holds
    # the options for a policy file.
    folders = _folders(words)
    if folders:
        choice.refuse_for_study(folders[0], relations=relations)
    from legible.server.guard import make_token  # noqa: PLC0415
    from legible.server.jobs import make_workers  # noqa: PLC0415
    from legible.server.web import Subject, Workbench, listen, serve  # noqa: PLC0415

    # What the workbench shows: studies or a policy, each opened when a page first asks for it.
    if folders:
        subjects = [Subject(path.name, partial(_open_study, path, trust), path, trust) for path in folders]
    else:
        look_here_for_policy(words[1])
        options = {
            "names": choice.names,
            "features": choice.features,
            "relations": relations or None,
            "seed": seed,
            "policy_options": options_of_policy(of_policy),
        }
        spec = choice.spec(words[0])
        subjects = [Subject(f"{words[1]} in {words[0]}", partial(_open_policy, spec, words[1], options))]
    bench, listening_socket, token = Workbench(subjects, make_workers(workers)), listen(host, port), make_token()
    # The address to open: with the port that was chosen, IPv6 in brackets, and a token without which pages are refused.
    chosen_port = listening_socket.getsockname()[1]
    shown_host = "localhost" if host in ("0.0.0.0", "::") else host
    if ":" in shown_host:
        shown_host = f"[{shown_host}]"
    address = f"http://{shown_host}:{chosen_port}/?token={token}"
    if host not in LOCAL:
        say(
            f"[bold yellow]Warning:[/] other machines can reach {escape(host)}, and the connection is not encrypted: "
            "whoever sees the address can use this workbench. Leave --host out to keep it on this machine."
        )
    say("The workbench is at this address, which works once, in one browser. Ctrl-C stops it.")
    click.echo(address)
    if not no_browser:
        webbrowser.open(address)
    serve(bench, listening_socket, host, token)  # until Ctrl-C
    say("The workbench has stopped.")


def _folders(words: tuple[str, ...]) -> list[Path]:
    """Return the folders of studies that are named; none if the words are an environment and a policy."""
    if not words:
        studies = _studies_of(_STUDIES)
        if not studies:
            raise LegibleError("there is no study in ./studies; give ENV and POLICY, or the folder of a study.")
        return studies
    studies_of = {word: _studies_of(Path(word)) for word in words}
    if any(studies_of.values()):
        missing = [word for word, studies in studies_of.items() if not studies]
        if missing:
            raise LegibleError(f"{missing[0]}: holds no study; leave it out, or make one with 'legible run'.")
        return list(dict.fromkeys(study for studies in studies_of.values() for study in studies))
    if len(words) != 2:
        raise LegibleError(
            f"{words[0]}: holds no study; give folders of studies, or ENV and POLICY: legible open ENV POLICY."
        )
    return []


def _studies_of(path: Path) -> list[Path]:
    """Return the folder if it is that of a study, or the folders of studies in it."""
    if (path / "study.json").is_file():
        return [path]
    return sorted(inner.parent for inner in path.glob("*/study.json")) if path.is_dir() else []


def _open_study(path: Path, trust: bool, engine: Engine) -> Desk:
    from legible.server.desk import Desk  # noqa: PLC0415
    from legible.workbench.arena import arena_of  # noqa: PLC0415

    study = open_study(path, trust=trust)
    if not study.has("experiences"):
        raise LegibleError(f"{path}: its first episodes are still being played; look again in a moment.")
    return Desk(arena_of(study, engine=engine), study)


def _open_policy(spec: Any, policy: str, options: dict[str, Any], engine: Engine) -> Desk:
    from legible.server.desk import Desk  # noqa: PLC0415
    from legible.workbench.arena import open_arena  # noqa: PLC0415

    return Desk(open_arena(spec, policy, engine=engine, **options))
