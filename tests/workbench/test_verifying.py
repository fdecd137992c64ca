import re
import shutil
import tomllib
from xml.etree import ElementTree

import numpy as np
import pytest

import mirror_world
import steering_world
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.policies import load_policy
from legible.study import Study
from legible.testing import UndecidedError, assert_no_weakness, assert_not_worse
from legible.workbench import export_checks, read_checks, verify, verify_policy
from small_studies import WORLD
from workbench.test_comparing import damaged

HERE = {"engine": InProcess(), "relations": "none"}


@pytest.fixture
def study(study_copy):
    return Study.open(study_copy, engine=InProcess(), trust=True)


def verified(study, policy, **options):
    return verify(study, policy, **{"engine": InProcess(), "margin": 1.0, "most_seeds": 1000, **options})


def check_named(found, word):
    return next(check for check in found.checks if word in check.name)


def test_the_same_policy_passes_with_enough_seeds(study, policy_file) -> None:
    found = verified(study, policy_file)
    assert found.exit_code == 0
    assert check_named(found, "not worse").interval.mean == 0.0
    assert check_named(found, "weakness").status == "still there", "known weaknesses never fail"


def test_the_same_policy_is_undecided_with_too_few_seeds(study, policy_file) -> None:
    found = verified(study, policy_file, most_seeds=30)
    assert found.exit_code == 3
    assert found.checks[0].needed > 30
    enough = verified(study, policy_file, most_seeds=found.checks[0].needed)
    assert enough.exit_code == 0


def test_a_better_policy_passes_and_has_the_weakness_no_more(study) -> None:
    path = export_checks(study)
    path.write_text(re.sub(r"margin = \S+", "margin = 2", path.read_text()))
    found = verified(study, mirror_world.best_policy())
    assert found.exit_code == 0
    assert check_named(found, "weakness").status == "gone"


def test_a_damage_fails_and_names_the_situation() -> None:
    found = verify_policy(WORLD, damaged(), mirror_world.best_policy(), margin=0.2, most_seeds=1000, **HERE)
    assert found.exit_code == 1
    assert found.headline().startswith("Failed: not worse")
    assert "luck" in found.situations[0].text(found.space)
    assert "old policy does better" in found.headline()
    assert len(found.headline().splitlines()) == 1


def test_a_fixed_weakness_that_is_back_fails(study, policy_file) -> None:
    path = export_checks(study)
    path.write_text(path.read_text().replace('expect = "known"', 'expect = "absent"'))
    back = verified(study, policy_file)
    assert back.exit_code == 1
    assert check_named(back, "weakness").status == "violated"
    assert verified(study, mirror_world.best_policy()).exit_code == 0


def test_every_confirmed_weakness_is_exported_once(study) -> None:
    path = export_checks(study)
    confirmed = [group.front.rule_set for group in study.weaknesses if group.is_confirmed]
    checks = read_checks(path, study.space)
    assert [set(check.rule_set.rules) for check in checks.weaknesses] == [set(one.rules) for one in confirmed]
    assert {check.expect for check in checks.weaknesses} == {"known"}
    assert tomllib.loads(path.read_text())["margin"] > 0
    path.write_text("# mine\n")
    assert export_checks(study).read_text() == "# mine\n", "a file that is there stays as it is"


@pytest.mark.parametrize(
    ("text", "best", "flawed"),
    [
        ('figure = "success"\nat_least = 0.9', 0, 1),
        ('figure = "mean"\nat_least = 10', 0, 1),
        ('figure = "length"\nat_most = 6', 0, 1),
        ('never = "left and wall.right"\nat_most = 0.05', 0, 1),
        ('figure = "mean"\nat_most = 10', 1, 0),
    ],
)
def test_requirements(study, tmp_path, text, best, flawed) -> None:
    path = tmp_path / "checks.toml"
    path.write_text(f"margin = 30\n[[require]]\n{text}\n")
    for policy, code in ((mirror_world.best_policy(), best), (study.policy, flawed)):
        assert verified(study, policy, checks=path, margin=None).exit_code == code


@pytest.mark.parametrize(
    "text",
    [
        "margin = 0",
        "margn = 1",
        "[[weakness]]\nrules = []",
        '[[weakness]]\nrules = ["+Left <- lef"]',
        '[[weakness]]\nrules = ["+Left <- left"]\nexpect = "fixed"',
        '[[require]]\nfigure = "succes"\nat_least = 0.9',
        '[[require]]\nfigure = "success"\nat_least = 1.0',
        '[[require]]\nfigure = "success"',
        '[[require]]\nnever = "left"\nat_least = 0.5',
        '[[require]]\nnever = "up > 3"\nat_most = 0.5',
        "[require]\nx = 1",
        "not toml",
    ],
)
def test_wrong_checks_are_refused_in_one_line(tmp_path, text, raises_saved) -> None:
    path = tmp_path / "checks.toml"
    path.write_text(text)
    with raises_saved(LegibleError) as caught:
        read_checks(path, mirror_world.SPACE)
    assert len(str(caught.value).splitlines()) == 1


def test_a_violation_is_corrected_for_the_number_of_checks(study, tmp_path, policy_file) -> None:
    """A success of about one half is not shown to be below 0.55 once there are many other checks."""
    found = {}
    for count in (1, 40):
        path = tmp_path / f"{count}.toml"
        others = '[[require]]\nfigure = "mean"\nat_least = -1000\n' * (count - 1)
        path.write_text(f'margin = 30\n{others}[[require]]\nfigure = "success"\nat_least = 0.62\n')
        found[count] = verified(study, policy_file, checks=path, margin=None, most_seeds=250)
    p = check_named(found[1], "success").p
    assert check_named(found[40], "success").p == p
    assert p < 0.05
    assert found[1].exit_code == 1
    assert found[40].exit_code == (1 if 41 * p < 0.05 else 3)


def test_files_for_other_programs(study, policy_file, tmp_path, snapshot) -> None:
    found = verified(study, policy_file)
    suite = ElementTree.fromstring(found.junit())
    assert suite.attrib["tests"] == str(len(found.checks))
    assert suite.attrib["failures"] == "0"
    bad = verify_policy(WORLD, damaged(), mirror_world.best_policy(), margin=0.2, most_seeds=1000, **HERE)
    assert ElementTree.fromstring(bad.junit()).find(".//failure") is not None
    assert bad.markdown().startswith("**Failed")
    assert sorted(found.to_dict()) == snapshot
    assert "<Verification: Passed" in repr(found)


def test_assertions_for_pytest() -> None:
    best = mirror_world.best_policy()
    assert_not_worse(best, best, WORLD, margin=2.0, most_seeds=500, **HERE)
    with pytest.raises(AssertionError, match="not worse"):
        assert_not_worse(damaged(), best, WORLD, margin=0.2, most_seeds=1000, **HERE)
    with pytest.raises(UndecidedError, match="seeds would decide"):
        assert_not_worse(best, best, WORLD, margin=0.5, most_seeds=20, **HERE)
    assert_no_weakness(best, WORLD, ["+Left <- left"], margin=1.0, most_seeds=500, **HERE)
    with pytest.raises(AssertionError, match="weakness"):
        assert_no_weakness(mirror_world.policy(), WORLD, ["+Left <- left"], margin=1.0, most_seeds=500, **HERE)
    with pytest.raises(LegibleError):
        verify_policy(WORLD, best, **HERE)


def test_continuous_actions() -> None:
    spec = steering_world.spec(steering_world.Steering)
    flawed, right = (steering_world.policy(steering_world.Steering, flawed=flawed) for flawed in (True, False))
    assert verify_policy(spec, right, flawed, most_seeds=500, **HERE).exit_code == 0
    assert verify_policy(spec, flawed, right, most_seeds=500, **HERE).exit_code == 1


def test_irreproducible_seeds_are_refused() -> None:
    policy = load_policy(lambda seen: np.tile([1.0, 0.0], (len(seen), 1)), output="values", n_features=2, n_actions=2)
    with pytest.raises(LegibleError, match="same seed does not"):
        verify_policy(EnvironmentSpec("unseeded_world:UnseededWorld"), policy, policy, **HERE)


def test_a_folder_with_the_inputs_and_the_checks_is_enough(study, policy_file, tmp_path) -> None:
    export_checks(study)
    for name in ("study.json", "policy.safetensors", "experiences.npz", "weaknesses.toml"):
        (tmp_path / "small").mkdir(exist_ok=True)
        shutil.copy(study.folder / name, tmp_path / "small" / name)
    for folder in ("relations",):
        shutil.copytree(study.folder / folder, tmp_path / "small" / folder)
    small = Study.open(tmp_path / "small", engine=InProcess(), trust=True)
    assert verified(small, policy_file).exit_code == 0
