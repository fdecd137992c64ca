"""Which relations are meant: the one place that decides.

- `resolve_relations`: the user's files, names and relations, or those that come with the domain of an environment. It
  returns `ChosenRelations`.
- `RelationsText`: the text of one relations file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
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

RelationsArgument: TypeAlias = str | Path | Sequence[str | Path | MetamorphicRelation] | None


@dataclass(frozen=True)
class RelationsText:
    """The text of a relations file, what it is called, and where it is from."""

    name: str
    text: str
    where: str

    @property
    def checksum(self) -> str:
        """A text that changes when the content does."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def relations(self, space: FeatureSpace) -> tuple[MetamorphicRelation, ...]:
        """Read it, for features and actions of these names."""
        return parse_relations(self.text, space, self.where)


@dataclass(frozen=True)
class ChosenRelations:
    """The relations that are meant.

    Parameters
    ----------
    texts
        The relations, file by file.
    left_out
        Files that come with the domain but do not fit the names of features and actions, and why, in words.
    """

    texts: tuple[RelationsText, ...] = ()
    left_out: tuple[str, ...] = ()


def resolve_relations(
    environment: str | EnvironmentSpec | Env, space: FeatureSpace, relations: RelationsArgument = None
) -> ChosenRelations:
    """Decide which relations are meant.

    Parameters
    ----------
    environment
        The environment. Only one that really is of a domain gets the domain's relations: an environment that was made
        is judged by its class, a spec by the environment that it makes, an id by itself (`legible.environments.
        domain_of`).
    space
        Its features and actions by name, as `legible.environments.resolve_names` decides.
    relations
        None for those that come with the domain and are used by default, as far as they fit the names; "none" for none;
        else one or a list of files, names of files that come with the domain, or relations.

    Raises
    ------
    RelationError
        When a file is not there or cannot be read for these names. What is wrong with kinds of features only shows when
        it is used: experiences may say of which kind a feature is.
    """
    found = _chosen(environment, space, relations)
    unclear = []
    for text in found.texts if space.derived is not None else ():
        try:
            unmapped = {i for relation in text.relations(space) for i in relation.unmapped if i >= space.n_own}
        except KindError:
            continue
        if unmapped:  # rules that speak of these are not carried over
            names = ", ".join(space.names[i] for i in sorted(unmapped))
            unclear.append(f"{text.name}, for rules that speak of the derived features it says nothing of ({names})")
    return replace(found, left_out=(*found.left_out, *unclear))


def _chosen(
    environment: str | EnvironmentSpec | Env, space: FeatureSpace, relations: RelationsArgument
) -> ChosenRelations:
    if relations is None:
        fitting, left_out = [], []
        for file in shipped_relations(environment):
            if file.default:
                text = _read(file.path, file.name)
                try:
                    with suppress(KindError):
                        text.relations(space)
                    fitting.append(text)
                except UnknownNameError as error:
                    reason = error.reason
                    left_out.append(f"{file.name} speaks of other names than those of this environment ({reason})")
        return ChosenRelations(tuple(fitting), tuple(left_out))
    given = [relations] if isinstance(relations, (str, Path)) else list(relations)
    if given == ["none"]:
        return ChosenRelations()
    objects = [entry for entry in given if isinstance(entry, MetamorphicRelation)]
    sources = [entry for entry in given if not isinstance(entry, MetamorphicRelation)]
    texts = [_text_of(entry, environment) for entry in sources]
    if objects:
        texts.append(RelationsText("given", dump_relations(objects, space), "the given relations"))
    for text in texts:
        with suppress(KindError):
            text.relations(space)
    return ChosenRelations(tuple(texts))


def _text_of(source: str | Path, environment: str | EnvironmentSpec | Env) -> RelationsText:
    """Read a file, or one that comes with the domain; its name counts before a file of the same name."""
    shipped = {file.name: file.path for file in shipped_relations(environment)} if isinstance(source, str) else {}
    if source in shipped:
        return _read(shipped[str(source)], str(source))
    if not Path(source).exists():
        known = f" Those that come with the package: {', '.join(shipped)}." if shipped else ""
        hint = did_you_mean(str(source), shipped) or known
        raise RelationError(f"{source}: there is no such file.{hint}")
    # The folder of a study puts numbers before names.
    return _read(Path(source), re.sub(r"^\d\d-", "", Path(source).stem))


def _read(path: Path, name: str) -> RelationsText:
    return RelationsText(name, read_text(path, RelationError), str(path))
