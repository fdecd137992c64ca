"""A short text that changes when a policy or an environment behaves differently.

- `fingerprint_of`: hashes what a policy says about the observations of a short random walk.
"""

from __future__ import annotations

import hashlib

import numpy as np

from legible.environments import Env, EnvironmentSpec, ObservationEncoder
from legible.play import stage_seeds
from legible.policies import Policy

PROBE_STEPS = 64


def fingerprint_of(policy: Policy, environment: EnvironmentSpec | Env) -> str:
    """Return a short text that changes when policy or environment behave differently."""
    env = environment.make() if isinstance(environment, EnvironmentSpec) else environment
    encoder = ObservationEncoder.of(env.observation_space)
    env.action_space.seed(0)
    observation, _ = env.reset(seed=stage_seeds(0, "experiences", 0, 1)[0])
    seen, rewards = [observation], []
    for _ in range(PROBE_STEPS):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append(observation)
        rewards.append(float(reward))
        if terminated or truncated:
            break
    if isinstance(environment, EnvironmentSpec):
        env.close()
    observations = encoder.encode(seen)
    digest = hashlib.sha256(observations.tobytes())
    digest.update(np.asarray(rewards, np.float64).tobytes())
    digest.update(np.asarray(policy.scores(observations), np.float32).tobytes())
    return digest.hexdigest()[:32]
