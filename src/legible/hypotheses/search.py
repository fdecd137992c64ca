"""Search for rules that the policy does not follow itself.

Mined rules describe what a policy already does somewhere. Searched rules are built from the features: every choice,
enforced or blocked, without a condition or with one, and mined rules without one of their conditions; then longer,
shorter, wider and narrower versions of the best. If none of them gains, the search tries rules about several choices
("left below 3, right above"; "neither left nor right"), then rules that differ from others only outside the recorded
states, then random longer ones. Rules with conditions are extended by their related forms.

Candidates are first filtered without playing: a rule set that would change hardly any recorded state, or most of them,
or nearly the same ones as another, is dropped. The others are tried in lots, on seeds of the search stage, and the best
of them on more and more seeds (`legible.hypotheses.ladder`), until the budget of environment steps is spent. If a small
space of rules leaves steps over, all candidates that are not known to lose are tried on more seeds. The best distinct
ones are proposed and tested like all other rule sets, on held-out seeds.

- `searched`: the source; `Search`: makes candidates; `rungs_for`: the rungs that a budget allows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import reduce
from itertools import combinations, islice, pairwise, permutations, zip_longest
from operator import or_
from typing import Any

import numpy as np

from legible.hypotheses.ladder import RUNGS, Clause, Clauses, Head, Ladder, LadderRung, SearchCandidate, SeenStates
from legible.hypotheses.responses import RecordedStates, respond
from legible.hypotheses.source import Hypotheses, MeasuredEffect, Proposal, SourceInput, Trial, register_source
from legible.hypotheses.vocabulary import Body, Vocabulary
from legible.relations import generalise_all
from legible.rules import Rule, RuleSet

SEARCHED = "searched"
FIRST_RUNG_LOT = 256  # maximum number of candidates that are tried together on the first rung
HIGHER_RUNG_LOT = 64  # the same on higher rungs
LEAST_LOT = 16  # minimum on the first rung, even beyond the budget
# Share of the budget that may be spent after the rounds with one, two … conditions.
BUDGET_AFTER_ROUND = (0.45, 0.75, 0.9, 1.0)
# Share of a round's budget that may be spent after each rung.
BUDGET_AFTER_RUNG = (0.4, 0.6, 0.8, 1.0)
# A short trial of this many candidates is worth more than a longer trial of few: rungs shrink to a quarter if the
# budget is too small for it. If episodes end in at most a few different ways, a change is rarely luck: rungs shrink
# to an eighth then, for more candidates.
FIRST_LOOK, LOWEST_SCALE = 256, 0.25
FEW_ENDS, FIRST_LOOK_OF_FEW, LOWEST_SCALE_OF_FEW = 8, 1024, 0.125
FALLBACK_CANDIDATES = 2048  # combined and longer rules that are drawn if no short rule gains
MADE_PER_TRIED = 16  # candidates made for each one that the budget allows; surplus ones are sampled
EQUAL_STATES_SHARE = 0.95  # of two rule sets with the same heads whose changed states overlap by more, one is played


class Search:
    """Maker of candidates, each of them once, from the input of a source."""

    def __init__(self, known: SourceInput) -> None:
        self._known, self._settings = known, known.search
        self._most_changed = min(known.search.most_changed, known.most_changed)
        self._rng = np.random.default_rng([known.seed, 18])
        self._vocabulary = Vocabulary(known.experiences.space, known.mining.intervals)
        self._states = RecordedStates.drawn(known.experiences, self._settings.states, self._rng, sample=known.samples)
        self._inside = known.mining.intervals.encode(self._states.observations)
        self._seen: set[int] = set()
        self._changed = SeenStates(EQUAL_STATES_SHARE)
        self._made: set[Clauses] = set()
        self._same: list[Clauses] = []

    def first(self, most: int | None = None) -> list[SearchCandidate]:
        """Return rules without conditions, mined rules, also without one of their conditions, and rules with one.

        At most `most` mined rules and at most `most` rules with one condition are considered.
        """
        heads = self._heads
        always = self._candidates((((), head),) for head in heads)
        mined_clauses: list[Clause] = []
        for rule in (mined.rule for mined in self._known.mining.rules):
            body = self._vocabulary.body(rule.conditions)
            if body is not None:
                head = (rule.polarity, rule.action)
                mined_clauses += [(shortened, head) for shortened in (body, *self._vocabulary.shorter(body))]
        mined = self._candidates(((clause,) for clause in mined_clauses), most)
        single = self._candidates(((((span,), head),) for head in heads for span in self._vocabulary.spans), most)
        return always + [c for pair in zip_longest(mined, single) for c in pair if c is not None]

    @property
    def _heads(self) -> list[Head]:
        """Heads that enforce or block each choice."""
        choices = range(len(self._known.experiences.space.actions))
        return [(polarity, a) for a in choices for polarity in self._known.polarities]

    def together(self, most: int) -> list[SearchCandidate]:
        """Return candidates about several choices of a group: one below a cut and another above it, or several blocked.

        A policy that is stuck may need both halves, or may need all choices blocked that leave it where it is.
        """
        groups = [range(first, last) for first, last in pairwise(self._states.starts.tolist())]
        both_sides: list[Clauses] = [
            (((below,), ("+", choice_below)), ((above,), ("+", choice_above)))
            for choices in groups
            for choice_below, choice_above in permutations(choices, 2)
            for below, above in self._vocabulary.halves
        ]
        never: list[Clauses] = []
        for choices in groups if "-" in self._known.polarities else ():
            # Two, three … blocked choices, as long as two are left.
            blocked_choices = (chosen for size in range(2, len(choices) - 1) for chosen in combinations(choices, size))
            never += [tuple(((), ("-", choice)) for choice in chosen) for chosen in islice(blocked_choices, most)]
        return self._candidates(never, most) + self._candidates(both_sides, most)

    def again(self, most: int) -> list[SearchCandidate]:
        """Return candidates that change the recorded states as earlier ones do.

        A policy that is no longer stuck reaches other states, in which they differ.
        """
        self._made.difference_update(self._same)
        return self._candidates(self._same, most, once=False)

    def drawn(self, count: int) -> list[SearchCandidate]:
        """Return random candidates with two or more conditions that hold in a recorded state.

        If no rule with one condition gains, none is a better starting point than another. A rule with two conditions
        may free a policy that is stuck.
        """
        most = min(self._settings.most_conditions, len(self._vocabulary.spans_by_feature))
        if most < 2:
            return []
        heads, rng = self._heads, self._rng
        lengths, states = rng.integers(2, most + 1, count), rng.integers(len(self._states), size=count)
        bodies = [self._vocabulary.drawn(int(n), self._inside[i], rng) for n, i in zip(lengths, states, strict=True)]
        return self._candidates(((body, heads[int(rng.integers(len(heads)))]),) for body in bodies)

    def around(self, best: Iterable[SearchCandidate], most: int | None = None) -> list[SearchCandidate]:
        """Return the neighbours of some candidates; at most `most` are considered."""

        def neighbours_of_body(body: Body) -> Iterator[Body]:
            yield from self._vocabulary.moved(body)
            yield from self._vocabulary.shorter(body)
            if len(body) < self._settings.most_conditions:
                yield from self._vocabulary.longer(body)

        def neighbours(clauses: Clauses) -> Iterator[Clauses]:
            for i, (body, head) in enumerate(clauses):
                before, after = clauses[:i], clauses[i + 1 :]
                yield from ((*before, (changed, head), *after) for changed in neighbours_of_body(body))
                if len(clauses) > 1:
                    yield (*before, *after)

        return self._candidates((made for c in best for made in neighbours(c.clauses)), most)

    def _candidates(
        self, clauses: Iterable[Clauses], most: int | None = None, *, once: bool = True
    ) -> list[SearchCandidate]:
        """Make candidates that change some of the recorded states; with `once`, not in the same way as earlier ones.

        Computing the related forms and changes of a rule takes time: of more than `most`, a sample is used.
        """
        new = [made for made in dict.fromkeys(clauses) if made not in self._made]
        if most is not None and len(new) > most:
            new = [new[i] for i in sorted(self._rng.choice(len(new), most, replace=False).tolist())]
        self._made.update(new)
        kept = [(made, rule_set) for made, rule_set in zip(new, self._generalised(new), strict=True) if len(rule_set)]
        candidates = []
        for start in range(0, len(kept), 1024):  # in parts, because the changed states need memory
            candidates += self._of_use(kept[start : start + 1024], once=once)
        # The budget may be too small for all: alternate between the lowest losses and a random order.
        by_loss = sorted(candidates, key=lambda c: c.loss)
        drawn = [candidates[i] for i in self._rng.permutation(len(candidates)).tolist()]
        ordered = [c for pair in zip(by_loss, drawn, strict=True) for c in pair]
        return list({id(c): c for c in ordered}.values())

    def _generalised(self, clauses: Sequence[Clauses]) -> list[RuleSet]:
        """Return the rule sets of clauses with related forms; a rule without conditions has none."""
        rules = [
            Rule(polarity, action, self._vocabulary.conditions(body))
            for rules_together in clauses
            for body, (polarity, action) in rules_together
        ]
        generalised = zip(rules, generalise_all(rules, self._known.relations), strict=True)
        rule_sets = iter([related if rule.conditions else RuleSet((rule,), rule) for rule, related in generalised])
        # Join the sets of rules that are tried together.
        joined = [list(islice(rule_sets, len(rules_together))) for rules_together in clauses]
        return [sets[0] if len(sets) == 1 else reduce(or_, sets) for sets in joined]

    def _of_use(self, made: Sequence[tuple[Clauses, RuleSet]], *, once: bool) -> list[SearchCandidate]:
        """Return the rule sets that change enough of the recorded states, but not too many, as candidates.

        With `once`, a rule set must also change them in another way than all before; others are kept for `again`. A
        clause is the conditions of a rule and its head: the choice that it takes or avoids.
        """
        responses = respond([rule_set for _, rule_set in made], self._states, negative_first=self._known.negative_first)
        useful = []
        for i, (clauses, rule_set) in enumerate(made):
            digest = int(responses.digests[i])  # of the changed states and the new choices
            share = float(responses.changed[i].mean())
            # Rules without conditions and combined rules may change more.
            is_single = len(clauses) == 1 and clauses[0][0]  # one rule, with conditions
            most = self._most_changed if is_single else self._known.most_changed
            if not self._settings.least_changed <= share <= most:
                continue
            if once and digest in self._seen:
                self._same.append(clauses)
                continue
            self._seen.add(digest)
            changed_states = np.packbits(responses.changed[i])
            candidate = SearchCandidate(clauses, rule_set, changed_states, float(responses.losses[i]))
            if not once or self._changed.add(candidate):  # `add` refuses a set that changes nearly the same states
                useful.append(candidate)
        return useful


def searched(known: SourceInput) -> Hypotheses:
    """Yield trials of rule sets and finally the best ones as a proposal: a beam search for rules that gain return.

    The generator is sent the effects of every trial. Candidates begin with rules that have no condition or one;
    conditions of the best are then added, removed and moved. A candidate climbs rungs: on each it is tried on four
    times as many changed episodes as on the one below, and only promising ones climb.

    Parameters
    ----------
    known
        What the study knows: recorded episodes, mined rules, relations, settings, and the budget of environment steps.
    """
    search = Search(known)
    ladder = Ladder(float(known.experiences.returns.std()), known.most_changed)
    climb = _Climb(ladder, rungs_for(known), float(known.experiences.lengths.mean()))
    # If no short rule gains: rules about several choices, rules that differ only outside the recorded states, and
    # random longer ones, in this order.
    fallbacks = [search.together, search.again, search.drawn]
    untried: list[SearchCandidate] = []
    # One round for every number of conditions that a rule may have. Each has a share of the budget, of which every rung
    # has a share, so that no rung uses up the steps of the next.
    rounds = BUDGET_AFTER_ROUND[: known.search.most_conditions]
    share_before = 0.0
    for share_after in (share / rounds[-1] for share in rounds):  # the last of them spends the whole budget
        budget_after_rung = [
            known.budget * (share_before + share * (share_after - share_before)) for share in BUDGET_AFTER_RUNG
        ]
        first_budget = budget_after_rung[0]
        if share_before == 0.0:  # the first round
            untried = yield from climb.try_all(search.first(climb.candidates_for(first_budget)), first_budget)
        elif ladder.has_gain:
            yield from climb.refine(search, known.search.beam, first_budget)
        else:
            untried = yield from climb.try_all(untried, first_budget)
            while fallbacks and not untried and not ladder.has_gain:
                make_candidates = fallbacks.pop(0)
                untried = yield from climb.try_all(make_candidates(FALLBACK_CANDIDATES), first_budget)
        for rung in range(1, len(RUNGS)):
            yield from climb.to(rung, budget_after_rung[rung])
        share_before = share_after
    # Steps that are left over: try all candidates that are not known to lose on higher rungs.
    for rung in range(1, len(RUNGS)):
        yield from climb.to(rung, known.budget, is_spare=True)
    # Propose the best distinct ones, of the second rung or above if any got there.
    best = ladder.best(known.search.proposed, rung=1) or ladder.best(known.search.proposed)
    yield Proposal([tested.candidate.rule_set for tested in best], [tested.effect for tested in best])


def rungs_for(known: SourceInput) -> tuple[LadderRung, ...]:
    """Return the rungs that a budget allows: lower ones if it is small and episodes are long."""
    seen, first_look = known.experiences, known.budget * BUDGET_AFTER_ROUND[0] * BUDGET_AFTER_RUNG[0]
    candidates = first_look / (RUNGS[0].changes * float(seen.lengths.mean()))
    ends = set(zip(seen.returns.tolist(), seen.lengths.tolist(), strict=True))
    wanted, lowest = (FIRST_LOOK, LOWEST_SCALE) if len(ends) > FEW_ENDS else (FIRST_LOOK_OF_FEW, LOWEST_SCALE_OF_FEW)
    scale = min(1.0, max(lowest, candidates / wanted))
    return tuple(LadderRung(round(scale * rung.changes), rung.seeds) for rung in RUNGS)


Trials = Generator[Trial, Sequence[MeasuredEffect], Any]
"""Yields trials and is sent their effects."""


class _Climb:
    """Trials of candidates on the rungs of a ladder, with a count of environment steps.

    `length` is the mean length of an episode. Trials that start at the first changed step are shorter; the steps that
    are left over are spent on the next lot.
    """

    def __init__(self, ladder: Ladder, rungs: Sequence[LadderRung], length: float) -> None:
        self._ladder, self._rungs, self._length = ladder, rungs, length
        self._spent = 0

    def _affordable(self, rung: int, allowed: float) -> int:
        """Return the number of candidates that the allowed steps are enough for on a rung."""
        return int((allowed - self._spent) / (self._rungs[rung].changes * self._length))

    def candidates_for(self, allowed: float) -> int:
        """Return the number of candidates to make for the allowed steps on the first rung."""
        return MADE_PER_TRIED * max(LEAST_LOT, self._affordable(0, allowed))

    def _trial(self, candidates: Sequence[SearchCandidate], rung: int) -> Trials:
        effects = yield Trial([candidate.rule_set for candidate in candidates], *self._rungs[rung])
        self._spent += sum(effect.steps for effect in effects)
        return effects

    def try_all(self, waiting: Sequence[SearchCandidate], allowed: float) -> Trials:
        """Try candidates on the first rung until the allowed steps are spent; return those that are left."""
        start = 0
        while start < len(waiting) and self._spent < allowed:
            lot = waiting[start : start + min(FIRST_RUNG_LOT, max(LEAST_LOT, self._affordable(0, allowed)))]
            self._ladder.add(lot, (yield from self._trial(lot, 0)))
            start += len(lot)
        return list(waiting[start:])

    def refine(self, search: Search, beam: int, allowed: float) -> Trials:
        """Try the neighbours of the best candidates, then of the next ones, until the allowed steps are spent."""
        parents = [found.candidate for found in self._ladder.parents()]
        for start in range(0, len(parents), beam):
            if self._spent >= allowed:
                break
            neighbours = search.around(parents[start : start + beam], self.candidates_for(allowed))
            yield from self.try_all(neighbours, allowed)

    def to(self, rung: int, allowed: float, *, is_spare: bool = False) -> Trials:
        """Try candidates on a rung, the most promising ones first, until the allowed steps are spent."""
        while self._spent < allowed:
            lot = self._ladder.climbing(rung, min(HIGHER_RUNG_LOT, self._affordable(rung, allowed)), is_spare=is_spare)
            if not lot:
                break
            effects = yield from self._trial([found.candidate for found in lot], rung)
            for found, effect in zip(lot, effects, strict=True):
                found.effect, found.rung = effect, rung


register_source(SEARCHED, searched)
