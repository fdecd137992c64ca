"""Failure modes in the report (`gather_failures`), each with the replay of an episode that fails this way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from legible.environments import Ending
from legible.evaluation.units import UNGUIDED, Unit, record_unit
from legible.failures import FailureMode
from legible.formatting import capitalise
from legible.report.action_words import ActionWords
from legible.report.interventions import condition_changes
from legible.report.replays import (
    REPLAY_BUDGET,
    describe_replay,
    feature_traces,
    json_size,
    no_window,
    replay_side,
)
from legible.report.scenes import scene_of
from legible.study import Study

SHARE_OF_ROOM = 0.15
"""Share of the bytes of all replays that the replay of one failure mode may take."""


@dataclass(frozen=True)
class FailureCard:
    """A failure mode, and the number of its replay, if there is one."""

    mode: FailureMode
    replay: int | None

    @property
    def title(self) -> str:
        """The mode in a few words."""
        when = "At the start " if self.mode.is_start else ""
        return capitalise(f"{when}{self.mode.words}")


def gather_failures(study: Study, first: int, room: int) -> tuple[list[FailureCard], list[Any]]:
    """Return the failure modes of a study, and their replays.

    `first` is the number of the first replay in the report, and `room` the maximum number of bytes of all together.
    """
    cards: list[FailureCard] = []
    replays: list[Any] = []
    for mode in study.failures.modes if study.has("failures") else ():
        replay = _replay(study, mode)
        size = json_size(replay)
        if replay is None or size > room:
            cards.append(FailureCard(mode, None))
            continue
        room -= size
        cards.append(FailureCard(mode, first + len(replays)))
        replays.append(replay)
    return cards, replays


def _replay(study: Study, mode: FailureMode) -> dict[str, Any] | None:
    """Return the example of a mode as plain data for the player; None if the episode does not repeat."""
    # Play the episode again; it must fail, and the conditions must hold at the step of the example.
    (recording,), result = record_unit(study.setup(), Unit((UNGUIDED,), (mode.seed,)))
    changes = condition_changes(mode.conditions, recording)  # the steps at which the conditions start and stop to hold
    ending = Ending.parse(str(result.endings[0])) if result.endings[0] else None
    if ending is None or ending.kind != "failure" or not _holds_at(changes, mode.step):
        return None
    action_words, space = ActionWords(study.space), study.space
    features = [condition.feature for condition in mode.conditions]
    with no_window():
        env, scene = scene_of(study.environment, space, features, round(SHARE_OF_ROOM * REPLAY_BUDGET))
        side = replay_side(env, scene, recording, [], result[0], action_words)
        env.close()
    if side is None:
        return None
    return {
        **describe_replay(
            mode.seed, f"a held-out episode that fails this way, from step {mode.step}", scene, action_words
        ),
        "branches_at": mode.step,
        "traces": feature_traces([recording], mode.conditions, space),
        "bands": [{"name": "pattern", "spans": _spans(changes, len(recording.actions))}],
        "sides": [side],
    }


def _holds_at(changes: list[int], step: int) -> bool:
    return int(np.searchsorted(changes, step, side="right")) % 2 == 1


def _spans(changes: list[int], end: int) -> list[list[int]]:
    """Return the stretches of steps in which conditions hold, from the steps at which they start and stop."""
    ends = [*changes, end] if len(changes) % 2 else changes
    return [list(span) for span in zip(ends[::2], ends[1::2], strict=True)]
