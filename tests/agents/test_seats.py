"""Seats of PettingZoo games as Gymnasium environments: returns, order, masks, early ends, seeds, errors."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, parallel_api_test
from pettingzoo.test.seed_test import parallel_seed_test, seed_test

from legible.agents.games import make_game
from legible.agents.players import RandomPlayer, make_player, split_mask
from legible.agents.seats import SeatEnv, describe_seats
from legible.environments import EnvironmentSpec, UnfitEnvironmentError, find_masks, map_features
from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.guidance import GuidedPolicy
from legible.play import PolicyChooser, make_slots, play_episodes
from legible.policies import NetworkPolicy, Plain, load_policy, save_policy
from legible.policies.network import Layer
from legible.rules import parse_rule
from small_games import Cliff, Ring, Throws, bank

TAG, SPREAD = "pettingzoo:mpe2.simple_tag_v3", "pettingzoo:mpe2.simple_spread_v3"
TICTACTOE = "pettingzoo:pettingzoo.classic.tictactoe_v3"
CONNECT_FOUR = "pettingzoo:pettingzoo.classic.connect_four_v3"
FIXTURES = Path(__file__).parent.parent / "policies" / "fixtures"
CLIFF, BANK, THROWS = (f"pettingzoo:small_games:{name}" for name in ("cliff", "bank", "throws"))


def seat_env(name: str, seat: str, others: Any = "random", **more: Any) -> SeatEnv:
    return EnvironmentSpec(name, {"seat": seat, "others": others, **more}).make().unwrapped  # type: ignore[return-value]


def first_allowed(mask: Any, choices: int, turn: int) -> int:
    """A policy that changes with the turn."""
    allowed = np.arange(choices) if mask is None else np.flatnonzero(mask)
    return int(allowed[(3 * turn + 1) % len(allowed)])


def play_seat(env: SeatEnv, seed: int) -> tuple[float, int, bool]:
    """Return, length and termination of an episode of a seat."""
    _, _ = env.reset(seed=seed)
    total, turn, over, terminated = 0.0, 0, False, False
    while not over:
        mask = env.action_masks() if hasattr(env, "action_masks") else None
        _, reward, terminated, truncated, _ = env.step(first_allowed(mask, env.action_space.n, turn))
        total, turn, over = total + reward, turn + 1, terminated or truncated
    return total, turn, terminated


def play_plainly(name: str, seat: str, seed: int, players: Any, starts: Any) -> tuple[float, int]:
    """The same with PettingZoo alone, as its documentation does it."""
    game = make_game(name.removeprefix("pettingzoo:"), {})
    for each, of_seat in starts.items():
        players[each].start(of_seat)
    game.reset(seed=seed)
    total, turn = 0.0, 0
    for agent in game.agent_iter():
        observation, reward, terminated, truncated, info = game.last()
        if agent == seat:
            total += reward
        if terminated or truncated:
            game.step(None)
            continue
        shown, mask = split_mask(game.observation_space(agent), observation, info)
        if agent == seat:
            game.step(first_allowed(mask, game.action_space(agent).n, turn))
            turn += 1
        else:
            game.step(players[agent].act(shown, mask))
    return total, turn


@pytest.mark.parametrize(
    ("name", "seat"),
    [
        (TAG, "adversary_1"),
        (SPREAD, "agent_2"),
        (TICTACTOE, "player_2"),
        (CONNECT_FOUR, "player_1"),
        (CLIFF, "walker_1"),
        (BANK, "player_0"),
        (BANK, "player_2"),
    ],
)
def test_returns_equal_those_of_a_plain_loop(name: str, seat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = seat_env(name, seat)
    starts: dict[str, int] = {}

    def keep(each: str, player: Any) -> None:
        monkeypatch.setattr(player, "start", lambda of_seat: (starts.update({each: of_seat}), real(player, of_seat)))

    real = RandomPlayer.start
    for each, player in env.players.items():
        keep(each, player)
    for seed in range(6):
        total, turns, _ = play_seat(env, seed)
        players = {each: RandomPlayer(env.game.action_space(each)) for each in env.players}
        assert play_plainly(name, seat, seed, players, starts) == (total, turns)


def test_the_games_of_these_tests_follow_pettingzoos_api(capsys: pytest.CaptureFixture[str]) -> None:
    api_test(bank(), num_cycles=200)
    parallel_api_test(Cliff(), num_cycles=200)
    seed_test(bank, num_cycles=50)
    parallel_seed_test(Cliff, num_cycles=50)
    for game in (Ring, Throws):
        parallel_api_test(game(), num_cycles=100)
    assert "Passed" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "seat"), [(CLIFF, "walker_0"), (TAG, "agent_0"), (CLIFF, "all"), (THROWS, "any")])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_seats_follow_gymnasiums_api(name: str, seat: str) -> None:
    check_env(seat_env(name, seat), skip_render_check=True)


@pytest.mark.parametrize("name", [CLIFF, BANK, TICTACTOE])
def test_the_same_seed_gives_the_same_episode_in_any_order(name: str) -> None:
    one, other = seat_env(name, "any"), seat_env(name, "any")
    expected = [play_seat(one, seed) for seed in range(12)]
    assert [play_seat(other, seed) for seed in reversed(range(12))] == expected[::-1]
    assert len(set(expected)) > 2


def test_any_draws_every_seat() -> None:
    env = seat_env(BANK, "any")
    drawn = {env.reset(seed=seed)[1]["seat"] for seed in range(30)}
    assert drawn == {"player_0", "player_1", "player_2"}


def test_an_agent_that_ends_early_ends_its_episode_while_others_play_on() -> None:
    env = seat_env(CLIFF, "walker_0")
    env.reset(seed=0)
    terminated, steps = False, 0
    while not terminated:
        _, reward, terminated, truncated, _ = env.step(1)
        assert not truncated
        steps += 1
    assert reward == -5.0
    assert steps < 12
    assert "walker_0" not in env.game.agents


def test_others_that_end_early_do_not_end_the_episode() -> None:
    env = seat_env(CLIFF, "walker_0")
    counts = [0, 0]
    for seed in range(10):
        env.reset(seed=seed)
        for _ in range(12):
            *_, terminated, truncated, _ = env.step(0)
        assert truncated
        assert not terminated
        counts["walker_1" in env.game.terminations] += 1
    assert counts[0] > 0


def test_masks_hold_in_every_seat() -> None:
    env = seat_env(BANK, "player_1")
    assert env.observation_space == spaces.Box(0.0, 4.0, (2,), np.float32)
    reader = find_masks(env)
    assert reader is not None
    assert reader.source == "method"
    for seed in range(20):  # a third push in a row fails an assertion of the game
        play_seat(env, seed)


def test_a_shared_policy_earns_the_rewards_of_all_seats() -> None:
    env, mean = seat_env(CLIFF, "all", None), seat_env(CLIFF, "all", None, reward="mean")
    for seed in range(5):
        game = make_game("small_games:cliff", {})
        game.reset(seed=seed)
        total, turn = 0.0, 0
        for _ in game.agent_iter():
            _, reward, terminated, truncated, _ = game.last()
            total += reward
            if terminated or truncated:
                game.step(None)
                continue
            game.step(first_allowed(None, 2, turn))
            turn += 1
        assert play_seat(env, seed)[:2] == (total, turn)
        assert play_seat(mean, seed)[0] == pytest.approx(total / 3)


def test_reward_terms_of_a_shared_policy_are_the_seats() -> None:
    slots = make_slots(EnvironmentSpec(CLIFF, {"seat": "all"}), 4)
    walks = constant_policy(1)
    played = play_episodes(slots, PolicyChooser(walks, [1, 2, 3]), [1, 2, 3])
    names = [f"reward of walker_{i}" for i in range(3)]
    assert sorted(played.terms.dtype.names) == names
    assert np.allclose(sum(played.terms[name] for name in names), played.returns)
    slots.close()


def test_what_hurts_another_seat_is_a_reward() -> None:
    env, own = seat_env(THROWS, "left", reward="-right"), seat_env(THROWS, "left")
    assert [play_seat(env, seed) for seed in range(5)] == [play_seat(own, seed) for seed in range(5)]
    hurting = seat_env(CLIFF, "walker_0,walker_1", reward="-walker_2")
    returns = [play_seat(hurting, seed)[0] for seed in range(20)]
    assert min(returns) < 0.0 < max(returns)  # it goes on until the other seat has ended, too


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (BANK, {"seat": "player_1", "others": "random"}),
        (CLIFF, {"seat": "walker_0,walker_2", "others": "random", "reward": "mean"}),
        (CLIFF, {"seat": "walker_0", "others": "random", "reward": "-walker_2"}),
        (THROWS, {"seat": "any", "others": "random"}),
        ("CartPole-v1", {}),
    ],
)
def test_who_plays_which_seat_is_said(name: str, arguments: dict[str, Any], snapshot: Any) -> None:
    assert describe_seats(EnvironmentSpec(name, arguments)) == snapshot


def constant_policy(action: int, features: int = 2, actions: int = 2) -> NetworkPolicy:
    bias = np.zeros(actions, np.float32)
    bias[action] = 1.0
    return NetworkPolicy((Layer(np.zeros((actions, features), np.float32), bias),), "values", Plain(features))


def test_others_follow_policies_by_seat(tmp_path: Path) -> None:
    walks, waits = tmp_path / "walks.safetensors", tmp_path / "waits.safetensors"
    save_policy(constant_policy(1), walks)
    save_policy(constant_policy(0), waits)
    env = seat_env(CLIFF, "walker_0", {"walker_1": str(waits), "*": str(walks)})
    for seed in range(10):
        env.reset(seed=seed)
        game = env.game.unwrapped
        before = dict(game.left)
        env.step(0)
        assert game.left["walker_0"] == before["walker_0"]
        assert game.left["walker_1"] == before["walker_1"]
        assert game.left["walker_2"] != before["walker_2"]


@pytest.mark.parametrize("sees_masks", [False, True])
def test_a_guided_policy_plays_a_seat_within_its_mask(tmp_path: Path, sees_masks: bool) -> None:
    space = FeatureSpace.of(["risk", "left"], ["pass", "push"])
    policy = constant_policy(0)
    # Studies of games with masks make guided policies that read rows with the mask.
    features = map_features(seat_env(BANK, "player_0")).with_space(space) if sees_masks else None
    guided = GuidedPolicy(policy, [parse_rule("+push <- risk < 9", space)], space, features=features)
    path = tmp_path / "guided.safetensors"
    guided.save(path)
    env = seat_env(BANK, "player_0", {"*": str(path)})
    env.reset(seed=3)
    seen = []
    for _ in range(4):  # the mask forbids a third push in a row
        env.step(0)
        seen.append(env.game.unwrapped.pushes["player_1"])
    assert seen[:3] == [1, 2, 0]


def test_modules_of_an_rllib_checkpoint_play_seats() -> None:
    module = FIXTURES / "rllib" / "ppo" / "learner_group" / "learner" / "rl_module" / "default_policy"
    policy: Any = load_policy(module)
    space = spaces.Box(-np.inf, np.inf, (policy.n_features,), np.float32)
    player = make_player(str(module), "good_0", space, spaces.Discrete(policy.n_actions))
    player.start(1)
    rows = np.random.default_rng(0).normal(size=(20, policy.n_features)).astype(np.float32)
    assert [int(player.act(row, None)) for row in rows] == [int(policy.predict(row)[0]) for row in rows]


def test_sampled_others_depend_on_the_seed_alone() -> None:
    space = spaces.MultiDiscrete([4, 4])
    even = NetworkPolicy((Layer(np.zeros((3, 2), np.float32), np.zeros(3, np.float32)),), "log-probabilities", Plain(2))
    player = make_player(even, "left", space, spaces.Discrete(3), deterministic=False)

    def throws(seed: int) -> list[int]:
        player.start(seed)
        return [int(player.act(np.array([3, 3]), None)) for _ in range(30)]

    assert throws(1) == throws(1)
    assert throws(1) != throws(2)
    assert set(throws(1)) == {0, 1, 2}


def test_a_copy_of_a_game_goes_on_alike() -> None:
    for name, seat in ((TAG, "agent_0"), (BANK, "player_1"), (CONNECT_FOUR, "player_0")):
        env = seat_env(name, seat)
        env.reset(seed=5)
        env.step(0)
        copied = copy.deepcopy(env)
        assert [env.step(0)[1] for _ in range(2)] == [copied.step(0)[1] for _ in range(2)]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        (TAG, {}, "has the seats adversary_0, adversary_1, adversary_2, agent_0"),
        (TAG, {"seat": "adversery_0", "others": "random"}, "Did you mean 'adversary_0'"),
        (TAG, {"seat": "adversary_0"}, "say who plays adversary_1"),
        (TAG, {"seat": "all"}, "cannot share a policy"),
        (TAG, {"seat": "agent_0", "others": {"advers": "random"}}, "--others 'advers'"),
        (TAG, {"seat": "adversary_*", "others": "random", "reward": "most"}, "reward 'most'"),
        ("CartPole-v1", {"seat": "agent_0"}, "--others and --against are for games of several agents"),
        ("mpe2.simple_tag_v3", {"seat": "agent_0"}, "are named pettingzoo:MODULE"),
        ("pettingzoo:mpe2.simple_tug_v3", {"seat": "agent_0"}, "there is no module"),
        ("pettingzoo:small_games:clif", {"seat": "agent_0"}, "has no factory 'clif'"),
        ("pettingzoo:small_games:Box", {"seat": "agent_0"}, "Box"),
    ],
)
def test_errors_say_what_to_do(name: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(LegibleError) as caught:
        EnvironmentSpec(name, arguments).make()
    assert words in str(caught.value)


def test_a_policy_that_does_not_fit_a_seat_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "narrow.safetensors"
    save_policy(constant_policy(1, features=3), path)
    with pytest.raises(UnfitEnvironmentError, match="cannot play the seat 'walker_1'"):
        seat_env(CLIFF, "walker_0", str(path))


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in {"pettingzoo", "mpe2"}]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(LegibleError, match="legible-rl\\[agents\\]"):
        make_game("pettingzoo.classic.tictactoe_v3", {})


def test_a_missing_package_of_a_game_names_the_part_of_pettingzoo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chess", None)
    with pytest.raises(LegibleError, match="needs 'chess': pip install 'pettingzoo\\[classic\\]'"):
        make_game("pettingzoo.classic.chess_v6", {})


def test_files_may_name_known_games_but_no_other_code() -> None:
    assert not EnvironmentSpec(TAG, {"seat": "adversary_0", "others": {"agent_0": "random"}}).named_code
    assert EnvironmentSpec(CLIFF, {"seat": "walker_0"}).named_code == (CLIFF,)
    assert "small_games:bank" in EnvironmentSpec(TAG, {"others": {"agent_0": "small_games:bank"}}).named_code
