"""The check of an environment and a policy before a study (`check_env`): a `Finding` answers each question."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from legible.engines import LocalProcesses, UnitFailedError
from legible.environments import (
    Env,
    EnvironmentSpec,
    FeatureMap,
    ObservationEncoder,
    UnfitEnvironmentError,
    allowed_action,
    check_action_space,
    check_finite,
    check_policy_spaces,
    count_actions,
    explain_outside,
    find_feature_map,
    first_action,
    is_flat,
    map_features,
    reset_environment,
    step_environment,
    with_features,
)
from legible.environments.feature_readers import ObservationReader, flat_width
from legible.evaluation.units import Setup
from legible.features import FeatureSpace, cut_choices, is_cut
from legible.formatting import counted, duration, number
from legible.play import (
    adapt_policy,
    check_can_be_studied,
    check_spaces_fit,
    environment_for,
    explain_not_studied,
    find_branching_method,
    reads_features,
)
from legible.play.choosing import explain_not_flat
from legible.play.vector_envs import vector_problem
from legible.policies import Policy, ScoreKind, acting
from legible.policies.protocol import lacks_fallback, traits_of
from legible.relations import ChosenRelations, resolve_relations
from legible.settings import StudySettings
from legible.study.estimate import estimate, is_native, measure_rate, settings_for
from legible.study.inputs import load_policy_for
from legible.study.running import run_within_limit

MOST_STEPS, MOST_SECONDS, EPISODES = 2000, 5.0, 3
MOST_NAMED, MANY_FEATURES = 8, 500
FASTER = 3
IMPORT_SECONDS = 120.0  # additional time for the imports that making an environment may need

Answer = Literal["yes", "no", "mind"]


@dataclass(frozen=True)
class Finding:
    """One answer: what was asked, whether it is well ("mind": it works, but something should be known), and details.

    `about` says whether the environment or the policy is the reason.
    """

    question: str
    answer: Answer
    details: str
    about: Literal["environment", "policy"] = "environment"


@dataclass(frozen=True)
class _Walk:
    """One episode of random actions: observations, rewards, and whether it ended by itself."""

    observations: NDArray[np.float32]
    rewards: NDArray[np.float64]
    over: bool


def check_env(
    spec: EnvironmentSpec,
    policy: str | Policy | None = None,
    *,
    names: str | Path | FeatureSpace | None = None,
    features: str | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    on_features: Callable[[FeatureSpace], None] | None = None,
) -> list[Finding]:
    """Return findings on whether an environment, and a policy if one is given, are fit for a study.

    Each finding is a question ("observations", "action masks", …) with an answer: "yes", "no", or "mind" for something
    to know. The environment has the wrappers and arguments that the policy's files name.

    Parameters
    ----------
    spec, policy
        The environment: its id, arguments and wrappers. A policy, or its path; None checks the environment alone.
    names, features
        Names of features and actions, or a TOML file with them; what rules see, if that is not the observation.
    seed, time_limit
        Seed of the first episode; seconds after which an episode is given up, in another process.
    on_features
        Called with the features and actions, as far as they are known; if features have no names, their kinds (numeric
        or categorical) are guessed.
    """
    spec.make().close()  # what cannot be made is an error, not a finding
    findings: list[Finding] = []
    try:
        for finding in _ask(spec, policy, names, features, seed, time_limit, on_features or (lambda _: None)):
            findings.append(finding)  # noqa: PERF402 (findings before an error are kept)
    except (UnfitEnvironmentError, UnitFailedError) as error:
        findings.append(Finding("fit for a study", "no", str(error)))
    return findings


def _ask(
    spec: EnvironmentSpec,
    source: str | Policy | None,
    names: str | Path | FeatureSpace | None,
    features: str | None,
    seed: int,
    time_limit: float | None,
    on_features: Callable[[FeatureSpace], None],
) -> Iterator[Finding]:
    """Yield the findings on an environment and a policy one by one, the cheapest first; see `check_env`."""
    policy = None if source is None else load_policy_for(spec, source, features=features)
    spec = environment_for(policy, spec)  # with the wrappers that the policy was trained with
    if spec.wrappers:
        yield Finding("wrappers", "yes", ", ".join(spec.wrappers))
    # Questions that an environment answers without being played: spaces, features, actions, masks.
    env = spec.make()
    try:
        unsupported = _find_unsupported(env, policy, features)
        if unsupported is not None:
            yield unsupported
            return
        mapped = map_features(env, names, features)
        space, relations = mapped.space, resolve_relations(env, mapped.space)
        yield from _describe_features(mapped)
        problem = None if policy is None else explain_not_studied(policy)
        if policy is not None and problem is None and isinstance(mapped.reader, ObservationReader):
            problem = explain_not_flat(policy)  # rules cannot read pictures and dictionaries number by number
        if policy is not None and problem is None:
            # An environment that shows features already is checked by itself, any other one with the features mapped.
            check_can_be_studied(policy, env, None if find_feature_map(env) is not None else mapped)
        # From here on the environment shows the features of rules. Without a policy, an untrained one is timed.
        spec, observation_space = with_features(spec, mapped), env.observation_space
        untrained = _Untrained(flat_width(env.observation_space), env.action_space)
        player = adapt_policy(policy or untrained, spec, cut_choices(space))
    finally:
        env.close()
    # Questions that episodes of random actions answer; the first one is played again, to see whether it is the same.
    walks, repeated_walks = _play_walks(spec, seed, time_limit)
    yield _same_again(walks[0], repeated_walks, seed)
    yield _branching(spec, seed, time_limit)
    yield _seeds_matter(walks, spec, seed, time_limit)
    yield _inside(observation_space, mapped, walks)
    yield _ends(walks)
    is_named = mapped.names.is_named
    on_features(space if is_named else space.guess_kinds(_features_seen(space, walks)))
    yield _kinds(space, walks, is_named=is_named)
    yield from _what_to_improve(mapped, walks)
    yield _relations(relations)
    # The policy: whether it can be studied, what it reads, and how long a study would take.
    if problem is not None:
        yield Finding("policy", "no", problem, about="policy")
        return
    if policy is not None:
        # Where rules see something else than the whole observation, the policy still reads the observation.
        reads_own = bool(features) or not mapped.reader.holds_observation
        yield _describe_policy(policy, space, reads_own=reads_own)
        yield _kind_of(policy, player, mapped)
    remark = "" if policy is not None else ", played by an untrained policy; give POLICY for a better guess"
    yield from _times(spec, player, remark, time_limit)


def _describe_features(mapped: FeatureMap) -> Iterator[Finding]:
    """Yield the findings on features, actions and action masks, which need no play."""
    space = mapped.space
    yield Finding("observations", "yes", _feature_words(mapped))
    yield Finding("features", "yes", _list_features(space))
    if space.derived is not None:
        derived = [f"{feature.name} = {feature.expression}" for feature in space.features[space.n_own :]]
        yield Finding("derived features", "yes", ", ".join(derived))
    yield Finding("actions", "yes", _action_words(space))
    if mapped.masks is not None:
        words = f"by {mapped.masks.words}; a study always keeps to them (--set play.masks=false ignores them)"
        yield Finding("action masks", "yes", words)


def _kind_of(policy: Policy, player: Policy, mapped: FeatureMap) -> Finding:
    """Return the finding on the kind of policy, with everything that a study does differently for it."""
    words = [f"{'Q-values' if policy.kind == 'values' else policy.kind} of all actions"]
    traits = traits_of(policy)
    if traits.actions_only:
        words = ["a function that returns actions, without scores: rules replace its actions"]
        if lacks_fallback(policy):
            words.append("rules that block actions are not tested unless --fallback ACTION says what is taken instead")
        elif traits.fallback is not None:
            space, parts = mapped.space, zip(mapped.space.groups, traits.fallback, strict=True)
            names = ", ".join(space.action_names[group.first + value] for group, value in parts)
            words.append(f"where rules block its action, it takes {names}")
    elif policy.kind == "none":
        words = ["a policy that acts without a score for each action"]
    if mapped.masks is not None:
        trained = "trained with masks" if traits.takes_masks else "its choices are masked"
        words.append(f"it keeps to the action masks ({trained})")
    words.append(f"importances by {'LIME' if reads_features(player) else 'a surrogate of its actions'}")
    return Finding("kind of policy", "yes", "; ".join(words))


def _feature_words(mapped: FeatureMap) -> str:
    """Return the number of features, how they are read, and where their names come from."""
    space, reader = mapped.space, mapped.reader
    who = f"named by {mapped.named_by}" if mapped.names.is_named else "without names (--names FILE)"
    if isinstance(reader, ObservationReader):
        return f"{counted(space.n_own, 'feature')}, {who}"
    who = who if mapped.names.is_named else "without words (--names FILE)"
    left = "" if reader.holds_observation else "; the policy sees its own observation, rules do not"
    return f"{counted(space.n_own, 'feature')} by {reader.text}, {who}{left}"


def _list_features(space: FeatureSpace) -> str:
    """Return the names that rules use, as ranges where they are numbered."""
    names = space.own.names
    if len(names) > MOST_NAMED and list(names) == [f"f{i}" for i in range(len(names))]:
        return f"{names[0]} … {names[-1]}"
    more = f", … ({len(names)} in all; --write-names FILE lists them)" if len(names) > MANY_FEATURES else ""
    return ", ".join(names[:MANY_FEATURES]) + more


def _features_seen(space: FeatureSpace, walks: list[_Walk]) -> NDArray[np.float32]:
    return np.concatenate([walk.observations for walk in walks])[:, : len(space)]


def _what_to_improve(mapped: FeatureMap, walks: list[_Walk]) -> Iterator[Finding]:
    """Yield a finding on everything that would make rules easier to read, or to find."""
    advice, space = [], mapped.space
    if not any(feature.words or feature.values for feature in space.features):
        lacking = "words for people" if mapped.reader.text or mapped.names.is_named else "names"
        advice.append(f"features have no {lacking}: --write-names FILE writes a names file to edit")
    seen = _features_seen(space, walks)
    constant = [space.names[i] for i in np.flatnonzero((seen == seen[0]).all(axis=0)).tolist()]
    if constant:
        others = f" and {len(constant) - MOST_NAMED} more" if len(constant) > MOST_NAMED else ""
        advice.append(f"features that never change carry no information: {', '.join(constant[:MOST_NAMED])}{others}")
    if len(space) > MANY_FEATURES:
        advice.append(f"{len(space)} features are many for rules: fewer that mean more help (--features)")
    if advice:
        yield Finding("what to improve", "mind", "; ".join(advice))


def _action_words(space: FeatureSpace) -> str:
    if space.is_discrete:
        return f"{len(space.actions)}: {', '.join(space.action_names)}"
    groups = "; ".join(f"{group.name}: {', '.join(space.action_names[group.choices])}" for group in space.groups)
    cut = "" if is_cut(space) else " (continuous ones are cut into regions by what the policy does)"
    return f"{len(space.groups)} with choices of their own: {groups}{cut}"


def _play_walks(spec: EnvironmentSpec, seed: int, time_limit: float | None) -> tuple[list[_Walk], dict[str, _Walk]]:
    """Play random walks with different seeds, and the first again in the same environment and in a fresh one.

    In the same environment it is played after another episode, which must not change it.
    """
    same, fresh = "in the same environment", "in a fresh one"
    seeds = [seed + i for i in range(EPISODES)]
    if time_limit is None:
        *walks, once_more = _walks(spec, [*seeds, seed])
        return walks, {same: once_more, fresh: _walks(spec, [seed])[0]}
    with LocalProcesses(1) as engine:

        def walk(*walked: int) -> list[_Walk]:
            what = f"random actions in the episode with seed {walked[-1]}"
            return run_within_limit(engine, _walks, spec, walked, len(walked) * time_limit, what)

        # The limit is for episodes: the imports of the environment's module are not part of it.
        run_within_limit(engine, _make_once, spec, None, time_limit + IMPORT_SECONDS, "making the environment")
        # Each on its own, so that it is known which seed hangs.
        walks = [walk(walk_seed)[0] for walk_seed in seeds]
        return walks, {same: walk(seeds[-1], seed)[-1], fresh: walk(seed)[0]}


def _make_once(spec: EnvironmentSpec, _: None) -> None:
    spec.make().close()


def _walks(spec: EnvironmentSpec, seeds: Sequence[int], actions: int | None = None) -> list[_Walk]:
    """Play one episode of random actions per seed in one environment.

    Actions are drawn with the seed of the episode, or with that of `actions`. A first episode that time cuts off is
    played again as long as it gets more than `FASTER` times as far, because the environment may have been compiling.
    """
    env = spec.make()
    try:
        encoder = ObservationEncoder.of(env.observation_space)
        first, steps_before = _walk(env, encoder, seeds[0], actions), 0
        while not first.over and FASTER * steps_before < len(first.rewards) < MOST_STEPS:
            steps_before = len(first.rewards)
            first = _walk(env, encoder, seeds[0], actions)
        return [first, *(_walk(env, encoder, seed, actions) for seed in seeds[1:])]
    finally:
        env.close()


def _describe_policy(policy: Policy, space: FeatureSpace, *, reads_own: bool) -> Finding:
    """Return the finding that says what a policy reads, observations or features of rules, and how it acts."""
    reads = "its own observations" if reads_own else f"{space.n_own} features"
    actions = f"chooses among {len(space.actions)} actions"
    acts = actions if space.is_discrete else f"acts in {acting(policy).action_space}"
    return Finding("policy", "yes", f"reads {reads}, {acts}")


def _find_unsupported(env: Env, policy: Policy | None, features: str | None) -> Finding | None:
    """Return the reason why an environment cannot be studied, or None; raise if it cannot even be played."""
    read, taken = env.observation_space, env.action_space
    problem = None
    try:
        if features is None and not isinstance(read, spaces.Dict):
            ObservationEncoder.of(read)
        check_action_space(taken)
    except UnfitEnvironmentError as error:
        if isinstance(read, (spaces.Dict, spaces.Tuple)) and not _is_playable(read, taken):
            raise  # it says how they are flattened
        check_policy_spaces(read, taken)
        problem = f"{error} 'legible play' works with it."
    if policy is not None and (problem is not None or explain_not_studied(policy) is not None):
        check_spaces_fit(policy, read, taken)
    return None if problem is None else Finding("fit for a study", "no", problem)


def _is_playable(observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> bool:
    try:
        check_policy_spaces(observation_space, action_space)
    except UnfitEnvironmentError:
        return False
    return True


def _walk(env: Env, encoder: ObservationEncoder, seed: int, action_seed: int | None = None) -> _Walk:
    """Play an episode of random actions and return its observations and rewards, and whether it ended by itself.

    `encoder` makes rows of numbers of observations. `action_seed` is the seed of the actions; by default that of the
    episode.
    """
    action_seed = seed if action_seed is None else action_seed
    rng = np.random.default_rng(action_seed)
    env.action_space.seed(action_seed)
    observation, _ = reset_environment(env, seed)
    # Observations are copied, because some environments change theirs in place.
    raw_observations, has_ended, started = [deepcopy(observation)], False, time.monotonic()
    rewards: list[float] = []
    while not has_ended and len(rewards) < MOST_STEPS and time.monotonic() - started < MOST_SECONDS:
        action = allowed_action(env, observation, rng)  # None: the environment has no action mask
        if action is None:
            space = env.action_space
            if isinstance(space, spaces.Discrete):
                action = np.int64(first_action(space) + rng.integers(count_actions(space)))
            else:
                action = space.sample()
        observation, reward, terminated, truncated, _ = step_environment(env, action, seed, len(rewards))
        raw_observations.append(deepcopy(observation))
        rewards.append(reward)
        has_ended = bool(terminated or truncated)
    observations = encoder.encode(raw_observations)
    check_finite(observations, seed)
    return _Walk(observations, np.array(rewards), has_ended)


def _first_difference(one: _Walk, two: _Walk) -> int | None:
    """Return the first step in which two walks differ, or None; walks may have been cut at different steps."""
    steps = min(len(one.rewards), len(two.rewards))
    if one.over and two.over and len(one.rewards) != len(two.rewards):
        return steps
    same = (one.observations[: steps + 1] == two.observations[: steps + 1]).all(axis=1)
    same[1:] &= one.rewards[:steps] == two.rewards[:steps]
    return None if same.all() else int(np.argmin(same))


def _same_again(before: _Walk, again: dict[str, _Walk], seed: int) -> Finding:
    question = "same seed, same episode"
    for where, walk in again.items():
        step = _first_difference(before, walk)
        if step is not None:
            words = (
                f"guided and unguided episodes cannot be compared: played twice with seed {seed} {where}, the episodes "
                f"differ at step {step}. Call super().reset(seed=seed) and draw all random numbers from self.np_random"
            )
            return Finding(question, "no", words)
    return Finding(question, "yes", f"{len(before.rewards)} steps, in the same environment and in a fresh one")


def _branching(spec: EnvironmentSpec, seed: int, time_limit: float | None) -> Finding:
    """Return the finding on how the environment is brought back to a visited state."""
    method = find_branching_method(spec, seed=seed, time_limit=time_limit)
    if method.way is None:
        return Finding("branching", "mind", f"not possible, so single decisions cannot be examined: {method.problem}")
    return Finding("branching", "yes", str(method))


def _seeds_matter(walks: list[_Walk], spec: EnvironmentSpec, seed: int, time_limit: float | None) -> Finding:
    """Return the finding whether other seeds of the environment give other episodes.

    `walks` are episodes of random actions with different seeds, the first with `seed`. An episode is given up after
    `time_limit` seconds.
    """
    question = "seeds make a difference"
    start_states = {walk.observations[0].tobytes() for walk in walks}
    if len(start_states) > 1:
        return Finding(question, "yes", "episodes start in different states")
    # All start in the same state: play the actions of the first walk again with other seeds of the environment.
    other_seeds = [seed + i for i in range(1, EPISODES)]
    if time_limit is None:
        other_walks = _walks(spec, other_seeds, seed)
    else:
        with LocalProcesses(1) as engine:
            what_plays = f"random actions in the episodes with seeds {other_seeds[0]} to {other_seeds[-1]}"
            same_actions = partial(_walks, actions=seed)
            limit = len(other_seeds) * time_limit
            other_walks = run_within_limit(engine, same_actions, spec, other_seeds, limit, what_plays)
    # The first step in which each differs from the first walk; None where it never does.
    first_differences = [_first_difference(walks[0], other) for other in other_walks]
    differing_steps = [step for step in first_differences if step is not None]
    if differing_steps:
        words = f"episodes start in the same state and differ from step {min(differing_steps)} on"
        return Finding(question, "yes", words)
    words = (
        "with the same actions, episodes with different seeds are identical. A deterministic policy would play the "
        "same episode every time, so there would be nothing to test. Add random actions: --set play.epsilon=0.05"
    )
    return Finding(question, "mind", words)


def _inside(read: spaces.Space[Any], mapped: FeatureMap, walks: list[_Walk]) -> Finding:
    """Return the finding on observations outside of their space; those that are not finite have been refused."""
    seen = np.concatenate([walk.observations for walk in walks])
    outside = explain_outside(read, seen) if is_flat(mapped) else None
    if outside is not None:
        return Finding("numbers", "mind", outside)
    return Finding("numbers", "yes", "observations and rewards are finite, and observations stay in their space")


def _ends(walks: list[_Walk]) -> Finding:
    if all(walk.over for walk in walks):
        lengths = ", ".join(str(len(walk.rewards)) for walk in walks)
        return Finding("episodes end", "yes", f"after {lengths} steps of random actions")
    longest = max(len(walk.rewards) for walk in walks)
    in_time = "" if longest >= MOST_STEPS else f", which took {MOST_SECONDS:g} s"
    words = f"not within {longest} steps of random actions{in_time}; --set play.step_limit=N ends them if they never do"
    return Finding("episodes end", "mind", words)


def _kinds(space: FeatureSpace, walks: list[_Walk], *, is_named: bool) -> Finding:
    seen = _features_seen(space, walks)
    kinds = space if is_named else space.guess_kinds(seen)
    categorical = sum(feature.kind == "categorical" for feature in kinds.features)
    constant = int((seen == seen[0]).all(axis=0).sum())
    how = "as named" if is_named else "guessed from what was seen"
    unchanged = f"; {constant} never changed" if constant else ""
    words = f"{len(kinds) - categorical} numeric, {categorical} categorical ({how}){unchanged}"
    return Finding("kinds of features", "yes", words)


def _relations(chosen: ChosenRelations) -> Finding:
    if chosen.left_out:
        return Finding("relations", "mind", f"{'; '.join(chosen.left_out)}. A study leaves it out")
    if chosen.texts:
        return Finding("relations", "yes", f"{', '.join(entry.name for entry in chosen.texts)} (come with the package)")
    words = "none come with the package, so rules are tested without related forms; --relations FILE adds some"
    return Finding("relations", "mind", words)


@dataclass(frozen=True)
class _Untrained:
    """A policy that acts at random, for measuring time where there is none; the same batch gets the same actions."""

    n_features: int | None
    action_space: spaces.Space[Any]
    recurrent = False
    stochastic = False

    @property
    def n_actions(self) -> int:
        return count_actions(self.action_space) if isinstance(self.action_space, spaces.Discrete) else 0

    @property
    def kind(self) -> ScoreKind:
        return "log-probabilities" if self.n_actions else "none"

    @property
    def observation_space(self) -> spaces.Space[Any] | None:
        return None

    def scores(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        return np.full((len(observations), self.n_actions), -np.log(self.n_actions))

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002 (Stable-Baselines3's signature)
        deterministic: bool = True,  # noqa: ARG002
    ) -> tuple[NDArray[Any], Any]:
        self.action_space.seed(0)
        first = getattr(self.action_space, "start", 0)
        return np.array([self.action_space.sample() for _ in range(len(observation))]) - first, state


def _times(spec: EnvironmentSpec, policy: Policy, played: str, time_limit: float | None) -> Iterator[Finding]:
    """Yield the findings on the speed of play, and on the time that a study takes with each preset."""
    settings = settings_for(spec)
    problem = vector_problem(spec, policy, settings.play.cost, settings.play.endings)
    if is_native(spec) or (spec.vector_class is not None and not problem):
        form = "a vector form with a seed for every episode"
    else:
        form = f"one environment at a time: {problem.rstrip('.')}" if problem else "one environment at a time"
    setup = Setup(policy, spec, (), settings.play)
    rate = measure_rate(setup, time_limit=time_limit)
    yield Finding("speed", "yes", f"{number(rate.episodes)} episodes a second in one process ({form}{played})")
    engine = LocalProcesses()
    presets = {"quick": StudySettings.quick(), "default": settings, "paper": StudySettings.paper()}
    seconds = {name: estimate(setup, chosen, engine, rate=rate).seconds for name, chosen in presets.items()}
    times = ", ".join(f"{name} {duration(seconds_of_preset)}" for name, seconds_of_preset in seconds.items())
    yield Finding("time for a study", "yes", f"{times} (about; workers: {engine.workers})")
