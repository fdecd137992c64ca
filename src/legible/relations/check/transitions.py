"""Statistical checks: a model that predicts transitions of random play.

- `play_at_random`: records the transitions. Actions are indices, or rows of numbers for actions of several parts.
- `TransitionChecker`: compares prediction errors of images and of real transitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import stdtrit
from sklearn.ensemble import ExtraTreesRegressor

from legible.environments import (
    Env,
    ObservationEncoder,
    reset_environment,
    step_environment,
    to_environment_actions,
)
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
    Stream,
    Values,
    inconclusive_check,
    known_features,
)
from legible.relations.relation import MetamorphicRelation, map_states


@dataclass(frozen=True)
class Transitions:
    """Transitions of random play, one row per step."""

    episodes: NDArray[np.int64]
    observations: Observations
    actions: NDArray[Any]
    rewards: Values
    after: Observations
    ended: Flags


LONGEST_EPISODE = 1000


def play_at_random(inputs: CheckInputs, n_episodes: int, repeat: float = 0.0) -> Transitions:
    """Play episodes with random actions and return their transitions.

    With probability `repeat`, a step takes the action of the step before again; otherwise it is drawn uniformly.
    """
    if not inputs.space.is_discrete:
        return _play_whole_actions(inputs, n_episodes, repeat)
    slots = make_slots(inputs.env, 1)
    rng = np.random.default_rng([inputs.seed, Stream.RANDOM_PLAY, inputs.first])
    recorded: list[tuple[NDArray[Any], ...]] = []  # of every step, the fields of `Transitions` in their order
    n_done = 0
    last_action = np.zeros(1, np.int64)

    # The three functions that `play_episodes` calls: to choose actions, after every step, and after every episode.
    def choose(
        observations: Observations,
        episodes: NDArray[np.int64],  # noqa: ARG001
        steps: NDArray[np.int64],  # noqa: ARG001
    ) -> tuple[NDArray[np.int64], Scores]:
        drawn = rng.integers(slots.n_actions, size=len(observations))
        if repeat:
            drawn = np.where(rng.random(len(observations)) < repeat, last_action, drawn)
            last_action[:] = drawn
        return drawn, np.zeros((len(observations), 1), np.float32)

    def record(step: StepRecord) -> None:
        columns = step.episodes, step.observations, step.actions, step.rewards
        recorded.append((*columns, slots.observations.copy(), slots.terminated.copy()))  # the next observations

    def count(n_ended: int) -> None:
        nonlocal n_done
        n_done += n_ended
        inputs.report(n_done / n_episodes, "playing")

    seeds = episode_seeds(inputs.seed, inputs.first, n_episodes)
    play_episodes(slots, choose, seeds, step_limit=LONGEST_EPISODE, on_step=record, on_episode=count)
    return Transitions(*(np.concatenate(column) for column in zip(*recorded, strict=True)))


def random_actions(inputs: CheckInputs, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return n random whole actions; continuous parts are uniform within bounds, or normal without them."""
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


def _play_whole_actions(inputs: CheckInputs, n_episodes: int, repeat: float) -> Transitions:
    """Do the same as `play_at_random` where actions have several or continuous parts."""
    env, encoder = inputs.env, ObservationEncoder.of(inputs.env.observation_space)
    rng = np.random.default_rng([inputs.seed, Stream.RANDOM_PLAY, inputs.first])
    recorded: list[tuple[Any, ...]] = []  # in the order of the fields of `Transitions`
    for episode, seed in enumerate(episode_seeds(inputs.seed, inputs.first, n_episodes)):
        observation, _ = reset_environment(env, int(seed))
        before = encoder.encode([observation])[0]
        actions = random_actions(inputs, LONGEST_EPISODE, rng)
        if repeat:
            # The step at which the action of each step was drawn: its own, or that of the last step without a repeat.
            drawn_at = np.where(rng.random(len(actions)) < repeat, 0, np.arange(len(actions)))
            actions = actions[np.maximum.accumulate(drawn_at)]
        for action in actions:
            observation, reward, terminated, truncated, _ = step_environment(env, taken(env, action), int(seed))
            after = encoder.encode([observation])[0]
            recorded.append((episode, before, action, float(reward), after, bool(terminated)))
            before = after
            if terminated or truncated:
                break
        inputs.report((episode + 1) / n_episodes, "playing")
    return Transitions(*(np.array(column) for column in zip(*recorded, strict=True)))


def taken(env: Env, action: NDArray[Any]) -> NDArray[Any]:
    """Return a row of an action's parts as the environment takes it."""
    return to_environment_actions(env.action_space, action[None].astype(env.action_space.dtype))[0]


USUAL_EPISODES = 200
NEIGHBOURS = 5  # known states whose mean distance says how far a state is from them
STRATA = 5  # of similar distance, within which images and real transitions are compared
BOOTSTRAPS = 400
# Maximum number of training transitions of a model of whole actions.
MOST_TRAINED = 20_000
# Excess error over real transitions, as a share of the variance, from which on a relation does not hold.
FAR_OFF = 0.1
# Excess error that must be ruled out for "holds".
TOO_UNSURE = 0.25


class TransitionChecker:
    """Checker that compares how well a model predicts images of transitions and real transitions."""

    method = "statistical: transitions of random play"

    def __init__(self, inputs: CheckInputs, data: Transitions | None = None) -> None:
        self.inputs = inputs
        # Fail on unsupported spaces before playing.
        ObservationEncoder.of(inputs.env.observation_space)
        self.data = play_at_random(inputs, inputs.episodes or USUAL_EPISODES) if data is None else data
        self._models: dict[tuple[int, bytes], _TransitionModel] = {}

    def check(self, relation: MetamorphicRelation, group: Sequence[MetamorphicRelation]) -> RelationCheck:
        """Return whether images of transitions look like transitions of the environment.

        A model of the image action, trained on the episodes with even numbers, predicts results of steps. On the other
        episodes, it must predict the images of transitions as well as real transitions. `group` holds all relations of
        this name, which together map whole actions.
        """
        inputs, space, data = self.inputs, self.inputs.space, self.data
        # The images of held-out transitions: states before and after the step, and actions.
        mapped = known_features(relation, len(space))
        held_out = data.episodes % 2 == 1
        images, defined = map_states(relation, data.observations)
        images_after, defined_after = map_states(relation, data.after)
        image_actions = data.actions
        if not space.is_discrete:
            image_actions, defined_actions = map_actions(group, space, data.actions)
            defined &= defined_actions
        rows = np.flatnonzero(held_out & self._takes(relation.action) & defined & defined_after)
        rows = np.sort(np.random.default_rng([inputs.seed, Stream.COMPARED_ROWS]).permutation(rows)[: inputs.states])
        inputs.report(0.0, f"comparing {space.action_names[relation.action]}")
        model = self._model(relation.image_action, mapped)
        if model is None or len(rows) < FEWEST_STATES:
            note = f"too few transitions; {self._episodes_needed(FEWEST_STATES / max(1, len(rows)))}"
            return inconclusive_check(relation, space, self.method, len(rows), note)

        # Does the model predict the mapped transitions as well as real ones?
        rewards_and_ends = data.rewards[rows], data.ended[rows]
        results = _results(images[rows], images_after[rows], *rewards_and_ends, mapped)
        situations = self._situations(images, image_actions, mapped)[rows]
        episodes, takes_image_action = data.episodes[rows], self._takes(relation.image_action)
        evidence = model.compare(situations, results, episodes, takes_image_action, inputs.seed, inputs.tests)

        # To test the power: would a relation that does not map the results be rejected?
        unmapped_results = _results(data.observations[rows], data.after[rows], *rewards_and_ends, mapped)
        is_blind = False
        if evidence.verdict == "holds" and not np.array_equal(results, unmapped_results):
            unmapped_evidence = model.compare(situations, unmapped_results, episodes, takes_image_action, inputs.seed)
            is_blind = unmapped_evidence.low.max() <= 0  # no error is significantly larger than for real transitions
        return self._answer(relation, mapped, rows, evidence, results, model, is_blind)

    def _episodes_needed(self, times: float) -> str:
        """Return the advice to play `times` as many episodes, with a margin of 20 %."""
        episodes = self.inputs.episodes or USUAL_EPISODES
        hundreds = math.ceil(1.2 * max(1.0, times) * episodes / 100)
        return f"about {100 * hundreds} episodes would be enough (--episodes {100 * hundreds})"

    def _takes(self, action: int) -> Flags:
        """Return the steps that take an action, or an action with this choice."""
        space, actions = self.inputs.space, self.data.actions
        if space.is_discrete:
            return np.asarray(actions == action)
        return np.asarray(choices_of(space.groups, actions)[:, space.group_of(action)] == action)

    def _situations(self, observations: Observations, actions: NDArray[Any], mapped: Flags) -> NDArray[Any]:
        """Return the inputs of a model: observations, and whole actions if they have several parts."""
        columns = observations[:, mapped]
        return columns if self.inputs.space.is_discrete else np.column_stack([columns, actions])

    def _model(self, action: int, mapped: Flags) -> _TransitionModel | None:
        """Return a model of one action, or of whole actions, trained on every other episode; None if data is scarce."""
        is_of_whole_actions = not self.inputs.space.is_discrete
        key = -1 if is_of_whole_actions else action, mapped.tobytes()
        if key not in self._models:
            data = self.data
            is_used = np.ones(len(data.actions), np.bool_) if is_of_whole_actions else self._takes(action)
            trained, held_out = (np.flatnonzero(is_used & (data.episodes % 2 == half)) for half in (0, 1))
            if is_of_whole_actions:
                rng = np.random.default_rng([self.inputs.seed, Stream.MODEL_ROWS])
                trained, held_out = (np.sort(rng.permutation(rows)[:MOST_TRAINED]) for rows in (trained, held_out))
            if min(len(trained), len(held_out)) < FEWEST_STATES:
                return None
            results = _results(data.observations, data.after, data.rewards, data.ended, mapped)
            situations = self._situations(data.observations, data.actions, mapped)
            self._models[key] = _TransitionModel(
                situations, results, data.episodes, trained, held_out, self.inputs.seed
            )
        return self._models[key]

    def _answer(
        self,
        relation: MetamorphicRelation,
        mapped: Flags,
        rows: NDArray[np.intp],
        evidence: _Evidence,
        results: Values,
        model: _TransitionModel,
        blind: bool,
    ) -> RelationCheck:
        """Return the result of a check in words.

        Parameters
        ----------
        rows
            The numbers of the transitions that were mapped.
        evidence, results
            How well their images are predicted, and the results of the images, ``[rows, mapped features + 2]``: changes
            of the features, reward and end.
        blind
            Whether the check could not even have rejected a relation that does not map results.
        """
        space = self.inputs.space
        names = [*(space.names[i] for i in np.flatnonzero(mapped)), "reward", "end"]  # of the columns of results
        compared = int(evidence.covered.sum())
        similar = f"{percent(float(evidence.covered.mean()))} of the images are similar to states of random play"
        if compared < FEWEST_STATES:
            more = self._episodes_needed(FEWEST_STATES / compared) if compared else "more episodes will not change that"
            return inconclusive_check(relation, space, self.method, compared, f"only {similar}; {more}")
        worst = evidence.worst
        verdict: CheckVerdict = "cannot tell" if blind else evidence.verdict
        notes = [similar]
        counterexample = None
        differing = [names[j] for j in np.argsort(-evidence.excess, kind="stable") if evidence.low[j] > 0]
        if differing:
            notes.append(
                f"the error of {names[worst]} is {evidence.mapped[worst]:.2f} of its variance, for real transitions "
                f"{evidence.real[worst]:.2f}; excess between {evidence.low[worst]:.2f} and {evidence.high[worst]:.2f}"
            )
            if len(differing) > 1:
                notes.append("also differs in " + ", ".join(differing[1:5]) + (" …" if len(differing) > 5 else ""))
            # The transition whose image differs most from transitions in similar states.
            i = int(np.where(evidence.covered, evidence.errors[:, worst], -1.0).argmax())
            when = {"reward": "of the step", "end": "of the episode"}.get(names[worst], "changes in the step")
            usual_result = float(model.similar(evidence.images[i])[worst])
            difference = Difference(names[worst], when, float(results[i, worst]), usual_result)
            counterexample = Counterexample.of(relation, space, self.data.observations[rows[i]], [difference])
        elif blind:
            notes.append("no difference found, but even a relation without mapped results would not be rejected")
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
            counterexample=counterexample,
        )


def _results(before: Observations, after: Observations, rewards: Values, ended: Flags, mapped: Flags) -> Values:
    """Return the results of steps: changes of features, rewards, and ends of episodes."""
    return np.column_stack([(after.astype(np.float64) - before)[:, mapped], rewards, ended])


@dataclass(frozen=True)
class _Evidence:
    """Prediction errors of images and of real transitions, one entry per result or one row per image.

    Errors are squared errors of ranks in units of their variance, so that rare large values do not dominate.
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
        """Index of the result with the largest significant excess, or else the largest excess."""
        significant = self.low > 0
        return int(np.where(significant, self.excess, -np.inf).argmax() if significant.any() else self.excess.argmax())

    @property
    def times_as_much(self) -> float:
        """Factor of play that would rule out too large an excess: intervals shrink with its square root."""
        doubtful = int(self.high.argmax())
        excess = max(0.0, float(self.excess[doubtful]))
        # An excess near the limit is assumed to be half chance.
        room = max(TOO_UNSURE - excess, TOO_UNSURE / 2)
        return float((self.high[doubtful] - excess) / room) ** 2

    @property
    def verdict(self) -> CheckVerdict:
        if self.low.max() > 0:
            return "does not hold" if self.excess[self.worst] > FAR_OFF else "holds approximately"
        return "cannot tell" if self.high.max() > TOO_UNSURE else "holds"


class _TransitionModel:
    """Model of the results of an action, trained on one half of the episodes and tested on the held-out half."""

    def __init__(
        self,
        observations: Values,
        results: Values,
        episodes: NDArray[np.int64],
        trained: NDArray[np.intp],
        held_out: NDArray[np.intp],
        seed: int,
    ) -> None:
        """Train the model on some transitions, and test it on the others.

        `observations`, `results` and `episodes` have a row for every transition. `trained` and `held_out` are numbers
        of rows; those that are held out belong to the episodes with odd numbers. `seed` is that of the model.
        """
        centre, spread = observations[trained].mean(axis=0), observations[trained].std(axis=0)
        # A feature that never varied gets a small scale, so that images in which it differs are far away.
        self._scale = np.maximum(spread, 1e-4 * np.maximum(1.0, np.abs(centre)))
        self._sorted = np.sort(results[trained], axis=0)  # to turn results into ranks
        self._trained_results = results[trained]
        trained_states = observations[trained] / self._scale
        self._tree = cKDTree(trained_states)
        self._forest = ExtraTreesRegressor(100, min_samples_leaf=3, random_state=seed % 2**32)
        self._forest.fit(trained_states, self._ranks(results[trained]))
        self._held_out = held_out
        held_out_states = observations[held_out] / self._scale
        self._held_out_errors = self._errors(held_out_states, results[held_out])
        self._held_out_episodes = episodes[held_out]
        # Images that are farther from the training states than 99 % of the held-out transitions are not compared; the
        # others are compared within strata of similar distance.
        distances = self._distances(held_out_states)
        self._farthest = float(np.quantile(distances, 0.99))
        self._stratum_edges = np.quantile(distances, np.linspace(0, 1, STRATA + 1)[1:-1])
        self._held_out_strata = np.searchsorted(self._stratum_edges, distances)
        self._n_held_out = int(episodes.max() + 1) // 2  # the episodes with odd numbers

    def _ranks(self, results: Values) -> Values:
        """Return ranks among known results, scaled to variance 1 for uniform ranks; equal results share a rank."""
        columns = []
        for known, column in zip(self._sorted.T, results.T, strict=True):
            blur = 1e-6 * np.maximum(1.0, np.abs(column))
            places = np.searchsorted(known, column - blur, "left") + np.searchsorted(known, column + blur, "right")
            columns.append(places / (2 * len(known)))
        return np.sqrt(12.0) * np.column_stack(columns)

    def _errors(self, states: Values, results: Values) -> Values:
        return np.asarray((self._forest.predict(states) - self._ranks(results)) ** 2)

    def _distances(self, states: Values) -> Values:
        """Return the mean distance of each state from its nearest known states."""
        neighbours = min(NEIGHBOURS, self._tree.n)
        distances = self._tree.query(states, neighbours)[0].reshape(len(states), neighbours)
        return np.asarray(distances.mean(axis=1))

    def similar(self, state: Values) -> Values:
        """Return the mean result of known transitions from the nearest states."""
        nearest = np.atleast_1d(self._tree.query(state, min(NEIGHBOURS, self._tree.n))[1])
        return np.asarray(self._trained_results[nearest].mean(axis=0))

    def compare(
        self, images: Values, results: Values, episodes: NDArray[np.int64], alike: Flags, seed: int, tests: int = 1
    ) -> _Evidence:
        """Return the errors for images of transitions and for held-out real transitions with the same choice.

        Images may lie where the model has less data, so real transitions are weighted to have the same distances from
        known states, in five strata. Images further away than 99 % of the real transitions are left out.

        Parameters
        ----------
        images, results, episodes
            The image of a state in every row, the result that a step from there should have, and the episode.
        alike
            Marks the steps of all transitions with the choice of the images: some choices are harder to predict.
        seed, tests
            Seed of the bootstrap, and the number of tests over which the error rate is split.
        """
        states = images / self._scale
        errors = self._errors(states, results)
        distances = self._distances(states)
        covered = distances <= self._farthest
        strata = np.searchsorted(self._stratum_edges, distances)
        # Sums of errors and counts by episode and stratum. Held-out episodes have odd numbers; halved, they are 0, 1, …
        n = self._n_held_out
        sums_and_counts = _by_episode(errors[covered], episodes[covered] // 2, strata[covered], n)
        is_alike = alike[self._held_out]
        real_errors = self._held_out_errors[is_alike]
        real_sums_and_counts = _by_episode(
            real_errors, self._held_out_episodes[is_alike] // 2, self._held_out_strata[is_alike], n
        )
        (mapped_mean,), (real_mean,) = _weighted_errors(np.ones((1, n)), *sums_and_counts, *real_sums_and_counts)

        # Bootstrap whole episodes, because steps of one episode are dependent.
        weights = np.random.default_rng([seed, Stream.BOOTSTRAP]).multinomial(n, np.full(n, 1 / n), BOOTSTRAPS)
        resampled = _weighted_errors(weights.astype(np.float64), *sums_and_counts, *real_sums_and_counts)
        spread = (resampled[0] - resampled[1]).std(axis=0)
        # Bonferroni correction: all bounds of all tests together hold with 99 % confidence.
        reach = float(stdtrit(max(n - 1, 1), 1 - 0.01 / (2 * results.shape[1] * tests))) * spread
        excess = mapped_mean - real_mean

        # Agreement: the share of images whose worst error is no larger than that of 99 % of real transitions.
        typical = np.maximum(real_mean, 1e-3)
        usual = np.quantile((real_errors / typical).max(axis=1), 0.99)
        within = (errors[covered] / typical).max(axis=1, initial=0.0) <= usual
        return _Evidence(
            images=states,
            covered=covered,
            errors=errors,
            mapped=mapped_mean,
            real=real_mean,
            low=excess - reach,
            high=excess + reach,
            agreement=float(within.mean()) if within.size else np.nan,
        )


def _by_episode(
    errors: Values, episodes: NDArray[np.int64], strata: NDArray[np.int64], n_episodes: int
) -> tuple[Values, Values]:
    """Return sums of errors and counts by episode and stratum."""
    sums, counts = np.zeros((n_episodes, STRATA, errors.shape[1])), np.zeros((n_episodes, STRATA))
    np.add.at(sums, (episodes, strata), errors)
    np.add.at(counts, (episodes, strata), 1.0)
    return sums, counts


def _weighted_errors(
    weights: Values, sums: Values, counts: Values, real_sums: Values, real_counts: Values
) -> tuple[Values, Values]:
    """Return mean errors of images and of real transitions in the same strata, for every row of weights.

    `weights` are ``[resamples, episodes]``, sums ``[episodes, strata, results]`` and counts ``[episodes, strata]``.
    """
    # Weighted sums ([resamples, strata, results]) and numbers ([resamples, strata]) of transitions.
    total, real_total = (np.einsum("be,esj->bsj", weights, of_episodes) for of_episodes in (sums, real_sums))
    number, real_number = weights @ counts, weights @ real_counts
    # A stratum without real transitions cannot be compared. In the others, the real errors are weighted by the number
    # of images.
    is_usable = real_number > 0
    usable = is_usable * number
    size = np.maximum(usable.sum(axis=1), 1e-12)[:, None]
    mapped = (total * is_usable[:, :, None]).sum(axis=1) / size
    real = (usable[:, :, None] * real_total / np.maximum(real_number, 1e-12)[:, :, None]).sum(axis=1) / size
    return mapped, real
