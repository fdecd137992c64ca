"""A small study made with the command line."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mirror_world
from legible import cli

QUICK = """
episodes = 60
sources = "mined,others,yours"
mining = { lime_states = 10, lime_samples = 200 }
play = { batch = 8, unit_episodes = 40 }
evaluation = { method = "paper", episodes = 40, confirmation_episodes = 40 }
improvement = { episodes = 40, final_episodes = 120 }
references = { episodes = 20 }
mistakes = { when = "always", episodes = 20, decisions = 40 }
"""


@pytest.fixture(scope="session")
def place(tmp_path_factory, policy_file) -> Path:
    """Return a folder with a policy, relations and settings."""
    folder = tmp_path_factory.mktemp("place")
    shutil.copy(policy_file, folder / "policy.safetensors")
    (folder / "mirror.toml").write_text(mirror_world.MIRROR)
    (folder / "quick.toml").write_text(QUICK)
    return folder


@pytest.fixture(scope="session")
def words_for(place) -> Callable[..., list[object]]:
    """Return a function that gives ENV, POLICY and the options of a small study."""

    def words(out: Path, env="mirror_world:MirrorWorld", policy="policy.safetensors", relations="mirror.toml"):
        policy = policy if ":" in str(policy) else place / policy
        relations = relations if relations == "none" else place / relations
        settings = ["--settings", place / "quick.toml", "--engine", "inline", "--out", out]
        return [env, policy, "--relations", relations, *settings]

    return words


@pytest.fixture(scope="session")
def studied(place, words_for) -> Path:
    """Return a study that ``legible run`` has finished; tests that change it take `copied`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["legible", "run", *map(str, words_for(place / "studied"))])
        with pytest.raises(SystemExit) as left:
            cli.main()
    assert not left.value.code
    return place / "studied"


@pytest.fixture
def copied(studied, tmp_path) -> Path:
    """Return a copy of the finished study."""
    return shutil.copytree(studied, tmp_path / "copied")
