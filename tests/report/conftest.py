"""Studies to report on, run once for all tests."""

from pathlib import Path

import pytest

from legible.engines import InProcess
from legible.policies import load_policy
from legible.report import write_report
from legible.study import Study
from report.studies import SETTINGS, blind_to_the_east, mirror_study


@pytest.fixture(scope="session")
def pacman_study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    policy = blind_to_the_east(load_policy("zoo:PacmanSmall/dqn/0"))
    folder = tmp_path_factory.mktemp("pacman")
    study = Study(folder, "legible/PacmanSmall-v0", policy, settings=SETTINGS, engine=InProcess())
    study.run()
    return study


@pytest.fixture(scope="session")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = mirror_study(tmp_path_factory.mktemp("mirror"))
    study.run()
    return study


@pytest.fixture(scope="session")
def pacman_report(pacman_study: Study) -> Path:
    return write_report(pacman_study)
