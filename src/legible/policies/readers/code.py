"""Readers of policies that are code: TorchScript files and ``module:function``.

They run what somebody wrote, so they are only opened when the person named them or trusts them.
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

from legible.policies.protocol import Observations, Policy, PolicyError
from legible.policies.readers import objects
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.torch_file import is_torchscript

_NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(eq=False)
class TorchScriptFunction:
    """A TorchScript program as a function on arrays; it travels to other processes as the bytes that it is."""

    program: bytes
    _module: Any = field(default=None, repr=False)

    def __call__(self, observations: Observations) -> npt.NDArray[Any]:
        """Return what the program makes of the observations."""
        if self._module is None:
            load: Any = torch.jit.load
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                self._module = load(io.BytesIO(self.program), map_location="cpu").eval()
        with torch.inference_mode():
            answer = self._module(torch.tensor(observations))
        if not isinstance(answer, torch.Tensor):
            raise PolicyError(f"the program returns a {type(answer).__name__}, where one tensor is needed")
        result: npt.NDArray[Any] = answer.detach().float().numpy()
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {"program": self.program, "_module": None}


def is_script(source: Any) -> bool:
    """Return whether this is a TorchScript file, by its content."""
    return isinstance(source, Path) and source.is_file() and source.suffix != ".zip" and is_torchscript(source)


def read_script(path: Path, options: LoadOptions) -> Policy:
    """Load a TorchScript program that the person named or trusts."""
    if not options.may_run_code:
        raise PolicyError(
            f"{path}: a TorchScript file is a program; it is only run if you name it yourself or trust it (--trust)"
        )
    options.refuse("a TorchScript file", "activation", "encoding", "algorithm")
    function = TorchScriptFunction(path.read_bytes())
    try:
        return objects.with_output(function, options, str(path))
    except RuntimeError as error:
        raise PolicyError(f"{path}: the program cannot be run: {str(error)[:300]}") from error


def is_named(source: Any) -> bool:
    """Return whether this is an address of the form ``module:function``."""
    return isinstance(source, str) and _NAMED.fullmatch(source) is not None


def read_named(source: str, options: LoadOptions) -> Policy:
    """Import a policy, module or function that the person named or trusts."""
    if not options.may_run_code:
        raise PolicyError(
            f"{source!r} would import the module {source.partition(':')[0]!r}, which runs its code; it is only "
            "imported if you name it yourself or trust it (--trust)"
        )
    module_name, _, attribute = source.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise PolicyError(f"{source!r}: the module {module_name!r} cannot be imported ({error})") from error
    except AttributeError as error:
        raise PolicyError(f"{source!r}: the module {module_name!r} has no {attribute!r}") from error
    for reader in (objects.MODEL_READER, objects.MODULE_READER, objects.POLICY_READER, objects.FUNCTION_READER):
        if reader.is_own(found):
            return reader.read(found, options)
    raise PolicyError(f"{source!r} is a {type(found).__name__}, which is neither a policy nor a function")


SCRIPT_READER = PolicyReader("torchscript", "a TorchScript file, if you name it yourself", is_script, read_script)
NAMED_READER = PolicyReader("python", "module:function, if you name it yourself", is_named, read_named)
