"""`AuditLog`: a log of interventions as JSON lines, for a `GuidedEnv` or for your own loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from legible.errors import LegibleError
from legible.guidance.intervention import Intervention, JointIntervention
from legible.rules import describe_rule


class AuditLog:
    """A log of interventions, one JSON line each, written immediately.

    Every line has ``episode``, ``seed`` (null if none was given), ``step``, ``wanted`` (the policy's action),
    ``done`` (the action taken), ``changed``, ``enforced``, ``blocked``, and ``rules``: the rules that triggered, as
    ``rule`` and in ``words``. ``overruled`` is true if the action mask overrules them. If actions have several parts or
    are continuous, ``wanted`` and ``done`` are the numbers of all parts, and ``parts`` holds these entries for each
    group in which a rule triggered.

    Parameters
    ----------
    path
        The file; lines are appended.
    every
        Log every step in which a rule triggers, also if the policy wanted the same action.

    Examples
    --------
    >>> with AuditLog("interventions.jsonl") as log:  # doctest: +SKIP
    ...     log.record(guided.explain(observation), step=0)
    """

    def __init__(self, path: str | Path, *, every: bool = False) -> None:
        self.path = Path(path)
        self.every = every
        try:
            self._file = self.path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise LegibleError(f"{self.path}: cannot be written ({error.strerror}).") from error

    def record(
        self, intervention: Intervention | JointIntervention, *, step: int, episode: int = 0, seed: int | None = None
    ) -> None:
        """Write a line if the action changed, or if a rule triggered and `every` is set."""
        if not (intervention.changed or (self.every and intervention.triggered)):
            return
        line = {"episode": episode, "seed": seed, "step": step, **_to_dict(intervention)}
        try:
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        except OSError as error:
            raise LegibleError(f"{self.path}: cannot be written ({error.strerror}).") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> AuditLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _to_dict(intervention: Intervention | JointIntervention) -> dict[str, Any]:
    """Return what rules did in one step as plain data for the log, with names instead of numbers.

    Parameters
    ----------
    intervention
        The wanted and the final action, and the rules that triggered; a `JointIntervention` for actions of several
        parts, of which only the parts with a triggered rule are logged.
    """
    # Several parts: their values as numbers, and a record of each part that rules are about.
    space = intervention.space
    if isinstance(intervention, JointIntervention):
        names = [group.name for group in space.groups]
        named_parts = zip(names, intervention.parts, strict=True)
        return {
            "wanted": dict(zip(names, np.ravel(intervention.wanted).tolist(), strict=True)),
            "done": dict(zip(names, np.ravel(intervention.action).tolist(), strict=True)),
            "changed": intervention.changed,
            "parts": {name: _to_dict(part) for name, part in named_parts if part.triggered},
        }
    # One choice: names of actions, and the rules that triggered, as text and in words.
    action_names = space.action_names
    return {
        "wanted": action_names[intervention.wanted],
        "done": action_names[intervention.action],
        "changed": intervention.changed,
        "enforced": None if intervention.enforced is None else action_names[intervention.enforced],
        "blocked": [action_names[action] for action in intervention.blocked],
        **({"overruled": True} if intervention.overruled else {}),
        "rules": [
            {"rule": rule.text(space), "words": describe_rule(rule, space, "advice")} for rule in intervention.triggered
        ],
    }
