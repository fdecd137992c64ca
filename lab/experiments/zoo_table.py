"""Print the zoo's returns, the paper's and random play's as Markdown: ``python -m lab.experiments.zoo_table``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from legible.environments import EnvironmentSpec, ObservationEncoder, count_actions
from legible.play import collect
from legible.policies import NetworkPolicy, load_policy

ZOO = Path(__file__).parents[2] / "zoo"
PAPER = {
    "PacmanSmall": (1023.6, 1018.4),
    "PacmanSmallNC": (450.6, 447.9),
    "PacmanMedium": (1339.6, 1371.4),
    "PacmanMediumNC": (840.9, 789.4),
    "PacmanOriginal": (1590.5, 1552.4),
    "PacmanOriginalNC": (784.8, 796.4),
    "Highway": (41.7, 68.9),
    "HighwayFast": (48.1, 74.3),
    "Merge": (23.8, 25.6),
    "Intersection": (11.5, 11.7),
    "Roundabout": (361.0, 499.0),
}


def figures(level: str, algorithm: str, suffix: str) -> str:
    """Return the mean of the policies' mean returns and of their standard errors, from the files' metadata."""
    found = []
    for path in sorted((ZOO / level / algorithm).glob(f"[0-9]{suffix}.safetensors")):
        policy = load_policy(path)
        assert isinstance(policy, NetworkPolicy)
        found.append(policy.metadata["evaluation"])
    if not found:
        return "not trained yet"
    mean = np.mean([entry["mean_return"] for entry in found])
    error = np.mean([entry["standard_error"] for entry in found])
    return f"{mean:.{_digits(mean)}f} ± {error:.{_digits(mean)}f} ({len(found)})"


def _digits(mean: float) -> int:
    return 0 if abs(mean) >= 100 else 1


def exploring(level: str, epsilon: float = 0.05, episodes: int = 250) -> str:
    """Return the same for the base policies with the share of random actions that the paper's experiments had."""
    returns = [
        collect(load_policy(path), f"legible/{level}-v0", episodes, seed=1, epsilon=epsilon).returns
        for path in sorted((ZOO / level / "dqn").glob("[0-9].safetensors"))
    ]
    if not returns:
        return "not trained yet"
    errors = [values.std(ddof=1) / np.sqrt(values.size) for values in returns]
    mean = float(np.mean(returns))
    return f"{mean:.{_digits(mean)}f} ± {np.mean(errors):.{_digits(mean)}f} ({len(returns)})"


def random_play(level: str) -> str:
    """Return the mean return of random actions over 250 episodes."""
    env = EnvironmentSpec(f"legible/{level}-v0").make()
    width, actions = ObservationEncoder.of(env.observation_space).width, count_actions(env.action_space)
    anything = load_policy(lambda o: np.zeros((len(o), actions)), output="values", n_features=width, n_actions=actions)
    returns = collect(anything, f"legible/{level}-v0", 250, seed=0, epsilon=1.0).returns
    mean, error = float(returns.mean()), returns.std(ddof=1) / np.sqrt(returns.size)
    return f"{mean:.{_digits(mean)}f} ± {error:.{_digits(mean)}f}"


def main() -> None:
    """Print the tables."""
    print("| environment | random play | base | base, ε = 0.05 | paper's base | extended | paper's extended |")
    print("|---|---|---|---|---|---|---|")
    for level, (paper_base, paper_extended) in PAPER.items():
        base, extended = (figures(level, "dqn", suffix) for suffix in ("", "-extended"))
        cells = (level, random_play(level), base, exploring(level), paper_base, extended, paper_extended)
        print("|", " | ".join(map(str, cells)), "|")
    print("\n| level | PPO |\n|---|---|")
    for level in ("PacmanSmall", "PacmanMedium", "PacmanOriginal"):
        print(f"| {level} | {figures(level, 'ppo', '')} |")


if __name__ == "__main__":
    main()
