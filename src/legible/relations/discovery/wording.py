"""Names and words of discovered relations, from the names of features and actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from legible.features import FeatureSpace

if TYPE_CHECKING:
    from legible.relations.discovery.candidates import Candidate

LABEL = "(discovered)"
_SIDES = (("left", "right"), ("north", "south"), ("east", "west"), ("up", "down"), ("clockwise", "counterclockwise"))


def name_candidate(candidate: Candidate, space: FeatureSpace, used: Sequence[str]) -> tuple[str, str]:
    """Return a name that is not used yet, and words, for a candidate."""
    base, words = _describe(candidate, space)
    name, number = f"{base} {LABEL}", 2
    while name in used:
        name, number = f"{base} {number} {LABEL}", number + 1
    return name, words


def _describe(candidate: Candidate, space: FeatureSpace) -> tuple[str, str]:
    """Return a name for a candidate, and the related situation in words."""
    signed = candidate.map
    parts = space.action_names if space.is_discrete else tuple(group.name for group in space.groups)
    moved = [i for i in signed.changes if i not in candidate.ignored]
    if space.is_discrete and signed.changes_actions:
        swapped = [(a, b) for a, b in enumerate(signed.action_images) if a < b and signed.action_images[b] == a]
        names_of_swapped = [(parts[a].lower(), parts[b].lower()) for a, b in swapped]
        for one, other in _SIDES:  # such as left and right
            if any((one in a and other in b) or (other in a and one in b) for a, b in names_of_swapped):
                return f"mirror {one}-{other}", f"the same situation with {one} and {other} exchanged"
    if signed.order == 4:  # nothing changes after four repetitions
        return "turn", "the same situation, turned by a quarter"
    exchanged = {(i, signed.images[i]) for i in moved if signed.images[i] > i and signed.images[signed.images[i]] == i}
    prefixes = {(_prefix(space.names[i]), _prefix(space.names[j])) for i, j in exchanged}
    if len(prefixes) == 1 and len(exchanged) * 2 == len(moved):
        ((one, other),) = prefixes
        if one and other and one != other:
            return f"exchange {one} and {other}", f"the same situation with {one} and {other} exchanged"
    if -1 in signed.signs or -1 in signed.action_signs:
        shown = [space.names[i] for i in moved if signed.signs[i] < 0]
        mirrored = ", ".join(shown[:4]) + (" …" if len(shown) > 4 else "")
        return "mirror", f"the same situation with {mirrored or 'actions'} mirrored"
    names = [space.names[i] for i in moved]
    return "exchange", f"the same situation with {', '.join(names[:4])}{' …' if len(names) > 4 else ''} exchanged"


def _prefix(name: str) -> str:
    return name.rpartition(".")[0].split(".")[0]
