"""The episode viewer: recorded episodes step by step, and the outcome of other actions.

- `list_episodes`, `show_episode`, `show_frames`: recorded episodes, drawn by the scene of the environment.
- `branch`: another action at a step, and both futures with the same random numbers.
- `repeat_branch`: the same with many new futures: the distribution of the difference, and its interval.
- `scan_episode`: the decisions of an episode that cost most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.engines import Failed
from legible.environments import Ending, Env, to_environment_actions
from legible.errors import LegibleError
from legible.formatting import counted, number, signed
from legible.mistakes import CHOICE_TAKEN, RolloutSetup, RolloutUnit, play_rollouts, points_of, record_futures
from legible.mistakes.decisions import other_choices
from legible.play import Experiences, Point
from legible.play.branching.generators import reseed
from legible.policies.protocol import MASKED
from legible.report.action_words import ActionWords
from legible.report.replays import no_window
from legible.report.scenes import PictureScene, Scene, scene_of
from legible.rules import RuleSet, gerund, third_person
from legible.server.desk import Desk, RequestError, number_of, text_of
from legible.server.jobs import Emit
from legible.workbench.looks import interval_of_differences

MOST_LISTED = 400
WINDOW = 100
"""Steps that are drawn at a time where an environment draws pictures."""
PICTURE_BYTES = 3_000_000
MOST_STEPS = 5000
"""Steps of an episode that are shown."""
FUTURES = 32
STEPS_BEFORE, STEPS_AFTER = 5, 150
"""Steps that are shown before a branch, and after it."""
SCAN_STEPS, SCAN_FUTURES = 40, 8
STEPS_BEFORE_END = 10
"""Steps before its end at which an episode is opened that has no proven mistake and no step that a rule changes."""
_LEVEL = 0.025
_KINDS = {1.0: "won", 0.0: "lost"}


class _Episode(NamedTuple):
    """One recorded episode: where it comes from, its number, and its first row and the row after its last one."""

    source: str
    seen: Experiences
    number: int
    first: int
    last: int

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.seen.seeds[self.number])

    @property
    def actions(self) -> NDArray[Any]:
        """The actions as the environment received them."""
        done = self.seen.actions if self.seen.space.is_discrete else self.seen.numbers
        return done[self.first : self.last]


def _episode(desk: Desk, body: Mapping[str, Any]) -> _Episode:
    source = text_of(body, "source", "experiences")
    if source not in desk.episodes:
        raise RequestError("there are no such recorded episodes.")
    seen = desk.episodes[source]
    chosen = number_of(body, "episode", seen.n_episodes)
    last = int(seen.lengths[: chosen + 1].sum())
    return _Episode(source, seen, chosen, last - int(seen.lengths[chosen]), last)


def list_episodes(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded episodes: seed, return, length, ending, proven mistakes, and steps that a rule would change."""
    source = text_of(body, "source", "experiences")
    if source not in desk.episodes:
        raise RequestError("there are no such recorded episodes.")
    seen = desk.episodes[source]
    changes = np.zeros(seen.n_episodes, np.int64)
    if source == "experiences" and body.get("rule"):
        _, changed, _ = desk.effects(desk.rules_of(body))
        counts = np.bincount(desk.recorded.episode_ids[changed], minlength=desk.recorded.n_episodes)
        changes[: len(counts)] = counts
    mistakes = np.zeros(seen.n_episodes, np.int64)
    if source == "mistakes" and desk.study is not None:
        rows = [mistake.row for mistake in desk.study.mistakes.listed]
        mistakes = np.bincount(seen.episode_ids[rows], minlength=seen.n_episodes)
    order = np.arange(seen.n_episodes)
    if seen.n_episodes > MOST_LISTED:
        keys = (seen.returns, -mistakes, -changes)
        order = np.sort(np.lexsort(keys)[:MOST_LISTED])
    rows_shown = [
        {
            "episode": int(i),
            "seed": int(seen.seeds[i]),
            "return": float(seen.returns[i]),
            "steps": int(seen.lengths[i]),
            "ending": _ending(seen, int(i)),
            "mistakes": int(mistakes[i]),
            "changes": int(changes[i]),
        }
        for i in order
    ]
    return {"episodes": rows_shown, "of": seen.n_episodes}


def _ending(seen: Experiences, i: int) -> str:
    text = str(seen.endings[i])
    words = Ending.parse(text).words if text else ""
    return words or _KINDS.get(float(seen.success[i]), "")


def show_episode(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an episode: frames, actions, features, preferences, firings of rules, and proven mistakes."""
    one = _episode(desk, body)
    seen, space = one.seen, one.seen.space
    rows = slice(one.first, min(one.last, one.first + MOST_STEPS))
    words = ActionWords(space)
    scores = np.where(seen.scores[rows] == MASKED, np.nan, seen.scores[rows].astype(np.float64))
    if desk.arena.policy.kind == "log-probabilities":
        scores = np.exp(scores)
    taken = seen.actions[rows]
    fires: dict[str, Any] = {}
    if body.get("rule") and one.source == "experiences":
        fires = _firings(desk, desk.rules_of(body), one)
    mistakes = _mistakes(desk, one)
    # The page opens an episode where it matters: at its first proven mistake, where the rule first changes it, or
    # shortly before its end.
    steps = one.last - one.first
    telling = [mistake["step"] for mistake in mistakes] or fires.get("changes") or [max(0, steps - STEPS_BEFORE_END)]
    start = min(telling[0], MOST_STEPS)
    return {
        **_frames(desk, one, max(0, start - STEPS_BEFORE)),
        "start": start,
        "source": one.source,
        "episode": one.number,
        "seed": one.seed,
        "of": seen.n_episodes,
        "steps": steps,
        "return": float(seen.returns[one.number]),
        "ending": _ending(seen, one.number),
        "actions": [words.number(action) for action in one.actions[:MOST_STEPS]],
        "words": words.words,
        "choices": taken.reshape(len(taken), -1).tolist(),
        "scores": [[None if np.isnan(x) else float(f"{x:.4g}") for x in row] for row in scores],
        "values": [[float(f"{x:.4g}") for x in row] for row in seen.observations[rows]],
        "mistakes": mistakes,
        **fires,
    }


def _firings(desk: Desk, rules: RuleSet, one: _Episode) -> dict[str, Any]:
    """Return the steps of an episode in which rules fire, and those in which they change the action."""
    fired, changed, choices = desk.effects(rules)
    rows = slice(one.first, one.last)
    used = list(dict.fromkeys(feature for rule in rules.rules for feature in rule.features))
    return {
        "fires": np.flatnonzero(fired[rows]).tolist(),
        "changes": np.flatnonzero(changed[rows]).tolist(),
        "instead": choices[rows][changed[rows]].tolist(),
        "used": used,
    }


def _mistakes(desk: Desk, one: _Episode) -> list[dict[str, Any]]:
    if one.source != "mistakes" or desk.study is None:
        return []
    space = one.seen.space
    found = [m for m in desk.study.mistakes.listed if one.first <= m.row < one.last]
    return [
        {"step": m.step, "taken": m.action, "better": m.better, "words": _better(space, m.action, m.better, m.gain)}
        for m in sorted(found, key=lambda mistake: mistake.step)
    ]


def _better(space: Any, taken: int, better: int, gain: float) -> str:
    did, instead = (gerund(space.actions[choice].label) for choice in (taken, better))
    return f"{instead} instead of {did} returns {number(gain)} more"


def show_frames(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pictures of some steps of an episode."""
    one = _episode(desk, body)
    return _frames(desk, one, number_of(body, "first", max(1, one.last - one.first + 1)))


def _frames(desk: Desk, one: _Episode, first: int) -> dict[str, Any]:
    """Return the frames of an episode: all, or a window from a step where pictures are drawn."""
    return _draw(desk, one.seed, one.actions[:MOST_STEPS], first, None)


def _draw(
    desk: Desk, seed: int, actions: NDArray[Any], first: int, future: tuple[int, int] | None, last: int | None = None
) -> dict[str, Any]:
    """Repeat actions from the seed and return frames, rewards and end.

    Parameters
    ----------
    desk, seed, actions
        The environment, and the episode.
    first, last
        Steps to show.
    future
        A step at which the random numbers change, and their seed.
    """
    with no_window():
        env, scene = scene_of(desk.arena.environment, desk.space, range(min(12, len(desk.space))), PICTURE_BYTES)
        try:
            until = len(actions) if last is None else min(last, len(actions))
            if isinstance(scene, PictureScene):
                first = max(0, min(first, until))
                until = min(until, first + WINDOW - 1)
            else:
                first = first if last is not None else 0
            rewards, ended = _replay(env, scene, seed, actions, first, until, future)
            frames = scene.frames()
        finally:
            env.close()
    return {"kind": scene.kind, "layout": scene.layout, "frames": frames, "first": first, "until": until,
            "rewards": rewards, "ended": ended}  # fmt: skip


def _replay(
    env: Env, scene: Scene, seed: int, actions: NDArray[Any], first: int, until: int, future: tuple[int, int] | None
) -> tuple[list[float], str]:
    scene.begin(until - first, [])
    observation, info = env.reset(seed=seed)
    rewards: list[float] = []
    over = False
    for step, action in enumerate(to_environment_actions(env.action_space, actions[:until])):
        if step >= first:
            scene.see(env, observation, step - first)
        if future is not None and step == future[0]:
            reseed(env, future[1])
        observation, reward, terminated, truncated, info = env.step(action)
        rewards.append(float(f"{float(reward):.6g}"))
        over = bool(terminated or truncated)
        if over and step + 1 < until:
            raise LegibleError(f"the episode with seed {seed} cannot be repeated: it is over after step {step + 1}.")
    scene.see(env, observation, until - first)
    if not over:
        return rewards, "shown so far"
    return rewards, {True: "success", False: "failure"}[bool(info["is_success"])] if "is_success" in info else "end"


class _Fork(NamedTuple):
    """A decision of a recorded episode and the choice to take there instead."""

    one: _Episode
    step: int
    choice: int
    point: Point


def _fork(desk: Desk, body: Mapping[str, Any]) -> _Fork:
    one = _episode(desk, body)
    step = number_of(body, "step", one.last - one.first)
    choice = number_of(body, "choice", len(one.seen.space.actions))
    row = one.first + step
    if one.seen.scores[row, choice] == MASKED:
        raise RequestError("the environment does not allow this action here.")
    if choice in one.seen.actions[row].reshape(-1):
        raise RequestError("the policy takes this action; choose another one.")
    (point,) = points_of(one.seen, np.array([row]))
    return _Fork(one, step, choice, point)


def _rollouts(desk: Desk, future: Any) -> RolloutSetup:
    found = desk.branching
    if found.way is None:
        raise LegibleError(f"this environment cannot return to a decision: {found.problem}")
    return RolloutSetup(desk.arena.setup.policy, desk.arena.environment, found.way, future, desk.arena.settings.play)


def branch(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return both futures of a decision, with the same random numbers: as it was, and with another action."""
    fork = _fork(desk, body)
    one, space = fork.one, fork.one.seen.space
    unit = RolloutUnit((fork.point,), np.array([[CHOICE_TAKEN, fork.choice]]), np.array([[one.seed]]))
    recordings = record_futures(_rollouts(desk, "same"), unit)
    words, first = ActionWords(space), max(0, fork.step - STEPS_BEFORE)
    sides, returns = [], []
    for recording in recordings:
        actions = np.concatenate([fork.point.actions[: fork.step], recording.actions])
        drawn = _draw(desk, one.seed, actions, first, None, last=fork.step + STEPS_AFTER)
        shown = actions[first : drawn["until"]]
        returns.append(float(recording.rewards.sum()))
        sides.append(
            {
                "return": float(sum(drawn["rewards"][first:])),
                "end": drawn["ended"],
                "actions": [words.number(action) for action in shown],
                "rewards": drawn["rewards"][first:],
                "drawn": [],
                "marks": [],
                "frames": drawn["frames"],
            }
        )
    row = one.first + fork.step
    taken = one.seen.actions[row].reshape(-1)
    did = space.actions[int(taken[space.group_of(fork.choice)])].label
    difference = returns[1] - returns[0]
    lengths = [len(recording.actions) for recording in recordings]
    return {
        "replay": {
            "seed": one.seed,
            "why": f"step {fork.step} and what follows, with the same random numbers",
            "kind": drawn["kind"],
            "layout": drawn["layout"],
            "actions": words.words,
            "rules": [],
            "names": [f"As played: it {third_person(did)}", f"What if: {space.actions[fork.choice].label}"],
            "tracks": ["as played", "what if"],
            "first": first,
            "branches_at": fork.step - first,
            "sides": sides,
        },
        "sentence": f"From here on it returned {number(returns[0])} in {lengths[0]} steps; with this action it would "
        f"have returned {number(returns[1])} in {lengths[1]}: {signed(difference)} in this one future.",
        "largest": _largest_difference(sides),
    }  # fmt: skip


def _largest_difference(sides: Sequence[Mapping[str, Any]]) -> int:
    """Return the shown step at which the returns of both sides differ most."""
    longest = max(len(side["rewards"]) for side in sides)
    sums = [np.cumsum(np.pad(side["rewards"], (0, longest - len(side["rewards"])))) for side in sides]
    return int(np.argmax(np.abs(sums[0] - sums[1]))) if longest else 0


def repeat_branch(desk: Desk, body: Mapping[str, Any], emit: Emit) -> None:
    """Play many new futures after both actions, and send the differences with their interval."""
    fork = _fork(desk, body)
    random = desk.branching.futures == "random" or _draws(desk)
    count = FUTURES if random and desk.branching.futures != "cannot be reseeded" else 1
    start = number_of(body, "again", 1000, 0) * FUTURES
    seeds = _future_seeds(fork.one.seed, fork.step, start, count)
    setup = _rollouts(desk, "new" if count > 1 else "same")
    emit({"kind": "progress", "stage": "futures", "done": 0, "of": 2 * count})
    unit = RolloutUnit((fork.point,), np.array([[CHOICE_TAKEN, fork.choice]]), np.array([seeds]))
    (returns,) = _play(desk, setup, [unit])
    taken, other = returns
    differences = other - taken
    emit(
        {
            "kind": "distribution",
            "taken": taken.tolist(),
            "other": other.tolist(),
            "differences": differences.tolist(),
            **_judged(differences, fork.one.seed),
        }
    )


def _judged(differences: NDArray[np.float64], seed: int) -> dict[str, Any]:
    mean, n = float(differences.mean()), len(differences)
    if n == 1:
        return {"mean": mean, "sentence": f"Nothing is random after this step: the difference is {signed(mean)}."}
    interval = interval_of_differences(differences, _LEVEL, seed)
    better, worse = int((differences > 0).sum()), int((differences < 0).sum())
    verdict = {1: "The other action is better", -1: "The other action is worse", 0: "Undecided"}[interval.side]
    return {
        "mean": mean,
        "low": interval.low,
        "high": interval.high,
        "sentence": f"{verdict}: {signed(mean)} ({signed(interval.low)} to {signed(interval.high)}, 95 %) from here "
        f"on; better in {better} of {n} futures, worse in {worse}.",
    }


def _draws(desk: Desk) -> bool:
    play = desk.arena.settings.play
    return bool(play.sample or play.epsilon)


def _future_seeds(seed: int, step: int, start: int, count: int) -> list[int]:
    """Return seeds of new futures of a decision."""
    rng = np.random.default_rng([seed, step])
    return rng.integers(2**31, size=start + count)[start:].tolist()


def _play(desk: Desk, setup: RolloutSetup, units: Sequence[RolloutUnit]) -> list[NDArray[np.float64]]:
    """Return the returns of units, ``[decisions, choices, futures]`` joined over units."""
    found: dict[int, NDArray[np.float64]] = {}
    for outcome in desk.arena.engine.run(
        play_rollouts, setup, units, time_limit=desk.arena.settings.time_limit or None
    ):
        if isinstance(outcome, Failed):
            raise outcome.exception or LegibleError(f"the futures could not be played: {outcome.error}.")
        found[outcome.index] = outcome.result.returns
    return [one for i in range(len(units)) for one in found[i]]


def scan_episode(desk: Desk, body: Mapping[str, Any], emit: Emit) -> None:
    """Look at the last decisions up to a step, and send how much the best other action would have added at each.

    The decision with the largest gain is played again with new futures, so that its gain is not overstated.
    """
    one = _episode(desk, body)
    until = number_of(body, "until", one.last - one.first + 1, one.last - one.first)
    steps = list(range(max(0, until - SCAN_STEPS), until))[::-1]
    random = desk.branching.futures == "random" or _draws(desk)
    has_futures = random and desk.branching.futures != "cannot be reseeded"
    count = SCAN_FUTURES if has_futures else 1
    setup = _rollouts(desk, "new" if has_futures else "same")
    rows = np.array([one.first + step for step in steps])
    points = points_of(one.seen, rows)
    choices = other_choices(one.seen.space, one.seen.actions[rows], one.seen.scores[rows])
    gains: list[dict[str, Any]] = []
    part = 8
    for at in range(0, len(steps), part):
        emit({"kind": "progress", "stage": "decisions", "done": at, "of": len(steps)})
        units = [
            RolloutUnit((points[i],), choices[i : i + 1], np.array([_future_seeds(one.seed, steps[i], 0, count)]))
            for i in range(at, min(at + part, len(steps)))
        ]
        for i, returns in enumerate(_play(desk, setup, units), start=at):
            means = returns.mean(axis=1) - returns[0].mean()
            best = int(np.argmax(means))
            choice = int(choices[i, best])
            if choice != CHOICE_TAKEN:
                gains.append({"step": steps[i], "choice": choice, "gain": float(means[best])})
        emit({"kind": "gains", "gains": gains})
    if not gains or max(found["gain"] for found in gains) <= 0.0:
        emit({"kind": "done", "sentence": f"No other action would have been better in {counted(len(steps), 'step')}."})
        return
    worst = max(gains, key=lambda found: found["gain"])
    i = steps.index(worst["step"])
    seeds = _future_seeds(one.seed, worst["step"], SCAN_FUTURES, FUTURES if has_futures else 1)
    unit = RolloutUnit((points[i],), np.array([[CHOICE_TAKEN, worst["choice"]]]), np.array([seeds]))
    (returns,) = _play(desk, setup, [unit])
    judged = _judged(returns[1] - returns[0], one.seed)
    space, taken = one.seen.space, one.seen.actions[rows[i]].reshape(-1)
    did = gerund(space.actions[int(taken[space.group_of(worst["choice"])])].label)
    instead = gerund(space.actions[worst["choice"]].label)
    # One future decides where nothing is random; otherwise the interval of the new futures has to be above zero.
    is_clear = judged.get("low", judged["mean"]) > 0.0
    words = "The costliest" if is_clear else "Perhaps the costliest"
    emit(
        {
            "kind": "done",
            "step": worst["step"],
            "choice": worst["choice"],
            **judged,
            "sentence": f"{words} of the {counted(len(steps), 'decision')} before step {until} is step "
            f"{worst['step']}: {did} instead of {instead}. {judged['sentence']}",
        }
    )
