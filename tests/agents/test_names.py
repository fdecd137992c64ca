"""Names of the features of known games: each names the number that it should."""

from __future__ import annotations

from typing import Any

import numpy as np

from legible.agents import names_of_seats
from legible.environments import EnvironmentSpec, feature_space_of


def made(name: str, seat: str) -> Any:
    return EnvironmentSpec(f"pettingzoo:{name}", {"seat": seat, "others": "random"}).make()


def test_squares_of_tictactoe_are_named() -> None:
    env = made("pettingzoo.classic.tictactoe_v3", "all")
    names = feature_space_of(env)
    env.reset(seed=0)
    assert names.action_names[3] == "square.0.1"  # PettingZoo counts and draws squares column by column
    board, *_ = env.step(names.action_names.index("square.0.2"))  # the next seat to move sees it as theirs
    assert [names.names[i] for i in np.flatnonzero(np.ravel(board))] == ["theirs.0.2"]
    board, *_ = env.step(names.action_names.index("square.2.1"))
    assert sorted(names.names[i] for i in np.flatnonzero(np.ravel(board))) == ["mine.0.2", "theirs.2.1"]


def test_results_of_board_games_are_named() -> None:
    results = {}
    for seed in range(12):
        env = made("pettingzoo.classic.tictactoe_v3", "player_1")
        env.reset(seed=seed)
        over = False
        while not over:
            free = np.flatnonzero(env.unwrapped.action_masks())
            _, reward, over, _, info = env.step(int(free[0]))
        results[reward] = info["ending"]
    assert results[1.0] == "success: it wins"
    assert results[-1.0] == "failure: it loses"
    assert results.get(0.0, "other: the game ends in a draw") == "other: the game ends in a draw"


def test_columns_of_connect_four_are_named() -> None:
    env = made("pettingzoo.classic.connect_four_v3", "all")
    names = feature_space_of(env)
    env.reset(seed=0)
    board, *_ = env.step(names.action_names.index("column.4"))
    assert [names.names[i] for i in np.flatnonzero(np.ravel(board))] == ["theirs.5.4"]


def test_particles_are_named() -> None:
    env = made("mpe2.simple_tag_v3", "adversary_1")
    names = feature_space_of(env).names
    seen, _ = env.reset(seed=4)
    world = env.unwrapped.game.unwrapped.world
    where = {agent.name: agent.state.p_pos for agent in world.agents}
    values = dict(zip(names, seen.tolist(), strict=True))
    assert np.allclose([values["position.x"], values["position.y"]], where["adversary_1"])
    apart = where["agent_0"] - where["adversary_1"]
    assert np.allclose([values["agent_0.x"], values["agent_0.y"]], apart)
    before = values["position.x"]
    for _ in range(3):
        seen, *_ = env.step(feature_space_of(env).action_names.index("right"))
    assert seen[names.index("position.x")] > before
    shared = made("mpe2.simple_tag_v3", "adversary_*").unwrapped
    assert {"other_0.x", "agent_0.velocity.x"} < set(feature_space_of(shared).names)
    spread = names_of_seats(made("mpe2.simple_spread_v3", "agent_0").unwrapped.game, ["agent_0"])
    assert spread is not None
    assert spread.names[-2:] == ("agent_2.message.x", "agent_2.message.y")


def test_games_name_their_features_themselves() -> None:
    assert feature_space_of(made("small_games:cliff", "walker_0")).names == ("distance", "wind")
    assert feature_space_of(made("pettingzoo.classic.rps_v2", "player_0")).action_names[2] == "Scissors"
    assert names_of_seats(made("mpe2.simple_v3", "agent_0").unwrapped.game, ["agent_0"]) is None
