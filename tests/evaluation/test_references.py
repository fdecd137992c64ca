"""References: plain ways to act in a world whose returns are known, chosen on some seeds and quoted from others."""

from dataclasses import replace

import numpy as np
import pytest

import braking_world
from braking_world import braking_in_the_dark
from legible.engines import LocalProcesses
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import PlayedBlocks, Reference, References, Sample, compare_references, play_on_same_seeds
from legible.evaluation.references import ReferenceResult, default_references
from legible.evaluation.statistics import Effect, holm, mean_interval, paired
from legible.evaluation.units import Setup, Unit, UnitResult, play_unit, run_units, unit_key
from legible.play import stage_seeds
from legible.policies import Policy
from legible.rules import RuleSet, parse_rule
from legible.settings import PlaySettings, ReferenceSettings
from played_blocks import result

WORLD = EnvironmentSpec("braking_world:BrakingWorld")
PLAY = PlaySettings(batch=8, unit_episodes=30)
SETTINGS = ReferenceSettings(episodes=40, quoted=1)
PLAIN, _ = default_references([braking_world.SPACE.action_names], 30)
RANDOM, ALWAYS_GO, ALWAYS_BRAKE, ALWAYS_WAIT = PLAIN
BRAKES = RuleSet((parse_rule("+Brake <- light > -1", braking_world.SPACE),))


def setup_of(policy: Policy, treatments: tuple[object, ...] = (), **changes: object) -> Setup:
    return Setup(policy, WORLD, treatments, replace(PLAY, **changes))


def final_of(setup: Setup, composition: RuleSet | None = None, run: object = run_units) -> PlayedBlocks:
    this = replace(setup, treatments=() if composition is None else (composition,))
    return play_on_same_seeds(this, stage_seeds(0, "final", 0, 50), run)


def compared(policy: Policy, composition: RuleSet | None = None, **changes: object) -> References:
    setup = setup_of(policy)
    arguments = {"references": PLAIN, "seed": 0, "settings": SETTINGS, **changes}
    return compare_references(setup, arguments.pop("references"), final_of(setup, composition), **arguments)


def mean_of(references: References, name: str) -> float:
    return next(result.sample.mean for result in references.results if result.reference.name == name)


# ---- what there is ---------------------------------------------------------------------------------------------------


def test_random_play_and_one_reference_a_choice() -> None:
    assert [reference.name for reference in PLAIN] == ["random play", "always Go", "always Brake", "always Wait"]
    assert [reference.kind for reference in PLAIN] == ["random", *["constant"] * 3]
    assert [reference.choices for reference in PLAIN] == [(), (0,), (1,), (2,)]


def test_groups_of_choices_are_a_sum_not_a_product() -> None:
    groups = [["steer.left", "steer.straight", "steer.right"], ["gas.none", "gas.full"]]
    found, left_out = default_references(groups, 30, typical=(1, 3))
    assert {reference.name: reference.choices for reference in found[1:]} == {
        "always steer.left": (0, 3),
        "always steer.straight": (1, 3),
        "always steer.right": (2, 3),
        "always gas.none": (1, 3),
        "always gas.full": (1, 4),
    }
    assert not left_out


def test_of_very_many_choices_some_are_played_and_that_is_said(snapshot) -> None:
    found, left_out = default_references([[str(i) for i in range(1000)]], 5)
    assert [reference.choices[0] for reference in found[1:]] == [0, 250, 500, 749, 999]
    assert left_out == snapshot


# ---- how they act ----------------------------------------------------------------------------------------------------


def test_a_constant_choice_is_taken_in_every_step() -> None:
    seeds = tuple(range(20))
    counted = replace(setup_of(braking_in_the_dark(0.5), PLAIN), count_choices=True)
    brake = play_unit(counted, Unit((2,) * 20, seeds))
    assert brake.returns.tolist() == [10.0] * 20
    assert brake.success.tolist() == [1.0] * 20
    assert brake.taken.tolist() == [[0, 10, 0]] * 20
    go = play_unit(counted, Unit((1,) * 20, seeds))
    np.testing.assert_array_equal(go.returns, 2.0 * go.lengths)
    assert not go.fired.any()
    assert not go.changed.any()


def test_random_play_takes_all_choices_alike_and_belongs_to_the_seed() -> None:
    setup = replace(setup_of(braking_in_the_dark(0.5), PLAIN), count_choices=True)
    found = play_unit(setup, Unit((0,) * 400, tuple(range(400))))
    shares = found.taken.sum(axis=0) / found.taken.sum()
    np.testing.assert_allclose(shares, 1 / 3, atol=0.05)
    alone = play_unit(setup, Unit((0,), (7,)))
    assert (alone.returns[0], alone.taken[0].tolist()) == (found.returns[7], found.taken[7].tolist())


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_without_a_reference_the_policy_plays_as_ever(epsilon: float) -> None:
    policy = braking_in_the_dark(0.5)
    unit = Unit((-1,) * 20, tuple(range(20)))
    plain = play_unit(setup_of(policy, epsilon=epsilon), unit)
    mixed = play_unit(
        setup_of(policy, PLAIN, epsilon=epsilon), Unit((-1, 0) * 20, tuple(np.repeat(range(20), 2).tolist()))
    )
    np.testing.assert_array_equal(mixed.returns[::2], plain.returns)


def test_another_policy_plays_as_it_would_by_itself(raises_saved) -> None:
    other = braking_in_the_dark(0.8)
    seeds = tuple(range(20))
    treated = setup_of(braking_in_the_dark(0.2), (Reference("other", fingerprint="x", policy=other),))
    alone = play_unit(setup_of(other), Unit((-1,) * 20, seeds))
    np.testing.assert_array_equal(play_unit(treated, Unit((0,) * 20, seeds)).returns, alone.returns)
    missing = replace(treated, treatments=(Reference("other", fingerprint="x"),))
    with raises_saved(LegibleError):
        play_unit(missing, Unit((0,), (1,)))


def test_keys_know_what_a_reference_does_and_not_what_it_is_called() -> None:
    def key(reference: Reference) -> str:
        return unit_key(setup_of(braking_in_the_dark(0.5), (reference,)), Unit((0,), (1,)), "")

    assert key(Reference("a", (1,))) == key(Reference("b", (1,)))
    different = [RANDOM, *PLAIN[1:], Reference("a", fingerprint="x"), Reference("a", fingerprint="y")]
    assert len({key(reference) for reference in different}) == len(different)


def test_counting_choices_changes_nothing_else() -> None:
    setup, unit = setup_of(braking_in_the_dark(0.5)), Unit((-1,) * 5, tuple(range(5)))
    counted = replace(setup, count_choices=True)
    assert unit_key(setup, unit, "") == unit_key(counted, unit, "")
    plain, more = play_unit(setup, unit), play_unit(counted, unit)
    np.testing.assert_array_equal(plain.returns, more.returns)
    assert plain.taken.shape == (5, 0)
    assert more.taken.sum(axis=1).tolist() == more.lengths.tolist()
    both = UnitResult.concatenate([plain, more, UnitResult.of_failed("fell over")])
    assert both.taken.tolist() == [[0, 0, 0]] * 5 + more.taken.tolist() + [[0, 0, 0]]


# ---- what is said of them --------------------------------------------------------------------------------------------


def test_the_best_is_chosen_on_some_seeds_and_quoted_from_others() -> None:
    policy = braking_in_the_dark(0.0)  # goes, always
    found = compared(policy)
    assert mean_of(found, "always Brake") == 10.0
    assert mean_of(found, "always Wait") == 0.0
    assert mean_of(found, "always Go") == found.base.mean == pytest.approx(4.0, abs=1.5)
    assert [entry.name for entry in found.quoted] == ["always Brake", "random play"]
    best = found.best
    assert best.reference == ALWAYS_BRAKE
    assert best.beats_policy
    final = final_of(setup_of(policy))
    assert best.over_policy == paired(np.full(50, 10.0), final.base.returns)
    assert best.over_guided == best.over_policy
    assert best.sample.episodes == 50
    assert best.sample.success == 1.0
    # The seeds of the choice are others, and as many as asked for.
    chosen = next(result for result in found.results if result.reference == ALWAYS_GO)
    seeds = tuple(stage_seeds(0, "references", 0, 40))
    alone = play_unit(setup_of(policy, batch=40), Unit((-1,) * 40, seeds))
    assert chosen.sample == Sample.of(alone)
    assert not set(seeds) & set(final.seeds)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []


def test_the_same_as_a_constant_choice_is_a_tie() -> None:
    found = compared(braking_in_the_dark(1.1))  # brakes, always
    best = found.best
    assert best.name == "always Brake"
    assert (best.over_policy.mean, best.over_policy.p, best.beats_policy) == (0.0, 1.0, False)
    assert not any(entry.beats_policy for entry in found.quoted)


def test_a_baseline_must_also_be_better_on_the_final_seeds() -> None:
    setup = setup_of(braking_in_the_dark(0.0))
    final = final_of(setup)
    lucky = replace(final, results=(replace(final.base, returns=np.full(50, 12.0)),))
    found = compare_references(setup, PLAIN, lucky, seed=0, settings=SETTINGS)
    assert found.best.name == "always Brake"
    assert next(result for result in found.results if result.reference == ALWAYS_BRAKE).p_holm < 0.05
    assert not found.best.beats_policy


def test_the_guided_policy_is_compared_as_well() -> None:
    found = compared(braking_in_the_dark(0.0), BRAKES)
    assert found.best.over_guided.mean == 0.0
    assert found.best.over_policy.mean > 0.0


def test_rows_for_json() -> None:
    found = compared(braking_in_the_dark(0.0))
    rows = {row["name"]: row for row in found.to_rows()}
    assert list(rows) == ["random play", "always Go", "always Brake", "always Wait"]
    brake, wait = rows["always Brake"], rows["always Wait"]
    assert {"name", "mean", "error", "low", "high", "success", "episodes"} <= set(brake)
    assert (brake["mean"], brake["low"], brake["high"], brake["episodes"], brake["seeds"]) == (10, 10, 10, 50, "final")
    assert (wait["episodes"], wait["seeds"], wait["beats_policy"]) == (40, "references", False)
    chance = rows["random play"]
    assert (chance["low"], chance["high"]) == mean_interval(chance["mean"], chance["error"], 50)
    assert len(found.to_frame()) == 4


# ---- where and when they are played ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_all_is_stored_and_the_same_whatever_the_workers() -> None:
    store: dict[str, UnitResult] = {}
    setup = setup_of(braking_in_the_dark(0.3))
    played: list[int] = []

    def run(*arguments: object, **options: object) -> UnitResult:
        return run_units(*arguments, **{"on_episodes": played.append, **options}, store=store)

    final = final_of(setup, run=run)
    played.clear()
    first = compare_references(setup, PLAIN, final, seed=0, settings=SETTINGS, run=run)
    assert sum(played) == 5 * 40 + 2 * 50
    known = set(store)
    assert compare_references(setup, PLAIN, final, seed=0, settings=SETTINGS, run=run) == first
    assert set(store) == known
    # One more reference plays its own episodes, and no others.
    more = [*PLAIN, Reference("other", fingerprint="x", policy=braking_in_the_dark(0.9))]
    compare_references(setup, more, final, seed=0, settings=SETTINGS, run=run)
    assert len(store) - len(known) == 2 + 2  # 40 and 50 episodes, in units of 30
    with LocalProcesses(2) as engine:
        again = compare_references(
            setup, PLAIN, final, seed=0, settings=SETTINGS, run=lambda *a, **o: run_units(*a, **o, engine=engine)
        )
    assert again == first


def test_failed_episodes_count_at_their_worst_for_either_claim() -> None:
    setup = setup_of(braking_in_the_dark(0.0))
    final = final_of(setup, BRAKES)
    guided = final.guided(0)
    failed = np.arange(50) == 0
    broken = replace(guided, returns=np.where(failed, np.nan, guided.returns), failed=failed)
    final = replace(final, results=(final.base, broken))
    found = compare_references(setup, PLAIN, final, seed=0, settings=SETTINGS)
    best, seen = found.best, [final.base, *(entry.result for entry in found.quoted)]
    lowest, highest = min(one.returns.min() for one in seen), max(one.returns.max() for one in seen)
    # The guided policy brakes as the reference does; its one failed episode may have been anything.
    assert best.over_guided.low == paired(np.full(50, 10.0), np.where(failed, highest, 10.0)).low
    assert best.over_guided.high == -paired(np.where(failed, lowest, 10.0), np.full(50, 10.0)).low
    assert best.over_guided.low < 0 < best.over_guided.high


def test_a_reference_that_breaks_the_environment_is_left_out_with_a_word() -> None:
    breaking = replace(setup_of(braking_in_the_dark(0.0)), environment=EnvironmentSpec(WORLD.name, {"breaks": True}))
    never_waits = [reference for reference in PLAIN if reference != RANDOM]
    found = compare_references(breaking, never_waits, final_of(breaking), seed=0, settings=SETTINGS)
    assert [result.reference.name for result in found.results] == ["always Go", "always Brake"]
    assert found.best.name == "always Brake"
    assert len(found.notes) == 1
    assert "left out" in found.notes[0]
    assert "of always Wait failed" in found.notes[0]
    assert "the engine stalls" in found.notes[0]


def test_the_best_of_all_and_of_those_that_are_no_policies() -> None:
    found = compared(braking_in_the_dark(0.5))
    by_kind = {quoted.reference.kind: quoted for quoted in found.quoted}
    random, constant = by_kind["random"], by_kind["constant"]
    other = replace(constant, reference=Reference("another", fingerprint="0123"))
    assert replace(found, quoted=()).best_plain is replace(found, quoted=()).random_play is None
    assert replace(found, quoted=(other,)).best_plain is None
    reordered = replace(found, quoted=(other, constant, random))
    assert (reordered.best, reordered.best_plain, reordered.random_play) == (other, constant, random)


def test_intervals_of_references_are_of_the_episodes_that_did_not_fail() -> None:
    made = replace(result([1.0, 2.0, 6.0, 9.0]), failed=np.arange(4) == 3, errors=np.array(["", "", "", "it broke"]))
    effect = Effect(1.0, 0.5, 0.1, 2.0, 0.01)
    (row,) = References(Sample.of(made), (ReferenceResult(RANDOM, Sample.of(made), effect, 0.01),), ()).to_rows()
    assert (row["low"], row["high"]) == mean_interval(3.0, row["error"], 3)
    assert (row["seeds"], row["beats_policy"], row["episodes"]) == ("references", False, 4)
