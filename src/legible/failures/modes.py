"""Failure modes: readable rules that predict that an episode fails soon, or from its start.

RIPPER learns rules for states from which an episode fails within k steps, and for starts of episodes that fail. They
are learned from some recorded episodes; others choose the number of steps k and the rules. The figures come from
episodes that chose nothing.

- `find_modes`: learns and judges the modes; `FailureMode`: one of them.
- `mark_failed`: which episodes fail; `find_states`: the states in which the conditions of a mode hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.evaluation.figures import Figure, share_figure
from legible.failures.alternatives import Alternative
from legible.failures.avoiding import Avoidable, fails_at_end
from legible.features import FeatureSpace
from legible.formatting import percent
from legible.mistakes.decisions import steps_of
from legible.mistakes.source import as_conditions
from legible.play import Experiences
from legible.rules import CompiledRules, Condition, Rule
from legible.rules.wording import describe_conditions

HORIZONS = (5, 10, 20, 40)
"""Numbers of steps k of which one is chosen."""
LEARNED_SHARE = 0.6
"""Share of the recorded episodes from which rules are learned; the others choose k."""
EARLY = 0.8
"""Of the k whose best rule is worth at least this share of the best, the one with the longest notice is chosen."""
MOST_ROWS = 20_000
FEWEST_FAILURES = 10
MOST_MODES = 3
MIN_NEW = 0.1
"""Share of the failures that a further mode must cover, and the modes before it do not."""
OFTEN_AVOIDED = 0.5
"""Share of the failures that another choice must avoid to say that the better choice differs from state to state."""
RESTARTS = 3
MOST_CONDITIONS = 4
"""Longer rules are shortened to their first conditions: a mode must be readable."""


@dataclass(frozen=True)
class FailureMode:
    """A rule that predicts failure, with figures from held-out episodes.

    Parameters
    ----------
    conditions
        The conditions of the rule.
    words
        The conditions in words.
    within
        The rule predicts failure within this number of steps; 0 for a rule about the start of an episode.
    covered
        Share of the failing episodes in which the rule holds, within these steps before the end or at the start.
    precision
        Share of the episodes in which the rule holds that fail, within these steps after it first holds.
    by_chance
        Share of all states from which an episode fails within these steps; of all episodes for starts.
    seed, step
        A held-out episode that fails this way, and the step at which the rule first holds before its end.
    avoidable
        Until when it could have been avoided; None where that is unknown.
    alternative
        What the policy does in these states, and the best other choice there; None where that is unknown.
    """

    conditions: tuple[Condition, ...]
    words: str
    within: int
    covered: Figure
    precision: Figure
    by_chance: float
    seed: int
    step: int
    avoidable: Avoidable | None = None
    alternative: Alternative | None = None

    @property
    def is_start(self) -> bool:
        """True if the rule is about the start of an episode."""
        return self.within == 0

    @property
    def _usually(self) -> str:
        return f"{'of all episodes' if self.is_start else 'from any state'}: {percent(self.by_chance)}"

    def sentences(self) -> list[str]:
        """Return the mode in words."""
        when = (
            f"at the start {self.words}, it fails"
            if self.is_start
            else f"{self.words}, it fails within {self.within} steps"
        )
        text = (
            f"If {when} in {_share(self.precision)} of the episodes ({self._usually}); this covers "
            f"{_share(self.covered)} of the failures."
        )
        return [text, *self.evidence()]

    def evidence(self, where: str = "There", *, short: bool = False) -> list[str]:
        """Return what the policy does in these states, what is better there, and until when failing can be avoided.

        Parameters
        ----------
        where
            The states in words, to begin the first sentence.
        short
            Whether to leave out details.
        """
        lines = []
        if self.alternative is not None:
            lines += [f"{where}, {self.alternative.habit()}.", *self.alternative.sentences(short=short)]
        if self.avoidable is not None:
            lines.append((self.avoidable.summary() if short else "") or self.avoidable.sentence())
        if self.alternative is None or self.alternative.is_better:
            return lines
        if self.avoidable is not None and self.avoidable.is_shown and self.avoidable.found >= OFTEN_AVOIDED:
            return [*lines, "So which choice is better differs from state to state."]
        if self.avoidable is not None and not self.avoidable.found:
            return [*lines, "So no single decision is the cause: many small errors add up, or it lies earlier still."]
        return [*lines, "So the cause lies in earlier decisions, or in many small errors."]

    def figures_sentence(self) -> str:
        """Return the figures of the mode in words, to stand below its conditions."""
        when = "Then it fails" if self.is_start else f"From such states it fails within {self.within} steps"
        return (
            f"{when} in {_share(self.precision)} of the episodes ({self._usually}). This covers "
            f"{_share(self.covered)} of the failures."
        )

    def summary(self) -> str:
        """Return the mode in one sentence without intervals."""
        when = "at the start " if self.is_start else ""
        soon = "it fails" if self.is_start else f"it fails within {self.within} steps"
        return (
            f"{percent(self.covered.value)} of the failures follow one pattern: if {when}{self.words}, {soon} in "
            f"{percent(self.precision.value)} of the episodes ({self._usually})."
        )

    def to_dict(self, space: FeatureSpace) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "conditions": [condition.text(space[condition.feature]) for condition in self.conditions],
            "words": self.words,
            "within": self.within,
            "covered": self.covered._asdict(),
            "precision": self.precision._asdict(),
            "by_chance": self.by_chance,
            "seed": self.seed,
            "step": self.step,
            "avoidable": None if self.avoidable is None else self.avoidable.to_dict(),
            "alternative": None if self.alternative is None else self.alternative.to_dict(),
        }


def _share(figure: Figure) -> str:
    return f"{percent(figure.value)} ({percent(figure.low)} to {percent(figure.high)})"


def mark_failed(experiences: Experiences) -> NDArray[np.bool_]:
    """Return which episodes end in failure."""
    return fails_at_end(experiences.endings)


def find_states(conditions: Sequence[Condition], experiences: Experiences) -> NDArray[np.bool_]:
    """Return the recorded states in which all conditions hold, ``bool[steps]``."""
    # A rule needs a sign and an action; they do not matter here.
    return CompiledRules.compile([[Rule("+", 0, tuple(conditions))]]).matches(experiences.observations)[:, 0]


def find_modes(
    recorded: Experiences,
    held_out: Experiences,
    *,
    seed: int,
    avoid: Callable[[NDArray[np.int64], int], Avoidable | None] | None = None,
) -> tuple[FailureMode, ...]:
    """Return the failure modes, at most three, the most useful first.

    Parameters
    ----------
    recorded
        Episodes from which rules are learned; others of them choose k and the rules.
    held_out
        Episodes that give the figures.
    seed
        Decides the split of the episodes, and RIPPER's.
    avoid
        Called with rows of held-out failing episodes at which a rule first holds before the end, and with k; says until
        when the failures could be avoided.
    """
    bad = mark_failed(recorded)
    if min(int(bad.sum()), int(mark_failed(held_out).sum())) < FEWEST_FAILURES:
        return ()
    rng = np.random.default_rng([seed, len(recorded)])
    order = rng.permutation(recorded.n_episodes)
    to_learn, to_choose = np.split(order, [round(LEARNED_SHARE * len(order))])  # numbers of episodes
    # For every k (within how many steps a failure follows), rules learned from some recorded episodes and judged on
    # the others, which choose k.
    judged_by_k: dict[int, list[_Judged]] = {}
    for within in HORIZONS:
        tested = [_judge_best(rules, recorded, to_choose, within) for rules in _learn(recorded, to_learn, within, rng)]
        better_than_chance = [judged for judged in tested if judged.is_better]
        if better_than_chance:
            judged_by_k[within] = sorted(better_than_chance, key=lambda judged: -judged.worth)
    # An early warning says more than one right before the end, if it is about as good.
    best = max((judged[0].worth for judged in judged_by_k.values()), default=0.0)
    good = [judged for judged in judged_by_k.values() if judged[0].worth >= EARLY * best]
    candidates = max(good, key=lambda judged: judged[0].notice) if good else []
    # Horizon 0 stands for rules about the first state of an episode, which predict failure at any time.
    starts = [_judge_best(rules, recorded, to_choose, 0) for rules in _learn(recorded, to_learn, 0, rng)]
    candidates += [judged for judged in starts if judged.is_better]
    # The selected rules are judged again on held-out episodes, which give the figures.
    modes = []
    for selected in _select(candidates, recorded, int(bad[to_choose].sum())):
        judged = _judge(selected.conditions, held_out, np.arange(held_out.n_episodes), selected.within)
        if not len(judged.rows) or judged.precision.value <= judged.by_chance:  # it does not hold up
            continue
        example = judged.rows[0]
        modes.append(
            FailureMode(
                conditions=judged.conditions,
                words=describe_conditions(judged.conditions, held_out.space),
                within=judged.within,
                covered=judged.covered,
                precision=judged.precision,
                by_chance=judged.by_chance,
                seed=int(held_out.seeds[held_out.episode_ids[example]]),
                step=int(steps_of(held_out)[example]),
                avoidable=None if avoid is None else avoid(judged.rows, judged.within),
            )
        )
    return tuple(modes)


def _select(candidates: list[_Judged], recorded: Experiences, failures: int) -> list[_Judged]:
    """Return rules that cover different failures, the most useful first; at most `MOST_MODES`.

    The worth of a rule is the number of failed episodes that it covers and the rules before it do not, times its
    precision beyond chance.

    Parameters
    ----------
    candidates
        The rules; the order decides between equals.
    recorded
        The episodes on which they were judged.
    failures
        Number of failed episodes; a rule must cover `MIN_NEW` of them that no rule before it covers.
    """
    covered_by = [set(recorded.episode_ids[candidate.rows].tolist()) for candidate in candidates]
    selected: list[int] = []
    covered: set[int] = set()
    while len(selected) < MOST_MODES:
        new = [len(episodes - covered) for episodes in covered_by]
        eligible = [i for i, count in enumerate(new) if count and count >= MIN_NEW * failures and i not in selected]
        if not eligible:
            break
        best = max(eligible, key=lambda i: new[i] * candidates[i].advantage)
        selected.append(best)
        covered |= covered_by[best]
    return [candidates[i] for i in selected]


def _learn(
    recorded: Experiences, episodes: NDArray[np.intp], within: int, rng: np.random.Generator
) -> list[list[tuple[Condition, ...]]]:
    """Learn rules for states from which an episode fails within some steps; for starts if that is 0.

    Each rule comes with the shorter ones that its first conditions make.
    """
    from legible.mining.ripper import RipperClassifier  # noqa: PLC0415 (scikit-learn takes half a second)

    is_example = recorded.of_episodes(episodes)
    if within == 0:
        is_example &= steps_of(recorded) == 0
    rows = np.sort(rng.permutation(np.flatnonzero(is_example))[:MOST_ROWS])
    fails = _fails_soon(recorded, within)[rows]
    if min(int(fails.sum()), int((~fails).sum())) < FEWEST_FAILURES:
        return []
    classifier = RipperClassifier(
        categorical_features=np.array([feature.kind == "categorical" for feature in recorded.space.features]),
        positive_class=True,
        restarts=RESTARTS if within == 0 else 1,
        random_state=int(rng.integers(2**31)),
    )
    classifier.fit(recorded.observations[rows], fails)
    return [
        [as_conditions(rule.conditions[:n]) for n in range(1, min(len(rule.conditions), MOST_CONDITIONS) + 1)]
        for rule in classifier.rules_
        if rule.conditions
    ]


def _fails_soon(experiences: Experiences, within: int) -> NDArray[np.bool_]:
    """Mark the states from which an episode fails within some steps; at any time if that is 0."""
    fails = mark_failed(experiences)[experiences.episode_ids]
    left = experiences.lengths[experiences.episode_ids] - steps_of(experiences)
    return fails if within == 0 else fails & (left <= within)


@dataclass(frozen=True)
class _Judged:
    """Figures of a rule, the rows of failing episodes at which it first holds before the end, and the usual notice."""

    conditions: tuple[Condition, ...]
    within: int
    covered: Figure
    precision: Figure
    by_chance: float
    rows: NDArray[np.int64]
    notice: float

    @property
    def is_better(self) -> bool:
        """True if the rule predicts failure better than chance."""
        return len(self.rows) > 0 and self.precision.low > self.by_chance

    @property
    def advantage(self) -> float:
        """Precision beyond chance: 1 if all episodes fail, 0 if as many as by chance."""
        return (self.precision.value - self.by_chance) / max(1e-9, 1.0 - self.by_chance)

    @property
    def worth(self) -> float:
        """Coverage, times the precision beyond chance."""
        return self.covered.value * self.advantage


def _judge_best(
    rules: Sequence[tuple[Condition, ...]], experiences: Experiences, episodes: NDArray[np.intp], within: int
) -> _Judged:
    """Return the figures of the rule that is worth most."""
    return max((_judge(rule, experiences, episodes, within) for rule in rules), key=lambda judged: judged.worth)


def _judge(
    conditions: tuple[Condition, ...], experiences: Experiences, episodes: NDArray[np.intp], within: int
) -> _Judged:
    """Return the figures of a rule: an episode counts once, by the first step at which the rule holds.

    Parameters
    ----------
    conditions
        The conditions of the rule.
    experiences, episodes
        Recorded steps, and the episodes that count.
    within
        How many steps before a failure the rule should hold; 0: the rule is about the first state of an episode.
    """
    holds = find_states(conditions, experiences)
    steps, soon = steps_of(experiences), _fails_soon(experiences, within)
    counts = experiences.of_episodes(episodes)  # bool[steps]
    if within == 0:
        counts &= steps == 0
    fails = mark_failed(experiences)
    # Per episode, the first row at which the rule holds, and the first such row that a failure follows soon.
    first = _first_rows(holds & counts, experiences)
    before_failure = _first_rows(holds & counts & soon, experiences)
    failing = int(fails[episodes].sum())
    steps_to_end = experiences.lengths[experiences.episode_ids] - steps
    unknown_share = Figure(0.0, 0.0, 1.0)
    return _Judged(
        conditions,
        within,
        covered=share_figure(len(before_failure), failing) if failing else unknown_share,
        precision=share_figure(int(soon[first].sum()), len(first)) if len(first) else unknown_share,
        by_chance=float(soon[counts].mean()) if counts.any() else 1.0,
        rows=before_failure,
        notice=float(np.median(steps_to_end[before_failure])) if len(before_failure) else 0.0,
    )


def _first_rows(marked: NDArray[np.bool_], experiences: Experiences) -> NDArray[np.int64]:
    """Return the first marked row of each episode that has one."""
    rows = np.flatnonzero(marked)
    _, places = np.unique(experiences.episode_ids[rows], return_index=True)
    return rows[places].astype(np.int64)
