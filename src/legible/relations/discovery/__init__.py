"""Discovery of relations: signed permutations of features with a map of actions that an environment respects.

- `discover`: `discover_relations`, from transitions to proven relations; `results`: what it returns.
- `sampling`: transitions; `structure`: what a symmetry leaves unchanged; `search`: maps that do so;
  `choice_search`: the same for groups of flags of which exactly one is on.
- `proving`: screening and proof of maps; `repair`: images of features by measured disagreement.
- `parts`: what a discovery that was stopped has finished.
- `signed_map`: signed permutations and the groups that they generate.
- `candidates`: maps as relations; `wording`: their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.relations.discovery.discover import DEFAULT_STEPS, discover_relations, usual_minutes
    from legible.relations.discovery.results import DiscoveredRelation, Discovery
    from legible.relations.discovery.wording import LABEL

__all__, __getattr__, __dir__ = lazy_exports(__name__)
