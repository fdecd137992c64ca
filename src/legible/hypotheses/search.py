"""Search: rules that the policy does not follow itself.

Mined rules say what a policy already does somewhere. Searched ones are made of the features alone: every choice,
enforced or blocked, where one condition holds, and mined rules without one of their conditions; then, of the best,
longer, shorter, wider and narrower ones. Each is generalised through the relations.

What needs no playing comes first: a rule set that would change hardly any recorded state, or most of them, or nearly
the same ones in the same way as another, is not played. What is left is tried in lots, on seeds that nothing else is
judged on, and the best of them on more and more (`legible.hypotheses.ladder`), round after round, until the budget of
environment steps is spent. Then the best ones that differ are proposed: they are tested like all other rule sets, on
seeds that the search has not seen.

- `searched`: the source; `Search`: makes candidates.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import zip_longest

import numpy as np

from legible.hypotheses.ladder import RUNGS, Candidate, Head, Ladder, SeenStates
from legible.hypotheses.responses import RecordedStates, respond
from legible.hypotheses.source import Hypotheses, MeasuredEffect, Proposal, SourceInput, Trial, register_source
from legible.hypotheses.vocabulary import Body, Vocabulary
from legible.relations import generalise_all
from legible.rules import Polarity, Rule, RuleSet

SEARCHED = "searched"
LOT = 256  # candidates that are tried together on the first rung, at most
LARGER_LOT = 64  # the same on those above
SMALL_LOT = 16  # on the first rung, even where the budget is not enough for them
# How much of the budget may be spent after the rounds with one, two … conditions.
SPENT = (0.45, 0.75, 0.9, 1.0)
# How much of a round's budget may be spent after each rung.
SPENT_ON_RUNGS = (0.4, 0.6, 0.8, 1.0)
EQUAL = 0.95  # of two rule sets with the same head whose changed states overlap by more than this one is played


class Search:
    """Makes candidates and remembers what has been seen.

    Parameters
    ----------
    known
        What a source knows.
    """

    def __init__(self, known: SourceInput) -> None:
        self._known, self._settings = known, known.search
        self._rng = np.random.default_rng([known.seed, 18])
        self._vocabulary = Vocabulary(known.experiences.space, known.mining.intervals)
        self._states = RecordedStates.drawn(known.experiences, self._settings.states, self._rng)
        self._seen: set[int] = set()
        self._changed = SeenStates(EQUAL)
        self._made: set[tuple[Body, Head]] = set()

    def first(self) -> list[Candidate]:
        """Return the mined rules, the same without one of their conditions, and all rules with one condition."""
        n_choices = len(self._known.experiences.space.actions)
        polarities: tuple[Polarity, ...] = ("+", "-")
        heads: list[Head] = [(polarity, a) for a in range(n_choices) for polarity in polarities]
        mined = self._candidates(self._mined())
        single = self._candidates(((span,), head) for head in heads for span in self._vocabulary.spans)
        return [c for pair in zip_longest(mined, single) for c in pair if c is not None]

    def _mined(self) -> Iterator[tuple[Body, Head]]:
        for rule in (mined.rule for mined in self._known.mining.rules):
            body = self._vocabulary.body(rule.conditions)
            if body is not None:
                yield from ((some, (rule.polarity, rule.action)) for some in (body, *self._vocabulary.shorter(body)))

    def around(self, best: Iterable[Candidate]) -> list[Candidate]:
        """Return candidates a small step away from some."""

        def bodies(body: Body) -> Iterator[Body]:
            yield from self._vocabulary.moved(body)
            yield from self._vocabulary.shorter(body)
            if len(body) < self._settings.most_conditions:
                yield from self._vocabulary.longer(body)

        return self._candidates((body, c.head) for c in best for body in bodies(c.body))

    def _candidates(self, bodies: Iterable[tuple[Body, Head]]) -> list[Candidate]:
        """Make candidates that change some of the recorded states, but not as others do that were made before."""
        new = [key for key in dict.fromkeys(bodies) if key not in self._made]
        self._made.update(new)
        rules = [Rule(polarity, action, self._vocabulary.conditions(body)) for body, (polarity, action) in new]
        made = generalise_all(rules, self._known.relations)
        kept = [(key, found.rule_set) for key, found in zip(new, made, strict=True) if not found.is_empty]
        candidates = []
        for start in range(0, len(kept), 1024):  # a part at a time, because the changed states take room
            candidates += self._of_use(kept[start : start + 1024])
        return self._in_turn(candidates)

    def _of_use(self, made: Sequence[tuple[tuple[Body, Head], RuleSet]]) -> list[Candidate]:
        responses = respond([rule_set for _, rule_set in made], self._states, negative_first=self._known.negative_first)
        found = []
        for i, ((body, head), rule_set) in enumerate(made):
            digest = int(responses.digests[i])
            share = float(responses.changed[i].mean())
            if digest in self._seen or not self._settings.least_changed <= share <= self._settings.most_changed:
                continue
            self._seen.add(digest)
            made_of = Candidate(body, head, rule_set, np.packbits(responses.changed[i]), float(responses.losses[i]))
            if self._changed.add(made_of):
                found.append(made_of)
        return found

    def _in_turn(self, candidates: list[Candidate]) -> list[Candidate]:
        """Order candidates for a budget that may be too small: by what the policy thinks of them and drawn, in turn."""
        by_loss = sorted(candidates, key=lambda c: c.loss)
        drawn = [candidates[i] for i in self._rng.permutation(len(candidates)).tolist()]
        ordered = [c for pair in zip(by_loss, drawn, strict=True) for c in pair]
        return list({id(c): c for c in ordered}.values())


def searched(known: SourceInput) -> Hypotheses:
    """Rule sets from a beam search over bodies of one and more conditions, within a budget of environment steps."""
    search = Search(known)
    ladder = Ladder(float(known.experiences.returns.std()))
    length = float(known.experiences.lengths.mean())
    spent, begun = 0, 0.0
    rounds = SPENT[: known.search.most_conditions]
    for allowed in (share / rounds[-1] for share in rounds):
        budget = [known.budget * (begun + share * (allowed - begun)) for share in SPENT_ON_RUNGS]
        if begun == 0.0:
            spent = yield from _try_all(ladder, search.first(), spent, budget[0], length)
        else:
            spent = yield from _refine(ladder, search, known.search.beam, spent, budget[0], length)
        for rung in range(1, len(RUNGS)):
            spent = yield from _climb(ladder, rung, spent, budget[rung], length)
        begun = allowed
    best = ladder.best(known.search.proposed, rung=1) or ladder.best(known.search.proposed)
    yield Proposal([found.candidate.rule_set for found in best], [found.effect for found in best])


Spending = Generator[Trial, Sequence[MeasuredEffect], int]
"""Yields trials and returns the environment steps that have been spent by now."""


def _affordable(rung: int, left: float, length: float) -> int:
    """How many candidates the steps that are left are enough for on a rung; `length` is that of an episode.

    Episodes that begin where guidance parts from the policy are shorter: what is left over is spent on the next lot.
    """
    return int(left / (RUNGS[rung].changes * length))


def _try_all(ladder: Ladder, waiting: Sequence[Candidate], spent: int, allowed: float, length: float) -> Spending:
    """Try candidates on the first rung, until so many steps are spent."""
    start = 0
    while start < len(waiting) and spent < allowed:
        lot = waiting[start : start + min(LOT, max(SMALL_LOT, _affordable(0, allowed - spent, length)))]
        effects = yield Trial([candidate.rule_set for candidate in lot], *RUNGS[0])
        ladder.add(lot, effects)
        spent += sum(effect.steps for effect in effects)
        start += len(lot)
    return spent


def _refine(ladder: Ladder, search: Search, beam: int, spent: int, allowed: float, length: float) -> Spending:
    """Try what lies around the best candidates, then around those that come next, until so many steps are spent."""
    parents = [found.candidate for found in ladder.parents()]
    for start in range(0, len(parents), beam):
        if spent >= allowed:
            break
        spent = yield from _try_all(ladder, search.around(parents[start : start + beam]), spent, allowed, length)
    return spent


def _climb(ladder: Ladder, rung: int, spent: int, allowed: float, length: float) -> Spending:
    """Let candidates come to a rung, the most promising ones first, until so many steps are spent."""
    while spent < allowed:
        lot = ladder.climbing(rung, min(LARGER_LOT, _affordable(rung, allowed - spent, length)))
        if not lot:
            break
        effects = yield Trial([found.candidate.rule_set for found in lot], *RUNGS[rung])
        for found, effect in zip(lot, effects, strict=True):
            found.effect, found.rung = effect, rung
        spent += sum(effect.steps for effect in effects)
    return spent


register_source(SEARCHED, searched)
