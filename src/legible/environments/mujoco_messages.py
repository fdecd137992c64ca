"""Messages of MuJoCo, which would otherwise be printed anew by every environment.

- `show_warnings_once`: MuJoCo's warnings as Python warnings, each once.
- `ignore_unfinished_viewers`: no traceback from viewers that could not be made.
"""

from __future__ import annotations

import importlib.util
import warnings
from types import SimpleNamespace
from typing import Any


def show_warnings_once(entry_point: Any) -> None:
    """Turn MuJoCo's warnings into Python warnings if an entry point of Gymnasium names one of its robots.

    By default MuJoCo prints a warning for every environment that it compiles, also for outdated terms in Gymnasium's
    own model files, and writes it to MUJOCO_LOG.TXT in the current folder. A handler that somebody has set stays.
    """
    is_robot = isinstance(entry_point, str) and entry_point.startswith("gymnasium.envs.mujoco")
    if not is_robot or importlib.util.find_spec("mujoco") is None:
        return
    import mujoco  # noqa: PLC0415  # only where a robot is made: the import takes time

    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_warn)


def _warn(message: str) -> None:
    # Terms of the model files are no concern of those who use them.
    if "deprecated" not in message:
        warnings.warn(f"MuJoCo: {message}", stacklevel=2)


def ignore_unfinished_viewers() -> None:
    """Let viewers that were given up, because OpenGL does not work on this machine, be deleted without a traceback."""
    from gymnasium.envs.mujoco.mujoco_rendering import OffScreenViewer  # noqa: PLC0415

    # Its destructor frees a context that a viewer without OpenGL never had.
    OffScreenViewer.opengl_context = SimpleNamespace(free=lambda: None)
