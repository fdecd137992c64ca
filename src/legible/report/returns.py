"""Returns episode by episode, on the seeds of the final figure.

- `PolicyReturns`, `policy_returns`: of the policy alone, of the guided one, and of the references.
- `seeds_won`: on how many seeds guidance gains and loses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from legible.evaluation import PlayedBlocks, Sample
from legible.evaluation.units import UnitResult
from legible.study import Study


@dataclass(frozen=True)
class PolicyReturns:
    """The returns of one policy in the chart of distributions; `kind` is "alone", "guided" or "reference".

    `name` heads its column in files, `words` are for people.
    """

    name: str
    kind: str
    result: UnitResult
    sample: Sample
    words: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or self.name)


def policy_returns(study: Study) -> Iterator[PolicyReturns]:
    """Return the policy alone, guided unless the composition is empty, and the references that play the same seeds."""
    final = study.improvement.final_blocks
    yield PolicyReturns("the policy alone", "alone", final.base, Sample.of(final.base))
    if final.setup.treatments:
        yield PolicyReturns("guided", "guided", final.guided(0), Sample.of(final.guided(0)))
    for entry in study.references.quoted:
        yield PolicyReturns(entry.name, "reference", entry.result, entry.sample, entry.words)


def seeds_won(final: PlayedBlocks) -> tuple[float, float, float] | None:
    """Shares of seeds on which guidance gains, changes nothing, and loses."""
    if not final.setup.treatments:
        return None
    difference = final.guided(0).returns - final.base.returns
    return (float((difference > 0).mean()), float((difference == 0).mean()), float((difference < 0).mean()))
