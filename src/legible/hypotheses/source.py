"""Sources of hypotheses: where the rule sets come from that are tested.

A source is a generator. It yields rule sets, is sent how guidance with each of them changed the returns, and may yield
more: it can search without knowing how effects are measured.

- `SourceInput`: what a source knows; `Source`: a function from that to a generator, `Hypotheses`.
- `DecisionGains`: what other choices are worth at single decisions.
- `SOURCES`, `register_source`, `find_source`: the sources by name; `source_names`: those that a setting lists;
  `open_sources`: the generators of those that a study asks for.
- `ask_sources`: drives generators, round after round, with somebody who measures.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError, did_you_mean
from legible.mining import Mining
from legible.play import Experiences
from legible.policies import Policy
from legible.relations import MetamorphicRelation
from legible.rules import Rule, RuleSet
from legible.settings import SearchSettings


class MeasuredEffect(NamedTuple):
    """How guidance with a rule set changed the mean return: the difference, its standard error, a one-sided p-value.

    `changed` of `seeds` episodes were changed, where that was counted; `steps` environment steps were played for it.
    """

    mean: float
    error: float
    p: float
    changed: int | None = None
    seeds: int | None = None
    steps: int = 0


Hypotheses = Generator[Sequence[RuleSet], Sequence[MeasuredEffect], None]
"""Yields rule sets and is sent an effect for each of them."""


@dataclass(frozen=True)
class DecisionGains:
    """What other choices are worth at single decisions, a row each (see `legible.mistakes`).

    Parameters
    ----------
    observations
        ``float32[n, features]``.
    taken
        ``int64[n, groups]``, the choices that were taken.
    choices
        ``int64[n, others]``, the other ones.
    gains, errors
        ``float64[n, others]``: what each is worth beyond what was done, and its standard error.
    scores
        ``float[n, all choices]``, what the policy thought of each.
    episodes
        ``int64[n]``, the episode of each decision.
    """

    observations: NDArray[np.float32]
    taken: NDArray[np.int64]
    choices: NDArray[np.int64]
    gains: NDArray[np.float64]
    errors: NDArray[np.float64]
    scores: NDArray[np.float32]
    episodes: NDArray[np.int64]


@dataclass(frozen=True)
class SourceInput:
    """What a source of hypotheses knows.

    Parameters
    ----------
    policy
        The policy that is studied.
    experiences
        What it saw and did.
    mining
        The rules that were mined from it.
    relations
        The metamorphic relations.
    rules
        Rules of the user's own.
    seed
        Of the study, for sources that draw random numbers.
    decisions
        What other choices are worth at single decisions, where that was found out.
    search
        What a search is to do.
    budget
        Environment steps that a search may take.
    negative_first
        Whether negative rules win where rules conflict.
    """

    policy: Policy
    experiences: Experiences
    mining: Mining
    relations: tuple[MetamorphicRelation, ...] = ()
    rules: tuple[Rule, ...] = ()
    seed: int = 0
    decisions: DecisionGains | None = None
    search: SearchSettings = field(default_factory=SearchSettings)
    budget: int = 0
    negative_first: bool = False


Source = Callable[[SourceInput], Hypotheses]
SOURCES: dict[str, Source] = {}


def register_source(name: str, source: Source) -> None:
    """Give a source a name, by which settings can ask for it."""
    if not name.isidentifier():
        raise LegibleError(f"a source's name is a word of letters, digits and underscores, got {name!r}.")
    SOURCES[name] = source


def open_sources(names: Iterable[str], known: SourceInput) -> dict[str, Hypotheses]:
    """Return the generators of the sources of some names, in the order of the names."""
    return {name: find_source(name)(known) for name in names}


def find_source(name: str) -> Source:
    """Return the source of a name."""
    if name not in SOURCES:
        raise LegibleError(
            f"there is no source of rule sets {name!r}; they are {', '.join(SOURCES)}.{did_you_mean(name, SOURCES)}"
        )
    return SOURCES[name]


def source_names(setting: str) -> list[str]:
    """Return the names of the sources that a setting lists with commas between them, all of which must exist.

    >>> source_names("mined, yours")
    ['mined', 'yours']
    """
    names = [name.strip() for name in setting.split(",") if name.strip()]
    for name in names:
        find_source(name)
    return names


def ask_sources(
    sources: Mapping[str, Hypotheses], measure: Callable[[list[RuleSet]], Sequence[MeasuredEffect]]
) -> list[tuple[str, RuleSet]]:
    """Drive sources until none has anything more to test; return every rule set with the name of its source.

    In each round all sources yield, `measure` is called once with all that they yielded, and each source is sent the
    effects of its own rule sets.
    """
    tested: list[tuple[str, RuleSet]] = []
    waiting: dict[str, Sequence[MeasuredEffect] | None] = dict.fromkeys(sources)
    while waiting:
        yielded: dict[str, list[RuleSet]] = {}
        for name, effects in waiting.items():
            try:
                yielded[name] = list(next(sources[name]) if effects is None else sources[name].send(effects))
            except StopIteration:
                continue
        together = [(name, rule_set) for name, rule_sets in yielded.items() for rule_set in rule_sets]
        measured = list(measure([rule_set for _, rule_set in together])) if together else []
        tested += together
        waiting = {
            name: [effect for (by, _), effect in zip(together, measured, strict=True) if by == name] for name in yielded
        }
    return tested
