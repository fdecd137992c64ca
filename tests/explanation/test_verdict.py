"""The verdict: what matters most comes first, and nothing is called a repair that a plain way to act outdoes."""

from dataclasses import replace

import numpy as np
import pytest

from explanation.test_explanation import WALLS, study, verdict
from legible.evaluation import PlayedBlocks, QuotedReference, Reference, References, Sample, find_objective
from legible.evaluation.statistics import Effect, paired
from legible.explanation import Conclusion, conclude, imitated_reference, is_repair, verdict_sentence
from legible.improvement import Improvement
from legible.improvement.composed import CompositionCheck
from legible.rules import RuleSet
from legible.settings import EvaluationSettings, ImprovementSettings
from played_blocks import with_returns

RANDOM, BRAKE, OTHER = Reference("random play"), Reference("always Brake", (1,)), Reference("Mended", fingerprint="x")
DOUBTED = study(verdict(WALLS, 1.0, confirmed=False))
CONFIRMED = study(verdict(WALLS, 1.0), verdict(WALLS, 1.0, confirmed=None, p=0.5))
NOISE = np.array([-1.0, 1.0] * 10)


def improvement(base: float, guided: float | None = None, *, success: float = np.nan) -> Improvement:
    """A composition, or none, with mean returns that vary a little from seed to seed."""
    blocks = [base + NOISE] if guided is None else [base + NOISE, guided - 0.5 * NOISE]
    final = with_returns(*blocks)
    results = tuple(replace(result, success=np.full(20, success)) for result in final.results)
    final = PlayedBlocks(final.setup, final.seeds, results)
    composition = RuleSet(() if guided is None else WALLS)
    effect = paired(results[-1].returns, results[0].returns)
    return Improvement((), composition, (), Sample.of(results[0]), effect, final, ImprovementSettings())


def references(made: Improvement, returns: dict[Reference, float], *, sure: bool = True) -> References:
    """References with mean returns; `sure`: those that are better were so on the seeds of the choice."""
    quoted = []
    for reference, mean in sorted(returns.items(), key=lambda item: -item[1]):
        (result,) = with_returns(mean + 0.1 * NOISE).results
        base, guided = made.final_blocks.base.returns, made.final_blocks.results[-1].returns
        over = paired(result.returns, base)
        beats = sure and over.low > 0
        quoted.append(
            QuotedReference(reference, result, Sample.of(result), over, paired(result.returns, guided), beats)
        )
    return References(Sample.of(made.final_blocks.base), (), tuple(quoted))


def told(made: Improvement, returns: dict[Reference, float], evaluation=DOUBTED, **options: bool) -> str:
    return verdict_sentence(evaluation, made, references(made, returns, **options))


def taking(made: Improvement, *counts: int) -> Improvement:
    """The same with choices counted in each of the 20 steps of every episode."""
    blocks = made.final_blocks
    results = (*blocks.results[:-1], replace(blocks.results[-1], taken=np.tile(counts, (20, 1))))
    return replace(made, final_blocks=PlayedBlocks(blocks.setup, blocks.seeds, results))


def test_a_reference_that_beats_the_policy_comes_first(snapshot) -> None:
    text = told(improvement(72.0), {BRAKE: 763.0, RANDOM: 50.0})
    assert text == snapshot
    assert "No weakness" not in text
    assert told(improvement(72.0, 210.0), {BRAKE: 763.0, RANDOM: 50.0}, CONFIRMED) == snapshot


def test_another_policy_that_is_better_comes_first_as_well(snapshot) -> None:
    assert told(improvement(72.0), {OTHER: 90.0, RANDOM: 10.0}) == snapshot


def test_a_reference_that_beats_only_the_guided_policy_comes_first(snapshot) -> None:
    assert told(improvement(72.0, 30.0), {BRAKE: 60.0, RANDOM: 10.0}) == snapshot


def test_a_composition_that_is_no_better_than_the_best_reference_is_no_repair(snapshot) -> None:
    made = improvement(72.0, 210.0)
    beside = references(made, {BRAKE: 763.0, RANDOM: 50.0})
    assert verdict_sentence(CONFIRMED, made, beside) == snapshot
    assert not is_repair(made, beside)
    assert imitated_reference(made, beside) is None


@pytest.mark.parametrize(("braked", "imitates"), [(18, True), (17, False)])
def test_nine_in_ten_steps_of_one_choice_imitate_it(braked: int, imitates: bool, snapshot) -> None:
    made = taking(improvement(72.0, 762.9), 20 - braked, braked, 0)
    beside = references(made, {BRAKE: 763.0, RANDOM: 50.0})
    assert np.allclose(made.choice_shares, [1 - braked / 20, braked / 20, 0])
    assert (imitated_reference(made, beside) is not None) == imitates
    text = verdict_sentence(CONFIRMED, made, beside)
    assert text == snapshot
    assert ("it imitates it" in text) == imitates


def test_what_is_better_than_a_choice_does_not_imitate_it() -> None:
    made = taking(improvement(72.0, 800.0), 1, 19, 0)
    beside = references(made, {BRAKE: 763.0, RANDOM: 50.0})
    assert is_repair(made, beside)
    assert imitated_reference(made, beside) is None
    assert "no better" not in verdict_sentence(CONFIRMED, made, beside)


def test_a_composition_that_may_be_better_by_chance_is_no_better(snapshot) -> None:
    made = improvement(72.0, 763.05)
    beside = references(made, {BRAKE: 763.0, RANDOM: 50.0})
    assert verdict_sentence(CONFIRMED, made, beside) == snapshot
    assert not is_repair(made, beside)


def test_a_policy_no_better_than_random_play_is_told_so_first(snapshot) -> None:
    text = told(improvement(-9.98), {RANDOM: -10.0, BRAKE: -20.0})
    assert text == snapshot
    assert "No weakness" not in text
    assert told(improvement(5.0), {RANDOM: 5.0}) == snapshot
    assert told(improvement(4.9), {RANDOM: 5.0}, sure=False) == snapshot


def test_what_returns_more_is_told_before_what_may_return_as_much(snapshot) -> None:
    assert told(improvement(5.0), {BRAKE: 5.2, RANDOM: 4.95}, sure=False) == snapshot
    assert told(improvement(5.0), {BRAKE: 5.2, RANDOM: 5.1}, sure=False) == snapshot


def test_a_policy_that_never_succeeds_is_told_so_first(snapshot) -> None:
    text = told(improvement(72.0, success=0.0), {RANDOM: 10.0})
    assert text == snapshot
    assert "more than random play" not in text
    assert "guided or not" in told(improvement(72.0, 80.0, success=0.0), {RANDOM: 10.0})
    never = replace(DOUBTED, base=replace(DOUBTED.base, success=0.0, episodes=7))
    assert verdict_sentence(never) == snapshot


def test_a_policy_that_does_not_solve_the_environment_is_told_so_first(snapshot) -> None:
    def first(made: Improvement, solved: float, evaluation=DOUBTED) -> Conclusion:
        return conclude(evaluation, made, references(made, {RANDOM: -200.0}), solved=solved)

    bad = first(improvement(-104.0), 200.0)
    assert bad.headline == snapshot
    assert "No weakness" not in bad.text
    assert "more than random play" in bad.text
    assert first(improvement(243.0), 200.0).headline == snapshot
    # A repair is told first, whether or not it solves the environment.
    assert first(improvement(72.0, 190.0), 200.0, CONFIRMED).headline == snapshot


def test_a_perfect_policy_is_told_so_first(snapshot) -> None:
    made = improvement(500.0)
    same = replace(made.final_blocks.base, returns=np.full(20, 500.0))
    made = replace(made, final_blocks=PlayedBlocks(made.final_blocks.setup, made.final_blocks.seeds, (same,)))
    found = study(verdict(WALLS, 0.0, confirmed=None, p=0.5))
    assert conclude(found, made, solved=475.0).headline == snapshot
    assert conclude(found, made).headline == snapshot


def test_too_few_changed_episodes_are_not_called_no_gain(snapshot) -> None:
    rare = verdict(WALLS, 1.0, confirmed=False)
    rare = replace(rare, confirmation=replace(rare.confirmation, is_too_rare=True))
    assert conclude(study(rare)).headline == snapshot
    effect = Effect(4.0, 1.0, 2.6, 5.5, 1.0, changed=12, seeds=400)
    check = CompositionCheck(WALLS, effect, 0.01, is_too_rare=True, constraints=(), is_passed=False)
    made = replace(improvement(5.0), check=check)
    assert conclude(DOUBTED, made).sentences[0] == snapshot
    given_up = replace(made, check=replace(check, is_too_rare=False))
    assert conclude(DOUBTED, given_up).sentences[0] == snapshot


def test_a_tie_with_a_constant_choice_is_told(snapshot) -> None:
    assert told(improvement(12.0), {BRAKE: 12.0, RANDOM: 3.0}) == snapshot


def test_another_policy_that_is_as_good_is_no_shame(snapshot) -> None:
    assert told(improvement(12.0), {OTHER: 12.0, RANDOM: 3.0}) == snapshot


def test_a_policy_better_than_all_references_is_told_so_at_the_end(snapshot) -> None:
    assert told(improvement(500.0), {BRAKE: 9.4, RANDOM: 22.0}) == snapshot
    assert told(improvement(500.0, 510.0), {RANDOM: 22.0}, CONFIRMED) == snapshot
    assert is_repair(improvement(500.0, 510.0), references(improvement(500.0, 510.0), {RANDOM: 22.0}))
    assert not is_repair(improvement(500.0))


@pytest.mark.parametrize("objective", ["median", "cost", "success"])
def test_other_objectives_have_their_own_words(objective: str, snapshot) -> None:
    made = improvement(72.0, 210.0)
    base, guided = made.final_blocks.results
    results = (
        replace(base, costs=np.full(20, 9.0), success=np.zeros(20), returns=72.0 + np.abs(NOISE)),
        replace(guided, costs=4.0 + NOISE, success=np.array([0.0, 1.0] * 10), returns=210.0 - np.abs(NOISE)),
    )
    (result,) = with_returns(np.full(20, 763.0)).results
    brake = replace(result, costs=np.zeros(20), success=np.ones(20))
    asked = find_objective(objective)
    made = replace(
        made,
        effect=asked.compare(results[1], results[0]),
        final_blocks=PlayedBlocks(made.final_blocks.setup, made.final_blocks.seeds, results),
        evaluation_settings=EvaluationSettings(objective=objective),
    )
    entry = QuotedReference(
        BRAKE, brake, Sample.of(brake), asked.compare(brake, results[0]), asked.compare(brake, results[1]), True
    )
    assert verdict_sentence(CONFIRMED, made, References(made.base, (), (entry,))) == snapshot


def test_without_references_nothing_is_said_of_them(snapshot) -> None:
    assert verdict_sentence(DOUBTED, improvement(5.0)) == snapshot
    assert is_repair(improvement(5.0, 9.0))
    made = improvement(5.0)
    assert verdict_sentence(DOUBTED, made, References(Sample.of(made.final_blocks.base), (), ())) == snapshot
