"""Racing: what is skipped is as if it had been played, planted effects are found, and nothing is where nothing is."""

import math
from dataclasses import fields, replace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import mirror_world
from lab.reproduction.random_baselines import random_tests
from legible.engines import LocalProcesses
from legible.environments import EnvironmentSpec
from legible.evaluation import evaluate, play_on_same_seeds
from legible.evaluation.changes import NEVER, first_changes
from legible.evaluation.pairs import PairedPlay
from legible.evaluation.racing import Race, Rung, changes_for_power, is_dropped, is_sure, is_worth_confirming
from legible.evaluation.recorded import STEPS, EpisodeRecord, find_repetition
from legible.evaluation.statistics import standing_of_changed
from legible.evaluation.units import Setup, Unit, UnitResult, record_unit, run_units
from legible.hypotheses import Hypotheses, MeasuredEffect, Trial
from legible.policies import Policy, load_policy
from legible.rules import Condition, Rule, RuleSet, parse_rule
from legible.settings import EvaluationSettings, PlaySettings
from mirror_world import BAD, GOOD, SPACE, USELESS, WORLD, generalised

PLAY = PlaySettings(batch=16, unit_episodes=60)
SETTINGS = EvaluationSettings(race_seeds=400, confirmation_changes=200, confirmation_seeds=800)


SETUP = Setup(mirror_world.policy(), WORLD, (GOOD, USELESS, BAD), PLAY)

PACMAN = EnvironmentSpec("legible/PacmanSmall-v0")


def pacman_policy(kind: str) -> Policy:
    return load_policy(f"zoo:PacmanSmall/{kind}/0")


def pacman_rule_sets(n: int) -> tuple[RuleSet, ...]:
    """Rules that say something about one feature each: some change much, some little, some nothing."""
    rng = np.random.default_rng(0)
    sets = []
    for i in range(n):
        feature, action = int(rng.integers(69)), int(rng.integers(5))
        rule = Rule("+" if i % 3 == 0 else "-", action, (Condition(feature, 0.0, float(rng.integers(1, 4))),))
        sets.append(RuleSet((rule,)))
    return tuple(sets)


def assert_same(first: UnitResult, second: UnitResult) -> None:
    for f in fields(UnitResult):
        np.testing.assert_array_equal(getattr(first, f.name), getattr(second, f.name), err_msg=f.name)


def paired_play(setup: Setup, seeds: int, run=run_units) -> PairedPlay:
    repetition = find_repetition(setup, 0, "racing", run)
    assert repetition.holds
    record = EpisodeRecord(replace(setup, rows=repetition.rows), 0, "racing", seeds, run)
    return PairedPlay(setup, repetition, record, run)


WAYS = [
    ("dqn", {}),
    ("dqn", {"epsilon": 0.1}),
    ("dqn", {"epsilon": 0.2, "epsilon_when_guided": False}),
    ("dqn", {"precedence": "negative", "cost": "", "step_limit": 40}),
    ("ppo", {"sample": True}),
    ("ppo", {"sample": True, "epsilon": 0.1, "epsilon_when_guided": False}),
]


@pytest.mark.parametrize(("kind", "options"), WAYS)
def test_skipping_and_branching_give_the_bits_of_whole_episodes(kind: str, options: dict) -> None:
    sets = pacman_rule_sets(6)
    setup = Setup(pacman_policy(kind), PACMAN, sets, PlaySettings(batch=64, unit_episodes=300, **options))
    play = paired_play(setup, 40)
    for rule_set in sets:
        play.add(rule_set)
    play.play_seeds(dict.fromkeys(range(len(sets)), 40))
    whole = play_on_same_seeds(replace(setup, rows=play.setup.rows), play.record.seeds.tolist(), run_units)
    skipped = 0
    for number in range(len(sets)):
        pairs = play.pairs(number, 40)
        assert_same(pairs.guided, whole.guided(number))
        assert_same(pairs.base, whole.base)
        np.testing.assert_array_equal(pairs.changed, whole.guided(number).changed > 0)
        skipped += int((~pairs.changed).sum())
        assert play.steps(number) <= whole.guided(number).lengths.sum()
    assert 0 < skipped < 40 * len(sets)
    # From the first change on, and no step before it.
    assert sum(play.steps(n) for n in range(len(sets))) < sum(
        int(whole.guided(n).lengths[play.pairs(n, 40).changed].sum()) for n in range(len(sets))
    )


@pytest.mark.parametrize(("kind", "options"), WAYS[1:4])
def test_skipping_and_branching_from_guided_episodes_give_the_bits_of_whole_ones(kind: str, options: dict) -> None:
    """Skipping and branching from episodes that are guided already, and counting what was changed before."""
    first, *others = pacman_rule_sets(5)
    sets = (first, *(first | other for other in others))
    setup = Setup(pacman_policy(kind), PACMAN, sets, PlaySettings(batch=64, unit_episodes=300, **options), rows=128)
    repetition = find_repetition(setup, 0, "racing", run_units)
    play = PairedPlay(setup, repetition, EpisodeRecord(setup, 0, "racing", 40, run_units, treatment=first), run_units)
    numbers = [play.add(rule_set) for rule_set in sets]
    play.play_seeds(dict.fromkeys(numbers, 40))
    whole = play_on_same_seeds(setup, play.record.seeds.tolist(), run_units)
    assert_same(play.record.result, whole.guided(0))
    for number in numbers:
        assert_same(play.pairs(number, 40).guided, whole.guided(number))
    assert not play.pairs(0, 40).changed.any()
    assert play.steps(0) == 0
    assert whole.guided(0).changed.sum() > 0
    assert 0 < sum(play.steps(n) for n in numbers) < sum(int(whole.guided(n).lengths.sum()) for n in numbers) / 2


def test_the_first_change_is_where_the_actions_part() -> None:
    sets = pacman_rule_sets(6)
    setup = Setup(pacman_policy("dqn"), PACMAN, sets, PlaySettings(batch=64, epsilon=0.1), rows=128)
    seeds = tuple(range(100, 120))
    unguided = run_units(replace(setup, treatments=()), [Unit((-1,) * 20, seeds)], kept=STEPS)
    first, fired, _ = first_changes(setup, unguided, seeds)
    alone, _ = record_unit(replace(setup, treatments=()), Unit((-1,) * 20, seeds))
    for number in range(len(sets)):
        guided, result = record_unit(setup, Unit((number,) * 20, seeds))
        for episode, (one, two) in enumerate(zip(alone, guided, strict=True)):
            shared = min(len(one.actions), len(two.actions))
            parted = np.flatnonzero(one.actions[:shared] != two.actions[:shared])
            assert first[number, episode] == (parted[0] if parted.size else NEVER)
            if not parted.size:
                assert fired[number, episode] == result.fired[episode]


def test_environments_without_a_native_batch_and_other_treatments_skip_too() -> None:
    tests = tuple(random_tests(3, 4, enforce=True, seed=1))
    for treatments in ((GOOD, USELESS, BAD), tests):
        setup = replace(SETUP, treatments=treatments)
        play = paired_play(setup, 60)
        numbers = [play.add(treatment) for treatment in treatments]
        play.play_seeds(dict.fromkeys(numbers, 60))
        whole = play_on_same_seeds(replace(setup, rows=play.setup.rows), play.record.seeds.tolist(), run_units)
        for number in numbers:
            assert_same(play.pairs(number, 60).guided, whole.guided(number))


def test_changed_episodes_are_counted_and_no_more_seeds_are_used_than_hold_them() -> None:
    play = paired_play(SETUP, 400)
    good, useless = play.add(GOOD), play.add(USELESS)
    play.play_changes({good: 24, useless: 24})
    seeds = play.seeds_for(good, 24)
    pairs = play.pairs(good, seeds)
    assert pairs.changed.sum() == 24
    assert pairs.changed[-1]
    assert play.changes(useless) == (0, 400)
    assert play.steps(useless) == 0
    assert play.pairs(useless, 400).guided.returns.tolist() == play.record.result.returns.tolist()


# ---- the race ------------------------------------------------------------------------------------------------------


def test_a_trial_tells_the_share_of_changed_actions() -> None:
    play = paired_play(SETUP, 60)
    (bad,) = Race(play, SETTINGS).explore(Trial([BAD], 10, 60))
    guided = play.pairs(0, bad.seeds or 0).guided
    assert bad.changed is not None
    assert 10 <= bad.changed <= len(guided)
    assert 0.0 < bad.share < 1.0
    assert bad.share == guided.changed.sum() / guided.lengths.sum()


def test_a_planted_effect_is_found_and_put_down_to_generalisation() -> None:
    evaluation = evaluate(SETUP, seed=0, settings=SETTINGS)
    good, useless, bad = evaluation.verdicts
    assert (good.is_weakness, good.is_confirmed, good.is_harmful) == (True, True, False)
    assert (useless.is_weakness, useless.p, useless.p_harm, useless.changed_episodes) == (False, 1.0, 1.0, 0)
    assert (bad.is_weakness, bad.is_harmful) == (False, True)
    assert evaluation.confirmed == (good,)
    effect = good.confirmation.effect
    assert effect.low > 5.0
    assert (effect.changed, good.confirmation.is_too_rare) == (200, False)
    assert 0 < effect.detectable < effect.mean
    assert good.confirmation.of_rule.mean == 0.0
    assert good.confirmation.of_rule.p == 1.0
    assert good.confirmation.of_generalisation.mean == pytest.approx(effect.mean)
    assert evaluation.steps == evaluation.unguided_steps + good.steps + useless.steps + bad.steps
    assert useless.steps == 0
    blocks = evaluation.confirmation_blocks
    base, guided = blocks.pair(0)
    assert len(base) == len(guided) == effect.seeds
    assert effect.mean == pytest.approx((guided.returns - base.returns).mean())
    recorded = blocks.record(0, 3)
    assert (recorded.seed, recorded.rewards.sum()) == (blocks.seeds[3], pytest.approx(guided.returns[3]))
    row = evaluation.to_rows(SPACE)[0]
    assert (row["changed_on_fresh_seeds"], row["too_rare"]) == (200, False)


class Coin(gymnasium.Env[np.ndarray, np.int64]):
    """What is done decides which of two coins is tossed; both are the same, so that nothing is to be gained."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: object = None):  # noqa: ARG002
        super().reset(seed=seed)
        self.steps = 0
        self.coins = self.np_random.normal(size=(2, 4))
        return self.np_random.integers(0, 2, 2).astype(np.float32), {}

    def step(self, action: np.int64):
        reward = float(self.coins[int(action), self.steps])
        self.steps += 1
        return self.np_random.integers(0, 2, 2).astype(np.float32), reward, self.steps >= 4, False, {}


def test_nothing_is_found_where_there_is_nothing() -> None:
    policy = load_policy(lambda o: np.tile([0.0, 1.0], (len(o), 1)), output="values", n_features=2, n_actions=2)
    sets = tuple(RuleSet((Rule("-", 1, (Condition.equals(i % 2, i // 2),)),)) for i in range(4))
    setup = Setup(policy, EnvironmentSpec("evaluation.test_racing:Coin"), sets, PlaySettings(batch=64))
    settings = EvaluationSettings(rungs=3, race_seeds=200, confirmation_changes=200, confirmation_seeds=400)
    studies = [evaluate(setup, seed=seed, settings=settings) for seed in range(12)]
    assert sum(len(study.confirmed) for study in studies) <= 1
    assert sum(len(study.weaknesses) for study in studies) < 12 * 4 / 3
    assert all(verdict.changed_episodes for study in studies for verdict in study.verdicts)


def test_rule_sets_that_are_too_rare_have_an_effect_but_are_not_confirmed() -> None:
    rare = RuleSet((parse_rule("+Left <- left & luck > 2.5", SPACE), *GOOD.rules[1:]))
    few = replace(SETTINGS, confirmation_seeds=300)
    verdict = evaluate(replace(SETUP, treatments=(rare,)), seed=0, settings=few).verdicts[0]
    assert verdict.confirmation.is_too_rare
    assert not verdict.is_confirmed
    assert (verdict.confirmation.effect.p, verdict.confirmation.q) == (1.0, 1.0)
    assert verdict.confirmation.effect.mean > 5.0
    assert verdict.confirmation.effect.changed < 200


def test_equal_rule_sets_are_tested_once_for_all_sources() -> None:
    mirrored = generalised("+Left <- left")  # the same two rules, from the other side
    assert set(mirrored.rules) == set(GOOD.rules)
    effects: dict[str, list[MeasuredEffect]] = {}

    def source(name: str, *rule_sets: RuleSet) -> Hypotheses:
        effects[name] = list((yield list(rule_sets)))

    sources = {"one": source("one", GOOD, USELESS), "two": source("two", mirrored, GOOD)}
    evaluation = evaluate(replace(SETUP, treatments=()), seed=0, settings=SETTINGS, sources=sources)
    assert [verdict.treatment for verdict in evaluation.verdicts] == [GOOD, USELESS]
    assert [verdict.found_by for verdict in evaluation.verdicts] == ["one, two", "one"]
    assert evaluation.verdicts[0].equal_sources == (mirrored.source,)
    assert effects["one"][0] == effects["two"][0] == effects["two"][1]
    effect = effects["one"][0]
    assert (effect.changed, effect.mean) == (24, pytest.approx(evaluation.verdicts[0].difference))
    assert effect.steps > 0


def test_a_race_does_not_depend_on_what_else_is_in_it() -> None:
    together = evaluate(SETUP, seed=3, settings=SETTINGS, confirm=False)
    alone = evaluate(replace(SETUP, treatments=(BAD,)), seed=3, settings=SETTINGS, confirm=False)
    for name in ("sample", "difference", "p", "is_weakness", "changed_episodes", "steps"):
        assert getattr(together.verdicts[2], name) == getattr(alone.verdicts[0], name)


@pytest.mark.slow
def test_workers_and_a_store_give_the_same_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = (*pacman_rule_sets(5), RuleSet(()))
    setup = Setup(pacman_policy("dqn"), PACMAN, sets, PlaySettings(batch=64, unit_episodes=300))
    settings = EvaluationSettings(rungs=2, race_seeds=100, confirmation_changes=0)
    here = evaluate(setup, seed=0, settings=settings)
    stores: dict[str, dict] = {"units": {}, "unguided": {}}

    def run(setup, units, *, kept=None, **options):
        more = {"kept": kept} if kept is not None else {}
        name = "units" if kept is None else kept.name
        return run_units(setup, units, engine=engine, store=stores[name], **more, **options)

    with LocalProcesses(2) as engine:
        there = evaluate(setup, seed=0, settings=settings, run=run)
    assert there == here
    monkeypatch.setattr(engine, "run", lambda *_, **__: iter(()))  # nothing is played again
    again = evaluate(setup, seed=0, settings=settings, run=run)
    assert again == here


class Moody(Coin):
    """An environment that does not do as its seed says."""

    def reset(self, *, seed: int | None = None, options: object = None):  # noqa: ARG002  # noqa: ARG002
        return super().reset(seed=int(np.random.randint(2**30)))  # noqa: NPY002


def test_all_episodes_are_played_if_seeds_do_not_repeat() -> None:
    policy = load_policy(lambda o: np.tile([0.0, 1.0], (len(o), 1)), output="values", n_features=2, n_actions=2)
    never = RuleSet((Rule("-", 1, (Condition(0, 5.0, 6.0),)),))
    setup = Setup(policy, EnvironmentSpec("evaluation.test_racing:Moody"), (never,), PlaySettings(batch=8))
    assert not find_repetition(setup, 0, "racing", run_units).holds
    settings = EvaluationSettings(rungs=1, race_seeds=30, confirmation_changes=0)
    verdict = evaluate(setup, seed=0, settings=settings).verdicts[0]
    assert (verdict.changed_episodes, verdict.sample.episodes) == (24, 24)
    assert verdict.difference != 0.0


class Crowd:
    """A policy whose scores depend on how many rows are asked about, as matrix products may in the last bit."""

    n_actions, n_features, kind = 2, 2, "values"

    def scores(self, observations: np.ndarray) -> np.ndarray:
        place = np.arange(len(observations)) / 1000
        return np.stack([observations[:, 0] + place, np.full(len(observations), 0.5)], axis=1)


def test_a_policy_whose_scores_depend_on_the_row_is_asked_about_one_row_at_a_time() -> None:
    setup = Setup(Crowd(), EnvironmentSpec("evaluation.test_racing:Coin"), (), PlaySettings(batch=8))
    repetition = find_repetition(setup, 0, "racing", run_units)
    assert (repetition.holds, repetition.rows) == (True, 1)


# ---- rungs ---------------------------------------------------------------------------------------------------------


def test_thresholds_of_rungs() -> None:
    assert is_dropped(Rung(24, 24, -0.5), 384)
    assert not is_dropped(Rung(24, 24, 0.0), 384)
    assert is_dropped(Rung(384, 384, 1.4), 384)
    assert not is_dropped(Rung(384, 384, 1.6), 384)
    assert not is_dropped(Rung(96, 96, 2.2 / 2 - 0.7), 384)  # on the line
    assert is_sure(Rung(24, 24, 3.3))
    assert not is_sure(Rung(24, 24, 3.3 - 0.01))
    assert is_sure(Rung(24, 8, 3.3))
    assert not is_sure(Rung(24, 7, 3.3))


def test_rare_rule_sets_must_do_better_to_be_confirmed() -> None:
    settings = EvaluationSettings(confirmation_changes=500, confirmation_seeds=4000)
    # 200 changes in 250 seeds are cheap: the line is that of the race, 2.2 - 0.7.
    assert is_worth_confirming(1.51, 0.8, settings)
    assert not is_worth_confirming(1.4, 1.0, settings)
    # 1,000 seeds are two doublings more.
    assert is_worth_confirming(2.51, 0.2, settings)
    assert not is_worth_confirming(2.4, 0.2, settings)
    # More than all seeds cannot be needed: four doublings.
    assert is_worth_confirming(3.51, 0.0, settings)
    assert is_worth_confirming(3.51, 0.01, settings)
    assert not is_worth_confirming(3.4, 0.01, settings)
    assert is_worth_confirming(1.5, 0.01, replace(settings, confirmation_changes=0))


def test_standard_errors_by_hand() -> None:
    assert standing_of_changed(np.array([1.0, 3.0]), 10).z == pytest.approx(2.0)
    assert standing_of_changed(np.array([1.0, 3.0]), 10).difference == pytest.approx(0.4)
    assert standing_of_changed(np.array([4.0]), 10).z == -np.inf
    assert standing_of_changed(np.zeros(5), 10).z == 0.0
    assert standing_of_changed(np.ones(5), 10).z == np.inf
    assert standing_of_changed(np.array([-1.0, 1.0]), 10).p == 0.5
    assert standing_of_changed(np.empty(0), 10).p == 1.0
    assert standing_of_changed(np.ones(5), 10).p == 0.0
    assert standing_of_changed(np.ones(4), 10, invented_loss=4.0).z == 0.0


def test_changes_for_power_by_hand() -> None:
    """With normal differences: (z of the level + z of the power) standard errors; errors fall with the root."""
    wanted = 1.6448536 + 0.8416212
    assert changes_for_power(100, 1.0, 1.0, 1, 0.05) == math.ceil(100 * wanted**2)
    assert changes_for_power(100, 2.0, 1.0, 1, 0.05) == math.ceil(25 * wanted**2)
    assert changes_for_power(100, 1.0, 1.0, 5, 0.25) == math.ceil(100 * wanted**2)  # a fifth of the level each
    assert changes_for_power(100, 0.0, 1.0, 1, 0.05) == changes_for_power(100, -1.0, 1.0, 1, 0.05) == 0
