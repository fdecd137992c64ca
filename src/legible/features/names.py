"""Valid names of features and actions.

- `check_name`: refuses a name that cannot be used in the text of a rule.
- `FeatureError`: an invalid feature, action, name or observation.
"""

from __future__ import annotations

import re

from legible.errors import LegibleError

# Rules are parsed from text, such as "+North <- food.north & 2 < ghost1.path.length <= 5".
_NAME = re.compile(r"[A-Za-z_][\w.\-:\[\]']*")
_RESERVED = {"not", "and", "in", "true"}
LONGEST_NAME = 200


class FeatureError(LegibleError):
    """An invalid feature, action or name, or observations that do not fit the features."""


def check_name(name: str, what: str) -> None:
    """Raise `FeatureError` if a name cannot be used in rules; `what` is the kind of thing that it names."""
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise FeatureError(
            f"{what} name {name!r} cannot be used: a name starts with a letter and has only letters, digits "
            "and _ . - : [ ] ' (put longer descriptions into 'words')."
        )
    if len(name) > LONGEST_NAME:
        raise FeatureError(f"{what} name {name[:20]}… has {len(name)} characters; the limit is {LONGEST_NAME}.")
