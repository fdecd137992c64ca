"""Rules in plain English, built from the words of features and actions.

- `describe_rule`: "avoids going north when north is a wall", or as advice: "do not go north when north is a wall".
- `describe_rule_set`: a rule with its related forms. `describe_likewise`: only the related forms.
- `representative_rule`: the rule that a set is described by. `rule_parts`: the advice and the conditions separately.
- `describe_condition`, `describe_conditions`: the part after "when".
- `gerund`, `third_person`: "go north" as "going north" and "goes north".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Literal

import numpy as np

from legible.features import Feature, FeatureSpace, above
from legible.formatting import in_words, join_words, number
from legible.rules.rule import Condition, Rule, RuleSet

Mood = Literal["habit", "advice"]
"""Grammatical form of a rule: a habit of the policy ("goes north when …") or advice ("go north when …")."""

_IRREGULAR = {"be": ("being", "is"), "have": ("having", "has")}
_NEGATION = re.compile(r"\b(?:not|no|nothing)\b")
_PREPOSITION = re.compile(r"(?:to|into|with|at|on|by|for|from) ")
_COUNT = "the number of "
# Bounds smaller than this are printed as 0: a velocity of a millionth is noise.
_NEAR_ZERO = 1e-5


def gerund(phrase: str) -> str:
    """Return a phrase with its first verb in the -ing form.

    >>> gerund("go north"), gerund("stop"), gerund("fire the main engine"), gerund("lie low"), gerund("slow down")
    ('going north', 'stopping', 'firing the main engine', 'lying low', 'slowing down')
    """
    if phrase.startswith("not "):
        return f"not {gerund(phrase[4:])}"
    verb, rest = _split_verb(phrase)
    if verb in _IRREGULAR:
        return _IRREGULAR[verb][0] + rest
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying{rest}"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and len(verb) > 2:
        return f"{verb[:-1]}ing{rest}"
    # One short syllable: the last consonant is doubled (stop, cut; not steer, slow, open).
    if re.fullmatch(r"(?:[^aeiou]|qu)*[aeiou][^aeiouwxy]", verb):
        return f"{verb}{verb[-1]}ing{rest}"
    return f"{verb}ing{rest}"


def third_person(phrase: str) -> str:
    """Return a phrase with its first verb in the third person.

    >>> third_person("go north"), third_person("push left"), third_person("apply no torque"), third_person("stop")
    ('goes north', 'pushes left', 'applies no torque', 'stops')
    """
    if phrase.startswith("not "):
        return f"does {phrase}"
    verb, rest = _split_verb(phrase)
    if verb in _IRREGULAR:
        return _IRREGULAR[verb][1] + rest
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es{rest}"
    if re.search(r"[^aeiou]y$", verb):
        return f"{verb[:-1]}ies{rest}"
    return f"{verb}s{rest}"


def _split_verb(phrase: str) -> tuple[str, str]:
    verb, space, rest = phrase.strip().partition(" ")
    return verb, space + rest


# --- Conditions ------------------------------------------------------------------------------------------------------


def describe_condition(condition: Condition, feature: Feature) -> str:
    """Return a condition ``low < value <= high`` of a feature in words; "" if the condition always holds.

    >>> food = Feature("food.north", "categorical", values={1: "food is north", 0: "food is not north"})
    >>> describe_condition(Condition.equals(0, 1), food)
    'food is north'
    >>> describe_condition(Condition(0, 2.0, 5.0), Feature("gap", words="the gap"))
    'the gap is above 2 and at most 5'
    >>> describe_condition(Condition.equals(0, 0.5), Feature("v", words="the speed", unit="m/s", scale=40.0))
    'the speed is 20 m/s'
    """
    if condition.low == -np.inf and condition.high == np.inf:
        return ""
    if feature.kind == "categorical":
        return _describe_category(condition, feature)
    named_values = [value for value in sorted(feature.values) if condition.low < value <= condition.high]

    # One value only, named or as a number: "at most 0" means exactly 0 for a feature that is never below 0.
    is_least = feature.least is not None and condition.low < feature.least == condition.high
    single_value = feature.least if is_least else condition.value
    if single_value is not None:
        scaled = number((feature.scale or 1.0) * single_value)
        return (
            feature.values.get(single_value) or f"{feature.words or feature.name} is {scaled} {feature.unit}".rstrip()
        )

    # Intervals of distances with a side ("ahead"), of counts ("the number of …"), and of other numbers.
    if feature.sides:
        return _describe_sides(condition, feature)
    if feature.label.startswith(_COUNT) and not feature.sentinels:
        return _describe_count(condition, feature)
    # "At most 3" must not silently include a special value (sentinel) such as -1 for "none left".
    sentinel_words = [feature.values[value] for value in named_values if value in feature.sentinels]
    return join_words([f"{feature.words or feature.name} is {_range(condition, feature)}", *sentinel_words], "or")


def _describe_sides(condition: Condition, feature: Feature) -> str:
    """Return a condition on a signed distance in words: how far, and on which side of 0.

    The feature's ``sides`` are the words for values below and above 0.

    >>> gap = Feature("gap", group="vehicle 3", unit="m", scale=200.0, sides=("behind", "ahead"))
    >>> for low, high in ((0.2, 0.4), (-0.2, 0.0), (-np.inf, -0.2), (-0.2, 0.4), (-0.2, np.inf)):
    ...     describe_condition(Condition(0, low, high), gap)
    'vehicle 3 is 40 to 80 m ahead'
    'vehicle 3 is up to 40 m behind'
    'vehicle 3 is more than 40 m behind'
    'vehicle 3 is up to 40 m behind or up to 80 m ahead'
    'vehicle 3 is ahead or up to 40 m behind'
    """
    scale, (word_below, word_above) = feature.scale or 1.0, feature.sides
    low, high = condition.low * scale, condition.high * scale
    subject, unit = feature.group or feature.name, feature.unit
    # The smallest number above 0 and the largest below it are printed as 0.
    low, high = (0.0 if abs(bound) < 1e-6 * scale else bound for bound in (low, high))
    if low >= 0.0:
        return f"{subject} is {_how_far(low, high, unit)}{word_above}"
    if high <= 0.0:
        return f"{subject} is {_how_far(-high, -low, unit)}{word_below}"
    # Both sides of 0; an unlimited side is named first.
    above = f"{_how_far(0.0, high, unit)}{word_above}"
    below = f"{_how_far(0.0, -low, unit)}{word_below}"
    is_above_first = high == np.inf and low > -np.inf
    return f"{subject} is {above} or {below}" if is_above_first else f"{subject} is {below} or {above}"


def _how_far(near: float, far: float, unit: str) -> str:
    if far == np.inf:
        return f"more than {number(near)} {unit} " if near else ""
    return f"{number(near)} to {number(far)} {unit} " if near else f"up to {number(far)} {unit} "


def _describe_count(condition: Condition, feature: Feature) -> str:
    """Return a condition on a count in words; counts are whole numbers from 0."""
    least = max(0, int(np.floor(condition.low)) + 1) if condition.low > -np.inf else 0
    most = int(np.floor(condition.high)) if condition.high < np.inf else None
    counted_objects = feature.label.removeprefix(_COUNT)
    if most is None:
        return f"there are {counted_objects}" if least == 1 else f"{feature.label} is at least {least}"
    if most <= 0:
        return f"there are no {counted_objects}"
    if least == most:
        return f"{feature.label} is {least}"
    return f"{feature.label} is at most {most}" if least == 0 else f"{feature.label} is {least} to {most}"


def _describe_category(condition: Condition, feature: Feature) -> str:
    if condition.value is not None:
        return feature.values.get(condition.value) or f"{feature.label} is {number(condition.value)}"
    inside = [value for value in sorted(feature.values) if condition.low < value <= condition.high]
    if not inside:
        return f"{feature.label} is {_range(condition, feature)}"
    return "" if len(inside) == len(feature.values) else join_words([feature.values[value] for value in inside], "or")


def _range(condition: Condition, feature: Feature) -> str:
    """Return the bounds of an interval in words, without a low bound that only excludes a sentinel."""
    low, high = condition.low, condition.high
    if low in feature.sentinels and low == min(feature.sentinels) and high < np.inf:
        low = -np.inf
    scale = feature.scale or 1.0
    # As few digits as tell the two bounds apart.
    digits = next(d for d in (3, 4, 5, 6, 9) if d == 9 or number(scale * low, d) != number(scale * high, d))
    if abs(scale * low) < _NEAR_ZERO and abs(scale * high) < _NEAR_ZERO:
        return "nearly 0"
    bounds = []
    if low > -np.inf:
        bounds.append(_shorter_bound(low, "above", "at least", digits, scale))
    if high < np.inf:
        bounds.append(_shorter_bound(high, "at most", "below", digits, scale))
    return " and ".join(f"{bound} {feature.unit}".rstrip() for bound in bounds)


def _shorter_bound(bound: float, words: str, words_for_next: str, digits: int, scale: float) -> str:
    """Return the shorter of two equivalent bounds ("at most 4.9999995" and "below 5", the next float32)."""
    following = float(above(bound))
    if 0.0 < abs(scale * bound) < _NEAR_ZERO:
        return f"{words} 0" if bound > 0.0 else f"{words_for_next} 0"
    if len(str(np.float32(following))) < len(str(np.float32(bound))):
        return f"{words_for_next} {number(scale * following, digits)}"
    return f"{words} {number(scale * bound, digits)}"


def describe_conditions(conditions: Iterable[Condition], space: FeatureSpace) -> str:
    """Return conditions in words, joined by "and".

    Negated conditions that differ in one place are merged: "neither ghost 0 nor ghost 1 is scared".

    >>> from legible_envs.pacman.features import pacman_features
    >>> space = pacman_features(2)
    >>> no = lambda *names: [Condition.equals(space.feature_index(name), 0) for name in names]
    >>> describe_conditions(no("food.north", "food.south"), space)
    'the path to the closest food does not start north or south'
    >>> describe_conditions(no("capsule.north", "food.north"), space)
    'neither the path to the closest capsule nor that to the closest food starts north'
    >>> describe_conditions(no("ghost0.scared", "ghost1.scared"), space)
    'neither ghost 0 nor ghost 1 is scared'
    """
    conditions = list(conditions)
    groups_of_phrases: list[list[str]] = []
    for condition in conditions:
        phrase = _describe_with_presence(condition, conditions, space)
        if phrase:  # none if another condition implies this one, such as that an object is there
            # Put the phrase to the first ones that it can be merged with.
            matching = next((group for group in groups_of_phrases if _merge_phrases([*group, phrase])), None)
            if matching is None:
                groups_of_phrases.append([phrase])
            else:
                matching.append(phrase)
    # A phrase that is alone cannot be merged, and stays as it is.
    return join_words([_merge_phrases(group) or group[0] for group in groups_of_phrases])


def _describe_with_presence(condition: Condition, conditions: Sequence[Condition], space: FeatureSpace) -> str:
    """Return a condition in words, given the other conditions on the presence of the same object.

    A condition on the position of an object implies that it is present, so its presence is not mentioned as well.
    Without a condition on its presence, an interval around 0 also holds where the object is absent.
    """
    feature = space[condition.feature]
    others = [space[other.feature] for other in conditions if other is not condition]
    if condition.value == 1.0 and any(other.needs == feature.name for other in others):
        return ""
    phrase = describe_condition(condition, feature)
    holds_without = bool(feature.needs) and condition.low < 0.0 <= condition.high
    if not phrase or not holds_without or any(other.name == feature.needs for other in others):
        return phrase
    absent = space[space.feature_index(feature.needs)].values.get(0.0, "")
    return f"{phrase} or {absent}" if absent else phrase


def _merge_phrases(phrases: Sequence[str]) -> str | None:
    """Return one phrase for phrases that differ in one place; None if that would be ungrammatical or ambiguous.

    >>> _merge_phrases(["x is not a", "x is not b"]), _merge_phrases(["a is not red", "b is not red"])
    ('x is not a or b', 'neither a nor b is red')
    """
    if len(phrases) < 2:
        return None
    # Split each phrase into a common start, the words in which it differs, and a common end.
    words = [phrase.split(" ") for phrase in phrases]
    n_common_start = _count_common(words)
    n_common_end = _count_common([[*reversed(phrase[n_common_start:])] for phrase in words])
    common_start = words[0][:n_common_start]
    differing = [phrase[n_common_start : len(phrase) - n_common_end] for phrase in words]
    common_end = words[0][len(words[0]) - n_common_end :]
    # "x is not a", "x is not b" → "x is not a or b".
    if not common_end and "not" in common_start and all(len(words_between) == 1 for words_between in differing):
        return f"{' '.join(common_start)} {join_words([words_between[0] for words_between in differing], 'or')}"
    if common_end[:2] not in (["is", "not"], ["does", "not"]) or not common_end[2:] or not all(differing):
        return None
    # "a is not red", "b is not red" → "neither a nor b is red".
    rest = " ".join(common_end[2:])
    positive = f"is {rest}" if common_end[0] == "is" else third_person(rest)
    # Repeat the part of the subject that differs: "ghost 0 nor ghost 1", "the path to … nor that to …".
    while common_start and common_start[-1] not in {"to", "of"}:
        differing = [[common_start[-1], *words_between] for words_between in differing]
        common_start = common_start[:-1]
    repeated_object = f"that {common_start[-1]} " if common_start else ""
    subjects = [" ".join(words_between) for words_between in differing]
    first_subject = " ".join([*common_start, subjects[0]])
    others = " nor ".join(repeated_object + subject for subject in subjects[1:])
    return f"neither {first_subject} nor {others} {positive}"


def _count_common(lists: Sequence[Sequence[str]]) -> int:
    """Count the words that all lists begin with."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*lists, strict=False)))


# --- Rules -----------------------------------------------------------------------------------------------------------


def describe_rule(rule: Rule, space: FeatureSpace, mood: Mood = "habit") -> str:
    """Return the whole rule in plain English.

    The mood is "habit" for what the policy does, to follow a subject, or "advice" for what should be done.

    >>> from legible_envs.pacman.features import pacman_features
    >>> from legible.rules import parse_rule
    >>> space = pacman_features(2)
    >>> rule = parse_rule("-North <- not food.north & not open.north", space)
    >>> describe_rule(rule, space)
    'avoids going north when the path to the closest food does not start north and north is a wall'
    >>> describe_rule(parse_rule("+East <- open.east", space), space, "advice")
    'go east when east is open'
    """
    rule.check(space)
    action = space.actions[rule.action].label
    when = describe_conditions(rule.conditions, space)
    if mood == "advice":
        does_what = _advise(action, rule.polarity == "+", always=not when)
        return f"{does_what} when {when}" if when else does_what
    if when:
        does_what = third_person(action) if rule.polarity == "+" else f"avoids {gerund(action)}"
        return f"{does_what} when {when}"
    return f"always {third_person(action)}" if rule.polarity == "+" else f"never {third_person(action)}"


def rule_parts(rule: Rule, space: FeatureSpace) -> tuple[str, list[tuple[str, tuple[Condition, ...]]]]:
    """Return the advice of a rule, and each phrase about its conditions with the conditions behind it.

    >>> from legible_envs.pacman.features import pacman_features
    >>> from legible.rules import parse_rule
    >>> does, conditions = rule_parts(parse_rule("-North <- not open.north", pacman_features(2)), pacman_features(2))
    >>> does, [words for words, _ in conditions]
    ('do not go north', ['north is a wall'])
    """
    phrases = [_describe_with_presence(c, rule.conditions, space) for c in rule.conditions]
    # The presence of an object is not mentioned where its position is; both conditions belong to that phrase.
    silent = [c for c, phrase in zip(rule.conditions, phrases, strict=True) if not phrase]
    needs = [space[c.feature].needs for c in rule.conditions]
    parts = [
        (phrase, (rule.conditions[i], *(c for c in silent if space.names[c.feature] == needs[i])))
        for i, phrase in enumerate(phrases)
        if phrase
    ]
    return _advise(space.actions[rule.action].label, rule.polarity == "+", always=not parts), parts


def _advise(action: str, positive: bool, *, always: bool) -> str:
    if positive:
        return f"do {action}" if action.startswith("not ") else action
    if _NEGATION.search(action):  # "do not apply no torque" would be hard to follow
        return f"avoid {gerund(action)}"
    return f"never {action}" if always else f"do not {action}"


def describe_rule_set(rule_set: RuleSet, space: FeatureSpace, mood: Mood = "habit") -> str:
    """Return a rule and its related forms in one sentence.

    >>> from legible_envs.pacman.features import pacman_features
    >>> from legible.rules import parse_rule
    >>> space = pacman_features(2)
    >>> rules = [parse_rule(f"-{d} <- not open.{d.lower()}", space) for d in ("North", "East", "South", "West")]
    >>> describe_rule_set(RuleSet(tuple(rules), rules[0]), space)
    'avoids going north when north is a wall; likewise for east, south and west'
    """
    if not rule_set.rules:
        return "no rule"
    first = representative_rule(rule_set)
    text = describe_rule(first, space, mood)
    others = [rule for rule in rule_set.rules if rule != first]
    if not others:
        return text
    if rule_set.source is None:
        return "; ".join([text, *(describe_rule(rule, space, mood) for rule in others)])
    return f"{text}; {describe_likewise(rule_set, space)}"


def describe_likewise(rule_set: RuleSet, space: FeatureSpace) -> str:
    """Return the related forms of a rule set in words: "likewise for east"; empty for a single rule."""
    first = representative_rule(rule_set)
    others = [rule for rule in rule_set.rules if rule != first]
    if not others or rule_set.source is None:
        return ""
    names = short_action_words([rule.action for rule in (first, *others)], space)
    actions = [action for action in dict.fromkeys(rule.action for rule in others) if action != first.action]
    same = [rule for rule in others if rule.action == first.action]
    parts = []
    if same:
        exchanged = _describe_exchange(first, same[0], space) if len(same) == 1 else None
        count = len(same)
        parts.append(exchanged or f"in {in_words(count)} related situation{'s' if count > 1 else ''}")
    if actions:
        parts.append(f"for {join_words([names[action] for action in actions])}")
    return f"likewise {join_words(parts)}"


def representative_rule(rule_set: RuleSet) -> Rule:
    """Return the rule that a set is described by: its form of the mined rule.

    Generalising removes conditions on features that relations ignore, so this form can be shorter than the mined rule.
    """
    source = rule_set.source
    if source is None or source in rule_set.rules:
        return source or rule_set.rules[0]
    forms = [rule for rule in rule_set.rules if rule.contains(source)]
    return (forms or [rule for rule in rule_set.rules if rule.action == source.action] or rule_set.rules)[0]


def _describe_exchange(first: Rule, other: Rule, space: FeatureSpace) -> str | None:
    """Return the word in which two descriptions differ: "with ghost 1 in place of ghost 0"."""
    words, other_words = (describe_rule(rule, space).split(" ") for rule in (first, other))
    if len(words) != len(other_words):
        return None

    def with_noun(words: Sequence[str], i: int) -> str:  # "ghost 1" instead of "1"
        word = words[i].strip(",;")
        return f"{words[i - 1]} {word}" if i and word.isdecimal() else word

    differing = (i for i in range(len(words)) if words[i] != other_words[i])
    changes = {(with_noun(words, i), with_noun(other_words, i)) for i in differing}
    if len(changes) != 1:
        return None
    old, new = changes.pop()
    return f"with {new} in place of {old}"


def _drop_common_start(texts: list[str]) -> list[str]:
    """Drop the words that all texts begin with, except an article or a word that a number belongs to.

    >>> _drop_common_start(["the cart to the left", "the cart to the right"]), _drop_common_start(["it up", "it down"])
    (['the left', 'the right'], ['up', 'down'])
    >>> _drop_common_start(["torque -1", "torque +1"])
    ['torque -1', 'torque +1']
    """
    words = [text.split(" ") for text in texts]
    count = min(_count_common(words), min(map(len, words)) - 1)  # at least one word of each text stays
    if count and (words[0][count - 1] in ("a", "an", "the") or not all(line[count][0].isalpha() for line in words)):
        count -= 1
    return [" ".join(line[count:]) for line in words]


def short_action_words(actions: Iterable[int], space: FeatureSpace) -> dict[int, str]:
    """Return short words for actions in a list: "north" and "east" for "go north" and "go east".

    >>> from legible_envs.pacman.features import pacman_features
    >>> short_action_words([0, 2], pacman_features(2)), short_action_words([0, 4], pacman_features(2))
    ({0: 'north', 2: 'east'}, {0: 'going north', 4: 'stopping'})
    """
    labels = {action: space.actions[action].label for action in dict.fromkeys(actions)}
    verbs = {_split_verb(label)[0] for label in labels.values()}
    rests = {action: _split_verb(label)[1].strip() for action, label in labels.items()}
    if len(verbs) == 1 and all(rests.values()) and len(labels) > 1 and not any(map(_PREPOSITION.match, rests.values())):
        return dict(zip(rests, _drop_common_start(list(rests.values())), strict=True))
    return {action: gerund(label) for action, label in labels.items()}
