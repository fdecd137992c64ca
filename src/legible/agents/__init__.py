"""Games of several agents (PettingZoo): seats, and the policies that play the other seats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.agents.games import Game, make_game, possible_seats
    from legible.agents.names import names_of_seats, result_of_seat
    from legible.agents.players import PolicyPlayer, RandomPlayer, make_player, split_mask
    from legible.agents.seats import SeatEnv, describe_seats, make_seat_env, matching_seats, players_of

__all__, __getattr__, __dir__ = lazy_exports(__name__)
