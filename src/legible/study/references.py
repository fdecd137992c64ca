"""The references of a study: random play, constant choices, and other policies that its folder names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from legible.environments import find_feature_map
from legible.errors import LegibleError
from legible.evaluation import Reference, References, compare_references
from legible.evaluation.references import default_references, other_way
from legible.files import DamagedFileError, read_json, write_json
from legible.play import STAGES, Known, adapt_policy, check_policy
from legible.policies import Policy
from legible.rules import gerund
from legible.study.fingerprint import fingerprint_of, is_same_behaviour
from legible.study.inputs import found_again

if TYPE_CHECKING:
    from legible.study.study import Study

_ADVICE = "delete it and give the policies (--other) again"
# What the study's own policy and its seeds are called in tables.
_TAKEN = frozenset(("the policy alone", "guided", "seed"))


def compare_with_references(study: Study) -> References:
    """Return how the policy of a study, alone and guided, compares with its baselines.

    Baselines are random play, constant actions, the policy with other randomness (sampled instead of greedy actions,
    for instance) and other policies. The study must have composed its rules, because baselines play the same final
    seeds.
    """
    settings = study.settings
    plain, note_on_left_out = plain_references(study)  # random play, constant actions, the other way of playing
    references = [*plain, *study.others.references()]
    total_episodes = STAGES["references"].episodes(settings, Known(0, 0, references=len(references)))
    try:
        return compare_references(
            study.setup(),
            references,
            study.improvement.final_blocks,
            seed=study.seed,
            settings=settings.references,
            objective=settings.evaluation.objective,
            alpha=settings.evaluation.alpha,
            most_failed=settings.most_failed,
            notes=[note_on_left_out] if note_on_left_out else [],
            run=study.runner("references", of=total_episodes),
        )
    except LegibleError:
        study.others.check_there()  # if the file of a policy is missing, its error explains the failure better
        raise


def plain_references(study: Study) -> tuple[list[Reference], str]:
    """Return random play, constant choices and the other way of playing, and a note on those that were left out."""
    space = study.space
    names = [space.action_names[group.choices] for group in space.groups]
    gerunds = [gerund(action.label) for action in space.actions]
    # For every group of choices the one that the policy takes most often.
    chosen = study.experiences.actions.reshape(len(study.experiences), -1)
    counts = [np.bincount(column, minlength=len(space.actions)) for column in chosen.T]
    typical = [int(np.argmax(count)) for count in counts]
    baselines, left_out = default_references(names, study.settings.references.most_constants, typical, gerunds)
    way = other_way(study.player(), study.settings.play)
    return [*baselines, *([way] if way is not None else [])], left_out


@dataclass(frozen=True)
class _Entry:
    """Entry of a policy in the file: the path or address that it was given by ("" for an object), its fingerprint."""

    name: str
    source: str
    fingerprint: str


class OtherPolicies:
    """Other policies of a study, by their names in a file of its folder; loaded only where they have to play.

    `load` is `legible.study.load_policy_for` with what the user allows for the policies of the file.
    """

    def __init__(self, study: Study, load: Callable[..., Policy]) -> None:
        self._study, self._path, self._load = study, study.folder / "others.json", load
        self._loaded: dict[str, Policy] = {}

    def add(self, given: Mapping[str, str | Path | Policy]) -> None:
        """Add the policies that a person gives, by name."""
        taken = _TAKEN | {reference.name for reference in plain_references(self._study)[0]}
        entries = {entry.name: entry for entry in self._entries()}
        for name, source in given.items():
            if name in taken:
                raise LegibleError(f"--other {name}=…: this name is taken; give the policy another one.")
            policy = self._player(self._load(self._study.environment, source, allow_code=True))
            path = found_again(str(source)) if isinstance(source, (str, Path)) else ""
            entries[name], self._loaded[name] = _Entry(name, path, self._identify(policy)), policy
        write_json(self._path, {"others": [asdict(entry) for entry in entries.values()]}, self._study.key)

    @property
    def sources(self) -> dict[str, str]:
        """The paths or addresses of the policies by name; policies that were objects are left out."""
        return {entry.name: entry.source for entry in self._entries() if entry.source}

    def references(self) -> list[Reference]:
        """Return the policies as baselines; one that cannot be loaded any more has only its fingerprint."""
        gone = self._gone()
        return [
            Reference(entry.name, fingerprint=entry.fingerprint, policy=None if entry in gone else self._policy(entry))
            for entry in self._entries()
        ]

    def _gone(self) -> list[_Entry]:
        """Return the policies that were objects of another process: their episodes can only be read."""
        return [entry for entry in self._entries() if not entry.source and entry.name not in self._loaded]

    def check_there(self) -> None:
        """Raise an error if a policy is not there to play."""
        for entry in self._gone():
            self._policy(entry)

    def _entries(self) -> tuple[_Entry, ...]:
        try:
            document = read_json(self._path, self._study.key, _ADVICE)
        except FileNotFoundError:
            return ()
        try:
            entries = tuple(_Entry(**entry) for entry in document["others"])
            if not all(isinstance(value, str) for entry in entries for value in asdict(entry).values()):
                raise TypeError
        except (KeyError, TypeError) as error:
            raise DamagedFileError(f"{self._path}: is damaged; {_ADVICE}.") from error
        return entries

    def _policy(self, entry: _Entry) -> Policy:
        """Return the policy of an entry, which must act as it did when it was given."""
        if entry.name not in self._loaded:
            if not entry.source:
                raise LegibleError(
                    f"the other policy {entry.name!r} was an object in memory, which the folder cannot hold; give it "
                    f"again, or delete {self._path} to go on without other policies."
                )
            loaded = self._load(self._study.environment, entry.source)
            policy = self._player(loaded)
            if not is_same_behaviour(self._identify(policy), entry.fingerprint):
                raise LegibleError(
                    f"{entry.source}: the policy has changed since this study compared with it; give it again "
                    f"(--other '{entry.name}={entry.source}')."
                )
            self._loaded[entry.name] = policy
        return self._loaded[entry.name]

    def _player(self, policy: Policy) -> Policy:
        return adapt_policy(policy, self._study.environment, self._study.space)

    def _identify(self, policy: Policy) -> str:
        """Check that a policy fits, and return its fingerprint."""
        study = self._study
        features = find_feature_map(study.environment)
        check_policy(policy, len(study.space) if features is None else features.width, len(study.space.actions))
        limit = study.settings.time_limit or None
        return fingerprint_of(policy, study.environment, engine=study.engine, time_limit=limit)
