"""A log of what rules changed and why.

- `AuditLog`: interventions as JSON lines, for a wrapped environment or for a loop of one's own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from legible.errors import LegibleError
from legible.guidance.intervention import Intervention, JointIntervention
from legible.rules import describe_rule


class AuditLog:
    """What rules did, a line of JSON each, written as soon as it happens.

    Every line has ``episode``, ``seed`` (null when none was given), ``step``, ``wanted`` (the policy's action),
    ``done`` (the action taken), ``changed``, ``enforced``, ``blocked``, and ``rules``: those that triggered, as
    ``rule`` and in ``words``. Where actions are made of several parts, or continuous, ``wanted`` and ``done`` are the
    numbers of all parts, and ``parts`` tells of each group in which a rule triggered what is said of single choices.

    Parameters
    ----------
    path
        The file; lines are added to what is there.
    every
        Log whenever a rule triggers, also where the policy wanted the same anyway.

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
        """Write a line, if there is something to tell."""
        if not (intervention.changed or (self.every and intervention.triggered)):
            return
        line = {"episode": episode, "seed": seed, "step": step, **_plain(intervention)}
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


def _plain(intervention: Intervention | JointIntervention) -> dict[str, Any]:
    space = intervention.space
    if isinstance(intervention, JointIntervention):
        names = [group.name for group in space.groups]
        parts = zip(names, intervention.parts, strict=True)
        return {
            "wanted": dict(zip(names, np.ravel(intervention.wanted).tolist(), strict=True)),
            "done": dict(zip(names, np.ravel(intervention.action).tolist(), strict=True)),
            "changed": intervention.changed,
            "parts": {name: _plain(part) for name, part in parts if part.triggered},
        }
    action_names = space.action_names
    return {
        "wanted": action_names[intervention.wanted],
        "done": action_names[intervention.action],
        "changed": intervention.changed,
        "enforced": None if intervention.enforced is None else action_names[intervention.enforced],
        "blocked": [action_names[action] for action in intervention.blocked],
        "rules": [
            {"rule": rule.text(space), "words": describe_rule(rule, space, "advice")} for rule in intervention.triggered
        ],
    }
