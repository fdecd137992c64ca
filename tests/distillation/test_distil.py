"""Distillation of a rule that repairs the flawed walker: go left where the goal is on the left."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO

import mirror_world
import steering_world
from flawed_network import save_flawed_network
from legible import GuidedPolicy, LegibleError, distil, load_policy
from legible.distillation import distil_policy, write_network
from legible.distillation.rounds import StudentLearner
from legible.distillation.teacher import Teacher
from legible.engines import InProcess, LocalProcesses
from legible.features import Feature, FeatureSpace, cut_choices
from legible.play import one_thread
from legible.policies import Activation, ActorPolicy, NetworkPolicy
from legible.policies.actors.heads import Categories, Certain
from legible.policies.actors.networks import Activated, Flatten
from legible.rules import RuleSet, parse_rule
from legible.settings import DistillationSettings, PlaySettings
from mirror_world import WORLD

GOOD = RuleSet((parse_rule("+Left <- left", mirror_world.SPACE),))
PLAY = PlaySettings(batch=16, unit_episodes=50)
SMALL = DistillationSettings(
    rounds=3, episodes=24, steps=120, batch=64, learning_rate=2e-3, check_episodes=40, final_episodes=60
)


@pytest.fixture(scope="module")
def flawed(tmp_path_factory):
    with one_thread():
        return save_flawed_network(tmp_path_factory.mktemp("network") / "network.safetensors")


def guided(path: Path, kind: str = "values", rules: RuleSet = GOOD) -> GuidedPolicy:
    network = load_policy(path)
    assert isinstance(network, NetworkPolicy)
    return GuidedPolicy(replace(network, kind=kind), rules, mirror_world.SPACE)


def weights(policy) -> list[np.ndarray]:
    return [array for layer in policy.layers for array in (layer.weight, layer.bias)]


@pytest.mark.parametrize("kind", ["values", "log-probabilities"])
def test_the_network_does_what_the_rule_says_without_it(flawed, kind) -> None:
    found = distil_policy(guided(flawed, kind), WORLD, settings=SMALL, play=PLAY)
    base, with_rules, alone = (
        result.returns.mean() for result in (found.comparison.base, found.comparison.guided, found.comparison.distilled)
    )
    assert with_rules > base + 5
    assert alone > base + 0.9 * (with_rules - base)
    assert found.comparison.kept.share == pytest.approx((alone - base) / (with_rules - base))
    assert found.is_better
    assert [layer.weight.shape for layer in found.policy.layers] == [(32, 5), (3, 32)]
    (rule,) = found.broken
    assert (rule.rule, rule.is_broken, rule.was_broken) == (GOOD.rules[0], False, True)
    assert "of the gain" in found.verdict()
    if kind == "values":  # where rules change nothing, values stay similar
        right = np.array([[0, 1, 0, 0, 0.0], [0, 1, 1, 0, 0.5]], np.float32)
        np.testing.assert_allclose(found.policy.scores(right), load_policy(flawed).scores(right), atol=0.4)
    data = json.loads(json.dumps(found.to_dict()))
    assert {"mean", "error", "median", "worst-tenth"} <= data["distilled"].keys()
    assert data["kept_interval"][0] <= data["kept"] == found.comparison.kept.share <= data["kept_interval"][1]
    gain = data["differences"]["distilled"]["mean"]["mean"]
    assert gain == pytest.approx(data["distilled"]["mean"] - data["base"]["mean"])
    assert data["rules"]["each"][0]["rule"] == "+Left <- left"
    assert data["steps"] > 0


def test_the_learning_rate_falls_within_every_round(flawed) -> None:
    settings = replace(SMALL, steps=4, learning_rate=1.0)
    learner = StudentLearner(Teacher(guided(flawed)), settings, 0, greedy=True)
    learner.see(np.eye(5, dtype=np.float32))
    rates: list[float] = []
    for number in (1, 2):
        learner.learn(number, lambda _: rates.append(learner.learning_rate))
    assert rates == [1.0, 0.75, 0.5, 0.25] * 2


@pytest.mark.slow
def test_the_same_seed_gives_the_same_network_to_the_bit_wherever_it_is_played(flawed) -> None:
    few = replace(SMALL, rounds=2, steps=30)
    threads = torch.get_num_threads()
    first = distil_policy(guided(flawed), WORLD, settings=few, play=PLAY, engine=InProcess())
    torch.set_num_threads(2)
    try:
        second = distil_policy(guided(flawed), WORLD, settings=few, play=PLAY, engine=LocalProcesses(2))
    finally:
        torch.set_num_threads(threads)
    other = distil_policy(guided(flawed), WORLD, settings=few, play=PLAY, seed=1)
    for one, two in zip(weights(first.policy), weights(second.policy), strict=True):
        np.testing.assert_array_equal(one, two)
    assert first.to_dict() == second.to_dict()
    assert any((one != two).any() for one, two in zip(weights(first.policy), weights(other.policy), strict=True))


SCRIPT = """
import sys
sys.path[:0] = {paths!r}
from test_distil import GOOD, PLAY, SMALL, WORLD, guided
from legible.study.distilling import distil
print(distil(guided({network!r}), {out!r}, environment=WORLD, settings=SMALL).chosen)
"""


@pytest.mark.subprocess
def test_a_killed_distillation_resumes_after_its_last_round(flawed, tmp_path) -> None:
    whole = tmp_path / "whole.safetensors"
    distil(guided(flawed), whole, environment=WORLD, settings=SMALL)
    out = tmp_path / "killed.safetensors"
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    script = SCRIPT.format(paths=paths, network=str(flawed), out=str(out))
    path = os.pathsep.join([paths[1], os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path})
    checkpoint = tmp_path / "killed.safetensors.distil"
    over = time.monotonic() + 120
    while not (checkpoint / "round-001.npz").exists() and process.poll() is None and time.monotonic() < over:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert not out.exists()
    learned = (checkpoint / "round-001.npz").read_bytes()
    other = replace(SMALL, rounds=2)
    with pytest.raises(LegibleError, match="another distillation"):
        distil(guided(flawed), out, environment=WORLD, settings=other)
    assert (checkpoint / "round-001.npz").read_bytes() == learned
    distil(guided(flawed), out, environment=WORLD, settings=SMALL)
    assert not checkpoint.exists()
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("kind", ["values", "log-probabilities"])
def test_stable_baselines3_loads_the_network(flawed, tmp_path, kind) -> None:
    guided(flawed, kind).save(tmp_path / "guided.safetensors", metadata={"legible.gain": 1})
    loaded = GuidedPolicy.load(tmp_path / "guided.safetensors")
    few = replace(SMALL, rounds=1, steps=20)
    found = distil(loaded, tmp_path / "network.zip", environment=WORLD, settings=few)
    model = (DQN if kind == "values" else PPO).load(tmp_path / "network.zip", device="cpu")
    states = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    states[:, :4] = states[:, :4] > 0
    np.testing.assert_array_equal(model.predict(states, deterministic=True)[0], found.policy.predict(states)[0])
    read = load_policy(tmp_path / "network.zip")
    np.testing.assert_array_equal(read.scores(states), found.policy.scores(states))
    assert type(found.policy) is NetworkPolicy
    assert found.policy.metadata["distilled"]["rules"] == 1
    assert not [name for name in found.policy.metadata if name.startswith("legible.")]


# --- Other actions ---------------------------------------------------------------------------------------------------


def actor(world, head, n_outputs: int, **more) -> ActorPolicy:
    """Return a network that was trained on the actions of the flawed policy of a steering world."""
    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Linear(3, 32), Activated(Activation("tanh")))
    last = torch.nn.Linear(32, n_outputs)
    rng = np.random.default_rng(0)
    seen = np.stack([rng.choice([-1.0, 1.0], 3000), rng.integers(0, 2, 3000), rng.normal(size=3000)], axis=1)
    inputs = torch.from_numpy(seen.astype(np.float32))
    done = torch.from_numpy(np.asarray(steering_world.policy(world).predict(seen)[0]))
    optimiser = torch.optim.Adam([*body.parameters(), *last.parameters()], lr=0.02)
    for _ in range(200):
        optimiser.zero_grad()
        outputs = last(body(inputs))
        if isinstance(world.action_space, spaces.Box):
            loss = torch.nn.functional.mse_loss(outputs, done)
        else:
            parts = outputs.split([3, 2], dim=1)
            loss = sum(torch.nn.functional.cross_entropy(part, done[:, i]) for i, part in enumerate(parts))
        loss.backward()
        optimiser.step()
    return ActorPolicy(world.observation_space, world.action_space, Flatten(), body, head(last), **more)


@pytest.mark.parametrize("world", [steering_world.Steering, steering_world.Driving])
def test_continuous_and_several_actions(world, tmp_path, raises_saved) -> None:
    head, outputs = (
        (Certain, 1) if world is steering_world.Steering else (partial(Categories, sizes=(3, 2), single=False), 5)
    )
    with one_thread():
        policy = actor(world, head, outputs)
    space = cut_choices(world.feature_space)
    rules = RuleSet((parse_rule("+steer.right <- side <= 0 & near", space),))
    found = distil(
        GuidedPolicy(policy, rules, space),
        tmp_path / "n.safetensors",
        environment=steering_world.spec(world),
        settings=replace(SMALL, steps=300),
    )
    assert found.comparison.guided.returns.mean() > found.comparison.base.returns.mean() + 2
    assert found.comparison.kept.share > 0.9
    read = load_policy(tmp_path / "n.safetensors")
    states = np.array([[-1, 1, 0.3], [1, 1, -0.2], [1, 0, 0.1]], np.float32)
    np.testing.assert_array_equal(read.predict(states)[0], found.policy.predict(states)[0])
    if world is steering_world.Steering:
        with raises_saved(LegibleError):
            write_network(found.policy, tmp_path / "n.zip")  # TD3 bounds its outputs, and this one does not
    else:
        write_network(found.policy, tmp_path / "n.zip")
        done, _ = PPO.load(tmp_path / "n.zip", device="cpu").predict(states, deterministic=True)
        np.testing.assert_array_equal(done, found.policy.predict(states)[0])


def test_rules_that_see_more_than_the_network(flawed) -> None:
    side = Feature("side", expression="left - right")
    space = FeatureSpace((*mirror_world.SPACE.features, side), mirror_world.SPACE.actions)
    policy = GuidedPolicy(load_policy(flawed), [parse_rule("+Left <- side > 0", space)], space)
    found = distil(policy, environment=WORLD, settings=SMALL)
    assert found.policy.n_features == 5
    assert found.comparison.kept.share > 0.9
    assert not found.still_broken


# --- Refusals --------------------------------------------------------------------------------------------------------


class Wider(gymnasium.Env):
    observation_space = spaces.Box(-1.0, 1.0, (9,), np.float32)
    action_space = spaces.Discrete(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"out": "network.pt"}, r"network.pt: a network is written as .zip .* or .safetensors, not '.pt'"),
        ({"source": "function"}, "cannot be distilled: it is no network"),
        ({"source": "no rules"}, "there are no rules to distil"),
        ({"source": "network"}, "neither a guided policy nor the folder of a study"),
        ({"environment": f"{__name__}:Wider"}, "reads 5 features, but the environment shows 9"),
        ({"environment": None}, "does not name its environment"),
    ],
)
def test_refusals_are_clear_and_leave_nothing(flawed, tmp_path, change, message) -> None:
    sources = {
        "function": GuidedPolicy(mirror_world.policy(), GOOD, mirror_world.SPACE),
        "no rules": guided(flawed, rules=RuleSet(())),
        "network": flawed,
        "guided": guided(flawed),
    }
    source = sources[change.pop("source", "guided")]
    arguments = {"out": "network.zip", "environment": WORLD, **change}
    out = tmp_path / arguments.pop("out")
    with pytest.raises(LegibleError, match=message):
        distil(source, out, **arguments)
    assert not list(tmp_path.iterdir())


def test_existing_files_are_kept(flawed, tmp_path) -> None:
    out = tmp_path / "network.safetensors"
    out.write_bytes(b"mine")
    few = replace(SMALL, rounds=1, steps=5)
    with pytest.raises(LegibleError, match="exists already"):
        distil(guided(flawed), out, environment=WORLD, settings=few)
    assert out.read_bytes() == b"mine"
    distil(guided(flawed), out, environment=WORLD, settings=few, force=True)
    assert load_policy(out).n_actions == 3
