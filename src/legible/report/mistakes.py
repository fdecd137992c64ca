"""Mistakes in the report (`gather_mistakes`): a summary, and cards of similar mistakes with both futures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from legible.environments import Env, to_environment_actions
from legible.evaluation.ledger import Ledger
from legible.mistakes import (
    CHOICE_TAKEN,
    Mistake,
    Mistakes,
    RolloutUnit,
    describe_mistake,
    describe_mistakes,
    points_of,
    record_futures,
    similar_mistakes,
    unusual_features,
)
from legible.play import Experiences, Point, Recording
from legible.play.branching.generators import reseed
from legible.report.action_words import ActionWords
from legible.report.replays import MOST_TRACES, describe_replay, json_size, rounded
from legible.report.scenes import Scene, is_drawn_from_state, scene_of
from legible.rules import gerund, third_person
from legible.study import Study
from legible.study.mistakes import rollout_setup

MOST_CARDS, MOST_PICTURE_CARDS = 10, 3
# Steps to show before and after the decision.
STEPS_BEFORE, STEPS_AFTER = 5, 80
# Features to show where nothing can be drawn and none was unusual.
MOST_FEATURES = 8


@dataclass(frozen=True)
class MistakeCard:
    """The worst of some similar mistakes; `others` describes the rest, `ledger` splits its gain."""

    mistake: Mistake
    title: str
    sentence: str
    others: tuple[str, ...]
    replay: int | None
    ledger: Ledger | None


@dataclass(frozen=True)
class MistakeSection:
    """The section on mistakes."""

    found: Mistakes
    sentences: tuple[str, ...]
    cards: tuple[MistakeCard, ...]
    replays: tuple[Any, ...]


def gather_mistakes(study: Study, first: int, room: int) -> MistakeSection | None:
    """Return the section on mistakes; None if the study has not searched for them.

    `first` is the number of the first replay in the report, and `room` the maximum number of bytes of all together.
    """
    if not study.has("mistakes"):
        return None
    mistakes = study.mistakes
    sentences = tuple(describe_mistakes(mistakes))
    if not mistakes.listed:
        return MistakeSection(mistakes, sentences, (), ())
    # A card for each group of similar mistakes; the worst one of a group comes first, and is replayed.
    recorded = study.decisions
    most_replays = MOST_CARDS if is_drawn_from_state(study.environment) else MOST_PICTURE_CARDS
    groups = similar_mistakes(mistakes.listed, recorded)[:MOST_CARDS]
    to_replay = [worst for worst, *_ in groups[:most_replays]]
    possible_replays = _replays(study, to_replay, room // (2 * most_replays))  # each has the pictures of two episodes
    # There are ledgers of the largest mistakes only.
    ledgers = dict(zip(mistakes.listed, study.mistake_ledgers, strict=False))
    cards: list[MistakeCard] = []
    replays: list[Any] = []
    for (worst, *similar), replay in zip_longest(groups, possible_replays):  # None for groups that are not replayed
        replay_number = None  # number of its replay within the report, if it can be played again and fits
        if replay is not None and json_size(replay) <= room:
            room -= json_size(replay)
            replay_number = first + len(replays)
            replays.append(replay)
        taken, better = (gerund(recorded.space.actions[choice].label) for choice in (worst.action, worst.better))
        title = f"{better} would have been better than {taken}"
        others = tuple(describe_mistake(other, recorded) for other in similar)
        sentence, ledger = describe_mistake(worst, recorded), ledgers.get(worst)
        cards.append(MistakeCard(worst, title, sentence, others, replay_number, ledger))
    return MistakeSection(mistakes, sentences, tuple(cards), tuple(replays))


def _replays(study: Study, mistakes: Sequence[Mistake], picture_budget: int) -> list[dict[str, Any] | None]:
    """Return what followed the action taken and the better one, for each mistake, as plain data for the player.

    An entry is None if the episodes cannot be repeated.
    """
    if not mistakes:
        return []
    recorded, space = study.decisions, study.decisions.space
    # Play from every decision to the end, with the action taken and with the better one.
    points = points_of(recorded, np.array([mistake.row for mistake in mistakes]))
    unit = RolloutUnit(
        points,
        np.array([[CHOICE_TAKEN, mistake.better] for mistake in mistakes]),
        np.array([[mistake.future] for mistake in mistakes]),
    )
    setup = rollout_setup(study)
    recordings = record_futures(setup, unit)
    pairs = zip(recordings[::2], recordings[1::2], strict=True)  # of each mistake: the action taken, the better one
    # Draw both futures; where nothing can be drawn, the features that were unusual at the decision are shown.
    replays: list[dict[str, Any] | None] = []
    for mistake, point, pair in zip(mistakes, points, pairs, strict=True):
        unusual = [entry.feature for entry in unusual_features(recorded, mistake.row)]
        env, scene = scene_of(
            study.environment, space, unusual or range(min(MOST_FEATURES, len(space))), picture_budget
        )
        # Either the future gets random numbers of its own (from this seed), or it keeps those of the episode (None).
        future_seed = mistake.future if setup.future == "new" else None
        action_words = ActionWords(space)
        sides = [_side(env, scene, point, future_seed, recording, action_words) for recording in pair]
        env.close()
        taken, better = (space.actions[choice].label for choice in (mistake.action, mistake.better))
        why = f"the decision in step {mistake.step} and a typical future with the same random numbers"
        replay = {
            **describe_replay(mistake.seed, why, scene, action_words),
            "names": [f"It {third_person(taken)}", f"Better: {better}"],
            "first": max(0, mistake.step - STEPS_BEFORE),
            "branches_at": min(mistake.step, STEPS_BEFORE),
            "traces": _traces(recorded, mistake, pair, unusual),
            "sides": sides,
        }
        replays.append(None if None in sides else replay)
    return replays


def _traces(seen: Experiences, mistake: Mistake, pair: Sequence[Recording], features: Sequence[int]) -> list[Any]:
    """Return the values of unusual features around a decision, in both futures."""
    before = seen.observations[max(mistake.row - mistake.step, mistake.row - STEPS_BEFORE) : mistake.row]
    shown = [np.concatenate([before, recording.observations[:STEPS_AFTER]]) for recording in pair]
    numeric = [feature for feature in features if seen.space[feature].kind == "numeric"][:MOST_TRACES]
    return [
        {"name": seen.space[i].label, "cuts": [], "values": [rounded(values[:, i]) for values in shown]}
        for i in numeric
    ]


def _side(
    env: Env, scene: Scene, point: Point, future_seed: int | None, recording: Recording, action_words: ActionWords
) -> dict[str, Any] | None:
    """Return a recorded rollout from a few steps before the decision; None if playing it again differs.

    `future_seed` reseeds the environment at the decision; None keeps the random numbers of the episode.
    """
    before = point.actions[: point.step]
    after = recording.actions[:STEPS_AFTER]
    first = max(0, point.step - STEPS_BEFORE)
    scene.begin(len(before) - first + len(after), [point.step - first])
    observation, info = env.reset(seed=point.seed)
    rewards: list[float] = []
    over = False
    for step, action in enumerate(to_environment_actions(env.action_space, np.concatenate([before, after]))):
        if step >= first:
            scene.see(env, observation, step - first)
        if step == point.step and future_seed is not None:
            reseed(env, future_seed)
        observation, reward, terminated, truncated, info = env.step(action)
        rewards.append(float(reward))
        over = bool(terminated or truncated)
    scene.see(env, observation, len(rewards) - first)
    # It is the same future if the rewards are, and if it is over where the recording ends.
    recorded = recording.rewards[: len(after)]
    if over != (len(recording.actions) <= STEPS_AFTER) or not np.allclose(rewards[point.step :], recorded):
        return None
    end = "shown so far"
    if over:
        end = {True: "success", False: "failure"}[bool(info["is_success"])] if "is_success" in info else "end"
    return {
        "return": float(sum(rewards)),
        "earned": float(sum(rewards[:first])),  # before the first step shown
        "end": end,
        "actions": [action_words.number(action) for action in (*before[first:], *after)],
        "rewards": [float(f"{reward:.5g}") for reward in rewards[first:]],
        "drawn": [],
        "marks": [],
        "frames": scene.frames(),
    }
