import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import betaincinv

from legible.evaluation.changed import changed_mean_p
from legible.play.stages import stage_seeds
from legible.rules import RuleSet, parse_rule
from legible.workbench.confirming import STAGE, Claim, Ledger, OnlineLevels, plan_changes
from legible.workbench.trying import MOST_SEEDS, RuleResult
from mirror_world import SPACE

RULES = RuleSet((parse_rule("+Left <- left", SPACE),))
EXPLORED = RuleResult(RULES, "alone", "helps", 3.0, 0.5, None, 200, 400, 10.0, 0.1, 0.1)


def test_levels_of_useless_tests_never_exceed_half_of_alpha_together() -> None:
    levels = OnlineLevels(0.05)
    total = sum(levels.next([False] * n) for n in range(2000))
    assert 0.02 < total <= 0.025


@pytest.mark.parametrize("pattern", list(itertools.product([False, True], repeat=6)))
def test_the_estimated_share_of_false_ones_stays_below_alpha(pattern) -> None:
    spent = sum(OnlineLevels(0.05).next(pattern[:n]) for n in range(len(pattern)))
    assert spent <= 0.05 * max(1, sum(pattern)), "the condition that LORD++ is built on"


def test_a_ledger_survives_a_restart_and_counts_what_was_stopped(tmp_path) -> None:
    path = tmp_path / "confirmations.json"
    first = Ledger(path, "key").open(["+Left <- left"], "helps", EXPLORED)
    assert not Ledger(path, "key").claims()[0].is_confirmed, "it was stopped"
    Ledger(path, "key").close(replace(first, p=first.level / 2))
    second = Ledger(path, "key").open(["+Left <- left"], "helps", EXPLORED)
    assert (first.number, second.number) == (0, 1)
    assert second.level > first.level
    assert [claim.is_confirmed for claim in Ledger(path, "key").claims()] == [True, False]


def test_a_result_is_found_for_the_same_rules_in_any_order_once_it_is_played() -> None:
    ledger = Ledger(None)
    claim = ledger.open(["+Left <- left", "-Stay <- left"], "helps", EXPLORED)
    assert ledger.result_of(["-Stay <- left", "+Left <- left"]) is None, "it was stopped"
    ledger.close(replace(claim, p=0.5))
    assert ledger.result_of(["-Stay <- left", "+Left <- left"]) == replace(claim, p=0.5)
    assert ledger.result_of(["+Left <- left"]) is None


def test_blocks_of_confirmations_share_no_seed_with_each_other_or_with_exploring() -> None:
    blocks = [stage_seeds(0, STAGE, number * MOST_SEEDS, MOST_SEEDS) for number in range(3)]
    others = [stage_seeds(0, stage, 0, MOST_SEEDS) for stage in ("try", "racing", "try confirmation", "experiences")]
    everything = [seed for block in (*blocks, *others) for seed in block]
    assert len(set(everything)) == len(everything)


def test_smaller_effects_and_levels_plan_more_episodes() -> None:
    plans = [plan_changes(replace(EXPLORED, effect=effect), 0.01) for effect in (5.0, 1.0, 0.0)]
    assert plans == sorted(plans)
    assert plans[0] >= 200
    assert plan_changes(replace(EXPLORED, effect=1.0), 1e-4) > plan_changes(replace(EXPLORED, effect=1.0), 1e-2)


def test_a_claim_says_its_result() -> None:
    claim = Claim(0, ("+Left <- left",), "helps", 0.01, 300)
    assert "stopped" in claim.sentence()
    found = replace(claim, p=0.001, effect=3.0, low=1.0, high=5.0, changed=300, seeds=500)
    assert found.sentence().startswith("Confirmed: it helps, +3")
    assert replace(found, p=0.02).sentence().startswith("Not confirmed")
    assert "too few" in replace(found, changed=3).sentence()


def series(seed: int, useful: float) -> tuple[int, int, int, int]:
    """Return false, all and true confirmations, and useful rules, of a series of 50."""
    rng, rejected, truth = np.random.default_rng(seed), [], []
    for number in range(50):
        level = OnlineLevels().next(rejected)
        truth.append(bool(rng.random() < useful))
        changes = 100 * (rng.exponential(1.0, 200) - 1.0) + 30.0 * truth[-1]  # no loss beyond 100, rare large gains
        p = changed_mean_p(changes, invented_loss=100.0, resamples=4000, rng_seed=number)
        rejected.append(p <= level)
    false = sum(yes and not is_useful for yes, is_useful in zip(rejected, truth, strict=True))
    return false, sum(rejected), sum(rejected) - false, sum(truth)


@pytest.mark.statistical
def test_few_series_of_useless_rules_contain_a_false_confirmation() -> None:
    runs = 200
    false = sum(series(seed, 0.0)[0] > 0 for seed in range(runs))
    lower = float(betaincinv(false, runs - false + 1, 0.05)) if false else 0.0
    assert lower <= 0.05, f"{false} of {runs} series"


@pytest.mark.statistical
def test_few_confirmations_are_false_among_useful_and_useless_rules() -> None:
    found = np.array([series(seed, 0.3) for seed in range(60)])
    shares = found[:, 0] / np.maximum(found[:, 1], 1)
    assert shares.mean() - 1.645 * shares.std() / np.sqrt(len(shares)) <= 0.05
    assert found[:, 2].sum() > 0.8 * found[:, 3].sum(), "most useful rules are confirmed"
