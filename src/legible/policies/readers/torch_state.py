"""Reader of plain PyTorch files: tensors, with a TOML file that says which network they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from legible.policies.architecture import policy_of_state, read_architecture
from legible.policies.normalising import normalised_file
from legible.policies.protocol import Policy, UnclearPolicyError
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.torch_file import is_torchscript, read_state

SUFFIXES = (".pt", ".pth", ".ckpt")


def is_own(source: Any) -> bool:
    """Return whether this is a file of ``torch.save``, by its name, and no program."""
    return isinstance(source, Path) and source.suffix in SUFFIXES and source.is_file() and not is_torchscript(source)


def read(path: Path, options: LoadOptions) -> Policy:
    """Read the tensors of a file as the network that a TOML file describes."""
    options.refuse("a file of PyTorch's tensors", "output", "activation", "encoding", "algorithm")
    state = read_state(path.read_bytes(), path, "the file")
    described = Path(options.architecture) if options.architecture is not None else path.with_suffix(".toml")
    if options.architecture is None and not described.is_file():
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in list(state.items())[:8])
        raise UnclearPolicyError(
            f"{path}: it holds tensors ({shapes}{' …' if len(state) > 8 else ''}), but not which network they are. "
            f"Describe it in {described.name} beside it: output, and the layers in their order",
            "architecture",
        )
    policy = policy_of_state(state, read_architecture(described), path)
    return normalised_file(policy, path, options, trained_so=False)


READER = PolicyReader(
    "torch", "tensors of PyTorch (.pt, .pth) with a TOML file that describes the network", is_own, read
)
