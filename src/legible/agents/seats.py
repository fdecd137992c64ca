"""One seat of a game, or several that share a policy, as a Gymnasium environment.

- `SeatEnv`: the environment; `make_seat_env`: makes one from a name and arguments.
- `describe_seats`: who plays which seat, and whose rewards count; `matching_seats`, `players_of`: seats and players by
  pattern.

A step is one turn of a seat that is studied; the other seats are played by fixed players until the next such turn. The
observation is that of the seat to move, without its action mask, which is the method ``action_masks``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from legible.agents.games import Game, make_game, possible_seats
from legible.agents.names import names_of_seats, result_of_seat
from legible.agents.players import RANDOM, Player, PolicyPlayer, make_player, shown_space, split_mask
from legible.environments import EnvironmentSpec, UnfitEnvironmentError, choice_sizes
from legible.errors import did_you_mean
from legible.formatting import join_words
from legible.streams import GOLDEN, key_of_seed, mix

ALL, ANY = "all", "any"
SUM, MEAN = "sum", "mean"


class SeatEnv(gymnasium.Env[Any, Any]):
    """Seats of a game as a Gymnasium environment.

    - `game`: the game, in AEC form.
    - `seats`: the seats that are studied. Several share the policy: a step is then the turn of one of them.
    - `players`: a player for each other seat. Where a seat is drawn, a player for every seat.
    - `weights`: the return is the sum of the rewards of these seats, times their weights; by default of the seats that
      are studied.
    - `drawn`: whether each episode draws one of the seats; the others are then played by their players.
    """

    def __init__(
        self,
        game: Game,
        seats: Sequence[str],
        players: Mapping[str, Player],
        weights: Mapping[str, float] | None = None,
        *,
        drawn: bool = False,
    ) -> None:
        self.game, self.players = game, dict(players)
        self.seats, self._drawn = tuple(seats), drawn
        self._order = possible_seats(game)
        self._given_weights = None if weights is None else dict(weights)
        self.render_mode = getattr(game, "render_mode", None)
        self.metadata = dict(getattr(game, "metadata", {}))
        self._spaces = {seat: game.observation_space(seat) for seat in self._order}
        self.observation_space, is_masked = shown_space(self._spaces[self.seats[0]])
        self.action_space = game.action_space(self.seats[0])
        if is_masked:
            self.action_masks = self._action_masks
        names = names_of_seats(game, self.seats)
        if names is not None:
            self.feature_space = names
        # Of the present episode: the seats that the policy plays, the weights of rewards, the rewards before its first
        # turn, observation and mask to show, whether each finished seat was terminated, and whether all are finished.
        self._active: frozenset[str] = frozenset(self.seats)
        self._weights: Mapping[str, float] = {}
        self._carried: dict[str, float] = {}
        self._shown: tuple[Any, NDArray[np.bool_] | None] = None, None
        self._info: dict[str, Any] = {}
        self._ended: list[bool] = []
        self._over = True

    def _action_masks(self) -> NDArray[np.bool_]:
        """Return the allowed actions of the seat to move, as in sb3-contrib."""
        mask = self._shown[1]
        return np.ones(sum(choice_sizes(self.action_space)), np.bool_) if mask is None else mask

    @property
    def seat(self) -> str:
        """The seat to move."""
        return str(self.game.agent_selection)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode and play until a seat that is studied has to move."""
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        # A random number for each seat, which seeds its player, and a last one, which draws the seat that is studied.
        key = key_of_seed(np.uint64(seed))
        with np.errstate(over="ignore"):
            *player_seeds, draw = (int(mix(key + np.uint64(i + 1) * GOLDEN)) for i in range(len(self._order) + 1))
        self._active = frozenset((self.seats[draw % len(self.seats)],) if self._drawn else self.seats)
        self._weights = dict.fromkeys(self._active, 1.0) if self._given_weights is None else self._given_weights
        for seat, player_seed in zip(self._order, player_seeds, strict=True):
            if seat in self.players:
                self.players[seat].start(player_seed)
        self.game.reset(seed=seed, options=options)
        self._ended, self._over = [], False
        self._carried = self._play_on()
        return self._shown[0], self._info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take the turn of a seat that is studied, and play until the next one."""
        earned, self._carried = self._carried, {}
        if not self._over:
            self.game.step(action)
            # What a seat got before its first turn is paid with its first step.
            for seat, reward in self._play_on().items():
                earned[seat] = earned.get(seat, 0.0) + reward
        total = sum(earned.values()) if earned else 0.0
        info = dict(self._info)
        if len(self._weights) > 1:
            info |= {f"reward of {seat}": earned.get(seat, 0.0) for seat in self._weights}
        terminated = self._over and self._ended[-1]
        return self._shown[0], float(total), terminated, self._over and not terminated, info

    def _play_on(self) -> dict[str, float]:
        """Play until a seat that is studied has to move, or until none is left; return the weighted rewards."""
        game, earned = self.game, dict[str, float]()
        while game.agents:
            seat = str(game.agent_selection)
            observation, reward, terminated, truncated, info = game.last()
            if seat in self._weights and reward:
                earned[seat] = earned.get(seat, 0.0) + self._weights[seat] * float(reward)
            is_over = terminated or truncated
            if seat in self._active:
                shown, mask = split_mask(self._spaces[seat], observation, info)
                self._info = {**info, "seat": seat}
                # A finished seat has no more actions: its mask stays as it was.
                self._shown = shown, (self._shown[1] if is_over else mask)
                if not is_over:
                    return earned
                self._ended.append(bool(terminated))
                # The reward of a single seat that ends can say whether it has won.
                result = result_of_seat(game, float(reward)) if terminated and len(self._active) == 1 else None
                if result is not None:
                    self._info["ending"] = result
            # Finished seats take the action None, as PettingZoo demands; the others are played by their players.
            player = None if is_over else self.players.get(seat)
            game.step(None if player is None else player.act(*split_mask(self._spaces[seat], observation, info)))
            remaining = set(map(str, game.agents))
            if not remaining & self._active and not remaining & set(self._weights):
                break  # only seats are left that the policy does not play and whose rewards do not count
        self._over = True
        if not self._ended:  # the game removed the seats without a last turn
            self._ended.append(True)
        return earned

    def render(self) -> Any:
        """Draw the game."""
        return self.game.render()

    def close(self) -> None:
        """Close the game."""
        self.game.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> SeatEnv:
        # The copy shares the networks of other seats: they do not change.
        for player in self.players.values():
            if isinstance(player, PolicyPlayer):
                memo[id(player.policy)] = player.policy
        # This environment, the game, and the games inside its wrappers are copied attribute by attribute: their own
        # copies (EzPickle) would start a new episode.
        layers: list[Any] = [self]
        while layers[-1] is not None:
            attributes = vars(layers[-1])
            layers.append(next((attributes[name] for name in ("game", "env", "aec_env") if name in attributes), None))
        layers.pop()
        for layer in layers:
            memo[id(layer)] = object.__new__(type(layer))
            for value in vars(layer).values():  # surfaces of pygame cannot be copied
                if type(value).__module__.partition(".")[0] == "pygame":
                    memo[id(value)] = value
        for layer in layers:
            copied: Any = memo[id(layer)]
            copied.__dict__.update({name: copy.deepcopy(value, memo) for name, value in vars(layer).items()})
        own_copy: SeatEnv = memo[id(self)]
        return own_copy


def make_seat_env(
    name: str,
    *,
    seat: str | None = None,
    others: Any = None,
    others_stochastic: bool = False,
    reward: str = SUM,
    **arguments: Any,
) -> SeatEnv:
    """Make seats of a PettingZoo game as a Gymnasium environment.

    Parameters
    ----------
    name
        A module, such as ``mpe2.simple_tag_v3``, or ``module:factory``.
    seat
        The seat that is studied. Several share the policy: names with commas, a pattern such as ``adversary_*``, or
        ``all``. With ``any``, each episode draws one seat, and all others are played by `others`.
    others
        Who plays the other seats: ``random``, a policy or its path, or a dictionary of them by seat or pattern.
    others_stochastic
        Whether the policies of other seats sample their actions.
    reward
        The return of several seats: ``sum`` or ``mean`` of theirs. ``-SEAT`` stands for minus the reward of other
        seats, a name or a pattern: what hurts them.
    arguments
        Arguments of the game.
    """
    game = make_game(name, arguments)
    order = possible_seats(game)
    listed = f"pettingzoo:{name} has the seats {', '.join(order)}"  # the start of error messages
    if seat is None:
        raise UnfitEnvironmentError(f"{listed}; choose one for the policy (--seat {order[0]}).")
    drawn = seat == ANY
    seats = order if seat in {ALL, ANY} else matching_seats(seat, order, listed, "--seat")
    _check_same_spaces(game, seats)
    played = order if drawn else [each for each in order if each not in seats]
    players = _make_players(game, played, others, listed, deterministic=not others_stochastic)
    return SeatEnv(game, seats, players, _weights_of(reward, seats, order, listed, drawn=drawn), drawn=drawn)


def _weights_of(
    reward: str, seats: Sequence[str], order: Sequence[str], listed: str, *, drawn: bool
) -> dict[str, float] | None:
    if reward.startswith("-"):
        return dict.fromkeys(matching_seats(reward[1:], order, listed, "reward"), -1.0)
    if reward not in {SUM, MEAN}:
        raise UnfitEnvironmentError(f"reward {reward!r}: write sum, mean or -SEAT.")
    return None if drawn else dict.fromkeys(seats, 1.0 / len(seats) if reward == MEAN else 1.0)


def matching_seats(pattern: str, order: Sequence[str], listed: str, what: str) -> list[str]:
    """Return the seats that a pattern means, in the order of the game."""
    parts = [part.strip() for part in pattern.split(",")]
    for part in parts:
        if not any(fnmatchcase(seat, part) for seat in order):
            raise UnfitEnvironmentError(f"{what} {part!r}: {listed}.{did_you_mean(part, order)}")
    return [seat for seat in order if any(fnmatchcase(seat, part) for part in parts)]


def _check_same_spaces(game: Game, seats: Sequence[str]) -> None:
    for seat in seats[1:]:
        for what in ("observation_space", "action_space"):
            first_space, space = (getattr(game, what)(each) for each in (seats[0], seat))
            if first_space != space:
                raise UnfitEnvironmentError(
                    f"the seats {seats[0]} and {seat} cannot share a policy, because their {what.replace('_', ' ')}s "
                    f"differ: {first_space} and {space}. Choose seats with equal spaces "
                    "(--seat 'NAME_*'). Or write a function that returns the game with equal spaces, for example "
                    "padded by supersuit, and name it as the environment: pettingzoo:MODULE:FUNCTION."
                )


def _make_players(
    game: Game, seats: Sequence[str], others: Any, listed: str, *, deterministic: bool
) -> dict[str, Player]:
    for pattern in others if isinstance(others, Mapping) else ():
        if pattern != "*":
            matching_seats(pattern, possible_seats(game), listed, "--others")
    players = {}
    for seat, source in players_of(others, seats).items():
        if source is None:
            raise UnfitEnvironmentError(
                f"say who plays {seat}: --others random, --others POLICY or --others {seat}=POLICY. {listed}."
            )
        players[seat] = make_player(
            source, seat, game.observation_space(seat), game.action_space(seat), deterministic=deterministic
        )
    return players


def players_of(others: Any, seats: Sequence[str]) -> dict[str, Any]:
    """Return the player of each seat in the argument `others` of a game; None where it names none.

    >>> players_of({"good_*": "fast.zip", "good_1": "slow.zip", "*": "random"}, ["good_0", "good_1", "bad_0"])
    {'good_0': 'fast.zip', 'good_1': 'slow.zip', 'bad_0': 'random'}
    """
    given = dict(others) if isinstance(others, Mapping) else {"*": others}
    # An exact name counts before a pattern, and a pattern before "*".
    return {
        seat: next((given[p] for p in sorted(given, key=lambda p: (p != seat, p == "*")) if fnmatchcase(seat, p)), None)
        for seat in seats
    }


def describe_seats(environment: EnvironmentSpec) -> str:
    """Return who plays which seat, and whose rewards count; "" for an environment of one agent."""
    if not environment.name.startswith("pettingzoo:"):
        return ""
    env = environment.make()
    game, arguments = env.unwrapped, environment.arguments
    env.close()
    assert isinstance(game, SeatEnv)
    order, seats, reward = possible_seats(game.game), game.seats, str(arguments.get("reward", SUM))
    drawn = arguments["seat"] == ANY  # each episode draws the seat of the policy
    seats_by_player: dict[str, list[str]] = {}
    for seat, source in players_of(arguments.get("others"), [s for s in order if s in game.players]).items():
        file = source.get("policy") if isinstance(source, Mapping) else source
        policy_name = Path(file).name if isinstance(file, str | Path) else "a policy"
        seats_by_player.setdefault("random play" if source == RANDOM else policy_name, []).append(seat)
    if drawn:
        sentence = f"In each episode, the policy plays one of the seats {join_words(order, 'or')}, which is drawn"
    else:
        sentence = f"The policy plays {join_words(seats)}"
        sentence += " (each step is the turn of one of them)" if len(seats) > 1 else ""
    for player, played in seats_by_player.items():
        plays_all_others = drawn and len(seats_by_player) == 1
        sentence += f"; {player} plays {'the others' if plays_all_others else join_words(played)}"
    if reward.startswith("-"):
        returns = f"minus the rewards of {join_words(matching_seats(reward[1:], order, '', 'reward'))}"
    elif drawn or len(seats) == 1:
        returns = f"the rewards of {'that seat' if drawn else seats[0]}"
    else:
        returns = f"the {reward} of their rewards"
    return f"{sentence}. Returns are {returns}."
