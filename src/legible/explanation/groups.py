"""Groups of features that rules use.

- `group_shares`: the share of rules that use each group.
- `feature_groups`: the groups that the features define.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from legible.errors import LegibleError, did_you_mean
from legible.features import FeatureSpace
from legible.mining import MinedRule
from legible.rules import Rule

Groups = Mapping[str, Sequence[str]]
"""Lists of feature names by group; ``*`` in a name matches any text."""


def group_shares(rules: Iterable[Rule | MinedRule], space: FeatureSpace, groups: Groups) -> dict[str, float]:
    """Return the share of rules with at least one condition on a feature of each group.

    Parameters
    ----------
    rules
        The rules, for instance those of a `legible.mining.Mining`.
    space
        Names of the features.
    groups
        Names of features by group; ``*`` in a name matches any text. A name that matches no feature is an error.

    Returns
    -------
    dict
        Shares between 0 and 1; NaN if there are no rules.

    Examples
    --------
    >>> from legible_envs.pacman.features import pacman_features
    >>> from legible.rules import parse_rule
    >>> space = pacman_features(2)
    >>> rules = [parse_rule(text, space) for text in ("-North <- not open.north", "+East <- ghost1.scared & food.east")]
    >>> group_shares(rules, space, {"food": ["food.*"], "walls": ["open.*"], "capsules": ["capsule.*"]})
    {'food': 0.5, 'walls': 0.5, 'capsules': 0.0}
    """
    # The features of each rule, and of each group.
    used = [set((rule.rule if isinstance(rule, MinedRule) else rule).features) for rule in rules]
    members = {group: _members(group, names, space) for group, names in groups.items()}
    if not used:
        return dict.fromkeys(members, float("nan"))
    return {
        group: sum(not features.isdisjoint(in_group) for features in used) / len(used)
        for group, in_group in members.items()
    }


def _members(group: str, patterns: Sequence[str], space: FeatureSpace) -> set[int]:
    if isinstance(patterns, str):
        raise LegibleError(f"group {group!r}: expected a list of feature names, got the text {patterns!r}.")
    found: set[int] = set()
    for pattern in patterns:
        # Only * is special: names may hold brackets.
        fits = re.compile(".*".join(map(re.escape, pattern.split("*")))).fullmatch
        matched = {i for i, name in enumerate(space.names) if fits(name)}
        if not matched:
            raise LegibleError(
                f"group {group!r}: no feature is called {pattern!r}.{did_you_mean(pattern, space.names)}"
            )
        found |= matched
    return found


def feature_groups(space: FeatureSpace) -> dict[str, tuple[str, ...]]:
    """Return the groups that the features define, in the order of the features.

    A feature without a group forms a group with its own name.
    """
    groups: dict[str, tuple[str, ...]] = {}
    for feature in space.features:
        key = feature.group or feature.name
        groups[key] = (*groups.get(key, ()), feature.name)
    return groups
