"""Settings: one source for options, files and help."""

import tomllib
from dataclasses import asdict, replace

import pytest

from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.settings import (
    PRESETS,
    SINGLE_BATCH,
    SINGLE_UNIT,
    EvaluationSettings,
    MiningSettings,
    StudySettings,
    all_settings,
)
from legible.study import settings_for


def test_settings_from_toml(tmp_path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(
        """
        episodes = 50
        time_limit = 5
        [mining]
        min_accuracy = 0.8
        criterion = "purity"
        [play]
        sample = true
        """
    )
    settings = StudySettings.from_toml(path)
    assert (settings.episodes, settings.time_limit, settings.play.sample) == (50, 5.0, True)
    assert (settings.mining.min_accuracy, settings.mining.criterion) == (0.8, "purity")
    assert settings.evaluation == EvaluationSettings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("episode = 5", "there is no setting 'episode'. Did you mean 'episodes'"),
        ("[mining]\nmin_acuracy = 1", "mining: there is no setting 'min_acuracy'. Did you mean 'min_accuracy'"),
        ("episodes = 'many'", "episodes must be a whole number, got 'many'"),
        ("episodes = true", "episodes must be a whole number"),
        ("episodes = 1", "episodes must be at least 2"),
        ("[evaluation]\nrung_changes = 7", "rung_changes must be at least 8"),
        ("time_limit = -1", "time_limit cannot be negative"),
        ("time_limit = nan", "time_limit cannot be negative"),
        ("mining = 3", "'mining' must be a table"),
        ("[mining]\nmin_accuracy = 7", "mining: min_accuracy is a share"),
        ("[mining]\ncriterion = 'luck'", "criterion must be 'agreement' or 'purity', got 'luck'"),
        ("[improvement]\norder = 'any'", "order must be 'mined', 'effect' or 'negative-first', got 'any'"),
        ("[play]\nsample = 1", "sample must be true or false"),
        ("[play]\nepsilon = 2", "epsilon is a share"),
        ("episodes = ", "is not valid TOML"),
        ("episodes = " + "9" * 5000, "too many digits"),
        ("episodes = " + "[" * 3000 + "]" * 3000, "is nested more than 32 deep"),
    ],
)
def test_wrong_settings_are_named(tmp_path, text, message) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(LegibleError, match=message) as caught:
        StudySettings.from_toml(path)
    assert str(caught.value).count("settings.toml") == 1


def test_presets() -> None:
    assert StudySettings.paper().mining == MiningSettings.paper()
    assert StudySettings.paper().evaluation.episodes == 250
    assert StudySettings.quick().episodes < StudySettings().episodes


@pytest.mark.parametrize("comments", [False, True])
@pytest.mark.parametrize("preset", PRESETS)
def test_toml_is_read_back(preset, comments) -> None:
    settings = PRESETS[preset]()
    assert StudySettings.from_dict(tomllib.loads(settings.to_toml(comments=comments))) == settings


def test_every_setting_is_told_once_with_its_help(snapshot) -> None:
    found = {setting.dotted: setting for setting in all_settings()}
    flat = {
        name if not isinstance(value, dict) else f"{name}.{inner}"
        for name, value in asdict(StudySettings()).items()
        for inner in (value if isinstance(value, dict) else [""])
    }
    assert set(found) == flat
    assert all(setting.help.endswith(".") for setting in found.values())
    assert found["play.cost"].kind is str
    assert found["play.cost"].help == snapshot
    assert found["mining.min_accuracy"].default == 0.9
    assert found["mining.min_accuracy"].of(StudySettings(mining=MiningSettings(min_accuracy=0.5))) == 0.5


def test_some_settings_are_replaced_and_the_others_stay(raises_saved) -> None:
    base = StudySettings.quick()
    changed = base.updated({"episodes": 70, "evaluation": {"alpha": 0.01}})
    assert changed == replace(base, episodes=70, evaluation=replace(base.evaluation, alpha=0.01))
    with raises_saved(LegibleError):
        base.updated({"evaluation": {"alfa": 0.01}}, "options")
    with raises_saved(LegibleError):
        base.updated({"evaluation": {"alpha": 2.0}}, "options")


def test_units_suit_the_environment() -> None:
    assert settings_for(EnvironmentSpec("legible/PacmanSmall-v0")) == StudySettings()
    single = settings_for(EnvironmentSpec("CartPole-v1"))
    assert (single.play.batch, single.play.unit_episodes) == (SINGLE_BATCH, SINGLE_UNIT)
