"""The episode viewer: recorded episodes step by step, and the outcome of other actions.

- `list_episodes`, `show_episode`, `show_frames`: recorded episodes, drawn by the scene of the environment.
- `branch`: another action at a step, and both futures with the same random numbers.
- `repeat_branch`: the same with many new futures: the distribution of the difference, and its interval.
- `scan_episode`: the decisions of an episode that cost most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

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
SCANNED_AT_ONCE = 8  # decisions
STEPS_BEFORE_END = 10
"""Steps before its end at which an episode is opened that has no proven mistake and no step that a rule changes."""
_LEVEL = 0.025
_KINDS = {1.0: "won", 0.0: "lost"}


class _Episode(NamedTuple):
    """One recorded episode.

    `source` is the stage that recorded it, `experiences` holds all episodes of that stage, `number` is its number among
    them. Its steps are the rows from `first_row` up to but not including `end_row`.
    """

    source: str
    experiences: Experiences
    number: int
    first_row: int
    end_row: int

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.experiences.seeds[self.number])

    @property
    def steps(self) -> int:
        """Its number of steps."""
        return self.end_row - self.first_row

    @property
    def actions(self) -> NDArray[Any]:
        """The actions as the environment received them."""
        is_discrete = self.experiences.space.is_discrete
        done = self.experiences.actions if is_discrete else self.experiences.numbers
        return done[self.first_row : self.end_row]


def _requested_episodes(desk: Desk, body: Mapping[str, Any]) -> tuple[str, Experiences]:
    """Return the stage that a request names, and the episodes that it recorded."""
    source = text_of(body, "source", "experiences")
    if source not in desk.episodes:
        raise RequestError("there are no such recorded episodes.")
    return source, desk.episodes[source]


def _requested_episode(desk: Desk, body: Mapping[str, Any]) -> _Episode:
    source, experiences = _requested_episodes(desk, body)
    number = number_of(body, "episode", experiences.n_episodes)
    end_row = int(experiences.lengths[: number + 1].sum())
    return _Episode(source, experiences, number, end_row - int(experiences.lengths[number]), end_row)


def list_episodes(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded episodes: seed, return, length, ending, proven mistakes, and steps that a rule would change."""
    source, experiences = _requested_episodes(desk, body)
    n_episodes = experiences.n_episodes

    # Per episode, the steps that the rule on the bench would change, and the proven mistakes.
    changes, mistakes = np.zeros(n_episodes, np.int64), np.zeros(n_episodes, np.int64)
    if source == "experiences" and body.get("rule"):
        _, is_changed, _ = desk.effects(desk.rules_of(body))  # of the episodes at the desk, which are the first ones
        counts = np.bincount(desk.recorded.episode_ids[is_changed], minlength=desk.recorded.n_episodes)
        changes[: len(counts)] = counts
    if source == "mistakes" and desk.study is not None:
        rows = [mistake.row for mistake in desk.study.mistakes.listed]
        mistakes = np.bincount(experiences.episode_ids[rows], minlength=n_episodes)

    # If there are too many for a page: those that the rule changes most, then those with most mistakes, then those with
    # the lowest returns. (The last key of `lexsort` counts first.)
    listed = np.arange(n_episodes)
    if n_episodes > MOST_LISTED:
        listed = np.sort(np.lexsort((experiences.returns, -mistakes, -changes))[:MOST_LISTED])
    episodes = [
        {
            "episode": number,
            "seed": int(experiences.seeds[number]),
            "return": float(experiences.returns[number]),
            "steps": int(experiences.lengths[number]),
            "ending": _ending(experiences, number),
            "mistakes": int(mistakes[number]),
            "changes": int(changes[number]),
        }
        for number in listed.tolist()
    ]
    return {"episodes": episodes, "of": n_episodes}


def _ending(experiences: Experiences, number: int) -> str:
    """Return how an episode ended, in words; "" if that is unknown."""
    ending = str(experiences.endings[number])
    words = Ending.parse(ending).words if ending else ""
    return words or _KINDS.get(float(experiences.success[number]), "")


def show_episode(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an episode: frames, actions, features, preferences, firings of rules, and proven mistakes."""
    episode = _requested_episode(desk, body)
    experiences, space = episode.experiences, episode.experiences.space
    rows = slice(episode.first_row, min(episode.end_row, episode.first_row + MOST_STEPS))
    words = ActionWords(space)

    # The policy's preferences, [steps, choices]: probabilities where it has some; None for actions that are masked.
    scores = np.where(experiences.scores[rows] == MASKED, np.nan, experiences.scores[rows].astype(np.float64))
    if desk.arena.policy.kind == "log-probabilities":
        scores = np.exp(scores)
    choices = experiences.actions[rows]

    # The page opens the episode where it matters: at its first proven mistake, where the rule on the bench first
    # changes it, or shortly before its end.
    mistakes = _mistakes(desk, episode)
    firings: dict[str, Any] = {}
    if body.get("rule") and episode.source == "experiences":
        firings = _firings(desk, desk.rules_of(body), episode)
    telling_steps = [mistake["step"] for mistake in mistakes] or firings.get("changes")
    start = telling_steps[0] if telling_steps else max(0, episode.steps - STEPS_BEFORE_END)
    start = min(start, MOST_STEPS)
    frames = _draw(desk, episode.seed, episode.actions[:MOST_STEPS], max(0, start - STEPS_BEFORE), future=None)
    return {
        **frames,
        "start": start,
        "source": episode.source,
        "episode": episode.number,
        "seed": episode.seed,
        "of": experiences.n_episodes,
        "steps": episode.steps,
        "return": float(experiences.returns[episode.number]),
        "ending": _ending(experiences, episode.number),
        "actions": [words.number(action) for action in episode.actions[:MOST_STEPS]],
        "words": words.words,
        "choices": choices.reshape(len(choices), -1).tolist(),
        "scores": [[None if np.isnan(score) else float(f"{score:.4g}") for score in row] for row in scores],
        "values": [[float(f"{value:.4g}") for value in row] for row in experiences.observations[rows]],
        "mistakes": mistakes,
        **firings,
    }


def _firings(desk: Desk, rules: RuleSet, episode: _Episode) -> dict[str, Any]:
    """Return the steps of an episode in which rules fire, and those in which they change the action."""
    is_fired, is_changed, choices = desk.effects(rules)
    rows = slice(episode.first_row, episode.end_row)
    features_used = list(dict.fromkeys(feature for rule in rules.rules for feature in rule.features))
    return {
        "fires": np.flatnonzero(is_fired[rows]).tolist(),
        "changes": np.flatnonzero(is_changed[rows]).tolist(),
        "instead": choices[rows][is_changed[rows]].tolist(),
        "used": features_used,
    }


def _mistakes(desk: Desk, episode: _Episode) -> list[dict[str, Any]]:
    """Return the proven mistakes of an episode, in the order of their steps."""
    if episode.source != "mistakes" or desk.study is None:
        return []
    space = episode.experiences.space
    mistakes = [m for m in desk.study.mistakes.listed if episode.first_row <= m.row < episode.end_row]
    return [
        {
            "step": m.step,
            "taken": m.action,
            "better": m.better,
            "gain": m.gain,
            "words": _better(space, m.action, m.better, m.gain),
        }
        for m in sorted(mistakes, key=lambda mistake: mistake.step)
    ]


def _better(space: Any, taken: int, better: int, gain: float) -> str:
    did, instead = (gerund(space.actions[choice].label) for choice in (taken, better))
    return f"{instead} instead of {did} returns {number(gain)} more"


def show_frames(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the frames of an episode: all, or a window from a step on where the environment draws pictures."""
    episode = _requested_episode(desk, body)
    first = number_of(body, "first", episode.steps + 1)
    return _draw(desk, episode.seed, episode.actions[:MOST_STEPS], first, None)


def _draw(
    desk: Desk, seed: int, actions: NDArray[Any], first: int, future: tuple[int, int] | None, last: int | None = None
) -> dict[str, Any]:
    """Repeat actions from the seed and return frames, rewards and end.

    Parameters
    ----------
    desk, seed, actions
        The environment, and the episode.
    first, last
        Steps to show; by default to the end. Of pictures, at most `WINDOW` are shown; what is drawn from numbers is
        small, so that without a `last` step the whole episode is shown.
    future
        A step at which the random numbers change, and their seed; None: they are those of the episode.
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
    """Play the actions before step `until`, show the scene every state from step `first` on; return rewards and end.

    The end is one of the words that the player knows: success, failure, end, or shown so far.
    """
    scene.begin(until - first, [])
    observation, info = env.reset(seed=seed)
    rewards: list[float] = []
    over = False
    for step, action in enumerate(to_environment_actions(env.action_space, actions[:until])):
        if step >= first:
            scene.see(env, observation, step - first)
        if future is not None and step == future[0]:  # (step, seed)
            reseed(env, future[1])
        observation, reward, terminated, truncated, info = env.step(action)
        rewards.append(float(f"{float(reward):.6g}"))
        over = bool(terminated or truncated)
        if over and step + 1 < until:
            raise LegibleError(f"the episode with seed {seed} cannot be repeated: it is over after step {step + 1}.")
    scene.see(env, observation, until - first)
    if not over:
        return rewards, "shown so far"
    if "is_success" not in info:
        return rewards, "end"
    return rewards, "success" if info["is_success"] else "failure"


class _Decision(NamedTuple):
    """A decision of a recorded episode, and the choice (an action, or a part of one) to take there instead.

    `point` is all that is needed to return to it.
    """

    episode: _Episode
    step: int
    choice: int
    point: Point


def _requested_decision(desk: Desk, body: Mapping[str, Any]) -> _Decision:
    episode = _requested_episode(desk, body)
    experiences = episode.experiences
    step = number_of(body, "step", episode.steps)
    choice = number_of(body, "choice", len(experiences.space.actions))
    row = episode.first_row + step
    if experiences.scores[row, choice] == MASKED:
        raise RequestError("the environment does not allow this action here.")
    if choice in experiences.actions[row].reshape(-1):
        raise RequestError("the policy takes this action; choose another one.")
    (point,) = points_of(experiences, np.array([row]))
    return _Decision(episode, step, choice, point)


def _label_of_taken(episode: _Episode, step: int, choice: int) -> str:
    """Return the words for what the policy did at a step instead of a choice: the part of its action that differs."""
    space = episode.experiences.space
    taken = episode.experiences.actions[episode.first_row + step].reshape(-1)
    return space.actions[int(taken[space.group_of(choice)])].label


def _rollout_setup(desk: Desk, *, new_futures: bool) -> RolloutSetup:
    """Return how the policy is played on from a decision: with the random numbers of the episode, or with new ones."""
    branching, arena = desk.branching, desk.arena
    if branching.way is None:
        raise LegibleError(f"this environment cannot return to a decision: {branching.problem}")
    future: Literal["new", "same"] = "new" if new_futures else "same"
    return RolloutSetup(arena.setup.policy, arena.environment, branching.way, future, arena.settings.play)


def _has_several_futures(desk: Desk) -> bool:
    """Return whether anything that follows a decision is random, and can be drawn anew."""
    play, futures = desk.arena.settings.play, desk.branching.futures
    return bool(futures == "random" or play.sample or play.epsilon) and futures != "cannot be reseeded"


def branch(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return both futures of a decision, with the same random numbers: as it was, and with another action."""
    decision = _requested_decision(desk, body)
    episode, step, space = decision.episode, decision.step, decision.episode.experiences.space
    unit = RolloutUnit((decision.point,), np.array([[CHOICE_TAKEN, decision.choice]]), np.array([[episode.seed]]))
    as_played, what_if = record_futures(_rollout_setup(desk, new_futures=False), unit)

    # Each future becomes one half of the replay viewer's screen, starting shortly before the decision.
    words, first = ActionWords(space), max(0, step - STEPS_BEFORE)
    sides: list[dict[str, Any]] = []
    for future in (as_played, what_if):
        actions = np.concatenate([decision.point.actions[:step], future.actions])
        drawn = _draw(desk, episode.seed, actions, first, future=None, last=step + STEPS_AFTER)
        sides.append(
            {
                "return": float(sum(drawn["rewards"])),
                "earned": float(sum(drawn["rewards"][:first])),  # before the first step shown
                "end": drawn["ended"],
                "actions": [words.number(action) for action in actions[first : drawn["until"]]],
                "rewards": drawn["rewards"][first:],
                "drawn": [],  # random actions: not marked here
                "marks": [],  # steps in which a rule changed the action: no rules guide these futures
                "frames": drawn["frames"],
            }
        )

    # Both are compared to their ends, which may be later than what is shown.
    return_as_played, return_what_if = (float(future.rewards.sum()) for future in (as_played, what_if))
    did = _label_of_taken(episode, step, decision.choice)
    return {
        "replay": {
            "seed": episode.seed,
            "why": f"step {step} and what follows, with the same random numbers",
            "kind": drawn["kind"],
            "layout": drawn["layout"],
            "actions": words.words,
            "rules": [],
            "names": [f"As played: it {third_person(did)}", f"What if: {space.actions[decision.choice].label}"],
            "tracks": ["as played", "what if"],
            "first": first,
            "branches_at": step - first,
            "sides": sides,
        },
        "sentence": f"From here on it returned {number(return_as_played)} in {len(as_played.actions)} steps; with this "
        f"action it would have returned {number(return_what_if)} in {len(what_if.actions)}: "
        f"{signed(return_what_if - return_as_played)} in this one future.",
        "largest": _largest_difference(sides),
    }


def _largest_difference(sides: Sequence[Mapping[str, Any]]) -> int:
    """Return the shown step at which the returns of both sides differ most."""
    longest = max(len(side["rewards"]) for side in sides)
    sums = [np.cumsum(np.pad(side["rewards"], (0, longest - len(side["rewards"])))) for side in sides]
    return int(np.argmax(np.abs(sums[0] - sums[1]))) if longest else 0


def repeat_branch(desk: Desk, body: Mapping[str, Any], emit: Emit) -> None:
    """Play many new futures after both actions, and send the differences with their interval."""
    decision = _requested_decision(desk, body)
    has_several = _has_several_futures(desk)
    count = FUTURES if has_several else 1
    used_before = number_of(body, "again", 1000, 0) * FUTURES  # futures of earlier repetitions
    emit({"kind": "progress", "stage": "futures", "done": 0, "of": 2 * count})
    seeds = _future_seeds(decision.episode.seed, decision.step, used_before, count)
    unit = RolloutUnit((decision.point,), np.array([[CHOICE_TAKEN, decision.choice]]), np.array([seeds]))
    ((returns_taken, returns_other),) = _play(desk, _rollout_setup(desk, new_futures=has_several), [unit])
    differences = returns_other - returns_taken
    emit(
        {
            "kind": "distribution",
            "taken": returns_taken.tolist(),
            "other": returns_other.tolist(),
            "differences": differences.tolist(),
            **_judged(differences, decision.episode.seed),
        }
    )


def _judged(differences: NDArray[np.float64], seed: int) -> dict[str, Any]:
    """Return the mean of the differences between two actions over futures, with its interval, and a sentence."""
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


def _future_seeds(seed: int, step: int, start: int, count: int) -> list[int]:
    """Return seeds of new futures of a decision."""
    rng = np.random.default_rng([seed, step])
    return rng.integers(2**31, size=start + count)[start:].tolist()


def _play(desk: Desk, setup: RolloutSetup, units: Sequence[RolloutUnit]) -> list[NDArray[np.float64]]:
    """Return the returns of every decision of the units, ``[choices, futures]`` each."""
    returns: dict[int, NDArray[np.float64]] = {}  # by unit: [decisions, choices, futures]
    time_limit = desk.arena.settings.time_limit or None
    for outcome in desk.arena.engine.run(play_rollouts, setup, units, time_limit=time_limit):
        if isinstance(outcome, Failed):
            raise outcome.exception or LegibleError(f"the futures could not be played: {outcome.error}.")
        returns[outcome.index] = outcome.result.returns
    return [of_decision for index in range(len(units)) for of_decision in returns[index]]


def scan_episode(desk: Desk, body: Mapping[str, Any], emit: Emit) -> None:
    """Look at the last decisions up to a step, and send how much the best other action would have added at each.

    If a proven mistake of the study is among them, that is the answer. Otherwise the decision with the largest gain is
    played again with new futures, so that its gain is not overstated.
    """
    # The decisions, the last one first, and the choices to compare at each: [decisions, choices].
    episode = _requested_episode(desk, body)
    experiences = episode.experiences
    until = number_of(body, "until", episode.steps + 1, episode.steps)
    steps = list(range(max(0, until - SCAN_STEPS), until))[::-1]
    rows = np.array([episode.first_row + step for step in steps])
    points = points_of(experiences, rows)
    choices = other_choices(experiences.space, experiences.actions[rows], experiences.scores[rows])
    has_several = _has_several_futures(desk)
    setup = _rollout_setup(desk, new_futures=has_several)

    def unit_of(index: int, compared: NDArray[np.int64], used_before: int, futures: int) -> RolloutUnit:
        """Return a decision with the choices to compare, and futures other than the `used_before` first ones."""
        seeds = _future_seeds(episode.seed, steps[index], used_before, futures if has_several else 1)
        return RolloutUnit((points[index],), compared[None], np.array([seeds]))

    # The best other action at each decision, a few decisions at a time so that the page can draw them.
    gains: list[dict[str, Any]] = []
    for first in range(0, len(steps), SCANNED_AT_ONCE):
        emit({"kind": "progress", "stage": "decisions", "done": first, "of": len(steps)})
        indices = range(first, min(first + SCANNED_AT_ONCE, len(steps)))
        units = [unit_of(index, choices[index], used_before=0, futures=SCAN_FUTURES) for index in indices]
        for index, returns in zip(indices, _play(desk, setup, units), strict=True):
            mean_gains = returns.mean(axis=1) - returns[0].mean()  # the first choice is the one that was taken
            best = int(np.argmax(mean_gains))
            if choices[index, best] != CHOICE_TAKEN:
                gains.append(
                    {"step": steps[index], "choice": int(choices[index, best]), "gain": float(mean_gains[best])}
                )
        emit({"kind": "gains", "gains": gains})
    among = f"of the {counted(len(steps), 'decision')} before step {until}"
    proven = [mistake for mistake in _mistakes(desk, episode) if mistake["step"] in steps]
    if proven:
        mistake = max(proven, key=lambda found: found["gain"])
        sentence = f"The costliest proven mistake {among} is step {mistake['step']}: {mistake['words']}."
        emit({"kind": "done", "step": mistake["step"], "choice": mistake["better"], "sentence": sentence})
        return
    if not gains or max(found["gain"] for found in gains) <= 0.0:
        emit({"kind": "done", "sentence": f"No other action would have been better in {counted(len(steps), 'step')}."})
        return

    # Play the decision with the largest gain again.
    largest = max(gains, key=lambda found: found["gain"])
    step, choice = largest["step"], largest["choice"]
    compared = np.array([CHOICE_TAKEN, choice])
    unit = unit_of(steps.index(step), compared, used_before=SCAN_FUTURES, futures=FUTURES)
    ((returns_taken, returns_other),) = _play(desk, setup, [unit])
    judged = _judged(returns_other - returns_taken, episode.seed)
    if judged["mean"] <= 0.0:
        emit({"kind": "done", "sentence": f"No costly decision was found among the {counted(len(steps), 'decision')} "
              f"before step {until}: no other action is better on average in new futures."})  # fmt: skip
        return
    is_clear = judged.get("low", judged["mean"]) > 0.0  # a single future has no interval
    did = gerund(_label_of_taken(episode, step, choice))
    instead = gerund(experiences.space.actions[choice].label)
    costliest = "The costliest" if is_clear else "Perhaps the costliest"
    sentence = f"{costliest} {among} is step {step}: {did} instead of {instead}. {judged['sentence']}"
    emit({"kind": "done", "step": step, "choice": choice, **judged, "sentence": sentence})
