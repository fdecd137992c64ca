"""Policies that are open in the workbench, once for all tests."""

import pytest

from legible.engines import InProcess
from legible.server.desk import Desk
from legible.study import Study
from legible.workbench.arena import arena_of, open_arena
from small_studies import WORLD


@pytest.fixture(scope="session")
def desk(policy_file) -> Desk:
    """The flawed network in the mirror world, without a study."""
    return Desk(open_arena(WORLD, policy_file, engine=InProcess(), relations="none", cache=False))


@pytest.fixture
def study_desk(study_copy) -> Desk:
    """A copy of the finished study."""
    study = Study.open(study_copy, trust=True, engine=InProcess())
    return Desk(arena_of(study, engine=InProcess()), study)
