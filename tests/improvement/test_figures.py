"""Figures of a composition on the final seeds, its check, and the front, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from drawn_play import LENGTH, SETUP, DrawnPlay, always, evaluation_of, play_with, rule, rule_set
from legible.evaluation.confirmation import Expectation, Judge, confirm
from legible.evaluation.statistics import Effect
from legible.features import FeatureSpace
from legible.improvement import Improvement, improve
from legible.improvement.check import check_composition, non_dominated, pareto_front
from legible.improvement.composed import CompositionStep, FrontPoint
from legible.rules import RuleSet
from legible.settings import EvaluationSettings, ImprovementSettings
from played_blocks import result


def improved(*sets: RuleSet) -> Improvement:
    """A composition of rule sets, of which rule 0 adds 5."""
    settings = ImprovementSettings(episodes=8, final_episodes=4)
    return improve(SETUP, evaluation_of(sets), seed=0, settings=settings, run=DrawnPlay({rule(0): always(5)}))


def test_shares_of_choices() -> None:
    """Two episodes of twenty steps were counted, one was not."""
    found = improved(rule_set(0))
    assert found.choice_shares.tolist() == []
    guided = replace(result([1.0, 2.0, 3.0]), taken=np.array([[20, 0, 0], [0, 0, 0], [2, 8, 10]]))
    blocks = replace(found.final_blocks, results=(result([0.0, 0.0, 0.0]), guided))
    assert replace(found, final_blocks=blocks).choice_shares.tolist() == [0.55, 0.2, 0.25]


def test_the_front_as_rows_in_the_sign_of_the_objective() -> None:
    """Costs are better the lower they are: a gain is shown as a negative number, with its ends in order."""
    found = improved(rule_set(0))
    point = FrontPoint(rule_set(0, 1), Effect(3.0, 0.5, 1.0, 4.0, 0.01), 0.2, is_chosen=True)
    space = FeatureSpace.of(["x"], ["Go", "Stay"])
    for objective, shown in (("mean", (3.0, 1.0, 4.0)), ("cost", (-3.0, -4.0, -1.0))):
        asked = replace(found, front=(point,), evaluation_settings=EvaluationSettings(objective=objective))
        (row,) = asked.front_rows(space)
        assert row["rules"] == ["-Go <- x > -1", "-Go <- x > -2"]
        assert (row["effect"], row["low"], row["high"]) == shown
        assert (row["changed"], row["chosen"]) == (0.2, True)


def test_steps_as_rows_show_the_mined_rule() -> None:
    """A generalised rule set is shown by its mined rule, others by all their rules."""
    settings = ImprovementSettings(episodes=8, final_episodes=4)
    drawn = DrawnPlay({rule(0): always(5)})
    found = improve(SETUP, evaluation_of([rule_set(0)]), seed=0, settings=settings, run=drawn)
    assert found.environment_steps == LENGTH * drawn.episodes
    space = FeatureSpace.of(["x"], ["Go", "Stay"])
    steps = (
        CompositionStep(RuleSet((rule(1), rule(2)), rule(0)), 1.0, 0.5, accepted=True, changed=0.25),
        CompositionStep(RuleSet((rule(1), rule(2), rule(3))), 2.0, 0.75, accepted=False, is_removal=True),
    )
    rows = replace(found, steps=steps).to_rows(space)
    assert [(row["rule"].split("; "), row["rules"]) for row in rows] == [
        (["-Go <- x > -1"], 2),
        (["-Go <- x > -2", "-Go <- x > -3", "-Go <- x > -4"], 3),
    ]
    assert [(row["mean"], row["error"]) for row in rows] == [(1.0, 0.5), (2.0, 0.75)]
    assert [(row["accepted"], row["removal"]) for row in rows] == [(True, False), (False, True)]
    assert rows[0]["changed"] == 0.25
    assert np.isnan(rows[1]["changed"])


@pytest.mark.parametrize(("changed", "too_much"), [(4, False), (5, False), (6, True)])
def test_a_composition_may_change_a_quarter_of_the_final_steps(changed: int, too_much: bool) -> None:
    found = improved()
    assert found.rule_sets == found.steps == found.front == ()
    guided = replace(result([1.0, 2.0]), changed=np.full(2, changed))
    blocks = replace(found.final_blocks, results=(result([0.0, 0.0]), guided))
    this = replace(found, final_blocks=blocks, settings=replace(found.settings, most_changed=0.25))
    assert this.changes_too_much == too_much


def test_without_a_composition_there_is_only_the_policy() -> None:
    found = improved()
    assert len(found.final_blocks.results) == 1
    assert found.guided.mean == found.base.mean
    assert list(found.figures()) == ["base"]
    blocks = replace(found.final_blocks, results=(result([0.0, 0.0]), result([1.0, 3.0])))
    guided = replace(found, composition=rule_set(0), final_blocks=blocks)
    assert (guided.base.mean, guided.guided.mean) == (0.0, 2.0)
    assert guided.effects()["mean"].mean == 2.0
    assert guided.figures()["guided"]["mean"].value == 2.0


def test_of_compositions_that_change_as_much_only_the_best_is_on_the_front() -> None:
    assert non_dominated([(1.0, 0.1), (2.0, 0.1), (2.0, 0.2), (0.0, 0.0)]) == [1]
    assert non_dominated([]) == []

    def point(gain: float, changed: float, *, chosen: bool = False) -> FrontPoint:
        return FrontPoint(rule_set(0), Effect(gain, 0.5, 1.0, 4.0, 0.01), changed, is_chosen=chosen)

    assert not FrontPoint(rule_set(0), Effect(1.0, 0.5, 1.0, 4.0, 0.01), 0.1).is_chosen
    points = [point(3.0, 0.3), point(1.0, 0.2, chosen=True), point(2.0, 0.1), point(0.5, 0.25)]
    front = pareto_front(points)
    assert [(one.effect.mean, one.changed) for one in front] == [(2.0, 0.1), (1.0, 0.2), (3.0, 0.3)]
    same = pareto_front([point(2.0, 0.1), point(1.0, 0.1, chosen=True)])
    assert [one.effect.mean for one in same] == [1.0, 2.0]


@pytest.mark.parametrize(("p", "passed"), [(0.049, True), (0.05, True), (0.051, False)])
def test_a_check_is_passed_at_the_level_itself(p: float, passed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    how = play_with(drawn := DrawnPlay({}))
    monkeypatch.setattr(Judge, "effect", lambda *_: Effect(1.0, 0.5, 0.0, 2.0, p))
    found = check_composition(how, rule_set(0), [rule_set(1)], 40)
    assert (found.check.is_passed, found.check.is_too_rare) == (passed, False)
    assert drawn.episodes == 208 + (1 + passed) * 200  # the policy alone plays whole units; others only if it is passed
    assert found.environment_steps == LENGTH * drawn.episodes
    rare = EvaluationSettings(confirmation_seeds=199)
    few = check_composition(how._replace(settings=rare), rule_set(0), [], 40).check
    assert (few.is_passed, few.is_too_rare) == (False, True)


def test_a_check_on_the_seeds_of_the_confirmation_plays_nothing_twice() -> None:
    """The first composition is a candidate that was confirmed on 200 seeds; the second one still has to play."""
    how = play_with(drawn := DrawnPlay({rule(0): always(5)}))
    settings = replace(how.settings, confirmation_changes=200)
    candidates, expected = [rule_set(0)], [Expectation(1.0)]
    blocks = confirm(SETUP, how.repetition, candidates, expected, seed=0, settings=settings, run=drawn).blocks
    for composition, played in ((rule_set(0), 0), (rule_set(0, 1), 200)):
        drawn.episodes = 0
        found = check_composition(how, composition, [], 40, blocks)
        assert found.check.is_passed
        assert (found.check.effect.mean, found.check.effect.seeds) == (pytest.approx(5.0), 200)
        assert drawn.episodes == len(blocks.base) + played  # a study reads the unguided ones from its folder
        assert found.environment_steps == LENGTH * played
