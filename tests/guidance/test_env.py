"""Rules in a user's program: the wrapper does what the guided policy does, and every change is in the log."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

import mirror_world
from legible.environments import shipped_features
from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.guidance import AuditLog, GuidedEnv, GuidedPolicy
from legible.policies import load_policy
from legible.rules import parse_rule
from mirror_world import LEFT, RIGHT, SPACE, STAY, MirrorWorld

RULES = [parse_rule(text, SPACE) for text in ("+Left <- left", "-Right <- wall.right", "-Stay <- right")]


def guided(rules: list[Any] = RULES, **arguments: Any) -> GuidedPolicy:
    return GuidedPolicy(mirror_world.policy(), rules, SPACE, **arguments)


def play(env: gymnasium.Env, choose: Any, seed: int) -> tuple[list[int], float]:
    """Play one episode; return its observations and return."""
    observation, _ = env.reset(seed=seed)
    total, seen, done = 0.0, [], False
    while not done:
        seen.append(observation.tolist())
        observation, reward, terminated, truncated, _ = env.step(choose(observation))
        total, done = total + float(reward), terminated or truncated
    return seen, total


@pytest.mark.parametrize("precedence", ["positive", "negative"])
def test_the_base_policy_in_the_wrapper_plays_as_the_guided_policy(precedence: str) -> None:
    made, base = guided(precedence=precedence), mirror_world.policy()
    wrapped = GuidedEnv(MirrorWorld(), made)
    for seed in range(20):
        inside = play(wrapped, lambda o: int(base.scores(o[None])[0].argmax()), seed)
        outside = play(MirrorWorld(), lambda o: made.predict(o)[0], seed)
        assert inside == outside


def observe(**flags: float) -> np.ndarray:
    return np.array([flags.get(name.replace(".", "_"), 0.0) for name in SPACE.names], np.float32)


class Fixed(MirrorWorld):
    """Always shows the same observation; the reward is the action."""

    def __init__(self, observation: np.ndarray) -> None:
        super().__init__()
        self.observation = observation

    def reset(self, *, seed: int | None = None, options: object = None):  # noqa: ARG002
        super().reset(seed=seed)
        return self.observation, {}

    def step(self, action: np.int64):
        return self.observation, float(action), False, False, {"own": "info"}


@pytest.mark.parametrize(
    ("observation", "rules", "action", "done"),
    [
        (observe(right=1), RULES, RIGHT, RIGHT),  # no rule minds
        (observe(left=1), RULES, STAY, LEFT),  # enforced
        (observe(left=1), RULES, LEFT, LEFT),  # as it wanted
        (observe(wall_right=1), RULES, RIGHT, STAY),  # blocked: the policy's next best
        (observe(wall_right=1), RULES, LEFT, LEFT),  # worse than the policy's, but allowed
        (observe(right=1), [parse_rule(f"-{a} <- right", SPACE) for a in SPACE.action_names], LEFT, LEFT),
        (observe(right=1), [parse_rule(f"+{a} <- right", SPACE) for a in ("Left", "Stay")], RIGHT, RIGHT),
    ],
)
def test_rules_decide_on_every_action(observation: np.ndarray, rules: list[Any], action: int, done: int) -> None:
    env = GuidedEnv(Fixed(observation), guided(rules))
    env.reset(seed=0)
    _, reward, _, _, info = env.step(action)
    assert reward == done
    assert info["own"] == "info"
    triggered = any(rule.matches(observation[None])[0] for rule in rules)
    assert (info["intervention"] is not None) == triggered
    if triggered:
        assert (info["intervention"].wanted, info["intervention"].action) == (action, done)


class Shifted(MirrorWorld):
    """Numbers its actions from 5 on."""

    action_space = spaces.Discrete(3, start=5)

    def step(self, action: np.int64):
        assert action in self.action_space
        return super().step(action - 5)


def test_actions_may_start_anywhere(raises_saved) -> None:
    plain, shifted = GuidedEnv(MirrorWorld(), guided()), GuidedEnv(Shifted(), guided())
    for seed in range(5):
        assert play(plain, lambda _: RIGHT, seed) == play(shifted, lambda _: RIGHT + 5, seed)
    with raises_saved(LegibleError):
        shifted.step(0)
    for first, env in ((0, plain), (5, shifted)):
        for inside in (first, first + 2):
            env.reset(seed=0)
            env.step(inside)
        for outside in (first - 1, first + 3):
            with pytest.raises(LegibleError, match=f"there is no action {outside}"):
                env.step(outside)


def test_every_change_is_logged(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    env = GuidedEnv(MirrorWorld(), guided(), log=path)
    changed = []
    for episode, seed in enumerate((1, 2, 3, 4)):
        env.reset(seed=seed)
        for step in range(4):
            _, _, terminated, truncated, info = env.step(RIGHT)
            if info["intervention"] is not None and info["intervention"].changed:
                changed.append((episode, seed, step))
            if terminated or truncated:
                break
    env.close()
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert changed
    assert [(line["episode"], line["seed"], line["step"]) for line in lines] == changed
    assert {name: value for name, value in lines[0].items() if name not in {"episode", "seed", "step"}} == {
        **{"wanted": "Right", "done": "Left", "changed": True, "enforced": "Left", "blocked": []},
        "rules": [{"rule": "+Left <- left", "words": "do “Left” when left"}],
    }


def test_a_log_of_ones_own_loop(tmp_path: Path) -> None:
    path, made = tmp_path / "audit.jsonl", guided()
    agreed, changed = observe(right=1), observe(left=1)
    for every, expected in ((False, [1]), (True, [1, 0, 1])):
        with AuditLog(path, every=every) as log:
            for step, observation in enumerate((agreed, changed, observe())):
                log.record(made.explain(observation), step=step)
        assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == expected  # lines are added


def test_a_log_of_ones_own_stays_open_and_one_that_was_opened_here_is_closed(tmp_path: Path) -> None:
    changed = guided().decide(observe(left=1), mirror_world.RIGHT)
    with AuditLog(tmp_path / "mine.jsonl") as mine:
        GuidedEnv(MirrorWorld(), guided(), log=mine).close()
        mine.record(changed, step=0)
    env = GuidedEnv(MirrorWorld(), guided(), log=tmp_path / "its.jsonl")
    env.close()
    assert env._log is not None
    with pytest.raises(ValueError, match="closed file"):
        env._log.record(changed, step=0)
    GuidedEnv(MirrorWorld(), guided()).close()


def test_a_log_that_cannot_be_written(tmp_path: Path, raises_saved) -> None:
    with raises_saved(LegibleError):
        AuditLog(tmp_path / "nowhere" / "audit.jsonl")
    log = AuditLog("/dev/full")
    with raises_saved(LegibleError):
        log.record(guided().explain(observe(left=1)), step=0)


def test_what_does_not_fit_is_refused(raises_saved) -> None:
    with raises_saved(LegibleError):
        GuidedEnv(gymnasium.make("CartPole-v1"), guided())
    two = FeatureSpace.of(SPACE.names, ["Left", "Right"])
    policy = load_policy(lambda o: o[:, :2], output="values", n_features=5, n_actions=2)
    with raises_saved(LegibleError):
        GuidedEnv(MirrorWorld(), GuidedPolicy(policy, [], two))
    with raises_saved(LegibleError):
        GuidedEnv(MirrorWorld(), guided()).step(0)
    with raises_saved(LegibleError):
        guided().predict(np.zeros(4))


# --- Stable-Baselines3 -----------------------------------------------------------------------------------------------


def test_a_guided_policy_is_evaluated_by_stable_baselines() -> None:
    made = guided()
    returns, _ = evaluate_policy(
        made, DummyVecEnv([lambda: MirrorWorld(noise=0.0)]), n_eval_episodes=6, return_episode_rewards=True, warn=False
    )
    # Three steps to the goal, whichever side it lies on.
    assert returns == [17.0] * 6
    base = evaluate_policy(
        guided([]),
        DummyVecEnv([lambda: MirrorWorld(noise=0.0)]),
        n_eval_episodes=6,
        return_episode_rewards=True,
        warn=False,
    )
    assert min(base[0]) < 17.0


def test_a_model_of_stable_baselines_plays_in_the_wrapper() -> None:
    """A model and the guided policy made of it do the same."""
    space = shipped_features("CartPole-v1")
    model = DQN("MlpPolicy", gymnasium.make("CartPole-v1"), seed=0, device="cpu", policy_kwargs={"net_arch": [8]})
    rules = [parse_rule("+Right <- pole.angle > 0", space), parse_rule("-Right <- pole.angle <= 0", space)]
    made = GuidedPolicy(load_policy(model), rules, space)
    results = []
    for player, env in ((model, GuidedEnv(gymnasium.make("CartPole-v1"), made)), (made, gymnasium.make("CartPole-v1"))):
        vector = DummyVecEnv([lambda env=env: env])
        vector.seed(7)
        results.append(evaluate_policy(player, vector, n_eval_episodes=3, return_episode_rewards=True, warn=False)[0])
    assert results[0] == results[1]
    alone = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")])
    alone.seed(7)
    assert results[0] != evaluate_policy(model, alone, n_eval_episodes=3, return_episode_rewards=True, warn=False)[0]


def test_discrete_observations_with_stable_baselines() -> None:
    space = FeatureSpace.of(["cell"], "LDRU")
    policy = load_policy(
        lambda o: np.tile([0.0, 1.0, 0.0, 0.0], (len(o), 1)), output="values", n_features=1, n_actions=4
    )
    made = GuidedPolicy(policy, [parse_rule("+R <- cell >= 12", space)], space, observation_shape=())
    lake = DummyVecEnv(
        [lambda: gymnasium.make("FrozenLake-v1", is_slippery=False, desc=["SFFF", "FFFF", "FFFF", "FFFG"])]
    )
    assert evaluate_policy(made, lake, n_eval_episodes=2, warn=False)[0] == 1.0
    assert made.predict(np.int64(12))[0] == 2
    assert made.predict(np.array([12, 0]))[0].tolist() == [2, 1]


def test_one_observation_of_several_dimensions() -> None:
    """highway-env shows a table of vehicles: one observation, no batch."""
    space = FeatureSpace.of([f"f{i}" for i in range(6)], ["A", "B"])
    policy = load_policy(lambda o: np.stack([o[:, 0], o[:, 5]], axis=1), output="values", n_features=6, n_actions=2)
    made = GuidedPolicy(policy, [], space)
    table = np.arange(6.0).reshape(2, 3)
    assert np.ndim(made.predict(table)[0]) == 0
    assert made.predict(table)[0] == 1
    assert made.predict(table[None])[0].tolist() == [1]
    assert made.predict(np.stack([table, -table]))[0].tolist() == [1, 0]
    assert made.predict(table.reshape(1, 6))[0].tolist() == [1]


def test_discrete_guidance_is_not_for_an_environment_of_other_actions(raises_saved) -> None:
    env = mirror_world.MirrorWorld()
    env.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    with raises_saved(LegibleError):
        GuidedEnv(env, guided())
