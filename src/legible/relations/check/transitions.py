"""Environments that can only be watched: transitions of random play, and a model that foretells them.

- `play_at_random`: the transitions. Actions are numbers, or rows of numbers where they are made of several parts.
- `TransitionChecker`: asks the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial import cKDTree
from sklearn.ensemble import ExtraTreesRegressor

from legible.environments import Env, ObservationEncoder, as_taken
from legible.features import Observations, choices_of
from legible.formatting import percent
from legible.play import Scores, StepRecord, episode_seeds, make_slots, play_episodes
from legible.relations.actions import map_actions
from legible.relations.check.answers import (
    FEWEST_STATES,
    CheckInputs,
    CheckVerdict,
    Counterexample,
    Difference,
    Flags,
    RelationCheck,
    Values,
    cannot_tell,
    told_features,
)
from legible.relations.relation import MetamorphicRelation, map_states


@dataclass(frozen=True)
class Transitions:
    """What happened in episodes of random play, one row a step."""

    episodes: NDArray[np.int64]
    observations: Observations
    actions: NDArray[Any]
    rewards: Values
    after: Observations
    ended: Flags


LONGEST_EPISODE = 1000


def play_at_random(inputs: CheckInputs, n_episodes: int) -> Transitions:
    """Play episodes with uniformly random actions."""
    if not inputs.space.is_discrete:
        return _play_whole_actions(inputs, n_episodes)
    slots = make_slots(inputs.env, 1)
    rng = np.random.default_rng([inputs.seed, 1])
    kept: list[tuple[NDArray[Any], ...]] = []
    done = 0

    def choose(
        observations: Observations,
        episodes: NDArray[np.int64],  # noqa: ARG001
        steps: NDArray[np.int64],  # noqa: ARG001
    ) -> tuple[NDArray[np.int64], Scores]:
        return rng.integers(slots.n_actions, size=len(observations)), np.zeros((len(observations), 1), np.float32)

    def keep(step: StepRecord) -> None:
        columns = step.episodes, step.observations, step.actions, step.rewards
        kept.append((*columns, slots.observations.copy(), slots.terminated.copy()))

    def count(ended: int) -> None:
        nonlocal done
        done += ended
        inputs.report(done / n_episodes, "playing")

    seeds = episode_seeds(inputs.seed, 0, n_episodes)
    play_episodes(slots, choose, seeds, step_limit=LONGEST_EPISODE, on_step=keep, on_episode=count)
    return Transitions(*(np.concatenate(column) for column in zip(*kept, strict=True)))


def random_actions(inputs: CheckInputs, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Draw whole actions, a row each; continuous parts evenly between their bounds, or around 0 without them."""
    columns = []
    for group in inputs.space.groups:
        regions = group.regions
        if regions is None:
            columns.append(rng.integers(group.count, size=n))
        elif np.isfinite(regions.low) and np.isfinite(regions.high):
            columns.append(rng.uniform(regions.low, regions.high, n).astype(np.float32))
        else:
            columns.append(np.clip(rng.standard_normal(n), regions.low, regions.high).astype(np.float32))
    return np.column_stack(columns)


def _play_whole_actions(inputs: CheckInputs, n_episodes: int) -> Transitions:
    """Play episodes with random actions of several or continuous parts."""
    env, encoder = inputs.env, ObservationEncoder.of(inputs.env.observation_space)
    rng = np.random.default_rng([inputs.seed, 1])
    kept: list[tuple[Any, ...]] = []
    for episode, seed in enumerate(episode_seeds(inputs.seed, 0, n_episodes)):
        shown, _ = env.reset(seed=int(seed))
        before = encoder.encode([shown])[0]
        for action in random_actions(inputs, LONGEST_EPISODE, rng):
            shown, reward, terminated, truncated, _ = env.step(taken(env, action))
            after = encoder.encode([shown])[0]
            kept.append((episode, before, action, float(reward), after, bool(terminated)))
            before = after
            if terminated or truncated:
                break
        inputs.report((episode + 1) / n_episodes, "playing")
    return Transitions(*(np.array(column) for column in zip(*kept, strict=True)))


def taken(env: Env, action: NDArray[Any]) -> NDArray[Any]:
    """Return a row of an action's parts as the environment takes it."""
    return as_taken(env.action_space, action[None].astype(env.action_space.dtype))[0]


USUAL_EPISODES = 200
NEIGHBOURS = 5
STRATA = 5
BOOTSTRAPS = 400
# Transitions that a model of whole actions is made from, at most: a model of one action has fewer by itself.
MOST_KNOWN = 20_000
# Error beyond that of real transitions, as a share of the variance: what is certain and more than this, is too much.
FAR_OFF = 0.1
# Where this much cannot be ruled out, it cannot be said that a relation holds.
TOO_UNSURE = 0.25


class TransitionChecker:
    """Asks a model of the environment's transitions how well it foretells images of transitions."""

    method = "statistical: transitions of random play"

    def __init__(self, inputs: CheckInputs) -> None:
        self.inputs = inputs
        # Fail on spaces that cannot be used before anything is played.
        ObservationEncoder.of(inputs.env.observation_space)
        self.data = play_at_random(inputs, inputs.episodes or USUAL_EPISODES)
        self._models: dict[tuple[int, bytes], _TransitionModel] = {}

    def check(self, relation: MetamorphicRelation, group: Sequence[MetamorphicRelation]) -> RelationCheck:
        """Check one relation."""
        space, data = self.inputs.space, self.data
        told = told_features(relation, len(space))
        held_out = data.episodes % 2 == 1
        images, defined = map_states(relation, data.observations)
        images_after, defined_after = map_states(relation, data.after)
        image_actions = data.actions  # a single choice says all about an action of one part
        if not space.is_discrete:
            image_actions, defined_actions = map_actions(group, space, data.actions)
            defined &= defined_actions
        rows = np.flatnonzero(held_out & self._takes(relation.action) & defined & defined_after)
        rows = np.sort(np.random.default_rng([self.inputs.seed, 4]).permutation(rows)[: self.inputs.states])
        self.inputs.report(0.0, f"comparing {space.action_names[relation.action]}")
        model = self._model(relation.image_action, told)
        if model is None or len(rows) < FEWEST_STATES:
            note = f"too few transitions; {self._episodes_needed(FEWEST_STATES / max(1, len(rows)))}"
            return cannot_tell(relation, space, self.method, len(rows), note)
        same = data.rewards[rows], data.ended[rows], told
        results = _results(images[rows], images_after[rows], *same)
        unmapped = _results(data.observations[rows], data.after[rows], *same)
        situations = self._situations(images, image_actions, told)[rows]
        alike = self._takes(relation.image_action)
        evidence = model.compare(situations, results, data.episodes[rows], alike, self.inputs.seed)
        blind = False
        if evidence.verdict == "holds" and not np.array_equal(results, unmapped):
            # Would it have been noticed if the relation forgot to map what happens?
            forgetful = model.compare(situations, unmapped, data.episodes[rows], alike, self.inputs.seed)
            blind = forgetful.low.max() <= 0
        return self._answer(relation, told, rows, evidence, results, model, blind)

    def _episodes_needed(self, times: float) -> str:
        """Say how many episodes would tell, when `times` as much play is needed; a little more is safer."""
        episodes = self.inputs.episodes or USUAL_EPISODES
        hundreds = math.ceil(1.2 * max(1.0, times) * episodes / 100)
        return f"about {100 * hundreds} episodes would tell (--episodes {100 * hundreds})"

    def _takes(self, action: int) -> Flags:
        """Which steps take an action, or one with this choice."""
        space, actions = self.inputs.space, self.data.actions
        if space.is_discrete:
            return np.asarray(actions == action)
        return np.asarray(choices_of(space.groups, actions)[:, space.group_of(action)] == action)

    def _situations(self, observations: Observations, actions: NDArray[Any], told: Flags) -> NDArray[Any]:
        """What a model foretells from: observations, and whole actions where they are made of several parts."""
        columns = observations[:, told]
        return columns if self.inputs.space.is_discrete else np.column_stack([columns, actions])

    def _model(self, action: int, told: Flags) -> _TransitionModel | None:
        """A model of what an action does, or all of them together, made from every other episode."""
        whole = not self.inputs.space.is_discrete
        key = -1 if whole else action, told.tobytes()
        if key not in self._models:
            data = self.data
            taken = np.ones(len(data.actions), np.bool_) if whole else self._takes(action)
            known, fresh = (np.flatnonzero(taken & (data.episodes % 2 == k)) for k in (0, 1))
            if whole:
                rng = np.random.default_rng([self.inputs.seed, 5])
                known, fresh = (np.sort(rng.permutation(rows)[:MOST_KNOWN]) for rows in (known, fresh))
            if min(len(known), len(fresh)) < FEWEST_STATES:
                return None
            results = _results(data.observations, data.after, data.rewards, data.ended, told)
            situations = self._situations(data.observations, data.actions, told)
            self._models[key] = _TransitionModel(situations, results, data.episodes, known, fresh, self.inputs.seed)
        return self._models[key]

    def _answer(
        self,
        relation: MetamorphicRelation,
        told: Flags,
        rows: NDArray[np.intp],
        evidence: _Evidence,
        results: Values,
        model: _TransitionModel,
        blind: bool,
    ) -> RelationCheck:
        space = self.inputs.space
        names = [*(space.names[i] for i in np.flatnonzero(told)), "reward", "end"]
        covered = percent(float(evidence.covered.mean()))
        compared = int(evidence.covered.sum())
        if compared < FEWEST_STATES:
            note = f"only {covered} of the images lie where random play has been"
            more = self._episodes_needed(FEWEST_STATES / compared) if compared else "more episodes will not change that"
            return cannot_tell(relation, space, self.method, compared, f"{note}; {more}")
        worst = evidence.worst
        verdict: CheckVerdict = "cannot tell" if blind else evidence.verdict
        notes = [f"{covered} of the images lie where random play has been"]
        off = [names[j] for j in np.argsort(-evidence.excess, kind="stable") if evidence.low[j] > 0]
        if off:
            notes.append(
                f"the error of {names[worst]} is {evidence.mapped[worst]:.2f} of its variance, for real transitions "
                f"{evidence.real[worst]:.2f}; excess between {evidence.low[worst]:.2f} and {evidence.high[worst]:.2f}"
            )
            if len(off) > 1:
                notes.append("also differs in " + ", ".join(off[1:5]) + (" …" if len(off) > 5 else ""))
        elif blind:
            notes.append(
                "no difference found, but one that forgot to map what happens would not have been noticed either"
            )
        elif verdict == "cannot tell":
            notes.append(
                f"no difference found, but an excess of {evidence.high.max():.2f} of the variance cannot be ruled out; "
                f"{self._episodes_needed(evidence.times_as_much)}"
            )
        else:
            notes.append(f"no difference found; an excess of {evidence.high.max():.2f} of the variance is ruled out")
        return RelationCheck(
            relation=relation.name,
            action=space.action_names[relation.action],
            image_action=space.action_names[relation.image_action],
            method=self.method,
            states=compared,
            agreement=evidence.agreement,
            causes={},
            deviation=max(float(evidence.excess[worst]), 0.0),
            deviation_of=names[worst],
            verdict=verdict,
            note="; ".join(notes),
            counterexample=self._counterexample(relation, names, rows, evidence, results, model) if off else None,
        )

    def _counterexample(
        self,
        relation: MetamorphicRelation,
        names: Sequence[str],
        rows: NDArray[np.intp],
        evidence: _Evidence,
        results: Values,
        model: _TransitionModel,
    ) -> Counterexample:
        """The transition whose image is least like what the environment did in similar states."""
        worst = evidence.worst
        i = int(np.where(evidence.covered, evidence.errors[:, worst], -1.0).argmax())
        similar = model.similar(evidence.images[i])
        feature = worst < len(names) - 2
        when = "changes in the step" if feature else "of the step" if names[worst] == "reward" else "of the episode"
        difference = Difference(names[worst], when, float(results[i, worst]), float(similar[worst]))
        return Counterexample.of(relation, self.inputs.space, self.data.observations[rows[i]], [difference])


def _results(before: Observations, after: Observations, rewards: Values, ended: Flags, told: Flags) -> Values:
    """What a step does: the change of every feature, the reward, and whether the episode ends."""
    return np.column_stack([(after.astype(np.float64) - before)[:, told], rewards, ended])


@dataclass(frozen=True)
class _Evidence:
    """How well images of transitions are foretold compared with real ones; one entry a result, or a row an image.

    Errors are squared, of ranks in units of their variance: rare large values (a crash) would drown all else.
    """

    images: Values
    covered: Flags
    errors: Values
    mapped: Values
    real: Values
    low: Values
    high: Values
    agreement: float

    @property
    def excess(self) -> Values:
        return self.mapped - self.real

    @property
    def worst(self) -> int:
        """The result that deviates most of those that do for certain, or else of all."""
        certain = self.low > 0
        return int(np.where(certain, self.excess, -np.inf).argmax() if certain.any() else self.excess.argmax())

    @property
    def times_as_much(self) -> float:
        """How many times as much play would rule out what is too much: intervals shrink with its square root."""
        doubtful = int(self.high.argmax())
        excess = max(0.0, float(self.excess[doubtful]))
        # An excess near what is too much is taken for chance in half: there is no telling before it is played.
        room = max(TOO_UNSURE - excess, TOO_UNSURE / 2)
        return float((self.high[doubtful] - excess) / room) ** 2

    @property
    def verdict(self) -> CheckVerdict:
        if self.low.max() > 0:
            return "does not hold" if self.excess[self.worst] > FAR_OFF else "holds approximately"
        return "cannot tell" if self.high.max() > TOO_UNSURE else "holds"


class _TransitionModel:
    """Foretells what an action does, from half of the episodes; the other half tells how well."""

    def __init__(
        self,
        observations: Values,
        results: Values,
        episodes: NDArray[np.int64],
        known: NDArray[np.intp],
        fresh: NDArray[np.intp],
        seed: int,
    ) -> None:
        centre, spread = observations[known].mean(axis=0), observations[known].std(axis=0)
        # A feature that never varied gets a small scale: an image in which it differs lies where play has never been.
        self._scale = np.maximum(spread, 1e-4 * np.maximum(1.0, np.abs(centre)))
        self._sorted = np.sort(results[known], axis=0)
        self._known_results = results[known]
        known_states = observations[known] / self._scale
        self._tree = cKDTree(known_states)
        self._forest = ExtraTreesRegressor(100, min_samples_leaf=3, random_state=seed % 2**32)
        self._forest.fit(known_states, self._ranks(results[known]))
        self._fresh = fresh
        fresh_states = observations[fresh] / self._scale
        self._fresh_errors = self._errors(fresh_states, results[fresh])
        self._fresh_episodes = episodes[fresh]
        distances = self._distances(fresh_states)
        self._reach = float(np.quantile(distances, 0.99))
        self._edges = np.quantile(distances, np.linspace(0, 1, STRATA + 1)[1:-1])
        self._fresh_strata = np.searchsorted(self._edges, distances)
        # Held-out episodes have odd numbers; halved, they count 0, 1, …
        self._n_held_out = int(episodes.max() + 1) // 2

    def _ranks(self, results: Values) -> Values:
        """Ranks among known results, such that evenly spread ones have variance 1; equal results share a rank."""
        columns = []
        for known, column in zip(self._sorted.T, results.T, strict=True):
            blur = 1e-6 * np.maximum(1.0, np.abs(column))
            places = np.searchsorted(known, column - blur, "left") + np.searchsorted(known, column + blur, "right")
            columns.append(places / (2 * len(known)))
        return np.sqrt(12.0) * np.column_stack(columns)

    def _errors(self, states: Values, results: Values) -> Values:
        return np.asarray((self._forest.predict(states) - self._ranks(results)) ** 2)

    def _distances(self, states: Values) -> Values:
        """How far the known states lie from each state, on average over its nearest ones."""
        neighbours = min(NEIGHBOURS, self._tree.n)
        distances = self._tree.query(states, neighbours)[0].reshape(len(states), neighbours)
        return np.asarray(distances.mean(axis=1))

    def similar(self, state: Values) -> Values:
        """The mean result of known transitions from the states nearest to this one."""
        nearest = np.atleast_1d(self._tree.query(state, min(NEIGHBOURS, self._tree.n))[1])
        return np.asarray(self._known_results[nearest].mean(axis=0))

    def compare(
        self, images: Values, results: Values, episodes: NDArray[np.int64], alike: Flags, seed: int
    ) -> _Evidence:
        """Compare the images of transitions with real ones that the model has not seen, and that take the same choice.

        Some choices are harder to foretell than others, so `alike` says which of all steps take the images' choice.
        Images may lie where the model knows less. So real transitions are weighted to lie as far from known states as
        the images do, in five classes of distance; images further out than 99 % of the real ones are left out.
        """
        states = images / self._scale
        errors = self._errors(states, results)
        distances = self._distances(states)
        covered = distances <= self._reach
        strata = np.searchsorted(self._edges, distances)
        n = self._n_held_out
        sums = _by_episode(errors[covered], episodes[covered] // 2, strata[covered], n)
        real = alike[self._fresh]
        real_errors = self._fresh_errors[real]
        real_sums = _by_episode(real_errors, self._fresh_episodes[real] // 2, self._fresh_strata[real], n)
        mapped, real_mean = _weighted_errors(np.ones((1, n)), *sums, *real_sums)
        # Steps of one episode are alike, so whole episodes are drawn again.
        weights = np.random.default_rng([seed, 2]).multinomial(n, np.full(n, 1 / n), BOOTSTRAPS)
        drawn_mapped, drawn_real = _weighted_errors(weights.astype(np.float64), *sums, *real_sums)
        spread = (drawn_mapped - drawn_real).std(axis=0)
        # All results are looked at, so each bound must hold with a certainty that leaves 99 % for all of them.
        reach = float(stats.t.ppf(1 - 0.01 / (2 * results.shape[1]), max(n - 1, 1))) * spread
        excess = mapped[0] - real_mean[0]
        typical = np.maximum(real_mean[0], 1e-3)
        usual = np.quantile((real_errors / typical).max(axis=1), 0.99)
        within = (errors[covered] / typical).max(axis=1, initial=0.0) <= usual
        return _Evidence(
            images=states,
            covered=covered,
            errors=errors,
            mapped=mapped[0],
            real=real_mean[0],
            low=excess - reach,
            high=excess + reach,
            agreement=float(within.mean()) if within.size else np.nan,
        )


def _by_episode(
    errors: Values, episodes: NDArray[np.int64], strata: NDArray[np.int64], n_episodes: int
) -> tuple[Values, Values]:
    """Sums of errors and counts, for every episode and stratum."""
    sums, counts = np.zeros((n_episodes, STRATA, errors.shape[1])), np.zeros((n_episodes, STRATA))
    np.add.at(sums, (episodes, strata), errors)
    np.add.at(counts, (episodes, strata), 1.0)
    return sums, counts


def _weighted_errors(
    weights: Values, sums: Values, counts: Values, real_sums: Values, real_counts: Values
) -> tuple[Values, Values]:
    """Mean errors of images, and of real transitions in the images' strata; a row for every row of weights."""
    total = np.einsum("be,esj->bsj", weights, sums)
    n = weights @ counts
    real_total = np.einsum("be,esj->bsj", weights, real_sums)
    real_n = weights @ real_counts
    # A stratum without real transitions cannot be compared.
    usable = (real_n > 0) * n
    size = np.maximum(usable.sum(axis=1), 1e-12)[:, None]
    mapped = (total * (real_n > 0)[:, :, None]).sum(axis=1) / size
    real = (usable[:, :, None] * real_total / np.maximum(real_n, 1e-12)[:, :, None]).sum(axis=1) / size
    return mapped, real
