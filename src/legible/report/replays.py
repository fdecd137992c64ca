"""Replays: the same seed unguided and guided, with the steps in which rules change the action (`gather_replays`)."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from legible.agents.seats import SeatEnv
from legible.environments import Ending, Env
from legible.evaluation import PlayedBlocks
from legible.evaluation.units import UNGUIDED, Unit, UnitResult, record_unit
from legible.features import FeatureSpace
from legible.play import Recording, replay
from legible.report.action_words import ActionWords
from legible.report.interventions import Mark, condition_changes, interventions
from legible.report.scenes import Scene, is_drawn_from_state, scene_of
from legible.report.selection import Choice, choose_episodes, chosen_seeds, typical_episode, worst_episodes
from legible.rules import Condition, RuleSet, describe_rule, rule_parts
from legible.study import Study

MOST_FEATURES = 12
MOST_TRACES, MOST_CUTS = 2, 6
MOST_PICTURE_REPLAYS = 4  # of rule sets; pictures are slow to draw and large
# Bytes; the whole file stays below three megabytes, of which everything else takes at most a third.
REPLAY_BUDGET = 1_900_000


@dataclass(frozen=True)
class Replays:
    """The replays of a report, as plain data, and the bytes that are left for others.

    `of_composition` are the numbers of the replays of the composition; `of_rule_sets` has the number of the replay of
    every rule set, or None.
    """

    data: tuple[Any, ...]
    of_composition: tuple[int, ...]
    of_rule_sets: tuple[int | None, ...]
    room: int


def gather_replays(study: Study, rule_sets: Sequence[RuleSet], watch: Sequence[int] = ()) -> Replays:
    """Make the replays of a study: of the composition on held-out seeds, of rule sets on the seeds of the confirmation.

    Seeds to `watch` come first. If there is no composition, or it does not help enough, the worst unguided episodes are
    added.
    """
    final, confirmation = study.improvement.final_blocks, study.evaluation.confirmation_blocks
    treatment = 0 if final.setup.treatments else UNGUIDED
    chosen = chosen_seeds(final.seeds, watch, treatment)
    chosen += choose_episodes(final.base, final.guided(0), 0, extremes=True) if final.setup.treatments else []
    chosen += worst_episodes(final.base) if study.next_steps is not None or not final.setup.treatments else []
    typical: dict[int, Choice] = {}  # by the position of the rule set
    if confirmation is not None:
        most = len(rule_sets) if is_drawn_from_state(study.environment) else MOST_PICTURE_REPLAYS
        for position, rule_set in enumerate(rule_sets[:most]):
            choice = typical_episode(confirmation, rule_set)
            if choice is not None:
                typical[position] = choice
    budget = REPLAY_BUDGET // max(1, 2 * (len(chosen) + len(typical)))  # per episode; a replay shows two
    # Every replay with the position of its rule set, or None for the composition.
    replays: list[tuple[int | None, Any]] = [(None, shown) for shown in make_replays(study, final, chosen, budget)]
    if confirmation is not None:
        of_typical = make_replays(study, confirmation, list(typical.values()), budget)
        replays += zip(typical, of_typical, strict=True)
    return _number_replays(replays, len(rule_sets))


def _number_replays(replays: Sequence[tuple[int | None, Any]], rule_sets: int) -> Replays:
    """Number the replays that could be made, as many as fit into the report.

    Each comes with the position of its rule set, or None for the composition.
    """
    data: list[Any] = []
    of_composition: list[int] = []
    of_rule_sets: list[int | None] = [None] * rule_sets
    room = REPLAY_BUDGET
    for of_rule_set, shown in replays:
        size = json_size(shown)
        if shown is None or size > room:
            continue
        room -= size
        if of_rule_set is None:
            of_composition.append(len(data))
        else:
            of_rule_sets[of_rule_set] = len(data)
        data.append(shown)
    return Replays(tuple(data), tuple(of_composition), tuple(of_rule_sets), room)


def json_size(data: Any) -> int:
    """Return how many characters plain data take in the report."""
    return len(json.dumps(data, separators=(",", ":")))


def record_choices(blocks: PlayedBlocks, choices: Sequence[Choice]) -> list[tuple[Recording, Recording]]:
    """Record chosen episodes, unguided and guided.

    They are played in one small unit. An episode that differs there from the study (matrix products may differ in the
    last bit between batches) is recorded by playing its whole original unit.
    """
    # Each choice unguided and then guided; twice the same without guidance.
    sides = [(treatment, choice.episode) for choice in choices for treatment in (UNGUIDED, choice.treatment)]
    treatments, episodes = zip(*sides, strict=True)
    recordings, result = record_unit(blocks.setup, Unit(treatments, tuple(blocks.seeds[i] for i in episodes)))
    for i, (treatment, episode) in enumerate(sides):
        played = blocks.results[treatment + 1]
        if (result.returns[i], result.lengths[i]) != (played.returns[episode], played.lengths[episode]):
            recordings[i] = blocks.record(treatment, episode)
    return list(zip(recordings[::2], recordings[1::2], strict=True))


def make_replays(study: Study, blocks: PlayedBlocks, choices: Sequence[Choice], picture_budget: int) -> list[Any]:
    """Record and draw the chosen episodes of played blocks; return plain data, one entry per choice.

    An entry is None if the environment does not repeat the episode with the same seed and actions. `picture_budget` is
    the maximum number of bytes for the pictures of one episode, if the environment is shown by pictures.
    """
    if not choices:
        return []
    with no_window():
        return [
            _make_replay(study, blocks, choice, pair, picture_budget)
            for choice, pair in zip(choices, record_choices(blocks, choices), strict=True)
        ]


@contextmanager
def no_window() -> Iterator[None]:
    """Let SDL, which draws many environments, work without a screen."""
    before = os.environ.get("SDL_VIDEODRIVER")
    # "dummy" is for SDL builds without "offscreen". A plain "dummy" makes highway-env draw nothing.
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
    """Return a chosen episode, unguided and, if there are rules, guided, as plain data.

    `pair` holds the recording of the unguided episode and that of the guided one.
    """
    space, action_words = study.space, ActionWords(study.space)
    rules = None if choice.treatment == UNGUIDED else blocks.setup.treatments[choice.treatment]
    # For each of the two episodes its result, and the steps in which rules change the action.
    results = [blocks.base[choice.episode]]
    marks: list[list[Mark]] = [[]]
    features: Sequence[int] = range(min(MOST_FEATURES, len(space)))  # shown where nothing can be drawn
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
        replay_side(env, scene, recording, changed_steps, result, action_words)
        for recording, changed_steps, result in zip(pair, marks, results, strict=True)
    ]
    env.close()
    if None in sides:
        return None
    shown = describe_replay(pair[0].seed, choice.why, scene, action_words)
    if rules is None:
        return {**shown, "branches_at": 0, "sides": sides}
    return {**shown, **_with_rules(pair, marks, sides, rules, space)}


def describe_replay(seed: int, why: str, scene: Scene, action_words: ActionWords) -> dict[str, Any]:
    """Return the data that all replays have for the player: seed, reason, drawing and words of actions; no rules."""
    shown = {"seed": seed, "why": why, "kind": scene.kind, "layout": scene.layout}
    return {**shown, "actions": action_words.words, "rules": []}


def first_difference(recordings: Sequence[Recording]) -> int:
    """Return the first step in which two recorded episodes differ in the action, or the length of the shorter one."""
    first, second = (recording.actions for recording in recordings)
    shared = min(len(first), len(second))
    differing_steps = np.flatnonzero((first[:shared] != second[:shared]).reshape(shared, -1).any(axis=1))
    return int(differing_steps[0]) if differing_steps.size else shared


def replay_side(
    env: Env, scene: Scene, recording: Recording, marks: Sequence[Mark], result: UnitResult, action_words: ActionWords
) -> Any:
    """Return one of the two episodes of a replay as plain data; None if it differs from the recording."""
    scene.begin(len(recording.actions), [mark.step for mark in marks])
    rewards = []
    game, seats = env.unwrapped, list[str]()
    # `replay` yields the state after the reset first, with a reward of 0.
    for step, (observation, reward) in enumerate(replay(env, recording)):
        scene.see(env, observation, step)
        rewards.append(reward)
        if isinstance(game, SeatEnv) and len(game.seats) > 1:
            seats.append(game.seat)
    if len(rewards) != len(recording.rewards) + 1 or not np.allclose(rewards[1:], recording.rewards):
        return None
    if result.success == 1.0:
        end = "success"
    elif result.truncated:
        end = "cut off"
    elif result.success == 0.0:
        end = "failure"
    else:
        end = "end"  # the environment reports no success
    return {
        "return": float(result.returns),
        "end": end,  # one of four words that the player knows
        # The environment's own words for it, if it has any.
        "ending": Ending.parse(str(result.endings)).words if str(result.endings) else "",
        "actions": [action_words.number(action) for action in recording.actions],
        "rewards": [float(f"{reward:.5g}") for reward in recording.rewards],
        "drawn": _random_actions(recording, marks),
        "marks": [
            [  # step, action of the policy alone, guided action, rules, whether chosen by chance, whether spared
                mark.step,
                *(action_words.number(action, mark.groups) for action in (mark.alone, mark.guided)),
                list(mark.rules),
                int(mark.by_chance),
                int(mark.spared),
            ]
            for mark in marks
        ],
        "frames": scene.frames(),
        **({"seats": seats} if seats else {}),  # the seat to move at each step
    }


def _random_actions(recording: Recording, marks: Sequence[Mark]) -> list[list[int]]:
    """Return the steps with a random action of the policy, with the action that it prefers."""
    if recording.actions.ndim > 1:
        return []  # preferences are not recorded for such actions
    marked = {mark.step for mark in marks}
    steps = np.flatnonzero(recording.actions != recording.wanted)
    return [[int(step), int(recording.wanted[step])] for step in steps if int(step) not in marked]


def feature_traces(
    recordings: Sequence[Recording], conditions: Sequence[Condition], space: FeatureSpace
) -> list[dict[str, Any]]:
    """Return the values of the features that conditions use most, in each episode, with the thresholds."""
    used = Counter(condition.feature for condition in conditions if space[condition.feature].kind == "numeric")
    traces = []
    for feature, _ in used.most_common(MOST_TRACES):
        on_feature = [condition for condition in conditions if condition.feature == feature]
        ends = {float(end) for condition in on_feature for end in (condition.low, condition.high)}
        cuts = sorted(end for end in ends if np.isfinite(end))[:MOST_CUTS]
        values = [rounded(recording.observations[:, feature]) for recording in recordings]
        traces.append({"name": space[feature].label, "cuts": cuts, "values": values})
    return traces


def _action_traces(pair: Sequence[Recording], marks: Sequence[Sequence[Mark]], space: FeatureSpace) -> list[Any]:
    """Return the parts of continuous actions that rules change, as done in both episodes and as the policy wants."""
    if space.is_discrete or pair[0].actions.ndim != 2:
        return []
    changed = Counter(int(group) for mark in marks[1] for group in mark.groups if space.groups[int(group)].regions)
    traces = []
    for part, _ in changed.most_common(MOST_TRACES):
        wanted = pair[1].actions[:, part].astype(np.float64)
        for mark in marks[1]:
            wanted[mark.step] = mark.alone[part]
        values = [rounded(recording.actions[:, part]) for recording in pair]
        name = f"action: {space.groups[part].name}"
        traces.append({"name": name, "cuts": [], "values": values, "wanted": rounded(wanted)})
    return traces


def rounded(values: Iterable[Any]) -> list[float]:
    """Return numbers with four digits, which take less space."""
    return [float(f"{value:.4g}") for value in values]


def _with_rules(
    pair: Sequence[Recording],
    marks: Sequence[Sequence[Mark]],
    sides: list[dict[str, Any]],
    rules: RuleSet,
    space: FeatureSpace,
) -> dict[str, Any]:
    """Return both sides of a replay with the rules that decide, renumbered, and the first difference."""
    used = sorted({rule for side in sides for mark in side["marks"] for rule in mark[3]})
    # Entry 3 of a mark holds its rules (see `replay_side`), from now on by their position among the rules that decide.
    for side in sides:
        for mark in side["marks"]:
            mark[3] = [used.index(rule) for rule in mark[3]]
    # Of each rule the advice, and its phrases with the conditions behind each.
    parts = [rule_parts(rules.rules[rule], space) for rule in used]
    for side, recording in zip(sides, pair, strict=True):
        side["holds"] = [
            [condition_changes(conditions, recording) for _, conditions in phrases] for _, phrases in parts
        ]
    return {
        "rules": [describe_rule(rules.rules[rule], space, "advice") for rule in used],
        "texts": [rules.rules[rule].text(space) for rule in used],
        "parts": [{"does": advice, "when": [words for words, _ in phrases]} for advice, phrases in parts],
        "branches_at": first_difference(pair),
        "traces": [
            *feature_traces(pair, [condition for rule in used for condition in rules.rules[rule].conditions], space),
            *_action_traces(pair, marks, space),
        ],
        "sides": sides,
    }
