"""Shares of endings, unguided and guided."""

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from legible.evaluation.endings import describe_endings, name_endings, share_endings
from legible.evaluation.units import UnitResult
from legible.features import FeatureSpace


def episodes(endings: list[str], last: list[list[float]] | None = None, failed: int | None = None) -> UnitResult:
    """Return episodes with these endings and last states; one may have failed."""
    n = len(endings)
    none = np.zeros(n, np.int64)
    returns, errors, flags = np.zeros(n), np.zeros(n, "U4"), np.zeros(n, np.bool_)
    if failed is not None:
        returns[failed], errors[failed], flags[failed] = np.nan, "boom", True
    states = np.zeros((n, 0), np.float32) if last is None else np.array(last, np.float32)
    return UnitResult(
        *(returns, none, flags, np.full(n, np.nan), np.zeros(n), none, none),
        failed=flags,
        errors=errors,
        endings=np.array(endings),
        last=states,
    )


LANDS, CRASHES, LATE = "success: it lands", "failure: it crashes", "time limit: time runs out"


def test_shares_worked_by_hand() -> None:
    base = episodes([CRASHES, CRASHES, CRASHES, LANDS, ""], failed=4)
    guided = episodes([LANDS, LANDS, CRASHES, LATE, LANDS])
    shares = {share.words: share for share in share_endings(base, guided)}
    crash, land = shares["it crashes"], shares["it lands"]
    assert crash.guided is not None
    assert crash.difference is not None
    assert land.difference is not None
    assert (crash.base.value, crash.guided.value, crash.difference.value) == (0.75, 0.25, -0.5)
    assert crash.base.low < 0.75 < crash.base.high
    assert crash.difference.low < -0.5 < crash.difference.high
    assert land.difference.value == 0.25
    assert sum(share.base.value for share in shares.values()) == 1.0
    assert crash.to_dict()["guided"]["value"] == 0.25


def test_unknown_endings_of_older_folders_have_no_shares() -> None:
    assert share_endings(episodes(["", ""])) == ()


def test_rare_endings_are_merged() -> None:
    shares = share_endings(episodes([f"failure: it hits wall {i}" for i in range(20) for _ in range(20 - i)]))
    assert len(shares) == 8
    assert shares[-1].kind == "other"


def test_unknown_endings_are_grouped_by_the_most_unusual_feature() -> None:
    states = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float32)
    ends = "other: the episode terminates"
    base = episodes([ends] * 4 + [LANDS], [[9, 0], [9, 9], [0, -9], [0, 0], [np.nan, np.nan]])
    (named,) = name_endings([base], states, FeatureSpace.of(["speed", "height"], ["Up"]))
    assert [text.partition("while ")[2] for text in named.tolist()] == [
        "speed is unusually high",
        "speed is unusually high",
        "height is unusually low",
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("base", "guided"),
    [
        ([CRASHES] * 3 + [LANDS], [LANDS] * 4),
        ([CRASHES] * 3 + [LANDS], None),
        ([CRASHES, CRASHES, "failure: it flies away", LANDS], [LANDS] * 3 + [CRASHES]),
        ([LATE] * 4, None),
        ([LATE] * 3 + [LANDS], None),
        ([LANDS] * 4, None),
    ],
)
def test_the_clause_of_the_verdict(base: list[str], guided: list[str] | None, snapshot: SnapshotAssertion) -> None:
    shares = share_endings(episodes(base), None if guided is None else episodes(guided))
    assert describe_endings(shares) == snapshot
