"""A policy that is open in the workbench: `Desk`; it is loaded once and used by all pages.

- `text_of`, `number_of`: texts and numbers of a request.
- `read_asset`: a file of the pages.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.formatting import number
from legible.mistakes.decisions import steps_of
from legible.play import BranchingMethod, Experiences, find_branching_method
from legible.rules import Rule, RuleSet, parse_rule
from legible.streams import policy_keys
from legible.study import Study
from legible.workbench.arena import Arena, collect_some
from legible.workbench.confirming import FILE, Ledger
from legible.workbench.trying import Form, RuleResult

MOST_TEXT = 2000
"""Largest number of characters of a rule."""
MOST_RULES = 64
BINS = 40
MOST_ROWS = 200_000
"""Recorded steps on which rules are shown at work as one types."""


class RequestError(LegibleError):
    """A request of the page that makes no sense."""


class Desk:
    """A policy that is open in the workbench.

    Parameters
    ----------
    arena
        The policy in its environment.
    study
        The study, if it is one.
    """

    def __init__(self, arena: Arena, study: Study | None = None) -> None:
        self.arena, self.study = arena, study
        self.lock = threading.RLock()
        self._distributions: dict[int, tuple[float, float, list[int]]] = {}
        folder = arena.folder if study is None else study.folder
        self.ledger = Ledger(None if folder is None else folder / FILE, arena.fingerprint)

        self.is_warm = False  # whether what every rule needs has been played
        self.explored: dict[tuple[tuple[Rule, ...], Form], RuleResult] = {}

    @property
    def space(self) -> FeatureSpace:
        """Names of features and actions."""
        return self.arena.space

    @cached_property
    def episodes(self) -> Mapping[str, Experiences]:
        """Recorded episodes by the stage that played them: "experiences", and "mistakes" where a study looked."""
        if self.study is None:
            return {"experiences": collect_some(self.arena)}
        episodes = {"experiences": self.study.experiences}
        if self.study.has("mistakes") and self.study.has("decisions"):
            episodes["mistakes"] = self.study.decisions
        return episodes

    @cached_property
    def recorded(self) -> Experiences:
        """The recorded episodes on which rules are shown at work, as many whole ones as are quick to look at."""
        experiences = self.episodes["experiences"]
        ends = np.cumsum(experiences.lengths)  # of each episode, the row after its last one
        count = max(1, int(np.searchsorted(ends, MOST_ROWS, side="right")))
        if count >= experiences.n_episodes:
            return experiences
        # Some columns have one entry per step, the others one per episode.
        end_row = int(ends[count - 1])
        per_step = ("observations", "actions", "scores", "episode_ids", "numbers")
        per_episode = ("returns", "lengths", "seeds", "success", "endings")
        columns = {name: getattr(experiences, name)[:end_row] for name in per_step}
        columns |= {name: getattr(experiences, name)[:count] for name in per_episode}
        return Experiences(**columns, space=experiences.space)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """The random stream of every recorded row."""
        return policy_keys(self.recorded.seeds.tolist())[self.recorded.episode_ids]

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """The number of steps before every recorded row."""
        return steps_of(self.recorded)

    @cached_property
    def branching(self) -> BranchingMethod:
        """The way in which the environment returns to a visited state."""
        limit = self.arena.settings.time_limit or None
        return find_branching_method(self.arena.environment, time_limit=limit)

    def rules_of(self, body: Mapping[str, Any]) -> RuleSet:
        """Return the rules of a request: a text with one rule per line, or those of the composition by number."""
        if "chosen" in body:
            chosen = body["chosen"]
            rules = self.composition
            if not isinstance(chosen, list) or not all(type(i) is int and 0 <= i < len(rules) for i in chosen):
                raise RequestError("the composition has no such rule.")
            return RuleSet(tuple(rules[i] for i in sorted(set(chosen))))
        text = text_of(body, "rule")
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines:
            raise RequestError("type a rule, such as '+Action <- feature < 3'.")
        if len(lines) > MOST_RULES:
            raise RequestError(f"these are {len(lines)} rules; the bench takes at most {MOST_RULES}.")
        return RuleSet(tuple(dict.fromkeys(parse_rule(line, self.space) for line in lines)))

    @cached_property
    def composition(self) -> tuple[Any, ...]:
        """The rules of the study's composition."""
        if self.study is None or not self.study.has("improvement"):
            return ()
        composition: RuleSet = self.study.improvement.composition
        return composition.rules

    def distribution(self, feature: int) -> tuple[float, float, list[int]]:
        """Return the range of a feature in recorded episodes, and how often each part of it occurs."""
        if feature not in self._distributions:
            column = self.recorded.observations[:, feature].astype(np.float64)
            column = column[np.isfinite(column)]
            low, high = (float(column.min()), float(column.max())) if column.size else (0.0, 1.0)
            counts, _ = np.histogram(column, BINS, (low, high if high > low else low + 1.0))
            self._distributions[feature] = (low, high, counts.tolist())
        return self._distributions[feature]

    def is_whole(self, feature: int) -> bool:
        """Return whether a feature has only whole values in recorded episodes."""
        column = self.recorded.observations[:5000, feature]
        return bool((column == np.round(column)).all())

    def effects(self, rules: RuleSet) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
        """Return where rules fire in recorded episodes, where they change the action, and the guided choices.

        Each is an array with one entry per recorded step.
        """
        experiences = self.recorded
        chooser = replace(self.arena.setup, treatments=(rules,)).chooser(np.zeros(0, np.int64), ())
        rule_sets = np.zeros(len(experiences), np.int64)  # every step is guided by the first rule set, the only one
        scores = experiences.scores.astype(np.float64)
        choices, is_fired, is_changed = chooser.choose(
            experiences.observations, scores, rule_sets, self.keys, self.steps
        )
        return is_fired, is_changed, choices

    def places(self, rows: NDArray[np.intp]) -> list[list[int]]:
        """Return episode and step of recorded rows."""
        return np.stack([self.recorded.episode_ids[rows], self.steps[rows]], axis=1).tolist()

    def about(self) -> dict[str, Any]:
        """Return what the page needs to know once."""
        space, arena = self.space, self.arena
        return {
            "name": arena.name,
            "environment": arena.environment.name,
            "is_study": self.study is not None,
            "folder": "" if self.study is None else str(self.study.folder),
            "features": [
                {"name": feature.name, "words": feature.label, "flag": feature.is_flag} for feature in space.features
            ],
            "actions": [{"name": action.name, "words": action.label} for action in space.actions],
            "groups": [[group.first, group.count] for group in space.groups],
            "composition": [rule.text(space) for rule in self.composition],
            "sources": {name: found.n_episodes for name, found in self.episodes.items()},
            "example": self._example(),
            "mean": number(float(self.recorded.returns.mean())),
            "scores": arena.policy.kind if space.is_discrete else "none",
            "kept": self.ledger.is_kept,
        }

    def _example(self) -> str:
        """Return a condition that holds in about half of the recorded states, for the page's examples of rules."""
        observations = self.recorded.observations[:5000]
        values = [len(np.unique(column)) for column in observations.T]
        index = int(np.argmax(values))
        feature, middle = self.space[index], float(np.median(observations[:, index]))
        return feature.name if feature.is_flag else f"{feature.name} > {middle:.2g}"


def text_of(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a text of a request; refuse anything else, and long texts."""
    value = body.get(name, default)
    if not isinstance(value, str):
        raise RequestError(f"{name!r} must be a text.")
    if len(value) > MOST_TEXT:
        raise RequestError(f"{name!r} has {len(value)} characters; at most {MOST_TEXT} are read.")
    return value


def number_of(body: Mapping[str, Any], name: str, most: int, default: int | None = None) -> int:
    """Return a whole number of a request, from 0 up to but not including `most`."""
    value = body.get(name, default)
    if type(value) is not int or not 0 <= value < most:
        raise RequestError(f"{name!r} must be a whole number from 0 to {most - 1}.")
    return value


def read_asset(name: str) -> str:
    """Return the text of a file of the pages, or of one that they share with the report."""
    own, shared = (files(package) / "assets" / name for package in ("legible.server", "legible.report"))
    return (own if own.is_file() else shared).read_text(encoding="utf-8")
