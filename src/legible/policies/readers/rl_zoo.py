"""Reader of the RL Zoo's folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from legible.policies.protocol import Policy
from legible.policies.readers import sb3_zip
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.rl_zoo import find_training, is_zoo_folder, policy_in_folder


def is_own(source: Any) -> bool:
    """Return whether this is a folder with a policy and the zoo's files."""
    return isinstance(source, Path) and is_zoo_folder(source)


def read(folder: Path, options: LoadOptions) -> Policy:
    """Read the policy of a folder, with its statistics and with what its environment needs."""
    path = policy_in_folder(folder)
    return sb3_zip.read_trained(path, options, find_training(path, anywhere=True))


READER = PolicyReader("rl-zoo", "a folder of the RL Zoo", is_own, read)
