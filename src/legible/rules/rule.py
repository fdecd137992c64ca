"""Rules: the action that a policy takes (+) or avoids (−) where some conditions hold.

- `Condition`: ``low < x <= high`` for one feature, in float32.
- `Rule`: polarity, action and a conjunction of conditions; a frozen value.
- `RuleSet`: rules that guide together, such as a mined rule with its related forms.
- `CompiledRules`: many rule sets as flat arrays, to match whole batches of observations.

A rule has two text forms. With names, which `parse_rule` reads back::

    +North <- food.north & not ghost1.scared & 2 < ghost0.path.length <= 5

and in the notation of the paper, where a value is a category or the index of an interval::

    +action(0) <- f9=1, f34=0, f28=3
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError
from legible.features import Feature, FeatureError, FeatureSpace, Intervals, above, below
from legible.imports import njit, njit_inlined

Polarity = Literal["+", "-"]


class RuleError(LegibleError):
    """An invalid rule, or a text that is not a rule."""


@dataclass(frozen=True, order=True)
class Condition:
    """An interval for the value of one feature: ``low < x <= high``, compared in float32."""

    feature: int
    low: float
    high: float

    def __post_init__(self) -> None:
        if self.feature < 0:
            raise RuleError(f"the index of a feature cannot be negative, got {self.feature}.")
        low, high = (float(np.float32(end)) + 0.0 for end in (self.low, self.high))
        if not low < high:
            raise RuleError(f"the interval {self.low} < x <= {self.high} of feature {self.feature} is empty.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @classmethod
    def equals(cls, feature: int, value: float) -> Condition:
        """Return the condition that holds for a single value."""
        return cls(feature, float(below(value)), float(np.float32(value)))

    @property
    def value(self) -> float | None:
        """The single value for which the condition holds, or None if there are several."""
        return self.high if float(below(self.high)) == self.low else None

    def contains(self, other: Condition) -> bool:
        """Return whether this condition holds wherever the other one does."""
        return self.feature == other.feature and self.low <= other.low and other.high <= self.high

    def text(self, feature: Feature) -> str:
        """Return the condition with the feature's name; `parse_rule` reads back the same bits."""
        name = feature.name
        if self.value is not None:
            plain = f"{name} = {_number(self.value)}"
            return {1.0: name, 0.0: f"not {name}"}.get(self.value, plain) if feature.is_flag else plain
        low, low_sign = _shorter_bound(self.low, "<", "<=")
        high, high_sign = _shorter_bound(self.high, "<=", "<")
        if self.low == -np.inf:
            return f"{name} {high_sign} {high}" if self.high < np.inf else f"{name} <= inf"
        if self.high == np.inf:
            return f"{name} {low_sign.replace('<', '>')} {low}"
        return f"{low} {low_sign} {name} {high_sign} {high}"


def _number(value: float | np.float32) -> str:
    """Return the shortest text of a float32 that reads back to the same bits."""
    text = str(np.float32(value) + np.float32(0.0))  # never "-0"
    return text.removesuffix(".0")


def _shorter_bound(bound: float, sign: str, sign_of_next: str) -> tuple[str, str]:
    """Return the shorter of two equivalent bounds (``x <= 5`` and ``x < 5.0000005``), and its sign."""
    one, two = _number(bound), _number(float(above(bound)))
    return (one, sign) if len(one) <= len(two) else (two, sign_of_next)


@dataclass(frozen=True, order=True)
class Rule:
    """``polarity action(action) <- conditions``.

    A positive rule says that the action is taken where all conditions hold, a negative one that it is avoided there.
    Conditions are kept in the order of their features, so equal rules compare equal.

    >>> space = FeatureSpace.of(["food.north", "open.north"], ["North", "South"], kind="categorical")
    >>> rule = parse_rule("-North <- not open.north", space)
    >>> rule.text(space), rule.paper()
    ('-North <- open.north = 0', '-action(0) <- f1=0')
    """

    polarity: Polarity
    action: int
    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        if self.polarity not in {"+", "-"}:
            raise RuleError(f"polarity must be '+' or '-', got {self.polarity!r}.")
        if self.action < 0:
            raise RuleError(f"the index of an action cannot be negative, got {self.action}.")
        ordered = tuple(sorted(self.conditions))
        features = [condition.feature for condition in ordered]
        if len(set(features)) != len(features):
            raise RuleError(f"a rule can have only one condition per feature, got features {features}.")
        object.__setattr__(self, "conditions", ordered)

    def __len__(self) -> int:
        return len(self.conditions)

    @property
    def features(self) -> tuple[int, ...]:
        """The features of its conditions."""
        return tuple(condition.feature for condition in self.conditions)

    def contains(self, other: Rule) -> bool:
        """Return whether this rule has the same head and triggers wherever the other one does."""
        if (self.polarity, self.action) != (other.polarity, other.action):
            return False
        theirs = {condition.feature: condition for condition in other.conditions}
        return all(c.feature in theirs and c.contains(theirs[c.feature]) for c in self.conditions)

    def matches(self, observations: ArrayLike) -> NDArray[np.bool_]:
        """Return ``bool[n]``: the observations in which the rule triggers."""
        array = np.asarray(observations, np.float32)
        triggered = np.ones(len(array), np.bool_)
        for condition in self.conditions:
            column = array[:, condition.feature]
            triggered &= (column > np.float32(condition.low)) & (column <= np.float32(condition.high))
        return triggered

    def text(self, space: FeatureSpace) -> str:
        """Return the rule with names; `parse_rule` reads it back."""
        self.check(space)
        body = " & ".join(c.text(space[c.feature]) for c in self.conditions) or "true"
        return f"{self.polarity}{space.action_names[self.action]} <- {body}"

    def paper(self, intervals: Intervals | None = None, space: FeatureSpace | None = None) -> str:
        """Return the rule in the paper's notation, with numeric conditions as indices of intervals.

        A condition that is none of `intervals` is written with its bounds.
        """
        body = []
        for c in self.conditions:
            has_single_value = c.value is not None
            value = _number(c.high) if has_single_value else ""
            is_category = has_single_value and (space is None or space[c.feature].kind != "numeric")
            if intervals is not None and not is_category:
                lows, highs = intervals.lows[c.feature], intervals.highs[c.feature]
                index = np.flatnonzero((lows == np.float32(c.low)) & (highs == np.float32(c.high)))
                value = str(index[0]) if index.size else value
            body.append(f"f{c.feature}={value}" if value else f"f{c.feature}∈({_number(c.low)}, {_number(c.high)}]")
        return f"{self.polarity}action({self.action}) <- {', '.join(body) or 'true'}"

    def check(self, space: FeatureSpace) -> None:
        """Raise `RuleError` if the space lacks a feature or the action of the rule."""
        if self.action >= len(space.actions):
            raise RuleError(f"action {self.action} does not exist: there are {len(space.actions)} actions.")
        beyond = [i for i in self.features if i >= len(space)]
        if beyond:
            raise RuleError(f"feature {beyond[0]} does not exist: observations have {len(space)} features.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; infinite bounds are left out."""
        conditions: list[dict[str, float]] = []
        for condition in self.conditions:
            entry: dict[str, float] = {"feature": condition.feature}
            if condition.low != -np.inf:
                entry["low"] = condition.low
            if condition.high != np.inf:
                entry["high"] = condition.high
            conditions.append(entry)
        return {"polarity": self.polarity, "action": self.action, "conditions": conditions}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rule:
        """Return the rule that `to_dict` wrote."""
        try:
            conditions = tuple(
                Condition(int(item["feature"]), item.get("low", -np.inf), item.get("high", np.inf))
                for item in data["conditions"]
            )
            return cls(data["polarity"], int(data["action"]), conditions)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RuleError(f"not a rule: {data!r} ({type(error).__name__}: {error}).") from error


_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf)"
_WORD = r"[A-Za-z_][\w.\-:\[\]']*"
_HEAD = re.compile(rf"\s*(?P<polarity>[-+−])\s*(?P<action>{_WORD})\s*(?:<-|←)(?P<body>.*)", re.DOTALL)
_FLAG = re.compile(rf"(?P<no>not\s+)?(?P<name>{_WORD})")
_COMPARE = re.compile(rf"(?P<name>{_WORD})\s*(?P<sign><=|>=|<|>|==|=)\s*(?P<number>{_NUMBER})")
_BETWEEN = re.compile(
    rf"(?P<low>{_NUMBER})\s*(?P<first><=|<)\s*(?P<name>{_WORD})\s*(?P<second><=|<)\s*(?P<high>{_NUMBER})"
)


def parse_rule(text: str, space: FeatureSpace) -> Rule:
    """Return the rule that a text with names stands for.

    >>> space = FeatureSpace.of(["speed", "gap"], ["Brake", "Go"])
    >>> parse_rule("+Brake <- gap < 5 & 2 < speed <= 8", space).text(space)
    '+Brake <- 2 < speed <= 8 & gap < 5'
    """
    head = _HEAD.fullmatch(text)
    if head is None:
        raise RuleError(f"{text.strip()!r} is not a rule; write it as '+Action <- condition & condition'.")
    try:
        action = space.action_index(head["action"])
        body = head["body"].strip()
        parts = [] if body == "true" else re.split(r"&|,", body)
        conditions = tuple(_parse_condition(part.strip(), space) for part in parts)
        features = [condition.feature for condition in conditions]
        repeated = next((feature for feature in features if features.count(feature) > 1), None)
        if repeated is not None:
            raise RuleError(
                f"a rule can have only one condition per feature, and {space[repeated].name!r} has "
                f"{features.count(repeated)}; write two bounds as '1 < {space[repeated].name} <= 3'."
            )
        return Rule("+" if head["polarity"] == "+" else "-", action, conditions)
    except (FeatureError, RuleError) as error:
        raise RuleError(f"in the rule {text.strip()!r}: {error}") from error


def _parse_condition(text: str, space: FeatureSpace) -> Condition:
    """Return the condition that a part of a rule's text stands for, such as ``not food.north`` or ``2 < gap <= 5``."""
    flag, between, comparison = _FLAG.fullmatch(text), _BETWEEN.fullmatch(text), _COMPARE.fullmatch(text)
    low, high = np.float32(-np.inf), np.float32(np.inf)
    if flag:
        return Condition.equals(space.feature_index(flag["name"]), 0.0 if flag["no"] else 1.0)
    # A condition is ``low < x <= high``: for ``low <= x`` and ``x < high``, the bound is the next number below.
    if between:
        low = _read_bound(between["low"], exact=between["first"] == "<")
        high = _read_bound(between["high"], exact=between["second"] == "<=")
        return Condition(space.feature_index(between["name"]), float(low), float(high))
    if not comparison:
        hint = "write & for 'and'; " if re.search(r"\band\b", text) else ""
        if "!" in text:
            hint += "write 'not name' for '!name'; "
        raise RuleError(
            f"{text!r} is not a condition; {hint}a condition is 'name', 'not name', 'name = 3', 'name < 3', "
            "'name <= 3', 'name > 3', 'name >= 3' or '1 < name <= 3'."
        )
    feature, sign, number = space.feature_index(comparison["name"]), comparison["sign"], comparison["number"]
    if sign.startswith("="):
        return Condition.equals(feature, float(number))
    if sign.startswith("<"):
        high = _read_bound(number, exact=sign == "<=")
    else:
        low = _read_bound(number, exact=sign == ">")
    return Condition(feature, float(low), float(high))


class Threshold(NamedTuple):
    """A number in the text of a rule: the feature that it bounds, its value, and where it stands."""

    feature: int
    value: float
    start: int
    end: int


def find_thresholds(text: str, space: FeatureSpace) -> list[Threshold]:
    """Return the numbers that bound features in a rule's text, in the order of the text, each with its position.

    The positions let an editor replace a number in the text. A text that is no rule has no thresholds.

    >>> space = FeatureSpace.of(["speed", "gap"], ["Brake", "Go"])
    >>> [(t.feature, t.value, t.start) for t in find_thresholds("+Brake <- gap < 5 & 2 < speed <= 8", space)]
    [(1, 5.0, 16), (0, 2.0, 20), (0, 8.0, 33)]
    """
    rule_parts = _HEAD.fullmatch(text)
    if rule_parts is None:
        return []
    thresholds = []
    # Conditions are separated by "&" or ",". Positions count from the start of the whole text.
    for condition_text in re.finditer(r"[^&,]+", text[rule_parts.start("body") :]):
        condition = condition_text[0].strip()
        offset = rule_parts.start("body") + condition_text.start() + condition_text[0].index(condition)
        match = _BETWEEN.fullmatch(condition) or _COMPARE.fullmatch(condition)
        if match is None:  # a condition without a number, such as "not food.north"
            continue
        feature = space.feature_index(match["name"])
        for number_name in ("low", "high") if match.re is _BETWEEN else ("number",):
            value = float(match[number_name])
            thresholds.append(
                Threshold(feature, value, offset + match.start(number_name), offset + match.end(number_name))
            )
    return thresholds


def _read_bound(number: str, *, exact: bool) -> np.float32:
    """Return a bound of ``low < x <= high``: the number itself if `exact`, otherwise the next float32 below it."""
    value = np.float32(number)
    return value if exact else np.float32(below(value))


@dataclass(frozen=True)
class RuleSet:
    """Rules that guide together; `source` is the mined rule of which they are related forms, if there is one."""

    rules: tuple[Rule, ...]
    source: Rule | None = field(default=None)

    def __len__(self) -> int:
        return len(self.rules)

    def __or__(self, other: RuleSet) -> RuleSet:
        """Return the union of two rule sets, without duplicates."""
        return RuleSet(tuple(dict.fromkeys(self.rules + other.rules)))

    def text(self, space: FeatureSpace) -> str:
        """Return the rules with names, one per line."""
        return "\n".join(rule.text(space) for rule in self.rules)

    @property
    def stated(self) -> tuple[Rule, ...]:
        """The rules that summarise the set: its source, or all rules of a set without a source."""
        return self.rules if self.source is None else (self.source,)

    def advice_key(self, n_actions: int) -> frozenset[Rule]:
        """Return a key that rule sets with the same advice share: of two actions, avoiding one is taking the other.

        >>> space = FeatureSpace.of(["angle"], ["Left", "Right"])
        >>> take, avoid = (RuleSet((parse_rule(f"{rule} <- angle > 0", space),)) for rule in ("+Right", "-Left"))
        >>> take.advice_key(2) == avoid.advice_key(2), take.advice_key(3) == avoid.advice_key(3)
        (True, False)
        """
        if n_actions != 2:
            return frozenset(self.rules)
        return frozenset(
            rule if rule.polarity == "+" else Rule("+", 1 - rule.action, rule.conditions) for rule in self.rules
        )

    def short_text(self, space: FeatureSpace) -> str:
        """Return the rules that summarise the set, on one line.

        >>> space = FeatureSpace.of(["gap"], ["Brake", "Go"])
        >>> rules = (parse_rule("+Brake <- gap <= 2", space), parse_rule("+Go <- gap > 2", space))
        >>> RuleSet(rules).short_text(space)
        '+Brake <- gap <= 2; +Go <- gap > 2'
        >>> RuleSet(rules, rules[1]).short_text(space)
        '+Go <- gap > 2'
        """
        return "; ".join(rule.text(space) for rule in self.stated)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        data: dict[str, Any] = {"rules": [rule.to_dict() for rule in self.rules]}
        if self.source is not None:
            data["source"] = self.source.to_dict()
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RuleSet:
        """Return the rule set that `to_dict` wrote."""
        source = data.get("source")
        rules = tuple(Rule.from_dict(item) for item in data.get("rules", ()))
        return cls(rules, Rule.from_dict(source) if source is not None else None)


class CompiledRules(NamedTuple):
    """Rule sets as flat arrays for numba kernels.

    Set s has the rules ``set_starts[s]:set_starts[s+1]``, rule r the conditions ``starts[r]:starts[r+1]``.
    """

    feature: NDArray[np.int32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    starts: NDArray[np.int64]
    action: NDArray[np.int32]
    positive: NDArray[np.bool_]
    set_starts: NDArray[np.int64]

    @classmethod
    def compile(cls, rule_sets: Sequence[RuleSet | Iterable[Rule]]) -> CompiledRules:
        """Return rule sets as flat arrays, in the given order."""
        sets = [s.rules if isinstance(s, RuleSet) else tuple(s) for s in rule_sets]
        rules = [rule for rule_set in sets for rule in rule_set]
        conditions = [condition for rule in rules for condition in rule.conditions]
        return cls(
            feature=np.array([c.feature for c in conditions], np.int32),
            low=np.array([c.low for c in conditions], np.float32),
            high=np.array([c.high for c in conditions], np.float32),
            starts=np.cumsum([0, *(len(rule) for rule in rules)], dtype=np.int64),
            action=np.array([rule.action for rule in rules], np.int32),
            positive=np.array([rule.polarity == "+" for rule in rules], np.bool_),
            set_starts=np.cumsum([0, *(len(s) for s in sets)], dtype=np.int64),
        )

    def matches(self, observations: ArrayLike) -> NDArray[np.bool_]:
        """Return ``bool[n, rules]``: the rules that trigger in each observation."""
        array = np.ascontiguousarray(observations, np.float32)
        width = int(self.feature.max()) + 1 if self.feature.size else 0
        if array.ndim != 2 or array.shape[1] < width:
            raise RuleError(f"the rules need observations of shape (n, ≥{width}), got {array.shape}.")
        return _match(array, self)


@njit_inlined
def triggers(rules: CompiledRules, r: int, observation: NDArray[np.float32]) -> bool:
    """Return whether all conditions of rule r hold in one observation."""
    for c in range(rules.starts[r], rules.starts[r + 1]):
        x = observation[rules.feature[c]]
        if not (rules.low[c] < x <= rules.high[c]):
            return False
    return True


@njit(cache=True)
def _match(observations: NDArray[np.float32], rules: CompiledRules) -> NDArray[np.bool_]:
    n, n_rules = observations.shape[0], rules.starts.size - 1
    matched = np.empty((n, n_rules), np.bool_)
    for i in range(n):
        for r in range(n_rules):
            matched[i, r] = triggers(rules, r, observations[i])
    return matched
