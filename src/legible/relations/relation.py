"""Step 2: metamorphic relations, and the rules that follow from a mined rule.

- `Equal`, `Anything`, `Affine`, `Table`: the relation R ⊆ ℝ × ℝ between the values of two features
  (`EQUAL`, `ANY`, `NEGATE` and `reflect` name the common ones).
- `FeatureRelation`: the paper's ⟨a, a′, i, j, R⟩. `MetamorphicRelation`: a set of them on the same actions.
- `generalise`, `generalise_all`: the fixed point M_gen of a rule, a `Generalisation`.
- `share_cuts`: give features that a relation maps to each other the same intervals, so that an interval has an image.
- `map_states`, `map_action`: the image of whole observations, to test a relation against an environment.
- `describe`: a rule with its generalisations as text.

How an interval is mapped
-------------------------
Conditions are ``low < x <= high`` in float32, and maps act on the ends. A map on float32 values has to round, so the
image of a condition is defined by what it must do: *the image holds for y exactly where the condition holds for the
value that y comes from* (`Affine.undo`). For negation this is ``[-high, -low)``, in float32 the same as
``(below(-high), below(-low)]``, and it undoes itself to the last bit. Other maps may round; `generalise` first moves an
end that has no exact image to the next one that has (by less than the map's own rounding error), and `share_cuts` makes
only such cuts. After that, for every rule of the set and every finite observation whose image is finite: *a rule
triggers in s exactly when its image triggers in the image of s*. A condition on a single value goes to the image of
that value; there the sentence can fail for a neighbouring value that the map rounds to the same image. An interval of
which a map's rounding would leave one value only, or none, has no image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from legible.errors import LegibleError
from legible.features import FeatureSpace, Intervals, Observations, above, below
from legible.rules import Condition, Rule, RuleSet

MOST_RULES = 256
MOST_CUTS = 1024
_LARGEST = float(np.finfo(np.float32).max)

StateAction: TypeAlias = tuple[ArrayLike, int]


class RelationError(LegibleError):
    """A relation that makes no sense, or that cannot be applied."""


# --- R: how the values of two features are related -------------------------------------------------------------------


@dataclass(frozen=True)
class Equal:
    """The two values are equal."""

    exact = True
    text = "="

    def contains(self, x: float, y: float) -> bool:
        """Whether (x, y) ∈ R."""
        return bool(np.float32(x) == np.float32(y))

    def images(self, condition: Condition, feature: int) -> tuple[Condition, ...]:
        """The same interval, on the other feature."""
        return (Condition(feature, condition.low, condition.high),)

    def map_values(self, values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the images of values, and which of them have one."""
        return values, np.ones(values.shape, np.bool_)


@dataclass(frozen=True)
class Anything:
    """ℝ × ℝ: every value is related to every value, so the feature is ignored (conditions on it are removed)."""

    exact = True
    text = "any"

    def contains(self, x: float, y: float) -> bool:  # noqa: ARG002
        """Whether (x, y) ∈ R: always."""
        return True


@dataclass(frozen=True)
class Affine:
    """``y = scale · x + shift``, rising or falling, computed in float64 and rounded to float32.

    >>> NEGATE.images(Condition(0, 1.0, 2.0), 0)[0].text(FeatureSpace.of(["vy"])[0])
    '-2 <= vy < -1'
    """

    scale: float
    shift: float = 0.0

    def __post_init__(self) -> None:
        scale, shift = float(self.scale), float(self.shift) + 0.0
        if not (math.isfinite(scale) and math.isfinite(shift)) or scale == 0:
            raise RelationError(
                f"y = {scale} · x + {shift} is no map: the scale must not be 0 and both must be finite."
            )
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "shift", shift)

    @property
    def exact(self) -> bool:
        """Whether the map never rounds."""
        return abs(self.scale) == 1 and self.shift == 0

    @property
    def text(self) -> str:
        """The map for people."""
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

    def contains(self, x: float, y: float) -> bool:
        """Whether (x, y) ∈ R."""
        return bool(self.apply(x) == np.float32(y))

    def image_cut(self, cut: float) -> float:
        """Where a cut of the first feature falls on the second."""
        return _pull_cut(self, cut, through_undo=True)

    def source_cut(self, cut: float) -> float:
        """Where a cut of the second feature falls on the first."""
        return _pull_cut(self, cut, through_undo=False)

    def settle(self, cut: float, *, on_image: bool = False) -> float:
        """Return the nearest cut, not below this one where possible, that maps there and back to itself."""
        if self.exact:
            return cut
        forth, back = (self.source_cut, self.image_cut) if on_image else (self.image_cut, self.source_cut)
        image = forth(cut)
        if not math.isfinite(image):
            return cut
        settled = back(image)
        if settled < cut:
            higher = back(float(above(image) if self.scale > 0 else below(image)))
            settled = higher if cut <= higher < np.inf else settled
        return settled if math.isfinite(settled) else cut

    def images(self, condition: Condition, feature: int) -> tuple[Condition, ...]:
        """The interval whose values come from the condition's; nothing when rounding leaves one value of it, or none.

        A single value goes to its own image.
        """
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
class Table:
    """The pairs of R one by one; a value may have several images, or none.

    >>> Table(((0, 1), (0, 2))).images(Condition.equals(5, 0), 7)
    (Condition(feature=7, low=0.9999999403953552, high=1.0), Condition(feature=7, low=1.9999998807907104, high=2.0))
    """

    pairs: tuple[tuple[float, float], ...]

    exact = True

    def __post_init__(self) -> None:
        pairs = tuple(sorted({(_float32(x), _float32(y)) for x, y in self.pairs}))
        if not pairs or not np.isfinite(pairs).all():
            raise RelationError(f"a table needs pairs of finite values, got {list(self.pairs)}.")
        object.__setattr__(self, "pairs", pairs)

    @property
    def text(self) -> str:
        """The table for people, shortened when it is long."""
        shown = ", ".join(f"{x:g}→{y:g}" for x, y in self.pairs[:4])
        return shown if len(self.pairs) <= 4 else f"{shown}, … ({len(self.pairs)} values)"

    @cached_property
    def forth(self) -> dict[float, tuple[float, ...]]:
        """The images of every value."""
        return _gather(self.pairs)

    @cached_property
    def back(self) -> dict[float, tuple[float, ...]]:
        """The values that every image comes from."""
        return _gather((y, x) for x, y in self.pairs)

    @property
    def is_function(self) -> bool:
        """Whether no value has two images."""
        return len(self.forth) == len(self.pairs)

    def contains(self, x: float, y: float) -> bool:
        """Whether (x, y) ∈ R."""
        return _float32(y) in self.forth.get(_float32(x), ())

    def images(self, condition: Condition, feature: int) -> tuple[Condition, ...]:
        """One condition for every image; nothing for an interval, or for a value that is not in the table."""
        if condition.value is None:
            return ()
        return tuple(Condition.equals(feature, y) for y in self.forth.get(condition.value, ()))

    def map_values(self, values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the images of values (NaN where there is none), and which of them have one."""
        if not self.is_function:
            raise RelationError(f"{self.text} gives some value several images, so observations cannot be mapped.")
        xs, ys = np.array(self.pairs, np.float32).T
        place = np.minimum(np.searchsorted(xs, values), len(xs) - 1)
        known = xs[place] == values
        return np.where(known, ys[place], np.float32(np.nan)), known


ValueRelation: TypeAlias = Equal | Anything | Affine | Table

EQUAL = Equal()
ANY = Anything()
NEGATE = Affine(-1.0)


def reflect(about: float) -> Affine:
    """Make the reflection ``y = 2 · about - x``; like every value, `about` is rounded to float32."""
    return Affine(-1.0, 2.0 * _float32(about))


def _float32(value: float) -> float:
    return float(np.float32(value)) + 0.0


def _gather(pairs: Iterable[tuple[float, float]]) -> dict[float, tuple[float, ...]]:
    gathered: dict[float, list[float]] = {}
    for x, y in pairs:
        gathered.setdefault(x, []).append(y)
    return {x: tuple(ys) for x, ys in gathered.items()}


@lru_cache(maxsize=1 << 16)
def _pull_cut(affine: Affine, cut: float, *, through_undo: bool) -> float:
    """Return the cut d such that ``y <= d`` exactly where y comes from the side of `cut` that maps to low values."""
    rising = affine.scale > 0
    if not math.isfinite(cut):
        return cut if rising else -cut
    if affine.exact:
        return cut if rising else float(below(-cut)) + 0.0
    origin = affine.undo if through_undo else affine.apply

    def is_low(y: float) -> bool:
        source = origin(y)
        return bool(source <= cut) if rising else bool(source > cut)

    return _last_float(is_low)


def _last_float(holds: Callable[[float], bool]) -> float:
    """Return the largest float32 for which `holds` is true, when it is true up to some value and false beyond."""
    if not holds(-_LARGEST):
        return -np.inf
    if holds(_LARGEST):
        return np.inf
    low, high = _ordinal(-_LARGEST), _ordinal(_LARGEST)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(_from_ordinal(middle)):
            low = middle
        else:
            high = middle
    return _from_ordinal(low)


def _ordinal(value: float) -> int:
    """Number float32 values in their order; zero is 0."""
    size = int(np.float32(abs(value)).view(np.int32))
    return size if value >= 0 else -size


def _from_ordinal(number: int) -> float:
    size = float(np.int32(abs(number)).view(np.float32))
    return size if number >= 0 else -size


# --- The definitions of the paper ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FeatureRelation:
    """The paper's ⟨a, a′, i, j, R⟩: feature i where action a is taken is related by R to feature j where a′ is taken.

    >>> fr = FeatureRelation(0, 2, 62, 64, EQUAL)
    >>> rule = Rule("-", 0, (Condition.equals(62, 0),))
    >>> fr.rules_related(rule, Rule("-", 2, (Condition.equals(64, 0),)))
    True
    """

    action: int
    image_action: int
    feature: int
    image_feature: int
    relation: ValueRelation = EQUAL

    def __post_init__(self) -> None:
        numbers = (self.action, self.image_action, self.feature, self.image_feature)
        if min(numbers) < 0:
            raise RelationError(f"actions and features have numbers from 0 on, got {numbers}.")

    def related(self, first: StateAction, second: StateAction) -> bool:
        """Whether two state-action pairs are feature-related: a, a′ are taken and the values are in R."""
        (s1, a1), (s2, a2) = first, second
        if (a1, a2) != (self.action, self.image_action):
            return False
        x, y = np.asarray(s1, np.float32)[self.feature], np.asarray(s2, np.float32)[self.image_feature]
        return self.relation.contains(float(x), float(y))

    def rules_related(self, first: Rule, second: Rule) -> bool:
        """Whether both rules have these heads and one polarity, and both bodies speak of (i, j) in R, or neither."""
        if first.polarity != second.polarity or (first.action, second.action) != (self.action, self.image_action):
            return False
        one, two = _condition_on(first, self.feature), _condition_on(second, self.image_feature)
        if one is None or two is None:
            return one is two
        return isinstance(self.relation, Anything) or two in self.relation.images(one, self.image_feature)


def _condition_on(rule: Rule, feature: int) -> Condition | None:
    return next((condition for condition in rule.conditions if condition.feature == feature), None)


@dataclass(frozen=True)
class MetamorphicRelation:
    """A set of feature relations on the same actions: where a is right, a′ is right in the image of the state.

    Parameters
    ----------
    action, image_action
        The actions a and a′.
    features
        The feature relations. The pairing of features is one-to-one, R need not be. Features that are not named stay
        as they are.
    unmapped
        Features that have no image: a rule that speaks of one of them has none either (the last row of a shift).
    name, words
        What it is called, and what it says, for people. Relations of one name belong together.
    holds
        Whether it holds, environment by environment: ``"yes"``, ``"nearly"``, ``"partly"`` or ``"no"``.
    note
        Anything else that a reader should know.
    """

    action: int
    image_action: int
    features: tuple[FeatureRelation, ...] = ()
    unmapped: tuple[int, ...] = ()
    name: str = ""
    words: str = ""
    holds: Mapping[str, str] = field(default_factory=dict, hash=False)
    note: str = ""

    def __post_init__(self) -> None:
        features = tuple(sorted(set(self.features), key=lambda fr: (fr.feature, fr.image_feature)))
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "unmapped", tuple(sorted(set(self.unmapped))))
        object.__setattr__(self, "holds", dict(self.holds))
        for fr in features:
            if (fr.action, fr.image_action) != (self.action, self.image_action):
                raise RelationError(
                    f"{self._called}: all feature relations must be on actions {self.action} and {self.image_action}, "
                    f"one is on {fr.action} and {fr.image_action}."
                )
        self._check_pairing()

    def _check_pairing(self) -> None:
        sources = [fr.feature for fr in self.features]
        images = [fr.image_feature for fr in self.features]
        for what, numbers in (("maps feature", [*sources, *self.unmapped]), ("maps to feature", images)):
            twice = sorted({number for number in numbers if numbers.count(number) > 1})
            if twice:
                raise RelationError(f"{self._called} {what} {twice[0]} more than once: the pairing must be one-to-one.")

    @property
    def _called(self) -> str:
        return f"relation {self.name!r}" if self.name else "the relation"

    @classmethod
    def of(cls, features: Iterable[FeatureRelation], name: str = "", words: str = "") -> MetamorphicRelation:
        """Make the relation from its feature relations, which say what the actions are."""
        features = tuple(features)
        if not features:
            raise RelationError("a metamorphic relation without feature relations must be given its actions.")
        return cls(features[0].action, features[0].image_action, features, name=name, words=words)

    @property
    def ignored(self) -> frozenset[int]:
        """Features on which conditions are removed: those of R = ℝ × ℝ."""
        pairs = [fr for fr in self.features if isinstance(fr.relation, Anything)]
        return frozenset(number for fr in pairs for number in (fr.feature, fr.image_feature))

    @property
    def unconstrained(self) -> tuple[int, ...]:
        """Features of the image of a state about which the relation says nothing."""
        named = {fr.feature for fr in self.features} | set(self.unmapped)
        told = {fr.image_feature for fr in self.features if not isinstance(fr.relation, Anything)}
        return tuple(sorted((named | self.ignored) - told))

    def related(self, first: StateAction, second: StateAction) -> bool:
        """Whether two state-action pairs are related by every feature relation."""
        return (first[1], second[1]) == (self.action, self.image_action) and all(
            fr.related(first, second) for fr in self.features
        )

    def rules_related(self, first: Rule, second: Rule) -> bool:
        """Whether two rules are related by every feature relation.

        As in the paper, this says nothing of features that no feature relation names; `generalise` keeps those.
        """
        heads = (first.polarity, first.action, second.action) == (second.polarity, self.action, self.image_action)
        if not heads or not set(self.unmapped).isdisjoint(first.features):
            return False
        return all(fr.rules_related(first, second) for fr in self.features)

    def rows(self, space: FeatureSpace) -> list[tuple[str, str, str]]:
        """Feature, image and how the values are related, for a table."""
        names = space.names
        rows = {
            fr.feature: (names[fr.feature], "", "ignored")
            if isinstance(fr.relation, Anything) and fr.feature == fr.image_feature
            else (names[fr.feature], names[fr.image_feature], fr.relation.text)
            for fr in self.features
        }
        rows |= {number: (names[number], "", "no image") for number in self.unmapped}
        return [rows[number] for number in sorted(rows)]

    def table(self, space: FeatureSpace) -> str:
        """Draw the relation as plain text: which action and feature becomes which.

        >>> fr = FeatureRelation(0, 1, 0, 1)
        >>> space = FeatureSpace.of(["gap.left", "gap.right"], ["Left", "Right"])
        >>> print(MetamorphicRelation.of([fr], name="mirror").table(space))
        mirror: Left → Right
          gap.left → gap.right  =
        """
        actions = space.action_names
        rows = self.rows(space)
        first, second = (max((len(row[k]) for row in rows), default=0) for k in (0, 1))
        lines = [f"{self.name or 'relation'}: {actions[self.action]} → {actions[self.image_action]}"]
        for name, image, how in rows:
            arrow = "→" if image else " "
            lines.append(f"  {name:<{first}} {arrow} {image:<{second}}  {how}")
        return "\n".join(lines)


def by_name(relations: Iterable[MetamorphicRelation]) -> dict[str, tuple[MetamorphicRelation, ...]]:
    """Put relations of one name together, in the order of their first appearance."""
    groups: dict[str, list[MetamorphicRelation]] = {}
    for relation in relations:
        groups.setdefault(relation.name, []).append(relation)
    return {name: tuple(group) for name, group in groups.items()}


# --- Generalising rules ----------------------------------------------------------------------------------------------


class Dropped(NamedTuple):
    """An image that does not exist, because one condition of the rule has none under the relation."""

    rule: Rule
    relation: MetamorphicRelation
    condition: Condition


@dataclass(frozen=True)
class Generalisation:
    """What became of a rule: M_gen(ρ), and what was left out on the way.

    Parameters
    ----------
    rule_set
        The rules, the given one first, with the given one as their source. Empty when the rule only has conditions on
        features that the relations ignore: nothing is left of it that could be generalised.
    removed
        Conditions of the given rule on ignored features. They are in no rule of the set.
    dropped
        Images that do not exist.
    """

    rule_set: RuleSet
    removed: tuple[Condition, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no condition was left, so that the rule was not generalised."""
        return not self.rule_set.rules


def generalise(rule: Rule, relations: Iterable[MetamorphicRelation], *, most_rules: int = MOST_RULES) -> Generalisation:
    """Return all rules that follow from a rule by relations: the fixed point M_gen.

    >>> turn = MetamorphicRelation.of([FeatureRelation(0, 2, 62, 64, EQUAL)])
    >>> rule = Rule("-", 0, (Condition.equals(62, 0),))
    >>> [r.paper() for r in generalise(rule, [turn]).rule_set.rules]
    ['-action(0) <- f62=0', '-action(2) <- f64=0']

    Parameters
    ----------
    rule
        A mined rule.
    relations
        The metamorphic relations M. Conditions on features that a relation ignores (R = ℝ × ℝ) are removed first, from
        the given rule too, when the relation can apply to it or to a rule that follows from it. An image is left out
        when a condition of the rule has no image.
    most_rules
        More rules than this are refused.
    """
    return _Generaliser(relations, most_rules)(rule)


def generalise_all(
    rules: Iterable[Rule], relations: Iterable[MetamorphicRelation], *, most_rules: int = MOST_RULES
) -> list[Generalisation]:
    """Generalise many rules by the same relations; see `generalise`."""
    generaliser = _Generaliser(relations, most_rules)
    return [generaliser(rule) for rule in rules]


class _IndexedRelation:
    """A metamorphic relation, looked up by feature, that remembers the images of conditions."""

    def __init__(self, relation: MetamorphicRelation) -> None:
        self.relation = relation
        self._targets = {
            fr.feature: (fr.image_feature, fr.relation)
            for fr in relation.features
            if not isinstance(fr.relation, Anything)
        }
        taken = {image for image, _ in self._targets.values()}
        # A feature that only is an image would be overwritten by it, so a condition on it cannot stay.
        self._unmapped = set(relation.unmapped) | (taken - self._targets.keys())
        self._known: dict[Condition, tuple[Condition, ...]] = {}

    def images(self, condition: Condition) -> tuple[Condition, ...]:
        known = self._known.get(condition)
        if known is None:
            known = self._known[condition] = self._find(condition)
        return known

    def _find(self, condition: Condition) -> tuple[Condition, ...]:
        if condition.feature in self._unmapped:
            return ()
        if condition.feature not in self._targets:
            return (condition,)
        feature, relation = self._targets[condition.feature]
        return relation.images(condition, feature)


class _Reach(NamedTuple):
    """What concerns the rules that follow from a rule with a given action."""

    ignored: frozenset[int]
    rounding: dict[int, tuple[Affine, ...]]


class _Generaliser:
    """The relations, indexed by the action of the rules that they apply to."""

    def __init__(self, relations: Iterable[MetamorphicRelation], most_rules: int) -> None:
        if most_rules < 1:
            raise RelationError(f"most_rules must be at least 1, got {most_rules}.")
        self.most_rules = most_rules
        self.relations: dict[int, list[_IndexedRelation]] = {}
        for relation in relations:
            self.relations.setdefault(relation.action, []).append(_IndexedRelation(relation))
        self._reaches: dict[int, _Reach] = {}

    def __call__(self, rule: Rule) -> Generalisation:
        reach = self._reach(rule.action)
        start = _prepare(rule, reach)
        removed = tuple(c for c in rule.conditions if c.feature in reach.ignored)
        if not start.conditions:
            return Generalisation(RuleSet((), rule), removed)
        found = {start: None}
        dropped: list[Dropped] = []
        waiting = [start]
        for current in waiting:
            for relation in self.relations.get(current.action, ()):
                for image in self._images(current, relation, reach, dropped):
                    if image not in found:
                        found[image] = None
                        waiting.append(image)
                self._refuse_beyond(len(found), rule)
        return Generalisation(RuleSet(tuple(found), rule), removed, tuple(dropped))

    def _images(self, rule: Rule, indexed: _IndexedRelation, reach: _Reach, dropped: list[Dropped]) -> Iterable[Rule]:
        action, choices = indexed.relation.image_action, []
        for condition in rule.conditions:
            images = indexed.images(condition)
            if not images:
                dropped.append(Dropped(rule, indexed.relation, condition))
                return ()
            choices.append(images)
        self._refuse_beyond(math.prod(map(len, choices)), rule)
        images_of_rule = (Rule(rule.polarity, action, body) for body in product(*choices))
        if not reach.ignored:
            return images_of_rule
        # An image may speak of features that another relation ignores; one that speaks of nothing else says nothing.
        return (stripped for image in images_of_rule if (stripped := _strip(image, reach.ignored)).conditions)

    def _refuse_beyond(self, count: int, rule: Rule) -> None:
        if count > self.most_rules:
            names = ", ".join(sorted({repr(r.relation.name) for group in self.relations.values() for r in group}))
            raise RelationError(
                f"{rule.paper()} has more than {self.most_rules} generalisations under the relations {names}. "
                "Use fewer relations, or look for one that never comes back to where it started."
            )

    def _reach(self, action: int) -> _Reach:
        if action not in self._reaches:
            self._reaches[action] = self._find_reach(action)
        return self._reaches[action]

    def _find_reach(self, action: int) -> _Reach:
        actions = [action]
        ignored: set[int] = set()
        rounding: dict[int, dict[Affine, None]] = {}
        for current in actions:
            for relation in (indexed.relation for indexed in self.relations.get(current, ())):
                ignored |= relation.ignored
                if relation.image_action not in actions:
                    actions.append(relation.image_action)
                for fr in relation.features:
                    if isinstance(fr.relation, Affine) and not fr.relation.exact:
                        rounding.setdefault(fr.feature, {})[fr.relation] = None
        return _Reach(frozenset(ignored), {feature: tuple(maps) for feature, maps in rounding.items()})


def _strip(rule: Rule, features: frozenset[int]) -> Rule:
    """Remove conditions on these features."""
    if features.isdisjoint(rule.features):
        return rule
    return Rule(rule.polarity, rule.action, tuple(c for c in rule.conditions if c.feature not in features))


def _prepare(rule: Rule, reach: _Reach) -> Rule:
    """Remove conditions on ignored features, and move ends that have no exact image to the next that have."""
    rule = _strip(rule, reach.ignored)
    if reach.rounding.keys().isdisjoint(rule.features):
        return rule
    settled = tuple(_settle(c, reach.rounding.get(c.feature, ())) for c in rule.conditions)
    return Rule(rule.polarity, rule.action, settled)


def _settle(condition: Condition, maps: Sequence[Affine]) -> Condition:
    if condition.value is not None:
        return condition
    for affine in maps:
        low, high = affine.settle(condition.low), affine.settle(condition.high)
        if low < high:
            condition = Condition(condition.feature, low, high)
    return condition


# --- Cuts that relations share ---------------------------------------------------------------------------------------


def share_cuts(
    intervals: Intervals,
    space: FeatureSpace,
    relations: Iterable[MetamorphicRelation],
    *,
    most_cuts: int = MOST_CUTS,
) -> Intervals:
    """Give features that relations map to each other the union of their cuts, so that intervals have exact images.

    The cuts are closed under the maps: a negated feature gets the mirror image of every cut. The mirror image of
    ``x <= 3`` is ``x >= -3``, so a feature with cuts at 3 and -3 also gets intervals for exactly 3 and exactly -3.
    Categorical features share the union of their values in the same way.

    Parameters
    ----------
    intervals
        Intervals of all features.
    space
        The features; what is related must be of one kind.
    relations
        The relations; ignored features share nothing.
    most_cuts
        More cuts of a feature than this are refused: the maps never come back to where they started.
    """
    links = _links(relations)
    ends = {
        i: _Ends(space, i, links) for i in sorted({i for link in links for i in (link.feature, link.image_feature)})
    }
    waiting: list[tuple[int, float]] = []

    def add(feature: int, end: float) -> None:
        added = ends[feature].add(end)
        if added is not None:
            waiting.append((feature, added))
            if len(ends[feature].values) > most_cuts:
                raise RelationError(
                    f"feature {space.names[feature]!r} would need more than {most_cuts} cuts: the relations keep "
                    "moving its values to new places."
                )

    for i, feature_ends in ends.items():
        given = [intervals.lows[i], intervals.highs[i]] if feature_ends.numeric else [intervals.highs[i]]
        for end in np.concatenate(given):
            add(i, float(end))
    for link in links:
        for feature, end in link.own_ends(space):
            add(feature, end)
    while waiting:
        feature, end = waiting.pop()
        for other, image in ends[feature].images(end):
            add(other, image)
    shared = {i: _intervals_of(found) for i, found in ends.items()}
    return Intervals(
        tuple(shared[i].lows[0] if i in shared else intervals.lows[i] for i in range(len(intervals))),
        tuple(shared[i].highs[0] if i in shared else intervals.highs[i] for i in range(len(intervals))),
    )


class _Link(NamedTuple):
    """Two features and how their values are related, whatever the actions."""

    feature: int
    image_feature: int
    relation: Equal | Affine | Table

    def own_ends(self, space: FeatureSpace) -> Iterable[tuple[int, float]]:
        """Values of a table: each must be an interval of its own."""
        if not isinstance(self.relation, Table):
            return
        for x, y in self.relation.pairs:
            for feature, value in ((self.feature, x), (self.image_feature, y)):
                yield feature, value
                if space[feature].kind == "numeric":
                    yield feature, float(below(value))


def _links(relations: Iterable[MetamorphicRelation]) -> list[_Link]:
    links: dict[_Link, None] = {}
    for relation in relations:
        for fr in relation.features:
            if not isinstance(fr.relation, Anything):
                links[_Link(fr.feature, fr.image_feature, fr.relation)] = None
    return list(links)


class _Ends:
    """Cuts of a numeric feature or values of a categorical one, and where links send them."""

    def __init__(self, space: FeatureSpace, feature: int, links: Iterable[_Link]) -> None:
        self.numeric = space[feature].kind == "numeric"
        self.values: set[float] = set()
        self._forth = [link for link in links if link.feature == feature]
        self._back = [link for link in links if link.image_feature == feature]
        for link in self._forth:
            if space[link.image_feature].kind != space[feature].kind:
                raise RelationError(
                    f"{space.names[feature]!r} is {space[feature].kind} but {space.names[link.image_feature]!r}, which "
                    f"a relation pairs with it, is {space[link.image_feature].kind}."
                )

    def add(self, end: float) -> float | None:
        """Add an end and return it as it was added, or None when it is no number or was there."""
        if not math.isfinite(end):
            return None
        if self.numeric:
            end = self._settle(end)
        if end in self.values:
            return None
        self.values.add(end)
        return end

    def _settle(self, cut: float) -> float:
        for links, on_image in ((self._forth, False), (self._back, True)):
            for link in links:
                if isinstance(link.relation, Affine):
                    cut = link.relation.settle(cut, on_image=on_image)
        return cut

    def images(self, end: float) -> Iterable[tuple[int, float]]:
        """Yield the features and ends that an end is sent to, forwards and backwards."""
        for link in self._forth:
            for image in self._sent(link.relation, end, forth=True):
                yield link.image_feature, image
        for link in self._back:
            for source in self._sent(link.relation, end, forth=False):
                yield link.feature, source

    def _sent(self, relation: Equal | Affine | Table, end: float, *, forth: bool) -> tuple[float, ...]:
        if isinstance(relation, Equal):
            return (end,)
        if isinstance(relation, Table):
            return () if self.numeric else (relation.forth if forth else relation.back).get(end, ())
        if self.numeric:
            return (relation.image_cut(end) if forth else relation.source_cut(end),)
        return (float(relation.apply(end) if forth else relation.undo(end)),)


def _intervals_of(ends: _Ends) -> Intervals:
    values = np.array(sorted(ends.values), np.float32)
    return Intervals.from_cuts([values]) if ends.numeric else Intervals((below(values),), (values,))


# --- Observations ----------------------------------------------------------------------------------------------------


def map_states(relation: MetamorphicRelation, observations: ArrayLike) -> tuple[Observations, NDArray[np.bool_]]:
    """Return the images of observations, ``float32[n, features]``, and which of them are defined, ``bool[n]``.

    Features of which the relation says nothing (`MetamorphicRelation.unconstrained`) keep their value. An image is
    undefined when a value is not in its table or becomes infinite. A relation that gives one value several images is
    refused.
    """
    source = np.asarray(observations, np.float32)
    images = source.copy()
    defined = np.ones(len(source), np.bool_)
    for fr in relation.features:
        if not isinstance(fr.relation, Anything):
            images[:, fr.image_feature], known = fr.relation.map_values(source[:, fr.feature])
            defined &= known
    return images, defined


def map_action(relation: MetamorphicRelation, action: int) -> int | None:
    """Return the image of an action, or None when the relation is not about it."""
    return relation.image_action if action == relation.action else None


# --- Text ------------------------------------------------------------------------------------------------------------


def describe(rule_set: RuleSet, space: FeatureSpace) -> str:
    """Write a rule with its generalisations as text.

    >>> space = FeatureSpace.of(["gap.left", "gap.right"], ["Left", "Right"])
    >>> mirror = MetamorphicRelation.of([FeatureRelation(0, 1, 0, 1)], name="mirror")
    >>> rule = Rule("-", 0, (Condition(0, -np.inf, 5.0),))
    >>> print(describe(generalise(rule, [mirror]).rule_set, space))
    -Left <- gap.left <= 5
      generalises to 2 rules:
      -Left <- gap.left <= 5
      -Right <- gap.right <= 5
    """
    rules, source = rule_set.rules, rule_set.source
    if source is None:
        return rule_set.text(space)
    lines = [source.text(space)]
    if not rules:
        lines.append("  is not generalised: all its conditions are on features that the relations ignore.")
    elif rules == (source,):
        lines.append("  stays alone: no relation gives another rule.")
    else:
        lines.append(f"  generalises to {len(rules)} rule{'s' if len(rules) > 1 else ''}:")
        lines += [f"  {rule.text(space)}" for rule in rules]
    return "\n".join(lines)
