"""Returns episode by episode, on the seeds of the final figure.

- `PolicyReturns`, `policy_returns`: of the policy alone, of the guided one, and of others.
- `seeds_won`: on how many seeds guidance gains and loses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from legible.engines import InProcess
from legible.evaluation import PlayedBlocks, Sample, play_blocks
from legible.evaluation.units import UNGUIDED, Setup, UnitResult, run_units
from legible.policies import Policy
from legible.study import Study


@dataclass(frozen=True)
class PolicyReturns:
    """The returns of one policy in the chart of distributions."""

    name: str
    kind: str
    result: UnitResult
    sample: Sample


def policy_returns(study: Study, others: Mapping[str, Policy]) -> Iterator[PolicyReturns]:
    """Return the policy alone, guided unless the composition is empty, and other policies that play the same seeds."""
    final = study.improvement.final_blocks
    yield PolicyReturns("the policy alone", "alone", final.base, Sample.of(final.base))
    if final.setup.treatments:
        yield PolicyReturns("guided", "guided", final.guided(0), Sample.of(final.guided(0)))
    for name, policy in others.items():
        limit = study.settings.time_limit or None
        run = partial(run_units, engine=InProcess() if limit is None else study.engine, time_limit=limit)
        setup = Setup(policy, study.environment, (), study.settings.play)
        (result,) = play_blocks(setup, [(UNGUIDED, final.seeds)], run)
        yield PolicyReturns(name, "other", result, Sample.of(result))


def seeds_won(final: PlayedBlocks) -> tuple[float, float, float] | None:
    """Shares of seeds on which guidance gains, changes nothing, and loses."""
    if not final.setup.treatments:
        return None
    difference = final.guided(0).returns - final.base.returns
    return (float((difference > 0).mean()), float((difference == 0).mean()), float((difference < 0).mean()))
