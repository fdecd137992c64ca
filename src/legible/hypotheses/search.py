"""Search: rules that the policy does not follow itself.

Mined rules say what a policy already does somewhere. Searched ones are made of the features alone: every choice,
enforced or blocked, where one condition holds; then, of the best, longer, shorter, wider and narrower ones. Each is
generalised through the relations.

What needs no playing comes first: a rule set that would change hardly any recorded state, or most of them, or the same
ones in the same way as another, is not played. What is left is raced in small lots, round after round, until the
budget of environment steps is spent.

- `searched`: the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legible.hypotheses.responses import RecordedStates, respond
from legible.hypotheses.source import Hypotheses, MeasuredEffect, SourceInput, register_source
from legible.hypotheses.vocabulary import Body, Vocabulary
from legible.relations import generalise_all
from legible.rules import Polarity, Rule, RuleSet

LOT = 128  # rule sets that are raced together
# How much of the budget may be spent after the rounds with one, two … conditions.
SPENT = (0.45, 0.75, 0.9, 1.0)
SAME = 0.8  # two rule sets whose changed states overlap by more than this are one for the search


@dataclass(frozen=True)
class Candidate:
    """A rule set that has been, or may be, tested.

    Parameters
    ----------
    body, head
        The rule that it generalises.
    rule_set
        That rule with all that follows from it.
    changed
        The recorded states that it would change, packed.
    loss
        What the policy thinks that it costs, see `legible.hypotheses.responses.Responses`.
    """

    body: Body
    head: tuple[Polarity, int]
    rule_set: RuleSet
    changed: NDArray[np.uint8]
    loss: float


@dataclass(frozen=True)
class Tested:
    """A candidate and what guidance with it did."""

    candidate: Candidate
    effect: MeasuredEffect

    @property
    def worth(self) -> float:
        """What it gains, with a standard error taken off: many are tested, and the luckiest look best."""
        return self.effect.mean - self.effect.error


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
        self._made: set[tuple[Body, tuple[Polarity, int]]] = set()

    def first(self) -> list[Candidate]:
        """Return all candidates with one condition."""
        n_choices = len(self._known.experiences.space.actions)
        heads: list[tuple[Polarity, int]] = [(polarity, a) for a in range(n_choices) for polarity in ("+", "-")]
        return self._candidates(((span,), head) for head in heads for span in self._vocabulary.spans)

    def around(self, tested: Sequence[Tested]) -> list[Candidate]:
        """Return candidates a small step away from those that did best."""

        def bodies(body: Body) -> Iterator[Body]:
            yield from self._vocabulary.moved(body)
            yield from self._vocabulary.shorter(body)
            if len(body) < self._settings.most_conditions:
                yield from self._vocabulary.longer(body)

        best = [found.candidate for found in tested]
        return self._candidates((body, c.head) for c in best for body in bodies(c.body))

    def best(self, tested: Iterable[Tested]) -> list[Tested]:
        """Return the candidates that did best, none of which changes nearly the same states as another."""
        chosen: list[Tested] = []
        for found in sorted(tested, key=lambda found: -found.worth):
            if len(chosen) == self._settings.beam or not found.effect.mean > 0.0:
                break
            if all(overlap(found.candidate.changed, other.candidate.changed) <= SAME for other in chosen):
                chosen.append(found)
        return chosen

    def _candidates(self, bodies: Iterable[tuple[Body, tuple[Polarity, int]]]) -> list[Candidate]:
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

    def _of_use(self, made: Sequence[tuple[tuple[Body, tuple[Polarity, int]], RuleSet]]) -> list[Candidate]:
        responses = respond([rule_set for _, rule_set in made], self._states, negative_first=self._known.negative_first)
        found = []
        for i, ((body, head), rule_set) in enumerate(made):
            digest = int(responses.digests[i])
            share = float(responses.changed[i].mean())
            if digest not in self._seen and self._settings.least_changed <= share <= self._settings.most_changed:
                self._seen.add(digest)
                packed = np.packbits(responses.changed[i])
                found.append(Candidate(body, head, rule_set, packed, float(responses.losses[i])))
        return found

    def _in_turn(self, candidates: list[Candidate]) -> list[Candidate]:
        """Order candidates for a budget that may be too small: by what the policy thinks of them and drawn, in turn."""
        by_loss = sorted(candidates, key=lambda c: c.loss)
        drawn = [candidates[i] for i in self._rng.permutation(len(candidates)).tolist()]
        ordered = [c for pair in zip(by_loss, drawn, strict=True) for c in pair]
        return list({id(c): c for c in ordered}.values())


def overlap(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Share of the states that both change among those that either changes."""
    either = int(np.bitwise_count(first | second).sum())
    return int(np.bitwise_count(first & second).sum()) / either if either else 1.0


def searched(known: SourceInput) -> Hypotheses:
    """Rule sets from a beam search over bodies of one and more conditions, within a budget of environment steps."""
    search = Search(known)
    tested: list[Tested] = []
    spent = 0
    waiting = search.first()
    for allowed in SPENT[: known.search.most_conditions]:
        while waiting and spent < allowed * known.budget:
            lot, waiting = waiting[:LOT], waiting[LOT:]
            effects = yield [candidate.rule_set for candidate in lot]
            tested += [Tested(c, effect) for c, effect in zip(lot, effects, strict=True)]
            spent += sum(effect.steps for effect in effects)
        waiting = search.around(search.best(tested))


register_source("searched", searched)
