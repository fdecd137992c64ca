"""Where the rule sets come from that are tested."""

from __future__ import annotations

from legible.hypotheses.paper import alone, generalised, mined, yours
from legible.hypotheses.search import searched
from legible.hypotheses.source import (
    SOURCES,
    DecisionGains,
    Hypotheses,
    MeasuredEffect,
    Source,
    SourceInput,
    ask_sources,
    open_sources,
    register_source,
    source_names,
)

__all__ = [
    "SOURCES",
    "DecisionGains",
    "Hypotheses",
    "MeasuredEffect",
    "Source",
    "SourceInput",
    "alone",
    "ask_sources",
    "generalised",
    "mined",
    "open_sources",
    "register_source",
    "searched",
    "source_names",
    "yours",
]
