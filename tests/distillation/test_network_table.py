"""The program of the table of networks: its jobs, what it packs and what its table says."""

import argparse
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from lab.experiments import network_table
from lab.experiments.network_table import Job, add_trained, all_jobs, network_facts, pack, play, table
from legible.files import write_json
from legible.policies import load_policy, save_policy
from legible.settings import DistillationSettings

FEW = DistillationSettings(final_episodes=6)


def record(seed: int, figures: dict[str, float], mended: float | None = None) -> dict[str, Any]:
    base = figures["base"]
    return {
        "name": f"PacmanSmall-ppo-{seed}",
        "level": "PacmanSmall",
        "algorithm": "ppo",
        "asked": 1 if mended is None else 3,
        "figures": {name: {"mean": mean, "error": 1.0, "episodes": 10} for name, mean in figures.items()},
        "against_base": {name: {"mean": mean - base} for name, mean in figures.items() if name != "base"},
        "mended_against_distilled": None if mended is None else {"mean": mended, "low": mended - 1.0},
        "steps": {"guided": 10_000_000, "distilled": 11_000_000},
        "seconds": {"search": 60.0, "distillation": 30.0, "workers": 90.0, "processes": 3},
    }


def test_the_most_telling_jobs_come_first() -> None:
    jobs = all_jobs()
    assert [job.name for job in jobs[:5]] == [f"PacmanSmall-ppo-{seed}" for seed in range(5)]
    assert len({job.name for job in jobs}) == 40


def test_the_table_has_means_over_policies_and_the_share_of_the_gain_that_is_kept() -> None:
    one = record(0, {"base": 500.0, "guided": 900.0, "distilled": 880.0, "mended": 990.0}, mended=20.0)
    two = record(1, {"base": 700.0, "guided": 900.0, "distilled": 860.0, "mended": 860.0}, mended=0.0)
    header, _, row = table([one, two]).splitlines()
    assert [cell.strip() for cell in header.split("|")][3:7] == ["base", "guided", "distilled", "mended"]
    # The share that is kept is (380 + 160) of (400 + 200).
    cells = "PacmanSmall PPO | 2 | 600 ± 100 | 900 ± 0, 10.0 M | 870 ± 10, 11.0 M | 925 ± 65 | 90 % | 1 of 2 | 3"
    assert [cell.strip() for cell in row.split("|")][1:-1] == cells.split(" | ")


def test_figures_of_the_text_are_means_over_policies() -> None:
    figures = {"base": 500.0, "guided": 900.0, "distilled": 880.0, "mended": 990.0}
    one = record(0, figures | {"extended": 700.0}, mended=20.0)
    two = record(1, {"base": 700.0, "guided": 900.0, "distilled": 860.0, "mended": 860.0}, mended=0.0)
    small = record(2, {"base": 700.0, "guided": 750.0, "distilled": 700.0, "mended": 700.0}, mended=0.0)
    facts = network_facts([one, two, small])
    assert (facts["policies"], facts["kept_of"]) == (3, 2)  # a gain of 50 is too small
    assert facts["kept"] == pytest.approx((0.95 + 0.8) / 2)
    row = facts["rows"]["PacmanSmall ppo"]
    assert row["distilled"] == {"mean": pytest.approx(2440 / 3), "steps": 11.0}
    assert (row["base"]["steps"], row["rounds_better"]) == (0.0, 1)
    assert "extended" not in row  # of one policy only
    trained = [record(i, figures | {"extended": 990.0 + more}, mended=0.0) for i, more in enumerate((-10.0, 30.0))]
    row = network_facts(trained)["rows"]["PacmanSmall ppo"]
    # t with one degree of freedom is 12.706, the standard error 20.
    wide = {"low": 10.0 - 254.1, "high": 10.0 + 254.1}
    assert row["extended less mended"] == pytest.approx({"mean": 10.0, **wide, "better": 1}, abs=0.1)
    assert row["extended less distilled"]["mean"] == pytest.approx(120.0)
    assert "extended with rules less extended" not in row  # none was trained so


def test_packed_is_what_is_not_done_without_what_is_soon_made_again(tmp_path) -> None:
    jobs = [Job("PacmanSmall", "ppo", seed) for seed in (0, 1)]
    for job in jobs:
        study = tmp_path / "scratch" / job.name / "mending" / "round-1"
        for name in ("study.json", "experiences.npz", "units/a.npz", "unguided/b.npz"):
            (study / name).parent.mkdir(parents=True, exist_ok=True)
            (study / name).write_text(name)
    write_json(tmp_path / "PacmanSmall-ppo-0.json", {"asked": 3})
    write_json(tmp_path / "PacmanSmall-ppo-1.json", {"asked": 1})  # three rounds are wanted
    assert [job.is_done(tmp_path) for job in jobs] == [True, False]
    pack(jobs, argparse.Namespace(out=tmp_path, scratch=tmp_path / "scratch", pack=tmp_path / "p.tgz"))
    with tarfile.open(tmp_path / "p.tgz") as archive:
        names = archive.getnames()
    assert sorted(names) == [f"PacmanSmall-ppo-1/mending/round-1/{name}" for name in ("study.json", "units/a.npz")]


@pytest.fixture
def _few_episodes(monkeypatch) -> None:
    monkeypatch.setattr(network_table, "distillation_settings_for", lambda *_: FEW)


@pytest.mark.usefixtures("_few_episodes")
def test_policies_that_were_trained_further_play_the_same_seeds(tmp_path) -> None:
    """The same network under another name has the same figures, and differs from itself by nothing."""
    job = Job("PacmanSmall", "ppo", 2)
    policy = load_policy(job.policy)
    place = tmp_path / "PacmanSmall" / "ppo"
    place.mkdir(parents=True)
    save_policy(policy, place / "2-extended.safetensors")
    returns = play(job, policy).returns
    made = record(2, {"base": float(returns.mean())})
    assert add_trained(made, tmp_path)
    assert made["figures"]["extended"]["mean"] == pytest.approx(float(np.mean(returns)))
    assert made["against_base"]["extended"]["mean"] == 0.0
    assert made["steps"]["extended"] == policy.metadata["steps"]
    assert not add_trained(record(3, {"base": 0.0}), tmp_path)
