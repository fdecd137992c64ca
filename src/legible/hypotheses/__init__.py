"""Sources of the rule sets that a study tests."""

from __future__ import annotations

from legible.hypotheses.paper import alone, generalised, mined, others, yours
from legible.hypotheses.search import SEARCHED, searched
from legible.hypotheses.source import (
    OTHERS,
    SOURCES,
    DecisionGains,
    Hypotheses,
    MeasuredEffect,
    Named,
    Proposal,
    Source,
    SourceInput,
    Trial,
    open_sources,
    register_source,
    run_sources,
    source_name_of_others,
    source_names,
)
