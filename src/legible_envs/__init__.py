"""PAC-Man and driving: the environments of the paper as Gymnasium environments, fast.

Importing the package registers ``legible/Pacman…-v0``, ``legible/Highway-v0`` and the others with Gymnasium. Legible
itself finds them through its entry-point group ``legible.domains``.

- `pacman`: the six PAC-Man levels.
- `highway`: five driving scenarios, and Farama's highway-env in the same form.
"""

from legible.environments.domain_registry import register_plugin
from legible_envs.highway import domain as _highway
from legible_envs.pacman import domain as _pacman

register_plugin(_pacman)
register_plugin(_highway)
