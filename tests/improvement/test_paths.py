"""Which path of a composition wins, who may join and how often is tested, and what is left out, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from drawn_play import SETUP, DrawnPlay, always, evaluation_of, noise, play_with, rule, rule_set, turn_after
from legible.evaluation.statistics import Effect
from legible.improvement import improve
from legible.improvement.backward import MOST_SINGLE_RULES, _best_of, leave_out
from legible.improvement.forward import CompositionCandidate, Path
from legible.improvement.judging import CompositionJudge
from legible.improvement.trials import Trials
from legible.rules import RuleSet
from legible.settings import ImprovementSettings
from played_blocks import result

SPREAD = np.array([1.0, -1.0] * 50)  # differences with mean 0; 0.1 more is one standard error


def judged(drawn: DrawnPlay, episodes: int = 8) -> CompositionJudge:
    return CompositionJudge(play_with(drawn), ImprovementSettings(episodes=episodes))


def path_of(judge: CompositionJudge, rule_sets: list[RuleSet]) -> Path:
    """A path on which these have joined."""
    path = Path(judge, judge.unguided_trials, [], 5)
    for one in rule_sets:
        (trial,) = path.trials.play([path.rules | one], ())
        path.join(CompositionCandidate(one, 1.0, trial))
    return path


@pytest.mark.parametrize(
    ("errors", "chosen"),
    [
        (3.0, 1),  # clearly better, with more rules
        (0.75, 1),  # not as good as the best one
        (0.25, 0),  # as good as the best one, with fewer rules
        (-0.25, 0),  # the best one, and fewer rules
        (-3.0, 0),
    ],
)
def test_the_best_path_wins_and_of_equals_the_smaller_one(errors: float, chosen: int) -> None:
    """The second path has one rule more than the first; it is better by the given number of standard errors."""
    judge = judged(DrawnPlay({}))
    paths = [path_of(judge, [rule_set(0)]), path_of(judge, [rule_set(0, 1)])]
    paths[0].results[-1] = result(np.zeros(100).tolist())
    paths[1].results[-1] = result((SPREAD + 0.1 * errors).tolist())
    assert judge.compare(paths[1].result, paths[0].result) == pytest.approx(errors, rel=0.2)
    assert _best_of(judge, paths) is paths[chosen]
    assert _best_of(judge, paths[::-1]) is paths[chosen]


def test_of_paths_with_as_many_rules_the_one_that_changes_less_wins() -> None:
    judge = judged(DrawnPlay({}))
    paths = [path_of(judge, [rule_set(number)]) for number in range(3)]
    for path, changed in zip(paths, (3, 1, 2), strict=True):
        path.results[-1] = replace(result([1.0] * 10), changed=np.full(10, changed))
    assert _best_of(judge, paths) is paths[1]


def test_of_paths_that_are_exactly_as_good_the_first_is_what_others_are_measured_by() -> None:
    """The third has fewer rules, and is clearly worse than the first; the second varies too much to say."""
    judge = judged(DrawnPlay({}))
    paths = [path_of(judge, [rule_set(0, 1)]), path_of(judge, [rule_set(0, 2)]), path_of(judge, [rule_set(3)])]
    for path, returns in zip(paths, (0.0 * SPREAD, 10.0 * SPREAD, 0.1 * SPREAD - 0.1), strict=True):
        path.results[-1] = result(returns.tolist())
    assert judge.compare(paths[1].result, paths[0].result) == 0.0
    assert judge.compare(paths[2].result, paths[0].result) < -5.0
    assert -0.5 < judge.compare(paths[2].result, paths[1].result) < 0.0
    assert _best_of(judge, paths) is paths[0]


def test_spent_candidates_are_replaced_from_a_limited_reserve() -> None:
    """Two are tried at a time: whenever one joins, the one that harms makes room, until the sixth."""
    helps = {rule(number): always(9.0 - number) for number in (0, 2, 4, 6)}
    harms = {rule(number): always(-5.0) for number in (1, 3, 5, 7)}
    sets = [rule_set(number) for number in range(8)]
    settings = ImprovementSettings(episodes=40, final_episodes=4, most_candidates=2, beginnings=1)
    found = improve(SETUP, evaluation_of(sets), seed=0, settings=settings, run=DrawnPlay({**helps, **harms}))
    assert found.rule_sets == (rule_set(0), rule_set(2), rule_set(4))
    everyone = replace(settings, most_candidates=0)
    found = improve(SETUP, evaluation_of(sets), seed=0, settings=everyone, run=DrawnPlay({**helps, **harms}))
    assert found.rule_sets == tuple(rule_set(number) for number in (0, 2, 4, 6))


def test_three_are_tested_at_most_and_those_that_may_not_join_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the first half all of them help, on the second half none does."""
    turn_after(20, monkeypatch)
    judge = judged(DrawnPlay({rule(number): always(9.0 - number) for number in range(6)}), episodes=40)
    candidates = [CompositionCandidate(rule_set(number), 9.0 - number) for number in range(6)]
    assert Path(judge, judge.unguided_trials, candidates, 6).start_paths(2) == []
    assert [one.effect is not None for one in candidates] == [True] * 3 + [False] * 3
    assert all(one.effect.p > 0.5 for one in candidates[:3] if one.effect)


def test_trials_continue_only_with_a_positive_difference() -> None:
    drawn = DrawnPlay({rule(0): noise(1.0, 0.4)}, changes={rule(1): 0})
    trials = Trials(play_with(drawn), 40)
    (first,) = Trials(play_with(drawn), 10).play([rule_set(0)], ())
    assert 0.0 < first.standing.z < 1.0
    little, nothing = trials.play([rule_set(0), rule_set(1)])
    assert (len(little.result), little.is_whole) == (40, True)
    assert (nothing.standing.z, len(nothing.result), nothing.is_whole) == (0.0, 10, False)


def test_one_rule_is_not_tried_without_itself() -> None:
    drawn = DrawnPlay({rule(0): always(2.0)})
    judge = judged(drawn)
    path = path_of(judge, [rule_set(0)])
    played = drawn.episodes
    selected = leave_out(judge, path)
    assert (selected.rule_sets, selected.steps) == ((rule_set(0),), tuple(path.steps))
    assert drawn.episodes == played


@pytest.mark.parametrize(("count", "left"), [(MOST_SINGLE_RULES, MOST_SINGLE_RULES - 1), (MOST_SINGLE_RULES + 1,) * 2])
def test_rules_are_tried_one_by_one_unless_there_are_many(count: int, left: int) -> None:
    """The last one harms."""
    draws = {rule(number): always(1.0) for number in range(count - 1)} | {rule(count - 1): always(-1.0)}
    judge = judged(DrawnPlay(draws, changes=dict.fromkeys(draws, 0)), episodes=4)
    selected = leave_out(judge, path_of(judge, [rule_set(*range(count))]))
    assert len(selected.composition) == left
    assert (rule(count - 1) in selected.composition.rules) == (left == count)


def test_a_whole_rule_set_is_left_out_before_its_single_rules() -> None:
    """The second set harms: it goes in one step."""
    draws = {rule(0): always(1.0), rule(1): always(1.0), rule(2): always(-1.0), rule(3): always(-1.0)}
    judge = judged(DrawnPlay(draws))
    selected = leave_out(judge, path_of(judge, [rule_set(0, 1), rule_set(2, 3)]))
    assert selected.rule_sets == (rule_set(0, 1),)
    assert [(step.rule_set, step.accepted) for step in selected.steps if step.is_removal] == [(rule_set(2, 3), True)]
    assert judge.looked_at[-1][0].rules == rule_set(0, 1).rules


def test_the_least_useful_rule_set_is_removed_first() -> None:
    """One and two are worth nothing together, and two is worth more alone."""
    draws = {rule(0): always(1.0), rule(1): always(2.0)}
    for sets in ([rule_set(0), rule_set(1)], [rule_set(1), rule_set(0)]):
        judge = judged(DrawnPlay(draws, together={(rule(0), rule(1)): -3.0}))
        assert leave_out(judge, path_of(judge, sets)).rule_sets == (rule_set(1),)


def test_only_rule_sets_without_any_gain_are_removed() -> None:
    for worth, left in ((0.0, 1), (0.001, 2), (-0.001, 1)):
        judge = judged(DrawnPlay({rule(0): always(1.0), rule(1): always(worth)}))
        assert len(leave_out(judge, path_of(judge, [rule_set(0), rule_set(1)])).rule_sets) == left


def test_removals_that_lose_on_the_first_half_are_not_played_on_the_second() -> None:
    """The first set harms. Trials without one of the others, or of the four rules left, stop after two seeds."""
    draws = {
        rule(0): always(-1.0),
        rule(2): always(2.0),
        rule(3): always(2.0),
        rule(4): always(3.0),
        rule(5): always(2.0),
    }
    judge = judged(drawn := DrawnPlay(draws))
    path = path_of(judge, [rule_set(0, 1), rule_set(2, 3), rule_set(4, 5)])
    played = drawn.episodes
    assert leave_out(judge, path).rule_sets == (rule_set(2, 3), rule_set(4, 5))
    assert drawn.episodes - played == (4 + 2 * 2) + 4 + 4 * 2  # the other half is played without the first set alone


def test_after_what_is_missed_now_others_are_tried() -> None:
    """The first two do not go together: without the first the second is missed. The third harms a little."""
    draws = {rule(0): always(3.0), rule(1): always(3.5), rule(2): always(-0.1), rule(3): always(-0.1)}
    judge = judged(DrawnPlay(draws, together={(rule(0), rule(1)): -4.0}))
    selected = leave_out(judge, path_of(judge, [rule_set(0), rule_set(1), rule_set(2, 3)]))
    assert selected.rule_sets == (rule_set(1),)
    assert [step.rule_set for step in selected.steps if step.is_removal] == [rule_set(0), rule_set(2, 3)]


def test_rule_sets_that_help_on_the_second_half_stay() -> None:
    """The second set loses one on each seed of the first half and gains three on the others."""
    judge = judged(DrawnPlay({rule(0): always(1.0), rule(1): lambda _, n: np.where(np.arange(n) < 4, -1.0, 3.0)}))
    path = path_of(judge, [rule_set(0), rule_set(1)])
    assert path.trials.play([rule_set(0)], ())[0].addition == pytest.approx(1.0)
    assert leave_out(judge, path).rule_sets == (rule_set(0), rule_set(1))


@pytest.mark.parametrize(("p", "joins"), [(0.2, True), (0.21, False)])
def test_a_candidate_at_the_level_itself_joins(p: float, joins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = judged(DrawnPlay({rule(0): always(1.0)}))
    monkeypatch.setattr(judge, "test", lambda *_: Effect(1.0, 0.5, 0.0, 2.0, p))
    assert len(Path(judge, judge.unguided_trials, [CompositionCandidate(rule_set(0), 1.0)], 1).start_paths(1)) == joins


def test_the_most_worthy_are_tried_first_and_others_only_if_they_may_add_more() -> None:
    """Four at a time; the best of them adds two, so that the fifth is tried only if it may add more than that."""
    for last, tried in ((1.5, False), (2.0, False), (2.5, True)):
        judge = judged(DrawnPlay({rule(number): always(1.0 + (number == 2)) for number in range(5)}))
        candidates = [
            CompositionCandidate(rule_set(number), guide) for number, guide in enumerate((last, 6.0, 7.0, 8.0, 9.0))
        ]
        best = Path(judge, judge.unguided_trials, candidates, 5)._find_best([])
        assert best is candidates[2]
        assert (candidates[0].trial is not None) == tried
        assert all(one.is_fresh and one.guide == pytest.approx(1.0 + (one is best)) for one in candidates[1:])
        few = [CompositionCandidate(rule_set(number), 9.0 - number) for number in range(5)]
        assert Path(judge, judge.unguided_trials, few, 2)._find_best([few[0], few[1]]) is None
        assert [one.trial is not None for one in few] == [True, True, False, False, False]


def test_of_candidates_that_add_as_much_the_simplest_wins() -> None:
    draws = {rule(number): always(2.0) for number in (0, 2, 3)}
    judge = judged(DrawnPlay(draws, changes={rule(0): 3, rule(2): 1, rule(3): 2}))
    candidates = [CompositionCandidate(one, 5.0) for one in (rule_set(2, 1), rule_set(0), rule_set(3))]
    path = Path(judge, judge.unguided_trials, candidates, 3)
    assert path._find_best([]) is candidates[2]  # one rule, as the second has, and fewer changes
    assert path._find_best([candidates[2]]) is candidates[1]
