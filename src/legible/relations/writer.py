"""`dump_relations`: writes the text of a relations file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from legible.features import FeatureSpace
from legible.relations.actions import whole_groups
from legible.relations.relation import FeatureRelation, MetamorphicRelation
from legible.relations.values import NEGATE, Affine, Anything, Equal, ValueTable, reflect


def dump_relations(relations: Iterable[MetamorphicRelation], space: FeatureSpace) -> str:
    """Return the text of a relations file; `parse_relations` reads back equal relations.

    Consecutive relations that differ only in their actions become one table.
    """

    def all_but_actions(relation: MetamorphicRelation) -> tuple[Any, ...]:
        pairs = tuple((fr.feature, fr.image_feature, fr.relation) for fr in relation.features)
        holds = tuple(relation.holds.items())
        return relation.name, relation.words, holds, relation.note, pairs, relation.unmapped

    groups: list[list[MetamorphicRelation]] = []
    for _, alike in groupby(relations, key=all_but_actions):
        groups.append([])
        for relation in alike:
            group = groups[-1]
            if any(relation.action == r.action or relation.image_action == r.image_action for r in group):
                groups.append([])
            groups[-1].append(relation)
    return "\n".join(_dump_group(group, space) for group in groups)


def _dump_group(group: Sequence[MetamorphicRelation], space: FeatureSpace) -> str:
    """Return the TOML text of the relations of one name, which differ in their actions only."""
    first, names = group[0], space.action_names
    lines = ["[[relation]]", f"name = {_quote(first.name)}"]
    if first.words:
        lines.append(f"words = {_quote(first.words)}")
    # The actions: unchanged, groups of choices, each mapped to the next one in a circle, or any other map.
    actions = [relation.action for relation in group]
    images = [relation.image_action for relation in group]
    pairs = list(zip(actions, images, strict=True))
    if pairs == [(i, i) for i in range(len(names))]:
        statement = '"same"'
    elif not space.is_discrete:
        statement = _dump_choices(pairs, space)
    elif len(pairs) > 1 and images == [*actions[1:], actions[0]]:
        statement = f"{{ cycle = [{', '.join(_quote(names[i]) for i in actions)}] }}"
    else:
        statement = f"{{ {_dump_map(pairs, names)} }}"
    lines.append(f"actions = {statement}")
    for key, items in _dump_features(first, space.names).items():
        lines += [f"{key} = [", *(f"  {item}," for item in items), "]"]
    if first.holds:
        answers = ", ".join(f"{_quote(env)} = {_quote(answer)}" for env, answer in first.holds.items())
        lines.append(f"holds = {{ {answers} }}")
    if first.note:
        lines.append(f"note = {_quote(first.note)}")
    return "\n".join(lines) + "\n"


def _dump_map(pairs: Iterable[tuple[int, int]], names: Sequence[str]) -> str:
    return f"map = {{ {', '.join(f'{_quote(names[i])} = {_quote(names[j])}' for i, j in pairs)} }}"


def _dump_choices(pairs: Sequence[tuple[int, int]], space: FeatureSpace) -> str:
    """Return the text for groups by name, which does not depend on their regions, and for other choices."""
    statements: dict[str, list[str]] = {}
    other_choices = dict(pairs)
    for link in whole_groups(other_choices, space):
        group, image = space.groups[link.group], space.groups[link.image]
        if group == image:
            key, item = "negate" if link.negated else "same", _quote(group.name)
        else:
            negated = ", negate = true" if link.negated else ""
            key, item = "pair", f"{{ from = {_quote(group.name)}, to = {_quote(image.name)}{negated} }}"
        statements.setdefault(key, []).append(item)
        for choice in range(group.first, group.first + group.count):
            del other_choices[choice]
    written = [f"{key} = [{', '.join(items)}]" for key, items in statements.items()]
    if other_choices:
        written.append(_dump_map(other_choices.items(), space.action_names))
    return f"{{ {', '.join(written)} }}"


def _dump_features(relation: MetamorphicRelation, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the statements on features: for each key, such as "swap", the items of its list."""
    statements: dict[str, list[str]] = {}
    # Features whose values become those of others, in circles: "swap" for two, "cycle" for more. The features that are
    # in no circle are left in `image_of`.
    image_of = {fr.feature: fr.image_feature for fr in relation.features if isinstance(fr.relation, Equal)}
    for start in sorted(image_of):
        cycle = [start]
        while cycle[-1] in image_of and image_of[cycle[-1]] != start and len(cycle) <= len(image_of):
            cycle.append(image_of[cycle[-1]])
        if len(cycle) > 1 and image_of.get(cycle[-1]) == start:
            key = "swap" if len(cycle) == 2 else "cycle"
            statements.setdefault(key, []).append(f"[{', '.join(_quote(names[i]) for i in cycle)}]")
            for feature in cycle:
                del image_of[feature]
    # All other relations of features, one by one.
    for fr in relation.features:
        if not isinstance(fr.relation, Equal) or fr.feature in image_of:
            key, item = _dump_pair(fr, names)
            statements.setdefault(key, []).append(item)
    for feature in relation.unmapped:
        statements.setdefault("drop", []).append(_quote(names[feature]))
    return statements


def _dump_pair(fr: FeatureRelation, names: Sequence[str]) -> tuple[str, str]:
    """Return the statement for one feature relation: its key, and one item of the list that follows the key."""
    name, relation = _quote(names[fr.feature]), fr.relation
    if fr.feature == fr.image_feature:
        if isinstance(relation, Anything):
            return "ignore", name
        if relation == NEGATE:
            return "negate", name
        if isinstance(relation, ValueTable):
            return "map", f"{{ features = {name}, values = {_dump_values(relation)} }}"
        # 'about' is a float32, and has to be one that gives the same map; a huge one would be infinite.
        if isinstance(relation, Affine) and abs(relation.shift) < 1e38 and relation == reflect(relation.shift / 2):
            return "reflect", f"{{ features = {name}, about = {relation.shift / 2!r} }}"
    pair = f"from = {name}, to = {_quote(names[fr.image_feature])}"
    match relation:
        case Anything():
            pair += ", any = true"
        case ValueTable():
            pair += f", values = {_dump_values(relation)}"
        case Affine(scale, shift):
            pair += f", times = {scale!r}, plus = {shift!r}"
    return "pair", f"{{ {pair} }}"


def _dump_values(table: ValueTable) -> str:
    return f"[{', '.join(f'[{x!r}, {y!r}]' for x, y in table.pairs)}]"


def _quote(text: str) -> str:
    """Return a TOML string: a JSON string, except for one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
