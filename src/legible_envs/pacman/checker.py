"""PAC-Man: the state itself is turned or mirrored, together with its maze, and both are compared exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    image_settings,
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
        """Check one relation, read as the symmetry that fits it best."""
        space = self.inputs.space
        _, defined = map_states(relation, self.games.observations)
        rows = np.flatnonzero(defined)
        if len(rows) < FEWEST_STATES:
            return inconclusive_check(relation, space, self.method, len(rows), "too few states have an image")
        symmetry = self._read(relation, group)
        games, images = fork(self.games, rows), fork(self._image(symmetry), rows)
        comparison, observation_agrees, step_agrees = _compare_pacman(
            relation, space, games, images, symmetry, self.inputs.seed
        )
        causes = comparison.shares()
        note = (
            f"read as {symmetry.words}; the observation agrees in {percent(float(observation_agrees.mean()))} of the "
            f"states, the step in {percent(float(step_agrees.mean()))}"
        )
        if len(rows) < len(defined):
            note += f"; {percent(1 - len(rows) / len(defined))} of the states have no image"
        verdict: CheckVerdict = "holds"
        if causes:
            verdict = "does not hold" if OTHER in causes else "holds approximately"
            note += "" if OTHER in causes else "; every disagreement has a cause that is known"
        return exact_answer(relation, space, self.method, comparison, note, verdict)

    def _image(self, symmetry: Symmetry) -> Games:
        if symmetry not in self._images:
            target = Games(len(self.games.agents), image_settings(self.settings, self.games, symmetry))
            carry(self.games, symmetry, target)
            self._images[symmetry] = target
        return self._images[symmetry]

    def _read(self, relation: MetamorphicRelation, group: Sequence[MetamorphicRelation]) -> Symmetry:
        """Find what the relation means: of the symmetries that its actions allow, the one that fits its features best.

        A relation that holds under any symmetry thus holds, and one that does not gets the benefit of the doubt.
        """
        every = list(every_symmetry(self.n_ghosts))
        pairs = {(r.action, r.image_action) for r in group}
        fits_group = [s for s in every if all(s.direction(a) == b for a, b in pairs)]
        fits_alone = [s for s in every if s.direction(relation.action) == relation.image_action]
        # States come in the order of play; the first ones alone look much alike.
        n = len(self.games.agents)
        sample = fork(self.games, np.arange(0, n, max(n // 256, 1)))
        known = known_features(relation, len(self.inputs.space))
        expected, _ = map_states(relation, sample.observations)
        targets: dict[tuple[int, bool], Games] = {}

        def fit(symmetry: Symmetry) -> float:
            plane = symmetry.turns, symmetry.mirrored
            if plane not in targets:
                # Where ghosts return to does not show in an observation, so their order does not matter here.
                settings = image_settings(self.settings, sample, symmetry)
                targets[plane] = Games(len(sample.agents), settings)
            carry(sample, symmetry, targets[plane])
            return float((targets[plane].observations == expected)[:, known].mean())

        return max(fits_group or fits_alone or every, key=fit)


def _compare_pacman(
    relation: MetamorphicRelation, space: FeatureSpace, games: Games, images: Games, symmetry: Symmetry, seed: int
) -> tuple[StateComparison, Flags, Flags]:
    """Compare observations and one round; also says where the observation and where the round agrees."""
    played = play_matched(games, images, symmetry, relation.action, relation.image_action, seed)
    known = known_features(relation, len(space))
    now = _compare_observations(relation, games, images, known)
    after = _compare_observations(relation, played.after, played.image_after, known)
    extra = (
        (played.after.rewards, played.image_after.rewards),
        (played.after.status, played.image_after.status),
        (np.zeros(len(games.agents)), played.chances.any(axis=1)),
    )
    expected, found = (np.column_stack([pair[k] for pair in extra]).astype(np.float64) for k in (0, 1))
    extra_differs = expected != found
    next_differs = np.hstack([after.differs, extra_differs])
    comparison = StateComparison(
        observations=games.observations,
        columns=[
            *((name, IN_IMAGE) for name in space.names),
            *((name, AFTER_STEP) for name in space.names),
            ("reward", "of the step"),
            ("outcome", "of the step (0 goes on, 1 won, 2 lost, 3 cut off)"),
            ("ghosts that choose otherwise", "in the step"),
        ],
        expected=np.hstack([now.expected, after.expected, expected]),
        found=np.hstack([now.found, after.found, found]),
        compared=np.hstack([known, known, [True, True, False]]),
        differs=np.hstack([now.differs, next_differs]),
        causes=_name_causes(now, after, next_differs, played, symmetry),
    )
    return comparison, np.asarray(~now.differs.any(axis=1)), np.asarray(~next_differs.any(axis=1))


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
    """Mark columns that agree once a tie between first steps is broken in another way."""
    explained = np.zeros(found.shape, np.bool_)
    tied = tied_steps(games)
    image_of = {fr.feature: fr.image_feature for fr in relation.features}
    for target, columns in enumerate(path_columns(len(games.maze.ghosts))):
        concerned = [c for c in (image_of.get(int(c), int(c)) for c in columns) if known[c]]
        for direction in range(4):
            rows = np.flatnonzero(tied[:, target, direction])
            if not rows.size or not concerned:
                continue
            otherwise = games.observations[rows].copy()
            otherwise[:, columns] = 0.0
            otherwise[:, columns[direction]] = 1.0
            image, _ = map_states(relation, otherwise)
            agrees = (np.abs(image - found[rows])[:, concerned] <= _ROUNDING).all(axis=1)
            explained[np.ix_(rows[agrees], concerned)] = True
    return explained


def _name_causes(
    now: _ObservationComparison,
    after: _ObservationComparison,
    next_differs: Flags,
    played: Round,
    symmetry: Symmetry,
) -> NDArray[np.object_]:
    """Say why a state does not agree: the first cause in the order below with which everything is explained."""
    n, width = next_differs.shape
    left = next_differs.copy()
    left[:, : after.tied.shape[1]] &= ~after.tied
    interrupted = np.tile(played.interrupted[:, None], (1, played.snaps.shape[1]))
    causes = np.full(n, AGREES, object)
    causes[next_differs.any(axis=1) | now.differs.any(axis=1)] = TIE
    for cause, may_differ in (
        (SNAP, _what_ghosts_touch(played, played.snaps & symmetry.moves_maze, symmetry, width)),
        (HOME, _what_ghosts_touch(played, played.eaten & symmetry.exchanges_ghosts, symmetry, width)),
        (ORDER, _what_ghosts_touch(played, interrupted & symmetry.exchanges_ghosts, symmetry, width)),
    ):
        causes[left.any(axis=1)] = cause
        left &= ~may_differ
    causes[left.any(axis=1) | (now.differs & ~now.tied).any(axis=1)] = OTHER
    return causes


def _what_ghosts_touch(played: Round, ghosts: Flags, symmetry: Symmetry, width: int) -> Flags:
    """Mark the features that may differ when these ghosts stand elsewhere: their own, and their effects on Pac-Man."""
    touched = np.zeros((len(ghosts), width), np.bool_)
    for g, flags in enumerate(symmetry.columns(ghosts.shape[1], ghosts).T):
        touched[np.ix_(flags, ghost_columns(g))] = True
    some = np.asarray(ghosts.any(axis=1))
    touched[:, :2] |= some[:, None]  # how many ghosts are near
    touched[:, -3:] |= some[:, None]  # reward, outcome, ways
    # When only one of the two games is over, everything else stands still in it.
    touched |= (some & (played.after.status != played.image_after.status))[:, None]
    return touched
