"""The readers that come with legible, one a kind of file or object; `legible.policies.register_reader` adds others.

- `legible_file`: ``.safetensors`` files that `legible.policies.save_policy` wrote, and policies of the zoo by name.
- `sb3_zip`: zips of Stable-Baselines3 and sb3-contrib, and folders of the RL Zoo.
- `cleanrl`: state dicts of CleanRL.
- `torch_state`: tensors of PyTorch with a description in TOML.
- `onnx`: ONNX files.
- `code`: TorchScript and ``module:function``.
- `hub`: policies on the Hugging Face hub.
- `objects`: what is already in memory.
"""

from __future__ import annotations

from legible.policies.readers import cleanrl, code, hub, legible_file, objects, onnx, sb3_zip, torch_state
from legible.policies.registry import PolicyReader

SHIPPED_READERS: tuple[PolicyReader, ...] = (
    legible_file.ZOO_READER,
    hub.READER,
    legible_file.READER,
    sb3_zip.READER,
    sb3_zip.FOLDER_READER,
    cleanrl.READER,
    onnx.READER,
    code.SCRIPT_READER,
    torch_state.READER,
    code.NAMED_READER,
    objects.MODEL_READER,
    objects.MODULE_READER,
    objects.POLICY_READER,
    objects.FUNCTION_READER,
)
"""In the order in which they are asked."""
