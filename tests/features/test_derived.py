"""Derived features: values worked out by hand, and errors in expressions."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

from legible.features import Action, Feature, FeatureError, FeatureSpace
from legible.features.derived import DerivedFeatures

FIRST, LATER = np.array([True]), np.array([False])


def values(expression: str, *steps: tuple[float, int], actions: tuple[str, ...] = ("Left", "Right")) -> list[float]:
    """Return the values of an expression in an episode; each step has the gap and the action taken."""
    made = DerivedFeatures.of(["gap", "food.north"], {"x": expression}, actions)
    memory, found, fresh = made.new_memory(1), [], FIRST
    for gap, action in steps:
        found.append(float(made.compute([[gap, 2.0]], memory, fresh)[0, 0]))
        made.act(memory, [action])
        fresh = LATER
    return found


WALK = ((8.0, 0), (6.0, 1), (5.0, 1), (7.0, 0))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("gap * 2 + food.north - 1", [17, 13, 11, 15]),
        ("gap / 2", [4, 3, 2.5, 3.5]),
        ("gap % 3", [2, 0, 2, 1]),
        ("(gap - 6) ** 2", [4, 0, 1, 1]),
        ("-gap", [-8, -6, -5, -7]),
        ("abs(5 - gap)", [3, 1, 0, 2]),
        ("min(gap, 6, 9)", [6, 6, 5, 6]),
        ("max(gap, 6)", [8, 6, 6, 7]),
        ("clip(gap, 6, 7)", [7, 6, 6, 7]),
        ("gap > 6", [1, 0, 0, 1]),
        ("5 < gap <= 7", [0, 1, 0, 1]),
        ("gap == 6 or gap == 7", [0, 1, 0, 1]),
        ("gap > 5 and not gap > 7", [0, 1, 0, 1]),
        ("'food.north'", [2, 2, 2, 2]),
        ("previous(gap)", [8, 8, 6, 5]),
        ("previous(previous(gap))", [8, 8, 8, 6]),
        ("change(gap)", [0, -2, -1, 2]),
        ("since(gap < 7)", [1, 0, 0, 1]),
        ("last_action", [-1, 0, 1, 1]),
        ("previous(last_action)", [-1, -1, 0, 1]),
        ("last_action == Right", [0, 0, 1, 1]),
        ("gap / max(1, -change(gap))", [8, 3, 5, 7]),
    ],
)
def test_values_by_hand(expression: str, expected: list[float]) -> None:
    assert values(expression, *WALK) == expected


def test_names_with_numbers_need_no_quotes() -> None:
    made = DerivedFeatures.of(["goal.0", "image.3.5"], {"x": "goal.0 - image.3.5 * 2.5 + 'goal.0'"}, ())
    assert made.compute([[3.0, 2.0]], made.new_memory(1), FIRST)[0, 0] == 1.0


def test_every_episode_has_a_separate_memory() -> None:
    made = DerivedFeatures.of(["gap"], {"step": "change(gap)", "steps": "since(last_action == 1)"})
    memory = made.new_memory(2)
    both = np.array([True, True])
    assert made.compute([[1.0], [5.0]], memory, both).tolist() == [[0.0, 1.0], [0.0, 1.0]]
    made.act(memory, [1, 0])
    assert made.compute([[2.0], [9.0]], memory, ~both).tolist() == [[1.0, 0.0], [4.0, 2.0]]
    made.act(memory, [0, 0])
    # A new episode begins in the second row.
    assert made.compute([[4.0], [7.0]], memory, np.array([False, True])).tolist() == [[2.0, 1.0], [0.0, 1.0]]


def test_derived_features_may_use_each_other_in_any_order() -> None:
    made = DerivedFeatures.of(["gap"], {"fast": "speed > 1", "speed": "abs(change(gap))"})
    memory = made.new_memory(1)
    made.compute([[5.0]], memory, FIRST)
    assert made.compute([[2.0]], memory, LATER).tolist() == [[1.0, 3.0]]
    again = pickle.loads(pickle.dumps(made))
    assert again.compute([[1.0]], memory.copy(), LATER).tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("gpa * 2", r"derived feature 'x' = 'gpa \* 2': there is no feature 'gpa'\. Did you mean 'gap'\?"),
        ("gap /", r"derived feature 'x': 'gap /' cannot be read: invalid syntax\."),
        ("gap / 0", r"it divides by zero\."),
        ("chnage(gap)", r"there is no function 'chnage'\. Did you mean 'change'\?$"),
        ("open('file')", r"there is no function 'open'\."),
        ("().__class__", r"is not supported\."),
        ("[gap for gap in gap]", r"is not supported\."),
        ("gap ** gap", r"the exponent must be a number\."),
        ("gap ** 99", r"the exponent must lie between 0 and 8\."),
        ("min(gap)", r"min takes 2 to 8 values, got 1\."),
        ("gap in gap", r"comparisons must be one of < <= > >= == !=\."),
        ("", r"an expression is expected"),
        ("gap + " * 400 + "1", r"characters; the limit is 1000\."),
    ],
)
def test_invalid_expressions_are_refused_in_one_line(expression: str, error: str) -> None:
    with pytest.raises(FeatureError, match=error) as raised:
        DerivedFeatures.of(["gap", "food.north"], {"x": expression})
    assert "\n" not in str(raised.value)


def test_error_messages(raises_saved) -> None:
    with raises_saved(FeatureError):
        DerivedFeatures.of(["gap"], {"a": "b + 1", "b": "previous(a)"})
    with raises_saved(FeatureError):
        values("1 / gap", (1.0, 0), (0.0, 0))
    with raises_saved(FeatureError):
        values("gap ** 8 * gap", (1e6, 0))
    with raises_saved(FeatureError):
        FeatureSpace.from_dict({"features": ["gap"], "derived": {"gap": "gap + 1"}})
    with raises_saved(FeatureError):
        FeatureSpace((Feature("x", expression="1 + gap"), Feature("gap")), (Action("Go"),))


def test_a_names_file_with_derived_features(tmp_path: Path) -> None:
    path = tmp_path / "names.toml"
    path.write_text(
        'features = ["gap"]\nactions = ["Brake", "Go"]\n[derived]\nclosing = "gap / max(1, -change(gap))"\n'
        'before = "last_action"\n[derived.braked]\nexpression = "last_action == Brake"\nwords = "braking"\n'
        'values = { 0 = "it did not just brake", 1 = "it just braked" }\n'
    )
    space = FeatureSpace.from_toml(path).with_derived_words()
    assert space.names == ("gap", "closing", "before", "braked")
    assert (space.n_own, space.own.names) == (1, ("gap",))
    assert [feature.kind for feature in space.features] == ["numeric", "numeric", "categorical", "categorical"]
    assert space[2].values[0] == "the last action was Brake"
    assert space[3].is_flag
    assert FeatureSpace.from_dict(space.to_dict()) == space
    assert copy.deepcopy(space) == space


def test_guessed_kinds_of_derived_features() -> None:
    data = {"features": ["flag", "gap"], "derived": {"was": "previous(flag)", "steps": "since(flag)"}}
    seen = [[0.0, 0.5, 0.0, 1.0], [1.0, 0.7, 0.0, 0.0]]
    guessed = FeatureSpace.from_dict(data).guess_kinds(seen)
    assert [feature.kind for feature in guessed.features] == ["categorical", "numeric", "categorical", "numeric"]


def test_expressions_can_use_parts_of_the_last_action() -> None:
    data = {"features": ["gap"], "groups": {"gear": ["low", "high"], "steer": {"left": [-1, 0], "right": [0, 1]}}}
    space = FeatureSpace.from_dict({**data, "derived": {"g": "last_action.gear", "s": "last_action.steer"}})
    derived = space.derived
    assert derived is not None
    memory = derived.new_memory(1)
    assert derived.compute([[0.0]], memory, FIRST).tolist() == [[-1.0, 0.0]]
    derived.act(memory, [[1, -0.5]])
    assert derived.compute([[0.0]], memory, LATER).tolist() == [[1.0, -0.5]]
