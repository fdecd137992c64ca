"""The flawed policy of the mirror world as a network in a file, close enough to its scores."""

from functools import cache
from pathlib import Path

import numpy as np
import torch

import mirror_world
from legible.policies import load_policy, save_policy


def save_flawed_network(path: Path) -> Path:
    save_policy(load_policy(_train(), output="values", n_features=5, n_actions=3), path)
    return path


@cache
def _train() -> torch.nn.Sequential:
    """Fit it, once in a process, on one thread: more would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    rng = np.random.default_rng(0)
    at = rng.integers(0, 3, 4000)
    rows = np.zeros((4000, 5), np.float32)
    rows[:, 0] = rng.integers(0, 2, 4000)
    rows[:, 1] = 1 - rows[:, 0]
    rows[:, 2], rows[:, 3] = at == 0, at == 1
    rows[:, 4] = rng.normal(size=4000)
    inputs, targets = torch.from_numpy(rows), torch.from_numpy(mirror_world.scores(rows)).float()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(300):
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(net(inputs), targets).backward()
        optimiser.step()
    torch.set_num_threads(threads)
    return net
