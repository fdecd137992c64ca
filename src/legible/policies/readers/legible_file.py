"""Readers of legible's ``.safetensors`` files, by path, and by name for those of the zoo."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from legible.policies.normalising import normalised_file
from legible.policies.policy_file import read_policy_file
from legible.policies.protocol import Policy
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.zoo import PREFIX, zoo_path


def is_own(source: Any) -> bool:
    """Return whether this is a ``.safetensors`` file."""
    return isinstance(source, Path) and source.suffix == ".safetensors"


def read(path: Path, options: LoadOptions) -> Policy:
    """Read a policy that `legible.policies.save_policy` wrote; a file with rules gives a guided policy."""
    options.refuse("a .safetensors file", "output", "encoding", "algorithm")
    network = normalised_file(
        read_policy_file(path, activation=options.activation), path, options, trained_normalised=False
    )
    # Guidance imports policies, so it is imported here by name.
    guided: Policy = importlib.import_module("legible.guidance.policy").restore_guidance(network, path)
    return guided


def is_name(source: Any) -> bool:
    """Return whether this is the address of a policy of the zoo."""
    return isinstance(source, str) and source.startswith(PREFIX)


def read_named(source: str, options: LoadOptions) -> Policy:
    """Read a policy of the zoo."""
    return read(zoo_path(source), options)


READER = PolicyReader("legible", "a .safetensors file that save_policy wrote", is_own, read)
ZOO_READER = PolicyReader("zoo", "zoo:NAME for a policy that comes with legible", is_name, read_named)
