"""Rules that guide trainings with Stable-Baselines3."""

import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import mirror_world
import steering_world
from flawed_network import save_flawed_network
from legible.environments import EnvironmentSpec
from legible.features import FeatureSpace
from legible.guidance import GuidedPolicy
from legible.policies import Activation, Layer, NetworkPolicy, Plain, load_policy
from legible.rules import RuleSet, parse_rule
from legible.training import train
from legible.training.errors import TrainingError
from legible.training.hyperparameters import ContinuousPpoSettings, DqnSettings, PpoSettings
from legible.training.rules import RuleLayer, RuleMasks, RuleSettings, TrainingRules, margin_loss
from legible.training.sb3_rules import guide_model, guided_class

MIRROR = mirror_world.WORLD
FOREVER = 10**9  # steps in which rules do not fade noticeably
REGIONS = {
    "steer": {
        "choices": ["left", "straight", "right"],
        **{"low": -1.0, "high": 1.0, "cuts": [-0.3, 0.3], "typical": [-0.6, 0.0, 0.6], "spread": 0.5},
    }
}
STEERING_SPACE = FeatureSpace.from_dict(
    {"features": FeatureSpace(steering_world.FEATURES).to_dict()["features"], "groups": REGIONS}
)
WORLDS = {
    "mirror": (mirror_world.MirrorWorld, mirror_world.SPACE),
    "steering": (steering_world.Steering, STEERING_SPACE),
    "driving": (steering_world.Driving, steering_world.Driving.feature_space),
}


def rules_of(space: FeatureSpace, *texts: str) -> TrainingRules:
    return TrainingRules((RuleLayer(RuleSet(tuple(parse_rule(text, space) for text in texts)), "positive"),), space)


def guided_model(
    kind: type[Any],
    world: str,
    *texts: str,
    settings: RuleSettings = RuleSettings(),  # noqa: B008 (frozen)
    total: int = FOREVER,
    normalised: bool = False,
    **arguments: Any,
) -> Any:
    made, space = WORLDS[world]
    environments: Any = DummyVecEnv([made] * 2)
    environments = VecNormalize(environments) if normalised else environments
    model = guided_class(kind)(
        "MlpPolicy", environments, seed=0, device="cpu", policy_kwargs={"net_arch": [16]}, **arguments
    )
    guide_model(model, rules_of(space, *texts), settings, total, seed=0)
    return model


def stored(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Observations and actions of all transitions."""
    buffer, n = model.replay_buffer, model.replay_buffer.pos
    return buffer.observations[:n].reshape(2 * n, -1), buffer.actions[:n].reshape(2 * n, -1)


@pytest.mark.parametrize("normalised", [False, True])
def test_dqn_stores_guided_actions(normalised: bool) -> None:
    model = guided_model(
        DQN, "mirror", "+Stay <- luck > 0", "-Right <- luck <= 0", buffer_size=2000, learning_starts=100,
        exploration_final_eps=0.5, normalised=normalised,
    )  # fmt: skip
    model.learn(1200)
    seen, done = stored(model)
    lucky = seen[:, 4] > 0
    assert 0.3 < lucky.mean() < 0.7
    assert set(done[lucky, 0]) == {mirror_world.STAY}
    assert set(done[~lucky, 0]) == {mirror_world.LEFT, mirror_world.STAY}
    assert model.guide.guided == model.guide.steps == len(done)
    assert 0 < model.guide.changed < model.guide.steps


def test_the_best_allowed_action_replaces_a_blocked_one() -> None:
    model = guided_model(DQN, "mirror", "-Right <- true", buffer_size=500, learning_starts=0, gradient_steps=0)
    model.exploration_schedule = lambda _: 0.0
    model.exploration_rate = 0.0
    model.learn(200)
    seen, done = stored(model)
    with torch.no_grad():
        values = model.q_net(torch.tensor(seen)).numpy()
    values[:, mirror_world.RIGHT] = -np.inf
    np.testing.assert_array_equal(done[:, 0], values.argmax(axis=1))


def test_the_share_of_guided_episodes_falls_with_the_schedule() -> None:
    actions = []
    for _ in range(2):
        model = guided_model(DQN, "mirror", "+Stay <- true", total=4000, buffer_size=5000, learning_starts=5000)
        model.learn(4000)
        actions.append(stored(model)[1])
    done, again = actions
    # All others are random; an episode that stays takes 16 steps, so guided ones have most of the early steps.
    stays = (done[:, 0] == mirror_world.STAY).reshape(4, -1).mean(axis=1)
    assert stays[0] > 0.75
    assert stays[0] > stays[1] > 0.4
    np.testing.assert_allclose(stays[2:], 1 / 3, atol=0.07)
    np.testing.assert_array_equal(again, done)


@pytest.mark.parametrize("kind", [SAC, TD3])
def test_continuous_actions_are_stored_where_rules_moved_them(kind: type[Any]) -> None:
    model = guided_model(
        kind, "steering", "+steer.right <- near", "-steer.straight <- not near", buffer_size=2000, learning_starts=200,
        batch_size=16,
    )  # fmt: skip
    model.learn(400)
    seen, done = stored(model)
    near = seen[:, 1] == 1
    assert (done[near, 0] > 0.3).all()
    assert (np.abs(done[~near, 0]) > 0.3).all()
    assert np.isclose(done, 0.6).mean() > 0.1  # the typical action of the region
    assert len(np.unique(done[near])) > 20  # allowed actions are unchanged


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "world", "texts", "more", "normalised"),
    [
        (DQN, "mirror", ("+Stay <- left", "-Left <- right"), {"learning_starts": 50, "buffer_size": 1000}, False),
        (DQN, "mirror", ("+Stay <- left", "-Left <- right"), {"learning_starts": 50, "buffer_size": 1000}, True),
        (PPO, "mirror", ("+Stay <- left", "-Left <- right"), {"n_steps": 64, "batch_size": 32}, True),
        (PPO, "driving", ("+steer.left <- near", "-gear.fast <- not near"), {"n_steps": 64, "batch_size": 32}, False),
        (SAC, "steering", ("+steer.right <- near",), {"learning_starts": 50, "buffer_size": 1000}, False),
        (TD3, "steering", ("+steer.right <- near",), {"learning_starts": 50, "buffer_size": 1000}, False),
    ],
)
def test_the_margin_loss_puts_rules_into_the_network(
    kind: type[Any], world: str, texts: tuple[str, ...], more: dict[str, Any], normalised: bool
) -> None:
    losses = []
    rows = np.concatenate([WORLDS[world][0]().reset(seed=seed)[0][None] for seed in range(100)])
    rules = rules_of(WORLDS[world][1], *texts)
    starts = tuple(RuleMasks([rules]).starts.tolist())
    allowed = torch.from_numpy(RuleMasks([rules]).allowed(rows))
    for margin in (None, 0.5):
        settings = RuleSettings(margin=margin, margin_weight=10.0)
        model = guided_model(kind, world, *texts, settings=settings, normalised=normalised, learning_rate=3e-3, **more)
        model.learn(700)
        shown = model.env.normalize_obs(rows) if normalised else rows
        losses.append(float(margin_loss(scores(model, shown), allowed, 0.5, starts).mean()))
    assert losses[1] < 0.1 * losses[0]


def scores(model: Any, rows: np.ndarray) -> torch.Tensor:
    shown = torch.as_tensor(rows, dtype=torch.float32)
    with torch.no_grad():
        if isinstance(model, DQN):
            return model.q_net(shown)
        if isinstance(model, PPO):
            latent = model.policy.mlp_extractor.forward_actor(shown)
            return torch.nn.functional.linear(latent, model.policy.action_net.weight, model.policy.action_net.bias)
    actions = model.predict(rows, deterministic=True)[0]
    return torch.from_numpy(STEERING_SPACE.groups[0].regions.scores(actions[:, 0]))


def test_ppo_acts_by_the_policy_that_it_improves() -> None:
    """With one batch that is the whole rollout, all ratios are 1, whatever the shift."""
    model = guided_model(
        PPO, "mirror", "+Stay <- luck > 0", "-Right <- luck <= 0", settings=RuleSettings(fade=1.0), total=512,
        n_steps=64, batch_size=128, n_epochs=1,
    )  # fmt: skip
    model.set_logger(configure(None, []))
    seen = []
    for rollouts in range(1, 5):
        model.learn(128, reset_num_timesteps=False)
        assert model.num_timesteps == 128 * rollouts
        assert abs(model.logger.name_to_value["train/approx_kl"]) < 1e-6
        assert model.logger.name_to_value["train/clip_fraction"] == 0
        rows, done = model.rollout_buffer.observations, model.rollout_buffer.actions[:, 0]
        lucky = rows[:, 4] > 0
        seen.append(float(np.mean(done[lucky] != mirror_world.STAY)))
    assert seen[0] == 0.0  # initially rules always hold
    assert 0.0 < seen[2] < seen[3] + 0.2


def test_the_zip_holds_a_plain_model_and_one_seed_gives_one_result(tmp_path) -> None:
    arguments: dict[str, Any] = {
        "start": save_flawed_network(tmp_path / "flawed.safetensors"),
        "rules": rules_of(mirror_world.SPACE, "+Left <- left"),
        "rule_settings": RuleSettings(margin=0.5),
        "settings": DqnSettings(hidden=(32,), n_envs=2, buffer_size=500, learning_starts=20, gradient_steps=1),
        "n_episodes": 2,
    }
    trained, again = (train(MIRROR, None, 200, out=tmp_path / name, **arguments) for name in "pq")
    assert trained.safetensors.read_bytes() == again.safetensors.read_bytes()
    with zipfile.ZipFile(trained.zip) as archive:
        assert "legible" not in archive.read("data").decode()
    model, policy = DQN.load(trained.zip), load_policy(trained.safetensors)
    rows = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    np.testing.assert_array_equal(model.predict(rows, deterministic=True)[0], policy.scores(rows).argmax(axis=1))
    assert policy.metadata["training"] == "rules"
    assert policy.metadata["rules"]["layers"][0]["rules"] == "+Left <- left"
    assert policy.metadata["rules"]["margin"] == 0.5


@pytest.mark.parametrize(
    ("algo", "settings"),
    [
        ("dqn", DqnSettings(hidden=(16,), n_envs=2, buffer_size=500, learning_starts=50)),
        ("ppo", PpoSettings(hidden=(16,), n_envs=2, n_steps=32, batch_size=32, n_epochs=2)),
    ],
)
def test_resumes_only_with_the_same_rules(tmp_path, algo: str, settings: Any) -> None:
    def stop(done: int, _total: int) -> None:
        if done >= 200:
            raise InterruptedError

    rules, other = (rules_of(mirror_world.SPACE, text) for text in ("+Left <- left", "+Right <- right"))
    arguments: dict[str, Any] = {"steps": 400, "settings": settings, "n_episodes": 2, "checkpoint_steps": 64}
    with pytest.raises(InterruptedError):
        train(MIRROR, algo, out=tmp_path / "p", on_progress=stop, rules=rules, **arguments)
    for wrong in ({"rules": other}, {"rules": rules, "rule_settings": RuleSettings(fade=0.2)}, {}):
        with pytest.raises(TrainingError, match="checkpoint of another training"):
            train(MIRROR, algo, out=tmp_path / "p", **wrong, **arguments)
    starts: list[int] = []
    train(MIRROR, algo, out=tmp_path / "p", rules=rules, on_progress=lambda done, _: starts.append(done), **arguments)
    assert starts[0] >= 192


def test_trainings_that_rules_cannot_guide_are_refused(tmp_path, raises_saved) -> None:
    rules = rules_of(STEERING_SPACE, "+steer.right <- near")
    world = EnvironmentSpec("steering_world:Steering")
    settings = ContinuousPpoSettings(hidden=(16,), n_envs=2, n_steps=32, batch_size=32)
    with raises_saved(TrainingError):
        train(world, "ppo", 10, out=tmp_path / "p", rules=rules, settings=settings)
    guided = guided_file(tmp_path)
    with raises_saved(TrainingError):
        train(MIRROR, None, 10, out=tmp_path / "p", start=guided)


class Corridor(gymnasium.Env[np.ndarray, np.int64]):
    """Twelve cells. The exit on the right, near the start, earns 1; the one on the left, far away, earns 10."""

    feature_space = FeatureSpace.of(["cell"], ["Left", "Right"])
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self._cell, self._steps = 9, 0
        return self._seen(), {}

    def step(self, action):
        self._cell += 2 * int(action) - 1
        self._steps += 1
        reward = {0: 10.0, 12: 1.0}.get(self._cell, 0.0)
        return self._seen(), reward, reward > 0, self._steps == 40, {}

    def _seen(self):
        return np.array([self._cell / 12], np.float32)


@pytest.mark.slow
def test_rules_reach_what_chance_does_not(tmp_path) -> None:
    """The policy knows the near exit only, and random steps do not reach the other one."""
    world = EnvironmentSpec(f"{__name__}:Corridor")
    hidden = Layer(np.ones((8, 1)), np.linspace(-0.9, 0.1, 8), Activation("relu"))
    always_right = NetworkPolicy((hidden, Layer(np.zeros((2, 8)), [0.0, 0.9])), "values", Plain(1))
    settings = DqnSettings(
        hidden=(8,), n_envs=1, buffer_size=5000, learning_starts=20, batch_size=64, learning_rate=5e-3, gamma=0.95,
        train_freq=1, gradient_steps=1, target_update_interval=100, exploration_initial_eps=0.05,
    )  # fmt: skip
    rules = rules_of(Corridor.feature_space, "+Left <- cell <= 1")
    returns = {
        name: train(
            world, None, 2000, out=tmp_path / name, start=always_right, rules=given, settings=settings, n_episodes=2
        ).evaluation.mean_return
        for name, given in (("extended", None), ("rules", rules))
    }
    assert returns == {"extended": 1.0, "rules": 10.0}


def guided_file(tmp_path: Path) -> Path:
    policy = load_policy(save_flawed_network(tmp_path / "flawed.safetensors"))
    space = mirror_world.SPACE
    GuidedPolicy(policy, [parse_rule("+Left <- left", space)], space).save(tmp_path / "guided.safetensors")
    return tmp_path / "guided.safetensors"


def test_a_known_fault_is_mended(tmp_path) -> None:
    """The walker goes right wherever the goal is; what it learnt of the rule stays when the rule has faded out."""
    guided = guided_file(tmp_path)
    settings = DqnSettings(
        hidden=(32,), n_envs=2, buffer_size=5000, learning_starts=100, batch_size=64, learning_rate=1e-3, gamma=0.9,
        train_freq=1, gradient_steps=2, target_update_interval=200, exploration_initial_eps=0.05,
    )  # fmt: skip
    rules = TrainingRules.of(GuidedPolicy.load(guided))
    start = guided.with_name("flawed.safetensors")
    trained = train(
        MIRROR, None, 1500, seed=1, out=tmp_path / "p", start=start, settings=settings, n_episodes=100, rules=rules
    )
    assert trained.before is not None
    assert trained.evaluation.mean_return > trained.before.mean_return + 10
