"""A short text that changes when a policy or an environment behaves differently.

Another processor or another version of a library rounds otherwise in the last digits. A study must not be refused there
that was made here, so a fingerprint holds some numbers in addition to the hash.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.engines import Engine, LocalProcesses
from legible.environments import (
    Env,
    EnvironmentSpec,
    ObservationEncoder,
    allowed_action,
    check_finite,
    reset_environment,
    step_environment,
)
from legible.play import Observations, stage_seeds
from legible.play.adapted import shape_observations
from legible.policies import Policy, acting
from legible.policies.protocol import naming_errors
from legible.study.running import run_within_limit

PROBE_STEPS = 64
_NUMBERS = 4  # of observations, of rewards and of answers
_ROUNDING = 1e-5  # processors differ by about a hundredth of it in networks of single precision


def fingerprint_of(
    policy: Policy,
    environment: EnvironmentSpec | Env,
    *,
    engine: Engine | None = None,
    time_limit: float | None = None,
    walked: tuple[Observations, NDArray[np.float64]] | None = None,
) -> str:
    """Return a short text that changes when policy or environment behave differently.

    It is made from some random steps in the environment, and the outputs of the policy for the observations there. It
    holds a hash, and a few numbers by which results that differ only by rounding (on another processor, for instance)
    are recognised as equal.

    Parameters
    ----------
    engine, time_limit
        With a time limit the steps are made on the engine (by default another process), and given up after this many
        seconds.
    walked
        Observations and rewards of the random steps, if they were made before.
    """
    observations, rewards = walked or walk_randomly(environment, engine=engine, time_limit=time_limit)
    outputs = np.asarray(_outputs(policy, observations), np.float32)
    digest = hashlib.sha256(observations.tobytes())
    digest.update(rewards.tobytes())
    digest.update(outputs.tobytes())
    numbers = [number for values in (observations, rewards, outputs) for number in _measure(values)]
    return " ".join([digest.hexdigest()[:32], *(f"{number:.8g}" for number in numbers)])


def walk_randomly(
    environment: EnvironmentSpec | Env, *, engine: Engine | None = None, time_limit: float | None = None
) -> tuple[Observations, NDArray[np.float64]]:
    """Take some random steps and return observations and rewards.

    With a time limit the walk is made on an engine (by default another process), and given up after some seconds.
    """
    seed = stage_seeds(0, "experiences", 0, 1)[0]
    if time_limit is None:
        return _walk(environment, seed)
    what = f"the first steps in the environment, with seed {seed}"
    return run_within_limit(engine or LocalProcesses(1), _walk, environment, seed, time_limit, what)


def is_same_behaviour(first: str, second: str) -> bool:
    """Return whether two fingerprints stand for the same behaviour, up to rounding."""
    (digest, *numbers), (other_digest, *other_numbers) = first.split(" "), second.split(" ")
    if digest == other_digest:
        return True
    if len(numbers) != 3 * _NUMBERS or len(other_numbers) != len(numbers):
        return False
    # float64[observations, rewards and outputs; numbers of each], of which the first is the length of the vector.
    measures, others = (np.array([float(text) for text in part]).reshape(3, -1) for part in (numbers, other_numbers))
    return bool((np.abs(measures - others) <= _ROUNDING * measures[:, :1]).all())


def _measure(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the length of a vector, and its products with random directions: they show any change."""
    flat = np.asarray(values, np.float64).ravel()
    scale = 1.0 + np.abs(flat[np.isfinite(flat)]).max(initial=0.0)
    flat = np.nan_to_num(flat, nan=3.0 * scale, posinf=5.0 * scale, neginf=7.0 * scale)
    directions = np.random.default_rng(0).standard_normal((_NUMBERS - 1, len(flat)))
    return np.array([np.linalg.norm(flat), *(directions @ flat)])


def _outputs(policy: Policy, observations: Observations) -> NDArray[Any]:
    with naming_errors():
        if policy.kind != "none":
            return np.asarray(policy.scores(observations))
        actor = acting(policy)
        return actor.predict(shape_observations(actor, observations))[0]


def _walk(environment: EnvironmentSpec | Env, seed: int) -> tuple[Observations, NDArray[np.float64]]:
    """Take up to `PROBE_STEPS` random steps of one episode; return its observations and rewards.

    `seed` is that of the episode; actions are drawn with a fixed seed. An environment that is the caller's own object
    stays open.
    """
    env = environment.make() if isinstance(environment, EnvironmentSpec) else environment
    encoder = ObservationEncoder.of(env.observation_space)
    env.action_space.seed(0)
    rng = np.random.default_rng(0)
    observation, _ = reset_environment(env, seed)
    raw_observations, rewards = [observation], []
    for step in range(PROBE_STEPS):
        allowed = allowed_action(env, observation, rng)  # None: the environment has no action mask
        action = env.action_space.sample() if allowed is None else allowed
        observation, reward, terminated, truncated, _ = step_environment(env, action, seed, step)
        raw_observations.append(observation)
        rewards.append(reward)
        if terminated or truncated:
            break
    if isinstance(environment, EnvironmentSpec):
        env.close()
    observations = encoder.encode(raw_observations)
    check_finite(observations, seed)
    return observations, np.asarray(rewards, np.float64)
