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
    r"""Return the text of a names file (TOML) for a user to edit, with the names that a feature space already has.

    >>> print(names_toml(FeatureSpace.of(["gap"], ["Go"])).split("\n\n")[1])
    [[features]]
    name = "gap"
    kind = "numeric"
    words = ""
    """

    def text(value: str) -> str:
        """Return a string in quotes; JSON's quoting is also valid TOML."""
        return json.dumps(value, ensure_ascii=False)

    # One table per feature of the observation; entries without a value are left out.
    sections = [_HEAD]
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
        sections.append("\n".join(lines) + "\n")

    # Discrete actions are a list; actions with several parts are a table of groups with their choices.
    if space.is_discrete:
        sections += [f"[[actions]]\nname = {text(item.name)}\nwords = {text(item.words)}\n" for item in space.actions]
    else:
        sections.append(_GROUPS)
        for group in space.groups:
            names = [name.removeprefix(f"{group.name}.") for name in space.action_names[group.choices]]
            sections[-1] += f"{text(group.name)} = {json.dumps(names, ensure_ascii=False)}\n"

    # Derived features with their expressions, or a comment that explains how to add some.
    derived = [f"{text(item.name)} = {text(item.expression)}\n" for item in space.features if item.expression]
    sections.append("".join(["[derived]\n", *derived]) if derived else _DERIVED)
    return "\n".join(sections)


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")
