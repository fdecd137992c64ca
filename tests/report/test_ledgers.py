"""The steps that split gains: parts add up to the effects and gains that the study quotes."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from legible import cli
from legible.engines import InProcess
from legible.evaluation.ledger import Ledger
from legible.study import Study, ledgers


def check_sums(ledger: Ledger, total: float) -> None:
    np.testing.assert_allclose(ledger.total.value, total)
    for parts in ledger.splits.values():
        np.testing.assert_allclose(sum(part.gain.value for part in parts), total, atol=1e-9)
        assert all(part.gain.low <= part.gain.value <= part.gain.high for part in parts)


@pytest.mark.parametrize("name", ["pacman_study", "mirror"])
def test_gains_of_weaknesses_are_split_by_time(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    study: Study = request.getfixturevalue(name)
    monkeypatch.setattr(ledgers, "STEP_SHARE", 1.0)  # small studies have no steps to spare
    found = ledgers.split_weaknesses(study)
    assert len(study.weakness_ledgers) == len(found) == len(study.weaknesses) > 0
    for group, ledger in zip(study.weaknesses, found, strict=True):
        if group.front.confirmation is not None:
            assert ledger is not None
            assert ledger.times
            check_sums(ledger, group.front.confirmation.effect.mean)


def test_gains_of_mistakes_are_split(pacman_study: Study) -> None:
    found = pacman_study.mistake_ledgers
    assert found
    for mistake, ledger in zip(pacman_study.mistakes.listed, found, strict=False):
        assert ledger is not None
        assert ledger.times
        check_sums(ledger, mistake.gain)
    again = Study.open(pacman_study.folder, engine=InProcess())
    assert again.mistake_ledgers == found


def test_ledgers_are_shown(
    pacman_study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["legible", "show", str(pacman_study.folder), *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert not left.value.code
        return capsys.readouterr().out

    data = json.loads(show("mistakes", "--json"))
    assert data["ledgers"][0]["times"]
    assert "Gain of" in " ".join(show("mistakes").split())
    assert len(json.loads(show("verdict", "--json"))["weakness_ledgers"]) == len(pacman_study.weaknesses)


def test_ledgers_go_with_the_weaknesses_that_they_split(pacman_study: Study, tmp_path: Path) -> None:
    shutil.copytree(pacman_study.folder, tmp_path / "copy")
    study = Study.open(tmp_path / "copy", trust=True, engine=InProcess())
    assert study.has("weakness ledgers")
    study._forget({"summary"})  # as after more tests
    assert not study.has("weakness ledgers")
    assert study.has("mistake ledgers")
