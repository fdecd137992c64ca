"""The scales of intervals, and the data of the charts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legible.evaluation.statistics import Effect
from legible.report.charts import interval_scale
from legible.report.pictures import effect_chart, ledger_chart, return_chart, seed_chart, state_chart
from legible.report.returns import policy_returns
from legible.study import Study


def test_the_scale_of_effects_holds_zero_and_every_interval() -> None:
    scale = interval_scale([Effect(5.0, 1.0, 3.0, 7.0, 0.01), Effect(2.0, 1.0, 1.0, 3.0, 0.01)])
    assert scale.low < 0
    assert scale.high > 7
    flat = interval_scale([Effect(0.0, 0.0, 0.0, 0.0, 1.0)])
    assert flat.at(0.0) == 50.0


@given(st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=40))
def test_effects_are_sorted_and_at_most_twenty(means: list[float]) -> None:
    rows = [(f"rule set {i}", "go", Effect(m, 1.0, m - 2, m + 2, 0.1), "#rules", m > 2) for i, m in enumerate(means)]
    chart = effect_chart(rows, "mean return")
    assert chart is not None
    shown = [row["effect"] for row in chart["rows"]]
    assert shown == sorted(shown, reverse=True)
    assert len(shown) == min(20, len(means))
    assert effect_chart([], "mean return") is None


def test_bars_of_returns_hold_all_episodes(pacman_study: Study) -> None:
    policies = list(policy_returns(pacman_study))
    chart = return_chart(policies)
    for name in chart["policies"]:
        assert sum(row["share"] for row in chart["rows"] if row["policy"] == name) == pytest.approx(1.0)
    assert len(chart["means"]) + len(chart["baselines"]) == len(policies)
    constant = replace(policies[0], result=replace(policies[0].result, returns=np.full(len(policies[0].result), 500.0)))
    assert [row["share"] for row in return_chart([constant])["rows"]] == [1.0]


def test_seeds_lie_where_they_were_played(pacman_study: Study) -> None:
    final = pacman_study.improvement.final_blocks
    chart = seed_chart(final, {final.seeds[0]: 3})
    assert chart is not None
    known = {row["seed"]: row for row in chart["rows"]}
    assert known[final.seeds[0]]["href"] == f"#seed={final.seeds[0]}"
    assert [row["href"] for row in chart["rows"]][-1]  # on top
    for i, seed in enumerate(final.seeds):
        base, guided = final.base.returns[i], final.guided(0).returns[i]
        assert (known[seed]["unguided"], known[seed]["guided"]) == pytest.approx((base, guided))
        assert known[seed]["result"] == ("gains" if guided > base else "loses" if guided < base else "same return")


def test_the_map_holds_every_recorded_state_in_the_place_of_the_domain(pacman_study: Study) -> None:
    chart = state_chart(pacman_study, pacman_study.weaknesses[0].front.rule_set)
    assert chart is not None
    assert chart["axes"] == ["the column of Pac-Man", "the row of Pac-Man"]
    assert sum(row["states"] for row in chart["rows"]) == len(pacman_study.experiences)
    seen = pacman_study.experiences
    columns = seen.observations[:, seen.space.feature_index("pacman.x")]
    for row in chart["rows"]:
        assert ((columns > row["x1"]) & (columns < row["x2"])).any()
    assert chart["has_failures"]
    assert any(row["rules_hold"] for row in chart["rows"])


def test_the_chart_of_a_gain_has_all_its_parts(pacman_study: Study) -> None:
    ledger = pacman_study.mistake_ledgers[0]
    assert ledger is not None
    chart = ledger_chart(ledger)
    assert chart is not None
    assert {row["split"] for row in chart["rows"]} == set(ledger.splits)
    assert len(chart["rows"]) == sum(map(len, ledger.splits.values()))
    assert ledger_chart(None) is None
