"""Actions of a replay in words, as a list that its steps refer to: `ActionWords`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.features import FeatureSpace, choices_of
from legible.formatting import number


class ActionWords:
    """Words of the actions of a replay; the list grows if actions have several parts or are continuous."""

    def __init__(self, space: FeatureSpace) -> None:
        self._space = space
        self.words = [action.label for action in space.actions] if space.is_discrete else []
        self._numbers: dict[str, int] = {}

    def number(self, action: Any, groups: NDArray[np.intp] | None = None) -> int:
        """Return the position of an action in the list of words; new words are appended.

        `action` is the number of the action, or the values of all its parts; `groups` are the parts to describe, all by
        default.
        """
        if self._space.is_discrete:
            return int(action)
        action = np.asarray(action)
        choices = choices_of(self._space.groups, action[None])[0]
        parts = []
        for i in range(len(self._space.groups)) if groups is None else groups.tolist():
            label = self._space.actions[choices[i]].label
            is_continuous = self._space.groups[i].regions is not None
            parts.append(f"{label} ({number(float(action[i]))})" if is_continuous else label)
        text = ", ".join(parts)
        if text not in self._numbers:
            self._numbers[text] = len(self.words)
            self.words.append(text)
        return self._numbers[text]
