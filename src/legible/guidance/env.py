"""`GuidedEnv`: a Gymnasium wrapper that applies rules to the actions of any policy.

In your own loop, three lines are enough::

    guided = GuidedPolicy.load("study/guided.safetensors")
    observation, _ = env.reset(seed=0)
    action, _ = guided.predict(observation)
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from legible.environments import Env, FeatureEnv, ObservationEncoder, choice_sizes, count_actions, find_feature_map
from legible.environments.feature_readers import flat_width
from legible.errors import LegibleError
from legible.guidance.audit import AuditLog
from legible.guidance.features import trusted
from legible.guidance.intervention import Intervention, JointIntervention
from legible.guidance.policy import GuidedPolicy


def _check_actions(env: Env, guided: GuidedPolicy) -> None:
    """Raise unless a guided policy has the actions of the environment."""
    taken = env.action_space
    if isinstance(taken, spaces.Discrete) and guided.space.is_discrete:
        if count_actions(taken) != guided.n_actions:
            raise LegibleError(
                f"the guided policy has {guided.n_actions} actions, the environment {count_actions(taken)}."
            )
    elif choice_sizes(taken) != choice_sizes(guided.action_space) or taken.shape != guided.action_space.shape:
        raise LegibleError(f"the guided policy's actions are {guided.action_space}, the environment's {taken}.")


def _rows_around(env: Env, guided: GuidedPolicy, function: str | None) -> FeatureEnv | None:
    """Wrap an environment to show the rows of features that rules see; None if it need not be wrapped."""
    features = guided.features
    if features is None or find_feature_map(env) is not None:
        return None
    if function is not None:
        features = trusted(features, function)
    if flat_width(env.observation_space) != flat_width(features.observation_space):
        raise LegibleError(
            f"the rules were made for observations of {features.observation_space}, but the environment shows "
            f"{env.observation_space}."
        )
    return FeatureEnv(env, replace(features, observation_space=env.observation_space))


class GuidedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that applies rules to every action.

    An action that the rules allow is taken. If positive rules enforce another action, that one is taken; if negative
    rules block it, the best remaining action, by the scores of the guided policy. If everything is blocked, the rules
    are ignored. So a policy that plays here acts as its `GuidedPolicy` does.

    ``info["intervention"]`` of a step is the `legible.guidance.Intervention` if a rule triggered, else None.

    Parameters
    ----------
    env
        The environment.
    guided
        The rules, and the policy whose scores decide where rules block.
    log
        An `AuditLog`, or the path of one, which is closed with the environment.
    features
        The ``module:function`` that computes the features of rules from a file; naming it allows it to be imported.

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

    def __init__(
        self, env: Env, guided: GuidedPolicy, *, log: AuditLog | str | Path | None = None, features: str | None = None
    ) -> None:
        super().__init__(env)
        self._rows = _rows_around(env, guided, features)
        if self._rows is None:
            self._encoder = ObservationEncoder.of(env.observation_space)
            if self._encoder.width != guided.n_features:
                raise LegibleError(
                    f"the rules use {guided.n_features} features, but the environment shows {self._encoder.width}."
                )
        _check_actions(env, guided)
        self.guided = guided
        self._first = getattr(env.action_space, "start", 0)
        self._owns_log = isinstance(log, (str, Path))
        self._log = AuditLog(log) if isinstance(log, (str, Path)) else log
        self._seen: Any = None
        self._episode, self._step = -1, 0
        self._seed: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self._seen, info = (self._rows or self.env).reset(seed=seed, options=options)
        self._episode, self._step, self._seed = self._episode + 1, 0, seed
        return self._shown, info

    @property
    def _shown(self) -> Any:
        """The observation of the environment."""
        return self._seen if self._rows is None else self._rows.shown

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take the action, or the one that the rules replace it with."""
        if self._seen is None:
            raise LegibleError("reset() must be called before step().")
        intervention = self._decide(action)
        if self._log is not None:
            self._log.record(intervention, step=self._step, episode=self._episode, seed=self._seed)
        self._step += 1
        done = intervention.action
        taken = done + self._first if isinstance(intervention, JointIntervention) else np.int64(done + self._first)
        self._seen, reward, terminated, truncated, info = (self._rows or self.env).step(taken)
        info = {**info, "intervention": intervention if intervention.triggered else None}
        return self._shown, reward, terminated, truncated, info

    def _decide(self, action: Any) -> Intervention | JointIntervention:
        """Apply the rules to an action, which need not come from the guided policy."""
        seen = self._seen if self._rows is not None else self._encoder.encode([self._seen])[0]
        if isinstance(self.action_space, spaces.Discrete):
            wanted = int(action) - self._first
            if not 0 <= wanted < self.guided.n_actions:
                raise LegibleError(
                    f"there is no action {wanted + self._first}: the actions are {self._first} … "
                    f"{self._first + self.guided.n_actions - 1}."
                )
            return self.guided.decide(seen, wanted)
        if not self.action_space.contains(np.asarray(action, self.action_space.dtype)):
            raise LegibleError(f"there is no action {action}: the actions are {self.action_space}.")
        return self.guided.decide(seen, np.asarray(action) - self._first)

    def close(self) -> None:
        """Close the environment, and the log if it was opened here."""
        if self._owns_log and self._log is not None:
            self._log.close()
        super().close()
