"""Exact checks: environments whose state can be set, and environments with a table of transitions.

- `settable_checker`: the exact checker for an environment, if there is one.
- `StateChecker`: sets states with the `StateSetter` of the environment's class in `STATE_SETTERS`, or with its
  `own_state_setter`.
- `TableChecker`: compares the distributions of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

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
from legible.play import episode_seeds
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
    Stream,
    Values,
    exact_answer,
    expected_observations,
    inconclusive_check,
    known_features,
    phrase,
)
from legible.relations.check.transitions import play_at_random, random_actions, taken
from legible.relations.relation import MetamorphicRelation, map_states


@dataclass(frozen=True)
class StateSetter:
    """Conversion between observations and states of an environment."""

    # Functions from one observation to the value of ``env.unwrapped.state``, and back.
    to_state: Callable[[Values], Any]
    to_observation: Callable[[Any], Any]
    # Bounds of drawn states, in the form of the argument of `to_observation`.
    low: tuple[float, ...]
    high: tuple[float, ...]
    # Returns whether an environment of the class can be used: steps must not be random. By default all can.
    fits: Callable[[Env], bool] | None = None
    set_state: Callable[[Any, Any], None] | None = None  # sets the state, if ``env.unwrapped.state = …`` does not

    def put(self, env: Env, observation: Observations) -> None:
        """Set the state of the environment that an observation shows."""
        inner: Any = env.unwrapped
        state = self.to_state(observation.astype(np.float64))
        if self.set_state is not None:
            self.set_state(inner, state)
            return
        inner.state = state
        if hasattr(inner, "steps_beyond_terminated"):
            inner.steps_beyond_terminated = None

    def spread(self, n: int, rng: np.random.Generator) -> Observations:
        """Return observations of n states, drawn uniformly."""
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
    """Set positions and velocities of a MuJoCo robot, and clear the solver's memory of the state before."""
    env.data.qacc_warmstart[:] = 0.0
    env.set_state(state[: env.model.nq], state[env.model.nq :])


STATE_SETTERS: dict[type[Any] | str, StateSetter] = {
    # Within the limits of an episode; velocities that a few pushes in the wrong direction reach.
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
    # Classes of optional packages are given as module:class.
    "gymnasium.envs.mujoco.inverted_pendulum_v5:InvertedPendulumEnv": StateSetter(
        np.array, np.array, (-0.9, -0.2, -3.0, -3.0), (0.9, 0.2, 3.0, 3.0), set_state=_set_robot
    ),
    # The position of a walker is not observed. Joints bend one way, and feet are not far below the ground.
    "gymnasium.envs.mujoco.walker2d_v5:Walker2dEnv": StateSetter(
        lambda observation: np.array([0.0, *observation]),
        lambda state: state[1:],
        (0.0, 1.2, -0.5, *(-0.6, -0.6, -0.5) * 2, *(-3.0,) * 9),
        (0.0, 1.6, 0.5, *(0.0, 0.0, 0.5) * 2, *(3.0,) * 9),
        set_state=_set_robot,
    ),
}
_ROUNDING = 1e-5
_NO_REAL_BOUND = 1e6  # larger bounds of an observation space only say that there is none
_RECORDED_EPISODES, _RECORDED_STEPS, _REPEATED_STEPS = 4, 25, 40  # to see whether a state can be set
ONE_SIDED = 0.9  # mean deviation from which on deviations point to the same side, as a share of their size
INFLUENCED = 0.1  # the same, as a share of the variance over actions
SLIGHTLY = 0.01  # maximum deviation for "holds approximately", as a share of the variance


def settable_checker(inputs: CheckInputs, env: Env) -> StateChecker | TableChecker | None:
    """Return the checker for an environment with states that can be set or a table of transitions, or None."""
    kind = type(env)
    setter = STATE_SETTERS.get(kind) or STATE_SETTERS.get(f"{kind.__module__}:{kind.__qualname__}")
    if setter is not None and (setter.fits is None or setter.fits(env)):
        return StateChecker(inputs, setter)
    setter = own_state_setter(inputs, env)
    if setter is not None:
        return StateChecker(inputs, setter)
    if isinstance(getattr(env, "P", None), Mapping) and isinstance(env.observation_space, spaces.Discrete):
        return TableChecker(inputs, env.get_wrapper_attr("P"))
    return None


def own_state_setter(inputs: CheckInputs, env: Env) -> StateSetter | None:
    """Return the setter of an environment whose attribute ``state`` is the observation; None if that is not sure.

    Some random steps are recorded. In each state, ``state`` must be the observation; and when it is set again later,
    the same action must give the same result.
    """
    space = env.observation_space
    if env is not env.unwrapped or not isinstance(space, spaces.Box) or len(space.shape) != 1:
        return None
    rng = np.random.default_rng([inputs.seed, Stream.OWN_STATE])
    recorded: list[tuple[Observations, Any, Values]] = []  # observation, action, result
    for seed in episode_seeds(inputs.seed, inputs.first, _RECORDED_EPISODES):
        before, _ = env.reset(seed=int(seed))
        for _ in range(_RECORDED_STEPS):
            state = getattr(env, "state", None)
            if not isinstance(state, (np.ndarray, tuple, list)) or np.shape(state) != space.shape:
                return None
            if not np.allclose(np.asarray(state, np.float64), before, rtol=1e-5, atol=1e-6):
                return None
            if inputs.space.is_discrete:
                action: Any = int(rng.integers(len(inputs.space.actions))) + first_action(env.action_space)
            else:
                action = taken(env, random_actions(inputs, 1, rng)[0])
            after, reward, terminated, truncated, _ = env.step(action)
            result = np.array([*after, float(reward), float(terminated)])
            recorded.append((np.asarray(before, np.float32), action, result))
            before = after
            if terminated or truncated:
                break
    # States are drawn within the bounds of the space, or within those that were seen where it has no real bounds.
    seen = np.array([before for before, _, _ in recorded], np.float64)
    low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
    bounded = np.isfinite(low) & np.isfinite(high) & (high < _NO_REAL_BOUND)
    low, high = np.where(bounded, low, seen.min(axis=0)), np.where(bounded, high, seen.max(axis=0))
    state_class = type(env.unwrapped.state)  # type: ignore[attr-defined]
    to_state = np.array if state_class is np.ndarray else state_class
    setter = StateSetter(to_state, to_observation=np.array, low=tuple(low.tolist()), high=tuple(high.tolist()))
    # Repeat some of the steps from states that are set.
    env.reset(seed=int(episode_seeds(inputs.seed, inputs.first, 1)[0]))
    for number in rng.permutation(len(recorded))[:_REPEATED_STEPS]:
        before, action, expected = recorded[int(number)]
        setter.put(env, before)
        after, reward, terminated, _, _ = env.step(action)
        result = np.array([*after, float(reward), float(terminated)])
        if not np.allclose(result, expected, rtol=_ROUNDING, atol=_ROUNDING):
            return None
    return setter


class StateChecker:
    """Checker that sets the image of an observation as the state, and takes one step in both."""

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
        """Return whether the images of states lead to the images of the next states, with the same reward and end.

        `group` holds all relations of this name, which together map whole actions. Results of steps have a column for
        each feature of the next observation, and two more for the reward and the end of the episode.
        """
        # The image of every state; features that the relation leaves open are taken from another state.
        space = self.inputs.space
        mapped = known_features(relation, len(space))
        images, defined = map_states(relation, self.observations)
        others = np.random.default_rng([self.inputs.seed, Stream.OPEN_FEATURES]).permutation(len(images))
        images[:, ~mapped] = self.observations[np.ix_(others, ~mapped)]
        takes_action, results, image_actions = self._pairs(relation, group)
        defined &= takes_action & [self.exists(image) for image in images]
        share_without_image = 1 - float(defined.sum() / max(takes_action.sum(), 1))
        if defined.sum() < FEWEST_STATES:
            note = (
                f"{percent(share_without_image)} of the states have an image that is no observation of this environment"
            )
            return inconclusive_check(relation, space, self.method, int(defined.sum()), note)

        # A step in each state, and one in its image. The relation says what the second should give.
        results = results[defined]
        image_results = self.step(images[defined], image_actions[defined], space.action_names[relation.image_action])
        next_states, rewards_and_ends = results[:, :-2], results[:, -2:]
        next_images = expected_observations(
            relation, next_states.astype(np.float32), image_results[:, :-2].astype(np.float32)
        )
        expected = np.column_stack([next_images, rewards_and_ends])
        compared = np.hstack([mapped, [True, True]])
        differs = (np.abs(expected - image_results) > _ROUNDING * np.maximum(1.0, np.abs(expected))) & compared
        columns = [*((name, AFTER_STEP) for name in space.names), ("reward", "of the step"), ("end", "of the episode")]
        comparison = StateComparison(
            observations=self.observations[defined],
            columns=columns,
            expected=expected,
            found=image_results,
            compared=compared,
            differs=differs,
            causes=np.where(differs.any(axis=1), OTHER, AGREES).astype(object),
        )
        agrees, visited, notes = comparison.agrees, self.visited[defined], []
        if not agrees.all() and visited.any() and not visited.all():
            of_visited, of_drawn = (percent(float(agrees[rows].mean())) for rows in (visited, ~visited))
            notes.append(f"{of_visited} of the states of random play agree, {of_drawn} of uniformly drawn states")
        if share_without_image:
            notes.append(f"{percent(share_without_image)} of the states have no image in this environment")

        # In columns where deviations are not slight, nearly all states must agree. The effects of a step: changes of
        # features, reward, end.
        effects = np.column_stack([next_states - self.observations[defined], rewards_and_ends])
        deviation_shares, is_slight = self._slight_deviations(comparison, effects)
        nearly_agrees = float((~comparison.differs[:, ~is_slight].any(axis=1)).mean()) >= NEARLY
        verdict: CheckVerdict = "holds approximately" if nearly_agrees else "does not hold"
        if agrees.all():
            verdict = "holds"
        slight_remark = ""
        if agrees.mean() < NEARLY and nearly_agrees:
            # The shares are squared deviations in the variance of effects; their roots are shares of the spread.
            largest = percent(float(np.sqrt(deviation_shares[is_slight].max(initial=0.0))))
            slight_remark = f"deviations are slight: at most {largest} of the spread of the effect of a step"
            largest_column = int(np.where(is_slight, deviation_shares, -1.0).argmax())
            deviations = (expected - image_results)[:, largest_column]
            if abs(deviations.mean()) > ONE_SIDED * np.sqrt((deviations**2).mean()):
                slight_remark += "; they always point to the same side, so that they add up over steps"
            notes.append(slight_remark)
        return exact_answer(
            relation, space, self.method, comparison, "; ".join(notes), verdict, ~is_slight, slight_remark
        )

    def _slight_deviations(self, comparison: StateComparison, effects: Values) -> tuple[Values, Flags]:
        """Return the mean squared deviation of each column as a share of the variance of effects, and if it is slight.

        Where actions change little in a step, a relation that exchanges them must not pass for that: deviations must
        also be small compared with the influence of actions.
        """
        errors, variance = (comparison.deviations**2).mean(axis=0), effects.var(axis=0)
        shares = np.where(errors > 0, errors / np.maximum(variance, 1e-12), 0.0)
        is_slight = shares <= SLIGHTLY
        if is_slight.any() and errors[is_slight].any():
            is_slight &= (self._influence <= _ROUNDING**2) | (errors <= INFLUENCED * self._influence)
        return shares, is_slight

    @cached_property
    def _influence(self) -> Values:
        """The variance of the results of a step over random actions in the same state: of features, reward, end."""
        space, n = self.inputs.space, len(self.observations)
        rng = np.random.default_rng([self.inputs.seed, Stream.INFLUENCE])
        results = []
        for _ in range(2):
            is_discrete = space.is_discrete
            actions = rng.integers(len(space.actions), size=n) if is_discrete else random_actions(self.inputs, n, rng)
            results.append(self.step(self.observations, self.as_taken(actions), "random actions"))
        return np.asarray(((results[0] - results[1]) ** 2).mean(axis=0) / 2)

    def exists(self, image: Observations) -> bool:
        """Return whether the environment can show an observation."""
        if not np.isfinite(image).all() or not self.inputs.env.observation_space.contains(image):
            return False
        shown = np.asarray(self.setter.to_observation(self.setter.to_state(image.astype(np.float64))))
        return bool(np.allclose(shown, image, rtol=_ROUNDING, atol=_ROUNDING))

    def _pairs(
        self, relation: MetamorphicRelation, group: Sequence[MetamorphicRelation]
    ) -> tuple[Flags, Values, NDArray[Any]]:
        """Return which states take the action of a relation, the results of a step, and the images of the actions.

        A discrete action is taken in all states; whole actions are drawn for every state.
        """
        inputs, n = self.inputs, len(self.observations)
        space, name = inputs.space, inputs.space.action_names[relation.action]
        if space.is_discrete:
            first = first_action(inputs.env.action_space)
            if relation.action not in self._steps:
                numbers = np.full(n, relation.action + first)
                self._steps[relation.action] = self.step(self.observations, numbers, name)
            return np.ones(n, np.bool_), self._steps[relation.action], np.full(n, relation.image_action + first)
        if -1 not in self._steps:
            self._steps[-1] = self.step(self.observations, self.as_taken(self._actions), "actions")
        images, defined = map_actions(group, space, self._actions)
        takes_action = choices_of(space.groups, self._actions)[:, space.group_of(relation.action)] == relation.action
        return takes_action & defined, self._steps[-1], self.as_taken(images)

    def all_steps(self) -> tuple[Values, NDArray[Any]]:
        """Return the results of steps in all states, and the actions: every discrete one in turn, or those drawn."""
        space, n = self.inputs.space, len(self.observations)
        if not space.is_discrete:
            return self.step(self.observations, self.as_taken(self._actions), "actions"), self._actions
        numbers = np.repeat(np.arange(len(space.actions)), n)
        results = [
            self.step(self.observations, self.as_taken(np.full(n, action)), name)
            for action, name in enumerate(space.action_names)
        ]
        return np.concatenate(results), numbers

    def as_taken(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Return numbers of discrete actions, or rows of parts, as the environment takes them."""
        if self.inputs.space.is_discrete:
            return np.asarray(actions + first_action(self.inputs.env.action_space))
        return np.array([taken(self.inputs.env, action) for action in actions])

    def step(self, observations: Observations, actions: NDArray[Any], name: str) -> Values:
        """Take an action in every state, and return the next observations, rewards and ends of episodes."""
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


_Outcomes: TypeAlias = dict[tuple[float, float, bool], float]
"""The probability of every (next state, reward, end of the episode)."""


class TableChecker:
    """Checker that compares distributions over next state, reward and end from a table ``P``."""

    method = "exact: the environment's table of transitions"

    def __init__(self, inputs: CheckInputs, table: Mapping[int, Mapping[int, Sequence[tuple[Any, ...]]]]) -> None:
        self.inputs, self.table = inputs, table
        # Without final states, from which every outcome (probability, next state, reward, end) leads back to them.
        self.states = [
            state
            for state in sorted(table)
            if not all(
                next_state == state and end for outcomes in table[state].values() for _, next_state, _, end in outcomes
            )
        ]

    def check(self, relation: MetamorphicRelation, group: Sequence[MetamorphicRelation]) -> RelationCheck:  # noqa: ARG002
        """Return whether the outcomes in each state that is not final are those in its image, mapped by the relation.

        States are numbers, which the single feature holds.
        """
        space = self.inputs.space
        if not known_features(relation, len(space)).all():
            return inconclusive_check(relation, space, self.method, 0, "the relation leaves the image open")
        observations = np.array(self.states, np.float32)[:, None]
        images, defined = map_states(relation, observations)
        defined &= [float(image) in self.table for image in images[:, 0]]
        if not defined.any():
            return inconclusive_check(relation, space, self.method, 0, "no state has an image in this environment")
        # Probabilities of outcomes: as the relation says for the image, and as the table has them.
        pairs = [
            (self._outcomes(int(state), relation.action, relation), self._outcomes(int(image), relation.image_action))
            for state, image in zip(observations[defined, 0], images[defined, 0], strict=True)
        ]
        # Total variation distance: the probability that would have to move to make both equal.
        distances = np.array(
            [
                sum(abs(expected.get(outcome, 0) - found.get(outcome, 0)) for outcome in expected | found) / 2
                for expected, found in pairs
            ]
        )
        differs = distances > 1e-9  # more than rounding
        agreement = float(1 - differs.mean())
        verdict: CheckVerdict = "holds approximately" if agreement >= NEARLY else "does not hold"
        if not differs.any():
            verdict = "holds"
        return RelationCheck(
            relation=relation.name,
            action=space.action_names[relation.action],
            image_action=space.action_names[relation.image_action],
            method=self.method,
            states=len(pairs),
            agreement=agreement,
            causes={OTHER: float(differs.mean())} if differs.any() else {},
            deviation=float(distances.max()),
            deviation_of="probability" if differs.any() else "",
            verdict=verdict,
            note="" if defined.all() else f"{percent(1 - float(defined.mean()))} of the states have no image",
            counterexample=self._counterexample(relation, observations[defined], pairs, distances)
            if differs.any()
            else None,
        )

    def _outcomes(self, state: int, action: int, relation: MetamorphicRelation | None = None) -> _Outcomes:
        """Return the probabilities of (next state, reward, end), with next states mapped by the relation."""
        chances: _Outcomes = {}
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
        pairs: Sequence[tuple[_Outcomes, _Outcomes]],
        distances: Values,
    ) -> Counterexample:
        """Return the state in which the distributions are farthest apart, with the outcomes that differ."""
        space, worst = self.inputs.space, int(distances.argmax())
        expected, found = pairs[worst]
        differences = []
        for outcome in sorted(expected.keys() | found.keys()):
            if expected.get(outcome, 0.0) != found.get(outcome, 0.0):
                state, reward, ended = outcome
                where = phrase(space[0], state) or f"{space.names[0]} 0"
                what = f"the probability of ({where}, reward {reward:g}{', the end' if ended else ''})"
                differences.append(Difference(what, AFTER_STEP, expected.get(outcome, 0.0), found.get(outcome, 0.0)))
        differences.sort(key=lambda d: -abs(d.expected - d.found))
        return Counterexample.of(relation, space, observations[worst], differences)
