"""Where the rule sets come from that are tested."""

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
    ask_sources,
    open_sources,
    others_name,
    register_source,
    source_names,
)

__all__ = [
    "OTHERS",
    "SEARCHED",
    "SOURCES",
    "DecisionGains",
    "Hypotheses",
    "MeasuredEffect",
    "Named",
    "Proposal",
    "Source",
    "SourceInput",
    "Trial",
    "alone",
    "ask_sources",
    "generalised",
    "mined",
    "open_sources",
    "others",
    "others_name",
    "register_source",
    "searched",
    "source_names",
    "yours",
]
