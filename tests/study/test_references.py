"""References of a study: played once, remembered with the folder, and without any effect on all the rest."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import mirror_world
from braking_world import braking_in_the_dark
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.explanation import conclude
from legible.files import DamagedFileError
from legible.report import write_report
from legible.report.command import rerun_command
from legible.study import StepMissingError, Study
from study.studies import make_study, open_study, settings_of
from unfinished import forget_results

WAY = "the same policy with 5 % random actions"
SETTINGS = settings_of(
    sources="mined,yours",
    episodes=40,
    mining={"importance": "none"},
    play={"batch": 8, "unit_episodes": 40},
    evaluation={"episodes": 20, "confirmation_episodes": 20},
    improvement={"episodes": 20, "final_episodes": 30},
    references={"episodes": 20, "quoted": 1},
)


def mirror_study(folder: Path, policy: Path, **changes: object) -> Study:
    arguments = {"relations": mirror_world.mirror(), "settings": SETTINGS, "engine": InProcess(), **changes}
    return Study(folder, mirror_world.WORLD, policy, **arguments)


def road_study(folder: Path, share: float, rules: Sequence[str] = (), **changes: object) -> Study:
    road, settings = EnvironmentSpec("braking_world:BrakingWorld"), replace(SETTINGS, **changes)
    study = make_study(folder, road, braking_in_the_dark(share), rules=rules, settings=settings)
    study.run()
    return study


def test_references_are_played_after_all_the_rest_and_change_none_of_it(tmp_path, policy_file) -> None:
    study = mirror_study(tmp_path / "s", policy_file)
    improvement = study.improve()
    units = {path.name: path.read_bytes() for path in (study.folder / "units").iterdir()}
    with pytest.raises(StepMissingError):
        study.references  # noqa: B018 (reading is what is tried)
    found = study.play_references()
    assert study.references == found
    assert study.improvement == improvement
    after = {path.name: path.read_bytes() for path in (study.folder / "units").iterdir()}
    assert {name: after[name] for name in units} == units
    # All have played the seeds of the choice before rules were tested; three of them play the final seeds.
    assert len(after) - len(units) == 3
    assert {entry.sample.episodes for entry in found.quoted} == {30}


def test_a_run_that_was_stopped_goes_on(tmp_path, policy_file) -> None:
    whole = mirror_study(tmp_path / "whole", policy_file).play_references()
    study = mirror_study(tmp_path / "stopped", policy_file)
    study.improve()

    def stop(_stage: str, done: int, _of: int) -> None:
        if done > 200:
            raise KeyboardInterrupt

    study.progress = stop
    with pytest.raises(KeyboardInterrupt):
        study.play_references()
    again = open_study(study.folder)
    told: list[tuple[str, int, int]] = []
    again.progress = lambda *news: told.append(news)
    assert again.play_references() == whole
    assert told[0][1] > 0  # what had been played is there at once
    assert told[-1][1] == told[-1][2]


def test_other_policies_are_references_that_the_folder_remembers(tmp_path, policy_file, snapshot) -> None:
    study = mirror_study(tmp_path / "s", policy_file)
    found = study.play_references({"the same again": policy_file, "right": mirror_world.best_policy()})
    again, right = (next(entry for entry in found.quoted if entry.name == name) for name in ("the same again", "right"))
    assert again.over_policy.mean == 0.0
    assert again.result.returns.tolist() == study.improvement.final_blocks.base.returns.tolist()
    assert right.beats_policy
    assert found.best.name == "right"
    text = conclude(study.evaluation, study.improvement, found).text
    assert text.partition(" returns ")[0] == snapshot
    assert study.other_policies == {"the same again": str(policy_file)}
    assert open_study(study.folder).references == found
    assert f"--other 'the same again={policy_file.name}'" in rerun_command(study)
    # Later calls need not name them, and more can be added.
    more = open_study(study.folder).play_references({"and again": policy_file})
    assert [result.reference.name for result in more.results][-3:] == ["the same again", "right", "and again"]


def test_another_policy_must_fit_and_have_a_name_of_its_own(tmp_path, policy_file, raises_saved) -> None:
    study = mirror_study(tmp_path / "s", policy_file)
    for name in ("always Left", "random play", "guided"):
        with pytest.raises(LegibleError, match=f"--other {name}=…: this name is taken"):
            study.play_references({name: mirror_world.best_policy()})
    with raises_saved(LegibleError):
        study.play_references({"road": braking_in_the_dark(0.5)})
    assert not (study.folder / "others.json").exists()


def test_what_is_missing_of_another_policy_is_named(tmp_path, policy_file, raises_saved) -> None:
    study = mirror_study(tmp_path / "s", policy_file)
    study.play_references({"right": mirror_world.best_policy()})
    for path in (study.folder / "units").iterdir():
        path.unlink()
    forget_results(study.folder, "references")
    with raises_saved(LegibleError):
        open_study(study.folder).play_references()
    (study.folder / "others.json").write_text("{}")
    with pytest.raises(DamagedFileError):
        open_study(study.folder).play_references()


def test_a_policy_that_a_constant_choice_beats_is_told_so_first(tmp_path, snapshot) -> None:
    study = road_study(tmp_path, 0.3)
    text = conclude(study.evaluation, study.improvement, study.references).text
    worse = text.partition(". ")[0]
    assert worse == snapshot
    assert "No weakness" not in text
    page = write_report(study).read_text(encoding="utf-8")
    assert worse in page
    assert "always doing “Brake” 10" in page
    rows = (tmp_path / "plots" / "references.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("name,mean,error,low,high,success,episodes,")
    assert [row.split(",")[0] for row in rows[1:]] == ["random play", "always Go", "always Brake", "always Wait", WAY]
    assert "always Brake" in (tmp_path / "plots" / "returns.csv").read_text(encoding="utf-8").splitlines()[0]


def test_guidance_that_only_brakes_imitates_it(tmp_path, snapshot) -> None:
    study = road_study(tmp_path, 0.3, ["+Brake <- light > -1"], sources="yours")
    assert study.improvement.effect.low > 0
    assert study.improvement.choice_shares.tolist() == [0.0, 1.0, 0.0]
    text = conclude(study.evaluation, study.improvement, study.references).text
    assert text == snapshot


def test_the_policy_of_the_best_choice_is_not_called_without_weakness(tmp_path, snapshot) -> None:
    study = road_study(tmp_path, 2.0)
    text = conclude(study.evaluation, study.improvement, study.references).text
    assert text.partition(". ")[0] == snapshot
