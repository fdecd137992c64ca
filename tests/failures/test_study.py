"""Failures as a step of a study: kept, read again, shown in terminal, JSON and report."""

import json
from pathlib import Path

import pytest

from legible.engines import InProcess
from legible.failures import Failures
from legible.play import STAGES
from legible.report import write_report
from legible.study import Study

KINDS = {"does not use", "misjudges", "never met", "cannot tell"}


@pytest.fixture
def explained(study_copy: Path) -> Study:
    """The small study, with its failures explained."""
    study = Study.open(study_copy, trust=True, engine=InProcess())
    study.do("failures")
    return study


def test_the_step_is_kept(explained: Study) -> None:
    again = Study.open(explained.folder, trust=True, engine=InProcess())
    assert isinstance(again.failures, Failures)
    assert again.failures == explained.failures
    assert {one.cause.kind for one in again.failures.diagnoses} <= KINDS


def test_everything_is_shown(explained: Study, legible) -> None:
    show = ("show", explained.folder, "failures", "--trust")
    data = json.loads(legible(*show, "--json").out)
    assert data["episodes"] == explained.settings.references.episodes
    assert {one["kind"] for one in data["causes"]} <= KINDS
    assert "held-out episodes" in " ".join(legible(*show).out.split())
    assert "Why it fails" in write_report(explained).read_text(encoding="utf-8")


def test_stages_have_blocks_of_their_own() -> None:
    blocks = [stage.block for stage in STAGES.values()]
    assert len(blocks) == len(set(blocks))
    assert {"failures", "failures rollouts", "causes rollouts"} <= set(STAGES)
