"""`discover_relations`: finds relations of an environment, and proves them on seeds that proposed none of them.

Proposals come from one set of transitions (`sampling`, `structure`, `search`). Each is screened with the check of the
environment on the same seeds; features that break an otherwise valid relation are ignored. Those that pass are proven
with the same check on seeds of their own, corrected for the number of all proposals that were screened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.stats import ks_2samp

from legible.environments import Env, EnvironmentSpec, as_environment, feature_space_of
from legible.errors import LegibleError
from legible.features import FeatureSpace, cut_choices
from legible.formatting import number, percent
from legible.play.stages import STAGE_EPISODES, STAGES
from legible.relations.check import choose_checker, without_plain_wrappers
from legible.relations.check.answers import Checker, CheckInputs, OnProgress, RelationCheck, inconclusive_check
from legible.relations.check.settable import StateChecker, settable_checker
from legible.relations.check.transitions import TransitionChecker, Transitions
from legible.relations.discovery.candidates import (
    FITTED_STATES,
    GOLDEN_STEPS,
    GRID,
    Candidate,
    fit_offsets,
    usual_offsets,
)
from legible.relations.discovery.choice_search import ChoiceSearch
from legible.relations.discovery.sampling import Sample, draw_sample
from legible.relations.discovery.search import Matcher, search_maps
from legible.relations.discovery.signed_map import SignedMap, close
from legible.relations.discovery.structure import Structure, find_choices
from legible.relations.discovery.wording import name_candidate
from legible.relations.relation import MetamorphicRelation
from legible.relations.values import RelationError
from legible.relations.writer import dump_relations
from legible.streams import check_seed

DiscoveryVerdict: TypeAlias = Literal["exact as far as seen", "approximate", "rejected"]
DEFAULT_STEPS = 200_000
MOST_FEATURES = 120
# Minutes for at most FEW_FEATURES features, and for MOST_FEATURES; in proportion between them.
LEAST_MINUTES, MOST_MINUTES, FEW_FEATURES = 2.0, 10.0, 30
# Share of the steps for proposals, and the most that they need.
PROPOSING, MOST_PROPOSING = 0.3, 60_000
# Share of the time for the search.
SEARCH_SHARE = 0.45
# Share of that time for the search of maps of choices, and the seed of its starts.
CHOICES_SHARE, SEARCH_SEED = 0.6, 11
# Share of the steps after which nothing more is screened.
SCREENING = 0.7
# States of a screening, which only sorts proposals, and of a proof.
SCREENED_STATES, PROVEN_STATES = 128, 2000
# Proposals that are screened: more of them where there are few features, and thus many maps without a clear order.
MOST_SCREENED, MOST_SCREENED_SMALL, SMALL = 30, 60, 6
MOST_PROVEN = 8
MOST_MISMATCH = 0.75
# The largest share of features that a relation may ignore.
IGNORED_SHARE = 1 / 3
# The largest share that it may ignore before their images are corrected, which is done up to MOST_CORRECTIONS
# times, and at most IDLE_CORRECTIONS times without success.
CORRECTED_SHARE, MOST_CORRECTIONS, IDLE_CORRECTIONS = 0.6, 8, 2
# The most vain rounds in which features that disagree get other images, and for the same features.
MOST_REPAIRS, IDLE_REPAIRS = 12, 2
# With more features than MANY_FEATURES, those that disagree at least this share as often as the worst are ignored too.
MANY_FEATURES, IGNORED_TOGETHER = 30, 0.5
ERROR_RATE = 0.05


@dataclass(frozen=True)
class DiscoveredRelation:
    """A relation that was proposed, and the result of its proof.

    Parameters
    ----------
    name, words
        Name and description.
    verdict
        "exact as far as seen", "approximate" or "rejected".
    space
        Features and actions.
    candidate, relations
        The map, and the relations for every pair of actions.
    checks
        The proof, one check for every pair of actions.
    bound
        For exact relations, the largest share of disagreeing states that is compatible with the proof, at an error rate
        of 5 % over all proposals; NaN for others.
    starts_differ
        Features whose distribution at the start of episodes differs between states and their images.
    parts
        Number of parts of an action.
    """

    name: str
    words: str
    verdict: DiscoveryVerdict
    space: FeatureSpace
    candidate: Candidate
    relations: tuple[MetamorphicRelation, ...]
    checks: tuple[RelationCheck, ...]
    bound: float
    starts_differ: tuple[str, ...] = ()
    parts: int = 1

    @property
    def transitions(self) -> int:
        """Number of held-out transitions that were compared; a whole action is checked once for each of its parts."""
        return sum(check.states for check in self.checks) // self.parts

    @property
    def worst(self) -> RelationCheck:
        """The check that agrees least."""
        order = {"does not hold": 0, "cannot tell": 1, "holds approximately": 2, "holds": 3}
        return min(self.checks, key=lambda check: (order[check.verdict], np.nan_to_num(check.agreement, nan=-1.0)))

    @property
    def text(self) -> str:
        """The verdict with its evidence, in a sentence."""
        worst, n = self.worst, self.transitions
        if self.verdict == "exact as far as seen":
            return (
                f"Exact as far as seen: none of {n} held-out transitions disagrees, so at most {percent(self.bound)} "
                "of all transitions do."
            )
        size = f" by up to {number(worst.deviation)} ({worst.deviation_of})" if worst.deviation_of else ""
        if self.verdict == "approximate" and worst.is_exact:
            apart = percent(1 - min(check.agreement for check in self.checks))
            deviations = f"; {worst.slight}" if worst.slight else size
            return f"Approximate: up to {apart} of {n} held-out transitions disagree{deviations}."
        if self.verdict == "approximate":
            return (
                f"Approximate: images are predicted nearly as well as {n} held-out transitions. The excess error is "
                f"{number(max(check.deviation for check in self.checks))} of the variance ({worst.deviation_of})."
            )
        why = worst.counterexample.text if worst.counterexample is not None else f"{worst.note}."
        return f"Rejected for {worst.action} → {worst.image_action}: {why}"

    @property
    def ignored_text(self) -> str:
        """The ignored features and how far the environment disagreed there, in a sentence; empty without any."""
        ignored, space = self.candidate.ignored, self.space
        if not ignored:
            return ""
        names = [space.names[i] for i in sorted(ignored)]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        worst = max((share for _, share in self.candidate.prices), default=0.0)
        price = f" Without that, up to {percent(worst)} of the states disagreed there." if worst else ""
        return f"Ignores {shown}.{price}"

    @property
    def evidence(self) -> str:
        """All sentences: verdict, ignored features, starts."""
        return " ".join(part for part in (self.text, self.ignored_text, self.starts_text) if part)

    @property
    def starts_text(self) -> str:
        """A sentence that compares the starts of episodes with their images."""
        if not self.starts_differ:
            return "Episodes start alike in states and their images."
        more = " …" if len(self.starts_differ) > 6 else ""
        return f"Starts of episodes differ from their images in {', '.join(self.starts_differ[:6])}{more}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "name": self.name,
            "words": self.words,
            "verdict": self.verdict,
            "text": self.text,
            "transitions": self.transitions,
            "bound": None if math.isnan(self.bound) else self.bound,
            "starts_differ": list(self.starts_differ),
            "ignored": {
                self.space.names[i]: dict(self.candidate.prices).get(i) for i in sorted(self.candidate.ignored)
            },
            "checks": [check.to_dict() for check in self.checks],
        }


@dataclass(frozen=True)
class Discovery:
    """Result of a discovery.

    Parameters
    ----------
    environment
        Name of the environment.
    space
        Features and actions that the relations are about.
    found, rejected
        Relations that hold, exactly or approximately, and relations that passed the screening but failed the proof.
    screened
        Number of proposals that were screened.
    steps, seconds
        Steps taken in the environment (two for every compared state), and time used.
    complete
        False if time ran out.
    """

    environment: str
    space: FeatureSpace
    found: tuple[DiscoveredRelation, ...]
    rejected: tuple[DiscoveredRelation, ...]
    screened: int
    steps: int
    seconds: float
    complete: bool

    @property
    def relations(self) -> tuple[MetamorphicRelation, ...]:
        """All relations that hold."""
        return tuple(relation for found in self.found for relation in found.relations)

    @property
    def text(self) -> str:
        """The text of a relations file; empty if nothing was found."""
        return self.toml() if self.found else ""

    def toml(self) -> str:
        """Return the text of a relations file, also of one without relations."""
        lines = [
            f"# Relations that were discovered in {self.environment}: {self.screened} proposals, {self.steps} steps."
        ]
        lines += [f"# {entry.name} was rejected. {entry.text}".replace("\n", " ") for entry in self.rejected]
        holds = {"exact as far as seen": "yes", "approximate": "nearly"}
        relations = [
            replace(
                relation,
                holds={self.environment: holds[found.verdict]},
                note=found.evidence,
            )
            for found in self.found
            for relation in found.relations
        ]
        return "\n".join([*lines, "", dump_relations(relations, self.space)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        plain = {name: getattr(self, name) for name in ("environment", "screened", "steps", "seconds", "complete")}
        plain["relations"] = [entry.to_dict() for entry in (*self.found, *self.rejected)]
        return plain | {"toml": self.toml()}


def discover_relations(
    environment: str | EnvironmentSpec | Env,
    space: FeatureSpace | None = None,
    *,
    steps: int = DEFAULT_STEPS,
    minutes: float | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Discovery:
    """Find relations of an environment: signed permutations of features with a map of actions.

    Parameters
    ----------
    environment
        An id or ``module:factory``, a spec, or one environment.
    space
        Names of features and actions; by default those of `legible.environments.resolve_names`.
    steps, minutes
        Budget; by default `usual_minutes`. Proposals that time leaves no room for are not proven.
    seed
        Random seed; the same seed gives the same relations unless time runs out.
    on_progress
        Called with the share that is done and the current activity.
    """
    check_seed(seed)
    if steps < 2000 or (minutes is not None and minutes <= 0):
        raise LegibleError(
            f"discovery needs at least 2000 steps and some time, got {steps} steps"
            f"{'' if minutes is None else f', {minutes:g} minutes'}."
        )
    started = time.monotonic()
    environment = as_environment(environment)
    is_made_here = isinstance(environment, EnvironmentSpec)
    env = environment.make() if isinstance(environment, EnvironmentSpec) else environment
    try:
        named = cut_choices(feature_space_of(env, space)).own
        if len(named) > MOST_FEATURES:
            raise LegibleError(
                f"{len(named)} features are too many to search for relations (at most {MOST_FEATURES}); "
                "choose some of them with a features file, or write the relations."
            )
        minutes = usual_minutes(len(named)) if minutes is None else minutes
        first = STAGES["discovery"].block * STAGE_EPISODES
        inputs = CheckInputs(env, named, None, PROVEN_STATES, seed, on_progress, first)
        settable = settable_checker(inputs, without_plain_wrappers(env))
        setter = settable if isinstance(settable, StateChecker) else None
        inputs.report(0.05, "playing")
        sample = draw_sample(inputs, setter, min(round(PROPOSING * steps), MOST_PROPOSING))
        deadline = started + 60 * minutes
        maps = propose(sample, named, deadline=started + 60 * SEARCH_SHARE * minutes, on_progress=on_progress)
        prover = Prover(inputs, sample, steps, deadline)
        found, rejected = prover.prove(prover.screen_all(maps))
        seconds = time.monotonic() - started
        name = environment.name if isinstance(environment, EnvironmentSpec) else _name_of(env)
        complete = time.monotonic() < deadline
        return Discovery(name, named, found, rejected, prover.screened, prover.steps, seconds, complete)
    finally:
        if is_made_here:
            env.close()


def usual_minutes(n_features: int) -> float:
    """Return the time budget of a discovery: 2 minutes up to 30 features, 10 minutes for 120.

    >>> usual_minutes(4), usual_minutes(75), usual_minutes(120)
    (2.0, 6.0, 10.0)
    """
    share = max(n_features - FEW_FEATURES, 0) / (MOST_FEATURES - FEW_FEATURES)
    return LEAST_MINUTES + share * (MOST_MINUTES - LEAST_MINUTES)


def _name_of(env: Env) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def propose(
    sample: Sample, space: FeatureSpace, *, deadline: float = math.inf, on_progress: OnProgress | None = None
) -> list[SignedMap]:
    """Return signed maps that may be symmetries, the most promising first; names play no part."""
    begun = time.monotonic()

    def stop_after(share: float) -> Callable[[], bool]:
        def stop() -> bool:
            if on_progress is not None:
                on_progress(0.2, "searching")
            return time.monotonic() > begun + share * (deadline - begun)

        return stop

    search = _choice_search(sample)
    of_choices = search.search(np.random.default_rng(SEARCH_SEED), stop_after(CHOICES_SHARE)) if search else []
    proposals = search_maps(Structure.of(sample), math.inf if len(space) <= SMALL else MOST_MISMATCH, stop_after(1.0))
    proposals = [*of_choices, *proposals]
    if not space.is_discrete:
        sizes = [(group.count, group.regions is None) for group in space.groups]
        proposals = [p for p in proposals if all(sizes[g] == sizes[i] for g, i in enumerate(p.map.action_images))]
    return [proposal.map for proposal in proposals]


def _choice_search(sample: Sample) -> ChoiceSearch | None:
    """Return the search for features with choices; None without any, or if actions are not discrete."""
    choices = find_choices(sample) if sample.actions.ndim == 1 else []
    return ChoiceSearch(Structure.of_support(sample), choices) if choices else None


class Prover:
    """Screens maps on the seeds of the sample, and proves the maps that pass on separate seeds."""

    def __init__(self, inputs: CheckInputs, sample: Sample, steps: int, deadline: float) -> None:
        self.inputs, self.sample, self.deadline = inputs, sample, deadline
        self.budget, self.steps, self.screened = steps, sample.steps, 0
        screening = replace(inputs, states=SCREENED_STATES)
        checker = choose_checker(replace(screening, episodes=1))
        if isinstance(checker, TransitionChecker):
            checker = TransitionChecker(screening, _as_transitions(sample))
        else:
            checker = choose_checker(screening)
        self._screener: Checker = checker

    def screen_all(self, maps: Sequence[SignedMap]) -> list[Candidate]:
        """Return the candidates of maps that pass the check, generators only, while steps and time allow."""
        most = MOST_SCREENED_SMALL if len(self.inputs.space) <= SMALL else MOST_SCREENED
        passed: list[Candidate] = []
        now = time.monotonic()
        screened_until = now + 0.6 * (self.deadline - now)
        for place, signed in enumerate(maps[:most]):
            if len(passed) >= MOST_PROVEN or time.monotonic() > screened_until or self.steps > SCREENING * self.budget:
                break
            self.inputs.report(0.3 + 0.4 * place / most, "screening")
            if signed in close([candidate.map for candidate in passed]):
                continue
            candidate = self.screen(signed)
            if candidate is not None and not candidate.follows_from(passed):
                passed.append(candidate)
                for one in sorted(passed, key=lambda one: -len(one.ignored)):
                    rest = [other for other in passed if other is not one]
                    if one.follows_from(rest):
                        passed = rest
        return passed

    def prove(
        self, passed: Sequence[Candidate]
    ) -> tuple[tuple[DiscoveredRelation, ...], tuple[DiscoveredRelation, ...]]:
        """Return the relations that hold on separate seeds, and the relations that do not."""
        if not passed:
            return (), ()
        length = max(len(self.sample.rewards) / max(len(self.sample.starts), 1), 1.0)
        inputs = replace(self.inputs, first=self.inputs.first + STAGE_EPISODES // 2, tests=max(self.screened, 1))
        if isinstance(self._screener, TransitionChecker):
            steps_left = max(self.budget - self.steps, 2000)
            inputs = replace(inputs, episodes=max(20, min(400, math.floor(0.9 * steps_left / length))))
            self.steps += round(length * (inputs.episodes or 0))
        else:
            # Two steps for each state and pair of actions.
            each = (self.budget - self.steps) // (2 * len(passed) * len(passed[0].action_pairs(self.inputs.space)))
            inputs = replace(inputs, states=min(PROVEN_STATES, max(each, SCREENED_STATES)))
        checker = choose_checker(inputs)
        found: list[DiscoveredRelation] = []
        rejected: list[DiscoveredRelation] = []
        for place, candidate in enumerate(passed):
            if time.monotonic() > self.deadline:
                break
            self.inputs.report(0.75 + 0.25 * place / len(passed), "proving")
            if candidate.map in close([entry.candidate.map for entry in found]):
                continue
            used_names = [entry.name for entry in (*found, *rejected)]
            name, words = name_candidate(candidate, self.inputs.space, used_names)
            relations = candidate.relations(self.inputs.space, name, words)
            checks = self._check(checker, relations)
            entry = DiscoveredRelation(
                name=name,
                words=words,
                verdict=_verdict(checks),
                space=self.inputs.space,
                candidate=candidate,
                relations=relations,
                checks=checks,
                bound=math.nan,
                starts_differ=self._compare_starts(candidate),
                parts=len(self.inputs.space.groups),
            )
            if entry.verdict == "exact as far as seen":
                entry = replace(entry, bound=math.log(self.screened / ERROR_RATE) / max(entry.transitions, 1))
            (rejected if entry.verdict == "rejected" else found).append(entry)
        return tuple(found), tuple(rejected)

    def screen(self, signed: SignedMap) -> Candidate | None:
        """Return the candidate of a map that passes the check, with offsets and ignored features, or None.

        Ignored features get other images, given those of all others, and stay ignored only if none of them agrees.
        """
        if len(self.inputs.space) > MANY_FEATURES:
            signed = self._repair(signed)
        best = self._settle(signed)
        tried: set[tuple[int, int, int]] = set()
        idle = 0
        for _ in range(MOST_CORRECTIONS):
            if best is None or not best.ignored or idle == IDLE_CORRECTIONS or time.monotonic() > self.deadline:
                break
            tried |= {(i, signed.images[i], signed.signs[i]) for i in best.ignored}
            other = self._matcher.correct(best.map, best.ignored, tried)
            if other is None:
                break
            signed, candidate = other, self._settle(other)
            if candidate is not None and len(candidate.ignored) < len(best.ignored):
                best, idle = candidate, 0
            else:
                idle += 1
        if best is None or len(best.ignored) > IGNORED_SHARE * len(self.inputs.space):
            return None
        # Exchanging features that never change, or that are always equal, says nothing.
        observations = self.sample.observations
        says_nothing = not best.map.changes_actions and np.array_equal(best.apply(observations), observations)
        return None if says_nothing else best

    def _repair(self, signed: SignedMap) -> SignedMap:
        """Return the map with other images for features that disagree often, while fewer states then disagree."""
        space, tried, hopeless, idle, failures = self.inputs.space, set[tuple[int, int, int]](), set[int](), 0, 0

        def judge(trial: SignedMap) -> dict[int, float]:
            """Return the shares of states in which features have wrong images, by feature."""
            group = Candidate(trial, usual_offsets(self.sample, trial)).relations(space, "proposal")
            (answer,) = self._check(self._screener, group, group[:1])
            shares = _to_ignore(answer, space)[1]
            return {i: shares[image] for i, image in enumerate(trial.images) if image in shares}

        shares = judge(signed)
        while failures < MOST_REPAIRS and time.monotonic() < self.deadline:
            rest = {i: share for i, share in shares.items() if i not in hopeless}
            worst = max(rest, key=lambda i: rest[i], default=0)
            together = self._matcher.together(worst)
            wrong = frozenset(
                i for i, share in rest.items() if i in together and share >= IGNORED_TOGETHER * rest[worst]
            )
            tried |= {(i, signed.images[i], signed.signs[i]) for i in wrong}
            other = self._matcher.correct(signed, wrong, tried) if wrong else None
            if other is not None:
                tried |= {(i, other.images[i], other.signs[i]) for i in wrong}
                now = judge(other)
                if sum(now.values()) < sum(shares.values()):
                    # Images that turn out right may be needed again.
                    tried -= {(i, other.images[i], other.signs[i]) for i in wrong}
                    signed, shares, idle = other, now, 0
                    continue
                failures, idle = failures + 1, idle + 1
            if not wrong:
                break
            if other is None or idle == IDLE_REPAIRS:
                hopeless |= wrong
                idle = 0
        return signed

    def _settle(self, signed: SignedMap) -> Candidate | None:
        """Return the candidate of a map that passes the check once some features are ignored, or None."""
        space = self.inputs.space
        candidate = Candidate(signed, usual_offsets(self.sample, signed))
        self.screened += 1
        if isinstance(self._screener, StateChecker) and any(candidate.offsets):
            answers = self._check(self._screener, candidate.relations(space, "proposal"))
            if not _agrees(answers):
                fitted = fit_offsets(
                    self._screener, self.sample, candidate, np.random.default_rng([self.inputs.seed, 7])
                )
                self.steps += FITTED_STATES * (GRID + 2 * GOLDEN_STEPS) * int(np.count_nonzero(candidate.offsets))
                candidate = fitted
        answered: list[RelationCheck] = []
        while len(answered) < len(candidate.action_pairs(space)):
            # One pair of actions after the other: most wrong proposals fail with the first.
            relations = candidate.relations(space, "proposal")
            (answer,) = self._check(self._screener, relations, relations[len(answered) : len(answered) + 1])
            if answer.verdict != "does not hold":
                answered.append(answer)
                continue
            failing, prices = _to_ignore(answer, space)
            candidate = candidate.ignoring(failing, prices)
            too_many = len(candidate.ignored) > CORRECTED_SHARE * len(space)
            if not failing or too_many or not candidate.changes or time.monotonic() > self.deadline:
                return None
        return candidate if _passes(answered) else None

    @cached_property
    def _matcher(self) -> Matcher | ChoiceSearch:
        return _choice_search(self.sample) or Matcher(Structure.of(self.sample))

    def _check(
        self,
        checker: Checker,
        group: Sequence[MetamorphicRelation],
        relations: Sequence[MetamorphicRelation] | None = None,
    ) -> tuple[RelationCheck, ...]:
        """Return the checks of some relations of a group; of all of them by default."""
        answers = []
        for relation in group if relations is None else relations:
            try:
                answer = checker.check(relation, group)
            except RelationError as error:
                answer = inconclusive_check(
                    relation, self.inputs.space, checker.method, 0, str(error).removesuffix(".")
                )
            answers.append(answer)
            if not isinstance(checker, TransitionChecker):
                self.steps += 2 * answer.states
        return tuple(answers)

    def _compare_starts(self, candidate: Candidate) -> tuple[str, ...]:
        """Return the features whose starts differ from their images, tested with 1 % error over all features."""
        starts = self.sample.starts
        images = candidate.apply(starts)
        level = 0.01 / max(len(self.inputs.space), 1)
        return tuple(
            name
            for i, name in enumerate(self.inputs.space.names)
            if i not in candidate.ignored and ks_2samp(starts[:, i], images[:, i]).pvalue < level
        )


def _as_transitions(sample: Sample) -> Transitions:
    before, after = sample.observations.astype(np.float32), sample.after.astype(np.float32)
    return Transitions(sample.units, before, sample.actions, sample.rewards, after, sample.ended)


def _passes(answers: Sequence[RelationCheck]) -> bool:
    """Return whether no pair of actions is refuted, and at least half of them are not left open."""
    verdicts = [answer.verdict for answer in answers]
    return "does not hold" not in verdicts and 2 * verdicts.count("cannot tell") <= len(verdicts)


def _to_ignore(answer: RelationCheck, space: FeatureSpace) -> tuple[frozenset[int], dict[int, float]]:
    """Return the features to ignore next, and the shares of states in which each feature disagrees.

    There is none if the reward or the end deviates most. Of many features, all that disagree about as often as the
    worst are ignored at once.
    """
    numbers = {name: i for i, name in enumerate(space.names)}
    prices = {numbers[name]: share for name, share in answer.disagreements.items() if name in numbers}
    if len(space) > MANY_FEATURES and prices:
        most = max(prices.values())
        return frozenset(i for i, share in prices.items() if share >= IGNORED_TOGETHER * most), prices
    return frozenset(numbers[name] for name in (answer.deviation_of,) if name in numbers), prices


def _agrees(answers: Sequence[RelationCheck]) -> bool:
    return all(answer.verdict == "holds" for answer in answers)


def _verdict(checks: Sequence[RelationCheck]) -> DiscoveryVerdict:
    if not _passes(checks):
        return "rejected"
    exact = _agrees(checks) and all(check.is_exact for check in checks)
    # A statistical check can only bound a difference, so what it does not refute is approximate.
    return "exact as far as seen" if exact else "approximate"
