"""Vector environments of other packages, used where they play the same episodes as the single environment.

Gymnasium's registry can name a class that steps a whole batch of an environment (``vector_entry_point``), which is much
faster than single environments. Such a class seldom seeds each episode alone, and may compute other numbers. So some
episodes are played both ways, and the class is used only if every step is equal to the bit.

- `make_fast_slots`: slots of such an environment if it passes, otherwise those of `legible.play.make_slots`.
- `vector_problem`: why the class of an environment cannot be used.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import astuple, fields, replace

import numpy as np
from gymnasium.vector import AutoresetMode

from legible.environments import Env, EnvironmentSpec
from legible.errors import describe_error
from legible.play.choosing import PolicyChooser
from legible.play.episodes import Episodes, play_episodes
from legible.play.recording import Recorder, Steps
from legible.play.slots import SingleSlots, Slots, batch_slots, make_slots
from legible.policies import Policy

LEAST_SLOTS = 8
"""With fewer slots, a vector environment is hardly faster than single environments."""
_SEEDS, _ROWS = (3, 1, 4, 0, 5, 9), 3  # more seeds than rows, so that rows are started again while others go on
_STEP_LIMIT, _SHORT_LIMIT = 1000, 5
_EPSILON = 0.1  # share of random actions, so that a policy that never fails also sees other states

_problems: dict[tuple[EnvironmentSpec, str, str], str] = {}  # of this process, by the arguments of the check


def make_fast_slots(
    environment: EnvironmentSpec | Env,
    n: int,
    policy: Policy,
    cost_name: str = "",
    endings: str = "",
    terms: str = "",
    n_in_batch: int = 0,
) -> Slots:
    """Return slots of the environment's own vector class if that plays the same episodes, else n single environments.

    A vector class steps a whole batch at once, which is faster. "Undeclared" is one that does not say that it seeds
    each episode alone, so it is tried out (`vector_problem`). Branching needs single environments or copies of rows, so
    it does not use this function.

    Parameters
    ----------
    environment, n, cost_name, endings, terms
        As for `legible.play.make_slots`.
    policy
        The policy whose episodes are compared.
    n_in_batch
        The number of slots where the vector class is used; by default n.
    """
    spec = environment if isinstance(environment, EnvironmentSpec) and n >= LEAST_SLOTS and not terms else None
    if spec is not None and _has_undeclared_class(spec) and not vector_problem(spec, policy, cost_name, endings):
        batch = spec.make_batch(n_in_batch or n, undeclared=True)
        assert batch is not None
        return batch_slots(batch, spec, cost_name, endings)
    return make_slots(environment, n, cost_name, endings, terms)


def vector_problem(environment: EnvironmentSpec, policy: Policy, cost_name: str = "", endings: str = "") -> str:
    """Return why the vector class of an environment is not used, in one sentence; "" if it has none, or if it is used.

    The check plays a few episodes of the policy with both. Its result is kept until the process ends.
    """
    if not _has_undeclared_class(environment):
        return ""
    key = (environment, cost_name, endings)
    if key not in _problems:
        try:
            difference = _find_difference(environment, policy, cost_name, endings)
        except Exception as error:  # whatever the vector class or the environment raises
            # The environment's own error, without the one that legible raises from it.
            difference = f"it fails ({describe_error(error.__cause__ or error)})"
        name = getattr(environment.vector_class, "__name__", "its vector class")
        _problems[key] = (
            f"{name} is not used: {difference}. It must take autoreset_mode='Disabled' and a seed for every row in "
            "reset, start only the rows of reset_mask, and play the episodes of the single environment."
            if difference
            else ""
        )
    return _problems[key]


def _has_undeclared_class(environment: EnvironmentSpec) -> bool:
    vector_class = environment.vector_class
    return vector_class is not None and not getattr(vector_class, "seeds_each_episode", False)


def _find_difference(environment: EnvironmentSpec, policy: Policy, cost_name: str, endings: str) -> str:
    """Play some episodes with the vector class and with single environments; return how they differ, "" if not."""
    batch = environment.make_batch(_ROWS, undeclared=True)
    if batch is None:
        return "it does not show what rules see"
    with closing(batch):
        if batch.metadata.get("autoreset_mode") is not AutoresetMode.DISABLED:
            return "it starts finished episodes by itself"
        with closing(make_slots(environment, _ROWS, cost_name, endings)) as single:
            assert isinstance(single, SingleSlots)
            registered = single.environments[0].spec
            own_spaces = (single.environments[0].observation_space, single.action_space)
            spaces = (batch.single_observation_space, batch.single_action_space)
            if spaces != own_spaces:  # compared first: with other spaces, the policy could not play the batch
                return f"its observations and actions are {spaces}, those of the single environment {own_spaces}"
            expected = _play(single, policy)
        found = _play(batch_slots(batch, environment, cost_name, endings), policy)
    difference = _compare(expected, found)

    # A bad policy never reaches the time limit, so the same is done with a short one.
    time_limit = None if registered is None else registered.max_episode_steps
    if not difference and time_limit is not None and time_limit > _SHORT_LIMIT:
        arguments = {**environment.arguments, "max_episode_steps": _SHORT_LIMIT}
        difference = _find_difference(replace(environment, arguments=arguments), policy, cost_name, endings)
        return f"with a time limit of {_SHORT_LIMIT} steps, {difference}" if difference else ""
    return difference


def _play(slots: Slots, policy: Policy) -> tuple[Episodes, Steps]:
    recorder = Recorder()
    chooser = PolicyChooser(policy, _SEEDS, epsilon=_EPSILON)
    played = play_episodes(slots, chooser, _SEEDS, step_limit=_STEP_LIMIT, on_step=recorder)
    return played, recorder.steps()


def _compare(expected: tuple[Episodes, Steps], found: tuple[Episodes, Steps]) -> str:
    """Return the first difference between episodes of single environments and of a vector environment; "" if none."""
    (episodes, steps), (other_episodes, other_steps) = expected, found
    # The first episode with another length or another step.
    for i, seed in enumerate(_SEEDS):
        mine, theirs = steps.episodes == i, other_steps.episodes == i
        for name in ("observations", "actions", "rewards"):
            values, others = getattr(steps, name)[mine], getattr(other_steps, name)[theirs]
            n = min(len(values), len(others))
            differ = (values[:n] != others[:n]).reshape(n, -1).any(axis=1)
            if differ.any():
                step = int(np.argmax(differ))
                return f"the {name} of step {step} of the episode with seed {seed} differ from the single environment's"
        if len(values) != len(others):
            return f"the episode with seed {seed} has {len(others)} steps, in the single environment {len(values)}"
    # Endings, reward terms, truncation and reported success.
    for column, values, others in zip(fields(Episodes), astuple(episodes), astuple(other_episodes), strict=True):
        if values.dtype != others.dtype or values.tobytes() != others.tobytes():
            return f"'{column.name}' of the same episodes differs from the single environment's"
    return ""
