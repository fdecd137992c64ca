"""Failure modes: engines that overheat, whose failures a rule predicts."""

import numpy as np

from legible.failures import find_modes, mark_failed
from legible.features import FeatureSpace
from legible.play import Experiences

SPACE = FeatureSpace.of(["heat", "rain"], ["Go", "Stop"])


def drives(n: int, seed: int, overheats: bool = True) -> Experiences:
    """Episodes of 40 steps; in about half of them the heat rises in the last ten steps, and the engine fails."""
    rng = np.random.default_rng(seed)
    length = 40
    fails = (rng.random(n) < 0.5) & overheats
    heat = rng.uniform(0, 1, (n, length))
    heat[fails, -10:] += 2.0
    states = np.stack([heat, rng.normal(size=(n, length))], axis=2).reshape(-1, 2).astype(np.float32)
    actions = np.zeros(n * length, np.int64)
    return Experiences(
        observations=states,
        actions=actions,
        scores=np.eye(2, dtype=np.float32)[actions],
        episode_ids=np.repeat(np.arange(n), length),
        returns=np.where(fails, 0.0, 1.0),
        lengths=np.full(n, length),
        seeds=np.arange(n) + 1000 * seed,
        success=np.full(n, np.nan),
        space=SPACE,
        endings=np.where(fails, "failure: it overheats", "time limit"),
    )


def test_the_rule_that_predicts_failure_is_found() -> None:
    held_out = drives(100, 2)
    (mode, *_) = find_modes(drives(120, 1), held_out, seed=0)
    assert mode.conditions[0].feature == 0
    assert mode.within == 10
    assert mode.covered.value > 0.95
    assert mode.precision.low > 0.9
    assert mode.by_chance < 0.2
    assert mark_failed(held_out)[held_out.seeds == mode.seed].all()
    assert mode.step == 30


def test_figures_come_from_the_held_out_episodes() -> None:
    held_out = drives(60, 3)
    (mode, *_) = find_modes(drives(120, 1), held_out, seed=0)
    assert mode.covered.value * mark_failed(held_out).sum() == round(mode.covered.value * mark_failed(held_out).sum())
    assert mode.to_dict(SPACE)["conditions"][0].startswith("heat >")
    assert "fails within 10 steps" in mode.sentences()[0]


def test_episodes_that_do_not_fail_have_no_modes() -> None:
    assert find_modes(drives(60, 1, overheats=False), drives(60, 2, overheats=False), seed=0) == ()


def test_failures_without_a_reason_have_no_modes() -> None:
    rng = np.random.default_rng(0)
    random = drives(120, 1, overheats=False)
    fails = np.where(rng.random(120) < 0.5, "failure: bad luck", "time limit")
    chance = Experiences(**{**vars(random), "endings": fails})
    again = drives(100, 2, overheats=False)
    held_out = Experiences(
        **{**vars(again), "endings": np.where(rng.random(100) < 0.5, "failure: bad luck", "time limit")}
    )
    assert find_modes(chance, held_out, seed=0) == ()


def test_rules_that_do_not_hold_up_on_held_out_episodes_are_no_modes() -> None:
    held_out = drives(100, 2)
    mixed = np.random.default_rng(0).permutation(held_out.observations)  # heat has nothing to do with failure any more
    assert find_modes(drives(120, 1), Experiences(**{**vars(held_out), "observations": mixed}), seed=0) == ()
