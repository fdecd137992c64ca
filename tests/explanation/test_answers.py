"""Short answers to what a reader asks first."""

import pytest

from explanation.test_explanation import PACMAN, WALLS, study, verdict
from explanation.test_verdict import BRAKE, RANDOM, improvement, references
from legible.evaluation.endings import EndingShare
from legible.evaluation.figures import Figure
from legible.evaluation.ledger import Ledger, LedgerPart
from legible.explanation import answer_questions, explain_weakness, summarise_deployment

CONFIRMED = study(verdict(WALLS, 1.0))
GAIN = Ledger(Figure(25.0, 20.0, 30.0), (LedgerPart("because “it crashes” is rarer", 0.5, Figure(20.0, 15.0, 25.0)),))


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


def test_endings_that_are_unknown_or_all_good() -> None:
    made = improvement(10.0)
    arguments = (study(), made, references(made, {}), summarise_deployment(made))
    assert answer_questions(*arguments)[1].sentences == ("The environment does not say how episodes end.",)
    good = [EndingShare("success", "it lands", Figure(1.0, 0.9, 1.0))]
    assert answer_questions(*arguments, endings=good)[1].sentences == ("It lands in 100 % of the episodes.",)
