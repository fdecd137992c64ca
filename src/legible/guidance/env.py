"""Rules at work in a user's own program: a Gymnasium wrapper that guides, and a log of what was changed and why.

- `GuidedEnv`: wraps an environment; whoever plays in it, the rules have the last word.
- `AuditLog`: interventions as JSON lines, for a wrapped environment or for a loop of one's own.

In a loop of one's own three lines are enough::

    guided = GuidedPolicy.load("study/guided.safetensors")
    observation, _ = env.reset(seed=0)
    action, _ = guided.predict(observation)
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, SupportsFloat, SupportsInt

import gymnasium
import numpy as np

from legible.environments import Env, ObservationEncoder, count_actions, first_action
from legible.errors import LegibleError
from legible.guidance.policy import GuidedPolicy, Intervention
from legible.rules.wording import describe_rule


class AuditLog:
    """What rules did, a line of JSON each, written as soon as it happens.

    Every line has ``episode``, ``seed`` (null when none was given), ``step``, ``wanted`` (the policy's action),
    ``done`` (the action taken), ``changed``, ``enforced``, ``blocked``, and ``rules``: those that triggered, as
    ``rule`` and in ``words``.

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

    def record(self, intervention: Intervention, *, step: int, episode: int = 0, seed: int | None = None) -> None:
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


def _plain(intervention: Intervention) -> dict[str, Any]:
    space = intervention.space
    names = space.action_names
    return {
        "wanted": names[intervention.wanted],
        "done": names[intervention.action],
        "changed": intervention.changed,
        "enforced": None if intervention.enforced is None else names[intervention.enforced],
        "blocked": [names[action] for action in intervention.blocked],
        "rules": [
            {"rule": rule.text(space), "words": describe_rule(rule, space, "advice")} for rule in intervention.triggered
        ],
    }


class GuidedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment in which rules have the last word on every action.

    An action that the rules allow is taken as it is. Where positive rules enforce another one, that is taken instead;
    where negative rules block it, the best action that is left, by the scores of the guided policy. Where everything is
    blocked, the rules have no say. So a policy that plays here does what its `GuidedPolicy` would do.

    ``info["intervention"]`` of a step is the `legible.guidance.Intervention` where a rule triggered, else None.

    Parameters
    ----------
    env
        The environment.
    guided
        Rules, and the policy whose scores choose where rules block.
    log
        Where interventions are logged: an `AuditLog`, or the path of one, which is closed with the environment.

    Examples
    --------
    >>> from legible.policies import load_policy
    >>> from legible.rules import parse_rule
    >>> from legible.features import FeatureSpace
    >>> env = gymnasium.make("CartPole-v1")
    >>> space = FeatureSpace.of(["x", "v", "angle", "spin"], ["Left", "Right"])
    >>> policy = load_policy(lambda o: o[:, [3, 2]], output="values", n_features=4, n_actions=2)
    >>> rule = parse_rule("+Right <- angle > 0", space)
    >>> safe = GuidedEnv(env, GuidedPolicy(policy, [rule], space))
    >>> observation, _ = safe.reset(seed=2)
    >>> bool(observation[2] > 0), str(safe.step(0)[4]["intervention"])
    (True, 'Right: rules enforce Right (the policy wanted Left). Triggered: +Right <- angle > 0')
    """

    def __init__(self, env: Env, guided: GuidedPolicy, *, log: AuditLog | str | Path | None = None) -> None:
        super().__init__(env)
        self._encoder = ObservationEncoder.of(env.observation_space)
        if self._encoder.width != len(guided.space):
            raise LegibleError(
                f"the rules speak of {len(guided.space)} features, but the environment shows {self._encoder.width}."
            )
        if count_actions(env.action_space) != guided.n_actions:
            raise LegibleError(
                f"the guided policy has {guided.n_actions} actions, the environment {count_actions(env.action_space)}."
            )
        self.guided = guided
        self._first = first_action(env.action_space)
        self._owns_log = isinstance(log, (str, Path))
        self._log = AuditLog(log) if isinstance(log, (str, Path)) else log
        self._seen: Any = None
        self._episode, self._step = -1, 0
        self._seed: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._seen, info = self.env.reset(seed=seed, options=options)
        self._episode, self._step, self._seed = self._episode + 1, 0, seed
        return self._seen, info

    def step(self, action: SupportsInt) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take the action, or the one that the rules put in its place."""
        if self._seen is None:
            raise LegibleError("reset() must be called before step(): rules need something to look at.")
        intervention = self._decide(int(action) - self._first)
        if self._log is not None:
            self._log.record(intervention, step=self._step, episode=self._episode, seed=self._seed)
        self._step += 1
        taken = np.int64(intervention.action + self._first)
        self._seen, reward, terminated, truncated, info = self.env.step(taken)
        told = intervention if intervention.triggered else None
        return self._seen, reward, terminated, truncated, {**info, "intervention": told}

    def _decide(self, wanted: int) -> Intervention:
        """Ask the rules, for whoever chose the action: it need not be the guided policy."""
        if not 0 <= wanted < self.guided.n_actions:
            raise LegibleError(
                f"there is no action {wanted + self._first}: the actions are {self._first} … "
                f"{self._first + self.guided.n_actions - 1}."
            )
        advised = self.guided.explain(self._encoder.encode([self._seen])[0])
        if advised.enforced is not None:
            taken = advised.enforced
        elif wanted in advised.blocked and len(advised.blocked) < self.guided.n_actions:
            taken = advised.action
        else:
            taken = wanted
        return replace(advised, action=taken, wanted=wanted)

    def close(self) -> None:
        """Close the environment, and the log where it was opened here."""
        if self._owns_log and self._log is not None:
            self._log.close()
        super().close()
