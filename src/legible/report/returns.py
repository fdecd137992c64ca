"""Returns episode by episode, read back from the study: what the distributions and the choice of replays need.

- `other_returns`: other policies on the seeds of the final figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from legible.engines import InProcess
from legible.evaluation import play_blocks
from legible.evaluation.units import UNGUIDED, Setup, UnitResult, run_units
from legible.policies import Policy
from legible.study import Study, fingerprint_of


def other_returns(study: Study, others: Mapping[str, Policy]) -> dict[str, UnitResult]:
    """Let other policies play the seeds of the final figure, in this process."""
    seeds = study.improvement.final_blocks.seeds
    returns = {}
    for name, policy in others.items():
        run = partial(run_units, engine=InProcess(), fingerprint=fingerprint_of(policy, study.environment))
        setup = Setup(policy, study.environment, (), study.settings.play)
        returns[name] = play_blocks(setup, [(UNGUIDED, seeds)], run)[0]
    return returns
