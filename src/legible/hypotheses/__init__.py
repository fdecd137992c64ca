"""Where the rule sets come from that are tested."""

from __future__ import annotations

from legible.hypotheses.paper import generalised, mined, yours
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
)

__all__ = [
    "SOURCES",
    "DecisionGains",
    "Hypotheses",
    "MeasuredEffect",
    "Source",
    "SourceInput",
    "ask_sources",
    "generalised",
    "mined",
    "open_sources",
    "register_source",
    "yours",
]
