"""Replays of actions that are no single choice: what was done in words and numbers, and where rules stepped in."""

import numpy as np

from legible.evaluation.units import Setup
from legible.features import Action, ActionGroup, Feature, FeatureSpace, Regions
from legible.play import Recording, adapt_policy
from legible.policies import load_policy
from legible.report.action_words import ActionWords
from legible.report.interventions import interventions
from legible.rules import RuleSet, parse_rule

SPACE = FeatureSpace(
    (Feature("x"), Feature("y")),
    tuple(Action(f"{g}.{n}", f"{g} {n}") for g in ("steer", "lean") for n in ("left", "straight", "right")),
    (
        ActionGroup("steer", 0, 3, Regions(-1.0, 1.0, (-0.25, 0.25), (-0.75, 0.0, 0.75))),
        ActionGroup("lean", 3, 3, Regions(-1.0, 1.0, (-0.25, 0.25), (-0.75, 0.0, 0.75))),
    ),
)


def test_actions_are_told_with_their_numbers_each_once(snapshot) -> None:
    words = ActionWords(SPACE)
    numbers = [words.number(np.array(action)) for action in ([0.5, -0.5], [0.0, -0.5], [0.5, -0.5])]
    assert numbers == [0, 1, 0]
    assert "\n".join(words.words) == snapshot
    assert words.words[words.number(np.array([0.5, 0.0]), np.array([0]))] == "steer right (0.5)"


def test_single_choices_keep_their_numbers() -> None:
    words = ActionWords(FeatureSpace.of(["x"], ["Left", "Right"]))
    assert (words.words, words.number(np.int64(1))) == (["do “Left”", "do “Right”"], 1)


def test_marks_tell_the_groups_in_which_rules_make_a_difference() -> None:
    policy = adapt_policy(load_policy(lambda o: o, output="actions", n_features=2), space=SPACE)
    rules = RuleSet((parse_rule("+steer.left <- x > 0", SPACE), parse_rule("-lean.right <- x > 0", SPACE)))
    seen = np.array([[0.5, 0.0], [-0.5, 0.5], [0.5, 0.5]], np.float32)
    recording = Recording(3, seen, seen.copy(), seen.copy(), np.zeros(3))
    marks = interventions(Setup(policy, "unused", (rules,)), 0, recording)  # type: ignore[arg-type]
    assert [(mark.step, mark.groups.tolist(), mark.rules) for mark in marks] == [(0, [0], (0,)), (2, [0, 1], (0, 1))]
    assert marks[1].alone.tolist() == [0.5, 0.5]
    assert marks[1].guided.tolist() == [-0.75, 0.0]
    assert not any(mark.by_chance or mark.spared for mark in marks)
