"""The conditions that searched rules are made of, and the small steps from one body to another.

- `Span`: neighbouring intervals of one feature; `Body`: spans of different features.
- `Vocabulary`: all spans that a search starts with, and the neighbours of a body.

A span of a numeric feature is one of its intervals, or all of them up to an end: "above 3", "at most 5". Wider and
narrower ones in between are reached step by step. An interval that holds a sentinel (a value that means "there is
none") is never drawn together with numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.features import FeatureSpace, Intervals, below
from legible.rules import Condition


class Span(NamedTuple):
    """Neighbouring intervals of a feature, from the first to the last of them."""

    feature: int
    first: int
    last: int


Body = tuple[Span, ...]
"""Spans of different features, in the order of the features."""


class Vocabulary:
    """What searched rules can say.

    Parameters
    ----------
    space
        Names and kinds of the features.
    intervals
        How the features are cut.

    Examples
    --------
    >>> space = FeatureSpace.of(["gap"], ["Brake", "Go"])
    >>> words = Vocabulary(space, Intervals.from_cuts([[1.0, 2.0]]))
    >>> [words.conditions((span,))[0].text(space[0]) for span in words.spans]
    ['gap <= 1', '1 < gap <= 2', 'gap > 2', 'gap <= 2', 'gap > 1']
    """

    def __init__(self, space: FeatureSpace, intervals: Intervals) -> None:
        self._space, self._intervals = space, intervals

    @cached_property
    def spans_by_feature(self) -> dict[int, tuple[Span, ...]]:
        """The spans of every feature that has more than one."""
        found = {feature: tuple(self._spans_of(feature)) for feature in range(len(self._space))}
        return {feature: spans for feature, spans in found.items() if spans}

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The spans of which the shortest bodies are made."""
        return tuple(span for spans in self.spans_by_feature.values() for span in spans)

    def _spans_of(self, feature: int) -> Iterator[Span]:
        count = int(self._intervals.sizes[feature])
        if count == 1:
            return
        yield from (Span(feature, i, i) for i in range(count))
        if self._space[feature].kind == "categorical":
            return
        for first, last in self._runs(feature):
            yield from (Span(feature, first, k) for k in range(first + 1, last))
            yield from (Span(feature, k, last) for k in range(first + 1, last))

    def _runs(self, feature: int) -> Iterator[tuple[int, int]]:
        """First and last interval of every stretch of numbers without a sentinel."""
        lows, highs = self._intervals.lows[feature], self._intervals.highs[feature]
        values = np.array(self._space[feature].sentinels, np.float32)
        special = frozenset(np.flatnonzero(np.isin(highs, values) & (lows == below(highs))).tolist())
        first = 0
        for k in range(int(self._intervals.sizes[feature]) + 1):
            if k == self._intervals.sizes[feature] or k in special:
                if k - 1 > first:
                    yield first, k - 1
                first = k + 1

    def conditions(self, body: Body) -> tuple[Condition, ...]:
        """Return the conditions of a body."""
        lows, highs = self._intervals.lows, self._intervals.highs
        return tuple(
            Condition(s.feature, float(lows[s.feature][s.first]), float(highs[s.feature][s.last])) for s in body
        )

    def body(self, conditions: Iterable[Condition]) -> Body | None:
        """Return the body that has some conditions; None where their ends are no ends of intervals."""
        spans = []
        for c in conditions:
            first = np.flatnonzero(self._intervals.lows[c.feature] == np.float32(c.low))
            last = np.flatnonzero(self._intervals.highs[c.feature] == np.float32(c.high))
            if not first.size or not last.size:
                return None
            spans.append(Span(c.feature, int(first[0]), int(last[0])))
        return tuple(sorted(spans))

    def drawn(self, count: int, inside: NDArray[np.uint16], rng: np.random.Generator) -> Body:
        """Draw a body with some spans, of different features, that holds in a state.

        The state is given by the interval of every feature. What lies in none of them is not spoken of.
        """
        chosen = sorted(rng.choice(list(self.spans_by_feature), count, replace=False).tolist())
        spans = [[s for s in self.spans_by_feature[f] if s.first <= inside[f] <= s.last] for f in chosen]
        return tuple(some[int(rng.integers(len(some)))] for some in spans if some)

    @cached_property
    def halves(self) -> tuple[tuple[Span, Span], ...]:
        """The two spans on either side of every cut, where both are spans."""
        whole = set(self.spans)
        pairs = (
            (span, Span(span.feature, span.last + 1, int(self._intervals.sizes[span.feature]) - 1))
            for span in self.spans
            if span.first == 0
        )
        return tuple(pair for pair in pairs if pair[1] in whole)

    def longer(self, body: Body) -> Iterator[Body]:
        """Bodies with one more span, of a feature that the body does not speak of."""
        spoken_of = {span.feature for span in body}
        for span in self.spans:
            if span.feature not in spoken_of:
                yield tuple(sorted((*body, span)))

    def moved(self, body: Body) -> Iterator[Body]:
        """Bodies in which one span of a numeric feature ends an interval earlier or later."""
        for i, (feature, first, last) in enumerate(body):
            if self._space[feature].kind == "categorical":
                continue
            whole = (0, int(self._intervals.sizes[feature]) - 1)
            for a, b in ((first - 1, last), (first + 1, last), (first, last - 1), (first, last + 1)):
                inside = any(start <= a <= b <= end for start, end in self._runs(feature))
                if inside and (a, b) != whole:
                    yield (*body[:i], Span(feature, a, b), *body[i + 1 :])

    def shorter(self, body: Body) -> Iterator[Body]:
        """Bodies with one span less."""
        if len(body) > 1:
            yield from (body[:i] + body[i + 1 :] for i in range(len(body)))
