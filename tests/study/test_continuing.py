"""A finished study that is given more time: undecided rule sets on new seeds, then a new composition."""

from dataclasses import replace

import pytest

from legible.play.stages import ROUND_EPISODES
from legible.settings import EvaluationSettings
from legible.study import Study
from small_studies import SETTINGS, small_study

# Too few seeds for a test of the rule that repairs the policy.
FEW = EvaluationSettings(race_seeds=120, confirmation_changes=200, confirmation_seeds=250)


@pytest.mark.slow
def test_more_time_confirms_what_was_undecided(tmp_path, policy_file) -> None:
    study = small_study(tmp_path / "s", policy_file, settings=replace(SETTINGS, evaluation=FEW))
    study.run()
    assert not study.evaluation.confirmed
    first = study.improvement.final_blocks.seeds[0]
    latest = study.continue_testing(4000)
    assert latest is not None
    assert latest.confirmed == len(study.evaluation.confirmed) > 0
    assert not study.has("improvement")
    study.run()
    assert study.improvement.final_blocks.seeds[0] == first + ROUND_EPISODES
    assert latest.sentence() in study.conclusion.text
    again = Study.open(study.folder, trust=True)
    assert again.evaluation == study.evaluation
    assert again.continue_testing(4000) is None
    assert again.has("summary")
