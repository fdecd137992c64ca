"""The conclusion: the most important finding comes first, and no composition that a baseline beats is a repair."""

from dataclasses import replace

import numpy as np
import pytest

from explanation.test_explanation import WALLS, study, verdict
from legible.evaluation import Evaluation, PlayedBlocks, QuotedReference, Reference, References, Sample, find_objective
from legible.evaluation.endings import EndingShare
from legible.evaluation.figures import Figure
from legible.evaluation.statistics import Effect, paired
from legible.explanation import Conclusion, conclude, imitated_reference, is_repair
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


def taking(made: Improvement, *counts: int) -> Improvement:
    """The same with choices counted in each of the 20 steps of every episode."""
    blocks = made.final_blocks
    results = (*blocks.results[:-1], replace(blocks.results[-1], taken=np.tile(counts, (20, 1))))
    return replace(made, final_blocks=PlayedBlocks(blocks.setup, blocks.seeds, results))


@pytest.mark.parametrize(
    ("scores", "baselines", "evaluation", "sure"),
    [
        pytest.param((72.0,), {BRAKE: 763.0, RANDOM: 50.0}, DOUBTED, True, id="worse than a constant action"),
        pytest.param((72.0, 210.0), {BRAKE: 763.0, RANDOM: 50.0}, CONFIRMED, True, id="rules do not repair it"),
        pytest.param(
            (72.0, 763.05), {BRAKE: 763.0, RANDOM: 50.0}, CONFIRMED, True, id="rules may be as good by chance"
        ),
        pytest.param((72.0,), {OTHER: 90.0, RANDOM: 10.0}, DOUBTED, True, id="worse than another policy"),
        pytest.param((72.0, 30.0), {BRAKE: 60.0, RANDOM: 10.0}, DOUBTED, True, id="only the guided policy is worse"),
        pytest.param((-9.98,), {RANDOM: -10.0, BRAKE: -20.0}, DOUBTED, True, id="perhaps no better than random play"),
        pytest.param((5.0,), {RANDOM: 5.0}, DOUBTED, True, id="as good as random play"),
        pytest.param((4.9,), {RANDOM: 5.0}, DOUBTED, False, id="no better than random play"),
        pytest.param((12.0,), {BRAKE: 12.0, RANDOM: 3.0}, DOUBTED, True, id="as good as a constant action"),
        pytest.param((5.0,), {BRAKE: 5.2, RANDOM: 4.95}, DOUBTED, False, id="better before perhaps as good"),
        pytest.param((12.0,), {OTHER: 12.0, RANDOM: 3.0}, DOUBTED, True, id="another policy may be as good"),
        pytest.param((500.0,), {BRAKE: 9.4, RANDOM: 22.0}, DOUBTED, True, id="better than all baselines"),
        pytest.param((500.0, 510.0), {RANDOM: 22.0}, CONFIRMED, True, id="a repair"),
        pytest.param((5.0,), {}, DOUBTED, True, id="no baselines"),
    ],
)
def test_baselines_in_the_conclusion(
    scores: tuple[float, ...], baselines: dict[Reference, float], evaluation: Evaluation, sure: bool, snapshot
) -> None:
    made = improvement(*scores)
    beside = references(made, baselines, sure=sure)
    text = conclude(evaluation, made, beside).text
    assert text == snapshot
    is_bad = conclude(evaluation, made, beside).is_bad
    assert ("no weakness" in text.lower()) == (evaluation is DOUBTED and not is_bad)
    assert is_repair(made, beside) == (scores == (500.0, 510.0))


@pytest.mark.parametrize(("braked", "imitates"), [(18, True), (17, False)])
def test_nine_in_ten_steps_of_one_choice_imitate_it(braked: int, imitates: bool) -> None:
    made = taking(improvement(72.0, 762.9), 20 - braked, braked, 0)
    beside = references(made, {BRAKE: 763.0, RANDOM: 50.0})
    assert np.allclose(made.choice_shares, [1 - braked / 20, braked / 20, 0])
    assert (imitated_reference(made, beside) is not None) == imitates
    conclusion = conclude(CONFIRMED, made, beside)
    assert ("only imitates always Brake" in conclusion.text) == imitates
    assert ("only imitate that" in conclusion.headline) == imitates


def test_a_composition_that_beats_a_constant_action_does_not_imitate_it() -> None:
    made = taking(improvement(72.0, 800.0), 1, 19, 0)
    beside = references(made, {BRAKE: 763.0, RANDOM: 50.0})
    assert is_repair(made, beside)
    assert imitated_reference(made, beside) is None
    assert "no better" not in conclude(CONFIRMED, made, beside).text


def test_without_baselines_a_gain_is_a_repair() -> None:
    assert is_repair(improvement(5.0, 9.0))
    assert not is_repair(improvement(500.0))


def test_a_policy_that_never_succeeds(snapshot) -> None:
    made = improvement(72.0, success=0.0)
    text = conclude(DOUBTED, made, references(made, {RANDOM: 10.0})).text
    assert text == snapshot
    assert "beats random play" not in text
    assert "guided or not" in conclude(DOUBTED, improvement(72.0, 80.0, success=0.0)).text
    never = replace(DOUBTED, base=replace(DOUBTED.base, success=0.0, episodes=7))
    assert conclude(never).headline == snapshot


def test_a_policy_whose_endings_show_that_it_never_succeeds(snapshot) -> None:
    """No success is reported, but guided episodes have an ending that is one."""
    made = improvement(-200.0, -165.0)
    late = EndingShare("time limit", "time runs out", Figure(1.0, 0.98, 1.0), Figure(0.0, 0.0, 0.02))
    goal = EndingShare("success", "it reaches the goal", Figure(0.0, 0.0, 0.02), Figure(1.0, 0.98, 1.0))
    same = references(made, {RANDOM: -200.0}, sure=False)
    repaired = conclude(CONFIRMED, made, same, endings=[late, goal])
    assert repaired.text == snapshot
    assert repaired.is_bad
    # A baseline that is better comes before it; a policy that sometimes succeeds is no such policy.
    beaten = references(made, {BRAKE: -120.0})
    assert "worse than always Brake" in conclude(CONFIRMED, made, beaten, endings=[late, goal]).headline
    seldom = replace(goal, base=Figure(0.05, 0.01, 0.1))
    assert "never succeeds" not in conclude(CONFIRMED, made, same, endings=[late, seldom]).text


def test_the_better_way_to_play_comes_first_unless_rules_are_better_still(snapshot) -> None:
    sampled = Reference("the same policy with sampled actions", way="sampled")

    def conclusion(made: Improvement) -> Conclusion:
        return conclude(CONFIRMED, made, references(made, {sampled: 200.0, RANDOM: 10.0}))

    assert conclusion(improvement(140.0, 190.0)).headline == snapshot
    # A way of playing that is better, but bad, is not praised alone.
    made = improvement(140.0, 190.0)
    unsolved = conclude(CONFIRMED, made, references(made, {sampled: 200.0, RANDOM: 10.0}), solved=475.0)
    assert unsolved.headline == snapshot
    beaten = conclude(CONFIRMED, made, references(made, {BRAKE: 210.0, sampled: 200.0}), solved=475.0)
    assert beaten.headline == snapshot
    better = conclusion(improvement(140.0, 490.0))
    assert better.headline.startswith("Four rules raise")
    assert better.sentences[0].startswith("Sampled actions suit")


def test_failures_that_the_time_limit_hides_come_before_no_weakness() -> None:
    hidden = "The limit hides failures."
    made = improvement(500.0)
    told = conclude(DOUBTED, made, references(made, {RANDOM: 22.0}), remarks=[hidden], hidden=hidden)
    assert told.headline == hidden
    assert told.text.count(hidden) == 1
    assert "no weakness is confirmed" in told.sentences[0]
    # A gain, and a bad policy, come first.
    gained = improvement(500.0, 510.0)
    assert conclude(CONFIRMED, gained, remarks=[hidden], hidden=hidden).headline.startswith("Four rules raise")
    bad = conclude(DOUBTED, improvement(72.0, success=0.0), remarks=[hidden], hidden=hidden)
    assert bad.headline.startswith("The policy never succeeds")
    assert bad.sentences[0] == hidden


def test_the_threshold_of_the_environment(snapshot) -> None:
    def conclusion(made: Improvement, solved: float, evaluation=DOUBTED) -> Conclusion:
        return conclude(evaluation, made, references(made, {RANDOM: -200.0}), solved=solved)

    bad = conclusion(improvement(-104.0), 200.0)
    assert bad.headline == snapshot
    assert "no weakness" not in bad.text.lower()
    assert "beats random play" in bad.text
    assert conclusion(improvement(243.0), 200.0).headline == snapshot
    # A repair comes first, whether or not it solves the environment.
    assert conclusion(improvement(72.0, 190.0), 200.0, CONFIRMED).headline.startswith("Four rules raise")


def test_far_from_solved_comes_before_small_gains_and_weak_baselines(snapshot) -> None:
    def headline(made: Improvement, baseline: float) -> str:
        return conclude(CONFIRMED, made, references(made, {BRAKE: baseline}), solved=1000.0).headline

    far = "The policy does not solve the environment"
    assert headline(improvement(100.0, 120.0), -50.0) == snapshot
    assert headline(improvement(100.0, 250.0), -50.0).startswith("Four rules raise")
    assert headline(improvement(100.0), 110.0).startswith(far)
    assert headline(improvement(100.0), 300.0) == snapshot


def test_a_policy_that_often_fails_is_not_introduced_as_one_without_weakness(snapshot) -> None:
    def ending(share: float) -> EndingShare:
        return EndingShare("failure", "it crashes", Figure(share, 0.8 * share, 1.2 * share))

    made = improvement(5.0)
    assert conclude(DOUBTED, made, endings=[ending(0.33)]).text == snapshot
    rare = conclude(DOUBTED, made, endings=[ending(0.04)])
    assert rare.headline.startswith("No weakness")
    assert rare.sentences[0] == snapshot


def test_a_perfect_policy(snapshot) -> None:
    made = improvement(500.0)
    same = replace(made.final_blocks.base, returns=np.full(20, 500.0))
    made = replace(made, final_blocks=PlayedBlocks(made.final_blocks.setup, made.final_blocks.seeds, (same,)))
    unchanged = study(verdict(WALLS, 0.0, confirmed=None, p=0.5))
    assert conclude(unchanged, made, solved=475.0).headline == snapshot


def test_a_bad_policy_that_reaches_the_step_limit() -> None:
    made = improvement(5.0, success=0.0)
    cut = replace(made.final_blocks.base, truncated=np.arange(20) < 15)
    made = replace(made, final_blocks=PlayedBlocks(made.final_blocks.setup, made.final_blocks.seeds, (cut,)))
    assert "The step limit ends 75 % of its episodes" in conclude(DOUBTED, made).text


def test_too_few_changed_episodes_are_not_called_no_gain(snapshot) -> None:
    rare = verdict(WALLS, 1.0, confirmed=False)
    rare = replace(rare, confirmation=replace(rare.confirmation, is_too_rare=True))
    assert conclude(study(rare)).headline == snapshot
    effect = Effect(4.0, 1.0, 2.6, 5.5, 1.0, changed=12, seeds=400)
    check = CompositionCheck(WALLS, effect, 0.01, is_too_rare=True, constraints=(), is_passed=False)
    made = replace(improvement(5.0), check=check)
    assert conclude(DOUBTED, made).sentences[0] == snapshot
    given_up = replace(made, check=replace(check, is_too_rare=False))
    assert "significantly better than the unguided policy" in conclude(DOUBTED, given_up).sentences[0]


@pytest.mark.parametrize("objective", ["median", "cost", "success"])
def test_other_objectives(objective: str, snapshot) -> None:
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
    assert conclude(CONFIRMED, made, References(made.base, (), (entry,))).text == snapshot
