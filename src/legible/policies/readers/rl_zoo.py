"""Reader of the RL Zoo's folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from legible.policies.protocol import Policy, UnclearPolicyError
from legible.policies.readers import sb3_zip
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.rl_zoo import find_training, is_zoo_folder, policy_in_folder


def is_own(source: Any) -> bool:
    """Return whether this is a folder with a policy and the zoo's files."""
    return isinstance(source, Path) and is_zoo_folder(source)


def read(folder: Path, options: LoadOptions) -> Policy:
    """Read the policy of a folder, with its statistics."""
    path = policy_in_folder(folder)
    policy = sb3_zip.read(path, options)
    training = find_training(path)
    missing = getattr(policy, "normalisation", None) is None and options.normalisation is None
    if training is not None and training.normalised and missing:
        raise UnclearPolicyError(
            f"{path}: config.yml says that its observations were normalised, but their statistics are not there. Put "
            "vecnormalize.pkl beside it or give the file as normalisation; 'none' if there are none",
            "normalisation",
        )
    return policy


READER = PolicyReader("rl-zoo", "a folder of the RL Zoo", is_own, read)
