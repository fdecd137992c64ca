"""Where units of work run: this process, processes of this machine, Ray."""

from __future__ import annotations

from legible.engines.processes import (
    Engine,
    Failed,
    Finished,
    InProcess,
    LocalProcesses,
    R,
    RayEngine,
    Shared,
    Unit,
    make_engine,
)

__all__ = [
    "Engine",
    "Failed",
    "Finished",
    "InProcess",
    "LocalProcesses",
    "R",
    "RayEngine",
    "Shared",
    "Unit",
    "make_engine",
]
