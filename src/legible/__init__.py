"""Find out where a reinforcement-learning policy is weak, why, and mend it with rules, without training again."""

from legible.environments.registration import register_envs
from legible.errors import LegibleError

__version__ = "0.1.0"
__all__ = ["LegibleError", "__version__"]

register_envs()
