"""Whether an environment agrees with a relation.

`check_relations` takes states, maps them, and looks at what the environment makes of both. How it looks depends on what
the environment allows:

- **A way of the domain's own**, such as PAC-Man's (`pacman`): the state itself is turned or mirrored together with the
  maze. The observation of the image must be the image of the observation; and after a in the state and a′ in its image,
  with ghosts that make the same choices, reward, outcome and observation must correspond again. Exact; disagreements
  are split by cause.
- **States that can be set** (`settable`; CartPole, MountainCar, Acrobot, Pendulum, some of MuJoCo's robots, and what
  `STATE_SETTERS` is told of): the image of an observation is set as the state, and one step is taken in both. Exact up
  to rounding.
- **A table of transitions** ``P`` (`settable`; FrozenLake and its like): both distributions, state by state. Exact.
- **All others** (`transitions`): transitions of random play. A model of the environment is asked how well it foretells
  the images of transitions, beside how well it foretells real ones that it has not seen. A matter of statistics, and it
  says what it cannot tell.

The answer for each pair of actions is a `RelationCheck`. Where actions are made of several parts, or continuous, whole
actions are drawn at random, and the answer for a pair of choices is about those that take the first of them.
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
    cannot_tell,
    state_in_words,
)
from legible.relations.check.settable import STATE_SETTERS, StateSetter, settable_checker
from legible.relations.check.transitions import TransitionChecker
from legible.relations.relation import MetamorphicRelation, by_name
from legible.relations.values import RelationError
from legible.streams import check_seed

__all__ = [
    "STATE_SETTERS",
    "CheckInputs",
    "CheckVerdict",
    "Checker",
    "Counterexample",
    "Difference",
    "RelationCheck",
    "StateSetter",
    "check_relations",
    "state_in_words",
]

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
    """Find out whether an environment agrees with relations; one answer for every relation and pair of actions.

    Parameters
    ----------
    environment
        An id or ``module:factory``, a spec, or one environment.
    relations
        The relations, as `legible.relations.load_relations` gives them.
    space
        Names of features and actions; those of `legible.environments.resolve_names` when left out.
    episodes
        Episodes that are played to find states or transitions; every way of checking has its own default.
    states
        The most states to compare for a pair of actions.
    seed
        The same seed gives the same answers.
    on_progress
        Called now and then with the share that is done and what is being done.
    """
    check_seed(seed)
    for name, number in (("episodes", episodes), ("states", states)):
        if number is not None and number < 1:
            raise LegibleError(f"{name} must be at least 1, got {number}.")
    environment = as_environment(environment)
    own = isinstance(environment, EnvironmentSpec)
    env = environment.make() if isinstance(environment, EnvironmentSpec) else environment
    try:
        # Regions of continuous actions need not be known yet: any will do to see what relations do to actions.
        named = cut_choices(feature_space_of(env, space))
        for relation in relations:
            speaks_of = [number for fr in relation.features for number in (fr.feature, fr.image_feature)]
            for what, most, number in (
                ("features", len(named), max([*speaks_of, *relation.unmapped], default=0)),
                ("actions", len(named.actions), max(relation.action, relation.image_action)),
            ):
                if number >= most:
                    raise RelationError(
                        f"relation {relation.name!r} speaks of more than the {most} {what} that there are."
                    )
        # What relations say of derived features follows from the others, and no state can be put there.
        features, relations = named.own, [relation.of_first(named.n_own) for relation in relations]
        inputs = CheckInputs(env, features, episodes, states, seed, on_progress)
        checker = _choose_checker(inputs)
        answers = []
        for group in by_name(relations).values():
            for relation in group:
                try:
                    answers.append(checker.check(relation, group))
                except RelationError as error:
                    note = str(error).removesuffix(".")
                    answers.append(cannot_tell(relation, features, checker.method, 0, note))
                inputs.report(len(answers) / len(relations), "comparing")
    finally:
        if own:
            env.close()
    return answers


# Wrappers that leave observations, actions and rewards alone.
_PLAIN_WRAPPERS = (
    gymnasium.wrappers.OrderEnforcing,
    gymnasium.wrappers.PassiveEnvChecker,
    gymnasium.wrappers.RecordEpisodeStatistics,
    gymnasium.wrappers.TimeLimit,
)


def _choose_checker(inputs: CheckInputs) -> Checker:
    """The checker of the environment's domain, or one for what the environment allows."""
    env = inputs.env
    while isinstance(env, _PLAIN_WRAPPERS):
        env = env.env
    domain = domain_of(env)
    if domain is not None and domain.checker and env is env.unwrapped:
        checker: Checker = load_by_name(domain.checker)(inputs, env)
        return checker
    return settable_checker(inputs, env) or TransitionChecker(inputs)
