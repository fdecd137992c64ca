"""The geometry of charts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legible.evaluation.statistics import Effect
from legible.report.charts import Scale, histograms, interval_scale

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(values, values)
def test_bars_hold_all_episodes_within_the_chart(first: list[float], second: list[float]) -> None:
    chart = histograms({"alone": np.array(first), "guided": np.array(second)})
    for row in chart.rows:
        assert all(0 <= bar.left <= 100 and 0 < bar.height <= 100 for bar in row.bars)
        shares = [float(bar.title.split(": ")[1].split(" %")[0]) for bar in row.bars]
        assert sum(shares) == pytest.approx(100, abs=0.51 * len(shares))
        assert 0 <= row.mean <= 100
    assert max(bar.height for row in chart.rows for bar in row.bars) == 100
    assert chart.scale.low <= min(first + second)
    assert max(first + second) <= chart.scale.high


def test_a_histogram_by_hand() -> None:
    chart = histograms({"alone": np.array([0.0, 0.0, 0.0, 3.0])}, bins=3)
    # Steps of 1 from 0 to 4: the greatest value opens a bin of its own.
    assert (chart.scale.low, chart.scale.high) == (0.0, 4.0)
    assert [(bar.left, bar.height) for bar in chart.rows[0].bars] == [(0.0, 100.0), (75.0, pytest.approx(33.33))]
    assert len(histograms({"alone": np.full(5, 500.0)}).rows[0].bars) == 1


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_and_rise(low: float, width: float) -> None:
    ticks = Scale(low, low + width).ticks()
    places = [place for place, _ in ticks]
    assert 1 <= len(ticks) <= 7
    assert places == sorted(places)


def test_the_scale_of_effects_holds_zero_and_every_interval() -> None:
    scale = interval_scale([Effect(5.0, 1.0, 3.0, 7.0, 0.01), Effect(2.0, 1.0, 1.0, 3.0, 0.01)])
    assert scale.low < 0
    assert scale.high > 7
    flat = interval_scale([Effect(0.0, 0.0, 0.0, 0.0, 1.0)])
    assert flat.at(0.0) == 50.0
