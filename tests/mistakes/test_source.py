"""Rule sets learned from single decisions: where another choice is better, they say so."""

import numpy as np
import pytest

from legible.errors import LegibleError
from legible.features import FeatureSpace
from legible.hypotheses import SOURCES, DecisionGains, SourceInput
from legible.mining import Mining
from legible.mistakes import learn_from_decisions
from legible.relations import parse_relations
from legible.rules import CompiledRules
from mistakes.planted import RoomPolicy, experiences_of

SPACE = FeatureSpace.of(["side", "noise"], ["left", "right", "wait"])


def decisions(n: int, seed: int = 0) -> DecisionGains:
    """The policy always waits. Right is worth 10 where `side` is above 0.5, left below −0.5; elsewhere both cost 3."""
    rng = np.random.default_rng(seed)
    observations = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
    side = observations[:, 0]
    gains = np.stack([np.where(side < -0.5, 10.0, -3.0), np.where(side > 0.5, 10.0, -3.0)], axis=1)
    return DecisionGains(
        observations=observations,
        taken=np.full((n, 1), 2),
        choices=np.tile([0, 1], (n, 1)),
        gains=gains + rng.normal(0, 0.5, gains.shape),
        errors=np.full(gains.shape, 0.5),
        scores=np.tile(np.float32([0, 0, 1]), (n, 1)),
        episodes=np.repeat(np.arange(n // 4), 4),
    )


def test_rules_say_where_another_choice_is_better() -> None:
    found = learn_from_decisions(decisions(400), SPACE, (), seed=0)
    assert found
    grid = np.stack([np.linspace(-1, 1, 41), np.zeros(41)], axis=1).astype(np.float32)
    states = {}
    for rule_set in found:
        (rule,) = rule_set.rules
        matched = CompiledRules.compile([rule_set]).matches(grid)[:, 0]
        states.setdefault((rule.polarity, rule.action), grid[matched, 0])
    assert states["+", 1].min() == pytest.approx(0.5, abs=0.11)
    assert states["+", 1].max() == 1.0
    assert states["+", 0].max() == pytest.approx(-0.5, abs=0.11)


def test_relations_carry_decisions_and_rules_over() -> None:
    """Only to the right anything is known; the mirror makes a rule set of both sides of it."""
    known = decisions(400)
    right = known.observations[:, 0] > 0
    half = DecisionGains(**{name: column[right] for name, column in vars(known).items()})
    relations = parse_relations(
        '[[relation]]\nname = "mirror"\nactions = { swap = ["left", "right"] }\nnegate = "side"\nignore = "noise"',
        SPACE,
    )
    found = learn_from_decisions(half, SPACE, relations, seed=0)
    positive = [rule_set for rule_set in found if rule_set.rules[0].polarity == "+"]
    assert positive
    assert {rule.action for rule in positive[0].rules} == {0, 1}
    left, right_end = (
        CompiledRules.compile([[rule for rule in positive[0].rules if rule.action == action]]).matches(
            np.array([[-0.9, 0], [0.9, 0]], np.float32)
        )
        for action in (0, 1)
    )
    assert left.any(axis=1).tolist() == [True, False]
    assert right_end.any(axis=1).tolist() == [False, True]


def test_nothing_is_learned_where_no_choice_is_better() -> None:
    known = decisions(200)
    worse = DecisionGains(**{**vars(known), "gains": -np.abs(known.gains)})
    assert learn_from_decisions(worse, SPACE, (), seed=0) == []


def test_the_source_needs_decisions(raises_saved) -> None:
    seen = experiences_of(10, 5, np.zeros(10, np.int64))
    mining = Mining((), seen.space, None, None, 0, {}, {})  # type: ignore[arg-type]
    with raises_saved(LegibleError):
        next(SOURCES["mistakes"](SourceInput(RoomPolicy(), seen, mining)))
