"""Weaknesses that were put into policies with continuous and with several actions are found, named and mended."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import steering_world
from legible.rules import describe_rule
from legible.settings import MiningSettings, SearchSettings
from legible.study import Study
from steering_world import Driving, Steering, UncutSteering
from study.studies import make_study, settings_of

SETTINGS = settings_of(
    sources="mined,yours",
    episodes=100,
    mining={"lime_states": 10, "lime_samples": 500},
    play={"batch": 20, "unit_episodes": 100},
    evaluation={"episodes": 60, "confirmation_episodes": 100},
    improvement={"episodes": 60, "final_episodes": 200, "most_candidates": 3},
)
BEST = 12.0  # every one of twelve steps earns 1 on average


def studied(folder: Path, world: type[Steering] | type[Driving], *, flawed: bool) -> Study:
    file = folder / "mirror.toml"
    file.write_text(steering_world.MIRRORS[world], encoding="utf-8")
    study = make_study(
        folder / "study",
        steering_world.spec(world),
        steering_world.policy(world, flawed=flawed),
        relations=file,
        settings=SETTINGS,
    )
    study.run()
    return study


@pytest.fixture(scope="module", params=[Steering, UncutSteering, Driving], ids=lambda world: world.__name__)
def flawed(request, tmp_path_factory) -> Study:
    return studied(tmp_path_factory.mktemp(request.param.__name__), request.param, flawed=True)


def test_the_weakness_is_found_and_named(flawed: Study) -> None:
    confirmed = [verdict.treatment.text(flawed.space) for verdict in flawed.evaluation.confirmed]
    missing = {"+steer.left <- 0 < side <= 1 & near", "+steer.right <- -1 <= side < 0 & near"}
    assert any(set(text.splitlines()) == missing for text in confirmed)
    told = [describe_rule(rule, flawed.space) for rule in flawed.improvement.composition.rules]
    assert any("right" in words for words in told)


def mean_return(study: Study, policy) -> float:
    """Of episodes that no stage of the study plays."""
    env, total = study.environment.make(), 0.0
    for seed in range(10_000, 10_100):
        shown, _ = env.reset(seed=seed)
        over = False
        while not over:
            action, _ = policy.predict(shown[None])
            shown, reward, over, _, _ = env.step(np.asarray(action)[0])
            total += reward
    return total / 100


def test_nearly_all_of_the_loss_is_recovered(flawed: Study) -> None:
    perfect = steering_world.policy(type(flawed.environment.make()), flawed=False)
    base, guided, best = (mean_return(flawed, who) for who in (flawed.policy, flawed.guided_policy(), perfect))
    assert best - base > 4
    assert guided - base >= 0.95 * (best - base)
    assert flawed.improvement.effect.low > 4


def test_the_guided_policy_acts_in_the_space_of_the_environment(flawed: Study) -> None:
    guided, env = flawed.guided_policy(), flawed.environment.make()
    left, right = (np.array([[side, 1.0, 0.0]], np.float32) for side in (-1.0, 1.0))
    before, after = (np.asarray(who.predict(left)[0]).reshape(-1) for who in (flawed.policy, guided))
    assert env.action_space.contains(after.astype(env.action_space.dtype))
    assert before[0] in (0.0, 1.0)  # straight on: the number 0, or the choice 1
    if isinstance(flawed.environment.make(), Driving):
        assert after.tolist() == [2, 0]
    else:
        # The median of what it does on the other side, mirrored.
        steered = flawed.space.groups[0].regions
        assert after[0] == pytest.approx(steered.typical[2]) == pytest.approx(0.6, abs=0.02)
    # Where nothing was wrong, it stays what it was.
    np.testing.assert_array_equal(*(np.asarray(who.predict(right)[0]).reshape(-1) for who in (flawed.policy, guided)))


def test_regions_are_exact_images(flawed: Study) -> None:
    regions = flawed.space.groups[0].regions
    if regions is None:
        return
    low, high = regions.cuts
    for value in (high, np.nextafter(np.float32(high), np.float32(2)), 0.5):
        here, there = regions.region_of([value]), regions.region_of([-np.float32(value)])
        assert here + there == 2
    assert low == pytest.approx(-high, abs=1e-6)


@pytest.mark.parametrize("world", [Steering, Driving])
def test_nothing_is_found_in_the_perfect_policy(tmp_path: Path, world) -> None:
    study = studied(tmp_path, world, flawed=False)
    assert study.evaluation.base.mean == pytest.approx(BEST, abs=0.3)
    assert not study.evaluation.confirmed
    assert not study.improvement.composition.rules


@pytest.mark.slow
@pytest.mark.parametrize("world", [Steering, Driving])
def test_a_search_alone_finds_it(tmp_path: Path, world: type[Steering] | type[Driving]) -> None:
    """Continuous actions, and several at once: one part at a time is searched."""
    settings = replace(
        SETTINGS,
        sources="searched",
        mining=MiningSettings(importance="none"),
        search=SearchSettings(budget=80_000, most_conditions=2, proposed=8),
    )
    study = make_study(
        tmp_path,
        steering_world.spec(world),
        steering_world.policy(world, flawed=True),
        relations="none",
        settings=settings,
    )
    improvement = study.improve()
    assert {verdict.source for verdict in study.evaluation.confirmed} == {"searched"}
    base, guided = improvement.base.mean, improvement.guided.mean
    assert guided - base > 0.8 * (BEST - base)
