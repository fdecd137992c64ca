"""Baselines of a study: simple ways to act that a policy should beat, and other policies to compare it with.

A mean return means little without a comparison. Where braking all the time earns ten times as much, a small gain by
guidance does not repair the policy.

- `Reference`: a baseline (random play, one choice throughout, the policy played another way, or another policy); a
  treatment that is played in units.
- `default_references`: random play and the constant choices of an environment; `other_way`: sampled instead of greedy
  play, or the opposite.
- `play_references`: plays the policy and baselines on the same seeds.
- `compare_references`: plays baselines, selects the best on separate seeds, and plays those on the final seeds.
- `References`: the results: a `ReferenceResult` for each baseline, a `QuotedReference` for those on the final seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.display import Displayed
from legible.errors import LegibleError
from legible.evaluation.blocks import PlayedBlocks, Runner
from legible.evaluation.failures import WorstCase
from legible.evaluation.objectives import Objective, find_objective
from legible.evaluation.statistics import Effect, holm, mean_interval
from legible.evaluation.units import UNGUIDED, Setup, UnitResult, cut_into_units, run_units
from legible.evaluation.verdicts import Sample
from legible.formatting import data_frame
from legible.guidance import CountingChooser
from legible.guidance.chooser import GuidedActions
from legible.play import Observations, Scores, stage_seeds
from legible.play.choosing import choices_to_actions, choose_choices, query_policy, typical_actions
from legible.play.failures import FailureLimit, TooManyFailuresError
from legible.policies import Policy
from legible.policies.protocol import MASKED
from legible.settings import MOST_FAILED, PlaySettings, ReferenceSettings

RANDOM_PLAY = "random play"
EXPLORING = 0.05
"""Share of random actions with which a greedy policy without probabilities is played the other way."""
Way = Literal["", "sampled", "greedy", "exploring"]
_WAYS: dict[Way, str] = {
    "sampled": "the same policy with sampled actions",
    "greedy": "the same policy with greedy actions",
    "exploring": f"the same policy with {100 * EXPLORING:g} % random actions",
}


@dataclass(frozen=True)
class Reference:
    """A baseline: random play unless it has choices, a way of playing or a policy."""

    name: str  # name in JSON and data frames: "random play", "always SLOWER", or the given name of another policy
    # For a constant choice, the choice of every group; choices are numbered through all groups.
    choices: tuple[int, ...] = ()
    fingerprint: str = ""  # stands for the behaviour of another policy
    # The other policy; None where its episodes are only read.
    policy: Policy | None = field(default=None, compare=False, repr=False)
    gerund: str = field(default="", compare=False)  # for a constant choice, the description "slowing down"
    way: Way = ""  # how the policy itself is played, if not as in the study

    @property
    def words(self) -> str:
        """Name in sentences: "random play", "always slowing down"."""
        return f"always {self.gerund}" if self.gerund else self.name

    @property
    def kind(self) -> Literal["random", "constant", "way", "policy"]:
        """The kind of baseline."""
        return "constant" if self.choices else "policy" if self.fingerprint else "way" if self.way else "random"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that identifies the baseline, without its name."""
        way = {"way": self.way} if self.way else {}
        return {"reference": self.kind, "choices": list(self.choices), "fingerprint": self.fingerprint, **way}

    @staticmethod
    def chooser(setup: Setup, episodes: NDArray[np.int64], seeds: Sequence[int]) -> ReferenceChooser:
        """Return the chooser that plays episodes, each by its baseline."""
        return ReferenceChooser(setup, episodes, seeds)


class ReferenceChooser(CountingChooser):
    """Chooser that plays episodes by baselines, and those without one by the policy."""

    def __init__(self, setup: Setup, episodes: NDArray[np.int64], seeds: Sequence[int]) -> None:
        super().__init__(setup.policy, episodes, seeds, sample=setup.play.sample)
        self._references = [reference for reference in setup.treatments if isinstance(reference, Reference)]
        self._epsilon = setup.play.epsilon

    def act(
        self,
        observations: Observations,
        treatments: NDArray[np.int64],
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
    ) -> GuidedActions:
        """Act in every row by its baseline."""
        scores, choices, actions = self._play_policy(
            self._policy, observations, keys, steps, self._sample, self._epsilon
        )
        for number in np.unique(treatments[treatments >= 0]).tolist():
            # Another policy sees all rows, so that the shape of its batches never changes.
            rows = treatments == number
            its_choices, its_actions = self._act_by(self._references[number], observations, scores, keys, steps)
            choices[rows], actions[rows] = its_choices[rows], its_actions[rows]
        nowhere = np.zeros(len(choices), np.bool_)
        return GuidedActions(actions, choices, scores, nowhere, nowhere)

    def choose(
        self,
        observations: Observations,
        scores: Scores,  # noqa: ARG002 (other policies have their own)
        treatments: NDArray[np.int64],
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Choose for every row by its baseline."""
        step = self.act(observations, treatments, keys, steps)
        return step.choices, step.fired, step.changed

    def _act_by(
        self,
        reference: Reference,
        observations: Observations,
        scores: Scores,
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the choices and the actions of a baseline for a batch of states, one row each.

        Parameters
        ----------
        reference
            The baseline: random play, a constant action, another policy, or this policy played in another way.
        observations, scores
            What the policy under study sees in every state, and its scores of all choices; `MASKED` marks choices that
            the environment forbids.
        keys, steps
            Random key of the episode and number of the step of every row, which decide its random numbers.

        Returns
        -------
        Numbers of the choices, ``int64[rows, groups]``, and the actions that the environment gets for them.
        """
        if reference.kind == "way":  # the policy itself, played in another way: sampled, greedy or exploring
            epsilon = EXPLORING if reference.way == "exploring" else 0.0
            is_sampled = reference.way == "sampled"
            _, choices, actions = self._play_policy(self._policy, observations, keys, steps, is_sampled, epsilon)
            return choices, actions
        if reference.kind != "policy":  # random play or a constant action
            choices = np.tile(np.array(reference.choices, np.int64), (len(steps), 1))
            # Where the mask forbids the constant choice, a random allowed one is taken.
            is_random = reference.kind != "constant"
            is_replaced = is_random or np.take_along_axis(scores, choices, axis=1) == MASKED
            if np.any(is_replaced):
                equal_scores = np.where(scores == MASKED, scores, np.zeros_like(scores))
                random_choices = choose_choices(equal_scores, self._starts, keys, steps, epsilon=1.0)
                choices = random_choices if is_random else np.where(is_replaced, random_choices, choices)
            return choices, typical_actions(self._policy, choices)
        # Another policy, which plays like the one under study: sampled or greedy, with the same exploration.
        policy = reference.policy
        if policy is None:
            raise LegibleError(
                f"the policy of the baseline {reference.name!r} is missing, so it cannot be played. Pass its file "
                "again."
            )
        _, choices, actions = self._play_policy(policy, observations, keys, steps, self._sample, self._epsilon)
        return choices, actions

    def _play_policy(
        self,
        policy: Policy,
        observations: Observations,
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
        sample: bool,
        epsilon: float,
    ) -> tuple[Scores, NDArray[np.int64], NDArray[Any]]:
        """Return the scores, choices and actions of a policy in a batch of states."""
        scores, wanted = query_policy(policy, observations, keys, steps, sample)
        # Only log-probabilities can be sampled from here; other policies have already sampled in `wanted`.
        draws = sample and policy.kind == "log-probabilities"
        choices = choose_choices(scores, self._starts, keys, steps, epsilon=epsilon, sample=draws)
        return scores, choices, choices_to_actions(policy, choices, wanted)


def default_references(
    group_names: Sequence[Sequence[str]], most_constants: int, typical: Sequence[int] = (), gerunds: Sequence[str] = ()
) -> tuple[list[Reference], str]:
    """Return the default baselines: random play, and one policy per choice that always takes it.

    Parameters
    ----------
    group_names
        Names of the choices, group by group. A discrete action space has one group; an action of several parts
        (MultiDiscrete) has one group per part. Choices are numbered from 0 through all groups.
    most_constants
        Maximum number of constant baselines; if there are more choices, this many are taken, evenly spread.
    typical
        For every group, the choice that is taken while a choice of another group is constant. Not needed for a single
        group.
    gerunds
        Descriptions of the choices, such as "moving left"; by default only their names are used.

    Returns
    -------
    The baselines, and a sentence on choices that were left out ("" if none was).
    """
    group_of_choice = [group for group, names in enumerate(group_names) for _ in names]
    all_names = [name for names in group_names for name in names]
    count = min(most_constants, len(all_names))
    evenly_spread = np.linspace(0, len(all_names) - 1, count).round().astype(int).tolist()
    constants = []
    for choice in evenly_spread:
        group = group_of_choice[choice]
        choices = (*typical[:group], choice, *typical[group + 1 :])  # one choice for every group
        gerund = gerunds[choice] if gerunds else ""
        constants.append(Reference(f"always {all_names[choice]}", choices, gerund=gerund))
    left_out = (
        f"{len(constants)} of the {len(all_names)} constant choices, evenly spread, were played as baselines."
        if len(constants) < len(all_names)
        else ""
    )
    return [Reference(RANDOM_PLAY), *constants], left_out


def other_way(policy: Policy, play: PlaySettings) -> Reference | None:
    """Return the policy played the other way: sampled if the study is greedy, greedy if it samples or explores.

    None for a policy that has only one way to play: continuous actions without a distribution.
    """
    way: Way = "exploring"
    if play.sample or play.epsilon:
        way = "greedy"
    elif policy.kind == "log-probabilities" or getattr(policy, "stochastic", False):
        way = "sampled"
    elif policy.kind != "values":
        return None
    return Reference(_WAYS[way], way=way)


@dataclass(frozen=True)
class ReferenceResult:
    """A baseline compared with the policy on the seeds of the selection; not to be reported."""

    reference: Reference  # the baseline
    sample: Sample  # summary of its episodes
    over_policy: Effect  # how much better it is than the policy by the objective, on the same seeds
    p_holm: float  # one-sided p-value of being better than the policy, corrected for all baselines (Holm)


@dataclass(frozen=True)
class QuotedReference:
    """A baseline on the final seeds."""

    reference: Reference  # the baseline
    # Its episodes, and their summary.
    result: UnitResult = field(compare=False, repr=False)
    sample: Sample
    # How much better it is by the objective than the unguided policy, and than the guided policy (the unguided one
    # where there is no composition), on the same seeds.
    over_policy: Effect
    over_guided: Effect
    # Whether it is better than the policy: after Holm's correction on the seeds of the selection, and on these seeds.
    beats_policy: bool

    @property
    def name(self) -> str:
        """Name of the baseline in JSON and data frames."""
        return self.reference.name

    @property
    def words(self) -> str:
        """Name of the baseline in sentences."""
        return self.reference.words


@dataclass(frozen=True, repr=False)
class References(Displayed):
    """Baselines compared with the policy.

    Parameters
    ----------
    base
        The policy on the seeds of the selection.
    results
        Every baseline on those seeds: random play, constant choices, other policies.
    quoted
        Random play, other policies and the best constant choices on the final seeds; in the order of the selection,
        the best first.
    notes
        Sentences about baselines that were left out.
    """

    base: Sample
    results: tuple[ReferenceResult, ...]
    quoted: tuple[QuotedReference, ...]
    notes: tuple[str, ...] = ()

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        return {"baselines": len(self.results), "best": self.best.words if self.best is not None else "none"}

    @property
    def best(self) -> QuotedReference | None:
        """The best baseline."""
        return self.quoted[0] if self.quoted else None

    @property
    def best_plain(self) -> QuotedReference | None:
        """The best of random play and the constant choices."""
        return next((quoted for quoted in self.quoted if quoted.reference.kind in {"random", "constant"}), None)

    @property
    def other_way(self) -> QuotedReference | None:
        """The policy played the other way: sampled instead of greedy, or the opposite."""
        return next((quoted for quoted in self.quoted if quoted.reference.kind == "way"), None)

    @property
    def random_play(self) -> QuotedReference | None:
        """Random play."""
        return next((quoted for quoted in self.quoted if quoted.reference.kind == "random"), None)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary per baseline, for JSON or a data frame.

        All baselines play the seeds on which the best are selected ("seeds": "references"). Only the best also play the
        final seeds, which selected nothing; then the row has those figures ("seeds": "final").
        """
        quoted_by_baseline = {quoted.reference: quoted for quoted in self.quoted}
        rows = []
        for result in self.results:
            quoted = quoted_by_baseline.get(result.reference)
            shown = quoted or result  # both have a sample, and a comparison with the policy
            sample, over_policy = shown.sample, shown.over_policy
            low, high = mean_interval(sample.mean, sample.error, sample.episodes - sample.failed)
            rows.append(
                {
                    "name": result.reference.name,
                    "mean": sample.mean,
                    "error": sample.error,
                    "low": low,
                    "high": high,
                    "success": sample.success,
                    "episodes": sample.episodes,
                    "kind": result.reference.kind,
                    "seeds": "references" if quoted is None else "final",
                    # How much better the baseline is than the policy by the objective, with its 95 % interval.
                    "over_policy": over_policy.mean,
                    "over_policy_low": over_policy.low,
                    "over_policy_high": over_policy.high,
                    "p_holm": result.p_holm,
                    "beats_policy": quoted is not None and quoted.beats_policy,
                }
            )
        return rows

    def to_frame(self) -> Any:
        """Return the baselines as a data frame, one row each."""
        return data_frame(self.to_rows())


def compare_references(
    setup: Setup,
    references: Sequence[Reference],
    final: PlayedBlocks,
    *,
    seed: int,
    settings: ReferenceSettings | None = None,
    objective: str = "mean",
    alpha: float = 0.05,
    most_failed: float = MOST_FAILED,
    notes: Sequence[str] = (),
    run: Runner = run_units,
) -> References:
    """Return how baselines compare with the policy: the best are selected on separate seeds, then play the final seeds.

    Baselines are random play, constant actions and other policies. Figures on the final seeds are unbiased, since those
    seeds selected nothing.

    Parameters
    ----------
    setup
        Policy, environment and settings of play; its rule sets are not used.
    references
        The baselines.
    final
        The final episodes of the policy, unguided and guided; baselines that are reported play the same seeds.
    seed
        Seed of the study.
    settings
        Numbers of episodes, and how many constant choices are reported.
    objective
        Name of the objective by which baselines are compared.
    alpha
        Significance level.
    most_failed
        Share of episodes that may fail; a baseline with more failures is left out.
    notes
        Sentences to add to the result.
    run
        Plays lists of episodes and returns their results: `run_units`, possibly with engine and store already chosen.
    """
    settings = settings or ReferenceSettings()
    # Selection: play the policy and all baselines, and compare them. Results are kept by the number of the baseline.
    blocks = _ReferenceBlocks(replace(setup, treatments=tuple(references)), most_failed, run)
    selection_seeds = stage_seeds(seed, "references", 0, settings.episodes)
    selection_results = blocks.play(range(UNGUIDED, len(references)), selection_seeds)
    base = selection_results.pop(UNGUIDED)
    measure = find_objective(objective)
    # Failed episodes count as the worst case.
    selection_worst = WorstCase((base, *selection_results.values()), measure.value)
    effects = [_compare(measure, selection_worst, result, base) for result in selection_results.values()]
    corrected = holm([effect.p for effect in effects]).tolist()
    results = {
        number: ReferenceResult(references[number], Sample.of(selection_results[number]), effect, p)
        for number, effect, p in zip(selection_results, effects, corrected, strict=True)
    }
    # Final seeds: random play, other policies, and only the best of the constant actions.
    ranked = sorted(selection_results, key=lambda number: -measure.value(selection_results[number].played))
    worse_constants = [number for number in ranked if references[number].kind == "constant"][settings.quoted :]
    played = blocks.play([number for number in ranked if number not in worse_constants], final.seeds)
    final_worst = WorstCase((*final.results, *played.values()), measure.value)
    quoted = []
    for number, result in played.items():
        over_policy = _compare(measure, final_worst, result, final.base)
        over_guided = _compare(measure, final_worst, result, final.results[-1])  # the last results are the guided ones
        # A claim needs both: significance on the selection seeds, and an interval above zero on the final ones.
        beats_policy = results[number].p_holm < alpha and over_policy.low > 0.0
        quoted.append(
            QuotedReference(references[number], result, Sample.of(result), over_policy, over_guided, beats_policy)
        )
    return References(Sample.of(base), tuple(results.values()), tuple(quoted), (*notes, *blocks.left_out))


def play_references(
    setup: Setup,
    references: Sequence[Reference],
    *,
    seeds: Sequence[int],
    most_failed: float = MOST_FAILED,
    run: Runner = run_units,
) -> dict[int, UnitResult]:
    """Return the episodes of the policy (number −1) and of baselines, without baselines that fail too often."""
    blocks = _ReferenceBlocks(replace(setup, treatments=tuple(references)), most_failed, run)
    return blocks.play(range(UNGUIDED, len(references)), seeds)


def _compare(objective: Objective, worst: WorstCase, result: UnitResult, other: UnitResult) -> Effect:
    """Compare two blocks; both ends of the interval hold whatever failed episodes would have returned."""
    effect = objective.compare(*worst.of(result, other))
    if not result.failed.any() and not other.failed.any():
        return effect
    return replace(effect, high=-objective.compare(*worst.of(other, result)).low)


class _ReferenceBlocks:
    """Blocks of baselines in separate units, so that a further baseline does not cause others to be played again."""

    def __init__(self, setup: Setup, most_failed: float, run: Runner) -> None:
        self._setup, self._most_failed, self._run = setup, most_failed, run
        self.left_out: list[str] = []

    def play(self, numbers: Sequence[int], seeds: Sequence[int]) -> dict[int, UnitResult]:
        """Play baselines (−1: the policy) on seeds, and leave out those with too many failed episodes."""
        try:
            return self._play_together(numbers, seeds, "references")
        except TooManyFailuresError:
            pass
        results: dict[int, UnitResult] = {}
        for number in numbers:
            reference = self._setup.treatments[number]
            name = reference.name if isinstance(reference, Reference) and number != UNGUIDED else "the policy"
            try:
                results |= self._play_together([number], seeds, name)
            except TooManyFailuresError as error:
                if number == UNGUIDED:
                    raise
                self.left_out.append(f"A baseline was left out: {error}")
        return results

    def _play_together(self, numbers: Sequence[int], seeds: Sequence[int], what: str) -> dict[int, UnitResult]:
        size, n = self._setup.play.unit_episodes, len(seeds)
        units = [unit for number in numbers for unit in cut_into_units([number] * n, seeds, size)]
        limit = FailureLimit(self._most_failed, what, n * len(numbers))
        result = self._run(self._setup, units, failures=limit)
        return {number: result[i * n : (i + 1) * n] for i, number in enumerate(numbers)}
