"""Registry of policy readers, one for each kind of file or object.

- `PolicyReader`: a reader; `register_reader` adds one.
- `find_reader`: find the reader for a source.
- `LoadOptions`: the arguments of `legible.policies.load_policy`, for the readers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from legible.policies.protocol import Policy, PolicyError

if TYPE_CHECKING:
    from gymnasium import spaces

    from legible.policies.activations import Activation
    from legible.policies.encoding import Encoding
    from legible.policies.normalisation import Normalisation
    from legible.policies.wrapped import Output

    NormalisationSource: TypeAlias = Normalisation | Mapping[str, Normalisation] | str | os.PathLike[str]


@dataclass(frozen=True)
class LoadOptions:
    """The arguments of `legible.policies.load_policy` except the source."""

    trust: bool = False
    output: Output | None = None
    activation: Activation | None = None
    normalisation: NormalisationSource | None = None
    encoding: Encoding | None = None
    algorithm: str | None = None
    n_features: int | None = None
    n_actions: int | None = None
    architecture: str | os.PathLike[str] | None = None
    allow_code: bool = False
    observation_space: spaces.Space[Any] | None = None
    action_space: spaces.Space[Any] | None = None
    fallback: int | Sequence[int] | None = None

    @property
    def may_run_code(self) -> bool:
        """True if the source may be code: the user typed its name, or trusts it."""
        return self.allow_code or self.trust

    def refuse(self, what: str, *names: str) -> None:
        """Raise an error for arguments that do not apply to this kind of policy."""
        for name in names:
            if getattr(self, name) is not None:
                raise PolicyError(f"{name} does not apply to {what}; leave it out")


@dataclass(frozen=True)
class PolicyReader:
    """Reader of one kind of file or object.

    Parameters
    ----------
    name
        A short name.
    supports
        Description of what it reads, for error messages: "a .zip file of Stable-Baselines3".
    is_own
        Return whether it reads a source: the `Path` of a file or folder, an address such as ``zoo:NAME``, or an object.
    read
        Return the policy of a source, given the caller's options, or raise `PolicyError`.
    """

    name: str
    supports: str
    is_own: Callable[[Any], bool]
    read: Callable[[Any, LoadOptions], Policy]


_added: list[PolicyReader] = []


def register_reader(
    name: str, *, supports: str, is_own: Callable[[Any], bool], read: Callable[[Any, LoadOptions], Policy]
) -> PolicyReader:
    """Add a reader to those that `legible.policies.load_policy` tries, and return it.

    The newest reader is tried first. A reader of the same name is replaced. The arguments are those of `PolicyReader`.

    Examples
    --------
    A file with one score per action:

    >>> import numpy as np
    >>> from legible.policies import FunctionPolicy, load_policy
    >>> def read(path, options):
    ...     scores = np.loadtxt(path)
    ...     return FunctionPolicy(lambda batch: np.tile(scores, (len(batch), 1)), "values", len(scores))
    >>> def is_own(source):
    ...     return isinstance(source, Path) and source.suffix == ".scores"
    >>> reader = register_reader("scores", supports="a .scores file", is_own=is_own, read=read)
    >>> load_policy(__file__)
    Traceback (most recent call last):
    legible.policies.protocol.PolicyError: ...registry.py: cannot be read as a policy. Supported are: a .scores ...
    >>> remove_reader("scores")
    """
    reader = PolicyReader(name, supports, is_own, read)
    remove_reader(name)
    _added.insert(0, reader)
    return reader


def remove_reader(name: str) -> None:
    """Remove a reader that `register_reader` added."""
    _added[:] = [reader for reader in _added if reader.name != name]


def policy_readers() -> Sequence[PolicyReader]:
    """Return all readers in order of precedence."""
    from legible.policies.readers import SHIPPED_READERS  # noqa: PLC0415 (they need PyTorch, the registry does not)

    names = {reader.name for reader in _added}
    return (*_added, *(reader for reader in SHIPPED_READERS if reader.name not in names))


def find_reader(source: Any) -> PolicyReader:
    """Return the reader of a source, or raise an error that lists the supported sources."""
    for reader in policy_readers():
        if reader.is_own(source):
            return reader
    if isinstance(source, type):
        problem = f"{source.__name__} is a class; pass an instance"
    elif isinstance(source, Path | str):
        problem = f"{source}: {'this folder ' if Path(source).is_dir() else ''}cannot be read as a policy"
    else:
        problem = f"an object of type {type(source).__name__} cannot be a policy"
    supported = "; ".join(reader.supports for reader in policy_readers())
    raise PolicyError(f"{problem}. Supported are: {supported}")
