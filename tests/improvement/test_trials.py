"""Trials, judgement, paths and the front of compositions, by hand and on drawn episodes."""

from dataclasses import astuple, replace

import numpy as np
import pytest

from drawn_play import LENGTH, SETUP, DrawnPlay, always, evaluation_of, noise, play_with, rule, rule_set
from legible.evaluation.changed import changed_mean_test, resamples_for
from legible.evaluation.pairs import Pairs
from legible.evaluation.statistics import Effect, Standing
from legible.evaluation.units import UnitResult
from legible.improvement import improve
from legible.improvement.backward import _without_rules, _without_set, union
from legible.improvement.check import front_candidates
from legible.improvement.composed import share_changed
from legible.improvement.forward import CompositionCandidate, Path
from legible.improvement.judging import CompositionJudge
from legible.improvement.trials import REMOVAL_LOOKS, CompositionTrial, Play, SecondHalf, Trials, differ
from legible.rules import Condition, Rule, RuleSet
from legible.settings import EvaluationSettings, ImprovementSettings
from played_blocks import result

NOTHING = RuleSet(())
NEVER = Rule("-", 0, (Condition(0, 5.0, np.inf),))  # drawn episodes have observations of 0


def play_of(draws: dict, **options: object) -> tuple[Play, DrawnPlay]:
    drawn = DrawnPlay(draws, **options)  # type: ignore[arg-type]
    return play_with(drawn), drawn


def with_changes(returns: list[float], changed: int) -> UnitResult:
    made = result(returns)
    return replace(made, changed=np.full(len(made), changed))


def test_episodes_differ_in_any_column() -> None:
    one = result([1.0, 2.0, 3.0, 4.0, np.nan])
    other = replace(one, returns=np.array([1.0, 2.5, 3.0, 4.0, np.nan]), changed=np.array([0, 0, 1, 0, 0]))
    assert differ(one, other).tolist() == [False, True, True, False, False]
    assert not differ(one, one).any()
    for name in ("success", "costs"):
        assert differ(one, replace(one, **{name: np.array([0.0, *[np.nan] * 4])})).tolist() == [True, *[False] * 4]
    longer = replace(one, lengths=np.array([20, 20, 20, 21, 20]))
    assert differ(one, longer).tolist() == [False, False, False, True, False]


def test_trials_that_look_worse_on_a_quarter_of_the_seeds_are_stopped() -> None:
    play, drawn = play_of({rule(0): always(1.0), rule(1): always(-1.0)})
    trials = Trials(play, 40)
    assert drawn.episodes == 40
    good, bad = trials.play([rule_set(0), rule_set(1)])
    assert (len(good.result), good.is_whole, good.addition) == (40, True, pytest.approx(1.0))
    assert (len(bad.result), bad.is_whole, bad.addition) == (10, False, pytest.approx(-1.0))
    assert drawn.episodes == 40 + 40 + 10
    assert trials.environment_steps == LENGTH * drawn.episodes
    (whole,) = trials.play([rule_set(1)], ())
    assert (len(whole.result), whole.is_whole) == (40, True)
    assert drawn.episodes == 40 + 40 + 40  # nothing is played twice
    assert trials.play([rule_set(0)])[0].addition == good.addition
    assert drawn.episodes == 40 + 40 + 40
    removals = trials.play([rule_set(0), rule_set(1)], REMOVAL_LOOKS, idle_goes_on=True)
    assert [one.is_whole for one in removals] == [True, False]


def test_few_seeds_are_all_played() -> None:
    play, _ = play_of({rule(1): always(-1.0)})
    (bad,) = Trials(play, 2).play([rule_set(1)])
    assert (len(bad.result), bad.is_whole) == (2, True)


def test_trials_are_compared_with_the_current_composition() -> None:
    play, _ = play_of({rule(0): always(2.0), rule(1): always(3.0)})
    trials = Trials(play, 12, rule_set(0))
    assert trials.rules == rule_set(0)
    (both,) = trials.play([rule_set(0) | rule_set(1)], ())
    assert both.addition == pytest.approx(3.0)
    assert both.changed == pytest.approx(2 / LENGTH)
    assert trials.idle_rules(RuleSet((rule(0), NEVER, rule(1)))) == (NEVER,)


def test_the_second_half_has_seeds_of_its_own_and_tests_there() -> None:
    play, drawn = play_of({rule(0): noise(1.0, 3.0), rule(1): noise(1.0)})
    first, second = Trials(play, 60), SecondHalf(play, 60, 60)
    assert not set(first.result.returns.tolist()) & set(second.result(NOTHING).returns.tolist())
    helps = second.test(rule_set(0), NOTHING)
    assert helps.mean == pytest.approx(3.0, abs=0.5)
    assert helps.p < 0.001
    assert second.test(NOTHING, rule_set(0)).mean == pytest.approx(-helps.mean)
    assert second.test(rule_set(0) | rule_set(1), rule_set(0)).p > 0.05
    assert second.test(rule_set(0), rule_set(0)).p == 1.0
    assert second.environment_steps == LENGTH * (drawn.episodes - 60)


def test_a_judge_halves_the_seeds_and_compares_in_standard_errors() -> None:
    play, drawn = play_of({rule(0): always(2.0)}, changes={rule(0): 5})
    judge = CompositionJudge(play, ImprovementSettings(episodes=21, most_changed=0.25))
    assert len(judge.unguided_trials.result) == 11
    assert len(judge.base) == 21
    even = CompositionJudge(play_of({})[0], ImprovementSettings(episodes=20))
    assert (len(even.unguided_trials.result), len(even.base)) == (10, 20)
    assert judge.environment_steps == LENGTH * drawn.episodes
    (trial,) = judge.unguided_trials.play([rule_set(0)], ())
    both = judge.both(trial.result, rule_set(0))
    assert (both.returns - judge.base.returns).tolist() == pytest.approx([2.0] * 21)
    assert judge.compare(both, both) == 0.0
    assert judge.compare(both, judge.base) > 2.0
    assert judge.compare(judge.base, both) < -2.0
    one, other = result([1.0, 2.0, 3.0, 4.0]), result([0.0, 2.0, 0.0, 4.0])
    assert judge.compare(one, other) == pytest.approx(1.0 / (np.std([1.0, 0.0, 3.0, 0.0], ddof=1) / 2.0), rel=0.35)
    assert not judge.changes_too_much(both)  # a quarter
    assert judge.changes_too_much(replace(both, changed=both.changed + 1))
    assert judge.is_allowed(both)
    assert not judge.is_allowed(replace(both, changed=both.changed + 1))
    steps = judge.environment_steps
    assert judge.trials_against(rule_set(0)).rules == rule_set(0)
    assert judge.environment_steps == steps + LENGTH * 11


def trial(
    *, z: float = 1.0, p: float = 0.1, changed: bool = True, whole: bool = True, changes: int = 1
) -> CompositionTrial:
    base = result([1.0, 2.0])
    pairs = Pairs(with_changes([2.0, 3.0], changes), base, np.array([False, changed]))
    return CompositionTrial(rule_set(0), pairs, Standing(1.0, 1.0 / z if z else 1.0, z, p), whole)


def test_a_candidate_that_harms_or_changes_nothing_is_spent() -> None:
    assert not CompositionCandidate(rule_set(0), 1.0).is_spent
    with pytest.raises(ValueError, match="not tried"):
        _ = CompositionCandidate(rule_set(0), 1.0).tried
    for tried, spent in (
        (trial(), False),
        (trial(changed=False), True),
        (trial(z=-1.0), False),
        (trial(z=-1.01), True),
    ):
        assert CompositionCandidate(rule_set(0), 1.0, tried).is_spent == spent
    step = CompositionCandidate(rule_set(0), 1.0, trial(), Effect(1.0, 0.5, 0.0, 2.0, 0.01)).step(accepted=True)
    assert (step.mean, step.accepted, step.changed, step.effect.p) == (2.5, True, 1 / LENGTH, 0.01)


def test_promising_candidates_by_hand() -> None:
    play, _ = play_of({})
    path = Path(
        judge := CompositionJudge(play, ImprovementSettings(episodes=8, most_changed=0.25)),
        judge.unguided_trials,
        [],
        4,
    )
    for tried, promising in (
        (trial(p=0.19), True),
        (trial(p=0.2), False),
        (trial(p=0.19, whole=False), False),
        (trial(p=0.19, changes=5), True),
        (trial(p=0.19, changes=6), False),
    ):
        assert path._is_promising(CompositionCandidate(rule_set(0), 1.0, tried)) == promising


def test_unions_and_what_is_left_of_them() -> None:
    sets = (rule_set(0, 1), rule_set(2))
    assert set(union(sets).rules) == {rule(0), rule(1), rule(2)}
    assert union(()) == NOTHING
    assert _without_set(sets, sets[0]) == (sets[1],)
    left = _without_rules(sets, RuleSet((rule(1), rule(2))))
    assert [one.rules for one in left] == [(rule(0),)]
    assert left[0].source == rule(0)


def test_the_front_is_of_other_compositions_and_of_few() -> None:
    """Each gains one more than the last and changes one step more; all of them are on the front."""
    base = result([0.0, 0.0])
    looked_at = [(rule_set(i), with_changes([float(i), float(i)], i)) for i in range(1, 9)]
    settings = EvaluationSettings()
    chosen = front_candidates(looked_at, base, rule_set(9), settings, 6)
    assert chosen == [rule_set(1), rule_set(3), rule_set(5), rule_set(6), rule_set(8)]  # five of eight, evenly
    six = front_candidates(looked_at[:6], base, rule_set(9), settings, 6)
    assert six == [rule_set(1), rule_set(2), rule_set(3), rule_set(5), rule_set(6)]  # with the chosen one six
    few = front_candidates(looked_at[:6], base, rule_set(6), settings, 6)
    assert few == [rule_set(i) for i in range(1, 6)]  # without the one that was chosen
    worse = [(rule_set(1), with_changes([-1.0, -1.0], 1)), (rule_set(2), with_changes([3.0, 3.0], 2))]
    worse.append((rule_set(3), with_changes([2.0, 2.0], 3)))
    assert front_candidates(worse, base, NOTHING, settings, 6) == [rule_set(2)]
    assert share_changed(with_changes([1.0, 1.0], 5)) == 0.25


def test_algorithm_2_keeps_the_limit_of_the_override_rate() -> None:
    """Set 0 changes two of twenty steps, set 1 one more; set 2 changes returns by nothing."""
    draws, changes = {rule(0): always(2.0), rule(1): always(1.0)}, {rule(0): 2, rule(1): 1}
    sets = [rule_set(0), rule_set(1), rule_set(2)]
    for most, joined in ((1.0, sets[:2]), (0.15, sets[:2]), (0.14, sets[:1]), (0.1, sets[:1]), (0.09, sets[1:2])):
        drawn = DrawnPlay(draws, changes=changes)
        settings = ImprovementSettings(episodes=10, final_episodes=4, most_changed=most)
        evaluation = evaluation_of(sets, EvaluationSettings(method="paper"))
        found = improve(SETUP, evaluation, seed=0, settings=settings, run=drawn)
        assert list(found.rule_sets) == joined, most
        assert [step.accepted for step in found.steps] == [one in joined for one in sets]
        by_them = sum(changes[one.rules[0]] for one in joined)
        assert found.steps[-1].changed == pytest.approx((by_them + 1) / LENGTH)


def test_as_many_beginnings_as_are_asked_for_and_pass() -> None:
    draws = {rule(number): always(1.0 + number) for number in range(4)} | {rule(4): always(-1.0)}
    for count, begun in ((1, [3]), (3, [3, 2, 1]), (9, [3, 2, 1, 0])):
        play, _ = play_of(draws)
        judge = CompositionJudge(play, ImprovementSettings(episodes=80))
        candidates = [CompositionCandidate(rule_set(number), 10.0 - number) for number in range(5)]
        paths = Path(judge, judge.unguided_trials, candidates, 5).start_paths(count)
        assert [path.rule_sets for path in paths] == [(rule_set(number),) for number in begun]
        assert all(len(path.results) == len(path.compositions) == len(path.steps) == 1 for path in paths)
        assert len(judge.looked_at) == len(begun)


def test_a_path_that_falls_behind_is_given_up() -> None:
    """What has the same number of rule sets is compared, from the second on."""
    play, _ = play_of({rule(0): noise(1.0, 5.0), rule(1): noise(1.0, 1.0), rule(2): noise(1.0, 4.0)})
    judge = CompositionJudge(play, ImprovementSettings(episodes=80))

    def path(*numbers: int) -> Path:
        made = Path(judge, judge.unguided_trials, [], 5)
        for number in numbers:
            together = made.rules | rule_set(number)
            (trial,) = made.trials.play([together], ())
            made.join(CompositionCandidate(rule_set(number), 1.0, trial))
        return made

    assert not path(1)._is_behind([path(0)])  # the first step decides nothing
    assert path(1, 2)._is_behind([path(0, 2)])
    assert not path(0, 2)._is_behind([path(1, 2)])
    assert not path(1, 2)._is_behind([path(0)])
    assert not path(0, 2).grow([path(2, 0)])  # somebody has been there
    assert path(0, 1).grow([path(2, 0)])


@pytest.mark.parametrize(("margin", "joins"), [(10, False), (40, True)])
def test_algorithm_2_keeps_constraints(margin: int, joins: bool) -> None:
    """The mean rises by about 24, the median falls by about 18."""
    drawn = DrawnPlay({rule(0): lambda rng, n: np.where(rng.random(n) < 0.8, -20.0, 200.0)})
    constrained = EvaluationSettings(method="paper", constraint=f"median no lower than by {margin}")
    settings = ImprovementSettings(episodes=400, final_episodes=4)
    found = improve(SETUP, evaluation_of([rule_set(0)], constrained), seed=0, settings=settings, run=drawn)
    assert bool(found.rule_sets) == joins
    assert found.environment_steps == LENGTH * drawn.episodes


def test_without_losses_none_is_invented_and_one_that_was_seen_stays() -> None:
    """Every episode gains a half or one and a half, or loses four in the second test, which the third remembers."""

    def draws(*amounts: float):
        return lambda _, n: np.resize(np.array(amounts), n)

    play, _ = play_of({rule(0): draws(0.5, 1.5), rule(1): draws(-4.0, 6.0), rule(2): draws(0.5, 1.5)})
    second = SecondHalf(play, 60, 60)

    def expected(loss: float) -> tuple[object, ...]:
        differences = np.resize([0.5, 1.5], 60)
        found = changed_mean_test(
            differences, 60, invented_loss=loss, resamples=resamples_for(1, 0.05), rng_seed=0, alpha=0.05
        )
        return astuple(found)

    assert astuple(second.test(rule_set(0), NOTHING)) == pytest.approx(expected(0.0))
    second.test(rule_set(1), NOTHING)
    assert astuple(second.test(rule_set(2), NOTHING)) == pytest.approx(expected(4.0))
    assert expected(4.0) != pytest.approx(expected(0.0))
