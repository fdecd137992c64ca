"""Losses by hand."""

import numpy as np
import pytest
import torch

from legible.distillation.checkpoint import SavedRound
from legible.distillation.losses import actions_loss, log_probabilities_loss, margin_of, values_loss
from legible.distillation.rounds import best_round, has_settled


def test_values_where_a_rule_decides() -> None:
    own = torch.tensor([[5.0, 1.0]])
    chosen, changed = torch.tensor([1]), torch.tensor([True])
    # The rule's choice lacks 4 to be as good and 2 more to lead by the margin.
    assert float(values_loss(own, own, chosen, changed, 2.0)) == pytest.approx((4 + 2) / 2)
    assert float(values_loss(torch.tensor([[5.0, 7.5]]), own, chosen, changed, 2.0)) == 0.0


def test_values_where_no_rule_decides_stay() -> None:
    own = torch.tensor([[5.0, 4.5]])
    chosen, changed = torch.tensor([0]), torch.tensor([False])
    assert float(values_loss(own, own, chosen, changed, 2.0)) == 0.0  # it leads by as much as before
    moved = torch.tensor([[5.0, 6.5]])
    assert float(values_loss(moved, own, chosen, changed, 2.0)) == pytest.approx(0.1 * (1.0 / 2) + (1.5 + 0.5) / 2)


def test_log_probabilities() -> None:
    guided = torch.tensor([[-torch.inf, 0.0]])
    even = torch.log(torch.tensor([[0.5, 0.5]]))
    choices = torch.tensor([[1]])
    assert float(log_probabilities_loss(even, guided, choices, greedy=False)) == pytest.approx(np.log(2))
    assert float(log_probabilities_loss(even, guided, choices, greedy=True)) == pytest.approx(1.5 * np.log(2))


def test_actions_and_margin() -> None:
    spread = torch.tensor([2.0, 1.0])
    assert float(actions_loss(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 0.0]]), spread)) == pytest.approx(0.5)
    assert margin_of(torch.zeros(3, 2)) > 0
    assert margin_of(torch.zeros(3, 1)) == 1.0


def saved(returns: list[float], agreement: float) -> SavedRound:
    return SavedRound([], ([], []), np.array(returns), agreement, 0)


def test_the_best_return_is_kept_and_of_equals_the_one_that_agrees_most() -> None:
    good, same, poor = saved([10, 0, 10, 2], 0.8), saved([0, 10, 2, 9], 0.9), saved([1, 1, 1, 1], 0.99)
    assert best_round([good, same, poor]) == 1
    assert best_round([good, saved([5, 0, 0, 0], 0.9)]) == 0


def test_it_stops_when_neither_return_nor_agreement_rise() -> None:
    rising = [saved([1.0], 0.5), saved([2.0], 0.5), saved([0.0], 0.6)]
    assert not has_settled(rising, 2)
    assert not has_settled([*rising, saved([1.0], 0.604)], 2)
    # They differ in 0.4 of the states: a rise of less than a fiftieth of that is none, however many there are.
    assert has_settled([*rising, saved([1.0], 0.604), saved([2.0], 0.607)], 2)
    assert not has_settled([*rising, saved([1.0], 0.604), saved([1.0], 0.609)], 2)
    near = [saved([1.0], 0.99), saved([1.0], 0.9901)]
    assert has_settled([*near, saved([1.0], 0.99015)], 2)
    assert not has_settled([*near, saved([1.0], 0.9903)], 2)
