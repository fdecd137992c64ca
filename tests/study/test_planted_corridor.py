"""A policy with three weaknesses at once: the composition mends them all and names each cause once."""

from pathlib import Path

import pytest

import corridor_world
from legible.settings import ImprovementSettings, StudySettings
from legible.study import Study
from study.studies import make_study, open_study, settings_of

SETTINGS = settings_of(
    episodes=200,
    sources="mined,yours",
    mining={"lime_states": 10, "lime_samples": 500},
    play={"batch": 25, "unit_episodes": 200},
    evaluation={"race_seeds": 200, "confirmation_changes": 200, "confirmation_seeds": 400},
    improvement={"episodes": 120, "final_episodes": 300, "beginnings": 1},
)
# A quarter of the steps has each danger, half of those on the left.
LOST = corridor_world.STEPS / 8 * sum(1.0 + loss for loss in corridor_world.LOSS)
CAUSES = {"+step.right <- fire & left", "+jump.right <- pit & left", "+duck.right <- beam & left"}


def studied(folder: Path, **settings: object) -> Study:
    file = folder / "mirror.toml"
    file.write_text(corridor_world.MIRROR, encoding="utf-8")
    improvement = ImprovementSettings(episodes=120, final_episodes=300, beginnings=1, **settings)
    return make_study(
        folder / "study",
        corridor_world.SPEC,
        corridor_world.policy(),
        relations=file,
        settings=StudySettings(**{**SETTINGS.__dict__, "improvement": improvement}),
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    made = studied(tmp_path_factory.mktemp("corridor"))
    made.improve()
    return made


def test_nearly_all_of_the_loss_is_recovered(study: Study) -> None:
    improvement = study.improvement
    assert improvement.base.mean == pytest.approx(corridor_world.STEPS - LOST, abs=1.5)
    assert improvement.effect.mean >= 0.95 * LOST
    assert improvement.guided.mean == pytest.approx(corridor_world.STEPS, abs=0.2)


def test_every_cause_is_named_once(study: Study) -> None:
    """Rules that mend nothing, such as those for the right, are left out."""
    rules = [rule.text(study.space) for rule in study.improvement.composition.rules]
    assert len(rules) == len(CAUSES)
    for danger in corridor_world.DANGERS:
        assert sum(danger in rule for rule in rules) == 1
    assert len(study.improvement.rule_sets) == len(CAUSES)


def test_with_few_changes_allowed_the_dearest_weakness_is_mended(tmp_path: Path) -> None:
    """Each danger on the left is an eighth of the steps: only one of them fits."""
    study = studied(tmp_path, most_changed=0.15)
    improvement = study.improve()
    assert [("fire" in rule.text(study.space)) for rule in improvement.composition.rules] == [True]
    assert 0.1 < improvement.guided.changed < 0.15
    assert not improvement.changes_too_much


def test_it_is_the_same_when_it_is_read_again(study: Study) -> None:
    again = open_study(study.folder, policy=study.policy).improvement
    names = ("rule_sets", "composition", "steps", "effect", "front", "check", "environment_steps")
    for name in names:
        assert getattr(again, name) == getattr(study.improvement, name), name
