"""The outcome ledger: parts add up to the whole gain."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

import mirror_world
from legible.environments.reward_terms import as_table
from legible.evaluation import play_on_same_seeds
from legible.evaluation.ledger import courses_of, find_reward_terms, split_gain, split_times
from legible.evaluation.units import Setup, UnitResult, run_units
from legible.rules import RuleSet, parse_rule
from legible.settings import PlaySettings

ENDINGS = ("success: it wins", "failure: ghost 1 catches it", "failure: ghost 2 catches it", "time limit: too late")


def episodes(endings: list[str], terms: list[dict[str, float]]) -> UnitResult:
    """Return episodes with these endings and reward terms."""
    n, none = len(endings), np.zeros(len(endings), np.int64)
    returns = np.array([sum(one.values()) - one.get("speed", 0.0) for one in terms])
    nan, no = np.full(n, np.nan), np.zeros(n, np.bool_)
    result = UnitResult(returns, none, no, nan, np.zeros(n), none, none)
    return UnitResult(
        *(getattr(result, name) for name in ("returns", "lengths", "truncated", "success", "costs", "fired")),
        none,
        endings=np.array(endings),
        terms=as_table(terms),
    )


def row(food: float, caught: bool) -> dict[str, float]:
    """Return the terms of an episode, with a number that is no term of the reward."""
    return {"food": food, "being_caught": -500.0 * caught, "speed": 3.0 + food}


def test_a_ledger_worked_by_hand(snapshot: SnapshotAssertion) -> None:
    base = episodes([ENDINGS[1]] * 6 + [ENDINGS[0]] * 6, [row(10.0, caught=True)] * 6 + [row(50.0, caught=False)] * 6)
    guided = episodes([ENDINGS[0]] * 12, [row(50.0, caught=False)] * 6 + [row(62.0, caught=False)] * 6)
    ledger = split_gain(base, guided)
    assert ledger is not None
    assert ledger.total.value == 276.0
    assert [part.gain.value for part in ledger.endings] == [270.0, 6.0]
    assert {part.words: part.gain.value for part in ledger.terms} == {"being caught": 250.0, "food": 26.0}
    assert ledger.sentence() == snapshot
    assert ledger.to_dict()["terms"][0]["value"] == 250.0


@given(
    st.lists(st.tuples(*[st.sampled_from(ENDINGS), st.integers(0, 90), st.booleans()] * 2), min_size=10, max_size=40)
)
def test_parts_add_up(pairs: list[tuple[str, int, bool, str, int, bool]]) -> None:
    base = episodes([pair[0] for pair in pairs], [row(pair[1], pair[2]) for pair in pairs])
    guided = episodes([pair[3] for pair in pairs], [row(pair[4], pair[5]) for pair in pairs])
    ledger = split_gain(base, guided)
    assert ledger is not None
    np.testing.assert_allclose(sum(part.gain.value for part in ledger.endings), ledger.total.value, atol=1e-9)
    if ledger.terms:
        np.testing.assert_allclose(sum(part.gain.value for part in ledger.terms), ledger.total.value, atol=1e-9)


def test_gains_by_time_after_the_first_change() -> None:
    rng = np.random.default_rng(0)
    rewards = []
    for length, longer, first in ((30, 80, 3), (90, 20, 60), (5, 5, 5)):
        before = rng.normal(size=length)
        shared = min(first, length)
        rewards.append((before, np.concatenate([before[:shared], rng.normal(size=longer)]), first))
    n = len(rewards)
    base, guided = (episodes([ENDINGS[0]] * n, [{"r": float(pair[i].sum())} for pair in rewards]) for i in (0, 1))
    ledger = split_gain(base, guided, rewards=rewards)
    assert ledger is not None
    np.testing.assert_allclose(sum(part.gain.value for part in ledger.times), ledger.total.value)
    soon = [after[first : first + 10].sum() - before[first : first + 10].sum() for before, after, first in rewards]
    np.testing.assert_allclose(ledger.times[0].gain.value, np.mean(soon))


def test_terms_must_add_up_in_every_episode() -> None:
    terms = [row(float(i), caught=bool(i % 2)) for i in range(12)]
    right = episodes([ENDINGS[0]] * 12, terms)
    assert set(find_reward_terms(right)) == {"food", "being_caught"}
    wrong = episodes([ENDINGS[0]] * 12, [{**one, "food": 2 * one["food"]} for one in terms])
    assert find_reward_terms(UnitResult.concatenate([right, wrong])[:12]) != ()
    wrong.returns[3] += 1.0
    assert find_reward_terms(wrong) == ()


def test_endings_say_how_soon_they_follow_the_change() -> None:
    base = episodes([ENDINGS[1]] * 4, [{"r": 0.0}] * 4)
    guided = episodes([ENDINGS[0]] * 4, [{"r": 10.0}] * 4)
    base, guided = replace(base, lengths=np.array([20, 24, 30, 90])), replace(guided, lengths=np.full(4, 100))
    ledger = split_gain(base, replace(guided, first_changed=np.array([10, 10, 10, 10])))
    assert ledger is not None
    assert [part.steps for part in ledger.endings] == [17.0, None]  # nothing happens where the ending stays the same
    assert "of it within 17 steps" in ledger.endings[0].clause()


def test_one_seed_says_everything_only_where_nothing_is_random() -> None:
    base, better = (episodes([ENDINGS[i]], [{"r": float(i)}]) for i in (0, 1))
    assert split_gain(base, better) is None
    ledger = split_gain(base, better, is_exact=True)
    assert ledger is not None
    assert tuple(ledger.total) == (1.0, 1.0, 1.0)


def test_no_ledger_of_failed_episodes() -> None:
    base = episodes([ENDINGS[0]] * 3, [row(1.0, caught=False)] * 3)
    assert split_gain(base, UnitResult.concatenate([base[:2], UnitResult.of_failed("boom")])) is None


def test_the_rewards_of_final_episodes_split_the_gain_by_time() -> None:
    rules = RuleSet((parse_rule("+Left <- left", mirror_world.SPACE),))
    setup = Setup(mirror_world.policy(), mirror_world.WORLD, (rules,), PlaySettings(batch=8, unit_episodes=40))
    plain = play_on_same_seeds(setup, range(40), run_units)
    assert courses_of(plain.base, plain.guided(0)) == []
    blocks = play_on_same_seeds(replace(setup, count_choices=True), range(40), run_units)
    base, guided = blocks.base, blocks.guided(0)
    for result, known in ((base, plain.base), (guided, plain.guided(0))):
        np.testing.assert_array_equal(result.returns, known.returns)
        np.testing.assert_allclose(result.course.sum(axis=1), result.returns)
    assert (base.first_changed == -1).all()
    np.testing.assert_array_equal(guided.first_changed >= 0, guided.changed > 0)
    gain = (guided.returns - base.returns).mean()
    assert gain != 0.0
    np.testing.assert_allclose(sum(part.gain.value for part in split_times(courses_of(base, guided))), gain)
    again = UnitResult.from_arrays(guided.to_arrays())
    np.testing.assert_array_equal(again.course, guided.course)
    assert not guided.without_course.course.size
