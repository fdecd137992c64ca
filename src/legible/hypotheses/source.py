"""Sources of the rule sets that a study tests.

A source is a generator. It yields rule sets, is sent the effect of guidance with each of them, and may yield more, so
it can search without knowing how effects are measured. It yields a `Trial` to try rule sets first, and a `Proposal` of
the best of them.

- `SourceInput`: the input of a source; `Source`: a function from that to a generator, `Hypotheses`.
- `Trial`, `Proposal`: yielded by sources that search; `Named`: a rule set with its source.
- `DecisionGains`: gains of other choices at single decisions.
- `SOURCES`, `register_source`, `find_source`: sources by name; `source_names`: the names in a setting; `open_sources`:
  the generators of some sources.
- `OTHERS`, `source_name_of_others`: the source of rules from other policies and studies.
- `run_sources`: runs generators, round after round, with a function that measures effects.
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
from legible.policies.protocol import lacks_fallback
from legible.relations import MetamorphicRelation
from legible.rules import Polarity, Rule, RuleSet
from legible.settings import SearchSettings


class MeasuredEffect(NamedTuple):
    """The effect of a rule set on the mean return: the difference, its standard error, a one-sided p-value.

    `changed` of `seeds` episodes were changed, if that was counted; `share` is the override rate over all of them,
    `steps` the number of environment steps that were played, and `worst_loss` the worst loss of an episode.
    """

    mean: float
    error: float
    p: float
    changed: int | None = None
    seeds: int | None = None
    steps: int = 0
    share: float = 0.0
    worst_loss: float = 0.0


@dataclass(frozen=True)
class Trial:
    """Rule sets to try before a source decides which of them are tested."""

    rule_sets: Sequence[RuleSet]  # the rule sets; their trials use separate seeds and are not reported
    changes: int  # number of changed episodes after which a trial stops
    seeds: int  # maximum number of seeds


@dataclass(frozen=True)
class Proposal:
    """Rule sets to test, and their effects in trials, which are too optimistic because they were selected by them.

    `worst_loss` is the worst loss of an episode in all trials, where these are known from a file.
    """

    rule_sets: Sequence[RuleSet]
    shown: Sequence[MeasuredEffect]
    worst_loss: float = 0.0


class Named(NamedTuple):
    """A rule set to test, the name of its source, and its effect in a trial, if there was one."""

    source: str
    rule_set: RuleSet
    shown: MeasuredEffect | None = None


Hypotheses = Generator[Sequence[RuleSet] | Proposal | Trial, Sequence[MeasuredEffect], None]
"""Yields rule sets to test or to try, and is sent an effect for each of them."""


@dataclass(frozen=True)
class DecisionGains:
    """Gains of other choices at single decisions, one row each (see `legible.mistakes`)."""

    observations: NDArray[np.float32]  # ``float32[n, features]``
    # ``int64[n, groups]``, the choices that were taken, and ``int64[n, others]``, the other ones.
    taken: NDArray[np.int64]
    choices: NDArray[np.int64]
    # ``float64[n, others]``: the gain of each other choice, and its standard error.
    gains: NDArray[np.float64]
    errors: NDArray[np.float64]
    scores: NDArray[np.float32]  # ``float[n, all choices]``, the policy's scores
    episodes: NDArray[np.int64]  # ``int64[n]``, the episode of each decision


@dataclass(frozen=True)
class SourceInput:
    """The input of a source.

    Parameters
    ----------
    policy, experiences, mining
        The policy, its experiences, and the rules mined from them.
    relations
        The metamorphic relations.
    rules
        The user's rules.
    others
        Rules of other policies and studies, by name.
    seed
        Seed of the study, for sources that draw random numbers.
    decisions
        Gains of other choices at single decisions, if they were measured.
    search, budget
        Settings of the search, and its budget of environment steps.
    negative_first
        Whether negative rules win conflicts.
    most_changed
        Maximum override rate of a composition; a search need not find rules that change more.
    samples
        Whether the policy draws its choices from its scores instead of taking the best one.
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
    samples: bool = False

    @property
    def polarities(self) -> tuple[Polarity, ...]:
        """Polarities of rules that can be tested: only positive ones if the policy cannot say what to do instead."""
        return ("+",) if lacks_fallback(self.policy) else ("+", "-")

    def testable(self) -> SourceInput:
        """Return the same input without mined and others' rules that cannot be tested."""
        if "-" in self.polarities:
            return self
        kept = tuple(mined for mined in self.mining.rules if mined.rule.polarity in self.polarities)
        others = {name: tuple(r for r in rules if r.polarity in self.polarities) for name, rules in self.others.items()}
        return replace(self, mining=replace(self.mining, rules=kept), others=others)


Source = Callable[[SourceInput], Hypotheses]
SOURCES: dict[str, Source] = {}
OTHERS = "others"
"""Name of the source that is opened once for each of the other policies and studies."""


def source_name_of_others(place: str) -> str:
    """Return the source name for the rules of another policy or study.

    >>> source_name_of_others("studies/small")
    'others: studies/small'
    """
    return f"{OTHERS}: {place.replace(',', ' ')}"  # lists of names are separated by commas


def register_source(name: str, source: Source) -> None:
    """Register a source under a name, for use in settings."""
    if not name.isidentifier():
        raise LegibleError(f"the name of a source must consist of letters, digits and underscores, got {name!r}.")
    SOURCES[name] = source


def open_sources(names: Iterable[str], known: SourceInput) -> dict[str, Hypotheses]:
    """Return the generators of the sources with these names, in the order of the names."""
    opened: dict[str, Hypotheses] = {}
    known = known.testable()
    for name in names:
        source = find_source(name)
        if name == OTHERS:
            for study, rules in known.others.items():
                opened[source_name_of_others(study)] = source(replace(known, others={study: rules}))
        else:
            opened[name] = source(known)
    return opened


def find_source(name: str) -> Source:
    """Return the source with a name."""
    if name not in SOURCES:
        raise LegibleError(
            f"there is no source of rule sets {name!r}; they are {', '.join(SOURCES)}.{did_you_mean(name, SOURCES)}"
        )
    return SOURCES[name]


def source_names(setting: str) -> list[str]:
    """Return the names of sources in a comma-separated setting; raise if one of them does not exist.

    >>> source_names("mined, yours")
    ['mined', 'yours']
    """
    names = [name.strip() for name in setting.split(",") if name.strip()]
    for name in names:
        find_source(name)
    return names


def run_sources(
    sources: Mapping[str, Hypotheses],
    measure: Callable[[list[Named]], Sequence[MeasuredEffect]],
    explore: Callable[[Trial], Sequence[MeasuredEffect]] | None = None,
    on_loss: Callable[[float], None] = lambda _: None,
) -> list[tuple[str, RuleSet]]:
    """Return every rule set that sources propose, with the name of its source, in the order of the tests.

    Sources run in rounds: each yields rule sets, all of them are tested together, and each source is sent the effects
    of its own, until all sources have ended.

    Parameters
    ----------
    sources
        By name, generators that yield rule sets to test, or trials: quick measurements for a search, which do not count
        as tests.
    measure
        Tests the rule sets of all sources in a round, and returns their effects in the same order.
    explore
        Runs a trial at once, and returns the effects of its rule sets; None where trials are not supported.
    on_loss
        Called with the worst loss of an episode in every trial and proposal.
    """
    tested: list[tuple[str, RuleSet]] = []
    # For every source that has not ended, the effects to send it; None before its first rule sets.
    effects_to_send: dict[str, Sequence[MeasuredEffect] | None] = dict.fromkeys(sources)
    while effects_to_send:
        proposed: dict[str, list[Named]] = {}
        for name, effects in effects_to_send.items():
            # Run the source up to its next rule sets; trials on the way are answered at once.
            try:
                yielded = next(sources[name]) if effects is None else sources[name].send(effects)
                while isinstance(yielded, Trial):
                    if explore is None:
                        raise LegibleError(f"the source {name!r} yields trials, which are not supported here.")
                    trial_effects = explore(yielded)
                    on_loss(max((effect.worst_loss for effect in trial_effects), default=0.0))
                    yielded = sources[name].send(trial_effects)
            except StopIteration:
                continue
            if isinstance(yielded, Proposal):  # rule sets of a search, with their effects in its trials
                on_loss(yielded.worst_loss)
                proposed[name] = [Named(name, *pair) for pair in zip(yielded.rule_sets, yielded.shown, strict=True)]
            else:
                proposed[name] = [Named(name, rule_set) for rule_set in yielded]
        # Test the rule sets of all sources together, then sort the effects by source.
        together = [named for of_source in proposed.values() for named in of_source]
        measured = list(measure(together)) if together else []
        tested += [(named.source, named.rule_set) for named in together]
        effects_to_send = {
            name: [effect for named, effect in zip(together, measured, strict=True) if named.source == name]
            for name in proposed
        }
    return tested
