"""Causes of mistakes in the policy: what it does not use, what it misjudges, and what it never met.

Two questions are asked of every named group of features, at decisions whose other choices were tried:

- *Does it matter?* A model learns from the policy's scores and this group alone which choice is better. On episodes
  that it did not learn from, it must recover much of the return that a model of all features recovers, and more than
  the scores alone.
- *How does the policy use it?* The group gets the values of similar recorded states, and the policy is asked again.
  Its preference stays the same (it does not use the group), or moves against the better choice (it misjudges it).

If most of the loss lies where the values of the group are rare, the policy never met them. Everything else is unclear:
a group that matters and is used in the right direction is no cause.

- `find_cause`: the diagnosis; `Cause`: the result; `GroupEvidence`: the figures of one group.
- `TriedDecisions`: what a diagnosis is made from.
- `choose_unusual`, `weigh_decisions`: additional decisions in unusual states, and weights that make up for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from legible.formatting import percent, signed

CauseKind = Literal["does not use", "misjudges", "never met", "cannot tell"]
Preference = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Returns the policy's score of each choice, ``float[n, choices]``."""

FOLDS, TREES, MIN_LEAF = 4, 40, 6
SIMILAR_STATES, SEARCHED_STATES, MOST_ASKED = 16, 2000, 200
RESAMPLES, ALPHA = 400, 0.05
CHECKED_TESTS = 8
"""Number of groups of features with which planted causes show the error rate at `ALPHA`; more make it smaller."""
FEWEST_DECISIONS, FEWEST_MISTAKES = 150, 12
STEPS_AT = (0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975)
"""Quantiles at which the correction by a feature may change."""

MIN_ADDED = 0.2
"""Share of the recoverable return that a group must add to the scores alone."""
UNUSED = 0.01
"""Largest share of the variation of the policy's preference that a group causes which the policy does not use."""
MIN_CORRECTED = 0.4
"""Share of the recoverable return that a correction of the scores by a group must recover."""
AGAINST = -0.2
"""Largest correlation of the policy's preference with the advantage of the better choice over values of a group that
the policy misjudges."""
RARE, IN_REGION, MIN_ADDED_RARE = 0.06, 0.6, 0.5
"""Largest share of the states and smallest share of the loss in values that the policy never met, and the share of the
recoverable return that the group must add."""
UNUSUAL_SHARE = 0.15
ALWAYS = 0.99
"""Share of the decisions in which a policy takes one choice that it takes everywhere."""
ALMOST = 0.8
"""Share of what a group explains that one of its features must explain to be named instead."""


@dataclass(frozen=True)
class TriedDecisions:
    """Decisions between the same choices, one row each.

    Parameters
    ----------
    observations
        ``float32[n, features]``.
    taken
        ``int64[n]``: the column of the choice that the policy took.
    gains
        ``float64[n, choices]``: the gain of every choice over the one taken, 0 for that one.
    episodes
        ``int64[n]``: the episode of each decision.
    weights
        ``float64[n]``: the number of recorded states that a decision stands for, up to a factor.
    """

    observations: NDArray[np.float32]
    taken: NDArray[np.int64]
    gains: NDArray[np.float64]
    episodes: NDArray[np.int64]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.taken)


@dataclass(frozen=True)
class GroupEvidence:
    """The figures of one group of features.

    Parameters
    ----------
    name
        Name of the group.
    added, added_low
        Share of the recoverable return that the group adds to the policy's scores, and its lower confidence bound.
    corrected, corrected_low
        Share that a correction of the scores by the values of the group recovers, beyond one that is the same in all
        states, and its lower bound.
    use, use_there
        Share of the variation of the policy's preference that other values of the group cause, in all states and at
        the mistakes.
    flips
        Share of the mistakes in which the typical value of similar states makes the policy choose better.
    agreement
        Correlation of the policy's preference and the advantage of the better choice over these values.
    rare_states, rare_loss
        Share of the states with the values at which most of the loss lies, and its share of the loss.
    """

    name: str
    added: float
    added_low: float
    corrected: float
    corrected_low: float
    use: float
    use_there: float
    flips: float
    agreement: float
    rare_states: float
    rare_loss: float

    @property
    def worth(self) -> float:
        """The share of the loss that the group explains, to compare groups."""
        return self.added + self.corrected


@dataclass(frozen=True)
class Cause:
    """A cause of a policy's mistakes.

    Parameters
    ----------
    kind
        The verdict.
    group
        Name of the group of features that it is about; "" if it is unclear.
    why, details
        Why it is unclear, and the evidence and what to do in a sentence or two; "" otherwise.
    groups
        The evidence on all groups.
    decisions, mistakes
        Number of decisions, and of those in which another choice is expected to be better.
    """

    kind: CauseKind
    group: str = ""
    why: str = ""
    groups: tuple[GroupEvidence, ...] = ()
    decisions: int = 0
    mistakes: int = 0
    details: str = ""

    @property
    def evidence(self) -> GroupEvidence | None:
        """The figures of the group that the verdict is about."""
        return next((one for one in self.groups if one.name == self.group), None)

    def sentence(self, words: str = "", *, short: bool = False) -> str:
        """Return the verdict in words; `words` describe the group. A short one leaves out what was tried."""
        words, found = words or self.group, self.evidence
        if found is None:
            details = "" if short or not self.details else f" {self.details}"
            return f"Which features it ignores or misjudges is unclear: {self.why}.{details}"
        if self.kind == "does not use":
            return (
                f"It does not use {words}. Other values of it change its choice in only {percent(found.flips)} of "
                f"these mistakes, but using it would recover "
                f"{percent(min(1.0, max(found.added, found.corrected)))} of the loss."
            )
        if self.kind == "never met":
            return (
                f"It hardly ever met such states: {percent(min(1.0, found.rare_loss))} of the loss lies at values of "
                f"{words} that {percent(found.rare_states)} of the recorded states have."
            )
        return (
            f"It sees {words}, and misjudges it: its preference moves against the better choice; with the values of "
            f"similar states it chooses better in {percent(found.flips)} of these mistakes."
        )


def find_cause(
    tried: TriedDecisions,
    preference: Preference,
    recorded: NDArray[np.float32],
    groups: Mapping[str, Sequence[int]],
    names: Sequence[str],
    *,
    seed: int,
    others: int = 0,
) -> Cause:
    """Return the cause of the mistakes among decisions.

    Parameters
    ----------
    tried
        The decisions.
    preference
        The policy.
    recorded
        Recorded states of the policy.
    groups
        Columns of the features by the name of their group.
    names
        Names of all features.
    seed
        Decides folds, models and replaced values.
    others
        Number of other sets of choices that are examined, too: the more there are, the stricter is each test.
    """
    n = len(tried)
    if n < FEWEST_DECISIONS or np.ptp(tried.episodes) == 0:
        why = f"only {n} decisions could be tried, and {FEWEST_DECISIONS} are needed"
        return Cause("cannot tell", why=why, decisions=n, details="A longer study tries more.")
    if np.bincount(tried.taken).max() >= ALWAYS * n:
        return Cause("cannot tell", why="it makes the same choice everywhere, whatever the features are", decisions=n)
    # With many tests each must be stricter, so that as few find a cause by chance as with `CHECKED_TESTS`.
    tests = len(groups) * (1 + others)
    alpha = ALPHA * min(1.0, CHECKED_TESTS / max(1, tests))
    examiner = _Examiner(tried, preference, recorded, alpha=alpha, seed=seed)
    count = len(examiner.mistakes)
    gain = f"{signed(examiner.recoverable)} of return per decision"
    if examiner.recoverable_low <= 0.0 or count < FEWEST_MISTAKES:
        why = f"in {n} decisions, no features tell where another choice is better"
        details = (
            f"Every choice was tried there; a model of all features, tested on other episodes, gives {gain}. A longer "
            "study tries more decisions and finds smaller causes."
        )
        return Cause("cannot tell", why=why, decisions=n, mistakes=count, details=details)
    examiner.prepare()
    evidence = tuple(examiner.examine(name, np.asarray(members, np.intp)) for name, members in groups.items())
    cause = _judge(evidence, n, count)
    if cause.kind == "cannot tell":
        closest = max(evidence, key=lambda one: one.worth)
        share = percent(float(np.clip(max(closest.added, closest.corrected), 0.0, 1.0)))
        why = f"in {n} decisions, no single group of features tells where another choice is better"
        details = (
            f"Every choice was tried there; a model of all features gives {gain} on episodes that it did not learn "
            f"from. Of the single groups, {closest.name} comes closest and recovers {share} of that."
        )
        return replace(cause, why=why, details=details)
    members = groups[cause.group]
    if len(members) > 1:
        # The smallest group: one feature, if it alone supports the same verdict about as well.
        singles = tuple(examiner.examine(names[column], np.array([column])) for column in members)
        single = _judge(singles, n, count)
        of_group, of_single = cause.evidence, single.evidence
        is_same_kind = single.kind == cause.kind
        if is_same_kind and of_group and of_single and of_single.worth >= ALMOST * of_group.worth:
            return replace(single, groups=evidence + singles)
    return cause


class _Examiner:
    """Examiner of groups of features: whether a group matters for the better choice, and how the policy uses it.

    Attributes
    ----------
    mistakes
        Numbers of the decisions in which a model of all features, fitted to other episodes, prefers another choice.
    recoverable, recoverable_low
        Mean gain per decision of the choices that this model prefers, and its lower confidence bound.
    """

    def __init__(
        self,
        tried: TriedDecisions,
        preference: Preference,
        recorded: NDArray[np.float32],
        *,
        alpha: float,
        seed: int,
    ) -> None:
        self._tried, self._preference, self._recorded, self._seed = tried, preference, recorded, seed
        n = len(tried)
        self._rng = np.random.default_rng([seed, n])
        # The policy's scores, centred per decision and scaled to a spread of 1.
        scores = _centred(preference(tried.observations))
        self._spread = float(scores.std()) or 1.0
        scores /= self._spread
        self._score_variance = float(scores.var(axis=0).sum()) or 1.0
        self._fits = _CrossFits(tried, scores, alpha, self._rng, seed)
        # The gains of all choices by a model of all features, [decisions, choices], and the choice that it finds best.
        self._predicted = self._fits.predict(np.arange(tried.observations.shape[1]))
        self._better = self._predicted.argmax(axis=1)
        self.recoverable, self.recoverable_low = self._fits.bound(tried.gains[np.arange(n), self._better])
        self.mistakes = np.flatnonzero(self._better != tried.taken)

    def prepare(self) -> None:
        """Fit what all groups share; only needed where there are mistakes to explain."""
        tried, rng, mistakes, predicted = self._tried, self._rng, self.mistakes, self._predicted
        no_columns = np.zeros(0, np.intp)
        self._by_scores, self._by_shift = self._fits.recovered(no_columns), self._fits.corrected(no_columns)
        self._model = _forest(tried.observations, tried.gains - tried.gains.mean(axis=1, keepdims=True), self._seed)
        # Of many mistakes a sample is asked about, in which costly ones are more frequent.
        costs = np.maximum(
            predicted[mistakes, self._better[mistakes]] - predicted[mistakes, tried.taken[mistakes]], 0.0
        )
        if len(mistakes) > MOST_ASKED and (costs > 0).sum() > MOST_ASKED:
            mistakes = np.sort(rng.choice(mistakes, MOST_ASKED, replace=False, p=costs / costs.sum()))
        self._asked_mistakes = mistakes
        self._swaps = _Swaps(self._recorded, rng)
        self._asked_states = self._recorded[rng.permutation(len(self._recorded))[:MOST_ASKED]]

    def examine(self, name: str, columns: NDArray[np.intp]) -> GroupEvidence:
        """Return the figures of one group of features."""
        fits, preference, mistakes = self._fits, self._preference, self._asked_mistakes
        # Does it matter? What the group adds to the scores alone, and what a correction by its values recovers.
        beyond_scores = fits.recovered(columns) - self._by_scores
        added, added_low = fits.bound(beyond_scores)
        corrected, corrected_low = fits.bound(fits.corrected(columns) - self._by_shift)
        rare_states, rare_loss = _find_rare(beyond_scores, self._tried, self._recorded, columns, self._seed)
        # How does the policy use it in any state? Variance of its scores over other values of the group.
        swapped = self._swaps.replace(self._asked_states, columns)  # [states, similar states, features]
        scores = _centred(preference(swapped.reshape(-1, swapped.shape[2]))) / self._spread
        use = float(scores.reshape(*swapped.shape[:2], -1).var(axis=1).sum(axis=1).mean()) / self._score_variance
        # And at the mistakes? By how much the policy, and the model, prefer the better choice to the one taken there,
        # ``float64[mistakes, similar states]``.
        swapped = self._swaps.replace(self._tried.observations[mistakes], columns)
        shape, states = swapped.shape[:2], swapped.reshape(-1, swapped.shape[2])
        pairs = np.stack([self._tried.taken[mistakes], self._better[mistakes]], axis=1).repeat(shape[1], axis=0)
        preferred = _difference(np.asarray(preference(states), np.float64) / self._spread, pairs).reshape(shape)
        advantage = _difference(self._model.predict(states), pairs).reshape(shape)
        return GroupEvidence(
            name,
            added=added / self.recoverable,
            added_low=added_low / self.recoverable,
            corrected=corrected / self.recoverable,
            corrected_low=corrected_low / self.recoverable,
            use=use,
            use_there=float(preferred.var(axis=1).mean()) / self._score_variance,
            flips=float((np.median(preferred, axis=1) > 0).mean()),
            agreement=_agreement(preferred, advantage),
            rare_states=rare_states,
            rare_loss=rare_loss,
        )


def _judge(evidence: tuple[GroupEvidence, ...], decisions: int, mistakes: int) -> Cause:
    """Return the first verdict that the figures of a group support: never met, does not use, or misjudges.

    `evidence` has the figures of every group; `decisions` and `mistakes` are numbers that the result carries along.
    """

    def verdict(kind: CauseKind, name: str) -> Cause:
        return Cause(kind, name, groups=evidence, decisions=decisions, mistakes=mistakes)

    relevant = [one for one in evidence if one.added >= MIN_ADDED and one.added_low > 0]
    rare = [one for one in relevant if one.rare_states <= RARE and one.added >= MIN_ADDED_RARE]
    if rare:
        return verdict("never met", max(rare, key=lambda one: one.added).name)
    matters = [one for one in evidence if one in relevant or (one.corrected >= MIN_CORRECTED and one.corrected_low > 0)]

    def first_of(found: list[GroupEvidence]) -> str:
        return max(found, key=lambda one: one.worth).name

    unused = [one for one in matters if max(one.use, one.use_there) <= UNUSED]
    if unused:
        return verdict("does not use", first_of(unused))
    against = [one for one in matters if one.agreement <= AGAINST]
    if against:
        return verdict("misjudges", first_of(against))
    why = "no single group of features explains the loss"
    return Cause("cannot tell", why=why, groups=evidence, decisions=decisions, mistakes=mistakes)


class _CrossFits:
    """Models of the advantages of all choices; each decision is predicted by models of other episodes."""

    def __init__(
        self, tried: TriedDecisions, scores: NDArray[np.float64], alpha: float, rng: np.random.Generator, seed: int
    ) -> None:
        self._tried, self._scores, self._alpha, self._seed = tried, scores, alpha, seed
        episodes, self._ids = np.unique(tried.episodes, return_inverse=True)
        self._folds = (rng.permutation(len(episodes)) % FOLDS)[self._ids]
        self._drawn = rng.multinomial(len(episodes), np.full(len(episodes), 1 / len(episodes)), RESAMPLES)
        self._target = tried.gains - tried.gains.mean(axis=1, keepdims=True)

    def predict(self, columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return advantages predicted from the policy's scores and some features."""
        inputs = np.hstack([self._scores, self._tried.observations[:, columns]])
        line = np.hstack([self._scores, np.ones((len(inputs), 1))])
        found = np.empty_like(self._target)
        for here in self._held_out():
            straight = np.linalg.lstsq(line[~here], self._target[~here], rcond=None)[0]
            model = _forest(inputs[~here], self._target[~here] - line[~here] @ straight, self._seed)
            found[here] = line[here] @ straight + model.predict(inputs[here])
        return found

    def recovered(self, columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the gain at each decision of the choice that the prediction prefers."""
        return self._gain(self.predict(columns).argmax(axis=1))

    def corrected(self, columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the gain at each decision if steps of some features are added to the policy's scores."""
        states = self._tried.observations[:, columns]
        steps = np.hstack([states > cut for cut in np.quantile(states, STEPS_AT, axis=0)]).astype(np.float64)
        chosen = np.empty(len(states), np.int64)
        for here in self._held_out():
            inputs, target = np.hstack([steps[~here], np.ones(((~here).sum(), 1))]), self._target[~here]
            ridge = inputs.T @ inputs + np.eye(inputs.shape[1])
            # The weight of the scores is common to all choices and not negative: first it, then the steps, in turn.
            weight = 1.0
            for _ in range(5):
                correction = np.linalg.solve(ridge, inputs.T @ (target - weight * self._scores[~here]))
                rest, own = target - inputs @ correction, self._scores[~here]
                weight = max(0.0, float((rest * own).sum() / max(float((own**2).sum()), 1e-12)))
            tested = np.hstack([steps[here], np.ones((here.sum(), 1))])
            chosen[here] = (weight * self._scores[here] + tested @ correction).argmax(axis=1)
        return self._gain(chosen)

    def bound(self, values: NDArray[np.float64]) -> tuple[float, float]:
        """Return the weighted mean of values of the decisions, and its lower bound over resampled episodes."""
        weights, n = self._tried.weights, self._drawn.shape[1]
        sums, counts = np.bincount(self._ids, values * weights, n), np.bincount(self._ids, weights, n)
        resampled = (self._drawn @ sums) / np.maximum(self._drawn @ counts, 1e-12)
        return float(sums.sum() / counts.sum()), float(np.quantile(resampled, self._alpha))

    def _gain(self, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._tried.gains[np.arange(len(chosen)), chosen]

    def _held_out(self) -> list[NDArray[np.bool_]]:
        return [self._folds == fold for fold in range(FOLDS) if (self._folds == fold).any()]


class _Swaps:
    """Replaces features of states by the values of recorded states that are similar in all others."""

    def __init__(self, recorded: NDArray[np.float32], rng: np.random.Generator) -> None:
        spread = recorded.std(axis=0)
        self._scale = np.where(spread > 0, spread, 1.0).astype(np.float64)
        self._pool = recorded[rng.permutation(len(recorded))[:SEARCHED_STATES]]

    def replace(self, states: NDArray[np.float32], columns: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return each state with other values, ``float32[n, similar states, features]``."""
        rest = np.setdiff1d(np.arange(states.shape[1]), columns)
        one, other = states[:, rest] / self._scale[rest], self._pool[:, rest] / self._scale[rest]
        distances = (one**2).sum(axis=1)[:, None] - 2 * one @ other.T + (other**2).sum(axis=1)
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :SIMILAR_STATES]
        changed = np.repeat(states[:, None, :], nearest.shape[1], axis=1)
        changed[:, :, columns] = self._pool[nearest][:, :, columns]
        return changed


def _find_rare(
    added: NDArray[np.float64],
    tried: TriedDecisions,
    recorded: NDArray[np.float32],
    columns: NDArray[np.intp],
    seed: int,
) -> tuple[float, float]:
    """Return the share of states with the values of a group at which most of the added return lies, and that part.

    If few `recorded` states have these values, the policy hardly ever met them. `added` is the return that the group,
    the features in some `columns`, adds at each decision that was tried.
    """
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415 (slow to import)

    tree = DecisionTreeRegressor(max_leaf_nodes=4, min_samples_leaf=10, random_state=seed)
    # The tree cuts the values of the group into regions (leaves); those with the largest mean return count first.
    leaves = tree.fit(tried.observations[:, columns], added).apply(tried.observations[:, columns])
    of_recorded = tree.apply(recorded[:, columns])
    total = float((added * tried.weights).sum())
    if total <= 0.0:
        return 1.0, 0.0
    states, loss = 0.0, 0.0  # shares of the recorded states, and of the added return, in the regions so far
    for leaf in sorted(np.unique(leaves).tolist(), key=lambda leaf: -float(added[leaves == leaf].mean())):
        states += float((of_recorded == leaf).mean())
        loss += float((added * tried.weights)[leaves == leaf].sum()) / total
        if loss >= IN_REGION:
            break
    return states, loss


def _forest(inputs: NDArray[Any], target: NDArray[np.float64], seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesRegressor  # noqa: PLC0415 (slow to import)

    return ExtraTreesRegressor(TREES, min_samples_leaf=MIN_LEAF, random_state=seed, n_jobs=1).fit(inputs, target)


def _centred(scores: NDArray[Any]) -> NDArray[np.float64]:
    found = np.asarray(scores, np.float64)
    return found - found.mean(axis=1, keepdims=True)


def _difference(values: NDArray[np.float64], both: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return, for each row, the value of its second named column minus the value of its first."""
    pairs = np.take_along_axis(values, both, axis=1)
    difference: NDArray[np.float64] = pairs[:, 1] - pairs[:, 0]
    return difference


def _agreement(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the correlation within rows."""
    one, other = one - one.mean(axis=1, keepdims=True), other - other.mean(axis=1, keepdims=True)
    spread = float(np.sqrt((one**2).sum() * (other**2).sum()))
    return float((one * other).sum()) / spread if spread > 1e-12 else 0.0


def _are_unusual(recorded: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Mark the recorded states with the most extreme values, in any feature."""
    n, tails = len(recorded), np.ones(len(recorded))
    for column in recorded.T:
        ordered = np.sort(column)
        low = np.searchsorted(ordered, column, side="right") / n
        high = 1 - np.searchsorted(ordered, column, side="left") / n
        tails = np.minimum(tails, np.minimum(low, high))
    marked: NDArray[np.bool_] = tails <= np.quantile(tails, UNUSUAL_SHARE)
    return marked


def choose_unusual(recorded: NDArray[np.float32], count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return rows of recorded states with extreme values, in which a policy may have little experience."""
    return rng.permutation(np.flatnonzero(_are_unusual(recorded)))[:count]


def weigh_decisions(recorded: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return weights of decisions in recorded states that make up for an excess of unusual ones."""
    unusual = _are_unusual(recorded)
    share, drawn = float(unusual.mean()), float(unusual[rows].mean())
    return np.where(unusual[rows], share / max(drawn, 1e-9), (1 - share) / max(1 - drawn, 1e-9))
