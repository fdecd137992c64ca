"""Names that rules can hold.

- `check_name`: refuses a name that would not survive in the text of a rule.
- `FeatureError`: what is wrong with features, actions, their names, or observations.
"""

from __future__ import annotations

import re

from legible.errors import LegibleError

# A name must survive in a rule's text ("+North <- food.north & 2 < ghost1.path.length <= 5") and parse back.
_NAME = re.compile(r"[A-Za-z_][\w.\-:\[\]']*")
_RESERVED = {"not", "and", "in", "true"}
LONGEST_NAME = 200


class FeatureError(LegibleError):
    """A feature, its name, or observations that do not fit the features."""


def check_name(name: str, what: str) -> None:
    """Refuse a name, of a feature or of whatever else `what` says, that rules cannot hold."""
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise FeatureError(
            f"{what} name {name!r} cannot be used: a name starts with a letter and holds only letters, digits "
            "and _ . - : [ ] ' (put the words for people into 'words')."
        )
    if len(name) > LONGEST_NAME:
        raise FeatureError(f"{what} name {name[:20]}… has {len(name)} letters; {LONGEST_NAME} are the most.")
