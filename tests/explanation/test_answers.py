"""Short answers to what a reader asks first."""

import numpy as np
import pytest

from explanation.test_explanation import PACMAN, WALLS, study, verdict
from explanation.test_verdict import BRAKE, RANDOM, improvement, references
from legible.evaluation.endings import EndingShare
from legible.evaluation.figures import Figure
from legible.evaluation.ledger import Ledger, LedgerPart
from legible.explanation import answer_questions, explain_weakness, summarise_deployment
from legible.features import FeatureSpace
from legible.play import Experiences

CONFIRMED = study(verdict(WALLS, 1.0))
PARTS = (
    LedgerPart("because “it crashes” is rarer", 0.5, Figure(20.0, 15.0, 25.0)),
    LedgerPart("where the ending stays the same", 0.5, Figure(5.0, 1.0, 9.0)),
)
GAIN = Ledger(Figure(25.0, 20.0, 30.0), PARTS)


@pytest.mark.parametrize(
    ("guided", "baselines", "solved"),
    [
        pytest.param(35.0, {BRAKE: 3.0}, 30.0, id="rules that help"),
        pytest.param(35.0, {BRAKE: 60.0, RANDOM: 2.0}, None, id="a constant action is better"),
        pytest.param(None, {RANDOM: 10.0}, 5.0, id="no rules"),
    ],
)
def test_six_questions_have_answers(guided, baselines, solved, snapshot) -> None:
    made = improvement(10.0, guided)
    evaluation = CONFIRMED if guided else study(verdict(WALLS, 1.0, confirmed=False))
    ends = (Figure(0.75, 0.7, 0.8), None if guided is None else Figure(0.1, 0.05, 0.2))
    answers = answer_questions(
        evaluation,
        made,
        references(made, baselines),
        summarise_deployment(made),
        explanations=[explain_weakness(verdict(WALLS, 1.0), PACMAN)] if guided else [],
        confirmed=int(guided is not None),
        endings=[EndingShare("failure", "it crashes", *ends)],
        reasons=["80 % of the failures follow one pattern.", "It does not use the gap."] if guided else [],
        ledger=GAIN if guided else None,
        next_steps=["Do this.", "Then that.", "Not shown."],
        solved=solved,
    )
    assert {answer.question: " ".join(answer.sentences) for answer in answers} == snapshot


def test_endings_that_are_unknown_or_all_good(snapshot) -> None:
    made = improvement(10.0)
    arguments = (study(), made, references(made, {}), summarise_deployment(made))
    assert answer_questions(*arguments)[1].sentences == snapshot
    good = [EndingShare("success", "it lands", Figure(1.0, 0.9, 1.0))]
    assert answer_questions(*arguments, endings=good)[1].sentences == snapshot


def test_what_happens_before_the_time_limit(snapshot) -> None:
    made = improvement(10.0)
    heights = np.concatenate([np.linspace(1.0, 0.2, 150), np.full(50, 0.2) + 0.01 * np.arange(50) / 50])
    states = np.stack([heights, np.random.default_rng(0).normal(size=200)], axis=1).astype(np.float32)
    actions = np.r_[np.zeros(150, np.int64), np.ones(40, np.int64), np.zeros(10, np.int64)]
    hovers = Experiences(
        observations=states,
        actions=actions,
        scores=np.eye(2, dtype=np.float32)[actions],
        episode_ids=np.zeros(200, np.int64),
        returns=np.zeros(1),
        lengths=np.array([200]),
        seeds=np.zeros(1, np.int64),
        success=np.full(1, np.nan),
        space=FeatureSpace.of(["height", "wind"], ["fall", "hover"]),
        endings=np.array(["time limit"]),
    )
    limit = [EndingShare("time limit", "time runs out", Figure(1.0, 0.9, 1.0))]
    arguments = (study(), made, references(made, {}), summarise_deployment(made))
    (sentence,) = answer_questions(*arguments, endings=limit, experiences=hovers)[3].sentences
    assert sentence == snapshot
    # The time limit is a weakness only of policies that do not solve the environment.
    assert answer_questions(*arguments, endings=limit, solved=30.0)[2].sentences == snapshot
    assert answer_questions(*arguments, endings=limit, solved=9.0)[2].sentences == snapshot
    hovering_less = [EndingShare("time limit", "time runs out", Figure(0.2, 0.1, 0.3))]
    assert answer_questions(*arguments, endings=hovering_less, experiences=hovers)[3].sentences == (
        "It hardly ever fails.",
    )
