"""A policy that is always asked about the same number of rows, so that a state's scores depend on that state alone.

Matrix products may differ in the last bit between batch shapes. Where every batch that a network sees has the same
shape, a row comes out the same wherever it stands and whatever stands around it (with the linear algebra of today's
processors; `legible.evaluation.recorded` checks it for every study), and an episode is the same to the bit alone, among
others, and in a batch that shrinks.

- `FixedRowsPolicy`: the policy; `with_fixed_rows`: any policy as one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from legible.play.choosing import Scores
from legible.play.slots import Observations
from legible.policies import ChoicePolicy, Policy


@dataclass(frozen=True)
class FixedRowsPolicy:
    """A policy that is asked about batches of one size, whatever the number of observations.

    Parameters
    ----------
    policy
        The policy.
    rows
        Observations in a batch: more of them come in pieces, and the last piece is filled up with its first row.
    """

    policy: Policy
    rows: int

    kind = property(attrgetter("policy.kind"), doc="What the scores are.")
    n_features = property(attrgetter("policy.n_features"), doc="How many features the policy reads.")
    n_actions = property(attrgetter("policy.n_actions"), doc="How many actions it chooses among.")

    def scores(self, observations: Observations) -> Scores:
        """Return the scores of the observations."""
        n, rows = len(observations), self.rows
        if n == rows:
            return np.asarray(self.policy.scores(observations))
        pieces = [np.asarray(self.policy.scores(observations[i : i + rows])) for i in range(0, n - rows + 1, rows)]
        left = n % rows
        if left:
            last = observations[n - left :]
            filled = np.concatenate([last, np.repeat(last[:1], rows - left, axis=0)])
            pieces.append(np.asarray(self.policy.scores(filled))[:left])
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def with_fixed_rows(policy: Policy, rows: int) -> Policy:
    """Return a policy that is asked about batches of that many rows."""
    return replace(policy, rows=rows) if isinstance(policy, ChoicePolicy) else FixedRowsPolicy(policy, rows)
