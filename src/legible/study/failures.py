"""The step of a study that explains why the policy fails: failure modes, and causes of mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.figures import share_figure
from legible.explanation.grouping import changed_states
from legible.explanation.groups import feature_groups
from legible.failures.alternatives import FEWEST_EPISODES, HOLDS, HORIZON, Alternative, Trials, find_alternative
from legible.failures.avoiding import STEPS_BACK, Avoidable, Chance, fails_at_end, find_last_chance
from legible.failures.causes import TriedDecisions, choose_unusual, find_cause, weigh_decisions
from legible.failures.modes import FEWEST_FAILURES, FailureMode, find_modes, find_states, mark_failed
from legible.failures.results import Diagnosis, Failures
from legible.features import cut_choices
from legible.mistakes import RolloutSetup, RolloutUnit, play_endings, play_in_detail, points_of
from legible.mistakes.decisions import count_choices_in, other_choices, steps_of
from legible.play import Experiences, adapt_policy, reads_features, stage_seeds
from legible.play.experiences import ExperienceSetup
from legible.study.collecting import collect_in_units
from legible.study.mistakes import play_rollout_units, rollout_setup

if TYPE_CHECKING:
    from legible.study.study import Study

STEP_SHARE = 0.12
"""Steps of the rollouts of failures, and again of those of causes, as a share of the steps that the study played."""
FEWEST_EXAMINED, MOST_FAILURES, FAILURE_ROLLOUTS = 5, 12, 6  # failures to examine, and rollouts of each choice
AVOIDING_SHARE, ALTERNATIVE_SHARE = 1 / 3, 1 / 4
"""Share of these steps that each failure mode may take: until when it can be avoided, and what is better there."""
MOST_ALTERNATIVES, TRIED_PER_EPISODE, MOST_TRIED = 2, 3, 120  # failure modes; decisions in the states of each
MOST_DECISIONS, UNUSUAL_DECISIONS = 1200, 0.3  # of causes; UNUSUAL_DECISIONS: share in unusual states
MIN_DECISIONS, MOST_STRETCH = 240, 2.0
"""Decisions that causes need; a small study may take up to `MOST_STRETCH` times its share of the steps for them."""
FUTURES = 2 * FAILURE_ROLLOUTS  # numbers of futures that are reserved for each state
FIRST_ALTERNATIVE = 1_000_000  # number of the first decision in the states of a failure mode
MOST_COMPARED = 4  # sets of choices
SURVIVED = 20
"""Steps that an episode must go on after its failure, at least, to count as saved."""
UNIT_DECISIONS = 32
_STREAM = 27  # separates the draw of decisions from other random numbers of the seed


def explain_failures(study: Study) -> Failures:
    """Return why a policy fails: what predicts failure, until when it can be avoided, and causes of mistakes.

    A failure mode is a rule that predicts failure; it is found in the experiences and tested on held-out episodes. The
    study must have recorded episodes, tested rule sets and composed rules. This step may play `STEP_SHARE` of the
    environment steps that those took.
    """
    # Record the held-out episodes. Actions are recorded as in the experiences, then continuous ones are cut into the
    # same regions.
    play, recorded = study.settings.play, study.experiences
    uncut = adapt_policy(study.policy, study.environment, cut_choices(study.given_space))
    setup = ExperienceSetup.of(uncut, study.environment, play)
    held_out = collect_in_units(study, setup, "failures", episodes=study.settings.references.episodes)
    held_out = held_out.with_choices(recorded.space)
    # `tries` plays other actions from visited states, which needs an environment that can be brought back to a state.
    branching = study.branching_method()
    tested_steps = sum(verdict.steps for verdict in study.evaluation.verdicts)
    step_budget = round(STEP_SHARE * (study.improvement.environment_steps + tested_steps))
    is_paired = study.settings.evaluation.method != "unpaired"  # if so, the same seed gives the same episode
    tries = None
    if branching.way is not None and is_paired:
        tries = _Tries(study, rollout_setup(study), branching.futures, step_budget)
    modes = find_modes(
        recorded,
        held_out,
        seed=study.seed,
        avoid=None if tries is None else lambda rows, within: tries.avoid(held_out, rows, within),
    )
    is_failed = mark_failed(held_out)
    failed = int(is_failed.sum())
    share = share_figure(failed, held_out.n_episodes) if failed >= FEWEST_FAILURES else None
    if tries is None:
        reason = branching.problem or "the same seed does not give the same episode."
        return Failures(share, held_out.n_episodes, modes, (), f"Causes were not looked for: {reason}")

    # What is better in the states of the first modes; without modes, until when any failure could be avoided.
    rng = np.random.default_rng([study.seed, _STREAM, 1])  # other draws than those of `_diagnose`
    with_alternatives = [_with_alternative(mode, held_out, tries, rng) for mode in modes[:MOST_ALTERNATIVES]]
    last_rows = np.cumsum(held_out.lengths) - 1
    avoidable = None if modes else tries.avoid(held_out, last_rows[is_failed], SURVIVED)
    problem = ""
    diagnoses: tuple[Diagnosis, ...] = ()
    if reads_features(study.player()):
        diagnoses = _diagnose(study, tries)
    else:
        problem = "Causes were not looked for: the policy does not read the features of the rules."
    modes = (*with_alternatives, *modes[MOST_ALTERNATIVES:])
    return Failures(share, held_out.n_episodes, modes, diagnoses, problem, avoidable)


def _with_alternative(mode: FailureMode, held_out: Experiences, tries: _Tries, rng: np.random.Generator) -> FailureMode:
    """Return a failure mode with what the policy does in its states and the best other choice there."""
    is_inside = find_states(mode.conditions, held_out)
    if mode.is_start:
        is_inside &= steps_of(held_out) == 0
    return replace(mode, alternative=tries.alternative(held_out, is_inside, rng))


@dataclass(frozen=True)
class _LimitedUnit(RolloutUnit):
    """Rollouts that are cut off at a step, and the number of steps for which their first choice is repeated."""

    limit: int
    hold: int = 1

    def setup(self, setup: RolloutSetup) -> RolloutSetup:
        """Return a setup with this limit and repetition."""
        return replace(setup, play=replace(setup.play, step_limit=self.limit), hold=self.hold)


def _play_endings(setup: RolloutSetup, unit: _LimitedUnit) -> NDArray[np.str_]:
    return play_endings(unit.setup(setup), unit)


def _play_horizon(setup: RolloutSetup, unit: _LimitedUnit) -> NDArray[np.float64]:
    """Return what rollouts return within `HORIZON` steps, and whether they fail: ``float64[2, decisions, choices]``."""
    played = play_in_detail(unit.setup(setup), unit)
    fails = fails_at_end(played.endings) & (played.lengths <= HORIZON)
    by_rollout = np.stack([played.course[:, :HORIZON].sum(axis=1), fails.astype(np.float64)])
    shape = (2, *unit.choices.shape, unit.seeds.shape[1])
    means: NDArray[np.float64] = by_rollout.reshape(shape).mean(axis=3)
    return means


class _Tries:
    """Plays rollouts from recorded states of a study, within a number of steps."""

    def __init__(self, study: Study, setup: RolloutSetup, futures: str, steps: int) -> None:
        self._study, self._setup, self._steps = study, setup, steps
        greedy = not study.settings.play.sample and study.settings.play.epsilon == 0
        self.is_exact = futures == "cannot be reseeded" or (futures == "nothing random" and greedy)

    def avoid(self, held_out: Experiences, rows: NDArray[np.int64], within: int) -> Avoidable | None:
        """Return how long before a failure another action still avoids it; None if too few failures can be examined.

        Other actions are played from states of failed episodes at several distances from the end.

        Parameters
        ----------
        held_out
            Recorded episodes.
        rows
            Rows of `held_out`, one in each failed episode to examine: where a failure mode first holds.
        within
            Number of steps before a failure that a failure mode refers to. A rollout that goes on for at least as many
            steps beyond the original end counts as saved.
        """
        rollouts, extra_steps = (1 if self.is_exact else FAILURE_ROLLOUTS), max(SURVIVED, within)
        space, first_rows = held_out.space, np.cumsum(held_out.lengths) - held_out.lengths
        # Choose the episodes, and the steps to go back to, as long as there are environment steps for their rollouts.
        steps_left = AVOIDING_SHARE * self._steps
        chances: list[Chance] = []
        for episode in held_out.episode_ids[rows].tolist():
            length = int(held_out.lengths[episode])
            steps = np.array([length - steps_back for steps_back in STEPS_BACK if steps_back <= length], np.int64)
            decision_rows = first_rows[episode] + steps
            choices = other_choices(space, held_out.actions[decision_rows], held_out.scores[decision_rows])
            cost = float((length - steps + extra_steps).sum()) * choices.shape[1] * rollouts
            if self._setup.way == "replay":  # states are reached by playing the episode again up to them
                cost += float(steps.sum()) * choices.shape[1] * rollouts
            steps_left -= cost
            if len(chances) == MOST_FAILURES or steps_left < 0:
                break
            chances.append(Chance(episode, steps, choices))
        if len(chances) < FEWEST_EXAMINED:
            return None

        def try_choices(tried: Sequence[Chance], first: int, count: int) -> list[NDArray[np.str_]]:
            """Play every choice in `count` futures from number `first` on; return how each rollout ended.

            A future is one seed of everything random after the state. The result of a chance has one text per step,
            choice and future.
            """
            units = []
            for chance in tried:
                points = points_of(held_out, first_rows[chance.episode] + chance.steps)
                length = int(held_out.lengths[chance.episode])
                # Every state has a number of its own, which decides the seeds of its futures.
                state_numbers = [
                    chance.episode * len(STEPS_BACK) + STEPS_BACK.index(length - step) for step in chance.steps.tolist()
                ]
                futures = [self._futures("failures rollouts", state, first, count) for state in state_numbers]
                units.append(_LimitedUnit(points, chance.choices, np.array(futures, np.int64), length + extra_steps))
            # A unit that raises an error counts as not avoiding the failure: all of its rollouts end in failure.
            if_error = [np.full((*unit.choices.shape, count), "failure") for unit in units]
            played = play_rollout_units(self._study, _play_endings, self._setup, units, "failures")
            return [failed if endings is None else endings for endings, failed in zip(played, if_error, strict=True)]

        lengths = [int(held_out.lengths[chance.episode]) for chance in chances]
        return find_last_chance(chances, lengths, try_choices, rollouts=rollouts, seed=self._study.seed)

    def alternative(
        self, held_out: Experiences, is_inside: NDArray[np.bool_], rng: np.random.Generator
    ) -> Alternative | None:
        """Return what the policy does in some held-out states, and the best other choice there.

        None if too few episodes have such states, or if rollouts of enough decisions would take too many steps.

        Parameters
        ----------
        held_out
            Recorded episodes.
        is_inside
            Which of their states are meant.
        rng
            Draws the decisions to try: in each episode the first such state, and some others.
        """
        rows_inside = np.flatnonzero(is_inside)
        _, first_indices = np.unique(held_out.episode_ids[rows_inside], return_index=True)
        is_first = np.zeros(len(rows_inside), np.bool_)
        is_first[first_indices] = True
        # A random order in which the first states of all episodes come before the others.
        order = np.lexsort([rng.random(len(rows_inside)), ~is_first])
        affordable = int(ALTERNATIVE_SHARE * self._steps / (len(HOLDS) * self._cost(held_out, rows_inside)))
        rows: list[int] = []
        rows_of_episode = np.zeros(held_out.n_episodes, np.int64)  # how many rows are chosen of each episode
        for row in rows_inside[order].tolist():
            episode = held_out.episode_ids[row]
            if len(rows) < min(affordable, MOST_TRIED) and rows_of_episode[episode] < TRIED_PER_EPISODE:
                rows.append(row)
                rows_of_episode[episode] += 1
        # Half of the episodes choose the alternative, the other half give its figures.
        if np.count_nonzero(rows_of_episode) < 2 * FEWEST_EPISODES:
            return None
        tried = np.sort(np.array(rows, np.int64))
        trials = {
            hold: self.trials("failures rollouts", held_out, tried, first=FIRST_ALTERNATIVE, hold=hold)
            for hold in HOLDS
        }
        return find_alternative(held_out, is_inside, tried, trials, str(self._study.policy.kind))

    def decisions(self, recorded: Experiences, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return rows of decisions to try for causes: a random sample, and unusual states."""
        affordable = self._steps / self._cost(recorded, np.arange(len(recorded)))
        count = int(max(affordable, min(MIN_DECISIONS, MOST_STRETCH * affordable)))
        count = min(MOST_DECISIONS, count, len(recorded))
        unusual = choose_unusual(recorded.observations, round(UNUSUAL_DECISIONS * count), rng)
        usual = rng.permutation(len(recorded))[: count - len(unusual)]
        return np.union1d(usual, unusual).astype(np.int64)

    def _cost(self, recorded: Experiences, rows: NDArray[np.int64]) -> float:
        """Return the mean number of steps that it takes to try every choice once in recorded states."""
        steps = steps_of(recorded)[rows]
        played = np.minimum(recorded.lengths[recorded.episode_ids[rows]] - steps, HORIZON)
        if self._setup.way == "replay":  # states are reached by playing the episode again up to them
            played = played + steps
        return float(played.mean()) * count_choices_in(recorded.space) if len(rows) else 1.0

    def trials(self, stage: str, recorded: Experiences, rows: NDArray[np.int64], *, first: int, hold: int) -> Trials:
        """Play every choice once at recorded decisions; return the returns of these rollouts, and which of them fail.

        A rollout repeats a choice for some steps, then follows the policy, `HORIZON` steps in all. All choices of a
        decision have the same future, which is the seed of everything random after the state.

        Parameters
        ----------
        stage
            The stage whose block of seeds has the futures.
        recorded, rows
            Recorded episodes, and the rows of the decisions.
        first
            Number of the first of these decisions; the number of a decision determines its future, so calls whose
            futures must differ use other numbers.
        hold
            Number of steps for which the choice is repeated.
        """
        space = recorded.space
        choices = other_choices(space, recorded.actions[rows], recorded.scores[rows])
        # The decisions of a unit lie at similar steps of their episodes, because all are cut off at the same step.
        steps = steps_of(recorded)[rows]
        order = np.argsort(steps, kind="stable")
        units = []
        most_steps = self._study.settings.play.step_limit
        for start in range(0, len(order), UNIT_DECISIONS):
            members = order[start : start + UNIT_DECISIONS]
            futures = [self._futures(stage, first + index, first=0, count=1) for index in members.tolist()]
            points, limit = points_of(recorded, rows[members]), min(most_steps, int(steps[members].max()) + HORIZON)
            units.append(_LimitedUnit(points, choices[members], np.array(futures, np.int64), limit, hold))
        played = play_rollout_units(self._study, _play_horizon, self._setup, units, "failures")
        # A unit that raised an error has no results: NaN.
        missing = [np.full((2, *unit.choices.shape), np.nan) for unit in units]
        in_order = [nans if result is None else result for result, nans in zip(played, missing, strict=True)]
        results = np.empty((2, *choices.shape))  # [return and whether it fails, decisions, columns of `choices`]
        results[:, order] = np.concatenate(in_order, axis=1)
        # The first column is the choice that was taken; the others are sorted by the number of the choice:
        # float64[return and whether it fails, decisions, 1 + choices].
        taken = recorded.actions[rows].reshape(len(rows), len(space.groups))
        by_choice = np.full((2, len(rows), 1 + len(space.actions)), np.nan)
        by_choice[:, :, 0] = results[:, :, 0]
        for choice in range(len(space.actions)):
            is_taken = taken[:, space.group_of(choice)] == choice
            is_column = choices == choice  # at most one column per decision, none if it is taken or forbidden
            is_tried = is_column.any(axis=1)
            of_choice = results[:, np.arange(len(rows)), is_column.argmax(axis=1)]
            by_choice[:, :, 1 + choice] = np.where(is_taken, results[:, :, 0], np.where(is_tried, of_choice, np.nan))
        return Trials(*by_choice)

    def _futures(self, stage: str, number: int, first: int, count: int) -> list[int]:
        """Return `count` futures (seeds) of the state with a number, from its `first` one on."""
        return stage_seeds(self._study.seed, stage, number * FUTURES + first, count)


def _diagnose(study: Study, tries: _Tries) -> tuple[Diagnosis, ...]:
    """Return why the policy chooses wrongly: one diagnosis for every set of choices that it confuses.

    Weaknesses and mistakes of the study say which choices to compare. `tries` plays other choices from recorded states.
    """
    # Draw recorded decisions (rows of the experiences) and play their other choices. `gains` is what each choice gives
    # beyond the one taken, ``float64[decisions, choices]``: 0 for that one, NaN for forbidden ones.
    recorded, policy = study.experiences, study.player()
    rng = np.random.default_rng([study.seed, _STREAM])
    rows = tries.decisions(recorded, rng)
    if not len(rows):
        return ()
    returns = tries.trials("causes rollouts", recorded, rows, first=0, hold=1).returns
    is_played = ~np.isnan(returns[:, 0])
    rows, gains = rows[is_played], (returns[:, 1:] - returns[:, :1])[is_played]
    # Features are examined in groups: the columns of each group, and for the cause the words of a group or feature.
    space = recorded.space
    columns = {group: [space.feature_index(name) for name in names] for group, names in feature_groups(space).items()}
    words = {feature.name: feature.question for feature in space.features} | {
        group: f"the group {group}" for group, group_columns in columns.items() if len(group_columns) > 1
    }
    diagnoses = []
    choice_sets = _choices_to_compare(study)
    for compared in choice_sets:
        group_number = space.group_of(compared[0])
        taken = recorded.actions[rows] if space.is_discrete else recorded.actions[rows, group_number]
        gain_table = gains[:, list(compared)]
        # Decisions in which one of the compared choices was taken, and all others were tried.
        is_usable = np.isin(taken, compared) & ~np.isnan(gain_table).any(axis=1)
        usable_rows = rows[is_usable]
        tried = TriedDecisions(
            recorded.observations[usable_rows],
            np.searchsorted(compared, taken[is_usable]),  # the position of the choice among the compared ones
            gain_table[is_usable],
            recorded.episode_ids[usable_rows],
            weigh_decisions(recorded.observations, rows)[is_usable],
        )

        # The default value keeps the choices of this round of the loop.
        def preference(observations: NDArray[np.float32], compared: tuple[int, ...] = compared) -> NDArray[Any]:
            """Return the policy's scores of the compared choices."""
            return np.asarray(policy.scores(observations))[:, list(compared)]

        cause = find_cause(
            tried,
            preference,
            recorded.observations,
            columns,
            space.names,
            seed=study.seed,
            others=len(choice_sets) - 1,  # further sets of choices, for which each test is stricter
        )
        # Where futures differ, one rollout per choice does not show which of two choices is better.
        misranked = _misranked(tried, recorded.scores[usable_rows][:, list(compared)]) if tries.is_exact else 0.0
        compares_all = len(compared) == space.groups[group_number].count
        kind = str(study.policy.kind) if space.is_discrete else "none"  # regions of continuous actions have no values
        diagnoses.append(Diagnosis(compared, compares_all, cause, words.get(cause.group, ""), misranked, kind))
    return tuple(diagnoses)


def _choices_to_compare(study: Study) -> list[tuple[int, ...]]:
    """Return sets of choices that the policy may confuse, each a tuple of choice numbers in ascending order.

    The first ones are all choices of a group (a discrete action is one group, each part of an action of several parts
    is another); then follow pairs: of each weakness the choice of its rule and the one that it replaces, and of the
    largest mistakes the choice taken and the better one.
    """
    recorded, space = study.experiences, study.experiences.space
    choice_sets = [tuple(range(group.first, group.first + group.count)) for group in space.groups if group.count > 1]
    pairs = []
    for weakness in study.explanations:
        if not weakness.rule_set.rules:
            continue
        rule = weakness.rule_set.rules[0]
        changed = changed_states(weakness.rule_set, recorded)  # the recorded states in which the rules act
        group_number = space.group_of(rule.action)
        if rule.polarity == "+":  # the rule enforces its choice instead of those that were taken
            taken = recorded.actions[changed] if space.is_discrete else recorded.actions[changed, group_number]
            others = taken[taken != rule.action]
        else:  # the rule blocks its choice: the policy's best other one is taken instead
            group = space.groups[group_number]
            scores = recorded.scores[changed][:, group.choices].copy()
            scores[:, rule.action - group.first] = -np.inf
            others = group.first + scores.argmax(axis=1)
        if len(others):
            most_frequent = int(np.bincount(others).argmax())
            pairs.append((rule.action, most_frequent))
    if study.has("mistakes"):
        pairs += [(mistake.action, mistake.better) for mistake in study.mistakes.listed[:3]]  # the largest three
    for pair in pairs:
        ordered = tuple(sorted(pair))
        if ordered not in choice_sets:
            choice_sets.append(ordered)
    return choice_sets[:MOST_COMPARED]


def _misranked(tried: TriedDecisions, scores: NDArray[Any]) -> float:
    """Return the share of pairs of choices that scores rank wrongly, weighted by the difference of returns."""
    wrong = total = 0.0
    for first, second in ((i, j) for i in range(scores.shape[1]) for j in range(i)):
        difference = tried.gains[:, first] - tried.gains[:, second]
        weights = np.abs(difference) * tried.weights
        total += float(weights.sum())
        wrong += float(weights[(difference > 0) != (scores[:, first] > scores[:, second])].sum())
    return wrong / total if total else 0.0
