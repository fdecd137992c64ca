"""Endings of the episodes of a policy, unguided and guided.

- `EndingShare`: the share of the episodes with one ending; `share_endings`: all of them.
- `name_endings`: the endings of episodes, with unknown ones grouped by the most unusual feature of their last state.
- `describe_endings`: the most frequent bad ending as a clause, for the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.environments import Ending
from legible.environments.endings import EndingKind
from legible.evaluation.changed import mcnemar_test
from legible.evaluation.figures import Figure, share_figure
from legible.evaluation.units import UnitResult
from legible.features import FeatureSpace
from legible.formatting import percent

MOST_ENDINGS = 8
MOST_UNKNOWN_GROUPS = 3
UNUSUAL_SHARE = 0.005
"""A value is unusual if at most this share of the recorded states has a lower, or a higher one."""
MIN_CLAUSE_SHARE = 0.01
_REST = Ending("other", "another ending").text
_UNKNOWN = Ending.parse("other")


@dataclass(frozen=True)
class EndingShare:
    """The share of the episodes with one ending, with 95 % confidence intervals."""

    # As in `legible.environments.Ending`.
    kind: EndingKind
    words: str
    # Shares of the unguided and the guided episodes; `guided` is None where there is no guided policy.
    base: Figure
    guided: Figure | None = None
    difference: Figure | None = None  # guided minus unguided, on the same seeds

    @property
    def largest(self) -> float:
        """The larger of both shares."""
        return max(self.base.value, 0.0 if self.guided is None else self.guided.value)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        figures = {"base": self.base, "guided": self.guided, "difference": self.difference}
        known = {name: figure._asdict() for name, figure in figures.items() if figure is not None}
        return {"kind": self.kind, "words": self.words, **known}


def share_endings(
    base: UnitResult,
    guided: UnitResult | None = None,
    states: NDArray[np.float32] | None = None,
    space: FeatureSpace | None = None,
) -> tuple[EndingShare, ...]:
    """Return the shares of all endings, the most frequent first; nothing where endings are unknown.

    At most `MOST_ENDINGS` are distinguished; rarer ones are summed up as another ending, which comes last.

    Parameters
    ----------
    base, guided
        Unguided and guided episodes, on the same seeds; seeds on which an episode failed are left out.
    states, space
        Recorded states and their features, by which unknown endings are grouped.
    """
    # The texts of the endings of each result, one per episode, without rare ones.
    played = ~base.failed if guided is None else ~(base.failed | guided.failed)
    results = [result[played] for result in (base, guided) if result is not None]
    if not played.any() or any((result.endings == "").any() for result in results):
        return ()
    endings = name_endings(results, states, space)
    by_frequency = [text for text, _ in Counter(np.concatenate(endings).tolist()).most_common()]
    if len(by_frequency) > MOST_ENDINGS:
        frequent = by_frequency[: MOST_ENDINGS - 1]
        endings = [np.where(np.isin(texts, frequent), texts, _REST) for texts in endings]

    # The share of each ending among the unguided and the guided episodes, and their difference.
    shares = []
    for text in sorted({*np.concatenate(endings).tolist()}):
        has_ending = [texts == text for texts in endings]  # bool[episodes] of each result
        share = EndingShare(*Ending.parse(text), *(share_figure(int(mask.sum()), len(mask)) for mask in has_ending))
        if guided is not None:
            effect = mcnemar_test(has_ending[1].astype(np.float64) - has_ending[0], len(has_ending[0]))
            share = replace(share, difference=Figure(effect.mean, effect.low, effect.high))
        shares.append(share)
    return tuple(sorted(shares, key=lambda share: (share.words == Ending.parse(_REST).words, -share.largest)))


def name_endings(
    results: Sequence[UnitResult], states: NDArray[np.float32] | None = None, space: FeatureSpace | None = None
) -> list[NDArray[np.str_]]:
    """Return the texts of the endings of each result, one per episode.

    Unknown terminations are grouped by a feature that is unusually low or high in the last state, compared with the
    recorded `states`: first by the one that is unusual in most of them, and so on.
    """
    # Of every result: the texts of its endings, and which of them are unknown.
    named = [result.endings.astype(object) for result in results]
    unknown = [np.array([Ending.parse(text) == _UNKNOWN for text in texts], np.bool_) for texts in named]
    widths = {result.last.shape[1] for result in results}
    if states is None or space is None or widths != {states.shape[1]} or not len(states):
        return [texts.astype(np.str_) for texts in named]
    # Which features are unusually low (side 0) or high (side 1) in the last states.
    low, high = np.quantile(states, [UNUSUAL_SHARE, 1.0 - UNUSUAL_SHARE], axis=0)
    unusual = [np.stack([result.last < low, result.last > high]) for result in results]  # [side, episode, feature]
    for _ in range(MOST_UNKNOWN_GROUPS):
        # How many unknown endings each group would have, ``[side, feature]``: name the largest.
        counts = np.sum([flags[:, mask].sum(axis=1) for flags, mask in zip(unusual, unknown, strict=True)], axis=0)
        if not counts.any():
            break
        side, number = (int(index) for index in np.unravel_index(counts.argmax(), counts.shape))
        feature = space[number]
        if feature.is_flag:
            words = feature.values[float(side)]  # a flag is 0 or 1
        else:
            words = f"{feature.label} is unusually {'high' if side else 'low'}"
        for i, texts in enumerate(named):
            matches = unknown[i] & unusual[i][side, :, number]
            texts[matches] = [f"{text} while {words}" for text in texts[matches]]
            unknown[i] &= ~matches
    return [texts.astype(np.str_) for texts in named]


def describe_endings(shares: Sequence[EndingShare]) -> str:
    """Return the most frequent bad ending as a clause; "" where all episodes succeed, or nothing tells them apart.

    >>> fails = EndingShare("failure", "it crashes", Figure(0.75, 0.7, 0.8), Figure(0.1, 0.05, 0.2))
    >>> describe_endings([fails, EndingShare("success", "it lands", Figure(0.25, 0.2, 0.3), Figure(0.9, 0.8, 1.0))])
    'unguided, it crashes in 75 % of the episodes (guided: 10 %)'
    >>> describe_endings([EndingShare("other", "the episode terminates", Figure(1.0, 0.9, 1.0))])
    ''
    """
    bad = [share for share in shares if share.kind != "success" and share.base.value >= MIN_CLAUSE_SHARE]
    if not bad or (len(shares) == 1 and bad[0].kind != "failure"):
        return ""
    worst = max(bad, key=lambda share: share.base.value)
    failures = [share for share in shares if share.kind == "failure"]
    # One ending alone, or all failures together with the most frequent one.
    is_alone = worst.kind != "failure" or len(failures) == 1
    counted = [worst] if is_alone else failures
    unguided_share = percent(sum(share.base.value for share in counted))
    prefix = guided = ""
    if worst.guided is not None:
        prefix = "unguided, "
        guided = f" (guided: {percent(sum(s.guided.value for s in counted if s.guided is not None))})"
    if is_alone:
        return f"{prefix}{worst.words} in {unguided_share} of the episodes{guided}"
    most_often = f"most often {worst.words} ({percent(worst.base.value)})"
    return f"{prefix}{unguided_share} of the episodes fail{guided}, {most_often}"
