"""The registry of policy readers: one reader a kind of file or object, and room for those of others.

- `PolicyReader`: says what it reads, whether something is its own, and reads it.
- `register_reader`: adds one.
- `find_reader`: the reader whose own something is, or a refusal that says what is supported.
- `LoadOptions`: what the caller of `legible.policies.load_policy` said, for the readers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from legible.policies.protocol import Policy, PolicyError

if TYPE_CHECKING:
    from legible.policies.activations import Activation
    from legible.policies.encoding import Encoding
    from legible.policies.normalisation import Normalisation
    from legible.policies.wrapped import Output

    NormalisationSource: TypeAlias = Normalisation | Mapping[str, Normalisation] | str | os.PathLike[str]


@dataclass(frozen=True)
class LoadOptions:
    """The arguments of `legible.policies.load_policy`, all but the source."""

    trust: bool = False
    output: Output | None = None
    activation: Activation | None = None
    normalisation: NormalisationSource | None = None
    encoding: Encoding | None = None
    algorithm: str | None = None
    n_features: int | None = None
    n_actions: int | None = None
    architecture: str | os.PathLike[str] | None = None
    typed: bool = False

    @property
    def may_run_code(self) -> bool:
        """Whether the source itself may be code: the person named it, or trusts it."""
        return self.typed or self.trust

    def refuse(self, what: str, *names: str) -> None:
        """Complain about arguments that say nothing about this kind of policy."""
        for name in names:
            if getattr(self, name) is not None:
                raise PolicyError(f"{name} does not apply to {what}")


@dataclass(frozen=True)
class PolicyReader:
    """Reads one kind of file or object as a policy.

    Parameters
    ----------
    name
        A short name.
    supports
        What it reads, for the line that says what is supported: "a .zip file of Stable-Baselines3".
    is_own
        Whether something is of this kind, by its suffix and content. It is handed what `load_policy` was: the `Path` of
        a file or folder, the text of an address such as ``zoo:NAME``, or an object.
    read
        Reads it, with the caller's options, or raises `PolicyError`.
    """

    name: str
    supports: str
    is_own: Callable[[Any], bool]
    read: Callable[[Any, LoadOptions], Policy]


_added: list[PolicyReader] = []


def register_reader(
    name: str, *, supports: str, is_own: Callable[[Any], bool], read: Callable[[Any, LoadOptions], Policy]
) -> PolicyReader:
    """Add a reader; it is asked before those that are already there. A reader of the same name is replaced.

    Parameters are those of `PolicyReader`.

    Examples
    --------
    A file with the score of each action, whatever the observation:

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
    legible.policies.protocol.PolicyError: ...registry.py: this is no policy that legible can read. Policies are: \
a .scores file; ...
    >>> remove_reader("scores")
    """
    reader = PolicyReader(name, supports, is_own, read)
    remove_reader(name)
    _added.insert(0, reader)
    return reader


def remove_reader(name: str) -> None:
    """Take out a reader that `register_reader` added."""
    _added[:] = [reader for reader in _added if reader.name != name]


def policy_readers() -> Sequence[PolicyReader]:
    """Return all readers in the order in which they are asked."""
    from legible.policies.readers import SHIPPED_READERS  # noqa: PLC0415 (they need PyTorch, the registry does not)

    names = {reader.name for reader in _added}
    return (*_added, *(reader for reader in SHIPPED_READERS if reader.name not in names))


def find_reader(source: Any) -> PolicyReader:
    """Return the reader whose own something is.

    Raises
    ------
    PolicyError
        When there is none; it says what is supported.
    """
    for reader in policy_readers():
        if reader.is_own(source):
            return reader
    if isinstance(source, Path) and source.is_dir():
        complaint = f"{source}: not a file but a folder, and none that legible can read as a policy"
    elif isinstance(source, Path):
        complaint = f"{source}: this is no policy that legible can read"
    elif isinstance(source, type):
        complaint = f"{source.__name__} is a class; pass an object of it"
    elif isinstance(source, str):
        complaint = f"{source!r} is no policy that legible can read"
    else:
        complaint = f"a {type(source).__name__} cannot be a policy"
    supported = "; ".join(reader.supports for reader in policy_readers())
    raise PolicyError(f"{complaint}. Policies are: {supported}")
