"""Short representations for notebooks and the Python prompt.

- `Displayed`: a mixin with a one-line ``repr`` and an HTML card, made from a title and a few facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_STYLE = "border:1px solid #8884;border-radius:8px;padding:.6em .9em;display:inline-block;max-width:60em"


class Displayed:
    """A mixin for results: subclasses return their facts, name first, and both representations follow.

    Dataclasses need ``repr=False`` so that theirs does not take precedence.

    >>> class Found(Displayed):
    ...     def facts(self):
    ...         return {"rules": 3, "episodes": 600}
    >>> Found()
    <Found: rules 3, episodes 600>
    """

    def facts(self) -> Mapping[str, object]:
        """Return the facts to show, by name, the most important first."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self.facts().items())
        return f"<{type(self).__name__}: {facts}>"

    def _repr_html_(self) -> str:
        """Return a card for notebooks."""
        rows = "".join(
            f"<tr><td style='text-align:left;opacity:.7'>{escape(str(name))}</td>"
            f"<td style='text-align:left'>{escape(str(value))}</td></tr>"
            for name, value in self.facts().items()
        )
        return f"<div style='{_STYLE}'><b>{type(self).__name__}</b><table>{rows}</table></div>"
