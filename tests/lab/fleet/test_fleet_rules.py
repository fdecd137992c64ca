"""Rules that guide the trainings of fleets."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from lab.fleet.checkpoint import load_checkpoint, save_checkpoint
from lab.fleet.dqn import DqnFleet
from lab.fleet.gradient_step import margin_gradient
from lab.fleet.networks import forward
from lab.fleet.plan import FleetPlan, make_fleet, policies_of, save_to_zoo
from lab.fleet.ppo import PpoFleet
from lab.fleet.slots import FleetError
from legible.environments import EnvironmentSpec, feature_space_of
from legible.policies import load_policy
from legible.rules import RuleSet, parse_rule
from legible.training.hyperparameters import DqnSettings, PpoSettings
from legible.training.rules import RuleLayer, RuleSettings, TrainingRules, margin_loss

DQN = DqnSettings(hidden=(16, 8), n_envs=2, buffer_size=400, batch_size=16, gradient_steps=-1)
PPO = PpoSettings(hidden=(16, 8), n_envs=2, n_steps=16, batch_size=32, n_epochs=2)
SMALL = EnvironmentSpec("legible/PacmanSmall-v0")
NORTH, EAST, STOP = 0, 2, 4
WHOLE = (0, 5)


@pytest.fixture(scope="module")
def space() -> Any:
    env = SMALL.make()
    yield feature_space_of(env)
    env.close()


def rules_of(space: Any, *texts: str) -> TrainingRules:
    return TrainingRules((RuleLayer(RuleSet(tuple(parse_rule(text, space) for text in texts)), "positive"),), space)


def make(tmp_path, settings: Any, rules: list[TrainingRules], total: int = 10**7, **more: Any) -> Any:
    plan = FleetPlan((SMALL,), (3, 5), settings, 240)
    if not (tmp_path / "PacmanSmall").is_dir():
        base = make_fleet(plan)
        base.learn(max_phases=2)
        save_to_zoo(base, plan, tmp_path, n_episodes=2)
    ruled = replace(plan, total_steps=total).training_with_rules(rules, RuleSettings(**more))
    return make_fleet(ruled, zoo=tmp_path)


def test_every_policy_is_guided_by_its_own_rules(tmp_path, space) -> None:
    fleet = make(tmp_path, DQN, [rules_of(space, "+Stop <- true"), rules_of(space, "-North <- true", "-Stop <- true")])
    assert isinstance(fleet, DqnFleet)
    fleet.learn(max_phases=40)
    done = fleet.replay.actions[:, : fleet.replay.filled].numpy()
    assert set(done[0]) == {STOP}
    assert not {NORTH, STOP} & set(done[1])
    assert len(set(done[1])) > 1
    assert fleet.guide is not None
    assert fleet.guide.guided == done.size
    assert 0 < fleet.guide.changed < done.size


def test_rules_fade_out_of_the_episodes_of_a_fleet(tmp_path, space) -> None:
    settings = replace(DQN, buffer_size=100_000, learning_starts=10**6)
    fleet = make(tmp_path, settings, [rules_of(space, "+Stop <- true")] * 2, total=8000)
    fleet.learn()
    stops = (fleet.replay.actions[:, : fleet.replay.filled] == STOP).float().reshape(2, 4, -1).mean(dim=2)
    # Chance stops in a fifth of the steps; PAC-Man that stops lives for a while, so shares jump from game to game.
    assert (stops[:, 0] > 0.5).all()
    assert (stops[:, 0] > stops[:, 2]).all()
    np.testing.assert_allclose(stops[:, 3], 0.2, atol=0.06)


def test_a_fleet_without_rules_has_other_bits_than_one_with(tmp_path, space) -> None:
    """Both begin alike, with the same seeds: what differs is what rules do."""
    fleet = make(tmp_path, DQN, [rules_of(space, "+Stop <- near.unscared < -5")] * 2, total=400)
    plain = make_fleet(FleetPlan((SMALL,), (3, 5), DQN, 400).extended_training(), zoo=tmp_path)
    ruled = make(tmp_path, DQN, [rules_of(space, "+Stop <- open.north")] * 2, total=400)
    for each in (fleet, plain, ruled):
        each.learn()
    assert torch.equal(plain.networks.parameters, ruled.networks.parameters) is False
    assert torch.equal(plain.networks.parameters, fleet.networks.parameters)


@pytest.mark.parametrize("settings", [DQN, PPO])
@pytest.mark.parametrize("margin", [None, 0.5])
def test_stopped_and_taken_up_again_with_the_same_bits(tmp_path, space, settings: Any, margin: float | None) -> None:
    rules = [rules_of(space, "+East <- open.east"), rules_of(space, "-Stop <- true")]
    whole = make(tmp_path, settings, rules, total=1200, margin=margin)
    whole.learn()
    first = make(tmp_path, settings, rules, total=1200, margin=margin)
    first.learn(max_phases=7)
    save_checkpoint(first, tmp_path / "c", full=True)
    second = make(tmp_path, settings, rules, total=1200, margin=margin)
    assert load_checkpoint(second, tmp_path / "c")
    second.learn()
    np.testing.assert_array_equal(second.policy_rows(), whole.policy_rows())
    for other in (rules[::-1], [rules[0], rules[0]]):
        with pytest.raises(FleetError, match="another training; rules differs"):
            load_checkpoint(make(tmp_path, settings, other, total=1200, margin=margin), tmp_path / "c")


@pytest.mark.parametrize("settings", [DQN, PPO])
def test_the_margin_loss_puts_rules_into_the_networks(tmp_path, space, settings: Any) -> None:
    rules = [rules_of(space, "+Stop <- true"), rules_of(space, "-North <- true")]
    allowed = torch.tensor([[a == STOP for a in range(5)], [a != NORTH for a in range(5)]])[:, None]
    losses = []
    for margin in (None, 1.0):
        more: Any = {"total": 4000, "fade": 1.0, "margin": margin, "margin_weight": 10.0}
        fleet = make(tmp_path, replace(settings, learning_rate=3e-3), rules, **more)
        fleet.learn(max_phases=80)
        rows = torch.from_numpy(np.stack([fleet.slots.observations] * 2))
        layers = fleet.networks.layers() if isinstance(fleet, DqnFleet) else fleet._actor
        losses.append(margin_loss(forward(layers, rows)[-1], allowed.expand(-1, rows.shape[1], -1), 1.0, WHOLE).mean())
    assert losses[1] < 0.1 * losses[0]


def test_ppo_draws_from_what_it_improves(tmp_path, space) -> None:
    fleet = make(tmp_path, PPO, [rules_of(space, "+Stop <- true"), rules_of(space, "-North <- true")])
    assert isinstance(fleet, PpoFleet)
    fleet.learn(max_phases=1)
    buffers = fleet._buffers
    assert (buffers.taken[0] == STOP).all()
    assert (buffers.taken[1] != NORTH).all()
    torch.testing.assert_close(buffers.log_probabilities[0], torch.zeros_like(buffers.log_probabilities[0]))
    probabilities = buffers.log_probabilities[1].exp()
    assert (probabilities > 0.15).all()  # about a quarter each of the other four


def test_half_faded_ppo_follows_rules_half_of_the_time(tmp_path, space) -> None:
    settings = replace(PPO, n_steps=512, learning_rate=0.0)
    fleet = make(tmp_path, settings, [rules_of(space, "+Stop <- true")] * 2, total=4096, fade=1.0)
    shares = []
    for _ in range(4):
        fleet.learn(max_phases=1)
        shares.append(float((fleet._buffers.taken == STOP).float().mean()))
    own = 0.2  # of a network that has learnt next to nothing
    np.testing.assert_allclose(shares, [share + (1 - share) * own for share in (1.0, 0.75, 0.5, 0.25)], atol=0.06)


def test_critics_of_ppo_begin_anew_and_learn_first(tmp_path, space) -> None:
    fleet = make(tmp_path, PPO, [rules_of(space, "-Stop <- true")] * 2, total=1000)
    first = [load_policy(tmp_path / f"PacmanSmall/ppo/{seed}.safetensors") for seed in (3, 5)]
    actors, critics = fleet.policy_rows().copy(), fleet.critic_rows().copy()
    rows = np.random.default_rng(0).normal(size=(6, 69)).astype(np.float32)
    plan = FleetPlan((SMALL,), (3, 5), PPO, 1000).training_with_rules([rules_of(space, "-Stop <- true")] * 2)
    for policy, own in zip(policies_of(fleet, plan), first, strict=True):
        np.testing.assert_array_equal(policy.scores(rows), own.scores(rows))
        assert policy.metadata["training"] == "rules"
        assert policy.metadata["rules"]["layers"] == [{"rules": "-Stop <- true", "precedence": "positive"}]
    fleet.learn(max_phases=1)  # 32 of 50 steps
    np.testing.assert_array_equal(fleet.policy_rows(), actors)
    assert (fleet.critic_rows() != critics).any()
    fleet.learn(max_phases=1)
    assert (fleet.policy_rows() != actors).any()
    names = [f"PacmanSmall/ppo/{seed}-rules.safetensors" for seed in (3, 5)]
    assert [str(member.path) for member in plan.members] == names


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("settings", "phases"), [(DQN, 20), (PPO, 4)])
@pytest.mark.parametrize("margin", [None, 0.5])
def test_a_gpu_does_the_same_with_rules(tmp_path, space, settings: Any, phases: int, margin: float | None) -> None:
    rules = [rules_of(space, "+East <- open.east"), rules_of(space, "-Stop <- true", "-North <- true")]
    own = make(tmp_path, settings, rules, total=1200, margin=margin)
    plan = FleetPlan((SMALL,), (3, 5), settings, 1200).training_with_rules(rules, RuleSettings(margin=margin))
    other = make_fleet(plan, device="cuda", zoo=tmp_path)
    for each in (own, other):
        each.learn(max_phases=phases)  # learning has begun
    begun = make(tmp_path, settings, rules, total=1200, margin=margin).policy_rows()
    assert (own.policy_rows() != begun).any()
    np.testing.assert_allclose(other.policy_rows(), own.policy_rows(), atol=1e-4)
    assert other.steps == own.steps


def test_rules_that_do_not_fit_are_refused(tmp_path, space, raises_saved) -> None:
    with raises_saved(FleetError):
        make(tmp_path, DQN, [rules_of(space, "-Stop <- true")])
    from legible.features import FeatureSpace

    other = FeatureSpace.of(["x"], ["A", "B"])
    with raises_saved(FleetError):
        make(tmp_path, DQN, [rules_of(other, "+A <- x > 0")] * 2)
    wide = replace(DQN, hidden=(16, 9))
    with raises_saved(FleetError):
        make_fleet(FleetPlan((SMALL,), (3, 5), wide, 240).extended_training(), zoo=tmp_path)


def test_programs_of_the_repository_train_with_rules(tmp_path, space, monkeypatch, capsys) -> None:
    from lab.experiments import rule_training, train_zoo
    from legible.guidance import GuidedPolicy

    monkeypatch.setattr(train_zoo, "_FINISH_SECONDS", 0.0)
    plan = FleetPlan((SMALL,), (3, 5), PPO, 64)
    base = make_fleet(plan)
    base.learn()
    save_to_zoo(base, plan, tmp_path / "zoo", n_episodes=2)
    (tmp_path / "studies" / "PacmanSmall-ppo-3").mkdir(parents=True)
    rules = [parse_rule("-Stop <- true", space)]
    policy = load_policy(tmp_path / "zoo" / "PacmanSmall" / "ppo" / "3.safetensors")
    guided = tmp_path / "studies" / "PacmanSmall-ppo-3" / "guided.safetensors"
    GuidedPolicy(policy, rules, space).save(guided)
    monkeypatch.setitem(train_zoo.GROUPS, "small-medium-ppo", plan)
    words = ["--group", "small-medium-ppo", "--rules", str(tmp_path / "studies"), "--zoo", str(tmp_path / "zoo")]
    assert train_zoo.main([*words, "--episodes", "2"]) == 0
    printed = capsys.readouterr().out
    assert "PacmanSmall-ppo-5: no guided policy" in printed
    assert "small-medium-ppo-rules: " in printed
    assert load_policy(tmp_path / "zoo" / "PacmanSmall" / "ppo" / "3-rules.safetensors").metadata["training"] == "rules"

    monkeypatch.setenv("LEGIBLE_ZOO", str(tmp_path / "zoo"))
    monkeypatch.setattr(rule_training, "preset", lambda *_: type("P", (), {"settings": PPO, "reward_scale": 1.0}))
    short = f"--policy PacmanSmall/ppo/3 --rules {guided} --steps 64 --seeds 2 --episodes 2".split()
    assert rule_training.main([*short, "--margin", "1:0.5"]) == 0
    printed = capsys.readouterr().out
    for name in ("extended, 64 steps: ", "rules, 64 steps: ", "rules, margin 1, weight 0.5, 64 steps: "):
        assert name in printed


def test_margin_gradient_is_that_of_the_loss() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((50, 5), generator=generator, requires_grad=True)
    free = torch.rand((50, 5), generator=generator) < 0.6
    free[:, 0] |= ~free.any(dim=1)
    margin_loss(scores, free, 0.7, (0, 5)).sum().backward()
    torch.testing.assert_close(scores.grad, margin_gradient(scores.detach(), free, 0.7))
    # Nothing is 3 ahead: 1 + 3 and 3 + 3 against 2; no rule; A is 2 ahead of B, less than 3.
    scores = torch.tensor([[1.0, 3.0, 2.0], [1.0, 3.0, 2.0], [1.0, 3.0, 2.0], [5.0, 3.0, 2.0]])
    free = torch.tensor([[False, False, True], [True, False, True], [True, True, True], [True, False, False]])
    assert margin_gradient(scores, free, 3.0).tolist() == [[0, 1, -1], [0, 1, -1], [0, 0, 0], [-1, 1, 0]]
