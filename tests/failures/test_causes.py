"""Causes: decisions between two choices whose gains are known, and policies with a planted fault."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from legible.failures import Cause, GroupEvidence, TriedDecisions, choose_unusual, find_cause, weigh_decisions
from legible.failures.causes import CauseKind

NAMES = ("speed", "gap", "rain", "slope")
Scores = Callable[[Any], Any]


def two_columns(difference: Any) -> Any:
    return np.stack([np.zeros(len(difference)), difference], axis=1)


def diagnose(margin: Scores, worth: Scores, n: int = 700, groups: dict[str, list[int]] | None = None) -> Cause:
    """Return the cause if the policy prefers the second choice by `margin`, which earns `worth` more."""
    rng = np.random.default_rng(3)
    recorded = rng.normal(size=(4000, len(NAMES))).astype(np.float32)
    rows = np.union1d(rng.permutation(4000)[:n], choose_unusual(recorded, n // 3, rng))
    seen = recorded[rows]
    taken = (margin(seen) > 0).astype(np.int64)
    values = two_columns(worth(seen) + 0.3 * rng.normal(size=len(seen)))
    gains = values - values[np.arange(len(seen)), taken][:, None]
    tried = TriedDecisions(seen, taken, gains, rows // 20, weigh_decisions(recorded, rows))
    groups = groups or {name: [column] for column, name in enumerate(NAMES)}
    return find_cause(tried, lambda states: two_columns(margin(states)), recorded, groups, NAMES, seed=1)


def plain(seen: Any) -> Any:
    return seen[:, 0] + seen[:, 1]


def test_a_policy_that_ignores_a_feature_does_not_use_it() -> None:
    found = diagnose(lambda seen: seen[:, 0], plain)
    assert (found.kind, found.group) == ("does not use", "gap")
    assert found.evidence is not None
    assert found.evidence.use < 1e-9
    assert found.evidence.flips == 0.0


def test_the_smallest_group_is_named() -> None:
    groups = {"road": [1, 3], "car": [0, 2]}
    assert diagnose(lambda seen: seen[:, 0], plain, groups=groups).group == "gap"
    both = diagnose(lambda seen: seen[:, 0], lambda seen: plain(seen) - seen[:, 3], groups=groups)
    assert (both.kind, both.group) == ("does not use", "road")


def test_a_policy_that_reads_a_feature_the_wrong_way_misjudges_it() -> None:
    found = diagnose(lambda seen: seen[:, 0] - seen[:, 1], plain)
    assert (found.kind, found.group) == ("misjudges", "gap")
    assert found.evidence is not None
    assert found.evidence.agreement < -0.5


def test_a_policy_that_errs_at_rare_values_never_met_them() -> None:
    found = diagnose(plain, lambda seen: np.where(seen[:, 3] > 1.8, 6.0, 0.0) + plain(seen))
    assert (found.kind, found.group) == ("never met", "slope")
    assert found.evidence is not None
    assert found.evidence.rare_states < 0.06


def test_choices_that_flip_at_random_have_no_cause() -> None:
    def flips(seen: Any) -> Any:
        noise = (np.asarray(seen, np.float64) @ np.array([311.0, 727.0, 919.0, 557.0])) % 1.0
        return np.where(noise < 0.25, -plain(seen), plain(seen))

    assert diagnose(flips, plain).kind == "cannot tell"


def test_a_good_policy_has_no_cause() -> None:
    found = diagnose(plain, plain)
    assert found.kind == "cannot tell"
    assert found.why


def test_few_decisions_say_nothing() -> None:
    assert diagnose(plain, plain, n=12).decisions < 60  # no models are learned


def test_weights_make_up_for_unusual_decisions() -> None:
    rng = np.random.default_rng(0)
    recorded = rng.normal(size=(3000, 3)).astype(np.float32)
    rows = np.union1d(rng.permutation(3000)[:300], choose_unusual(recorded, 200, rng))
    weights = weigh_decisions(recorded, rows)
    extreme = np.abs(recorded).max(axis=1) > 2
    assert np.average(extreme[rows], weights=weights) == pytest.approx(extreme.mean(), abs=0.03)


@pytest.mark.parametrize("kind", ["does not use", "misjudges", "never met", "cannot tell"])
def test_sentences(kind: CauseKind, snapshot: object) -> None:
    evidence = GroupEvidence("gap", 0.8, 0.6, 0.7, 0.5, 0.3, 0.3, 0.25, -0.6, 0.03, 0.9)
    cause = Cause(kind, "gap", groups=(evidence,))
    assert (Cause(kind, why="no group explains it") if kind == "cannot tell" else cause).sentence("the gap") == snapshot
