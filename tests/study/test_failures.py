"""Studies of environments that fail or hang: verdicts all the same, or one clear line."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mirror_world
from failing_world import FailingWorld, failing
from legible.engines import InProcess, UnitFailedError
from legible.evaluation import TooManyFailuresError
from legible.evaluation.units import Setup, Unit, UnitResult, play_unit
from legible.files import read_arrays, write_arrays
from legible.settings import SettingsError
from legible.study import Study, UnitFiles, fingerprint_of
from legible.study.check import check_env
from legible.study.estimate import measure_rate
from study.studies import make_study, settings_of

SETTINGS = settings_of(
    sources="mined,yours",
    episodes=40,
    most_failed=0.3,
    mining={"lime_states": 10, "lime_samples": 200},
    play={"batch": 8, "unit_episodes": 20},
    evaluation={"method": "paper", "episodes": 40, "confirmation_episodes": 40},
    improvement={"episodes": 40, "final_episodes": 40},
)


def study(folder: Path, who: str, how: str, every: int, **changes: object) -> Study:
    return make_study(
        folder,
        failing(who, how, every),
        mirror_world.policy(),
        relations=mirror_world.mirror(),
        settings=replace(SETTINGS, **changes),
    )


@pytest.mark.slow
def test_a_study_with_episodes_that_fail_gets_its_verdict_and_tries_none_of_them_again(tmp_path: Path) -> None:
    made = study(tmp_path, "all", "raise", 7)
    better = made.improve()
    assert made.evaluation.base.failed > 0
    assert better.base.failed > 0
    assert better.effect.mean > 0
    assert made.experiences.n_episodes < 40
    assert not (made.experiences.seeds % 7 == 0).any()
    assert made.evaluation.failed[0] > 0
    again = study(tmp_path, "all", "raise", 7)
    again.engine = None  # nothing is played
    assert again.improve().effect == better.effect
    assert again.evaluation.verdicts == made.evaluation.verdicts


def test_above_the_share_the_study_stops_and_goes_on_when_more_may_fail(tmp_path: Path, raises_saved) -> None:
    made = study(tmp_path, "all", "raise", 7, most_failed=0.05)
    with raises_saved(TooManyFailuresError):
        made.collect()
    # A study may be told to go on with more failures, and stays so; nothing else of it may change.
    assert study(tmp_path, "all", "raise", 7, most_failed=0.4).collect().n_episodes < 40
    opened = Study.open(tmp_path, policy=mirror_world.policy(), trust=True)
    assert opened.settings.most_failed == 0.4
    with pytest.raises(SettingsError, match="most_failed is a share"):
        replace(SETTINGS, most_failed=1.0)


def test_files_of_units_say_what_failed_only_where_something_did(tmp_path: Path) -> None:
    files = UnitFiles(tmp_path, UnitResult)
    good = play_unit(Setup(mirror_world.policy(), failing(), (), SETTINGS.play), Unit((-1, -1), (1, 2)))
    files["good"] = good
    assert "failed" not in read_arrays(tmp_path / "good.npz")  # as in files of older studies
    assert files["good"].failed.tolist() == [False, False]
    files["bad"] = UnitResult.concatenate([good, UnitResult.of_failed("took longer than 1 s")])
    assert files["bad"].failed.tolist() == [False, False, True]
    assert files["bad"].errors.tolist() == ["", "", "took longer than 1 s"]
    np.testing.assert_array_equal(files["bad"].played.returns, good.returns)
    write_arrays(tmp_path / "less.npz", {"returns": good.returns}, "less")
    with pytest.raises(Exception, match=r"less.npz: is damaged \('lengths' is missing\)"):
        files["less"]


# --- Environments that hang ------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    """What is compiled on first use must not count as hanging."""
    play_unit(Setup(mirror_world.policy(), failing(), (), SETTINGS.play), Unit((-1, -1), (1, 2)))


HANG = r"seeds? \d+.*: took longer than 1 s\. If the environment is only slow, give it more time"


@pytest.mark.parametrize("how", ["hang", "hang at reset"])
def test_a_fingerprint_is_taken_within_the_limit(how: str, tmp_path: Path) -> None:
    with pytest.raises(UnitFailedError, match=HANG):
        study(tmp_path, "all", how, 1, time_limit=1.0)


@pytest.mark.subprocess
def test_a_fingerprint_is_the_same_with_a_limit_and_in_another_process() -> None:
    policy, world = mirror_world.policy(), failing()
    assert fingerprint_of(policy, world) == fingerprint_of(policy, world, time_limit=30.0)
    assert fingerprint_of(policy, FailingWorld()) == fingerprint_of(policy, world, engine=InProcess(), time_limit=30.0)


@pytest.mark.subprocess
def test_time_is_measured_within_the_limit() -> None:
    hangs = Setup(mirror_world.policy(), failing("all", "hang", 1), (), SETTINGS.play)
    with pytest.raises(UnitFailedError, match=HANG):
        measure_rate(hangs, engine=InProcess(), time_limit=1.0)
    good = Setup(mirror_world.policy(), failing(), (), SETTINGS.play)
    assert measure_rate(good, seconds=0.01, time_limit=30.0).episodes > 0
    # A lot with an episode that fails does not count; the one before does.
    few = Setup(mirror_world.policy(), failing("all", "raise", 13), (), SETTINGS.play)
    assert measure_rate(few, seconds=5.0).episodes > 0


@pytest.mark.subprocess
def test_experiences_are_collected_within_the_limit(tmp_path: Path, raises_saved) -> None:
    made = study(tmp_path, "unguided", "hang", 1, time_limit=1.0, most_failed=0.01)
    with raises_saved(TooManyFailuresError):
        made.collect()


@pytest.mark.subprocess
@pytest.mark.parametrize("how", ["hang", "hang at reset"])
def test_an_environment_that_hangs_is_checked_within_the_limit(how: str, snapshot) -> None:
    found = check_env(failing("all", how, 2), mirror_world.policy(), seed=1, time_limit=1.0)
    assert found[-1].answer == "no"
    assert found[-1].details == snapshot


@pytest.mark.subprocess
def test_a_check_says_the_same_with_a_limit() -> None:
    without, within = (check_env(failing(), time_limit=limit) for limit in (None, 60.0))
    timed = {"speed", "time for a study"}
    assert [f for f in without if f.question not in timed] == [f for f in within if f.question not in timed]
    assert [f.question for f in without] == [f.question for f in within]
    assert all(finding.answer != "no" for finding in within)
