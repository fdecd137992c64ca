"""The domain records of Gymnasium's own environments."""

from __future__ import annotations

from pathlib import Path

from legible.environments.domain_registry import Domain, relations_files

_HERE = Path(__file__).parent
_ENDINGS = "legible.environments.gymnasium.endings"


def _gymnasium(name: str, ids: str, class_name: str, *, default: bool, actions: str = "", endings: str = "") -> Domain:
    """One of Gymnasium's own environments, with a file of names and one of relations."""
    file = f"{name}.toml"
    return Domain(
        name=name,
        ids=ids,
        classes=(f"gymnasium.envs.{class_name}",),
        actions=actions,
        names={".*": _HERE / "features" / file},
        relations=relations_files(_HERE, (".*", name, default)),
        endings=endings and f"{_ENDINGS}:{endings}",
    )


DOMAINS = (
    # Of several domains that cover an environment the last one counts, so that this is for all other robots.
    Domain(name="mujoco", ids="", classes=("gymnasium.envs.mujoco",), endings=f"{_ENDINGS}:mujoco"),
    _gymnasium("cartpole", "CartPole", "classic_control.cartpole:CartPoleEnv", default=True, endings="cartpole"),
    _gymnasium(
        "mountaincar",
        "MountainCar",
        "classic_control.mountain_car:MountainCarEnv",
        default=False,
        endings="mountain_car",
    ),
    _gymnasium(
        "mountaincar-continuous",
        "MountainCarContinuous",
        "classic_control.continuous_mountain_car:Continuous_MountainCarEnv",
        default=False,
        endings="mountain_car",
    ),
    _gymnasium("acrobot", "Acrobot", "classic_control.acrobot:AcrobotEnv", default=True, endings="acrobot"),
    _gymnasium("pendulum", "Pendulum", "classic_control.pendulum:PendulumEnv", default=True),
    _gymnasium("lunarlander", "LunarLander", "box2d.lunar_lander:LunarLander", default=True, endings="lunar_lander"),
    _gymnasium(
        "lunarlander-continuous",
        "LunarLanderContinuous",
        "box2d.lunar_lander:LunarLander",
        default=True,
        actions="Box",
        endings="lunar_lander",
    ),
    _gymnasium(
        "bipedalwalker",
        "BipedalWalker(Hardcore)?",
        "box2d.bipedal_walker:BipedalWalker",
        default=True,
        endings="bipedal_walker",
    ),
    _gymnasium(
        "invertedpendulum",
        "InvertedPendulum",
        "mujoco.inverted_pendulum_v5:InvertedPendulumEnv",
        default=True,
        endings="inverted_pendulum",
    ),
    _gymnasium("walker2d", "Walker2d", "mujoco.walker2d_v5:Walker2dEnv", default=True, endings="mujoco"),
    *(
        Domain(
            name=name.lower(),
            ids=name,
            classes=(f"gymnasium.envs.mujoco.{module}_v5:{name}Env",),
            names={".*": _HERE / "features" / f"{name.lower()}.toml"},
            endings=f"{_ENDINGS}:mujoco",
        )
        for name, module in (("Hopper", "hopper"), ("HalfCheetah", "half_cheetah"))
    ),
    Domain(
        name="frozenlake",
        ids="FrozenLake|FrozenLake8x8",
        classes=("gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv",),
        names={
            "FrozenLake": _HERE / "features" / "frozenlake-4x4.toml",
            "FrozenLake8x8": _HERE / "features" / "frozenlake-8x8.toml",
        },
        relations=relations_files(
            _HERE, ("FrozenLake", "frozenlake-4x4", False), ("FrozenLake8x8", "frozenlake-8x8", False)
        ),
        endings=f"{_ENDINGS}:frozen_lake",
    ),
)
