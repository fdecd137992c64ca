"""Engines that run units of work. The choice of the engine never changes the results.

- `InProcess`: this process, one unit after the other.
- `LocalProcesses`: processes of this machine, by default one per core.
- `RayEngine`: Ray, on this machine or on a cluster.
- `make_engine`: makes an engine by name; `register_engine` adds a name.
- `run_one`: runs one unit and returns its result or raises its error.

Every engine reports a unit as `Finished` or `Failed` as soon as it ends. A unit that raises is retried once, a unit
whose worker dies twice, a unit that exceeds its time limit never; the other units continue. Linear algebra uses one
thread per unit: more would compete for cores, and could change the last bit.

Modules: `base` (the protocol), `attempts` (one attempt at a unit), `workers` (shared by the engines with workers), and
one module per engine: `inline`, `processes`, `ray`.
"""

from __future__ import annotations

from legible.engines.base import (
    Engine,
    EngineFactory,
    Failed,
    Finished,
    R,
    Shared,
    Unit,
    UnitFailedError,
    make_engine,
    register_engine,
    run_one,
)
from legible.engines.inline import InProcess
from legible.engines.processes import LocalProcesses
from legible.engines.ray import RayEngine

register_engine("inline", InProcess)
register_engine("processes", LocalProcesses)
register_engine("ray", RayEngine)
