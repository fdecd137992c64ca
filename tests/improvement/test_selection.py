"""Compositions that are selected: what helps joins, what is not missed is left out, and chance stays outside.

Returns are drawn (`drawn_play`), so that what every rule is worth is known.
"""

from dataclasses import replace

import numpy as np
import pytest

from drawn_play import SETUP, DrawnPlay, always, evaluation_of, noise, rare_loss, rule, rule_set, turn_after
from legible.improvement import Improvement, improve
from legible.rules import RuleSet
from legible.settings import EvaluationSettings, ImprovementSettings

SETTINGS = ImprovementSettings(episodes=400, final_episodes=200)


def composed(
    play: DrawnPlay,
    sets: list[RuleSet],
    settings: ImprovementSettings = SETTINGS,
    evaluation: EvaluationSettings | None = None,
) -> Improvement:
    return improve(SETUP, evaluation_of(sets, evaluation), seed=play.world, settings=settings, run=play)


def numbers(found: Improvement) -> set[int]:
    return {round(-one.conditions[0].low) - 1 for one in found.composition.rules}


def test_helpful_rule_sets_join_in_the_order_of_their_gain() -> None:
    play = DrawnPlay({rule(0): noise(4.0, 2.0), rule(1): noise(4.0, 6.0), rule(2): noise(4.0), rule(3): always(-1.0)})
    found = composed(play, [rule_set(0), rule_set(1), rule_set(2), rule_set(3)])
    assert found.rule_sets == (rule_set(1), rule_set(0))
    assert numbers(found) == {0, 1}
    assert found.effect.mean == pytest.approx(8.0, abs=1.2)
    assert found.check is not None
    assert found.check.is_passed
    assert found.check.effect.low > 5.0
    added = [step for step in found.steps if step.accepted]
    assert [step.effect.mean for step in added] == pytest.approx([6.0, 2.0], abs=1.2)
    assert {step.rule_set for step in found.steps if not step.accepted} <= {rule_set(2), rule_set(3)}


def test_of_sets_that_do_the_same_only_one_joins_and_the_smaller_one() -> None:
    """Rule 9 adds nothing to rule 0, whichever joins first; both sets are worth the same."""
    play = DrawnPlay({rule(0): noise(3.0, 5.0)}, changes={rule(9): 5})
    found = composed(play, [rule_set(0, 9), rule_set(0)])
    assert found.rule_sets == (rule_set(0),)


def test_a_rule_that_is_not_missed_is_left_out() -> None:
    play = DrawnPlay({rule(0): noise(3.0, 5.0), rule(2): noise(3.0, 4.0)})
    found = composed(play, [rule_set(0, 1), rule_set(2)])
    assert numbers(found) == {0, 2}
    removed = [step for step in found.steps if step.is_removal]
    assert [step.rule_set.rules for step in removed] == [(rule(1),)]
    assert found.rule_sets[0].source == rule(0)


def test_a_set_that_others_have_made_needless_is_left_out() -> None:
    """Sets 0 and 1 together do what set 2 does, which came first."""
    play = DrawnPlay(
        {rule(0): noise(2.0, 4.0), rule(1): noise(2.0, 4.0), rule(2): always(6.0)},
        together={(rule(0), rule(2)): -3.0, (rule(1), rule(2)): -3.0},
    )
    found = composed(play, [rule_set(2), rule_set(0), rule_set(1)], ImprovementSettings(episodes=400, beginnings=1))
    assert numbers(found) == {0, 1}
    assert any(step.is_removal and step.rule_set == rule_set(2) for step in found.steps)


def test_several_beginnings_find_what_the_best_first_set_hides() -> None:
    """Set 0 is the best alone, but nothing goes with it."""
    apart = {(rule(0), rule(other)): -9.0 for other in (1, 2)}
    draws = {rule(0): noise(2.0, 5.0), rule(1): noise(2.0, 4.0), rule(2): noise(2.0, 4.0)}
    sets = [rule_set(0), rule_set(1), rule_set(2)]
    one = composed(DrawnPlay(draws, together=apart), sets, ImprovementSettings(episodes=400, beginnings=1))
    three = composed(DrawnPlay(draws, together=apart), sets, ImprovementSettings(episodes=400, beginnings=3))
    assert numbers(one) == {0}
    assert numbers(three) == {1, 2}


def test_the_override_rate_stays_below_the_limit() -> None:
    """Twenty steps an episode: set 0 changes eight of them, set 1 two, set 2 one."""
    draws = {rule(0): noise(2.0, 9.0), rule(1): noise(2.0, 4.0), rule(2): noise(2.0, 3.0)}
    changes = {rule(0): 8, rule(1): 2, rule(2): 1}
    sets = [rule_set(0), rule_set(1), rule_set(2)]
    for most, joined in ((1.0, {0, 1, 2}), (0.45, {0, 2}), (0.2, {1, 2}), (0.1, {1}), (0.05, {2}), (0.04, set())):
        settings = ImprovementSettings(episodes=400, most_changed=most)
        found = composed(DrawnPlay(draws, changes=changes), sets, settings)
        assert numbers(found) == joined, most
        assert found.guided.changed <= most
        assert not found.changes_too_much
        assert all(point.changed <= most for point in found.front)
    stricter = replace(found, settings=replace(found.settings, most_changed=0.001))
    assert not stricter.changes_too_much  # it is empty
    all_of_them = composed(DrawnPlay(draws, changes=changes), sets)
    assert replace(all_of_them, settings=replace(all_of_them.settings, most_changed=0.5)).changes_too_much


def test_the_front_holds_what_changes_less_for_less_gain() -> None:
    draws = {rule(0): noise(2.0, 9.0), rule(1): noise(2.0, 4.0)}
    found = composed(DrawnPlay(draws, changes={rule(0): 8, rule(1): 2}), [rule_set(0), rule_set(1)])
    assert [point.changed for point in found.front] == [0.1, 0.4, 0.5]
    assert [point.effect.mean for point in found.front] == pytest.approx([4.0, 9.0, 13.0], abs=0.6)
    assert [point.is_chosen for point in found.front] == [False, False, True]
    assert all(point.effect.seeds == 400 for point in found.front)


def null_world(world: int) -> tuple[DrawnPlay, list[RuleSet]]:
    """Twenty rule sets that change returns and have no mean effect: by noise, by rare large losses, in few episodes."""
    kinds = (noise(6.0), rare_loss(1.0, 32.3, 0.03), rare_loss(1.0, 19.0, 0.05, changed=0.3), noise(1.0))
    draws = {rule(number): kinds[number % len(kinds)] for number in range(20)}
    return DrawnPlay(draws, world=world), [rule_set(number) for number in range(20)]


@pytest.mark.statistical
def test_the_composition_is_empty_if_nothing_helps() -> None:
    empty = []
    for world in range(120):
        play, sets = null_world(world)
        found = composed(play, sets, ImprovementSettings(episodes=200, final_episodes=4))
        empty.append(not len(found.composition))
    assert np.mean(empty) >= 0.95


def test_rule_sets_that_are_best_by_chance_are_not_composed() -> None:
    """Thirty sets that are a little worse than nothing, of which greedy choice on 200 seeds finds some that "help"."""
    gains = []
    for world in range(10):
        play = DrawnPlay({rule(number): noise(20.0, -1.0) for number in range(30)}, world=100 + world)
        found = composed(play, [rule_set(n) for n in range(30)], ImprovementSettings(episodes=200, final_episodes=1000))
        gains.append(found.effect.mean)
    assert gains.count(0.0) >= 9


def test_a_composition_that_fails_the_check_is_given_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A world that changes between composition and check: what helped there harms here."""
    play = DrawnPlay({rule(0): noise(2.0, 5.0)})
    turn_after(400, monkeypatch)
    found = composed(play, [rule_set(0)])
    assert found.check is not None
    assert not found.check.is_passed
    assert found.check.effect.mean < 0.0
    assert found.check.composition.rules == rule_set(0).rules
    assert not len(found.composition)
    assert found.rule_sets == ()
    assert found.effect.mean == 0.0


def test_constraints_are_kept_by_every_addition() -> None:
    """Set 0 adds most, but its rare losses lower the worst tenth."""
    play = DrawnPlay({rule(0): rare_loss(12.0, 40.0, 0.1), rule(1): noise(1.0, 4.0)})
    sets = [rule_set(0), rule_set(1)]
    settings = EvaluationSettings(constraint="worst-tenth no lower than by 3")
    assert numbers(composed(play, sets)) == {0, 1}
    assert numbers(composed(play, sets, evaluation=settings)) == {1}


def test_vetoed_rules_are_not_tried() -> None:
    play = DrawnPlay({rule(0): noise(2.0, 5.0), rule(1): noise(2.0, 3.0)})
    sets = evaluation_of([rule_set(0), rule_set(1)])
    found = improve(SETUP, sets, seed=0, settings=SETTINGS, veto=[rule(0)], run=play)
    assert numbers(found) == {1}


def test_steps_are_counted() -> None:
    play = DrawnPlay({rule(0): noise(2.0, 5.0)})
    found = composed(play, [rule_set(0)])
    assert found.environment_steps == 20 * play.episodes


def test_many_small_effects_join_and_the_check_judges_the_whole() -> None:
    """Six effects of a tenth of the spread, 400 episodes a half: no test of one would find many of them."""
    settings = ImprovementSettings(episodes=800, final_episodes=4)
    found = []
    for world in range(6):
        play = DrawnPlay({rule(number): noise(10.0, 1.0) for number in range(6)}, world=world)
        found.append(composed(play, [rule_set(number) for number in range(6)], settings))
    assert np.mean([len(one.rule_sets) for one in found]) >= 2.0
    for one in found:
        assert bool(len(one.composition)) == (one.check is not None and one.check.is_passed)
