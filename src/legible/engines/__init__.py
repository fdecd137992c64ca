"""Where units of work run. An engine knows nothing of what the work is, and has no influence on what comes out.

- `InProcess`: this process, one unit after the other.
- `LocalProcesses`: processes of this machine, by default one for every core.
- `RayEngine`: Ray, on this machine or on a cluster.
- `make_engine`: one of these by name; `register_engine` adds a name.
- `run_one`: one unit, and its result or its error.

Every engine reports a unit as `Finished` or `Failed` as soon as that is known. A unit that raises is run once more, a
unit whose worker dies twice more, a unit that takes too long is not run again; the other units go on.
Every unit has one thread for its linear algebra: more would fight over cores, and could change the last bit.

`base` is what an engine is, `attempts` one attempt at a unit, `workers` what the engines with workers share; then there
is one module for each engine: `inline`, `processes`, `ray`.
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
    engine_names,
    make_engine,
    register_engine,
    run_one,
)
from legible.engines.inline import InProcess, make_inline
from legible.engines.processes import LocalProcesses
from legible.engines.ray import RayEngine

register_engine("inline", make_inline)
register_engine("processes", LocalProcesses)
register_engine("ray", RayEngine)

__all__ = [
    "Engine",
    "EngineFactory",
    "Failed",
    "Finished",
    "InProcess",
    "LocalProcesses",
    "R",
    "RayEngine",
    "Shared",
    "Unit",
    "UnitFailedError",
    "engine_names",
    "make_engine",
    "register_engine",
    "run_one",
]
