"""The ladder of a search, and what rule sets would change, by hand."""

import math

import numpy as np
import pytest

import mirror_world
from hypotheses.searching import ALWAYS_RIGHT, WORLD
from legible.features import FeatureSpace
from legible.hypotheses import MeasuredEffect
from legible.hypotheses import ladder as laddering
from legible.hypotheses.ladder import Ladder, SearchCandidate, SeenStates, different
from legible.hypotheses.responses import RecordedStates, respond
from legible.play import collect
from legible.rules import RuleSet, parse_rule

GAP = FeatureSpace.of(["gap"], ["Brake", "Go"])
SURE = 1e-9  # an error so small that effects are what they look like


def candidate(*bits: int) -> SearchCandidate:
    rule_set = RuleSet((parse_rule("+Brake <- gap <= 5", GAP),))
    return SearchCandidate((((), ("+", 0)),), rule_set, np.packbits(np.array(bits, np.bool_)), 0.0)


def alone(place: int, of: int = 16) -> SearchCandidate:
    """Return a candidate that changes a single state."""
    return candidate(*(i == place for i in range(of)))


def ladder_of(*means: float, spread: float = 1e-6) -> Ladder:
    """Return a ladder with exactly known effects on its first rung."""
    ladder = Ladder(spread)
    effects = [MeasuredEffect(mean, SURE, 0.5, 10**6, 10**6) for mean in means]
    ladder.add([alone(i) for i in range(len(means))], effects)
    return ladder


def means(found: list[laddering.Tested]) -> list[float]:
    return [one.effect.mean for one in found]


def test_what_changes_too_many_actions_comes_no_further_but_has_neighbours() -> None:
    ladder = Ladder(1e-6, most_changed=0.2)
    shares = {5.0: 0.2, 9.0: 0.21, 3.0: 0.0}
    effects = [MeasuredEffect(mean, SURE, 0.5, 10**6, 10**6, 0, share) for mean, share in shares.items()]
    ladder.add([alone(i) for i in range(3)], effects)
    assert means(ladder.climbing(1, most=9, is_spare=True)) == [5.0, 3.0]
    assert means(ladder.best(9)) == [5.0, 3.0]
    assert sorted(means(ladder.parents())) == [3.0, 5.0, 9.0]


def test_one_in_three_climbs_and_none_that_does_not_help() -> None:
    ladder = ladder_of(5.0, 1.0, 9.0, 2.0, 8.0, 3.0, 7.0, -1.0, 0.0)
    assert means(ladder.climbing(1, most=9)) == [9.0, 8.0, 7.0]
    assert means(ladder.climbing(1, most=2)) == [9.0, 8.0]
    for one in ladder.climbing(1, most=2):
        one.rung = 1
    assert means(ladder.climbing(1, most=9)) == [7.0]  # the third of nine
    assert ladder.climbing(2, most=9) == []  # of two, none
    only = ladder_of(1.0, 0.0, -1.0, -2.0, -3.0, -4.0)
    assert means(only.climbing(1, most=9)) == [1.0]


def test_what_does_the_same_as_one_that_is_there_does_not_climb() -> None:
    ladder = ladder_of(*([1.0] * 5), 9.0)
    ladder.tested[0].rung = 1
    ladder.tested[5].candidate = ladder.tested[0].candidate
    assert means(ladder.climbing(1, most=9)) == [1.0]
    assert ladder.climbing(1, most=9)[0] is not ladder.tested[5]


def test_the_best_are_those_of_a_rung_that_help() -> None:
    ladder = ladder_of(3.0, 0.0, 5.0, -2.0, 4.0)
    assert means(ladder.best(9)) == [5.0, 4.0, 3.0]
    assert means(ladder.best(2)) == [5.0, 4.0]
    ladder.tested[0].rung, ladder.tested[4].rung = 1, 2
    assert means(ladder.best(9, rung=1)) == [4.0, 3.0]
    assert means(ladder.best(9, rung=2)) == [4.0]


def test_parents_are_those_that_climbed_then_all_others() -> None:
    ladder = ladder_of(3.0, 0.0, 5.0, -2.0, 4.0)
    ladder.tested[0].rung = 1
    ladder.tested[3].rung = 1  # it fell there: it is one of the others
    assert means(ladder.parents()) == [3.0, 5.0, 4.0, 0.0, -2.0]


def test_the_error_counts_four_more_changes_by_hand() -> None:
    ladder = Ladder(spread=10.0)
    assert ladder._error(MeasuredEffect(1.0, 0.3, 0.5, 12, 100)) == pytest.approx(math.sqrt(0.09 + 3.0 * 0.01))
    assert ladder._error(MeasuredEffect(1.0, 0.0, 0.5, 0, 0)) == pytest.approx(math.sqrt(4 / 5) * 10.0)


def test_effects_are_as_large_as_usual_or_as_those_that_were_seen() -> None:
    ladder = Ladder(spread=10.0)
    assert ladder._usual_size() == pytest.approx(0.5)
    ladder.add(
        [alone(0), alone(1)], [MeasuredEffect(2.0, 1.0, 0.5, 10**9, 10**9), MeasuredEffect(-9.0, 1.0, 0.5, 1, 9)]
    )
    assert ladder._usual_size() == pytest.approx(math.sqrt(3.0), rel=1e-6)  # 2² less 1²
    small = Ladder(spread=10.0)
    small.add([alone(0)], [MeasuredEffect(0.1, SURE, 0.5, 10**9, 10**9)])
    assert small._usual_size() == pytest.approx(0.5)


def test_candidates_that_overlap_too_much_are_one() -> None:
    same = SeenStates(0.75)
    assert same.add(candidate(1, 1, 1, 0))
    assert same.add(candidate(1, 1, 1, 1))  # three of four, and no more
    one, nearly, other = candidate(*[1] * 9, 0), candidate(*[1] * 10), candidate(*[1] * 8, 0, 0)
    found = [laddering.Tested(entry, MeasuredEffect(1.0, 1.0, 0.5, 1, 1)) for entry in (one, nearly, other)]
    assert different(found, 9) == [found[0]]  # nine of ten, eight of nine
    assert different(found[1:], 9) == found[1:]  # eight of ten
    assert different(found[1:], 1) == found[1:2]
    assert different(found[1:], 0) == []
    assert different(found, 9, known=[found[1]]) == [found[2]]


def test_every_group_of_choices_is_guided_by_itself() -> None:
    space = FeatureSpace.from_dict(
        {"features": ["gap"], "groups": {"steer": ["left", "right"], "gear": ["slow", "fast"]}}
    )
    scores = np.array([[0.0, 1.0, 5.0, 2.0], [3.0, 1.0, 5.0, 9.0]], np.float32)
    states = RecordedStates(np.array([[1.0], [7.0]], np.float32), scores, space.group_starts)
    sets = [
        RuleSet((parse_rule(text, space),))
        for text in (
            "+gear.fast <- gap <= 5",
            "+steer.left <- gap <= 5",
            "-gear.slow <- gap <= 9",
            "-gear.fast <- gap > 0",
        )
    ]
    both = RuleSet((parse_rule("+gear.fast <- gap <= 5", space), parse_rule("+steer.left <- gap <= 5", space)))
    found = respond([*sets, both], states)
    assert found.changed.tolist() == [[True, False], [True, False], [True, False], [False, True], [True, False]]
    assert found.losses.tolist() == [3.0, 1.0, 3.0, 4.0, 2.0]  # the last: on average over two groups
    assert found.digests[0] == found.digests[2]
    assert len(set(found.digests.tolist())) == 4


def test_states_are_drawn_once_each_and_in_their_order() -> None:
    seen = collect(ALWAYS_RIGHT, WORLD, 4, seed=0, names=mirror_world.SPACE)
    everything = RecordedStates.drawn(seen, len(seen), np.random.default_rng(0))
    assert len(everything) == len(seen)
    assert (everything.observations == seen.observations).all()
    some = RecordedStates.drawn(seen, len(seen) - 1, np.random.default_rng(0))
    places = [np.flatnonzero((seen.observations == row).all(axis=1))[0] for row in some.observations]
    assert len(some) == len(seen) - 1
    assert places == sorted(set(places))
    assert some.scores.shape == (len(some), 3)


@pytest.mark.parametrize(("known", "first"), [(1.5, "known"), (0.5, "unknown")])
def test_what_is_not_known_yet_counts_one_usual_effect_at_most(known: float, first: str) -> None:
    ladder = Ladder(20.0)  # a usual effect is 1
    exact, vague = (MeasuredEffect(mean, error, 0.5, 10**6, 10**6) for mean, error in ((known, SURE), (0.1, 1000.0)))
    ladder.add([alone(0), alone(1)], [exact, vague])
    chosen = ladder.climbing(1, most=1, is_spare=True)[0].effect
    assert chosen is (exact if first == "known" else vague)


def test_steps_to_spare_go_to_all_that_is_not_known_to_lose() -> None:
    ladder = Ladder(spread=100.0)
    effects = [MeasuredEffect(mean, 3.0, 0.0, 20, 40) for mean in (12.0, 6.0, 9.0, -5.0, -90.0)]
    ladder.add([alone(i) for i in range(5)], effects)
    assert means(ladder.climbing(1, 9)) == [12.0]
    assert means(ladder.climbing(1, 9, is_spare=True)) == [12.0, 9.0, 6.0, -5.0]
