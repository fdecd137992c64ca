"""Choice of relations files.

- `resolve_relations`: returns the `ChosenRelations`: the user's, or the defaults of the environment's domain.
- `RelationsText`: the text of one relations file.
- `DISCOVER`: stands for relations that are discovered in the environment (`legible.relations.discovery`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from legible.environments import Env, EnvironmentSpec, shipped_relations
from legible.errors import did_you_mean
from legible.features import FeatureSpace
from legible.files import read_text
from legible.relations.places import KindError, UnknownNameError
from legible.relations.reader import parse_relations
from legible.relations.relation import MetamorphicRelation
from legible.relations.values import RelationError
from legible.relations.writer import dump_relations

DISCOVER = "discover"
DISCOVERED = "discovered"  # name of the text of such relations
RelationsArgument: TypeAlias = str | Path | Sequence[str | Path | MetamorphicRelation] | None


@dataclass(frozen=True)
class RelationsText:
    """The text of a relations file, with its name and origin."""

    name: str
    text: str
    where: str

    @property
    def checksum(self) -> str:
        """Hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def relations(self, space: FeatureSpace) -> tuple[MetamorphicRelation, ...]:
        """Return the relations for these features and actions."""
        return parse_relations(self.text, space, self.where)


@dataclass(frozen=True)
class ChosenRelations:
    """The chosen relations."""

    texts: tuple[RelationsText, ...] = ()  # the relations, file by file
    # Files of the domain that do not fit the names of features and actions, with the reason.
    left_out: tuple[str, ...] = ()


def resolve_relations(
    environment: str | EnvironmentSpec | Env,
    space: FeatureSpace,
    relations: RelationsArgument = None,
    discover: Callable[[], str] | None = None,
) -> ChosenRelations:
    """Return the relations to use, as texts of relations files, and the reasons why others are left out.

    Parameters
    ----------
    environment
        The environment, whose domain is found with `legible.environments.domain_of`.
    space
        Names of features and actions, from `legible.environments.resolve_names`.
    relations
        None for the defaults of the domain that fit the names; "none" for none; else one or a list of files, names of
        files of the domain, relations, or "discover".
    discover
        Returns the text of the relations that "discover" stands for, empty if there are none.

    Raises
    ------
    RelationError
        If a file is missing or does not fit the names. Kinds of features are checked later, because they may be guessed
        from experiences.
    """
    entries = [relations] if isinstance(relations, (str, Path)) else relations
    if entries is not None and DISCOVER in entries and discover is not None:
        given = [entry for entry in entries if entry != DISCOVER]
        chosen = _chosen(environment, space, given or "none")
        discovered = discover()
        if discovered:
            added = RelationsText(DISCOVERED, discovered, "the discovered relations")
            chosen = replace(chosen, texts=(*chosen.texts, added))
        else:
            chosen = replace(chosen, left_out=(*chosen.left_out, "discovered relations, because none was found"))
    else:
        chosen = _chosen(environment, space, relations)
    if space.derived is None:
        return chosen
    # Rules with conditions on derived features that a relation does not map have no related forms.
    remarks = []
    for text in chosen.texts:
        try:
            unmapped = {i for relation in text.relations(space) for i in relation.unmapped if i >= space.n_own}
        except KindError:  # kinds of features are checked later, because they may be guessed from experiences
            continue
        if unmapped:
            names = ", ".join(space.names[i] for i in sorted(unmapped))
            remarks.append(f"{text.name}, for rules with derived features that it does not map ({names})")
    return replace(chosen, left_out=(*chosen.left_out, *remarks))


def _chosen(
    environment: str | EnvironmentSpec | Env, space: FeatureSpace, relations: RelationsArgument
) -> ChosenRelations:
    """Return the relations that an argument names, or the defaults of the domain if it is None.

    Defaults that do not fit the names of features are left out; for relations that were asked for, that is an error.
    """
    if relations is None:
        fitting, left_out = [], []
        for file in shipped_relations(environment):
            if file.default:
                text = _read(file.path, file.name)
                try:
                    _check(text, space)
                    fitting.append(text)
                except UnknownNameError as error:
                    left_out.append(f"{file.name} does not fit the names of this environment ({error.reason})")
        return ChosenRelations(tuple(fitting), tuple(left_out))
    entries = [relations] if isinstance(relations, (str, Path)) else list(relations)
    if entries == ["none"]:
        return ChosenRelations()
    objects = [entry for entry in entries if isinstance(entry, MetamorphicRelation)]
    texts = [_text_of(entry, environment) for entry in entries if not isinstance(entry, MetamorphicRelation)]
    if objects:
        texts.append(RelationsText("given", dump_relations(objects, space), "the given relations"))
    for text in texts:
        _check(text, space)
    return ChosenRelations(tuple(texts))


def _check(text: RelationsText, space: FeatureSpace) -> None:
    """Raise an error if relations do not fit the names; kinds of features may be guessed later, so they may differ."""
    with suppress(KindError):
        text.relations(space)


def _text_of(source: str | Path, environment: str | EnvironmentSpec | Env) -> RelationsText:
    """Return the text of a file of the domain, or else of a file with this path."""
    shipped = {file.name: file.path for file in shipped_relations(environment)} if isinstance(source, str) else {}
    if source in shipped:
        return _read(shipped[str(source)], str(source))
    if not Path(source).exists():
        known = f" For this environment, the package has {', '.join(shipped)}." if shipped else ""
        hint = did_you_mean(str(source), shipped) or known
        raise RelationError(f"{source}: there is no such file.{hint}")
    # In the folder of a study, names begin with a number.
    return _read(Path(source), re.sub(r"^\d\d-", "", Path(source).stem))


def _read(path: Path, name: str) -> RelationsText:
    return RelationsText(name, read_text(path, RelationError), str(path))
