"""Two studies beside each other, by playing: nothing is called a difference that playing does not show."""

from dataclasses import replace

import numpy as np
import pytest

import mirror_world
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation.statistics import Effect
from legible.play import STAGES, stage_seeds
from legible.rules import RuleSet, parse_rule
from legible.study import Study
from legible.study.comparison import ComparedRuleSet, alike, compare_studies
from report.studies import MIRROR_SETTINGS, mirror_study

SPACE = mirror_world.SPACE


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Study, Study]:
    """Two of the same policy, one of them with fewer episodes, and one of a policy without that weakness."""
    folder = tmp_path_factory.mktemp("compared")
    quick = replace(
        MIRROR_SETTINGS, evaluation=replace(MIRROR_SETTINGS.evaluation, episodes=6, confirmation_episodes=6)
    )
    first, small = mirror_study(folder / "a"), mirror_study(folder / "b", settings=quick, seed=1)
    world = EnvironmentSpec("mirror_world:MirrorWorld")
    mended = Study(
        folder / "c",
        world,
        mirror_world.best_policy(),
        relations=mirror_world.mirror(),
        settings=MIRROR_SETTINGS,
        engine=InProcess(),
    )
    for study in (first, small, mended):
        study.improve()
    return first, small, mended


def test_the_same_policy_is_called_that_and_no_difference_is_invented(studies, snapshot) -> None:
    first, small, _ = studies
    assert first.evaluation.confirmed
    found = compare_studies(first, small, 60)
    assert found.is_same_policy
    assert found.headline() == snapshot
    assert found.rule_sets
    assert found.difference.mean == 0.0
    for one in found.rule_sets:
        assert one.effects[0] == one.effects[1]
        assert one.q == 1.0
        assert "not the" not in one.words()
    assert found.paragraphs() == []


def test_what_helps_one_policy_only_is_found_by_playing(studies, snapshot) -> None:
    first, _, mended = studies
    found = compare_studies(first, mended, 60)
    assert not found.is_same_policy
    assert found.headline().rpartition(" is ")[0] == snapshot
    best = max(found.rule_sets, key=lambda one: one.effects[0].mean)
    assert best.origin == "first"
    assert best.effects[0].low > 0 >= best.effects[1].low
    assert best.words() == snapshot
    columns, rows = found.table()
    assert len(rows) == len(found.rule_sets)
    assert all(len(row) == len(columns) for row in rows)
    assert found.to_dict()["rule_sets"][0]["from"] in {"first", "second", "both"}


def test_seeds_are_of_their_own(studies) -> None:
    first, small, _ = studies
    fresh = set(stage_seeds(first.seed, "comparison", 0, 60))
    assert STAGES["comparison"].block == 18
    assert fresh.isdisjoint(first.improvement.final_blocks.seeds)
    assert fresh.isdisjoint(small.improvement.final_blocks.seeds)


def test_other_worlds_are_not_compared(studies, tmp_path) -> None:
    other = mirror_study(tmp_path / "other")
    other.environment = EnvironmentSpec("mirror_world:MirrorWorld", {"anything": 1})
    other.improve = lambda: None
    with pytest.raises(LegibleError, match="with other arguments"):
        compare_studies(studies[0], _like(studies[0], other), 10)


def _like(study: Study, other: Study) -> Study:
    other._results["experiences"] = study.experiences
    return other


@pytest.mark.parametrize(
    ("first", "second", "q", "told"),
    [
        ((2.0, 6.0), (-1.0, 1.0), 0.01, "helps the first, not the second"),
        ((2.0, 6.0), (8.0, 9.0), 0.01, "helps the second more"),
        ((2.0, 6.0), (1.0, 5.0), 0.7, "helps both"),
        ((2.0, 6.0), (-1.0, 5.0), 0.7, "helps one for certain; no certain difference"),
        ((-2.0, 6.0), (-1.0, 5.0), 0.7, "helps neither for certain"),
    ],
)
def test_words_claim_no_more_than_is_shown(first, second, q, told) -> None:
    ends = [Effect(float(np.mean(pair)), 1.0, *pair, 0.01) for pair in (first, second)]
    gap = Effect(ends[0].mean - ends[1].mean, 1.0, 0.0, 0.0, q)
    rules = RuleSet((parse_rule("+Left <- left", SPACE),))
    assert ComparedRuleSet(rules, "first", False, (ends[0], ends[1]), gap, q).words() == told


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("+Left <- luck > 0", "+Left <- luck > 0.5", True),
        ("+Left <- luck > 0", "+Left <- luck < 0", False),
        ("+Left <- luck > 0", "-Left <- luck > 0", False),
        ("+Left <- luck > 0", "+Right <- luck > 0", False),
        ("+Left <- luck > 0", "+Left <- luck > 0 & left", False),
        ("+Left <- luck > 0 & left", "+Left <- left & luck > 1", True),
    ],
)
def test_rules_are_alike_whatever_the_ends_of_their_intervals(one, two, same) -> None:
    first, second = (parse_rule(text, SPACE) for text in (one, two))
    assert alike(first, second) is same
    assert alike(second, first) is same
