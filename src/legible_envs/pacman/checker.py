"""PAC-Man: the state itself is turned or mirrored, together with its maze, and both are compared exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.features import FeatureSpace, Observations
from legible.formatting import percent
from legible.relations.check.answers import (
    AFTER_STEP,
    AGREES,
    FEWEST_STATES,
    IN_IMAGE,
    OTHER,
    CheckInputs,
    CheckVerdict,
    Flags,
    RelationCheck,
    StateComparison,
    exact_answer,
    expected_observations,
    inconclusive_check,
    known_features,
)
from legible.relations.relation import MetamorphicRelation, map_states
from legible_envs.pacman import PacmanEnv
from legible_envs.pacman.games import Games
from legible_envs.pacman.symmetry import (
    Round,
    Symmetry,
    carry,
    every_symmetry,
    fork,
    ghost_columns,
    path_columns,
    play_matched,
    sample_games,
    tied_steps,
)

TIE = "ties between shortest paths"
SNAP = "half-cell snaps"
HOME = "ghosts that return to their own start"
ORDER = "a round that ends before all ghosts have moved"
_ROUNDING = 1e-6


class PacmanChecker:
    """Turns and mirrors the state itself, together with the maze."""

    method = "exact: the state turned or mirrored with its maze"

    def __init__(self, inputs: CheckInputs, env: PacmanEnv) -> None:
        self.inputs, self.settings = inputs, env.settings
        inputs.report(0.0, "playing")
        seed = inputs.seed + inputs.first
        self.games = sample_games(env.settings, inputs.episodes or 128, inputs.states, seed)
        self.n_ghosts = len(self.games.maze.ghosts)
        self._images: dict[Symmetry, Games] = {}

    def check(self, relation: MetamorphicRelation, group: Sequence[MetamorphicRelation]) -> RelationCheck:
        """Return whether a relation holds, from states of play and their images.

        A relation is a claimed symmetry of the game, given by how features and one action are mapped. `group` are all
        relations of the same symmetry, one per action, which help to find out what the symmetry is.
        """
        space = self.inputs.space
        _, has_image = map_states(relation, self.games.observations)
        rows = np.flatnonzero(has_image)
        if len(rows) < FEWEST_STATES:
            return inconclusive_check(relation, space, self.method, len(rows), "too few states have an image")
        symmetry = self._read(relation, group)
        games, images = fork(self.games, rows), fork(self._image(symmetry), rows)
        compared = _compare_pacman(relation, space, games, images, symmetry, self.inputs.seed)

        # Disagreements of known causes, such as ties between shortest paths, leave the relation approximately true.
        causes = compared.states.shares()
        note = (
            f"read as {symmetry.words}; the observation agrees in "
            f"{percent(float(compared.observation_agrees.mean()))} of the states, the step in "
            f"{percent(float(compared.step_agrees.mean()))}"
        )
        if len(rows) < len(has_image):
            note += f"; {percent(1 - len(rows) / len(has_image))} of the states have no image"
        verdict: CheckVerdict = "holds"
        if causes:
            verdict = "does not hold" if OTHER in causes else "holds approximately"
            note += "" if OTHER in causes else "; every disagreement has a cause that is known"
        return exact_answer(relation, space, self.method, compared.states, note, verdict)

    def _image(self, symmetry: Symmetry) -> Games:
        if symmetry not in self._images:
            target = Games(len(self.games.agents), replace(self.settings, maze=symmetry.maze(self.games.maze)))
            carry(self.games, symmetry, target)
            self._images[symmetry] = target
        return self._images[symmetry]

    def _read(self, relation: MetamorphicRelation, group: Sequence[MetamorphicRelation]) -> Symmetry:
        """Return the symmetry of the game (a turn, a mirroring, an exchange of ghosts) that a relation means.

        That is, of those that map its actions as it says, the one that fits its features best: if the relation holds
        under any symmetry, it holds. `group` are the relations of the same symmetry, one per action.
        """
        # Symmetries that map all actions of the group as it says, or at least the action of this relation.
        symmetries = list(every_symmetry(self.n_ghosts))
        action_pairs = {(other.action, other.image_action) for other in group}
        fits_group = [s for s in symmetries if all(s.direction(action) == image for action, image in action_pairs)]
        fits_alone = [s for s in symmetries if s.direction(relation.action) == relation.image_action]

        # States come in the order of play; the first ones alone look much alike.
        n = len(self.games.agents)
        sample = fork(self.games, np.arange(0, n, max(n // 256, 1)))
        known = known_features(relation, len(self.inputs.space))
        expected, _ = map_states(relation, sample.observations)
        images: dict[tuple[int, bool], Games] = {}  # by turns and mirroring, because making tables takes long

        def fit(symmetry: Symmetry) -> float:
            """Return the share of features that are in the image as the relation says."""
            turn = symmetry.turns, symmetry.mirrored
            if turn not in images:
                # Where ghosts return to does not show in an observation, so their order does not matter here.
                settings = replace(self.settings, maze=symmetry.maze(sample.maze))
                images[turn] = Games(len(sample.agents), settings)
            carry(sample, symmetry, images[turn])
            return float((images[turn].observations == expected)[:, known].mean())

        return max(fits_group or fits_alone or symmetries, key=fit)


class _Compared(NamedTuple):
    """Games compared with their images: all features and outcomes, and where the observation and the step agree."""

    states: StateComparison
    observation_agrees: Flags
    step_agrees: Flags


def _compare_pacman(
    relation: MetamorphicRelation, space: FeatureSpace, games: Games, images: Games, symmetry: Symmetry, seed: int
) -> _Compared:
    """Return the comparison of games with their images (the same games, turned or mirrored), now and after one step.

    Parameters
    ----------
    relation
        The claimed symmetry: how features and one action of a game are mapped to those of its image.
    space
        Names of the features.
    games, images
        Games, and their images in the same order.
    symmetry
        The turn or mirroring that leads from a game to its image.
    seed
        Decides where ghosts go.
    """
    played = play_matched(games, images, symmetry, relation.action, relation.image_action, seed)
    known = known_features(relation, len(space))  # the features that the relation says something about
    now = _compare_observations(relation, games, images, known)
    after = _compare_observations(relation, played.after, played.image_after, known)

    # Further columns of the step, [states, 3]: reward, outcome, and whether ghosts had other choices in the image.
    no_chances, chances = np.zeros(len(games.agents)), played.chances.any(axis=1)
    expected_outcome = np.column_stack([played.after.rewards, played.after.status, no_chances])
    found_outcome = np.column_stack([played.image_after.rewards, played.image_after.status, chances])
    step_differs = np.hstack([after.differs, expected_outcome != found_outcome])
    states = StateComparison(
        observations=games.observations,
        columns=[
            *((name, IN_IMAGE) for name in space.names),
            *((name, AFTER_STEP) for name in space.names),
            ("reward", "of the step"),
            ("outcome", "of the step (0 goes on, 1 won, 2 lost, 3 cut off)"),
            ("ghosts that choose otherwise", "in the step"),
        ],
        expected=np.hstack([now.expected, after.expected, expected_outcome]),
        found=np.hstack([now.found, after.found, found_outcome]),
        compared=np.hstack([known, known, [True, True, False]]),
        differs=np.hstack([now.differs, step_differs]),
        causes=_name_causes(now, after, step_differs, played, symmetry),
    )
    return _Compared(states, np.asarray(~now.differs.any(axis=1)), np.asarray(~step_differs.any(axis=1)))


@dataclass(frozen=True)
class _ObservationComparison:
    """Observations of images and images of observations; `tied` marks differences that a tie explains."""

    expected: Observations
    found: Observations
    differs: Flags
    tied: Flags


def _compare_observations(
    relation: MetamorphicRelation, games: Games, images: Games, known: Flags
) -> _ObservationComparison:
    found = images.observations
    expected = expected_observations(relation, games.observations, found)
    differs = (np.abs(expected - found) > _ROUNDING) & known
    tied = np.zeros_like(differs)
    rows = np.flatnonzero(differs.any(axis=1))
    if rows.size:
        tied[rows] = _explained_by_ties(relation, fork(games, rows), found[rows], known)
    return _ObservationComparison(expected, found, differs, tied & differs)


def _explained_by_ties(relation: MetamorphicRelation, games: Games, found: Observations, known: Flags) -> Flags:
    """Return ``bool[n, features]``: features of images that agree if ties between shortest paths are broken otherwise.

    An observation shows the first step of a shortest path to each target. Of several such paths, a game and its image
    may show different ones. `found` are the observations of the images, ``[n, features]``, `known` the features that
    the relation maps.
    """
    explained = np.zeros(found.shape, np.bool_)
    tied = tied_steps(games)
    image_of = {mapped.feature: mapped.image_feature for mapped in relation.features}
    # A target is food, a capsule or a ghost; its columns are the one-hot first step of the shortest path to it.
    for target, columns in enumerate(path_columns(len(games.maze.ghosts))):
        image_columns = [image_of.get(int(column), int(column)) for column in columns]
        concerned = [column for column in image_columns if known[column]]
        for direction in range(4):
            rows = np.flatnonzero(tied[:, target, direction])
            if not rows.size or not concerned:
                continue
            # The observations with this first step instead: do their images agree?
            changed = games.observations[rows].copy()
            changed[:, columns] = 0.0
            changed[:, columns[direction]] = 1.0
            image, _ = map_states(relation, changed)
            agrees = (np.abs(image - found[rows])[:, concerned] <= _ROUNDING).all(axis=1)
            explained[np.ix_(rows[agrees], concerned)] = True
    return explained


def _name_causes(
    now: _ObservationComparison,
    after: _ObservationComparison,
    step_differs: Flags,
    played: Round,
    symmetry: Symmetry,
) -> NDArray[np.object_]:
    """Return for each state why it does not agree with its image: the first cause below that explains everything.

    Parameters
    ----------
    now, after
        Observations and those of the images, before and after the step.
    step_differs
        ``[states, columns]``: the columns that differ after the step: the features, and then its outcome.
    played
        The step, with the moves of the ghosts.
    symmetry
        The turn or mirroring that leads to the images.
    """
    n, n_columns = step_differs.shape
    # Differences that no cause has explained so far. Ties come first.
    unexplained = step_differs.copy()
    unexplained[:, : after.tied.shape[1]] &= ~after.tied
    causes = np.full(n, AGREES, object)
    causes[step_differs.any(axis=1) | now.differs.any(axis=1)] = TIE

    # Each further cause concerns some ghosts, and explains all features that these ghosts touch.
    interrupted = np.tile(played.interrupted[:, None], (1, played.snaps.shape[1]))
    for cause, ghosts in (
        (SNAP, played.snaps & symmetry.moves_maze),
        (HOME, played.eaten & symmetry.exchanges_ghosts),
        (ORDER, interrupted & symmetry.exchanges_ghosts),
    ):
        causes[unexplained.any(axis=1)] = cause
        unexplained &= ~_what_ghosts_touch(played, ghosts, symmetry, n_columns)
    causes[unexplained.any(axis=1) | (now.differs & ~now.tied).any(axis=1)] = OTHER
    return causes


def _what_ghosts_touch(played: Round, ghosts: Flags, symmetry: Symmetry, n_columns: int) -> Flags:
    """Return the columns that may differ when these ghosts stand elsewhere: their own, and their effects on Pac-Man."""
    touched = np.zeros((len(ghosts), n_columns), np.bool_)
    for g, flags in enumerate(symmetry.columns(ghosts.shape[1], ghosts).T):
        touched[np.ix_(flags, ghost_columns(g))] = True
    any_ghost = np.asarray(ghosts.any(axis=1))
    touched[:, :2] |= any_ghost[:, None]  # how many ghosts are near
    touched[:, -3:] |= any_ghost[:, None]  # reward, outcome, choices of ghosts
    # When only one of the two games is over, everything else stands still in it.
    touched |= (any_ghost & (played.after.status != played.image_after.status))[:, None]
    return touched
