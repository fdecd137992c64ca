"""References: plain ways to act that a policy should beat, and other policies to compare it with.

A mean return says little by itself. Where braking all the time earns ten times as much, a policy that is guided to a
gain of some points is not mended.

- `Reference`: random play, one choice throughout, or another policy; a treatment, so that it is played in units.
- `plain_references`: random play and the constant choices of an environment.
- `compare_references`: plays them. Which ones are the best is decided on seeds of their own; those are then quoted from
  the seeds of the final figure.
- `References`: what came of it: a `ReferenceResult` for each of them, a `QuotedReference` for those on the final seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.evaluation.blocks import PlayedBlocks, Runner
from legible.evaluation.failures import WorstCase
from legible.evaluation.objectives import Objective, find_objective
from legible.evaluation.statistics import Effect, holm, mean_interval
from legible.evaluation.units import UNGUIDED, Setup, UnitResult, cut_into_units, run_units
from legible.evaluation.verdicts import Sample
from legible.formatting import data_frame
from legible.guidance import CountingChooser
from legible.guidance.chooser import Acted
from legible.play import Observations, Scores, stage_seeds
from legible.play.choosing import ask_policy, choose_choices, take_choices, typical_actions
from legible.play.failures import FailureLimit, TooManyFailuresError
from legible.policies import Policy
from legible.settings import MOST_FAILED, ReferenceSettings

RANDOM_PLAY = "random play"


@dataclass(frozen=True)
class Reference:
    """A way to act that a policy is compared with: random play unless it has choices or a policy.

    Parameters
    ----------
    name
        What it is called in tables for machines: "random play", "always SLOWER", or the name that another policy was
        given.
    choices
        For a constant choice, the choice of every group; choices are counted through all groups.
    fingerprint
        Stands for another policy's behaviour.
    policy
        The other policy; None where its episodes are only read.
    gerund
        For a constant choice, what it does in words: "slowing down".
    """

    name: str
    choices: tuple[int, ...] = ()
    fingerprint: str = ""
    policy: Policy | None = field(default=None, compare=False, repr=False)
    gerund: str = field(default="", compare=False)

    @property
    def words(self) -> str:
        """What it is called for people: "random play", "always slowing down"."""
        return f"always {self.gerund}" if self.gerund else self.name

    @property
    def kind(self) -> Literal["random", "constant", "policy"]:
        """What it is."""
        return "constant" if self.choices else "policy" if self.fingerprint else "random"

    def to_dict(self) -> dict[str, Any]:
        """Plain data that tells it from any other, whatever it is called."""
        return {"reference": self.kind, "choices": list(self.choices), "fingerprint": self.fingerprint}

    @staticmethod
    def chooser(setup: Setup, episodes: NDArray[np.int64], seeds: Sequence[int]) -> ReferenceChooser:
        """Make the chooser that plays episodes, each by its reference."""
        return ReferenceChooser(setup, episodes, seeds)


class ReferenceChooser(CountingChooser):
    """Plays episodes by references, and those without one as the policy says."""

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
    ) -> Acted:
        """Act in every row by its reference."""
        scores, wanted = ask_policy(self._policy, observations, keys, steps, self._sample)
        choices = choose_choices(scores, self._starts, keys, steps, epsilon=self._epsilon, sample=self._draws)
        actions = take_choices(self._policy, choices, wanted)
        for number in np.unique(treatments[treatments >= 0]).tolist():
            # All rows are shown to another policy, so that the shape of its batches never changes.
            rows, done = treatments == number, self._by(self._references[number], observations, scores, keys, steps)
            choices[rows], actions[rows] = done[0][rows], done[1][rows]
        nowhere = np.zeros(len(choices), np.bool_)
        return Acted(actions, choices, scores, nowhere, nowhere)

    def choose(
        self,
        observations: Observations,
        scores: Scores,  # noqa: ARG002 (other policies have their own)
        treatments: NDArray[np.int64],
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Choose for every row by its reference."""
        done = self.act(observations, treatments, keys, steps)
        return done.choices, done.fired, done.changed

    def _by(
        self,
        reference: Reference,
        observations: Observations,
        scores: Scores,
        keys: NDArray[np.uint64],
        steps: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The choices and the actions of a reference in all rows."""
        if reference.kind == "constant":
            choices = np.tile(np.array(reference.choices, np.int64), (len(steps), 1))
            return choices, typical_actions(self._policy, choices)
        if reference.kind == "random":
            choices = choose_choices(np.zeros_like(scores), self._starts, keys, steps, epsilon=1.0)
            return choices, typical_actions(self._policy, choices)
        policy = reference.policy
        if policy is None:
            raise LegibleError(f"the policy of the reference {reference.name!r} is not there to play.")
        scores, wanted = ask_policy(policy, observations, keys, steps, self._sample)
        drawn = self._sample and policy.kind == "log-probabilities"
        choices = choose_choices(scores, self._starts, keys, steps, epsilon=self._epsilon, sample=drawn)
        return choices, take_choices(policy, choices, wanted)


def plain_references(
    group_names: Sequence[Sequence[str]],
    most_constants: int,
    typical: Sequence[int] = (),
    gerunds: Sequence[str] = (),
) -> tuple[list[Reference], str]:
    """Return random play and the constant choices, and in words what was left out.

    Parameters
    ----------
    group_names
        The names of the choices, group by group; most environments have one group.
    most_constants
        How many constant choices there may be; of more, that many are taken, evenly spread.
    typical
        For every group, the choice at which it rests while a choice of another group is taken throughout; not needed
        for a single group. Choices are counted through all groups.
    gerunds
        What each choice does, in words; by default they are only called by their names.
    """
    groups = [group for group, names in enumerate(group_names) for _ in names]
    names = [name for names in group_names for name in names]
    spread = np.linspace(0, len(names) - 1, min(most_constants, len(names))).round().astype(int).tolist()
    constants = [
        Reference(
            f"always {names[choice]}",
            (*typical[: groups[choice]], choice, *typical[groups[choice] + 1 :]),
            gerund=gerunds[choice] if gerunds else "",
        )
        for choice in spread
    ]
    left_out = (
        f"Of the {len(names)} constant choices {len(constants)}, evenly spread, were played as references."
        if len(constants) < len(names)
        else ""
    )
    return [Reference(RANDOM_PLAY), *constants], left_out


@dataclass(frozen=True)
class ReferenceResult:
    """A reference compared with the policy, on the seeds on which the best references are chosen; not to be quoted.

    Parameters
    ----------
    reference
        The reference.
    sample
        Its episodes.
    over_policy
        How much better it is than the policy by the objective, on the same seeds: its returns minus the policy's.
    p_holm
        One-sided p-value for a greater mean than the policy's, corrected for all references (Holm).
    """

    reference: Reference
    sample: Sample
    over_policy: Effect
    p_holm: float


@dataclass(frozen=True)
class QuotedReference:
    """A reference on the seeds of the final figure.

    Parameters
    ----------
    reference
        The reference.
    result, sample
        Its episodes, and their sums.
    over_policy, over_guided
        How much better it is by the objective than the policy alone, and than the guided policy (the policy alone where
        there is no composition), on the same seeds: for means, its returns minus theirs.
    beats_policy
        Whether it is better than the policy: after Holm's correction on the seeds of the choice, and here again.
    """

    reference: Reference
    result: UnitResult = field(compare=False, repr=False)
    sample: Sample
    over_policy: Effect
    over_guided: Effect
    beats_policy: bool

    @property
    def name(self) -> str:
        """What the reference is called in tables for machines."""
        return self.reference.name

    @property
    def words(self) -> str:
        """What the reference is called for people."""
        return self.reference.words


@dataclass(frozen=True)
class References:
    """References compared with the policy.

    Parameters
    ----------
    base
        The policy on the seeds on which the best references are chosen.
    results
        Every reference on those seeds: random play, constant choices, other policies.
    quoted
        Random play, other policies and the best constant choices on the seeds of the final figure; those that did best
        on the seeds of the choice first.
    notes
        What was left out, in sentences.
    """

    base: Sample
    results: tuple[ReferenceResult, ...]
    quoted: tuple[QuotedReference, ...]
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> QuotedReference | None:
        """The best reference."""
        return self.quoted[0] if self.quoted else None

    @property
    def best_plain(self) -> QuotedReference | None:
        """The best reference that is no other policy: random play or a constant choice."""
        return next((quoted for quoted in self.quoted if quoted.reference.kind != "policy"), None)

    @property
    def random_play(self) -> QuotedReference | None:
        """Random play."""
        return next((quoted for quoted in self.quoted if quoted.reference.kind == "random"), None)

    def to_rows(self) -> list[dict[str, Any]]:
        """References as plain rows, for JSON or a data frame.

        Figures are of the seeds of the final figure; of the stage "references" for those that do not play them.
        """
        quoted = {entry.reference: entry for entry in self.quoted}
        return [_row(result, quoted.get(result.reference)) for result in self.results]

    def to_pandas(self) -> Any:
        """Return the references as a data frame, a row each."""
        return data_frame(self.to_rows())


def _row(result: ReferenceResult, quoted: QuotedReference | None) -> dict[str, Any]:
    sample, over = (quoted or result).sample, (quoted or result).over_policy
    low, high = mean_interval(sample.mean, sample.error, sample.episodes - sample.failed)
    return {
        "name": result.reference.name,
        "mean": sample.mean,
        "error": sample.error,
        "low": low,
        "high": high,
        "success": sample.success,
        "episodes": sample.episodes,
        "kind": result.reference.kind,
        "seeds": "references" if quoted is None else "final",
        "over_policy": over.mean,
        "over_policy_low": over.low,
        "over_policy_high": over.high,
        "p_holm": result.p_holm,
        "beats_policy": quoted is not None and quoted.beats_policy,
    }


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
    on_episodes: Callable[[int], None] | None = None,
) -> References:
    """Compare the policy with references: choose the best on seeds of their own, quote them on the final seeds.

    Parameters
    ----------
    setup
        Policy, environment and how episodes are played; its treatments are not used.
    references
        What the policy is compared with.
    final
        The episodes of the final figure, whose seeds the references play that are quoted.
    seed
        Of the study.
    settings
        Numbers of episodes, and how many constant choices are quoted.
    objective
        By what they are compared.
    alpha
        Level of the tests.
    most_failed
        Share of its episodes that may fail; a reference with more is left out.
    notes
        Sentences that belong to the result.
    run, on_episodes
        As in `legible.evaluation.evaluate`.
    """
    settings = settings or ReferenceSettings()
    blocks = _ReferenceBlocks(replace(setup, treatments=tuple(references)), most_failed, run, on_episodes)
    seeds = stage_seeds(seed, "references", 0, settings.episodes)
    tried = blocks.play(range(UNGUIDED, len(references)), seeds)
    base = tried.pop(UNGUIDED)
    better = find_objective(objective)
    chosen_by = _Differences(better, (base, *tried.values()))
    effects = {number: chosen_by.of(result, base) for number, result in tried.items()}
    corrected = dict(zip(effects, holm([effect.p for effect in effects.values()]).tolist(), strict=True))
    results = {
        number: ReferenceResult(references[number], Sample.of(result), effects[number], corrected[number])
        for number, result in tried.items()
    }
    ranked = sorted(tried, key=lambda number: -better.value(tried[number].played))
    worse_constants = [number for number in ranked if references[number].kind == "constant"][settings.quoted :]
    played = blocks.play([number for number in ranked if number not in worse_constants], final.seeds)
    differences = _Differences(better, (*final.results, *played.values()))
    quoted = [_quote(results[number], result, final, differences, alpha) for number, result in played.items()]
    return References(Sample.of(base), tuple(results.values()), tuple(quoted), (*notes, *blocks.left_out))


class _Differences:
    """How much better references are by an objective, among all episodes of a stage."""

    def __init__(self, objective: Objective, results: Sequence[UnitResult]) -> None:
        self._objective, self._worst = objective, WorstCase(results, objective.value)

    def of(self, result: UnitResult, other: UnitResult) -> Effect:
        """One reference; both ends of the interval hold whatever failed episodes would have been."""
        effect = self._objective.compare(*self._worst.of(result, other))
        if not result.failed.any() and not other.failed.any():
            return effect
        return replace(effect, high=-self._objective.compare(*self._worst.of(other, result)).low)


def _quote(
    chosen: ReferenceResult, result: UnitResult, final: PlayedBlocks, differences: _Differences, alpha: float
) -> QuotedReference:
    over_policy = differences.of(result, final.base)
    over_guided = differences.of(result, final.results[-1])
    beats = chosen.p_holm < alpha and over_policy.low > 0.0
    return QuotedReference(chosen.reference, result, Sample.of(result), over_policy, over_guided, beats)


class _ReferenceBlocks:
    """Plays blocks of references, each in units of its own: none is played again because another came along."""

    def __init__(
        self, setup: Setup, most_failed: float, run: Runner, on_episodes: Callable[[int], None] | None
    ) -> None:
        self._setup, self._most_failed = setup, most_failed
        self._run, self._on_episodes = run, on_episodes
        self.left_out: list[str] = []

    def play(self, numbers: Sequence[int], seeds: Sequence[int]) -> dict[int, UnitResult]:
        """Play references (−1: the policy) on some seeds; one too many of whose episodes fail is left out."""
        try:
            return self._play_together(numbers, seeds, "references")
        except TooManyFailuresError:
            pass
        found: dict[int, UnitResult] = {}
        for number in numbers:
            reference = self._setup.treatments[number]
            name = reference.name if isinstance(reference, Reference) and number != UNGUIDED else "the policy"
            try:
                found |= self._play_together([number], seeds, name)
            except TooManyFailuresError as error:
                if number == UNGUIDED:
                    raise
                self.left_out.append(f"A reference is left out: {error}")
        return found

    def _play_together(self, numbers: Sequence[int], seeds: Sequence[int], what: str) -> dict[int, UnitResult]:
        size, n = self._setup.play.unit_episodes, len(seeds)
        units = [unit for number in numbers for unit in cut_into_units([number] * n, seeds, size)]
        limit = FailureLimit(self._most_failed, what, n * len(numbers))
        result = self._run(self._setup, units, failures=limit, on_episodes=self._on_episodes)
        return {number: result[i * n : (i + 1) * n] for i, number in enumerate(numbers)}
