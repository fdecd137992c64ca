"""Search: rules that the policy does not follow itself.

Mined rules say what a policy already does somewhere. Searched ones are made of the features alone: every choice,
enforced or blocked, always or where one condition holds, and mined rules without one of their conditions; then, of the
best, longer, shorter, wider and narrower ones. Where nothing gains, all of the first are tried, then some that speak of
several choices together ("left below 3, right above"; "neither left nor right"), then those that differ from others
only in states that were never seen, then longer ones that are drawn at random. What has conditions is generalised
through the relations.

What needs no playing comes first: a rule set that would change hardly any recorded state, or most of them, or nearly
the same ones in the same way as another, is not played. What is left is tried in lots, on seeds that nothing else is
judged on, and the best of them on more and more (`legible.hypotheses.ladder`), round after round, until the budget of
environment steps is spent. Where a small space of rules leaves steps over, all that is not known to lose is tried on
more seeds. Then the best ones that differ are proposed: they are tested like all other rule sets, on seeds that the
search has not seen.

- `searched`: the source; `Search`: makes candidates; `rungs_for`: the rungs that a budget is enough for.
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
from legible.rules import Polarity, Rule, RuleSet

SEARCHED = "searched"
FIRST_RUNG_LOT = 256  # candidates that are tried together on the first rung, at most
HIGHER_RUNG_LOT = 64  # the same on those above
LEAST_LOT = 16  # on the first rung, even where the budget is not enough for them
# How much of the budget may be spent after the rounds with one, two … conditions.
BUDGET_AFTER_ROUND = (0.45, 0.75, 0.9, 1.0)
# How much of a round's budget may be spent after each rung.
BUDGET_AFTER_RUNG = (0.4, 0.6, 0.8, 1.0)
# A first look at this many candidates is worth more than a longer one at few: the rungs are lower where the budget is
# not enough for it, down to a quarter; down to an eighth where episodes repeat each other, so that one that differs is
# no luck: where there are no more than a few ways in which they end. Then it is worth a look at more candidates, too.
FIRST_LOOK, LOWEST_SCALE = 256, 0.25
FEW_ENDS, FIRST_LOOK_OF_FEW, LOWEST_SCALE_OF_FEW = 8, 1024, 0.125
FALLBACK_CANDIDATES = 2048  # of rules said together, and of longer ones, that are drawn where no short one gains
MADE_PER_TRIED = 16  # candidates that are made for each that the budget is enough for; of more some are drawn
EQUAL_STATES_SHARE = 0.95  # of two rule sets with the same heads whose changed states overlap by more one is played


class Search:
    """Makes candidates and remembers what has been seen.

    Parameters
    ----------
    known
        What a source knows.
    """

    def __init__(self, known: SourceInput) -> None:
        self._known, self._settings = known, known.search
        self._most_changed = min(known.search.most_changed, known.most_changed)
        self._rng = np.random.default_rng([known.seed, 18])
        self._vocabulary = Vocabulary(known.experiences.space, known.mining.intervals)
        self._states = RecordedStates.drawn(known.experiences, self._settings.states, self._rng)
        self._inside = known.mining.intervals.encode(self._states.observations)
        self._seen: set[int] = set()
        self._changed = SeenStates(EQUAL_STATES_SHARE)
        self._made: set[Clauses] = set()
        self._same: list[Clauses] = []

    def first(self, most: int | None = None) -> list[SearchCandidate]:
        """Return rules without conditions, then the mined ones, those without a condition, and all with one.

        Of mined ones and of those with one condition, at most `most` are looked at.
        """
        heads = self._heads
        always = self._candidates((((), head),) for head in heads)
        clauses: list[Clause] = []
        for rule in (mined.rule for mined in self._known.mining.rules):
            body = self._vocabulary.body(rule.conditions)
            if body is not None:
                head = (rule.polarity, rule.action)
                clauses += [(some, head) for some in (body, *self._vocabulary.shorter(body))]
        mined = self._candidates(((clause,) for clause in clauses), most)
        single = self._candidates(((((span,), head),) for head in heads for span in self._vocabulary.spans), most)
        return always + [c for pair in zip_longest(mined, single) for c in pair if c is not None]

    @property
    def _heads(self) -> list[Head]:
        """Every choice, enforced and blocked."""
        polarities: tuple[Polarity, ...] = ("+", "-")
        return [(polarity, a) for a in range(len(self._known.experiences.space.actions)) for polarity in polarities]

    def together(self, most: int) -> list[SearchCandidate]:
        """Return candidates that speak of several choices of a group at once.

        One choice below a cut and another above it; and several that are never made. A policy that is stuck may need
        both halves, and to be kept from all that leaves it where it is.
        """
        starts = self._states.starts.tolist()
        groups = [range(first, last) for first, last in pairwise(starts)]
        halves: list[Clauses] = [
            (((low,), ("+", one)), ((high,), ("+", other)))
            for choices in groups
            for one, other in permutations(choices, 2)
            for low, high in self._vocabulary.halves
        ]
        never: list[Clauses] = []
        for choices in groups:  # two of them, three … as long as two are left
            blocked = (some for size in range(2, len(choices) - 1) for some in combinations(choices, size))
            never += [tuple(((), ("-", a)) for a in some) for some in islice(blocked, most)]
        return self._candidates(never, most) + self._candidates(halves, most)

    def again(self, most: int) -> list[SearchCandidate]:
        """Return candidates that change the recorded states as others did that were made before.

        A policy that has left the states that it was stuck in comes to others, in which they differ.
        """
        self._made.difference_update(self._same)
        return self._candidates(self._same, most, once=False)

    def drawn(self, count: int) -> list[SearchCandidate]:
        """Return candidates with two and more conditions that hold in a recorded state, drawn at random.

        Where no rule with one condition gains anything, nothing says which of them to begin with. A policy that is
        stuck may be freed by a rule that speaks of two things at once.
        """
        most = min(self._settings.most_conditions, len(self._vocabulary.spans_by_feature))
        if most < 2:
            return []
        heads, rng = self._heads, self._rng
        lengths, states = rng.integers(2, most + 1, count), rng.integers(len(self._states), size=count)
        bodies = [self._vocabulary.drawn(int(n), self._inside[i], rng) for n, i in zip(lengths, states, strict=True)]
        return self._candidates(((body, heads[int(rng.integers(len(heads)))]),) for body in bodies)

    def around(self, best: Iterable[SearchCandidate], most: int | None = None) -> list[SearchCandidate]:
        """Return candidates a small step away from some; at most `most` are looked at."""

        def bodies(body: Body) -> Iterator[Body]:
            yield from self._vocabulary.moved(body)
            yield from self._vocabulary.shorter(body)
            if len(body) < self._settings.most_conditions:
                yield from self._vocabulary.longer(body)

        def clauses(known: Clauses) -> Iterator[Clauses]:
            for i, (own, head) in enumerate(known):
                yield from ((*known[:i], (body, head), *known[i + 1 :]) for body in bodies(own))
                if len(known) > 1:
                    yield (*known[:i], *known[i + 1 :])

        return self._candidates((some for c in best for some in clauses(c.clauses)), most)

    def _candidates(
        self, clauses: Iterable[Clauses], most: int | None = None, *, once: bool = True
    ) -> list[SearchCandidate]:
        """Make candidates that change some of the recorded states, if `once` not as others do that were made before.

        To generalise a rule and to see what it would change takes time: of more than `most` some are drawn.
        """
        new = [some for some in dict.fromkeys(clauses) if some not in self._made]
        if most is not None and len(new) > most:
            new = [new[i] for i in sorted(self._rng.choice(len(new), most, replace=False).tolist())]
        self._made.update(new)
        kept = [(some, made) for some, made in zip(new, self._generalised(new), strict=True) if len(made)]
        candidates = []
        for start in range(0, len(kept), 1024):  # a part at a time, because the changed states take room
            candidates += self._of_use(kept[start : start + 1024], once=once)
        # For a budget that may be too small: by what the policy thinks of them and drawn, in turn.
        by_loss = sorted(candidates, key=lambda c: c.loss)
        drawn = [candidates[i] for i in self._rng.permutation(len(candidates)).tolist()]
        ordered = [c for pair in zip(by_loss, drawn, strict=True) for c in pair]
        return list({id(c): c for c in ordered}.values())

    def _generalised(self, clauses: Sequence[Clauses]) -> list[RuleSet]:
        """Return the rules of each with all that follows from them; a rule without conditions stays as it is."""
        rules = [
            Rule(polarity, action, self._vocabulary.conditions(body))
            for some in clauses
            for body, (polarity, action) in some
        ]
        found = iter(zip(rules, generalise_all(rules, self._known.relations), strict=True))
        made = []
        for some in clauses:
            sets = [g.rule_set if rule.conditions else RuleSet((rule,), rule) for rule, g in islice(found, len(some))]
            made.append(sets[0] if len(sets) == 1 else reduce(or_, sets))
        return made

    def _of_use(self, made: Sequence[tuple[Clauses, RuleSet]], *, once: bool) -> list[SearchCandidate]:
        responses = respond([rule_set for _, rule_set in made], self._states, negative_first=self._known.negative_first)
        found = []
        for i, (clauses, rule_set) in enumerate(made):
            digest = int(responses.digests[i])
            share = float(responses.changed[i].mean())
            # Acting in one way throughout, or leaving nothing to the policy, changes much.
            is_single = len(clauses) == 1 and clauses[0][0]
            most = self._most_changed if is_single else self._known.most_changed
            if not self._settings.least_changed <= share <= most:
                continue
            if once and digest in self._seen:
                self._same.append(clauses)
                continue
            self._seen.add(digest)
            made_of = SearchCandidate(clauses, rule_set, np.packbits(responses.changed[i]), float(responses.losses[i]))
            if not once or self._changed.add(made_of):
                found.append(made_of)
        return found


def searched(known: SourceInput) -> Hypotheses:
    """Rule sets from a beam search over bodies of one and more conditions, within a budget of environment steps."""
    search = Search(known)
    ladder = Ladder(float(known.experiences.returns.std()), known.most_changed)
    rounds = BUDGET_AFTER_ROUND[: known.search.most_conditions]
    climb = _Climb(ladder, rungs_for(known), float(known.experiences.lengths.mean()))
    begun, left, further = 0.0, list[SearchCandidate](), [search.together, search.again, search.drawn]
    for allowed in (share / rounds[-1] for share in rounds):
        budget = [known.budget * (begun + share * (allowed - begun)) for share in BUDGET_AFTER_RUNG]
        if begun == 0.0:
            left = yield from climb.try_all(search.first(climb.looked_at(budget[0])), budget[0])
        elif ladder.has_gain:
            yield from climb.refine(search, known.search.beam, budget[0])
        else:
            left = yield from climb.try_all(left, budget[0])
            while further and not left and not ladder.has_gain:
                left = yield from climb.try_all(further.pop(0)(FALLBACK_CANDIDATES), budget[0])
        for rung in range(1, len(RUNGS)):
            yield from climb.to(rung, budget[rung])
        begun = allowed
    for rung in range(1, len(RUNGS)):
        yield from climb.to(rung, known.budget, is_spare=True)
    best = ladder.best(known.search.proposed, rung=1) or ladder.best(known.search.proposed)
    yield Proposal([found.candidate.rule_set for found in best], [found.effect for found in best])


def rungs_for(known: SourceInput) -> tuple[LadderRung, ...]:
    """Return the rungs that a budget is enough for: lower ones where it is small and episodes are long."""
    seen, first_look = known.experiences, known.budget * BUDGET_AFTER_ROUND[0] * BUDGET_AFTER_RUNG[0]
    candidates = first_look / (RUNGS[0].changes * float(seen.lengths.mean()))
    ends = set(zip(seen.returns.tolist(), seen.lengths.tolist(), strict=True))
    wanted, lowest = (FIRST_LOOK, LOWEST_SCALE) if len(ends) > FEW_ENDS else (FIRST_LOOK_OF_FEW, LOWEST_SCALE_OF_FEW)
    scale = min(1.0, max(lowest, candidates / wanted))
    return tuple(LadderRung(round(scale * rung.changes), rung.seeds) for rung in RUNGS)


Trials = Generator[Trial, Sequence[MeasuredEffect], None]
"""Yields trials, and is sent the effects."""


class _Climb:
    """Tries candidates on the rungs of a ladder, and counts the environment steps.

    Parameters
    ----------
    ladder
        Knows what was tried.
    rungs
        Changed episodes and seeds of each rung.
    length
        Steps of an episode, on average. Episodes that begin where guidance parts from the policy are shorter: what is
        left over then is spent on the next lot.
    """

    def __init__(self, ladder: Ladder, rungs: Sequence[LadderRung], length: float) -> None:
        self._ladder, self._rungs, self._length = ladder, rungs, length
        self._spent = 0

    def _affordable(self, rung: int, allowed: float) -> int:
        """Return how many candidates can be tried on a rung until the allowed steps are spent."""
        return int((allowed - self._spent) / (self._rungs[rung].changes * self._length))

    def looked_at(self, allowed: float) -> int:
        """Return how many candidates are worth making before the allowed steps are spent on the first rung."""
        return MADE_PER_TRIED * max(LEAST_LOT, self._affordable(0, allowed))

    def _trial(
        self, candidates: Sequence[SearchCandidate], rung: int
    ) -> Generator[Trial, Sequence[MeasuredEffect], Any]:
        effects = yield Trial([candidate.rule_set for candidate in candidates], *self._rungs[rung])
        self._spent += sum(effect.steps for effect in effects)
        return effects

    def try_all(
        self, waiting: Sequence[SearchCandidate], allowed: float
    ) -> Generator[Trial, Sequence[MeasuredEffect], list[SearchCandidate]]:
        """Try candidates on the first rung, until the allowed steps are spent; returns those that are left."""
        start = 0
        while start < len(waiting) and self._spent < allowed:
            lot = waiting[start : start + min(FIRST_RUNG_LOT, max(LEAST_LOT, self._affordable(0, allowed)))]
            self._ladder.add(lot, (yield from self._trial(lot, 0)))
            start += len(lot)
        return list(waiting[start:])

    def refine(self, search: Search, beam: int, allowed: float) -> Trials:
        """Try what lies around the best candidates, then around the next ones, until the allowed steps are spent."""
        parents = [found.candidate for found in self._ladder.parents()]
        for start in range(0, len(parents), beam):
            if self._spent >= allowed:
                break
            yield from self.try_all(search.around(parents[start : start + beam], self.looked_at(allowed)), allowed)

    def to(self, rung: int, allowed: float, *, is_spare: bool = False) -> Trials:
        """Let candidates come to a rung, the most promising ones first, until the allowed steps are spent."""
        while self._spent < allowed:
            lot = self._ladder.climbing(rung, min(HIGHER_RUNG_LOT, self._affordable(rung, allowed)), is_spare=is_spare)
            if not lot:
                break
            effects = yield from self._trial([found.candidate for found in lot], rung)
            for found, effect in zip(lot, effects, strict=True):
                found.effect, found.rung = effect, rung


register_source(SEARCHED, searched)
