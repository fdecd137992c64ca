"""Readers of policies that are code: TorchScript files and ``module:function``.

They run code. A ``module:function`` is imported if the user typed its name or trusts it. A TorchScript file looks like
data, so typing its name is not enough: the user has to trust it.
"""

from __future__ import annotations

import importlib
import io
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch

from legible.errors import describe_error, did_you_mean
from legible.policies.protocol import Observations, Policy, PolicyError
from legible.policies.readers import objects
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.torch_file import is_torchscript

_NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(eq=False)
class TorchScriptFunction:
    """A TorchScript program as a function on arrays; it is pickled as bytes."""

    program: bytes
    _module: Any = field(default=None, repr=False)

    def __call__(self, observations: Observations) -> npt.NDArray[Any]:
        """Return the output of the program."""
        if self._module is None:
            load: Any = torch.jit.load
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                self._module = load(io.BytesIO(self.program), map_location="cpu").eval()
        with torch.inference_mode():
            answer = self._module(torch.tensor(observations))
        if not isinstance(answer, torch.Tensor):
            raise PolicyError(f"the program returns a {type(answer).__name__}, but must return one tensor")
        result: npt.NDArray[Any] = answer.detach().float().numpy()
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {"program": self.program, "_module": None}


def is_script(source: Any) -> bool:
    """Return whether this is a TorchScript file, by its content."""
    return isinstance(source, Path) and source.is_file() and source.suffix != ".zip" and is_torchscript(source)


def read_script(path: Path, options: LoadOptions) -> Policy:
    """Read a TorchScript program that the user trusts."""
    if not options.trust:
        raise PolicyError(
            f"{path}: a TorchScript file is a program that can read and write files. If you trust its author, add "
            "--trust"
        )
    options.refuse("a TorchScript file", "activation", "encoding", "algorithm")
    function = TorchScriptFunction(path.read_bytes())
    try:
        return objects.with_output(function, options, str(path))
    except PolicyError as error:
        if not isinstance(error.__cause__, RuntimeError):
            raise
        raise PolicyError(f"{path}: the program cannot be run: {str(error.__cause__)[:300]}") from error


def is_named(source: Any) -> bool:
    """Return whether this is an address of the form ``module:function``."""
    return isinstance(source, str) and _NAMED.fullmatch(source) is not None


def read_named(source: str, options: LoadOptions) -> Policy:
    """Return the policy that ``module:attribute`` names, by importing the module, which runs its code.

    - `source`: the address, such as ``my_policies:driver`` or ``my_policies:fleet.driver``. The attribute may be a
      policy, a network, a function, or any other object that `legible.policies.load_policy` takes.
    - `options`: the caller's options. They must allow running code, because the user typed the address or trusts its
      source.
    """
    module_name, _, attribute = source.partition(":")
    if not options.may_run_code:
        raise PolicyError(
            f"{source!r} would import the module {module_name!r}, which runs its code; name it on the command line or "
            "trust it (--trust)"
        )
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        why = error if isinstance(error, ImportError) else describe_error(error)
        raise PolicyError(f"{source!r}: the module {module_name!r} cannot be imported ({why})") from error
    # The attribute may be nested, with dots.
    imported: Any = module
    try:
        for name in attribute.split("."):
            imported = getattr(imported, name)
    except AttributeError as error:
        hint = did_you_mean(attribute, vars(module))
        raise PolicyError(f"{source!r}: the module {module_name!r} has no {attribute!r}.{hint}") from error
    # From here on as for an object that is passed in Python.
    for reader in objects.READERS:
        if reader.is_own(imported):
            return reader.read(imported, options)
    raise PolicyError(f"{source!r} is a {type(imported).__name__}, which is neither a policy nor a function")


SCRIPT_READER = PolicyReader("torchscript", "a TorchScript file, if you trust it", is_script, read_script)
NAMED_READER = PolicyReader("python", "module:function, if you name it yourself", is_named, read_named)
