"""Checks of relations in an environment.

`check_relations` maps states, and compares the behaviour of the environment in each state and in its image. The method
depends on the environment:

- **A checker of the domain**, such as that of PAC-Man: the state is turned or mirrored together with the maze. The
  observation of the image must be the image of the observation. After action a in the state and a′ in its image, with
  ghosts that make the same choices, reward, outcome and observation must correspond again. Exact; differences are split
  by cause.
- **States that can be set** (`settable`; CartPole, MountainCar, Acrobot, Pendulum, some MuJoCo robots, and classes in
  `STATE_SETTERS`): the image of an observation is set as the state, and a step is taken in both. Exact up to rounding.
- **A table of transitions** ``P`` (`settable`; such as FrozenLake): both distributions, state by state. Exact.
- **All others** (`transitions`): transitions of random play. A model of the environment predicts the images of
  transitions and held-out real transitions, and the errors are compared. This method is statistical.

The result for each pair of actions is a `RelationCheck`. For actions that are continuous or have several parts, whole
actions are drawn at random, and the result for a pair of choices is about the actions with the first choice.
"""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium

from legible.environments import Env, EnvironmentSpec, as_environment, domain_of, feature_space_of, load_by_name
from legible.errors import LegibleError
from legible.features import FeatureSpace, cut_choices
from legible.relations.check.answers import (
    Checker,
    CheckInputs,
    CheckVerdict,
    Counterexample,
    Difference,
    OnProgress,
    RelationCheck,
    inconclusive_check,
    state_in_words,
)
from legible.relations.check.settable import STATE_SETTERS, StateSetter, settable_checker
from legible.relations.check.transitions import TransitionChecker
from legible.relations.relation import MetamorphicRelation, by_name
from legible.relations.values import RelationError
from legible.streams import check_seed

DEFAULT_STATES = 2000


def check_relations(
    environment: str | EnvironmentSpec | Env,
    relations: Sequence[MetamorphicRelation],
    space: FeatureSpace | None = None,
    *,
    episodes: int | None = None,
    states: int = DEFAULT_STATES,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> list[RelationCheck]:
    """Return a check for every relation and pair of actions.

    Parameters
    ----------
    environment
        An id or ``module:factory``, a spec, or one environment.
    relations
        The relations, as `legible.relations.load_relations` gives them.
    space
        Names of features and actions; by default those of `legible.environments.resolve_names`.
    episodes
        Number of episodes to collect states or transitions; the default depends on the method.
    states
        Maximum number of states to compare for a pair of actions.
    seed
        Random seed.
    on_progress
        Called with the share that is done and the current activity.
    """
    check_seed(seed)
    for name, number in (("episodes", episodes), ("states", states)):
        if number is not None and number < 1:
            raise LegibleError(f"{name} must be at least 1, got {number}.")
    environment = as_environment(environment)
    is_made_here = isinstance(environment, EnvironmentSpec)
    env = environment.make() if isinstance(environment, EnvironmentSpec) else environment
    try:
        # Relations map choices: continuous actions are cut into regions, and any regions serve.
        named = cut_choices(feature_space_of(env, space))
        for relation in relations:
            mapped_features = [i for pair in relation.features for i in (pair.feature, pair.image_feature)]
            largest_feature = max((*mapped_features, *relation.unmapped), default=0)
            for what, count, largest in (
                ("features", len(named), largest_feature),
                ("actions", len(named.actions), max(relation.action, relation.image_action)),
            ):
                if largest >= count:
                    raise RelationError(
                        f"relation {relation.name!r} needs {what} up to {largest}, but there are {count}."
                    )
        # Derived features follow from the others, and cannot be set.
        features, relations = named.own, [relation.of_first(named.n_own) for relation in relations]
        inputs = CheckInputs(env, features, episodes, states, seed, on_progress)
        checker = choose_checker(inputs)
        checks = []
        for group in by_name(relations).values():
            for relation in group:
                try:
                    checks.append(checker.check(relation, group))
                except RelationError as error:
                    note = str(error).removesuffix(".")
                    checks.append(inconclusive_check(relation, features, checker.method, 0, note))
                inputs.report(len(checks) / len(relations), "comparing")
    finally:
        if is_made_here:
            env.close()
    return checks


# Wrappers that do not change observations, actions or rewards.
_PLAIN_WRAPPERS = (
    gymnasium.wrappers.OrderEnforcing,
    gymnasium.wrappers.PassiveEnvChecker,
    gymnasium.wrappers.RecordEpisodeStatistics,
    gymnasium.wrappers.TimeLimit,
)


def without_plain_wrappers(env: Env) -> Env:
    """Return the environment without wrappers that do not change observations, actions or rewards."""
    while isinstance(env, _PLAIN_WRAPPERS):
        env = env.env
    return env


def choose_checker(inputs: CheckInputs) -> Checker:
    """Return the checker of the domain, or the most exact one that the environment allows."""
    env = without_plain_wrappers(inputs.env)
    domain = domain_of(env)
    if domain is not None and domain.checker and env is env.unwrapped:
        checker: Checker = load_by_name(domain.checker)(inputs, env)
        return checker
    return settable_checker(inputs, env) or TransitionChecker(inputs)
