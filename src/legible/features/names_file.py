"""`names_toml`: writes a first names file, for the user to edit."""

from __future__ import annotations

import json

from legible.features.space import FeatureSpace

_HEAD = """\
# Names of features and actions, in the order of the environment. Edit this file, and pass it as --names FILE.
# words: what a feature measures ("the distance to the car ahead") or what an action does ("brake").
# kind: "numeric" features are cut into intervals, "categorical" ones are compared value by value.
# values: phrases for single values, { 0 = "the road is free", 1 = "the road is blocked" }.
"""
_GROUPS = """\
# Choices of each part of an action. Continuous parts are cut into regions by the actions of the policy.
[groups]
"""
_DERIVED = """\
# Features that are computed from others and from earlier steps; see docs/features.md.
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

    def text(value: str) -> str:
        return json.dumps(value, ensure_ascii=False)

    parts = [_HEAD]
    for feature in space.own.features:
        lines = ["[[features]]", f"name = {text(feature.name)}", f'kind = "{feature.kind}"']
        lines.append(f"words = {text(feature.words)}")
        if feature.values:
            phrases = ", ".join(f"{text(_number(value))} = {text(words)}" for value, words in feature.values.items())
            lines.append(f"values = {{ {phrases} }}")
        if feature.group:
            lines.append(f"group = {text(feature.group)}")
        for key, numbers in (("sentinels", feature.sentinels or None), ("cuts", feature.cuts)):
            if numbers is not None:
                lines.append(f"{key} = [{', '.join(map(_number, numbers))}]")
        if feature.least is not None:
            lines.append(f"least = {feature.least!r}")
        parts.append("\n".join(lines) + "\n")
    if space.is_discrete:
        parts += [f"[[actions]]\nname = {text(one.name)}\nwords = {text(one.words)}\n" for one in space.actions]
    else:
        parts.append(_GROUPS)
        for group in space.groups:
            names = [name.removeprefix(f"{group.name}.") for name in space.action_names[group.choices]]
            parts[-1] += f"{text(group.name)} = {json.dumps(names, ensure_ascii=False)}\n"
    derived = [f"{text(one.name)} = {text(one.expression)}\n" for one in space.features if one.expression]
    parts.append("".join(["[derived]\n", *derived]) if derived else _DERIVED)
    return "\n".join(parts)


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")
