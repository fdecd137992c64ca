"""Replays: the same seed unguided and guided, with the moments where a rule stepped in.

- `Replays`, `gather_replays`: those of a report, as many as there is room for.
- `make_replays`: records chosen episodes and draws them; plain data for the report's player.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from legible.environments import Env
from legible.evaluation import PlayedBlocks
from legible.evaluation.units import UNGUIDED, Unit, UnitResult, record_unit
from legible.features import FeatureSpace
from legible.play import Recording, replay
from legible.report.action_words import ActionWords
from legible.report.interventions import Mark, condition_changes, interventions
from legible.report.scenes import Scene, is_drawn_from_state, scene_of
from legible.report.selection import Choice, choose_episodes, chosen_seeds, typical_episode, worst_episodes
from legible.rules import RuleSet, describe_rule, rule_parts
from legible.study import Study

MOST_FEATURES = 12
MOST_PICTURE_REPLAYS = 4  # of rule sets; pictures take long to draw and much room
# The whole file stays below three megabytes; what is not replays takes a third of it at most.
REPLAY_BUDGET = 1_900_000


@dataclass(frozen=True)
class Replays:
    """The replays of a report.

    Parameters
    ----------
    data
        All of them, as plain data.
    of_composition
        Numbers of those that show the composition.
    of_rule_sets
        For every rule set, the number of its replay, or None where it has none.
    room
        Bytes that are left for others.
    """

    data: tuple[Any, ...]
    of_composition: tuple[int, ...]
    of_rule_sets: tuple[int | None, ...]
    room: int


def gather_replays(study: Study, rule_sets: Sequence[RuleSet], watch: Sequence[int] = ()) -> Replays:
    """Make the replays of a study: the composition's on the final seeds, each rule set's on the confirmation's.

    Where nothing is confirmed, or there is no composition, the worst episodes of the policy alone are shown. Seeds to
    `watch` are shown first.
    """
    final, confirmation = study.improvement.final_blocks, study.evaluation.confirmation_blocks
    treatment = 0 if final.setup.treatments else UNGUIDED
    chosen = chosen_seeds(final.seeds, watch, treatment)
    chosen += choose_episodes(final.base, final.guided(0), 0, extremes=True) if final.setup.treatments else []
    # A policy whose repair is not shown is seen where it does worst.
    chosen += worst_episodes(final.base) if study.outlook is not None or not final.setup.treatments else []
    typical: dict[int, Choice] = {}
    if confirmation is not None:
        most = len(rule_sets) if is_drawn_from_state(study.environment) else MOST_PICTURE_REPLAYS
        found = {place: typical_episode(confirmation, rule_set) for place, rule_set in enumerate(rule_sets[:most])}
        typical = {place: choice for place, choice in found.items() if choice is not None}
    budget = REPLAY_BUDGET // max(1, 2 * (len(chosen) + len(typical)))
    made: list[tuple[int | None, Any]] = [(None, shown) for shown in make_replays(study, final, chosen, budget)]
    if confirmation is not None:
        of_sets = make_replays(study, confirmation, list(typical.values()), budget)
        made += zip(typical, of_sets, strict=True)
    return _number_replays(made, len(rule_sets))


def _number_replays(made: Sequence[tuple[int | None, Any]], rule_sets: int) -> Replays:
    """Number the replays that could be made, as far as there is room.

    Each comes with the place of its rule set, or None when it is one of the composition's.
    """
    kept: list[Any] = []
    of_composition: list[int] = []
    of_rule_sets: list[int | None] = [None] * rule_sets
    room = REPLAY_BUDGET
    for place, shown in made:
        size = len(json.dumps(shown, separators=(",", ":")))
        if shown is None or size > room:
            continue
        room -= size
        if place is None:
            of_composition.append(len(kept))
        else:
            of_rule_sets[place] = len(kept)
        kept.append(shown)
    return Replays(tuple(kept), tuple(of_composition), tuple(of_rule_sets), room)


def record_choices(blocks: PlayedBlocks, choices: Sequence[Choice]) -> list[tuple[Recording, Recording]]:
    """Record chosen episodes, unguided and guided.

    They are played in a small unit of their own. An episode that goes another way there than it did in the study
    (matrix products may differ in the last bit between batches) is recorded by playing its whole unit again.
    """
    treatments = [t for choice in choices for t in (UNGUIDED, choice.treatment)]  # twice the same without guidance
    episodes = [choice.episode for choice in choices for _ in range(2)]
    unit = Unit(tuple(treatments), tuple(blocks.seeds[episode] for episode in episodes))
    recordings, result = record_unit(blocks.setup, unit)
    for i, (treatment, episode) in enumerate(zip(treatments, episodes, strict=True)):
        known = blocks.results[treatment + 1]
        if (result.returns[i], result.lengths[i]) != (known.returns[episode], known.lengths[episode]):
            recordings[i] = blocks.record(treatment, episode)
    return list(zip(recordings[::2], recordings[1::2], strict=True))


def make_replays(study: Study, blocks: PlayedBlocks, choices: Sequence[Choice], picture_budget: int) -> list[Any]:
    """Record and draw the chosen episodes; returns plain data, one entry a choice.

    An entry is None where the environment, given the same seed and actions, went another way than in the study: what
    it would show is not what happened.

    Parameters
    ----------
    study
        Environment, names and settings.
    blocks
        What was played.
    choices
        Which episodes.
    picture_budget
        Bytes that the pictures of one episode may take, where the environment can only be shown by pictures.
    """
    if not choices:
        return []
    with _no_window():
        return [
            _make_replay(study, blocks, choice, pair, picture_budget)
            for choice, pair in zip(choices, record_choices(blocks, choices), strict=True)
        ]


@contextmanager
def _no_window() -> Iterator[None]:
    """Tell SDL, which draws many environments, that there is no screen; it complains where there is none."""
    before = os.environ.get("SDL_VIDEODRIVER")
    # The second is taken where SDL was built without the first. A plain "dummy" makes highway-env draw nothing.
    os.environ["SDL_VIDEODRIVER"] = "offscreen,dummy"
    try:
        yield
    finally:
        if before is None:
            del os.environ["SDL_VIDEODRIVER"]
        else:
            os.environ["SDL_VIDEODRIVER"] = before


def _make_replay(
    study: Study, blocks: PlayedBlocks, choice: Choice, pair: Sequence[Recording], picture_budget: int
) -> dict[str, Any] | None:
    """Return a chosen episode, unguided and guided, as plain data; of the policy alone there is but one side."""
    space, words = study.space, ActionWords(study.space)
    rules = None if choice.treatment == UNGUIDED else blocks.setup.treatments[choice.treatment]
    results = [blocks.base[choice.episode]]
    marks: list[list[Mark]] = [[]]
    features: Sequence[int] = range(min(MOST_FEATURES, len(space)))
    if rules is None:
        pair = pair[:1]
    else:
        assert isinstance(rules, RuleSet)
        results.append(blocks.guided(choice.treatment)[choice.episode])
        marks = [interventions(blocks.setup, choice.treatment, recording) for recording in pair]
        counted = Counter(feature for rule in rules.rules for feature in rule.features)
        features = sorted(counted, key=lambda feature: -counted[feature])[:MOST_FEATURES]
    env, scene = scene_of(study.environment, space, features, picture_budget)
    sides = [
        _side(env, scene, recording, found, result, words)
        for recording, found, result in zip(pair, marks, results, strict=True)
    ]
    env.close()
    if None in sides:
        return None
    shown = {
        "seed": pair[0].seed,
        "why": choice.why,
        "kind": scene.kind,
        "layout": scene.layout,
        "actions": words.words,
    }
    if rules is None:
        return {**shown, "rules": [], "parting": 0, "sides": sides}
    return {**shown, **_with_rules(pair, sides, rules, space)}


def _side(
    env: Env, scene: Scene, recording: Recording, marks: Sequence[Mark], result: UnitResult, words: ActionWords
) -> Any:
    """One of the two episodes of a replay, as plain data; None when it did not go the way that was recorded."""
    scene.begin(len(recording.actions), [mark.step for mark in marks])
    rewards = []
    for step, (observation, reward) in enumerate(replay(env, recording)):
        scene.see(env, observation, step)
        rewards.append(reward)
    if len(rewards) != len(recording.rewards) + 1 or not np.allclose(rewards[1:], recording.rewards):
        return None
    return {
        "return": float(result.returns),
        "end": _ending(result),
        "actions": [words.number(action) for action in recording.actions],
        "rewards": [float(f"{reward:.5g}") for reward in recording.rewards],
        "drawn": _random_actions(recording, marks),
        "marks": [
            [
                mark.step,
                *(words.number(action, mark.groups) for action in (mark.alone, mark.guided)),
                list(mark.rules),
                int(mark.by_chance),
                int(mark.spared),
            ]
            for mark in marks
        ],
        "frames": scene.frames(),
    }


def _random_actions(recording: Recording, marks: Sequence[Mark]) -> list[list[int]]:
    """Steps at which the policy, with no rule in its way, did not do what it prefers; with what it prefers."""
    if recording.actions.ndim > 1:
        return []  # what it prefers is not recorded there
    marked = {mark.step for mark in marks}
    steps = np.flatnonzero(recording.actions != recording.wanted)
    return [[int(step), int(recording.wanted[step])] for step in steps if int(step) not in marked]


def _ending(result: UnitResult) -> str:
    if result.success == 1.0:
        return "success"
    if result.truncated:
        return "cut off"
    return "failure" if result.success == 0.0 else "end"


def _with_rules(
    pair: Sequence[Recording], sides: list[dict[str, Any]], rules: RuleSet, space: FeatureSpace
) -> dict[str, Any]:
    """Return both sides of a replay with the rules that stepped in, numbered anew, and where the sides part."""
    used = sorted({rule for side in sides for mark in side["marks"] for rule in mark[3]})
    places = {rule: place for place, rule in enumerate(used)}
    for side in sides:
        for mark in side["marks"]:
            mark[3] = [places[rule] for rule in mark[3]]
    parts = [rule_parts(rules.rules[rule], space) for rule in used]
    for side, recording in zip(sides, pair, strict=True):
        side["holds"] = [[condition_changes(all_of, recording) for _, all_of in when] for _, when in parts]
    base, guided = (recording.actions for recording in pair)
    shared = min(len(base), len(guided))
    apart = np.flatnonzero((base[:shared] != guided[:shared]).reshape(shared, -1).any(axis=1))
    return {
        "rules": [describe_rule(rules.rules[rule], space, "advice") for rule in used],
        "texts": [rules.rules[rule].text(space) for rule in used],
        "parts": [{"does": does, "when": [words for words, _ in when]} for does, when in parts],
        "parting": int(apart[0]) if apart.size else shared,
        "sides": sides,
    }
