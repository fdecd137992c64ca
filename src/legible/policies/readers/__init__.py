"""The readers that come with legible, one a kind of file or object; `legible.policies.register_reader` adds others.

- `legible_file`: ``.safetensors`` files that `legible.policies.save_policy` wrote.
- `sb3_zip`: zips of Stable-Baselines3 and sb3-contrib.
- `rl_zoo`: folders of the RL Zoo.
- `zoo`: policies of the zoo by name.
- `objects`: what is already in memory.
"""

from __future__ import annotations

from legible.policies.readers import legible_file, objects, rl_zoo, sb3_zip, zoo
from legible.policies.registry import PolicyReader

SHIPPED_READERS: tuple[PolicyReader, ...] = (
    zoo.READER,
    legible_file.READER,
    sb3_zip.READER,
    rl_zoo.READER,
    objects.MODEL_READER,
    objects.MODULE_READER,
    objects.POLICY_READER,
    objects.FUNCTION_READER,
)
"""In the order in which they are asked."""
