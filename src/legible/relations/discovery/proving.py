"""Screening and proof of proposed maps with the check of the environment.

`Prover` screens maps on the seeds of the sample: it repairs images, fits centres, and ignores features that break an
otherwise valid relation. Maps that pass are proven on separate seeds, corrected for the number of all that were
screened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import TypeVar

import numpy as np
from scipy.stats import ks_2samp

from legible.features import FeatureSpace
from legible.play.stages import STAGE_EPISODES
from legible.relations.check import choose_checker
from legible.relations.check.answers import Checker, CheckInputs, RelationCheck, inconclusive_check
from legible.relations.check.settable import StateChecker
from legible.relations.check.transitions import TransitionChecker, Transitions
from legible.relations.discovery.candidates import (
    FITTED_STATES,
    GOLDEN_STEPS,
    GRID,
    Candidate,
    fit_offsets,
    usual_offsets,
)
from legible.relations.discovery.choice_search import choice_search
from legible.relations.discovery.parts import Parts
from legible.relations.discovery.repair import MANY_FEATURES, align_rare, repair_actions, repair_images
from legible.relations.discovery.results import DiscoveredRelation, DiscoveryVerdict
from legible.relations.discovery.sampling import Sample
from legible.relations.discovery.search import Matcher
from legible.relations.discovery.signed_map import SignedMap, close
from legible.relations.discovery.structure import Structure
from legible.relations.discovery.wording import name_candidate
from legible.relations.relation import MetamorphicRelation
from legible.relations.values import RelationError

T = TypeVar("T")
# Share of the steps after which nothing more is screened, and share of the time that is left.
SCREENING, SCREENING_TIME = 0.7, 0.6
# States of a screening, which only sorts proposals, and of a proof.
SCREENED_STATES, PROVEN_STATES = 128, 2000
# Proposals that are screened: more of them where there are few features, and thus many maps without a clear order.
MOST_SCREENED, MOST_SCREENED_SMALL, SMALL = 30, 60, 6
MOST_PROVEN = 8
# The largest share of features that a relation may ignore.
IGNORED_SHARE = 1 / 3
# The largest share that it may ignore before their images are corrected, which is done up to MOST_CORRECTIONS
# times, and at most IDLE_CORRECTIONS times without success.
CORRECTED_SHARE, MOST_CORRECTIONS, IDLE_CORRECTIONS = 0.6, 8, 2
# Of many features, those that disagree at least this share as often as the worst are ignored too.
IGNORED_TOGETHER = 0.5
# Sum of the disagreements of features below which a map is worth a second repair.
NEARLY_RIGHT = 2.0
ERROR_RATE = 0.05


class Prover:
    """Screens maps on the seeds of the sample, and proves the maps that pass on separate seeds.

    Parameters
    ----------
    inputs
        The environment, the features and the seeds.
    sample
        The transitions from which the maps were proposed.
    steps
        Budget of steps in the environment, those of the sample included.
    deadline
        Time, of `time.monotonic`, after which nothing new is begun.
    parts
        Results of an earlier run that was stopped.
    """

    def __init__(
        self, inputs: CheckInputs, sample: Sample, steps: int, deadline: float, parts: Parts | None = None
    ) -> None:
        self.inputs, self.sample, self.deadline, self.parts = inputs, sample, deadline, parts or Parts()
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
        screened_until = now + SCREENING_TIME * (self.deadline - now)
        for number, signed in enumerate(maps[:most]):
            if len(passed) >= MOST_PROVEN or time.monotonic() > screened_until or self.steps > SCREENING * self.budget:
                break
            self.inputs.report(0.3 + 0.4 * number / most, "screening")
            if signed in close([candidate.map for candidate in passed]):
                continue
            candidate = self._once(f"screened-{number}", partial(self.screen, signed))
            if candidate is not None and not candidate.follows_from(passed):
                passed = _generators([*passed, candidate])
        return passed

    def prove(
        self, passed: Sequence[Candidate]
    ) -> tuple[tuple[DiscoveredRelation, ...], tuple[DiscoveredRelation, ...]]:
        """Return the relations that hold on separate seeds, and the relations that do not."""
        if not passed:
            return (), ()
        inputs = self._proof_inputs(passed)
        make_checker = cache(lambda: choose_checker(inputs))  # it may play; not needed if all proofs are saved
        found: list[DiscoveredRelation] = []
        rejected: list[DiscoveredRelation] = []
        # Those that ignore fewer features go first: others may follow from them.
        for number, candidate in enumerate(sorted(passed, key=lambda candidate: len(candidate.ignored))):
            if time.monotonic() > self.deadline:
                break
            self.inputs.report(0.75 + 0.25 * number / len(passed), "proving")
            if candidate.map in close([entry.candidate.map for entry in found]):
                continue  # it follows from the relations found so far
            used_names = [entry.name for entry in (*found, *rejected)]
            entry = self._prove_candidate(number, candidate, used_names, make_checker)
            (rejected if entry.verdict == "rejected" else found).append(entry)
        return tuple(found), tuple(rejected)

    def _prove_candidate(
        self, number: int, candidate: Candidate, used_names: Sequence[str], make_checker: Callable[[], Checker]
    ) -> DiscoveredRelation:
        """Return a candidate with the result of its proof; `number` is its place among those that passed."""
        space = self.inputs.space
        name, words = name_candidate(candidate, space, used_names)
        relations = candidate.relations(space, name, words)
        checks = self._once(f"proven-{number}", lambda: self._check(make_checker(), relations))
        verdict, bound = _verdict(checks), math.nan
        starts_differ = self._compare_starts(candidate)
        entry = DiscoveredRelation(
            name, words, verdict, space, candidate, relations, checks, bound, starts_differ, len(space.groups)
        )
        if verdict == "exact as far as seen":
            entry = replace(entry, bound=math.log(self.screened / ERROR_RATE) / max(entry.transitions, 1))
        return entry

    def _once(self, name: str, compute: Callable[[], T]) -> T:
        """Return a part that an earlier run finished, or compute and save it, with the steps and proposals so far."""
        result, self.steps, self.screened = self.parts.once(
            name, lambda: (compute(), self.steps, self.screened), keep_if=lambda: time.monotonic() < self.deadline
        )
        return result

    def _proof_inputs(self, passed: Sequence[Candidate]) -> CheckInputs:
        """Return the inputs of the proof: other seeds, and the states or episodes for which steps are left."""
        first = self.inputs.first + STAGE_EPISODES // 2
        inputs = replace(self.inputs, first=first, tests=max(self.screened, 1))
        steps_left = self.budget - self.steps
        if isinstance(self._screener, TransitionChecker):
            length = max(len(self.sample.rewards) / max(len(self.sample.starts), 1), 1.0)
            episodes = max(20, min(400, math.floor(0.9 * max(steps_left, 2000) / length)))
            self.steps += round(length * episodes)
            return replace(inputs, episodes=episodes)
        # Two steps for each state and pair of actions.
        states = steps_left // (2 * len(passed) * len(passed[0].action_pairs(self.inputs.space)))
        return replace(inputs, states=min(PROVEN_STATES, max(states, SCREENED_STATES)))

    def screen(self, signed: SignedMap) -> Candidate | None:
        """Return the candidate of a map that passes the check, with offsets and ignored features, or None."""
        if len(self.inputs.space) > MANY_FEATURES and not isinstance(self._screener, TransitionChecker):
            best = self._settle(self._repair(signed))
        else:
            best = self._correct_ignored(self._settle(signed))
        if best is None or len(best.ignored) > IGNORED_SHARE * len(self.inputs.space):
            return None
        # Exchanging features that never change, or that are always equal, says nothing.
        observations = self.sample.observations
        says_nothing = not best.map.changes_actions and np.array_equal(best.apply(observations), observations)
        return None if says_nothing else best

    def _repair(self, signed: SignedMap) -> SignedMap:
        """Return the map with images of features, and of discrete actions, that disagree less in the check.

        The few states of a screening say nothing about features that hardly ever vary. These follow the others, as in
        the larger sample, unless the check disagrees.
        """
        repaired = repair_images(signed, self._disagreements, self._matcher)
        aligned = align_rare(repaired, self.sample, self._matcher)
        if aligned != repaired:
            least = sum(self._disagreements(repaired).values())
            if least < NEARLY_RIGHT:
                aligned = repair_images(aligned, self._disagreements, self._matcher)
            if sum(self._disagreements(aligned).values()) <= least:
                repaired = aligned
        if not self.inputs.space.is_discrete:
            return repaired
        return repair_actions(
            repaired, lambda trial, action: sum(self._check_action(trial, action).disagreements.values())
        )

    def _disagreements(self, signed: SignedMap) -> dict[int, float]:
        """Return the shares of states in which features have wrong images, by feature: 1 if none can be judged."""
        answer = self._check_action(signed, 0)
        if answer.verdict == "cannot tell":
            return dict.fromkeys(range(len(signed.images)), 1.0)
        share_of_image = _to_ignore(answer, self.inputs.space)[1]
        return {i: share_of_image[image] for i, image in enumerate(signed.images) if image in share_of_image}

    def _check_action(self, signed: SignedMap, action: int) -> RelationCheck:
        """Return the check of a map for one action."""
        group = Candidate(signed, usual_offsets(self.sample, signed)).relations(self.inputs.space, "proposal")
        return self._check(self._screener, group, group[action : action + 1])[0]

    def _correct_ignored(self, candidate: Candidate | None) -> Candidate | None:
        """Return a candidate that ignores fewer features, if there is one.

        Ignored features get other images, given those of all others, and stay ignored only if none of them agrees.
        """
        tried: set[tuple[int, int, int]] = set()  # feature, image and sign
        signed, vain = candidate.map if candidate is not None else None, 0
        for _ in range(MOST_CORRECTIONS):
            if candidate is None or signed is None or not candidate.ignored:
                break
            if vain == IDLE_CORRECTIONS or time.monotonic() > self.deadline:
                break
            tried |= {(i, signed.images[i], signed.signs[i]) for i in candidate.ignored}
            signed = self._matcher.correct(candidate.map, candidate.ignored, tried)
            corrected = None if signed is None else self._settle(signed)
            if corrected is not None and len(corrected.ignored) < len(candidate.ignored):
                candidate, vain = corrected, 0
            else:
                vain += 1
        return candidate

    def _settle(self, signed: SignedMap) -> Candidate | None:
        """Return the candidate of a map that passes the check once some features are ignored, or None."""
        space = self.inputs.space
        candidate = Candidate(signed, usual_offsets(self.sample, signed))
        self.screened += 1
        # Fit the centres of mirrored features where the usual ones fail; that needs states that can be set.
        if isinstance(self._screener, StateChecker) and any(candidate.offsets):
            answers = self._check(self._screener, candidate.relations(space, "proposal"))
            if not _agrees(answers):
                rng = np.random.default_rng([self.inputs.seed, 7])
                self.steps += FITTED_STATES * (GRID + 2 * GOLDEN_STEPS) * int(np.count_nonzero(candidate.offsets))
                candidate = fit_offsets(self._screener, self.sample, candidate, rng)
        answered: list[RelationCheck] = []
        while len(answered) < len(candidate.action_pairs(space)):
            # One pair of actions after the other: most wrong proposals fail with the first.
            relations = candidate.relations(space, "proposal")
            (answer,) = self._check(self._screener, relations, relations[len(answered) : len(answered) + 1])
            if answer.verdict != "does not hold":
                answered.append(answer)
                continue
            # Ignore the features that deviate most, and check the same pair of actions again.
            failing, prices = _to_ignore(answer, space)
            candidate = candidate.ignoring(failing, prices)
            too_many = len(candidate.ignored) > CORRECTED_SHARE * len(space)
            if not failing or too_many or not candidate.changes or time.monotonic() > self.deadline:
                return None
        return candidate if _passes(answered) else None

    @cached_property
    def _matcher(self) -> Matcher:
        search = choice_search(self.sample)
        return search.matcher if search else Matcher(Structure.of(self.sample))

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
                reason = str(error).removesuffix(".")
                answer = inconclusive_check(relation, self.inputs.space, checker.method, 0, reason)
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


def _generators(candidates: list[Candidate]) -> list[Candidate]:
    """Return candidates without those that follow from the others; the ones that ignore most go first."""
    for candidate in sorted(candidates, key=lambda candidate: -len(candidate.ignored)):
        others = [other for other in candidates if other is not candidate]
        if candidate.follows_from(others):
            candidates = others
    return candidates


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
