"""Rule mining, step 1 of the paper: from experiences to rules that describe what a policy does and avoids.

- `mine`: measures feature importances, learns rules for every action and polarity, and keeps the rules that hold on
  held-out episodes.
- `MinedRule`, `Mining`: the rules with their figures, and their origin.
- `judge_rules`: the figures of rules on some experiences.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legible.display import Displayed
from legible.errors import LegibleError
from legible.features import FeatureSpace, Intervals, deciles
from legible.files import DamagedFileError, read_arrays, write_arrays
from legible.formatting import data_frame
from legible.mining.importance import Importance
from legible.mining.included import exclusion, inclusion
from legible.mining.merging import merge_slices
from legible.mining.methods import Bodies, find_importance, find_learner
from legible.play import Experiences, one_thread
from legible.policies import Policy
from legible.records import DAMAGE_ERRORS
from legible.rules import CompiledRules, Condition, Polarity, Rule
from legible.schemas import MINING, check_arrays, check_fields
from legible.settings import MiningSettings

_ROW = ("rule", "paper", "polarity", "action", "conditions", "agreement", "coverage", "purity", "triggered")
POLARITIES: tuple[Polarity, Polarity] = ("+", "-")


@dataclass(frozen=True)
class MinedRule:
    """A rule with its figures on the held-out episodes."""

    rule: Rule
    agreement: float  # share of the states that trigger the rule in which the policy followed it
    coverage: float  # share of all states that trigger the rule
    # Included ÷ (included + excluded) states among the states that trigger it; NaN if there are none of either.
    purity: float
    triggered: int  # number of states that trigger the rule


@dataclass(frozen=True, repr=False)
class Mining(Displayed):
    """Rules mined from a policy, with intervals and importances.

    `learned` counts the rules before filtering, `dropped` the removed ones by reason, `seconds` the time of each part.
    """

    rules: tuple[MinedRule, ...]
    space: FeatureSpace
    intervals: Intervals
    importance: Importance | None
    learned: int
    dropped: dict[str, int]
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        first = {"first": self.rules[0].rule.text(self.space)} if self.rules else {}
        return {"rules": len(self.rules), "learned": self.learned, **first}

    def text(self) -> str:
        """Return one rule per line, with agreement and coverage."""
        lines = (f"{m.rule.text(self.space)}   ({m.agreement:.3f} of {m.coverage:.3f})" for m in self.rules)
        return "\n".join(lines)

    def save(self, path: str | Path, key: str = "") -> None:
        """Write everything into one ``.npz`` file, atomically; `key` identifies the study."""
        document = {
            "rules": [{**asdict(m), "rule": m.rule.to_dict()} for m in self.rules],
            "space": self.space.to_dict(),
            "learned": self.learned,
            "dropped": self.dropped,
            "seconds": self.seconds,
        }
        arrays: dict[str, Any] = {"document": np.array(json.dumps(document)), "sizes": self.intervals.sizes}
        arrays |= {"lows": np.concatenate(self.intervals.lows), "highs": np.concatenate(self.intervals.highs)}
        if self.importance is not None:
            arrays |= self.importance.to_arrays()
        write_arrays(Path(path), arrays, key)

    @classmethod
    def load(cls, path: str | Path, key: str | None = None) -> Mining:
        """Return the mined rules in a file that `save` wrote, or raise an error if the file is damaged.

        Parameters
        ----------
        path
            The file.
        key
            The key of the study that the file must belong to; None to accept any.
        """
        advice = "delete it to mine again"
        try:
            data = read_arrays(Path(path), key, advice)
        except FileNotFoundError as error:
            raise LegibleError(f"{path}: cannot be read ({error.strerror}).") from error
        try:
            check_arrays(data, MINING)
            document = json.loads(str(data["document"]))
            if data["sizes"].sum() != len(data["lows"]):
                raise ValueError("intervals are missing")
            # The intervals of all features are stored one after the other: split them by the features' numbers of
            # intervals ("sizes").
            ends = np.cumsum(data["sizes"])[:-1]
            intervals = Intervals(tuple(np.split(data["lows"], ends)), tuple(np.split(data["highs"], ends)))
            importance = Importance.from_arrays(data) if "weights" in data else None
            space = FeatureSpace.from_dict(document["space"])
            # The rules, with a check that they fit the features.
            rules = [{**entry, "rule": Rule.from_dict(entry["rule"])} for entry in document["rules"]]
            for entry in rules:
                check_fields(MinedRule, entry)
                entry["rule"].text(space)
            counts = {name: document[name] for name in ("learned", "dropped", "seconds")}
            check_fields(cls, counts)
            if len(intervals.sizes) != len(space):
                raise ValueError("intervals are missing")
            return cls(tuple(MinedRule(**entry) for entry in rules), space, intervals, importance, **counts)
        except DAMAGE_ERRORS as error:
            raise DamagedFileError(f"{path}: holds no mined rules, or is damaged ({error}); {advice}.") from error

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rules as plain rows, for JSON or a data frame."""
        return [
            {
                "rule": m.rule.text(self.space),
                "paper": m.rule.paper(self.intervals, self.space),
                "polarity": m.rule.polarity,
                "action": self.space.action_names[m.rule.action],
                "conditions": len(m.rule),
                "agreement": m.agreement,
                "coverage": m.coverage,
                "purity": m.purity,
                "triggered": m.triggered,
            }
            for m in self.rules
        ]

    def to_frame(self) -> Any:
        """Return the rules as a data frame, a row each."""
        return data_frame(self.to_rows(), _ROW)


def mine(
    policy: Policy,
    experiences: Experiences,
    *,
    seed: int,
    settings: MiningSettings | None = None,
    intervals: Intervals | None = None,
    importance: Importance | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Mining:
    """Return the habits of a policy as rules: what it does (``+``) and what it avoids (``-``) in which states.

    This is step 1 of the paper: cut the features into intervals, measure their importance, learn rules from recorded
    steps, and keep the rules that are accurate and frequent in held-out episodes. The result also has the intervals and
    importances that were used, and the number of dropped rules by reason.

    Parameters
    ----------
    policy
        The policy, whose scores LIME explains.
    experiences
        Recorded steps of the policy.
    seed
        Seed of the held-out episodes, of the explained states, and of every split of RIPPER.
    settings
        Settings, with the names of the importance method and of the rule learner; by default LIME and Cohen's RIPPER.
    intervals
        Intervals of the features; by default deciles of the experiences.
    importance
        Known importances, which are then not computed.
    on_progress
        Called as ``on_progress(what, done, of)``, where `what` is "importance" or "rules".
    """
    settings = settings or MiningSettings()
    importance_method, rule_learner = find_importance(settings.importance), find_learner(settings.learner)
    report = on_progress or (lambda *_: None)
    seconds: dict[str, float] = {}
    split_seed, importance_seed, learner_seed = np.random.SeedSequence(seed).spawn(3)

    # Interval numbers of all values, and the split of the steps into those to learn from and those to judge rules on.
    # Values of objects that are absent, such as the distance of no vehicle, may get an interval of their own.
    with _timed(seconds, "intervals"):
        space = experiences.space
        intervals = intervals or deciles(space, experiences.observations)
        is_absent = absent_values(experiences) if settings.padded_apart else None
        codes, n_values = _encode(experiences, intervals, is_absent)
        learning_rows, judging_rows = _split(experiences, settings, np.random.default_rng(split_seed))

    with _timed(seconds, "importance"), one_thread():
        report("importance", 0, 1)
        if importance is None:
            rng = np.random.default_rng(importance_seed)
            importance = importance_method(policy, experiences, learning_rows, intervals, settings, rng)
        report("importance", 1, 1)

    with _timed(seconds, "rules"):
        rule_learner = functools.partial(rule_learner, n_values=n_values, settings=settings)
        # By the number of each feature of an object that may be absent: the feature that marks its presence.
        needed_names = {
            i: feature.needs for i, feature in enumerate(space.features) if feature.needs and is_absent is not None
        }
        presence = {i: space.feature_index(name) for i, name in needed_names.items()}
        rules = _learn(
            rule_learner, experiences, codes, learning_rows, intervals, importance, presence, learner_seed, report
        )

    # Keep rules that are accurate and frequent on the held-out steps.
    with _timed(seconds, "filter"):
        judged = judge_rules(rules, experiences, judging_rows)
        kept, dropped = _filter(judged, settings)
        if settings.plain_intervals:
            # Merge rules about neighbouring intervals. Merged rules need no filter: every part has passed it.
            kept = judge_rules(merge_slices(mined.rule for mined in kept), experiences, judging_rows)
    return Mining(tuple(kept), space, intervals, importance, len(rules), dropped, seconds)


@contextmanager
def _timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[part] = time.perf_counter() - started


def absent_values(experiences: Experiences) -> NDArray[np.bool_] | None:
    """Mark the values of absent objects (see `Feature.needs`), ``bool[n, features]``; None if there are none."""
    space = experiences.space
    needed = [space.feature_index(feature.needs) if feature.needs else None for feature in space.features]
    if not any(i is not None for i in needed):
        return None
    absent = np.zeros(experiences.observations.shape, np.bool_)
    for i, flag in enumerate(needed):
        if flag is not None:
            absent[:, i] = experiences.observations[:, flag] == 0.0
    return absent


def _encode(
    experiences: Experiences, intervals: Intervals, absent: NDArray[np.bool_] | None
) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Return the interval of every value, and the number of codes of each feature.

    The features of an absent object have an extra code, the last one: a distance of 0 means nothing then.
    """
    codes, sizes = intervals.encode(experiences.observations), intervals.sizes
    outside = codes == sizes
    if outside.any():
        row, i = (int(index) for index in np.argwhere(outside)[0])
        raise LegibleError(
            f"the value {experiences.observations[row, i]:g} of feature {experiences.space.names[i]!r} is in none of "
            "its intervals; choose cuts that cover every value."
        )
    if absent is None:
        return codes, sizes
    needs = np.array([bool(feature.needs) for feature in experiences.space.features])
    return np.where(absent, sizes, codes).astype(np.uint16), sizes + needs


def _split(
    experiences: Experiences, settings: MiningSettings, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Hold out whole episodes; return the rows to learn from and a mask of the held-out rows."""
    episodes = experiences.n_episodes
    if episodes < 2:
        raise LegibleError("mining needs at least two episodes: one to learn rules from and one to judge them on.")
    held_out = min(max(1, round(settings.held_out * episodes)), episodes - 1)
    judging = experiences.of_episodes(rng.permutation(episodes)[:held_out])
    learning = np.flatnonzero(~judging)
    if settings.sampled < 1.0:
        size = max(1, round(settings.sampled * learning.size))
        learning = np.sort(rng.choice(learning, size, replace=False))
    return learning, judging


def _learn(
    rule_learner: Callable[..., Bodies],
    experiences: Experiences,
    codes: NDArray[np.uint16],
    learning: NDArray[np.intp],
    intervals: Intervals,
    importance: Importance | None,
    presence: Mapping[int, int],
    seed: np.random.SeedSequence,
    report: Callable[[str, int, int], None],
) -> list[Rule]:
    """Return the rules that are learned for every action and polarity.

    Parameters
    ----------
    rule_learner
        Function that learns the conditions of rules from interval numbers and a mark of the positive rows.
    codes
        ``uint16[steps, features]``: the number of the interval in which each value lies.
    learning
        The numbers of the steps to learn from; the others are held out to judge rules.
    importance
        The importance of the features; None if all are equal.
    presence
        For a feature of an object that may be absent: the number of the feature that says whether it is present.
    seed
        The source of a seed for each action and polarity.
    """
    n_actions = len(experiences.space.actions)
    actions_and_polarities = [(action, polarity) for action in range(n_actions) for polarity in POLARITIES]
    is_learning_row = np.zeros(len(experiences), np.bool_)
    is_learning_row[learning] = True
    rules: list[Rule] = []
    for n_done, ((action, polarity), rule_seed) in enumerate(
        zip(actions_and_polarities, seed.generate_state(len(actions_and_polarities)), strict=True)
    ):
        report("rules", n_done, len(actions_and_polarities))
        # Positive rows, such as those in which the action was taken, and negative ones; the others are left out.
        include = inclusion(experiences, action, polarity) & is_learning_row
        exclude = exclusion(experiences, action, polarity) & is_learning_row
        rows = np.flatnonzero(include | exclude)
        importances = None if importance is None else importance.of(polarity, action)
        condition_lists = rule_learner(codes[rows], include[rows], importances=importances, seed=int(rule_seed))
        rules += [
            Rule(polarity, action, _conditions(conditions, intervals, presence)) for conditions in condition_lists
        ]
    report("rules", len(actions_and_polarities), len(actions_and_polarities))
    return rules


def _conditions(
    body: tuple[tuple[int, int], ...], intervals: Intervals, presence: Mapping[int, int]
) -> tuple[Condition, ...]:
    """Return the conditions of a rule body; `presence` maps features to the flag that must be 1 for them."""
    conditions: dict[int, Condition] = {}
    for i, k in body:
        flag = presence.get(i)
        if flag is not None:
            conditions[flag] = Condition.equals(flag, 0 if k == intervals.sizes[i] else 1)
        if flag is None or k < intervals.sizes[i]:
            conditions[i] = Condition(i, float(intervals.lows[i][k]), float(intervals.highs[i][k]))
    return tuple(conditions.values())


def judge_rules(rules: list[Rule], experiences: Experiences, rows: NDArray[np.bool_] | None = None) -> list[MinedRule]:
    """Return rules with their figures: how often each triggers, and how often the policy then follows it.

    `coverage` is the share of states in which the rule triggers, `agreement` the share of those in which the policy
    follows it, and `purity` the share of positive examples among the examples of learning that trigger it.

    Parameters
    ----------
    rules
        The rules.
    experiences
        The recorded steps of the policy.
    rows
        ``bool[steps]``: the steps on which the figures are computed; by default all.
    """
    rows = np.ones(len(experiences), np.bool_) if rows is None else rows
    matched = CompiledRules.compile([rules]).matches(experiences.observations[rows])
    n_states = int(rows.sum())
    judged = []
    for triggers, rule in zip(matched.T, rules, strict=True):
        # Steps in which the action was taken, and the positive and negative examples of learning.
        is_taken = experiences.taken(rule.action)[rows]
        include = inclusion(experiences, rule.action, rule.polarity)[rows]
        exclude = exclusion(experiences, rule.action, rule.polarity)[rows]
        n_triggered = int(triggers.sum())
        n_agree = int((triggers & (is_taken if rule.polarity == "+" else ~is_taken)).sum())
        n_included, n_excluded = int((triggers & include).sum()), int((triggers & exclude).sum())
        judged.append(
            MinedRule(
                rule=rule,
                agreement=n_agree / n_triggered if n_triggered else float("nan"),
                coverage=n_triggered / n_states if n_states else 0.0,
                purity=n_included / (n_included + n_excluded) if n_included + n_excluded else float("nan"),
                triggered=n_triggered,
            )
        )
    return judged


def _filter(judged: list[MinedRule], settings: MiningSettings) -> tuple[list[MinedRule], dict[str, int]]:
    """Return the rules that are accurate, frequent and not contained in another one, and the others' number by reason.

    Parameters
    ----------
    judged
        The rules with their figures on held-out episodes.
    settings
        The smallest accuracy and coverage (share of states in which a rule triggers), and what accuracy means: the
        share of those states in which the policy follows the rule (``agreement``), or the share of positive examples
        among the examples of learning in them (``purity``).
    """
    dropped = {"never triggered": 0, "inaccurate": 0, "rarely triggered": 0, "contained in another": 0}
    good: list[MinedRule] = []
    for mined in judged:
        accuracy = mined.agreement if settings.criterion == "agreement" else mined.purity
        if mined.triggered == 0:
            dropped["never triggered"] += 1
        elif not accuracy >= settings.min_accuracy:  # also if it is NaN
            dropped["inaccurate"] += 1
        elif mined.coverage < settings.min_coverage:
            dropped["rarely triggered"] += 1
        else:
            good.append(mined)
    kept = []
    for i, mined in enumerate(good):
        # Drop a rule if a more general one, or an equal one before it, exists.
        containing = [j for j, other in enumerate(good) if j != i and other.rule.contains(mined.rule)]
        if not any(j < i or not mined.rule.contains(good[j].rule) for j in containing):
            kept.append(mined)
    dropped["contained in another"] = len(good) - len(kept)
    return kept, dropped
