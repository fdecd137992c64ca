"""Sources of hypotheses: where the rule sets come from that are tested.

A source is a generator. It yields rule sets, is sent how guidance with each of them changed the returns, and may yield
more: it can search without knowing how effects are measured. What it only wants to try, it yields as a `Trial`, and
what comes of that as a `Proposal`.

- `SourceInput`: what a source knows; `Source`: a function from that to a generator, `Hypotheses`.
- `Trial`, `Proposal`: what sources that search yield; `Named`: a rule set with its source.
- `DecisionGains`: what other choices are worth at single decisions.
- `SOURCES`, `register_source`, `find_source`: the sources by name; `source_names`: those that a setting lists;
  `open_sources`: the generators of those that a study asks for.
- `OTHERS`, `others_name`: the source of rules from other policies and studies, a generator for each of them.
- `ask_sources`: drives generators, round after round, with somebody who measures.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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

    `changed` of `seeds` episodes were changed, where that was counted, and in them and the others a `share` of the
    actions; `steps` environment steps were played for it.
    """

    mean: float
    error: float
    p: float
    changed: int | None = None
    seeds: int | None = None
    steps: int = 0
    share: float = 0.0


@dataclass(frozen=True)
class Trial:
    """Rule sets that a source wants to try before it decides which of them are tested.

    Parameters
    ----------
    rule_sets
        They are played on seeds of their own, and nothing is said of them.
    changes
        Until guidance has changed this many of their episodes.
    seeds
        At most on this many seeds.
    """

    rule_sets: Sequence[RuleSet]
    changes: int
    seeds: int


@dataclass(frozen=True)
class Proposal:
    """Rule sets to test, and what trials have shown of them: too good, because they were picked for it."""

    rule_sets: Sequence[RuleSet]
    shown: Sequence[MeasuredEffect]


class Named(NamedTuple):
    """A rule set to test, the name of its source, and what trials have shown of it, if there were any."""

    source: str
    rule_set: RuleSet
    shown: MeasuredEffect | None = None


Hypotheses = Generator[Sequence[RuleSet] | Proposal | Trial, Sequence[MeasuredEffect], None]
"""Yields rule sets to test, or to try, and is sent an effect for each of them."""


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
    others
        Rules of other policies and studies, by what those are called.
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
    most_changed
        The share of the actions that a composition may change: a search need not find what changes more.
    """

    policy: Policy
    experiences: Experiences
    mining: Mining
    relations: tuple[MetamorphicRelation, ...] = ()
    rules: tuple[Rule, ...] = ()
    others: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    seed: int = 0
    decisions: DecisionGains | None = None
    search: SearchSettings = field(default_factory=SearchSettings)
    budget: int = 0
    negative_first: bool = False
    most_changed: float = 1.0


Source = Callable[[SourceInput], Hypotheses]
SOURCES: dict[str, Source] = {}
OTHERS = "others"
"""The source that is opened once for each of the other policies and studies."""


def others_name(place: str) -> str:
    """What the rules of another policy or study are named by.

    >>> others_name("studies/small")
    'others: studies/small'
    """
    return f"{OTHERS}: {place.replace(',', ' ')}"  # names of sources are listed with commas between them


def register_source(name: str, source: Source) -> None:
    """Give a source a name, by which settings can ask for it."""
    if not name.isidentifier():
        raise LegibleError(f"a source's name is a word of letters, digits and underscores, got {name!r}.")
    SOURCES[name] = source


def open_sources(names: Iterable[str], known: SourceInput) -> dict[str, Hypotheses]:
    """Return the generators of the sources of some names, in the order of the names."""
    found: dict[str, Hypotheses] = {}
    for name in names:
        source = find_source(name)
        if name == OTHERS:
            places = known.others.items()
            found |= {others_name(place): source(replace(known, others={place: rules})) for place, rules in places}
        else:
            found[name] = source(known)
    return found


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
    sources: Mapping[str, Hypotheses],
    measure: Callable[[list[Named]], Sequence[MeasuredEffect]],
    explore: Callable[[Trial], Sequence[MeasuredEffect]] | None = None,
) -> list[tuple[str, RuleSet]]:
    """Drive sources until none has anything more to test; return every rule set with the name of its source.

    In each round all sources yield, `measure` is called once with all that they yielded, each with the name of its
    source, and each source is sent the effects of its own rule sets. What a source wants to try, `explore` tries at
    once.
    """
    tested: list[tuple[str, RuleSet]] = []
    waiting: dict[str, Sequence[MeasuredEffect] | None] = dict.fromkeys(sources)
    while waiting:
        yielded: dict[str, list[Named]] = {}
        for name, effects in waiting.items():
            try:
                found = next(sources[name]) if effects is None else sources[name].send(effects)
                while isinstance(found, Trial):
                    if explore is None:
                        raise LegibleError(f"the source {name!r} wants to try rule sets; nobody does that here.")
                    found = sources[name].send(explore(found))
            except StopIteration:
                continue
            if isinstance(found, Proposal):
                yielded[name] = [Named(name, *pair) for pair in zip(found.rule_sets, found.shown, strict=True)]
            else:
                yielded[name] = [Named(name, rule_set) for rule_set in found]
        together = [named for found in yielded.values() for named in found]
        measured = list(measure(together)) if together else []
        tested += [(named.source, named.rule_set) for named in together]
        waiting = {
            name: [effect for named, effect in zip(together, measured, strict=True) if named.source == name]
            for name in yielded
        }
    return tested
