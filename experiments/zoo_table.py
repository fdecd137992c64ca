"""Print the zoo's returns beside the paper's and random play, as Markdown: ``python -m experiments.zoo_table``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from legible.envs import PACMAN_LEVELS
from legible.experiences import collect
from legible.policies import NetworkPolicy, load_policy

ZOO = Path(__file__).parents[1] / "zoo"
PAPER = {
    "PacmanSmall": (1023.6, 1018.4),
    "PacmanSmallNC": (450.6, 447.9),
    "PacmanMedium": (1339.6, 1371.4),
    "PacmanMediumNC": (840.9, 789.4),
    "PacmanOriginal": (1590.5, 1552.4),
    "PacmanOriginalNC": (784.8, 796.4),
}


def figures(level: str, algorithm: str, suffix: str) -> str:
    """Mean of the policies' mean returns, with the mean of their standard errors, from the files' own metadata."""
    found = []
    for path in sorted((ZOO / level / algorithm).glob(f"[0-9]{suffix}.safetensors")):
        policy = load_policy(path)
        assert isinstance(policy, NetworkPolicy)
        found.append(policy.metadata["evaluation"])
    if not found:
        return "not trained yet"
    mean = np.mean([entry["mean_return"] for entry in found])
    error = np.mean([entry["standard_error"] for entry in found])
    return f"{mean:.0f} ± {error:.0f} ({len(found)})"


def exploring(level: str, epsilon: float = 0.05) -> str:
    """The same for the base policies with the share of random actions that the paper's experiments had."""
    returns = [
        collect(load_policy(path), f"legible/{level}-v0", 250, seed=1, epsilon=epsilon).returns
        for path in sorted((ZOO / level / "dqn").glob("[0-9].safetensors"))
    ]
    if not returns:
        return "not trained yet"
    errors = [values.std(ddof=1) / np.sqrt(values.size) for values in returns]
    return f"{np.mean(returns):.0f} ± {np.mean(errors):.0f} ({len(returns)})"


def random_play(level: str) -> str:
    """Mean return of random actions over 250 episodes."""
    width = 117 if "Original" in level else 69
    anything = load_policy(lambda o: np.zeros((len(o), 5)), output="values", n_features=width, n_actions=5)
    returns = collect(anything, f"legible/{level}-v0", 250, seed=0, epsilon=1.0).returns
    return f"{returns.mean():.0f} ± {returns.std(ddof=1) / np.sqrt(returns.size):.0f}"


def main() -> None:
    """Print the table."""
    print("| level | random play | base | base, ε = 0.05 | paper's base | extended | paper's extended |")
    print("|---|---|---|---|---|---|---|")
    for level in PACMAN_LEVELS:
        base, extended = (figures(level, "dqn", suffix) for suffix in ("", "-extended"))
        paper_base, paper_extended = PAPER[level]
        cells = (level, random_play(level), base, exploring(level), paper_base, extended, paper_extended)
        print("|", " | ".join(map(str, cells)), "|")


if __name__ == "__main__":
    main()
