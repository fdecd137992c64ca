"""Step 3 and Algorithm 2 on a world whose best repair is known, and on one in which nothing matters."""

from dataclasses import replace

import numpy as np
import pytest

import lab.reproduction.baselines  # noqa: F401 (declares the stages of the baselines)
import mirror_world
from lab.reproduction.random_baselines import REGIONS, RandomTest, random_rule_sets, random_tests, region_of
from legible.engines import UnitFailedError
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import PlayedBlocks, evaluate, play_blocks, play_on_same_seeds
from legible.evaluation.statistics import benjamini_hochberg, paired, welch
from legible.evaluation.units import Setup, Unit, UnitResult, cut_into_units, play_unit, record_episode, run_units
from legible.features import deciles
from legible.guidance import GuidedPolicy
from legible.improvement import improve
from legible.mining import mine
from legible.play import STAGE_EPISODES, STAGES, collect, replay, stage_seeds
from legible.policies import load_policy
from legible.relations import generalise_all, share_cuts
from legible.rules import Condition, Rule, RuleSet, parse_rule
from legible.settings import EvaluationSettings, ImprovementSettings, PlaySettings
from mirror_world import BAD, GOOD, SPACE, USELESS, WORLD, generalised

PLAY = PlaySettings(batch=16, unit_episodes=100)
SETTINGS = EvaluationSettings(method="paper", episodes=60, confirmation_episodes=80)


SETUP = Setup(mirror_world.policy(), WORLD, (GOOD, USELESS, BAD), PLAY)


def test_the_planted_weakness_is_found_confirmed_and_put_down_to_generalisation() -> None:
    evaluation = evaluate(SETUP, seed=0, settings=SETTINGS)
    good, useless, bad = evaluation.verdicts
    assert (good.is_weakness, good.is_confirmed, good.is_harmful) == (True, True, False)
    assert (bad.is_weakness, bad.is_harmful) == (False, True)
    assert not useless.is_confirmed
    assert not useless.is_harmful
    assert evaluation.confirmed == (good,)
    assert evaluation.harmful == (bad,)
    assert evaluation.share("confirmed") == pytest.approx(1 / 3)
    confirmation = good.confirmation
    assert confirmation.effect.low > 5.0
    # The mined rule alone is what the policy does anyway: all of the gain is its mirror image.
    assert confirmation.of_rule.mean == 0.0
    assert confirmation.of_generalisation.mean == pytest.approx(confirmation.effect.mean)
    assert good.sample.success == 1.0
    assert good.sample.fired == 1.0
    assert 0.2 < good.sample.changed < 0.8
    assert evaluation.base.success < 0.8
    rows = evaluation.to_rows(SPACE)
    assert rows[0]["rule"] == "+Right <- right"
    assert rows[0]["confirmed"] is True


def test_screening_by_hand() -> None:
    """Welch on disjoint seeds: the same figures from plain loops over the environment."""
    evaluation = evaluate(replace(SETUP, treatments=(GOOD,)), seed=4, settings=SETTINGS, confirm=False)
    base = plain_loop(stage_seeds(4, "screening", 0, 60), ())
    guided = plain_loop(stage_seeds(4, "screening", 60, 60), GOOD.rules)
    assert evaluation.base.mean == pytest.approx(np.mean(base))
    assert evaluation.verdicts[0].sample.mean == pytest.approx(np.mean(guided))
    assert evaluation.verdicts[0].p == pytest.approx(welch(guided, base))


def plain_loop(seeds: list[int], rules: tuple[Rule, ...]) -> list[float]:
    """Algorithm 1 as a plain loop: one environment, rules checked one by one."""
    env = mirror_world.MirrorWorld()
    returns = []
    for seed in seeds:
        state, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            triggered = [r for r in rules if all(c.low < state[c.feature] <= c.high for c in r.conditions)]
            positive = {r.action for r in triggered if r.polarity == "+"}
            q = mirror_world.scores(state[None])[0]
            for r in triggered:
                if r.polarity == "-":
                    q[r.action] = -np.inf
            action = positive.pop() if len(positive) == 1 else int(np.argmax(q))
            state, reward, terminated, truncated, _ = env.step(np.int64(action))
            total += reward
            over = terminated or truncated
        returns.append(total)
    return returns


def algorithm_2(candidates: list[RuleSet], seeds: list[int]) -> tuple[list[RuleSet], RuleSet]:
    """The paper's Algorithm 2, line by line, over plain loops."""
    best = float(np.mean(plain_loop(seeds, ())))
    composed: list[Rule] = []
    accepted = []
    for rule_set in candidates:
        trial = composed + [rule for rule in rule_set.rules if rule not in composed]
        mean = float(np.mean(plain_loop(seeds, tuple(trial))))
        if mean > best:
            composed, best = trial, mean
            accepted.append(rule_set)
    return accepted, RuleSet(tuple(composed))


def test_algorithm_2_against_its_pseudocode() -> None:
    sets = (
        generalised("-Left <- right"),
        GOOD,
        generalised("-Right <- wall.right"),
        RuleSet((parse_rule("+Left <- left & luck > 0", SPACE),)),
        RuleSet((parse_rule("-Right <- left", SPACE),)),
    )
    # Everything counts as a weakness here, so that the loop has something to refuse.
    evaluation = evaluate(replace(SETUP, treatments=sets), seed=1, settings=SETTINGS, confirm=False)
    everything = replace(
        evaluation, verdicts=tuple(replace(verdict, is_weakness=True) for verdict in evaluation.verdicts)
    )
    settings = ImprovementSettings(episodes=40, final_episodes=40, most_candidates=0)
    found = improve(SETUP, everything, seed=1, settings=settings)
    accepted, composed = algorithm_2(list(sets), stage_seeds(1, "composition", 0, 40))
    assert list(found.rule_sets) == accepted
    assert found.composition == composed
    assert [step.rule_set for step in found.steps] == list(sets)
    assert sum(step.accepted for step in found.steps) == len(accepted)


def test_the_composed_policy_reaches_the_optimum() -> None:
    evaluation = evaluate(SETUP, seed=0, settings=SETTINGS)
    settings = ImprovementSettings(episodes=60, final_episodes=200)
    found = improve(SETUP, evaluation, seed=0, settings=settings)
    assert found.rule_sets == (GOOD,)
    best = play_blocks(
        Setup(mirror_world.best_policy(), WORLD, (), PLAY), [(-1, stage_seeds(0, "final", 0, 200))], run_units
    )[0]
    assert found.guided.mean == pytest.approx(best.returns.mean())
    assert found.effect.low > 0
    assert found.base.success < found.guided.success == 1.0


@pytest.mark.slow
def test_mined_rules_find_the_planted_weakness_from_end_to_end() -> None:
    policy, relations = mirror_world.policy(), mirror_world.mirror()
    seen = collect(policy, WORLD, 100, seed=0)
    intervals = share_cuts(deciles(SPACE, seen.observations), SPACE, relations)
    mining = mine(policy, seen, seed=0, intervals=intervals)
    sets = tuple(g for g in generalise_all([m.rule for m in mining.rules], relations) if g.rules)
    evaluation = evaluate(replace(SETUP, treatments=sets), seed=0, settings=SETTINGS)
    assert evaluation.confirmed
    # The rules that were planted: with the goal on the right the policy avoids Left, so it should avoid Right on the
    # left.
    planted = {parse_rule(text, SPACE) for text in ("-Right <- left", "-Right <- not right")}  # they say the same
    assert any(said.contains(rule) for said in planted for rule in evaluation.confirmed[0].rule_set.rules)
    found = improve(SETUP, evaluation, seed=0, settings=ImprovementSettings(episodes=60, final_episodes=100))
    assert found.guided.success == 1.0
    guided = GuidedPolicy(policy, found.composition, SPACE)
    assert guided.predict(np.array([1.0, 0, 0, 0, 0]))[0] != mirror_world.RIGHT


def test_a_vetoed_rule_is_not_composed() -> None:
    evaluation = evaluate(SETUP, seed=0, settings=SETTINGS)
    for vetoed in GOOD.rules:
        found = improve(
            SETUP, evaluation, seed=0, settings=ImprovementSettings(episodes=20, final_episodes=20), veto=[vetoed]
        )
        assert found.rule_sets == ()
        assert len(found.composition) == 0
        assert found.effect.mean == 0.0


# ---- no false alarms ---------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_no_false_alarms_beyond_alpha_in_300_studies() -> None:
    """Whole studies of a policy whose return no rule can change: 5 % pass the plain test, hardly any the others."""
    policy = load_policy(lambda o: np.tile([0.0, 1.0, 2.0], (len(o), 1)), output="values", n_features=3, n_actions=3)
    sets = tuple(RuleSet((Rule("-", 2, (Condition.equals(i % 3, i % 2),)),)) for i in range(6))
    setup = Setup(policy, EnvironmentSpec("mirror_world:Blind"), sets, PlaySettings(batch=70, unit_episodes=10_000))
    settings = EvaluationSettings(method="paper", episodes=30, confirmation_episodes=10)
    studies = [evaluate(setup, seed=seed, settings=settings) for seed in range(300)]
    plain = np.array([study.share() for study in studies])
    assert abs(plain.mean() - 0.05) < 3 * plain.std() / np.sqrt(300)
    assert plain.std() > 0
    some_significant = np.mean([study.share("significant") > 0 for study in studies])
    assert some_significant < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)
    for study in studies:
        assert study.confirmed == ()
        for candidate in study.weaknesses:  # the same seeds give the same returns, guided or not
            assert candidate.confirmation.effect.mean == 0.0
            assert 0.2 < candidate.sample.changed < 0.8


@pytest.mark.statistical
def test_confirmation_keeps_its_promise_where_pairs_differ() -> None:
    """Candidates that were picked by chance, on fresh returns that do vary: confirmed in at most 5 % of studies."""
    rng = np.random.default_rng(0)
    confirmed = []
    for _ in range(1000):
        base, others = rng.normal(size=60), rng.normal(size=(20, 60))
        picked = [other for other in others if welch(other, base) < 0.05]
        fresh = rng.normal(size=60)
        again = [paired(fresh + rng.normal(size=60), fresh).p for _ in picked]
        confirmed.append(bool(again) and bool((benjamini_hochberg(again) < 0.05).any()))
    assert np.mean(confirmed) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)
    assert np.mean(confirmed) > 0


# ---- units and stages ----------------------------------------------------------------------------------------------


def test_stages_never_share_a_seed() -> None:
    stages = sorted(STAGES, key=lambda name: STAGES[name].block)
    assert stages[:7] == [
        "experiences",
        "screening",
        "confirmation",
        "composition",
        "final",
        "random tests",
        "random rules",
    ]
    ends = [stage_seeds(3, stage, first, 1)[0] for stage in stages for first in (0, STAGE_EPISODES - 1)]
    assert ends == sorted(ends)
    assert len(set(ends)) == len(ends)
    with pytest.raises(LegibleError, match="more than a stage holds"):
        stage_seeds(0, "final", STAGE_EPISODES, 1)


def test_units_are_cut_in_order_and_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    units = cut_into_units([0, 0, 1, 1, -1], [10, 11, 12, 13, 14], 2)
    assert units == [Unit((0, 0), (10, 11)), Unit((1, 1), (12, 13)), Unit((-1,), (14,))]
    store: dict[str, UnitResult] = {}
    reported: list[int] = []
    first = run_units(SETUP, units, store=store, on_episodes=reported.append)
    assert len(store) == 3
    assert sum(reported) == 5
    import legible.evaluation.units as module

    monkeypatch.setattr(module, "play_in_slots", None)  # nothing is played again
    again = run_units(SETUP, units, store=store)
    np.testing.assert_array_equal(first.returns, again.returns)


def test_keys_tell_apart_all_that_matters_and_nothing_else() -> None:
    from legible.evaluation.units import unit_key

    unit = Unit((0,), (1,))
    key = unit_key(SETUP, unit, "f")
    assert key == unit_key(replace(SETUP, treatments=(GOOD,)), unit, "f")
    assert key == unit_key(replace(SETUP, treatments=(USELESS, RuleSet(GOOD.rules))), Unit((1,), (1,)), "f")
    others = [
        unit_key(SETUP, Unit((1,), (1,)), "f"),
        unit_key(SETUP, Unit((0,), (2,)), "f"),
        unit_key(SETUP, Unit((-1,), (1,)), "f"),
        unit_key(SETUP, unit, "g"),
        unit_key(replace(SETUP, play=replace(PLAY, epsilon=0.1)), unit, "f"),
        unit_key(replace(SETUP, play=replace(PLAY, batch=8)), unit, "f"),
    ]
    assert len({key, *others}) == len(others) + 1


def test_a_unit_gives_the_same_bits_alone_and_among_others() -> None:
    units = cut_into_units([0] * 30 + [-1] * 30, stage_seeds(0, "screening", 0, 60), 30)
    together = run_units(SETUP, units)
    alone = play_unit(SETUP, units[1])
    np.testing.assert_array_equal(together.returns[30:], alone.returns)


class Broken(mirror_world.MirrorWorld):
    def step(self, action: np.int64):  # noqa: ARG002
        raise RuntimeError("the motor is on fire")


def test_a_broken_environment_is_reported_with_its_own_error_and_the_rest_is_kept(raises_saved) -> None:
    store: dict[str, UnitResult] = {}
    good = run_units(SETUP, [Unit((0,), (1,))], store=store)
    assert len(good) == 1
    setup = replace(SETUP, environment=EnvironmentSpec("evaluation.test_evaluation:Broken"))
    with raises_saved(UnitFailedError):
        run_units(setup, [Unit((0,), (1,))], store=store)
    assert len(store) == 3  # that the unit failed, and what came of its episode, so that neither is tried again


def test_a_cost_that_the_user_names_is_added_up(raises_saved) -> None:
    setup = replace(SETUP, treatments=(GOOD,), play=replace(PLAY, cost="bumps"))
    evaluation = evaluate(setup, seed=0, settings=SETTINGS, confirm=False)
    assert evaluation.verdicts[0].sample.cost == 0.0  # with the goal in sight the policy never bumps into a wall
    push = RuleSet((parse_rule("+Right <- luck > -99", SPACE),))
    worse = evaluate(replace(setup, treatments=(push,)), seed=0, settings=SETTINGS, confirm=False)
    # With the goal on the left (half of the episodes), four steps to the wall and twelve into it.
    assert worse.verdicts[0].sample.cost == pytest.approx(12 * (1 - worse.verdicts[0].sample.success))
    assert worse.to_rows(SPACE)[0]["cost"] > 0
    with raises_saved(UnitFailedError):
        evaluate(replace(setup, play=replace(PLAY, cost="bumbs")), seed=0, settings=SETTINGS, confirm=False)


def test_a_recorded_episode_is_the_one_that_was_played_and_replays() -> None:
    unit = Unit((0,) * 40 + (-1,) * 20, tuple(stage_seeds(0, "screening", 0, 60)))
    result = play_unit(SETUP, unit)
    for episode in (3, 57):
        recording = record_episode(SETUP, unit, episode)
        assert recording.seed == unit.seeds[episode]
        assert len(recording.actions) == result.lengths[episode]
        assert recording.rewards.sum() == pytest.approx(result.returns[episode])
        assert (recording.actions != recording.wanted).sum() == result.changed[episode]
        steps = list(replay(mirror_world.MirrorWorld(), recording))
        assert [reward for _, reward in steps[1:]] == recording.rewards.tolist()
        np.testing.assert_array_equal([seen for seen, _ in steps[:-1]], recording.observations)


def test_a_policy_that_gives_probabilities_gets_a_note() -> None:
    policy = load_policy(mirror_world.scores, output="logits", n_features=5, n_actions=3)
    setup = Setup(policy, WORLD, (GOOD,), replace(PLAY, sample=True))
    evaluation = evaluate(setup, seed=0, settings=replace(SETTINGS, episodes=20), confirm=False)
    assert "may help this policy little" in evaluation.notes[0]
    assert evaluate(replace(SETUP, treatments=()), seed=0, settings=SETTINGS).notes == ()


# ---- baselines -----------------------------------------------------------------------------------------------------


def test_regions_are_about_a_percent_each_and_fixed() -> None:
    rows = np.random.default_rng(0).normal(size=(20_000, 4)).astype(np.float32)
    regions = np.array([region_of(row, np.uint64(7)) for row in rows])
    counts = np.bincount(regions, minlength=REGIONS)
    assert counts.size == REGIONS
    assert ((counts - 200) ** 2 / 200).sum() < 149  # χ² with 99 degrees of freedom, p = 0.001
    np.testing.assert_array_equal(regions[:50], [region_of(row, np.uint64(7)) for row in rows[:50]])
    other = np.array([region_of(row, np.uint64(8)) for row in rows[:2000]])
    assert (other == regions[:2000]).mean() < 0.03
    assert region_of(np.array([0.0], np.float32), np.uint64(1)) == region_of(np.array([-0.0], np.float32), np.uint64(1))


@pytest.mark.parametrize("enforce", [True, False])
def test_a_random_test_changes_just_its_regions(enforce: bool) -> None:
    q = np.array([3.0, 2.0, 1.0])
    policy = load_policy(lambda o: np.tile(q, (len(o), 1)), output="values", n_features=4, n_actions=3)
    test = RandomTest((5, 17, 80), (0, 2, 1), enforce, salt=3)
    rows = np.random.default_rng(1).normal(size=(5000, 4)).astype(np.float32)
    setup = Setup(policy, WORLD, (test,), PLAY)
    n = len(rows)
    chooser = setup.chooser(np.zeros(n, np.int64), list(range(n)))
    actions, _ = chooser(rows, np.arange(n), np.zeros(n, np.int64))
    for row, action in zip(rows, actions, strict=True):
        region = region_of(row, np.uint64(3))
        change = dict(zip(test.regions, test.actions, strict=True)).get(region)
        if change is None:
            assert action == 0
        elif enforce:
            assert action == change
        else:
            assert action == (1 if change == 0 else 0)
    assert 0.02 < chooser.fired.mean() < 0.04


def test_random_tests_are_drawn_from_the_seed() -> None:
    tests = random_tests(5, 100, enforce=True, seed=1)
    assert tests == random_tests(5, 100, enforce=True, seed=1)
    assert tests != random_tests(5, 100, enforce=True, seed=2)
    assert len(set(tests)) == 100
    for test in tests:
        assert len(set(test.regions)) == 3
        assert max(test.regions) < REGIONS
        assert max(test.actions) < 5
    with pytest.raises(LegibleError, match="changes"):
        random_tests(5, 1, enforce=True, seed=0, changes=0)


def test_random_tests_are_evaluated_like_rule_sets() -> None:
    tests = tuple(random_tests(3, 6, enforce=False, seed=0))
    evaluation = evaluate(
        replace(SETUP, treatments=tests), seed=0, settings=SETTINGS, stage="random tests", confirm=False
    )
    assert len(evaluation.verdicts) == 6
    assert all(0.0 < v.sample.fired < 0.1 for v in evaluation.verdicts)


def test_random_rules_look_like_the_mined_ones() -> None:
    mined = [
        parse_rule("+Left <- left & luck > 0", SPACE),
        parse_rule("+Left <- left", SPACE),
        parse_rule("-Right <- 0 < luck <= 1 & right & wall.left", SPACE),
        parse_rule("-Right <- right", SPACE),
    ]
    sizes = [RuleSet(tuple(mined[:2])), RuleSet(tuple(mined[:1]))]
    sets = random_rule_sets(mined, sizes, 3, 4000, seed=0)
    assert sets == random_rule_sets(mined, sizes, 3, 4000, seed=0)
    known = {condition for rule in mined for condition in rule.conditions}
    for rule_set in sets:
        assert len(rule_set) in {1, 2}
        assert len({rule.polarity for rule in rule_set.rules}) == 1
        assert len({len(rule) for rule in rule_set.rules}) == 1
        for rule in rule_set.rules:
            assert set(rule.conditions) <= known
    lengths = np.bincount([len(s.rules[0]) for s in sets]) / len(sets)
    np.testing.assert_allclose(lengths[1:], [0.5, 0.25, 0.25], atol=0.03)
    assert abs(np.mean([s.rules[0].polarity == "+" for s in sets]) - 0.5) < 0.03
    assert abs(np.mean([len(s) for s in sets]) - 1.5) < 0.05
    actions = np.bincount([rule.action for s in sets for rule in s.rules])
    np.testing.assert_allclose(actions / actions.sum(), 1 / 3, atol=0.03)
    with pytest.raises(LegibleError, match="there are none"):
        random_rule_sets([], sizes, 3, 1, seed=0)


# ---- episodes of blocks, played again --------------------------------------------------------------------------------

SMALL = replace(SETUP, treatments=(GOOD, BAD), play=PlaySettings(batch=4, unit_episodes=3))


@pytest.mark.parametrize(
    ("treatment", "episode", "treatments", "seeds", "place"),
    [
        (-1, 0, (-1, -1, -1), (10, 11, 12), 0),
        (-1, 1, (-1, -1, -1), (10, 11, 12), 1),
        (-1, 3, (-1, 0, 0), (13, 10, 11), 0),
        (0, 2, (0, 0, 1), (12, 13, 10), 0),
        (1, 3, (1, 1, 1), (11, 12, 13), 2),
    ],
)
def test_the_unit_in_which_an_episode_was_played(treatment, episode, treatments, seeds, place) -> None:
    """Twelve episodes, of four seeds each unguided and with both treatments, in units of three."""
    blocks = PlayedBlocks(SMALL, (10, 11, 12, 13), ())
    unit, found = blocks.unit_of(treatment, episode)
    assert (unit.treatments, unit.seeds, found) == (treatments, seeds, place)


@pytest.mark.parametrize("rows", [0, 16])
def test_every_episode_of_blocks_can_be_played_again(rows: int) -> None:
    blocks = play_on_same_seeds(replace(SMALL, rows=rows), (10, 11, 12, 13), run_units)
    for treatment in (-1, 0, 1):
        for episode in range(4):
            recording = blocks.record(treatment, episode)
            known = blocks.results[treatment + 1]
            assert recording.seed == blocks.seeds[episode]
            assert len(recording.actions) == known.lengths[episode]
            assert recording.rewards.sum() == pytest.approx(known.returns[episode])


def test_an_episode_that_goes_another_way_alone_is_played_in_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the other episodes of the unit are unknown: blocks of a race are of the first seeds each."""
    blocks = play_on_same_seeds(replace(SMALL, rows=16), (10, 11, 12, 13), run_units)
    other = replace(blocks.record(0, 1), actions=np.zeros(999, np.int64))
    monkeypatch.setattr("legible.evaluation.blocks.record_alone", lambda *_: other)
    assert len(blocks.record(0, 1).actions) == blocks.guided(0).lengths[1]
    partly = replace(blocks, results=(blocks.base, blocks.guided(0)[:2], blocks.guided(1)))
    assert partly.record(0, 1) is other
    broken = replace(blocks.guided(0), failed=np.arange(4) == 3)  # in the unit of its third episode
    failing = replace(blocks, results=(blocks.base, broken, blocks.guided(1)))
    assert failing.record(0, 2) is other
    assert failing.record(0, 1) is not other
    assert failing.failed == (1, 0)
