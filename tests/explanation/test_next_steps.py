"""Sensitivity of a study without a repair, and what to try next."""

from dataclasses import replace

import pytest

from explanation.test_explanation import WALLS, study, verdict
from legible.evaluation import Evaluation
from legible.explanation import NextSteps, detectable_effect, suggest_next_steps
from legible.settings import StudySettings

NOTHING = verdict(WALLS, 0.0, confirmed=None, p=0.5)
TESTED = study(
    *(replace(NOTHING, detectable=size, changed_episodes=9) for size in (1.0, 2.0, 6.0)),
    replace(NOTHING, changed_episodes=0),
    asked=False,
)


def suggest(evaluation: Evaluation = TESTED, settings: StudySettings | None = None, **known: object) -> NextSteps:
    return suggest_next_steps(
        evaluation, settings or StudySettings(), **{"has_relations": True, "has_mistakes": True, **known}
    )


def test_sensitivity(snapshot) -> None:
    assert detectable_effect(TESTED) == 2.0
    assert detectable_effect(study()) is None
    assert "\n".join(suggest().seen) == snapshot
    many = study(*(replace(NOTHING, detectable=float(i), changed_episodes=9) for i in range(1, 12)), asked=False)
    assert "\n".join(suggest(many).seen) == snapshot
    only = study(replace(NOTHING, changed_episodes=0), asked=False)
    assert suggest(only).seen == ("The only rule set changes no episode: the policy already follows it.",)
    assert suggest(study()).seen == ("No rule set could be tested, so nothing is known about weaknesses.",)


@pytest.mark.parametrize(
    ("settings", "known", "expected"),
    [
        (StudySettings.quick(), {}, "fewer than the default"),
        (StudySettings(), {}, "--set evaluation.race_seeds=N"),
        (replace(StudySettings(), sources="mined"), {}, "--set sources=mined,searched"),
        (replace(StudySettings(), sources="mined,searched"), {}, "--set search.budget=N"),
        (StudySettings(), {"has_relations": False}, "Write relations"),
        (StudySettings(), {"has_mistakes": False}, "legible run DIR --until mistakes"),
        (StudySettings(), {"is_bad": True}, "Train the policy further"),
        (StudySettings(), {"is_bad": True, "better": "always braking"}, "always braking scores higher"),
    ],
)
def test_suggestions_depend_on_what_was_tried(settings: StudySettings, known: dict[str, object], expected: str) -> None:
    assert expected in " ".join(suggest(settings=settings, **known).steps)
    assert ("--until mistakes" in expected) or "--until mistakes" not in " ".join(suggest(settings=settings).steps)


def test_suggestions_for_confirmed_weaknesses_without_a_repair() -> None:
    weak = study(verdict(WALLS, 5.0))
    assert suggest(weak).seen == ()
    assert [step.split(":")[0] for step in suggest(weak).steps] == ["Play more episodes (--set improvement.episodes=N)"]
    steps = suggest(weak, is_bad=True, better="always braking").steps
    assert [step.split(":")[0] for step in steps] == ["Train the policy further", "Check the reward"]


def test_equal_returns_hide_no_effect() -> None:
    same = study(replace(NOTHING, detectable=0.0, changed_episodes=9), asked=False)
    assert suggest(same).seen[0].startswith("Every episode has the same")
    assert suggest(same).steps[0].startswith("Make the task harder")
    assert not any("Play more" in step or "Search longer" in step for step in suggest(same).steps)
