"""The paper's baselines: reproducible, as many random rules as rule sets, by the method of the study."""

import pytest

from lab.reproduction.baselines import BASELINES, play_baseline
from legible.engines import InProcess
from legible.errors import LegibleError
from legible.study import Study


@pytest.mark.parametrize("kind", BASELINES)
def test_a_baseline_is_reproducible(study_copy, kind) -> None:
    study = Study.open(study_copy, trust=True, engine=InProcess())
    units = len(list((study_copy / "units").iterdir()))
    first = play_baseline(study, kind, 3)
    assert len(first.verdicts) == (len(study.rule_sets) if kind == "rules" else 3)
    kept = list((study_copy / "units").iterdir())
    assert len(kept) > units
    for path in kept:
        path.unlink()  # so that everything is played again
    assert play_baseline(Study.open(study_copy, trust=True, engine=InProcess()), kind, 3) == first


def test_an_unknown_baseline_is_refused(finished_study) -> None:
    with pytest.raises(LegibleError, match="one of block, enforce, rules"):
        play_baseline(Study.open(finished_study, trust=True, engine=InProcess()), "luck")


def test_stages_of_a_baseline_are_named_after_it(study_copy) -> None:
    study, stages = Study.open(study_copy, trust=True, engine=InProcess()), set()
    study.progress = lambda stage, *_: stages.add(stage)
    play_baseline(study, "enforce", 3)
    assert stages
    assert all(stage.startswith("baseline enforce") for stage in stages)
