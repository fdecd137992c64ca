"""How long a study takes: measured rates and planned episodes."""

import math

import mirror_world
from legible.engines import InProcess, LocalProcesses
from legible.environments import EnvironmentSpec
from legible.evaluation.units import Setup
from legible.settings import EvaluationSettings, ImprovementSettings, PlaySettings, StudySettings
from legible.study.estimate import Estimate, estimate, measure_rate, planned_episodes

SETTINGS = StudySettings(
    episodes=50,
    evaluation=EvaluationSettings(episodes=10, confirmation_episodes=20),
    improvement=ImprovementSettings(episodes=30, final_episodes=40, most_candidates=2),
)
SETUP = Setup(mirror_world.policy(), EnvironmentSpec("mirror_world:MirrorWorld"), (), PlaySettings(batch=8))


def test_episodes_are_counted_by_hand() -> None:
    planned = planned_episodes(SETTINGS, rule_sets=9, candidates=3)
    assert planned == {
        "experiences": 50,
        "screening": 10 * 10,  # the unguided policy and nine sets
        "confirmation": 7 * 20,  # the unguided policy, three sets, and the mined rule of each
        "improvement": 3 * 30 + 2 * 40,  # the unguided policy and two candidates; base and composition
        "explanation": 100,  # never more than screening
    }
    nothing = planned_episodes(SETTINGS, rule_sets=9, candidates=0, collected=True)
    assert (nothing["experiences"], nothing["confirmation"], nothing["explanation"]) == (0, 0, 0)


def test_workers_share_all_but_the_experiences() -> None:
    assert Estimate(rate=10.0, episodes={"experiences": 50, "screening": 100}, workers=2).seconds == 5.0 + 5.0


def test_rates_are_measured() -> None:
    rate = measure_rate(SETUP, seconds=0.05)
    assert math.isfinite(rate)
    assert rate > 0
    known = estimate(SETUP, SETTINGS, InProcess(), 9, rate=rate)
    assert (known.workers, known.episodes["experiences"]) == (1, 0)
    assert estimate(SETUP, SETTINGS, LocalProcesses(3), rate=rate).workers == 3
