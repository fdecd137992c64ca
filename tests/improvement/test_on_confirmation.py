"""Composition on the seeds of the confirmation: few episodes, no seed of the final figure, and no more false gains."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Any
from unittest import mock

import numpy as np
import pytest

from drawn_play import SETUP, DrawnPlay, noise, rare_loss, rule, rule_set
from legible.evaluation import Evaluation, evaluate
from legible.evaluation.recorded import Repetition
from legible.improvement import Improvement, improve
from legible.improvement.check import share_of_level
from legible.settings import FEWEST_CHANGES, StudySettings

QUICK = StudySettings.quick().for_single_environments()


def studied(play: DrawnPlay, rule_sets: int) -> tuple[Evaluation, Improvement, Counter[tuple[Any, ...]]]:
    """Return evaluation and composition of a drawn study, and how often the composition played each episode."""
    treatments = tuple(rule_set(number) for number in range(rule_sets))
    setup = replace(SETUP, rows=32, play=QUICK.play, treatments=treatments)
    evaluation_settings = replace(QUICK.evaluation, relevant="0")
    with mock.patch("legible.evaluation.racing.find_repetition", return_value=Repetition(rows=32, holds=False)):
        evaluation = evaluate(setup, seed=play.world, settings=evaluation_settings, run=play)
    played: Counter[tuple[Any, ...]] = Counter()
    if evaluation.confirmation_blocks is not None:
        for treatment in evaluation.confirmation_blocks.setup.treatments:
            seeds = evaluation.confirmation_blocks.seeds[
                : len(
                    evaluation.confirmation_blocks.guided(
                        evaluation.confirmation_blocks.setup.treatments.index(treatment)
                    )
                )
            ]
            played.update((frozenset(treatment.rules), seed) for seed in seeds)

    def run(this: Any, units: Any, *, kept: Any = None, **options: Any) -> Any:
        if kept is None:
            for unit in units:
                for number, seed in zip(unit.treatments, unit.seeds, strict=True):
                    rules = this.treatments[number].rules if number >= 0 else ()
                    played[frozenset(rules), seed] += 1
        return play(this, units, kept=kept, **options)

    alone = replace(setup, treatments=())
    found = improve(alone, evaluation, seed=play.world, settings=QUICK.improvement, run=run)
    return evaluation, found, played


def test_what_helps_together_is_composed_and_nothing_is_played_twice() -> None:
    draws = {rule(0): noise(5.0, 6.0), rule(1): noise(5.0, 5.0), rule(2): noise(5.0), rule(3): noise(5.0, -5.0)}
    evaluation, found, played = studied(DrawnPlay(draws), 4)
    assert set(found.composition.rules) == {rule(0), rule(1)}
    assert set(played.values()) == {1}
    assert found.effect.low < 11.0 < found.effect.high
    # The quoted figures are from the final seeds, which nothing has selected.
    assert evaluation.confirmation_blocks is not None
    assert not set(found.final_blocks.seeds) & set(evaluation.confirmation_blocks.seeds)
    (chosen,) = (point for point in found.front if point.is_chosen)
    assert chosen.effect == found.effect
    # The interval of the check allows for all compositions that could have been chosen on its seeds.
    assert found.check is not None
    assert found.check.is_passed
    assert found.check.effect.high - found.check.effect.low > 1.3 * (found.effect.high - found.effect.low)


def test_a_composition_that_fails_the_corrected_test_is_played_on_further_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("legible.improvement.on_confirmation.share_of_level", lambda *_: 1e-200)
    draws = {rule(0): noise(5.0, 6.0), rule(1): noise(5.0, 5.0)}
    evaluation, found, played = studied(DrawnPlay(draws), 2)
    assert set(found.composition.rules) == {rule(0), rule(1)}
    assert set(played.values()) == {1}
    assert found.check is not None
    assert found.check.effect.seeds == FEWEST_CHANGES
    assert evaluation.confirmation_blocks is not None
    both = {seed for rules, seed in played if len(rules) == 2}
    further = both - set(evaluation.confirmation_blocks.seeds) - set(found.final_blocks.seeds)
    assert len(further) == FEWEST_CHANGES


def test_rules_that_only_harm_each_other_are_not_combined() -> None:
    draws = {rule(0): noise(8.0, 6.0), rule(1): noise(8.0, 5.0)}
    _, found, _ = studied(DrawnPlay(draws, together={(rule(0), rule(1)): -8.0}), 2)
    assert len(found.composition) == 1
    assert found.check is not None
    assert found.check.effect.p < 0.05


def test_without_a_candidate_nothing_is_played() -> None:
    _, found, played = studied(DrawnPlay({rule(number): noise(10.0, -6.0) for number in range(3)}), 3)
    assert not len(found.composition)
    assert found.check is None
    assert set(played) == {(frozenset(), seed) for seed in found.final_blocks.seeds}


def test_the_shares_of_all_compositions_add_up_to_at_most_the_level() -> None:
    def compositions(rules_of_sets: tuple[int, ...]) -> Iterator[float]:
        """Yield the share of every choice of rule sets and of rules removed from them."""
        for count in range(1, len(rules_of_sets) + 1):
            for sets in combinations(rules_of_sets, count):
                for removed in range(sum(sets)):
                    share = share_of_level(len(rules_of_sets), count, sum(sets), removed)
                    yield from [share] * comb(sum(sets), removed)

    for rules_of_sets in ((1,), (1, 1, 1), (3, 1, 2), (1,) * 6):
        assert 0.25 <= sum(compositions(rules_of_sets)) <= 1.0


@pytest.mark.statistical
def test_the_composition_is_empty_if_nothing_helps() -> None:
    """Twenty rule sets without effect: by noise, by rare large losses, in few episodes."""
    kinds = (noise(6.0), rare_loss(1.0, 32.3, 0.03), rare_loss(1.0, 19.0, 0.05, changed=0.3), noise(1.0))
    empty = []
    for world in range(200):
        draws = {rule(number): kinds[number % len(kinds)] for number in range(20)}
        empty.append(not len(studied(DrawnPlay(draws, world=world), 20)[1].composition))
    assert np.mean(empty) >= 0.95
