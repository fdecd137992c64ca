"""A short text that changes when a policy or an environment behaves differently.

- `fingerprint_of`: hashes what a policy says about the observations of a short random walk.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.engines import Engine, LocalProcesses
from legible.environments import Env, EnvironmentSpec, ObservationEncoder
from legible.play import Observations, stage_seeds
from legible.policies import Policy, acting
from legible.policies.choices import as_shown
from legible.study.running import run_within_limit

PROBE_STEPS = 64


def fingerprint_of(
    policy: Policy,
    environment: EnvironmentSpec | Env,
    *,
    engine: Engine | None = None,
    time_limit: float | None = None,
) -> str:
    """Return a short text that changes when policy or environment behave differently.

    Parameters
    ----------
    policy, environment
        What is looked at.
    engine, time_limit
        With a time limit the walk is made on an engine (by default another process), and given up after some seconds.
    """
    seed = stage_seeds(0, "experiences", 0, 1)[0]
    if time_limit is None:
        observations, rewards = _walk(environment, seed)
    else:
        what = f"the first steps in the environment, with seed {seed}"
        where = engine or LocalProcesses(1)
        observations, rewards = run_within_limit(where, _walk, environment, seed, time_limit, what)
    digest = hashlib.sha256(observations.tobytes())
    digest.update(rewards.tobytes())
    digest.update(np.asarray(_answers(policy, observations), np.float32).tobytes())
    return digest.hexdigest()[:32]


def _answers(policy: Policy, observations: Observations) -> NDArray[Any]:
    if policy.kind != "none":
        return np.asarray(policy.scores(observations))
    actor = acting(policy)
    return actor.predict(as_shown(actor, observations))[0]


def _walk(environment: EnvironmentSpec | Env, seed: int) -> tuple[Observations, NDArray[np.float64]]:
    """Take some random steps; returns what was seen and earned."""
    env = environment.make() if isinstance(environment, EnvironmentSpec) else environment
    encoder = ObservationEncoder.of(env.observation_space)
    env.action_space.seed(0)
    observation, _ = env.reset(seed=seed)
    seen, rewards = [observation], []
    for _ in range(PROBE_STEPS):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append(observation)
        rewards.append(float(reward))
        if terminated or truncated:
            break
    if isinstance(environment, EnvironmentSpec):
        env.close()
    return encoder.encode(seen), np.asarray(rewards, np.float64)
