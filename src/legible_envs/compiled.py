"""Compilation of the kernels of PAC-Man and driving.

- `compiled`: without reference counts. Kernels only use arrays that their callers keep alive, and counting every look
  into a tuple of arrays took more than half of the time. Such a function cannot make arrays.
- `inlined`: the same, and put into its callers; handing over the tuples of arrays costs more than what small functions
  do with them.
"""

from __future__ import annotations

from typing import Any

from numba import njit

# `_nrt` is numba's own switch for reference counts. It has no public name, and nothing public does the same. If a
# version of numba should drop it, every kernel says so when it is compiled; without it results are the same.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}

compiled = njit(**_OPTIONS)
inlined = njit(**_OPTIONS, forceinline=True)
