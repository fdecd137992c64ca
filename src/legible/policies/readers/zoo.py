"""Reader of the zoo's policies, by name."""

from __future__ import annotations

from typing import Any

from legible.policies import zoo
from legible.policies.protocol import Policy
from legible.policies.readers import legible_file
from legible.policies.registry import LoadOptions, PolicyReader


def is_own(source: Any) -> bool:
    """Return whether this is the address of a policy of the zoo."""
    return isinstance(source, str) and source.startswith(zoo.PREFIX)


def read(source: str, options: LoadOptions) -> Policy:
    """Read a policy of the zoo."""
    return legible_file.read(zoo.zoo_path(source), options)


READER = PolicyReader("zoo", "zoo:NAME for a policy that comes with legible", is_own, read)
