"""The built-in readers, one for each kind of file or object; `legible.policies.register_reader` adds others.

- `legible_file`: ``.safetensors`` files that `legible.policies.save_policy` wrote, and policies of the zoo by name.
- `sb3_zip`: zips of Stable-Baselines3 and sb3-contrib, and folders of the RL Zoo.
- `cleanrl`: state dicts of CleanRL.
- `rllib`: checkpoints of RLlib; `robots`: those of rsl_rl, skrl and rl_games.
- `torch_state`: tensors of PyTorch with a description in TOML.
- `onnx`: ONNX files.
- `code`: TorchScript and ``module:function``.
- `hub`: policies on the Hugging Face hub.
- `objects`: objects in memory.
"""

from __future__ import annotations

from legible.policies.readers import (
    cleanrl,
    code,
    hub,
    legible_file,
    objects,
    onnx,
    rllib,
    robots,
    sb3_zip,
    torch_state,
)
from legible.policies.registry import PolicyReader

SHIPPED_READERS: tuple[PolicyReader, ...] = (
    legible_file.ZOO_READER,
    hub.READER,
    legible_file.READER,
    sb3_zip.READER,
    sb3_zip.FOLDER_READER,
    cleanrl.READER,
    rllib.READER,
    robots.READER,
    onnx.READER,
    code.SCRIPT_READER,
    torch_state.READER,
    code.NAMED_READER,
    *objects.READERS,
)
"""The readers in order of precedence."""
