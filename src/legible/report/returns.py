"""Episode returns on the held-out seeds: of the unguided and the guided policy, and of the baselines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from legible.evaluation import PlayedBlocks, Sample
from legible.evaluation.units import UnitResult
from legible.study import Study


@dataclass(frozen=True)
class PolicyReturns:
    """The returns of one policy; `kind` is "alone", "guided" or "reference".

    `name` is the column in files, `words` the name in the report.
    """

    name: str
    kind: str
    result: UnitResult
    sample: Sample
    words: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", self.words or self.name)


def policy_returns(study: Study) -> Iterator[PolicyReturns]:
    """Return the unguided policy, the guided one if there is one, and the baselines on the same seeds."""
    final = study.improvement.final_blocks
    yield PolicyReturns("the policy alone", "alone", final.base, Sample.of(final.base), "unguided")
    if final.setup.treatments:
        yield PolicyReturns("guided", "guided", final.guided(0), Sample.of(final.guided(0)))
    for entry in study.references.quoted:
        yield PolicyReturns(entry.name, "reference", entry.result, entry.sample, entry.words)


def seeds_won(final: PlayedBlocks) -> tuple[float, float, float] | None:
    """Return the shares of seeds on which guidance gains, changes nothing, and loses."""
    if not final.setup.treatments:
        return None
    difference = final.guided(0).returns - final.base.returns
    return (float((difference > 0).mean()), float((difference == 0).mean()), float((difference < 0).mean()))
