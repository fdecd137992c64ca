"""Environments that can be asked directly: those whose state can be set, and those with a table of transitions.

- `settable_checker`: the way of checking for an environment, if it is such a one.
- `StateChecker` sets states by the `StateSetter` that `STATE_SETTERS` has for the environment's class.
- `TableChecker` compares the distributions that the environment tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import (
    AcrobotEnv,
    CartPoleEnv,
    Continuous_MountainCarEnv,
    MountainCarEnv,
    PendulumEnv,
)
from numpy.typing import NDArray

from legible.environments import Env, first_action
from legible.features import Observations, choices_of
from legible.formatting import percent
from legible.relations.actions import map_actions
from legible.relations.check.answers import (
    AFTER_STEP,
    AGREES,
    FEWEST_STATES,
    NEARLY,
    OTHER,
    CheckInputs,
    CheckVerdict,
    Counterexample,
    Difference,
    Flags,
    RelationCheck,
    StateComparison,
    Values,
    cannot_tell,
    exact_answer,
    expected_observations,
    phrase,
    told_features,
)
from legible.relations.check.transitions import play_at_random, random_actions, taken
from legible.relations.relation import MetamorphicRelation, map_states


@dataclass(frozen=True)
class StateSetter:
    """How the state of an environment follows from an observation, and back.

    Parameters
    ----------
    to_state, to_observation
        From one observation to the value of ``env.unwrapped.state``, and back.
    low, high
        Between which values states are drawn, in the form of `to_observation`'s argument.
    fits
        Says whether an environment of the class can be used, when not all can: a step must not be random.
    set_state
        Puts an environment into a state, where that is not done by ``env.unwrapped.state = …``.
    """

    to_state: Callable[[Values], Any]
    to_observation: Callable[[Any], Any]
    low: tuple[float, ...]
    high: tuple[float, ...]
    fits: Callable[[Env], bool] | None = None
    set_state: Callable[[Any, Any], None] | None = None

    def put(self, env: Env, observation: Observations) -> None:
        """Put the environment into the state that shows an observation."""
        inner: Any = env.unwrapped
        state = self.to_state(observation.astype(np.float64))
        if self.set_state is not None:
            self.set_state(inner, state)
            return
        inner.state = state
        if hasattr(inner, "steps_beyond_terminated"):
            inner.steps_beyond_terminated = None

    def spread(self, n: int, rng: np.random.Generator) -> Observations:
        """Draw states from everywhere, as observations."""
        drawn = rng.uniform(self.low, self.high, (n, len(self.low)))
        return np.array([self.to_observation(state) for state in drawn], np.float32)


def _angles(observation: Values) -> Values:
    cos1, sin1, cos2, sin2, velocity1, velocity2 = observation
    return np.array([np.arctan2(sin1, cos1), np.arctan2(sin2, cos2), velocity1, velocity2])


def _cosines(state: Values) -> Values:
    angle1, angle2, velocity1, velocity2 = state
    return np.array([np.cos(angle1), np.sin(angle1), np.cos(angle2), np.sin(angle2), velocity1, velocity2])


def _angle(observation: Values) -> Values:
    cos, sin, velocity = observation
    return np.array([np.arctan2(sin, cos), velocity])


def _cosine(state: Values) -> Values:
    angle, velocity = state
    return np.array([np.cos(angle), np.sin(angle), velocity])


def _set_robot(env: Any, state: Values) -> None:
    """Put a robot of MuJoCo's into a state of positions and velocities, with nothing left of the state before."""
    env.data.qacc_warmstart[:] = 0.0
    env.set_state(state[: env.model.nq], state[env.model.nq :])


STATE_SETTERS: dict[type[Any] | str, StateSetter] = {
    # Inside the limits at which an episode ends; velocities as far as a push or two in the wrong direction.
    CartPoleEnv: StateSetter(np.array, np.array, (-2.4, -3.0, -0.2095, -3.5), (2.4, 3.0, 0.2095, 3.5)),
    MountainCarEnv: StateSetter(tuple, np.array, (-1.2, -0.07), (0.6, 0.07)),
    AcrobotEnv: StateSetter(
        _angles,
        _cosines,
        (-np.pi, -np.pi, -4 * np.pi, -9 * np.pi),
        (np.pi, np.pi, 4 * np.pi, 9 * np.pi),
        fits=lambda env: env.get_wrapper_attr("torque_noise_max") == 0,
    ),
    PendulumEnv: StateSetter(_angle, _cosine, (-np.pi, -8.0), (np.pi, 8.0)),
    Continuous_MountainCarEnv: StateSetter(np.array, np.array, (-1.2, -0.07), (0.6, 0.07)),
    # Classes of packages that need not be there are named as module:class.
    "gymnasium.envs.mujoco.inverted_pendulum_v5:InvertedPendulumEnv": StateSetter(
        np.array, np.array, (-0.9, -0.2, -3.0, -3.0), (0.9, 0.2, 3.0, 3.0), set_state=_set_robot
    ),
    # Where a walker is, is not observed; its joints bend one way only, and the feet are not far below the ground.
    "gymnasium.envs.mujoco.walker2d_v5:Walker2dEnv": StateSetter(
        lambda observation: np.array([0.0, *observation]),
        lambda state: state[1:],
        (0.0, 1.2, -0.5, *(-0.6, -0.6, -0.5) * 2, *(-3.0,) * 9),
        (0.0, 1.6, 0.5, *(0.0, 0.0, 0.5) * 2, *(3.0,) * 9),
        set_state=_set_robot,
    ),
}
_ROUNDING = 1e-5
SLIGHTLY = 0.01  # the share of the variance up to which deviations everywhere still are a symmetry, if not exact


def settable_checker(inputs: CheckInputs, env: Env) -> StateChecker | TableChecker | None:
    """The checker for an environment whose state can be set, or that has a table of transitions, if it is one."""
    kind = type(env)
    setter = STATE_SETTERS.get(kind) or STATE_SETTERS.get(f"{kind.__module__}:{kind.__qualname__}")
    if setter is not None and (setter.fits is None or setter.fits(env)):
        return StateChecker(inputs, setter)
    if isinstance(getattr(env, "P", None), Mapping) and isinstance(env.observation_space, spaces.Discrete):
        return TableChecker(inputs, env.get_wrapper_attr("P"))
    return None


class StateChecker:
    """Sets the image of an observation as the state, and takes one step in both."""

    method = "exact up to rounding: the image set as the state"

    def __init__(self, inputs: CheckInputs, setter: StateSetter) -> None:
        self.inputs, self.setter = inputs, setter
        inputs.report(0.0, "playing")
        rng = np.random.default_rng(inputs.seed)
        visited = play_at_random(inputs, inputs.episodes or 32).observations
        chosen = np.sort(rng.permutation(len(visited))[: (inputs.states + 1) // 2])
        spread = setter.spread(inputs.states - len(chosen), rng)
        self.visited = np.arange(len(chosen) + len(spread)) < len(chosen)
        self.observations = np.concatenate([visited[chosen], spread])
        self._steps: dict[int, Values] = {}
        if not inputs.space.is_discrete:
            self._actions = random_actions(inputs, len(self.observations), rng)

    def check(self, relation: MetamorphicRelation, group: Sequence[MetamorphicRelation]) -> RelationCheck:
        """Check one relation."""
        space = self.inputs.space
        told = told_features(relation, len(space))
        images, defined = map_states(relation, self.observations)
        # What the relation leaves open may be anything: take it from some other state.
        others = np.random.default_rng([self.inputs.seed, 3]).permutation(len(images))
        images[:, ~told] = self.observations[np.ix_(others, ~told)]
        about, here, image_actions = self._pairs(relation, group)
        defined &= about & [self._exists(image) for image in images]
        without = 1 - float(defined.sum() / max(about.sum(), 1))
        if defined.sum() < FEWEST_STATES:
            note = f"{percent(without)} of the states have an image that is no observation of this environment"
            return cannot_tell(relation, space, self.method, int(defined.sum()), note)
        here = here[defined]
        there = self._step(images[defined], image_actions[defined], space.action_names[relation.image_action])
        after = expected_observations(relation, here[:, :-2].astype(np.float32), there[:, :-2].astype(np.float32))
        expected = np.column_stack([after, here[:, -2:]])
        compared = np.hstack([told, [True, True]])
        apart = (np.abs(expected - there) > _ROUNDING * np.maximum(1.0, np.abs(expected))) & compared
        comparison = StateComparison(
            observations=self.observations[defined],
            columns=[
                *((name, AFTER_STEP) for name in space.names),
                ("reward", "of the step"),
                ("end", "of the episode"),
            ],
            expected=expected,
            found=there,
            compared=compared,
            differs=apart,
            causes=np.where(apart.any(axis=1), OTHER, AGREES).astype(object),
        )
        # What a step does: changes of features, the reward, the end.
        changes = np.column_stack([here[:, :-2] - self.observations[defined], here[:, -2:]])
        return self._answer(relation, comparison, changes, self.visited[defined], without)

    def _answer(
        self,
        relation: MetamorphicRelation,
        comparison: StateComparison,
        changes: Values,
        visited: Flags,
        without: float,
    ) -> RelationCheck:
        agrees, notes = comparison.agrees, []
        if not agrees.all() and visited.any() and not visited.all():
            met, anywhere = (percent(float(agrees[rows].mean())) for rows in (visited, ~visited))
            notes.append(f"of states met in random play {met} agree, of states from everywhere {anywhere}")
        if without:
            notes.append(f"{percent(without)} of the states have no image in this environment")
        # The mean squared deviation of what deviates most, as a share of the variance of what a step does to it.
        errors, variance = (comparison.deviations**2).mean(axis=0), changes.var(axis=0)
        off = float(np.where(errors > 0, errors / np.maximum(variance, 1e-12), 0.0).max())
        share = float(agrees.mean())
        near = share >= NEARLY or off <= SLIGHTLY
        verdict: CheckVerdict = "holds" if share == 1 else "holds approximately" if near else "does not hold"
        if share < NEARLY and near:
            notes.append(f"deviations are slight: at most {percent(off)} of the variance of what a step does")
        return exact_answer(relation, self.inputs.space, self.method, comparison, "; ".join(notes), verdict)

    def _exists(self, image: Observations) -> bool:
        """Whether the environment can show an observation."""
        if not np.isfinite(image).all() or not self.inputs.env.observation_space.contains(image):
            return False
        shown = np.asarray(self.setter.to_observation(self.setter.to_state(image.astype(np.float64))))
        return bool(np.allclose(shown, image, rtol=_ROUNDING, atol=_ROUNDING))

    def _pairs(
        self, relation: MetamorphicRelation, group: Sequence[MetamorphicRelation]
    ) -> tuple[Flags, Values, NDArray[Any]]:
        """In which states the action is taken, what comes of it there, and the images of what is taken in all states.

        A single action is taken everywhere; of whole actions, one is drawn for every state.
        """
        inputs, n = self.inputs, len(self.observations)
        space, name = inputs.space, inputs.space.action_names[relation.action]
        if space.is_discrete:
            first = first_action(inputs.env.action_space)
            if relation.action not in self._steps:
                numbers = np.full(n, relation.action + first)
                self._steps[relation.action] = self._step(self.observations, numbers, name)
            return np.ones(n, np.bool_), self._steps[relation.action], np.full(n, relation.image_action + first)
        if -1 not in self._steps:
            self._steps[-1] = self._step(self.observations, self._as_taken(self._actions), "actions")
        images, defined = map_actions(group, space, self._actions)
        about = choices_of(space.groups, self._actions)[:, space.group_of(relation.action)] == relation.action
        return about & defined, self._steps[-1], self._as_taken(images)

    def _as_taken(self, actions: NDArray[Any]) -> NDArray[Any]:
        return np.array([taken(self.inputs.env, action) for action in actions])

    def _step(self, observations: Observations, actions: NDArray[Any], name: str) -> Values:
        """Take an action in every state; returns the next observation, the reward and whether it was the end."""
        env = self.inputs.env
        rows = np.empty((len(observations), observations.shape[1] + 2))
        env.reset(seed=self.inputs.seed)
        for i, observation in enumerate(observations):
            self.setter.put(env, observation)
            after, reward, terminated, _, _ = env.unwrapped.step(actions[i])
            rows[i] = [*after, float(reward), float(terminated)]
            if i % 256 == 0:
                self.inputs.report(i / len(observations), f"taking {name}")
        return rows


# --- Environments with a table of transitions ------------------------------------------------------------------------


class TableChecker:
    """Compares distributions over the next state, reward and end in an environment that tells them (``P``)."""

    method = "exact: the environment's table of transitions"

    def __init__(self, inputs: CheckInputs, table: Mapping[int, Mapping[int, Sequence[tuple[Any, ...]]]]) -> None:
        self.inputs, self.table = inputs, table
        self.states = [  # in which something can happen still
            state
            for state in sorted(table)
            if not all(outcome[1] == state and outcome[3] for ways in table[state].values() for outcome in ways)
        ]

    def check(self, relation: MetamorphicRelation, group: Sequence[MetamorphicRelation]) -> RelationCheck:  # noqa: ARG002
        """Check one relation in every state in which something can happen."""
        space = self.inputs.space
        if not told_features(relation, len(space)).all():
            return cannot_tell(relation, space, self.method, 0, "the relation says nothing about the image")
        observations = np.array(self.states, np.float32)[:, None]
        images, defined = map_states(relation, observations)
        defined &= [float(image) in self.table for image in images[:, 0]]
        if not defined.any():
            return cannot_tell(relation, space, self.method, 0, "no state has an image in this environment")
        pairs = [
            (self._outcomes(int(s), relation.action, relation), self._outcomes(int(t), relation.image_action))
            for s, t in zip(observations[defined, 0], images[defined, 0], strict=True)
        ]
        apart = np.array([sum(abs(one.get(k, 0) - two.get(k, 0)) for k in one | two) / 2 for one, two in pairs])
        differs = apart > 1e-9
        return RelationCheck(
            relation=relation.name,
            action=space.action_names[relation.action],
            image_action=space.action_names[relation.image_action],
            method=self.method,
            states=len(pairs),
            agreement=float(1 - differs.mean()),
            causes={OTHER: float(differs.mean())} if differs.any() else {},
            deviation=float(apart.max()),
            deviation_of="probability" if differs.any() else "",
            verdict="holds"
            if not differs.any()
            else "holds approximately"
            if differs.mean() <= 0.1
            else "does not hold",
            note="" if defined.all() else f"{percent(1 - float(defined.mean()))} of the states have no image",
            counterexample=self._counterexample(relation, observations[defined], pairs, apart),
        )

    def _outcomes(
        self, state: int, action: int, relation: MetamorphicRelation | None = None
    ) -> dict[tuple[float, float, bool], float]:
        """Probabilities of (next state, reward, end); next states are mapped by the relation."""
        chances: dict[tuple[float, float, bool], float] = {}
        for probability, after, reward, ended in self.table[state][action]:
            image = float(after)
            if relation is not None:
                mapped, defined = map_states(relation, np.array([[after]], np.float32))
                image = float(mapped[0, 0]) if defined[0] else np.nan
            key = image, float(reward), bool(ended)
            chances[key] = chances.get(key, 0.0) + float(probability)
        return chances

    def _counterexample(
        self,
        relation: MetamorphicRelation,
        observations: Observations,
        pairs: Sequence[tuple[dict[tuple[float, float, bool], float], dict[tuple[float, float, bool], float]]],
        apart: Values,
    ) -> Counterexample | None:
        worst = int(apart.argmax())
        if apart[worst] <= 1e-9:
            return None
        space = self.inputs.space
        one, two = pairs[worst]
        differences = []
        for key in sorted(one.keys() | two.keys()):
            state, reward, ended = key
            if one.get(key, 0.0) != two.get(key, 0.0):
                where = phrase(space[0], state) or f"{space.names[0]} 0"
                what = f"the probability of ({where}, reward {reward:g}{', the end' if ended else ''})"
                differences.append(Difference(what, AFTER_STEP, one.get(key, 0.0), two.get(key, 0.0)))
        differences.sort(key=lambda d: -abs(d.expected - d.found))
        return Counterexample.of(relation, space, observations[worst], differences)
