"""Helpers: episodes with records of their steps, and a small network."""

from collections.abc import Sequence
from typing import Any

import torch

from legible.play import Episodes, PolicyChooser, Slots, StepRecord, play_episodes
from legible.policies import Policy, load_policy


def play(slots: Slots, policy: Policy, seeds: Sequence[int], **options: Any) -> tuple[Episodes, list[StepRecord]]:
    """Play episodes and return their results and the records of their steps."""
    steps: list[StepRecord] = []
    exploration = {key: options.pop(key) for key in ("epsilon", "sample") if key in options}
    played = play_episodes(slots, PolicyChooser(policy, seeds, **exploration), seeds, on_step=steps.append, **options)
    return played, steps


def network(n_features: int, n_actions: int) -> Policy:
    """Return a policy with one hidden layer and fixed weights."""
    torch.manual_seed(3)
    hidden = torch.nn.Linear(n_features, 64)
    return load_policy(torch.nn.Sequential(hidden, torch.nn.ReLU(), torch.nn.Linear(64, n_actions)), output="values")
