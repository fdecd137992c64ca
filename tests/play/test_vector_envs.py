"""Vector environments of others are used where every step equals that of the single environment, and only there."""

# ruff: noqa: ARG002 (signatures are those of Gymnasium)

from collections.abc import Iterator
from contextlib import closing
from dataclasses import astuple
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from legible.environments import EnvironmentSpec, map_features, with_features
from legible.evaluation.units import Setup, Unit, play_unit
from legible.features import FeatureSpace
from legible.play import BatchSlots, SingleSlots, adapt_policy, collect, vector_envs
from legible.play.vector_envs import make_fast_slots, vector_problem
from legible.policies import FunctionPolicy, Policy
from toy_environments import Noisy

NAME = "toy/Together-v0"
SPEC = EnvironmentSpec(NAME)
TIME_LIMIT = 20


class Together(VectorEnv):
    """Noisy environments that are stepped together, with every promise kept."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(self, num_envs: int, *, max_episode_steps: int, autoreset_mode: str) -> None:
        self.num_envs, self.max_episode_steps = num_envs, max_episode_steps
        self.envs = [Noisy() for _ in range(num_envs)]
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.steps = np.zeros(num_envs, np.int64)
        self.seen = np.zeros((num_envs, 3))

    def reset(self, *, seed=None, options=None):
        for row in np.flatnonzero(options["reset_mask"]).tolist():
            self.start_row(row, seed[row])
        return self.seen.copy(), {}

    def start_row(self, row: int, seed: int | None) -> None:
        self.seen[row], _ = self.envs[row].reset(seed=seed)
        self.steps[row] = 0

    def step(self, actions):
        rewards, over, success = np.zeros(self.num_envs), np.zeros((2, self.num_envs), np.bool_), []
        for row, env in enumerate(self.envs):
            self.seen[row], rewards[row], over[0, row], _, info = env.step(actions[row])
            success.append(info["is_success"])
        self.steps += 1
        over[1] = self.steps >= self.max_episode_steps
        infos = {"is_success": np.array(success), "_is_success": np.ones(self.num_envs, np.bool_)}
        return self.seen.copy(), rewards, over[0], over[1], infos


class OtherSeeds(Together):
    def start_row(self, row, seed):
        super().start_row(row, seed + 1)


class IgnoresSeeds(Together):
    def start_row(self, row, seed):
        super().start_row(row, None)


class OneStream(Together):
    def reset(self, *, seed=None, options=None):
        generator = np.random.default_rng(seed[0])
        for row in np.flatnonzero(options["reset_mask"]).tolist():
            self.start_row(row, int(generator.integers(1000)))
        return self.seen.copy(), {}


class StartsAllRows(Together):
    def reset(self, *, seed=None, options=None):
        for row in range(self.num_envs):
            self.start_row(row, seed[row])
        return self.seen.copy(), {}


class Autoresets(Together):
    """Starts finished episodes again in the next step, and says so."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012


class AutoresetsInSecret(Together):
    """Starts finished episodes again in the next step, whatever it says."""

    def step(self, actions):
        before = getattr(self, "over", np.zeros(self.num_envs, np.bool_))
        _, rewards, terminated, truncated, infos = super().step(actions)
        for row in np.flatnonzero(before).tolist():
            self.start_row(row, None)
            rewards[row], terminated[row], truncated[row] = 0.0, False, False
        self.over = terminated | truncated
        return self.seen.copy(), rewards, terminated, truncated, infos


class RoundsRewards(Together):
    def step(self, actions):
        seen, rewards, *others = super().step(actions)
        return seen, rewards.astype(np.float32), *others


class WithoutTimeLimit(Together):
    def step(self, actions):
        self.steps[:] = 0
        return super().step(actions)


class HidesSuccess(Together):
    def step(self, actions):
        return *super().step(actions)[:-1], {}


class TakesOneSeed(Together):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=[seed + row for row in range(self.num_envs)], options=options)


class TakesNoMode(Together):
    def __init__(self, num_envs, *, max_episode_steps):
        super().__init__(num_envs, max_episode_steps=max_episode_steps, autoreset_mode="Disabled")


class SeesMore(Together):
    def __init__(self, num_envs, **options: Any) -> None:
        super().__init__(num_envs, **options)
        self.single_observation_space = gymnasium.spaces.Box(-1, 1, (4,))


@pytest.fixture
def vector_class(request: pytest.FixtureRequest) -> Iterator[None]:
    gymnasium.register(
        NAME,
        entry_point="toy_environments:Noisy",
        vector_entry_point=request.param,
        max_episode_steps=TIME_LIMIT,
        order_enforce=False,
    )
    vector_envs._problems.clear()
    yield
    gymnasium.registry.pop(NAME)
    vector_envs._problems.clear()


def policy(n_features: int = 3, n_actions: int = 4) -> Policy:
    weights = np.random.default_rng(2).normal(size=(n_features, n_actions))
    return FunctionPolicy(lambda observations: observations @ weights, "values", n_actions)


@pytest.mark.parametrize("vector_class", [Together], indirect=True)
def test_a_faithful_vector_environment_is_used_and_gives_the_same_units(
    vector_class: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vector_problem(SPEC, policy()) == ""
    assert isinstance(make_fast_slots(SPEC, 8, policy()), BatchSlots)
    assert isinstance(make_fast_slots(SPEC, 2, policy()), SingleSlots)  # hardly faster
    fast = same_episodes(SPEC, policy())
    monkeypatch.setattr(vector_envs, "_has_undeclared_class", lambda _: False)
    assert fast == same_episodes(SPEC, policy())


@pytest.mark.parametrize(
    ("vector_class", "reason"),
    [
        (OtherSeeds, "the observations of step 0 of the episode with seed 3 differ"),
        (IgnoresSeeds, "the observations of step 0 of the episode with seed 3 differ"),
        (OneStream, "differ from the single environment's"),
        (StartsAllRows, "the observations of step"),
        (Autoresets, "it starts finished episodes by itself"),
        (AutoresetsInSecret, "of the episode with seed"),
        (RoundsRewards, "the rewards of step 0 of the episode with seed 3 differ"),
        (WithoutTimeLimit, "steps, in the single environment"),
        (HidesSuccess, "'success' of the same episodes differs"),
        (TakesOneSeed, "it fails (TypeError: "),
        (
            TakesNoMode,
            "it fails (TypeError: TakesNoMode.__init__() got an unexpected keyword argument 'autoreset_mode'",
        ),
        (SeesMore, "its observations and actions are (Box(-1.0, 1.0, (4,), float32), Discrete(4)), "),
    ],
    indirect=["vector_class"],
)
def test_other_vector_environments_are_not_used_for_a_reason(vector_class: None, reason: str) -> None:
    problem = vector_problem(SPEC, policy())
    assert reason in problem
    assert problem.endswith("episodes of the single environment.")
    assert "\n" not in problem
    assert isinstance(make_fast_slots(SPEC, 8, policy()), SingleSlots)


def test_cartpole_is_played_in_batches_with_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = EnvironmentSpec("CartPole-v1")
    # It often lasts until the time limit, otherwise the cart leaves the track.
    stands = FunctionPolicy(lambda seen: np.stack([0 * seen[:, 0], seen @ [-0.1, 0.3, 1.0, 1.0]], axis=1), "values", 2)
    for chosen in (stands, policy(4, 2)):
        slots = make_fast_slots(spec, 8, chosen)
        assert isinstance(slots, BatchSlots)
        fast = same_episodes(spec, chosen)
        with monkeypatch.context() as singly:
            singly.setattr(vector_envs, "_has_undeclared_class", lambda _: False)
            assert fast == same_episodes(spec, chosen)


def test_derived_features_are_the_same_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    names = FeatureSpace.from_dict(
        {"derived": {"before": "last_action", "change": "pole.angle - previous(pole.angle)"}}
    )
    plain = EnvironmentSpec("CartPole-v1")
    with closing(plain.make()) as env:
        spec = with_features(plain, map_features(env, names))
    adapted = adapt_policy(policy(4, 2), spec)
    assert isinstance(make_fast_slots(spec, 8, adapted), BatchSlots)
    fast = same_episodes(spec, adapted)
    monkeypatch.setattr(vector_envs, "_has_undeclared_class", lambda _: False)
    assert fast == same_episodes(spec, adapted)


def test_gymnasium_s_own_class_for_cartpole_has_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legible.environments.spec._SEEDED_CLASSES", {})
    problem = vector_problem(EnvironmentSpec("CartPole-v1", {"sutton_barto_reward": True}), policy(4, 2))
    assert problem.startswith("CartPoleVectorEnv is not used: it ")
    assert "fails (" in problem
    assert vector_problem(EnvironmentSpec("FrozenLake-v1"), policy(16, 4)) == ""  # it has no vector class


def same_episodes(spec: EnvironmentSpec, chosen: Policy) -> list[bytes]:
    """Return all columns of a unit of 30 episodes, and of 20 recorded episodes."""
    unit = Unit((-1,) * 30, tuple(range(30)))
    result = play_unit(Setup(chosen, spec, count_choices=True), unit)
    recorded = collect(chosen, spec, 20, seed=1, epsilon=0.1)
    columns = [*astuple(result), recorded.observations, recorded.actions, recorded.scores, recorded.endings]
    return [np.ascontiguousarray(column).tobytes() for column in columns]
