"""What a study says about the symmetry of its policy, with seeds of its own."""

from pathlib import Path

import pytest

import mirror_world
from legible.play import STAGES, stage_seeds
from legible.policies import Policy
from legible.study import Study
from study.studies import make_study, open_study, settings_of

SETTINGS = settings_of(
    sources="mined", episodes=30, mining={"lime_states": 5, "lime_samples": 100}, play={"batch": 8, "unit_episodes": 30}
)


def study_of(folder: Path, policy: Policy) -> Study:
    relations = folder.parent / "mirror.toml"
    relations.write_text(mirror_world.MIRROR)
    return make_study(folder, mirror_world.WORLD, policy, relations=str(relations), settings=SETTINGS)


def test_a_symmetric_policy_loses_nothing(tmp_path):
    (score,) = study_of(tmp_path / "study", mirror_world.best_policy()).do("symmetry")
    assert score.share == 1.0
    assert score.effect is None
    assert not score.is_costly


def test_the_cost_of_an_asymmetry_is_measured_once_on_seeds_of_its_own(tmp_path):
    study = study_of(tmp_path / "study", mirror_world.policy())
    (score,) = study.do("symmetry")
    assert 0.2 < score.share < 0.9
    assert score.effect is not None
    # Half of the goals lie to the left. The averaged policy walks there, the policy only by chance.
    assert score.effect.low > 5.0
    assert score.is_costly
    assert score.worth in score.text
    seeds = stage_seeds(study.seed, "symmetry", 0, score.episodes)
    assert {int(seed) for seed in seeds}.isdisjoint(
        int(seed) for name in STAGES for seed in stage_seeds(study.seed, name, 0, 200) if name != "symmetry"
    )
    again = open_study(tmp_path / "study", policy=mirror_world.policy())
    assert again.symmetry_scores == (score,)


@pytest.mark.parametrize("most", [0, 1])
def test_the_number_of_played_relations_is_limited(tmp_path, monkeypatch, most):
    monkeypatch.setattr("legible.study.symmetry.MOST_PLAYED", most)
    (score,) = study_of(tmp_path / "study", mirror_world.policy()).do("symmetry")
    assert (score.effect is not None) == bool(most)
