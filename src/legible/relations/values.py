"""Relations R ⊆ ℝ × ℝ between the values of two features.

- `Equal`, `Anything`, `Affine`, `ValueTable`: the kinds of relations; `ValueRelation` is any of them.
- `EQUAL`, `ANY`, `NEGATE`, `reflect`: common relations.
- `RelationError`: an invalid relation.

Images of intervals
-------------------
Conditions are ``low < x <= high`` in float32, and maps act on the bounds. Maps of float32 values have to round, so the
image of a condition is defined by its effect: *the image holds for y exactly where the condition holds for the value
that y comes from* (`Affine.undo`). For negation this is ``[-high, -low)``, in float32 the same as
``(below(-high), below(-low)]``, which is its own inverse to the last bit. Other maps may round. `generalise` therefore
first moves a bound without an exact image to the next one that has an image (by less than the rounding error of the
map), and `share_cuts` makes only such cuts. Then, for every rule of the set and every finite observation with a finite
image: *a rule triggers in s exactly when its image triggers in the image of s*. The image of a condition on a single
value is the image of that value; there the statement can fail for a neighbouring value that is rounded to the same
image. An interval of which rounding would leave at most one value has no image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError
from legible.features import above, below
from legible.rules import Condition

_LARGEST = float(np.finfo(np.float32).max)


class RelationError(LegibleError):
    """An invalid relation, or one that cannot be applied."""


@dataclass(frozen=True)
class Equal:
    """Equality of two values."""

    exact = True
    text = "="

    def images(self, condition: Condition, feature: int) -> tuple[Condition, ...]:
        """Return the same interval for the other feature."""
        return (Condition(feature, condition.low, condition.high),)

    def map_values(self, values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the images of values, and which of them have one."""
        return values, np.ones(values.shape, np.bool_)


@dataclass(frozen=True)
class Anything:
    """ℝ × ℝ, which relates all values: the feature is ignored, and conditions on it are removed."""

    exact = True
    text = "any"


@dataclass(frozen=True)
class Affine:
    """The map ``y = scale · x + shift``, computed in float64 and rounded to float32.

    >>> from legible.features import FeatureSpace
    >>> NEGATE.images(Condition(0, 1.0, 2.0), 0)[0].text(FeatureSpace.of(["vy"])[0])
    '-2 <= vy < -1'
    """

    scale: float
    shift: float = 0.0

    def __post_init__(self) -> None:
        scale, shift = float(self.scale), float(self.shift) + 0.0
        if not (math.isfinite(scale) and math.isfinite(shift)) or scale == 0:
            raise RelationError(
                f"y = {scale} · x + {shift} is not valid: the scale must not be 0, and both must be finite."
            )
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "shift", shift)

    @property
    def exact(self) -> bool:
        """True if the map never rounds."""
        return abs(self.scale) == 1 and self.shift == 0

    @property
    def text(self) -> str:
        """The map in words."""
        if self == NEGATE:
            return "negated"
        if self.scale == -1:
            return f"reflected about {self.shift / 2:g}"
        return f"{self.scale:g} · x + {self.shift:g}"

    def apply(self, values: ArrayLike) -> NDArray[np.float32]:
        """Map values of the first feature to the second."""
        with np.errstate(over="ignore", invalid="ignore"):
            image = np.asarray(values, np.float32).astype(np.float64) * self.scale + self.shift
            return np.asarray(image + 0.0, np.float32)

    def undo(self, values: ArrayLike) -> NDArray[np.float32]:
        """Map values of the second feature back to the first."""
        with np.errstate(over="ignore", invalid="ignore"):
            source = (np.asarray(values, np.float32).astype(np.float64) - self.shift) / self.scale
            return np.asarray(source + 0.0, np.float32)

    def image_cut(self, cut: float) -> float:
        """Return the image of a cut of the first feature."""
        return _pull_cut(self, cut, through_undo=True)

    def source_cut(self, cut: float) -> float:
        """Return the cut of the first feature whose image is a cut of the second."""
        return _pull_cut(self, cut, through_undo=False)

    def settle(self, cut: float, *, on_image: bool = False) -> float:
        """Return the nearest cut, not below this one if possible, that maps back to itself.

        It is a cut of the first feature, or of the second with `on_image`.
        """
        if self.exact:
            return cut
        map_there, map_back = (self.source_cut, self.image_cut) if on_image else (self.image_cut, self.source_cut)
        image = map_there(cut)
        if not math.isfinite(image):
            return cut
        settled = map_back(image)
        if settled < cut:
            # Rounding has moved it down: try the image of the next higher cut.
            higher = map_back(float(above(image) if self.scale > 0 else below(image)))
            settled = higher if cut <= higher < np.inf else settled
        return settled if math.isfinite(settled) else cut

    def images(self, condition: Condition, feature: int) -> tuple[Condition, ...]:
        """Return the image of a value or an interval; none if rounding leaves at most one value of an interval."""
        value = condition.value
        if value is not None:
            image = float(self.apply(value))
            return (Condition.equals(feature, image),) if math.isfinite(image) else ()
        ends = self.image_cut(condition.low), self.image_cut(condition.high)
        low, high = ends if self.scale > 0 else ends[::-1]
        return (Condition(feature, low, high),) if low < float(below(high)) else ()

    def map_values(self, values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the images of values, and which of them have one."""
        images = self.apply(values)
        return images, np.isfinite(images) | ~np.isfinite(values)


@dataclass(frozen=True)
class ValueTable:
    """A relation given by its pairs; a value may have several images, or none.

    >>> ValueTable(((0, 1), (0, 2))).images(Condition.equals(5, 0), 7)
    (Condition(feature=7, low=0.9999999403953552, high=1.0), Condition(feature=7, low=1.9999998807907104, high=2.0))
    """

    pairs: tuple[tuple[float, float], ...]

    exact = True

    def __post_init__(self) -> None:
        pairs = tuple(sorted({(_float32(x), _float32(y)) for x, y in self.pairs}))
        if not pairs or not np.isfinite(pairs).all():
            raise RelationError(f"a table of values needs pairs of finite numbers, got {list(self.pairs)}.")
        object.__setattr__(self, "pairs", pairs)

    @property
    def text(self) -> str:
        """The table in words, shortened if it is long."""
        shown = ", ".join(f"{x:g}→{y:g}" for x, y in self.pairs[:4])
        return shown if len(self.pairs) <= 4 else f"{shown}, … ({len(self.pairs)} values)"

    @cached_property
    def forth(self) -> dict[float, tuple[float, ...]]:
        """The images of every value."""
        gathered: dict[float, tuple[float, ...]] = {}
        for x, y in self.pairs:
            gathered[x] = (*gathered.get(x, ()), y)
        return gathered

    def images(self, condition: Condition, feature: int) -> tuple[Condition, ...]:
        """Return a condition for every image; none for an interval, or for a value that is not in the table."""
        if condition.value is None:
            return ()
        return tuple(Condition.equals(feature, y) for y in self.forth.get(condition.value, ()))

    def map_values(self, values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the images of values (NaN where there is none), and which of them have one."""
        if len(self.forth) < len(self.pairs):
            raise RelationError(f"observations cannot be mapped: a value has several images in {self.text}.")
        xs, ys = np.array(self.pairs, np.float32).T
        nearest = np.minimum(np.searchsorted(xs, values), len(xs) - 1)
        has_image = xs[nearest] == values
        return np.where(has_image, ys[nearest], np.float32(np.nan)), has_image


ValueRelation: TypeAlias = Equal | Anything | Affine | ValueTable

EQUAL = Equal()
ANY = Anything()
NEGATE = Affine(-1.0)


def reflect(about: float) -> Affine:
    """Return the reflection ``y = 2 · about - x``; `about` is rounded to float32."""
    return Affine(-1.0, 2.0 * _float32(about))


def _float32(value: float) -> float:
    return float(np.float32(value)) + 0.0


@lru_cache(maxsize=1 << 16)
def _pull_cut(affine: Affine, cut: float, *, through_undo: bool) -> float:
    """Return the cut d for which ``y <= d`` holds exactly if x, from which y comes, is on the right side of `cut`.

    x is ``undo(y)`` with `through_undo`, ``apply(y)`` without. The right side is ``x <= cut`` for a rising map, and
    ``x > cut`` for a falling one.
    """
    rising = affine.scale > 0
    if not math.isfinite(cut):
        return cut if rising else -cut
    if affine.exact:  # y is x or -x
        return cut if rising else float(below(-cut)) + 0.0  # adding 0 turns -0.0 into 0.0
    to_x = affine.undo if through_undo else affine.apply

    def is_low(y: float) -> bool:
        return bool(to_x(y) <= cut) if rising else bool(to_x(y) > cut)

    # Bisect for the largest float32 that is low, by the ranks of all float32 numbers.
    if not is_low(-_LARGEST):
        return -np.inf
    if is_low(_LARGEST):
        return np.inf
    first, last = _ordinal(-_LARGEST), _ordinal(_LARGEST)
    while last - first > 1:
        middle = (first + last) // 2
        if is_low(_from_ordinal(middle)):
            first = middle
        else:
            last = middle
    return _from_ordinal(first)


def _ordinal(value: float) -> int:
    """Return the rank of a float32 value; zero has rank 0."""
    size = int(np.float32(abs(value)).view(np.int32))
    return size if value >= 0 else -size


def _from_ordinal(number: int) -> float:
    size = float(np.int32(abs(number)).view(np.float32))
    return size if number >= 0 else -size
