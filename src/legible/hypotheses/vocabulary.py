"""The conditions of searched rules, and small changes of rule bodies.

- `Span`: neighbouring intervals of one feature; `Body`: spans of different features.
- `Vocabulary`: the spans that a search starts with, and the neighbours of a body.

A span of a numeric feature is one of its intervals, or all intervals up to an end: "above 3", "at most 5". The search
reaches other spans step by step. An interval that holds a sentinel (a value that means "missing") is never combined
with numbers.
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
    """The conditions of searched rules.

    Parameters
    ----------
    space
        Names and kinds of the features.
    intervals
        Intervals of the features.

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
        """Spans by feature, for every feature with more than one interval."""
        all_spans = {feature: tuple(self._spans_of(feature)) for feature in range(len(self._space))}
        return {feature: spans for feature, spans in all_spans.items() if spans}

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """All spans that a search starts with."""
        return tuple(span for spans in self.spans_by_feature.values() for span in spans)

    def _spans_of(self, feature: int) -> Iterator[Span]:
        """Yield each interval of a feature, and if it is numeric all intervals up to an end of a run of numbers."""
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
        """Yield the first and last interval of every run of numbers without a sentinel."""
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
        """Return the body with some conditions; None if their bounds are not bounds of intervals."""
        spans = []
        for c in conditions:
            first = np.flatnonzero(self._intervals.lows[c.feature] == np.float32(c.low))
            last = np.flatnonzero(self._intervals.highs[c.feature] == np.float32(c.high))
            if not first.size or not last.size:
                return None
            spans.append(Span(c.feature, int(first[0]), int(last[0])))
        return tuple(sorted(spans))

    def drawn(self, count: int, inside: NDArray[np.uint16], rng: np.random.Generator) -> Body:
        """Draw a body of `count` spans, of different features, that holds in a state.

        The state is given as the interval of every feature; features outside all intervals are left out.
        """
        features = sorted(rng.choice(list(self.spans_by_feature), count, replace=False).tolist())
        holding = [[s for s in self.spans_by_feature[f] if s.first <= inside[f] <= s.last] for f in features]
        return tuple(spans[int(rng.integers(len(spans)))] for spans in holding if spans)

    @cached_property
    def halves(self) -> tuple[tuple[Span, Span], ...]:
        """Pairs of spans below and above a cut."""
        spans, sizes = set(self.spans), self._intervals.sizes
        pairs = ((s, Span(s.feature, s.last + 1, int(sizes[s.feature]) - 1)) for s in self.spans if s.first == 0)
        return tuple(pair for pair in pairs if pair[1] in spans)

    def longer(self, body: Body) -> Iterator[Body]:
        """Yield the bodies with one more span, of a feature that the body does not use."""
        used = {span.feature for span in body}
        yield from (tuple(sorted((*body, span))) for span in self.spans if span.feature not in used)

    def moved(self, body: Body) -> Iterator[Body]:
        """Yield the bodies in which one bound of a numeric feature moves by one interval."""
        for i, (feature, first, last) in enumerate(body):
            if self._space[feature].kind == "categorical":
                continue
            whole = (0, int(self._intervals.sizes[feature]) - 1)
            for a, b in ((first - 1, last), (first + 1, last), (first, last - 1), (first, last + 1)):
                inside = any(start <= a <= b <= end for start, end in self._runs(feature))
                if inside and (a, b) != whole:
                    yield (*body[:i], Span(feature, a, b), *body[i + 1 :])

    def shorter(self, body: Body) -> Iterator[Body]:
        """Yield the bodies with one span less."""
        if len(body) > 1:
            yield from (body[:i] + body[i + 1 :] for i in range(len(body)))
