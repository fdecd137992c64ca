"""The rule bench and the episode viewer in a notebook: `WorkbenchWidget`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from legible.engines import Engine
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.imports import needs_extra
from legible.policies import Policy
from legible.server.bench import warm_up
from legible.server.desk import Desk, RequestError, read_asset
from legible.server.jobs import BusyError, Emit, Job, Player, make_workers
from legible.server.questions import ANSWERS, STREAMS, to_plain
from legible.study import Study
from legible.workbench.arena import arena_of, open_arena

with needs_extra("notebook", "the workbench in a notebook"):
    import anywidget
    import traitlets

_MODULES = ("player.js", "api.js", "bench.js", "viewer.js", "widget.js")
_STYLES = ("report.css", "workbench.css")
_IN_NOTEBOOKS = {
    ":root": ":host",
    "\nbody {": "\n.page { container-type: inline-size; padding: .7rem 1rem;",
    "@media (max-width": "@container (max-width",
}


def _module() -> str:
    """Return the modules and the style of the page as one module: notebooks load a single file."""
    style = "\n".join(read_asset(name) for name in _STYLES)
    for ours, theirs in _IN_NOTEBOOKS.items():
        style = style.replace(ours, theirs)
    texts = [re.sub(r"^(import .*|export (?!default))", "", read_asset(name), flags=re.MULTILINE) for name in _MODULES]
    return "\n".join([f"const STYLE = {json.dumps(style)};", *texts])


class WorkbenchWidget(anywidget.AnyWidget):
    """The rule bench and the episode viewer as a widget for Jupyter, VS Code and marimo.

    It asks the questions of ``legible open``, and the verdict of a rule is that of `legible.try_rule`, to the bit.
    Workers stay warm until `close`.

    Parameters
    ----------
    subject
        A study, its folder, or an environment.
    policy
        The policy, if `subject` is an environment.
    rule
        The rule on the bench.
    trust
        Whether a study's folder may name code.
    engine
        Where episodes run; by default worker processes.
    options
        As for `legible.workbench.arena.open_arena`, if `subject` is an environment.

    Attributes
    ----------
    rule
        The rule on the bench; what is typed there can be read here, and what is set here appears there.
    """

    _esm = _module()
    rule = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        subject: Study | str | Path | EnvironmentSpec,
        policy: str | Path | Policy | None = None,
        *,
        rule: str = "",
        trust: bool = False,
        engine: Engine | None = None,
        **options: Any,
    ) -> None:
        self._player, self._engine = Player(), (engine or make_workers()).__enter__()  # `close` stops both
        self._jobs: dict[str, Job] = {}
        if policy is not None and not isinstance(subject, (Study, Path)):
            self._desk = Desk(open_arena(subject, policy, engine=self._engine, **options))
        elif policy is None and not isinstance(subject, EnvironmentSpec) and not options:
            study = subject if isinstance(subject, Study) else Study.open(subject, trust=trust)
            self._desk = Desk(arena_of(study, engine=self._engine), study)
        else:
            raise LegibleError("give a study alone, or an environment and a policy.")
        super().__init__(rule=rule)
        self._player.prepare(partial(warm_up, self._desk))
        self.on_msg(self._receive)

    def close(self) -> None:
        """Stop all plays and workers, and remove the widget."""
        self._player.close()
        self._engine.__exit__(KeyboardInterrupt, None, None)
        super().close()

    def _receive(self, _: Any, content: Mapping[str, Any], __: Any) -> None:
        """Answer a question of the page, or stop a play."""
        number = content["number"]
        if content.get("stop"):
            if number in self._jobs:
                self._jobs[number].stop()
                self._player.prepare(partial(warm_up, self._desk))  # a play that was stopped took its workers along
            return
        name, body = content["name"], content["body"]

        def send(message: Mapping[str, Any] | None) -> None:
            if message is None:
                self._jobs.pop(number, None)
            self.send({"number": number, "message": to_plain(message)})

        def work(emit: Emit) -> None:
            if name in STREAMS:
                STREAMS[name](self._desk, body, emit)
            elif name in ANSWERS:
                emit(ANSWERS[name](self._desk, body))
            else:
                raise RequestError("there is no such question.")

        job = Job(work, send)
        if name not in STREAMS:  # a quick answer, which does not wait for the play of another question
            job.run()
            return
        self._jobs[number] = job
        try:
            self._player.submit(job)
        except BusyError as error:
            send({"kind": "error", "error": str(error)})
            send(None)
