"""A study that confirmed nothing is no dead end: what could have been seen, and what to try."""

from dataclasses import replace

from explanation.test_explanation import WALLS, study, verdict
from legible.explanation import detectable_effect, look_ahead
from legible.settings import StudySettings

NOTHING = verdict(WALLS, 0.0, confirmed=None, p=0.5)
TESTED = study(
    *(replace(NOTHING, detectable=size, changed_episodes=9) for size in (1.0, 2.0, 6.0)),
    replace(NOTHING, changed_episodes=0),
    asked=False,
)


def test_what_effect_could_have_been_seen(snapshot) -> None:
    assert detectable_effect(TESTED) == 2.0
    assert detectable_effect(study()) is None
    found = look_ahead(TESTED, StudySettings(), has_relations=True, has_mistakes=True)
    assert "\n".join(found.seen) == snapshot
    (nothing,) = look_ahead(study(), StudySettings(), has_relations=True, has_mistakes=True).seen
    assert nothing == snapshot


def test_what_to_try_next_depends_on_what_was_tried() -> None:
    def steps(settings: StudySettings, **known: object) -> str:
        return " ".join(look_ahead(TESTED, settings, **{"has_relations": True, "has_mistakes": True, **known}).steps)

    assert "less than one does" in steps(StudySettings.quick())
    assert "less than one does" not in steps(StudySettings())
    assert "--sources mined,searched" in steps(replace(StudySettings(), sources="mined"))
    assert "--search.budget" in steps(replace(StudySettings(), sources="mined,searched"))
    assert "Write relations" in steps(StudySettings(), has_relations=False)
    assert "legible mistakes" in steps(StudySettings(), has_mistakes=False)
    assert "legible mistakes" not in steps(StudySettings())
    assert steps(StudySettings(), is_bad=True).startswith("Train it further: ")
    assert "always braking has more" in steps(StudySettings(), is_bad=True, better="always braking")


def test_confirmed_weaknesses_without_a_repair_have_next_steps_too(snapshot) -> None:
    weak = study(verdict(WALLS, 5.0))
    told = look_ahead(weak, StudySettings(), has_relations=True, has_mistakes=True)
    assert (told.seen, len(told.steps)) == ((), 1)
    assert told.steps[0].startswith("Play more (--improvement.episodes)")
    told = look_ahead(
        weak, StudySettings(), has_relations=True, has_mistakes=True, is_bad=True, better="always braking"
    )
    assert "\n".join(told.steps) == snapshot


def test_where_every_episode_returns_the_same_nothing_can_have_been_missed(snapshot) -> None:
    same = study(replace(NOTHING, detectable=0.0, changed_episodes=9), asked=False)
    (told,) = look_ahead(same, StudySettings(), has_relations=True, has_mistakes=True).seen
    assert told == snapshot
    steps = look_ahead(same, StudySettings(), has_relations=True, has_mistakes=True).steps
    assert steps[0].startswith("Make it harder")
    assert not any("Play more" in step or "Search longer" in step for step in steps)
