"""Write the tables of ``policies.md`` by trying every combination: ``python docs/make_policies.py``.

- `combinations`: algorithm × action space × observation space: a model of Stable-Baselines3 is made, saved and read,
  and its actions are compared.
- `refusals`: what is refused, in the words of the refusal.
- `masks`: which policies keep to action masks in a study, by where the masks are.
- `libraries`: checkpoints of other libraries.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import DummyVecEnv

from legible.environments import choice_sizes
from legible.errors import LegibleError
from legible.play import collect
from legible.policies import load_policy

PAGE = Path(__file__).parent / "policies.md"
BOX = spaces.Box(-3.0, 3.0, (4,))
PICTURE = spaces.Box(0, 255, (36, 36, 3), np.uint8)
OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "Box": BOX,
    "Box of 2 dimensions": spaces.Box(-3.0, 3.0, (2, 3)),
    "Discrete": spaces.Discrete(5),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2, 4]),
    "MultiBinary": spaces.MultiBinary(4),
    "picture": PICTURE,
    "Dict": spaces.Dict({"observation": BOX, "desired_goal": BOX}),
    "Dict with pictures": spaces.Dict({"picture": PICTURE, "number": spaces.Discrete(3), "box": BOX}),
    "Tuple": spaces.Tuple((BOX, spaces.Discrete(3))),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "Discrete": spaces.Discrete(3),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
    "MultiBinary": spaces.MultiBinary(3),
    "Box": spaces.Box(np.float32([-1, -0.5]), np.float32([2, 3])),
}
ALGORITHMS = (
    *("DQN", "QRDQN", "PPO", "A2C", "TRPO", "MaskablePPO", "RecurrentPPO"),
    *("SAC", "TD3", "DDPG", "TQC", "CrossQ", "ARS"),
)
_OFF_POLICY = {"DQN", "QRDQN", "SAC", "TD3", "DDPG", "TQC", "CrossQ"}
STATES = 20


class Anywhere(gymnasium.Env[Any, Any]):
    """An environment that only has spaces."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        """Begin."""
        return self.observation_space.sample(), {}

    def step(self, _: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """End."""
        return self.observation_space.sample(), 0.0, True, False, {}


class OwnExtractor(FlattenExtractor):
    """A feature extractor that is nobody's but its author's."""

    __module__ = "my_project"


def make_model(algorithm: str, seen: spaces.Space[Any], taken: spaces.Space[Any], **options: Any) -> Any:
    """Make an untrained model; raises whatever Stable-Baselines3 raises when it has no such thing."""
    kind = "MultiInput" if isinstance(seen, spaces.Dict) else "Cnn" if seen is PICTURE else "Mlp"
    settings: dict[str, Any] = {"policy_kwargs": {}, **options}
    if algorithm == "RecurrentPPO":
        settings["policy_kwargs"] = {"lstm_hidden_size": 8, **settings["policy_kwargs"]}
        kind += "Lstm"
    if algorithm in _OFF_POLICY:
        settings["buffer_size"] = 4
    made = getattr(stable_baselines3, algorithm, None) or getattr(sb3_contrib, algorithm)
    env = DummyVecEnv([lambda: Anywhere(seen, taken)])
    return made(f"{kind}Policy", env, device="cpu", seed=0, **settings)


def outcome(algorithm: str, seen: spaces.Space[Any], taken: spaces.Space[Any], folder: Path) -> str:
    """Try a combination: "opens", or who has no such thing and why."""
    try:
        model = make_model(algorithm, seen, taken)
    except Exception as error:  # whatever it raises, it has no such model
        return _no_model(error)
    path = folder / "model.zip"
    model.save(path)
    try:
        policy: Any = load_policy(path)
    except LegibleError as error:
        return f"refused: {_plain(error, path)}"
    seen.seed(1)
    for _ in range(STATES):
        state = seen.sample()
        expected, _ = model.predict(state, deterministic=True)
        if not np.allclose(policy.predict(state)[0], expected, atol=1e-5):
            return "acts otherwise"
    return "opens"


def _no_model(error: Exception) -> str:
    text = str(error)
    if "only supports" in text:
        return "no such actions"
    if "observation space" in text or isinstance(error, NotImplementedError):
        return "no such observations"
    if isinstance(error, ValueError) and "unknown" in text:
        return "no such policy"
    if isinstance(error, TypeError) and "input_size" in text:
        return "PyTorch refuses"
    return (
        "no such observations" if isinstance(error, AssertionError | TypeError) else f"{type(error).__name__}: {text}"
    )


def _plain(error: Exception, path: Path) -> str:
    text = re.sub(r"<class '(.*?)'>", r"\1", str(error).replace(f"{path}: ", ""))
    return re.sub(r"\s+", " ", text).partition(". Supported are")[0]


MARKS = {
    "opens": "✓",
    "no such actions": "–",
    "no such observations": "–",
    "no such policy": "–",
    "PyTorch refuses": "– (1)",
    "refused: its observation space is Tuple, which cannot be read": "refused (2)",
}


def combinations(algorithms: tuple[str, ...] = ALGORITHMS) -> Iterator[str]:
    """Try all combinations; yields the rows of a table. Actions that an algorithm does not have get no row."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for algorithm in algorithms:
            for name, taken in ACTIONS.items():
                found = [outcome(algorithm, seen, taken, Path(folder)) for seen in OBSERVATIONS.values()]
                if "opens" in found:
                    yield _row(algorithm, name, *(MARKS.get(what, what) for what in found))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _refused_cases() -> Iterator[tuple[str, Any]]:
    yield (
        "a feature extractor of one's own",
        make_model("PPO", BOX, ACTIONS["Discrete"], policy_kwargs={"features_extractor_class": OwnExtractor}),
    )
    yield "observations counted from 1", make_model("PPO", spaces.Discrete(4, start=1), ACTIONS["Discrete"])
    yield "actions counted from 1", make_model("PPO", BOX, spaces.Discrete(3, start=1))


def refusals() -> Iterator[str]:
    """Read what is not supported; yields the rows of a table with the words of the refusals."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.zip"
        for what, model in _refused_cases():
            model.save(path)
            try:
                load_policy(path)
            except LegibleError as error:
                yield _row(what, _plain(error, path))
            else:
                yield _row(what, "opens")


class Masked(Anywhere):
    """An environment that masks actions, and raises an error for a masked one."""

    def __init__(self, where: str, taken: spaces.Space[Any]) -> None:
        self.sizes = choice_sizes(taken)
        mask = spaces.MultiBinary(sum(self.sizes))
        super().__init__(spaces.Dict({"action_mask": mask, "seen": BOX}) if where == "entry" else BOX, taken)
        self.where, self.steps = where, 0
        if where == "method":
            self.action_masks = lambda: mask_of(self.seen, self.sizes)

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        self.seen = self.np_random.uniform(-3, 3, 4).astype(np.float32)
        mask = mask_of(self.seen, self.sizes).astype(np.int8)
        shown = {"action_mask": mask, "seen": self.seen} if self.where == "entry" else self.seen
        return shown, {"action_mask": mask} if self.where == "info" else {}

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        gymnasium.Env.reset(self, seed=seed)
        self.steps = 0
        return self._shown()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step, unless the action is masked."""
        first = np.cumsum([0, *self.sizes])[:-1]
        if not mask_of(self.seen, self.sizes)[first + np.ravel(action).astype(int)].all():
            raise ValueError("a masked action")
        self.steps += 1
        shown, info = self._shown()
        return shown, 0.0, False, self.steps >= STATES, info


def mask_of(seen: Any, sizes: tuple[int, ...]) -> Any:
    """Return a mask that depends on the observation; the first value of each part is allowed if no other is."""
    parts = []
    for number, size in enumerate(sizes):
        part = np.sin(np.arange(1, size + 1) * 5 * seen[number % 4]) > 0
        parts.append(part if part.any() else np.arange(size) == 0)
    return np.concatenate(parts)


PLACES = {"method": "`action_masks()`", "info": '`info["action_mask"]`', "entry": 'Dict entry `"action_mask"`'}


def masks() -> Iterator[str]:
    """Play in environments with masks as studies do; yields the rows of a table."""
    cases = [("MaskablePPO", name) for name in ("Discrete", "MultiDiscrete", "MultiBinary")]
    cases += [("PPO", "Discrete"), ("PPO", "MultiDiscrete"), ("DQN", "Discrete"), ("a function", "Discrete")]
    with tempfile.TemporaryDirectory() as folder:
        for algorithm, name in cases:
            found = [_masked_outcome(algorithm, where, ACTIONS[name], Path(folder) / "model.zip") for where in PLACES]
            yield _row(algorithm, name, *found)


def _masked_outcome(algorithm: str, where: str, taken: spaces.Space[Any], path: Path) -> str:
    env = Masked(where, taken)
    try:
        if algorithm == "a function":
            spaces_of = {"observation_space": env.observation_space, "action_space": taken}
            policy: Any = load_policy(lambda _: 1, fallback=0, **spaces_of)
        else:
            model = make_model(algorithm, env.observation_space, taken)
            model.save(path)
            policy = load_policy(path)
        played = collect(policy, env, 3, seed=0, epsilon=0.0 if algorithm == "MaskablePPO" else 0.3)
    except LegibleError as error:
        return f"refused: {_plain(error, path)}"
    if algorithm != "MaskablePPO":
        return "✓"
    for row, seen in enumerate(played.observations):
        mask = mask_of(seen, env.sizes)
        shown = {"action_mask": mask.astype(np.int8), "seen": seen} if where == "entry" else seen
        expected, _ = model.predict(shown, action_masks=mask, deterministic=True)
        if not np.array_equal(
            np.ravel(played.actions[row] if taken.shape == () else played.numbers[row]), np.ravel(expected)
        ):
            return "acts otherwise"
    return "✓"


def libraries() -> Iterator[str]:
    """Read checkpoints that other libraries wrote; yields the rows of a table."""
    folder = Path(__file__).parents[1] / "tests" / "policies" / "fixtures"
    expected = np.load(folder / "expected.npz")
    for name in sorted({key.rpartition("/")[0] for key in expected.files}):
        library, _, case = name.partition("/")
        path = folder / f"{name}{ {'rllib': '', 'rl_games': '.pth'}.get(library, '.pt') }"
        activation = None if library == "rllib" or name == "rsl_rl/old" else "relu" if case == "categorical" else "elu"
        actions, _ = load_policy(path, activation=activation).predict(expected[f"{name}/rows"])
        same = np.allclose(actions, expected[f"{name}/actions"], atol=1e-5)
        yield _row(LIBRARIES[library], case.replace("-", " "), "✓" if same else "acts otherwise")


LIBRARIES = {"rllib": "RLlib (new API stack)", "rsl_rl": "rsl_rl", "skrl": "skrl", "rl_games": "rl_games"}


def tables() -> str:
    """Return all tables."""
    heads = ["algorithm", "actions", *OBSERVATIONS]
    lines = [_row(*heads), _row(*("---" for _ in heads)), *combinations(), ""]
    lines += [_row("what", "why it is refused"), _row("---", "---"), *refusals(), ""]
    heads = ["policy in a study with action masks", "actions", *PLACES.values()]
    lines += [_row(*heads), _row(*("---" for _ in heads)), *masks(), ""]
    lines += [_row("library", "checkpoint", "opens"), _row("---", "---", "---"), *libraries()]
    return "\n".join(lines)


def main() -> None:
    """Put the tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- Made by docs/make_policies.py; run it again. -->", "<!-- Until here. -->"
    head, tail = text.split(begin)[0], text.split(end)[1]
    PAGE.write_text(f"{head}{begin}\n\n{tables()}\n\n{end}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
