"""Actions of a replay in words, as a list that its steps refer to.

- `ActionWords`: the list, which grows where actions are no single choice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.features import FeatureSpace, choices_of
from legible.formatting import number


class ActionWords:
    """What the actions of a replay are called, after "to".

    Parameters
    ----------
    space
        Names of actions, or of the choices that they take.
    """

    def __init__(self, space: FeatureSpace) -> None:
        self._space = space
        self.words = [action.label for action in space.actions] if space.is_discrete else []
        self._numbers: dict[str, int] = {}

    def number(self, action: Any, groups: NDArray[np.intp] | None = None) -> int:
        """Return where the words of an action stand in the list.

        Parameters
        ----------
        action
            Its number, or those of all its parts.
        groups
            Which parts to speak of; all by default.
        """
        if self._space.is_discrete:
            return int(action)
        text = self._text(np.asarray(action), range(len(self._space.groups)) if groups is None else groups.tolist())
        if text not in self._numbers:
            self._numbers[text] = len(self.words)
            self.words.append(text)
        return self._numbers[text]

    def _text(self, action: NDArray[Any], groups: Any) -> str:
        choices = choices_of(self._space.groups, action[None])[0]
        return ", ".join(self._part(choices[i], action[i], i) for i in groups)

    def _part(self, choice: np.int64, value: Any, group: int) -> str:
        label = self._space.actions[choice].label
        continuous = self._space.groups[group].regions is not None
        return f"{label} ({number(float(value))})" if continuous else label
