"""What is said of a composition on fresh seeds, and which others are on the front, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from drawn_play import SETUP, DrawnPlay, always, evaluation_of, rule, rule_set
from legible.evaluation.statistics import Effect
from legible.features import FeatureSpace
from legible.improvement import improve
from legible.improvement.check import front_candidates
from legible.improvement.composed import FrontPoint
from legible.settings import EvaluationSettings, ImprovementSettings
from played_blocks import result


def test_how_often_each_choice_is_taken() -> None:
    """Two episodes of twenty steps were counted, one was not."""
    settings = ImprovementSettings(episodes=8, final_episodes=4)
    found = improve(SETUP, evaluation_of([rule_set(0)]), seed=0, settings=settings, run=DrawnPlay({rule(0): always(5)}))
    assert found.choice_shares.tolist() == []
    guided = replace(result([1.0, 2.0, 3.0]), taken=np.array([[20, 0, 0], [0, 0, 0], [2, 8, 10]]))
    blocks = replace(found.final_blocks, results=(result([0.0, 0.0, 0.0]), guided))
    assert replace(found, final_blocks=blocks).choice_shares.tolist() == [0.55, 0.2, 0.25]


@pytest.mark.parametrize("base", [0.0, 5.0, -5.0])
def test_what_is_no_better_than_the_policy_alone_is_not_on_the_front(base: float) -> None:
    """The first gains one and changes one step, the second loses one, the third gains two and changes two."""
    gains = [(1.0, 1), (-1.0, 0), (2.0, 2)]
    looked_at = [
        (rule_set(i), replace(result([base + gain] * 2), changed=np.full(2, changed)))
        for i, (gain, changed) in enumerate(gains)
    ]
    chosen = front_candidates(looked_at, result([base] * 2), rule_set(9), EvaluationSettings())
    assert chosen == [rule_set(0), rule_set(2)]


def test_the_front_as_rows_in_the_sign_of_the_objective() -> None:
    """Costs are better the lower they are: a gain is shown as a negative number, with its ends in order."""
    settings = ImprovementSettings(episodes=8, final_episodes=4)
    found = improve(SETUP, evaluation_of([rule_set(0)]), seed=0, settings=settings, run=DrawnPlay({rule(0): always(5)}))
    point = FrontPoint(rule_set(0, 1), Effect(3.0, 0.5, 1.0, 4.0, 0.01), 0.2, is_chosen=True)
    space = FeatureSpace.of(["x"], ["Go", "Stay"])
    for objective, shown in (("mean", (3.0, 1.0, 4.0)), ("cost", (-3.0, -4.0, -1.0))):
        asked = replace(found, front=(point,), evaluation_settings=EvaluationSettings(objective=objective))
        (row,) = asked.front_rows(space)
        assert row["rules"] == ["-Go <- x > -1", "-Go <- x > -2"]
        assert (row["effect"], row["low"], row["high"]) == shown
        assert (row["changed"], row["chosen"]) == (0.2, True)
