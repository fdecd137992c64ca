"""Step 2 of the paper: metamorphic relations, and the related forms of rules.

- `values`, `relation`: relations of features. `actions`: relations of whole actions.
- `generalisation`: the related forms of a rule. `cuts`: intervals that relations share.
- `reader`, `writer`: relations files. `sources`: the choice of relations files.
- `check`: comparison of relations with an environment. `discovery`: relations that an environment respects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.environments import RelationsFile, shipped_relations
    from legible.relations.actions import map_actions
    from legible.relations.cuts import link_groups, share_cuts
    from legible.relations.generalisation import generalise, generalise_all
    from legible.relations.places import RelationFileError
    from legible.relations.reader import HOLDS, load_relations, parse_relations
    from legible.relations.relation import FeatureRelation, MetamorphicRelation, by_name, map_states
    from legible.relations.sources import (
        DISCOVER,
        DISCOVERED,
        ChosenRelations,
        RelationsArgument,
        RelationsText,
        resolve_relations,
    )
    from legible.relations.values import (
        ANY,
        EQUAL,
        NEGATE,
        Affine,
        Anything,
        Equal,
        RelationError,
        ValueRelation,
        ValueTable,
        reflect,
    )
    from legible.relations.writer import dump_relations

__all__, __getattr__, __dir__ = lazy_exports(__name__)
