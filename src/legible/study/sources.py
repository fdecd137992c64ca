"""The sources of hypotheses that a study asks, and what they know.

- `sources_of`: their generators, by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.hypotheses import Hypotheses, SourceInput, open_sources, source_names
from legible.rules import Rule
from legible.study.estimate import search_budget

if TYPE_CHECKING:
    from legible.study.study import Study


def sources_of(study: Study, rules: tuple[Rule, ...]) -> dict[str, Hypotheses]:
    """Open the sources that the settings name; `rules` are the user's own."""
    settings, seen = study.settings, study.experiences
    names = source_names(settings.sources)
    budget = 0
    if "searched" in names:
        budget = search_budget(settings, study.environment, len(study.mining.rules), float(seen.lengths.mean()))
    known = SourceInput(
        study.setup().policy,
        seen,
        study.mining,
        study.relations,
        rules,
        study.seed,
        search=settings.search,
        budget=budget,
        negative_first=settings.play.precedence == "negative",
        decisions=study.decision_gains() if study.learns_from_mistakes else None,
    )
    return open_sources(names, known)
