"""A names file to begin with: `names_toml` writes what is known of features and actions, for a person to edit."""

from __future__ import annotations

import json
from collections.abc import Iterable

from legible.features.space import Feature, FeatureSpace

_HEAD = """\
# Names of features and actions, in the order of their numbers. Edit what stands here, and give it as --names FILE.
# words: what a feature measures ("the distance to the car ahead"), what an action does ("brake").
# kind: "numeric" features are compared interval by interval, "categorical" ones value by value.
# values: whole phrases for particular values, { 0 = "the road is free", 1 = "the road is blocked" }.
"""
_GROUPS = """\
# Choices of each part of an action; regions of continuous ones are cut by what the policy does.
[groups]
"""
_DERIVED = """
# Features that are computed from others, with a memory of the episode; see docs/features.md.
# [derived]
# before = "last_action"
# closing = "gap / max(1, -change(gap))"
"""


def names_toml(space: FeatureSpace) -> str:
    r"""Return a space as the text of a names file.

    >>> print(names_toml(FeatureSpace.of(["gap"], ["Go"])).split("\n\n")[1])
    [[features]]
    name = "gap"
    kind = "numeric"
    words = ""
    """
    parts = [_HEAD, *(_feature(feature) for feature in space.features if not feature.expression)]
    if space.is_discrete:
        parts += [f"[[actions]]\nname = {_text(one.name)}\nwords = {_text(one.words)}\n" for one in space.actions]
    else:
        parts.append(_GROUPS)
        for group in space.groups:
            names = [name.removeprefix(f"{group.name}.") for name in space.action_names[group.choices]]
            parts[-1] += f"{_text(group.name)} = {json.dumps(names, ensure_ascii=False)}\n"
    derived = [f"{_text(one.name)} = {_text(one.expression)}\n" for one in space.features if one.expression]
    parts.append("".join(["[derived]\n", *derived]) if derived else _DERIVED.lstrip("\n"))
    return "\n".join(parts)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _numbers(numbers: Iterable[float]) -> str:
    return f"[{', '.join(repr(value).removesuffix('.0') for value in numbers)}]"


def _feature(feature: Feature) -> str:
    lines = [
        "[[features]]",
        f"name = {_text(feature.name)}",
        f'kind = "{feature.kind}"',
        f"words = {_text(feature.words)}",
    ]
    if feature.values:
        entries = (
            f"{_text(repr(value).removesuffix('.0'))} = {_text(words)}" for value, words in feature.values.items()
        )
        lines.append(f"values = {{ {', '.join(entries)} }}")
    if feature.group:
        lines.append(f"group = {_text(feature.group)}")
    if feature.sentinels:
        lines.append(f"sentinels = {_numbers(feature.sentinels)}")
    if feature.cuts is not None:
        lines.append(f"cuts = {_numbers(feature.cuts)}")
    if feature.least is not None:
        lines.append(f"least = {feature.least!r}")
    return "\n".join(lines) + "\n"
